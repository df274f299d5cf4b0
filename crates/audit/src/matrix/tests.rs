use std::sync::Mutex;

use fulgurite_digest::{Algorithm, Digester};
use fulgurite_places::{Cause, Connection, Listed, Place, Refusal};

use super::*;
use crate::copy::Expected;
use crate::database::{BenchmarkDatabase as _, IncidentKind, Source, Sqlite};
use crate::expectation::{Expectation, Fit, Verdict};
use crate::fake_place::{FakePlace, Fault};
use crate::inventory::Row;
use crate::node::{DAY_S, Medium};
use crate::series::Series;
use crate::slowdown::{Detector, Parameters, Timing};

const NOW: u64 = 1_800_000_000;
const HOUR: Duration = Duration::from_secs(3_600);

/// A wall clock that a test moves.
struct HandClock(Mutex<u64>);

impl HandClock {
    fn pass(&self, seconds: u64) {
        *self.0.lock().expect("no test panics here") += seconds;
    }
}

impl Clock for HandClock {
    fn wall(&self) -> u64 {
        *self.0.lock().expect("no test panics here")
    }

    fn steady(&self) -> Duration {
        Duration::from_secs(self.wall())
    }

    fn nap(&self) -> Duration {
        Duration::from_millis(1)
    }
}

/// A place that signs URLs for the files of a fake one.
struct Signing {
    files: FakePlace,
    fetched: Mutex<Vec<String>>,
}

impl Place for Signing {
    fn connect(&self) -> Result<Box<dyn Connection>, Refusal> {
        Ok(Box::new(SigningConnection(self.files.connect()?)))
    }

    fn fetch_url(&self, url: &str, sink: &mut dyn FnMut(&[u8]) -> bool) -> Result<u64, Refusal> {
        self.fetched.lock().expect("no test panics here").push(url.to_owned());
        let location = url.strip_prefix("https://files/").and_then(|rest| rest.strip_suffix("?signature")).expect("a URL of this place");
        self.files.connect()?.read(location, sink)
    }

    fn describe(&self) -> String {
        "a place that signs".into()
    }
}

struct SigningConnection(Box<dyn Connection>);

impl Connection for SigningConnection {
    fn length(&mut self, location: &str) -> Result<u64, Refusal> {
        self.0.length(location)
    }

    fn read(&mut self, location: &str, sink: &mut dyn FnMut(&[u8]) -> bool) -> Result<u64, Refusal> {
        self.0.read(location, sink)
    }

    fn list(&mut self, each: &mut dyn FnMut(Listed) -> bool) -> Result<(), Refusal> {
        self.0.list(each)
    }

    fn write(&mut self, location: &str, bytes: u64, content: &mut dyn std::io::Read) -> Result<(), Refusal> {
        self.0.write(location, bytes, content)
    }

    fn remove(&mut self, location: &str) -> Result<(), Refusal> {
        self.0.remove(location)
    }

    fn presigned_url(&mut self, location: &str, _: Duration) -> Result<Option<String>, Refusal> {
        Ok(Some(format!("https://files/{location}?signature")))
    }
}

/// Two nodes with two known files; the first one signs URLs.
struct Matrix {
    _folder: tempfile::TempDir,
    database: Sqlite,
    nodes: Vec<Node>,
    signing: Signing,
    plain: FakePlace,
    clock: HandClock,
}

