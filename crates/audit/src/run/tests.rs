use std::sync::Mutex;

use fulgurite_digest::{Algorithm, Digester};
use fulgurite_places::Cause;

use super::*;
use crate::copy::Expected;
use crate::database::{EventKind, Source, Sqlite};
use crate::fake_place::{FakePlace, Fault};
use crate::inventory::Row;
use crate::node::{DAY_S, Medium, Rules};

const NOW: u64 = 1_800_000_000;

/// A clock that moves only when it is looked at.
struct TestClock {
    steady: Mutex<Duration>,
    /// What a look at the steady time takes.
    step: Duration,
    wall_ahead: Mutex<i64>,
}

impl TestClock {
    fn new() -> Self {
        Self { steady: Mutex::new(Duration::from_secs(1)), step: Duration::from_millis(1), wall_ahead: Mutex::new(0) }
    }

    fn set_ahead(&self, seconds: i64) {
        *self.wall_ahead.lock().expect("no test panics here") = seconds;
    }
}

impl Clock for TestClock {
    fn wall(&self) -> u64 {
        let steady = self.steady.lock().expect("no test panics here").as_secs();
        (NOW + steady).saturating_add_signed(*self.wall_ahead.lock().expect("no test panics here"))
    }

    fn steady(&self) -> Duration {
        let mut steady = self.steady.lock().expect("no test panics here");
        *steady += self.step;
        *steady
    }

    fn nap(&self) -> Duration {
        Duration::from_millis(1)
    }
}

struct Audit {
    _folder: tempfile::TempDir,
    database: Sqlite,
    nodes: Vec<Node>,
    places: Vec<FakePlace>,
    clock: TestClock,
    files: usize,
}

fn name(index: usize) -> String {
    format!("folder/file {index}")
}

fn content(index: usize) -> Vec<u8> {
    format!("content of file {index}").into_bytes()
}

fn audit(nodes: usize, files: usize) -> Audit {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut database = Sqlite::create(&folder.path().join("audit.db")).expect("a database");
    let mut audit: (Vec<FakePlace>, Vec<Node>) = Default::default();
    for number in 0..nodes {
        let place = FakePlace::default();
        (0..files).for_each(|index| place.put(&name(index), &content(index)));
        audit.0.push(place);
        let rules = Rules { workers: 3, ..Medium::Disk.rules() };
        let mut node = Node {
            id: NodeId(0),
            name: format!("node-{number}"),
            place: String::new(),
            options: Vec::new(),
            medium: Medium::Disk,
            rules,
            expected_time: None,
        };
        node.id = database.add_node(&node).expect("the name is free");
        audit.1.push(node);
    }
    let ids: Vec<NodeId> = audit.1.iter().map(|node| node.id).collect();
    let mut rows = (0..files).map(|index| {
        let mut digester = Digester::new(&[Algorithm::Sha512]);
        digester.update(&content(index));
        let expected = Expected { bytes: Some(digester.bytes()), digests: digester.finish() };
        Ok(Row { name: name(index), expected, location: None, node: None })
    });
    database.import(Source::list("list"), &ids, false, NOW, &mut rows).expect("imported");
    Audit { _folder: folder, database, nodes: audit.1, places: audit.0, clock: TestClock::new(), files }
}

impl Audit {
    fn run_with(&mut self, observer: &mut dyn Observer) -> Vec<NodeSummary> {
        let targets: Vec<Target<'_>> =
            self.nodes.iter().zip(&self.places).map(|(node, place)| Target { node: node.clone(), place }).collect();
        run(&mut self.database, &targets, Until::AllTried, &Stop::default(), &self.clock, observer).expect("the run ends")
    }

    fn run(&mut self) -> Vec<NodeSummary> {
        self.run_with(&mut ())
    }

    fn kind(&mut self, node: usize, index: usize) -> EventKind {
        let history = self.database.history(&name(index)).expect("readable").expect("known");
        history.copies[node].events[0].kind
    }
}

