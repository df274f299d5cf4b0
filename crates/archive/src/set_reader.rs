//! Reading the content of platters, by the cheapest code that works.
//!
//! ```text
//! the sectors wanted -> their track -> its large group -> the matching tracks of the platter-set
//! ```
//!
//! Which level it took is counted, because an archive that repairs much is telling something.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use fulgurite_codec::{PooledCode, PooledPlan, PooledRepairer};
use fulgurite_domain::{Geometry, PlatterId, SECTOR_BYTES_MAX, SetId, TrackIndex};
use fulgurite_glass::{GroupRepair, ReadDrive, Rebuilt, SectorRead, Track};

use crate::catalogue::SetDescription;
use crate::unread::{Hindrance, NoPlatter, Presence, Unreachable, Unread};

pub use crate::unread::BeyondRepair;

/// Payload fetched at once, at most, and never more than a track: a read of an object asks for 1 MiB, which need not begin with a sector.
const WINDOW_BYTES: u64 = 20 * SECTOR_BYTES_MAX as u64;

/// How many tracks each level of the code gave back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Repairs {
    /// Sectors found lost on platters that are there.
    pub lost_sectors: u64,
    /// Tracks rebuilt from themselves.
    pub by_track: u64,
    /// Tracks rebuilt by their large group.
    pub by_group: u64,
    /// Tracks rebuilt from the other platters of the set.
    pub by_set: u64,
}

impl Repairs {
    /// Adds what another reader counted.
    pub fn add(&mut self, other: Self) {
        self.lost_sectors += other.lost_sectors;
        self.by_track += other.by_track;
        self.by_group += other.by_group;
        self.by_set += other.by_set;
    }

    /// Tracks that had to be rebuilt.
    #[must_use]
    pub fn tracks(self) -> u64 {
        self.by_track + self.by_group + self.by_set
    }
}

/// Why a part of a set can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetReadError {
    /// It is lost, or can't be read now.
    #[error(transparent)]
    Unread(#[from] Unread),
    /// There is no such part: whoever speaks of it is wrong.
    #[error("byte {offset} of platter {platter} is beyond its content")]
    NoSuchPlace {
        /// The platter.
        platter: PlatterId,
        /// Where reading was to begin.
        offset: u64,
    },
}

/// A platter-set and what of it is there.
pub struct OpenSet {
    /// What the set is.
    pub description: SetDescription,
    /// Its platters, by position.
    pub members: Vec<Presence>,
}

impl OpenSet {
    /// The drive with the platter at `position`, if that can be read.
    pub(crate) fn drive(&self, position: u16) -> Option<&ReadDrive> {
        self.members[usize::from(position)].drive()
    }

    /// What keeps the content of a platter from being read that isn't lost.
    pub(crate) fn unreachable(&self, position: u16) -> Unreachable {
        let mut unreachable = Unreachable {
            platter: self.description.platters[usize::from(position)].platter,
            needed: self.description.shape.information,
            platters: self.description.shape.platters(),
            there: 0,
            away: Box::default(),
        };
        let mut keeps = |store: &str, hindrance: Hindrance, why: &str| {
            let away = &mut unreachable.away;
            match hindrance {
                Hindrance::Absent => away.absent.insert(store.to_owned()),
                Hindrance::Unreadable => away.unreadable.insert((store.to_owned(), why.to_owned())),
            };
        };
        let mut there = 0;
        for member in &self.members {
            match member {
                Presence::There(loaded) => match loaded.why_unreadable() {
                    Some(why) => keeps(&loaded.store, Hindrance::Unreadable, why),
                    None => there += 1,
                },
                Presence::Gone(NoPlatter::Absent { store, why }) => keeps(store, Hindrance::Absent, why),
                Presence::Gone(NoPlatter::Unreadable { store, why }) => keeps(store, Hindrance::Unreadable, why),
                Presence::Gone(NoPlatter::Missing { may_be_on, .. }) => {
                    may_be_on.iter().for_each(|away| keeps(&away.store, away.hindrance, &away.why));
                }
            }
        }
        unreachable.there = there;
        unreachable
    }
}

