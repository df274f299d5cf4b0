//! `lock`: one command at a time changes a migration. The file contains the command's name.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::text;

const FILE: &str = "lock";
/// Bytes of the file that are read. Names are shorter.
const NAME_MAX: u64 = 64;
/// `migrate status` holds the lock for an instant, so one refusal says little.
const LOOKS: u32 = 10;
/// From one look at the lock to the next.
const LOOK: Duration = Duration::from_millis(20);

/// A command that changes a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    Init,
    Inventory,
    Run,
    Scan,
    Forget,
}

impl Holder {
    const ALL: [Self; 5] = [Self::Init, Self::Inventory, Self::Run, Self::Scan, Self::Forget];

    /// The subcommand.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Inventory => "inventory",
            Self::Run => "run",
            Self::Scan => "scan",
            Self::Forget => "forget",
        }
    }

    /// What is going on, without a full stop.
    pub(super) fn phrase(self) -> &'static str {
        match self {
            Self::Init => "The migration is being set up",
            Self::Inventory => "An inventory is being taken",
            Self::Run => "A run is going on",
            Self::Scan => "A scan is going on",
            Self::Forget => "Migrated files are being removed from the source",
        }
    }
}

/// Locks the migration in a folder until the file is closed.
pub(super) fn take(folder: &Path, holder: Holder) -> Result<File> {
    let path = folder.join(FILE);
    // The content stays until the lock is held: it is the holder's name.
    let lock = OpenOptions::new().write(true).create(true).truncate(false).open(&path).with_context(|| text::path(&path))?;
    let mut looks = 0;
    while let Err(refused) = lock.try_lock() {
        match refused {
            TryLockError::WouldBlock if looks < LOOKS => thread::sleep(LOOK),
            TryLockError::WouldBlock => bail!("another command is changing the migration in {}", text::path(folder)),
            TryLockError::Error(error) => return Err(error).with_context(|| text::path(&path)),
        }
        looks += 1;
    }
    lock.set_len(0).and_then(|()| (&lock).write_all(format!("{}\n", holder.name()).as_bytes())).with_context(|| text::path(&path))?;
    Ok(lock)
}

/// The command that is changing the migration in a folder. A lock without a known name is that of a
/// run: earlier versions wrote none.
pub(super) fn holder(folder: &Path) -> Option<Holder> {
    let lock = File::open(folder.join(FILE)).ok()?;
    if !matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)) {
        return None;
    }
    let mut name = String::new();
    let is_text = lock.take(NAME_MAX).read_to_string(&mut name).is_ok();
    Some(Holder::ALL.into_iter().find(|holder| is_text && holder.name() == name.trim_end()).unwrap_or(Holder::Run))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_lock_names_its_holder_also_after_another_command_was_refused() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        assert_eq!(holder(folder.path()), None);
        for of in Holder::ALL {
            let lock = take(folder.path(), of).expect("it is free");
            assert_eq!(holder(folder.path()), Some(of));
            let refused = take(folder.path(), Holder::Run).expect_err("it is held").to_string();
            assert!(refused.contains("another command is changing the migration"), "{refused}");
            assert_eq!(holder(folder.path()), Some(of));
            drop(lock);
            assert_eq!(holder(folder.path()), None);
        }
    }

    #[test]
    fn a_glance_at_the_lock_refuses_no_command() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        drop(take(folder.path(), Holder::Init).expect("it is free"));
        let glance = File::open(folder.path().join(FILE)).expect("a lock");
        glance.lock_shared().expect("it is free");
        let (began, begins) = std::sync::mpsc::channel();
        let path = folder.path().to_owned();
        let taking = thread::spawn(move || {
            began.send(()).expect("heard");
            take(&path, Holder::Run).map(drop)
        });
        begins.recv().expect("it begins");
        drop(glance);
        taking.join().expect("no panic").expect("it is free by then");
    }

    #[test]
    fn a_lock_without_a_known_name_is_that_of_a_run() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let lock = take(folder.path(), Holder::Scan).expect("it is free");
        for content in [&b""[..], b"later", b"\xff"] {
            fs::write(folder.path().join(FILE), content).expect("written");
            assert_eq!(holder(folder.path()), Some(Holder::Run), "{content:?}");
        }
        drop(lock);
    }
}
