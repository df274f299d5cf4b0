//! Traces of restores, from the request to the last byte, as lines of OTLP in JSON: a collector of
//! OpenTelemetry reads the file, with its receiver `otlpjsonfile`.
//!
//! ```text
//! restore |-----------------------------------------------------------|  one trace
//!   before the library |---|
//!   in the library          |------------------------------------|
//!     pick, place (P7, shuttle 3)   |-|        |-|
//!     mount, read (P7, drive 2)                    |-|----|
//!     check bytes (P7)                                 |--|
//!   read from stores (if the library didn't suffice)              |---|
//! ```
//!
//! Gaps are waits. Spans of a restore are kept in memory until it ends, and written then. Times are
//! of this machine's clock, also if the library runs faster than real time.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use fulgurite_domain::VersionId;
use fulgurite_journal::Fact;
use fulgurite_library::{Action, Actor, Command, CommandId, Event, RegionPlatter, RequestId};
use fulgurite_live::Read;
use serde_json::{Value, json};

use crate::state::{Restore, hex, random};

/// Restores that are traced at the same time; others aren't.
const OPEN_MAX: usize = 1_000;
/// Spans of a restore; later ones are left out.
const SPANS_MAX: usize = 1_000;
/// Beyond this size, the file is renamed, and a new one begun.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// An instant, in nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant(u64);

impl Instant {
    pub(crate) fn now() -> Self {
        Self(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64))
    }

    fn of_ms(ms: i64) -> Self {
        Self(ms.unsigned_abs().saturating_mul(1_000_000))
    }
}

/// A part of a restore.
#[derive(Debug)]
struct Span {
    name: &'static str,
    start: Instant,
    end: Instant,
    is_in_library: bool,
    attributes: Vec<(&'static str, Value)>,
}

/// A restore that is traced.
#[derive(Debug)]
struct Trace {
    root: Span,
    spans: Vec<Span>,
    /// When the present request to the library began.
    in_library: Option<Instant>,
}

/// What a machine does for platters that are wanted.
#[derive(Debug)]
struct Work {
    name: &'static str,
    start: Instant,
    platter: RegionPlatter,
    /// The request that it is for; all that want the platter if `None`.
    request: Option<RequestId>,
    is_recovery: bool,
}

#[derive(Debug, Default)]
struct Open {
    restores: HashMap<VersionId, Trace>,
    requests: HashMap<RequestId, (VersionId, Vec<RegionPlatter>)>,
    wanted: HashMap<RegionPlatter, Vec<RequestId>>,
    work: HashMap<CommandId, Work>,
}

/// Writes traces.
#[derive(Debug)]
pub(crate) struct Traces {
    path: PathBuf,
    /// `None` after a failure.
    file: Mutex<Option<File>>,
    open: Mutex<Open>,
}

/// Each change under the locks of this module is complete at once.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Traces {
    /// Opens the file of the settings, relative to the archive's folder; `None` if they name none.
    pub(crate) fn open(home: &Path, file: &str) -> io::Result<Option<Arc<Self>>> {
        if file.is_empty() {
            return Ok(None);
        }
        let path = home.join(file);
        let file = open_file(&path)?;
        Ok(Some(Arc::new(Self { path, file: Mutex::new(Some(file)), open: Mutex::default() })))
    }

    /// A restore is taken up.
    pub(crate) fn begin(&self, restore: &Restore, bytes: u64) {
        let mut open = lock(&self.open);
        if open.restores.len() >= OPEN_MAX || open.restores.contains_key(&restore.id) {
            return;
        }
        let start = Instant::of_ms(restore.requested_ms);
        let attributes = vec![
            ("fulgurite.bucket", json!(restore.bucket)),
            ("fulgurite.key", json!(restore.key)),
            ("fulgurite.version", json!(restore.id.to_string())),
            ("fulgurite.account", json!(restore.account)),
            ("fulgurite.tier", json!(restore.tier)),
            ("fulgurite.bytes", json!(bytes)),
        ];
        let root = Span { name: "restore", start, end: start, is_in_library: false, attributes };
        open.restores.insert(restore.id, Trace { root, spans: Vec::new(), in_library: None });
    }

