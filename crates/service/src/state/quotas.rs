//! Quotas: limit how much of the read drives' time an account may request.
//!
//! Each account has two limits: open restores, and bytes requested per day, from midnight to
//! midnight UTC. A repeated request for the same restore, sooner or for longer, counts once. An
//! accepted restore is done in full, so the last object of a day may exceed the limit.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};

use super::restores::insert;
use super::{Restore, State, StateError, query_all, query_one};

const DAY_MS: i64 = 86_400_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Maximum number of open restores.
    pub open: u64,
    pub bytes_a_day: u64,
}

/// Limits of an account that differ from the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OwnQuota {
    /// Maximum number of open restores.
    pub open: Option<u64>,
    /// Maximum bytes requested per day.
    pub bytes_a_day: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RestoreAdmission {
    Accepted,
    /// The account has reached its limit of open restores.
    TooMany {
        quota: u64,
    },
    /// The account has reached its limit of bytes per day; the next day begins at `until_ms`.
    TooMuch {
        quota: u64,
        until_ms: i64,
    },
}

impl State {
    /// Opens a restore of `bytes` bytes, if the quota of its account allows it. `default_quota`
    /// applies to accounts without their own. The library has `in_library` requests of the account:
    /// those of removed objects are no longer open, but shuttles still fetch their platters.
    pub(crate) fn begin_restore(
        &self,
        restore: &Restore,
        bytes: u64,
        in_library: u64,
        default_quota: Quota,
    ) -> Result<RestoreAdmission, StateError> {
        self.note_version_rows();
        self.transact("open a restore", |connection| {
            let account = &restore.account;
            let own = own(connection, account)?.unwrap_or_default();
            let quota =
                Quota { open: own.open.unwrap_or(default_quota.open), bytes_a_day: own.bytes_a_day.unwrap_or(default_quota.bytes_a_day) };
            // Naming all tiers lets SQLite use the index by tier and account.
            let open: i64 = connection
                .prepare_cached(
                    "SELECT count(*) FROM restore WHERE done IS NULL AND tier IN ('Expedited', 'Standard', 'Bulk') AND account = ?1",
                )?
                .query_row([account], |row| row.get(0))?;
            if open.unsigned_abs().max(in_library) >= quota.open {
                return Ok(RestoreAdmission::TooMany { quota: quota.open });
            }
            let day = restore.requested_ms.div_euclid(DAY_MS);
            let statement = "SELECT bytes FROM restored WHERE account = ?1 AND day = ?2";
            let before: Option<i64> = query_one(connection, statement, params![account, day], |row| row.get(0))?;
            let before = before.unwrap_or(0).unsigned_abs();
            if before >= quota.bytes_a_day {
                return Ok(RestoreAdmission::TooMuch { quota: quota.bytes_a_day, until_ms: (day + 1) * DAY_MS });
            }
            let after = i64::try_from(before.saturating_add(bytes)).unwrap_or(i64::MAX);
            connection
                .prepare_cached("INSERT OR REPLACE INTO restored (account, day, bytes) VALUES (?1, ?2, ?3)")?
                .execute(params![account, day, after])?;
            insert(connection, restore)?;
            Ok(RestoreAdmission::Accepted)
        })
    }

    /// Sets the quota of an account. Limits that are `None` are those of the settings.
    ///
    /// # Errors
    /// [`StateError::NoAccount`], or an error of the database.
    pub fn set_quota(&self, name: &str, quota: OwnQuota) -> Result<(), StateError> {
        let number = |value: Option<u64>| value.map(|value| i64::try_from(value).unwrap_or(i64::MAX));
        self.transact_with_account("set a quota", name, |connection| {
            if quota == OwnQuota::default() {
                connection.execute("DELETE FROM quota WHERE account = ?1", [name])?;
            } else {
                let statement = "INSERT OR REPLACE INTO quota (account, open, bytes_a_day) VALUES (?1, ?2, ?3)";
                connection.execute(statement, params![name, number(quota.open), number(quota.bytes_a_day)])?;
            }
            Ok(())
        })
    }

