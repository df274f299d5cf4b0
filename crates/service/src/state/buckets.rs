//! Buckets.

use std::sync::Arc;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{CopyError, State, StateError, now_ms};

/// What becomes of the version before when an object is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Versioning {
    /// It goes: versions were never kept.
    Never,
    /// It stays.
    Enabled,
    /// It stays if it was put while versions were kept; the null version goes.
    Suspended,
}

impl Versioning {
    fn number(self) -> i64 {
        match self {
            Self::Never => 0,
            Self::Enabled => 1,
            Self::Suspended => 2,
        }
    }
}

/// How firmly a version is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetentionMode {
    /// Whoever may bypass it can remove the version.
    Governance,
    /// Nobody can, until its time is over.
    Compliance,
}

impl RetentionMode {
    /// S3's name of it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Governance => "GOVERNANCE",
            Self::Compliance => "COMPLIANCE",
        }
    }

    /// By S3's name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Governance, Self::Compliance].into_iter().find(|mode| mode.name() == name)
    }

    /// By the name that is stored with a version: one that isn't known counts as the firmest.
    pub(crate) fn parse_strictly(name: &str) -> Self {
        Self::parse(name).unwrap_or(Self::Compliance)
    }
}

/// What a bucket gives versions that say nothing of retention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DefaultRetention {
    /// How firmly.
    pub mode: RetentionMode,
    /// Days, or years.
    pub period: u32,
    /// Whether they are years, of 365 days.
    pub in_years: bool,
}

impl DefaultRetention {
    /// Milliseconds that a version is kept.
    #[must_use]
    pub fn period_ms(self) -> i64 {
        i64::from(self.period) * if self.in_years { 365 } else { 1 } * 86_400_000
    }
}

/// What is blocked of public access to a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PublicAccess {
    /// Lists that give something to everybody can't be put. Here they never can.
    pub block_acls: bool,
    /// Such lists give nothing. Here there are none.
    pub ignore_acls: bool,
    /// Policies that let everybody in can't be put.
    pub block_policy: bool,
    /// Policies that let everybody in let in the owner alone.
    pub restrict_buckets: bool,
}

impl PublicAccess {
    fn bits(self) -> u8 {
        [self.block_acls, self.ignore_acls, self.block_policy, self.restrict_buckets]
            .into_iter()
            .enumerate()
            .fold(0, |bits, (index, is_set)| bits | u8::from(is_set) << index)
    }

    fn of_bits(bits: u8) -> Self {
        let is_set = |index: u8| bits >> index & 1 == 1;
        Self { block_acls: is_set(0), ignore_acls: is_set(1), block_policy: is_set(2), restrict_buckets: is_set(3) }
    }
}

/// Which settings of a bucket are stored in a form that can't be read. Each counts as the strictest it could be: a setting that protects something must
/// not go without a word. Policies and rules for other sites are text here, and judged where they are parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unreadable {
    /// Versions are kept meanwhile.
    pub versioning: bool,
    /// Versions without a retention of their own are refused meanwhile.
    pub retention: bool,
    /// All public access is blocked meanwhile.
    pub public_access: bool,
}

impl Unreadable {
    fn names(self) -> impl Iterator<Item = &'static str> {
        let all = [(self.versioning, "versioning"), (self.retention, "default retention"), (self.public_access, "public access block")];
        all.into_iter().filter_map(|(is_unreadable, name)| is_unreadable.then_some(name))
    }
}

/// A bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    /// Its name.
    pub name: String,
    /// Name of the account that has it: the one that made it, or was given it.
    pub owner: String,
    /// When, milliseconds since 1970.
    pub created_ms: i64,
    /// Whether versions are kept.
    pub versioning: Versioning,
    /// Whether its versions can be locked.
    pub object_lock: bool,
    /// What versions get that say nothing.
    pub retention: Option<DefaultRetention>,
    /// Its policy, as it was given.
    pub policy: Option<String>,
    /// Its tags, URL-encoded.
    pub tags: Option<String>,
    /// What is blocked of public access; none if that was never said, or was taken back.
    pub public_access: Option<PublicAccess>,
    /// Rules for pages of other sites, as JSON.
    pub cors: Option<String>,
    /// What of it can't be read.
    pub unreadable: Unreadable,
}

const COLUMNS: &str =
    "name, owner, created, versioning, object_lock, retention_mode, retention_days, retention_in_years, policy, tags, public_access, cors";

impl State {
    /// Makes a bucket, with tags as [`Bucket::tags`] has them. `false` if there is one of that name.
    ///
    /// # Errors
    /// What the engine says.
    pub fn add_bucket(&self, name: &str, owner: &str, object_lock: bool, tags: Option<&str>) -> Result<bool, StateError> {
        self.change("make a bucket", |connection| {
            let statement = "INSERT INTO bucket (name, owner, created, versioning, object_lock, retention_in_years, tags) \
                             VALUES (?1, ?2, ?3, ?4, ?5, 0, ?6) ON CONFLICT DO NOTHING";
            // Locks are of versions, so they have to be kept.
            Ok(connection.execute(statement, params![name, owner, now_ms(), i64::from(object_lock), object_lock, tags])? == 1)
        })
    }

