//! A PostgreSQL server for tests, in a temporary folder, on a Unix socket.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};

/// Debian's user for programs that own nothing. The server refuses to run as root.
const NOBODY: u32 = 65_534;

/// A server, which is stopped when it is dropped.
pub(super) struct Server {
    programs: PathBuf,
    folder: tempfile::TempDir,
    databases: AtomicU32,
    options: String,
}

static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());

/// The server that tests share while any of them runs. `None` if PostgreSQL isn't installed, which
/// in CI is a failure.
pub(super) fn shared() -> Option<Arc<Server>> {
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(server) = shared.upgrade() {
        return Some(server);
    }
    let server = Arc::new(Server::start()?);
    *shared = Arc::downgrade(&server);
    Some(server)
}

/// Debian has the server's programs outside of the path, by version.
fn programs() -> Option<PathBuf> {
    let has_all = |folder: &PathBuf| ["initdb", "pg_ctl", "postgres"].iter().all(|name| folder.join(name).is_file());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut debian: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path().join("bin"))).collect())
        .unwrap_or_default();
    debian.sort();
    std::env::split_paths(&path).chain(debian.into_iter().rev()).find(has_all)
}

impl Server {
    /// Starts a server of one's own.
    pub(super) fn start() -> Option<Self> {
        let Some(programs) = programs() else {
            let ci = std::env::var("CI").is_ok_and(|ci| !matches!(ci.as_str(), "" | "0" | "false"));
            assert!(!ci, "PostgreSQL isn't installed, and in CI nothing is skipped");
            println!("skipped: PostgreSQL isn't installed; on Debian, install the package postgresql");
            return None;
        };
        let folder = tempfile::tempdir().expect("a temporary folder");
        if rustix::process::geteuid().is_root() {
            chown(folder.path(), Some(NOBODY), Some(NOBODY)).expect("root may give a folder away");
        }
        let options = format!("-c listen_addresses='' -k {} -c fsync=on -c max_connections=50", folder.path().display());
        let server = Self { programs, folder, databases: AtomicU32::new(0), options };
        let trusted = ["--auth-local=trust", "--auth-host=scram-sha-256"];
        server.run("initdb", &[&trusted[..], &["--username=audit", "--encoding=UTF8", "--locale=C", "--no-sync"]].concat());
        server.control("start");
        Some(server)
    }

    /// Listens on a port of the loopback address too, with TLS by a certificate for `localhost`,
    /// whose file it returns, and with a password.
    pub(super) fn listen_with_tls(&mut self, password: &str) -> (PathBuf, u16) {
        let file = |name: &str| self.folder().join(name);
        let config = "[req]\nprompt=no\ndistinguished_name=name\nx509_extensions=v3\n[name]\nCN=localhost\n\
                      [v3]\nbasicConstraints=critical,CA:FALSE\nsubjectAltName=DNS:localhost\n";
        std::fs::write(file("openssl.cnf"), config).expect("a file");
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30"]);
        openssl.args(["-config", "openssl.cnf", "-keyout", "key.pem", "-out", "certificate.pem"]).current_dir(self.folder());
        let made = openssl.output().expect("Debian's package postgresql brings openssl");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        if rustix::process::geteuid().is_root() {
            chown(file("key.pem"), Some(NOBODY), Some(NOBODY)).expect("root may give a file away");
        }
        // Another process might take the port before the server does; then the test fails.
        let port = std::net::TcpListener::bind("localhost:0").and_then(|listener| listener.local_addr()).expect("a free port").port();
        Direct::connect(self.folder(), "postgres").run(&format!("ALTER ROLE audit PASSWORD '{password}'"));
        let (certificate, key) = (file("certificate.pem"), file("key.pem"));
        self.options = format!(
            "-c listen_addresses=localhost -c ssl=on -c ssl_cert_file={} -c ssl_key_file={} -k {} -c tcp_keepalives_idle=0",
            certificate.display(),
            key.display(),
            self.folder().display()
        );
        // The socket is named by the port, so only connections by TCP use the new one.
        self.options += &format!(" -p {port}");
        self.restart();
        (certificate, port)
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(self.programs.join(program));
        command.arg("-D").arg(self.folder().join("data")).args(arguments).current_dir(self.folder());
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        // The server outlives pg_ctl and would keep its output open.
        let output = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).output().expect("it can be started");
        let log = || std::fs::read_to_string(self.folder().join("log")).unwrap_or_default();
        assert!(output.status.success(), "{program} {arguments:?}: {}\n{}", output.status, log());
        output
    }

    /// Runs `pg_ctl`, which waits until the server has started or stopped.
    fn control(&self, action: &str) {
        let log = self.folder().join("log");
        let log = log.to_string_lossy();
        match action {
            "stop" => self.run("pg_ctl", &["stop", "-w", "-m", "immediate"]),
            action => self.run("pg_ctl", &[action, "-w", "-t", "300", "-m", "immediate", "-l", &log, "-o", &self.options]),
        };
    }

    /// Stops the server as if its process had been killed, and starts it again.
    pub(super) fn restart(&self) {
        self.control("restart");
    }

    /// Creates an empty database and returns its address.
    pub(super) fn database(&self) -> String {
        let name = format!("audit{}", self.databases.fetch_add(1, Ordering::Relaxed));
        Direct::connect(self.folder(), "postgres").run(&format!("CREATE DATABASE {name}"));
        self.address(&name)
    }

    pub(super) fn address(&self, database: &str) -> String {
        format!("postgres://audit@/{database}?host={}", self.folder().display())
    }

    /// A plain connection to a database, for what the engine can't do.
    pub(super) fn direct(&self, address: &str) -> Direct {
        let name = address.split(['/', '?']).nth(3).expect("an address");
        Direct::connect(self.folder(), name)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.control("stop");
        } else {
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.control("stop")));
        }
    }
}

pub(super) struct Direct {
    runtime: Runtime,
    client: Client,
}

impl Direct {
    fn connect(folder: &Path, database: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let client = runtime.block_on(async {
            let mut config = tokio_postgres::Config::new();
            let (client, connection) = config.user("audit").dbname(database).host_path(folder).connect(NoTls).await.expect("a server");
            tokio::spawn(connection);
            client.batch_execute("SET search_path = fulgurite_audit").await.expect("a setting");
            client
        });
        Self { runtime, client }
    }

    pub(super) fn run(&self, sql: &str) {
        self.try_run(sql).expect("a statement");
    }

    pub(super) fn try_run(&self, sql: &str) -> Result<(), tokio_postgres::Error> {
        self.runtime.block_on(self.client.batch_execute(sql))
    }

    pub(super) fn number(&self, sql: &str) -> i64 {
        self.runtime.block_on(self.client.query_one(sql, &[])).expect("a query").get(0)
    }

    pub(super) fn texts(&self, sql: &str) -> Vec<String> {
        self.runtime.block_on(self.client.query(sql, &[])).expect("a query").iter().map(|row| row.get(0)).collect()
    }
}
