//! Staging on small disks and with several processes.

use fulgurite_domain::VersionId;
use fulgurite_format::RecordKind;

use super::*;
use crate::clock::unix_ms;
use crate::volume::FolderVolume;

/// A folder on a disk with a capacity of `bytes`.
struct SmallDisk {
    folder: FolderVolume,
    bytes: u64,
    taken: Arc<AtomicU64>,
}

struct SmallFile {
    file: Box<dyn VolumeFile>,
    bytes: u64,
    taken: Arc<AtomicU64>,
}

impl Volume for SmallDisk {
    fn create(&self, name: &str) -> io::Result<Box<dyn VolumeFile>> {
        Ok(Box::new(SmallFile { file: self.folder.create(name)?, bytes: self.bytes, taken: self.taken.clone() }))
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
        self.file.sync()
    }
    fn forget_cached(&self) {}
}

#[test]
fn a_segment_reserves_no_more_than_the_disk_has() {
    const MIB: u64 = 1 << 20;
    for (disk, reserved) in [(2_000 * MIB, 256 * MIB), (108 * MIB, 25 * MIB), (9 * MIB, 0), (MIB, 0)] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let volume = SmallDisk { folder: FolderVolume::new(folder.path()), bytes: disk, taken: Arc::default() };
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
    let volume = SmallDisk { folder: FolderVolume::new(folder.path()), bytes: 3 << 20, taken: Arc::default() };
    let staging = Staging::new(Arc::new(volume), ArchiveId([1; 16]), 256 << 20);
    let writing = staging.begin().expect("begun");
    let mut writer = writing.writer();
    let mut append = || writer.append(RecordKind::Data, VersionId([2; 16]), 0, false, &[7; 1 << 20]);
    let error = (0..5).find_map(|_| append().err()).expect("five MiB don't fit into three").to_string();
    assert!(error.starts_with("staging in a small disk is full: 1048640 more bytes are needed and "), "{error}");
    assert!(error.contains("`fulgurite flush`"), "{error}");
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
