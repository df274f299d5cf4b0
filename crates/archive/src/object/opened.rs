//! Versions that were looked up, with everything needed to read them.

use std::ops::Range;
use std::sync::Arc;

use fulgurite_format::{FRAME_BYTES, FrameError, Frames, STORED_FRAME_BYTES};

use crate::catalogue::{Extent, StagedData, VersionRow};
use crate::volume::VolumeFile;

/// Where the version's stored bytes are.
pub(super) enum Places {
    Staged(Vec<StagedData>),
    Archived(Vec<Extent>),
}

/// Upper bound on the segments that an opened version holds: each is an open file.
pub(super) const OPEN_SEGMENTS_MAX: usize = 16;

/// A version that was looked up, with everything needed to read it.
pub struct Opened {
    pub(super) version: VersionRow,
    pub(super) frames: Frames,
    pub(super) places: Places,
    /// Files of its staging segments: a file removed from the disk can be read while it is open.
    pub(super) segments: Vec<(u64, Arc<dyn VolumeFile>)>,
}

impl Opened {
    /// The version.
    #[must_use]
    pub fn version(&self) -> &VersionRow {
        &self.version
    }

    /// Whether its content was in staging when it was opened.
    #[must_use]
    pub fn is_staged(&self) -> bool {
        matches!(self.places, Places::Staged(_))
    }

    /// Reads a range of staged content from the page cache into the buffer, and returns the ranges
    /// of the buffer with content, each checked by its frame's tag. Never waits for a disk: returns
    /// `None` if the content isn't staged or cached, or if a check fails.
    /// [`read_opened`](super::ObjectReader::read_opened) then reads it, or reports the error.
    pub fn read_cached(&self, content: &Range<u64>, buffer: &mut Vec<u8>) -> Option<Vec<Range<usize>>> {
        let Places::Staged(data) = &self.places else { return None };
        if content.is_empty() || content.end > self.version.record.size {
            return None;
        }
        let (frame_bytes, stored_frame_bytes) = (FRAME_BYTES as u64, STORED_FRAME_BYTES as u64);
        let mut from = content.start / frame_bytes * stored_frame_bytes;
        let end = (content.end.div_ceil(frame_bytes) * stored_frame_bytes).min(self.version.stored_bytes);
        buffer.resize((end - from) as usize, 0);
        let mut out = &mut buffer[..];
        while !out.is_empty() {
            let StagedData { stored_offset, place } = *record_at(data, from)?;
            let (_, file) = self.segments.iter().find(|(segment, _)| *segment == place.segment)?;
            let start = from - stored_offset;
            let (now, later) = out.split_at_mut(out.len().min((u64::from(place.bytes) - start) as usize));
            if !file.read_cached_at(place.offset + start, now) {
                return None;
            }
            from += now.len() as u64;
            out = later;
        }
        open_frames(&self.frames, content, buffer).ok()
    }
}

/// The record of staged data that has the stored byte `from`.
pub(super) fn record_at(data: &[StagedData], from: u64) -> Option<&StagedData> {
    let after = data.partition_point(|record| record.stored_offset <= from);
    data[..after].last().filter(|record| from < record.stored_offset + u64::from(record.place.bytes))
}

