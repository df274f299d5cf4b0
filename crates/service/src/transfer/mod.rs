//! Content of objects in transit: uploads, parts, downloads, checksums, and the memory and staging
//! room they take.

pub(crate) mod aws_chunked;
pub(crate) mod buffers;
pub(crate) mod checksums;
pub(crate) mod download;
pub(crate) mod md5;
pub(crate) mod parts;
pub(crate) mod staging_room;
pub(crate) mod upload;
