//! The session with the server: opened again when it breaks, each transaction done exactly once.
//!
//! ```text
//!  begin, work, number of the transaction into `workers`, commit
//!     |                                                     |
//!     '- broken: it never happened, do it again             '- broken: the number there decides
//! ```
//!
//! Transactions take locks in one order: the import lock, nodes, files, copies, the history lock.
//! Rows of a table are locked in the order of their keys. Whatever writes events, sums, detectors
//! or witnesses holds the history lock until its commit, so events are numbered in the order of
//! commits, and a reader that asks for what comes after an event misses none.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::time::timeout;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, IsolationLevel, Row, Statement, Transaction};

use super::super::DatabaseError;
use super::address::ServerAddress;
use super::tls::Tls;

/// Longest time for a transaction. Only a change of an interval may take longer.
pub(super) const ANSWER: Duration = Duration::from_secs(10 * 60);
/// The same for a transaction that changes all copies of a node.
pub(super) const LONG_ANSWER: Duration = Duration::from_secs(24 * 60 * 60);
/// Once connected, a session waits this long for a server that restarts.
const RECONNECT: Duration = Duration::from_secs(10 * 60);
const CONNECT: Duration = Duration::from_secs(15);
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// How long to wait for the server when a session ends.
const GOODBYE: Duration = Duration::from_secs(2);

/// Class of the advisory locks: "Faud".
const LOCKS: i32 = 0x4661_7564;
/// Held by the one transaction that adds files and copies.
pub(super) const IMPORT_LOCK: i32 = -1;
/// Held by the one transaction that writes events and sums.
pub(super) const HISTORY_LOCK: i32 = -2;

/// Every query has an index. A plan that reads a whole table would take hours, so the planner is
/// never to prefer one, whatever it knows of a table that was just filled. With it, JIT compilation
/// would be triggered by the cost that these settings add.
///
/// A worker that vanishes within a transaction holds up the others for 30 seconds. `off` would
/// acknowledge results before they are on disk; other values are the administrator's choice.
const SETTINGS: &str = "SET search_path = fulgurite_audit; \
     SET default_transaction_isolation = 'read committed'; SET default_transaction_read_only = off; \
     SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off; \
     SET plan_cache_mode = force_custom_plan; \
     SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = '30s'; \
     SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3; SET tcp_user_timeout = '60s'; \
     SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'; \
     SELECT set_config('client_connection_check_interval', '10s', false) WHERE current_setting('server_version_num')::integer >= 140000";

/// Why a step of the work failed.
#[derive(Debug)]
pub(super) enum Fault {
    Server(tokio_postgres::Error),
    /// The server didn't answer in time.
    Silent(Duration),
    Database(DatabaseError),
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Server(error)
    }
}

impl From<DatabaseError> for Fault {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}

/// What helps against a fault.
#[derive(Debug, PartialEq, Eq)]
enum Remedy {
    /// The same again, on the same connection.
    Repeat,
    Reconnect,
    Nothing,
}

impl Fault {
    fn remedy(&self) -> Remedy {
        let error = match self {
            Self::Silent(_) => return Remedy::Reconnect,
            Self::Database(_) => return Remedy::Nothing,
            Self::Server(error) => error,
        };
        match error.code() {
            Some(code) if is_conflict(code) => Remedy::Repeat,
            Some(code) if is_interruption(code) => Remedy::Reconnect,
            Some(_) => Remedy::Nothing,
            None if error.is_closed() || caused_by_io(error) => Remedy::Reconnect,
            None => Remedy::Nothing,
        }
    }

    fn told(self, doing: &'static str) -> DatabaseError {
        match self {
            Self::Database(error) => error,
            Self::Server(source) => DatabaseError::Engine { doing, source: Box::new(source) },
            Self::Silent(limit) => {
                let why = io::Error::new(io::ErrorKind::TimedOut, format!("the server didn't answer within {} s", limit.as_secs()));
                DatabaseError::Engine { doing, source: Box::new(why) }
            }
        }
    }
}

