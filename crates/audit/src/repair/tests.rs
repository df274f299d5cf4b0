use fulgurite_digest::Algorithm;
use fulgurite_places::Cause;

use super::*;
use crate::database::{EventKind, Source, Sqlite};
use crate::fake_place::{FakePlace, Fault};
use crate::inventory::Row;
use crate::node::{Medium, Node};
use crate::run::SystemClock;

const CONTENT: &[u8] = b"the content of a file with three copies";

struct Bench {
    folder: tempfile::TempDir,
    database: Sqlite,
    places: [FakePlace; 3],
}

const NODES: [NodeId; 3] = [NodeId(1), NodeId(2), NodeId(3)];

fn bench() -> Bench {
    with_length(Some(CONTENT.len() as u64))
}

/// With this length in the inventory.
fn with_length(bytes: Option<u64>) -> Bench {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut database = Sqlite::create(&folder.path().join("audit.db")).expect("a database");
    let places = [(); 3].map(|()| FakePlace::default());
    for (place, name) in places.iter().zip(["a", "b", "c"]) {
        place.put("f", CONTENT);
        place.put("other", b"other");
        let node = Node {
            id: NodeId(0),
            name: name.into(),
            place: String::new(),
            options: Vec::new(),
            medium: Medium::Disk,
            rules: Medium::Disk.rules(),
            expected_time: None,
        };
        database.add_node(&node).expect("the name is free");
    }
    let mut digester = Digester::new(&[Algorithm::Sha256]);
    digester.update(CONTENT);
    let expected = Expected { bytes, digests: digester.finish() };
    let row = Row { name: "f".into(), expected, location: None, node: None };
    database.import(Source::list("list"), &NODES, false, 1, &mut std::iter::once(Ok(row))).expect("imported");
    Bench { folder, database, places }
}

#[test]
fn a_repair_proves_the_length_that_was_read() {
    let mut bench = with_length(None);
    bench.places[0].put("f", b"rotten");
    let found = bench.repair(0, true);
    assert!(matches!(found, Outcome::Repaired { .. }), "{found:?}");
    let file = bench.database.history("f").expect("readable").expect("known");
    assert_eq!(file.expected.bytes, Some(CONTENT.len() as u64));
    let read: Vec<u64> = file.copies[0].events.iter().rev().map(|event| event.bytes).collect();
    assert_eq!(read, [6, 0, CONTENT.len() as u64]);
}

impl Bench {
    fn repair(&mut self, target: usize, apply: bool) -> Outcome {
        let sites = [0, 1, 2].map(|index| Site { node: NODES[index], name: ["a", "b", "c"][index], place: &self.places[index] });
        let repair = Repair { sites: &sites, spool: self.folder.path(), apply, trusts_recorded: false, clock: &SystemClock::default() };
        let file = self.database.history("f").expect("readable").expect("known");
        repair.repair(&mut self.database, "f", &file, NODES[target]).expect("the database works")
    }

    fn content(&self, node: usize) -> Option<Vec<u8>> {
        let mut content = Vec::new();
        let read = self.places[node].connect().expect("connected").read("f", &mut |piece| {
            content.extend_from_slice(piece);
            true
        });
        read.ok().map(|_| content)
    }

    fn kinds(&mut self, node: usize) -> Vec<EventKind> {
        let file = self.database.history("f").expect("readable").expect("known");
        file.copies[node].events.iter().rev().map(|event| event.kind).collect()
    }
}

#[test]
fn a_bad_copy_is_rewritten_from_a_good_one_and_verified() {
    for damage in [|place: &FakePlace| place.put("f", b"wrong"), |place: &FakePlace| place.delete("f")] {
        let mut bench = bench();
        damage(&bench.places[1]);
        let bad = bench.content(1);
        assert!(matches!(bench.repair(1, false), Outcome::Repairable { .. }));
        assert_eq!(bench.content(1), bad);
        assert!(matches!(bench.repair(1, true), Outcome::Repaired { from } if from != NODES[1]));
        assert_eq!(bench.content(1).as_deref(), Some(CONTENT));
        let kinds = bench.kinds(1);
        assert_eq!(kinds[kinds.len() - 2..], [EventKind::Repaired, EventKind::Checked(State::Verified)]);
        // Once for the plan, once for the repair.
        assert_eq!(bench.kinds(0), [EventKind::SourceVerified; 2]);
    }
}

#[test]
fn a_good_copy_is_never_written_to() {
    let mut bench = bench();
    assert!(matches!(bench.repair(0, true), Outcome::AlreadyGood));
    assert_eq!(bench.kinds(0), [EventKind::Checked(State::Verified)]);
}

#[test]
fn what_changed_while_a_copy_was_read_is_not_overwritten() {
    let mut bench = bench();
    bench.places[1].put("f", b"wrong");
    // The command read this before another process replaced what is expected.
    let file = bench.database.history("f").expect("readable").expect("known");
    let expected = Expected { bytes: Some(5), digests: vec![Digest::new(Algorithm::Sha256, &[7; 32]).expect("32 bytes")] };
    let row = Row { name: "f".into(), expected, location: None, node: None };
    bench.database.import(Source::list("list"), &NODES, true, 2, &mut std::iter::once(Ok(row))).expect("imported");
    let sites = [0, 1, 2].map(|index| Site { node: NODES[index], name: ["a", "b", "c"][index], place: &bench.places[index] });
    let repair = Repair { sites: &sites, spool: bench.folder.path(), apply: true, trusts_recorded: false, clock: &SystemClock::default() };
    let outcome = repair.repair(&mut bench.database, "f", &file, NODES[1]).expect("the database works");
    assert!(matches!(outcome, Outcome::Impossible(Obstacle::Changed)), "{outcome:?}");
    assert_eq!(bench.content(1).as_deref(), Some(&b"wrong"[..]));
}

