//! A shuttle: its position, its commands and its energy use.

use fulgurite_chance::Stream;
use fulgurite_domain::Micros;
use fulgurite_library::{Action, Actor, Berth, CommandId, Event, Fault, Platter, Position, Shuttle, Side};

use crate::health::{FaultTimes, Health};
use crate::site::{Site, impossible};
use crate::{Energy, Footprint, MotionLog, Profile, ShuttleState, ShuttleStatistics, Trajectory};

#[derive(Debug, Clone)]
pub(crate) struct ShuttleMachine {
    pub(crate) shuttle: Shuttle,
    pub(crate) trajectory: Trajectory,
    pub(crate) health: Health,
    running: Option<(CommandId, Action)>,
    state: ShuttleState,
    /// End of the accounted time and idle power.
    since: Micros,
    charge_j: f64,
    low_warning: LowBatteryWarning,
    /// Low-battery warnings that are not yet due.
    pending_warnings: u8,
    /// Seconds of motion until the shuttle is worn out and stops.
    motion_left_s: f64,
    crabbing: Stream,
    handling: Stream,
    wear: Stream,
    statistics: ShuttleStatistics,
}

/// Low-battery warnings since the battery was last full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LowBatteryWarning {
    None,
    /// The next due warning is valid.
    Due,
    Reported,
}

/// What a command takes from its beginning to its end.
struct Effort {
    /// The shuttle's state meanwhile.
    state: ShuttleState,
    seconds: f64,
    /// Energy spent after the beginning, in addition to idle power.
    joules_later: f64,
}

impl ShuttleMachine {
    pub(crate) fn new(shuttle: Shuttle, at: Position, site: &Site, seed: u64) -> Self {
        let number = shuttle.0.into();
        let mut wear = Stream::numbered(seed, "shuttle wear", number);
        Self {
            shuttle,
            trajectory: Trajectory::stationary(Micros::ZERO, Footprint::level(at)),
            health: Health::Healthy,
            running: None,
            state: ShuttleState::Idle,
            since: Micros::ZERO,
            charge_j: site.settings.battery.as_ref().map_or(f64::INFINITY, |battery| battery.capacity_j),
            low_warning: LowBatteryWarning::None,
            pending_warnings: 0,
            motion_left_s: lifetime_s(&mut wear, site),
            crabbing: Stream::numbered(seed, "crabbing", number),
            handling: Stream::numbered(seed, "handling", number),
            wear,
            statistics: ShuttleStatistics::default(),
        }
    }

    fn actor(&self) -> Actor {
        Actor::Shuttle(self.shuttle)
    }

    /// Schedules a warning for the instant at which the battery would be low if the shuttle stayed
    /// idle. If a command makes it low earlier, that is detected at the end of the command.
    pub(crate) fn schedule_low_warning(&mut self, now: Micros, site: &Site, answers: &mut Vec<(Micros, Event)>) {
        let Some(battery) = &site.settings.battery else { return };
        let idle_w = site.settings.power.idle_w;
        if self.pending_warnings == 0 && idle_w > 0.0 {
            self.pending_warnings = 1;
            let left_s = (self.charge_j - battery.low_j).max(0.0) / idle_w;
            answers.push((now + Micros::from_seconds(left_s).max(Micros(1)), Event::ChargeLow { shuttle: self.shuttle }));
        }
    }

    pub(crate) fn begin<L: MotionLog>(
        &mut self,
        now: Micros,
        id: CommandId,
        action: Action,
        site: &Site,
        log: &mut L,
        answers: &mut Vec<(Micros, Event)>,
    ) {
        match &mut self.health {
            Health::Down { .. } => impossible(now, id, action, format_args!("its failure was already reported")),
            Health::UndetectedFault(undetected) => {
                if let Some(busy) = undetected.failed_command() {
                    impossible(now, id, action, format_args!("command {} has not been answered", busy.number));
                }
                return Health::fail_command(undetected, id, false, answers);
            }
            Health::Healthy => {}
        }
        if let Some((busy, _)) = self.running {
            impossible(now, id, action, format_args!("command {} has not been answered", busy.number));
        }
        self.account(now, site);
        let Effort { state, seconds, joules_later } = match action {
            Action::Move { to } => self.begin_move(now, id, action, to, site, log),
            Action::Pick { from, platter } => self.begin_pick(now, id, action, (from, platter), site),
            Action::Place { to, platter } => self.begin_place(now, id, action, (to, platter), site),
            Action::Charge => self.begin_charge(now, id, action, site),
            Action::Mount { .. } | Action::Unmount { .. } | Action::Switch { .. } | Action::Read { .. } | Action::Verify { .. } => {
                impossible(now, id, action, format_args!("that is a drive's work"))
            }
        };
        self.state = state;
        self.running = Some((id, action));
        answers.push((now + Micros::from_seconds(seconds), Event::Done { command: id }));
        if let Some(after_s) = self.stops_after(seconds, joules_later, site) {
            let fault = Fault::Stopped { x_um: 0 };
            answers.push((now + Micros::from_seconds(after_s), Event::Lost { actor: self.actor(), fault }));
        }
    }

