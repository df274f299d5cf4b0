//! Restores that wait to be brought into the library, and whose turn it is.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Instant;

use fulgurite_domain::VersionId;

use crate::state::Restore;

/// A restore's account, tier and deadline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wish {
    tier: String,
    account: String,
    due_ms: i64,
    /// Why it couldn't be carried out before.
    set_back: Option<Cause>,
}

/// Why a restore couldn't be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// Machines that are out of order keep too many platters of a set.
    Machines,
    /// Stores are absent or fail.
    Stores,
    /// Another error; see the log.
    Error,
}

/// The most urgent first.
type Line = BTreeSet<(i64, VersionId)>;

/// Restores that wait to be brought into the library.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// All restores that wait or are under way, so that none is carried out twice.
    known: HashMap<VersionId, Wish>,
    /// Those that can be carried out, by tier and account.
    ready: BTreeMap<String, BTreeMap<String, Line>>,
    /// Those that couldn't be carried out, and when they are tried again.
    set_back: HashMap<VersionId, (Cause, Instant)>,
    /// The account that had the last turn.
    last: String,
}

impl Waiting {
    /// Adds a restore, or notes that a known one is due sooner. Returns true if it was known
    /// already.
    pub(super) fn add(&mut self, restore: &Restore) -> bool {
        let Restore { id, tier, account, due_ms, .. } = restore.clone();
        let wish = Wish { tier, account, due_ms, set_back: None };
        let Some(before) = self.known.get(&id).cloned() else {
            self.insert_ready(id, &wish);
            self.known.insert(id, wish);
            return false;
        };
        if due_ms < before.due_ms {
            if self.remove_ready(id, &before) {
                self.insert_ready(id, &wish);
            }
            self.known.insert(id, Wish { set_back: before.set_back, ..wish });
        }
        true
    }

    /// Forgets a restore that has ended, and returns what was known of it.
    pub(super) fn forget(&mut self, id: VersionId) -> Option<Wish> {
        let wish = self.known.remove(&id)?;
        self.remove_ready(id, &wish);
        self.set_back.remove(&id);
        Some(wish)
    }

    /// Undoes [`Waiting::forget`] of a restore that was under way.
    pub(super) fn remember(&mut self, id: VersionId, wish: Wish) {
        self.known.entry(id).or_insert(wish);
    }

    /// Puts off a known restore that failed, until `until`. Returns true unless it was put off for
    /// the same cause last time, so that callers log each cause once.
    pub(super) fn set_back(&mut self, id: VersionId, cause: Cause, until: Instant) -> bool {
        let Some(wish) = self.known.get_mut(&id) else { return false };
        let is_first = wish.set_back.replace(cause) != Some(cause);
        let wish = wish.clone();
        self.remove_ready(id, &wish);
        self.set_back.insert(id, (cause, until));
        is_first
    }

    /// Retries the restores that wait for one of these causes.
    pub(super) fn retry_for(&mut self, causes: &[Cause]) {
        self.retry_those(|cause, _| causes.contains(&cause));
    }

    /// Retries one now.
    fn retry(&mut self, id: VersionId) {
        if self.set_back.remove(&id).is_some()
            && let Some(wish) = self.known.get(&id).cloned()
        {
            self.insert_ready(id, &wish);
        }
    }

    fn retry_those(&mut self, is_over: impl Fn(Cause, Instant) -> bool) {
        let over: Vec<VersionId> = self.set_back.iter().filter(|(_, (cause, until))| is_over(*cause, *until)).map(|(id, _)| *id).collect();
        over.into_iter().for_each(|id| self.retry(id));
    }

    /// Restores that couldn't be carried out, and wait to be tried again.
    pub(super) fn all_set_back(&self) -> HashMap<VersionId, Cause> {
        self.set_back.iter().map(|(id, (cause, _))| (*id, *cause)).collect()
    }

    /// The numbers of restores that will be brought into the library next, and of those that wait
    /// to be tried again.
    pub(super) fn count(&self) -> (usize, usize) {
        let lines = self.ready.values().flat_map(BTreeMap::values);
        (lines.map(BTreeSet::len).sum(), self.set_back.len())
    }

    /// Takes the next restore to carry out, like `State::next_restore`: from the tier of the most
    /// urgent one, the most urgent of the account whose turn it is.
    pub(super) fn next(&mut self, now: Instant) -> Option<VersionId> {
        self.retry_those(|_, until| until <= now);
        let most_urgent = |accounts: &BTreeMap<String, Line>| accounts.values().filter_map(|line| line.first().copied()).min();
        let (_, accounts) = self.ready.iter().min_by_key(|(_, accounts)| most_urgent(accounts))?;
        let after = accounts.range::<str, _>((std::ops::Bound::Excluded(self.last.as_str()), std::ops::Bound::Unbounded)).next();
        let (account, line) = after.or_else(|| accounts.iter().next())?;
        let id = line.first()?.1;
        self.last = account.clone();
        let wish = self.known.get(&id).cloned()?;
        self.remove_ready(id, &wish);
        Some(id)
    }