    /// Adds a part of a restore that ends now.
    pub(crate) fn add(&self, id: VersionId, name: &'static str, start: Instant, attributes: Vec<(&'static str, Value)>) {
        if let Some(trace) = lock(&self.open).restores.get_mut(&id) {
            trace.add(Span { name, start, end: Instant::now(), is_in_library: trace.in_library.is_some(), attributes });
        }
    }

    /// A restore has become a request to the library, for these platters.
    pub(crate) fn requested(&self, id: VersionId, request: RequestId, platters: Vec<RegionPlatter>) {
        let now = Instant::now();
        let mut open = lock(&self.open);
        let Some(trace) = open.restores.get_mut(&id) else { return };
        let since = trace.spans.iter().map(|span| span.end).max().unwrap_or(trace.root.start);
        let before = Span { name: "before the library", start: since, end: now, is_in_library: false, attributes: Vec::new() };
        trace.add(before);
        trace.in_library = Some(now);
        for platter in &platters {
            open.wanted.entry(*platter).or_default().push(request);
        }
        open.requests.insert(request, (id, platters));
    }

    /// A drive was told to read for a request.
    pub(crate) fn reading(&self, read: &Read) {
        let mut open = lock(&self.open);
        if open.requests.contains_key(&read.request) {
            let Read { command, request, platter, is_recovery, .. } = *read;
            open.work.insert(command, Work { name: "read", start: Instant::now(), platter, request: Some(request), is_recovery });
        }
    }

    /// Machines do something, or have done it.
    pub(crate) fn fact(&self, fact: &Fact) {
        match *fact {
            Fact::Commanded { command: Command::Do { id, action }, .. } => {
                let (name, platter) = match action {
                    Action::Pick { platter, .. } => ("pick", platter),
                    Action::Place { platter, .. } => ("place", platter),
                    Action::Mount { platter, .. } => ("mount", platter),
                    _ => return,
                };
                let platter = RegionPlatter(platter.0);
                let mut open = lock(&self.open);
                if open.wanted.contains_key(&platter) {
                    open.work.insert(id, Work { name, start: Instant::now(), platter, request: None, is_recovery: false });
                }
            }
            Fact::Happened { event: Event::Done { command }, .. } => lock(&self.open).done(command, false),
            Fact::Happened { event: Event::Failed { command, .. }, .. } => lock(&self.open).done(command, true),
            _ => {}
        }
    }

    /// A request to the library has ended.
    pub(crate) fn left(&self, request: RequestId, outcome: &'static str) {
        let mut open = lock(&self.open);
        let Some((id, platters)) = open.requests.remove(&request) else { return };
        for platter in platters {
            if let Some(wanting) = open.wanted.get_mut(&platter) {
                wanting.retain(|other| *other != request);
                if wanting.is_empty() {
                    open.wanted.remove(&platter);
                }
            }
        }
        if let Some(trace) = open.restores.get_mut(&id)
            && let Some(start) = trace.in_library.take()
        {
            let attributes = vec![("fulgurite.outcome", json!(outcome))];
            trace.add(Span { name: "in the library", start, end: Instant::now(), is_in_library: false, attributes });
        }
    }

    /// A restore has ended: writes its trace. `error` is why it failed.
    pub(crate) fn end(&self, id: VersionId, how: &'static str, error: Option<&str>) {
        let Some(mut trace) = lock(&self.open).restores.remove(&id) else { return };
        trace.root.end = Instant::now();
        trace.root.attributes.push(("fulgurite.end", json!(how)));
        let line = trace.to_otlp(error);
        let mut file = lock(&self.file);
        if let Some(open) = &mut *file
            && let Err(error) = self.write(open, &line)
        {
            tracing::error!(%error, path = %self.path.display(), "traces can't be written any more");
            *file = None;
        }
    }

    fn write(&self, file: &mut File, line: &Value) -> io::Result<()> {
        if file.metadata()?.len() >= FILE_BYTES_MAX {
            let mut old = self.path.clone().into_os_string();
            old.push(".1");
            fs::rename(&self.path, old)?;
            *file = open_file(&self.path)?;
        }
        // At once, so that a kill leaves whole lines.
        file.write_all(format!("{line}\n").as_bytes())
    }
}

