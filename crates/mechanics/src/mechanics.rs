//! All machines of a library as one state machine: commands in, events out, each event with its
//! instant.

use fulgurite_chance::Stream;
use fulgurite_domain::Micros;
use fulgurite_library::{Action, Actor, Bay, Berth, CommandId, Drive, Event, Fault, Layout, Platter, Position, Shuttle};

use crate::drive::DriveMachine;
use crate::health::{FaultTimes, Health, UndetectedFault};
use crate::inventory::Inventory;
use crate::shuttle::ShuttleMachine;
use crate::site::Site;
use crate::{Breakdown, DriveStatistics, Footprint, MotionLog, Settings, ShuttleStatistics, Trajectory, Whereabouts};

/// Why a machine was not repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotRepaired {
    /// It works.
    #[error("it works")]
    Works,
    /// Its fault was not detected yet.
    #[error("its fault was not detected yet")]
    Undetected,
}

/// When the controllers learn of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detection {
    /// After a random time, with the mean of the settings.
    Later,
    /// At once, as after a restart with a machine that was out of order before.
    AtOnce,
}

/// The fault of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
    /// Whether the controller knows of it.
    pub is_detected: bool,
    /// True if it lasts until [`Mechanics::repair`]; false if it ends after a drawn time.
    pub needs_repair: bool,
}

/// How long a fault lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lasting {
    /// As long as a drawn repair takes.
    AsDrawn,
    /// Until [`Mechanics::repair`].
    UntilRepaired,
}

/// The emulated shuttles and drives of one library.
///
/// Its driver keeps a queue of instants and events:
/// ```text
///   put, set_start_position; then start -> queue
///   a command of the controller    -> begin -> queue
///   next of the queue              -> due: false, drop it; true, pass it to the controller, and begin its commands
/// ```
/// Every command is answered exactly once, by an event for which [`due`](Self::due) returns true.
#[derive(Debug, Clone)]
pub struct Mechanics<L = ()> {
    site: Site,
    shuttles: Vec<ShuttleMachine>,
    drives: Vec<DriveMachine>,
    fault_stream: Stream,
    log: L,
}

impl Mechanics<()> {
    /// Machines at rest in an empty library, for [checked](Settings::check) settings. The same seed
    /// draws the same times. Shuttles start at [`Mechanics::home`].
    #[must_use]
    pub fn new(layout: Layout, settings: Settings, seed: u64) -> Self {
        Self::with_log(layout, settings, seed, ())
    }
}

impl<L: MotionLog> Mechanics<L> {
    /// Like [`Mechanics::new`], with a log of every leg of every shuttle.
    #[must_use]
    pub fn with_log(layout: Layout, settings: Settings, seed: u64, log: L) -> Self {
        let track_s = settings.drive.track_bytes as f64 / settings.drive.throughput_bytes_s;
        let clamps = vec![[None; 2]; layout.drive_count().into()];
        let inventory = Inventory::new(&layout);
        let site = Site { layout, settings, inventory, clamps, track_s };
        let shuttles = (0..site.layout.shuttles).map(Shuttle);
        let shuttles = shuttles.map(|shuttle| ShuttleMachine::new(shuttle, home(&site.layout, shuttle), &site, seed)).collect();
        let drives = (0..site.layout.drive_count()).map(|drive| DriveMachine::new(Drive(drive), seed)).collect();
        Self { site, shuttles, drives, fault_stream: Stream::new(seed, "detection and repair"), log }
    }

    /// Default start position of a shuttle: shuttles are assigned to the shelves in turn and spread
    /// evenly along each.
    #[must_use]
    pub fn home(&self, shuttle: Shuttle) -> Position {
        home(&self.site.layout, shuttle)
    }

    /// Puts a platter into a berth from outside: at the start of a run, or at [`Berth::Port`] when
    /// it leaves the write rack.
    ///
    /// # Panics
    /// If the berth is occupied or doesn't exist, or the platter is already in the library.
    pub fn put(&mut self, platter: Platter, berth: Berth) {
        assert!(self.site.has(berth), "programming error: platter {} is put into {berth:?}, which doesn't exist", platter.0);
        let whereabouts = self.whereabouts(platter);
        let good = self.site.inventory.put(platter, berth);
        assert!(good, "programming error: platter {} is put into {berth:?}, which is taken, or the platter is {whereabouts:?}", platter.0);
    }

