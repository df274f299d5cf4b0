//! Folders on other machines, over SFTP.
//!
//! ```text
//! Sftp --connect--> ssh -s sftp     the system's client, with its keys, agent and configuration
//!                      | pipes
//!                   Session         packets of SFTP version 3, with deadlines
//! ```
//!
//! Each connection is an `ssh` process of its own, which shares no session with others. It never
//! asks for a password: the key comes from the option `key`, an agent, or ssh's configuration, and
//! the host must be known. Symbolic links are followed by the server, as its settings say.
//!
//! A missing file is [`Cause::Missing`] only while the folder of the place exists, with its marker
//! if one is set: see [`super::Folder`].

mod packet;
mod session;

use std::collections::VecDeque;
use std::io::Read;
use std::process::Command;
use std::time::Duration;

use fulgurite_domain::Modified;
use fulgurite_new_file::PART_PREFIX;

use self::packet::{Answer, Attributes};
use self::session::{Failure, Session, status};
use super::address::Address;
use super::location;
use super::{Cause, Connection, Deadlines, Listed, Place, Refusal, pass};

/// Bytes per request. All servers support that many.
const PIECE_BYTES: usize = 32 << 10;
/// Requests under way: 2 MiB, enough for 100 MB/s at a round trip of 20 ms.
const WINDOW: usize = 64;
/// Depth of folders that a listing descends to.
const DEPTH_MAX: usize = 256;

/// A folder on another machine.
#[derive(Debug, Clone)]
pub struct Sftp {
    description: String,
    /// Arguments of `ssh`.
    arguments: Vec<String>,
    /// The folder's path on the server.
    root: String,
    marker: Option<String>,
    deadlines: Deadlines,
}

impl Sftp {
    /// The folder at an address of the form `sftp://user@host:port/path`.
    ///
    /// # Errors
    /// [`Cause::Unsupported`] if the port is invalid.
    pub(super) fn new(address: &Address) -> Result<Self, Refusal> {
        let (authority, _) = address.split();
        let path = &address.path[authority.len()..];
        let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        let (host, port) = match host.rsplit_once(':') {
            // A colon inside of brackets is part of an address.
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (host, None),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = port.map(str::parse::<u16>).transpose();
        let port = port.map_err(|_| Refusal::new(Cause::Unsupported, format!("{address}: the port must be a number up to 65535")))?;
        let deadlines = address.deadlines();
        let mut arguments: Vec<String> = ["-s", "-T", "-x", "-a"].map(str::to_owned).to_vec();
        let mut set = |option: String| arguments.extend(["-o".to_owned(), option]);
        // A session shared with other connections would share their faults.
        for option in ["BatchMode=yes", "ControlMaster=no", "ControlPath=none", "ClearAllForwardings=yes", "LogLevel=ERROR"] {
            set(option.to_owned());
        }
        set(format!("ConnectTimeout={}", deadlines.connect.as_secs().max(1)));
        if let Some(key) = address.options.get("key") {
            set("IdentitiesOnly=yes".to_owned());
            set(format!("IdentityFile={}", quoted(key)));
        }
        if let Some(hosts) = address.options.get("known_hosts") {
            set(format!("UserKnownHostsFile={}", quoted(hosts)));
        }
        if let Some(config) = address.options.get("config") {
            arguments.extend(["-F".to_owned(), config.clone()]);
        }
        if let Some(port) = port {
            arguments.extend(["-p".to_owned(), port.to_string()]);
        }
        if let Some(user) = user {
            arguments.extend(["-l".to_owned(), user.to_owned()]);
        }
        arguments.extend(["--", host, "sftp"].map(str::to_owned));
        // A relative path starts at the home folder.
        let root = path.strip_prefix("/~").map_or(path, |path| path.trim_start_matches('/'));
        let root = if root == "/" { root } else { root.trim_end_matches('/') };
        let root = if root.is_empty() { "." } else { root }.to_owned();
        let marker = address.options.get("marker").cloned();
        Ok(Self { description: address.to_string(), arguments, root, marker, deadlines })
    }

    fn open(&self) -> Result<Session, Refusal> {
        let mut ssh = Command::new("ssh");
        ssh.args(&self.arguments);
        Session::open(ssh, self.deadlines)
            .map_err(|refusal| Refusal::new(refusal.cause, format!("{}: {}", self.description, refusal.detail)))
    }
}

/// A path in quotes, as ssh's options take paths with spaces.
fn quoted(path: &str) -> String {
    format!("\"{}\"", path.replace('%', "%%"))
}

impl Place for Sftp {
    fn connect(&self) -> Result<Box<dyn Connection>, Refusal> {
        let mut connection = SftpConnection { place: self.clone(), session: None };
        connection.run("connecting", check_root)?;
        Ok(Box::new(connection))
    }

