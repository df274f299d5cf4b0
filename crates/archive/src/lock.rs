//! The lock of an archive: only one process at a time may change it.

use std::fs::{File, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::archive::ArchiveError;

pub(crate) const LOCK_FILE: &str = "lock";

/// The lock, held until this is dropped.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Lock {
    /// Takes the lock of the archive in `home`.
    pub(crate) fn take(home: &Path) -> Result<Self, ArchiveError> {
        let path = home.join(LOCK_FILE);
        let options = File::options().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let file = options.map_err(ArchiveError::io(&path))?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(ArchiveError::InUse(home.to_owned())),
            Err(TryLockError::Error(source)) => Err(ArchiveError::Io { path, source }),
        }
    }

    /// Takes a shared lock, for an archive in `home` whose files can't be written. It keeps other
    /// processes from changing the archive. Returns `None` if one is changing it now, or if the
    /// lock file can't be opened.
    pub(crate) fn share(home: &Path) -> Option<Self> {
        let file = File::open(home.join(LOCK_FILE)).ok()?;
        file.try_lock_shared().ok()?;
        Some(Self(file))
    }

    /// True if no process holds the exclusive lock, as far as this one can tell: it may have no
    /// access to the file.
    pub(crate) fn is_free(home: &Path) -> bool {
        File::open(home.join(LOCK_FILE)).is_ok_and(|file| file.try_lock_shared().is_ok())
    }

    /// True if a process holds the exclusive lock.
    pub(crate) fn is_taken(home: &Path) -> bool {
        File::open(home.join(LOCK_FILE)).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }
}

/// True if a process holds the archive in `home` for changes: a server, or a command. Another one
/// can't change it meanwhile; reading works.
#[must_use]
pub fn is_in_use(home: &Path) -> bool {
    Lock::is_taken(home)
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file is not enough: a child process that was just forked keeps it open until
        // it executes its own program, and would keep the lock until then.
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_the_guard_releases_the_lock_even_if_a_forked_child_has_the_file_open() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let lock = Lock::take(home.path()).expect("free");
        assert!(matches!(Lock::take(home.path()), Err(ArchiveError::InUse { .. })));
        assert!(Lock::share(home.path()).is_none() && Lock::is_taken(home.path()));
        // A fork duplicates the descriptor in the same way.
        let inherited = lock.0.try_clone().expect("a second descriptor");
        drop(lock);
        drop(Lock::take(home.path()).expect("free again"));
        drop(inherited);
    }
}
