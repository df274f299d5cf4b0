//! Tests against a server. They need PostgreSQL's programs, so `cargo test` ignores them; the step
//! `postgres` of `cargo xtask test` runs them.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use fulgurite_digest::{Algorithm, Digest};
use fulgurite_places::{Cause, Refusal};

use super::*;
use crate::copy::{Expected, Finding};
use crate::database::EventKind;
use crate::database::conformance::{CASES, LIST};
use crate::database::portion::ROWS;
use crate::node::Medium;

mod proxy;
mod server;

use server::{Server, shared};

const NOW: u64 = 1_800_000_000;

fn audit(server: &Server) -> (String, Postgres) {
    let address = server.database();
    let database = Postgres::create(&address).expect("an audit can be created");
    (address, database)
}

fn add_node(database: &mut Postgres, name: &str) -> NodeId {
    let node = Node {
        id: NodeId(0),
        name: name.into(),
        place: "/mnt".into(),
        options: Vec::new(),
        medium: Medium::Disk,
        rules: Medium::Disk.rules(),
        expected_time: None,
    };
    database.add_node(&node).expect("the name is free")
}

fn digest(byte: u8) -> Digest {
    Digest::new(Algorithm::Sha256, &[byte; 32]).expect("32 bytes")
}

fn row(name: &str) -> Row {
    Row { name: name.into(), expected: Expected { bytes: Some(7), digests: vec![digest(1)] }, location: None, node: None }
}

fn import(database: &mut Postgres, nodes: &[NodeId], replace: bool, rows: impl IntoIterator<Item = Row>) -> Imported {
    database.import(LIST, nodes, replace, NOW, &mut rows.into_iter().map(Ok)).expect("the inventory is right")
}

fn checked(claim: Claim, finding: Finding) -> Checked {
    Checked { claim, at: NOW, method: Method::Stream, finding, bytes: 7, stream: Duration::from_millis(1) }
}

fn verified(claim: Claim) -> Checked {
    checked(claim, Finding::Verified { disputed: None })
}

/// Checks what is due at some nodes, `limit` copies at a time. Returns how many.
fn check_all(database: &mut Postgres, nodes: &[NodeId], limit: usize) -> usize {
    let mut count = 0;
    loop {
        let mut results = Vec::new();
        for node in nodes {
            results.extend(database.claim(*node, NOW, limit).expect("copies can be claimed").into_iter().map(verified));
        }
        if results.is_empty() {
            return count;
        }
        count += results.len();
        database.record(&results, &[]).expect("results can be recorded");
    }
}

/// Compares all sums with what they sum up, and the history with itself.
fn assert_consistent(server: &Server, address: &str) {
    let direct = server.direct(address);
    let totals = "SELECT format('%s %s %s %s', node, state, copies, bytes) FROM totals WHERE copies <> 0 ORDER BY 1";
    let counted = "SELECT format('%s %s %s %s', node, state, count(*), coalesce(sum(bytes), 0)) FROM copies JOIN files USING (file) \
                   GROUP BY node, state ORDER BY 1";
    assert_eq!(direct.texts(totals), direct.texts(counted));
    let ages = "SELECT format('%s %s %s %s', node, day, copies, bytes) FROM ages ORDER BY 1";
    let counted = "SELECT format('%s %s %s %s', node, coalesce(verified_at / 86400, -1), count(*), coalesce(sum(bytes), 0)) \
                   FROM copies JOIN files USING (file) GROUP BY node, coalesce(verified_at / 86400, -1) ORDER BY 1";
    assert_eq!(direct.texts(ages), direct.texts(counted));
    let checks = direct.number("SELECT count(*) FROM events WHERE kind < 33 OR kind = 39");
    assert_eq!(direct.number("SELECT coalesce(sum(count), 0)::bigint FROM hours"), checks);
    assert_eq!(direct.number("SELECT count(*) - coalesce(max(event), 0) FROM events"), 0, "events have no gaps");
    let chained = "WITH RECURSIVE heads AS (SELECT node, file, last_event FROM copies UNION ALL SELECT node, file, last_event FROM removed_copies), \
                   chain AS (SELECT e.* FROM heads c JOIN events e ON e.event = c.last_event AND e.node = c.node \
                   AND e.file = c.file UNION ALL SELECT e.* FROM chain c JOIN events e ON e.event = c.previous AND e.node = c.node \
                   AND e.file = c.file) SELECT count(*) FROM chain";
    assert_eq!(direct.number(chained), direct.number("SELECT count(*) FROM events"), "each event is in the chain of its copy");
    assert_eq!(direct.number("SELECT count(*) - count(DISTINCT name) FROM files"), 0, "each name is one file");
}

