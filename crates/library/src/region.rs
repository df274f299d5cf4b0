//! A region: several libraries that hold platter-sets together. A request for a file becomes reads
//! of its shards. A shard on an unreachable platter becomes reads of the matching tracks on other
//! platters of its set. The request ends when all reads have ended.
//!
//! ```text
//!   request --> shard --> platter 7 of library 2: read
//!           \-> shard --> platter 9 of library 0: unavailable --> 16 of the 18 others of its set, wherever they are
//! ```
//!
//! "One track of each platter forms a group; reading a track of an unavailable platter reads the
//! matching tracks of I_p other platters" (SOSP '23, sections 5 and 6). We choose the platters that
//! cost the least.

use fulgurite_domain::{Micros, SetShape};

use crate::{Command, Controller, Event, Outcome, Platter, ReadRequest, RequestId, Tracks, Whereabouts};

/// A library of the region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Library(pub u16);

/// A platter of the region: they are numbered set by set, in order of their positions. Platters
/// after the last complete set belong to no set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionPlatter(pub u32);

/// A requested piece of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Its platter.
    pub platter: RegionPlatter,
    /// Its tracks.
    pub tracks: Tracks,
}

/// How a request to a region ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RegionOutcome {
    /// All shards were read from their own platters.
    Read,
    /// Some shards were recovered from other platters of their set.
    Recovered,
    /// Too many platters of a set are unreachable, or the platter that was to be verified.
    Unavailable,
    /// A platter or track doesn't exist or isn't written yet, or the request has no shards. Or the
    /// library doesn't verify platters.
    Refused,
}

/// What a read of a library is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadOrigin {
    /// The request to the region.
    pub request: RequestId,
    /// The platter that is read.
    pub platter: RegionPlatter,
    /// Whether it replaces a read of another platter of the set.
    pub is_recovery: bool,
}

/// Where the platters of a region are.
#[derive(Debug, Clone)]
pub struct Sets {
    /// Information and redundancy platters of a set.
    pub shape: SetShape,
    /// The library of each platter, and its number there. Sets follow one another.
    pub places: Vec<(Library, Platter)>,
}

/// A request that has not ended.
#[derive(Debug, Clone, Copy)]
struct OpenRequest {
    request: RequestId,
    deadline: Micros,
    pending_reads: u32,
    outcome: RegionOutcome,
}

/// A read in progress in one of the libraries.
#[derive(Debug, Clone, Copy)]
struct ShardRead {
    open: u32,
    platter: RegionPlatter,
    tracks: Tracks,
    /// The recovery that this read belongs to: an index into `recoveries`, or [`NONE`].
    recovery: u32,
    /// Whether the platter is verified, which other platters can't replace.
    is_verification: bool,
}

/// The reads that together replace one that failed.
#[derive(Debug, Clone, Copy)]
struct Recovery {
    pending_reads: u32,
    /// Bit mask of the positions in the set that this recovery has read or is reading.
    used: u64,
}

/// A list whose entries keep their index.
#[derive(Debug, Clone)]
struct Slab<T> {
    entries: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    const EMPTY: Self = Self { entries: Vec::new(), free: Vec::new() };

    fn insert(&mut self, entry: T) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.entries[index as usize] = Some(entry);
                index
            }
            None => {
                self.entries.push(Some(entry));
                self.entries.len() as u32 - 1
            }
        }
    }

    fn remove(&mut self, index: u32) -> Option<T> {
        let entry = self.entries.get_mut(index as usize)?.take()?;
        self.free.push(index);
        Some(entry)
    }

    fn get_mut(&mut self, index: u32) -> &mut T {
        self.entries[index as usize].as_mut().expect("the entry is in use")
    }
}

const NONE: u32 = u32::MAX;

/// The cost of a drive's visit to a platter; the unit of costs is a tenth of it.
const VISIT_COST: u64 = 10;

