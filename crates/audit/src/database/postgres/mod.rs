//! The database on a PostgreSQL server, shared by workers on several machines.
//!
//! ```text
//!  worker --.                                   leases   who checks which copy, and until when
//!  worker --+-> claims, results, one session -> copies, events, sums, ... as in `sqlite`
//!  import --'   each, no process in between     workers  the last transaction of each process
//! ```
//!
//! A claim is a lease by the server's clock, which its worker renews. When a worker dies, its
//! leases run out and others check its copies. A result counts if its copy is as it was when
//! claimed, even if another worker has the lease by then: a lease saves work and proves nothing.
//!
//! [`session`] reconnects and repeats what was not committed, and says in which order locks are
//! taken. All tables are in the schema `fulgurite_audit`.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::{
    Age, AuditDatabase, Checked, Claim, DatabaseError, DetectorState, FileHistory, Hour, Incident, Problem, RemovedNode, Source, Total,
    UnfinishedImport, digests,
};
use crate::check::Witness;
use crate::copy::{FileId, Method, NodeId, State};
use crate::inventory::{Imported, InventoryError, Row};
use crate::node::Node;
use crate::overdue::Overdue;
use crate::series::Series;

mod address;
mod benchmarks;
mod claims;
mod history;
mod import;
mod moving;
mod nodes;
mod questions;
mod record;
mod removal;
mod session;
mod sums;
#[cfg(test)]
mod tests;
mod tls;

pub use address::AddressProblem;
use address::ServerAddress;
use session::{ANSWER, IMPORT_LOCK, LONG_ANSWER, Session};

const VERSION: i32 = 2;
const SCHEMA: &str = include_str!("schema.sql");
/// What version 2 added.
const SCHEMA_2: &str = include_str!("schema_2.sql");
/// How long a lease lasts unless it is renewed.
const LEASE: Duration = Duration::from_secs(5 * 60);
/// The first version of PostgreSQL that has all that is used here.
const OLDEST_SERVER: i32 = 120_000;

/// An audit's database on a PostgreSQL server.
///
/// All methods block the thread, so it must not be used within an asynchronous runtime. If the
/// server restarts, they wait for it for ten minutes.
pub struct Postgres {
    session: Session,
    /// Copies that are leased and have no result yet.
    held: HashMap<NodeId, HashSet<FileId>>,
    renewed_at: Instant,
    renew_every: Duration,
    /// Commits with verified copies, which choose the slot of the next witness.
    witnessed: u64,
}

impl Postgres {
    /// True if a text is the address of a database, `postgres://…`, and not the name of a file.
    #[must_use]
    pub fn is_address(text: &str) -> bool {
        address::rest(text).is_some()
    }

    /// Creates the tables of an audit in an existing database. `url` is
    /// `postgres://user@host:port/database`, with these options after a question mark:
    ///
    /// | option | meaning |
    /// | --- | --- |
    /// | `host` | the folder of a Unix socket |
    /// | `password` | `env:NAME` or `file:PATH`; without it, `PGPASSWORD` and then `passfile` are used |
    /// | `passfile` | a password file in PostgreSQL's format; else that of `PGPASSFILE`, or `~/.pgpass` |
    /// | `sslmode` | `verify-full` or `disable`; by default, TLS is used unless the server is local |
    /// | `sslrootcert` | certificate authorities in PEM form; by default those of the system |
    ///
    /// # Errors
    /// If the address is unusable, the server can't be reached, or the database has an audit.
    pub fn create(url: &str) -> Result<Self, DatabaseError> {
        let mut database = Self::connect(url)?;
        let exists = || DatabaseError::Exists { path: PathBuf::from(url) };
        if database.version()?.is_some() {
            return Err(exists());
        }
        database.session.read("look at the server", async |work| {
            let encoding: String = work.rows("SELECT current_setting('server_encoding')", &[]).await?[0].try_get(0)?;
            if encoding != "UTF8" {
                return Err(DatabaseError::Encoding { encoding }.into());
            }
            Ok(())
        })?;
        // Two processes may do this at once; the schema lets one succeed.
        let created = database.session.create(&[SCHEMA, SCHEMA_2].concat());
        match created {
            Ok(()) => Ok(database),
            Err(error) => Err(if database.version()?.is_some() { exists() } else { error }),
        }
    }

