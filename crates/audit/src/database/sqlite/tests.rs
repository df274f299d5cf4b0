use super::*;
use crate::copy::Expected;
use crate::database::conformance::CASES;

fn database() -> (tempfile::TempDir, Sqlite) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = Sqlite::create(&folder.path().join("audit.db")).expect("a database can be created");
    (folder, database)
}

fn row(name: &str) -> Result<Row, InventoryError> {
    Ok(Row { name: name.into(), expected: Expected::default(), location: None, node: Some(NodeId(1)) })
}

#[test]
fn the_embedded_database_does_what_every_engine_must() {
    for (name, case) in CASES {
        println!("{name}");
        let (_folder, mut database) = database();
        case(&mut database);
    }
}

#[test]
fn only_an_audits_database_is_opened() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    assert!(matches!(Sqlite::open(&at("none")), Err(DatabaseError::Absent { .. })));
    assert!(!at("none").exists());
    std::fs::write(at("text"), "not a database at all, but long enough to be taken for one".repeat(20)).expect("a file");
    assert!(matches!(Sqlite::open(&at("text")), Err(DatabaseError::Foreign { .. })));
    std::fs::write(at("empty"), "").expect("a file");
    assert!(matches!(Sqlite::open(&at("empty")), Err(DatabaseError::Foreign { .. })));
    rusqlite::Connection::open(at("other")).and_then(|other| other.execute_batch("CREATE TABLE t (a)")).expect("a database");
    let before = std::fs::read(at("other")).expect("readable");
    assert!(matches!(Sqlite::open(&at("other")), Err(DatabaseError::Foreign { .. })));
    // Nothing of what belongs to others was changed.
    assert!(std::fs::read(at("other")).expect("readable") == before && std::fs::metadata(at("empty")).expect("there").len() == 0);
    assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 3);
    drop(Sqlite::create(&at("audit")).expect("a database"));
    assert!(matches!(Sqlite::create(&at("audit")), Err(DatabaseError::Exists { .. })));
    let newer = Sqlite::open(&at("audit")).expect("an audit's database");
    newer.connection.pragma_update(None, "user_version", VERSION + 1).expect("a newer version");
    drop(newer);
    assert!(matches!(Sqlite::open(&at("audit")), Err(DatabaseError::Newer { found: 3, known: 2, .. })));
}

#[test]
fn a_database_of_version_1_is_brought_up_to_date() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("audit.db");
    let old = rusqlite::Connection::open(&path).expect("a database");
    old.execute_batch(SCHEMA).expect("the tables of version 1");
    old.pragma_update(None, "application_id", APPLICATION).expect("marked");
    old.pragma_update(None, "user_version", 1).expect("marked");
    old.execute_batch(
        "INSERT INTO nodes VALUES (1, 'n', '/n', '', 0, 7776000, 0, 4, NULL, NULL, 0, NULL, NULL); \
         INSERT INTO copies VALUES (1, 1, 4, 500, 300, 1, NULL); INSERT INTO totals VALUES (1, 4, 1, 5); INSERT INTO ages VALUES (1, 0, 1, 5); \
         INSERT INTO events VALUES (1, NULL, 1, 1, 400, 4, 0, 0, 0, NULL);",
    )
    .expect("rows of version 1");
    old.execute("INSERT INTO files VALUES (1, ?1, 'f', 5, x'')", [import::name_hash("f")]).expect("a file");
    drop(old);
    for round in 0..2 {
        let mut database = Sqlite::open(&path).expect("an old database opens");
        let history = database.history("f").expect("readable").expect("known");
        assert_eq!((history.copies.len(), history.removed.len()), (1 - round, round));
        let removed = database.remove_copies(&[(NodeId(1), FileId(1))], 600, "moved").expect("copies can be removed");
        assert_eq!((removed, database.totals().expect("readable").len()), (1 - round as u64, 0));
    }
}