    /// A bucket by its name.
    ///
    /// # Errors
    /// What the engine says.
    pub fn bucket(&self, name: &str) -> Result<Option<Arc<Bucket>>, StateError> {
        self.kept(
            |kept| kept.buckets.get(name).cloned(),
            |connection| bucket(connection, name),
            |kept, bucket| {
                bucket.unreadable.names().for_each(|what| self.note_unreadable(name, what, &"the database has a value that it can't have"));
                kept.buckets.insert(name.to_owned(), bucket);
            },
        )
    }

    /// The buckets of an account, or all, by name.
    ///
    /// # Errors
    /// What the engine says.
    pub fn buckets(&self, owner: Option<&str>) -> Result<Vec<Bucket>, StateError> {
        self.look("list buckets", |connection| {
            let statement = format!("SELECT {COLUMNS} FROM bucket WHERE ?1 IS NULL OR owner = ?1 ORDER BY name");
            connection.prepare_cached(&statement)?.query_map([owner], read)?.collect()
        })
    }

    /// Changes a bucket; `None` if it is gone.
    ///
    /// # Errors
    /// What the engine says.
    pub fn change_bucket(&self, name: &str, change: impl FnOnce(&mut Bucket)) -> Result<Option<()>, StateError> {
        let changed = self.change("change a bucket", |connection| {
            let Some(mut bucket) = bucket(connection, name)? else { return Ok(None) };
            change(&mut bucket);
            connection.execute(
                // A default retention that can't be read stays, for somebody to look at, until another is put.
                "UPDATE bucket SET versioning = ?2, object_lock = ?3, retention_mode = iif(?11, retention_mode, ?4), \
                 retention_days = iif(?11, retention_days, ?5), retention_in_years = iif(?11, retention_in_years, ?6), \
                 policy = ?7, tags = ?8, public_access = ?9, cors = ?10 WHERE name = ?1",
                params![
                    name,
                    bucket.versioning.number(),
                    bucket.object_lock,
                    bucket.retention.map(|retention| retention.mode.name()),
                    bucket.retention.map(|retention| retention.period),
                    bucket.retention.is_some_and(|retention| retention.in_years),
                    bucket.policy,
                    bucket.tags,
                    bucket.public_access.map(PublicAccess::bits),
                    bucket.cors,
                    bucket.unreadable.retention,
                ],
            )?;
            Ok(Some(()))
        });
        self.forget(|kept| drop(kept.buckets.remove(name)));
        // What is still unreadable is noted again when it is next used.
        self.readable_again(name);
        changed
    }

    /// Makes a bucket another account's.
    ///
    /// # Errors
    /// [`StateError::NoBucket`], [`StateError::NoAccount`], or what the engine says.
    pub fn give_bucket(&self, name: &str, owner: &str) -> Result<(), StateError> {
        let given = self.change("give a bucket to an account", |connection| {
            if !connection.prepare_cached("SELECT 1 FROM account WHERE name = ?1")?.exists([owner])? {
                return Ok(None);
            }
            Ok(Some(connection.execute("UPDATE bucket SET owner = ?2 WHERE name = ?1", [name, owner])? == 1))
        });
        self.forget(|kept| drop(kept.buckets.remove(name)));
        match given? {
            Some(true) => Ok(()),
            Some(false) => Err(StateError::NoBucket { name: name.to_owned() }),
            None => Err(StateError::NoAccount { name: owner.to_owned() }),
        }
    }

    /// Removes a bucket, with what is left of uploads in parts. `false` if there was none.
    ///
    /// # Errors
    /// What the engine says.
    pub fn remove_bucket(&self, name: &str) -> Result<bool, StateError> {
        let removed = self.change("remove a bucket", |connection| {
            connection.execute("DELETE FROM upload WHERE bucket = ?1", [name])?;
            Ok(connection.execute("DELETE FROM bucket WHERE name = ?1", [name])? == 1)
        });
        self.forget(|kept| drop(kept.buckets.remove(name)));
        removed
    }
}

/// All buckets by name, one after another.
pub(super) fn each(connection: &Connection, each: &mut dyn FnMut(Bucket) -> Result<(), CopyError>) -> Result<(), CopyError> {
    let mut statement = connection.prepare(&format!("SELECT {COLUMNS} FROM bucket ORDER BY name"))?;
    for bucket in statement.query_map([], read)? {
        each(bucket?)?;
    }
    Ok(())
}

/// Puts a bucket there as it is.
pub(super) fn insert(connection: &Connection, bucket: &Bucket) -> rusqlite::Result<()> {
    let Bucket { name, owner, created_ms, versioning, object_lock, retention, policy, tags, public_access, cors, unreadable: _ } = bucket;
    let statement = format!("INSERT INTO bucket ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)");
    connection.prepare_cached(&statement)?.execute(params![
        name,
        owner,
        created_ms,
        versioning.number(),
        object_lock,
        retention.map(|retention| retention.mode.name()),
        retention.map(|retention| retention.period),
        retention.is_some_and(|retention| retention.in_years),
        policy,
        tags,
        public_access.map(PublicAccess::bits),
        cors,
    ])?;
    Ok(())
}

