//! The server side of the control channel.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fulgurite_archive::ArchiveError;
use fulgurite_archive::watch::{Trouble, Watcher};
use fulgurite_domain::{IdentifierError, PlatterId};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::{Event, Hello, Question, REQUEST_BYTES_MAX, Request, ServerStatus, TroubleMessage, VERSION, socket};
use crate::command_lock::CommandGuard;
use crate::gateway::Gateway;

/// Maximum number of connections. One runs a command; the others ask for the status, or are told
/// that the server is busy.
const CONNECTIONS_MAX: usize = 8;
/// Timeout for a line from a client, counted from when the server is ready to read it.
const LINE_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval at which a reader checks whether the server is stopping.
const STOP_CHECK_PERIOD: Duration = Duration::from_millis(200);
/// Timeout for sending to a client. A suspended client must not keep the lock.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);
/// Minimum interval between two progress events.
const PROGRESS_PERIOD: Duration = Duration::from_millis(100);
/// Wait after a failed accept: the cause, such as too many open files, may last.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
enum RequestError {
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error("{id:?} is not the ID of a platter: {source}")]
    PlatterId { id: String, source: IdentifierError },
}

pub(crate) struct Channel {
    listener: tokio::net::UnixListener,
    gateway: Arc<Gateway>,
}

impl Channel {
    pub(crate) fn open(gateway: Arc<Gateway>) -> io::Result<Self> {
        let listener: UnixListener = socket::listen(gateway.archive.home())?;
        Ok(Self { listener: tokio::net::UnixListener::from_std(listener)?, gateway })
    }

    /// Serves until `stop` is set. Commands that read platters are then aborted, and sets that are
    /// being written are completed.
    pub(crate) async fn serve(self, mut stop: watch::Receiver<bool>) {
        let mut connections = JoinSet::new();
        let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        while !*stop.borrow() {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                Some(ended) = connections.join_next() => {
                    self.log_panic(ended);
                    continue;
                }
                _ = stop.changed() => continue,
            };
            let stream = match accepted.and_then(|(stream, _)| stream.into_std()) {
                Ok(stream) => stream,
                Err(error) => {
                    tracing::warn!(%error, "can't accept a connection to the control socket");
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                    continue;
                }
            };
            let Ok(permit) = permits.clone().try_acquire_owned() else {
                // Closes the connection at once, which the client reports.
                continue;
            };
            let (gateway, stop) = (self.gateway.clone(), stop.clone());
            let runtime = tokio::runtime::Handle::current();
            connections.spawn_blocking(move || {
                let _permit = permit;
                if let Err(error) = Client::new(stream, stop).and_then(|client| serve(&client, &gateway, &runtime)) {
                    tracing::debug!(%error, "a connection to the control socket ended");
                }
            });
        }
        socket::remove(self.gateway.archive.home());
        while let Some(ended) = connections.join_next().await {
            self.log_panic(ended);
        }
    }

    /// Logs a command that panicked: it may have poisoned a lock.
    fn log_panic(&self, ended: Result<(), tokio::task::JoinError>) {
        if let Err(error) = ended {
            self.gateway.log_panic("a command from the command line", error);
        }
    }
}

/// A connected command line.
struct Client {
    stream: Mutex<UnixStream>,
    read_buffer: Mutex<Vec<u8>>,
    stop: watch::Receiver<bool>,
    /// The client no longer reads events.
    disconnected: AtomicBool,
}

impl Client {
    fn new(stream: UnixStream, stop: watch::Receiver<bool>) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(STOP_CHECK_PERIOD))?;
        stream.set_write_timeout(Some(SEND_TIMEOUT))?;
        Ok(Self { stream: Mutex::new(stream), read_buffer: Mutex::default(), stop, disconnected: AtomicBool::new(false) })
    }

    fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }

    /// The next line; `None` at the end, or when the server stops.
    fn read_line(&self) -> io::Result<Option<String>> {
        let begun = Instant::now();
        let mut buffer = self.read_buffer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner).try_clone()?;
        let mut piece = [0; 4_096];
        loop {
            if let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = buffer.drain(..=end).collect();
                return String::from_utf8(line).map(Some).map_err(io::Error::other);
            }
            if self.is_stopping() {
                return Ok(None);
            }
            if begun.elapsed() > LINE_TIMEOUT || buffer.len() > REQUEST_BYTES_MAX {
                return Err(io::Error::other("a line is too long or took too long to arrive"));
            }
            match stream.read(&mut piece) {
                Ok(0) => return Ok(None),
                Ok(read) => buffer.extend_from_slice(&piece[..read]),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn send(&self, event: &Event) {
        if self.disconnected.load(Ordering::Relaxed) {
            return;
        }
        let mut line = serde_json::to_vec(event).expect("all keys of events are strings");
        line.push(b'\n');
        if self.stream.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line).is_err() {
            self.disconnected.store(true, Ordering::Relaxed);
        }
    }
}

