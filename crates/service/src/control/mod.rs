//! The control channel: the server holds the archive's lock, so it carries out commands of the
//! command line.
//!
//! ```text
//! fulgurite verify -- Connection ==== control.sock ==== Channel -- CommandLock --> Archive
//!                        |                                |
//!                     Watcher <------- events -------- Relay
//! ```
//!
//! The socket is in the archive's folder with mode 0600. Any user who can open it can also read the
//! keys in that folder, so the file's permissions are the only authentication. Messages are lines
//! of JSON. A client says hello; then its command starts, or it learns that the server is busy. It
//! sends requests one after another; the server answers each with events and finally a report or a
//! failure. The command ends with the connection. A hello without a command asks a [`Question`], or
//! for the server's status; the answer doesn't wait for commands.
//!
//! Both ends are the same program, so messages aren't versioned: the server refuses clients of
//! another version.

mod client;
mod server;
mod socket;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use fulgurite_archive::Replace;
use fulgurite_archive::catalogue::{Unlisted, UnlistedVersion};
use fulgurite_archive::unread::Hindrance;
use fulgurite_archive::watch::{Trouble, Watcher};
use fulgurite_domain::{ObjectName, VersionId};
use serde::{Deserialize, Serialize};

pub use crate::command_lock::RunningCommand;
pub use crate::health::scrub_progress::ScrubStatus;
use crate::library::Machine;
pub use client::{Connection, ControlError, ServerStatus, is_served};
pub(crate) use server::Channel;

/// The socket's name in the archive's folder.
pub const SOCKET: &str = "control.sock";
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Maximum length of a client's line.
const REQUEST_BYTES_MAX: usize = 64 << 10;

/// The first line of a client.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hello {
    fulgurite: String,
    /// The command to be started; `None` only asks.
    command: Option<String>,
    /// What is asked without a command; `None` asks for the server's status.
    #[serde(default)]
    question: Option<Question>,
}

/// What the server answers at once, whatever command is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// The open restores.
    Restores,
    /// The state of the library.
    Library,
    /// Put a machine of the library out of order.
    Fault(Machine),
    /// Repair a machine of the library.
    Repair(Machine),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Request {
    Scrub { repair: Option<Replace> },
    VerifyObjects,
    Flush,
    Recover { platter: String, store: Option<String> },
}

/// An event from the server. Those of a running command are calls of a [`Watcher`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Event {
    /// The command may send its requests.
    Turn,
    /// Another command is running.
    Working(RunningCommand),
    /// The reply to a status request.
    Status(ServerStatus),
    Refused(String),
    Stage {
        what: String,
        bytes: Option<u64>,
    },
    Expect {
        objects: u64,
        bytes: u64,
    },
    Done {
        objects: u64,
        bytes: u64,
    },
    Waits,
    Trouble(TroubleMessage),
    /// The report of a finished request.
    Report(serde_json::Value),
    /// The error of a failed request.
    Failed(String),
}

/// A [`Trouble`] in serializable form. Names and paths are bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum TroubleMessage {
    Unreadable {
        path: Vec<u8>,
        why: String,
    },
    Changed {
        path: Vec<u8>,
        attempts: u32,
    },
    Lost {
        name: Vec<u8>,
        version: u64,
        why: String,
    },
    Unreachable {
        name: Vec<u8>,
        version: u64,
        hindrance: Hindrance,
        why: String,
    },
    Renamed {
        name: Vec<u8>,
        version: u64,
        path: Vec<u8>,
        why: String,
    },
    Unlisted {
        id: [u8; 16],
        why: Unlisted,
        stored_bytes: u64,
        known_as: Option<(Vec<u8>, u64)>,
        segments: Vec<u64>,
        // Keeps its first name, since messages pass between processes.
        #[serde(rename = "key_is_back")]
        is_back: bool,
    },
    Note {
        text: String,
    },
}

