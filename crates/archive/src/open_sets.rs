//! Recently opened platter-sets, shared by readers of objects.
//!
//! Opening a set checks the marks of all stores and opens all platter files, which takes longer
//! than reading a small object. A set is reused for a second after it was opened, so that a store
//! that is unmounted, or mounted again, is noticed within that time; its files are closed at the
//! next disk check. A reader that fails with a set that is older opens it anew before it reports
//! the failure, and so does one that fails with a set that another reader opened.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fulgurite_domain::{PlatterId, SetId};

use crate::set_reader::OpenSet;

/// How long a set is kept.
pub(crate) const KEPT: Duration = Duration::from_secs(1);
/// Maximum number of platters whose files are kept open. The usual limit is 1,024 open files, and
/// connections need most of them.
const PLATTERS_MAX: usize = 256;

/// Sets that were opened lately, the newest last.
#[derive(Default)]
pub(crate) struct OpenSets(Mutex<VecDeque<(Instant, Arc<OpenSet>)>>);

impl OpenSets {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(Instant, Arc<OpenSet>)>> {
        // A poisoned lock is usable: at worst, sets are missing.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The set of a platter, if it was opened less than a second before `now`.
    pub(crate) fn find(&self, platter: PlatterId, now: Instant) -> Option<Arc<OpenSet>> {
        let sets = self.lock();
        let has = |set: &OpenSet| set.description.platters.iter().any(|place| place.platter == platter);
        let found = sets.iter().rev().find(|(opened, set)| now.duration_since(*opened) < KEPT && has(set))?;
        Some(found.1.clone())
    }

    /// Keeps a set that was opened at `now`, unless it has too many platters.
    pub(crate) fn keep(&self, set: &Arc<OpenSet>, now: Instant) {
        if set.members.len() > PLATTERS_MAX {
            return;
        }
        let mut closed = self.take(|_, other| other.description.id == set.description.id);
        let mut sets = self.lock();
        sets.push_back((now, set.clone()));
        let mut platters: usize = sets.iter().map(|(_, set)| set.members.len()).sum();
        while platters > PLATTERS_MAX
            && let Some((_, oldest)) = sets.pop_front()
        {
            platters -= oldest.members.len();
            closed.push(oldest);
        }
        drop(sets);
        drop(closed);
    }

    /// Drops a set after a failed read.
    pub(crate) fn forget(&self, set: SetId) {
        drop(self.take(|_, other| other.description.id == set));
    }

    /// Closes sets that were opened a second or longer before `now`.
    pub(crate) fn close_old(&self, now: Instant) {
        drop(self.take(|opened, _| now.duration_since(opened) >= KEPT));
    }

    /// Takes sets out. The caller drops them without the lock: closing a file of a store that hangs
    /// must not hold up readers of others.
    fn take(&self, is_taken: impl Fn(Instant, &OpenSet) -> bool) -> Vec<Arc<OpenSet>> {
        let mut sets = self.lock();
        let (taken, kept): (VecDeque<_>, _) = std::mem::take(&mut *sets).into_iter().partition(|(opened, set)| is_taken(*opened, set));
        *sets = kept;
        drop(sets);
        taken.into_iter().map(|(_, set)| set).collect()
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_domain::{Medium, SetShape};

    use super::*;
    use crate::catalogue::{PlatterPlace, SetDescription};
    use crate::unread::{NoPlatter, Presence};

    /// A set with so many platters, none of which can be read.
    fn set(id: u8, platters: u16) -> Arc<OpenSet> {
        let platter = |position| {
            let [high, low] = u16::to_be_bytes(position);
            PlatterId([id, high, low, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
        };
        let places = (0..platters).map(|position| PlatterPlace { platter: platter(position), store: "d1".to_owned() }).collect();
        let shape = SetShape { information: platters, redundancy: 0 };
        let geometry = crate::packing::disk_geometry(65_536, 4);
        let description = SetDescription { id: SetId([id; 16]), shape, medium: Medium::Disk, geometry, written: 0, platters: places };
        let missing = || Presence::Unavailable(NoPlatter::Missing { store: "d1".to_owned(), may_be_on: Vec::new() });
        Arc::new(OpenSet { description, members: (0..platters).map(|_| missing()).collect() })
    }

    #[test]
    fn a_set_is_kept_for_a_second_within_the_limit_of_platters() {
        let sets = OpenSets::default();
        let begin = Instant::now();
        let of = |id: u8| set(id, 1).description.platters[0].platter;
        let finds = |id: u8, ms: u64| sets.find(of(id), begin + Duration::from_millis(ms)).is_some();
        sets.keep(&set(1, 100), begin);
        assert!(finds(1, 0) && finds(1, 999) && !finds(1, 1_000) && !finds(2, 0));
        sets.keep(&set(2, 100), begin + Duration::from_millis(500));
        sets.close_old(begin + Duration::from_millis(1_200));
        assert!(!finds(1, 0) && finds(2, 600));
        sets.forget(SetId([2; 16]));
        assert!(!finds(2, 600));
        for id in 3..9 {
            sets.keep(&set(id, 100), begin);
        }
        assert_eq!((3..9).filter(|id| finds(*id, 0)).collect::<Vec<_>>(), [7, 8], "two sets have as many platters as are kept");
        sets.keep(&set(9, 300), begin);
        assert!(!finds(9, 0), "it has too many platters alone");
        sets.keep(&set(8, 100), begin + Duration::from_millis(900));
        assert!(finds(8, 1_500), "it was opened anew");
    }
}