impl Matrix {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut database = Sqlite::create(&folder.path().join("audit.db")).expect("a database can be created");
        let mut nodes = Vec::new();
        for name in ["signing", "plain"] {
            let mut node = Node {
                id: NodeId(0),
                name: name.into(),
                place: format!("/{name}"),
                options: Vec::new(),
                medium: Medium::Disk,
                rules: Medium::Disk.rules(),
                expected_time: None,
            };
            node.id = database.add_node(&node).expect("the name is free");
            nodes.push(node);
        }
        let places = [FakePlace::default(), FakePlace::default()];
        let mut rows = Vec::new();
        for (name, content) in [("small", &b"small content"[..]), ("large", &[7; 5_000])] {
            let mut digester = Digester::new(&[Algorithm::Sha256]);
            digester.update(content);
            let expected = Expected { bytes: Some(content.len() as u64), digests: digester.finish() };
            rows.push(Ok(Row { name: name.into(), expected, location: None, node: None }));
            places.iter().for_each(|place| place.put(name, content));
        }
        let ids: Vec<NodeId> = nodes.iter().map(|node| node.id).collect();
        database.import(Source::list("list"), &ids, false, NOW, &mut rows.into_iter()).expect("the inventory is right");
        let [files, plain] = places;
        let signing = Signing { files, fetched: Mutex::default() };
        Self { _folder: folder, database, nodes, signing, plain, clock: HandClock(Mutex::new(NOW)) }
    }

    fn add(&mut self, node: usize, name: &str, probe: Probe) {
        let file = self.database.history(name).expect("readable").expect("imported").file;
        self.database.set_benchmark(self.nodes[node].id, file, probe, HOUR, self.clock.wall()).expect("added");
    }

    /// Expects a time that no reading in memory exceeds.
    fn expect(&mut self, node: usize, probe: Probe, base_s: f64) {
        let expectation = Expectation::new(base_s, 0.0).expect("usable");
        let time = ExpectedTime { node: self.nodes[node].id, probe, expectation, is_learned: false };
        self.database.set_expected_time(&time).expect("stored");
    }

    /// Runs what is due, or all, and returns the new records.
    fn run(&mut self, all: bool, observer: &mut dyn Observer) -> Vec<BenchmarkRecord> {
        let before = self.database.benchmark_records(0, 100_000).expect("readable").last().map_or(0, |(record, _)| record.record);
        let places: [&dyn Place; 2] = [&self.signing, &self.plain];
        let targets: Vec<Target<'_>> = self.nodes.iter().zip(places).map(|(node, place)| Target { node: node.clone(), place }).collect();
        run(&mut self.database, &targets, Until::AllTried, all, &Stop::default(), &self.clock, observer).expect("the database works");
        let records = self.database.benchmark_records(before, 100_000).expect("readable");
        records.into_iter().map(|(record, _)| record).collect()
    }
}

#[test]
fn what_is_due_is_read_once_by_each_kind() {
    let mut matrix = Matrix::new();
    for name in ["small", "large"] {
        matrix.add(0, name, Probe::Access);
        matrix.add(0, name, Probe::Audit);
        matrix.add(1, name, Probe::Audit);
    }
    for (node, probe) in [(0, Probe::Access), (0, Probe::Audit), (1, Probe::Audit)] {
        matrix.expect(node, probe, 60.0);
    }
    let records = matrix.run(false, &mut ());
    assert_eq!(records.len(), 6);
    for record in &records {
        assert_eq!((record.verdict, record.expected_s, &*record.detail), (Some(Verdict::Pass), Some(60.0), ""), "{record:?}");
        assert!([13, 5_000].contains(&record.bytes) && record.at == NOW && !record.measured.is_zero());
    }
    let mut fetched = matrix.signing.fetched.lock().expect("no test panics here").clone();
    fetched.sort();
    assert_eq!(fetched, ["https://files/large?signature", "https://files/small?signature"]);

    matrix.clock.pass(3_599);
    assert!(matrix.run(false, &mut ()).is_empty());
    assert_eq!(matrix.run(true, &mut ()).len(), 6);
    matrix.clock.pass(3_600);
    assert_eq!(matrix.run(false, &mut ()).len(), 6);
    // A clock that was ahead when they were read keeps none waiting.
    matrix.clock.pass(100 * DAY_S);
    assert_eq!(matrix.run(false, &mut ()).len(), 6);
    *matrix.clock.0.lock().expect("no test panics here") = NOW;
    assert_eq!(matrix.run(false, &mut ()).len(), 6);
    assert!(matrix.run(false, &mut ()).is_empty());
}