    /// Connects to the database of an audit. For `url`, see [`create`](Self::create).
    ///
    /// # Errors
    /// If the address is unusable, the server can't be reached, or the database has no audit or one
    /// of a newer version.
    pub fn open(url: &str) -> Result<Self, DatabaseError> {
        let mut database = Self::connect(url)?;
        let name = database.session.address().to_string();
        match database.version()? {
            Some(VERSION) => Ok(database),
            Some(earlier) if earlier < VERSION => {
                database.migrate()?;
                Ok(database)
            }
            Some(found) => Err(DatabaseError::Newer { path: name.into(), found: found.into(), known: VERSION.into() }),
            None => Err(DatabaseError::NoAudit { database: name }),
        }
    }

    fn connect(url: &str) -> Result<Self, DatabaseError> {
        let session = Session::open(ServerAddress::parse(url)?)?;
        Ok(Self { session, held: HashMap::new(), renewed_at: Instant::now(), renew_every: LEASE / 3, witnessed: 0 })
    }

    /// Brings the tables of version 1 up to date. Several processes may do it at once.
    fn migrate(&mut self) -> Result<(), DatabaseError> {
        self.session.change("bring the tables up to date", ANSWER, async |work, _| {
            work.batch("LOCK TABLE about IN ACCESS EXCLUSIVE MODE").await?;
            let version = work.number("SELECT version::bigint FROM about", &[]).await?;
            if version < i64::from(VERSION) { work.batch(SCHEMA_2).await } else { Ok(()) }
        })
    }

    /// The version of the tables; `None` in a database without an audit.
    fn version(&mut self) -> Result<Option<i32>, DatabaseError> {
        self.session.read("look for the tables of an audit", async |work| {
            let server: i32 = work.rows("SELECT current_setting('server_version_num')::integer", &[]).await?[0].try_get(0)?;
            if server < OLDEST_SERVER {
                return Err(DatabaseError::OldServer { found: server / 10_000, oldest: OLDEST_SERVER / 10_000 }.into());
            }
            if work.optional("SELECT 1 FROM pg_namespace WHERE nspname = 'fulgurite_audit'", &[]).await?.is_none() {
                return Ok(None);
            }
            let row = work.optional("SELECT version FROM about", &[]).await?;
            let version = row.map(|row| row.try_get(0)).transpose()?;
            version.map(Some).ok_or_else(|| DatabaseError::Damaged { table: "about", what: "it is empty".into() }.into())
        })
    }

    fn forget(&mut self, node: NodeId, file: FileId) {
        if let Some(held) = self.held.get_mut(&node) {
            held.remove(&file);
        }
    }
}

/// PostgreSQL's integers are signed; dates and lengths beyond their range are as good as endless.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// No node has a number beyond this range.
fn small(node: NodeId) -> i16 {
    i16::try_from(node.0).unwrap_or(i16::MAX)
}

fn name_hash(name: &str) -> i64 {
    twox_hash::XxHash3_64::oneshot(name.as_bytes()).cast_signed()
}

/// Replaces the one character that PostgreSQL can't store. Details of events quote servers.
fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

fn decoded_node(table: &'static str, number: i16) -> Result<NodeId, DatabaseError> {
    u16::try_from(number).map(NodeId).map_err(|_| DatabaseError::Damaged { table, what: format!("no node has the number {number}") })
}

fn decoded_state(table: &'static str, number: i16) -> Result<State, DatabaseError> {
    let state = u8::try_from(number).ok().and_then(State::from_number);
    state.ok_or_else(|| DatabaseError::Damaged { table, what: format!("no state has the number {number}") })
}

fn decoded_method(table: &'static str, number: i16) -> Result<Method, DatabaseError> {
    let method = u8::try_from(number).ok().and_then(Method::from_number);
    method.ok_or_else(|| DatabaseError::Damaged { table, what: format!("no method has the number {number}") })
}

fn decoded_digests(bytes: &[u8]) -> Result<Vec<fulgurite_digest::Digest>, DatabaseError> {
    digests::decode(bytes).ok_or(DatabaseError::Damaged { table: "files", what: "its digests can't be decoded".into() })
}

impl AuditDatabase for Postgres {
    fn nodes(&mut self) -> Result<Vec<Node>, DatabaseError> {
        self.session.read("read the nodes", async |work| nodes::nodes(work).await)
    }

    fn add_node(&mut self, node: &Node) -> Result<NodeId, DatabaseError> {
        self.session.change("add a node", ANSWER, async |work, _| nodes::add(work, node).await)
    }

    fn add_node_again(&mut self, node: &Node) -> Result<NodeId, DatabaseError> {
        self.session.change("add a node", ANSWER, async |work, _| nodes::add_again(work, node).await)
    }

    fn removed_nodes(&mut self) -> Result<Vec<RemovedNode>, DatabaseError> {
        self.session.read("read the removed nodes", async |work| removal::removed_nodes(work).await)
    }

