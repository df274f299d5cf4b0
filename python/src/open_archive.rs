//! An archive that is open in this process.

use std::ops::Deref;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use fulgurite_archive::archive::{CATALOGUE_FILE, KEYS_FILE};
use fulgurite_archive::{Access, Archive as Core};

use crate::errors::{Class, Failure};
use crate::of_process::{InUse, OfProcess};

/// How often platters are closed that are no longer read.
const CLOSE_INTERVAL: Duration = Duration::from_secs(1);

/// An archive that was opened.
pub(crate) struct OpenArchive {
    core: Core,
    /// The files of the databases. A rebuild replaces them, and connections to the earlier ones
    /// would see no later change.
    files: [FileIdentity; 2],
    /// Ends the thread that closes platters.
    _closing: Sender<()>,
    /// Last, so that it is dropped after the connections.
    _in_use: InUse,
}

impl Deref for OpenArchive {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

/// Device and number of a file; `None` if it doesn't exist.
type FileIdentity = Option<(u64, u64)>;

/// The files of an archive's databases.
fn identities(home: &Path) -> [FileIdentity; 2] {
    [CATALOGUE_FILE, KEYS_FILE].map(|name| {
        let metadata = std::fs::metadata(home.join(name)).ok()?;
        Some((metadata.dev(), metadata.ino()))
    })
}

/// Opens the archive in a folder.
pub(crate) fn open(home: &Path) -> Result<Arc<OfProcess<OpenArchive>>, Failure> {
    let in_use = InUse::begin().ok_or_else(|| {
        let why = "this process was forked while archives were open, and can't use SQLite safely: \
                   start processes with the method \"spawn\" or \"forkserver\"";
        Failure::new(Class::Other, why)
    })?;
    // Before opening: if they are replaced meanwhile, the next use notices.
    let files = identities(home);
    let core = Core::open(home, Access::Read)?;
    let (closing, closed) = mpsc::channel();
    let opened = Arc::new(OfProcess::new(OpenArchive { core, files, _closing: closing, _in_use: in_use }));
    let weak = Arc::downgrade(&opened);
    let close = move || {
        while closed.recv_timeout(CLOSE_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            let Some(opened) = weak.upgrade() else { break };
            opened.close_platters();
        }
    };
    let started = std::thread::Builder::new().name("fulgurite-close".to_owned()).spawn(close);
    started.map_err(|error| Failure::new(Class::Other, format!("can't start a thread: {error}")))?;
    Ok(opened)
}

impl OpenArchive {
    /// Whether its databases are still those of the archive in this folder.
    pub(crate) fn is_current(&self, home: &Path) -> bool {
        self.files == identities(home)
    }
}