#[test]
fn faults_end_as_what_they_are() {
    let mut matrix = Matrix::new();
    matrix.add(1, "small", Probe::Audit);
    for (fault, verdict, detail) in [
        (Fault::Content(b"Small content".to_vec()), Some(Verdict::Error), "other bytes, with sha256:"),
        (Fault::Content(b"a login page".to_vec()), Some(Verdict::Error), "12 bytes instead of 13"),
        (Fault::Refuse(Cause::Missing), Some(Verdict::Error), "the file does not exist"),
        (Fault::CutHalf, Some(Verdict::Unanswered), "the answer has 6 of 13 bytes"),
        (Fault::LieHalf, Some(Verdict::Unanswered), "the answer has 6 of 13 bytes"),
        (Fault::Refuse(Cause::Denied), Some(Verdict::Unanswered), "access denied"),
        (Fault::Refuse(Cause::TimedOut), Some(Verdict::Unanswered), "no answer within the deadline"),
        (Fault::Panic, Some(Verdict::Unanswered), "a fault of the program"),
    ] {
        matrix.plain.fault("small", fault);
        matrix.clock.pass(3_600);
        let records = matrix.run(false, &mut ());
        assert_eq!((records.len(), records[0].verdict), (1, verdict), "{records:?}");
        assert!(records[0].detail.contains(detail), "{records:?}");
    }
    // A place without URLs says so at each reading.
    matrix.add(1, "small", Probe::Access);
    let records = matrix.run(false, &mut ());
    assert_eq!(records[0].verdict, Some(Verdict::Unanswered));
    assert!(records[0].detail.contains("it signs no URLs"), "{records:?}");
    // No state of a copy changed.
    let totals = matrix.database.totals().expect("readable");
    assert!(totals.iter().all(|total| total.state == crate::copy::State::Unverified), "{totals:?}");
}

#[derive(Default)]
struct Heard {
    learned: Vec<ExpectedTime>,
    incidents: Vec<IncidentKind>,
}

impl Observer for Heard {
    fn learned(&mut self, _: &Node, time: &ExpectedTime) {
        self.learned.push(*time);
    }

    fn incident(&mut self, _: &Node, incident: &Incident) {
        self.incidents.push(incident.kind);
    }
}

#[test]
fn an_expected_time_is_learned_from_right_readings() {
    let mut matrix = Matrix::new();
    matrix.add(1, "small", Probe::Audit);
    let mut heard = Heard::default();
    for round in 0..Fit::LEAST_SAMPLES + 3 {
        if round % 12 == 0 {
            matrix.plain.fault("small", Fault::Refuse(Cause::TimedOut));
        }
        matrix.clock.pass(3_600);
        let record = matrix.run(false, &mut heard).remove(0);
        let is_right = round % 12 != 0;
        assert_eq!(record.verdict.is_none(), is_right && record.expected_s.is_none(), "{record:?}");
        assert_eq!(record.expected_s, None);
    }
    assert_eq!(heard.learned.len(), 1);
    let learned = heard.learned[0];
    assert!(learned.is_learned && learned.expectation.slope_ns() == 0.0, "{learned:?}");
    matrix.clock.pass(3_600);
    let record = matrix.run(false, &mut heard).remove(0);
    assert_eq!(record.expected_s, Some(learned.expectation.base_s()));
    assert!(record.verdict.is_some());
    // The detector has seen the readings from which the time was learned.
    let series = Series::Benchmarks(Probe::Audit);
    let state = matrix.database.detector(matrix.nodes[1].id, series).expect("readable").expect("stored");
    let mut detector = Detector::new(learned.expectation, Parameters::default()).expect("usable");
    for record in matrix.database.benchmark_series(matrix.nodes[1].id, Probe::Audit, 0, 1_000).expect("readable") {
        if record.verdict != Some(Verdict::Unanswered) {
            let timing = Timing::Answered(record.measured);
            let _ = detector.observe(Check { at_s: record.at, bytes: record.bytes, timing });
        }
    }
    assert_eq!(Detector::from_bytes(&state).expect("a state"), detector);
}

#[test]
fn a_slow_node_is_named_by_its_benchmarks() {
    let mut matrix = Matrix::new();
    matrix.expect(1, Probe::Audit, 1.0);
    let node = matrix.nodes[1].clone();
    let mut times = Times::load(&mut matrix.database, std::iter::once(&node)).expect("readable");
    let key = (node.id, Probe::Audit);
    let mut reported = Vec::new();
    // Five weeks as usual, with some spread; then twice as slow.
    for hour in 0..24 * 40_u64 {
        let slow = if hour > 24 * 35 { 2.0 } else { 1.0 };
        let seconds = slow * (0.8 + 0.05 * ((hour * 7) % 9) as f64);
        let timing = Timing::Answered(Duration::from_secs_f64(seconds));
        let (incident, state) = times.observe(key, Check { at_s: NOW + hour * 3_600, bytes: 5, timing });
        assert!(state.is_some());
        if let Some(incident) = incident {
            assert_eq!((incident.node, incident.series), (node.id, Series::Benchmarks(Probe::Audit)));
            reported.push((hour, incident.kind));
        }
    }
    let kinds: Vec<IncidentKind> = reported.iter().map(|(_, kind)| *kind).collect();
    assert_eq!(kinds, [IncidentKind::Learned, IncidentKind::Slower]);
    assert!(reported[1].0 - 24 * 35 <= 24, "named after {} hours", reported[1].0 - 24 * 35);
}