/// Decrypts and checks, in place, the frames that contain a range of content, and returns the
/// ranges of the buffer that hold it.
pub(super) fn open_frames(frames: &Frames, content: &Range<u64>, buffer: &mut [u8]) -> Result<Vec<Range<usize>>, FrameError> {
    let first = content.start / FRAME_BYTES as u64;
    let mut pieces = Vec::with_capacity(buffer.len().div_ceil(STORED_FRAME_BYTES));
    for (index, (number, frame)) in (first..).zip(buffer.chunks_mut(STORED_FRAME_BYTES)).enumerate() {
        let begin = number * FRAME_BYTES as u64;
        let end = begin + frames.open(number, frame)?.len() as u64;
        let within = |at: u64| index * STORED_FRAME_BYTES + (at.clamp(begin, end) - begin) as usize;
        pieces.push(within(content.start)..within(content.end));
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicU64, Ordering};

    use fulgurite_domain::{Attributes, Digest, Kind, ObjectName, ObjectRecord, VersionId};
    use fulgurite_format::{ObjectKey, TAG_BYTES, stored_bytes};

    use super::*;
    use crate::catalogue::{StagedPlace, VersionRowId};

    /// A segment of which the page cache has the first bytes.
    struct PartlyCached {
        bytes: Vec<u8>,
        cached: Arc<AtomicU64>,
    }

    impl VolumeFile for PartlyCached {
        fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
            Err(io::ErrorKind::ReadOnlyFilesystem.into())
        }
        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
            panic!("{} bytes at {offset} are read from the disk", buffer.len());
        }
        fn read_cached_at(&self, offset: u64, buffer: &mut [u8]) -> bool {
            let end = offset as usize + buffer.len();
            let is_cached = end as u64 <= self.cached.load(Ordering::Relaxed);
            if is_cached {
                buffer.copy_from_slice(&self.bytes[offset as usize..end]);
            }
            is_cached
        }
        fn allocate(&self, _: u64) -> io::Result<()> {
            Ok(())
        }
        fn set_length(&self, _: u64) -> io::Result<()> {
            Ok(())
        }
        fn length(&self) -> io::Result<u64> {
            Ok(self.bytes.len() as u64)
        }
        fn sync(&self) -> io::Result<()> {
            Ok(())
        }
        fn forget_cached(&self) {}
    }

    /// An opened version in a segment, in records of 3 and 2 frames and the rest, each after 100
    /// other bytes. `harm` changes the segment. Also returns how much of it is cached, at first
    /// all.
    fn staged(content: &[u8], harm: impl FnOnce(&mut [u8])) -> (Opened, Arc<AtomicU64>) {
        let id = VersionId::new(1, [7; 10]);
        let frames = Frames::new(id, Some(&ObjectKey::new([9; 32])));
        let mut stored = Vec::new();
        for (number, frame) in (0..).zip(content.chunks(FRAME_BYTES)) {
            let mut sealed = frame.to_vec();
            sealed.extend([0; TAG_BYTES]);
            frames.seal(number, &mut sealed);
            stored.extend(sealed);
        }
        let (mut bytes, mut data, mut from) = (Vec::new(), Vec::new(), 0_usize);
        for most in [3, 2, usize::MAX / STORED_FRAME_BYTES] {
            let payload = &stored[from..stored.len().min(from.saturating_add(most * STORED_FRAME_BYTES))];
            bytes.extend([1; 100]);
            let place = StagedPlace { segment: 5, offset: bytes.len() as u64, bytes: payload.len() as u32, crc64: 0 };
            data.push(StagedData { stored_offset: from as u64, place });
            bytes.extend(payload);
            from += payload.len();
        }
        harm(&mut bytes);
        let cached = Arc::new(AtomicU64::new(bytes.len() as u64));
        let record = ObjectRecord {
            name: ObjectName(b"moon".to_vec()),
            version: 1,
            kind: Kind::File,
            size: content.len() as u64,
            sha256: Digest([0; 32]),
            modified: None,
            mode: None,
            created_ms: 1,
            attributes: Attributes::default(),
        };
        let version = VersionRow {
            row_id: VersionRowId(1),
            id,
            record,
            sealed: true,
            stored_bytes: stored_bytes(content.len() as u64),
            archived: false,
        };
        let segments: Vec<(u64, Arc<dyn VolumeFile>)> = vec![(5, Arc::new(PartlyCached { bytes, cached: cached.clone() }))];
        (Opened { version, frames, places: Places::Staged(data), segments }, cached)
    }

    fn read(opened: &Opened, range: Range<u64>) -> Option<Vec<u8>> {
        // Buffers have arbitrary content.
        let mut buffer = vec![3; 7 * FRAME_BYTES];
        let pieces = opened.read_cached(&range, &mut buffer)?;
        Some(pieces.into_iter().flat_map(|piece| buffer[piece].to_vec()).collect())
    }

    const FRAME: u64 = FRAME_BYTES as u64;

    fn content() -> Vec<u8> {
        (0..FRAME_BYTES * 6 + 77).map(|at| (at * 31 + at / 251) as u8).collect()
    }

    #[test]
    fn ranges_in_the_page_cache_are_the_requested_bytes() {
        let content = content();
        let (opened, _) = staged(&content, |_| {});
        let size = content.len() as u64;
        let edges = [0, 1, FRAME - 1, FRAME, FRAME + 1, 3 * FRAME - 1, 3 * FRAME, 5 * FRAME, 5 * FRAME + 1, 6 * FRAME, size - 1, size];
        for (index, &from) in edges.iter().enumerate() {
            for &to in &edges[index + 1..] {
                let found = read(&opened, from..to).expect("in memory");
                assert!(found == content[from as usize..to as usize], "{from}..{to}");
            }
        }
        assert_eq!([read(&opened, 5..5), read(&opened, 5..size + 1), read(&opened, size..size + 9)], [None, None, None]);
    }

    #[test]
    fn ranges_outside_the_page_cache_are_not_read() {
        let content = content();
        let (opened, cached) = staged(&content, |_| {});
        // The first record and all of the second but a byte.
        cached.store(200 + 5 * STORED_FRAME_BYTES as u64 - 1, Ordering::Relaxed);
        assert!(read(&opened, 10..4 * FRAME).expect("in memory") == content[10..4 * FRAME_BYTES]);
        for range in [4 * FRAME..4 * FRAME + 1, 0..5 * FRAME, 5 * FRAME..6 * FRAME] {
            assert_eq!(read(&opened, range.clone()), None, "{range:?}");
        }
    }

    #[test]
    fn damaged_frames_are_not_returned() {
        let content = content();
        let (opened, _) = staged(&content, |bytes| bytes[100 + STORED_FRAME_BYTES + 9] ^= 1);
        assert_eq!([read(&opened, FRAME..2 * FRAME), read(&opened, 0..FRAME + 1)], [None, None]);
        assert!(read(&opened, 0..FRAME).expect("undamaged") == content[..FRAME_BYTES]);
    }
}
