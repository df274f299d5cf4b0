use super::*;
use crate::copy::{Expected, Finding};
use crate::database::BenchmarkDatabase as _;
use crate::database::conformance::{CASES, LIST};
use crate::database::portion::ROWS;
use crate::series::Probe;

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
fn a_database_on_a_read_only_file_system_can_be_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("100% #1?.db");
    drop(Sqlite::create(&path).expect("a database"));
    let mut database = Sqlite::opened(&path, Mode::Immutable).expect("it opens");
    assert_eq!(database.nodes().expect("readable"), []);
    assert!(database.connection.execute("DELETE FROM nodes", []).is_err(), "it is read-only");
    assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 1, "SQLite creates no index");
    assert!(!on_read_only_file_system(&path));
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
fn an_import_that_version_1_left_unfinished_is_migrated_and_its_file_numbers_are_not_reused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("audit.db");
    let old = rusqlite::Connection::open(&path).expect("a database");
    old.execute_batch(SCHEMA).expect("the tables of version 1");
    old.pragma_update(None, "application_id", APPLICATION).expect("marked");
    old.pragma_update(None, "user_version", 1).expect("marked");
    // Version 1 checked copies while the import was unfinished.
    old.execute_batch(
        "INSERT INTO nodes VALUES (1, 'n', '/n', '', 0, 7776000, 0, 4, NULL, NULL, 0, NULL, NULL); \
         INSERT INTO files VALUES (7, 0, 'f', 5, x''); INSERT INTO copies VALUES (1, 7, 4, 500, 300, 1, NULL); \
         INSERT INTO events VALUES (1, NULL, 1, 7, 400, 4, 0, 0, 0, NULL); INSERT INTO benchmarks VALUES (1, 7, 0, 60, 0, NULL); \
         INSERT INTO totals VALUES (1, 4, 1, 5); DROP INDEX files_by_name; INSERT INTO unfinished_import VALUES (300);",
    )
    .expect("rows of version 1");
    drop(old);
    let mut database = Sqlite::open(&path).expect("an old database opens");
    let unfinished = database.unfinished_imports().expect("readable");
    assert_eq!((unfinished.len(), unfinished[0].began_at, unfinished[0].holds_checks), (1, 300, true));
    assert!(database.claim(NodeId(1), 900, 9).expect("nothing is claimed").is_empty());
    database.import(LIST, &[], false, 500, &mut ["g", "h"].map(row).into_iter()).expect("imported");
    assert!(database.events(0, 9).expect("readable").is_empty(), "the event of `f` became one of another file");
    assert!(database.benchmarks().expect("readable").is_empty());
    assert_eq!(["g", "h"].map(|name| database.history(name).expect("readable").expect("known").file), [FileId(8), FileId(9)]);
    assert!(database.dismiss_import(unfinished[0].number).expect("dismissed"));
    assert_eq!(database.claim(NodeId(1), 900, 9).expect("claimed").len(), 2);
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

fn add_node(database: &mut Sqlite) {
    let node = Node {
        id: NodeId(0),
        name: "n".into(),
        place: "/n".into(),
        options: Vec::new(),
        medium: Medium::Disk,
        rules: Medium::Disk.rules(),
        expected_time: None,
    };
    assert_eq!(database.add_node(&node).expect("the name is free"), NodeId(1));
}

/// Imports a portion and dies before the next one, as if the process were killed.
fn killed(mut database: Sqlite, source: Source<'_>) {
    let names = (0..).map(|index| format!("file {index}")).take(ROWS);
    let mut rows = names.map(|name| row(&name)).chain(std::iter::once_with(|| std::panic::resume_unwind(Box::new("killed"))));
    let import = std::panic::AssertUnwindSafe(|| database.import(source, &[], false, 1, &mut rows));
    assert!(std::panic::catch_unwind(import).is_err());
}

fn checked(claim: Claim) -> Checked {
    let finding = Finding::Verified { disputed: None };
    Checked { claim, at: 2, method: Method::Stream, finding, bytes: 0, stream: Duration::ZERO }
}