/// The controllers of a region's libraries, and the open requests.
pub struct Region {
    controllers: Vec<Controller>,
    sets: Sets,
    open: Slab<OpenRequest>,
    reads: Slab<ShardRead>,
    recoveries: Slab<Recovery>,
    scratch: Vec<Command>,
    /// The libraries whose controllers received an event.
    changed: Vec<Library>,
    /// Reads that ended without data and are not handled yet.
    failed: Vec<ShardRead>,
    recovered: u64,
    has_small_sets: bool,
}

impl Region {
    /// Creates a region of these libraries.
    ///
    /// # Panics
    /// If a set has no platters or more than 64, or a platter names a library that doesn't exist.
    #[must_use]
    pub fn new(controllers: Vec<Controller>, sets: Sets) -> Self {
        assert!((1..=64).contains(&sets.shape.platters()), "a set must have 1 to 64 platters");
        assert!(sets.places.iter().all(|(library, _)| usize::from(library.0) < controllers.len()), "a platter names an unknown library");
        Self {
            controllers,
            sets,
            open: Slab::EMPTY,
            reads: Slab::EMPTY,
            recoveries: Slab::EMPTY,
            scratch: Vec::new(),
            changed: Vec::new(),
            failed: Vec::new(),
            recovered: 0,
            has_small_sets: false,
        }
    }

    /// Allows sets with fewer information platters than the shape: only the first positions of
    /// such a set are written, the last of them with all of its redundancy. All platters of a set
    /// must then be taken in together, since a recovery counts those that are written.
    #[must_use]
    pub fn with_small_sets(self) -> Self {
        Self { has_small_sets: true, ..self }
    }

    /// Whether sets may have fewer platters than the shape.
    #[must_use]
    pub fn has_small_sets(&self) -> bool {
        self.has_small_sets
    }

    /// The controller of each library.
    #[must_use]
    pub fn controllers(&self) -> &[Controller] {
        &self.controllers
    }

    /// Where the platters are.
    #[must_use]
    pub fn sets(&self) -> &Sets {
        &self.sets
    }

    /// Reads replaced so far by reads of other platters of their set, whether or not those succeed.
    #[must_use]
    pub fn recovered(&self) -> u64 {
        self.recovered
    }

    /// Requests that have not ended.
    #[must_use]
    pub fn open_requests(&self) -> usize {
        self.open.entries.len() - self.open.free.len()
    }

    /// The request and the platter of the region that an open read of a library is for, and whether
    /// it replaces a read of another platter. `read` is the number in
    /// [`Action::Read`](crate::Action::Read).
    #[must_use]
    pub fn origin(&self, read: RequestId) -> Option<ReadOrigin> {
        let read = self.reads.entries.get(usize::try_from(read.0).ok()?)?.as_ref()?;
        let request = self.open.entries[read.open as usize].as_ref()?.request;
        Some(ReadOrigin { request, platter: read.platter, is_recovery: read.recovery != NONE })
    }

    /// Starts a request for shards. Resulting commands and ended requests are appended.
    pub fn request(
        &mut self,
        now: Micros,
        request: RequestId,
        shards: &[Shard],
        deadline: Micros,
        commands: &mut Vec<(Library, Command)>,
        ended: &mut Vec<(RequestId, RegionOutcome)>,
    ) {
        self.changed.clear();
        let is_known = |shard: &Shard| (shard.platter.0 as usize) < self.sets.places.len();
        if shards.is_empty() || !shards.iter().all(is_known) {
            ended.push((request, RegionOutcome::Refused));
            return;
        }
        let open = self.open.insert(OpenRequest { request, deadline, pending_reads: shards.len() as u32, outcome: RegionOutcome::Read });
        for shard in shards {
            self.issue_read(
                now,
                ShardRead { open, platter: shard.platter, tracks: shard.tracks, recovery: NONE, is_verification: false },
                commands,
                ended,
            );
        }
        self.recover_failed(now, commands, ended);
    }