/// Reads the content of platter-sets that it was [introduced](Self::introduce) to, and remembers the last of it.
pub struct SetReader<'a> {
    /// Held while something is rebuilt, which takes memory by the hundred MiB (I9).
    rebuilding: &'a Mutex<()>,
    threads: usize,
    sets: HashMap<SetId, Arc<OpenSet>>,
    platters: HashMap<PlatterId, (SetId, u16)>,
    window: Option<Window>,
    /// Up to where of a platter's content reading is going to go on.
    ahead: Option<(PlatterId, u64)>,
    rebuilt: Option<RebuiltTrack>,
    hopeless: Hopeless,
    repairs: Repairs,
}

/// Large groups, by platter and first track, whose code was asked in vain. To learn that takes reading the whole group, so it is learnt once and not for
/// each of its tracks.
type Hopeless = HashSet<(PlatterId, TrackIndex)>;

/// Good sectors that were just read: neighbours in a platter are wanted one after another.
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
    /// Why sectors of it could not be had.
    unread: Option<Unread>,
}

impl<'a> SetReader<'a> {
    /// A reader that rebuilds with `threads` threads, while nobody else who shares `rebuilding` does.
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
            hopeless: Hopeless::new(),
            repairs: Repairs::default(),
        }
    }

    /// What it took so far.
    #[must_use]
    pub fn repairs(&self) -> Repairs {
        self.repairs
    }

    /// Whether it was introduced to the set of a platter.
    #[must_use]
    pub fn knows(&self, platter: PlatterId) -> bool {
        self.platters.contains_key(&platter)
    }

    /// Forgets what it learnt of damage: for when platters were written anew.
    pub fn forget_damage(&mut self) {
        self.window = None;
        self.rebuilt = None;
        self.hopeless.clear();
    }

    /// Says that the content of a platter is going to be read up to byte `end`: what lies before it is fetched along with what is read next, as far as
    /// one read of the medium goes.
    pub fn read_ahead(&mut self, platter: PlatterId, end: u64) {
        self.ahead = Some((platter, end));
    }

    /// Makes a set known.
    pub fn introduce(&mut self, set: Arc<OpenSet>) {
        for (position, place) in set.description.platters.iter().enumerate() {
            self.platters.insert(place.platter, (set.description.id, position as u16));
        }
        self.sets.insert(set.description.id, set);
    }

    /// Forgets a set, whose platters are closed if nobody else has them open.
    pub fn forget(&mut self, set: SetId) {
        self.sets.remove(&set);
        self.platters.retain(|_, (of, _)| *of != set);
    }

    /// Fills `out` with the content of a platter from byte `offset` on.
    ///
    /// # Errors
    /// [`SetReadError::Unread`] if any of it is lost or can't be read now; [`SetReadError::NoSuchPlace`] if the platter has no such place.
    ///
    /// # Panics
    /// If the platter's set was not introduced.
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

    /// Reads within one track, from byte `at` of its content on.
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
            let read = match set.drive(position) {
                Some(drive) if !known_bad => drive.read_sectors(geometry.physical(index), sectors.clone(), &mut buffer),
                _ => SectorRead::SomeLost,
            };
            if read == SectorRead::SomeLost {
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

    /// The sector of a track behind those that one read from `first` on should fetch, by what is going to be read.
    fn expected(&self, geometry: Geometry, platter: PlatterId, index: TrackIndex, first: u16) -> u16 {
        let Some((_, end)) = self.ahead.filter(|ahead| ahead.0 == platter) else { return first };
        let within = end.saturating_sub(u64::from(index.0) * geometry.track_bytes()).min(geometry.track_bytes());
        let sector_bytes = u64::from(geometry.sector_bytes);
        within.div_ceil(sector_bytes).min(u64::from(first) + WINDOW_BYTES / sector_bytes) as u16
    }

    /// Reads within one track that has to be rebuilt, or was.
    fn read_rebuilt(&mut self, set: &OpenSet, position: u16, index: TrackIndex, at: u64, out: &mut [u8]) -> Result<(), SetReadError> {
        let geometry = set.description.geometry;
        let platter = set.description.platters[usize::from(position)].platter;
        let sector_bytes = u64::from(geometry.sector_bytes);
        if self.rebuilt.as_ref().is_none_or(|rebuilt| (rebuilt.platter, rebuilt.index) != (platter, index)) {
            let mut track = self.rebuilt.take().map(|rebuilt| rebuilt.track).filter(|track| track.geometry() == geometry);
            let mut track = track.take().unwrap_or_else(|| Track::new(geometry));
            // Not to be had as a whole; the sectors wanted may still be there.
            let unread = self.track(set, position, index, &mut track).err();
            self.rebuilt = Some(RebuiltTrack { platter, index, track, unread });
        }
        let RebuiltTrack { track, unread, .. } = self.rebuilt.as_ref().expect("just rebuilt");
        let wanted = at / sector_bytes..(at + out.len() as u64).div_ceil(sector_bytes);
        let mut without = wanted.map(|sector| sector as u16).filter(|&sector| track.is_lost(sector)).peekable();
        if without.peek().is_some() {
            let unread = unread.clone().expect("a track that was had has no lost sectors");
            let member = &set.members[usize::from(position)];
            // Others of this track are lost; these the system just didn't read.
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

    /// Reads an information track of a platter, whatever it takes.
    ///
    /// # Errors
    /// [`Unread`]; what could be had is in `track`, and the rest is marked lost there.
    pub fn track(&mut self, set: &OpenSet, position: u16, index: TrackIndex, track: &mut Track) -> Result<(), Unread> {
        let geometry = set.description.geometry;
        match set.drive(position) {
            None => track.lose(),
            Some(drive) => {
                let read = drive.read(geometry.physical(index), track);
                match read {
                    Ok(Rebuilt::Nothing) => return Ok(()),
                    Ok(Rebuilt::ByTrack { sectors }) => {
                        self.repairs.lost_sectors += sectors as u64;
                        self.repairs.by_track += 1;
                        return Ok(());
                    }
                    Err(lost) => self.repairs.lost_sectors += lost.sectors as u64,
                }
                let _memory = self.rebuilding.lock().expect("no panic holds this lock");
                if let Some(repair) = ask_group(drive, index, &mut self.hopeless) {
                    repair.sectors.iter().for_each(|sector| track.restore(sector.sector, &sector.payload));
                    if !track.misses_information() {
                        self.repairs.by_group += 1;
                        return Ok(());
                    }
                }
            }
        }
        let _memory = self.rebuilding.lock().expect("no panic holds this lock");
        match SetRepair::new(set, position, index, self.threads, &mut self.hopeless).run(track) {
            SetRepaired::Whole => {
                self.repairs.by_set += 1;
                Ok(())
            }
            SetRepaired::NotNow => Err(set.unreachable(position).into()),
            SetRepaired::Never => {
                let sectors = (0..geometry.track_information).filter(|&sector| track.is_lost(sector)).count();
                let platter = set.description.platters[usize::from(position)].platter;
                Err(BeyondRepair { platter, track: index, sectors }.into())
            }
        }
    }
}

/// Rebuilds the lost information sectors of a track by its large group, unless that is known to be in vain.
fn ask_group(drive: &ReadDrive, index: TrackIndex, hopeless: &mut Hopeless) -> Option<GroupRepair> {
    let group = drive.geometry().group_of(index);
    let key = (drive.platter(), group.first);
    if hopeless.contains(&key) {
        return None;
    }
    let repair = drive.repair_group(group, &[index]).ok();
    if repair.is_none() {
        hopeless.insert(key);
    }
    repair
}

/// Rebuilds one track from the matching tracks of the set.
///
/// The members' tracks don't fit in memory together, so the code is fed from the medium, on the assumption that what is not known to be
/// lost is good. Where that was wrong, the next pass knows better. When too much is lost, the members' large groups are asked.
struct SetRepair<'a> {
    set: &'a OpenSet,
    position: u16,
    index: TrackIndex,
    threads: usize,
    /// Lost information sectors of each platter's track, by position; those that a large group gave back carry their payload.
    members: Vec<Given>,
    hopeless: &'a mut Hopeless,
}

/// What a platter gives to a repair.
#[derive(Default)]
struct Given {
    lost: Vec<u16>,
    regained: HashMap<u16, Vec<u8>>,
    asked_group: bool,
}

/// What came of a repair by the set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SetRepaired {
    /// Everything is there.
    Whole,
    /// What is missing could be had, if all that isn't known to be lost could be read.
    NotNow,
    /// What is missing is lost.
    Never,
}

