//! Buckets and their settings. Backups of the state contain the serializable types by the names of
//! their variants and fields.

use std::sync::Arc;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, params};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{BackupError, State, StateError, now_ms, query_all, query_one};
use crate::lifecycle::Rules;

/// What happens to earlier versions when an object is put. The database stores the discriminants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Versioning {
    /// The new version replaces the old one: versioning was never enabled.
    Never = 0,
    /// All versions are kept.
    Enabled = 1,
    /// Versions put while versioning was enabled are kept; the null version is replaced.
    Suspended = 2,
}

/// The mode of a retention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum RetentionMode {
    /// Callers with the right to bypass governance can remove the version.
    Governance,
    /// No account can remove the version before its retention ends.
    Compliance,
}

impl RetentionMode {
    /// The mode's name in S3.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Governance => "GOVERNANCE",
            Self::Compliance => "COMPLIANCE",
        }
    }

    /// Parses the name in S3.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Governance, Self::Compliance].into_iter().find(|mode| mode.name() == name)
    }

    /// Parses a stored name. An unknown one counts as the strictest mode.
    pub(crate) fn parse_strictly(name: &str) -> Self {
        Self::parse(name).unwrap_or(Self::Compliance)
    }
}

/// The retention of new versions that are put without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DefaultRetention {
    pub mode: RetentionMode,
    /// Length, in days or years.
    pub period: u32,
    /// Whether `period` is in years of 365 days.
    #[serde(rename = "unit", serialize_with = "write_unit", deserialize_with = "read_unit")]
    pub in_years: bool,
}

fn write_unit<S: Serializer>(in_years: &bool, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(if *in_years { "years" } else { "days" })
}

fn read_unit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    match &*String::deserialize(deserializer)? {
        "days" => Ok(false),
        "years" => Ok(true),
        other => Err(D::Error::unknown_variant(other, &["days", "years"])),
    }
}

impl DefaultRetention {
    #[must_use]
    pub fn period_ms(self) -> i64 {
        i64::from(self.period) * if self.in_years { 365 } else { 1 } * 86_400_000
    }
}

/// The public access block of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublicAccess {
    /// Rejects ACLs that grant public access. They are always rejected.
    pub block_acls: bool,
    /// Ignores ACLs that grant public access. No such ACL can exist.
    pub ignore_acls: bool,
    /// Rejects policies that grant public access.
    pub block_policy: bool,
    /// Limits buckets with a public policy to their owner.
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

/// The settings of a bucket that are stored in an unreadable form. Each counts as the strictest
/// possible value, so that a protection can't vanish silently. Policies and CORS rules are plain
/// text here; the code that parses them judges them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unreadable {
    /// Versions are kept meanwhile.
    pub versioning: bool,
    /// Meanwhile, versions without their own retention are refused.
    pub retention: bool,
    /// Meanwhile, all public access is blocked.
    pub public_access: bool,
    /// Meanwhile, no rule is carried out.
    pub lifecycle: bool,
}

impl Unreadable {
    fn names(self) -> impl Iterator<Item = &'static str> {
        let all = [
            (self.versioning, "versioning"),
            (self.retention, "default retention"),
            (self.public_access, "public access block"),
            (self.lifecycle, "lifecycle configuration"),
        ];
        all.into_iter().filter_map(|(is_unreadable, name)| is_unreadable.then_some(name))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bucket {
    pub name: String,
    /// Name of the account that owns the bucket: its creator, or the account it was given to.
    pub owner: String,
    /// In milliseconds since 1970.
    pub created_ms: i64,
    pub versioning: Versioning,
    pub object_lock: bool,
    #[serde(rename = "default_retention", skip_serializing_if = "Option::is_none")]
    pub retention: Option<DefaultRetention>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Its tags, URL-encoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<String>,
    /// The public access block; `None` if it was never set or was deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_access: Option<PublicAccess>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cors: Option<String>,
    /// Its lifecycle rules; `None` if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lifecycle: Option<Rules>,
    /// Settings that can't be read. A backup contains the values that replace them, and neither
    /// default retention nor lifecycle rules, which have no replacement.
    #[serde(skip)]
    pub unreadable: Unreadable,
}

const COLUMNS: &str = "name, owner, created, versioning, object_lock, retention_mode, retention_days, retention_in_years, policy, tags, public_access, cors, \
     lifecycle";

impl State {
    /// Creates a bucket, with tags as in [`Bucket::tags`]. Returns `false` if the name is taken.
    pub(crate) fn add_bucket(&self, name: &str, owner: &str, object_lock: bool, tags: Option<&str>) -> Result<bool, StateError> {
        self.transact("create a bucket", |connection| {
            let statement = "INSERT INTO bucket (name, owner, created, versioning, object_lock, retention_in_years, tags) \
                             VALUES (?1, ?2, ?3, ?4, ?5, 0, ?6) ON CONFLICT DO NOTHING";
            // Object lock requires versioning.
            Ok(connection.execute(statement, params![name, owner, now_ms(), i64::from(object_lock), object_lock, tags])? == 1)
        })
    }

