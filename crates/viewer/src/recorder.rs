//! Watches a region at work, fact by fact, and keeps what can be seen in one library.

use std::collections::BTreeMap;

use fulgurite_domain::Micros;
use fulgurite_journal::Fact;
use fulgurite_library::{
    Action, Actor, Bay, Berth, Cell, Command, CommandId, Drive, Event, Fault, Lane, Layout, Library, Panel, Region, RegionOutcome,
    RequestId, Shuttle,
};

use crate::Recording;
use crate::entries::{Entries, millimetres, milliseconds, place};

/// What the page shows of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DriveShows {
    Idle = 0,
    Mounting = 1,
    Unmounting = 2,
    Switching = 3,
    Reading = 4,
    Verifying = 5,
    Down = 6,
}

/// Nothing, or no end, where an entry has a number.
const NONE: i64 = -1;
/// The port, where an entry has a drive.
const PORT: i64 = -2;
/// Kinds of a shuttle's work.
const PICK: i64 = 0;
const PLACE: i64 = 1;
const CHARGE: i64 = 2;

/// The drive of a berth, for entries of work.
fn drive_of(berth: Berth) -> i64 {
    match berth {
        Berth::Bay(Drive(drive), Bay(_)) => drive.into(),
        Berth::Slot(_) => NONE,
        Berth::Port => PORT,
    }
}

/// Records one library of a region.
#[derive(Debug, Clone)]
pub struct Recorder {
    library: Library,
    title: String,
    layout: Layout,
    now: Micros,
    /// Where each shuttle was before its first leg that is kept.
    starts: Vec<[i64; 2]>,
    entries: Entries,
    /// The command that each machine carries out.
    shuttles: Vec<Option<(CommandId, Action)>>,
    drives: Vec<Option<CommandId>>,
    /// When each open request arrived.
    open: BTreeMap<RequestId, Micros>,
    /// Platters that wait in each lane, and the unreachable cells.
    lanes: Vec<u32>,
    blocked: Vec<i64>,
}

impl Recorder {
    /// Starts a recording of a library of a region that has not received any event.
    ///
    /// # Panics
    /// If the region has no such library.
    #[must_use]
    pub fn new(mut title: String, region: &Region, library: Library) -> Self {
        let libraries = region.controllers().len();
        if libraries > 1 {
            title = format!("{title}: library {} of 0 to {}, with the requests of all", library.0, libraries - 1);
        }
        let panel = region.controllers()[usize::from(library.0)].panel();
        let layout = panel.layout().clone();
        let starts: Vec<_> = (0..layout.shuttles).map(|shuttle| place(panel.position(Shuttle(shuttle)))).collect();
        let mut entries = Entries::new(starts.len(), layout.drive_count().into());
        for (shuttle, shown) in (0..).map(Shuttle).zip(&mut entries.shuttles) {
            if let Some(platter) = panel.carried(shuttle) {
                shown.work.push(&[0, 0, PICK, platter.0.into(), NONE]);
            }
        }
        Self {
            library,
            title,
            now: Micros::ZERO,
            shuttles: vec![None; starts.len()],
            drives: vec![None; layout.drive_count().into()],
            starts,
            entries,
            open: BTreeMap::new(),
            lanes: vec![0; 2 * usize::from(layout.shelves)],
            blocked: Vec::new(),
            layout,
        }
    }

    /// Sees an input or an output, after the region has handled it. Outputs follow their input.
    pub fn see(&mut self, fact: &Fact, region: &Region) {
        self.see_live(fact, region, |_| None);
    }

    /// Like [`Recorder::see`]; `leg_end` tells when the leg that a shuttle has just begun should
    /// end, if that is known.
    pub fn see_live(&mut self, fact: &Fact, region: &Region, leg_end: impl Fn(Shuttle) -> Option<Micros>) {
        match fact {
            Fact::Requested { now, request, .. } => {
                self.now = *now;
                self.open.insert(*request, *now);
                self.entries.arrivals.push(&[milliseconds(*now)]);
                self.count_waiting(self.panel(region));
            }
            Fact::VerificationRequested { now, .. } | Fact::Hastened { now, .. } => {
                self.now = *now;
                self.count_waiting(self.panel(region));
            }
            Fact::Happened { now, library, event } => {
                self.now = *now;
                if *library == self.library {
                    self.happened(*event, self.panel(region));
                }
                self.count_waiting(self.panel(region));
            }
            Fact::Commanded { library, command: Command::Do { id, action } } if *library == self.library => {
                self.begin(*id, *action, leg_end)
            }
            Fact::Ended { request, outcome } => self.ended(*request, *outcome),
            Fact::Commanded { .. } | Fact::Digest { .. } | Fact::End { .. } => {}
        }
    }