#[test]
#[ignore = "needs PostgreSQL"]
fn the_database_on_a_server_does_what_every_engine_must() {
    let Some(server) = shared() else { return };
    for (name, case) in CASES {
        println!("{name}");
        let (address, mut database) = audit(&server);
        case(&mut database);
        assert_consistent(&server, &address);
    }
}

#[test]
#[ignore = "needs PostgreSQL"]
fn only_an_audits_database_is_opened() {
    let Some(server) = shared() else { return };
    let address = server.database();
    assert!(matches!(Postgres::open(&address), Err(DatabaseError::NoAudit { database }) if database.contains("/audit")));
    drop(Postgres::create(&address).expect("an audit can be created"));
    assert!(matches!(Postgres::create(&address), Err(DatabaseError::Exists { .. })));
    drop(Postgres::open(&address).expect("an audit's database"));
    server.direct(&address).run("UPDATE about SET version = 3");
    assert!(matches!(Postgres::open(&address), Err(DatabaseError::Newer { found: 3, known: 2, .. })));
    assert!(matches!(Postgres::open(&server.address("absent")), Err(DatabaseError::Engine { doing: "connect to the database", .. })));
    let nowhere = Postgres::open("postgres://audit@/audit?host=/nonexistent");
    assert!(matches!(nowhere, Err(DatabaseError::Engine { doing: "connect to the database", .. })));
}

#[test]
#[ignore = "needs PostgreSQL"]
fn several_workers_check_each_copy_once() {
    let Some(server) = shared() else { return };
    let (address, mut database) = audit(&server);
    let nodes = ["a", "b"].map(|name| add_node(&mut database, name));
    import(&mut database, &nodes, false, (0..2_000).map(|index| row(&format!("file {index}"))));
    let counts: Vec<usize> = thread::scope(|scope| {
        let worker = |limit| {
            let address = &address;
            scope.spawn(move || check_all(&mut Postgres::open(address).expect("a worker"), &nodes, limit))
        };
        let workers = [7, 50, 64, 101].map(worker);
        workers.into_iter().map(|worker| worker.join().expect("a worker ends")).collect()
    });
    println!("checks by worker: {counts:?}");
    assert_eq!(counts.iter().sum::<usize>(), 4_000);
    assert_consistent(&server, &address);
    let direct = server.direct(&address);
    assert_eq!(direct.number("SELECT count(*) FROM events"), 4_000);
    assert_eq!(direct.number("SELECT count(*) FROM (SELECT DISTINCT node, file FROM events) e"), 4_000);
    assert_eq!(direct.number("SELECT count(*) FROM leases"), 0);
}

#[test]
#[ignore = "needs PostgreSQL"]
fn an_audit_of_version_1_is_brought_up_to_date_by_several_processes_at_once() {
    let Some(server) = shared() else { return };
    let (address, mut database) = audit(&server);
    let node = add_node(&mut database, "a");
    import(&mut database, &[node], false, [row("x")]);
    server.direct(&address).run("DROP TABLE removed_copies; DROP TABLE removed_nodes; DROP TABLE imports; UPDATE about SET version = 1");
    drop(database);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| Postgres::open(&address).expect("an old audit opens"));
        }
    });
    let mut database = Postgres::open(&address).expect("an audit's database");
    assert_eq!(check_all(&mut database, &[node], 9), 1);
    assert_eq!(database.remove_node(node, NOW, "moved").expect("the node exists"), 1);
    assert_eq!(database.history("x").expect("readable").expect("known").removed[0].events.len(), 2);
    assert_eq!(server.direct(&address).number("SELECT version::bigint FROM about"), 2);
}

