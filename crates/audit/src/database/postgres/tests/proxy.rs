//! A proxy that breaks connections around a commit.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

/// Where the next commit breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// The server doesn't get it.
    BeforeCommit,
    /// The server commits, and the client doesn't hear of it.
    AfterCommit,
}

#[derive(Default)]
struct Plan {
    next: Option<Cut>,
    cuts: usize,
}

/// Forwards connections to a server until the test breaks one.
pub(super) struct Proxy {
    folder: tempfile::TempDir,
    plan: Arc<Mutex<Plan>>,
}

impl Proxy {
    pub(super) fn start(server: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let listener = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).expect("a socket");
        let plan = Arc::new(Mutex::new(Plan::default()));
        let (server, planned): (PathBuf, _) = (server.to_owned(), plan.clone());
        thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                let server = UnixStream::connect(&server).expect("the server is there");
                let plan = planned.clone();
                thread::spawn(move || pass(client, server, &plan));
            }
        });
        Self { folder, plan }
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Breaks the connection of the next commit.
    pub(super) fn cut(&self, cut: Cut) {
        self.plan.lock().expect("no thread panics").next = Some(cut);
    }

    /// How many connections were broken so far.
    pub(super) fn cuts(&self) -> usize {
        self.plan.lock().expect("no thread panics").cuts
    }
}

fn pass(client: UnixStream, server: UnixStream, plan: &Arc<Mutex<Plan>>) {
    let deaf = Arc::new(Mutex::new(false));
    let (mut answers, mut receiver) = (server.try_clone().expect("a socket"), client.try_clone().expect("a socket"));
    let silent = deaf.clone();
    let back = thread::spawn(move || {
        let mut buffer = [0; 8192];
        while let Ok(length @ 1..) = answers.read(&mut buffer) {
            if *silent.lock().expect("no thread panics") {
                // The server has answered the commit, and the client never learns it.
                break;
            }
            if receiver.write_all(&buffer[..length]).is_err() {
                break;
            }
        }
        let _ = receiver.shutdown(Shutdown::Both);
        let _ = answers.shutdown(Shutdown::Both);
    });
    let (mut from, mut to) = (&client, &server);
    let mut buffer = [0; 8192];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let sent = &buffer[..length];
        let commits = sent.windows(7).any(|window| window == b"COMMIT\0");
        let cut = if commits { take(plan) } else { None };
        match cut {
            Some(Cut::BeforeCommit) => break,
            Some(Cut::AfterCommit) => *deaf.lock().expect("no thread panics") = true,
            None => {}
        }
        if to.write_all(sent).is_err() {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
    let _ = back.join();
}

fn take(plan: &Mutex<Plan>) -> Option<Cut> {
    let mut plan = plan.lock().expect("no thread panics");
    let cut = plan.next.take();
    plan.cuts += usize::from(cut.is_some());
    cut
}