    fn begin_move<L: MotionLog>(&mut self, now: Micros, id: CommandId, action: Action, to: Position, site: &Site, log: &mut L) -> Effort {
        let settings = &site.settings;
        self.start_leg(now, id, action, to, site);
        log.leg(self.shuttle, &self.trajectory);
        match self.trajectory.profile {
            Profile::Crab { seconds } => {
                self.spend(Energy::Crab, settings.power.crab_j);
                Effort { state: ShuttleState::Crabbing, seconds, joules_later: 0.0 }
            }
            Profile::Stationary | Profile::Rail { .. } => {
                let peak = self.trajectory.peak_m_s();
                self.spend(Energy::Kinetic, 0.5 * settings.power.mass_kg * peak * peak);
                let drag_j = self.metres_at(self.trajectory.to.x_um) * settings.power.drag_j_m;
                let seconds = self.trajectory.seconds() + settings.motion.positioning_s;
                Effort { state: ShuttleState::Moving, seconds, joules_later: drag_j }
            }
        }
    }

    fn begin_pick(&mut self, now: Micros, id: CommandId, action: Action, (from, platter): (Berth, Platter), site: &Site) -> Effort {
        self.check_is_at(now, id, action, from, site);
        if site.is_clamped(from) {
            impossible(now, id, action, format_args!("it is mounted"));
        }
        if let Some(carried) = site.inventory.carried(self.shuttle) {
            impossible(now, id, action, format_args!("it carries platter {}", carried.0));
        }
        match site.inventory.at(from) {
            Some(found) if found == platter => {}
            Some(other) => impossible(now, id, action, format_args!("platter {} is there", other.0)),
            None => impossible(now, id, action, format_args!("nothing is there")),
        }
        self.spend(Energy::Handling, site.settings.power.handling_j);
        Effort { state: ShuttleState::Picking, seconds: self.handling_s(site.settings.motion.pick_s, site), joules_later: 0.0 }
    }

    fn begin_place(&mut self, now: Micros, id: CommandId, action: Action, (to, platter): (Berth, Platter), site: &Site) -> Effort {
        self.check_is_at(now, id, action, to, site);
        if site.inventory.carried(self.shuttle) != Some(platter) {
            impossible(now, id, action, format_args!("it carries {:?}", site.inventory.carried(self.shuttle)));
        }
        if to == Berth::Port {
            impossible(now, id, action, format_args!("a written platter never comes back to a write drive"));
        }
        if let Some(other) = site.inventory.at(to) {
            impossible(now, id, action, format_args!("platter {} is there", other.0));
        }
        self.spend(Energy::Handling, site.settings.power.handling_j);
        Effort { state: ShuttleState::Placing, seconds: self.handling_s(site.settings.motion.place_s, site), joules_later: 0.0 }
    }

    fn begin_charge(&self, now: Micros, id: CommandId, action: Action, site: &Site) -> Effort {
        let place = self.trajectory.to;
        let docks = [Side::Left, Side::Right].map(|side| Footprint::level(site.layout.dock_position(place.low, side)));
        if !docks.contains(&place) {
            impossible(now, id, action, format_args!("it is at {place:?}, which is not a dock"));
        }
        let seconds = site.settings.battery.as_ref().map_or(0.0, |battery| (battery.capacity_j - self.charge_j) / battery.charging_w);
        Effort { state: ShuttleState::Charging, seconds, joules_later: 0.0 }
    }

