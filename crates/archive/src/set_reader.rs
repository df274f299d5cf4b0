//! Reading the content of platters, by the cheapest code that works.
//!
//! ```text
//! the sectors wanted -> their track -> its large group -> the matching tracks of the platter-set
//! ```
//!
//! Which level it took is counted, because an archive that repairs much is telling something.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use fulgurite_codec::{PooledCode, PooledRepairer};
use fulgurite_domain::{Geometry, PlatterId, SECTOR_BYTES_MAX, SetId, TrackIndex};
use fulgurite_glass::{GroupRepair, PlatterSource, ReadDrive, Rebuilt, SectorRead, Track};

use crate::catalogue::SetDescription;
use crate::store::PlatterFile;

/// Payload fetched at once, at most, and never more than a track: a read of an object asks for 1 MiB, which need not begin with a sector.
const WINDOW_BYTES: u64 = 20 * SECTOR_BYTES_MAX as u64;

/// How many tracks each level of the code gave back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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

/// Sectors that no code gave back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("platter {platter}, track {}: {sectors} sectors are lost beyond what track, large group and platter-set can rebuild", track.0)]
pub struct BeyondRepair {
    /// The platter.
    pub platter: PlatterId,
    /// The information track.
    pub track: TrackIndex,
    /// Lost information sectors of that track.
    pub sectors: usize,
}

/// Why a part of a set can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetReadError {
    /// It is lost.
    #[error(transparent)]
    Lost(#[from] BeyondRepair),
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
    /// A read drive with each platter, by position; `None` for platters that aren't there.
    pub drives: Vec<Option<ReadDrive>>,
}

/// A platter file as a read drive wants it.
pub(crate) struct Source(pub(crate) Arc<dyn PlatterFile>);

impl PlatterSource for Source {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read_at(offset, buffer)
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
    /// [`SetReadError::Lost`] if any of it is beyond repair; [`SetReadError::NoSuchPlace`] if the platter has no such place.
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
            let read = match &set.drives[usize::from(position)] {
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
            // Beyond repair as a whole; the sectors wanted may still be there.
            let _ = self.track(set, position, index, &mut track);
            self.rebuilt = Some(RebuiltTrack { platter, index, track });
        }
        let track = &self.rebuilt.as_ref().expect("just rebuilt").track;
        let mut wanted = at / sector_bytes..(at + out.len() as u64).div_ceil(sector_bytes);
        if wanted.any(|sector| track.is_lost(sector as u16)) {
            let sectors = (0..geometry.track_information).filter(|&sector| track.is_lost(sector)).count();
            return Err(BeyondRepair { platter, track: index, sectors }.into());
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
    /// [`BeyondRepair`]; what could be had is in `track`, and the rest is marked lost there.
    pub fn track(&mut self, set: &OpenSet, position: u16, index: TrackIndex, track: &mut Track) -> Result<(), BeyondRepair> {
        let geometry = set.description.geometry;
        match &set.drives[usize::from(position)] {
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
            true => {
                self.repairs.by_set += 1;
                Ok(())
            }
            false => {
                let sectors = (0..geometry.track_information).filter(|&sector| track.is_lost(sector)).count();
                let platter = set.description.platters[usize::from(position)].platter;
                Err(BeyondRepair { platter, track: index, sectors })
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
    members: Vec<Member>,
    hopeless: &'a mut Hopeless,
}

#[derive(Default)]
struct Member {
    lost: Vec<u16>,
    regained: HashMap<u16, Vec<u8>>,
    asked_group: bool,
}

impl<'a> SetRepair<'a> {
    fn new(set: &'a OpenSet, position: u16, index: TrackIndex, threads: usize, hopeless: &'a mut Hopeless) -> Self {
        let all = |drive: &Option<ReadDrive>| match drive {
            Some(_) => Vec::new(),
            None => (0..set.description.geometry.track_information).collect(),
        };
        let members = set.drives.iter().map(|drive| Member { lost: all(drive), ..Member::default() }).collect();
        Self { set, position, index, threads, members, hopeless }
    }

    fn geometry(&self) -> Geometry {
        self.set.description.geometry
    }

    /// Restores what is lost of `track`. False if it is too much.
    fn run(mut self, track: &mut Track) -> bool {
        let shape = self.set.description.shape;
        let sectors = usize::from(self.geometry().track_information);
        let Ok(code) = PooledCode::new(usize::from(shape.information) * sectors, usize::from(shape.redundancy) * sectors) else {
            return false;
        };
        self.members[usize::from(self.position)].lost = (0..self.geometry().track_information).filter(|&s| track.is_lost(s)).collect();
        // A redundancy platter's track is computed from the information platters' by the same code, as a row of it.
        if self.position >= shape.information {
            return self.run_redundancy(&code, track);
        }
        loop {
            let symbols = |position: u16, sectors_of: &[u16]| {
                sectors_of.iter().map(|&s| usize::from(position) * sectors + usize::from(s)).collect::<Vec<_>>()
            };
            let lost: Vec<usize> = (0..shape.information).flat_map(|p| symbols(p, &self.members[usize::from(p)].lost)).collect();
            let rows: Vec<usize> = (shape.information..shape.platters())
                .flat_map(|p| {
                    let lost = &self.members[usize::from(p)].lost;
                    let good: Vec<u16> = (0..self.geometry().track_information).filter(|s| lost.binary_search(s).is_err()).collect();
                    symbols(p - shape.information, &good)
                })
                .collect();
            let wanted = symbols(self.position, &self.members[usize::from(self.position)].lost);
            let Ok(plan) = code.plan(&lost, &rows, &wanted) else {
                if self.ask_groups() {
                    continue;
                }
                return false;
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
            return true;
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
        let Some(drive) = &self.set.drives[usize::from(position)] else { return track };
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
            let Some(drive) = &self.set.drives[position] else { continue };
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
    fn run_redundancy(&mut self, code: &PooledCode, track: &mut Track) -> bool {
        let shape = self.set.description.shape;
        let geometry = self.geometry();
        let mut encoder = fulgurite_codec::PooledEncoder::new(code, geometry.sector_bytes as usize)
            .expect("sectors are blocks of 64 bytes")
            .with_threads(self.threads);
        let mut other = Track::new(geometry);
        for position in 0..shape.information {
            let regained = match &self.set.drives[usize::from(position)] {
                Some(drive) => drive.read(geometry.physical(self.index), &mut other).is_ok(),
                None => {
                    other.lose();
                    false
                }
            };
            if !regained {
                if let Some(drive) = &self.set.drives[usize::from(position)]
                    && let Some(repair) = ask_group(drive, self.index, self.hopeless)
                {
                    repair.sectors.iter().for_each(|sector| other.restore(sector.sector, &sector.payload));
                }
                if other.misses_information()
                    && !SetRepair::new(self.set, position, self.index, self.threads, self.hopeless).run(&mut other)
                {
                    return false;
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
        true
    }
}
