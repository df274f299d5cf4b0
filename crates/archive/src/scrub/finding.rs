//! What a scrub finds.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use fulgurite_domain::{Geometry, PlatterId, TrackIndex};
use serde::{Deserialize, Serialize};

use crate::catalogue::{Health, SetDescription, VersionKey};
use crate::clock::now_s;
use crate::rebuild::{UnknownPlatter, UnseenPlace};
use crate::set_reader::Repairs;
use crate::unread::{Hindrance, NoPlatter};
use crate::watch::OutOfReach;

/// A platter in one word; see [`unread`](crate::unread).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlatterState {
    /// Whole, and where it should be.
    Sound,
    /// Whole, on another store than its own.
    Elsewhere,
    /// Its store isn't there.
    Absent,
    /// It is there, and the system refused to read some of it or all.
    Unreadable,
    /// Its store is there without it.
    Missing,
    /// What was read of it is wrong.
    Damaged,
}

impl PlatterState {
    /// The word for it, in answers to programs.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Sound => "sound",
            Self::Elsewhere => "elsewhere",
            Self::Absent => "absent",
            Self::Unreadable => "unreadable",
            Self::Missing => "missing",
            Self::Damaged => "damaged",
        }
    }

    /// What keeps anything from being known of it.
    #[must_use]
    pub fn hindrance(self) -> Option<Hindrance> {
        match self {
            Self::Absent => Some(Hindrance::Absent),
            Self::Unreadable => Some(Hindrance::Unreadable),
            Self::Sound | Self::Elsewhere | Self::Missing | Self::Damaged => None,
        }
    }
}

/// What was found on one platter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlatterFinding {
    /// The platter.
    #[serde(with = "crate::as_text")]
    pub platter: PlatterId,
    /// Its position in the set.
    pub position: u16,
    /// The store it should be on.
    pub store: String,
    /// Why nothing of it could be read.
    pub gone: Option<NoPlatter>,
    /// Whether it was found on `store` now, and had been nowhere when the catalogue was rebuilt.
    pub turned_up: bool,
    /// Another store that it is on.
    pub elsewhere: Option<String>,
    /// Whether its own store could be looked at, which it need not be where the platter is elsewhere.
    pub own_store_is_there: bool,
    /// Lost sectors, group redundancy tracks included, without those that the system refused to read.
    pub lost_sectors: u64,
    /// Tracks that their own code can't rebuild, group redundancy tracks included.
    pub lost_tracks: u32,
    /// Copies of the header that are bad.
    pub bad_headers: u32,
    /// Sectors and copies of the header that the system refused to read.
    pub unreadable: u64,
    /// What the system said of the first of them.
    pub why_unreadable: Option<String>,
    /// Information sectors of information tracks that were not had by the track's own code, for whatever reason.
    #[serde(skip)]
    pub(super) lost: BTreeMap<TrackIndex, Vec<u16>>,
}

impl PlatterFinding {
    /// Of a platter that nothing was found on yet.
    pub(super) fn new(set: &SetDescription, position: u16) -> Self {
        let place = &set.platters[usize::from(position)];
        Self {
            platter: place.platter,
            position,
            store: place.store.clone(),
            gone: None,
            turned_up: false,
            elsewhere: None,
            own_store_is_there: true,
            lost_sectors: 0,
            lost_tracks: 0,
            bad_headers: 0,
            unreadable: 0,
            why_unreadable: None,
            lost: BTreeMap::new(),
        }
    }

    /// The platter in one word: the worst that is known of it.
    #[must_use]
    pub fn state(&self) -> PlatterState {
        match &self.gone {
            Some(NoPlatter::Absent { .. }) => PlatterState::Absent,
            Some(NoPlatter::Unreadable { .. }) => PlatterState::Unreadable,
            Some(NoPlatter::Missing { .. }) => PlatterState::Missing,
            None if self.lost_sectors > 0 || self.bad_headers > 0 => PlatterState::Damaged,
            None if self.unreadable > 0 => PlatterState::Unreadable,
            None if self.elsewhere.is_some() => PlatterState::Elsewhere,
            None => PlatterState::Sound,
        }
    }

