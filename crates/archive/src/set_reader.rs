//! Reads the content of platters with the cheapest code that works.
//!
//! ```text
//! requested sectors -> their track -> copies of the platter -> its large group
//!                   -> the matching tracks of the platter-set
//! ```
//!
//! Counts the repairs of each level, because frequent repairs are a sign of failing media.

mod set_repair;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use fulgurite_domain::{Geometry, PlatterId, SECTOR_BYTES_MAX, SetId, TrackIndex};
use fulgurite_glass::{ReadDrive, Track};

use self::set_repair::{FailedGroups, SetRepair, SetRepairOutcome, repair_by_group};
use crate::archive::ArchiveError;
use crate::catalogue::{CatalogueError, SetDescription};
use crate::unread::{BeyondRepair, Hindrance, NOT_FETCHED, NoPlatter, Presence, UnavailableStore, Unreachable, Unread};

/// Maximum payload per read, never more than a track. A read of an object requests 1 MiB, which
/// need not start at a sector boundary.
const WINDOW_BYTES: u64 = 20 * SECTOR_BYTES_MAX as u64;

/// Number of tracks that each level of the code rebuilt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Repairs {
    /// Lost sectors found on platters that are present.
    pub lost_sectors: u64,
    /// Tracks rebuilt by their own code.
    pub by_track: u64,
    /// Tracks read from another copy of the platter.
    #[serde(default)]
    pub by_copy: u64,
    /// Tracks rebuilt by their large group.
    pub by_group: u64,
    /// Tracks rebuilt from the other platters of the set.
    pub by_set: u64,
}

impl Repairs {
    /// Adds the counts of another reader.
    pub fn add(&mut self, other: Self) {
        self.lost_sectors += other.lost_sectors;
        self.by_track += other.by_track;
        self.by_copy += other.by_copy;
        self.by_group += other.by_group;
        self.by_set += other.by_set;
    }

    /// Tracks that had to be rebuilt, or read from another copy.
    #[must_use]
    pub fn tracks(self) -> u64 {
        self.by_track + self.by_copy + self.by_group + self.by_set
    }
}

/// Why part of a set can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetReadError {
    /// The content is lost, or can't be read now.
    #[error(transparent)]
    Unread(#[from] Unread),
    /// The place is outside the platter's content, so its source is wrong.
    #[error("byte {offset} of platter {platter} is beyond its content")]
    NoSuchPlace {
        /// The platter.
        platter: PlatterId,
        /// First byte requested.
        offset: u64,
    },
}

impl From<SetReadError> for ArchiveError {
    fn from(error: SetReadError) -> Self {
        match error {
            SetReadError::Unread(unread) => unread.into(),
            SetReadError::NoSuchPlace { platter, offset } => {
                CatalogueError::Damaged(format!("a file at byte {offset} of platter {platter}, past the end of its content")).into()
            }
        }
    }
}

/// A platter-set with the platters that can be read, and the reasons why others can't be.
pub struct OpenSet {
    /// Description of the set.
    pub description: SetDescription,
    /// Its platters, by position.
    pub members: Vec<Presence>,
}

impl OpenSet {
    /// Returns the drive with the platter at `position`, if the platter can be read.
    pub(crate) fn drive(&self, position: u16) -> Option<&ReadDrive> {
        self.members[usize::from(position)].drive()
    }

    /// Treats all platters but these as absent.
    pub(crate) fn keep_only(&mut self, is_kept: impl Fn(PlatterId) -> bool) {
        for (member, place) in self.members.iter_mut().zip(&self.description.platters) {
            if !is_kept(place.platter) {
                let why = "its platter was not fetched".to_owned();
                let store = UnavailableStore { store: NOT_FETCHED.to_owned(), hindrance: Hindrance::Absent, why };
                *member = Presence::Unavailable(NoPlatter::Unavailable(store));
            }
        }
    }