    /// Makes an open request for shards due sooner. It keeps its age. Does nothing if it is due
    /// then anyway, or has ended. Resulting commands and ended requests are appended.
    pub fn hasten(
        &mut self,
        now: Micros,
        request: RequestId,
        deadline: Micros,
        commands: &mut Vec<(Library, Command)>,
        ended: &mut Vec<(RequestId, RegionOutcome)>,
    ) {
        self.changed.clear();
        let is_later = |open: &OpenRequest| open.request == request && deadline < open.deadline;
        let Some(open) = self.open.entries.iter().position(|open| open.as_ref().is_some_and(is_later)) else { return };
        self.open.get_mut(open as u32).deadline = deadline;
        let is_of = |read: &&ShardRead| read.open as usize == open && !read.is_verification;
        let waiting = |(id, read): (usize, &Option<ShardRead>)| Some((id, read.as_ref().filter(is_of)?.platter));
        let reads: Vec<(usize, RegionPlatter)> = self.reads.entries.iter().enumerate().filter_map(waiting).collect();
        for (id, platter) in reads {
            let (library, platter) = self.sets.places[platter.0 as usize];
            let event = Event::ReadHastened { request: RequestId(id as u64), platter, deadline };
            self.changed.push(library);
            self.controllers[usize::from(library.0)].step(now, event, &mut self.scratch);
            self.forward_commands(library, commands, ended);
        }
        self.recover_failed(now, commands, ended);
    }

    /// Starts a request to read all tracks of a platter when drives have nothing else to do. It
    /// ends as read, unavailable or refused. Resulting commands and ended requests are appended.
    pub fn verify(
        &mut self,
        now: Micros,
        request: RequestId,
        platter: RegionPlatter,
        commands: &mut Vec<(Library, Command)>,
        ended: &mut Vec<(RequestId, RegionOutcome)>,
    ) {
        self.changed.clear();
        let Some((library, of_library)) = self.sets.places.get(platter.0 as usize).copied() else {
            ended.push((request, RegionOutcome::Refused));
            return;
        };
        let open = self.open.insert(OpenRequest { request, deadline: Micros::NEVER, pending_reads: 1, outcome: RegionOutcome::Read });
        let tracks = Tracks { first: 0, count: 0 };
        let id = self.reads.insert(ShardRead { open, platter, tracks, recovery: NONE, is_verification: true });
        let event = Event::VerificationRequested { request: RequestId(id.into()), platter: of_library };
        self.changed.push(library);
        self.controllers[usize::from(library.0)].step(now, event, &mut self.scratch);
        self.forward_commands(library, commands, ended);
        self.recover_failed(now, commands, ended);
    }

    /// Passes an event to a library's controller. Resulting commands and ended requests are
    /// appended.
    pub fn step(
        &mut self,
        now: Micros,
        library: Library,
        event: Event,
        commands: &mut Vec<(Library, Command)>,
        ended: &mut Vec<(RequestId, RegionOutcome)>,
    ) {
        self.changed.clear();
        self.changed.push(library);
        self.controllers[usize::from(library.0)].step(now, event, &mut self.scratch);
        self.forward_commands(library, commands, ended);
        self.recover_failed(now, commands, ended);
    }

    /// The libraries that the last request or step sent events to, in ascending order. Only their
    /// deadlines may have changed.
    pub fn changed(&mut self) -> &[Library] {
        self.changed.sort_unstable();
        self.changed.dedup();
        &self.changed
    }

    fn issue_read(
        &mut self,
        now: Micros,
        read: ShardRead,
        commands: &mut Vec<(Library, Command)>,
        ended: &mut Vec<(RequestId, RegionOutcome)>,
    ) {
        let (library, platter) = self.sets.places[read.platter.0 as usize];
        let deadline = self.open.get_mut(read.open).deadline;
        let id = RequestId(self.reads.insert(read).into());
        let request = ReadRequest { id, platter, tracks: read.tracks, deadline };
        self.changed.push(library);
        self.controllers[usize::from(library.0)].step(now, Event::ReadRequested(request), &mut self.scratch);
        self.forward_commands(library, commands, ended);
    }

