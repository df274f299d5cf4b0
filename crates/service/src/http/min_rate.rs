//! The minimum rate at which clients send requests and read responses.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// Enforces a minimum rate: `bytes_min` bytes per `stall_max` spent waiting for the client. Time
/// that the server itself takes doesn't count.
#[derive(Debug)]
pub(crate) struct MinRate {
    stall_max: Duration,
    bytes_min: u64,
    /// Since when the client keeps the server waiting.
    waiting_since: Option<Instant>,
    /// Time spent waiting since the last `bytes_min` bytes were moved.
    waited: Duration,
    moved: u64,
    timer: Pin<Box<Sleep>>,
}

impl MinRate {
    pub(crate) fn new(stall_max: Duration, bytes_min: u64) -> Self {
        let timer = Box::pin(tokio::time::sleep(stall_max));
        Self { stall_max, bytes_min, waiting_since: None, waited: Duration::ZERO, moved: 0, timer }
    }

    /// Sets the minimum rate from now on.
    pub(crate) fn set(&mut self, stall_max: Duration, bytes_min: u64) {
        (self.stall_max, self.bytes_min) = (stall_max, bytes_min);
    }

    /// Counts bytes that the client sent or took.
    pub(crate) fn count(&mut self, bytes: u64) {
        if let Some(since) = self.waiting_since.take() {
            self.waited += since.elapsed();
        }
        self.moved += bytes;
        if self.moved >= self.bytes_min {
            (self.waited, self.moved) = (Duration::ZERO, 0);
        }
    }

    /// Records that the server waits for the client. Ready once it has waited too long.
    pub(crate) fn poll_too_slow(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.waiting_since.is_none() {
            let now = Instant::now();
            self.waiting_since = Some(now);
            self.timer.as_mut().reset(now + self.stall_max.saturating_sub(self.waited));
        }
        self.timer.as_mut().poll(context)
    }
}
