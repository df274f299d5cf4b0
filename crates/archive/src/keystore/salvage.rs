//! Salvage: finds keys anywhere in a damaged key store file.
//!
//! SQLite rejects a page if its neighbours or its header are damaged, and rejects the whole file if
//! its first page is lost. But each slot (see the SQLite engine) carries its own check: it ends
//! with the CRC-64 of version, key and slot number. The slot does not contain the number, but the
//! number follows from it. A CRC-64 maps the last 8 bytes of its input one to one to its value, so
//! exactly one number fits any 56 bytes and checksum. For random bytes that number can be any of
//! 2^64; for a real slot it is small. So salvage tries the 64 bytes at every offset, whatever the
//! state of pages, headers and trees.
//!
//! ```text
//! [ version 16 | key 40 | CRC-64 ]
//! CRC-64 = crc(version, key, number)  =>  number = inverse(CRC-64) ^ state(version, key)
//! ```
//!
//! With a limit of `l` slots, the chance that `n` bytes of noise yield a wrong key is
//! `n * l / 2^64`: 10^-6 at 10 MiB.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use fulgurite_domain::VersionId;
use fulgurite_format::WrappedKey;

use super::sqlite::SLOT_BYTES;
use crate::archive::ArchiveError;

/// The polynomial of CRC-64/NVME without x^64, with its bits reflected.
const POLYNOMIAL: u64 = 0x9A6C_9329_AC4B_C9B5;

/// Bytes searched at a time.
const WINDOW_BYTES: usize = 1 << 20;

/// Disks read or fail in units of this size.
const DISK_BLOCK_BYTES: usize = 4_096;

/// Result of a salvage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Salvaged {
    /// Keys found. Some may have been found several times.
    pub keys: u64,
    /// Bytes that the system failed to read.
    pub unreadable: u64,
}

/// Passes every valid key in a file to `on_key`. A missing file contains none.
///
/// # Errors
/// Errors of opening the file, and those that `on_key` returns. Unreadable parts are counted and
/// skipped.
pub fn salvage<E: From<ArchiveError>>(path: &Path, mut on_key: impl FnMut(VersionId, WrappedKey) -> Result<(), E>) -> Result<Salvaged, E> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Salvaged::default()),
        file => file.map_err(ArchiveError::io(path))?,
    };
    let length = file.metadata().map_err(ArchiveError::io(path))?.len();
    // The greatest slot number to expect. Slots are numbered in order and take more than 64 bytes
    // each, so a file of this length has fewer than `length / 64`; the factor of 16, and at least a
    // million, are for a file that was truncated.
    let limit = (length / 4).max(1 << 20);
    let mut salvaged = Salvaged::default();
    let mut window = vec![0; WINDOW_BYTES + SLOT_BYTES - 1];
    let mut start = 0;
    // Offset in the window at which to look for the next slot.
    let mut at = 0;
    while start < length {
        let bytes = window.len().min(usize::try_from(length - start).unwrap_or(usize::MAX));
        salvaged.unreadable += read_or_zero(&file, start, &mut window[..bytes], WINDOW_BYTES);
        while at + SLOT_BYTES <= bytes && at < WINDOW_BYTES {
            let slot: &[u8; SLOT_BYTES] = window[at..at + SLOT_BYTES].try_into().expect("as many bytes");
            if number_of(slot).is_some_and(|number| number <= limit) {
                let mut key = WrappedKey([0; 40]);
                key.0.copy_from_slice(&slot[16..56]);
                let mut version = VersionId([0; 16]);
                version.0.copy_from_slice(&slot[..16]);
                on_key(version, key)?;
                salvaged.keys += 1;
                at += SLOT_BYTES;
            } else {
                at += 1;
            }
        }
        at = at.saturating_sub(WINDOW_BYTES);
        start += WINDOW_BYTES as u64;
    }
    Ok(salvaged)
}

/// Fills a buffer from the file at `start`, with zeros in place of unreadable bytes. Returns how
/// many of the first `counted` bytes are unreadable: the rest overlaps the next window and is
/// counted there.
fn read_or_zero(file: &File, start: u64, buffer: &mut [u8], counted: usize) -> u64 {
    if file.read_exact_at(buffer, start).is_ok() {
        return 0;
    }
    let mut unreadable = 0;
    for (index, block) in buffer.chunks_mut(DISK_BLOCK_BYTES).enumerate() {
        if file.read_exact_at(block, start + (index * DISK_BLOCK_BYTES) as u64).is_err() {
            block.fill(0);
            unreadable += counted.saturating_sub(index * DISK_BLOCK_BYTES).min(block.len()) as u64;
        }
    }
    unreadable
}

/// The slot number that these 64 bytes were written for, if they are a slot: the only number that
/// fits their checksum. `None` for zeros, as in a free slot or a hole, and for number 0, which no
/// slot has.
fn number_of(slot: &[u8; SLOT_BYTES]) -> Option<u64> {
    if slot[..56].iter().all(|&byte| byte == 0) {
        return None;
    }
    let state = !crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, &slot[..56]);
    let check = u64::from_le_bytes(slot[56..].try_into().expect("8 bytes"));
    let number = before_64_bits(!check) ^ state;
    (number > 0).then_some(number)
}

