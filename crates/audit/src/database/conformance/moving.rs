//! Nodes that lead to another place.

use super::*;

pub(super) fn makes_copies_unverified(database: &mut dyn AuditDatabase) {
    let [a, b] = two_nodes(database);
    import(database, &[a, b], false, vec![row("x"), row("yy"), row("zzz")]);
    for found in [GOOD(), Finding::DigestMismatch { found: digest("other") }] {
        check_one(database, a, NOW, found);
    }
    check_one(database, b, NOW, GOOD());
    let under_way = claim(database, a, NOW, 1).remove(0);
    assert_eq!(under_way.location, "zzz");
    let moved = Node { id: a, place: "/mnt/elsewhere".into(), ..node("a") };
    assert_eq!(database.move_node(&moved, NOW + 5, "until then at /mnt/a").expect("the node exists"), 3);
    assert_eq!(database.nodes().expect("readable")[0], moved);
    // It read the earlier place.
    database.record(&[checked(under_way, NOW + 6, GOOD())], &[]).expect("recorded");
    assert_eq!(states(database, a), [(State::Unverified, 3, 6)]);
    let ages = database.ages().expect("readable");
    assert_eq!(ages.iter().filter(|age| age.node == a).map(|age| (age.day, age.copies, age.bytes)).collect::<Vec<_>>(), [(None, 3, 6)]);
    assert!(database.problems(State::DigestMismatch, None, 9).expect("readable").is_empty());
    assert!(database.witnesses(a, 9).expect("readable").is_empty(), "the new place has shown nothing");
    for (name, events) in [("x", 2), ("yy", 2), ("zzz", 1)] {
        let copies = database.history(name).expect("readable").expect("known").copies;
        let copy = &copies[0];
        assert_eq!((copy.state, copy.verified_at, copy.events.len()), (State::Unverified, None, events), "{name}");
        let event = &copy.events[0];
        assert_eq!((event.kind, event.at, event.detail.as_str()), (EventKind::ExpectationReplaced, NOW + 5, "until then at /mnt/a"));
    }
    assert_eq!(claim(database, a, NOW, 9).len(), 3, "all are due");
    assert_eq!(
        (states(database, b), database.witnesses(b, 9).expect("readable").len()),
        (vec![(State::Unverified, 2, 5), (State::Verified, 1, 1)], 1)
    );
    database.check_counts().expect("sums follow");
    let absent = Node { id: NodeId(99), ..node("c") };
    assert!(matches!(database.move_node(&absent, NOW, ""), Err(DatabaseError::NoSuchNode { node: 99 })));
}