#[test]
fn all_copies_of_all_nodes_are_verified_once() {
    let mut audit = audit(3, 1_500);
    for summary in audit.run() {
        assert_eq!((summary.checks(), summary.count(State::Verified)), (1_500, 1_500));
        assert_eq!(summary.given_up, None);
        assert!(summary.whole >= summary.stream.min(Duration::from_millis(1)));
    }
    for place in &audit.places {
        assert_eq!(place.readings.load(Ordering::Relaxed), 1_500);
    }
    // Nothing is due until the second check, a day later.
    assert!(audit.run().iter().all(|summary| summary.checks() == 0));
    audit.clock.set_ahead(DAY_S as i64 + 3_600);
    assert!(audit.run().iter().all(|summary| summary.count(State::Verified) == 1_500));
    assert_eq!(audit.database.events(0, 100_000).expect("readable").len(), 9_000);
}

#[test]
fn damage_is_found_at_its_node_and_nowhere_else() {
    let mut audit = audit(3, 40);
    audit.run();
    audit.places[0].put(&name(7), b"content of file 8");
    audit.places[1].delete(&name(7));
    audit.places[2].put(&name(9), b"short");
    audit.places[2].fault(&name(11), Fault::Refuse(Cause::Connection));
    audit.places[2].fault(&name(12), Fault::Content(b"a passing fault".to_vec()));
    audit.clock.set_ahead(DAY_S as i64 + 3_600);
    let summaries = audit.run();
    assert_eq!(audit.kind(0, 7), EventKind::Checked(State::DigestMismatch));
    assert_eq!(audit.kind(1, 7), EventKind::Checked(State::Missing));
    assert_eq!(audit.kind(2, 7), EventKind::Checked(State::Verified));
    assert_eq!(audit.kind(2, 9), EventKind::Checked(State::SizeMismatch));
    assert_eq!(audit.kind(2, 11), EventKind::Checked(State::Unavailable));
    assert_eq!(audit.kind(2, 12), EventKind::VerifiedAfterDispute);
    let verified: Vec<u64> = summaries.iter().map(|summary| summary.count(State::Verified)).collect();
    assert_eq!(verified, [39, 39, 38]);
}

#[test]
fn a_node_that_is_down_is_given_up_and_costs_the_others_nothing() {
    let mut audit = audit(3, 2_000);
    audit.clock.step = Duration::from_millis(50);
    audit.places[1].set_down(Some(Cause::TimedOut));
    #[derive(Default)]
    struct Heard {
        given_up: Vec<String>,
        paused: usize,
    }
    impl Observer for Heard {
        fn paused(&mut self, _node: &Node, _pause: Duration, _why: &str) {
            self.paused += 1;
        }
        fn given_up(&mut self, node: &Node, _why: &str) {
            self.given_up.push(node.name.clone());
        }
    }
    let mut heard = Heard::default();
    let summaries = audit.run_with(&mut heard);
    assert_eq!([0, 2].map(|node| summaries[node].count(State::Verified)), [2_000, 2_000]);
    assert_eq!(heard.given_up, ["node-1"]);
    let down = &summaries[1];
    assert!(down.given_up.is_some());
    assert_eq!(down.checks(), down.count(State::Unavailable));
    // Five failures, the copies under way beside them, and a probe for each pause.
    assert!(down.checks() < 20, "{}", down.checks());
    // The others were never tried, so nothing is said about them.
    let totals = audit.database.totals().expect("readable");
    let untried = totals.iter().find(|total| total.node == audit.nodes[1].id && total.state == State::Unverified);
    assert_eq!(untried.map(|total| total.copies), Some(2_000 - down.checks()));
    // When it is back, all of them are checked.
    audit.places[1].set_down(None);
    audit.clock.set_ahead(3_600);
    assert_eq!(audit.run()[1].count(State::Verified), 2_000);
}

#[test]
fn a_node_that_only_asks_for_fewer_requests_is_given_up() {
    for retry_after in [None, Some(Duration::from_secs(1)), Some(Duration::from_secs(3_600))] {
        let mut audit = audit(2, 200);
        audit.clock.step = Duration::from_millis(50);
        audit.places[1].set_down(Some(Cause::Throttled { retry_after }));
        let summaries = audit.run();
        assert_eq!((summaries[0].count(State::Verified), summaries[0].given_up.as_deref()), (200, None));
        let throttled = &summaries[1];
        assert!(throttled.given_up.is_some() && throttled.checks() < 20, "{retry_after:?}: {throttled:?}");
        assert_eq!(throttled.checks(), throttled.count(State::Unavailable));
    }
}

