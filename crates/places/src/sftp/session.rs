//! A session: an `ssh` process, packets with deadlines, and requests.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::super::{Cause, Deadlines, Refusal};
use super::packet::{self, Answer, Attributes, Request};

/// Bytes of messages of `ssh` that are read after a failure.
const MESSAGE_BYTES_MAX: usize = 4 << 10;
/// How long `ssh` may take to write its last message after it closed the session.
const LAST_MESSAGE: Duration = Duration::from_secs(1);

/// Names in a folder, which may have any encoding.
pub(super) type Names = Vec<(Vec<u8>, Attributes)>;

/// Why a request failed.
pub(super) enum Failure {
    /// The server answered it so. The session goes on.
    Status { code: u32, message: String },
    /// The session is unusable.
    Broken(Refusal),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Broken(refusal)
    }
}

pub(super) struct Session {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    errors: ChildStderr,
    deadlines: Deadlines,
    /// Received and not yet taken.
    received: Vec<u8>,
    next_id: u32,
    extensions: Vec<String>,
}

impl Session {
    /// Starts `ssh` and the SFTP subsystem.
    pub(super) fn open(mut ssh: Command, deadlines: Deadlines) -> Result<Self, Refusal> {
        ssh.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = ssh.spawn().map_err(|error| {
            Refusal::new(Cause::Unsupported, format!("the program ssh can't be started ({error}); install OpenSSH's client"))
        })?;
        let (Some(input), Some(output), Some(errors)) = (child.stdin.take(), child.stdout.take(), child.stderr.take()) else {
            return Err(Refusal::new(Cause::Fault, "ssh was started without pipes"));
        };
        for pipe in [input.as_fd(), output.as_fd(), errors.as_fd()] {
            rustix::fs::fcntl_setfl(pipe, OFlags::NONBLOCK)
                .map_err(|errno| Refusal::new(Cause::Fault, io::Error::from(errno).to_string()))?;
        }
        let (received, extensions) = Default::default();
        let mut session = Self { child, input, output, errors, deadlines, received, next_id: 0, extensions };
        // The request for a version has no identifier; the version is in its place.
        session.send(&Request::new(packet::INIT, 3).finish(), deadlines.connect)?;
        let answer = session.packet(deadlines.connect)?;
        let mut answer = Answer(&answer);
        let (kind, version) = (answer.byte()?, answer.number()?);
        if kind != packet::VERSION || version != 3 {
            return Err(Refusal::new(Cause::Unsupported, "the server does not speak SFTP version 3"));
        }
        while !answer.0.is_empty() {
            session.extensions.push(String::from_utf8_lossy(answer.string()?).into_owned());
            answer.string()?;
        }
        Ok(session)
    }

    pub(super) fn supports(&self, extension: &str) -> bool {
        self.extensions.iter().any(|known| known == extension)
    }

    /// Begins a request; [`Self::issue`] sends it.
    pub(super) fn request(&mut self, kind: u8) -> (u32, Request) {
        self.next_id = self.next_id.wrapping_add(1);
        (self.next_id, Request::new(kind, self.next_id))
    }

    pub(super) fn issue(&mut self, request: Request) -> Result<(), Refusal> {
        let wait = self.deadlines.first_byte;
        self.send(&request.finish(), wait)
    }

    /// The next answer: its type, identifier, and fields.
    pub(super) fn answer(&mut self) -> Result<(u8, u32, Vec<u8>), Refusal> {
        let mut packet = self.packet(self.deadlines.first_byte)?;
        let mut fields = Answer(&packet);
        let (kind, id) = (fields.byte()?, fields.number()?);
        packet.drain(..5);
        Ok((kind, id, packet))
    }

    /// Sends a request, and returns the fields of its answer, which must be of a certain type.
    fn ask(&mut self, id: u32, request: Request, expected: u8) -> Result<Vec<u8>, Failure> {
        self.issue(request)?;
        let (kind, answered, fields) = self.answer()?;
        if answered != id {
            return Err(packet::malformed().into());
        }
        match kind {
            packet::STATUS => match status(&fields)? {
                Failure::Status { code: packet::STATUS_OK, .. } if expected == packet::STATUS => Ok(fields),
                failure => Err(failure),
            },
            kind if kind == expected => Ok(fields),
            _ => Err(packet::malformed().into()),
        }
    }