#[test]
fn a_source_that_does_not_verify_is_not_used() {
    let mut bench = bench();
    bench.places[0].delete("f");
    bench.places[1].put("f", &CONTENT.to_ascii_uppercase());
    assert!(matches!(bench.repair(0, true), Outcome::Repaired { from } if from == NODES[2]));
    bench.places[0].delete("f");
    bench.places[2].set_down(Some(Cause::TimedOut));
    let Outcome::Impossible(Obstacle::NoSource { tried }) = bench.repair(0, true) else { panic!("nothing verifies") };
    assert_eq!(tried.len(), 2, "{tried:?}");
    assert_eq!(bench.content(0), None);
    assert_eq!(bench.kinds(1), [EventKind::SourceRejected; 2]);
    assert_eq!(bench.kinds(2), [EventKind::SourceVerified, EventKind::SourceRejected]);
    let file = bench.database.history("f").expect("readable").expect("known");
    assert_eq!(file.copies[1].events[0].detail, "for the copy at a: what was read is not the expected content");
    assert_eq!(file.copies[1].state, State::Unverified, "a reading for a repair changes no state");
}

#[test]
fn nothing_is_written_to_a_node_that_is_not_itself() {
    let mut bench = bench();
    bench.places[0].clear();
    assert!(matches!(bench.repair(0, true), Outcome::Impossible(Obstacle::TargetUnavailable(Unavailability::PlaceEmpty { .. }))));
    assert_eq!(bench.content(0), None);
}

#[test]
fn a_repair_that_fails_forgets_neither_the_damage_nor_what_it_saw() {
    let mut bench = bench();
    bench.places[0].put("f", b"wrong");
    assert!(matches!(bench.repair(0, false), Outcome::Repairable { .. }));
    bench.places[0].set_down(Some(Cause::TimedOut));
    assert!(matches!(bench.repair(0, true), Outcome::Impossible(Obstacle::TargetUnavailable(_))));
    let state = |bench: &mut Bench| bench.database.history("f").expect("readable").expect("known").copies[0].state;
    assert_eq!(state(&mut bench), State::SizeMismatch);
    // Copies that were verified, and can't be read now, are checked at once.
    bench.places[0].set_down(None);
    assert!(matches!(bench.repair(1, false), Outcome::AlreadyGood));
    assert!(matches!(bench.repair(2, false), Outcome::AlreadyGood));
    bench.places[1].set_down(Some(Cause::TimedOut));
    bench.places[2].put("f", &CONTENT.to_ascii_uppercase());
    assert!(matches!(bench.repair(0, true), Outcome::Impossible(Obstacle::NoSource { .. })));
    let now = SystemClock::default().wall();
    let copies = bench.database.history("f").expect("readable").expect("known").copies;
    assert!(copies[1..].iter().all(|copy| copy.due_at <= now && copy.state == State::Verified), "{copies:?}");
    assert!(copies[0].due_at > now && copies[0].state == State::SizeMismatch);
}

#[test]
fn a_write_that_does_not_last_is_noticed() {
    let mut bench = bench();
    bench.places[0].put("f", b"wrong");
    // Two readings find the damage; the two after the write find something else again.
    for content in [&b"wrong"[..], b"wrong", b"still wrong", b"still wrong"] {
        bench.places[0].fault("f", Fault::Content(content.into()));
    }
    bench.places[0].state_length("f", 5);
    let outcome = bench.repair(0, true);
    assert!(matches!(outcome, Outcome::NotVerified { .. }), "{outcome:?}");
    let kinds = bench.kinds(0);
    // Two readings differ from each other or from what the node states, so nothing is known.
    assert_eq!(kinds, [EventKind::Checked(State::SizeMismatch), EventKind::Repaired, EventKind::Checked(State::Unavailable)]);
}

#[test]
fn a_write_that_fails_is_recorded() {
    let mut bench = bench();
    bench.places[0].put("f", b"wrong");
    for fault in [Fault::Content(b"wrong".into()), Fault::Content(b"wrong".into()), Fault::Refuse(Cause::TimedOut)] {
        bench.places[0].fault("f", fault);
    }
    bench.places[0].state_length("f", 5);
    let outcome = bench.repair(0, true);
    assert!(matches!(outcome, Outcome::Impossible(Obstacle::Write(_))), "{outcome:?}");
    assert_eq!(bench.kinds(0), [EventKind::Checked(State::SizeMismatch), EventKind::RepairFailed]);
    assert_eq!(bench.kinds(1), [EventKind::SourceVerified]);
    let file = bench.database.history("f").expect("readable").expect("known");
    assert!(file.copies[0].events[0].detail.starts_with("from the copy at b: "), "{:?}", file.copies[0].events[0]);
    assert_eq!(file.copies[0].state, State::SizeMismatch);
}