impl<'a> SetRepair<'a> {
    fn new(set: &'a OpenSet, position: u16, index: TrackIndex, threads: usize, hopeless: &'a mut Hopeless) -> Self {
        let all = |member: &Presence| match member.drive() {
            Some(_) => Vec::new(),
            None => (0..set.description.geometry.track_information).collect(),
        };
        let members = set.members.iter().map(|member| Given { lost: all(member), ..Given::default() }).collect();
        Self { set, position, index, threads, members, hopeless }
    }

    fn geometry(&self) -> Geometry {
        self.set.description.geometry
    }

    /// Restores what is lost of `track`, unless it is too much.
    fn run(mut self, track: &mut Track) -> SetRepaired {
        let shape = self.set.description.shape;
        let sectors = usize::from(self.geometry().track_information);
        let Ok(code) = PooledCode::new(usize::from(shape.information) * sectors, usize::from(shape.redundancy) * sectors) else {
            return SetRepaired::Never;
        };
        self.members[usize::from(self.position)].lost = (0..self.geometry().track_information).filter(|&s| track.is_lost(s)).collect();
        // A redundancy platter's track is computed from the information platters' by the same code, as a row of it.
        if self.position >= shape.information {
            return self.run_redundancy(&code, track);
        }
        loop {
            let lost: Vec<&[u16]> = self.members.iter().map(|member| &member.lost[..]).collect();
            let Some(plan) = self.plan(&code, &lost) else {
                if self.ask_groups() {
                    continue;
                }
                return self.verdict(&code);
            };
            let mut repairer = PooledRepairer::new(&code, plan, self.geometry().sector_bytes as usize)
                .expect("sectors are blocks of 64 bytes")
                .with_threads(self.threads);
            if !self.feed(&mut repairer, track) {
                continue;
            }
            let rebuilt = repairer.finish();
            let lost = std::mem::take(&mut self.members[usize::from(self.position)].lost);
            for (row, sector) in lost.into_iter().enumerate() {
                track.restore(sector, rebuilt.row(row));
            }
            return SetRepaired::Whole;
        }
    }