    /// The reason why content of the platter at `position` can't be read now, if it isn't lost.
    pub(crate) fn unreachable(&self, position: u16) -> Unreachable {
        let mut unavailable = BTreeSet::new();
        let mut readable = 0;
        for member in &self.members {
            match member {
                Presence::Loaded(loaded) => {
                    readable += u16::from(loaded.why_unreadable().is_none());
                    for (copy, why) in loaded.with_known_copies().filter_map(|copy| Some((copy, copy.why_unreadable()?))) {
                        let (store, why) = (copy.store.clone(), why.to_owned());
                        unavailable.insert(UnavailableStore { store, hindrance: Hindrance::Unreadable, why });
                    }
                }
                Presence::Unavailable(why) => unavailable.extend(why.unavailable_stores().iter().cloned()),
            }
        }
        Unreachable {
            platter: self.description.platters[usize::from(position)].platter,
            needed: self.description.shape.information,
            platters: self.description.shape.platters(),
            readable,
            unavailable,
        }
    }
}

/// Reads the content of [opened](Self::open) platter-sets, and caches the last sectors and
/// the last rebuilt track.
pub struct SetReader<'a> {
    rebuilding: &'a Mutex<()>,
    threads: usize,
    sets: HashMap<SetId, Arc<OpenSet>>,
    platters: HashMap<PlatterId, (SetId, u16)>,
    window: Option<Window>,
    /// Platter, and end of the content that the caller is going to read.
    ahead: Option<(PlatterId, u64)>,
    rebuilt: Option<RebuiltTrack>,
    failed_groups: FailedGroups,
    repairs: Repairs,
}

/// Good sectors from the last read. Callers usually request neighbouring sectors next.
struct Window {
    platter: PlatterId,
    track: TrackIndex,
    first: u16,
    buffer: Vec<u8>,
}

struct RebuiltTrack {
    platter: PlatterId,
    index: TrackIndex,
    track: Track,
    /// Why some of its sectors could not be read.
    unread: Option<Unread>,
}

impl<'a> SetReader<'a> {
    /// Creates a reader that rebuilds with `threads` threads. Only one of the readers that share
    /// `rebuilding` rebuilds at a time.
    #[must_use]
    pub fn new(rebuilding: &'a Mutex<()>, threads: usize) -> Self {
        Self {
            rebuilding,
            threads,
            sets: HashMap::new(),
            platters: HashMap::new(),
            window: None,
            ahead: None,
            rebuilt: None,
            failed_groups: FailedGroups::new(),
            repairs: Repairs::default(),
        }
    }

    /// Repairs so far.
    #[must_use]
    pub fn repairs(&self) -> Repairs {
        self.repairs
    }

    /// The platter's set, if it is open.
    pub(crate) fn set_of(&self, platter: PlatterId) -> Option<SetId> {
        self.platters.get(&platter).map(|(set, _)| *set)
    }

    /// Forgets known damage. Call this after platters were replaced.
    pub fn forget_damage(&mut self) {
        self.window = None;
        self.rebuilt = None;
        self.failed_groups.clear();
    }

    /// Announces that the content of a platter will be read up to byte `end`. The next read then
    /// fetches what precedes it, as far as one read of the medium reaches.
    pub fn read_ahead(&mut self, platter: PlatterId, end: u64) {
        self.ahead = Some((platter, end));
    }

    /// Lets the reader read the platters of a set.
    pub fn open(&mut self, set: Arc<OpenSet>) {
        for (position, place) in set.description.platters.iter().enumerate() {
            self.platters.insert(place.platter, (set.description.id, position as u16));
        }
        self.sets.insert(set.description.id, set);
    }

    /// Closes a set, and its platters unless another reader has them open.
    pub fn close(&mut self, set: SetId) {
        self.sets.remove(&set);
        self.platters.retain(|_, (of, _)| *of != set);
    }

