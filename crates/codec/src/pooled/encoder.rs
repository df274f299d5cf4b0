//! Streaming encoder for groups larger than memory: information shards in, redundancy out.

use super::{PooledCode, check_shard_length};
use crate::aligned::{AlignedBytes, CACHE_LINE};
use crate::error::CodeError;
use crate::gf16::Transform;

/// Computes redundancy from a single ordered pass over the information shards.
///
/// The encoder buffers 2 m shards, where m is R rounded up to a power of two, however many
/// information shards there are ([`PooledCode::encoder_bytes`] gives the size).
/// [`PooledEncoder::reset`] reuses the buffers.
///
/// ```
/// use fulgurite_codec::{PooledCode, PooledEncoder};
/// let code = PooledCode::new(5, 2)?;
/// let mut encoder = PooledEncoder::new(&code, 64)?;
/// for shard in [[1u8; 64], [2; 64], [3; 64]] {
///     encoder.push(&[&shard]);
/// }
/// let redundancy = encoder.finish(); // the two shards not pushed count as zeros
/// assert_eq!(redundancy.len(), 2);
/// assert_eq!(redundancy.row(0).len(), 64);
/// # Ok::<(), fulgurite_codec::CodeError>(())
/// ```
pub struct PooledEncoder {
    redundancy: usize,
    stream: ChunkStream,
}

impl PooledEncoder {
    /// Creates an encoder for shards of `shard_bytes`.
    ///
    /// # Errors
    /// [`CodeError::ShardLength`] if that is 0 or isn't a multiple of 64.
    pub fn new(code: &PooledCode, shard_bytes: usize) -> Result<Self, CodeError> {
        Ok(PooledEncoder { redundancy: code.redundancy, stream: ChunkStream::new(code, shard_bytes, 1)? })
    }

    /// Spreads the work over this many threads, which are started for each chunk of m shards. The
    /// default is 1, the caller's own thread.
    ///
    /// # Panics
    /// If `threads` is 0.
    #[must_use]
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.stream.set_threads(threads);
        self
    }

    /// Adds the next information shards, by copying them.
    ///
    /// # Panics
    /// If that exceeds I shards, or a shard's length differs from the encoder's.
    pub fn push(&mut self, shards: &[&[u8]]) {
        for shard in shards {
            self.stream.push(shard);
        }
    }

    /// Adds `count` information shards of zeros, at almost no cost.
    ///
    /// # Panics
    /// If that exceeds I shards.
    pub fn push_zero(&mut self, count: usize) {
        self.stream.push_zero(count);
    }

    /// Information shards added so far.
    pub fn pushed(&self) -> usize {
        self.stream.pushed
    }

    /// Computes the redundancy of the shards pushed; missing shards count as zeros. Only
    /// [`PooledEncoder::reset`] may follow.
    ///
    /// # Panics
    /// If called twice without a reset.
    pub fn finish(&mut self) -> Rows<'_> {
        let outputs: Vec<u16> = (0..self.redundancy as u16).collect();
        self.stream.close();
        let transform = self.stream.transform;
        self.stream.for_blocks(|_, width, sums, _, _| {
            transform.forward(sums, transform.points().trailing_zeros(), width, 0, &outputs);
        });
        // The chunk buffer is free now and large enough for the rows, because R <= m.
        self.stream.write_rows(self.redundancy, |shard, row| transform.write(shard, row, 1));
        self.stream.rows(self.redundancy)
    }

    /// Discards all shards, to encode another group in the same buffers.
    pub fn reset(&mut self) {
        self.stream.reset();
    }
}

/// Shards computed by an encoder or repairer, in its buffer.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    bytes: &'a [u8],
    shard_bytes: usize,
}

impl<'a> Rows<'a> {
    /// Number of shards.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.shard_bytes
    }

    /// True if there are no shards.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The shard at `index`.
    ///
    /// # Panics
    /// If `index` is out of range.
    pub fn row(&self, index: usize) -> &'a [u8] {
        &self.bytes[index * self.shard_bytes..][..self.shard_bytes]
    }

    /// All shards, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        self.bytes.chunks_exact(self.shard_bytes)
    }
}

/// The sum of the inverse transforms of all chunks, over shards that arrive one by one.
pub(super) struct ChunkStream {
    pub(super) transform: Transform,
    information: usize,
    shard_bytes: usize,
    /// The chunk being filled: m rows of `shard_bytes`. Rows that aren't `present` hold stale data.
    chunk: AlignedBytes,
    present: Vec<bool>,
    /// m rows of the transform's pitch for each block of columns.
    sums: AlignedBytes,
    /// True until the first chunk reaches `sums`, which hold stale data until then.
    fresh: bool,
    pushed: usize,
    closed: bool,
    work: Vec<Work>,
}

/// Working memory of one thread.
struct Work {
    /// A block of columns.
    first: AlignedBytes,
    /// Another block, for repairs; empty in an encoder.
    second: AlignedBytes,
}

impl ChunkStream {
    pub(super) fn new(code: &PooledCode, shard_bytes: usize, blocks_of_work: usize) -> Result<Self, CodeError> {
        check_shard_length(shard_bytes)?;
        let transform = code.transform;
        let points = transform.points();
        let block = transform.block_bytes(points);
        let work =
            Work { first: AlignedBytes::zeroed(block, CACHE_LINE), second: AlignedBytes::zeroed(block * (blocks_of_work - 1), CACHE_LINE) };
        Ok(ChunkStream {
            transform,
            information: code.information,
            shard_bytes,
            chunk: AlignedBytes::zeroed(points * shard_bytes, CACHE_LINE),
            present: Vec::with_capacity(points),
            sums: AlignedBytes::zeroed(transform.columns(shard_bytes).count() * block, CACHE_LINE),
            fresh: true,
            pushed: 0,
            closed: false,
            work: vec![work],
        })
    }