    pub(crate) fn bucket(&self, name: &str) -> Result<Option<Arc<Bucket>>, StateError> {
        self.cached(
            |cache| cache.buckets.get(name).cloned(),
            |connection| bucket(connection, name),
            |cache, bucket| {
                bucket.unreadable.names().for_each(|what| self.note_unreadable(name, what, &"the database has an invalid value"));
                cache.buckets.insert(name.to_owned(), bucket);
            },
        )
    }

    /// The buckets of an account, or all buckets, by name.
    pub fn buckets(&self, owner: Option<&str>) -> Result<Vec<Bucket>, StateError> {
        self.query("list buckets", |connection| {
            let statement = format!("SELECT {COLUMNS} FROM bucket WHERE ?1 IS NULL OR owner = ?1 ORDER BY name");
            query_all(connection, &statement, [owner], read)
        })
    }

    /// Changes a bucket. Returns `None` if it no longer exists.
    #[cfg(test)]
    pub(crate) fn change_bucket(&self, name: &str, change: impl FnOnce(&mut Bucket)) -> Result<Option<()>, StateError> {
        let changed = self.try_change_bucket(name, |bucket| {
            change(bucket);
            Ok::<(), std::convert::Infallible>(())
        });
        Ok(changed?.map(|Ok(())| ()))
    }

    /// Changes a bucket, unless `change` finds that it may not be changed: its error is returned,
    /// and nothing is stored. Returns `None` if the bucket no longer exists.
    pub(crate) fn try_change_bucket<E>(
        &self,
        name: &str,
        change: impl FnOnce(&mut Bucket) -> Result<(), E>,
    ) -> Result<Option<Result<(), E>>, StateError> {
        let changed = self.transact("change a bucket", |connection| {
            let Some(mut bucket) = bucket(connection, name)? else { return Ok(None) };
            if let Err(error) = change(&mut bucket) {
                return Ok(Some(Err(error)));
            }
            connection.execute(
                // An unreadable default retention is kept for inspection until another is put, and
                // so are unreadable lifecycle rules.
                "UPDATE bucket SET versioning = ?2, object_lock = ?3, retention_mode = iif(?11, retention_mode, ?4), \
                 retention_days = iif(?11, retention_days, ?5), retention_in_years = iif(?11, retention_in_years, ?6), \
                 policy = ?7, tags = ?8, public_access = ?9, cors = ?10, lifecycle = iif(?13, lifecycle, ?12) WHERE name = ?1",
                params![
                    name,
                    bucket.versioning as i64,
                    bucket.object_lock,
                    bucket.retention.map(|retention| retention.mode.name()),
                    bucket.retention.map(|retention| retention.period),
                    bucket.retention.is_some_and(|retention| retention.in_years),
                    bucket.policy,
                    bucket.tags,
                    bucket.public_access.map(PublicAccess::bits),
                    bucket.cors,
                    bucket.unreadable.retention,
                    lifecycle_text(&bucket),
                    bucket.unreadable.lifecycle,
                ],
            )?;
            Ok(Some(Ok(())))
        });
        self.invalidate(|cache| drop(cache.buckets.remove(name)));
        // Settings that are still unreadable are reported again on their next use.
        self.clear_unreadable(name);
        changed
    }

