//! A client of S3 servers: a server's address, its credentials, signed requests over a connection,
//! and the archives of bulk gets and bulk puts.
//!
//! ```text
//! Server::new -> Server::connect --> one connection, one request at a time
//!                Server::request --> a signed request, for that connection
//! ```
//!
//! Requests leave their payload unsigned. Callers choose the bodies of their requests, read the
//! bodies of responses, and decide what to retry.

#![forbid(unsafe_code)]

mod address;
mod bulk_get;
mod bulk_put;
mod connection;
mod server;

pub use address::Address;
pub use bulk_get::{
    BULK_GET_ORDER_QUERY, BULK_GET_QUERY, BulkGetError, BulkGetLine, BulkGetReport, Requested, bulk_get_body, read_bulk_get,
};
pub use bulk_put::{
    ARCHIVE_BYTES_MAX, BULK_PUT_LINE_BYTES_MAX, BULK_PUT_QUERY, BulkPut, BulkPutLine, ENTRY_BYTES_MAX, parse_bulk_put, read_bulk_put,
};
pub use connection::{CLOSED, Failure, Refusal, failure_of, next_frame, read_refusal};
pub use server::{Server, ServerError, ServerOptions, region};

/// The header `Server` of Fulgurite servers. Others get no bulk requests.
pub const SERVER_NAME: &str = "fulgurite";