#[test]
fn two_processes_cant_check_at_once_but_read() {
    let (folder, mut first) = database();
    let mut second = Sqlite::open(&folder.path().join("audit.db")).expect("it can be read");
    first.claim(NodeId(1), 1, 1).expect("the first may check");
    assert!(matches!(second.claim(NodeId(1), 1, 1), Err(DatabaseError::InUse { .. })));
    assert!(second.totals().expect("it can be read").is_empty());
    drop(first);
    second.claim(NodeId(1), 1, 1).expect("the first has ended");
}

#[test]
fn an_interrupted_first_import_is_started_over() {
    let (_folder, mut database) = database();
    let node = Node {
        id: NodeId(0),
        name: "n".into(),
        place: "/n".into(),
        options: Vec::new(),
        medium: Medium::Disk,
        rules: Medium::Disk.rules(),
        expected_time: None,
    };
    database.add_node(&node).expect("the name is free");
    let mut rows = ["a", "b", "a"].map(row).into_iter();
    database.import(&[], false, 1, &mut rows).expect("imported");
    // As if the process had ended before the index was built.
    database
        .connection
        .execute_batch("DROP INDEX files_by_name; INSERT INTO unfinished_import VALUES (1); UPDATE totals SET copies = 3")
        .expect("the tables can be changed");
    let refused = database.remove_copies(&[(NodeId(1), FileId(1))], 1, "");
    assert!(matches!(refused, Err(DatabaseError::ImportUnfinished)));
    let mut rows = ["c", "d", "c"].map(row).into_iter();
    let imported = database.import(&[], false, 1, &mut rows).expect("imported");
    assert_eq!((imported.files, imported.copies), (2, 2));
    assert_eq!(database.totals().expect("readable")[0].copies, 2);
    assert!(database.history("a").expect("readable").is_none());
    assert!(database.history("d").expect("readable").is_some());
}

#[test]
fn the_history_cant_be_changed() {
    let (_folder, database) = database();
    database
        .connection
        .execute_batch("INSERT INTO events (node, file, at, kind, method, bytes, stream_us) VALUES (1, 1, 1, 1, 0, 0, 0)")
        .expect("events can be appended");
    for change in ["UPDATE events SET at = 2", "DELETE FROM events"] {
        let error = database.connection.execute_batch(change).expect_err("events can't be changed");
        assert!(error.to_string().contains("append-only"), "{error}");
    }
}

/// Each query that reads the large tables must use an index, or it would take minutes.
#[test]
fn no_question_scans_a_large_table() {
    let (_folder, database) = database();
    let problems = questions::problems_query(State::Missing);
    // With parameters where the queries have them: a plan may depend on a value that is written
    // out.
    let queries = [
        "SELECT c.file, c.due_at FROM copies c JOIN files f ON f.file = c.file WHERE c.node = ? AND c.due_at <= ? ORDER BY c.due_at, c.file",
        "SELECT file FROM files WHERE name_hash = ? AND name = ?",
        "SELECT c.node FROM nodes n CROSS JOIN copies c ON c.node = n.node AND c.file = ? ORDER BY n.node",
        &*problems,
        "SELECT e.event FROM events e JOIN files f ON f.file = e.file WHERE e.event > ? ORDER BY e.event LIMIT ?",
        "SELECT due_at FROM copies WHERE node = ? ORDER BY due_at LIMIT 1",
        "UPDATE copies SET due_at = ? WHERE node = ? AND due_at > ?",
    ];
    for query in queries {
        let mut statement = database.connection.prepare(&format!("EXPLAIN QUERY PLAN {query}")).expect("a query");
        let plan: Vec<String> = statement.raw_query().mapped(|row| row.get(3)).collect::<Result<_, _>>().expect("a plan");
        let slow = |line: &String| {
            (line.starts_with("SCAN")
                && ["c", "f", "e", "files", "copies", "events"].iter().any(|table| line.contains(&format!("SCAN {table}"))))
                || line.contains("TEMP B-TREE")
        };
        assert!(!plan.iter().any(slow), "{query}: {plan:?}");
        // The primary key would do, too, but has all other copies.
        assert!(!query.contains("c.state") || plan.iter().any(|line| line.contains("copies_troubled")), "{query}: {plan:?}");
    }
}