/// Everything that would leave an event, or a number, of a file whose number may be given up.
fn refuses_checks(database: &mut Sqlite) {
    let (node, file) = (NodeId(1), FileId(1));
    assert!(database.claim(node, 9, 9).expect("nothing is claimed").is_empty());
    let claim = Claim { node, file, location: "file 0".into(), expected: Expected::default(), state: State::Unverified, due_at: 0 };
    let event = Event {
        event: 0,
        node,
        file,
        at: 2,
        kind: EventKind::Repaired,
        method: Method::Stream,
        bytes: 0,
        stream: Duration::ZERO,
        detail: String::new(),
    };
    for refused in [
        database.claim_files(node, &[file]).map(drop),
        database.record(&[checked(claim)], &[]),
        database.record_repair(node, file, 2, ""),
        database.append_event(&event),
        database.set_benchmark(node, file, Probe::Audit, Duration::from_secs(60), 2),
        database.remove_copies(&[(node, file)], 2, "").map(drop),
        database.remove_node(node, 2, "").map(drop),
    ] {
        assert!(matches!(refused, Err(DatabaseError::ImportUnfinished)), "{refused:?}");
    }
    assert_eq!(database.last_event().expect("readable"), 0);
}

#[test]
fn an_interrupted_first_import_holds_checks_and_is_started_over() {
    let (folder, mut database) = database();
    add_node(&mut database);
    killed(database, LIST);
    let mut database = Sqlite::open(&folder.path().join("audit.db")).expect("it opens");
    let unfinished = database.unfinished_imports().expect("readable");
    assert_eq!((unfinished.len(), unfinished[0].began_at, unfinished[0].holds_checks), (1, 1, true));
    assert_eq!(database.totals().expect("readable")[0].copies, ROWS as u64);
    refuses_checks(&mut database);
    // Another list takes its place, and the interrupted one is still to be repeated.
    let mut rows = ["c", "d", "c"].map(row).into_iter();
    let imported = database.import(Source::list("another"), &[], false, 2, &mut rows).expect("imported");
    assert_eq!((imported.files, imported.copies, imported.completed.len()), (2, 2, 0));
    assert_eq!(database.totals().expect("readable")[0].copies, 2);
    assert!(database.history("file 0").expect("readable").is_none());
    assert!(database.history("d").expect("readable").is_some());
    assert_eq!(database.unfinished_imports().expect("readable"), [UnfinishedImport { holds_checks: false, ..unfinished[0].clone() }]);
    let claims = database.claim(NodeId(1), 9, 9).expect("claimed");
    database.record(&claims.into_iter().map(checked).collect::<Vec<_>>(), &[]).expect("recorded");
    let mut rows = ["file 0", "d"].map(row).into_iter();
    let imported = database.import(LIST, &[], false, 3, &mut rows).expect("imported");
    assert_eq!((imported.files, imported.completed.len()), (1, 1));
    assert!(database.unfinished_imports().expect("readable").is_empty());
    assert_eq!(database.history("d").expect("readable").expect("known").copies[0].events.len(), 1);
}

#[test]
fn an_interrupted_first_import_can_be_dismissed() {
    let (folder, mut database) = database();
    add_node(&mut database);
    killed(database, LIST);
    let mut database = Sqlite::open(&folder.path().join("audit.db")).expect("it opens");
    assert!(database.dismiss_import(1).expect("dismissed"));
    assert!(database.unfinished_imports().expect("readable").is_empty());
    assert!(database.totals().expect("readable").is_empty() && database.history("file 0").expect("readable").is_none());
    let imported = database.import(LIST, &[], false, 2, &mut ["x", "x"].map(row).into_iter()).expect("imported");
    assert_eq!((imported.files, imported.copies), (1, 1));
    assert_eq!(database.claim(NodeId(1), 9, 9).expect("claimed").len(), 1);
}

#[test]
fn an_interrupted_later_import_holds_no_checks() {
    let (folder, mut database) = database();
    add_node(&mut database);
    database.import(LIST, &[], false, 1, &mut std::iter::once(row("x"))).expect("imported");
    killed(database, Source::list("more"));
    let mut database = Sqlite::open(&folder.path().join("audit.db")).expect("it opens");
    let unfinished = database.unfinished_imports().expect("readable");
    assert_eq!((unfinished.len(), &*unfinished[0].source, unfinished[0].holds_checks), (1, "more", false));
    let claims = database.claim(NodeId(1), 9, 9).expect("claimed");
    assert_eq!(claims.len(), 9);
    database.record(&claims.into_iter().map(checked).collect::<Vec<_>>(), &[]).expect("recorded");
    let imported = database.import(Source::list("more"), &[], false, 2, &mut std::iter::once(row("file 0"))).expect("imported");
    assert_eq!((imported.files, imported.completed), (0, unfinished));
    assert_eq!(database.totals().expect("readable").iter().map(|total| total.copies).sum::<u64>(), ROWS as u64 + 1);
}