    fn insert_ready(&mut self, id: VersionId, wish: &Wish) {
        let accounts = self.ready.entry(wish.tier.clone()).or_default();
        accounts.entry(wish.account.clone()).or_default().insert((wish.due_ms, id));
    }

    /// Returns false if it was not there.
    fn remove_ready(&mut self, id: VersionId, wish: &Wish) -> bool {
        let Some(accounts) = self.ready.get_mut(&wish.tier) else { return false };
        let Some(line) = accounts.get_mut(&wish.account) else { return false };
        let was_there = line.remove(&(wish.due_ms, id));
        if line.is_empty() {
            accounts.remove(&wish.account);
        }
        if accounts.is_empty() {
            self.ready.remove(&wish.tier);
        }
        was_there
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn version(id: u8) -> VersionId {
        VersionId([id; 16])
    }

    fn restore(id: u8, account: &str, tier: &str, due_ms: i64) -> Restore {
        Restore {
            id: version(id),
            bucket: "survey".to_owned(),
            key: id.to_string(),
            account: account.to_owned(),
            tier: tier.to_owned(),
            days: 1,
            requested_ms: 0,
            due_ms,
            done_ms: None,
            expires_ms: None,
        }
    }

    fn all(waiting: &mut Waiting, now: Instant) -> Vec<u8> {
        std::iter::from_fn(|| waiting.next(now)).map(|id| id.0[0]).collect()
    }

    #[test]
    fn accounts_take_turns_within_the_tier_of_the_most_urgent_restore() {
        let mut waiting = Waiting::default();
        for (id, account, tier, due) in [
            (1, "ada", "Standard", 500),
            (2, "ada", "Standard", 501),
            (3, "ada", "Standard", 502),
            (4, "bob", "Standard", 510),
            (5, "cy", "Expedited", 490),
            (6, "bob", "Bulk", 520),
        ] {
            assert!(!waiting.add(&restore(id, account, tier, due)));
        }
        assert!(waiting.add(&restore(1, "ada", "Standard", 500)), "a restore that is known isn't added again");
        assert_eq!(waiting.count(), (6, 0));
        assert_eq!(all(&mut waiting, Instant::now()), [5, 1, 4, 2, 3, 6]);
        assert_eq!(waiting.count(), (0, 0));
    }

    #[test]
    fn a_faster_tier_moves_a_restore_forward() {
        let mut waiting = Waiting::default();
        for (id, due) in [(1, 500), (2, 600), (3, 700)] {
            waiting.add(&restore(id, "ada", "Standard", due));
        }
        assert!(waiting.add(&restore(3, "ada", "Expedited", 100)));
        assert!(waiting.add(&restore(2, "ada", "Bulk", 9000)), "a slower tier changes nothing");
        assert_eq!(all(&mut waiting, Instant::now()), [3, 1, 2]);
        assert!(waiting.add(&restore(1, "ada", "Expedited", 200)));
        assert_eq!(waiting.next(Instant::now()), None, "it is under way");
    }

    #[test]
    fn what_could_not_be_carried_out_waits_and_keeps_its_place() {
        let (mut waiting, now) = (Waiting::default(), Instant::now());
        for id in 1..=3 {
            waiting.add(&restore(id, "ada", "Standard", 500 + i64::from(id)));
        }
        let until = now + Duration::from_secs(60);
        for id in [1, 2] {
            assert_eq!(waiting.next(now), Some(version(id)));
            waiting.set_back(version(id), Cause::Stores, until);
        }
        waiting.add(&restore(2, "ada", "Expedited", 100));
        assert_eq!((waiting.count(), waiting.all_set_back().len()), ((1, 2), 2));
        assert_eq!(all(&mut waiting, now), [3]);
        assert_eq!(all(&mut waiting, until), [2, 1]);
        waiting.set_back(version(1), Cause::Stores, until);
        waiting.retry_for(&[Cause::Machines]);
        assert_eq!(all(&mut waiting, now), [0_u8; 0]);
        waiting.retry_for(&[Cause::Error, Cause::Stores]);
        assert_eq!(all(&mut waiting, now), [1]);
        let wish = waiting.forget(version(1)).expect("it is known");
        waiting.set_back(version(1), Cause::Stores, until);
        assert_eq!(waiting.count(), (0, 0), "what has ended isn't tried again");
        waiting.remember(version(1), wish);
        waiting.set_back(version(1), Cause::Stores, until);
        assert_eq!(all(&mut waiting, until), [1]);
        assert!(!waiting.add(&restore(4, "ada", "Standard", 1)));
        assert!(waiting.forget(version(4)).is_some());
        assert_eq!(waiting.next(now), None);
    }
}
