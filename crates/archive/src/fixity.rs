//! The evidence of an object's copies: where they are, when each was last read in full and found
//! good, and what was found otherwise. Nothing here reads the content of a platter or a segment.

use std::collections::{BTreeSet, HashMap};

use fulgurite_domain::{Medium, PlatterId, SetId, SetShape};

use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{Extent, Health, PlatterRow, SetRow, SetState, StagedHealth, UNKNOWN_STORE, VersionRow};
use crate::staging::check_staging;
use crate::unread::Hindrance;

/// How often a version is looked up again that is archived while its copies are looked up.
const LOOKUPS_MAX: u32 = 4;

/// State of a copy, by the last reading and by whether its store is present.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CopyState {
    /// It was read in full, and all of it was good.
    Good,
    /// It was never read in full, or not since the catalogue was rebuilt.
    Unverified,
    /// Its store is absent. It may be intact.
    Absent,
    /// Its store can't be read, or the last reading was refused by the system. It may be intact.
    Unreadable,
    /// Its store was present without it.
    Missing,
    /// The last reading found wrong bytes.
    Damaged,
}

impl CopyState {
    /// Name of the state in machine-readable output.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Unverified => "unverified",
            Self::Absent => "absent",
            Self::Unreadable => "unreadable",
            Self::Missing => "missing",
            Self::Damaged => "damaged",
        }
    }

    /// True if the copy is neither known to be bad nor out of reach.
    #[must_use]
    pub fn is_usable(self) -> bool {
        matches!(self, Self::Good | Self::Unverified)
    }

    /// The state of a copy that can't be reached.
    fn of_hindered(hindrance: Hindrance) -> Self {
        match hindrance {
            Hindrance::Absent => Self::Absent,
            Hindrance::Unreadable => Self::Unreadable,
        }
    }

    fn of_platter(row: &PlatterRow, hindrance: Option<Hindrance>) -> Self {
        let health = &row.health;
        match hindrance {
            // An absence mends nothing.
            _ if health.is_damaged() => Self::Damaged,
            Some(_) if health.missing => Self::Missing,
            Some(hindrance) => Self::of_hindered(hindrance),
            None if row.place.store == UNKNOWN_STORE => Self::Absent,
            None if health.missing => Self::Missing,
            None if health.unreadable.is_some() => Self::Unreadable,
            None if health.verified().is_none() => Self::Unverified,
            None => Self::Good,
        }
    }
}

/// The copy of an object in staging.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedCopy {
    /// The segments that hold it, ascending.
    pub segments: Vec<u64>,
    /// Its state.
    pub state: CopyState,
    /// When it was read.
    pub health: StagedHealth,
}

/// A part of an object on a platter, and that platter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardCopy {
    /// Where the part starts in the stored bytes of the object.
    pub object_offset: u64,
    /// Stored bytes.
    pub bytes: u64,
    /// The platter.
    pub platter: PlatterId,
    /// The set of the platter.
    pub set: SetId,
    /// The position of the platter in its set.
    pub position: u16,
    /// The store of the platter; `None` if the catalogue doesn't know it.
    pub store: Option<String>,
    /// State of the platter.
    pub state: CopyState,
    /// When the platter was read, and what was found.
    pub health: Health,
}

/// A set that holds parts of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetFixity {
    /// Its identifier.
    pub id: SetId,
    /// Information and redundancy platters.
    pub shape: SetShape,
    /// What its platters are made of.
    pub medium: Medium,
    /// Platters that are neither known to be bad nor out of reach.
    pub usable: u16,
    /// When the platter verified longest ago was verified, in seconds since 1970; `None` if one of
    /// the set was never verified.
    pub oldest_verified: Option<u64>,
}

impl SetFixity {
    /// How many further platters of the set may be lost without losing content of it. 0 also if
    /// too few are usable already; see [`platters_short`](Self::platters_short).
    #[must_use]
    pub fn platters_to_spare(&self) -> u16 {
        self.usable.saturating_sub(self.shape.information)
    }

    /// How many usable platters the set lacks to replace the others. Those may come back, and a
    /// damaged platter may still hold what is needed.
    #[must_use]
    pub fn platters_short(&self) -> u16 {
        self.shape.information.saturating_sub(self.usable)
    }
}

