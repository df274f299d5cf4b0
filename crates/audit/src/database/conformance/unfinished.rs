//! Of imports that were not completed.

use super::*;

fn unfinished(database: &mut dyn AuditDatabase) -> Vec<(String, u64)> {
    let imports = database.unfinished_imports().expect("readable");
    imports.into_iter().map(|import| (import.source, import.began_at)).collect()
}

/// Imports rows, then an error.
fn fail(database: &mut dyn AuditDatabase, source: Source<'_>, node: NodeId, now: u64, rows: &[&str]) {
    let error = InventoryError::Line { path: "list".into(), line: 2, problem: LineProblem::EmptyName };
    let mut rows = rows.iter().map(|name| Ok(row(name))).chain(std::iter::once(Err(error)));
    assert!(matches!(database.import(source, &[node], false, now, &mut rows), Err(InventoryError::Line { .. })));
}

fn complete(database: &mut dyn AuditDatabase, source: Source<'_>, node: NodeId, rows: &[&str]) -> Vec<String> {
    let imported = database.import(source, &[node], false, NOW + 50, &mut rows.iter().map(|name| Ok(row(name)))).expect("imported");
    imported.completed.into_iter().map(|import| import.source).collect()
}

pub(super) fn until_the_last_row(database: &mut dyn AuditDatabase) {
    let [a, _] = two_nodes(database);
    for _ in 0..2 {
        assert!(unfinished(database).is_empty());
        import(database, &[a], false, vec![row("x")]);
    }
    assert!(unfinished(database).is_empty());
    assert!(complete(database, Source::stream("-"), a, &[]).is_empty());
    assert!(unfinished(database).is_empty());
}

pub(super) fn after_a_failure(database: &mut dyn AuditDatabase) {
    let [a, _] = two_nodes(database);
    fail(database, LIST, a, NOW, &["x"]);
    assert_eq!(unfinished(database), [("list".into(), NOW)]);
    // What was imported counts, and can be checked.
    assert!(database.unfinished_imports().expect("readable").iter().all(|import| !import.holds_checks));
    check_one(database, a, NOW, GOOD());
    // A row that contradicts what is known doesn't end an import.
    let other = Row { expected: Expected { bytes: Some(7), digests: vec![digest("other")] }, ..row("x") };
    let imported = import(database, &[a], false, vec![other, row("y")]);
    assert_eq!((imported.conflicts, imported.completed.len()), (1, 1));
    assert!(unfinished(database).is_empty());
}

pub(super) fn completes_the_same_list_only(database: &mut dyn AuditDatabase) {
    let [a, _] = two_nodes(database);
    for (index, source) in [Source::list("x"), Source::list("y"), Source::list("x"), Source::stream("-")].into_iter().enumerate() {
        fail(database, source, a, NOW + index as u64, &["x"]);
    }
    let all = [("x", 0), ("y", 1), ("x", 2), ("-", 3)].map(|(name, index)| (name.to_owned(), NOW + index));
    assert_eq!(unfinished(database), all);
    assert!(complete(database, Source::list("z"), a, &["x"]).is_empty());
    // The streams may be two, and a list without rows isn't the same list.
    assert!(complete(database, Source::stream("-"), a, &["x"]).is_empty());
    assert!(complete(database, Source::list("x"), a, &[]).is_empty());
    assert_eq!(unfinished(database), all);
    assert_eq!(complete(database, Source::list("x"), a, &["x"]), ["x", "x"]);
    assert_eq!(unfinished(database), [all[1].clone(), all[3].clone()]);
}

pub(super) fn can_be_dismissed(database: &mut dyn AuditDatabase) {
    let [a, _] = two_nodes(database);
    fail(database, LIST, a, NOW, &["x"]);
    fail(database, LIST, a, NOW + 1, &["x"]);
    let numbers: Vec<u64> = database.unfinished_imports().expect("readable").iter().map(|import| import.number).collect();
    assert!(database.dismiss_import(numbers[0]).expect("dismissed"));
    assert!(!database.dismiss_import(numbers[0]).expect("it was dismissed before"));
    assert_eq!(unfinished(database), [("list".into(), NOW + 1)]);
    assert_eq!(states(database, a), [(State::Unverified, 1, 1)]);
    assert!(database.dismiss_import(numbers[1]).expect("dismissed"));
    fail(database, LIST, a, NOW, &["x"]);
    assert!(!numbers.contains(&database.unfinished_imports().expect("readable")[0].number), "numbers are not used again");
}
