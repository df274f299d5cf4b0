//! Results of a scrub.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use fulgurite_domain::{Geometry, PlatterId, SetId, TrackIndex};
use serde::{Deserialize, Serialize};

use super::misnamed::MisnamedPlatter;
use super::unlisted::UnknownPlatter;
use crate::catalogue::{Health, SetDescription, VersionRowId};
use crate::rebuild::UnseenPlace;
use crate::set_reader::Repairs;
use crate::unread::{Hindrance, NoPlatter, UnavailableStore};
use crate::watch::OutOfReach;

/// State of a platter; see [`unread`](crate::unread).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlatterState {
    /// Intact, and on its own store.
    Sound,
    /// Intact, but on a different store.
    Elsewhere,
    /// Its store is absent.
    Absent,
    /// Present, but the system refuses to read some or all of it.
    Unreadable,
    /// Its store is present but doesn't have it.
    Missing,
    /// The bytes read are wrong.
    Damaged,
}

impl PlatterState {
    /// Name of the state in machine-readable output.
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

    /// Why the platter could not be read completely although it may be intact, if so.
    #[must_use]
    pub fn hindrance(self) -> Option<Hindrance> {
        match self {
            Self::Absent => Some(Hindrance::Absent),
            Self::Unreadable => Some(Hindrance::Unreadable),
            Self::Sound | Self::Elsewhere | Self::Missing | Self::Damaged => None,
        }
    }
}

impl From<&NoPlatter> for PlatterState {
    fn from(reason: &NoPlatter) -> Self {
        match reason.hindrance() {
            Some(Hindrance::Absent) => Self::Absent,
            Some(Hindrance::Unreadable) => Self::Unreadable,
            None => Self::Missing,
        }
    }
}

/// Findings about one platter.
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
    // Renamed fields keep their first names in reports, which pass between processes.
    #[serde(rename = "gone")]
    pub unavailable: Option<NoPlatter>,
    /// True if the platter had no known store when the catalogue was rebuilt, and was now found on
    /// `store`.
    pub turned_up: bool,
    /// The other store on which it was found.
    pub elsewhere: Option<String>,
    /// If the platter is elsewhere: why its own store can't be used, unless it can.
    #[serde(default)]
    pub own_store: Option<Hindrance>,
    /// Lost sectors, including those of group redundancy tracks, but not sectors that the system
    /// refused to read.
    pub lost_sectors: u64,
    /// Further lost sectors, which are normal: some sectors of glass can never be read, and these
    /// are in tracks that lost no more than expected.
    #[serde(default)]
    pub expected_losses: u64,
    /// Tracks that their own code can't rebuild, including group redundancy tracks.
    pub lost_tracks: u32,
    /// Bad copies of the header.
    pub bad_headers: u32,
    /// Sectors and copies of the header that the system refused to read.
    pub unreadable: u64,
    /// The system's error for the first of them.
    pub why_unreadable: Option<String>,
    /// Tracks and headers that were wrong when first read, and good when read again over a newly
    /// opened file. They don't count as damaged.
    #[serde(default)]
    pub good_when_reread: u64,
    /// True if the scrub replaced the platter. The rest says in what state it was found.
    #[serde(default)]
    pub replaced: bool,
    /// Information sectors of information tracks that the track's own code could not provide, for
    /// any reason.
    #[serde(skip)]
    pub(super) lost: BTreeMap<TrackIndex, Vec<u16>>,
}

impl PlatterFinding {
    pub(super) fn new(set: &SetDescription, position: u16) -> Self {
        let place = &set.platters[usize::from(position)];
        Self {
            platter: place.platter,
            position,
            store: place.store.clone(),
            unavailable: None,
            turned_up: false,
            elsewhere: None,
            own_store: None,
            lost_sectors: 0,
            expected_losses: 0,
            lost_tracks: 0,
            bad_headers: 0,
            unreadable: 0,
            why_unreadable: None,
            good_when_reread: 0,
            replaced: false,
            lost: BTreeMap::new(),
        }
    }

    /// State of the platter: the worst problem found.
    #[must_use]
    pub fn state(&self) -> PlatterState {
        match &self.unavailable {
            Some(reason) => reason.into(),
            None if self.lost_sectors > 0 || self.bad_headers > 0 => PlatterState::Damaged,
            None if self.unreadable > 0 => PlatterState::Unreadable,
            None if self.elsewhere.is_some() => PlatterState::Elsewhere,
            None => PlatterState::Sound,
        }
    }