impl TroubleMessage {
    fn new(trouble: &Trouble<'_>) -> Self {
        let path = |path: &Path| path.as_os_str().as_bytes().to_vec();
        match *trouble {
            Trouble::Unreadable { path: file, why } => Self::Unreadable { path: path(file), why: why.to_owned() },
            Trouble::Changed { path: file, attempts } => Self::Changed { path: path(file), attempts },
            Trouble::Lost { name, version, why } => Self::Lost { name: name.0.clone(), version, why: why.to_owned() },
            Trouble::Unreachable { name, version, hindrance, why } => {
                Self::Unreachable { name: name.0.clone(), version, hindrance, why: why.to_owned() }
            }
            Trouble::Renamed { name, version, path: file, why } => {
                Self::Renamed { name: name.0.clone(), version, path: path(file), why: why.to_owned() }
            }
            Trouble::Unlisted { version, is_back } => {
                let UnlistedVersion { id, why, stored_bytes, known_as, segments } = version.clone();
                let known_as = known_as.map(|(name, number)| (name.0, number));
                Self::Unlisted { id: id.0, why, stored_bytes, known_as, segments, is_back }
            }
            Trouble::Note(text) => Self::Note { text: text.to_owned() },
        }
    }

    fn report_to(self, watcher: &dyn Watcher) {
        let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
        match self {
            Self::Unreadable { path: file, why } => watcher.trouble(Trouble::Unreadable { path: &path(&file), why: &why }),
            Self::Changed { path: file, attempts } => watcher.trouble(Trouble::Changed { path: &path(&file), attempts }),
            Self::Lost { name, version, why } => watcher.trouble(Trouble::Lost { name: &ObjectName(name), version, why: &why }),
            Self::Unreachable { name, version, hindrance, why } => {
                watcher.trouble(Trouble::Unreachable { name: &ObjectName(name), version, hindrance, why: &why });
            }
            Self::Renamed { name, version, path: file, why } => {
                watcher.trouble(Trouble::Renamed { name: &ObjectName(name), version, path: &path(&file), why: &why });
            }
            Self::Unlisted { id, why, stored_bytes, known_as, segments, is_back } => {
                let known_as = known_as.map(|(name, number)| (ObjectName(name), number));
                let version = UnlistedVersion { id: VersionId(id), why, stored_bytes, known_as, segments };
                watcher.trouble(Trouble::Unlisted { version: &version, is_back });
            }
            Self::Note { text } => watcher.trouble(Trouble::Note(&text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn troubles_round_trip() {
        struct Kept(Mutex<Vec<TroubleMessage>>);
        impl Watcher for Kept {
            fn trouble(&self, trouble: Trouble<'_>) {
                self.0.lock().expect("no panic").push(TroubleMessage::new(&trouble));
            }
        }
        let all = vec![
            TroubleMessage::Unreadable { path: b"a\xff".to_vec(), why: "why".to_owned() },
            TroubleMessage::Changed { path: b"b".to_vec(), attempts: 3 },
            TroubleMessage::Lost { name: b"c\xfe/d".to_vec(), version: 7, why: "because".to_owned() },
            TroubleMessage::Unreachable { name: b"g\xfe".to_vec(), version: 9, hindrance: Hindrance::Absent, why: "because".to_owned() },
            TroubleMessage::Renamed { name: b"e\xfe".to_vec(), version: 8, path: b"f\xfe".to_vec(), why: "because".to_owned() },
            TroubleMessage::Unlisted {
                id: [7; 16],
                why: Unlisted::Incomplete,
                stored_bytes: 9,
                known_as: Some((b"d\xff".to_vec(), 3)),
                segments: vec![1, 5],
                is_back: true,
            },
            TroubleMessage::Note { text: "note\nof two lines".to_owned() },
        ];
        let watcher = Kept(Mutex::default());
        for message in &all {
            let line = serde_json::to_string(&Event::Trouble(message.clone())).expect("JSON");
            assert!(!line.contains('\n'), "{line}");
            let Event::Trouble(read) = serde_json::from_str(&line).expect("JSON") else { panic!("{line}") };
            read.report_to(&watcher);
        }
        assert_eq!(*watcher.0.lock().expect("no panic"), all);
    }
}
