//! Commands while a server runs.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Ran, Sandbox, noise, tree};

/// A server of the archive `a`, until it is stopped or dropped.
pub(crate) struct Server {
    process: Child,
}

impl Server {
    pub(crate) fn start(place: &Sandbox) -> Self {
        let mut command = place.command();
        command.args(["--json", "serve", "--listen", "127.0.0.1:0"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().expect("the program starts");
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().expect("piped")).read_line(&mut line).expect("a line");
        assert!(line.contains("endpoint"), "{line:?}");
        let server = Self { process };
        // The server creates the socket just after printing its address.
        wait_until("the socket is there", || UnixStream::connect(place.path("a/control.sock")).is_ok());
        server
    }

    fn terminate(&self) {
        let killed = Command::new("kill").arg(self.process.id().to_string()).status().expect("kill");
        assert!(killed.success());
    }

    /// Stops the server as an operator does.
    pub(crate) fn stop(mut self) {
        self.terminate();
        assert_eq!(self.process.wait().expect("it ends").code(), Some(0));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "waited a minute for this: {what}");
        std::thread::yield_now();
    }
}

/// The first line of a server that is stopped then.
fn announced(place: &Sandbox) -> serde_json::Value {
    let mut command = place.command();
    command.args(["--json", "serve", "--listen", "127.0.0.1:0"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut process = command.spawn().expect("the program starts");
    let mut line = String::new();
    BufReader::new(process.stdout.as_mut().expect("piped")).read_line(&mut line).expect("a line");
    Server { process }.stop();
    serde_json::from_str(&line).expect("a line of JSON")
}

#[test]
fn the_log_of_a_server_tells_its_end_but_not_each_request() {
    let place = Sandbox::new(2, &["--set", "1+1", "--platter-mib", "8"]);
    let log = fs::File::create(place.path("log")).expect("created");
    let mut command = place.command();
    command.args(["--json", "serve", "--listen", "127.0.0.1:0"]).env_remove("RUST_LOG");
    let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().expect("the program starts");
    let mut line = String::new();
    BufReader::new(process.stdout.as_mut().expect("piped")).read_line(&mut line).expect("a line");
    let announced: serde_json::Value = serde_json::from_str(&line).expect("a line of JSON");
    let server = Server { process };
    let address = announced["endpoint"].as_str().expect("text").strip_prefix("http://").expect("a scheme").to_owned();
    let mut client = std::net::TcpStream::connect(&address).expect("a connection");
    write!(client, "GET /quite/a/request HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").expect("sent");
    let mut response = String::new();
    std::io::Read::read_to_string(&mut client, &mut response).expect("a response");
    assert!(response.starts_with("HTTP/1.1 403 "), "{response}");
    server.stop();
    let log = String::from_utf8(place.read("log")).expect("text");
    assert!(!log.contains("quite/a/request"), "{log}");
    assert!(log.contains("stopped"), "{log}");
}

/// Starts a server through `env`, which can set what a signal does at first. Its log is in `log`.
#[cfg(target_os = "linux")]
fn start_with_signals(place: &Sandbox, signals: &str) -> Server {
    let plain = place.command();
    let mut command = Command::new("env");
    command.arg(signals).arg(plain.get_program()).args(plain.get_args());
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?)))).env_remove("RUST_LOG");
    command.current_dir(plain.get_current_dir().expect("a folder"));
    command.args(["--json", "serve", "--listen", "127.0.0.1:0"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut process = command.stderr(fs::File::create(place.path("log")).expect("created")).spawn().expect("env");
    let mut line = String::new();
    BufReader::new(process.stdout.as_mut().expect("piped")).read_line(&mut line).expect("a line");
    assert!(line.contains("endpoint"), "{line:?}");
    Server { process }
}

#[cfg(target_os = "linux")]
#[test]
fn a_hangup_stops_the_server_gracefully_unless_it_was_started_to_ignore_it() {
    let place = Sandbox::new(2, &["--set", "1+1", "--platter-mib", "8"]);
    let hang_up = |server: &Server| {
        let killed = Command::new("kill").arg("-HUP").arg(server.process.id().to_string()).status().expect("kill");
        assert!(killed.success());
    };
    let mut server = start_with_signals(&place, "--default-signal=HUP");
    wait_until("the socket is there", || place.path("a/control.sock").exists());
    hang_up(&server);
    assert_eq!(server.process.wait().expect("it ends").code(), Some(0));
    let log = String::from_utf8(place.read("log")).expect("text");
    assert!(log.contains("stopped") && !place.path("a/control.sock").exists(), "{log}");

    // As with `nohup`.
    let server = start_with_signals(&place, "--ignore-signal=HUP");
    let status = fs::read_to_string(format!("/proc/{}/status", server.process.id())).expect("a status");
    let ignored = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    assert_eq!(ignored.map(|mask| mask & 1), Some(1), "it is still ignored while the server runs: {status}");
    server.stop();
}

#[test]
fn a_server_of_an_existing_archive_creates_none_where_its_disk_should_be() {
    let place = Sandbox::empty();
    fs::create_dir(place.path("a")).expect("a mount point");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let serve = ["serve", "--existing", "--listen", &address];
    place.run(&serve).fails_with(1, "is its disk mounted?");
    assert_eq!(fs::read_dir(place.path("a")).expect("a folder").count(), 0, "it stays empty");
    announced(&place);
    // It gets as far as the port.
    place.run(&serve).fails_with(1, "can't listen on");
}

#[test]
fn a_taken_port_is_reported_before_anything_is_created() {
    let place = Sandbox::empty();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let refused = place.run(&["serve", "--listen", &address]);
    refused.fails_with(1, &format!("can't listen on {address}"));
    refused.fails_with(1, "--listen");
    assert!(!place.path("a").exists());
    let first = announced(&place);
    assert!(first["new"] == true && first["secret_key"].is_string(), "{first}");
    place.run(&["serve", "--listen", &address]).fails_with(1, "--listen");
    assert_eq!(announced(&place)["secret_key"], serde_json::Value::Null, "a key is shown once");
}

#[test]
fn a_first_start_that_fails_leaves_the_key_to_the_next() {
    let place = Sandbox::new(2, &["--set", "1+1", "--platter-mib", "8"]);
    place.write("a/service.toml", "memory_mib = 1\n");
    place.run(&["serve", "--listen", "127.0.0.1:0"]).fails_with(1, "memory_mib");
    place.write("a/service.toml", "");
    assert!(announced(&place)["secret_key"].is_string());
}

/// An archive with a few staged files.
fn filled() -> Sandbox {
    let place = Sandbox::new(3, &["--set", "2+1", "--platter-mib", "8"]);
    for index in 0..6 {
        place.write(format!("tree/{index}"), noise(index, 250_000));
    }
    place.good(&["put", "tree"]);
    place
}

/// Connects as the command line does, and waits for its turn.
fn take_turn(place: &Sandbox, command: &str) -> UnixStream {
    let mut stream = UnixStream::connect(place.path("a/control.sock")).expect("a connection");
    writeln!(stream, r#"{{"fulgurite":"{}","command":"{command}"}}"#, env!("CARGO_PKG_VERSION")).expect("sent");
    let mut line = String::new();
    BufReader::new(stream.try_clone().expect("a handle")).read_line(&mut line).expect("a line");
    assert_eq!(line, "\"turn\"\n");
    stream
}

fn same(beside: &Ran, alone: &Ran) {
    assert_eq!((beside.status, beside.text(), &beside.err), (alone.status, alone.text(), &alone.err));
}

#[test]
fn verify_reports_the_same_with_and_without_a_server() {
    let place = filled();
    // A stopping server stages a copy of its state if that changed. From here on it doesn't change.
    Server::start(&place).stop();
    place.good(&["flush"]);
    let lines: [&[&str]; 5] =
        [&["verify"], &["verify", "--objects"], &["--json", "verify", "--objects"], &["--quiet", "verify"], &["--json", "verify"]];
    let run = || lines.map(|line| place.run(line));
    let server = Server::start(&place);
    let beside = run();
    server.stop();
    let alone = run();
    assert!(beside[0].status == 0 && beside[0].text().ends_with("Nothing is lost.\n"), "{beside:?}");
    beside.iter().zip(&alone).for_each(|(beside, alone)| same(beside, alone));

    // The same holds for damage: a platter is missing, another lost a range, and so some objects
    // are lost.
    let platters = place.platters();
    fs::remove_file(&platters[0].file).expect("removed");
    let mut bytes = fs::read(&platters[1].file).expect("read");
    let half = bytes.len() / 2;
    bytes[10_000..half].fill(0);
    fs::write(&platters[1].file, bytes).expect("written");
    let server = Server::start(&place);
    let beside = run();
    server.stop();
    let alone = run();
    assert!(beside[0].status == 1 && beside[0].text().contains(&platters[0].id), "{beside:?}");
    assert!(beside[0].err.contains("tree/"), "lost objects are named: {beside:?}");
    beside.iter().zip(&alone).for_each(|(beside, alone)| same(beside, alone));
}

#[test]
fn backups_of_the_servers_state_are_not_counted_as_objects() {
    let place = filled();
    Server::start(&place).stop();
    for (flushed, staged, own_staged) in [(false, 6, 1), (true, 0, 0)] {
        if flushed {
            place.good(&["flush"]);
        }
        let status = place.good(&["status", "--json"]).json();
        assert_eq!(
            (&status["objects"], &status["versions"], &status["content_bytes"]),
            (&6.into(), &6.into(), &1_500_000.into()),
            "{status}"
        );
        assert_eq!((&status["staged"]["versions"], &status["own"]["versions"]), (&staged.into(), &1.into()), "{status}");
        assert_eq!(status["own"]["staged_versions"], own_staged, "{status}");
        let text = place.good(&["status"]).text();
        assert!(text.contains("stored    6 names in 6 versions") && text.contains("own       1 backup of the service's state"), "{text}");
    }
    let said = "1 of these versions is a backup of the service's state.";
    for command in [&["verify", "--objects"][..], &["catalogue", "rebuild"]] {
        let text = place.good(command).text();
        assert!(text.contains("7 versions") && text.contains(said), "{text}");
    }
    place.good(&["keys", "export", "--plain", "keys"]);
    let text = place.good(&["attach", "b", "--store=d1", "--store=d2", "--store=d3", "--keys=keys"]).text();
    assert!(text.contains("Found 7 versions") && text.contains(said), "{text}");
}

#[test]
fn flush_scrub_and_recover_work_while_a_server_runs() {
    let place = filled();
    let server = Server::start(&place);
    let flushed = place.good(&["flush"]);
    assert!(flushed.text().contains("Wrote and verified 3 platters in 1 set"), "{flushed:?}");
    let platters = place.platters();
    fs::remove_file(&platters[0].file).expect("removed");
    let scrubbed = place.good(&["scrub"]);
    assert!(scrubbed.text().contains("Recovered 1 platter"), "{scrubbed:?}");
    fs::remove_file(&platters[2].file).expect("removed");
    place.good(&["recover", &platters[2].id]);
    place.good(&["verify", "--objects"]);
    assert!(place.good(&["flush"]).status == 0);
    server.stop();
    place.good(&["get", "tree", "out"]);
    assert_eq!(tree(&place.path("out")), tree(&place.path("tree")));
    assert!(!place.path("a/control.sock").exists());
}

#[test]
fn readers_work_while_a_server_runs_and_status_shows_it() {
    let place = filled();
    place.good(&["flush"]);
    place.write("passphrase", "a long passphrase");
    let server = Server::start(&place);
    assert!(place.good(&["ls"]).text().contains("tree/0"));
    assert_eq!(place.good(&["get", "tree/3", "-"]).out, noise(3, 250_000));
    place.good(&["keys", "export", "keys", "--passphrase-file", "passphrase"]);
    place.good(&["platters"]);
    let status = place.good(&["status"]);
    assert!(status.text().contains("server    running\n"), "{status:?}");
    let turn = take_turn(&place, "verify");
    let status = place.good(&["status"]);
    assert!(status.text().contains("server    running; `verify` since 20"), "{status:?}");
    assert_eq!(place.good(&["--json", "status"]).json()["server"]["working"]["what"], "verify");
    drop(turn);
    server.stop();
    assert!(!place.good(&["status"]).text().contains("server"));
    assert!(place.good(&["--json", "status"]).json()["server"].is_null());
}

#[test]
fn a_second_command_is_told_what_the_server_is_busy_with() {
    let place = filled();
    let server = Server::start(&place);
    let turn = take_turn(&place, "verify");
    for line in [&["verify"][..], &["scrub"], &["flush"]] {
        place.run(line).fails_with(1, "the server is busy with `verify` since 20");
    }
    drop(turn);
    wait_until("the turn is over", || place.run(&["flush"]).status == 0);
    // A stopping server doesn't wait for a client that has the turn but sends no request.
    let _turn = take_turn(&place, "scrub");
    server.stop();
}

#[test]
fn commands_that_a_server_does_not_run_fail_with_advice() {
    let place = filled();
    let server = Server::start(&place);
    for line in [&["put", "tree"][..], &["rm", "tree/1"], &["catalogue", "rebuild"], &["store", "add", "d9"]] {
        let refused = place.run(line);
        refused.fails_with(1, "in use");
        assert!(refused.err.contains("`fulgurite serve`") && refused.err.contains("over S3"), "{refused:?}");
    }
    server.stop();
    // If another command has the lock, the message says so.
    let lock = fs::File::options().write(true).open(place.path("a/lock")).expect("the lock");
    lock.lock().expect("locked");
    let refused = place.run(&["verify"]);
    refused.fails_with(1, "in use");
    assert!(refused.err.contains("no server answers"), "{refused:?}");
}

/// A server that grants the turn, sends `events`, and closes the connection.
fn breaking_off(place: &Sandbox, events: &'static str) -> std::thread::JoinHandle<()> {
    let listener = UnixListener::bind(place.path("a/control.sock")).expect("a socket");
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut lines = BufReader::new(stream.try_clone().expect("a handle")).lines();
        lines.next().expect("a hello").expect("text");
        writeln!(stream, "\"turn\"").expect("sent");
        lines.next().expect("a request").expect("text");
        stream.write_all(events.as_bytes()).expect("sent");
    })
}