    fn describe(&self) -> String {
        self.description.clone()
    }
}

struct SftpConnection {
    place: Sftp,
    /// Opened again after it broke.
    session: Option<Session>,
}

impl SftpConnection {
    fn run<T>(&mut self, location: &str, work: impl FnOnce(&mut Session, &Sftp) -> Result<T, Failure>) -> Result<T, Refusal> {
        let mut session = match self.session.take() {
            Some(session) => session,
            None => self.place.open()?,
        };
        let about = |refusal: Refusal| match refusal.detail.is_empty() {
            true => Refusal::new(refusal.cause, location),
            false => Refusal::new(refusal.cause, format!("{location}: {}", refusal.detail)),
        };
        match work(&mut session, &self.place) {
            Ok(value) => {
                self.session = Some(session);
                Ok(value)
            }
            Err(Failure::Broken(refusal)) => Err(about(refusal)),
            Err(Failure::Status { code: packet::STATUS_NO_SUCH_FILE, message }) => {
                // The file is missing only if its place is not.
                let root = check_root(&mut session, &self.place);
                let refusal = match root {
                    Ok(()) => Refusal::new(Cause::Missing, message),
                    Err(Failure::Status { code, message }) => refusal(code, message),
                    Err(Failure::Broken(refusal)) => return Err(about(refusal)),
                };
                self.session = Some(session);
                Err(about(refusal))
            }
            Err(Failure::Status { code, message }) => {
                self.session = Some(session);
                Err(about(refusal(code, message)))
            }
        }
    }

    fn path(&self, location: &str) -> Result<String, Refusal> {
        location::check(location)?;
        Ok(join(&self.place.root, location))
    }
}

/// A refusal that leaves the session usable.
fn refusal(code: u32, message: String) -> Refusal {
    let cause = match code {
        packet::STATUS_NO_SUCH_FILE => Cause::Missing,
        packet::STATUS_PERMISSION_DENIED => Cause::Denied,
        packet::STATUS_UNSUPPORTED => Cause::Unsupported,
        _ => Cause::Fault,
    };
    Refusal::new(cause, message)
}

fn join(root: &str, location: &str) -> String {
    let separator = if root.ends_with('/') { "" } else { "/" };
    format!("{root}{separator}{location}")
}

/// Makes sure that the folder of the place exists, and contains its marker.
fn check_root(session: &mut Session, place: &Sftp) -> Result<(), Failure> {
    let absent = |problem: String| Err(Failure::Broken(Refusal::new(Cause::Absent, problem)));
    let root = &place.root;
    match session.stat(root) {
        Ok(attributes) if attributes.is_folder() => {}
        Ok(_) => return absent(format!("{root} is not a folder")),
        Err(Failure::Status { code: packet::STATUS_NO_SUCH_FILE, .. }) => {
            return absent(format!("the folder {root} does not exist; is it mounted?"));
        }
        Err(failure) => return Err(failure),
    }
    let Some(marker) = &place.marker else { return Ok(()) };
    match session.stat(&join(root, marker)) {
        Ok(_) => Ok(()),
        Err(Failure::Status { code: packet::STATUS_NO_SUCH_FILE, .. }) => {
            absent(format!("{root} lacks its marker {marker:?}; is the right file system mounted?"))
        }
        Err(failure) => Err(failure),
    }
}

fn file_bytes(attributes: Attributes) -> Result<u64, Failure> {
    let unusable = |cause, problem: &str| Err(Failure::Broken(Refusal::new(cause, problem)));
    match attributes.bytes {
        _ if !attributes.is_file() => unusable(Cause::Unsupported, "it is not a file"),
        Some(bytes) => Ok(bytes),
        None => unusable(Cause::Unsupported, "the server states no length"),
    }
}

impl Connection for SftpConnection {
    fn length(&mut self, location: &str) -> Result<u64, Refusal> {
        let path = self.path(location)?;
        self.run(location, |session, _| file_bytes(session.stat(&path)?))
    }