#[test]
#[ignore = "needs PostgreSQL"]
fn imports_side_by_side_complete_only_themselves() {
    let Some(server) = shared() else { return };
    let (address, mut database) = audit(&server);
    let node = add_node(&mut database, "a");
    let sources = |database: &mut Postgres| -> Vec<String> {
        database.unfinished_imports().expect("readable").into_iter().map(|import| import.source).collect()
    };
    let look = |_: &Result<Row, InventoryError>| {
        let mut other = Postgres::open(&address).expect("another process");
        for source in [LIST, Source::stream("-")] {
            other.import(source, &[node], false, NOW, &mut std::iter::once(Ok(row("y")))).expect("imported");
            assert_eq!(sources(&mut other), ["-"]);
        }
        assert_eq!(check_all(&mut other, &[node], 9), 1, "other copies can be checked");
    };
    let mut rows = std::iter::once(Ok(row("z"))).inspect(look);
    database.import(Source::stream("-"), &[node], false, NOW, &mut rows).expect("imported");
    assert!(sources(&mut database).is_empty());
    // As if the process were killed after its first portion.
    let rows = (0..ROWS).map(|index| Ok(row(&format!("file {index}"))));
    let mut rows = rows.chain(std::iter::once_with(|| std::panic::resume_unwind(Box::new("killed"))));
    let killed = std::panic::AssertUnwindSafe(|| database.import(LIST, &[node], false, NOW, &mut rows));
    assert!(std::panic::catch_unwind(killed).is_err());
    let mut database = Postgres::open(&address).expect("another process");
    assert_eq!(sources(&mut database), ["list"]);
    assert_eq!(database.totals().expect("readable").iter().map(|total| total.copies).sum::<u64>(), ROWS as u64 + 2);
    assert_eq!(import(&mut database, &[node], false, [row("file 0")]).completed.len(), 1);
    assert!(sources(&mut database).is_empty());
}

#[test]
#[ignore = "needs PostgreSQL"]
fn a_result_of_another_worker_brings_no_removed_copy_back() {
    let Some(server) = shared() else { return };
    let (address, mut worker) = audit(&server);
    let node = add_node(&mut worker, "a");
    import(&mut worker, &[node], false, (0..500).map(|index| row(&format!("file {index}"))));
    let claims = worker.claim(node, NOW, 400).expect("copies can be claimed");
    let removed = thread::scope(|scope| {
        let address = &address;
        let removal = scope.spawn(move || Postgres::open(address).expect("another").remove_node(node, NOW, "left").expect("it exists"));
        for results in claims.chunks(7) {
            worker.record(&results.iter().cloned().map(verified).collect::<Vec<_>>(), &[]).expect("recorded or dropped");
        }
        removal.join().expect("the removal ends")
    });
    assert_eq!(removed, 500);
    let direct = server.direct(&address);
    assert_eq!(direct.number("SELECT (SELECT count(*) FROM copies) + (SELECT count(*) FROM leases) + (SELECT count(*) FROM nodes)"), 0);
    assert_consistent(&server, &address);
}

const WORKER: &str = "FULGURITE_TEST_WORKER";

/// Not a test of its own: the process that the next test kills.
#[test]
#[ignore = "started by another test"]
fn a_worker_that_is_killed() {
    let Ok(address) = std::env::var(WORKER) else { return };
    let mut database = Postgres::open(&address).expect("a worker");
    let claims = database.claim(NodeId(1), NOW, 30).expect("copies can be claimed");
    let results: Vec<Checked> = claims.into_iter().take(10).map(verified).collect();
    database.record(&results, &[]).expect("results can be recorded");
    println!("\nready");
    let _ = std::io::stdin().lines().next();
}

#[test]
#[ignore = "needs PostgreSQL"]
fn copies_of_a_killed_worker_are_checked_when_their_leases_have_run_out() {
    let Some(server) = shared() else { return };
    let (address, mut database) = audit(&server);
    let node = add_node(&mut database, "a");
    import(&mut database, &[node], false, (0..50).map(|index| row(&format!("file {index}"))));
    let program = std::env::current_exe().expect("the test program");
    let mut command = Command::new(program);
    command.args(["--exact", "database::postgres::tests::a_worker_that_is_killed", "--ignored", "--nocapture"]);
    let mut worker = command.env(WORKER, &address).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a process");
    let output = BufReader::new(worker.stdout.take().expect("its output"));
    assert!(output.lines().any(|line| line.expect("text") == "ready"), "the worker ended before it was ready");
    worker.kill().expect("it can be killed");
    worker.wait().expect("it ends");
    assert_eq!(check_all(&mut database, &[node], 9), 20, "without the killed worker's");
    let direct = server.direct(&address);
    assert_eq!(direct.number("SELECT count(*) FROM leases WHERE until > now()"), 20);
    direct.run("UPDATE leases SET until = now() - interval '1 second'");
    assert_eq!(check_all(&mut database, &[node], 9), 20);
    assert_eq!(direct.number("SELECT count(*) FROM events"), 50);
    assert_consistent(&server, &address);
}