#[test]
fn a_node_that_asks_for_fewer_requests_now_and_then_is_checked_to_the_end() {
    let mut audit = audit(1, 200);
    audit.clock.step = Duration::from_millis(50);
    let throttled: Vec<usize> = (0..200).step_by(7).collect();
    for index in &throttled {
        audit.places[0].fault(&name(*index), Fault::Refuse(Cause::Throttled { retry_after: None }));
    }
    let found = audit.run().remove(0);
    assert_eq!((found.given_up.as_deref(), found.count(State::Unavailable)), (None, throttled.len() as u64));
    assert_eq!(found.count(State::Verified), 200 - throttled.len() as u64);
}

#[test]
fn an_unmounted_disk_loses_no_copy() {
    let mut audit = audit(2, 100);
    audit.run();
    audit.clock.step = Duration::from_millis(50);
    audit.places[0].clear();
    audit.clock.set_ahead(DAY_S as i64 + 3_600);
    let summaries = audit.run();
    assert_eq!(summaries[0].count(State::Missing), 0);
    assert!(summaries[0].given_up.as_deref().is_some_and(|why| why.contains("right disk")), "{:?}", summaries[0]);
    assert_eq!(summaries[1].count(State::Verified), 100);
}

/// Runs again and again at a node that became another one.
fn declares_nothing(audit: &mut Audit) {
    audit.clock.step = Duration::from_millis(50);
    for hour in 1..6 {
        audit.clock.set_ahead(200 * DAY_S as i64 + hour * 3_600);
        let found = audit.run().remove(0);
        let bad: u64 = State::ALL.into_iter().filter(|state| state.is_bad()).map(|state| found.count(state)).sum();
        assert_eq!(bad, 0, "in hour {hour}: {:?}", found.found);
        let gives_up = audit.files > 4;
        assert_eq!(found.given_up.as_deref().is_some_and(|why| why.contains("right disk")), gives_up, "{found:?}");
    }
}

#[test]
fn another_disk_in_its_place_loses_no_copy_however_often_it_is_checked() {
    for method in [None, Some(Method::Header), Some(Method::Provider)] {
        let mut audit = audit(1, 40);
        audit.run();
        if let Some(method) = method {
            audit.nodes[0].rules.method = method;
            audit.database.change_node(&audit.nodes[0]).expect("the node exists");
            audit.clock.set_ahead(100 * DAY_S as i64);
            assert_eq!(audit.run()[0].count(State::HeaderChecked), 40);
        }
        audit.places[0].clear();
        audit.places[0].put("holiday.jpg", b"a beach");
        declares_nothing(&mut audit);
    }
}

#[test]
fn a_login_page_makes_no_attested_copy_wrong() {
    let mut audit = audit(1, 4);
    audit.nodes[0].rules.method = Method::Provider;
    audit.database.change_node(&audit.nodes[0]).expect("the node exists");
    audit.run();
    audit.places[0].answer_all_with(b"<html>log in</html>");
    declares_nothing(&mut audit);
}

#[test]
fn bytes_that_were_found_wrong_are_cleared_by_a_reading_only() {
    let mut audit = audit(1, 30);
    audit.run();
    audit.places[0].put(&name(3), &content(3).to_ascii_uppercase());
    audit.clock.set_ahead(2 * DAY_S as i64);
    assert_eq!(audit.run()[0].count(State::DigestMismatch), 1);
    // The length is right all the time.
    audit.nodes[0].rules.method = Method::Header;
    audit.clock.set_ahead(200 * DAY_S as i64);
    let found = audit.run().remove(0);
    assert_eq!([State::HeaderChecked, State::DigestMismatch].map(|state| found.count(state)), [29, 1]);
    audit.places[0].put(&name(3), &content(3));
    audit.clock.set_ahead(202 * DAY_S as i64);
    assert_eq!(audit.run()[0].count(State::Verified), 1);
    audit.clock.set_ahead(400 * DAY_S as i64);
    assert_eq!(audit.run()[0].count(State::HeaderChecked), 30);
}

#[test]
fn a_panic_at_one_copy_harms_no_other() {
    let mut audit = audit(2, 50);
    audit.places[0].fault(&name(3), Fault::Panic);
    let summaries = audit.run();
    assert_eq!(summaries.iter().map(|summary| summary.count(State::Verified)).collect::<Vec<_>>(), [49, 50]);
    assert_eq!(audit.kind(0, 3), EventKind::Checked(State::Unavailable));
}