#[test]
fn an_interrupted_reading_is_due_again() {
    /// Passes bytes for as long as they are taken.
    struct Endless<'a>(&'a Stop);

    impl Place for Endless<'_> {
        fn connect(&self) -> Result<Box<dyn Connection>, Refusal> {
            let place = FakePlace::default();
            place.put("small", b"small content");
            self.0.stop();
            place.connect()
        }

        fn describe(&self) -> String {
            "a place that takes long".into()
        }
    }

    #[derive(Default)]
    struct Interrupted(u64);

    impl Observer for Interrupted {
        fn interrupted(&mut self, _: &Node, _: &Benchmark) {
            self.0 += 1;
        }
    }

    let mut matrix = Matrix::new();
    matrix.add(1, "small", Probe::Audit);
    let stop = Stop::default();
    let place = Endless(&stop);
    let target = Target { node: matrix.nodes[1].clone(), place: &place };
    let mut observer = Interrupted::default();
    run(&mut matrix.database, &[target], Until::AllTried, false, &stop, &matrix.clock, &mut observer).expect("the database works");
    assert_eq!(observer.0, 1);
    let benchmark = matrix.database.benchmarks().expect("readable").remove(0);
    assert!(benchmark.due_at == NOW && benchmark.is_late(NOW));
    assert_eq!(matrix.run(false, &mut ()).len(), 1);
    let benchmark = matrix.database.benchmarks().expect("readable").remove(0);
    assert!(!benchmark.is_late(NOW + 7_200) && benchmark.is_late(NOW + 7_201));
}

#[test]
fn without_a_digest_no_bytes_are_right() {
    let mut matrix = Matrix::new();
    matrix.add(1, "small", Probe::Audit);
    let row = Row { name: "small".into(), expected: Expected { bytes: Some(14), digests: Vec::new() }, location: None, node: None };
    matrix.database.import(Source::list("list"), &[matrix.nodes[1].id], true, NOW, &mut std::iter::once(Ok(row))).expect("replaced");
    let record = matrix.run(false, &mut ()).remove(0);
    assert_eq!((record.verdict, record.bytes), (Some(Verdict::Unanswered), 0));
    assert!(record.detail.contains("its digest isn't known any more"), "{record:?}");
}

#[test]
fn a_stalled_node_delays_no_other() {
    /// Never answers, until it is told to stop.
    struct Stalled<'a>(&'a Stop);

    impl Place for Stalled<'_> {
        fn connect(&self) -> Result<Box<dyn Connection>, Refusal> {
            while !self.0.is_stopped() {
                thread::sleep(Duration::from_millis(1));
            }
            Err(Refusal::new(Cause::TimedOut, ""))
        }

        fn describe(&self) -> String {
            "a place that stalls".into()
        }
    }

    /// Stops the run once the good node's files were read ten times.
    struct StopAfter<'a>(&'a Stop, &'a HandClock, Vec<String>);

    impl Observer for StopAfter<'_> {
        fn recorded(&mut self, node: &Node, _: &Benchmark, _: &BenchmarkRecord) {
            self.2.push(node.name.clone());
            self.1.pass(3_600);
            if self.2.len() == 10 {
                self.0.stop();
            }
        }
    }

    let mut matrix = Matrix::new();
    matrix.add(0, "small", Probe::Audit);
    matrix.add(1, "small", Probe::Audit);
    let stop = Stop::default();
    let stalled = Stalled(&stop);
    let places: [&dyn Place; 2] = [&stalled, &matrix.plain];
    let targets: Vec<Target<'_>> = matrix.nodes.iter().zip(places).map(|(node, place)| Target { node: node.clone(), place }).collect();
    let mut observer = StopAfter(&stop, &matrix.clock, Vec::new());
    run(&mut matrix.database, &targets, Until::Stopped, false, &stop, &matrix.clock, &mut observer).expect("the database works");
    assert!(observer.2.len() <= 11 && observer.2.iter().take(10).all(|name| name == "plain"), "{:?}", observer.2);
}
