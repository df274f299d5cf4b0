//! Removing copies and nodes, and adding them again.

use super::*;

const WHY: &str = "deaccessioned";

fn file(database: &mut dyn AuditDatabase, name: &str) -> FileId {
    database.history(name).expect("readable").expect("known").file
}

fn remove(database: &mut dyn AuditDatabase, node: NodeId, names: &[&str]) -> u64 {
    let copies: Vec<(NodeId, FileId)> = names.iter().map(|name| (node, file(database, name))).collect();
    database.remove_copies(&copies, NOW + 9, WHY).expect("copies can be removed")
}

/// Kinds of the events of a removed copy.
fn removed_kinds(database: &mut dyn AuditDatabase, name: &str) -> Vec<EventKind> {
    let history = database.history(name).expect("readable").expect("known");
    history.removed[0].events.iter().map(|event| event.kind).collect()
}

pub(super) fn keeps_the_history(database: &mut dyn AuditDatabase) {
    let [a, b] = two_nodes(database);
    let at = Row { node: Some(a), location: Some("deep/x".into()), ..row("x") };
    import(database, &[], false, vec![at, Row { node: Some(b), ..row("x") }]);
    import(database, &[a], false, vec![row("yy")]);
    let claims = claim(database, a, NOW, 2);
    let results: Vec<Checked> =
        claims.into_iter().zip([GOOD(), Finding::Missing]).map(|(claim, finding)| checked(claim, NOW, finding)).collect();
    database.record(&results, &[]).expect("recorded");
    let x = file(database, "x");
    database.set_benchmark(a, x, Probe::Audit, Duration::from_secs(60), NOW).expect("added");
    assert_eq!(remove(database, a, &["x", "yy", "x"]), 2);
    assert_eq!(remove(database, a, &["x"]), 0, "it was removed before");
    assert_eq!(states(database, a), []);
    assert_eq!(states(database, b), [(State::Unverified, 1, 1)]);
    assert!(database.ages().expect("readable").iter().all(|age| age.node == b));
    assert!(database.problems(State::Missing, None, 9).expect("readable").is_empty());
    assert!(database.witnesses(a, 8).expect("readable").is_empty() && database.benchmarks().expect("readable").is_empty());
    assert!(claim(database, a, NOW + 1_000 * DAY_S, 9).is_empty() && database.next_due(a).expect("readable").is_none());
    // What happened before can still be read.
    let history = database.history("x").expect("readable").expect("known");
    assert_eq!(history.copies.iter().map(|copy| copy.node).collect::<Vec<_>>(), [b]);
    let removed = &history.removed[0];
    assert_eq!((history.removed.len(), removed.node, removed.location.as_str()), (1, a, "deep/x"));
    assert_eq!((removed.events[0].at, removed.events.len()), (NOW + 9, 2));
    assert_eq!(removed.events[0].detail, format!("{WHY}; until then 1 byte, {:?}", digest("x")));
    assert_eq!(removed_kinds(database, "yy"), [EventKind::Removed, EventKind::Checked(State::Missing)]);
    let subjects = database.subjects(0, 0, 9).expect("readable");
    assert_eq!(subjects.iter().map(|(_, subject)| subject.location.as_str()).collect::<Vec<_>>(), ["deep/x", "yy"]);
    assert_eq!(database.events(0, 9).expect("readable").len(), 4);
    assert_eq!(database.hours(0).expect("readable").iter().map(|hour| hour.count).sum::<u64>(), 2);
}

pub(super) fn voids_checks_under_way(database: &mut dyn AuditDatabase) {
    let [a, b] = two_nodes(database);
    import(database, &[a, b], false, vec![row("x")]);
    let late = claim(database, a, NOW, 1).remove(0);
    assert_eq!(remove(database, a, &["x"]), 1);
    database.record(&[checked(late.clone(), NOW, GOOD())], &[]).expect("the result is dropped");
    database.release(std::slice::from_ref(&late)).expect("nothing happens");
    database.record_repair(a, late.file, NOW, "").expect("nothing happens");
    assert_eq!(removed_kinds(database, "x"), [EventKind::Removed]);
    assert_eq!((states(database, a), database.last_event().expect("readable")), (vec![], 1));
    // Nor after the copy has come back.
    assert_eq!(import(database, &[a], false, vec![row("x")]).copies, 1);
    database.record(&[checked(late, NOW, Finding::Missing)], &[]).expect("the result is dropped");
    assert_eq!(states(database, a), [(State::Unverified, 1, 1)]);
    let history = database.history("x").expect("readable").expect("known");
    assert!(history.removed.is_empty());
    assert_eq!(history.copies[0].events.iter().map(|event| event.kind).collect::<Vec<_>>(), [EventKind::Removed]);
    check_one(database, a, NOW, GOOD());
    assert_eq!(remove(database, a, &["x"]), 1);
    let verified = EventKind::Checked(State::Verified);
    assert_eq!(removed_kinds(database, "x"), [EventKind::Removed, verified, EventKind::Removed]);
    import(database, &[a], false, vec![row("x")]);
    assert_eq!(database.history("x").expect("readable").expect("known").copies[0].events.len(), 3);
}