    pub(super) fn stat(&mut self, path: &str) -> Result<Attributes, Failure> {
        let (id, request) = self.request(packet::STAT);
        let fields = self.ask(id, request.string(path.as_bytes()), packet::ATTRS)?;
        Ok(Answer(&fields).attributes()?)
    }

    pub(super) fn fstat(&mut self, handle: &[u8]) -> Result<Attributes, Failure> {
        let (id, request) = self.request(packet::FSTAT);
        let fields = self.ask(id, request.string(handle), packet::ATTRS)?;
        Ok(Answer(&fields).attributes()?)
    }

    pub(super) fn open_file(&mut self, path: &str, flags: u32) -> Result<Vec<u8>, Failure> {
        let (id, request) = self.request(packet::OPEN);
        let fields = self.ask(id, request.string(path.as_bytes()).number(flags).number(0), packet::HANDLE)?;
        Ok(Answer(&fields).string()?.to_vec())
    }

    pub(super) fn open_folder(&mut self, path: &str) -> Result<Vec<u8>, Failure> {
        let (id, request) = self.request(packet::OPENDIR);
        let fields = self.ask(id, request.string(path.as_bytes()), packet::HANDLE)?;
        Ok(Answer(&fields).string()?.to_vec())
    }

    /// The next names in a folder; `None` after the last ones.
    pub(super) fn names(&mut self, handle: &[u8]) -> Result<Option<Names>, Failure> {
        let (id, request) = self.request(packet::READDIR);
        let fields = match self.ask(id, request.string(handle), packet::NAME) {
            Err(Failure::Status { code: packet::STATUS_EOF, .. }) => return Ok(None),
            result => result?,
        };
        let mut fields = Answer(&fields);
        let mut names = Vec::new();
        // A wrong count ends with the packet.
        for _ in 0..fields.number()? {
            let name = fields.string()?.to_vec();
            fields.string()?;
            names.push((name, fields.attributes()?));
        }
        if names.is_empty() {
            return Err(packet::malformed().into());
        }
        Ok(Some(names))
    }

    pub(super) fn close(&mut self, handle: &[u8]) -> Result<(), Failure> {
        let (id, request) = self.request(packet::CLOSE);
        self.ask(id, request.string(handle), packet::STATUS).map(drop)
    }

    pub(super) fn remove(&mut self, path: &str) -> Result<(), Failure> {
        let (id, request) = self.request(packet::REMOVE);
        self.ask(id, request.string(path.as_bytes()), packet::STATUS).map(drop)
    }

    pub(super) fn make_folder(&mut self, path: &str) -> Result<(), Failure> {
        let (id, request) = self.request(packet::MKDIR);
        self.ask(id, request.string(path.as_bytes()).number(0), packet::STATUS).map(drop)
    }

    /// Syncs a file, if the server can do that.
    pub(super) fn sync(&mut self, handle: &[u8]) -> Result<(), Failure> {
        const SYNC: &str = "fsync@openssh.com";
        if !self.supports(SYNC) {
            return Ok(());
        }
        let (id, request) = self.request(packet::EXTENDED);
        self.ask(id, request.string(SYNC.as_bytes()).string(handle), packet::STATUS).map(drop)
    }

    /// Renames a file and replaces another one.
    pub(super) fn rename(&mut self, from: &str, to: &str) -> Result<(), Failure> {
        const RENAME: &str = "posix-rename@openssh.com";
        if self.supports(RENAME) {
            let (id, request) = self.request(packet::EXTENDED);
            let request = request.string(RENAME.as_bytes()).string(from.as_bytes()).string(to.as_bytes());
            return self.ask(id, request, packet::STATUS).map(drop);
        }
        // Version 3 refuses to replace. For a moment, neither file has the name.
        match self.remove(to) {
            Ok(()) | Err(Failure::Status { code: packet::STATUS_NO_SUCH_FILE, .. }) => {}
            Err(failure) => return Err(failure),
        }
        let (id, request) = self.request(packet::RENAME);
        self.ask(id, request.string(from.as_bytes()).string(to.as_bytes()), packet::STATUS).map(drop)
    }