    fn remove_node(&mut self, node: NodeId, at: u64, reason: &str) -> Result<u64, DatabaseError> {
        removal::node(&mut self.session, node, at, reason)
    }

    fn remove_copies(&mut self, copies: &[(NodeId, FileId)], at: u64, reason: &str) -> Result<u64, DatabaseError> {
        removal::copies(&mut self.session, copies, at, reason)
    }

    fn change_node(&mut self, node: &Node) -> Result<(), DatabaseError> {
        self.session.change("change a node", LONG_ANSWER, async |work, _| nodes::change(work, node).await)
    }

    fn move_node(&mut self, node: &Node, at: u64, until_then: &str) -> Result<u64, DatabaseError> {
        self.session.change("change a node", LONG_ANSWER, async |work, _| {
            // No import may add or change copies of the node meanwhile.
            work.lock(IMPORT_LOCK).await?;
            nodes::change(work, node).await?;
            moving::forget_checks(work, node.id, at, until_then).await
        })
    }

    fn import(
        &mut self,
        source: Source<'_>,
        nodes: &[NodeId],
        replace: bool,
        now: u64,
        rows: &mut dyn Iterator<Item = Result<Row, InventoryError>>,
    ) -> Result<Imported, InventoryError> {
        import::import(&mut self.session, source, nodes, replace, now, rows)
    }

    fn unfinished_imports(&mut self) -> Result<Vec<UnfinishedImport>, DatabaseError> {
        self.session.read("read the unfinished imports", async |work| import::unfinished(work).await)
    }

    fn dismiss_import(&mut self, number: u64) -> Result<bool, DatabaseError> {
        let (sql, number) = ("DELETE FROM imports WHERE import = $1", signed(number));
        self.session.change("dismiss an import", ANSWER, async |work, _| Ok(work.execute(sql, &[&number]).await? > 0))
    }

    fn claim(&mut self, node: NodeId, now: u64, limit: usize) -> Result<Vec<Claim>, DatabaseError> {
        loop {
            let leased = self
                .session
                .change("claim copies", ANSWER, async |work, worker| claims::claim(work, worker, LEASE, node, now, limit).await)?;
            let held = self.held.entry(node).or_default();
            let none_due = leased.is_empty();
            // This process may hold a copy whose lease ran out, or was lost in a crash of the
            // server. It has the lease again now, and must not check the copy twice.
            let claims: Vec<Claim> = leased.into_iter().filter(|claim| held.insert(claim.file)).collect();
            if none_due || !claims.is_empty() {
                return Ok(claims);
            }
        }
    }

    fn claim_files(&mut self, node: NodeId, files: &[FileId]) -> Result<Vec<Claim>, DatabaseError> {
        let leased = self
            .session
            .change("claim copies", ANSWER, async |work, worker| claims::claim_files(work, worker, LEASE, node, files).await)?;
        let held = self.held.entry(node).or_default();
        Ok(leased.into_iter().filter(|claim| held.insert(claim.file)).collect())
    }

    fn release(&mut self, claims: &[Claim]) -> Result<(), DatabaseError> {
        if claims.is_empty() {
            return Ok(());
        }
        let keys: Vec<(NodeId, FileId)> = claims.iter().map(|claim| (claim.node, claim.file)).collect();
        self.session.change("release claims", ANSWER, async |work, worker| {
            work.needs_no_sync().await?;
            claims::release(work, worker, &keys).await
        })?;
        for (node, file) in keys {
            self.forget(node, file);
        }
        Ok(())
    }

    fn renew_claims(&mut self) -> Result<(), DatabaseError> {
        if self.renewed_at.elapsed() < self.renew_every || self.held.values().all(HashSet::is_empty) {
            return Ok(());
        }
        self.session.change("renew claims", ANSWER, async |work, worker| claims::renew(work, worker, LEASE).await)?;
        self.renewed_at = Instant::now();
        Ok(())
    }

    fn record(&mut self, results: &[Checked], detectors: &[DetectorState]) -> Result<(), DatabaseError> {
        let witnessed = self.witnessed;
        self.session
            .change("record results", ANSWER, async |work, worker| record::record(work, worker, witnessed, results, detectors).await)?;
        self.witnessed += 1;
        for result in results {
            self.forget(result.claim.node, result.claim.file);
        }
        Ok(())
    }

    fn record_repair(&mut self, node: NodeId, file: FileId, at: u64, detail: &str) -> Result<(), DatabaseError> {
        self.session.change("record a repair", ANSWER, async |work, _| record::repair(work, node, file, at, detail).await)
    }