/// True if transactions got in each other's way.
fn is_conflict(code: &SqlState) -> bool {
    [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED, SqlState::LOCK_NOT_AVAILABLE].contains(code)
}

/// True if the server stops, starts, fails over, is full, or gave this connection up.
fn is_interruption(code: &SqlState) -> bool {
    let codes = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::TOO_MANY_CONNECTIONS,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        SqlState::READ_ONLY_SQL_TRANSACTION,
    ];
    codes.contains(code) || code.code().starts_with("08")
}

fn caused_by_io(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<io::Error>())
}

/// A session with the server, for one thread.
pub(super) struct Session {
    runtime: Runtime,
    address: ServerAddress,
    tls: Tls,
    connection: Option<Connection>,
    /// The number of this process in `workers`, once it has changed something.
    worker: Option<i64>,
    /// The number of the last transaction that was begun.
    begun: i64,
}

struct Connection {
    client: Client,
    statements: RefCell<HashMap<&'static str, Statement>>,
}

impl Connection {
    async fn open(address: &ServerAddress, tls: &Tls) -> Result<Self, Fault> {
        let opened = async {
            let client = tls.connect(&address.config()?).await?;
            client.batch_execute(SETTINGS).await?;
            Ok(Self { client, statements: RefCell::default() })
        };
        timeout(CONNECT, opened).await.unwrap_or(Err(Fault::Silent(CONNECT)))
    }

    async fn begin(&mut self, reading: bool) -> Result<Work<'_>, Fault> {
        let mut builder = self.client.build_transaction();
        if reading {
            // All statements of a question see one moment.
            builder = builder.isolation_level(IsolationLevel::RepeatableRead).read_only(true);
        }
        Ok(Work { transaction: builder.start().await?, statements: &self.statements })
    }
}

/// A transaction under way.
pub(super) struct Work<'a> {
    transaction: Transaction<'a>,
    statements: &'a RefCell<HashMap<&'static str, Statement>>,
}

pub(super) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

impl Work<'_> {
    async fn statement(&self, sql: &'static str) -> Result<Statement, Fault> {
        let known = self.statements.borrow().get(sql).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.transaction.prepare(sql).await?;
        self.statements.borrow_mut().insert(sql, statement.clone());
        Ok(statement)
    }

    pub(super) async fn rows(&self, sql: &'static str, parameters: Parameters<'_>) -> Result<Vec<Row>, Fault> {
        let statement = self.statement(sql).await?;
        Ok(self.transaction.query(&statement, parameters).await?)
    }

    pub(super) async fn optional(&self, sql: &'static str, parameters: Parameters<'_>) -> Result<Option<Row>, Fault> {
        let statement = self.statement(sql).await?;
        Ok(self.transaction.query_opt(&statement, parameters).await?)
    }

    /// Returns the first column of the only row.
    pub(super) async fn number(&self, sql: &'static str, parameters: Parameters<'_>) -> Result<i64, Fault> {
        let statement = self.statement(sql).await?;
        Ok(self.transaction.query_one(&statement, parameters).await?.try_get(0)?)
    }

    /// Returns the number of rows that changed.
    pub(super) async fn execute(&self, sql: &'static str, parameters: Parameters<'_>) -> Result<u64, Fault> {
        let statement = self.statement(sql).await?;
        Ok(self.transaction.execute(&statement, parameters).await?)
    }

    pub(super) async fn batch(&self, sql: &str) -> Result<(), Fault> {
        Ok(self.transaction.batch_execute(sql).await?)
    }

    /// Begins to append rows by `COPY`.
    pub(super) async fn writer(&self, sql: &'static str, types: &[Type]) -> Result<BinaryCopyInWriter, Fault> {
        let statement = self.statement(sql).await?;
        Ok(BinaryCopyInWriter::new(self.transaction.copy_in(&statement).await?, types))
    }

    /// Takes a lock that ends with the transaction.
    pub(super) async fn lock(&self, key: i32) -> Result<(), Fault> {
        self.rows("SELECT pg_advisory_xact_lock($1, $2)", &[&LOCKS, &key]).await.map(drop)
    }

    /// Lets the commit return before it is on disk: for what a crash may undo.
    pub(super) async fn needs_no_sync(&self) -> Result<(), Fault> {
        self.batch("SET LOCAL synchronous_commit = off").await
    }
}