    fn send(&mut self, mut bytes: &[u8], wait: Duration) -> Result<(), Refusal> {
        while !bytes.is_empty() {
            match rustix::io::write(&self.input, bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(Errno::AGAIN) => {
                    if !ready(self.input.as_fd(), PollFlags::OUT, wait)? {
                        return Err(Refusal::new(Cause::TimedOut, format!("the server took no request within {wait:?}")));
                    }
                }
                Err(Errno::INTR) => {}
                Err(_) => return Err(self.ended()),
            }
        }
        Ok(())
    }

    /// One packet without its length. Its first byte may take `wait`, each further one the deadline
    /// between bytes.
    fn packet(&mut self, wait: Duration) -> Result<Vec<u8>, Refusal> {
        let mut wait = wait;
        loop {
            if let Some(length) = self.received.first_chunk::<4>() {
                let bytes = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
                if !(5..=packet::PACKET_BYTES_MAX).contains(&bytes) {
                    return Err(packet::malformed());
                }
                if self.received.len() >= 4 + bytes {
                    let rest = self.received.split_off(4 + bytes);
                    let mut packet = std::mem::replace(&mut self.received, rest);
                    packet.drain(..4);
                    return Ok(packet);
                }
            }
            let mut buffer = [0; 64 << 10];
            match rustix::io::read(&self.output, &mut buffer) {
                Ok(0) => return Err(self.ended()),
                Ok(bytes) => {
                    self.received.extend_from_slice(&buffer[..bytes]);
                    wait = self.deadlines.between_bytes;
                }
                Err(Errno::AGAIN) => {
                    if !ready(self.output.as_fd(), PollFlags::IN, wait)? {
                        return Err(Refusal::new(Cause::TimedOut, format!("no answer within {wait:?}")));
                    }
                }
                Err(Errno::INTR) => {}
                Err(_) => return Err(self.ended()),
            }
        }
    }

