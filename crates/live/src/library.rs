//! A live library without its clock: the caller says what time it is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fulgurite_domain::Micros;
use fulgurite_journal::{Fact, Stock};
use fulgurite_library::{
    Action, Actor, Command, CommandId, Drive, Event, Layout, Library, Platter, Region, RegionOutcome, RegionPlatter, RequestId, Shard,
    Shuttle, Tracks, Whereabouts,
};
use fulgurite_mechanics::{Detection, Due, Lasting, Libraries, Mechanics, MotionLog, NotRepaired, Witness};
use fulgurite_viewer::{Entries, Recorder, Recording};

use crate::plan::{LIBRARY, Plan, breakdown};
use crate::view::{RequestView, View};

/// A drive has been told to read. It has the bytes only after [`LiveLibrary::bytes_read`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// The command.
    pub command: CommandId,
    /// The request that it is for.
    pub request: RequestId,
    /// The platter in the drive.
    pub platter: RegionPlatter,
    /// The tracks to read.
    pub tracks: Tracks,
    /// Whether it helps to recover another platter of the set, which is unreachable.
    pub is_recovery: bool,
}

/// A drive has been told to verify a platter whose verification was requested. It has the bytes
/// only after [`LiveLibrary::bytes_read`], or it is interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verify {
    /// The command.
    pub command: CommandId,
    /// The platter in the drive.
    pub platter: RegionPlatter,
    /// The tracks that are left to read.
    pub tracks: Tracks,
}

/// A request has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The request.
    pub request: RequestId,
    /// How it ended.
    pub outcome: RegionOutcome,
    /// Time from its arrival to its end.
    pub took: Micros,
}

/// What a library tells those outside. The calls come in between the library's steps, so they must
/// not wait for anything.
pub trait Outside {
    /// A drive has been told to read.
    fn read(&mut self, read: Read);
    /// A drive has been told to verify a platter whose verification was requested. Callers of
    /// [`LiveLibrary::verify`] implement this and [`Outside::interrupted`].
    fn verify(&mut self, verify: Verify) {
        let _ = verify;
    }
    /// A drive verifies no longer, although it has not read all tracks.
    fn interrupted(&mut self, verify: Verify) {
        let _ = verify;
    }
    /// A request has ended.
    fn ended(&mut self, ended: Ended);
    /// An input or output of the controllers, for the journal.
    fn fact(&mut self, fact: Fact);
    /// The controllers have done all that followed from a request or event.
    fn settled(&mut self, region: &Region) {
        let _ = region;
    }
}

/// A command names a machine that doesn't exist, or one that can't be repaired now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WrongMachine {
    /// There is no such machine.
    #[error("the library has no {}", name_of(*.0))]
    Unknown(Actor),
    /// It is out of order already.
    #[error("{} is out of order already", name_of(*.0))]
    OutOfOrder(Actor),
    /// It works, or its fault is not known yet.
    #[error("{} was not repaired: {why}", name_of(*.actor))]
    NotRepaired {
        /// The machine.
        actor: Actor,
        /// The reason.
        why: NotRepaired,
    },
}

/// "shuttle 3" or "drive 7".
pub(crate) fn name_of(actor: Actor) -> String {
    match actor {
        Actor::Shuttle(Shuttle(shuttle)) => format!("shuttle {shuttle}"),
        Actor::Drive(Drive(drive)) => format!("drive {drive}"),
    }
}

/// A library with its emulated machines, which log their motions, and its open requests.
pub struct LiveLibrary<L = ()> {
    plan: Arc<Plan>,
    libraries: Libraries<L>,
    now: Micros,
    /// Commands to read whose bytes the caller doesn't have yet, with the drive's answer if that
    /// was due before.
    awaited: BTreeMap<CommandId, Option<Due>>,
    /// Commands to read shards, until the drive has done so or has failed.
    reading: BTreeMap<CommandId, (RequestId, Shard)>,
    /// Commands to verify that requests wait for.
    verifying: BTreeMap<CommandId, Verify>,
    /// Open requests to verify, with their platters and arrivals.
    verifications: BTreeMap<RequestId, (RegionPlatter, Micros)>,
    open: BTreeMap<RequestId, Open>,
    /// Records what can be seen.
    recorder: Recorder,
    /// What has happened since the controllers settled last.
    facts: Vec<Fact>,
}

/// An open request.
struct Open {
    arrived: Micros,
    deadline: Micros,
    shards: Vec<Shard>,
    /// The shards that drives have read.
    read: BTreeSet<(RegionPlatter, Tracks)>,
}