    /// Why the platter, or its own store, can't be reached now although nothing is known to be
    /// wrong with it: it could not be read completely, or it is elsewhere and its store can't be
    /// used.
    #[must_use]
    pub fn hindrance(&self) -> Option<Hindrance> {
        match self.state() {
            PlatterState::Elsewhere => self.own_store,
            state => state.hindrance(),
        }
    }

    /// True if the platter is intact and on its own store.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.state() == PlatterState::Sound
    }

    /// True if at least part of the platter could be read.
    pub(super) fn was_read(&self, geometry: Geometry) -> bool {
        self.unavailable.is_none() && self.unreadable < u64::from(geometry.physical_tracks()) * u64::from(geometry.track_sectors())
    }

    /// Health to record in the catalogue after a reading that ended at `at`, in seconds since 1970;
    /// `None` if nothing new is known. `before` is the health recorded so far.
    pub(super) fn health(&self, before: &Health, at: u64) -> Option<Health> {
        let state = self.state();
        if self.unreadable > 0 || state == PlatterState::Unreadable {
            // The rest may have been read, but that is no full reading: earlier dates stay.
            return Some(Health { unreadable: Some(at), ..*before });
        }
        if state == PlatterState::Absent || (self.elsewhere.is_some() && self.own_store.is_some()) {
            return None;
        }
        let is_intact = self.unavailable.is_none() && self.lost_sectors == 0 && self.bad_headers == 0;
        // It is missing from its own store, and readers shouldn't rely on another.
        let missing = state == PlatterState::Missing || self.elsewhere.is_some();
        Some(Health {
            checked: Some(at),
            missing,
            lost_sectors: self.lost_sectors,
            lost_tracks: self.lost_tracks,
            bad_headers: self.bad_headers,
            last_intact: match (is_intact, missing) {
                (true, false) => None,
                (true, true) => Some(at),
                (false, _) => before.verified(),
            },
            unreadable: None,
            repaired: before.repaired,
        })
    }
}

/// Selects platters that a scrub replaces in addition to missing and damaged ones, and those on
/// another store than their own. Absent and unreadable platters may be intact and come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Replace {
    /// Replace platters on absent stores.
    pub absent: bool,
    /// Replace platters that can't be read.
    pub unreadable: bool,
}

impl Replace {
    /// True if a scrub with this selection replaces the platter.
    #[must_use]
    pub fn includes(self, finding: &PlatterFinding) -> bool {
        match finding.state() {
            PlatterState::Sound => false,
            PlatterState::Missing | PlatterState::Damaged => true,
            // A platter elsewhere can't be written back while its own store is absent.
            PlatterState::Elsewhere => match finding.own_store {
                None => true,
                Some(Hindrance::Absent) => self.absent,
                Some(Hindrance::Unreadable) => self.unreadable,
            },
            PlatterState::Absent => self.absent,
            PlatterState::Unreadable => self.unreadable,
        }
    }
}

/// A set with missing or damaged platters that a scrub can't replace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IrreparableSet {
    /// The set.
    #[serde(with = "crate::as_text")]
    pub set: SetId,
    /// How many of its platters can't be replaced.
    pub platters: u64,
    /// Why.
    pub why: Irreparable,
}

/// Why platters can't be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Irreparable {
    /// More is lost than the redundancy of the set can rebuild.
    Lost,
    /// The same for glass, as it is read with `noise = "harsh"`. Platters that were written with
    /// less noise may be whole.
    Noise,
    /// No platter of the set has a good header.
    NoHeader,
    /// Each store has another platter of the set, or no room.
    NoStore,
}

