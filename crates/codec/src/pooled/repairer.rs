//! Streaming repair for groups larger than memory: available shards in, lost shards out.

use super::encoder::{ChunkStream, Rows};
use super::{PooledCode, PooledPlan};
use crate::error::CodeError;

/// Rebuilds lost information shards from a single pass over the others: information in order, then
/// the plan's redundancy in any order.
///
/// It buffers 2 m shards, where m is R rounded up to a power of two, like
/// [`PooledEncoder`](crate::PooledEncoder).
pub struct PooledRepairer {
    plan: PooledPlan,
    stream: ChunkStream,
    /// Which of the plan's rows have been pushed.
    rows_present: Vec<bool>,
}

impl PooledRepairer {
    /// Creates a repairer for the losses of a plan ([`PooledCode::plan`]) and shards of
    /// `shard_bytes`.
    ///
    /// # Errors
    /// [`CodeError::ShardLength`] if that is 0 or isn't a multiple of 64.
    ///
    /// # Panics
    /// If the plan belongs to another code.
    pub fn new(code: &PooledCode, plan: PooledPlan, shard_bytes: usize) -> Result<Self, CodeError> {
        plan.check_code(code);
        let rows_present = vec![false; plan.rows().len()];
        Ok(PooledRepairer { stream: ChunkStream::new(code, shard_bytes, 2)?, plan, rows_present })
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

    /// The repair plan.
    pub fn plan(&self) -> &PooledPlan {
        &self.plan
    }

    /// Adds the next information shard; `None` if it is lost. Shards never pushed count as zeros
    /// unless they are lost.
    ///
    /// # Panics
    /// If that exceeds I shards, if the plan disagrees about the loss, if the length isn't the
    /// repairer's, or if redundancy was already pushed.
    pub fn push(&mut self, shard: Option<&[u8]>) {
        let lost = self.plan.lost().binary_search(&self.stream.pushed()).is_ok();
        assert_eq!(shard.is_none(), lost, "shard {} disagrees with the plan's losses", self.stream.pushed());
        match shard {
            Some(shard) => self.stream.push(shard),
            None => self.stream.push_zero(1),
        }
    }

    /// Adds a redundancy shard of [`PooledPlan::rows`]. All information must have been pushed.
    ///
    /// # Panics
    /// If the row isn't in the plan or was already pushed, or its length isn't the repairer's.
    pub fn push_redundancy(&mut self, row: usize, shard: &[u8]) {
        let index = self.plan.rows().binary_search(&row);
        let index = index.unwrap_or_else(|_| panic!("redundancy row {row} isn't in the plan"));
        assert!(!std::mem::replace(&mut self.rows_present[index], true), "redundancy row {row} was pushed twice");
        assert_eq!(shard.len(), self.stream.shard_bytes(), "a shard's length differs from the repairer's");
        if !self.stream.is_closed() {
            self.stream.close();
        }
        // The chunk buffer is no longer needed for information, and the plan has at most m rows.
        self.stream.put(index, shard);
    }

    /// Computes the wanted shards, in the order requested. Only [`PooledRepairer::reset`] may
    /// follow.
    ///
    /// # Panics
    /// If a row of the plan is missing.
    pub fn finish(&mut self) -> Rows<'_> {
        assert!(self.rows_present.iter().all(|&present| present), "a redundancy row of the plan is missing");
        if self.plan.wanted().is_empty() {
            return self.stream.rows(0);
        }
        let transform = self.stream.transform;
        let pitch = transform.pitch();
        let (plan, shard_bytes) = (&self.plan, self.stream.shard_bytes());
        let stored = self.stream.take_chunk();
        self.stream.for_blocks(|from, width, sums, values, scratch| {
            let block = plan.recompute(&transform, sums, width);
            for (i, row) in plan.rows_in_block().enumerate() {
                let recomputed = &block[row * pitch..][..pitch];
                let stored = &stored[i * shard_bytes + from..][..width];
                transform.scale(&mut values[row * pitch..], recomputed, stored, plan.factor_of_row(i));
            }
            // The sums are no longer needed, so the results may replace them.
            plan.solve(&transform, values, scratch, width, |wanted, row, factor| {
                transform.write(&mut sums[wanted * pitch..][..width], row, factor);
            });
        });
        self.stream.give_chunk(stored);
        self.stream.write_rows(self.plan.wanted().len(), |shard, row| shard.copy_from_slice(&row[..shard.len()]));
        self.stream.rows(self.plan.wanted().len())
    }

    /// Discards all shards, to repair another codeword with the same losses.
    pub fn reset(&mut self) {
        self.stream.reset();
        self.rows_present.fill(false);
    }
}