fn open_file(path: &Path) -> io::Result<File> {
    // It has names of objects.
    File::options().create(true).append(true).mode(0o600).open(path)
}

impl Open {
    fn done(&mut self, command: CommandId, is_failed: bool) {
        let Some(Work { name, start, platter, request, is_recovery }) = self.work.remove(&command) else { return };
        let end = Instant::now();
        let machine = match command.actor {
            Actor::Shuttle(shuttle) => ("fulgurite.shuttle", json!(shuttle.0)),
            Actor::Drive(drive) => ("fulgurite.drive", json!(drive.0)),
        };
        let wanting = request.map_or_else(|| self.wanted.get(&platter).cloned().unwrap_or_default(), |request| vec![request]);
        for request in wanting {
            let Some((id, _)) = self.requests.get(&request) else { continue };
            let Some(trace) = self.restores.get_mut(id) else { continue };
            let mut attributes = vec![("fulgurite.platter", json!(platter.0)), machine.clone()];
            attributes.extend(is_recovery.then_some(("fulgurite.recovery", json!(true))));
            attributes.extend(is_failed.then_some(("fulgurite.failed", json!(true))));
            trace.add(Span { name, start, end, is_in_library: true, attributes });
        }
    }
}

impl Trace {
    fn add(&mut self, span: Span) {
        if self.spans.len() < SPANS_MAX {
            self.spans.push(span);
        }
    }

    /// The trace as a message `TracesData` of OTLP.
    fn to_otlp(&self, error: Option<&str>) -> Value {
        let trace_id = hex(&random::<16>());
        let root = hex(&random::<8>());
        let ids: Vec<String> = self.spans.iter().map(|_| hex(&random::<8>())).collect();
        // A part inside the library belongs to the request that it falls into.
        let parent = |span: &Span| {
            let visits = self.spans.iter().zip(&ids).filter(|(visit, _)| visit.name == "in the library");
            let mut around = visits.filter(|(visit, _)| span.is_in_library && (visit.start..=visit.end).contains(&span.start));
            around.next().map_or(&root, |(_, id)| id)
        };
        let mut first = self.root.to_otlp(&trace_id, &root, None);
        if let Some(error) = error {
            first["status"] = json!({ "code": 2, "message": error });
        }
        let others = self.spans.iter().zip(&ids).map(|(span, id)| span.to_otlp(&trace_id, id, Some(parent(span))));
        let spans: Vec<Value> = std::iter::once(first).chain(others).collect();
        let resource = attributes(&[("service.name", json!("fulgurite")), ("service.version", json!(env!("CARGO_PKG_VERSION")))]);
        json!({
            "resourceSpans": [{
                "resource": { "attributes": resource },
                "scopeSpans": [{ "scope": { "name": "fulgurite.restore" }, "spans": spans }],
            }]
        })
    }
}

impl Span {
    fn to_otlp(&self, trace: &str, id: &str, parent: Option<&String>) -> Value {
        let mut span = json!({
            "traceId": trace,
            "spanId": id,
            "name": self.name,
            // SPAN_KIND_INTERNAL
            "kind": 1,
            "startTimeUnixNano": self.start.0.to_string(),
            "endTimeUnixNano": self.end.max(self.start).0.to_string(),
            "attributes": attributes(&self.attributes),
        });
        if let Some(parent) = parent {
            span["parentSpanId"] = json!(parent);
        }
        span
    }
}

/// Attributes of OTLP. Its JSON has integers as text.
fn attributes(named: &[(&str, Value)]) -> Value {
    let value = |value: &Value| match value {
        Value::Bool(_) => json!({ "boolValue": value }),
        Value::Number(number) => json!({ "intValue": number.to_string() }),
        Value::String(_) => json!({ "stringValue": value }),
        other => json!({ "stringValue": other.to_string() }),
    };
    named.iter().map(|(name, found)| json!({ "key": name, "value": value(found) })).collect()
}

#[cfg(test)]
mod tests {
    use fulgurite_domain::Micros;
    use fulgurite_library::{Berth, Drive, Library, Platter, Shuttle, Slot, Tracks};

    use super::*;

