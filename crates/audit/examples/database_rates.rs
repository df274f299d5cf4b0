//! Rates of an audit's database: import, claims and results.
//!
//! `database_rates DATABASE FILES WORKERS [NODES [CHECKS]]`, where DATABASE is a file or
//! `postgres://…`; an audit is created there. Each file has one copy at each of NODES nodes, two by
//! default. Workers claim 512 copies at a time, as a run does, and record them in commits of 512,
//! without reading anything, until each copy, or CHECKS of them, is checked. On Linux, bytes
//! written are those that this process had the disk write, so they mean nothing for PostgreSQL.

use std::error::Error;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use fulgurite_audit::copy::{Expected, Finding, Method, NodeId};
use fulgurite_audit::database::{AuditDatabase, Checked, Postgres, Source, Sqlite};
use fulgurite_audit::inventory::Row;
use fulgurite_audit::node::{Medium, Node};
use fulgurite_digest::{Algorithm, Digester};

const NOW: u64 = 1_800_000_000;
const BATCH: usize = 512;

fn row(index: u64) -> Row {
    let mut digester = Digester::new(&[Algorithm::Sha256]);
    digester.update(&index.to_le_bytes());
    let expected = Expected { bytes: Some(6_000_000), digests: digester.finish() };
    Row { name: format!("ark:/99999/fk4{index:012}/1/producer/page-{:04}.tiff", index % 1_000), expected, location: None, node: None }
}

/// Checks copies until none is due, or `most` of them. Returns their number.
fn work(database: &mut dyn AuditDatabase, nodes: &[NodeId], most: u64) -> Result<u64, Box<dyn Error + Send + Sync>> {
    let mut checks = 0;
    loop {
        let before = checks;
        for node in nodes {
            let claims = database.claim(*node, NOW, BATCH)?;
            checks += claims.len() as u64;
            let result = |claim| {
                let (finding, stream) = (Finding::Verified { disputed: None }, Duration::from_millis(300));
                Checked { claim, at: NOW, method: Method::Stream, finding, bytes: 6_000_000, stream }
            };
            database.record(&claims.into_iter().map(result).collect::<Vec<_>>(), &[])?;
        }
        if checks == before || checks >= most {
            return Ok(checks);
        }
    }
}

fn open(address: &str, create: bool) -> Result<Box<dyn AuditDatabase>, Box<dyn Error + Send + Sync>> {
    Ok(match (Postgres::is_address(address), create) {
        (true, true) => Box::new(Postgres::create(address)?),
        (true, false) => Box::new(Postgres::open(address)?),
        (false, true) => Box::new(Sqlite::create(Path::new(address))?),
        (false, false) => Box::new(Sqlite::open(Path::new(address))?),
    })
}

/// Bytes that this process has had the disk write so far.
fn written() -> u64 {
    let counters = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let written = counters.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    written.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}

/// What the database takes on disk, if it is a file.
fn on_disk(address: &str) -> u64 {
    let length = |suffix: &str| std::fs::metadata(format!("{address}{suffix}")).map_or(0, |file| file.len());
    length("") + length("-wal")
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, files, workers, options @ ..] = &arguments[..] else {
        return Err("usage: database_rates DATABASE FILES WORKERS [NODES [CHECKS]]".into());
    };
    let (files, workers): (u64, u64) = (files.parse()?, workers.parse()?);
    let count: u64 = options.first().map_or(Ok(2), |nodes| nodes.parse())?;
    let most: u64 = options.get(1).map_or(Ok(u64::MAX), |checks| checks.parse())?;
    let mut database = open(address, true)?;
    let node = |name: &str| Node {
        id: NodeId(0),
        name: name.into(),
        place: "/mnt".into(),
        options: Vec::new(),
        medium: Medium::Cloud,
        rules: Medium::Cloud.rules(),
        expected_time: None,
    };
    let nodes = (0..count).map(|number| database.add_node(&node(&format!("node-{number}")))).collect::<Result<Vec<_>, _>>()?;
    for what in ["import", "import again"] {
        let (begun, before) = (Instant::now(), written());
        let imported = database.import(Source::list("rates"), &nodes, false, NOW, &mut (0..files).map(|index| Ok(row(index))))?;
        let seconds = begun.elapsed().as_secs_f64();
        println!(
            "{what}: {} new copies, {seconds:.1} s, {:.0} rows/s; {} bytes on disk, {} written",
            imported.copies,
            files as f64 / seconds,
            on_disk(address),
            written() - before
        );
    }
    drop(database);
    let (begun, before) = (Instant::now(), written());
    let most = most.div_ceil(workers.max(1));
    let checks: Result<u64, _> = thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(|| work(&mut *open(address, false)?, &nodes, most))).collect();
        workers.into_iter().map(|worker| worker.join().expect("no worker panics")).sum()
    });
    let (checks, seconds) = (checks?, begun.elapsed().as_secs_f64());
    println!(
        "claim and record, {workers} workers: {checks} checks, {seconds:.1} s, {:.0} checks/s; {} bytes on disk, {} written",
        checks as f64 / seconds,
        on_disk(address),
        written() - before
    );
    Ok(())
}
