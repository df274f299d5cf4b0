//! Staging on small disks and with several processes.

use fulgurite_domain::VersionId;
use fulgurite_format::{HEAD_BYTES, RecordKind};

use super::*;
use crate::clock::unix_ms;
use crate::volume::FolderVolume;

/// A folder on a disk with a capacity of `bytes`.
struct SmallDisk {
    folder: FolderVolume,
    bytes: u64,
    taken: Arc<AtomicU64>,
    /// Names of files, in the order in which they were synced.
    synced: Arc<Mutex<Vec<String>>>,
}

impl SmallDisk {
    fn new(folder: &Path, bytes: u64) -> Self {
        Self { folder: FolderVolume::new(folder), bytes, taken: Arc::default(), synced: Arc::default() }
    }
}

struct SmallFile {
    name: String,
    file: Box<dyn VolumeFile>,
    bytes: u64,
    taken: Arc<AtomicU64>,
    synced: Arc<Mutex<Vec<String>>>,
}

impl Volume for SmallDisk {
    fn create(&self, name: &str) -> io::Result<Box<dyn VolumeFile>> {
        let (file, taken, synced) = (self.folder.create(name)?, self.taken.clone(), self.synced.clone());
        Ok(Box::new(SmallFile { name: name.to_owned(), file, bytes: self.bytes, taken, synced }))
    }
    fn open(&self, name: &str) -> io::Result<Box<dyn VolumeFile>> {
        self.folder.open(name)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.folder.rename(from, to)
    }
    fn cut(&self, name: &str, bytes: u64) -> io::Result<()> {
        self.taken.fetch_sub(self.folder.open(name)?.length()?.saturating_sub(bytes), Ordering::Relaxed);
        self.folder.cut(name, bytes)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.taken.fetch_sub(self.folder.open(name)?.length()?, Ordering::Relaxed);
        self.folder.remove(name)
    }
    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        self.folder.list(directory)
    }
    fn sync_directory(&self, directory: &str) -> io::Result<()> {
        self.folder.sync_directory(directory)
    }
    fn create_directory(&self, directory: &str) -> io::Result<()> {
        self.folder.create_directory(directory)
    }
    fn free_bytes(&self) -> Option<u64> {
        Some(self.bytes - self.taken.load(Ordering::Relaxed))
    }
    fn describe(&self) -> String {
        "a small disk".to_owned()
    }
}

impl SmallFile {
    /// Grows the file to `length` if the disk has enough free space.
    fn take(&self, length: u64) -> io::Result<()> {
        let more = length.saturating_sub(self.file.length()?);
        if self.taken.load(Ordering::Relaxed) + more > self.bytes {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.taken.fetch_add(more, Ordering::Relaxed);
        Ok(())
    }
}

impl VolumeFile for SmallFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.take(offset + bytes.len() as u64)?;
        self.file.write_at(offset, bytes)
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buffer)
    }
    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.take(bytes)?;
        self.file.set_length(bytes)
    }
    fn set_length(&self, bytes: u64) -> io::Result<()> {
        self.take(bytes)?;
        self.taken.fetch_sub(self.file.length()?.saturating_sub(bytes), Ordering::Relaxed);
        self.file.set_length(bytes)
    }
    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }
    fn sync(&self) -> io::Result<()> {
        self.synced.lock().expect("not poisoned").push(self.name.clone());
        self.file.sync()
    }
    fn forget_cached(&self) {}
}

#[test]
fn a_segment_reserves_no_more_than_the_disk_has() {
    const MIB: u64 = 1 << 20;
    for (disk, reserved) in [(2_000 * MIB, 256 * MIB), (108 * MIB, 25 * MIB), (9 * MIB, 0), (MIB, 0)] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let volume = SmallDisk::new(folder.path(), disk);
        let staging = Staging::new(Arc::new(volume), ArchiveId([1; 16]), 256 * MIB);
        let room = staging.room();
        assert_eq!(room, disk.saturating_sub(RESERVED_FREE_BYTES));
        let writing = staging.begin().expect("begun");
        let mut writer = writing.writer();
        let place = writer.append(RecordKind::Data, VersionId([2; 16]), 0, false, b"abc").expect("appended");
        writer.unsynced().and_then(Unsynced::sync).expect("synced");
        assert_eq!(
            staging.open(place.segment).and_then(|file| file.length().map_err(|e| staging.write_error(e))).expect("there").max(MIB),
            reserved.max(MIB)
        );
        assert!(room - staging.room() < 1_000, "a reservation doesn't reduce the room of the put that made it");
        drop(writer);
        assert!(staging.free().on_disk.expect("known") > disk - 1_000, "the unused reservation is freed");
    }
}

#[test]
fn the_error_for_a_full_disk_names_needed_and_free_bytes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let volume = SmallDisk::new(folder.path(), 3 << 20);
    let staging = Staging::new(Arc::new(volume), ArchiveId([1; 16]), 256 << 20);
    let writing = staging.begin().expect("begun");
    let mut writer = writing.writer();
    let mut append = || writer.append(RecordKind::Data, VersionId([2; 16]), 0, false, &[7; 1 << 20]);
    let error = (0..5).find_map(|_| append().err()).expect("five MiB don't fit into three").to_string();
    assert!(error.starts_with("staging in a small disk is full: 1048640 more bytes are needed and "), "{error}");
    assert!(error.contains("`fulgurite flush`"), "{error}");
}