    /// Puts a platter onto a shuttle: one that was carried when the library stopped.
    ///
    /// # Panics
    /// If the shuttle carries another, or the platter is already in the library.
    pub fn load(&mut self, platter: Platter, shuttle: Shuttle) {
        let good = self.site.inventory.load(platter, shuttle);
        assert!(good, "programming error: platter {} can't be on shuttle {}", platter.0, shuttle.0);
    }

    /// Sets the start position of a shuttle. Only before [`Mechanics::start`].
    pub fn set_start_position(&mut self, shuttle: Shuttle, position: Position) {
        self.set_start_footprint(shuttle, Footprint::level(position));
    }

    /// Sets where a shuttle is at the start; between two shelves, it has to be out of order. Only
    /// before [`Mechanics::start`].
    pub fn set_start_footprint(&mut self, shuttle: Shuttle, footprint: Footprint) {
        self.shuttles[usize::from(shuttle.0)].trajectory = Trajectory::stationary(Micros::ZERO, footprint);
    }

    /// Starts a run at time 0: appends the known events that happen without a command.
    /// [`Mechanics::due`] appends what follows from them.
    pub fn start(&mut self, answers: &mut Vec<(Micros, Event)>) {
        for shuttle in &mut self.shuttles {
            self.log.leg(shuttle.shuttle, &shuttle.trajectory);
            shuttle.schedule_low_warning(Micros::ZERO, &self.site, answers);
        }
        for drive in &mut self.drives {
            drive.schedule_breakdown(Micros::ZERO, &self.site, answers);
        }
        for planned in &self.site.settings.faults.planned {
            // These events are internal and not reported: they trigger the fault, whose details are
            // determined when it strikes.
            let (actor, fault) = internal_fault(planned.what);
            answers.push((planned.at, Event::Lost { actor, fault }));
        }
    }

    /// Begins a command: appends its answer with the instant at which it is due. The answer may be
    /// preceded by an [`Event::Interrupted`], due now, for a verification that gives way.
    ///
    /// # Panics
    /// If the command is impossible: a bug of the controller, described by the message.
    pub fn begin(&mut self, now: Micros, id: CommandId, action: Action, answers: &mut Vec<(Micros, Event)>) {
        match id.actor {
            Actor::Shuttle(Shuttle(shuttle)) => {
                self.shuttles[usize::from(shuttle)].begin(now, id, action, &self.site, &mut self.log, answers);
            }
            Actor::Drive(Drive(drive)) => self.drives[usize::from(drive)].begin(now, id, action, &mut self.site, answers),
        }
    }

    /// Handles a due event and appends the events that follow from it. Returns true if the
    /// controller must receive it; false if it has become void or only concerns the mechanics.
    /// Events from other sources are always passed on.
    ///
    /// # Panics
    /// If a command turns out to have been impossible: a bug of the controller, described by the
    /// message.
    pub fn due(&mut self, now: Micros, event: &Event, answers: &mut Vec<(Micros, Event)>) -> bool {
        match *event {
            Event::Done { command } => match command.actor {
                Actor::Shuttle(Shuttle(shuttle)) => self.shuttles[usize::from(shuttle)].done(now, command, &mut self.site, answers),
                Actor::Drive(Drive(drive)) => self.drives[usize::from(drive)].done(now, command, &mut self.site),
            },
            Event::Failed { command, .. } => self.health(command.actor).reports_fault(now, event),
            Event::Lost { actor, fault } => {
                if self.health(actor).reports_fault(now, event) {
                    return true;
                }
                self.handle_fault(now, actor, fault, answers);
                false
            }
            Event::Repaired { actor } => {
                // Void if a command has repaired the machine since.
                let is_due = *self.health(actor) == Health::Down { repaired_at: now };
                if is_due {
                    self.make_work(now, actor, answers);
                }
                is_due
            }
            Event::ChargeLow { shuttle } => self.shuttles[usize::from(shuttle.0)].handle_low_warning(now, &self.site, answers),
            _ => true,
        }
    }

    /// A fault strikes now. It has no effect on a machine that is already out of order.
    pub fn break_down(&mut self, now: Micros, what: Breakdown, lasting: Lasting, detection: Detection, answers: &mut Vec<(Micros, Event)>) {
        let (actor, fault) = internal_fault(what);
        self.strike(now, actor, fault, (lasting, detection), answers);
    }