    fn read(&mut self, location: &str, sink: &mut dyn FnMut(&[u8]) -> bool) -> Result<u64, Refusal> {
        let path = self.path(location)?;
        self.run(location, |session, _| {
            let handle = session.open_file(&path, packet::OPEN_READ)?;
            let stated = file_bytes(session.fstat(&handle)?)?;
            read(session, &handle, stated, sink)?;
            session.close(&handle)?;
            Ok(stated)
        })
    }

    /// Symbolic links and temporary files of writes are left out.
    ///
    /// Locations are UTF-8: if some names are not, all other files are listed first, and then the
    /// listing fails and names one of them.
    fn list(&mut self, each: &mut dyn FnMut(Listed) -> bool) -> Result<(), Refusal> {
        self.run("listing", |session, place| {
            let mut unnamed = None;
            let listed = list(session, &place.root, "", 0, &mut unnamed, each);
            let complete = match listed {
                Err(Failure::Status { code: packet::STATUS_NO_SUCH_FILE, .. }) => {
                    check_root(session, place)?;
                    return Err(Failure::Broken(Refusal::new(Cause::Fault, "a folder vanished during the listing")));
                }
                listed => listed?,
            };
            match unnamed {
                Some(name) if complete => {
                    let detail = format!("{name} is not valid UTF-8; rename such files, other files are unaffected");
                    Err(Failure::Broken(Refusal::new(Cause::Unsupported, detail)))
                }
                _ => Ok(()),
            }
        })
    }

    fn write(&mut self, location: &str, bytes: u64, content: &mut dyn Read) -> Result<(), Refusal> {
        let path = self.path(location)?;
        let part = join(&self.place.root, &location::part_beside(location));
        let written = self.run(location, |session, place| {
            check_root(session, place)?;
            for (end, _) in location.match_indices('/') {
                let folder = join(&place.root, &location[..end]);
                // The answer to an existing folder differs between servers.
                if let Err(failure) = session.make_folder(&folder)
                    && !session.stat(&folder).is_ok_and(Attributes::is_folder)
                {
                    return Err(failure);
                }
            }
            let handle = session.open_file(&part, packet::OPEN_NEW)?;
            write(session, &handle, bytes, content)?;
            session.sync(&handle)?;
            session.close(&handle)?;
            session.rename(&part, &path)
        });
        if written.is_err() {
            let _ = self.run(location, |session, _| session.remove(&part));
        }
        written
    }

    fn remove(&mut self, location: &str) -> Result<(), Refusal> {
        let path = self.path(location)?;
        match self.run(location, |session, _| session.remove(&path)) {
            Err(Refusal { cause: Cause::Missing, .. }) => Ok(()),
            result => result,
        }
    }