/// A tombstone that survives a crash without the version that replaces the removed one would leave
/// neither.
#[test]
fn tombstones_are_synced_last_even_if_their_segment_is_full() {
    const SEGMENT_BYTES: u64 = 4_096;
    for closes in [false, true] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let volume = SmallDisk::new(folder.path(), 1 << 30);
        let synced = volume.synced.clone();
        let staging = Staging::new(Arc::new(volume), ArchiveId([1; 16]), SEGMENT_BYTES);
        let writing = staging.begin().expect("begun");
        let mut writer = writing.writer();
        let mut data = Vec::new();
        let mut tombstones = Vec::new();
        data.push(writer.append(RecordKind::Data, VersionId([2; 16]), 0, false, &[7; 100]).expect("appended").segment);
        for number in 0..2 * SEGMENT_BYTES / HEAD_BYTES as u64 {
            let id = VersionId::new(number, [3; 10]);
            tombstones.push(writer.append(RecordKind::Tombstone, id, 0, false, &[]).expect("appended").segment);
        }
        data.push(writer.append(RecordKind::Data, VersionId([2; 16]), 100, false, &[7; 100]).expect("appended").segment);
        tombstones.dedup();
        assert!(data[0] == data[1] && tombstones.len() > 2, "the segments of tombstones are full, that of data is not");
        if closes {
            writer.close_segments().expect("closed");
        }
        writer.unsynced().and_then(Unsynced::sync).expect("synced");
        let expected: Vec<String> = data[..1].iter().chain(&tombstones).map(|segment| file_name(*segment)).collect();
        assert_eq!(*synced.lock().expect("not poisoned"), expected);
    }
}

#[test]
fn the_limit_counts_staged_bytes_only() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let volume = Arc::new(FolderVolume::new(folder.path()));
    let staging = Staging::new(volume, ArchiveId([1; 16]), 2 << 20).limited(Some(64 << 20));
    let writing = staging.begin().expect("begun");
    let mut writer = writing.writer();
    assert_eq!((staging.room(), staging.free().within_limit), (64 << 20, Some(64 << 20)));
    for _ in 0..5 {
        writer.append(RecordKind::Data, VersionId([2; 16]), 0, false, &[7; 1 << 20]).expect("appended");
    }
    // The reservation of the open segment doesn't count against the limit.
    assert_eq!(staging.free().within_limit, Some(staging.room()));
    writer.close_segments().expect("closed");
    assert!(staging.room().abs_diff(59 << 20) < 10_000, "{}", staging.room());
    assert_eq!(staging.free().within_limit, Some(staging.room()));
}

#[test]
fn a_released_segment_number_is_not_reused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let open = || Staging::new(Arc::new(FolderVolume::new(folder.path())), ArchiveId([1; 16]), 1 << 20);
    let stage = |payload: &[u8]| {
        let staging = open();
        let writing = staging.begin().expect("begun");
        let mut writer = writing.writer();
        let place = writer.append(RecordKind::Data, VersionId([2; 16]), 0, false, payload).expect("appended");
        writer.unsynced().and_then(Unsynced::sync).expect("synced");
        place
    };
    let reader = open();
    let mut payload = Vec::new();
    let mut last = 0;
    for content in [&b"old"[..], b"new", b"newer, and longer"] {
        // Numbers follow the clock, so they are new only in another millisecond.
        while unix_ms() <= last {
            std::thread::yield_now();
        }
        let place = stage(content);
        assert!(place.segment > last, "with a reused number, an old copy of the catalogue would mistake one segment for another");
        last = place.segment;
        reader.read(place, &mut payload).expect("read");
        assert_eq!(payload, content);
        open().release(|| Ok::<_, StagingError>(Vec::new()), |_| Ok(())).expect("released");
    }
}

#[test]
fn a_folder_that_cannot_be_listed_is_unreadable_and_has_no_room() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = folder.path().join("staging");
    std::fs::write(&place, "not a folder").expect("written");
    let staging = Staging::new(Arc::new(FolderVolume::new(&place)), ArchiveId([1; 16]), 2 << 20).limited(Some(64 << 20));
    let error = staging.segments().expect_err("it can't be listed");
    assert!(matches!(error, StagingError::Unreadable { .. }), "{error}");
    assert_eq!(error.hindrance(), Some(crate::unread::Hindrance::Unreadable));
    assert_eq!((staging.room(), staging.free().within_limit), (0, Some(0)));
}

#[test]
fn direct_reads_find_what_was_synced_while_more_is_appended() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let open = || Staging::new(Arc::new(FolderVolume::new(folder.path())), ArchiveId([1; 16]), 32 << 20);
    let staging = open();
    let writing = staging.begin().expect("begun");
    let mut writer = writing.writer();
    let mut reader = open();
    reader.read_directly();
    let (mut places, mut payload) = (Vec::new(), Vec::new());
    for (number, bytes) in [15_000, (1 << 20) + 256, 1 << 20, 3 << 20, 1, 0, (4 << 20) + 1, 777].into_iter().enumerate() {
        let content: Vec<u8> = (0..bytes).map(|at: usize| (at * 31 + number * 7 + (at >> 8)) as u8).collect();
        let place = writer.append(RecordKind::Data, VersionId([2; 16]), 0, false, &content).expect("appended");
        writer.unsynced().and_then(Unsynced::sync).expect("synced");
        places.push((place, content));
        for (place, content) in &places {
            reader.read(*place, &mut payload).expect("read");
            assert!(payload == *content, "{} bytes at {}, after {number} more", content.len(), place.offset);
            let from = content.len() / 3;
            let mut part = vec![0; content.len() - from];
            let file = reader.open(place.segment).expect("open");
            reader.read_part(&*file, *place, from, &mut part).expect("read");
            assert!(part == content[from..], "from {from}");
        }
    }
}
