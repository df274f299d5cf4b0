//! Looks at copies of files whose length isn't known.

use super::*;

const LOOK: Finding = Finding::LengthUnknown { stated: 0 };

/// A database with a copy of a file at each of two nodes, of which only a digest is known.
fn without_length(database: &mut dyn AuditDatabase, name: &str) -> [NodeId; 2] {
    let nodes = ["a", "b"].map(|node_name| database.add_node(&node(&format!("{name}-{node_name}"))).expect("the name is free"));
    let known = row(name);
    import(database, &nodes, false, vec![Row { expected: Expected { bytes: None, ..known.expected.clone() }, ..known }]);
    nodes
}

fn due_at(database: &mut dyn AuditDatabase, node: NodeId) -> u64 {
    database.next_due(node).expect("readable").expect("it has a copy")
}

pub(super) fn make_looks_due(database: &mut dyn AuditDatabase) {
    let later = NOW + 100;
    let interval = Medium::Cloud.rules().interval.as_secs();
    // It learns from a reading at another node.
    let [a, b] = without_length(database, "x");
    check_one(database, b, NOW, LOOK);
    assert_eq!(states(database, b), [(State::Unverified, 1, 0)]);
    assert_eq!(due_at(database, b), NOW + interval);
    let history = database.history("x").expect("readable").expect("known");
    let event = &history.copies[1].events[0];
    assert_eq!((event.kind, event.detail.contains("0 bytes")), (EventKind::LengthUnknown, true));
    assert!(database.witnesses(b, 9).expect("readable").is_empty(), "it has shown nothing");
    let reading = Checked { bytes: 1, ..checked(claim(database, a, later, 1).remove(0), later, GOOD()) };
    database.record(&[reading], &[]).expect("recorded");
    assert_eq!((due_at(database, b), states(database, b)), (later, vec![(State::Unverified, 1, 1)]));
    // Or from an inventory. What earlier versions took for a compared length is looked at again.
    for (name, look) in [("yy", LOOK), ("zz", Finding::HeaderChecked)] {
        let [a, b] = without_length(database, name);
        check_one(database, b, NOW - 100, look);
        assert!(due_at(database, b) > NOW);
        import(database, &[a, b], false, vec![row(name)]);
        assert_eq!(due_at(database, b), NOW);
    }
    // A look that was under way meanwhile is repeated, and no other check is voided.
    let [a, b] = without_length(database, "under way");
    let looked = claim(database, b, later, 1).remove(0);
    let reading = Checked { bytes: 9, ..checked(claim(database, a, later, 1).remove(0), later, GOOD()) };
    database.record(&[reading], &[]).expect("recorded");
    database.record(&[checked(looked, later + 1, LOOK)], &[]).expect("recorded");
    assert_eq!((due_at(database, b), states(database, b)), (later + 1, vec![(State::Unverified, 1, 9)]));
}