impl LiveLibrary {
    /// Takes up the work of a library that is in the state `stock`, at time 0. `seed` is that of
    /// the emulated machines.
    ///
    /// # Panics
    /// If [`Plan::check`] rejects the stock.
    #[must_use]
    pub fn start(plan: Arc<Plan>, stock: &Stock, seed: u64, outside: &mut impl Outside) -> Self {
        Self::start_logged(plan, stock, seed, |_| (), outside)
    }
}

impl<L: MotionLog> LiveLibrary<L> {
    /// Like [`LiveLibrary::start`], with a motion log.
    ///
    /// # Panics
    /// If [`Plan::check`] rejects the stock.
    #[must_use]
    pub fn start_logged(plan: Arc<Plan>, stock: &Stock, seed: u64, log: impl FnMut(&Layout) -> L, outside: &mut impl Outside) -> Self {
        let mut libraries = plan.libraries(stock, seed, log, |_| ());
        let recorder = Recorder::new("library".to_owned(), libraries.region(), LIBRARY);
        libraries.start_machines();
        let mut library = Self {
            plan,
            libraries,
            now: Micros::ZERO,
            awaited: BTreeMap::new(),
            reading: BTreeMap::new(),
            verifying: BTreeMap::new(),
            verifications: BTreeMap::new(),
            open: BTreeMap::new(),
            recorder,
            facts: Vec::new(),
        };
        // The controller knows what is out of order before it moves anything: a shuttle that got a
        // command now would be recorded in another place with each restart.
        let down = stock.down.iter().map(|actor| (*actor, Lasting::UntilRepaired));
        let failed = stock.failed.iter().map(|actor| (*actor, Lasting::AsDrawn));
        for (actor, lasting) in down.chain(failed) {
            library.step(outside, |libraries, witness| libraries.start_out_of_order(LIBRARY, breakdown(actor), lasting, witness));
        }
        library.step(outside, |libraries, witness| libraries.deliver(Micros::ZERO, LIBRARY, Event::Woken, witness));
        library.advance(Micros(1), usize::MAX, outside);
        library
    }

    /// The instant up to which everything has happened.
    #[must_use]
    pub fn now(&self) -> Micros {
        self.now
    }

    /// When the next event is due.
    pub fn next_at(&mut self) -> Option<Micros> {
        self.libraries.next_at()
    }

    /// Lets everything happen that is due until then, but `events` at most. Returns true if that
    /// was all.
    pub fn advance(&mut self, until: Micros, events: usize, outside: &mut impl Outside) -> bool {
        for _ in 0..events {
            let Some((at, due)) = self.libraries.pop_until(until) else {
                self.now = self.now.max(until);
                return true;
            };
            self.now = at;
            if let Event::Done { command } = due.event
                && let Some(awaited) = self.awaited.get_mut(&command)
            {
                *awaited = Some(due);
                continue;
            }
            self.handle(at, due, outside);
        }
        false
    }

    fn handle(&mut self, at: Micros, mut due: Due, outside: &mut impl Outside) {
        self.note_verification(&mut due.event, outside);
        let read = match due.event {
            Event::Done { command } => self.reading.remove(&command),
            Event::Failed { command, .. } => {
                self.reading.remove(&command);
                None
            }
            _ => None,
        };
        if let Some((request, Shard { platter, tracks })) = read
            && let Some(open) = self.open.get_mut(&request)
        {
            open.read.insert((platter, tracks));
        }
        self.step(outside, |libraries, witness| libraries.handle(at, due, witness));
    }

    /// Closes a verification that ends. One that is interrupted before the caller has all of its
    /// bytes has a track left to read, even if the drive had time for all.
    fn note_verification(&mut self, event: &mut Event, outside: &mut impl Outside) {
        let (Event::Done { command } | Event::Interrupted { command, .. } | Event::Failed { command, .. }) = *event else { return };
        let Some(verify) = self.verifying.remove(&command) else { return };
        if let Event::Done { .. } = event {
            return;
        }
        if self.awaited.remove(&command).is_some() {
            if let Event::Interrupted { verified, .. } = event {
                *verified = (*verified).min(verify.tracks.count - 1);
            }
            outside.interrupted(verify);
        }
    }

    /// Starts a request. Its number must be that of no open request.
    pub fn request(&mut self, request: RequestId, shards: Vec<Shard>, deadline: Micros, outside: &mut impl Outside) {
        let now = self.now;
        let fact = Fact::Requested { now, request, deadline, shards: shards.clone() };
        outside.fact(fact.clone());
        self.facts.push(fact);
        let open = Open { arrived: now, deadline, shards: shards.clone(), read: BTreeSet::new() };
        self.open.insert(request, open);
        self.step(outside, |libraries, witness| libraries.request(now, request, &shards, deadline, witness));
    }

