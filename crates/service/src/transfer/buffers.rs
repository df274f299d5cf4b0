//! A pool of read buffers. New memory has to be cleared, and costs a page fault for each page.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;

/// Maximum number of pooled buffers: as many as a few readers use.
const POOLED_BUFFERS_MAX: usize = 32;

/// The buffer pool of a server.
#[derive(Clone, Default)]
pub(crate) struct Buffers(Arc<Mutex<Vec<Vec<u8>>>>);

impl Buffers {
    /// Takes a buffer with arbitrary content; a new one is empty.
    pub(crate) fn take(&self) -> Vec<u8> {
        self.0.lock().expect("nothing panics while it holds this lock").pop().unwrap_or_default()
    }

    /// Turns a buffer into shared bytes. When the last reference is dropped, the buffer returns to
    /// the pool and its permit is released.
    pub(crate) fn share(&self, buffer: Vec<u8>, permit: OwnedSemaphorePermit) -> Bytes {
        Bytes::from_owner(PooledBuffer { buffer, pool: self.clone(), _permit: permit })
    }
}

struct PooledBuffer {
    buffer: Vec<u8>,
    pool: Buffers,
    _permit: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for PooledBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        let mut pooled = self.pool.0.lock().expect("nothing panics while it holds this lock");
        if pooled.len() < POOLED_BUFFERS_MAX {
            pooled.push(std::mem::take(&mut self.buffer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_returns_to_the_pool_with_its_last_reference() {
        let (buffers, memory) = (Buffers::default(), Arc::new(tokio::sync::Semaphore::new(1)));
        let bytes = buffers.share(vec![1, 2, 3], memory.clone().try_acquire_owned().expect("a share"));
        let piece = bytes.slice(1..);
        drop(bytes);
        assert!(buffers.take().is_empty() && memory.available_permits() == 0);
        assert_eq!(&piece[..], [2, 3]);
        drop(piece);
        assert_eq!((buffers.take(), memory.available_permits()), (vec![1, 2, 3], 1));
    }
}