    pub(super) fn set_threads(&mut self, threads: usize) {
        assert!(threads > 0, "at least one thread is required");
        let (first, second) = (self.work[0].first.len(), self.work[0].second.len());
        self.work.resize_with(threads, || Work {
            first: AlignedBytes::zeroed(first, CACHE_LINE),
            second: AlignedBytes::zeroed(second, CACHE_LINE),
        });
    }

    pub(super) fn shard_bytes(&self) -> usize {
        self.shard_bytes
    }

    pub(super) fn pushed(&self) -> usize {
        self.pushed
    }

    pub(super) fn push(&mut self, shard: &[u8]) {
        assert_eq!(shard.len(), self.shard_bytes, "a shard's length differs from the encoder's");
        self.put(self.present.len(), shard);
        self.next(true);
    }

    pub(super) fn push_zero(&mut self, count: usize) {
        for _ in 0..count {
            self.next(false);
        }
    }

    /// Copies a shard into a row of the chunk buffer.
    pub(super) fn put(&mut self, row: usize, shard: &[u8]) {
        self.chunk[row * self.shard_bytes..][..self.shard_bytes].copy_from_slice(shard);
    }

    fn next(&mut self, present: bool) {
        assert!(!self.closed, "already finished: reset first");
        assert!(self.pushed < self.information, "more information shards than the code's {}", self.information);
        self.present.push(present);
        self.pushed += 1;
        if self.present.len() == self.transform.points() {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let points = self.transform.points();
        // The first point of this chunk. Shards arrive in chunks of m, and the first chunk is at
        // point m, after the redundancy.
        let position = self.pushed.div_ceil(points) * points;
        if self.present.contains(&true) {
            let (transform, fresh) = (self.transform, self.fresh);
            let chunk = self.take_chunk();
            let shards: Vec<&[u8]> =
                chunk.chunks_exact(self.shard_bytes).zip(&self.present).map(|(row, &present)| if present { row } else { &[] }).collect();
            self.for_blocks(|from, width, sums, work, _| {
                transform.add_inverse(work, sums, fresh, &shards, from, width, position);
            });
            self.chunk = chunk;
            self.fresh = false;
        }
        self.present.clear();
    }

    /// Adds the last chunk. No more information may follow.
    pub(super) fn close(&mut self) {
        assert!(!self.closed, "already finished: reset first");
        self.flush();
        if self.fresh {
            self.sums.fill(0);
        }
        self.closed = true;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(super) fn reset(&mut self) {
        self.present.clear();
        self.fresh = true;
        self.pushed = 0;
        self.closed = false;
    }

    /// Runs `f(from, width, sums, work, second work)` on each block of columns, on all threads.
    pub(super) fn for_blocks(&mut self, f: impl Fn(usize, usize, &mut [u8], &mut [u8], &mut [u8]) + Sync) {
        let block_bytes = self.transform.block_bytes(self.transform.points());
        let columns: Vec<(usize, usize)> = self.transform.columns(self.shard_bytes).collect();
        let run = |columns: &[(usize, usize)], sums: &mut [u8], work: &mut Work| {
            for (&(from, width), block) in columns.iter().zip(sums.chunks_exact_mut(block_bytes)) {
                f(from, width, block, &mut work.first, &mut work.second);
            }
        };
        let share = columns.len().div_ceil(self.work.len());
        if share == columns.len() {
            run(&columns, &mut self.sums, &mut self.work[0]);
            return;
        }
        let shares = columns.chunks(share).zip(self.sums.chunks_mut(share * block_bytes));
        std::thread::scope(|scope| {
            for ((columns, sums), work) in shares.zip(&mut self.work) {
                scope.spawn(|| run(columns, sums, work));
            }
        });
    }

    /// Writes the first `count` rows of all blocks as shards into the chunk buffer.
    pub(super) fn write_rows(&mut self, count: usize, write: impl Fn(&mut [u8], &[u8])) {
        let block_bytes = self.transform.block_bytes(self.transform.points());
        for (r, shard) in self.chunk.chunks_exact_mut(self.shard_bytes).take(count).enumerate() {
            for ((from, width), block) in self.transform.columns(self.shard_bytes).zip(self.sums.chunks_exact(block_bytes)) {
                let at = self.transform.block_bytes(r);
                write(&mut shard[from..from + width], &block[at..at + self.transform.pitch()]);
            }
        }
    }

    /// Takes the chunk buffer for reading while blocks are processed; [`ChunkStream::give_chunk`]
    /// returns it.
    pub(super) fn take_chunk(&mut self) -> AlignedBytes {
        std::mem::replace(&mut self.chunk, AlignedBytes::zeroed(0, CACHE_LINE))
    }

    pub(super) fn give_chunk(&mut self, chunk: AlignedBytes) {
        self.chunk = chunk;
    }

    /// The first `count` rows of the chunk buffer.
    pub(super) fn rows(&self, count: usize) -> Rows<'_> {
        Rows { bytes: &self.chunk[..count * self.shard_bytes], shard_bytes: self.shard_bytes }
    }
}