    fn restore(number: u8) -> Restore {
        Restore {
            id: VersionId([number; 16]),
            bucket: "photos".into(),
            key: "moon".into(),
            account: "main".into(),
            tier: "Standard".into(),
            days: 1,
            requested_ms: 1_700_000_000_000,
            due_ms: 1_700_000_010_000,
            done_ms: None,
            expires_ms: None,
        }
    }

    fn command(actor: Actor, number: u64, action: Action) -> [Fact; 2] {
        let id = CommandId { actor, number };
        let done = Fact::Happened { now: Micros(number), library: Library(0), event: Event::Done { command: id } };
        [Fact::Commanded { library: Library(0), command: Command::Do { id, action } }, done]
    }

    fn written(path: &Path) -> Vec<Value> {
        let text = fs::read_to_string(path).expect("a file");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    #[test]
    fn a_trace_has_the_parts_of_a_restore_below_its_request() {
        let folder = tempfile::tempdir().expect("a folder");
        let traces = Traces::open(folder.path(), "traces").expect("a file").expect("it is named");
        let (one, request) = (restore(1), RequestId(5));
        traces.begin(&one, 100);
        traces.requested(one.id, request, vec![RegionPlatter(7)]);
        let platter = Platter(7);
        let shuttle = Actor::Shuttle(Shuttle(3));
        command(shuttle, 1, Action::Pick { from: Berth::Slot(Slot(9)), platter }).iter().for_each(|fact| traces.fact(fact));
        // Of a platter that no request wants.
        command(shuttle, 2, Action::Pick { from: Berth::Slot(Slot(9)), platter: Platter(8) }).iter().for_each(|fact| traces.fact(fact));
        let tracks = Tracks { first: 0, count: 1 };
        let read = CommandId { actor: Actor::Drive(Drive(2)), number: 4 };
        traces.reading(&Read { command: read, request, platter: RegionPlatter(7), tracks, is_recovery: false });
        let done = Fact::Happened { now: Micros(9), library: Library(0), event: Event::Done { command: read } };
        traces.fact(&done);
        traces.left(request, "read");
        traces.end(one.id, "read", None);
        traces.end(one.id, "read", None);

        let lines = written(&folder.path().join("traces"));
        let [line] = &lines[..] else { panic!("one line: {lines:?}") };
        let spans = line["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().expect("spans");
        let names: Vec<&str> = spans.iter().filter_map(|span| span["name"].as_str()).collect();
        assert_eq!(names, ["restore", "before the library", "pick", "read", "in the library"]);
        assert_eq!(spans[0]["startTimeUnixNano"], "1700000000000000000");
        assert!(spans[0].get("parentSpanId").is_none());
        assert_eq!((&spans[1]["parentSpanId"], &spans[4]["parentSpanId"]), (&spans[0]["spanId"], &spans[0]["spanId"]));
        assert_eq!((&spans[2]["parentSpanId"], &spans[3]["parentSpanId"]), (&spans[4]["spanId"], &spans[4]["spanId"]));
        assert!(spans.iter().all(|span| span["traceId"] == spans[0]["traceId"]));
        let open = lock(&traces.open);
        assert!(open.restores.is_empty() && open.requests.is_empty() && open.wanted.is_empty() && open.work.is_empty(), "{open:?}");
    }

    #[test]
    fn failures_are_told_and_memory_is_bounded() {
        let folder = tempfile::tempdir().expect("a folder");
        let traces = Traces::open(folder.path(), "traces").expect("a file").expect("it is named");
        for number in 0..2 * OPEN_MAX {
            let mut one = restore(0);
            one.id.0[..8].copy_from_slice(&(number as u64).to_le_bytes());
            traces.begin(&one, 0);
        }
        assert_eq!(lock(&traces.open).restores.len(), OPEN_MAX);
        let id = restore(0).id;
        (0..2 * SPANS_MAX).for_each(|_| traces.add(id, "read from stores", Instant::now(), Vec::new()));
        traces.end(id, "failed", Some("a disk is gone"));
        let line = &written(&folder.path().join("traces"))[0];
        let spans = line["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().expect("spans");
        assert_eq!((spans.len(), &spans[0]["status"]), (SPANS_MAX + 1, &json!({ "code": 2, "message": "a disk is gone" })));
    }
}
