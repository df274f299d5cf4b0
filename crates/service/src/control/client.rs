//! The client side of the control channel, for the command line.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fulgurite_archive::watch::Watcher;
use fulgurite_archive::{FlushReport, ObjectsReport, Replace, ScrubReport};
use fulgurite_domain::PlatterId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Event, Hello, Question, Request, RunningCommand, SOCKET, ScrubStatus, VERSION, socket};

/// How long the server may take to close a connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of bytes that the server may still send before it closes a connection.
const CLOSE_BYTES_MAX: u64 = 1 << 20;

/// Why the server didn't carry out a command.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// A server is running, but can't be reached.
    #[error("the server that uses this archive can't be reached over {path}: {source}")]
    Unreachable {
        /// The socket.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The server is carrying out another command.
    #[error("the server is busy with `{}` since {since} UTC; try again when it has finished", running.what)]
    Busy {
        /// The running command.
        running: RunningCommand,
        /// Its start, formatted.
        since: String,
    },
    /// The server refused the connection.
    #[error("{0}")]
    Refused(String),
    /// The command failed.
    #[error("{0}")]
    Failed(String),
    /// The connection ended before the command did, or the server sent something unexpected.
    #[error(
        "the server closed the connection before the command finished, so the outcome is unknown{}; see the server's log",
        note(source)
    )]
    Broken {
        /// The error of the operating system, if any.
        source: Option<io::Error>,
    },
}

fn note(source: &Option<io::Error>) -> String {
    source.as_ref().map_or_else(String::new, |source| format!(" ({source})"))
}

/// Whether a server of the archive in `home` listens for commands. True also if this user may not
/// open the socket, and so can't tell whether its server still runs.
#[must_use]
pub fn is_served(home: &Path) -> bool {
    socket::connect(home).map_or_else(|error| error.kind() == io::ErrorKind::PermissionDenied, |_| true)
}

/// The status of a running server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// The command that the server is carrying out.
    pub running_command: Option<RunningCommand>,
    /// How far the server's own scrub is; `None` if it is turned off.
    pub scrub: Option<ScrubStatus>,
}

/// A connection to the server of an archive, which runs no other command meanwhile. Requests fail
/// with a [`ControlError`] if the server fails or the connection breaks.
#[derive(Debug)]
pub struct Connection {
    stream: Mutex<BufReader<UnixStream>>,
}

impl Drop for Connection {
    /// Waits until the server has ended the command, so that the next command of a script doesn't
    /// find it busy with this one.
    fn drop(&mut self) {
        let stream = self.stream.get_mut().unwrap_or_else(PoisonError::into_inner);
        let socket = stream.get_mut();
        // The timeout keeps a hanging server from blocking the client.
        if socket.shutdown(Shutdown::Write).is_ok() && socket.set_read_timeout(Some(CLOSE_TIMEOUT)).is_ok() {
            let _ = io::copy(&mut stream.take(CLOSE_BYTES_MAX), &mut io::sink());
        }
    }
}

impl Connection {
    /// Asks the server of the archive in `home` to start `command`. Returns `None` if no server is
    /// running. `time` formats seconds since 1970, for the error of a busy server.
    ///
    /// # Errors
    /// [`ControlError`] if the server is busy, refuses the command, or can't be reached.
    pub fn open(home: &Path, command: &str, time: fn(i64) -> String) -> Result<Option<Self>, ControlError> {
        let Some(connection) = Self::connect(home, Some(command), None)? else { return Ok(None) };
        match connection.receive()? {
            Event::Turn => Ok(Some(connection)),
            Event::Working(running) => Err(ControlError::Busy { since: time(running.since as i64), running }),
            Event::Refused(why) => Err(ControlError::Refused(why)),
            _ => Err(ControlError::Broken { source: None }),
        }
    }

    /// The status of the server of the archive in `home`; `None` if no server is running.
    ///
    /// # Errors
    /// [`ControlError`] if the server can't be reached or has another version.
    pub fn status(home: &Path) -> Result<Option<ServerStatus>, ControlError> {
        let Some(connection) = Self::connect(home, None, None)? else { return Ok(None) };
        match connection.receive()? {
            Event::Status(status) => Ok(Some(status)),
            Event::Refused(why) => Err(ControlError::Refused(why)),
            _ => Err(ControlError::Broken { source: None }),
        }
    }