    /// The accounts that have their own quotas.
    pub fn quotas(&self) -> Result<BTreeMap<String, OwnQuota>, StateError> {
        self.query("list quotas", |connection| {
            let quotas = query_all(connection, "SELECT open, bytes_a_day, account FROM quota", [], |row| Ok((row.get(2)?, read(row)?)))?;
            Ok(quotas.into_iter().collect())
        })
    }
}

fn own(connection: &Connection, account: &str) -> rusqlite::Result<Option<OwnQuota>> {
    query_one(connection, "SELECT open, bytes_a_day FROM quota WHERE account = ?1", [account], read)
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<OwnQuota> {
    let number = |index| row.get::<_, Option<i64>>(index).map(|number| number.map(i64::unsigned_abs));
    Ok(OwnQuota { open: number(0)?, bytes_a_day: number(1)? })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fulgurite_archive::settings::{ArchiveSettings, Limits, SetSettings, Settings, StagingSettings, StoreSettings};
    use fulgurite_archive::{Access, Archive};
    use fulgurite_domain::VersionId;

    use super::*;

    fn state() -> (tempfile::TempDir, State) {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = Settings {
            archive: ArchiveSettings { id: fulgurite_archive::new_archive_id(), encrypt: true, master_key: "master.key".into() },
            limits: Limits::default(),
            staging: StagingSettings::default(),
            set: SetSettings { information: 1, redundancy: 1, platter_mib: 64 },
            medium: fulgurite_archive::settings::MediumSettings::default(),
            decode: fulgurite_archive::settings::DecodeSettings::default(),
            stores: ["d1", "d2"].map(|name| StoreSettings { name: name.into(), path: name.into() }).to_vec(),
        };
        Archive::init(folder.path(), &settings).expect("an archive");
        let state = State::open(Arc::new(Archive::open(folder.path(), Access::Write).expect("it opens"))).expect("a state");
        for name in ["ada", "bob", "cy"] {
            state.add_account(name, false).expect("an account");
        }
        (folder, state)
    }

    fn restore(number: u8, account: &str, tier: &str, requested_ms: i64) -> Restore {
        let due_ms = requested_ms + if tier == "Expedited" { 300_000 } else { 18_000_000 };
        Restore {
            id: VersionId([number; 16]),
            bucket: "b".into(),
            key: number.to_string(),
            account: account.into(),
            tier: tier.into(),
            days: 1,
            requested_ms,
            due_ms,
            done_ms: None,
            expires_ms: None,
        }
    }

    const USUAL: Quota = Quota { open: 2, bytes_a_day: 100 };

    #[test]
    fn open_restores_are_limited_and_finished_ones_free_the_quota() {
        let (_folder, state) = state();
        let begin = |number, account| state.begin_restore(&restore(number, account, "Standard", 0), 1, 0, USUAL).expect("recorded");
        assert_eq!(
            [begin(1, "ada"), begin(2, "ada"), begin(3, "ada")],
            [RestoreAdmission::Accepted, RestoreAdmission::Accepted, RestoreAdmission::TooMany { quota: 2 }]
        );
        assert!(state.restore(VersionId([3; 16])).expect("a look").is_none(), "a refused restore is not recorded");
        assert_eq!(begin(4, "bob"), RestoreAdmission::Accepted, "each account has its own");
        let done = Restore { done_ms: Some(5), expires_ms: Some(10), ..restore(1, "ada", "Standard", 0) };
        state.record_restore(&done).expect("recorded");
        assert_eq!([begin(3, "ada"), begin(5, "ada")], [RestoreAdmission::Accepted, RestoreAdmission::TooMany { quota: 2 }]);
    }

    #[test]
    fn requests_that_the_library_still_has_count_for_the_quota() {
        let (_folder, state) = state();
        let begin =
            |number, in_library| state.begin_restore(&restore(number, "ada", "Standard", 0), 1, in_library, USUAL).expect("recorded");
        assert_eq!([begin(1, 2), begin(1, 1)], [RestoreAdmission::TooMany { quota: 2 }, RestoreAdmission::Accepted]);
        // The library has the first one's request, which is open.
        assert_eq!(begin(2, 1), RestoreAdmission::Accepted);
        assert_eq!(begin(3, 0), RestoreAdmission::TooMany { quota: 2 });
    }

    #[test]
    fn bytes_per_day_are_limited_and_reset_at_midnight() {
        let (_folder, state) = state();
        let wide = Quota { open: 100, ..USUAL };
        let begin = |number, at_ms, bytes| state.begin_restore(&restore(number, "ada", "Bulk", at_ms), bytes, 0, wide).expect("recorded");
        let over = RestoreAdmission::TooMuch { quota: 100, until_ms: DAY_MS };
        assert_eq!(
            [begin(1, 0, 99), begin(2, 10, 50), begin(3, DAY_MS - 1, 0)],
            [RestoreAdmission::Accepted, RestoreAdmission::Accepted, over]
        );
        // Finished restores still count for the day.
        state.forget_restore(VersionId([1; 16])).expect("forgotten");
        state.forget_restore(VersionId([2; 16])).expect("forgotten");
        assert_eq!([begin(4, DAY_MS - 1, 1), begin(5, DAY_MS, 100)], [over, RestoreAdmission::Accepted]);
        assert_eq!(begin(6, DAY_MS, 1), RestoreAdmission::TooMuch { quota: 100, until_ms: 2 * DAY_MS });
    }

    #[test]
    fn an_account_may_have_a_quota_of_its_own() {
        let (_folder, state) = state();
        let begin = |number, account| state.begin_restore(&restore(number, account, "Standard", 0), 60, 0, USUAL).expect("recorded");
        state.set_quota("ada", OwnQuota { open: Some(0), bytes_a_day: None }).expect("set");
        state.set_quota("bob", OwnQuota { open: Some(5), bytes_a_day: Some(60) }).expect("set");
        assert_eq!([begin(1, "ada"), begin(2, "bob")], [RestoreAdmission::TooMany { quota: 0 }, RestoreAdmission::Accepted]);
        assert_eq!(begin(3, "bob"), RestoreAdmission::TooMuch { quota: 60, until_ms: DAY_MS });
        let listed = state.quotas().expect("a list");
        assert_eq!(
            listed.into_iter().map(|(name, quota)| (name, quota.open)).collect::<Vec<_>>(),
            [("ada".into(), Some(0)), ("bob".into(), Some(5))]
        );
        state.set_quota("ada", OwnQuota::default()).expect("set");
        assert_eq!(begin(1, "ada"), RestoreAdmission::Accepted);
        assert!(matches!(state.set_quota("nobody", OwnQuota::default()), Err(StateError::NoAccount { .. })));
    }

    #[test]
    fn accounts_take_turns_within_a_tier_and_the_more_urgent_comes_first() {
        let (_folder, state) = state();
        let asked = [("ada", 1), ("ada", 2), ("ada", 3), ("cy", 4), ("bob", 5), ("cy", 6)];
        for (account, number) in asked {
            state.record_restore(&restore(number, account, "Standard", number.into())).expect("recorded");
        }
        state.record_restore(&restore(7, "cy", "Expedited", 100)).expect("recorded");
        let mut after = String::new();
        let mut order = Vec::new();
        while let Some(next) = state.next_restore(&after, &|_| false).expect("a look") {
            order.push(next.key.clone());
            state.forget_restore(next.id).expect("forgotten");
            after = next.account;
        }
        // After cy's urgent restore it is ada's turn, with her oldest request.
        assert_eq!(order, ["7", "1", "5", "4", "2", "6", "3"]);
    }
}