pub(super) fn lets_a_file_be_listed_as_new(database: &mut dyn AuditDatabase) {
    let [a, b] = two_nodes(database);
    import(database, &[a, b], false, vec![row("x"), row("yy")]);
    let other = || Row { expected: Expected { bytes: Some(7), digests: vec![digest("other")] }, ..row("x") };
    assert_eq!(remove(database, a, &["x"]), 1);
    assert_eq!(import(database, &[a], false, vec![other()]).conflicts, 1, "node b has the earlier content");
    assert_eq!(remove(database, a, &["x"]), 1);
    assert_eq!(remove(database, b, &["x"]), 1);
    let imported = import(database, &[a], false, vec![other(), other(), row("x")]);
    assert_eq!((imported.copies, imported.changed, imported.conflicts), (1, 1, 1));
    assert_eq!(database.history("x").expect("readable").expect("known").expected, other().expected);
    assert_eq!(states(database, a), [(State::Unverified, 2, 9)]);
    assert_eq!(removed_kinds(database, "x"), [EventKind::Removed]);
}

pub(super) fn of_a_node_leaves_its_history(database: &mut dyn AuditDatabase) {
    let [a, b] = two_nodes(database);
    import(database, &[a, b], false, vec![row("x"), row("yy")]);
    check_one(database, b, NOW, GOOD());
    let detector = || DetectorState { node: b, series: Series::Checks(Method::Stream), state: vec![1] };
    database.record(&[], &[detector()]).expect("recorded");
    let late = claim(database, b, NOW, 1);
    assert_eq!(database.remove_node(b, NOW + 9, WHY).expect("the node exists"), 2);
    assert_eq!(database.nodes().expect("readable"), [Node { id: a, ..node("a") }]);
    let removed = database.removed_nodes().expect("readable").remove(0);
    assert_eq!((removed.id, removed.name.as_str(), removed.place.as_str()), (b, "b", "/mnt/b"));
    assert_eq!((removed.at, removed.reason.as_str()), (NOW + 9, WHY));
    assert_eq!(states(database, b), []);
    assert_eq!(removed_kinds(database, "x"), [EventKind::Removed, EventKind::Checked(State::Verified)]);
    // A run that began before changes nothing.
    database.record(&late.into_iter().map(|claim| checked(claim, NOW, GOOD())).collect::<Vec<_>>(), &[detector()]).expect("dropped");
    assert_eq!(database.detector(b, detector().series).expect("readable"), None);
    assert_eq!(removed_kinds(database, "yy"), [EventKind::Removed]);
    let gone = |result: Result<(), DatabaseError>| assert!(matches!(result, Err(DatabaseError::NoSuchNode { node }) if node == b.0));
    gone(database.remove_node(b, NOW, WHY).map(drop));
    gone(database.change_node(&Node { id: b, ..node("b") }));
    let import_to_b = database.import(LIST, &[a, b], false, NOW, &mut std::iter::once(Ok(row("x"))));
    assert!(matches!(import_to_b, Err(InventoryError::Database(DatabaseError::NoSuchNode { node })) if node == b.0));
    // Its number isn't used again, and its name is that of the same node.
    let c = database.add_node(&node("c")).expect("the name is free");
    assert!(c != a && c != b);
    assert!(matches!(database.add_node(&node("b")), Err(DatabaseError::NodeRemoved { name }) if name == "b"));
    assert!(matches!(database.add_node_again(&node("a")), Err(DatabaseError::NotRemoved { .. })));
    let again = Node { medium: Medium::Tape, ..node("b") };
    assert_eq!(database.add_node_again(&again).expect("it was removed"), b);
    assert!(matches!(database.add_node_again(&again), Err(DatabaseError::NotRemoved { .. })));
    assert!(database.removed_nodes().expect("readable").is_empty());
    assert!(database.nodes().expect("readable").contains(&Node { id: b, ..again }));
    assert_eq!(import(database, &[b], false, vec![row("x")]).copies, 1);
    let history = database.history("x").expect("readable").expect("known");
    assert_eq!((history.copies[1].node, history.copies[1].events.len()), (b, 2));
}

pub(super) fn works_in_portions(database: &mut dyn AuditDatabase) {
    let [a, _] = two_nodes(database);
    let names: Vec<String> = (0..10_001).map(|index| format!("file {index}")).collect();
    import(database, &[a], false, names.iter().map(|name| row(name)).collect());
    assert_eq!(database.remove_node(a, NOW, WHY).expect("the node exists"), 10_001);
    assert!(states(database, a).is_empty());
    assert_eq!(database.last_event().expect("readable"), 10_001);
}