    /// Makes an open request due sooner. It keeps its age. Does nothing if it is due then anyway,
    /// or has ended.
    pub fn hasten(&mut self, request: RequestId, deadline: Micros, outside: &mut impl Outside) {
        let now = self.now;
        let Some(open) = self.open.get_mut(&request).filter(|open| deadline < open.deadline) else { return };
        open.deadline = deadline;
        let fact = Fact::Hastened { now, request, deadline };
        outside.fact(fact.clone());
        self.facts.push(fact);
        self.step(outside, |libraries, witness| libraries.hasten(now, request, deadline, witness));
    }

    /// Starts a request to read all tracks of a platter when drives have nothing else to do. Its
    /// number must be that of no open request.
    pub fn verify(&mut self, request: RequestId, platter: RegionPlatter, outside: &mut impl Outside) {
        let now = self.now;
        let fact = Fact::VerificationRequested { now, request, platter };
        outside.fact(fact.clone());
        self.facts.push(fact);
        self.verifications.insert(request, (platter, now));
        self.step(outside, |libraries, witness| libraries.verify(now, request, platter, witness));
    }

    /// A platter has left the write rack, and waits at the port to be verified and stored. Returns
    /// false if it is in the library already, or has no slot.
    pub fn take_in(&mut self, platter: RegionPlatter, outside: &mut impl Outside) -> bool {
        let platter = Platter(platter.0);
        let exists = (platter.0 as usize) < self.plan.homes().len();
        if !exists || self.region().controllers()[0].panel().whereabouts(platter) != Whereabouts::Unwritten {
            return false;
        }
        let due = Due { library: LIBRARY, event: Event::PlatterWritten { platter } };
        let now = self.now;
        self.step(outside, |libraries, witness| libraries.handle(now, due, witness));
        true
    }

    /// The caller has the bytes of a read or verification, or knows that it can't have them from
    /// this platter: the drive may go on.
    pub fn bytes_read(&mut self, command: CommandId, outside: &mut impl Outside) {
        let now = self.now;
        if let Some(Some(due)) = self.awaited.remove(&command) {
            self.handle(now, due, outside);
        }
    }

    /// Puts a machine out of order until it is repaired.
    ///
    /// # Errors
    /// [`WrongMachine`] if it doesn't exist or is out of order already.
    pub fn break_down(&mut self, actor: Actor) -> Result<(), WrongMachine> {
        if !self.plan.has(actor) {
            return Err(WrongMachine::Unknown(actor));
        }
        if self.libraries.mechanics()[0].outage(actor).is_some() {
            return Err(WrongMachine::OutOfOrder(actor));
        }
        self.libraries.break_down(self.now, LIBRARY, breakdown(actor), Lasting::UntilRepaired, Detection::Later);
        Ok(())
    }

    /// Repairs a machine.
    ///
    /// # Errors
    /// [`WrongMachine`] if it doesn't exist, works, or its fault was not detected yet.
    pub fn repair(&mut self, actor: Actor, outside: &mut impl Outside) -> Result<(), WrongMachine> {
        if !self.plan.has(actor) {
            return Err(WrongMachine::Unknown(actor));
        }
        let now = self.now;
        let repaired = self.step(outside, |libraries, witness| libraries.repair(now, LIBRARY, actor, witness));
        repaired.map_err(|why| WrongMachine::NotRepaired { actor, why })
    }

    /// Where everything is, so that another run can take up the work. `written` is the number of
    /// platters that have ever been taken in.
    #[must_use]
    pub fn stock(&self, written: u32) -> Stock {
        let layout = &self.plan.settings().layout;
        let (panel, machines) = (self.region().controllers()[0].panel(), &self.libraries.mechanics()[0]);
        let actors = (0..layout.shuttles).map(|shuttle| Actor::Shuttle(Shuttle(shuttle)));
        let actors = actors.chain((0..layout.drive_count()).map(|drive| Actor::Drive(Drive(drive))));
        let between = (0..layout.shuttles).map(Shuttle).filter_map(|shuttle| {
            let place = machines.footprint(shuttle, self.now);
            let is_stuck = place.low != place.high && machines.outage(Actor::Shuttle(shuttle)).is_some();
            is_stuck.then_some((shuttle, place.high))
        });
        let (mut down, mut failed) = (Vec::new(), Vec::new());
        for actor in actors {
            match machines.outage(actor) {
                Some(outage) if outage.needs_repair => down.push(actor),
                Some(_) => failed.push(actor),
                None => {}
            }
        }
        Stock {
            written,
            shuttles: (0..layout.shuttles).map(|shuttle| machines.resting_place(Shuttle(shuttle), self.now)).collect(),
            between: between.collect(),
            down,
            failed,
            found: panel.take_stock(written).collect(),
        }
    }

