//! A read drive: two bays, each with a clamp, and one head that faces one of them.
//!
//! ```text
//!            door
//!    bay 0 [ platter ] <---- head: reads what is mounted in the bay it is turned to
//!    bay 1 [ platter ]        `Switch` turns it
//! ```

use fulgurite_chance::Stream;
use fulgurite_domain::Micros;
use fulgurite_library::{Action, Actor, Bay, Berth, CommandId, Drive, Event, Fault, Platter};

use crate::health::{FaultTimes, Health};
use crate::site::{Site, impossible};
use crate::{DriveState, DriveStatistics, Service, Whereabouts};

#[derive(Debug, Clone)]
pub(crate) struct DriveMachine {
    pub(crate) drive: Drive,
    pub(crate) health: Health,
    pub(crate) facing: Bay,
    /// Instant of the next random fault.
    pub(crate) next_breakdown: Micros,
    running: Option<Running>,
    state: DriveState,
    /// End of the accounted time.
    since: Micros,
    /// The platter under the head and the track after the last one read, until another command
    /// moves the head.
    head: Option<(Platter, u32)>,
    /// Slots to which platters return that were mounted without a shuttle.
    homes: [Option<Berth>; 2],
    seeking: Stream,
    service: Stream,
    wear: Stream,
    statistics: DriveStatistics,
}

#[derive(Debug, Clone, Copy)]
struct Running {
    id: CommandId,
    action: Action,
    start: Micros,
    /// End of a read's seek; for other actions, the start.
    seek_end: Micros,
}

impl DriveMachine {
    pub(crate) fn new(drive: Drive, seed: u64) -> Self {
        let number = drive.0.into();
        Self {
            drive,
            health: Health::Healthy,
            facing: Bay(0),
            next_breakdown: Micros::NEVER,
            running: None,
            state: DriveState::Idle,
            since: Micros::ZERO,
            head: None,
            homes: [None; 2],
            seeking: Stream::numbered(seed, "seeking", number),
            service: Stream::numbered(seed, "service", number),
            wear: Stream::numbered(seed, "drive wear", number),
            statistics: DriveStatistics::default(),
        }
    }

    fn actor(&self) -> Actor {
        Actor::Drive(self.drive)
    }

    /// Draws the instant of the next random fault. Faults during a failure have no effect, which
    /// keeps the intervals exponential.
    pub(crate) fn schedule_breakdown(&mut self, now: Micros, site: &Site, answers: &mut Vec<(Micros, Event)>) {
        let hours = site.settings.faults.drive_hours;
        if hours.is_finite() {
            self.next_breakdown = now + Micros::from_seconds(self.wear.exponential(hours * 3600.0)).max(Micros(1));
            answers.push((self.next_breakdown, Event::Lost { actor: self.actor(), fault: Fault::DriveDown }));
        }
    }