    /// How to rebuild the lost sectors of this platter, if the set lost those in `lost`, by position; `None` if it can't be done.
    fn plan(&self, code: &PooledCode, lost: &[&[u16]]) -> Option<PooledPlan> {
        let shape = self.set.description.shape;
        let sectors = self.geometry().track_information;
        let symbols = |position: u16, sectors_of: &[u16]| {
            sectors_of.iter().map(|&s| usize::from(position) * usize::from(sectors) + usize::from(s)).collect::<Vec<_>>()
        };
        let of = |position: u16| lost[usize::from(position)];
        let all_lost: Vec<usize> = (0..shape.information).flat_map(|p| symbols(p, of(p))).collect();
        let rows: Vec<usize> = (shape.information..shape.platters())
            .flat_map(|p| {
                let good: Vec<u16> = (0..sectors).filter(|s| of(p).binary_search(s).is_err()).collect();
                symbols(p - shape.information, &good)
            })
            .collect();
        code.plan(&all_lost, &rows, &symbols(self.position, of(self.position))).ok()
    }

    /// Whether what is lost would be had if everything were readable that isn't known to be lost.
    fn verdict(&self, code: &PooledCode) -> SetRepaired {
        let physical = self.geometry().physical(self.index);
        let surely = |(given, member): (&Given, &Presence)| -> Vec<u16> {
            given.lost.iter().copied().filter(|&sector| !member.may_have(physical, sector)).collect()
        };
        let surely: Vec<Vec<u16>> = self.members.iter().zip(&self.set.members).map(surely).collect();
        let surely: Vec<&[u16]> = surely.iter().map(Vec::as_slice).collect();
        match surely[usize::from(self.position)].is_empty() || self.plan(code, &surely).is_some() {
            true => SetRepaired::NotNow,
            false => SetRepaired::Never,
        }
    }