    /// Repairs a machine whose fault was detected. The controller must then receive
    /// [`Event::Repaired`].
    ///
    /// # Errors
    /// [`NotRepaired`] if there is no such fault.
    pub fn repair(&mut self, now: Micros, actor: Actor, answers: &mut Vec<(Micros, Event)>) -> Result<(), NotRepaired> {
        match self.health(actor) {
            Health::Healthy => Err(NotRepaired::Works),
            Health::UndetectedFault(_) => Err(NotRepaired::Undetected),
            Health::Down { .. } => {
                self.make_work(now, actor, answers);
                Ok(())
            }
        }
    }

    fn make_work(&mut self, now: Micros, actor: Actor, answers: &mut Vec<(Micros, Event)>) {
        match actor {
            Actor::Shuttle(Shuttle(shuttle)) => self.shuttles[usize::from(shuttle)].repair(now, &self.site, answers),
            Actor::Drive(Drive(drive)) => self.drives[usize::from(drive)].repair(now, &mut self.site),
        }
    }

    /// The fault of a machine, detected or not; `None` if it works.
    #[must_use]
    pub fn outage(&self, actor: Actor) -> Option<Outage> {
        let health = match actor {
            Actor::Shuttle(Shuttle(shuttle)) => &self.shuttles[usize::from(shuttle)].health,
            Actor::Drive(Drive(drive)) => &self.drives[usize::from(drive)].health,
        };
        let (is_detected, repaired_at) = match *health {
            Health::Healthy => return None,
            Health::UndetectedFault(UndetectedFault { repaired_at, .. }) => (false, repaired_at),
            Health::Down { repaired_at } => (true, repaired_at),
        };
        Some(Outage { is_detected, needs_repair: repaired_at == Micros::NEVER })
    }

    fn health(&mut self, actor: Actor) -> &mut Health {
        match actor {
            Actor::Shuttle(Shuttle(shuttle)) => &mut self.shuttles[usize::from(shuttle)].health,
            Actor::Drive(Drive(drive)) => &mut self.drives[usize::from(drive)].health,
        }
    }

    fn handle_fault(&mut self, now: Micros, actor: Actor, fault: Fault, answers: &mut Vec<(Micros, Event)>) {
        if let Actor::Drive(Drive(drive)) = actor {
            let drive = &mut self.drives[usize::from(drive)];
            if drive.next_breakdown == now {
                drive.schedule_breakdown(now, &self.site, answers);
            }
        }
        self.strike(now, actor, fault, (Lasting::AsDrawn, Detection::Later), answers);
    }

    fn strike(
        &mut self,
        now: Micros,
        actor: Actor,
        fault: Fault,
        (lasting, detection): (Lasting, Detection),
        answers: &mut Vec<(Micros, Event)>,
    ) {
        if *self.health(actor) != Health::Healthy {
            return;
        }
        let detected_at = match detection {
            Detection::AtOnce => now,
            Detection::Later => now + Micros::from_seconds(self.fault_stream.exponential(self.site.settings.faults.detection_s)),
        };
        match actor {
            Actor::Drive(Drive(drive)) => {
                let fault_times = self.draw_fault_times(detected_at, lasting);
                self.drives[usize::from(drive)].apply_fault(now, fault_times, &self.site, answers);
            }
            Actor::Shuttle(shuttle) => {
                let other = if let Fault::Collided { .. } = fault { self.nearest(now, shuttle) } else { None };
                self.stop_shuttle(now, shuttle, other, (detected_at, lasting), answers);
                if let Some(other) = other {
                    self.stop_shuttle(now, other, Some(shuttle), (detected_at, lasting), answers);
                }
            }
        }
    }

    fn stop_shuttle(
        &mut self,
        now: Micros,
        shuttle: Shuttle,
        with: Option<Shuttle>,
        (detected_at, lasting): (Micros, Lasting),
        answers: &mut Vec<(Micros, Event)>,
    ) {
        let fault_times = self.draw_fault_times(detected_at, lasting);
        self.shuttles[usize::from(shuttle.0)].apply_fault(now, with, fault_times, &self.site, &mut self.log, answers);
    }

    fn draw_fault_times(&mut self, detected_at: Micros, lasting: Lasting) -> FaultTimes {
        if lasting == Lasting::UntilRepaired {
            return FaultTimes { detected_at, repaired_at: Micros::NEVER };
        }
        let repair = Micros::from_seconds(self.fault_stream.exponential(self.site.settings.faults.repair_s));
        // The fault is always reported before the repair.
        FaultTimes { detected_at, repaired_at: detected_at + repair.max(Micros(1)) }
    }