    /// Why `ssh` ended the session, from its messages.
    fn ended(&mut self) -> Refusal {
        let mut message = Vec::new();
        let mut buffer = [0; 1024];
        while message.len() < MESSAGE_BYTES_MAX {
            match self.errors.read(&mut buffer) {
                Ok(0) => break,
                Ok(bytes) => message.extend_from_slice(&buffer[..bytes]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !ready(self.errors.as_fd(), PollFlags::IN, LAST_MESSAGE).unwrap_or(false) {
                        break;
                    }
                }
                Err(_) => break,
            }
        }
        let message = String::from_utf8_lossy(&message);
        let lines = message.lines().map(str::trim).filter(|line| !line.is_empty());
        let message: String = lines.collect::<Vec<_>>().join("; ").chars().filter(|c| !c.is_control()).take(400).collect();
        let denied = ["Permission denied", "Host key verification failed", "Too many authentication failures", "not a regular file"];
        let cause = match &message {
            message if denied.iter().any(|text| message.contains(text)) => Cause::Denied,
            message if message.contains("timed out") => Cause::TimedOut,
            message if message.contains("subsystem request failed") => Cause::Unsupported,
            _ => Cause::Connection,
        };
        Refusal::new(cause, if message.is_empty() { "the session ended".to_owned() } else { message })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads the fields of a status.
pub(super) fn status(fields: &[u8]) -> Result<Failure, Refusal> {
    let mut fields = Answer(fields);
    let code = fields.number()?;
    // Old servers send no message.
    let message = fields.string().unwrap_or_default();
    let message = String::from_utf8_lossy(message).chars().filter(|c| !c.is_control()).take(200).collect();
    Ok(Failure::Status { code, message })
}

/// Waits until a pipe is ready. False if the deadline passes.
fn ready(pipe: BorrowedFd<'_>, flags: PollFlags, wait: Duration) -> Result<bool, Refusal> {
    let deadline = Instant::now() + wait;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(|_| Refusal::new(Cause::Unsupported, "the deadline is too long"))?;
        match poll(&mut [PollFd::from_borrowed_fd(pipe, flags)], Some(&timeout)) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Refusal::new(Cause::Fault, io::Error::from(errno).to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of a session with a shell script instead of `ssh`.
    fn opened(script: &str, connect: Duration) -> Result<Session, Refusal> {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        Session::open(shell, Deadlines { connect, ..Deadlines::default() })
    }

    fn refused(script: &str) -> Refusal {
        opened(script, Deadlines::default().connect).err().unwrap_or_else(|| panic!("{script}"))
    }

    const VERSION_3: &str = r"printf '\000\000\000\005\002\000\000\000\003'";

    #[test]
    fn messages_of_ssh_tell_what_went_wrong() {
        for (message, cause) in [
            ("u@h: Permission denied (publickey).", Cause::Denied),
            ("Host key verification failed.", Cause::Denied),
            ("ssh: connect to host h port 22: Connection refused", Cause::Connection),
            ("ssh: Could not resolve hostname h: Name or service not known", Cause::Connection),
            ("ssh: connect to host h port 22: Connection timed out", Cause::TimedOut),
            ("subsystem request failed on channel 0", Cause::Unsupported),
        ] {
            let refusal = refused(&format!("echo '{message}' >&2; exit 255"));
            assert_eq!((refusal.cause, refusal.detail.as_str()), (cause, message));
        }
        assert_eq!(refused("exit 1").cause, Cause::Connection);
    }

    #[test]
    fn a_program_that_is_not_installed_is_named() {
        let refusal = Session::open(Command::new("no-such-program-of-fulgurite"), Deadlines::default()).err().expect("absent");
        assert!(refusal.cause == Cause::Unsupported && refusal.detail.contains("OpenSSH"), "{refusal}");
    }

    #[test]
    fn a_server_that_stays_silent_is_given_up() {
        for script in ["exec sed d", r"printf '\000\000'; exec sed d"] {
            let deadlines =
                Deadlines { connect: Duration::from_millis(200), between_bytes: Duration::from_millis(200), ..Deadlines::default() };
            let mut shell = Command::new("sh");
            shell.args(["-c", script]);
            assert_eq!(Session::open(shell, deadlines).err().expect("silent").cause, Cause::TimedOut, "{script}");
        }
    }

    #[test]
    fn what_is_no_sftp_is_refused() {
        for (output, cause) in [
            ("Welcome to this machine, it is not for files", Cause::Fault),
            (r"\000\000\000\000", Cause::Fault),
            // Version 2.
            (r"\000\000\000\005\002\000\000\000\002", Cause::Unsupported),
            // An extension that is cut off.
            (r"\000\000\000\011\002\000\000\000\003\000\000\000\377", Cause::Fault),
        ] {
            // It reads on, so that the request arrives in any case.
            assert_eq!(refused(&format!("printf '{output}'; exec sed d")).cause, cause, "{output}");
        }
    }

    #[test]
    fn a_session_that_ends_is_a_fault_of_the_connection() {
        let script = format!("{VERSION_3}; head -c 9 >/dev/null");
        let mut session = opened(&script, Deadlines::default().connect).unwrap_or_else(|refusal| panic!("{refusal}"));
        let Err(Failure::Broken(refusal)) = session.stat("x") else { panic!("it ended") };
        assert_eq!(refusal.cause, Cause::Connection);
    }

    #[test]
    fn an_answer_to_another_request_is_refused() {
        // A status OK for request 9 arrives for request 1.
        let script = format!(
            r"{VERSION_3}; printf '\000\000\000\021\145\000\000\000\011\000\000\000\000\000\000\000\000\000\000\000\000'; cat >/dev/null"
        );
        let mut session = opened(&script, Deadlines::default().connect).unwrap_or_else(|refusal| panic!("{refusal}"));
        let Err(Failure::Broken(refusal)) = session.remove("x") else { panic!("it is wrong") };
        assert_eq!(refusal.cause, Cause::Fault);
    }
}