    /// Forwards commands, except the ends of this region's reads, which it handles.
    fn forward_commands(&mut self, library: Library, commands: &mut Vec<(Library, Command)>, ended: &mut Vec<(RequestId, RegionOutcome)>) {
        for index in 0..self.scratch.len() {
            let Command::Finish { request, outcome } = self.scratch[index] else {
                commands.push((library, self.scratch[index]));
                continue;
            };
            let Some(read) = self.reads.remove(request.0 as u32) else { continue };
            match outcome {
                Outcome::Read => self.finish_read(read, ended),
                Outcome::Unavailable if read.is_verification => {
                    self.open.get_mut(read.open).outcome = RegionOutcome::Unavailable;
                    self.finish_read(read, ended);
                }
                Outcome::Unavailable => self.failed.push(read),
                Outcome::Refused => {
                    self.open.get_mut(read.open).outcome = RegionOutcome::Refused;
                    self.finish_read(read, ended);
                }
            }
        }
        self.scratch.clear();
    }

    fn finish_read(&mut self, read: ShardRead, ended: &mut Vec<(RequestId, RegionOutcome)>) {
        if read.recovery != NONE {
            let recovery = self.recoveries.get_mut(read.recovery);
            recovery.pending_reads -= 1;
            if recovery.pending_reads > 0 {
                return;
            }
            self.recoveries.remove(read.recovery);
        }
        let open = self.open.get_mut(read.open);
        open.pending_reads -= 1;
        if open.pending_reads == 0 {
            let OpenRequest { request, outcome, .. } = *open;
            self.open.remove(read.open);
            ended.push((request, outcome));
        }
    }

    /// Replaces failed reads by reads from other platters of their sets, until none fails
    /// immediately.
    fn recover_failed(&mut self, now: Micros, commands: &mut Vec<(Library, Command)>, ended: &mut Vec<(RequestId, RegionOutcome)>) {
        while let Some(read) = self.failed.pop() {
            let members = u32::from(self.sets.shape.platters());
            let (first, position) = (read.platter.0 / members * members, read.platter.0 % members);
            let is_whole = (first + members) as usize <= self.sets.places.len();
            // A platter whose read failed is out of reach now, but may be in reach when another one
            // fails.
            let (needed, mut used) = match read.recovery {
                NONE => (self.information_of(first), 0_u64),
                // A platter of the recovery failed too: try one more.
                recovery => (1, self.recoveries.get_mut(recovery).used & !(1 << position)),
            };
            let mut others: Vec<(u64, u32)> = (0..members)
                .filter(|other| is_whole && used & 1 << other == 0)
                .filter_map(|other| Some((self.cost(RegionPlatter(first + other))?, other)))
                .collect();
            others.sort_unstable();
            if (others.len() as u32) < needed {
                self.open.get_mut(read.open).outcome = RegionOutcome::Unavailable;
                self.finish_read(read, ended);
                continue;
            }
            let chosen = &others[..needed as usize];
            used |= chosen.iter().fold(0, |mask, (_, other)| mask | 1 << other);
            let recovery = match read.recovery {
                NONE => {
                    self.recovered += 1;
                    self.recoveries.insert(Recovery { pending_reads: needed, used })
                }
                recovery => {
                    self.recoveries.get_mut(recovery).used = used;
                    recovery
                }
            };
            let open = self.open.get_mut(read.open);
            if open.outcome == RegionOutcome::Read {
                open.outcome = RegionOutcome::Recovered;
            }
            for (_, other) in chosen {
                self.issue_read(now, ShardRead { platter: RegionPlatter(first + other), recovery, ..read }, commands, ended);
            }
        }
    }