#[test]
fn a_broken_connection_is_a_failure_and_not_an_all_clear() {
    let place = filled();
    let lock = fs::File::options().write(true).open(place.path("a/lock")).expect("the lock");
    lock.lock().expect("locked");
    for events in
        ["", "{\"stage\":{\"what\":\"reading set 1 of 2\",\"bytes\":7}}\n", "{\"done\":{\"objects\":1,", "{\"report\":{\"platters\":1}}\n"]
    {
        let server = breaking_off(&place, events);
        let ran = place.run(&["verify"]);
        ran.fails_with(1, "closed the connection before the command finished");
        assert!(ran.out.is_empty(), "{ran:?}");
        server.join().expect("no panic");
        fs::remove_file(place.path("a/control.sock")).expect("removed");
    }
}

#[test]
fn stores_that_an_existing_archive_lacks_are_refused() {
    let place = Sandbox::new(2, &[]);
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    place.run(&["serve", "--listen", &address, "--store", "d1", "--store", "d3"]).fails_with(1, "has no store in");
    // A restart repeats the options of the first start.
    let again = place.run(&["serve", "--listen", &address, "--store", "d1", "--store", "other=d2"]);
    assert!(again.status == 1 && again.err.contains(&address), "only the address is wrong: {again:?}");
}