/// The number, or the length of the list, that a report has by this name.
fn count(report: &serde_json::Value, name: &str) -> u64 {
    report[name].as_u64().or_else(|| report[name].as_array().map(|list| list.len() as u64)).unwrap_or(0)
}

fn serve(client: &Client, gateway: &Gateway, runtime: &tokio::runtime::Handle) -> io::Result<()> {
    let Some(hello) = client.read_line()? else { return Ok(()) };
    let guard = match lock_for_command(&hello, gateway) {
        Ok(guard) => guard,
        Err(refusal) => {
            client.send(&refusal);
            return Ok(());
        }
    };
    client.send(&Event::Turn);
    while let Some(line) = client.read_line()? {
        let request: Request = match serde_json::from_str(&line) {
            Ok(request) => request,
            Err(error) => {
                client.send(&Event::Failed(format!("malformed request: {error}")));
                continue;
            }
        };
        let outcome = carry_out(&request, client, gateway, runtime, &guard);
        let lost = outcome.as_ref().map_or(0, |report| count(report, "lost_versions").max(count(report, "wrong")));
        if outcome.is_ok() {
            match request {
                Request::Scrub { .. } => gateway.health.note_command_lost(lost),
                // `verify --objects` continues with this, and finds the same versions and others.
                Request::VerifyObjects => gateway.health.note_command_lost(lost.max(gateway.health.command_lost().unwrap_or(0))),
                Request::Flush | Request::Recover { .. } => {}
            }
        }
        match &outcome {
            Ok(report) if lost > 0 => {
                tracing::error!(?request, %report, "a command found versions that are lost")
            }
            Ok(report) if ["unsound", "unreadable", "too_long", "unlisted", "unseen"].iter().any(|name| count(report, name) > 0) => {
                tracing::warn!(?request, %report, "a command found something that is not good");
            }
            Ok(report) => tracing::info!(?request, %report, "finished a command"),
            Err(error) => tracing::warn!(?request, %error, "a command failed"),
        }
        client.send(&match outcome {
            Ok(report) => Event::Report(report),
            Err(RequestError::Archive(ArchiveError::Stopped)) if client.is_stopping() => {
                Event::Failed("the server is stopping; the command was not completed".to_owned())
            }
            Err(error) => Event::Failed(error.to_string()),
        });
    }
    Ok(())
}

/// Locks for the command that a hello names. If none is to start, the error is the reply: another
/// command is running, the hello is malformed or from another version, or it only asks.
fn lock_for_command<'a>(hello: &str, gateway: &'a Gateway) -> Result<CommandGuard<'a>, Event> {
    let hello: Hello = serde_json::from_str(hello).map_err(|error| Event::Refused(format!("malformed hello: {error}")))?;
    if hello.fulgurite != VERSION {
        return Err(Event::Refused(format!(
            "the server is fulgurite {VERSION} and this is {}; restart the server with this version",
            hello.fulgurite
        )));
    }
    let Some(command) = hello.command else {
        if let Some(question) = hello.question {
            return Err(answer(question, gateway));
        }
        let running_command = gateway.jobs.command_lock.current();
        return Err(Event::Status(ServerStatus { running_command, scrub: gateway.scrub_status() }));
    };
    let guard = gateway.jobs.command_lock.try_lock(&command).map_err(Event::Working)?;
    tracing::info!(command, "started a command from the command line");
    Ok(guard)
}

/// Answers a question.
fn answer(question: Question, gateway: &Gateway) -> Event {
    const NO_LIBRARY: &str = "the server has no library: see [library] in service.toml";
    const STOPPED: &str = "the library has stopped; see the server's log";
    let change = |machine, is_repaired| match gateway.change_machine(machine, is_repaired) {
        Err(why) => Event::Failed(why),
        Ok(()) => {
            tracing::info!(?question, "the command line changed a machine of the library");
            Event::Report(serde_json::Value::Null)
        }
    };
    match question {
        Question::Restores => gateway.restores_report().map_or_else(|error| Event::Failed(error.to_string()), Event::Report),
        Question::Library if gateway.library.is_none() => Event::Failed(NO_LIBRARY.to_owned()),
        Question::Library => gateway.library_report().map_or_else(|| Event::Failed(STOPPED.to_owned()), Event::Report),
        Question::Fault(machine) => change(machine, false),
        Question::Repair(machine) => change(machine, true),
    }
}