#[test]
#[ignore = "needs PostgreSQL"]
fn a_result_counts_without_its_lease_if_the_copy_is_unchanged() {
    let Some(server) = shared() else { return };
    let (address, mut slow) = audit(&server);
    let node = add_node(&mut slow, "a");
    import(&mut slow, &[node], false, [row("x"), row("y")]);
    let mut other = Postgres::open(&address).expect("another worker");
    let direct = server.direct(&address);
    let claims = slow.claim(node, NOW, 9).expect("copies can be claimed");
    assert!(other.claim(node, NOW, 9).expect("copies can be claimed").is_empty());
    let expire = || direct.run("UPDATE leases SET until = now() - interval '1 second'");
    expire();
    assert!(slow.claim(node, NOW, 9).expect("copies can be claimed").is_empty(), "a worker never gets a copy twice");
    assert!(other.claim(node, NOW, 9).expect("copies can be claimed").is_empty(), "and it has the leases again");
    slow.renew_every = Duration::ZERO;
    expire();
    slow.renew_claims().expect("claims can be renewed");
    assert!(other.claim(node, NOW, 9).expect("copies can be claimed").is_empty(), "renewed leases count");
    expire();
    let taken = other.claim(node, NOW, 9).expect("copies can be claimed");
    assert_eq!(taken, claims);
    slow.renew_claims().expect("claims can be renewed");
    let of_other = "SELECT count(*) FROM leases WHERE worker = (SELECT max(worker) FROM workers)";
    assert_eq!(direct.number(of_other), 2, "a lease that another worker has isn't renewed");
    let [x, y] = <[Claim; 2]>::try_from(claims).expect("two claims");
    let [x_too, y_too] = <[Claim; 2]>::try_from(taken).expect("two claims");
    slow.record(&[verified(x)], &[]).expect("recorded");
    assert_eq!(direct.number(of_other), 2, "the other worker still checks it");
    other.record(&[checked(x_too, Finding::Missing)], &[]).expect("recorded");
    other.record(&[checked(y_too, Finding::Missing)], &[]).expect("recorded");
    slow.record(&[verified(y)], &[]).expect("recorded");
    let state = |database: &mut Postgres, name: &str| {
        let copy = database.history(name).expect("readable").expect("known").copies.remove(0);
        (copy.state, copy.events.len())
    };
    assert_eq!([state(&mut slow, "x"), state(&mut slow, "y")], [(State::Verified, 1), (State::Missing, 1)]);
    assert_eq!(direct.number("SELECT count(*) FROM leases"), 0);
    assert_consistent(&server, &address);
}

#[test]
#[ignore = "needs PostgreSQL"]
fn a_worker_that_ends_gives_its_claims_back() {
    let Some(server) = shared() else { return };
    let (address, mut first) = audit(&server);
    let node = add_node(&mut first, "a");
    import(&mut first, &[node], false, [row("x"), row("y")]);
    assert_eq!(first.claim(node, NOW, 9).expect("copies can be claimed").len(), 2);
    drop(first);
    let mut second = Postgres::open(&address).expect("another worker");
    assert_eq!(second.claim(node, NOW, 9).expect("copies can be claimed").len(), 2);
    assert_eq!(server.direct(&address).number("SELECT count(*) FROM workers"), 1);
}