    /// Transfers a bucket to another account.
    ///
    /// # Errors
    /// [`StateError::NoBucket`], [`StateError::NoAccount`], or an error of the database.
    pub fn give_bucket(&self, name: &str, owner: &str) -> Result<(), StateError> {
        let given = self.transact_with_account("give a bucket to an account", owner, |connection| {
            Ok(connection.execute("UPDATE bucket SET owner = ?2 WHERE name = ?1", [name, owner])? == 1)
        });
        self.invalidate(|cache| drop(cache.buckets.remove(name)));
        if given? { Ok(()) } else { Err(StateError::NoBucket(name.to_owned())) }
    }

    /// Removes a bucket and its multipart uploads. Returns `false` if it didn't exist.
    pub(crate) fn remove_bucket(&self, name: &str) -> Result<bool, StateError> {
        let removed = self.transact("remove a bucket", |connection| {
            connection.execute("DELETE FROM upload WHERE bucket = ?1", [name])?;
            Ok(connection.execute("DELETE FROM bucket WHERE name = ?1", [name])? == 1)
        });
        self.invalidate(|cache| drop(cache.buckets.remove(name)));
        self.clear_unreadable(name);
        removed
    }
}

pub(super) fn each(connection: &Connection, each: &mut dyn FnMut(Bucket) -> Result<(), BackupError>) -> Result<(), BackupError> {
    let mut statement = connection.prepare(&format!("SELECT {COLUMNS} FROM bucket ORDER BY name"))?;
    for bucket in statement.query_map([], read)? {
        each(bucket?)?;
    }
    Ok(())
}

pub(super) fn insert(connection: &Connection, bucket: &Bucket) -> rusqlite::Result<()> {
    let Bucket {
        name,
        owner,
        created_ms,
        versioning,
        object_lock,
        retention,
        policy,
        tags,
        public_access,
        cors,
        lifecycle: _,
        unreadable: _,
    } = bucket;
    let statement = format!("INSERT INTO bucket ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)");
    connection.prepare_cached(&statement)?.execute(params![
        name,
        owner,
        created_ms,
        *versioning as i64,
        object_lock,
        retention.map(|retention| retention.mode.name()),
        retention.map(|retention| retention.period),
        retention.is_some_and(|retention| retention.in_years),
        policy,
        tags,
        public_access.map(PublicAccess::bits),
        cors,
        lifecycle_text(bucket),
    ])?;
    Ok(())
}

/// The lifecycle rules as the database stores them.
fn lifecycle_text(bucket: &Bucket) -> Option<String> {
    bucket.lifecycle.as_ref().map(|rules| serde_json::to_string(rules).expect("rules are text and numbers"))
}

fn bucket(connection: &Connection, name: &str) -> rusqlite::Result<Option<Bucket>> {
    query_one(connection, &format!("SELECT {COLUMNS} FROM bucket WHERE name = ?1"), [name], read)
}

fn read(row: &Row<'_>) -> rusqlite::Result<Bucket> {
    let retention = match (row.get_ref(5)?, row.get_ref(6)?) {
        (ValueRef::Null, ValueRef::Null) => Some(None),
        (ValueRef::Text(mode), ValueRef::Integer(period)) => {
            let mode = std::str::from_utf8(mode).ok().and_then(RetentionMode::parse);
            let in_years = row.get(7)?;
            mode.zip(u32::try_from(period).ok()).map(|(mode, period)| Some(DefaultRetention { mode, period, in_years }))
        }
        _ => None,
    };
    let versioning = match row.get_ref(3)? {
        ValueRef::Integer(0) => Some(Versioning::Never),
        ValueRef::Integer(1) => Some(Versioning::Enabled),
        ValueRef::Integer(2) => Some(Versioning::Suspended),
        _ => None,
    };
    let public_access = match row.get_ref(10)? {
        ValueRef::Null => Some(None),
        ValueRef::Integer(bits @ 0..=0xf) => Some(Some(PublicAccess::of_bits(bits as u8))),
        _ => None,
    };
    let lifecycle = match row.get_ref(12)? {
        ValueRef::Null => Some(None),
        ValueRef::Text(text) => serde_json::from_slice(text).ok().map(Some),
        _ => None,
    };
    Ok(Bucket {
        name: row.get(0)?,
        owner: row.get(1)?,
        created_ms: row.get(2)?,
        versioning: versioning.unwrap_or(Versioning::Enabled),
        object_lock: row.get(4)?,
        retention: retention.flatten(),
        policy: text(row, 8)?,
        tags: text(row, 9)?,
        public_access: public_access.unwrap_or_else(|| Some(PublicAccess::of_bits(0xf))),
        cors: text(row, 11)?,
        unreadable: Unreadable {
            versioning: versioning.is_none(),
            retention: retention.is_none(),
            public_access: public_access.is_none(),
            lifecycle: lifecycle.is_none(),
        },
        lifecycle: lifecycle.flatten(),
    })
}

/// A text column; empty if it isn't valid UTF-8 text, so that it counts as an unreadable policy or
/// CORS rule, or as no tags.
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
    use crate::test_gateway::new_archive;

