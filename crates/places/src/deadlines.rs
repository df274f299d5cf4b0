//! How long a place may stay silent.

use std::time::Duration;

/// Deadlines of a connection. Each starts anew with every step, so none limits how long a large
/// file takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// Until a connection is open: name resolution, TCP, and TLS or SSH.
    pub connect: Duration,
    /// Until an answer begins, counted from the last byte of the request that was sent.
    pub first_byte: Duration,
    /// Between two bytes of an answer.
    pub between_bytes: Duration,
}

impl Default for Deadlines {
    /// 10 s to connect, 60 s for the first byte, 30 s between bytes.
    fn default() -> Self {
        Self { connect: Duration::from_secs(10), first_byte: Duration::from_secs(60), between_bytes: Duration::from_secs(30) }
    }
}
