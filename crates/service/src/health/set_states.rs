//! How many sets are whole, and how many have lost what their redundancy replaces, or more.

use std::collections::HashMap;

use fulgurite_archive::CopyState;
use fulgurite_archive::catalogue::{PlatterRow, SetRow};
use fulgurite_domain::SetId;

/// Number of sets in each state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SetStates {
    /// All platters are usable.
    pub(crate) whole: u64,
    /// Some aren't usable, and the redundancy replaces them.
    pub(crate) reduced: u64,
    /// More are unusable than the redundancy replaces, but those that are out of reach may come
    /// back intact.
    pub(crate) out_of_reach: u64,
    /// More are damaged or missing than the redundancy replaces.
    pub(crate) beyond_redundancy: u64,
}

impl SetStates {
    /// Counts the sets of these platters, which must be in order of their sets.
    pub(crate) fn count(sets: &[SetRow], platters: &[(PlatterRow, CopyState)]) -> Self {
        let information: HashMap<SetId, u16> = sets.iter().map(|set| (set.description.id, set.description.shape.information)).collect();
        let mut counts = Self::default();
        for set in platters.chunk_by(|(one, _), (other, _)| one.set == other.set) {
            let usable = set.iter().filter(|(_, state)| state.is_usable()).count();
            // By the last check, also on a store that is absent now, or that the catalogue doesn't
            // know: otherwise a loss would seem to be one that may come back.
            let sound = set.iter().filter(|(row, _)| row.health.is_sound()).count();
            let needed = usize::from(set.first().and_then(|(row, _)| information.get(&row.set)).copied().unwrap_or(0));
            *if sound < needed {
                &mut counts.beyond_redundancy
            } else if usable < needed {
                &mut counts.out_of_reach
            } else if usable < set.len() {
                &mut counts.reduced
            } else {
                &mut counts.whole
            } += 1;
        }
        counts
    }

    pub(crate) fn all(self) -> u64 {
        let Self { whole, reduced, out_of_reach, beyond_redundancy } = self;
        whole + reduced + out_of_reach + beyond_redundancy
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_archive::UNKNOWN_STORE;
    use fulgurite_archive::catalogue::{Health, PlatterPlace, SetDescription, SetState};
    use fulgurite_domain::{Geometry, Medium, PlatterId, SetShape};

    use super::*;

    const SHAPE: SetShape = SetShape { information: 1, redundancy: 2 };

    fn set(number: u8) -> SetRow {
        let geometry = Geometry {
            sector_bytes: 4_096,
            track_information: 100,
            track_redundancy: 8,
            group_information: 50,
            group_redundancy: 2,
            information_tracks: 50,
        };
        let description =
            SetDescription { id: SetId([number; 16]), shape: SHAPE, medium: Medium::Disk, geometry, written: 0, platters: Vec::new() };
        SetRow { description, state: SetState::Complete }
    }

    fn platter(set: u8, position: u16, store: &str, state: CopyState) -> (PlatterRow, CopyState) {
        let is_missing = state == CopyState::Missing || store == UNKNOWN_STORE;
        let row = PlatterRow {
            place: PlatterPlace { platter: PlatterId([position as u8; 16]), store: store.to_owned() },
            set: SetId([set; 16]),
            position,
            state: SetState::Complete,
            health: Health { missing: is_missing, lost_sectors: u64::from(state == CopyState::Damaged), ..Health::intact_at(1) },
        };
        (row, state)
    }

    fn count(states: [(&str, CopyState); 3]) -> SetStates {
        let platters: Vec<_> = (0..).zip(states).map(|(position, (store, state))| platter(1, position, store, state)).collect();
        SetStates::count(&[set(1)], &platters)
    }

    #[test]
    fn a_set_is_counted_once_however_many_of_its_platters_are_lost() {
        use CopyState::{Absent, Damaged, Good, Missing};
        let whole = SetStates { whole: 1, ..SetStates::default() };
        let reduced = SetStates { reduced: 1, ..SetStates::default() };
        let out_of_reach = SetStates { out_of_reach: 1, ..SetStates::default() };
        let beyond_redundancy = SetStates { beyond_redundancy: 1, ..SetStates::default() };
        assert_eq!(count([("d1", Good), ("d2", Good), ("d3", Good)]), whole);
        assert_eq!(count([("d1", Missing), ("d2", Damaged), ("d3", Good)]), reduced);
        assert_eq!(count([("d1", Missing), ("d2", Damaged), ("d3", Missing)]), beyond_redundancy);
        assert_eq!(count([("d1", Absent), ("d2", Absent), ("d3", Absent)]), out_of_reach);
        assert_eq!(count([("d1", Missing), ("d2", Missing), ("d3", Absent)]), out_of_reach, "that one may come back");
        // All stores were searched for it, so the last check found it missing.
        assert_eq!(count([("d1", Missing), ("d2", Missing), (UNKNOWN_STORE, Absent)]), beyond_redundancy);
    }

    #[test]
    fn each_set_is_counted_by_its_own_platters() {
        let mut platters: Vec<_> = (0..3).map(|position| platter(1, position, "d1", CopyState::Missing)).collect();
        platters.extend((0..3).map(|position| platter(2, position, "d1", CopyState::Good)));
        let states = SetStates::count(&[set(1), set(2)], &platters);
        assert_eq!((states.beyond_redundancy, states.whole, states.all()), (1, 1, 2));
    }
}