fn bucket(connection: &Connection, name: &str) -> rusqlite::Result<Option<Bucket>> {
    connection.prepare_cached(&format!("SELECT {COLUMNS} FROM bucket WHERE name = ?1"))?.query_row([name], read).optional()
}

fn read(row: &Row<'_>) -> rusqlite::Result<Bucket> {
    let mut unreadable = Unreadable::default();
    let retention = match (row.get_ref(5)?, row.get_ref(6)?) {
        (ValueRef::Null, ValueRef::Null) => None,
        (ValueRef::Text(mode), ValueRef::Integer(period)) => {
            let mode = std::str::from_utf8(mode).ok().and_then(RetentionMode::parse);
            let in_years = row.get(7)?;
            mode.zip(u32::try_from(period).ok()).map(|(mode, period)| DefaultRetention { mode, period, in_years }).or_else(|| {
                unreadable.retention = true;
                None
            })
        }
        _ => {
            unreadable.retention = true;
            None
        }
    };
    let versioning = match row.get_ref(3)? {
        ValueRef::Integer(0) => Versioning::Never,
        ValueRef::Integer(1) => Versioning::Enabled,
        ValueRef::Integer(2) => Versioning::Suspended,
        _ => {
            unreadable.versioning = true;
            Versioning::Enabled
        }
    };
    let public_access = match row.get_ref(10)? {
        ValueRef::Null => None,
        ValueRef::Integer(bits @ 0..=0xf) => Some(PublicAccess::of_bits(bits as u8)),
        _ => {
            unreadable.public_access = true;
            Some(PublicAccess::of_bits(0xf))
        }
    };
    Ok(Bucket {
        name: row.get(0)?,
        owner: row.get(1)?,
        created_ms: row.get(2)?,
        versioning,
        object_lock: row.get(4)?,
        retention,
        policy: text(row, 8)?,
        tags: text(row, 9)?,
        public_access,
        cors: text(row, 11)?,
        unreadable,
    })
}

/// A text, empty where it is none: then it is no policy and no rule, and counts as one that can't be read.
fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<String>> {
    Ok(match row.get_ref(column)? {
        ValueRef::Null => None,
        ValueRef::Text(text) => Some(std::str::from_utf8(text).unwrap_or_default().to_owned()),
        _ => Some(String::new()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::archive;

    #[test]
    fn settings_that_can_not_be_read_count_as_the_strictest_and_the_bucket_stays_usable() {
        let home = tempfile::tempdir().expect("a folder");
        let state = State::open(archive(home.path())).expect("a state");
        state.add_account("ada", true).expect("an account");
        assert!(state.add_bucket("b", "ada", true, None).expect("made"));
        let set = |values: &str| {
            state.change("test", |connection| connection.execute(&format!("UPDATE bucket SET {values}"), [])).expect("set");
            state.forget(|kept| kept.buckets.clear());
            state.bucket("b").expect("readable").expect("there")
        };
        let all = Some(PublicAccess::of_bits(0xf));
        for wrong in ["16", "-1", "1e300", "'all'", "x'00'"] {
            let bucket = set(&format!("public_access = {wrong}"));
            assert!(bucket.unreadable.public_access && bucket.public_access == all, "{wrong}: {bucket:?}");
        }
        assert_eq!(state.unreadable(), 1, "each is noted once");
        for wrong in ["3", "-1", "'x'"] {
            let bucket = set(&format!("public_access = NULL, versioning = {wrong}"));
            assert!(bucket.unreadable.versioning && bucket.versioning == Versioning::Enabled, "{wrong}: {bucket:?}");
        }
        for wrong in
            ["retention_mode = 'FIRM', retention_days = 1", "retention_mode = 'GOVERNANCE', retention_days = NULL", "retention_days = -1"]
        {
            let bucket = set(&format!("versioning = 1, {wrong}"));
            assert!(bucket.unreadable.retention && bucket.retention.is_none(), "{wrong}: {bucket:?}");
            state.change_bucket("b", |bucket| bucket.tags = Some("a=b".to_owned())).expect("changed");
            assert!(state.bucket("b").expect("readable").expect("there").unreadable.retention, "another change doesn't take it away");
        }
        let bucket = set("retention_mode = NULL, retention_days = NULL, policy = x'ff', cors = CAST(x'ff' AS TEXT)");
        assert_eq!((bucket.policy.as_deref(), bucket.cors.as_deref()), (Some(""), Some("")));
        assert_eq!(bucket.unreadable, Unreadable::default());
        assert_eq!(state.buckets(None).expect("listed").len(), 1);
        state.change_bucket("b", |bucket| bucket.public_access = None).expect("changed");
        assert_eq!(state.unreadable(), 0);
    }
}