    /// What can be seen of the library now.
    #[must_use]
    pub fn view(&self, written: u32) -> View {
        let requests = self.open.iter().map(|(request, open)| {
            let waiting = open.shards.iter().copied().filter(|shard| !open.read.contains(&(shard.platter, shard.tracks)));
            let shards = waiting.collect();
            RequestView { request: *request, arrived: open.arrived, deadline: open.deadline, shards }
        });
        let reading = self.reading.values().map(|(_, shard)| shard.platter).collect();
        View::new(self.plan.clone(), self.now, self.stock(written), requests.collect(), &reading, &self.libraries)
    }

    /// What can be seen now, for a page that follows with [`LiveLibrary::take_motions`]. Motions
    /// that were not taken before are forgotten.
    #[must_use]
    pub fn picture(&mut self) -> Recording {
        self.recorder.picture(self.now)
    }

    /// What could be seen since the last call. It must be called now and then, or memory grows.
    pub fn take_motions(&mut self) -> Entries {
        self.recorder.take_new()
    }

    /// Requests that have not ended.
    #[must_use]
    pub fn open_requests(&self) -> usize {
        self.open.len() + self.verifications.len()
    }

    /// The controllers.
    #[must_use]
    pub fn region(&self) -> &Region {
        self.libraries.region()
    }

    /// The controllers and the machines.
    #[must_use]
    pub fn into_parts(self) -> (Region, Vec<Mechanics<L>>) {
        self.libraries.into_parts()
    }

    /// One step of the library, and what follows outside.
    fn step<T>(&mut self, outside: &mut impl Outside, step: impl FnOnce(&mut Libraries<L>, &mut Seen<'_>) -> T) -> T {
        let mut facts = |fact: Fact| {
            outside.fact(fact.clone());
            self.facts.push(fact);
        };
        let mut seen = Seen { facts: &mut facts, reads: Vec::new(), verifications: Vec::new(), ended: Vec::new() };
        let result = step(&mut self.libraries, &mut seen);
        let Seen { reads, verifications, ended, .. } = seen;
        let (region, machines) = (self.libraries.region(), &self.libraries.mechanics()[0]);
        for fact in self.facts.drain(..) {
            self.recorder.see_live(&fact, region, |shuttle| Some(machines.trajectory(shuttle).end()));
        }
        for (command, platter, tracks, read) in reads {
            let origin = self.libraries.region().origin(read).expect("a read has an origin until it has ended");
            self.awaited.insert(command, None);
            if !origin.is_recovery {
                self.reading.insert(command, (origin.request, Shard { platter: RegionPlatter(platter.0), tracks }));
            }
            let is_recovery = origin.is_recovery;
            outside.read(Read { command, request: origin.request, platter: RegionPlatter(platter.0), tracks, is_recovery });
        }
        for verify in verifications {
            if self.verifications.values().any(|(platter, _)| *platter == verify.platter) {
                self.awaited.insert(verify.command, None);
                self.verifying.insert(verify.command, verify);
                outside.verify(verify);
            }
        }
        for (request, outcome) in ended {
            let arrived = self.open.remove(&request).map(|open| open.arrived);
            let arrived = arrived.or_else(|| Some(self.verifications.remove(&request)?.1)).unwrap_or(self.now);
            outside.ended(Ended { request, outcome, took: self.now.since(arrived) });
        }
        outside.settled(self.libraries.region());
        result
    }
}

/// Collects what a step brings about.
struct Seen<'a> {
    facts: &'a mut dyn FnMut(Fact),
    reads: Vec<(CommandId, Platter, Tracks, RequestId)>,
    verifications: Vec<Verify>,
    ended: Vec<(RequestId, RegionOutcome)>,
}

impl Witness for Seen<'_> {
    fn event(&mut self, now: Micros, library: Library, event: &Event) {
        (self.facts)(Fact::Happened { now, library, event: *event });
    }

    fn command(&mut self, _: Micros, library: Library, command: &Command) {
        (self.facts)(Fact::Commanded { library, command: *command });
        match *command {
            Command::Do { id, action: Action::Read { platter, tracks, request, .. } } => self.reads.push((id, platter, tracks, request)),
            Command::Do { id, action: Action::Verify { platter, tracks } } => {
                self.verifications.push(Verify { command: id, platter: RegionPlatter(platter.0), tracks });
            }
            _ => {}
        }
    }

    fn ended(&mut self, _: Micros, request: RequestId, outcome: RegionOutcome) {
        (self.facts)(Fact::Ended { request, outcome });
        self.ended.push((request, outcome));
    }
}