    /// Ends the recording. What is still under way has no end.
    #[must_use]
    pub fn finish(self, until: Micros) -> Recording {
        // Without `take_new`, each request has an entry.
        self.recording(until, 0, self.entries.clone())
    }

    /// The library's present state, as a recording that goes on with [`Recorder::take_new`]. What
    /// was not taken before is forgotten.
    #[must_use]
    pub fn picture(&mut self, until: Micros) -> Recording {
        drop(self.take_new());
        let mut entries = self.entries.clone();
        let now = milliseconds(self.now);
        for (lane, waiting) in (0..).zip(&self.lanes).filter(|(_, waiting)| **waiting > 0) {
            entries.waiting.push(&[now, lane, (*waiting).into()]);
        }
        if !self.blocked.is_empty() {
            entries.blocked.push((now, self.blocked.clone()));
        }
        self.recording(until, self.open.len(), entries)
    }

    fn recording(&self, until: Micros, open: usize, entries: Entries) -> Recording {
        Recording {
            title: self.title.clone(),
            layout: self.layout.clone(),
            until: until.max(self.now),
            starts: self.starts.clone(),
            open,
            entries,
        }
    }

    /// The entries that are new or have changed since the last call. What is not needed to know the
    /// library's present state is forgotten.
    pub fn take_new(&mut self) -> Entries {
        self.entries.take_new(&mut self.starts)
    }