/// Waits between attempts, and for how long they may go on.
struct Patience {
    until: Instant,
    wait: Duration,
}

impl Patience {
    fn new() -> Self {
        Self { until: Instant::now() + RECONNECT, wait: FIRST_WAIT }
    }

    /// Returns how long to wait before the next attempt; `None` after the last one.
    fn next(&mut self) -> Option<Duration> {
        let wait = self.wait;
        self.wait = (wait * 2).min(LONGEST_WAIT);
        (Instant::now() + wait < self.until).then_some(wait)
    }
}

impl Session {
    /// Connects.
    pub(super) fn open(address: ServerAddress) -> Result<Self, DatabaseError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| DatabaseError::Engine { doing: "connect to the database", source: Box::new(source) })?;
        let tls = Tls::new(&address)?;
        let connection = runtime.block_on(Connection::open(&address, &tls));
        let connection = connection.map_err(|fault| fault.told("connect to the database"))?;
        Ok(Self { runtime, address, tls, connection: Some(connection), worker: None, begun: 0 })
    }

    pub(super) fn address(&self) -> &ServerAddress {
        &self.address
    }

    /// Creates the tables, in one transaction.
    pub(super) fn create(&mut self, schema: &str) -> Result<(), DatabaseError> {
        let Self { runtime, address, tls, connection, .. } = self;
        let created = async {
            let work = connected(connection, address, tls).await?.begin(false).await?;
            work.batch(schema).await?;
            Ok(work.transaction.commit().await?)
        };
        runtime.block_on(limited(ANSWER, created)).map_err(|fault| fault.told("create the tables"))
    }

    /// Answers a question from one moment's state.
    pub(super) fn read<T>(&mut self, doing: &'static str, work: impl AsyncFn(&Work<'_>) -> Result<T, Fault>) -> Result<T, DatabaseError> {
        let mut patience = Patience::new();
        loop {
            let Self { runtime, address, tls, connection, .. } = self;
            let attempt = async {
                let work_on = connected(connection, address, tls).await?.begin(true).await?;
                let answer = work(&work_on).await?;
                work_on.transaction.commit().await?;
                Ok(answer)
            };
            let result = runtime.block_on(limited(ANSWER, attempt));
            match result {
                Ok(answer) => return Ok(answer),
                Err(fault) => self.recover(fault, doing, &mut patience)?,
            }
        }
    }

    /// Does something exactly once, in one transaction, whatever happens to connections meanwhile.
    /// `work` gets the number of this process, and is repeated if its transaction was not
    /// committed.
    pub(super) fn change<T>(
        &mut self,
        doing: &'static str,
        limit: Duration,
        work: impl AsyncFn(&Work<'_>, i64) -> Result<T, Fault>,
    ) -> Result<T, DatabaseError> {
        let mut patience = Patience::new();
        self.begun += 1;
        // The outcome of a transaction of which it is unknown whether it was committed.
        let mut in_doubt: Option<T> = None;
        loop {
            let Self { runtime, address, tls, connection, worker, begun } = self;
            let number = *begun;
            let result = runtime.block_on(async {
                let connection = connected(connection, address, tls).await?;
                let worker = limited(ANSWER, registered(connection, worker)).await?;
                if let Some(outcome) = in_doubt.take() {
                    match limited(ANSWER, last_commit(connection, worker)).await {
                        Ok(last) if last == Some(number) => return Ok(outcome),
                        Ok(_) => {}
                        Err(fault) => {
                            in_doubt = Some(outcome);
                            return Err(fault);
                        }
                    }
                }
                let done = async {
                    let work_on = connection.begin(false).await?;
                    let outcome = work(&work_on, worker).await?;
                    let note = "INSERT INTO workers VALUES ($1, $2, now()) ON CONFLICT (worker) DO UPDATE SET commits = $2, seen = now()";
                    work_on.execute(note, &[&worker, &number]).await?;
                    Ok::<_, Fault>((work_on, outcome))
                };
                // Without a COMMIT, what was done so far never happened.
                let (work_on, outcome) = limited(limit, done).await?;
                match limited(ANSWER, async { Ok(work_on.transaction.commit().await?) }).await {
                    Ok(()) => Ok(outcome),
                    Err(fault) => {
                        in_doubt = Some(outcome);
                        Err(fault)
                    }
                }
            });
            match result {
                Ok(outcome) => return Ok(outcome),
                Err(fault) => self.recover(fault, doing, &mut patience)?,
            }
        }
    }

    /// Prepares the next attempt, or passes the fault on.
    fn recover(&mut self, fault: Fault, doing: &'static str, patience: &mut Patience) -> Result<(), DatabaseError> {
        let remedy = fault.remedy();
        if remedy == Remedy::Nothing {
            return Err(fault.told(doing));
        }
        if remedy == Remedy::Reconnect {
            self.connection = None;
        }
        let Some(wait) = patience.next() else { return Err(fault.told(doing)) };
        self.runtime.block_on(async { tokio::time::sleep(wait).await });
        Ok(())
    }
}