/// Results of a scrub.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ScrubReport {
    /// Platters checked.
    pub platters: u64,
    /// Platters that could be read, at least in part.
    pub platters_read: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Lost sectors that are normal: some sectors of glass can never be read.
    #[serde(default)]
    pub expected_losses: u64,
    /// Unsound platters, in the state in which they were found.
    pub unsound: Vec<PlatterFinding>,
    /// Platters replaced.
    pub rebuilt: u64,
    /// Unsound platters left alone because they may come back.
    pub left: u64,
    /// Versions with bytes or a key that are lost for good; each was reported.
    pub lost_versions: u64,
    /// Versions that can't be read now but aren't known to be lost; each was reported.
    pub out_of_reach: OutOfReach,
    /// Staged versions read.
    pub staged_versions: u64,
    /// Versions that exist but can't be listed; each was reported.
    pub unlisted: u64,
    /// Version numbers shared by several versions of a name; the first of them were reported.
    pub shared_numbers: u64,
    /// Platters on the stores that the catalogue doesn't know: it is an old copy, or a rebuild did
    /// not see the rest of their sets.
    pub unknown: Vec<UnknownPlatter>,
    /// Places that the last rebuild of the catalogue could not read; they may hold unknown
    /// versions.
    pub unseen: Vec<UnseenPlace>,
    /// Stores that can't be used or listed. They may hold unknown versions, whether or not the
    /// catalogue expects platters on them.
    #[serde(default)]
    pub unavailable: Vec<UnavailableStore>,
    /// Keys newer than all versions that the catalogue knew when the archive was opened: it was an
    /// old copy, or a put was cut short.
    #[serde(default)]
    pub later_keys: u64,
    /// Versions and removals in staging that the catalogue doesn't know; see
    /// [`count_unknown_staged`](crate::count_unknown_staged). They were not read. An archive that
    /// was opened for changes knows all of them.
    #[serde(default)]
    pub unknown_staged: u64,
    /// Files with the header of another platter than their names say. They are looked for once a
    /// platter is missing or damaged.
    #[serde(default)]
    pub misnamed: Vec<MisnamedPlatter>,
    /// Sets with unsound platters that a scrub can't replace, and why.
    #[serde(default)]
    pub irreparable: Vec<IrreparableSet>,
    /// Repairs performed while reading.
    pub repairs: Repairs,
    /// Lost versions that span several sets. Avoids counting a version once per set.
    #[serde(skip)]
    pub(super) lost_in_several_sets: HashSet<VersionRowId>,
    /// The same for versions that can't be read now.
    #[serde(skip)]
    pub(super) out_of_reach_in_several_sets: HashSet<VersionRowId>,
}

impl ScrubReport {
    /// True if no version is known to be lost or impossible to list.
    #[must_use]
    pub fn nothing_is_lost(&self) -> bool {
        self.lost_versions == 0 && self.unlisted == 0
    }

    /// The file that is read as this platter, if it is another one.
    #[must_use]
    pub fn misnamed_file_of(&self, finding: &PlatterFinding) -> Option<&MisnamedPlatter> {
        let store = finding.elsewhere.as_ref().unwrap_or(&finding.store);
        self.misnamed.iter().find(|file| file.platter == finding.platter && file.store == *store)
    }

    /// How many platters no scrub can replace as things are.
    #[must_use]
    pub fn irreparable_platters(&self) -> u64 {
        self.irreparable.iter().map(|set| set.platters).sum()
    }

    /// The unsound platters that the scrub did not replace.
    pub fn still_unsound(&self) -> impl Iterator<Item = &PlatterFinding> {
        self.unsound.iter().filter(|finding| !finding.replaced)
    }

    /// The worst hindrance that kept the scrub from reading everything, apart from platters that it
    /// replaced.
    #[must_use]
    pub fn hindrance(&self) -> Option<Hindrance> {
        let unsound = self.still_unsound().filter_map(PlatterFinding::hindrance);
        let unknown = self.unknown.iter().filter(|platter| platter.unreadable > 0 || platter.is_refused).map(|_| Hindrance::Unreadable);
        unsound.chain(unknown).chain(self.out_of_reach.hindrance()).max()
    }

    /// Absent stores that should hold platters, apart from those that the scrub replaced.
    #[must_use]
    pub fn absent_stores(&self) -> BTreeSet<&str> {
        let reasons = self.still_unsound().filter_map(|finding| finding.unavailable.as_ref()).filter(|reason| reason.hindrance().is_some());
        let unavailable = reasons.flat_map(NoPlatter::unavailable_stores);
        unavailable.filter(|store| store.hindrance == Hindrance::Absent).map(|store| store.store.as_str()).collect()
    }
}