    /// The number of information platters of the set that begins with this platter.
    fn information_of(&self, first: u32) -> u32 {
        let SetShape { information, redundancy } = self.sets.shape;
        if !self.has_small_sets {
            return information.into();
        }
        let members = self.sets.places.iter().skip(first as usize).take(usize::from(self.sets.shape.platters()));
        let is_written = |(library, platter): &&(Library, Platter)| {
            self.controllers[usize::from(library.0)].panel().whereabouts(*platter) != Whereabouts::Unwritten
        };
        (members.filter(is_written).count() as u32).saturating_sub(redundancy.into()).max(1)
    }

    /// The cost of reading a platter; `None` if it is unreachable. Each platter that waits in its
    /// lane counts one. A platter in a drive, on a shuttle or in the queue is visited anyway; any
    /// other also costs its own visit, and those of the platters that wait before it.
    fn cost(&self, platter: RegionPlatter) -> Option<u64> {
        let (library, platter) = self.sets.places[platter.0 as usize];
        let panel = self.controllers[usize::from(library.0)].panel();
        if !panel.is_available(platter) {
            return None;
        }
        let is_due =
            panel.queue().requests_for(platter) > 0 || !matches!(panel.whereabouts(platter), Whereabouts::Berth(crate::Berth::Slot(_)));
        let waiting = u64::from(panel.queue().platters_in(panel.lane_at(panel.platter_position(platter))));
        Some(if is_due { waiting } else { waiting + VISIT_COST * (waiting + 1) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Found, Inventory, Layout, NoShuttles, Pace, Slot, Verification};

    /// One library without shuttles that holds two sets of 2+1 and answers each command at once.
    fn region() -> Region {
        let homes = (0..6).map(|index| Slot(index * 900)).collect();
        let inventory = Inventory { homes, written: 6, tracks: 100, verification: Verification::Off, ..Inventory::default() };
        let controller = Controller::new(Layout::default(), Pace::default(), &inventory, Box::new(NoShuttles));
        let places = (0..6).map(|index| (Library(0), Platter(index))).collect();
        Region::new(vec![controller], Sets { shape: SetShape { information: 2, redundancy: 1 }, places })
    }

    fn read(region: &mut Region, platter: u32) -> (RegionOutcome, Vec<u32>) {
        let (mut commands, mut ended, mut read) = (Vec::new(), Vec::new(), Vec::new());
        let shard = Shard { platter: RegionPlatter(platter), tracks: Tracks { first: 7, count: 2 } };
        region.request(Micros::ZERO, RequestId(1), &[shard], Micros::NEVER, &mut commands, &mut ended);
        while let Some((library, command)) = commands.pop() {
            let Command::Do { id, action } = command else { unreachable!("the region handles the ends of its reads itself") };
            if let crate::Action::Read { platter, tracks, .. } = action {
                assert_eq!(tracks, shard.tracks);
                read.push(platter.0);
            }
            region.step(Micros::ZERO, library, Event::Done { command: id }, &mut commands, &mut ended);
        }
        assert_eq!(ended.len(), 1, "every request ends once");
        read.sort_unstable();
        (ended[0].1, read)
    }

    fn lose(region: &mut Region, platter: u32) {
        region.step(Micros::ZERO, Library(0), Event::PlatterUnavailable { platter: Platter(platter) }, &mut Vec::new(), &mut Vec::new());
    }

    #[test]
    fn a_small_set_is_recovered_from_as_few_platters_as_it_needs() {
        let homes = (0..6).map(|index| Slot(index * 900)).collect();
        let unwritten = Found { platter: Platter(2), at: Whereabouts::Unwritten, verified: 0 };
        let found = vec![unwritten];
        let inventory = Inventory { homes, written: 6, tracks: 100, verification: Verification::Off, found, ..Inventory::default() };
        let controller = Controller::new(Layout::default(), Pace::default(), &inventory, Box::new(NoShuttles));
        let places = (0..6).map(|index| (Library(0), Platter(index))).collect();
        let mut region =
            Region::new(vec![controller], Sets { shape: SetShape { information: 2, redundancy: 1 }, places }).with_small_sets();
        lose(&mut region, 0);
        assert_eq!(read(&mut region, 0), (RegionOutcome::Recovered, vec![1]));
        // The other set is full.
        lose(&mut region, 3);
        assert_eq!(read(&mut region, 3), (RegionOutcome::Recovered, vec![4, 5]));
        lose(&mut region, 4);
        assert_eq!(read(&mut region, 3), (RegionOutcome::Unavailable, vec![]));
    }

    #[test]
    fn an_unreachable_platter_is_read_from_others_of_its_set() {
        let mut region = region();
        assert_eq!(read(&mut region, 4), (RegionOutcome::Read, vec![4]));
        lose(&mut region, 4);
        assert_eq!(read(&mut region, 4), (RegionOutcome::Recovered, vec![3, 5]));
        assert_eq!(read(&mut region, 3), (RegionOutcome::Read, vec![3]));
        lose(&mut region, 5);
        assert_eq!(read(&mut region, 4), (RegionOutcome::Unavailable, vec![]));
        assert_eq!(read(&mut region, 1), (RegionOutcome::Read, vec![1]));
        assert_eq!(region.recovered(), 1);
    }

    #[test]
    fn a_platter_that_fails_during_recovery_is_replaced_by_another() {
        let homes = (0..4).map(|index| Slot(index * 900)).collect();
        let inventory = Inventory { homes, written: 4, tracks: 100, verification: Verification::Off, ..Inventory::default() };
        let controller = Controller::new(Layout::default(), Pace::default(), &inventory, Box::new(NoShuttles));
        let places = (0..4).map(|index| (Library(0), Platter(index))).collect();
        let mut region = Region::new(vec![controller], Sets { shape: SetShape { information: 2, redundancy: 2 }, places });
        lose(&mut region, 0);
        let (mut commands, mut ended) = (Vec::new(), Vec::new());
        let shard = Shard { platter: RegionPlatter(0), tracks: Tracks { first: 0, count: 1 } };
        region.request(Micros::ZERO, RequestId(1), &[shard], Micros::NEVER, &mut commands, &mut ended);
        region.step(Micros::ZERO, Library(0), Event::PlatterUnavailable { platter: Platter(1) }, &mut commands, &mut ended);
        let mut read = Vec::new();
        while let Some((library, command)) = commands.pop() {
            let Command::Do { id, action } = command else { unreachable!("the region handles the ends of its reads itself") };
            if let crate::Action::Read { platter, .. } = action {
                read.push(platter.0);
            }
            region.step(Micros::ZERO, library, Event::Done { command: id }, &mut commands, &mut ended);
        }
        assert_eq!(ended, [(RequestId(1), RegionOutcome::Recovered)]);
        assert!(read.contains(&2) && read.contains(&3), "{read:?}");
    }

    #[test]
    fn a_platter_that_can_be_reached_again_is_read_for_a_recovery_that_it_failed() {
        let homes = (0..4).map(|index| Slot(index * 900)).collect();
        let inventory = Inventory { homes, written: 4, tracks: 100, verification: Verification::Off, ..Inventory::default() };
        let controller = Controller::new(Layout::default(), Pace::default(), &inventory, Box::new(NoShuttles));
        let places = (0..4).map(|index| (Library(0), Platter(index))).collect();
        let mut region = Region::new(vec![controller], Sets { shape: SetShape { information: 2, redundancy: 2 }, places });
        let (mut commands, mut ended) = (Vec::new(), Vec::new());
        let shard = Shard { platter: RegionPlatter(0), tracks: Tracks { first: 0, count: 1 } };
        // One platter after another fails before it is read, and all but the last return.
        for platter in 0..4 {
            region.step(Micros::ZERO, Library(0), Event::PlatterUnavailable { platter: Platter(platter) }, &mut commands, &mut ended);
            if platter == 0 {
                region.request(Micros::ZERO, RequestId(1), &[shard], Micros::NEVER, &mut commands, &mut ended);
            }
            if platter < 3 {
                region.step(Micros::ZERO, Library(0), Event::PlatterAvailable { platter: Platter(platter) }, &mut commands, &mut ended);
            }
        }
        while let Some((library, command)) = commands.pop() {
            let Command::Do { id, .. } = command else { unreachable!("the region handles the ends of its reads itself") };
            region.step(Micros::ZERO, library, Event::Done { command: id }, &mut commands, &mut ended);
        }
        assert_eq!(ended, [(RequestId(1), RegionOutcome::Recovered)]);
        assert_eq!(region.open_requests(), 0);
    }

    #[test]
    fn a_request_that_is_due_sooner_now_is_read_sooner() {
        // One drive works.
        let layout = Layout::default();
        let homes = vec![Slot(0), Slot(900), Slot(1800)];
        let inventory = Inventory { homes, written: 3, tracks: 100, verification: Verification::Off, ..Inventory::default() };
        let controller = Controller::new(layout, Pace::default(), &inventory, Box::new(NoShuttles));
        let drives = controller.panel().layout().drive_count();
        let places = (0..3).map(|index| (Library(0), Platter(index))).collect();
        let mut region = Region::new(vec![controller], Sets { shape: SetShape { information: 2, redundancy: 1 }, places });
        for drive in 1..drives {
            let event = Event::Lost { actor: crate::Actor::Drive(crate::Drive(drive)), fault: crate::Fault::DriveDown };
            region.step(Micros::ZERO, Library(0), event, &mut Vec::new(), &mut Vec::new());
        }
        let (mut commands, mut ended) = (Vec::new(), Vec::new());
        for (id, platter, track, deadline) in [(1, 0, 5, 900), (2, 1, 3, 500), (3, 2, 9, 600), (4, 1, 4, 800)] {
            let shard = Shard { platter: RegionPlatter(platter), tracks: Tracks { first: track, count: 1 } };
            region.request(Micros(id), RequestId(id), &[shard], Micros(deadline), &mut commands, &mut ended);
        }
        region.hasten(Micros(5), RequestId(3), Micros(100), &mut commands, &mut ended);
        region.hasten(Micros(5), RequestId(4), Micros(400), &mut commands, &mut ended);
        region.hasten(Micros(5), RequestId(2), Micros(999), &mut commands, &mut ended);
        region.hasten(Micros(5), RequestId(77), Micros(1), &mut commands, &mut ended);
        let mut order = Vec::new();
        while !commands.is_empty() {
            let (library, command) = commands.remove(0);
            let Command::Do { id, .. } = command else { unreachable!("the region handles the ends of its reads itself") };
            region.step(Micros(6), library, Event::Done { command: id }, &mut commands, &mut ended);
            order.extend(ended.drain(..).map(|(request, _)| request.0));
        }
        assert_eq!(order, [1, 3, 4, 2], "the first was in the drive when the others came");
    }

    #[test]
    fn unknown_platters_and_tracks_are_refused() {
        let mut region = region();
        assert_eq!(read(&mut region, 99).0, RegionOutcome::Refused);
        let (mut commands, mut ended) = (Vec::new(), Vec::new());
        let shard = Shard { platter: RegionPlatter(0), tracks: Tracks { first: 99, count: 2 } };
        region.request(Micros::ZERO, RequestId(1), &[shard], Micros::NEVER, &mut commands, &mut ended);
        assert_eq!(ended, [(RequestId(1), RegionOutcome::Refused)]);
    }
}