    fn presigned_url(&mut self, _: &str, _: Duration) -> Result<Option<String>, Refusal> {
        Ok(None)
    }
}

/// A request to read a piece, and its answer once that arrived.
struct Piece {
    id: u32,
    offset: u64,
    bytes: usize,
    content: Option<Vec<u8>>,
}

fn request(session: &mut Session, handle: &[u8], offset: u64, bytes: usize) -> Result<Piece, Failure> {
    let (id, request) = session.request(packet::READ);
    let number = u32::try_from(bytes).expect("pieces are short");
    session.issue(request.string(handle).long(offset).number(number))?;
    Ok(Piece { id, offset, bytes, content: None })
}

/// Reads `stated` bytes, several pieces at a time, and makes sure that nothing follows.
///
/// A failure leaves answers under way, so the session must not be used again.
fn read(session: &mut Session, handle: &[u8], stated: u64, sink: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Failure> {
    let broken = |cause, detail: &str| Failure::Broken(Refusal::new(cause, detail));
    let mut pieces: VecDeque<Piece> = VecDeque::new();
    let (mut asked, mut received) = (0, 0);
    while received < stated {
        while pieces.len() < WINDOW && asked < stated {
            let bytes = usize::try_from(stated - asked).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
            pieces.push_back(request(session, handle, asked, bytes)?);
            asked += bytes as u64;
        }
        let (kind, id, fields) = session.answer()?;
        let piece = pieces.iter_mut().find(|piece| piece.id == id && piece.content.is_none()).ok_or_else(packet::malformed)?;
        match kind {
            packet::DATA => {
                let content = Answer(&fields).string()?;
                if content.is_empty() || content.len() > piece.bytes {
                    return Err(packet::malformed().into());
                }
                piece.content = Some(content.to_vec());
            }
            // Empty content marks the end of the file.
            packet::STATUS => match status(&fields)? {
                Failure::Status { code: packet::STATUS_EOF, .. } => piece.content = Some(Vec::new()),
                Failure::Status { code, message } => return Err(Failure::Broken(refusal(code, message))),
                failure => return Err(failure),
            },
            _ => return Err(packet::malformed().into()),
        }
        while let Some(content) = pieces.front_mut().and_then(|piece| piece.content.take()) {
            let Some(piece) = pieces.pop_front() else { break };
            if content.is_empty() {
                return Err(broken(Cause::Cut { received, stated }, "the file is shorter than the server said"));
            }
            pass(sink, &content)?;
            received += content.len() as u64;
            if content.len() < piece.bytes {
                let rest = request(session, handle, piece.offset + content.len() as u64, piece.bytes - content.len())?;
                pieces.push_front(rest);
            }
        }
    }
    let end = request(session, handle, stated, 1)?;
    match session.answer()? {
        (packet::STATUS, id, fields) if id == end.id => match status(&fields)? {
            Failure::Status { code: packet::STATUS_EOF, .. } => Ok(()),
            Failure::Status { code, message } => Err(Failure::Broken(refusal(code, message))),
            failure => Err(failure),
        },
        (packet::DATA, id, _) if id == end.id => {
            Err(broken(Cause::Cut { received: stated.saturating_add(1), stated }, "the file is longer than the server said"))
        }
        _ => Err(packet::malformed().into()),
    }
}

/// Writes exactly `bytes` bytes, several pieces at a time.
fn write(session: &mut Session, handle: &[u8], bytes: u64, content: &mut dyn Read) -> Result<(), Failure> {
    let (mut sent, mut under_way) = (0, VecDeque::new());
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let filled = super::fill(content, &mut piece)?;
        if filled > 0 && sent + (filled as u64) <= bytes {
            let (id, request) = session.request(packet::WRITE);
            session.issue(request.string(handle).long(sent).string(&piece[..filled]))?;
            under_way.push_back(id);
        }
        sent += filled as u64;
        let ends = filled == 0 || sent > bytes;
        while under_way.len() > if ends { 0 } else { WINDOW - 1 } {
            let (kind, id, fields) = session.answer()?;
            let index = under_way.iter().position(|sent| *sent == id).ok_or_else(packet::malformed)?;
            under_way.remove(index);
            match (kind, status(&fields)?) {
                (packet::STATUS, Failure::Status { code: packet::STATUS_OK, .. }) => {}
                (packet::STATUS, Failure::Status { code, message }) => return Err(Failure::Broken(refusal(code, message))),
                _ => return Err(packet::malformed().into()),
            }
        }
        if ends {
            return if sent == bytes { Ok(()) } else { Err(super::wrong_length(sent, bytes).into()) };
        }
    }
}

/// Lists a folder and those below it. False if the caller wants no more.
fn list(
    session: &mut Session,
    folder: &str,
    prefix: &str,
    depth: usize,
    unnamed: &mut Option<String>,
    each: &mut dyn FnMut(Listed) -> bool,
) -> Result<bool, Failure> {
    if depth > DEPTH_MAX {
        return Err(Refusal::new(Cause::Unsupported, format!("{prefix}: folders are nested more than {DEPTH_MAX} deep")).into());
    }
    let handle = session.open_folder(folder)?;
    while let Some(names) = session.names(&handle)? {
        for (name, attributes) in names {
            if name == b"." || name == b".." || name.starts_with(PART_PREFIX.as_bytes()) {
                continue;
            }
            let Ok(name) = String::from_utf8(name) else {
                unnamed.get_or_insert_with(|| format!("a name in {folder:?}"));
                continue;
            };
            let location = format!("{prefix}{name}");
            if location::check(&name).is_err() || name.contains('/') {
                return Err(packet::malformed().into());
            }
            let goes_on = if attributes.is_folder() {
                list(session, &join(folder, &name), &format!("{location}/"), depth + 1, unnamed, each)?
            } else if attributes.is_file() {
                let modified = attributes.modified.map(|seconds| Modified { seconds: seconds.into(), nanoseconds: 0 });
                each(Listed { modified, ..Listed::new(location, attributes.bytes) })
            } else {
                true
            };
            if !goes_on {
                session.close(&handle)?;
                return Ok(false);
            }
        }
    }
    session.close(&handle)?;
    Ok(true)
}
