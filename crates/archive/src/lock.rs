//! The lock of an archive: one process at a time changes it.

use std::fs::{File, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::archive::ArchiveError;

/// File that is locked, in the archive's folder.
pub(crate) const LOCK_FILE: &str = "lock";

/// The lock, held until this is dropped.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Lock {
    /// Takes the lock of the archive in `home`.
    ///
    /// # Errors
    /// [`ArchiveError::InUse`].
    pub(crate) fn take(home: &Path) -> Result<Self, ArchiveError> {
        let path = home.join(LOCK_FILE);
        let options = File::options().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let file = options.map_err(ArchiveError::io(&path))?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(ArchiveError::InUse { path: home.to_owned() }),
            Err(TryLockError::Error(source)) => Err(ArchiveError::Io { path, source }),
        }
    }

    /// Keeps other processes from changing the archive in `home`, where the file can't be written.
    /// `None` if one changes it now.
    pub(crate) fn share(home: &Path) -> Option<Self> {
        let file = File::open(home.join(LOCK_FILE)).ok()?;
        file.try_lock_shared().ok()?;
        Some(Self(file))
    }

    /// Whether another process holds it alone.
    pub(crate) fn is_taken(home: &Path) -> bool {
        File::open(home.join(LOCK_FILE)).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file would not do: a child process that was just forked has it open until it
        // runs its own program, and the lock would stay that long.
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_with_its_guard_though_a_forked_child_has_the_file_open() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let lock = Lock::take(home.path()).expect("free");
        assert!(matches!(Lock::take(home.path()), Err(ArchiveError::InUse { .. })));
        assert!(Lock::share(home.path()).is_none() && Lock::is_taken(home.path()));
        // What a fork does to the descriptor.
        let inherited = lock.0.try_clone().expect("a second descriptor");
        drop(lock);
        drop(Lock::take(home.path()).expect("free again"));
        drop(inherited);
    }
}