#[test]
#[ignore = "needs PostgreSQL"]
fn a_run_goes_on_when_the_server_restarts() {
    let Some(server) = Server::start() else { return };
    let (address, mut database) = audit(&server);
    let node = add_node(&mut database, "a");
    import(&mut database, &[node], false, (0..1_000).map(|index| row(&format!("file {index}"))));
    let (sender, begun) = channel();
    thread::scope(|scope| {
        let address = &address;
        let workers = [(); 2].map(|()| {
            let sender = sender.clone();
            scope.spawn(move || {
                let mut database = Postgres::open(address).expect("a worker");
                let mut checks = 0;
                loop {
                    let claims = database.claim(node, NOW, 5).expect("copies can be claimed");
                    if claims.is_empty() {
                        return checks;
                    }
                    checks += claims.len();
                    database.record(&claims.into_iter().map(verified).collect::<Vec<_>>(), &[]).expect("results can be recorded");
                    let _ = sender.send(checks);
                }
            })
        });
        begun.iter().find(|checks| *checks >= 50).expect("a worker has begun");
        server.restart();
        let checks: Vec<usize> = workers.into_iter().map(|worker| worker.join().expect("a worker ends")).collect();
        println!("checks by worker: {checks:?}");
    });
    // Leases that were lost in the crash may have caused second checks, whose results were dropped.
    assert_eq!(check_all(&mut database, &[node], 100), 0);
    let direct = server.direct(&address);
    assert_eq!(direct.number("SELECT count(*) FROM events"), 1_000);
    assert_eq!(direct.number("SELECT count(DISTINCT file) FROM events"), 1_000);
    assert_consistent(&server, &address);
}

#[test]
#[ignore = "needs PostgreSQL"]
fn a_transaction_whose_commit_broke_is_done_once() {
    let Some(server) = shared() else { return };
    let (address, mut database) = audit(&server);
    let node = add_node(&mut database, "a");
    let proxy = proxy::Proxy::start(&server.folder().join(".s.PGSQL.5432"));
    let through = address.replace(&server.folder().display().to_string(), &proxy.folder().display().to_string());
    let mut broken = Postgres::open(&through).expect("the proxy passes it on");
    for (round, cut) in [proxy::Cut::BeforeCommit, proxy::Cut::AfterCommit].into_iter().enumerate() {
        proxy.cut(cut);
        let imported = import(&mut broken, &[node], false, [row(&format!("file {round}"))]);
        assert_eq!((imported.files, imported.copies), (1, 1), "{cut:?}");
        proxy.cut(cut);
        let claims = broken.claim(node, NOW, 9).expect("copies can be claimed");
        assert_eq!(claims.len(), 1, "{cut:?}");
        proxy.cut(cut);
        broken.record(&claims.into_iter().map(verified).collect::<Vec<_>>(), &[]).expect("recorded");
        proxy.cut(cut);
        broken.add_whole_times(&[(node, Method::Stream, NOW / 3_600, State::Verified, Duration::from_secs(1))]).expect("recorded");
        proxy.cut(cut);
        add_node(&mut broken, &format!("node {round}"));
        assert_eq!(proxy.cuts(), 5 * (round + 1), "each of them broke");
        let hours = database.hours(0).expect("readable");
        assert_eq!((hours[0].count, hours[0].whole), (round as u64 + 1, Duration::from_secs(round as u64 + 1)), "{cut:?}");
    }
    assert_eq!(database.nodes().expect("readable").len(), 3);
    assert_eq!(database.events(0, 9).expect("readable").len(), 2);
    assert_consistent(&server, &address);
}

#[test]
#[ignore = "needs PostgreSQL"]
fn imports_and_runs_at_once_leave_right_sums() {
    let Some(server) = shared() else { return };
    let (address, mut database) = audit(&server);
    let nodes = ["a", "b", "c"].map(|name| add_node(&mut database, name));
    let names = |range: std::ops::Range<u32>| range.map(|index| format!("file {index}"));
    let unknown = |name: String| Row { expected: Expected::default(), ..row(&name) };
    import(&mut database, &nodes[..2], false, names(0..400).map(unknown));
    thread::scope(|scope| {
        let address = &address;
        for round in 0..3_u8 {
            // Overlapping inventories: they add files, copies, lengths, digests and replacements.
            scope.spawn(move || {
                let mut database = Postgres::open(address).expect("an importer");
                for part in 0..4 {
                    let rows = names(part * 100..part * 100 + 400).map(|name| Row {
                        expected: Expected { bytes: Some(7 + u64::from(round)), digests: vec![digest(round)] },
                        ..row(&name)
                    });
                    import(&mut database, &nodes, round == 2, rows);
                }
            });
        }
        for worker in 0..3_u8 {
            scope.spawn(move || {
                let mut database = Postgres::open(address).expect("a worker");
                for _ in 0..40 {
                    let mut results = Vec::new();
                    for node in nodes {
                        let claims = database.claim(node, NOW, 10).expect("copies can be claimed");
                        results.extend(claims.into_iter().map(|claim| match claim.expected.digests.is_empty() {
                            true => checked(claim, Finding::Recorded { bytes: 9, digest: digest(worker) }),
                            false => verified(claim),
                        }));
                    }
                    database.record(&results, &[]).expect("results can be recorded");
                }
            });
        }
    });
    assert_consistent(&server, &address);
    check_all(&mut database, &nodes, 100);
    assert_consistent(&server, &address);
    let totals = database.totals().expect("readable");
    assert_eq!(totals.iter().map(|total| total.copies).sum::<u64>(), 3 * 700);
}