    fn append_event(&mut self, event: &super::Event) -> Result<(), DatabaseError> {
        self.session.change("append an event", ANSWER, async |work, _| record::event(work, event).await)
    }

    fn record_incidents(&mut self, incidents: &[Incident]) -> Result<(), DatabaseError> {
        self.session.change("record incidents", ANSWER, async |work, _| record::incidents(work, incidents).await)
    }

    fn incidents(&mut self, from: u64) -> Result<Vec<Incident>, DatabaseError> {
        self.session.read("read the incidents", async |work| questions::incidents(work, from).await)
    }

    fn add_whole_times(&mut self, times: &[(NodeId, Method, u64, State, Duration)]) -> Result<(), DatabaseError> {
        self.session.change("record times", ANSWER, async |work, _| record::whole_times(work, times).await)
    }

    fn make_due(&mut self, node: NodeId, now: u64, after: u64) -> Result<u64, DatabaseError> {
        self.session.change("make copies due", LONG_ANSWER, async |work, _| record::make_due(work, node, now, after).await)
    }

    fn make_copy_due(&mut self, node: NodeId, file: FileId, now: u64) -> Result<(), DatabaseError> {
        let (node, file, now) = (small(node), signed(file.0), signed(now));
        let sql = "UPDATE copies SET due_at = $3 WHERE node = $1 AND file = $2 AND due_at > $3";
        self.session.change("make a copy due", ANSWER, async |work, _| work.execute(sql, &[&node, &file, &now]).await.map(drop))
    }

    fn next_due(&mut self, node: NodeId) -> Result<Option<u64>, DatabaseError> {
        self.session.read("read what is due", async |work| questions::next_due(work, node).await)
    }

    fn due_after(&mut self, node: NodeId, after: u64, most: u64) -> Result<u64, DatabaseError> {
        let (node, after, most) = (small(node), signed(after), signed(most));
        let sql = "SELECT count(*) FROM (SELECT FROM copies WHERE node = $1 AND due_at > $2 LIMIT $3) c";
        self.session.read("count what is due", async |work| work.number(sql, &[&node, &after, &most]).await.map(unsigned))
    }

    fn overdue_looks(&mut self, node: NodeId, looked_before: u64, due_before: u64, most: u64) -> Result<Overdue, DatabaseError> {
        let count = async |work: &session::Work<'_>| questions::overdue_looks(work, node, looked_before, due_before, most).await;
        self.session.read("count what is overdue", async |work| count(work).await)
    }

    fn witnesses(&mut self, node: NodeId, limit: usize) -> Result<Vec<Witness>, DatabaseError> {
        self.session.read("read the witnesses of a node", async |work| questions::witnesses(work, node, limit).await)
    }

    fn detector(&mut self, node: NodeId, series: Series) -> Result<Option<Vec<u8>>, DatabaseError> {
        self.session.read("read the state of a detector", async |work| questions::detector(work, node, series).await)
    }

    fn check_counts(&mut self) -> Result<(), DatabaseError> {
        self.session.read("read the copies", async |work| questions::check_counts(work).await)
    }

    fn totals(&mut self) -> Result<Vec<Total>, DatabaseError> {
        self.session.read("read the totals", async |work| questions::totals(work).await)
    }

    fn ages(&mut self) -> Result<Vec<Age>, DatabaseError> {
        self.session.read("read the ages of copies", async |work| questions::ages(work).await)
    }

    fn hours(&mut self, from: u64) -> Result<Vec<Hour>, DatabaseError> {
        self.session.read("read the checks by hour", async |work| questions::hours(work, from).await)
    }

    fn problems(&mut self, state: State, after: Option<(NodeId, FileId)>, limit: usize) -> Result<Vec<Problem>, DatabaseError> {
        self.session.read("list copies by state", async |work| questions::problems(work, state, after, limit).await)
    }

    fn history(&mut self, name: &str) -> Result<Option<FileHistory>, DatabaseError> {
        self.session.read("look up a file", async |work| questions::history(work, name).await)
    }

    fn events(&mut self, after: u64, limit: usize) -> Result<Vec<(super::Event, String)>, DatabaseError> {
        self.session.read("read the history", async |work| questions::events(work, after, limit).await)
    }

    fn last_event(&mut self) -> Result<u64, DatabaseError> {
        let sql = "SELECT coalesce(max(event), 0) FROM events";
        self.session.read("read the history", async |work| Ok(unsigned(work.number(sql, &[]).await?)))
    }

    fn subjects(&mut self, since: u64, after: u64, limit: usize) -> Result<Vec<(u64, super::Subject)>, DatabaseError> {
        self.session.read("read the history", async |work| questions::subjects(work, since, after, limit).await)
    }
}