    /// Asks the server of the archive in `home`; `None` if no server is running.
    ///
    /// # Errors
    /// [`ControlError::Failed`] if the server can't do what was asked; others if it can't be
    /// reached or has another version.
    pub fn ask(home: &Path, question: Question) -> Result<Option<serde_json::Value>, ControlError> {
        let Some(connection) = Self::connect(home, None, Some(question))? else { return Ok(None) };
        match connection.receive()? {
            Event::Report(report) => Ok(Some(report)),
            Event::Failed(why) => Err(ControlError::Failed(why)),
            Event::Refused(why) => Err(ControlError::Refused(why)),
            _ => Err(ControlError::Broken { source: None }),
        }
    }

    fn connect(home: &Path, command: Option<&str>, question: Option<Question>) -> Result<Option<Self>, ControlError> {
        let stream = match socket::connect(home) {
            Ok(stream) => stream,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => return Ok(None),
            Err(source) => return Err(ControlError::Unreachable { path: home.join(SOCKET), source }),
        };
        let connection = Self { stream: Mutex::new(BufReader::new(stream)) };
        connection.send(&Hello { fulgurite: VERSION.to_owned(), command: command.map(str::to_owned), question })?;
        Ok(Some(connection))
    }

    /// Runs [`Archive::scrub`](fulgurite_archive::Archive::scrub) in the server.
    pub fn scrub(&self, repair: Option<Replace>, watcher: &dyn Watcher) -> Result<ScrubReport, ControlError> {
        self.call(&Request::Scrub { repair }, watcher)
    }

    /// Runs [`Archive::verify_objects`](fulgurite_archive::Archive::verify_objects) in the server.
    pub fn verify_objects(&self, watcher: &dyn Watcher) -> Result<ObjectsReport, ControlError> {
        self.call(&Request::VerifyObjects, watcher)
    }

    /// Runs [`Archive::flush`](fulgurite_archive::Archive::flush) in the server.
    pub fn flush(&self, watcher: &dyn Watcher) -> Result<FlushReport, ControlError> {
        self.call(&Request::Flush, watcher)
    }

    /// Runs [`Archive::recover`](fulgurite_archive::Archive::recover) in the server.
    pub fn recover(&self, platter: PlatterId, store: Option<&str>, watcher: &dyn Watcher) -> Result<String, ControlError> {
        self.call(&Request::Recover { platter: platter.to_string(), store: store.map(str::to_owned) }, watcher)
    }

    /// Sends a request, passes the server's events to `watcher`, and returns the report.
    fn call<R: DeserializeOwned>(&self, request: &Request, watcher: &dyn Watcher) -> Result<R, ControlError> {
        self.send(request)?;
        loop {
            match self.receive()? {
                Event::Stage { what, bytes } => watcher.stage(&what, bytes),
                Event::Expect { objects, bytes } => watcher.expect(objects, bytes),
                Event::Done { objects, bytes } => watcher.done(objects, bytes),
                Event::Waits => watcher.waits(),
                Event::Trouble(message) => message.report_to(watcher),
                Event::Report(report) => {
                    return serde_json::from_value(report).map_err(|error| ControlError::Broken { source: Some(error.into()) });
                }
                Event::Failed(why) => return Err(ControlError::Failed(why)),
                Event::Turn | Event::Working(_) | Event::Status(_) | Event::Refused(_) => {
                    return Err(ControlError::Broken { source: None });
                }
            }
        }
    }

    fn send(&self, message: &impl serde::Serialize) -> Result<(), ControlError> {
        let mut line = serde_json::to_vec(message).expect("all keys of messages are strings");
        line.push(b'\n');
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        match stream.get_mut().write_all(&line) {
            // The server may have sent a reason and closed the connection; the reason is read next.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(ControlError::Broken { source: Some(error) }),
            _ => Ok(()),
        }
    }

    fn receive(&self) -> Result<Event, ControlError> {
        let mut line = String::new();
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let broken = |source| ControlError::Broken { source };
        match stream.read_line(&mut line) {
            Ok(_) if line.ends_with('\n') => serde_json::from_str(&line).map_err(|error| broken(Some(error.into()))),
            Ok(_) => Err(broken(None)),
            Err(error) => Err(broken(Some(error))),
        }
    }
}