#[test]
#[ignore = "needs PostgreSQL"]
fn the_history_cant_be_changed() {
    let Some(server) = shared() else { return };
    let (address, mut database) = audit(&server);
    let node = add_node(&mut database, "a");
    import(&mut database, &[node], false, [row("x")]);
    check_all(&mut database, &[node], 1);
    for change in ["UPDATE events SET at = 2", "DELETE FROM events", "TRUNCATE events"] {
        let error = server.direct(&address).try_run(change).expect_err("events can't be changed");
        assert!(error.as_db_error().is_some_and(|error| error.message().contains("append-only")), "{error}");
    }
}

#[test]
#[ignore = "needs PostgreSQL"]
fn a_broken_chain_of_events_is_reported() {
    let Some(server) = shared() else { return };
    let (address, mut database) = audit(&server);
    let node = add_node(&mut database, "a");
    import(&mut database, &[node], false, [row("x"), row("y")]);
    check_all(&mut database, &[node], 1);
    server.direct(&address).run("UPDATE copies SET last_event = 3 - last_event");
    assert!(matches!(database.history("x"), Err(DatabaseError::Damaged { table: "events", .. })));
    server.direct(&address).run("UPDATE copies SET last_event = 99, state = 3");
    assert!(matches!(database.history("x"), Err(DatabaseError::Damaged { table: "events", .. })));
    assert!(matches!(database.problems(State::DigestMismatch, None, 9), Err(DatabaseError::Damaged { table: "events", .. })));
}

#[test]
#[ignore = "needs PostgreSQL"]
fn the_character_nul_is_refused_in_names_and_replaced_in_details() {
    let Some(server) = shared() else { return };
    let (_, mut database) = audit(&server);
    let node = add_node(&mut database, "a");
    let mut rows = [Ok(row("x")), Ok(row("a\0b")), Ok(row("y"))].into_iter();
    let error = database.import(LIST, &[node], false, NOW, &mut rows).expect_err("it can't be stored");
    assert!(matches!(&error, InventoryError::Database(DatabaseError::NulInName { name }) if name == "a\0b"), "{error}");
    assert!(database.history("a\0b").expect("readable").is_none() && database.history("y").expect("readable").is_none());
    let claim = database.claim(node, NOW, 9).expect("copies can be claimed").remove(0);
    let refusal = Refusal::new(Cause::Connection, "it said \0");
    let finding = Finding::Unavailable(crate::copy::Unavailability::Refused(refusal));
    database.record(&[checked(claim, finding)], &[]).expect("recorded");
    let copy = database.history("x").expect("readable").expect("known").copies.remove(0);
    assert_eq!(copy.events[0].kind, EventKind::Checked(State::Unavailable));
    assert!(copy.events[0].detail.contains("it said \u{fffd}"), "{}", copy.events[0].detail);
}

#[test]
#[ignore = "needs PostgreSQL"]
fn sums_of_absurd_lengths_are_exact() {
    let Some(server) = shared() else { return };
    let (address, mut database) = audit(&server);
    let nodes = ["a", "b"].map(|name| add_node(&mut database, name));
    let absurd = |name| Row { expected: Expected { bytes: Some(u64::MAX), digests: vec![digest(1)] }, ..row(name) };
    import(&mut database, &nodes, false, ["x", "y", "z"].map(absurd));
    assert_eq!(database.totals().expect("readable")[0].bytes, i64::MAX as u64);
    import(&mut database, &nodes, true, ["x", "y", "z"].map(row));
    assert_eq!(database.totals().expect("readable").iter().map(|total| total.bytes).collect::<Vec<_>>(), [21, 21]);
    assert_consistent(&server, &address);
}