/// All copies of a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectFixity {
    /// The version. It may have been archived since it was looked up by the caller.
    pub version: VersionRow,
    /// The copy in staging, which is whole.
    pub staged: Option<StagedCopy>,
    /// Parts on platters, in the order of the object's bytes. Those of a staged version need not
    /// cover it.
    pub shards: Vec<ShardCopy>,
    /// The sets of those platters.
    pub sets: Vec<SetFixity>,
}

impl ObjectFixity {
    /// When the copy verified longest ago was verified, in seconds since 1970; `None` if one of
    /// them was never verified.
    #[must_use]
    pub fn oldest_verified(&self) -> Option<u64> {
        let staged = self.staged.iter().map(|copy| copy.health.verified);
        let dates = staged.chain(self.shards.iter().map(|copy| copy.health.verified()));
        dates.min().flatten()
    }

    /// How many further platters of any set may be lost without losing the object; `None` if its
    /// only whole copy is in staging.
    #[must_use]
    pub fn platters_to_spare(&self) -> Option<u16> {
        if self.staged.is_some() { None } else { self.sets.iter().map(SetFixity::platters_to_spare).min() }
    }

    /// How many usable platters a set lacks to replace one that holds a part of the object; 0 if
    /// the object can be read.
    #[must_use]
    pub fn platters_short(&self) -> u16 {
        if self.staged.is_some() {
            return 0;
        }
        let is_needed = |set: &&SetFixity| self.shards.iter().any(|copy| copy.set == set.id && !copy.state.is_usable());
        self.sets.iter().filter(is_needed).map(SetFixity::platters_short).max().unwrap_or(0)
    }

    /// The worst state of all copies.
    #[must_use]
    pub fn worst_state(&self) -> Option<CopyState> {
        self.staged.iter().map(|copy| copy.state).chain(self.shards.iter().map(|copy| copy.state)).max()
    }
}