#[test]
fn a_first_import_under_way_refuses_another_and_holds_no_transaction() {
    let (folder, mut database) = database();
    add_node(&mut database);
    let path = folder.path().join("audit.db");
    let look = |_: &Result<Row, InventoryError>| {
        // No transaction waits for the list.
        let mut other = Sqlite::open(&path).expect("it opens");
        assert_eq!(other.unfinished_imports().expect("readable").len(), 1);
        refuses_checks(&mut other);
        other.make_due(NodeId(1), 5, 9).expect("it can be changed");
        let second = other.import(Source::list("other"), &[], false, 1, &mut std::iter::once(row("y")));
        assert!(matches!(second, Err(InventoryError::Database(DatabaseError::ImportUnderWay))), "{second:?}");
        assert!(matches!(other.dismiss_import(1), Err(DatabaseError::ImportUnderWay)));
        assert_eq!(other.unfinished_imports().expect("readable").len(), 1);
    };
    let mut rows = ["x", "y"].map(row).into_iter().inspect(look);
    assert_eq!(database.import(LIST, &[], false, 1, &mut rows).expect("imported").files, 2);
    assert!(database.unfinished_imports().expect("readable").is_empty());
    assert_eq!(database.claim(NodeId(1), 9, 9).expect("claimed").len(), 2);
}

#[test]
fn imports_side_by_side_complete_only_themselves() {
    let (folder, mut database) = database();
    add_node(&mut database);
    database.import(LIST, &[], false, 1, &mut std::iter::once(row("x"))).expect("imported");
    let path = folder.path().join("audit.db");
    let sources = |database: &mut Sqlite| -> Vec<String> {
        database.unfinished_imports().expect("readable").into_iter().map(|import| import.source).collect()
    };
    let look = |_: &Result<Row, InventoryError>| {
        let mut other = Sqlite::open(&path).expect("it opens");
        for source in [Source::list("other"), Source::stream("-")] {
            let imported = other.import(source, &[], false, 1, &mut std::iter::once(row("y"))).expect("imported");
            assert!(imported.completed.is_empty());
            assert_eq!(sources(&mut other), ["-"]);
        }
    };
    let mut rows = std::iter::once(row("z")).inspect(look);
    database.import(Source::stream("-"), &[], false, 1, &mut rows).expect("imported");
    assert!(sources(&mut database).is_empty());
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

/// A database with 300 copies at a node.
fn filled(folder: &Path) -> PathBuf {
    let path = folder.join("audit.db");
    let mut database = Sqlite::create(&path).expect("a database can be created");
    let rules = Medium::Disk.rules();
    let (medium, place) = (Medium::Disk, "folder:/n".to_owned());
    let node = Node { id: NodeId(0), name: "n".into(), place, options: Vec::new(), medium, rules, expected_time: None };
    database.add_node(&node).expect("added");
    database.import(LIST, &[], false, 0, &mut (0..300).map(|number| row(&format!("file {number}")))).expect("imported");
    path
}

#[test]
fn sums_without_their_rows_are_noticed() {
    for sql in ["DELETE FROM copies", "DELETE FROM files", "DELETE FROM copies WHERE file = 7", "DELETE FROM totals"] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = filled(folder.path());
        let mut database = Sqlite::open(&path).expect("it opens");
        database.check_counts().expect("all is there");
        Connection::open(&path).and_then(|other| other.execute_batch(sql)).expect("changed");
        assert!(matches!(database.check_counts(), Err(DatabaseError::Inconsistent { node: 1, .. })), "{sql}");
    }
}

#[test]
fn pages_that_are_zeroed_are_noticed() {
    for table in ["copies", "files"] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = filled(folder.path());
        let other = Connection::open(&path).expect("it opens");
        let number = |sql: &str| other.query_row(sql, [], |row| row.get::<_, u32>(0)).expect("a number");
        let root = number(&format!("SELECT rootpage FROM sqlite_schema WHERE name = '{table}'"));
        let bytes = number("PRAGMA page_size");
        other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("written to the file");
        drop(other);
        let file = OpenOptions::new().write(true).open(&path).expect("a file");
        std::os::unix::fs::FileExt::write_all_at(&file, &vec![0; bytes as usize], u64::from((root - 1) * bytes)).expect("zeroed");
        let mut database = Sqlite::open(&path).expect("it opens");
        assert!(!database.totals().expect("sums can be read").is_empty());
        assert!(matches!(database.check_counts(), Err(DatabaseError::Engine { .. })), "{table}");
    }
}