    /// The nearest working shuttle: on the same shelf if possible, otherwise on the nearest one.
    fn nearest(&self, now: Micros, shuttle: Shuttle) -> Option<Shuttle> {
        let place = self.shuttles[usize::from(shuttle.0)].trajectory.position_at(now);
        let others = self.shuttles.iter().filter(|other| other.shuttle != shuttle && other.health == Health::Healthy);
        let nearest = others.min_by_key(|other| {
            let there = other.trajectory.position_at(now);
            let shelves = there.low.saturating_sub(place.high).max(place.low.saturating_sub(there.high));
            (shelves, (there.x_um - place.x_um).abs())
        });
        nearest.map(|other| other.shuttle)
    }

    /// The layout of the library.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.site.layout
    }

    /// The settings of the machines.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.site.settings
    }

    /// The place of a platter.
    #[must_use]
    pub fn whereabouts(&self, platter: Platter) -> Whereabouts {
        self.site.inventory.whereabouts(platter)
    }

    /// The platter that a shuttle carries.
    #[must_use]
    pub fn carried(&self, shuttle: Shuttle) -> Option<Platter> {
        self.site.inventory.carried(shuttle)
    }

    /// The current or last leg of a shuttle.
    #[must_use]
    pub fn trajectory(&self, shuttle: Shuttle) -> &Trajectory {
        &self.shuttles[usize::from(shuttle.0)].trajectory
    }

    /// Where a shuttle comes to rest if it stops now: between two shelves, on the lower one.
    #[must_use]
    pub fn resting_place(&self, shuttle: Shuttle, now: Micros) -> Position {
        let place = self.footprint(shuttle, now);
        Position { shelf: place.low, x_um: place.x_um }
    }

    /// Where a shuttle is.
    #[must_use]
    pub fn footprint(&self, shuttle: Shuttle, now: Micros) -> Footprint {
        self.trajectory(shuttle).position_at(now)
    }

    /// Charge of a shuttle's battery at its last event, in joules; infinite without a battery.
    #[must_use]
    pub fn charge_j(&self, shuttle: Shuttle) -> f64 {
        self.shuttles[usize::from(shuttle.0)].charge_j()
    }

    /// The bay that a drive's head faces; initially bay 0.
    #[must_use]
    pub fn facing(&self, drive: Drive) -> Bay {
        self.drives[usize::from(drive.0)].facing
    }

    /// The platter that is mounted in a bay.
    #[must_use]
    pub fn mounted(&self, drive: Drive, bay: Bay) -> Option<Platter> {
        self.site.clamped(drive, bay)
    }

    /// Statistics of a shuttle up to now.
    #[must_use]
    pub fn shuttle_statistics(&self, shuttle: Shuttle, now: Micros) -> ShuttleStatistics {
        self.shuttles[usize::from(shuttle.0)].statistics(now, &self.site)
    }

    /// Statistics of a drive up to now.
    #[must_use]
    pub fn drive_statistics(&self, drive: Drive, now: Micros) -> DriveStatistics {
        self.drives[usize::from(drive.0)].statistics(now, &self.site)
    }

    /// Counts the platters in the library and verifies that each is in exactly one place. Visits
    /// all platters, so it is for checks, not for every event.
    ///
    /// # Panics
    /// If a platter is in two places or in none: a bug of this crate.
    #[must_use]
    pub fn count_platters(&self) -> usize {
        self.site.inventory.check()
    }

    /// The motion log.
    #[must_use]
    pub fn log(&self) -> &L {
        &self.log
    }

    /// The motion log, mutable.
    pub fn log_mut(&mut self) -> &mut L {
        &mut self.log
    }
}

/// The internal event with which a fault strikes. Its details are determined then.
fn internal_fault(what: Breakdown) -> (Actor, Fault) {
    match what {
        Breakdown::ShuttleStops(shuttle) => (Actor::Shuttle(shuttle), Fault::Stopped { x_um: 0 }),
        Breakdown::Collision(shuttle) => (Actor::Shuttle(shuttle), Fault::Collided { with: shuttle, x_um: 0 }),
        Breakdown::DriveDown(drive) => (Actor::Drive(drive), Fault::DriveDown),
    }
}

fn home(layout: &Layout, shuttle: Shuttle) -> Position {
    let shelves = u16::from(layout.shelves);
    let (row, shelf) = (shuttle.0 / shelves, shuttle.0 % shelves);
    let rows = layout.shuttles.div_ceil(shelves).max(1);
    let x_um = layout.width_um() * i64::from(2 * row + 1) / i64::from(2 * rows);
    Position { shelf: shelf as u8, x_um }
}