    #[test]
    fn unreadable_settings_count_as_the_strictest_and_the_bucket_stays_usable() {
        let home = tempfile::tempdir().expect("a folder");
        let state = State::open(new_archive(home.path())).expect("a state");
        state.add_account("ada", true).expect("an account");
        assert!(state.add_bucket("b", "ada", true, None).expect("made"));
        let set = |values: &str| {
            state.transact("test", |connection| connection.execute(&format!("UPDATE bucket SET {values}"), [])).expect("set");
            state.invalidate(|cache| cache.buckets.clear());
            state.bucket("b").expect("readable").expect("there")
        };
        let all = Some(PublicAccess::of_bits(0xf));
        for wrong in ["16", "-1", "1e300", "'all'", "x'00'"] {
            let bucket = set(&format!("public_access = {wrong}"));
            assert!(bucket.unreadable.public_access && bucket.public_access == all, "{wrong}: {bucket:?}");
        }
        assert_eq!(state.count_unreadable(), 1, "each is reported once");
        let rules = "'[{\"id\": \"a\", \"enabled\": true, \"filter\": {}, \"noncurrent\": {\"days\": 1}}]'";
        assert!(set(&format!("public_access = NULL, lifecycle = {rules}")).lifecycle.as_ref().is_some_and(|rules| rules.0.len() == 1));
        for wrong in ["'{'", "''", "7", "x'5b5d'", "'[{\"id\": \"a\", \"enabled\": true, \"filter\": {}, \"unless\": 1}]'"] {
            let bucket = set(&format!("lifecycle = {wrong}"));
            assert!(bucket.unreadable.lifecycle && bucket.lifecycle.is_none(), "{wrong}: {bucket:?}");
        }
        state.change_bucket("b", |bucket| bucket.tags = Some("a=b".into())).expect("changed");
        assert!(state.bucket("b").expect("readable").expect("there").unreadable.lifecycle, "another change doesn't remove the rules");
        set("lifecycle = NULL");
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
            assert!(state.bucket("b").expect("readable").expect("there").unreadable.retention, "another change keeps it");
        }
        let bucket = set("retention_mode = NULL, retention_days = NULL, policy = x'ff', cors = CAST(x'ff' AS TEXT)");
        assert_eq!((bucket.policy.as_deref(), bucket.cors.as_deref()), (Some(""), Some("")));
        assert_eq!(bucket.unreadable, Unreadable::default());
        assert_eq!(state.buckets(None).expect("listed").len(), 1);
        state.change_bucket("b", |bucket| bucket.public_access = None).expect("changed");
        assert_eq!(state.count_unreadable(), 0);
        assert!(set("public_access = 16").unreadable.public_access && state.count_unreadable() == 1);
        assert!(state.remove_bucket("b").expect("removed"));
        assert_eq!(state.count_unreadable(), 0, "a bucket that is gone has no settings");
    }
}
