//! What every engine must do. The tests of an engine run each of [`CASES`] on a new database.

use std::time::Duration;

use fulgurite_digest::{Algorithm, Digest, Digester};
use fulgurite_places::{Cause, Refusal};

use super::{AuditDatabase, Checked, Claim, DatabaseError, DetectorState, Event, EventKind, Incident, IncidentKind, Source, Subject};
use crate::copy::{Dispute, Expected, FileId, Finding, Method, NodeId, State, Unavailability};
use crate::inventory::{Imported, InventoryError, LineProblem, Row};
use crate::node::{DAY_S, Medium, Node, Rules};
use crate::overdue::Overdue;
use crate::series::{Probe, Series};

mod benchmarks;
mod lengths;
mod moving;
mod removal;
mod unfinished;

const NOW: u64 = 1_800_000_000;

/// A list that can be imported again.
pub(super) const LIST: Source<'_> = Source::list("list");

type Case = (&'static str, fn(&mut dyn AuditDatabase));

pub(super) const CASES: &[Case] = &[
    ("nodes come back as they were stored", nodes_come_back),
    ("an inventory can be imported twice", an_inventory_can_be_imported_twice),
    ("rows of one file are one file, in any order", rows_of_one_file_are_one_file),
    ("a contradiction is reported, and replaces only if told to", a_contradiction_is_reported),
    ("a copy that moved is unverified", a_copy_that_moved_is_unverified),
    ("rows before an error are kept", rows_before_an_error_are_kept),
    ("the longest due is claimed first, and nothing twice", the_longest_due_is_claimed_first),
    ("copies can be claimed by their files, due or not", copies_can_be_claimed_by_their_files),
    ("a claim is not a date", a_claim_is_not_a_date),
    ("each finding leaves its state, its date and its event", each_finding_leaves_its_state),
    ("a result for a copy that changed meanwhile is dropped", a_stale_result_is_dropped),
    ("a copy that is lost or wrong stays so while it can't be read", a_bad_copy_stays_bad_until_it_is_read),
    ("a recorded digest is expected from all copies", a_recorded_digest_is_expected),
    ("a length that a verification proves is kept", a_proven_length_is_kept),
    ("a look without a known length finds nothing, until it is known", lengths::make_looks_due),
    ("sums follow each change", sums_follow_each_change),
    ("copies can be made due", copies_can_be_made_due),
    ("a new interval moves regular checks only", a_new_interval_moves_regular_checks),
    ("a new interval moves regular looks too", a_new_interval_moves_regular_looks),
    ("looks are overdue by their own dates", looks_are_overdue_by_their_own_dates),
    ("an appended event changes nothing else", an_appended_event_changes_nothing_else),
    ("each copy with events is a subject once", each_copy_with_events_is_a_subject_once),
    ("what a node has shown stays a witness", what_a_node_has_shown_stays_a_witness),
    ("the states of detectors are stored with results", detectors_are_stored),
    ("incidents come back in their order", incidents_come_back),
    ("benchmarks are read once when they are due", benchmarks::are_read_once),
    ("records of benchmarks come back in their order", benchmarks::records_come_back),
    ("a learned time replaces no other", benchmarks::a_learned_time_replaces_no_other),
    ("copies of a node that leads elsewhere are unverified", moving::makes_copies_unverified),
    ("a removal takes copies from all sums and keeps their history", removal::keeps_the_history),
    ("a removal voids checks that are under way", removal::voids_checks_under_way),
    ("a removal lets a file be listed as new", removal::lets_a_file_be_listed_as_new),
    ("a removal of a node leaves its history", removal::of_a_node_leaves_its_history),
    ("a removal works in portions", removal::works_in_portions),
    ("an import is unfinished until its last row", unfinished::until_the_last_row),
    ("an import that fails stays unfinished", unfinished::after_a_failure),
    ("an import completes earlier ones of the same list only", unfinished::completes_the_same_list_only),
    ("an unfinished import can be dismissed", unfinished::can_be_dismissed),
];

fn node(name: &str) -> Node {
    Node {
        id: NodeId(0),
        name: name.into(),
        place: format!("/mnt/{name}"),
        options: vec![("region".into(), "eu=1".into()), ("key".into(), "env:KEY".into())],
        medium: Medium::Cloud,
        rules: Rules { bytes_per_second: Some(5), ..Medium::Cloud.rules() },
        expected_time: Some((0.6, 24.0)),
    }
}

fn digest(content: &str) -> Digest {
    let mut digester = Digester::new(&[Algorithm::Sha256]);
    digester.update(content.as_bytes());
    digester.finish().remove(0)
}

fn row(name: &str) -> Row {
    let expected = Expected { bytes: Some(name.len() as u64), digests: vec![digest(name)] };
    Row { name: name.into(), expected, location: None, node: None }
}

fn import(database: &mut dyn AuditDatabase, nodes: &[NodeId], replace: bool, rows: Vec<Row>) -> Imported {
    database.import(LIST, nodes, replace, NOW, &mut rows.into_iter().map(Ok)).expect("the inventory is right")
}

fn two_nodes(database: &mut dyn AuditDatabase) -> [NodeId; 2] {
    ["a", "b"].map(|name| database.add_node(&node(name)).expect("the name is free"))
}

fn claim(database: &mut dyn AuditDatabase, node: NodeId, now: u64, limit: usize) -> Vec<Claim> {
    database.claim(node, now, limit).expect("copies can be claimed")
}

fn checked(claim: Claim, at: u64, finding: Finding) -> Checked {
    let bytes = claim.expected.bytes.unwrap_or(0);
    Checked { claim, at, method: Method::Stream, finding, bytes, stream: Duration::from_micros(1_500) }
}

const GOOD: fn() -> Finding = || Finding::Verified { disputed: None };

/// Claims one copy of a node and records a finding.
fn check_one(database: &mut dyn AuditDatabase, node: NodeId, at: u64, finding: Finding) -> Claim {
    let claim = claim(database, node, at, 1).pop().expect("a copy is due");
    database.record(&[checked(claim.clone(), at, finding)], &[]).expect("results can be recorded");
    claim
}

/// Copies of a node in each state that has any.
fn states(database: &mut dyn AuditDatabase, node: NodeId) -> Vec<(State, u64, u64)> {
    let totals = database.totals().expect("totals can be read");
    totals.into_iter().filter(|total| total.node == node).map(|total| (total.state, total.copies, total.bytes)).collect()
}

fn nodes_come_back(database: &mut dyn AuditDatabase) {
    let [a, b] = two_nodes(database);
    assert_ne!(a, b);
    let stored = database.nodes().expect("nodes can be read");
    assert_eq!(stored, [Node { id: a, ..node("a") }, Node { id: b, ..node("b") }]);
    assert!(matches!(database.add_node(&node("a")), Err(DatabaseError::NodeExists { name }) if name == "a"));
    let changed = Node { medium: Medium::Tape, expected_time: None, options: Vec::new(), ..stored[1].clone() };
    database.change_node(&changed).expect("the node exists");
    assert_eq!(database.nodes().expect("nodes can be read")[1], changed);
    let absent = Node { id: NodeId(99), ..node("c") };
    assert!(matches!(database.change_node(&absent), Err(DatabaseError::NoSuchNode { node: 99 })));
}

fn an_inventory_can_be_imported_twice(database: &mut dyn AuditDatabase) {
    let nodes = two_nodes(database);
    let rows = || ["x", "yy", "zzz"].map(row).to_vec();
    let first = import(database, &nodes, false, rows());
    assert_eq!(first, Imported { rows: 3, files: 3, copies: 6, ..Imported::default() });
    let again = import(database, &nodes, false, rows());
    assert_eq!(again, Imported { rows: 3, ..Imported::default() });
    for node in nodes {
        assert_eq!(states(database, node), [(State::Unverified, 3, 6)]);
    }
}

fn rows_of_one_file_are_one_file(database: &mut dyn AuditDatabase) {
    let [a, b] = two_nodes(database);
    let at = |name: &str, node, location: Option<&str>| Row { node: Some(node), location: location.map(Into::into), ..row(name) };
    // Each import twice: the first one works without an index.
    for round in 0..2 {
        let rows =
            vec![at("x", a, None), at("x", b, Some("deep/x")), at("y", a, None), at("z", a, None), at("y", b, None), at("y", a, None)];
        let imported = import(database, &[], false, rows);
        let (files, copies) = if round == 0 { (3, 5) } else { (0, 0) };
        assert_eq!(imported, Imported { rows: 6, files, copies, ..Imported::default() });
    }
    assert_eq!(states(database, a), [(State::Unverified, 3, 3)]);
    assert_eq!(states(database, b), [(State::Unverified, 2, 2)]);
    let history = database.history("x").expect("the history can be read").expect("the file is known");
    assert_eq!(history.copies.iter().map(|copy| copy.location.as_str()).collect::<Vec<_>>(), ["x", "deep/x"]);
    let history = database.history("y").expect("the history can be read").expect("the file is known");
    assert_eq!(history.copies.iter().map(|copy| copy.node).collect::<Vec<_>>(), [a, b]);
    assert!(database.history("never listed").expect("the history can be read").is_none());
}

fn a_contradiction_is_reported(database: &mut dyn AuditDatabase) {
    let [a, b] = two_nodes(database);
    import(database, &[a, b], false, vec![row("x"), row("y")]);
    check_one(database, a, NOW, GOOD());
    let other = || Row { expected: Expected { bytes: Some(7), digests: vec![digest("other")] }, ..row("x") };
    let refused = import(database, &[a, b], false, vec![other()]);
    assert_eq!((refused.conflicts, refused.changed, refused.conflicting[0].name.as_str()), (1, 0, "x"));
    assert_eq!(database.history("x").expect("readable").expect("known").expected, row("x").expected);
    let replaced = import(database, &[a, b], true, vec![other()]);
    assert_eq!((replaced.conflicts, replaced.changed), (0, 1));
    let history = database.history("x").expect("readable").expect("known");
    assert_eq!(history.expected, other().expected);
    for copy in &history.copies {
        assert_eq!((copy.state, copy.verified_at), (State::Unverified, None));
        assert_eq!(copy.events[0].kind, EventKind::ExpectationReplaced);
        assert_eq!(copy.events[0].detail, format!("until then 1 byte, {:?}", digest("x")));
    }
    assert_eq!(history.copies[0].events[1].kind, EventKind::Checked(State::Verified));
    assert_eq!(states(database, a), [(State::Unverified, 2, 8)]);
    // What wasn't known is added without a word.
    let md5 = Digest::new(Algorithm::Md5, &[1; 16]).expect("16 bytes");
    let more = Row { expected: Expected { bytes: None, digests: vec![md5.clone()] }, ..row("y") };
    assert_eq!(import(database, &[a], false, vec![more]).changed, 1);
    assert_eq!(database.history("y").expect("readable").expect("known").expected.digests, [md5, digest("y")]);
}

fn a_copy_that_moved_is_unverified(database: &mut dyn AuditDatabase) {
    let [a, b] = two_nodes(database);
    import(database, &[a, b], false, vec![row("x")]);
    check_one(database, a, NOW, GOOD());
    check_one(database, b, NOW, GOOD());
    let moved = || Row { location: Some("deep/x".into()), node: Some(a), ..row("x") };
    let under_way = claim(database, a, NOW + DAY_S, 1).remove(0);
    assert_eq!(import(database, &[], false, vec![moved()]).conflicts, 1);
    assert_eq!(import(database, &[], true, vec![moved()]).changed, 1);
    database.record(&[checked(under_way, NOW + DAY_S, GOOD())], &[]).expect("recorded");
    let copies = database.history("x").expect("readable").expect("known").copies;
    assert_eq!((copies[0].state, copies[0].verified_at, copies[0].location.as_str()), (State::Unverified, None, "deep/x"));
    assert_eq!((copies[0].events[0].kind, copies[0].events.len()), (EventKind::ExpectationReplaced, 2));
    assert_eq!((copies[1].state, copies[1].location.as_str()), (State::Verified, "x"));
    assert_eq!([states(database, a), states(database, b)], [[(State::Unverified, 1, 1)], [(State::Verified, 1, 1)]]);
    assert_eq!(database.ages().expect("readable").iter().map(|age| (age.node, age.copies)).collect::<Vec<_>>(), [(a, 1), (b, 1)]);
    assert_eq!(claim(database, a, NOW, 9).remove(0).location, "deep/x");
}

fn rows_before_an_error_are_kept(database: &mut dyn AuditDatabase) {
    let [a, _] = two_nodes(database);
    for (round, name) in ["x", "y"].into_iter().enumerate() {
        let error = InventoryError::Line { path: "list".into(), line: 2, problem: LineProblem::EmptyName };
        let mut rows = vec![Ok(row(name)), Err(error), Ok(row("never read"))].into_iter();
        assert!(matches!(database.import(LIST, &[a], false, NOW, &mut rows), Err(InventoryError::Line { line: 2, .. })));
        assert_eq!(states(database, a)[0].1, round as u64 + 1);
        assert!(database.history(name).expect("readable").is_some());
    }
    assert_eq!(import(database, &[a], false, vec![row("x"), row("y"), row("z")]).files, 1);
}

fn the_longest_due_is_claimed_first(database: &mut dyn AuditDatabase) {
    let [a, b] = two_nodes(database);
    import(database, &[a, b], false, ["1", "2", "3", "4"].map(row).to_vec());
    let names = |claims: &[Claim]| claims.iter().map(|claim| claim.location.clone()).collect::<Vec<_>>();
    let first = claim(database, a, NOW, 3);
    assert_eq!(names(&first), ["1", "2", "3"]);
    assert_eq!(first[0].expected, row("1").expected);
    // Claims of one node don't concern another.
    assert_eq!(claim(database, b, NOW, 9).len(), 4);
    let rest = claim(database, a, NOW, 9);
    assert_eq!(names(&rest), ["4"]);
    database.release(&rest).expect("claims can be released");
    assert_eq!(names(&claim(database, a, NOW, 9)), ["4"]);
    for (age, claim) in first.into_iter().enumerate() {
        database.record(&[checked(claim, NOW - age as u64, GOOD())], &[]).expect("recorded");
    }
    assert_eq!(database.next_due(a).expect("readable"), Some(0));
    assert!(claim(database, a, NOW + DAY_S - 10, 9).is_empty());
    assert_eq!(names(&claim(database, a, NOW + DAY_S, 2)), ["3", "2"]);
}

fn copies_can_be_claimed_by_their_files(database: &mut dyn AuditDatabase) {
    let [a, b] = two_nodes(database);
    import(database, &[a], false, vec![row("x"), row("yy"), row("zzz")]);
    import(database, &[b], false, vec![Row { location: Some("deep/x".into()), ..row("x") }]);
    check_one(database, a, NOW, GOOD());
    let files = ["x", "yy", "zzz"].map(|name| database.history(name).expect("readable").expect("known").file);
    let yy = claim(database, a, NOW, 1).remove(0);
    assert_eq!(yy.file, files[1]);
    let wanted = [files[0], files[1], FileId(99), files[0]];
    let claimed = database.claim_files(a, &wanted).expect("claimed");
    assert_eq!(claimed.iter().map(|claim| (claim.file, claim.state)).collect::<Vec<_>>(), [(files[0], State::Verified)]);
    assert_eq!(database.claim_files(b, &files).expect("claimed")[0].location, "deep/x");
    assert!(database.claim_files(a, &wanted).expect("claimed").is_empty(), "they are being checked");
    let Ok([x]) = <[Claim; 1]>::try_from(claimed) else { panic!("one was claimed") };
    database.record(&[checked(x, NOW + 5, Finding::Missing)], &[]).expect("recorded");
    assert_eq!(database.history("x").expect("readable").expect("known").copies[0].state, State::Missing);
    database.release(&[yy]).expect("released");
    assert_eq!(database.claim_files(a, &files).expect("claimed").len(), 3);
}

fn a_claim_is_not_a_date(database: &mut dyn AuditDatabase) {
    let [a, _] = two_nodes(database);
    import(database, &[a], false, vec![row("x")]);
    assert_eq!(claim(database, a, NOW, 1).len(), 1);
    database.renew_claims().expect("claims can be renewed");
    assert!(claim(database, a, NOW, 1).is_empty());
    let copy = database.history("x").expect("readable").expect("known").copies.remove(0);
    assert_eq!((copy.state, copy.verified_at, copy.due_at, copy.events.len()), (State::Unverified, None, 0, 0));
    assert_eq!(database.ages().expect("readable")[0].day, None);
}

fn each_finding_leaves_its_state(database: &mut dyn AuditDatabase) {
    let [a, _] = two_nodes(database);
    import(database, &[a], false, vec![row("x")]);
    let refusal = || Refusal::new(Cause::TimedOut, "after 60 s");
    let minute = 900;
    let steps: Vec<(Finding, EventKind, u64, &str)> = vec![
        (GOOD(), EventKind::Checked(State::Verified), DAY_S, ""),
        (GOOD(), EventKind::Checked(State::Verified), 90 * DAY_S, ""),
        (Finding::Unavailable(Unavailability::Refused(refusal())), EventKind::Checked(State::Unavailable), minute, "after 60 s"),
        (Finding::Missing, EventKind::Checked(State::Missing), DAY_S, ""),
        (Finding::SizeMismatch { found: 5 }, EventKind::Checked(State::SizeMismatch), DAY_S, "5 bytes"),
        (Finding::DigestMismatch { found: digest("z") }, EventKind::Checked(State::DigestMismatch), DAY_S, "sha256:"),
        (Finding::HeaderChecked, EventKind::Checked(State::HeaderChecked), 90 * DAY_S, ""),
        (Finding::ProviderAttested { stated: digest("x") }, EventKind::Checked(State::ProviderAttested), 90 * DAY_S, "sha256:"),
        (
            Finding::Verified { disputed: Some(Dispute::Size { found: 3 }) },
            EventKind::VerifiedAfterDispute,
            90 * DAY_S,
            "the first reading got 3 bytes",
        ),
    ];
    let mut now = NOW;
    let mut verified_at = None;
    for (finding, kind, wait, detail) in steps {
        let state = finding.state();
        if state == State::Verified {
            verified_at = Some(now);
        }
        check_one(database, a, now, finding);
        let copy = database.history("x").expect("readable").expect("known").copies.remove(0);
        assert_eq!((copy.state, copy.verified_at, copy.due_at), (state, verified_at, now + wait), "{kind:?}");
        let event = &copy.events[0];
        assert_eq!((event.kind, event.at, event.bytes, event.stream), (kind, now, 1, Duration::from_micros(1_500)));
        assert!(event.detail.contains(detail) && (event.detail.is_empty() == detail.is_empty()), "{}", event.detail);
        if state.is_bad() || state == State::Unavailable {
            let problems = database.problems(state, None, 9).expect("readable");
            assert_eq!((problems.len(), problems[0].name.as_str(), problems[0].verified_at), (1, "x", verified_at));
            assert_eq!(problems[0].last.as_ref(), Some(event));
            assert!(database.problems(state, Some((problems[0].node, problems[0].file)), 9).expect("readable").is_empty());
        }
        now += wait;
    }
    let history = database.history("x").expect("readable").expect("known");
    assert_eq!(history.copies[0].events.len(), 9);
    let all = database.events(0, 100).expect("readable");
    assert_eq!(all.len(), 9);
    assert!(all.iter().rev().map(|(event, _)| event).eq(&history.copies[0].events));
    assert_eq!(database.events(all[6].0.event, 100).expect("readable").len(), 2);
}

fn a_bad_copy_stays_bad_until_it_is_read(database: &mut dyn AuditDatabase) {
    let [a, _] = two_nodes(database);
    import(database, &[a], false, vec![row("x")]);
    let unavailable = || Finding::Unavailable(Unavailability::Refused(Refusal::new(Cause::TimedOut, "after 60 s")));
    let mut now = NOW;
    let bad = [Finding::Missing, Finding::SizeMismatch { found: 5 }, Finding::DigestMismatch { found: digest("z") }];
    for finding in bad {
        let state = finding.state();
        check_one(database, a, now, finding);
        now += DAY_S;
        check_one(database, a, now, unavailable());
        now += 900;
        let copy = database.history("x").expect("readable").expect("known").copies.remove(0);
        assert_eq!((copy.state, copy.due_at), (state, now), "it is tried again as soon as an unavailable one");
        assert_eq!(copy.events[0].kind, EventKind::Checked(State::Unavailable));
        let totals = database.totals().expect("readable");
        assert_eq!(totals.iter().map(|total| (total.state, total.copies)).collect::<Vec<_>>(), [(state, 1)]);
    }
    check_one(database, a, now, GOOD());
    assert_eq!(database.history("x").expect("readable").expect("known").copies[0].state, State::Verified);
}

fn a_stale_result_is_dropped(database: &mut dyn AuditDatabase) {
    let [a, _] = two_nodes(database);
    import(database, &[a], false, vec![row("x")]);
    let first = claim(database, a, NOW, 1).remove(0);
    let other = Row { expected: Expected { bytes: Some(7), digests: vec![digest("other")] }, ..row("x") };
    import(database, &[a], true, vec![other.clone()]);
    database.record(&[checked(first, NOW, GOOD())], &[]).expect("recorded");
    let copy = database.history("x").expect("readable").expect("known").copies.remove(0);
    assert_eq!((copy.state, copy.verified_at, copy.events.len()), (State::Unverified, None, 1));
    let second = claim(database, a, NOW, 1).remove(0);
    assert_eq!(second.expected, other.expected);
    // A second replacement is noticed too.
    import(database, &[a], true, vec![row("x")]);
    database.record(&[checked(second, NOW, GOOD())], &[]).expect("recorded");
    assert_eq!(states(database, a), [(State::Unverified, 1, 1)]);
    assert!(database.hours(0).expect("readable").is_empty());
}

fn a_recorded_digest_is_expected(database: &mut dyn AuditDatabase) {
    let [a, b] = two_nodes(database);
    let unknown = Row { expected: Expected::default(), ..row("x") };
    import(database, &[a, b], false, vec![unknown]);
    let at_b = claim(database, b, NOW, 1).remove(0);
    check_one(database, a, NOW, Finding::Recorded { bytes: 4, digest: digest("four") });
    let history = database.history("x").expect("readable").expect("known");
    assert_eq!(history.expected, Expected { bytes: Some(4), digests: vec![digest("four")] });
    assert_eq!((history.copies[0].state, history.copies[0].verified_at), (State::Unverified, None));
    assert_eq!(history.copies[0].events[0].kind, EventKind::Checked(State::Unverified));
    assert_eq!([states(database, a), states(database, b)], [[(State::Unverified, 1, 4)], [(State::Unverified, 1, 4)]]);
    // The other node's reading began when no digest was known: it is repeated against the digest.
    database.record(&[checked(at_b, NOW + 1, Finding::Recorded { bytes: 5, digest: digest("5") })], &[]).expect("recorded");
    assert_eq!(database.history("x").expect("readable").expect("known").expected.bytes, Some(4));
    let again = claim(database, b, NOW + 1, 1).remove(0);
    assert_eq!(again.expected.digests, [digest("four")]);
}

fn a_proven_length_is_kept(database: &mut dyn AuditDatabase) {
    let [a, b] = two_nodes(database);
    let unknown = |name: &str| Row { expected: Expected { bytes: None, digests: vec![digest(name)] }, ..row(name) };
    import(database, &[a, b], false, vec![unknown("x"), unknown("y")]);
    let results = |claims: Vec<Claim>, finding: fn() -> Finding| {
        claims.into_iter().map(|claim| Checked { bytes: 7, ..checked(claim, NOW, finding()) }).collect::<Vec<_>>()
    };
    // The first reading of a disputed copy proves nothing, nor does a mismatch.
    let first = claim(database, a, NOW, 2);
    database.record(&results(first[..1].to_vec(), || Finding::Verified { disputed: Some(Dispute::Missing) }), &[]).expect("recorded");
    database.record(&results(first[1..].to_vec(), || Finding::DigestMismatch { found: digest("z") }), &[]).expect("recorded");
    assert_eq!(database.history("x").expect("readable").expect("known").expected.bytes, None);
    let second = claim(database, b, NOW, 2);
    database.record(&results(second, GOOD), &[]).expect("recorded");
    for name in ["x", "y"] {
        assert_eq!(
            database.history(name).expect("readable").expect("known").expected,
            Expected { bytes: Some(7), digests: vec![digest(name)] }
        );
    }
    assert_eq!(states(database, a), [(State::Verified, 1, 7), (State::DigestMismatch, 1, 7)]);
    assert_eq!(states(database, b), [(State::Verified, 2, 14)]);
}

fn sums_follow_each_change(database: &mut dyn AuditDatabase) {
    let [a, b] = two_nodes(database);
    import(database, &[a, b], false, ["1", "22", "333"].map(row).to_vec());
    let claims = claim(database, a, NOW, 3);
    let findings = [GOOD(), Finding::Missing, GOOD()];
    let results: Vec<Checked> = claims.into_iter().zip(findings).map(|(claim, finding)| checked(claim, NOW, finding)).collect();
    database.record(&results, &[]).expect("recorded");
    assert_eq!(states(database, a), [(State::Verified, 2, 4), (State::Missing, 1, 2)]);
    assert_eq!(states(database, b), [(State::Unverified, 3, 6)]);
    let ages = database.ages().expect("readable");
    let of_a: Vec<_> = ages.iter().filter(|age| age.node == a).map(|age| (age.day, age.copies, age.bytes)).collect();
    assert_eq!(of_a, [(None, 1, 2), (Some(NOW / DAY_S), 2, 4)]);
    let times = [(a, Method::Stream, NOW / 3_600, State::Verified, Duration::from_millis(9))];
    database.add_whole_times(&times).expect("recorded");
    let hours = database.hours(NOW / 3_600).expect("readable");
    let verified = hours.iter().find(|hour| hour.state == State::Verified).expect("two were verified");
    assert_eq!((verified.count, verified.bytes, verified.hour), (2, 4, NOW / 3_600));
    assert_eq!((verified.stream, verified.whole), (Duration::from_micros(3_000), Duration::from_millis(9)));
    assert!(database.hours(NOW / 3_600 + 1).expect("readable").is_empty());
    check_one(database, a, NOW + 90 * DAY_S, Finding::DigestMismatch { found: digest("z") });
    assert_eq!(states(database, a).iter().map(|(_, copies, _)| copies).sum::<u64>(), 3);
}

fn copies_can_be_made_due(database: &mut dyn AuditDatabase) {
    let [a, _] = two_nodes(database);
    import(database, &[a], false, vec![row("x"), row("y")]);
    let year = 365 * DAY_S;
    check_one(database, a, NOW + year, GOOD());
    check_one(database, a, NOW, GOOD());
    assert!(claim(database, a, NOW, 9).is_empty());
    let later = [(0, 9), (0, 1), (NOW + DAY_S, 9)].map(|(after, most)| database.due_after(a, after, most).expect("readable"));
    assert_eq!(later, [2, 1, 1]);
    assert_eq!(database.make_due(a, NOW, NOW + 2 * DAY_S).expect("copies can be made due"), 1);
    assert_eq!(database.make_due(a, NOW, NOW + 2 * DAY_S).expect("copies can be made due"), 0);
    let due = claim(database, a, NOW, 9);
    assert_eq!(due.iter().map(|claim| claim.location.as_str()).collect::<Vec<_>>(), ["x"]);
    database.release(&due).expect("claims can be released");
    // Copies that are due already keep their order.
    assert_eq!(database.make_due(a, NOW + 1, 0).expect("copies can be made due"), 1);
    let x = claim(database, a, NOW + 1, 1).remove(0);
    assert_eq!(x.location, "x");
    // So does one copy.
    let due = |database: &mut dyn AuditDatabase, name: &str| database.history(name).expect("readable").expect("known").copies[0].due_at;
    let y = database.history("y").expect("readable").expect("known");
    database.make_copy_due(a, y.file, NOW - 3).expect("a copy can be made due");
    database.make_copy_due(a, y.file, NOW).expect("a copy can be made due");
    assert_eq!((due(database, "x"), due(database, "y")), (NOW, NOW - 3));
}

fn a_new_interval_moves_regular_checks(database: &mut dyn AuditDatabase) {
    let [a, _] = two_nodes(database);
    import(database, &[a], false, vec![row("x"), row("y")]);
    for at in [NOW, NOW + DAY_S] {
        check_one(database, a, at, GOOD());
        check_one(database, a, at, GOOD());
    }
    let mut changed = database.nodes().expect("readable").remove(0);
    changed.rules.interval = Duration::from_secs(10 * DAY_S);
    database.change_node(&changed).expect("the node exists");
    let due = |database: &mut dyn AuditDatabase, name: &str| database.history(name).expect("readable").expect("known").copies[0].due_at;
    assert_eq!(due(database, "x"), NOW + 11 * DAY_S);
    check_one(database, a, NOW + 11 * DAY_S, Finding::Missing);
    changed.rules.interval = Duration::from_secs(20 * DAY_S);
    database.change_node(&changed).expect("the node exists");
    assert_eq!(due(database, "x"), NOW + 12 * DAY_S);
    assert_eq!(due(database, "y"), NOW + 21 * DAY_S);
}

fn a_new_interval_moves_regular_looks(database: &mut dyn AuditDatabase) {
    let [a, _] = two_nodes(database);
    import(database, &[a], false, vec![row("x"), row("y")]);
    for at in [NOW, NOW + DAY_S] {
        check_one(database, a, at, Finding::HeaderChecked);
        check_one(database, a, at, Finding::ProviderAttested { stated: digest("y") });
    }
    let mut changed = database.nodes().expect("readable").remove(0);
    changed.rules.interval = Duration::from_secs(10 * DAY_S);
    database.change_node(&changed).expect("the node exists");
    for name in ["x", "y"] {
        assert_eq!(database.history(name).expect("readable").expect("known").copies[0].due_at, NOW + 11 * DAY_S);
    }
}

fn looks_are_overdue_by_their_own_dates(database: &mut dyn AuditDatabase) {
    let [a, b] = two_nodes(database);
    import(database, &[a, b], false, ["1", "2", "3", "4", "5", "6", "7"].map(row).to_vec());
    let interval = 90 * DAY_S;
    let overdue = |database: &mut dyn AuditDatabase, node: NodeId, now: u64, most: u64| {
        database.overdue_looks(node, (now - DAY_S).saturating_sub(interval), now - DAY_S, most).expect("readable")
    };
    // Copies that were never looked at are something else.
    assert_eq!(overdue(database, a, NOW + 1_000 * DAY_S, 9), Overdue::Copies(0));
    let findings: [fn() -> Finding; 6] = [
        || Finding::HeaderChecked,
        || Finding::ProviderAttested { stated: digest("y") },
        GOOD,
        || Finding::Missing,
        || Finding::Unavailable(Unavailability::PlaceEmpty { looks: "missing".into() }),
        || Finding::HeaderChecked,
    ];
    let claims = claim(database, a, NOW, 6);
    let results: Vec<Checked> = claims.into_iter().zip(findings).map(|(claim, finding)| checked(claim, NOW, finding())).collect();
    database.record(&results, &[]).expect("recorded");
    // The second look has been due for long, and the first one is still young enough.
    assert_eq!(overdue(database, a, NOW + 80 * DAY_S, 9), Overdue::Copies(0));
    assert_eq!(overdue(database, a, NOW + interval + DAY_S, 9), Overdue::Copies(0));
    assert_eq!(overdue(database, a, NOW + interval + DAY_S + 1, 9), Overdue::Copies(4));
    assert_eq!(overdue(database, a, NOW + interval + DAY_S + 1, 6), Overdue::Copies(4));
    assert_eq!(overdue(database, a, NOW + interval + DAY_S + 1, 5), Overdue::MoreThan(5));
    assert_eq!(overdue(database, b, NOW + interval + DAY_S + 1, 5), Overdue::Copies(0));
    // A look on time ends that.
    let late = claim(database, a, NOW + interval + DAY_S, 9);
    let results: Vec<Checked> = late.into_iter().map(|claim| checked(claim, NOW + interval + DAY_S, Finding::HeaderChecked)).collect();
    database.record(&results, &[]).expect("recorded");
    assert_eq!(overdue(database, a, NOW + interval + DAY_S + 1, 9), Overdue::Copies(0));
    assert_eq!(overdue(database, a, NOW + 2 * interval + 2 * DAY_S + 1, 9), Overdue::Copies(7));
    // Copies that were made due stay as old as they are.
    database.make_due(a, NOW + interval + 2 * DAY_S, 0).expect("copies can be made due");
    assert_eq!(overdue(database, a, NOW + interval + 9 * DAY_S, 9), Overdue::Copies(0));
}

fn appended(node: NodeId, file: FileId, kind: EventKind) -> Event {
    let stream = Duration::from_micros(7);
    Event { event: 0, node, file, at: NOW + 5, kind, method: Method::Stream, bytes: 3, stream, detail: "for b".into() }
}

fn an_appended_event_changes_nothing_else(database: &mut dyn AuditDatabase) {
    let [a, b] = two_nodes(database);
    import(database, &[a, b], false, vec![row("x")]);
    check_one(database, a, NOW, GOOD());
    let before = database.history("x").expect("readable").expect("known");
    let sums = (database.totals().expect("readable"), database.ages().expect("readable"), database.hours(0).expect("readable"));
    for kind in [EventKind::SourceVerified, EventKind::SourceRejected, EventKind::RepairFailed] {
        database.append_event(&appended(a, before.file, kind)).expect("the event is stored");
    }
    let after = database.history("x").expect("readable").expect("known");
    let events = &after.copies[0].events;
    let last = Event { event: events[0].event, ..appended(a, before.file, EventKind::RepairFailed) };
    assert_eq!(events[0], last);
    let kinds: Vec<EventKind> = events.iter().map(|event| event.kind).collect();
    let verified = EventKind::Checked(State::Verified);
    assert_eq!(kinds, [EventKind::RepairFailed, EventKind::SourceRejected, EventKind::SourceVerified, verified]);
    let mut same = after.clone();
    same.copies[0].events.drain(..3);
    assert_eq!(same, before);
    let now = (database.totals().expect("readable"), database.ages().expect("readable"), database.hours(0).expect("readable"));
    assert_eq!(now, sums);
    let count = database.last_event().expect("readable");
    database.append_event(&appended(a, FileId(99), EventKind::RepairFailed)).expect("nothing happens");
    assert_eq!(database.last_event().expect("readable"), count, "an event of no copy was stored");
}

fn each_copy_with_events_is_a_subject_once(database: &mut dyn AuditDatabase) {
    let [a, b] = two_nodes(database);
    assert_eq!(database.last_event().expect("readable"), 0);
    import(database, &[a], false, vec![row("x")]);
    import(database, &[], false, vec![Row { node: Some(b), location: Some("deep/x".into()), ..row("x") }]);
    check_one(database, a, NOW, GOOD());
    let file = database.history("x").expect("readable").expect("known").file;
    database.append_event(&appended(a, file, EventKind::SourceVerified)).expect("stored");
    check_one(database, b, NOW, Finding::Missing);
    database.append_event(&appended(b, file, EventKind::RepairFailed)).expect("stored");
    let numbers: Vec<u64> = database.events(0, 10).expect("readable").iter().map(|(event, _)| event.event).collect();
    assert_eq!(database.last_event().expect("readable"), numbers[3]);
    let all = database.subjects(0, 0, 10).expect("readable");
    let subject = |node, location: &str| Subject { node, name: "x".into(), location: location.into(), expected: row("x").expected };
    assert_eq!(all, [(numbers[0], subject(a, "x")), (numbers[2], subject(b, "deep/x"))]);
    assert_eq!(database.subjects(0, 0, 1).expect("readable"), all[..1]);
    assert_eq!(database.subjects(0, all[0].0, 10).expect("readable"), all[1..]);
    // Each copy at its first event of the range.
    let later = database.subjects(numbers[0], 0, 10).expect("readable");
    assert_eq!(later.iter().map(|(event, subject)| (*event, subject.node)).collect::<Vec<_>>(), [(numbers[1], a), (numbers[2], b)]);
}

fn what_a_node_has_shown_stays_a_witness(database: &mut dyn AuditDatabase) {
    let [a, b] = two_nodes(database);
    import(database, &[a, b], false, (0..20).map(|index| row(&"n".repeat(index + 1))).collect());
    assert!(database.witnesses(a, 8).expect("readable").is_empty());
    let claims = claim(database, a, NOW, 20);
    database.record(&claims.into_iter().map(|claim| checked(claim, NOW, GOOD())).collect::<Vec<_>>(), &[]).expect("recorded");
    let lengths = |database: &mut dyn AuditDatabase, node: NodeId, limit: usize| {
        let witnesses = database.witnesses(node, limit).expect("readable");
        witnesses.into_iter().map(|witness| (witness.location.len(), witness.state)).collect::<Vec<_>>()
    };
    assert_eq!(lengths(database, a, 3), [1, 2, 3].map(|bytes| (bytes, State::Verified)));
    assert!(lengths(database, b, 8).is_empty());
    // Small ones first, then those that couldn't be read, then those that are gone.
    check_one(database, a, NOW + DAY_S, Finding::Missing);
    check_one(database, a, NOW + DAY_S, Finding::Unavailable(Unavailability::PlaceEmpty { looks: "missing".into() }));
    let all = lengths(database, a, 8);
    assert_eq!((all.len(), all[0], all[6], all[7]), (8, (3, State::Verified), (2, State::Unavailable), (1, State::Missing)));
    let claims = claim(database, a, NOW + DAY_S, 18);
    let refused = || Finding::Unavailable(Refusal::new(Cause::TimedOut, "").into());
    database.record(&claims.into_iter().map(|claim| checked(claim, NOW + DAY_S, refused())).collect::<Vec<_>>(), &[]).expect("recorded");
    assert_eq!(lengths(database, a, 8).len(), 8);
    // Looks count, and by which method a witness is to be checked.
    check_one(database, b, NOW, Finding::HeaderChecked);
    check_one(database, b, NOW, Finding::ProviderAttested { stated: digest("nn") });
    assert_eq!(lengths(database, b, 8), [(1, State::HeaderChecked), (2, State::ProviderAttested)]);
    let mut changed = database.nodes().expect("readable").remove(1);
    changed.rules.method = Method::Header;
    database.change_node(&changed).expect("the node exists");
    assert!(database.witnesses(b, 8).expect("readable").iter().all(|witness| witness.method == Method::Header));
    // Another content or place has not been shown yet.
    let other = Row { expected: Expected { bytes: Some(7), digests: vec![digest("other")] }, ..row("n") };
    import(database, &[b], true, vec![other, Row { location: Some("elsewhere".into()), ..row("nn") }]);
    assert!(lengths(database, b, 8).is_empty());
}

fn incidents_come_back(database: &mut dyn AuditDatabase) {
    let [a, b] = two_nodes(database);
    let incident = |node, at, kind, factor| Incident {
        node,
        series: Series::Checks(Method::Stream),
        at,
        kind,
        since: at - 9,
        factor,
        checks: 12,
        unanswered: 3,
    };
    let all = [
        incident(a, NOW, IncidentKind::Slower, Some(2.25)),
        incident(b, NOW + 1, IncidentKind::Worse, None),
        incident(a, NOW + 1, IncidentKind::Ended, Some(1.0)),
    ];
    database.record_incidents(&all[..1]).expect("recorded");
    database.record_incidents(&all[1..]).expect("recorded");
    assert_eq!(database.incidents(0).expect("readable"), all);
    assert_eq!(database.incidents(NOW + 1).expect("readable"), all[1..]);
}

fn detectors_are_stored(database: &mut dyn AuditDatabase) {
    let [a, b] = two_nodes(database);
    import(database, &[a], false, vec![row("x")]);
    let state = |byte| DetectorState { node: a, series: Series::Checks(Method::Stream), state: vec![byte; 40] };
    database.record(&[], &[state(1)]).expect("recorded");
    let claim = claim(database, a, NOW, 1).remove(0);
    database.record(&[checked(claim, NOW, GOOD())], &[state(2)]).expect("recorded");
    assert_eq!(database.detector(a, Series::Checks(Method::Stream)).expect("readable"), Some(vec![2; 40]));
    assert_eq!(database.detector(a, Series::Benchmarks(Probe::Audit)).expect("readable"), None);
    assert_eq!(database.detector(b, Series::Checks(Method::Stream)).expect("readable"), None);
}