    fn panel<'r>(&self, region: &'r Region) -> &'r Panel {
        region.controllers()[usize::from(self.library.0)].panel()
    }

    fn happened(&mut self, event: Event, panel: &Panel) {
        match event {
            Event::Done { command } => self.done(command),
            Event::Interrupted { command, .. } => {
                // Whatever made it give way has begun already, as a rule.
                if let Actor::Drive(drive) = command.actor
                    && self.drives[usize::from(drive.0)].take_if(|running| *running == command).is_some()
                {
                    self.show(drive, DriveShows::Idle, NONE);
                }
            }
            Event::Failed { command, fault } => {
                self.lost(command.actor, fault, panel);
                self.update_blocked(panel);
            }
            Event::Lost { actor, fault } => {
                self.lost(actor, fault, panel);
                self.update_blocked(panel);
            }
            Event::Repaired { actor } => {
                match actor {
                    Actor::Drive(drive) => self.show(drive, DriveShows::Idle, NONE),
                    Actor::Shuttle(Shuttle(shuttle)) => {
                        let now = milliseconds(self.now);
                        if let Some(times) = self.entries.shuttles[usize::from(shuttle)].lost.last_mut().filter(|times| times[1] == NONE) {
                            times[1] = now;
                        }
                    }
                }
                self.update_blocked(panel);
            }
            Event::ReadRequested(_)
            | Event::ReadHastened { .. }
            | Event::VerificationRequested { .. }
            | Event::PlatterWritten { .. }
            | Event::PlatterUnavailable { .. }
            | Event::PlatterAvailable { .. }
            | Event::ChargeLow { .. }
            | Event::Woken => {}
        }
    }

    fn begin(&mut self, id: CommandId, action: Action, leg_end: impl Fn(Shuttle) -> Option<Micros>) {
        match id.actor {
            Actor::Shuttle(shuttle) => self.begin_shuttle(shuttle, id, action, leg_end(shuttle)),
            Actor::Drive(drive) => {
                self.drives[usize::from(drive.0)] = Some(id);
                let (shows, platter) = match action {
                    Action::Mount { platter, .. } => (DriveShows::Mounting, platter.0.into()),
                    Action::Unmount { platter, .. } => (DriveShows::Unmounting, platter.0.into()),
                    Action::Switch { .. } => (DriveShows::Switching, NONE),
                    Action::Read { platter, .. } => (DriveShows::Reading, platter.0.into()),
                    Action::Verify { platter, .. } => (DriveShows::Verifying, platter.0.into()),
                    Action::Move { .. } | Action::Pick { .. } | Action::Place { .. } | Action::Charge => return,
                };
                self.show(drive, shows, platter);
            }
        }
    }

    fn begin_shuttle(&mut self, shuttle: Shuttle, id: CommandId, action: Action, leg_end: Option<Micros>) {
        let number = usize::from(shuttle.0);
        let since = milliseconds(self.now);
        let shown = &mut self.entries.shuttles[number];
        match action {
            Action::Move { to } => {
                let until = leg_end.filter(|end| *end >= self.now).map_or(NONE, milliseconds);
                let [shelf, x] = place(to);
                shown.legs.push(&[since, until, shelf, x]);
            }
            Action::Pick { from, platter } => shown.work.push(&[since, NONE, PICK, platter.0.into(), drive_of(from)]),
            Action::Place { to, platter } => shown.work.push(&[since, NONE, PLACE, platter.0.into(), drive_of(to)]),
            Action::Charge => shown.work.push(&[since, NONE, CHARGE, NONE, NONE]),
            Action::Mount { .. } | Action::Unmount { .. } | Action::Switch { .. } | Action::Read { .. } | Action::Verify { .. } => return,
        }
        self.shuttles[number] = Some((id, action));
    }

    fn done(&mut self, command: CommandId) {
        match command.actor {
            Actor::Drive(drive) => {
                if self.drives[usize::from(drive.0)].take_if(|running| *running == command).is_some() {
                    self.show(drive, DriveShows::Idle, NONE);
                }
            }
            Actor::Shuttle(Shuttle(shuttle)) => {
                let Some((_, action)) = self.shuttles[usize::from(shuttle)].take_if(|(running, _)| *running == command) else { return };
                let now = milliseconds(self.now);
                let shown = &mut self.entries.shuttles[usize::from(shuttle)];
                let list = if matches!(action, Action::Move { .. }) { &mut shown.legs } else { &mut shown.work };
                list.end_last(now);
            }
        }
    }

    /// A machine has failed: a shuttle stands where it stopped.
    fn lost(&mut self, actor: Actor, fault: Fault, panel: &Panel) {
        let now = milliseconds(self.now);
        match (actor, fault) {
            (Actor::Drive(drive), _) => {
                self.drives[usize::from(drive.0)] = None;
                self.show(drive, DriveShows::Down, NONE);
            }
            (Actor::Shuttle(Shuttle(shuttle)), Fault::Stopped { x_um } | Fault::Collided { x_um, .. }) => {
                let running = self.shuttles[usize::from(shuttle)].take();
                let shown = &mut self.entries.shuttles[usize::from(shuttle)];
                let from = panel.position(Shuttle(shuttle));
                let stopped_x = millimetres(x_um);
                if let Some((_, Action::Move { to })) = running
                    && let Some(leg) = shown.legs.last_mut()
                {
                    leg[1..].copy_from_slice(&[now, i64::from(from.shelf) + i64::from(to.shelf), stopped_x]);
                } else {
                    shown.legs.push_or_replace(&[now, now, 2 * i64::from(from.shelf), stopped_x]);
                }
                shown.lost.push(&[now, NONE]);
            }
            (Actor::Shuttle(_), Fault::DriveDown) => {}
        }
    }

    /// Shows what a drive does from now on. The last of several changes at one instant is what can
    /// be seen.
    fn show(&mut self, drive: Drive, shows: DriveShows, platter: i64) {
        self.entries.drives[usize::from(drive.0)].push_or_replace(&[milliseconds(self.now), shows as i64, platter]);
    }

    fn ended(&mut self, request: RequestId, outcome: RegionOutcome) {
        let Some(arrived) = self.open.remove(&request) else { return };
        let outcome = match outcome {
            RegionOutcome::Read => 0,
            RegionOutcome::Recovered => 1,
            RegionOutcome::Unavailable | RegionOutcome::Refused => 2,
        };
        self.entries.ends.push(&[milliseconds(self.now), milliseconds(arrived), outcome]);
    }

    fn count_waiting(&mut self, panel: &Panel) {
        for (lane, known) in (0..).map(Lane).zip(&mut self.lanes) {
            let waiting = panel.queue().platters_in(lane);
            if std::mem::replace(known, waiting) != waiting {
                self.entries.waiting.push(&[milliseconds(self.now), lane.0.into(), waiting.into()]);
            }
        }
    }

    fn update_blocked(&mut self, panel: &Panel) {
        let layout = panel.layout();
        let cells = (0..layout.racks()).flat_map(|rack| (0..layout.shelves).map(move |shelf| Cell { rack, shelf }));
        self.blocked = cells.filter(|cell| panel.is_blocked(*cell)).flat_map(|cell| [cell.rack.into(), cell.shelf.into()]).collect();
        self.entries.blocked.push((milliseconds(self.now), self.blocked.clone()));
    }
}