impl Archive {
    /// The copies of a version, as the catalogue knows them; `None` if the version was removed.
    /// `store_state` returns why a store can't be used now, `None` if it can.
    ///
    /// # Errors
    /// [`ArchiveError`] if the catalogue fails.
    pub fn fixity(
        &self,
        version: &VersionRow,
        store_state: &dyn Fn(&str) -> Option<Hindrance>,
    ) -> Result<Option<ObjectFixity>, ArchiveError> {
        let mut row = version.clone();
        for _ in 0..LOOKUPS_MAX {
            let staged = if row.archived { None } else { self.staged_copy(&row)? };
            if row.archived || staged.is_some() {
                let (shards, sets) = self.shards(&row, store_state)?;
                return Ok(Some(ObjectFixity { version: row, staged, shards, sets }));
            }
            // It was archived or removed since it was looked up.
            match self.reading().version(&row.record.name, row.id)? {
                Some(found) => row = found,
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// All platters of complete sets with their states, in order of set and position. `store_state`
    /// is the same as in [`fixity`](Self::fixity).
    ///
    /// # Errors
    /// [`ArchiveError`] if the catalogue fails.
    pub fn platter_states(&self, store_state: &dyn Fn(&str) -> Option<Hindrance>) -> Result<Vec<(PlatterRow, CopyState)>, ArchiveError> {
        // Archives have few stores and many platters.
        let mut hindrances: HashMap<String, Option<Hindrance>> = HashMap::from([(UNKNOWN_STORE.to_owned(), None)]);
        let mut with_state = |row: PlatterRow| {
            let hindrance = match hindrances.get(&row.place.store) {
                Some(known) => *known,
                None => *hindrances.entry(row.place.store.clone()).or_insert_with(|| store_state(&row.place.store)),
            };
            let state = CopyState::of_platter(&row, hindrance);
            (row, state)
        };
        let rows = self.reading().platters()?;
        Ok(rows.into_iter().filter(|row| row.state == SetState::Complete).map(&mut with_state).collect())
    }

    /// The platters of a set with their states, in order of position; none if there is no such set.
    /// `store_state` is the same as in [`fixity`](Self::fixity).
    ///
    /// # Errors
    /// [`ArchiveError`] if the catalogue fails.
    pub fn set_states(
        &self,
        set: SetId,
        store_state: &dyn Fn(&str) -> Option<Hindrance>,
    ) -> Result<Vec<(PlatterRow, CopyState)>, ArchiveError> {
        let rows = self.reading().platters_of(set)?;
        let with_state = |row: PlatterRow| {
            let hindrance = if row.place.store == UNKNOWN_STORE { None } else { store_state(&row.place.store) };
            let state = CopyState::of_platter(&row, hindrance);
            (row, state)
        };
        Ok(rows.into_iter().map(with_state).collect())
    }

    fn staged_copy(&self, row: &VersionRow) -> Result<Option<StagedCopy>, ArchiveError> {
        let Some(health) = self.reading().staged_health(row.row_id)? else { return Ok(None) };
        let Some((record, data)) = self.reading().staged(row.row_id)? else { return Ok(None) };
        let segments: BTreeSet<u64> = data.iter().map(|data| data.place.segment).chain([record.segment]).collect();
        let unreadable = segments.iter().filter_map(|segment| self.staging().length(*segment).err());
        let unreadable = unreadable.map(|error| error.hindrance().map_or(CopyState::Missing, CopyState::of_hindered)).max();
        let state = match (health, unreadable) {
            (StagedHealth { damaged: Some(_), .. }, _) => CopyState::Damaged,
            (_, Some(state)) => match check_staging(self).map_err(|error| error.hindrance()) {
                Err(Some(hindrance)) => CopyState::of_hindered(hindrance),
                // Segments are released after their versions were archived or removed.
                _ if self.reading().staged(row.row_id)?.is_none() => return Ok(None),
                _ => state,
            },
            (StagedHealth { verified: None, .. }, None) => CopyState::Unverified,
            (StagedHealth { verified: Some(_), .. }, None) => CopyState::Good,
        };
        Ok(Some(StagedCopy { segments: segments.into_iter().collect(), state, health }))
    }

    fn shards(
        &self,
        row: &VersionRow,
        store_state: &dyn Fn(&str) -> Option<Hindrance>,
    ) -> Result<(Vec<ShardCopy>, Vec<SetFixity>), ArchiveError> {
        let extents = self.reading().extents(row.row_id)?;
        let mut sets: Vec<(SetFixity, Vec<(PlatterRow, CopyState)>)> = Vec::new();
        let mut shards = Vec::with_capacity(extents.len());
        for Extent { platter, object_offset, bytes, .. } in extents {
            let holds =
                |(_, platters): &(SetFixity, Vec<(PlatterRow, CopyState)>)| platters.iter().any(|(row, _)| row.place.platter == platter);
            // Neighbouring shards are most likely in one set, and the last one.
            let index = match sets.iter().rposition(holds) {
                Some(index) => index,
                None => {
                    let set = self.reading().set_of(platter)?.ok_or(ArchiveError::UnknownPlatter(platter))?;
                    sets.push(self.set_fixity(set, store_state)?);
                    sets.len() - 1
                }
            };
            let found = sets[index].1.iter().find(|(row, _)| row.place.platter == platter);
            let (row, state) = found.ok_or(ArchiveError::UnknownPlatter(platter))?;
            shards.push(ShardCopy {
                object_offset,
                bytes,
                platter,
                set: row.set,
                position: row.position,
                store: Some(row.place.store.clone()).filter(|store| store != UNKNOWN_STORE),
                state: *state,
                health: row.health,
            });
        }
        Ok((shards, sets.into_iter().map(|(set, _)| set).collect()))
    }

    fn set_fixity(
        &self,
        set: SetRow,
        store_state: &dyn Fn(&str) -> Option<Hindrance>,
    ) -> Result<(SetFixity, Vec<(PlatterRow, CopyState)>), ArchiveError> {
        let description = set.description;
        let platters = self.set_states(description.id, store_state)?;
        let usable = platters.iter().filter(|(_, state)| state.is_usable()).count() as u16;
        let oldest_verified = platters.iter().map(|(row, _)| row.health.verified()).min().flatten();
        let fixity = SetFixity { id: description.id, shape: description.shape, medium: description.medium, usable, oldest_verified };
        Ok((fixity, platters))
    }
}
