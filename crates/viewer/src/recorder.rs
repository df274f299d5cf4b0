//! Watches a region at work, fact by fact, and keeps what can be seen in one library.

use std::collections::BTreeMap;

use fulgurite_domain::Micros;
use fulgurite_journal::Fact;
use fulgurite_library::{
    Action, Actor, Bay, Berth, Cell, Command, CommandId, Drive, Event, Fault, Lane, Library, Panel, Region, RegionOutcome, RequestId,
    Shuttle,
};

use crate::Recording;
use crate::recording::{ShuttleTrack, millimetres, milliseconds, place};

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

/// The drive of a berth, for entries of work.
fn drive_of(berth: Berth) -> i64 {
    match berth {
        Berth::Bay(Drive(drive), Bay(_)) => drive.into(),
        Berth::Slot(_) => NONE,
        Berth::Port => PORT,
    }
}

/// Makes the [`Recording`] of one library of a region.
#[derive(Debug, Clone)]
pub struct Recorder {
    library: Library,
    recording: Recording,
    now: Micros,
    /// The command that each machine carries out, and when it began.
    shuttles: Vec<Option<(CommandId, Micros, Action)>>,
    drives: Vec<Option<CommandId>>,
    /// Where each open request is in the list.
    open: BTreeMap<u64, usize>,
    lanes: Vec<u32>,
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
        let shuttles =
            (0..layout.shuttles).map(|shuttle| ShuttleTrack { start: place(panel.position(Shuttle(shuttle))), ..ShuttleTrack::default() });
        let recording = Recording {
            title,
            until: Micros::ZERO,
            shuttles: shuttles.collect(),
            drives: vec![Vec::new(); layout.drive_count().into()],
            waiting: Vec::new(),
            blocked: Vec::new(),
            requests: Vec::new(),
            layout,
        };
        Self {
            library,
            now: Micros::ZERO,
            shuttles: vec![None; recording.shuttles.len()],
            drives: vec![None; recording.drives.len()],
            open: BTreeMap::new(),
            lanes: vec![0; 2 * usize::from(recording.layout.shelves)],
            recording,
        }
    }

    /// Sees an input or an output, after the region has handled it. Outputs follow their input.
    pub fn see(&mut self, fact: &Fact, region: &Region) {
        match fact {
            Fact::Requested { now, request, .. } => {
                self.now = *now;
                self.open.insert(request.0, self.recording.requests.len());
                self.recording.requests.extend([milliseconds(*now), NONE, 0]);
                self.count_waiting(self.panel(region));
            }
            Fact::Happened { now, library, event } => {
                self.now = *now;
                if *library == self.library {
                    self.happened(*event, self.panel(region));
                }
                self.count_waiting(self.panel(region));
            }
            Fact::Commanded { library, command: Command::Do { id, action } } if *library == self.library => self.begin(*id, *action),
            Fact::Ended { request, outcome } => self.ended(*request, *outcome),
            Fact::Commanded { .. } | Fact::Digest { .. } | Fact::End { .. } => {}
        }
    }

    /// Ends the recording. What is still under way has no end.
    #[must_use]
    pub fn finish(mut self, until: Micros) -> Recording {
        for shuttle in 0..self.shuttles.len() {
            if let Some((_, since, action)) = self.shuttles[shuttle].take() {
                self.add_action(shuttle as u16, milliseconds(since), NONE, action);
            }
        }
        self.recording.until = until.max(self.now);
        self.recording
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
                        if let Some(end) = self.recording.shuttles[usize::from(shuttle)].lost.last_mut().filter(|end| **end == NONE) {
                            *end = now;
                        }
                    }
                }
                self.update_blocked(panel);
            }
            Event::ReadRequested(_)
            | Event::PlatterWritten { .. }
            | Event::PlatterUnavailable { .. }
            | Event::PlatterAvailable { .. }
            | Event::ChargeLow { .. }
            | Event::Woken => {}
        }
    }

    fn begin(&mut self, id: CommandId, action: Action) {
        match id.actor {
            Actor::Shuttle(Shuttle(shuttle)) => self.shuttles[usize::from(shuttle)] = Some((id, self.now, action)),
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

    fn done(&mut self, command: CommandId) {
        match command.actor {
            Actor::Drive(drive) => {
                if self.drives[usize::from(drive.0)].take_if(|running| *running == command).is_some() {
                    self.show(drive, DriveShows::Idle, NONE);
                }
            }
            Actor::Shuttle(Shuttle(shuttle)) => {
                let Some((_, since, action)) = self.shuttles[usize::from(shuttle)].take_if(|(running, ..)| *running == command) else {
                    return;
                };
                self.add_action(shuttle, milliseconds(since), milliseconds(self.now), action);
            }
        }
    }

    /// Adds what a shuttle did; `until` is -1 if it had not ended.
    fn add_action(&mut self, shuttle: u16, since: i64, until: i64, action: Action) {
        let track = &mut self.recording.shuttles[usize::from(shuttle)];
        match action {
            Action::Move { to } => {
                let [shelf, x] = place(to);
                track.legs.extend([since, until, shelf, x]);
            }
            Action::Pick { from, platter } => track.work.extend([since, until, 0, platter.0.into(), drive_of(from)]),
            Action::Place { to, platter } => track.work.extend([since, until, 1, platter.0.into(), drive_of(to)]),
            Action::Charge => track.work.extend([since, until, 2, NONE, NONE]),
            Action::Mount { .. } | Action::Unmount { .. } | Action::Switch { .. } | Action::Read { .. } | Action::Verify { .. } => {}
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
                let track = &mut self.recording.shuttles[usize::from(shuttle)];
                let from = panel.position(Shuttle(shuttle));
                let (since, shelf) = match running {
                    Some((_, since, Action::Move { to })) => (since, i64::from(from.shelf) + i64::from(to.shelf)),
                    Some((_, since, _)) => (since, 2 * i64::from(from.shelf)),
                    None => (self.now, 2 * i64::from(from.shelf)),
                };
                track.legs.extend([milliseconds(since), now, shelf, millimetres(x_um)]);
                track.lost.extend([now, NONE]);
            }
            (Actor::Shuttle(_), Fault::DriveDown) => {}
        }
    }

    /// Shows what a drive does from now on.
    fn show(&mut self, drive: Drive, shows: DriveShows, platter: i64) {
        let entries = &mut self.recording.drives[usize::from(drive.0)];
        let now = milliseconds(self.now);
        // The last of several changes at one instant is what can be seen.
        if entries.len() >= 3 && entries[entries.len() - 3] == now {
            entries.truncate(entries.len() - 3);
        }
        entries.extend([now, shows as i64, platter]);
    }

    fn ended(&mut self, request: RequestId, outcome: RegionOutcome) {
        let Some(at) = self.open.remove(&request.0) else { return };
        self.recording.requests[at + 1] = milliseconds(self.now);
        self.recording.requests[at + 2] = match outcome {
            RegionOutcome::Read => 0,
            RegionOutcome::Recovered => 1,
            RegionOutcome::Unavailable | RegionOutcome::Refused => 2,
        };
    }

    fn count_waiting(&mut self, panel: &Panel) {
        for (lane, known) in (0..).map(Lane).zip(&mut self.lanes) {
            let waiting = panel.queue().platters_in(lane);
            if std::mem::replace(known, waiting) != waiting {
                self.recording.waiting.extend([milliseconds(self.now), lane.0.into(), waiting.into()]);
            }
        }
    }

    fn update_blocked(&mut self, panel: &Panel) {
        let layout = panel.layout();
        let cells = (0..layout.racks()).flat_map(|rack| (0..layout.shelves).map(move |shelf| Cell { rack, shelf }));
        let blocked = cells.filter(|cell| panel.is_blocked(*cell)).flat_map(|cell| [cell.rack.into(), cell.shelf.into()]).collect();
        self.recording.blocked.push((milliseconds(self.now), blocked));
    }
}
