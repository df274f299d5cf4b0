//! Refuses changes of the state while `service.db` was removed or replaced under the server.
//!
//! [`open_file`](fulgurite_archive::open_file) tells why. The state that was acknowledged before is
//! saved in a backup, which is read from the open file.

use std::sync::atomic::Ordering;

use fulgurite_archive::open_file::Displacement;

use super::{State, StateError};

impl State {
    /// Checks that the path of the file still leads to the open file, and that of its log to the
    /// log. If not, returns why the server isn't ready.
    pub(crate) fn check_file(&self) -> Option<&'static str> {
        let displacement = self.file.displacement();
        self.displaced.store(displacement.is_some(), Ordering::Release);
        Some(match displacement? {
            Displacement::LogGone => {
                "service.db-wal was removed or replaced under the running server, so changes of buckets, tags, locks and uploads are \
                 refused; restart the server"
            }
            Displacement::Replaced => {
                self.detach_log();
                "service.db was replaced under the running server, so changes of buckets, tags, locks and uploads are refused; restart \
                 the server. It uses the new file, unless the archive has a newer backup, such as that of the replaced file"
            }
            Displacement::Removed => {
                "service.db was removed under the running server, so changes of buckets, tags, locks and uploads are refused; restart the \
                 server to recover the file from its backup in the archive"
            }
            Displacement::OutOfReach => {
                "service.db can't be found, so changes of buckets, tags, locks and uploads are refused. Is its disk mounted?"
            }
        })
    }

    /// True if the last check found that the open file or its log was removed or replaced.
    pub(crate) fn is_displaced(&self) -> bool {
        self.displaced.load(Ordering::Acquire)
    }

    /// Removes the name of the open file's log, unless the file still is beside it. If a reader
    /// needs the log, the next check tries again.
    fn detach_log(&self) {
        let detached = self.with_connection("move its log into it", |connection| self.file.detach_log(connection));
        match detached {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "can't remove the log of the replaced service.db"),
            Err(error) => tracing::warn!(%error, "can't remove the log of the replaced service.db"),
        }
    }

    pub(super) fn refuse_if_displaced(&self) -> Result<(), StateError> {
        if self.is_displaced() { Err(StateError::Displaced(self.path.clone())) } else { Ok(()) }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // The last chance, also if the file was removed: it can't return to this process.
        self.detach_log();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_gateway::new_archive;

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
        let state = State::open(new_archive(home.path())).expect("a state");
        state.add_account("ada", true).expect("an account");
        assert_eq!((state.check_file(), state.is_displaced()), (None, false));
        let (path, away) = (state.path.clone(), home.path().join("away.db"));
        std::fs::rename(&path, &away).expect("renamed");
        assert!(state.check_file().is_some_and(|reason| reason.contains("removed")));
        assert!(matches!(state.add_account("bo", true), Err(StateError::Displaced(_))));
        assert!(backup(&state).contains("ada"));
        std::fs::rename(&away, &path).expect("renamed");
        assert_eq!(state.check_file(), None);
        state.add_account("bo", true).expect("an account");
        std::fs::rename(&path, &away).expect("renamed");
        std::fs::write(&path, b"another file").expect("written");
        assert!(state.check_file().is_some_and(|reason| reason.contains("replaced")));
        assert!(matches!(state.add_bucket("photos", "ada", false, None), Err(StateError::Displaced(_))));
        assert!(backup(&state).contains("ada"));
        // Without its log, which would have been applied to the other file.
        std::fs::rename(&away, &path).expect("renamed");
        assert!(state.check_file().is_some_and(|reason| reason.contains("service.db-wal was removed")));
        assert!(matches!(state.add_account("eve", true), Err(StateError::Displaced(_))));
        assert!(backup(&state).contains("ada"));
        let archive = state.archive().clone();
        drop(state);
        let state = State::open(archive).expect("the file is complete");
        assert_eq!(accounts(&state), ["ada", "bo"]);
        state.add_account("eve", true).expect("an account");
    }

    fn accounts(state: &State) -> Vec<String> {
        state.accounts().expect("accounts").into_iter().map(|(account, _)| account.name.clone()).collect()
    }

    #[test]
    fn a_replacement_is_used_as_it_is_after_a_restart() {
        for (is_removed_first, is_noticed, is_killed) in
            [(false, true, false), (false, true, true), (false, false, false), (true, false, false)]
        {
            let case = format!("removed first: {is_removed_first}, noticed: {is_noticed}, killed: {is_killed}");
            let home = tempfile::tempdir().expect("a folder");
            let archive = new_archive(home.path());
            let (path, copy) = (home.path().join("service.db"), home.path().join("copy.db"));
            let state = State::open(archive.clone()).expect("a state");
            state.add_account("ada", true).expect("an account");
            drop(state);
            std::fs::copy(&path, &copy).expect("copied");
            let state = State::open(archive.clone()).expect("a state");
            for number in 0..100 {
                state.add_account(&format!("later{number}"), true).expect("an account");
            }
            if is_removed_first {
                std::fs::remove_file(&path).expect("removed");
                assert!(state.check_file().is_some(), "{case}");
            } else {
                std::fs::rename(&copy, &path).expect("renamed");
            }
            if is_noticed {
                assert!(state.check_file().is_some(), "{case}");
                assert!(!home.path().join("service.db-wal").exists() && !home.path().join("service.db-shm").exists(), "{case}");
                assert!(backup(&state).contains("later99"), "{case}");
            }
            if is_killed {
                std::mem::forget(state);
            } else {
                drop(state);
            }
            if is_removed_first {
                std::fs::rename(&copy, &path).expect("renamed");
            }
            let state = State::open(archive).unwrap_or_else(|error| panic!("{case}: {error}"));
            assert_eq!(accounts(&state), ["ada"], "{case}");
            state.add_account("bo", true).expect("an account");
            let whole: String =
                state.query("check it", |file| file.query_row("PRAGMA integrity_check", [], |row| row.get(0))).expect("checked");
            assert_eq!(whole, "ok", "{case}");
        }
    }

    #[test]
    fn a_link_to_another_file_leaves_the_log_of_the_open_one() {
        let home = tempfile::tempdir().expect("a folder");
        let archive = new_archive(home.path());
        let elsewhere = tempfile::tempdir().expect("a folder");
        let (path, target) = (home.path().join("service.db"), elsewhere.path().join("target.db"));
        drop(State::open(archive.clone()).expect("a state"));
        std::fs::rename(&path, &target).expect("renamed");
        std::os::unix::fs::symlink(&target, &path).expect("linked");
        let state = State::open(archive).expect("a state");
        state.add_account("ada", true).expect("an account");
        std::fs::remove_file(&path).expect("removed");
        std::fs::write(&path, b"another file").expect("written");
        assert!(state.check_file().is_some_and(|reason| reason.contains("replaced")));
        assert!(elsewhere.path().join("target.db-wal").exists());
    }
}