/// Runs the CRC register backwards: returns the state that becomes `state` after 64 zero bits.
fn before_64_bits(mut state: u64) -> u64 {
    for _ in 0..64 {
        // A forward step shifts right, and if a 1 falls out, adds the polynomial, whose highest bit
        // is set.
        state = if state >> 63 == 1 { (state ^ POLYNOMIAL) << 1 | 1 } else { state << 1 };
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keystore::conformance::key;
    use crate::keystore::{KeyStore, SqliteKeyStore};
    use fulgurite_domain::ArchiveId;
    use std::collections::BTreeMap;

    const ARCHIVE: ArchiveId = ArchiveId([0xa5; 16]);
    /// SQLite's page size in a new file.
    const PAGE: usize = 4_096;

    fn stored(count: u64) -> (tempfile::TempDir, Vec<u8>) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("keys.db");
        let mut store = SqliteKeyStore::create(&path, ARCHIVE).expect("made");
        for batch in (0..count).map(key).collect::<Vec<_>>().chunks(100) {
            store.insert(batch).expect("kept");
        }
        drop(store);
        let bytes = std::fs::read(path).expect("read");
        (folder, bytes)
    }

    fn salvaged(folder: &tempfile::TempDir, bytes: &[u8]) -> BTreeMap<VersionId, WrappedKey> {
        let path = folder.path().join("damaged");
        std::fs::write(&path, bytes).expect("written");
        let mut found = BTreeMap::new();
        let salvaged = salvage::<ArchiveError>(&path, |version, key| {
            assert!(found.insert(version, key).is_none_or(|known| known == key));
            Ok(())
        });
        assert_eq!(salvaged.expect("readable").unreadable, 0);
        found
    }

    /// Checks that every key found is right, and returns their number.
    fn count_right(found: &BTreeMap<VersionId, WrappedKey>, all: &BTreeMap<VersionId, WrappedKey>) -> usize {
        assert!(found.iter().all(|(version, key)| all.get(version) == Some(key)), "never a wrong key");
        found.len()
    }

    #[test]
    fn every_undamaged_key_is_found() {
        let (folder, sound) = stored(700);
        let all: BTreeMap<_, _> = (0..700).map(key).collect();
        let slots_a_page = PAGE / SLOT_BYTES;
        assert_eq!(salvaged(&folder, &sound), all);
        let pages = sound.len() / PAGE;
        for page in 0..pages {
            let mut damaged = sound.clone();
            damaged[page * PAGE..(page + 1) * PAGE].fill(0xa5);
            assert!(count_right(&salvaged(&folder, &damaged), &all) >= 700 - slots_a_page, "page {page}");
        }
        // Only the slots themselves are needed: all other bytes may be garbage.
        let mut damaged = vec![0x5a; sound.len()];
        for wrapped in all.values() {
            let at = sound.windows(40).position(|window| window == wrapped.0).expect("the key is in the file") - 16;
            damaged[at..at + SLOT_BYTES].copy_from_slice(&sound[at..at + SLOT_BYTES]);
        }
        assert_eq!(salvaged(&folder, &damaged), all);
        let half = &sound[..sound.len() / 2 + 77];
        let is_there = |wrapped: &&WrappedKey| half.windows(48).any(|window| window[..40] == wrapped.0);
        let there = all.values().filter(is_there).count();
        assert!(there > 100 && there < 600, "{there} keys in half of the file");
        assert_eq!(count_right(&salvaged(&folder, half), &all), there);
        // Inserted or missing bytes shift the rest.
        let mut shifted = sound.clone();
        shifted.splice(5_001..5_001, [1, 2, 3]);
        assert!(count_right(&salvaged(&folder, &shifted), &all) >= 698);
    }

    #[test]
    fn flipped_bits_and_noise_never_yield_a_wrong_key() {
        let (folder, sound) = stored(300);
        let all: BTreeMap<_, _> = (0..300).map(key).collect();
        for at in (0..sound.len()).step_by(401) {
            let mut damaged = sound.clone();
            damaged[at] ^= 1 << (at % 8);
            assert!(count_right(&salvaged(&folder, &damaged), &all) >= 299, "byte {at}");
        }
        let noise: Vec<u8> = (0..40_000u64).flat_map(|seed| key(seed).1.0).collect();
        assert_eq!(salvaged(&folder, &noise), BTreeMap::new());
        for fill in [0, 0xff] {
            assert_eq!(salvaged(&folder, &vec![fill; 3 * WINDOW_BYTES]), BTreeMap::new());
        }
        assert_eq!(salvaged(&folder, b""), BTreeMap::new());
    }

    #[test]
    fn keys_are_found_on_both_sides_of_a_window_boundary_and_across_it() {
        let (folder, sound) = stored(200);
        let all: BTreeMap<_, _> = (0..200).map(key).collect();
        for shift in [0, 1, 30, 63, 64] {
            let mut moved = vec![0xee; WINDOW_BYTES - sound.len() / 2 + shift];
            moved.extend_from_slice(&sound);
            assert_eq!(salvaged(&folder, &moved), all, "{shift}");
        }
    }

    #[test]
    fn destroyed_keys_are_not_found() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("keys.db");
        let mut store = SqliteKeyStore::create(&path, ARCHIVE).expect("made");
        store.insert(&(0..100).map(key).collect::<Vec<_>>()).expect("kept");
        store.destroy(&(0..50).map(|seed| key(seed).0).collect::<Vec<_>>()).expect("destroyed");
        drop(store);
        assert_eq!(salvaged(&folder, &std::fs::read(path).expect("read")), (50..100).map(key).collect());
    }
}