    fn start_leg(&mut self, now: Micros, id: CommandId, action: Action, to: Position, site: &Site) {
        let from = self.trajectory.to;
        let target = Footprint::level(to);
        if !(0..=site.layout.width_um()).contains(&to.x_um) || to.shelf >= site.layout.shelves {
            impossible(now, id, action, format_args!("that is outside the panel"));
        }
        let neighbours = to.shelf.abs_diff(from.low).max(to.shelf.abs_diff(from.high)) == 1;
        self.trajectory = if from.position().is_some_and(|from| from.shelf == to.shelf) {
            Trajectory::along(now, from, target, &site.settings.motion)
        } else if neighbours && to.x_um == from.x_um {
            let motion = &site.settings.motion;
            Trajectory::crab(now, from, target, motion.crab_s + motion.crab_spread_s * self.crabbing.beta_2_2())
        } else {
            impossible(now, id, action, format_args!("it is at {from:?}: neither on that shelf nor on a neighbouring one at the same x"))
        };
    }

    fn check_is_at(&self, now: Micros, id: CommandId, action: Action, berth: Berth, site: &Site) {
        if !site.has(berth) {
            impossible(now, id, action, format_args!("the berth doesn't exist"));
        }
        let (place, berth) = (self.trajectory.to, Footprint::level(site.layout.berth_position(berth)));
        if place != berth {
            impossible(now, id, action, format_args!("it is at {place:?}, but the berth is at {berth:?}"));
        }
    }

    fn handling_s(&mut self, mean_s: f64, site: &Site) -> f64 {
        let deviation = self.handling.normal().clamp(-4.0, 4.0) * site.settings.motion.handling_sd_s;
        (mean_s + deviation).max(0.0)
    }

    /// Seconds until the shuttle stops within the given time because it is worn out or its battery
    /// is empty; `None` if it doesn't. `joules` are used in addition to idle power during that
    /// time.
    fn stops_after(&mut self, seconds: f64, joules: f64, site: &Site) -> Option<f64> {
        let mut stops = f64::INFINITY;
        if matches!(self.state, ShuttleState::Moving | ShuttleState::Crabbing) {
            if self.motion_left_s < seconds {
                stops = self.motion_left_s;
                self.motion_left_s = lifetime_s(&mut self.wear, site);
            } else {
                self.motion_left_s -= seconds;
            }
        }
        if self.state != ShuttleState::Charging {
            let needed_j = joules + site.settings.power.idle_w * seconds;
            if self.charge_j < needed_j {
                let share = if needed_j > 0.0 { self.charge_j.max(0.0) / needed_j } else { 0.0 };
                stops = stops.min(seconds * share);
            }
        }
        stops.is_finite().then_some(stops)
    }

    /// Completes a command. Returns false if it isn't running.
    pub(crate) fn done(&mut self, now: Micros, command: CommandId, site: &mut Site, answers: &mut Vec<(Micros, Event)>) -> bool {
        let Some((id, action)) = self.running.filter(|(id, _)| *id == command) else { return false };
        self.running = None;
        self.account(now, site);
        match action {
            Action::Move { .. } => self.arrive(self.trajectory.to.x_um, site),
            Action::Pick { from, platter } => {
                if site.is_clamped(from) {
                    impossible(now, id, action, format_args!("the drive has since mounted it"));
                }
                if !site.inventory.pick(self.shuttle, from, platter) {
                    impossible(now, id, action, format_args!("it is no longer there"));
                }
                self.statistics.picks += 1;
            }
            Action::Place { to, platter } => {
                if !site.inventory.place(self.shuttle, to, platter) {
                    impossible(now, id, action, format_args!("another platter is there now"));
                }
                self.statistics.places += 1;
            }
            _ => {
                self.fill_battery(site);
                self.schedule_low_warning(now, site, answers);
                self.statistics.charges += 1;
            }
        }
        self.state = ShuttleState::Idle;
        if self.low_warning == LowBatteryWarning::None && self.is_low(site) {
            self.low_warning = LowBatteryWarning::Due;
            self.pending_warnings += 1;
            answers.push((now, Event::ChargeLow { shuttle: self.shuttle }));
        }
        true
    }

    /// Handles a due warning. Returns false if the battery isn't low or that was already reported.
    pub(crate) fn handle_low_warning(&mut self, now: Micros, site: &Site, answers: &mut Vec<(Micros, Event)>) -> bool {
        self.account(now, site);
        self.pending_warnings = self.pending_warnings.saturating_sub(1);
        if self.health != Health::Healthy {
            // The repair takes care of the battery and schedules the next warning.
            self.low_warning = LowBatteryWarning::None;
            return false;
        }
        match self.low_warning {
            LowBatteryWarning::Reported => false,
            LowBatteryWarning::Due => {
                self.low_warning = LowBatteryWarning::Reported;
                true
            }
            LowBatteryWarning::None if self.state != ShuttleState::Charging && self.is_low(site) => {
                self.low_warning = LowBatteryWarning::Reported;
                true
            }
            LowBatteryWarning::None => {
                self.schedule_low_warning(now, site, answers);
                false
            }
        }
    }