#[test]
fn a_stopped_run_keeps_its_results_and_the_rest_stays_due() {
    struct StopAfter<'a>(usize, &'a Stop);
    impl Observer for StopAfter<'_> {
        fn recorded(&mut self, results: &[Checked], _whole: &[Duration]) {
            self.0 = self.0.saturating_sub(results.len());
            if self.0 == 0 {
                self.1.stop();
            }
        }
    }
    let mut audit = audit(1, 20_000);
    let stop = Stop::default();
    let targets = [Target { node: audit.nodes[0].clone(), place: &audit.places[0] }];
    let summaries = run(&mut audit.database, &targets, Until::Stopped, &stop, &audit.clock, &mut StopAfter(1_000, &stop)).expect("stopped");
    let done = summaries[0].checks();
    assert!((1_000..20_000).contains(&done), "{done}");
    assert_eq!(audit.database.events(0, 100_000).expect("readable").len() as u64, done);
    assert_eq!(audit.run()[0].checks(), audit.files as u64 - done);
}

#[test]
fn a_clock_that_was_ahead_hides_no_copy_for_long() {
    #[derive(Default)]
    struct Heard(Vec<(Option<i64>, u64)>);
    impl Observer for Heard {
        fn clock_jumped(&mut self, by: Option<i64>, copies_due_again: u64) {
            self.0.push((by, copies_due_again));
        }
    }
    let mut audit = audit(1, 30);
    audit.clock.set_ahead(400 * DAY_S as i64);
    assert_eq!(audit.run()[0].count(State::Verified), 30);
    audit.clock.set_ahead(0);
    let mut heard = Heard::default();
    assert_eq!(audit.run_with(&mut heard)[0].count(State::Verified), 30);
    assert_eq!(heard.0, [(None, 30)]);
    assert!(audit.run()[0].checks() == 0);
}

#[test]
fn a_clock_that_jumps_during_a_run_is_noticed() {
    struct Jump<'a> {
        clock: &'a TestClock,
        heard: Vec<i64>,
    }
    impl Observer for Jump<'_> {
        fn recorded(&mut self, _results: &[Checked], _whole: &[Duration]) {
            if self.heard.is_empty() {
                self.clock.set_ahead(-7_200);
            }
        }
        fn clock_jumped(&mut self, by: Option<i64>, _copies_due_again: u64) {
            self.heard.extend(by);
        }
    }
    let mut audit = audit(1, 3_000);
    let targets = [Target { node: audit.nodes[0].clone(), place: &audit.places[0] }];
    let mut jump = Jump { clock: &audit.clock, heard: Vec::new() };
    let summaries = run(&mut audit.database, &targets, Until::AllTried, &Stop::default(), &audit.clock, &mut jump).expect("the run ends");
    assert!(matches!(jump.heard[..], [-7_202..=-7_198]), "{:?}", jump.heard);
    assert_eq!(summaries[0].count(State::Verified), 3_000);
}

#[test]
fn chosen_copies_are_checked_once_and_no_others() {
    let mut audit = audit(2, 1_500);
    audit.run();
    audit.places[0].put(&name(7), b"other content");
    audit.places[0].put(&name(8), b"other content");
    let file = |audit: &mut Audit, index: usize| audit.database.history(&name(index)).expect("readable").expect("known").file;
    let files: Vec<FileId> = (7..8).chain(300..1_200).map(|index| file(&mut audit, index)).collect();
    let chosen = Chosen::from([(audit.nodes[0].id, files)]);
    let targets: Vec<Target<'_>> =
        audit.nodes.iter().zip(&audit.places).map(|(node, place)| Target { node: node.clone(), place }).collect();
    let summaries = run_files(&mut audit.database, &targets, &chosen, &Stop::default(), &audit.clock, &mut ()).expect("the run ends");
    assert_eq!((summaries[0].checks(), summaries[0].count(State::Verified), summaries[1].checks()), (901, 900, 0));
    assert_eq!(audit.kind(0, 7), EventKind::Checked(State::SizeMismatch));
    assert_eq!(audit.kind(0, 8), EventKind::Checked(State::Verified), "it was not chosen");
}