    pub(crate) fn begin(&mut self, now: Micros, id: CommandId, action: Action, site: &mut Site, answers: &mut Vec<(Micros, Event)>) {
        let verifying = matches!(action, Action::Verify { .. });
        match &mut self.health {
            Health::Down { .. } => impossible(now, id, action, format_args!("its failure was already reported")),
            Health::UndetectedFault(undetected) => {
                match (undetected.failed_command(), undetected.verified) {
                    (Some(command), Some(verified)) => answers.push((now, Event::Interrupted { command, verified })),
                    (Some(busy), None) => impossible(now, id, action, format_args!("command {} has not been answered", busy.number)),
                    (None, _) => {}
                }
                return Health::fail_command(undetected, id, verifying, answers);
            }
            Health::Healthy => {}
        }
        self.account(now);
        if let Some(running) = self.running.take() {
            let Some(verified) = running.verified(now, site) else {
                impossible(now, id, action, format_args!("command {} has not been answered", running.id.number));
            };
            self.statistics.tracks_verified += u64::from(verified);
            self.statistics.interruptions += 1;
            answers.push((now, Event::Interrupted { command: running.id, verified }));
        }
        let times = &site.settings.drive;
        let mut seek_end = now;
        let (state, seconds) = match action {
            Action::Mount { bay, platter } => {
                let seconds = times.mount_s;
                self.prepare_mount(now, id, action, bay, platter, site);
                (DriveState::Mounting, seconds)
            }
            Action::Unmount { bay, platter } => {
                self.check_bay(now, id, action, bay);
                if site.clamped(self.drive, bay) != Some(platter) {
                    impossible(now, id, action, format_args!("{:?} is mounted there", site.clamped(self.drive, bay)));
                }
                (DriveState::Unmounting, times.unmount_s)
            }
            Action::Switch { to } => {
                self.check_bay(now, id, action, to);
                (DriveState::Switching, times.switch_s)
            }
            Action::Read { platter, tracks, adjacent, .. } => {
                self.check_under_head(now, id, action, platter, tracks.count, site);
                if adjacent && self.head != Some((platter, tracks.first)) {
                    impossible(now, id, action, format_args!("the head is at {:?}", self.head));
                }
                let (seek_s, read_s) = match times.service {
                    Service::Tracks if adjacent => (0.0, site.read_s(tracks.count)),
                    Service::Tracks => {
                        let seek_s = self.seeking.lognormal(times.seek_median_s, times.seek_sigma).min(times.seek_max_s);
                        (seek_s, site.read_s(tracks.count))
                    }
                    Service::Fixed(seconds) => (0.0, seconds),
                    Service::Exponential(mean_s) => (0.0, self.service.exponential(mean_s)),
                };
                seek_end = now + Micros::from_seconds(seek_s);
                (DriveState::Reading, seek_s + read_s)
            }
            Action::Verify { platter, tracks } => {
                self.check_under_head(now, id, action, platter, tracks.count, site);
                (DriveState::Verifying, site.read_s(tracks.count))
            }
            Action::Move { .. } | Action::Pick { .. } | Action::Place { .. } | Action::Charge => {
                impossible(now, id, action, format_args!("that is a shuttle's work"))
            }
        };
        self.head = None;
        self.state = if seek_end > now { DriveState::Seeking } else { state };
        self.running = Some(Running { id, action, start: now, seek_end });
        answers.push((now + Micros::from_seconds(seconds), Event::Done { command: id }));
    }

    fn check_bay(&self, now: Micros, id: CommandId, action: Action, bay: Bay) {
        if bay.0 > 1 {
            impossible(now, id, action, format_args!("a drive has two bays, 0 and 1"));
        }
    }

    /// Checks that the platter is in the bay. Without shuttles, it first moves there from its slot.
    fn prepare_mount(&mut self, now: Micros, id: CommandId, action: Action, bay: Bay, platter: Platter, site: &mut Site) {
        self.check_bay(now, id, action, bay);
        if let Some(clamped) = site.clamped(self.drive, bay) {
            impossible(now, id, action, format_args!("platter {} is mounted there", clamped.0));
        }
        let berth = Berth::Bay(self.drive, bay);
        if site.settings.no_shuttles
            && let Whereabouts::At(home @ Berth::Slot(_)) = site.inventory.whereabouts(platter)
            && site.inventory.move_instantly(platter, home, berth)
        {
            self.homes[usize::from(bay.0)] = Some(home);
        }
        if site.inventory.at(berth) != Some(platter) {
            impossible(now, id, action, format_args!("{:?} is in that bay", site.inventory.at(berth)));
        }
    }

    fn check_under_head(&self, now: Micros, id: CommandId, action: Action, platter: Platter, count: u32, site: &Site) {
        let clamped = site.clamped(self.drive, self.facing);
        if clamped != Some(platter) {
            impossible(now, id, action, format_args!("the head is turned to bay {}, and {clamped:?} is mounted there", self.facing.0));
        }
        if count == 0 {
            impossible(now, id, action, format_args!("there are no tracks to read"));
        }
    }

