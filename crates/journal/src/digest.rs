//! Checksums that detect accidental changes. They don't protect against deliberate ones.

use std::fmt::Write as _;

use crate::Fact;

/// A running digest over lines: the 64-bit Fowler-Noll-Vo hash 1a.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunningDigest(u64);

impl RunningDigest {
    pub(crate) const NEW: Self = Self(0xcbf2_9ce4_8422_2325);

    /// Adds a line without its newline.
    pub(crate) fn add(&mut self, line: &str) {
        self.0 = line.bytes().chain([b'\n']).fold(self.0, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    }

    /// The checksum at the end of a line. The halves are folded because a changed byte at the end
    /// of a line affects only some bits of each.
    pub(crate) fn checksum(self) -> u32 {
        (self.0 >> 32) as u32 ^ self.0 as u32
    }
}

/// A digest of the outputs. Commands and ends are digested separately, so their relative order
/// doesn't matter.
#[derive(Debug, Clone)]
pub(crate) struct OutputDigest {
    commands: RunningDigest,
    ended: RunningDigest,
    count: u64,
    line: String,
}

impl OutputDigest {
    pub(crate) const NEW: Self = Self { commands: RunningDigest::NEW, ended: RunningDigest::NEW, count: 0, line: String::new() };

    pub(crate) fn add(&mut self, fact: &Fact) {
        self.line.clear();
        write!(self.line, "{fact}").expect("a String takes everything");
        let digest = if let Fact::Ended { .. } = fact { &mut self.ended } else { &mut self.commands };
        digest.add(&self.line);
        self.count += 1;
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn digest(&self) -> u64 {
        self.commands.0 ^ self.ended.0.rotate_left(32)
    }
}
