//! HTTP below S3: connections, TLS, deadlines of reads and writes, bodies, addresses, CORS, and the
//! path of a request.

pub(crate) mod addressing;
pub(crate) mod connections;
pub(crate) mod cors;
pub(crate) mod drain;
pub(crate) mod min_rate;
pub(crate) mod query;
pub(crate) mod request_body;
pub(crate) mod router;
pub(crate) mod tls;
pub(crate) mod url_encoding;
pub(crate) mod write_timeout;