    /// Completes a command. Returns false if it isn't running.
    pub(crate) fn done(&mut self, now: Micros, command: CommandId, site: &mut Site) -> bool {
        let Some(running) = self.running.filter(|running| running.id == command) else { return false };
        self.account(now);
        self.running = None;
        self.state = DriveState::Idle;
        match running.action {
            Action::Mount { bay, platter } => {
                site.clamp(self.drive, bay, Some(platter));
                self.statistics.mounts += 1;
            }
            Action::Unmount { bay, .. } => {
                site.clamp(self.drive, bay, None);
                self.send_home(bay, site);
                self.statistics.unmounts += 1;
            }
            Action::Switch { to } => {
                self.facing = to;
                self.statistics.switches += 1;
            }
            Action::Read { platter, tracks, adjacent, .. } => {
                self.head = Some((platter, tracks.end()));
                self.statistics.reads += 1;
                self.statistics.adjacent_reads += u64::from(adjacent);
                self.statistics.tracks_read += u64::from(tracks.count);
            }
            Action::Verify { tracks, .. } => self.statistics.tracks_verified += u64::from(tracks.count),
            _ => unreachable!("a drive began a shuttle's work"),
        }
        true
    }

    /// A fault strikes: platters in the drive stay there, clamped if they were.
    pub(crate) fn apply_fault(&mut self, now: Micros, fault_times: FaultTimes, site: &Site, answers: &mut Vec<(Micros, Event)>) {
        self.account(now);
        let running = self.running.take();
        let verified = running.and_then(|running| running.verified(now, site));
        self.statistics.tracks_verified += u64::from(verified.unwrap_or(0));
        self.health.apply_fault(self.actor(), running.map(|running| running.id), Fault::DriveDown, fault_times, answers);
        if let Health::UndetectedFault(undetected) = &mut self.health {
            undetected.verified = verified;
        }
        self.state = DriveState::Failed;
        self.head = None;
        self.statistics.failures += 1;
    }

    /// The repaired drive works again; its platters are still there, unmounted. Those mounted
    /// without a shuttle return to their slots.
    pub(crate) fn repair(&mut self, now: Micros, site: &mut Site) {
        self.account(now);
        self.health = Health::Healthy;
        self.state = DriveState::Idle;
        for bay in [Bay(0), Bay(1)] {
            site.clamp(self.drive, bay, None);
            self.send_home(bay, site);
        }
    }

    /// Returns a platter that was mounted without a shuttle to its slot.
    fn send_home(&mut self, bay: Bay, site: &mut Site) {
        let berth = Berth::Bay(self.drive, bay);
        if let (Some(home), Some(platter)) = (self.homes[usize::from(bay.0)].take(), site.inventory.at(berth)) {
            assert!(site.inventory.move_instantly(platter, berth, home), "platter {} has lost its slot to another one", platter.0);
        }
    }

    fn account(&mut self, now: Micros) {
        let (time, state) = self.time_until(now);
        self.since = now;
        self.statistics.time = time;
        self.state = state;
    }

    /// The time in each state up to now, and the current state. A read has two states, seeking and
    /// reading.
    fn time_until(&self, now: Micros) -> ([Micros; 8], DriveState) {
        let mut time = self.statistics.time;
        let (mut since, mut state) = (self.since, self.state);
        if state == DriveState::Seeking
            && let Some(Running { seek_end, .. }) = self.running
            && seek_end <= now
        {
            time[DriveState::Seeking as usize] += seek_end.since(since);
            since = seek_end;
            state = DriveState::Reading;
        }
        time[state as usize] += now.since(since);
        (time, state)
    }

    /// The sums up to now. An endless verification may go on for the whole measured interval, so
    /// the tracks that it has verified count before it ends.
    pub(crate) fn statistics(&self, now: Micros, site: &Site) -> DriveStatistics {
        let under_way = self.running.and_then(|running| running.verified(now, site)).unwrap_or(0);
        let tracks_verified = self.statistics.tracks_verified + u64::from(under_way);
        DriveStatistics { time: self.time_until(now).0, tracks_verified, ..self.statistics }
    }
}

impl Running {
    /// Number of tracks fully verified by now, if this is a verification.
    fn verified(&self, now: Micros, site: &Site) -> Option<u32> {
        let Action::Verify { tracks, .. } = self.action else { return None };
        // Half a microsecond compensates for rounding of the instant at which a track ends.
        let read = ((now - self.start).seconds() + 0.5e-6) / site.read_s(1);
        Some((read as u32).min(tracks.count))
    }
}