    /// Feeds the code. False if something turned out to be lost that was taken for good; it is known then.
    fn feed(&mut self, repairer: &mut PooledRepairer, track: &Track) -> bool {
        let shape = self.set.description.shape;
        let sectors = usize::from(self.geometry().track_information);
        let used = repairer.plan().rows().to_vec();
        let mut other = Track::new(self.geometry());
        let mut as_expected = true;
        for position in 0..shape.platters() {
            let first_row = usize::from(position.saturating_sub(shape.information)) * sectors;
            let rows = used.iter().filter(|row| (first_row..first_row + sectors).contains(row));
            if position >= shape.information && rows.clone().next().is_none() {
                continue;
            }
            let source = if position == self.position { track } else { self.read_member(position, &mut other, &mut as_expected) };
            if !as_expected {
                continue;
            }
            let lost = &self.members[usize::from(position)].lost;
            if position < shape.information {
                for sector in 0..self.geometry().track_information {
                    repairer.push(lost.binary_search(&sector).is_err().then(|| source.payload(sector)));
                }
            } else {
                rows.for_each(|&row| repairer.push_redundancy(row, source.payload((row - first_row) as u16)));
            }
        }
        as_expected
    }

    /// Reads a member's track, with what its large group gave back.
    fn read_member<'t>(&mut self, position: u16, track: &'t mut Track, as_expected: &mut bool) -> &'t Track {
        let Some(drive) = self.set.drive(position) else { return track };
        let _ = drive.read(self.geometry().physical(self.index), track);
        let member = &mut self.members[usize::from(position)];
        for (&sector, payload) in &member.regained {
            track.restore(sector, payload);
        }
        let surprises = (0..track.geometry().track_information).filter(|&s| track.is_lost(s) && member.lost.binary_search(&s).is_err());
        let surprises: Vec<u16> = surprises.collect();
        if !surprises.is_empty() {
            *as_expected = false;
            member.lost.extend(surprises);
            member.lost.sort_unstable();
        }
        track
    }

    /// Tries to regain the lost sectors of other members by their large groups. True if that gave anything.
    fn ask_groups(&mut self) -> bool {
        let mut gained = false;
        for (position, member) in self.members.iter_mut().enumerate() {
            let Some(drive) = self.set.members[position].drive() else { continue };
            if position == usize::from(self.position) || member.lost.is_empty() || std::mem::replace(&mut member.asked_group, true) {
                continue;
            }
            if let Some(repair) = ask_group(drive, self.index, self.hopeless) {
                for sector in repair.sectors {
                    member.lost.retain(|&lost| lost != sector.sector);
                    member.regained.insert(sector.sector, sector.payload);
                    gained = true;
                }
            }
        }
        gained
    }

    /// Rebuilds the track of a redundancy platter: every information track is had first, then encoded again.
    fn run_redundancy(&mut self, code: &PooledCode, track: &mut Track) -> SetRepaired {
        let shape = self.set.description.shape;
        let geometry = self.geometry();
        let mut encoder = fulgurite_codec::PooledEncoder::new(code, geometry.sector_bytes as usize)
            .expect("sectors are blocks of 64 bytes")
            .with_threads(self.threads);
        let mut other = Track::new(geometry);
        for position in 0..shape.information {
            let regained = match self.set.drive(position) {
                Some(drive) => drive.read(geometry.physical(self.index), &mut other).is_ok(),
                None => {
                    other.lose();
                    false
                }
            };
            if !regained {
                if let Some(drive) = self.set.drive(position)
                    && let Some(repair) = ask_group(drive, self.index, self.hopeless)
                {
                    repair.sectors.iter().for_each(|sector| other.restore(sector.sector, &sector.payload));
                }
                if other.misses_information() {
                    match SetRepair::new(self.set, position, self.index, self.threads, self.hopeless).run(&mut other) {
                        SetRepaired::Whole => {}
                        // The track itself may be fine.
                        SetRepaired::Never if self.lost_may_be_fine() => return SetRepaired::NotNow,
                        failed => return failed,
                    }
                }
            }
            encoder.push(&other.information().collect::<Vec<_>>());
        }
        let first_row = usize::from(self.position - shape.information) * usize::from(geometry.track_information);
        let rows = encoder.finish();
        for sector in 0..geometry.track_information {
            if track.is_lost(sector) {
                track.restore(sector, rows.row(first_row + usize::from(sector)));
            }
        }
        SetRepaired::Whole
    }

    /// Whether every lost sector of the track itself may be fine.
    fn lost_may_be_fine(&self) -> bool {
        let (member, physical) = (&self.set.members[usize::from(self.position)], self.geometry().physical(self.index));
        self.members[usize::from(self.position)].lost.iter().all(|&sector| member.may_have(physical, sector))
    }
}
