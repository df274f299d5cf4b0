//! Version 1 of the format. These modules must never change what they read or write.

pub(crate) mod frame;
pub(crate) mod header;
pub(crate) mod header_search;
pub(crate) mod key_export;
pub(crate) mod keys;
pub(crate) mod record;
pub(crate) mod sealed_export;
pub(crate) mod segment;
pub(crate) mod segment_scan;
pub(crate) mod table;

/// The version number these modules write.
pub(crate) const VERSION: u32 = 1;

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("a slice of four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("a slice of eight bytes"))
}

#[cfg(test)]
mod hostile;