/// Carries out a request. The guard proves that no other command is running.
fn carry_out(
    request: &Request,
    client: &Client,
    gateway: &Gateway,
    runtime: &tokio::runtime::Handle,
    _guard: &CommandGuard<'_>,
) -> Result<serde_json::Value, RequestError> {
    let archive = &gateway.archive;
    let relay = Relay::new(client, !matches!(request, Request::Flush));
    match request {
        Request::Scrub { repair } => {
            let _scrub_guard = gateway.jobs.command_lock.lock_scrub();
            Ok(json(archive.scrub(*repair, &relay)?))
        }
        Request::VerifyObjects => Ok(json(archive.verify_objects(&relay)?)),
        Request::Flush => {
            runtime.block_on(gateway.back_up_state());
            Ok(json(gateway.write_sets(|archive| archive.flush(&relay))?))
        }
        Request::Recover { platter, store } => {
            let _scrub_guard = gateway.jobs.command_lock.lock_scrub();
            let id: PlatterId = platter.parse().map_err(|source| RequestError::PlatterId { id: platter.clone(), source })?;
            Ok(json(archive.recover(id, store.as_deref(), &relay)?))
        }
    }
}

fn json(report: impl serde::Serialize) -> serde_json::Value {
    serde_json::to_value(report).expect("all keys of reports are strings")
}

/// Sends the events of a running command to its client.
struct Relay<'a> {
    client: &'a Client,
    /// Whether the command ends when its client disconnects. Writes that must not be left
    /// incomplete go on.
    stops_on_disconnect: bool,
    objects: AtomicU64,
    bytes: AtomicU64,
    last_sent: Mutex<Instant>,
}

impl<'a> Relay<'a> {
    fn new(client: &'a Client, stops_on_disconnect: bool) -> Self {
        Self { client, stops_on_disconnect, objects: AtomicU64::new(0), bytes: AtomicU64::new(0), last_sent: Mutex::new(Instant::now()) }
    }

    /// Sends accumulated progress. A failed send also detects a disconnected client.
    fn send_progress(&self) {
        let (objects, bytes) = (self.objects.swap(0, Ordering::Relaxed), self.bytes.swap(0, Ordering::Relaxed));
        if (objects, bytes) != (0, 0) {
            self.client.send(&Event::Done { objects, bytes });
        }
    }
}