    /// Whether the platter is whole, and where it should be.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.state() == PlatterState::Sound
    }

    /// Whether any of the platter was read: it was there, and the system didn't refuse all of it.
    pub(super) fn was_read(&self, geometry: Geometry) -> bool {
        self.gone.is_none() && self.unreadable < u64::from(geometry.physical_tracks()) * u64::from(geometry.track_sectors())
    }

    /// What the catalogue should know from now on; `None` where nothing new is known.
    pub(super) fn health(&self) -> Option<Health> {
        let state = self.state();
        if state.hindrance().is_some() || self.unreadable > 0 || (self.elsewhere.is_some() && !self.own_store_is_there) {
            return None;
        }
        Some(Health {
            verified: Some(now_s()),
            // From its own store it is; nobody should count on another.
            missing: state == PlatterState::Missing || self.elsewhere.is_some(),
            lost_sectors: self.lost_sectors,
            lost_tracks: self.lost_tracks,
        })
    }
}

/// Which platters a scrub writes anew, beside those that are missing or damaged. What is absent or unreadable may be whole, and come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Replace {
    /// Those on stores that are absent.
    pub absent: bool,
    /// Those that can't be read.
    pub unreadable: bool,
}

impl Replace {
    /// Whether a platter is to be written anew.
    pub(super) fn includes(self, finding: &PlatterFinding) -> bool {
        match finding.state() {
            PlatterState::Sound => false,
            PlatterState::Missing | PlatterState::Damaged => true,
            // It can't go back where it belongs.
            PlatterState::Elsewhere => finding.own_store_is_there || self.absent,
            PlatterState::Absent => self.absent,
            PlatterState::Unreadable => self.unreadable,
        }
    }
}

/// What a scrub found and did.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ScrubReport {
    /// Platters looked for.
    pub platters: u64,
    /// Those of them that could be read, in part at least.
    pub platters_read: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Platters that are not sound, as they were found.
    pub unsound: Vec<PlatterFinding>,
    /// Platters written anew.
    pub rebuilt: u64,
    /// Those of the unsound that were left as they were, because they may come back.
    pub left: u64,
    /// Versions of which bytes are lost for good; each was reported.
    pub lost_versions: u64,
    /// Versions that can't be read now, and aren't known to be lost; each was reported.
    pub out_of_reach: OutOfReach,
    /// Staged versions that were read.
    pub staged_versions: u64,
    /// Versions that exist and can't be listed; each was reported.
    pub unlisted: u64,
    /// Version numbers that several versions of a name share; the first of them were named.
    pub shared_numbers: u64,
    /// Platters on the stores that the catalogue doesn't know, so that it is an old copy.
    pub unknown: Vec<UnknownPlatter>,
    /// What the last rebuild of the catalogue could not look into, so that what is there may be unknown.
    pub unseen: Vec<UnseenPlace>,
    /// What repair it took.
    pub repairs: Repairs,
    /// Those of the lost versions that are on several sets, each of which may have lost something of them.
    #[serde(skip)]
    pub(super) lost_in_several_sets: HashSet<VersionKey>,
    /// The same for versions out of reach.
    #[serde(skip)]
    pub(super) out_of_reach_in_several_sets: HashSet<VersionKey>,
}

impl ScrubReport {
    /// Whether no byte is lost, as far as it is known.
    #[must_use]
    pub fn nothing_is_lost(&self) -> bool {
        self.lost_versions == 0 && self.unlisted == 0
    }

    /// The worst that kept the scrub from knowing everything.
    #[must_use]
    pub fn hindrance(&self) -> Option<Hindrance> {
        self.unsound.iter().filter_map(|finding| finding.state().hindrance()).chain(self.out_of_reach.hindrance()).max()
    }

    /// Stores that are absent and should have platters.
    #[must_use]
    pub fn absent_stores(&self) -> BTreeSet<&str> {
        self.unsound
            .iter()
            .filter_map(|finding| match &finding.gone {
                Some(NoPlatter::Absent { store, .. }) => Some(store.as_str()),
                _ => None,
            })
            .collect()
    }
}