    /// Fills `out` with the content of a platter from byte `offset` on.
    ///
    /// # Errors
    /// [`SetReadError::Unread`] if any of it is lost or can't be read now;
    /// [`SetReadError::NoSuchPlace`] if the range exceeds the platter's content.
    ///
    /// # Panics
    /// If the platter's set is not open.
    pub fn read(&mut self, platter: PlatterId, mut offset: u64, mut out: &mut [u8]) -> Result<(), SetReadError> {
        let (set, position) = self.platters[&platter];
        let set = self.sets[&set].clone();
        let geometry = set.description.geometry;
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > geometry.content_bytes()) {
            return Err(SetReadError::NoSuchPlace { platter, offset });
        }
        while !out.is_empty() {
            let (track, sector, within) = geometry.locate(offset);
            let left_in_track = geometry.track_bytes() - (u64::from(sector) * u64::from(geometry.sector_bytes) + u64::from(within));
            let most = WINDOW_BYTES - u64::from(within);
            let (now, later) = out.split_at_mut((out.len() as u64).min(left_in_track).min(most) as usize);
            self.read_in_track(&set, position, track, u64::from(sector) * u64::from(geometry.sector_bytes) + u64::from(within), now)?;
            offset += now.len() as u64;
            out = later;
        }
        Ok(())
    }

    /// Fetches content of a platter for the next [`read`](Self::read), if it is in memory. Returns
    /// `false`, without having waited for the medium, if it isn't, if it is on several tracks, or
    /// if the platter's set is not open.
    pub(crate) fn fetch_cached(&mut self, platter: PlatterId, offset: u64, bytes: usize) -> bool {
        let Some((set, position)) = self.platters.get(&platter).and_then(|(id, position)| Some((self.sets.get(id)?.clone(), *position)))
        else {
            return false;
        };
        let geometry = set.description.geometry;
        let is_within = offset.checked_add(bytes as u64).is_some_and(|end| bytes > 0 && end <= geometry.content_bytes());
        if !is_within || bytes as u64 > WINDOW_BYTES {
            return false;
        }
        let (track, first, within) = geometry.locate(offset);
        let sectors = (u64::from(within) + bytes as u64).div_ceil(u64::from(geometry.sector_bytes));
        let Some(sectors) =
            first.checked_add(sectors as u16).filter(|end| u64::from(*end) * u64::from(geometry.sector_bytes) <= geometry.track_bytes())
        else {
            return false;
        };
        let Some(drive) = set.drive(position) else { return false };
        let mut buffer = self.window.take().map_or_else(Vec::new, |window| window.buffer);
        buffer.resize(usize::from(sectors - first) * geometry.sector_stride(), 0);
        let is_read = drive.read_cached_sectors(geometry.physical(track), first..sectors, &mut buffer);
        self.window = is_read.then_some(Window { platter, track, first, buffer });
        is_read
    }

    /// Reads within one track, starting at byte `at` of its content.
    fn read_in_track(&mut self, set: &OpenSet, position: u16, index: TrackIndex, at: u64, out: &mut [u8]) -> Result<(), SetReadError> {
        let geometry = set.description.geometry;
        let platter = set.description.platters[usize::from(position)].platter;
        let sector_bytes = u64::from(geometry.sector_bytes);
        let sectors = (at / sector_bytes) as u16..(at + out.len() as u64).div_ceil(sector_bytes) as u16;
        let has = |window: &Window| {
            let end = window.first + (window.buffer.len() / geometry.sector_stride()) as u16;
            (window.platter, window.track) == (platter, index) && window.first <= sectors.start && sectors.end <= end
        };
        if !self.window.as_ref().is_some_and(has) {
            let sectors = sectors.start..sectors.end.max(self.expected(geometry, platter, index, sectors.start));
            let mut buffer = self.window.take().map_or_else(Vec::new, |window| window.buffer);
            buffer.resize(sectors.len() * geometry.sector_stride(), 0);
            let known_bad = self.rebuilt.as_ref().is_some_and(|rebuilt| (rebuilt.platter, rebuilt.index) == (platter, index));
            let drive = set.drive(position).filter(|_| !known_bad);
            if !drive.is_some_and(|drive| drive.read_sectors(geometry.physical(index), sectors.clone(), &mut buffer)) {
                return self.read_rebuilt(set, position, index, at, out);
            }
            self.window = Some(Window { platter, track: index, first: sectors.start, buffer });
        }
        let window = self.window.as_ref().expect("just read");
        let mut done = 0;
        while done < out.len() {
            let (sector, within) = ((at + done as u64) / sector_bytes, ((at + done as u64) % sector_bytes) as usize);
            let start = (sector as usize - usize::from(window.first)) * geometry.sector_stride() + within;
            let bytes = (out.len() - done).min(sector_bytes as usize - within);
            out[done..done + bytes].copy_from_slice(&window.buffer[start..start + bytes]);
            done += bytes;
        }
        Ok(())
    }

    /// Returns the end of the sector range that a read from `first` on should fetch, based on the
    /// announced reads.
    fn expected(&self, geometry: Geometry, platter: PlatterId, index: TrackIndex, first: u16) -> u16 {
        let Some((_, end)) = self.ahead.filter(|ahead| ahead.0 == platter) else { return first };
        let within = end.saturating_sub(u64::from(index.0) * geometry.track_bytes()).min(geometry.track_bytes());
        let sector_bytes = u64::from(geometry.sector_bytes);
        within.div_ceil(sector_bytes).min(u64::from(first) + WINDOW_BYTES / sector_bytes) as u16
    }

    /// Reads within a track that needs, or needed, rebuilding.
    fn read_rebuilt(&mut self, set: &OpenSet, position: u16, index: TrackIndex, at: u64, out: &mut [u8]) -> Result<(), SetReadError> {
        let geometry = set.description.geometry;
        let platter = set.description.platters[usize::from(position)].platter;
        let sector_bytes = u64::from(geometry.sector_bytes);
        if self.rebuilt.as_ref().is_none_or(|rebuilt| (rebuilt.platter, rebuilt.index) != (platter, index)) {
            let mut track = self.rebuilt.take().map(|rebuilt| rebuilt.track).filter(|track| track.geometry() == geometry);
            let mut track = track.take().unwrap_or_else(|| Track::new(geometry));
            // Even if the whole track can't be rebuilt, the requested sectors may be available.
            let unread = self.track(set, position, index, &mut track).err();
            self.rebuilt = Some(RebuiltTrack { platter, index, track, unread });
        }
        let RebuiltTrack { track, unread, .. } = self.rebuilt.as_ref().expect("just rebuilt");
        let wanted = at / sector_bytes..(at + out.len() as u64).div_ceil(sector_bytes);
        let mut without = wanted.map(|sector| sector as u16).filter(|&sector| track.is_lost(sector)).peekable();
        if without.peek().is_some() {
            let unread = unread.clone().expect("a rebuilt track has no lost sectors");
            let member = &set.members[usize::from(position)];
            // Other sectors of this track are lost; the requested ones only failed to be read.
            if without.all(|sector| member.may_have(geometry.physical(index), sector)) {
                return Err(Unread::from(set.unreachable(position)).into());
            }
            return Err(unread.into());
        }
        let mut done = 0;
        for piece in track.content(at..at + out.len() as u64) {
            out[done..done + piece.len()].copy_from_slice(piece);
            done += piece.len();
        }
        Ok(())
    }

    /// Reads an information track of a platter, using every code if necessary.
    ///
    /// # Errors
    /// [`Unread`]; `track` contains the available sectors, and the others are marked lost.
    pub fn track(&mut self, set: &OpenSet, position: u16, index: TrackIndex, track: &mut Track) -> Result<(), Unread> {
        let geometry = set.description.geometry;
        match set.members[usize::from(position)].as_loaded() {
            None => track.mark_all_lost(),
            Some(loaded) => {
                let drive = &loaded.drive;
                let read = drive.read(geometry.physical(index), track);
                match read {
                    Ok(sectors) => {
                        self.repairs.lost_sectors += sectors as u64;
                        self.repairs.by_track += u64::from(sectors > 0);
                        return Ok(());
                    }
                    Err(lost) => self.repairs.lost_sectors += lost.sectors as u64,
                }
                if loaded.restore_from_copies(geometry.physical(index), track) {
                    self.repairs.by_copy += 1;
                    return Ok(());
                }
                let _memory = self.rebuilding.lock().expect("nothing panics while it holds this lock");
                if let Some(repair) = repair_by_group(drive, index, &mut self.failed_groups) {
                    repair.sectors.iter().for_each(|sector| track.restore(sector.sector, &sector.payload));
                    if !track.misses_information() {
                        self.repairs.by_group += 1;
                        return Ok(());
                    }
                }
            }
        }
        let _memory = self.rebuilding.lock().expect("nothing panics while it holds this lock");
        match SetRepair::new(set, position, index, self.threads, &mut self.failed_groups).run(track) {
            SetRepairOutcome::Whole => {
                self.repairs.by_set += 1;
                Ok(())
            }
            SetRepairOutcome::NotNow => Err(set.unreachable(position).into()),
            SetRepairOutcome::Never => {
                let sectors = (0..geometry.track_information).filter(|&sector| track.is_lost(sector)).count();
                let platter = set.description.platters[usize::from(position)].platter;
                Err(BeyondRepair { platter, track: index, sectors }.into())
            }
        }
    }
}
