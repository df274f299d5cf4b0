//! Notices that `service.db` was removed or replaced while it is open.
//!
//! SQLite continues with the open file, which has no name any more, so everything written to it
//! would be gone with the process. Therefore changes are refused, and the state that was
//! acknowledged before is saved in a backup, which is read from the open file.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::Ordering;

use super::{State, StateError};

/// What identifies a file, whatever its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let metadata = path.metadata()?;
        Ok(Self { device: metadata.dev(), inode: metadata.ino() })
    }
}

impl State {
    /// Checks that the path of the file still leads to the open file. If not, returns why the
    /// server isn't ready.
    pub(crate) fn check_file(&self) -> Option<&'static str> {
        let reason = match Identity::of(&self.path) {
            Ok(found) if Some(found) == self.identity => None,
            Ok(_) => Some(
                "service.db was replaced under the running server, so changes of buckets, tags, locks and uploads are refused; restart the \
                 server to use the new file. The archive keeps a backup of the replaced one",
            ),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(
                "service.db was removed under the running server, so changes of buckets, tags, locks and uploads are refused; restart the \
                 server to recover the file from its backup in the archive",
            ),
            Err(_) => Some("service.db can't be found, so changes of buckets, tags, locks and uploads are refused. Is its disk mounted?"),
        };
        self.displaced.store(reason.is_some(), Ordering::Release);
        reason
    }

    /// True if the last check found that the path doesn't lead to the open file.
    pub(crate) fn is_displaced(&self) -> bool {
        self.displaced.load(Ordering::Acquire)
    }

    pub(super) fn refuse_if_displaced(&self) -> Result<(), StateError> {
        if self.is_displaced() { Err(StateError::Displaced(self.path.clone())) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::archive;

    fn backup(state: &State) -> String {
        let mut text = Vec::new();
        let mut gather = |piece: Vec<u8>| {
            text.extend(piece);
            Ok(())
        };
        state.write_backup(&mut gather).expect("a backup");
        String::from_utf8(text).expect("text")
    }

    #[test]
    fn a_file_that_is_removed_or_replaced_is_backed_up_and_not_changed() {
        let home = tempfile::tempdir().expect("a folder");
        let state = State::open(archive(home.path())).expect("a state");
        state.add_account("ada", true).expect("an account");
        assert_eq!((state.check_file(), state.is_displaced()), (None, false));
        let (path, away) = (state.path.clone(), home.path().join("away.db"));
        std::fs::rename(&path, &away).expect("renamed");
        assert!(state.check_file().is_some_and(|reason| reason.contains("removed")));
        assert!(matches!(state.add_account("bo", true), Err(StateError::Displaced(_))));
        assert!(backup(&state).contains("ada"));
        std::fs::write(&path, b"another file").expect("written");
        assert!(state.check_file().is_some_and(|reason| reason.contains("replaced")));
        assert!(matches!(state.add_bucket("photos", "ada", false, None), Err(StateError::Displaced(_))));
        assert!(backup(&state).contains("ada"));
        std::fs::rename(&away, &path).expect("renamed");
        assert_eq!(state.check_file(), None);
        state.add_account("bo", true).expect("an account");
    }
}
