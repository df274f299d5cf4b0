//! Detects files that change while they are read.
//!
//! A file counts as unchanged if its size, modification time and change time (`ctime`) are the same
//! before and after reading. The system sets `ctime` on every `write`, and programs can't set it.
//! (Changes through a shared mapping may go unnoticed.) But its resolution is a tick of the clock:
//! a file written a moment ago can be written again within the same tick without changing its
//! times. So the reader first waits until that tick is certainly over.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::OFlags;

/// Longest time in which two writes can get the same time stamp: two ticks of the slowest kernel
/// clock in use, 100 Hz.
const SAME_STAMP_MAX: Duration = Duration::from_millis(20);
/// The same for file systems with a time resolution of one or two seconds.
const COARSE_SAME_STAMP_MAX: Duration = Duration::from_secs(2);

/// How far the clock of a file server may be ahead of ours.
const CLOCKS_APART_MAX: Duration = Duration::from_secs(60);

/// An open file, with its metadata from before the first read.
pub(super) struct StableFile {
    pub(super) file: File,
    pub(super) before: Metadata,
}

impl StableFile {
    /// Opens a file. `None` if it changed meanwhile, or is no longer a regular file.
    pub(super) fn open(path: &Path) -> io::Result<Option<Self>> {
        // What was listed as a file may have become a link, or a pipe that would block.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = match OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path) {
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => return Ok(None),
            file => file?,
        };
        let mut before = file.metadata()?;
        if let Some(rest) = wait_before_reading(&before, SystemTime::now()) {
            std::thread::sleep(rest);
            let now = file.metadata()?;
            if stamp(&now) != stamp(&before) {
                return Ok(None);
            }
            // Access rights may have changed within the same tick.
            before = now;
        }
        Ok(before.is_file().then_some(Self { file, before }))
    }

    /// True if everything read so far belongs to one state of the file.
    pub(super) fn is_unchanged(&self) -> io::Result<bool> {
        Ok(stamp(&self.file.metadata()?) == stamp(&self.before))
    }
}

fn stamp(metadata: &Metadata) -> (u64, (i64, i64), (i64, i64)) {
    (metadata.len(), (metadata.mtime(), metadata.mtime_nsec()), (metadata.ctime(), metadata.ctime_nsec()))
}

/// How long to wait until any further write is bound to change the file's times; `None` if it
/// already is.
fn wait_before_reading(metadata: &Metadata, now: SystemTime) -> Option<Duration> {
    let seconds = u64::try_from(metadata.ctime()).ok()?;
    let changed = UNIX_EPOCH + Duration::new(seconds, metadata.ctime_nsec().clamp(0, 999_999_999) as u32);
    // Whole seconds: probably a file system that stores no fractions.
    let tick = if metadata.ctime_nsec() == 0 { COARSE_SAME_STAMP_MAX } else { SAME_STAMP_MAX };
    let Ok(age) = now.duration_since(changed) else {
        // Another machine's clock may be ahead, and the file may have been written just now.
        let ahead = changed.duration_since(now).unwrap_or_default();
        return (ahead <= CLOCKS_APART_MAX).then_some(tick);
    };
    tick.checked_sub(age).filter(|rest| !rest.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_recently_written_files_wait() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("file");
        std::fs::write(&path, b"content").expect("written");
        let metadata = std::fs::metadata(&path).expect("there");
        let changed = UNIX_EPOCH + Duration::new(metadata.ctime() as u64, metadata.ctime_nsec() as u32);
        let tick = if metadata.ctime_nsec() == 0 { COARSE_SAME_STAMP_MAX } else { SAME_STAMP_MAX };
        assert_eq!(wait_before_reading(&metadata, changed), Some(tick));
        assert_eq!(wait_before_reading(&metadata, changed + tick / 2), Some(tick / 2));
        assert_eq!(wait_before_reading(&metadata, changed + tick), None);
        assert_eq!(wait_before_reading(&metadata, changed - tick), Some(tick));
        assert_eq!(wait_before_reading(&metadata, changed - CLOCKS_APART_MAX - tick), None);
    }

    #[test]
    fn every_change_of_the_content_is_detected() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("file");
        let changes: [fn(&Path) -> io::Result<()>; 4] = [
            |path| std::fs::write(path, b"contenT"),
            |path| OpenOptions::new().write(true).open(path)?.set_len(3),
            |path| OpenOptions::new().write(true).open(path)?.set_len(300),
            // Sets the modification time back.
            |path| {
                let modified = std::fs::metadata(path)?.modified()?;
                std::fs::write(path, b"contenT")?;
                File::open(path)?.set_modified(modified)
            },
        ];
        for (index, change) in changes.into_iter().enumerate() {
            std::fs::write(&path, b"content").expect("written");
            let file = StableFile::open(&path).expect("opened").expect("a file");
            assert!(file.is_unchanged().expect("metadata"));
            change(&path).expect("changed");
            assert!(!file.is_unchanged().expect("metadata"), "change {index}");
        }
    }

    #[test]
    fn neither_links_nor_pipes_are_opened_as_files() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("file"), b"content").expect("written");
        std::os::unix::fs::symlink("file", path("link")).expect("a link");
        rustix::fs::mknodat(rustix::fs::CWD, path("pipe"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).expect("a pipe");
        assert!(StableFile::open(&path("file")).expect("opened").is_some());
        assert!(StableFile::open(&path("link")).expect("no error").is_none());
        assert!(StableFile::open(&path("pipe")).expect("no error").is_none());
    }
}