    fn is_low(&self, site: &Site) -> bool {
        // Energy used within a microsecond must not invalidate a warning.
        site.settings.battery.as_ref().is_some_and(|battery| self.charge_j <= battery.low_j + site.settings.power.idle_w * 1e-6)
    }

    fn fill_battery(&mut self, site: &Site) {
        self.charge_j = site.settings.battery.as_ref().map_or(f64::INFINITY, |battery| battery.capacity_j);
        self.low_warning = LowBatteryWarning::None;
    }

    /// A fault strikes: the shuttle stops where it is, and its command has no effect.
    pub(crate) fn apply_fault<L: MotionLog>(
        &mut self,
        now: Micros,
        with: Option<Shuttle>,
        fault_times: FaultTimes,
        site: &Site,
        log: &mut L,
        answers: &mut Vec<(Micros, Event)>,
    ) {
        self.account(now, site);
        let place = self.trajectory.position_at(now);
        if let Some((_, Action::Move { .. })) = self.running {
            self.arrive(place.x_um, site);
        }
        self.trajectory = Trajectory::stationary(now, place);
        log.leg(self.shuttle, &self.trajectory);
        let x_um = place.x_um;
        let fault = with.map_or(Fault::Stopped { x_um }, |with| Fault::Collided { with, x_um });
        let command = self.running.take().map(|(id, _)| id);
        self.health.apply_fault(self.actor(), command, fault, fault_times, answers);
        self.state = ShuttleState::Lost;
        self.statistics.losses += 1;
    }

    /// The repaired shuttle works again; a battery that was low is full.
    pub(crate) fn repair(&mut self, now: Micros, site: &Site, answers: &mut Vec<(Micros, Event)>) {
        self.account(now, site);
        self.health = Health::Healthy;
        self.state = ShuttleState::Idle;
        if self.is_low(site) {
            self.fill_battery(site);
        }
        self.schedule_low_warning(now, site, answers);
    }

    /// Accounts for a leg that ended, at its target or before.
    fn arrive(&mut self, x_um: i64, site: &Site) {
        if let Profile::Crab { .. } = self.trajectory.profile {
            self.statistics.crabs += 1;
            return;
        }
        let metres = self.metres_at(x_um);
        self.statistics.moves += 1;
        self.statistics.metres += metres;
        self.spend(Energy::Drag, metres * site.settings.power.drag_j_m);
    }

    fn metres_at(&self, x_um: i64) -> f64 {
        (x_um - self.trajectory.from.x_um).unsigned_abs() as f64 * 1e-6
    }

    fn spend(&mut self, energy: Energy, joules: f64) {
        self.statistics.joules[energy as usize] += joules;
        self.charge_j -= joules;
    }

    fn account(&mut self, now: Micros, site: &Site) {
        let passed = now - self.since;
        self.since = now;
        self.statistics.time[self.state as usize] += passed;
        let joules = site.settings.power.idle_w * passed.seconds();
        self.statistics.joules[Energy::Idle as usize] += joules;
        // At a dock, the dock supplies the idle power. The charge never falls below zero; a shuttle
        // whose motion overdrew the battery has already stopped.
        match &site.settings.battery {
            Some(battery) if self.state == ShuttleState::Charging => {
                self.charge_j = (self.charge_j + battery.charging_w * passed.seconds()).min(battery.capacity_j);
            }
            _ => self.charge_j = (self.charge_j - joules).max(0.0),
        }
    }

    pub(crate) fn statistics(&self, now: Micros, site: &Site) -> ShuttleStatistics {
        let mut statistics = self.statistics;
        let passed = now.since(self.since);
        statistics.time[self.state as usize] += passed;
        statistics.joules[Energy::Idle as usize] += site.settings.power.idle_w * passed.seconds();
        statistics
    }

    pub(crate) fn charge_j(&self) -> f64 {
        self.charge_j
    }
}

fn lifetime_s(wear: &mut Stream, site: &Site) -> f64 {
    let hours = site.settings.faults.shuttle_hours;
    if hours.is_finite() { wear.exponential(hours * 3600.0) } else { f64::INFINITY }
}