/// Each query that reads the large tables must use an index, or it would take minutes.
#[test]
#[ignore = "needs PostgreSQL"]
fn claims_follow_the_index_without_sorting() {
    let Some(server) = shared() else { return };
    let (address, mut database) = audit(&server);
    let node = add_node(&mut database, "a");
    import(&mut database, &[node], false, (0..3_000).map(|index| row(&format!("file {index}"))));
    server.direct(&address).run("ANALYZE");
    check_all(&mut database, &[node], 100);
    let plan = database
        .session
        .read("explain a query", async |work| {
            let sql = "EXPLAIN SELECT c.file, c.due_at, c.location FROM copies c WHERE c.node = 1::smallint AND c.due_at <= 5 AND NOT EXISTS \
                       (SELECT FROM leases l WHERE l.node = c.node AND l.file = c.file AND l.until > statement_timestamp()) \
                       ORDER BY c.due_at, c.file LIMIT 512";
            let rows = work.rows(sql, &[]).await?;
            rows.iter().map(|row| Ok(row.try_get::<_, String>(0)?)).collect::<Result<Vec<_>, _>>()
        })
        .expect("a plan");
    assert!(plan.iter().any(|line| line.contains("copies_due")), "{plan:?}");
    assert!(!plan.iter().any(|line| line.contains("Sort") || line.contains("Seq Scan")), "{plan:?}");
}

#[test]
#[ignore = "needs PostgreSQL"]
fn two_processes_create_one_audit() {
    let Some(server) = shared() else { return };
    let address = Arc::new(server.database());
    let created: Vec<bool> = thread::scope(|scope| {
        let creators = [(); 3].map(|()| scope.spawn(|| Postgres::create(&address).map(drop)));
        let results = creators.into_iter().map(|creator| creator.join().expect("it ends"));
        results
            .map(|result| match result {
                Ok(()) => true,
                Err(DatabaseError::Exists { .. }) => false,
                Err(error) => panic!("{error:?}"),
            })
            .collect()
    });
    assert_eq!(created.iter().filter(|created| **created).count(), 1);
    assert!(Postgres::open(&address).expect("an audit's database").ages().expect("readable").is_empty());
}

#[test]
#[ignore = "needs PostgreSQL"]
fn servers_are_reached_by_tls_with_a_password_and_only_if_their_certificate_is_right() {
    let Some(mut server) = Server::start() else { return };
    let address = server.database();
    let name = address.split(['/', '?']).nth(3).expect("an address").to_owned();
    let (certificate, port) = server.listen_with_tls("s3cret");
    let secret = server.folder().join("password");
    std::fs::write(&secret, "s3cret\n").expect("a file");
    let of = |host: &str, more: &str| {
        let password = secret.display();
        format!("postgres://audit@{host}:{port}/{name}?sslmode=verify-full&password=file:{password}{more}")
    };
    let trusted = format!("&sslrootcert={}", certificate.display());
    let mut database = Postgres::create(&of("localhost", &trusted)).expect("an audit can be created");
    let node = add_node(&mut database, "a");
    import(&mut database, &[node], false, [row("x")]);
    assert_eq!(check_all(&mut database, &[node], 9), 1);
    let encrypted = database.session.read("look at the connection", async |work| {
        Ok(work.rows("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()", &[]).await?[0].try_get::<_, bool>(0)?)
    });
    assert!(encrypted.expect("readable"));
    let refused = |address: &str| match Postgres::open(address) {
        Ok(_) => panic!("{address} was accepted"),
        Err(error) => {
            let told = format!("{error} {error:?}");
            assert!(!told.contains("s3cret") && !told.contains("wrong"), "{told}");
            told
        }
    };
    refused(&of("localhost", ""));
    assert!(refused(&of("127.0.0.1", &trusted)).contains("NotValidForName"));
    std::fs::write(&secret, "wrong").expect("a file");
    assert!(refused(&of("localhost", &trusted)).contains("password authentication failed"));
}
