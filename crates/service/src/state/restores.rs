//! Restores: requests to keep a readable copy of an archived object for some days.

use fulgurite_domain::VersionId;
use rusqlite::{Connection, Row, params};

use super::{State, StateError, query_all, query_one};

/// A restore, open or done. Times are milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Restore {
    pub(crate) id: VersionId,
    pub(crate) bucket: String,
    pub(crate) key: String,
    pub(crate) account: String,
    /// S3's name of its urgency.
    pub(crate) tier: String,
    /// How many days the copy is kept.
    pub(crate) days: u32,
    pub(crate) requested_ms: i64,
    pub(crate) due_ms: i64,
    pub(crate) done_ms: Option<i64>,
    pub(crate) expires_ms: Option<i64>,
}

pub(super) const COLUMNS: &str = "id, bucket, key, account, tier, days, requested, due, done, expires";

impl State {
    pub(crate) fn restore(&self, id: VersionId) -> Result<Option<Restore>, StateError> {
        self.query("look up a restore", |connection| {
            query_one(connection, &format!("SELECT {COLUMNS} FROM restore WHERE id = ?1"), [id.0], read)
        })
    }

    /// Records a restore, replacing any other of the version.
    pub(crate) fn record_restore(&self, restore: &Restore) -> Result<(), StateError> {
        self.note_version_rows();
        self.transact("record a restore", |connection| insert(connection, restore))
    }

    /// The next restore to carry out: from the tier of the most urgent one, the most urgent restore
    /// of the account whose turn it is. Accounts take turns by name, starting after `after`, so
    /// that many restores of one account don't delay those of another. Skips restores for which
    /// `waits` is true.
    pub(crate) fn next_restore(&self, after: &str, waits: &dyn Fn(VersionId) -> bool) -> Result<Option<Restore>, StateError> {
        let first = |connection: &Connection, which: &str, values: &[&str]| {
            let mut statement = connection.prepare_cached(&format!("SELECT {COLUMNS} FROM restore WHERE done IS NULL AND {which}"))?;
            let mut rows = statement.query(rusqlite::params_from_iter(values))?;
            while let Some(row) = rows.next()? {
                if !waits(VersionId(row.get(0)?)) {
                    return read(row).map(Some);
                }
            }
            Ok(None)
        };
        self.query("look for a restore", |connection| {
            let Some(Restore { tier, .. }) = first(connection, "true ORDER BY due", &[])? else { return Ok(None) };
            match first(connection, "tier = ?1 AND account > ?2 ORDER BY account, due", &[&tier, after])? {
                Some(restore) => Ok(Some(restore)),
                None => first(connection, "tier = ?1 AND account <= ?2 ORDER BY account, due", &[&tier, after]),
            }
        })
    }

    pub(crate) fn count_open_restores(&self) -> Result<u64, StateError> {
        self.query("count restores", |connection| {
            let count: i64 =
                connection.prepare_cached("SELECT count(*) FROM restore WHERE done IS NULL")?.query_row([], |row| row.get(0))?;
            Ok(count.unsigned_abs())
        })
    }

    /// Deletes expired restores and returns their versions.
    pub(crate) fn expire_restores(&self, now_ms: i64) -> Result<Vec<VersionId>, StateError> {
        let due = "SELECT id FROM restore WHERE done IS NOT NULL AND expires <= ?1";
        let any = self.query("look for expired restores", |connection| connection.prepare_cached(due)?.exists([now_ms]))?;
        if !any {
            return Ok(Vec::new());
        }
        self.transact("expire restores", |connection| {
            let ids = query_all(connection, due, [now_ms], |row| row.get(0).map(VersionId))?;
            connection.execute("DELETE FROM restore WHERE done IS NOT NULL AND expires <= ?1", [now_ms])?;
            Ok(ids)
        })
    }

    pub(crate) fn forget_restore(&self, id: VersionId) -> Result<(), StateError> {
        self.transact("forget a restore", |connection| connection.execute("DELETE FROM restore WHERE id = ?1", [id.0]).map(drop))
    }
}

pub(super) fn insert(connection: &Connection, restore: &Restore) -> rusqlite::Result<()> {
    let statement = format!("INSERT OR REPLACE INTO restore ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)");
    connection.prepare_cached(&statement)?.execute(params![
        restore.id.0,
        restore.bucket,
        restore.key,
        restore.account,
        restore.tier,
        restore.days,
        restore.requested_ms,
        restore.due_ms,
        restore.done_ms,
        restore.expires_ms
    ])?;
    Ok(())
}

pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Restore> {
    Ok(Restore {
        id: VersionId(row.get(0)?),
        bucket: row.get(1)?,
        key: row.get(2)?,
        account: row.get(3)?,
        tier: row.get(4)?,
        days: row.get(5)?,
        requested_ms: row.get(6)?,
        due_ms: row.get(7)?,
        done_ms: row.get(8)?,
        expires_ms: row.get(9)?,
    })
}
