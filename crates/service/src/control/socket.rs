//! The socket file: created so that only the archive's owner can ever open it. On Linux, the path
//! of the archive's folder may have any length.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use super::SOCKET;

/// Maximum length of a path that is used as an address. Socket addresses have room for 108 bytes on
/// Linux and 104 elsewhere.
const ADDRESS_BYTES_MAX: usize = 100;
/// A private folder in which the socket is created before it is renamed.
const MAKING: &str = "control.new";

/// A folder with a path that is short enough for a socket address.
struct Folder {
    path: PathBuf,
    /// Keeps the path valid.
    _open: Option<File>,
}

impl Folder {
    fn open(folder: &Path) -> io::Result<Self> {
        if folder.as_os_str().len() + MAKING.len() + SOCKET.len() + 2 <= ADDRESS_BYTES_MAX {
            return Ok(Self { path: folder.to_owned(), _open: None });
        }
        let open = File::open(folder)?;
        let short = PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()));
        if short.exists() {
            return Ok(Self { path: short, _open: Some(open) });
        }
        Err(io::Error::new(io::ErrorKind::InvalidFilename, "the path of the archive's folder is too long for a socket"))
    }
}

/// Creates the socket of an archive, replacing one left by a killed server. The caller holds the
/// archive's lock.
pub(super) fn listen(home: &Path) -> io::Result<UnixListener> {
    let folder = Folder::open(home)?;
    let making = folder.path.join(MAKING);
    match fs::remove_dir_all(&making) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // A socket gets its mode only after it was created. Until then it is in a folder that other
    // users can't enter.
    DirBuilder::new().mode(0o700).create(&making)?;
    let made = || {
        let socket = making.join(SOCKET);
        let listener = UnixListener::bind(&socket)?;
        fs::set_permissions(&socket, Permissions::from_mode(0o600))?;
        fs::rename(&socket, folder.path.join(SOCKET))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    let made = made();
    let removed = fs::remove_dir_all(&making);
    made.and_then(|listener| removed.map(|()| listener))
}

pub(super) fn connect(home: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(Folder::open(home)?.path.join(SOCKET))
}

pub(super) fn remove(home: &Path) {
    // A leftover socket refuses connections, and the next server replaces it.
    let _ = fs::remove_file(home.join(SOCKET));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_can_open_the_socket_even_by_a_long_path() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let long = folder.path().join("long".repeat(40));
        fs::create_dir(&long).expect("a folder");
        for home in [folder.path(), &long] {
            assert!(connect(home).is_err(), "there is no socket yet");
            // The socket of a killed server is replaced.
            drop(listen(home).expect("a socket"));
            assert_eq!(connect(home).expect_err("nobody listens").kind(), io::ErrorKind::ConnectionRefused);
            let _listener = listen(home).expect("a socket");
            assert_eq!(fs::metadata(home.join(SOCKET)).expect("there").permissions().mode() & 0o777, 0o600);
            assert!(!home.join(MAKING).exists());
            connect(home).expect("a connection");
            remove(home);
            assert_eq!(connect(home).expect_err("it is gone").kind(), io::ErrorKind::NotFound);
        }
    }
}