impl Watcher for Relay<'_> {
    fn stage(&self, what: &str, bytes: Option<u64>) {
        self.send_progress();
        self.client.send(&Event::Stage { what: what.to_owned(), bytes });
    }

    fn expect(&self, objects: u64, bytes: u64) {
        self.client.send(&Event::Expect { objects, bytes });
    }

    fn done(&self, objects: u64, bytes: u64) {
        self.objects.fetch_add(objects, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        {
            let mut last_sent = self.last_sent.lock().unwrap_or_else(PoisonError::into_inner);
            if last_sent.elapsed() < PROGRESS_PERIOD {
                return;
            }
            *last_sent = Instant::now();
        }
        self.send_progress();
    }

    /// Also detects a disconnected client, to which nothing else is sent meanwhile.
    fn waits(&self) {
        self.client.send(&Event::Waits);
    }

    fn trouble(&self, trouble: Trouble<'_>) {
        self.client.send(&Event::Trouble(TroubleMessage::new(&trouble)));
    }

    fn is_stopped(&self) -> bool {
        self.client.is_stopping() || (self.stops_on_disconnect && self.client.disconnected.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Client, UnixStream, watch::Sender<bool>) {
        let (ours, theirs) = UnixStream::pair().expect("sockets");
        let (stop_tx, stop_rx) = watch::channel(false);
        (Client::new(ours, stop_rx).expect("a client"), theirs, stop_tx)
    }

    #[test]
    fn a_disconnected_client_stops_reads_but_not_writes() {
        let (client, theirs, _stop_tx) = pair();
        let (reading, writing) = (Relay::new(&client, true), Relay::new(&client, false));
        reading.trouble(Trouble::Note("it is there"));
        assert!(!reading.is_stopped());
        drop(theirs);
        reading.trouble(Trouble::Note("it is gone"));
        assert!(reading.is_stopped() && !writing.is_stopped());
    }

    #[test]
    fn a_client_that_disconnects_while_a_command_waits_is_noticed() {
        let (client, mut theirs, _stop_tx) = pair();
        let relay = Relay::new(&client, true);
        relay.waits();
        let mut sent = [0; 64];
        let length = theirs.read(&mut sent).expect("an event");
        assert_eq!(serde_json::from_slice::<Event>(&sent[..length]).expect("an event"), Event::Waits);
        assert!(!relay.is_stopped());
        drop(theirs);
        relay.waits();
        assert!(relay.is_stopped());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn losses_that_a_command_finds_are_kept_for_the_metrics_until_the_next_command() {
        let test = crate::test_gateway::TestGateway::new();
        test.put("k", b"content").await;
        test.gateway.archive.flush(&fulgurite_archive::watch::Unwatched).expect("a flush");
        let verify = || {
            let (client, mut theirs, _stop_tx) = pair();
            let hello = serde_json::json!({ "fulgurite": VERSION, "command": "verify" });
            let request = serde_json::to_string(&Request::Scrub { repair: None }).expect("text");
            theirs.write_all(format!("{hello}\n{request}\n").as_bytes()).expect("sent");
            theirs.shutdown(std::net::Shutdown::Write).expect("an end");
            tokio::task::block_in_place(|| serve(&client, &test.gateway, &tokio::runtime::Handle::current())).expect("served");
            test.gateway.health.command_lost()
        };
        assert_eq!((test.gateway.health.command_lost(), verify()), (None, Some(0)));
        let folder = test.gateway.archive.home().join("d1/platters");
        let away = folder.with_extension("away");
        std::fs::rename(&folder, &away).expect("moved");
        std::fs::create_dir(&folder).expect("an empty folder");
        assert_eq!(verify(), Some(1));
        std::fs::remove_dir(&folder).expect("removed");
        std::fs::rename(&away, &folder).expect("moved back");
        assert_eq!(verify(), Some(0));
    }

    #[test]
    fn a_stopping_server_stops_reads_and_writes() {
        let (client, _theirs, stop) = pair();
        stop.send(true).expect("sent");
        assert!(Relay::new(&client, true).is_stopped() && Relay::new(&client, false).is_stopped());
        assert!(client.read_line().expect("no error").is_none());
    }

    #[test]
    fn progress_is_accumulated_without_loss() {
        let (client, mut theirs, _stop_tx) = pair();
        let relay = Relay::new(&client, true);
        for _ in 0..1_000 {
            relay.done(1, 10);
        }
        relay.stage("next", None);
        drop(client);
        let mut sent = String::new();
        theirs.read_to_string(&mut sent).expect("text");
        let mut sum = (0, 0);
        for line in sent.lines() {
            if let Event::Done { objects, bytes } = serde_json::from_str(line).expect("an event") {
                sum = (sum.0 + objects, sum.1 + bytes);
            }
        }
        assert_eq!(sum, (1_000, 10_000));
        assert!(sent.lines().count() < 100, "{sent}");
    }

    #[test]
    fn a_malformed_platter_id_is_named_in_the_error() {
        let test = crate::test_gateway::TestGateway::new();
        let (client, _theirs, _stop_tx) = pair();
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let guard = test.gateway.jobs.command_lock.try_lock("recover").expect("free");
        let request = Request::Recover { platter: "7b".to_owned(), store: None };
        let error = carry_out(&request, &client, &test.gateway, runtime.handle(), &guard).expect_err("malformed").to_string();
        assert!(error.contains("\"7b\"") && error.contains("32 hexadecimal digits"), "{error}");
    }

    #[test]
    fn lines_are_returned_whole_and_in_order() {
        let (client, mut theirs, _stop_tx) = pair();
        theirs.write_all(b"one\ntw").expect("sent");
        assert_eq!(client.read_line().expect("a line").as_deref(), Some("one\n"));
        theirs.write_all(b"o\n").expect("sent");
        assert_eq!(client.read_line().expect("a line").as_deref(), Some("two\n"));
        theirs.write_all(&vec![b'x'; REQUEST_BYTES_MAX + 1]).expect("sent");
        assert!(client.read_line().is_err(), "a line without end is not kept");
    }
}