impl Drop for Session {
    /// Gives back what this process still has leased. If that fails, the leases run out.
    fn drop(&mut self) {
        let (Some(worker), Some(connection)) = (self.worker, &self.connection) else { return };
        let goodbye = async {
            connection.client.execute("DELETE FROM leases WHERE worker = $1", &[&worker]).await?;
            connection.client.execute("DELETE FROM workers WHERE worker = $1", &[&worker]).await
        };
        let _ = self.runtime.block_on(async { timeout(GOODBYE, goodbye).await });
    }
}

async fn limited<T>(limit: Duration, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    timeout(limit, work).await.unwrap_or(Err(Fault::Silent(limit)))
}

async fn connected<'a>(connection: &'a mut Option<Connection>, address: &ServerAddress, tls: &Tls) -> Result<&'a mut Connection, Fault> {
    if connection.as_ref().is_some_and(|connection| connection.client.is_closed()) {
        *connection = None;
    }
    match connection {
        Some(connection) => Ok(connection),
        None => Ok(connection.insert(Connection::open(address, tls).await?)),
    }
}

/// Returns the number of this process, and removes what processes left that ended without a word.
async fn registered(connection: &Connection, worker: &mut Option<i64>) -> Result<i64, Fault> {
    if let Some(worker) = worker {
        return Ok(*worker);
    }
    connection
        .client
        .batch_execute(
            "DELETE FROM leases WHERE (node, file) IN (SELECT node, file FROM leases WHERE until < now() - interval '1 hour' \
             ORDER BY node, file FOR UPDATE SKIP LOCKED); \
             DELETE FROM workers w WHERE seen < now() - interval '7 days' AND NOT EXISTS (SELECT FROM leases l WHERE l.worker = w.worker)",
        )
        .await?;
    let row = connection.client.query_one("INSERT INTO workers DEFAULT VALUES RETURNING worker", &[]).await?;
    Ok(*worker.insert(row.try_get(0)?))
}

/// Returns the number of the last transaction of a process. Waits for one that is still under way.
async fn last_commit(connection: &Connection, worker: i64) -> Result<Option<i64>, Fault> {
    let row = connection.client.query_opt("SELECT commits FROM workers WHERE worker = $1 FOR UPDATE", &[&worker]).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}
