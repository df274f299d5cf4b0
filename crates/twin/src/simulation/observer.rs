//! Observers of a run: see all inputs and outputs of the controllers.

use fulgurite_domain::Micros;
use fulgurite_library::{Command, Drive, Event, Library, Region, RegionOutcome, RequestId, Shard, Shuttle};
use fulgurite_mechanics::{DriveState, Mechanics, MotionLog, ShuttleState};

/// A request for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// Number of the request, from 0 in order of arrival.
    pub id: RequestId,
    /// Arrival time.
    pub at: Micros,
    /// The shards that it reads.
    pub shards: &'a [Shard],
    /// Bytes of the file.
    pub bytes: u64,
    /// When its last byte is wanted; [`Micros::NEVER`] if it isn't urgent.
    pub deadline: Micros,
    /// True if it arrived in the measured interval.
    pub is_measured: bool,
}

/// A request that ended, with its bytes (still as images) or without them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The request.
    pub id: RequestId,
    /// Arrival time.
    pub arrived: Micros,
    /// Time at which it ended: its last byte left the library, or it was given up.
    pub at: Micros,
    /// Bytes of the file.
    pub bytes: u64,
    /// When its last byte is wanted, decoded; the deadline of the decode service.
    pub deadline: Micros,
    /// Its outcome.
    pub outcome: RegionOutcome,
    /// True if it arrived in the measured interval.
    pub is_measured: bool,
}

/// The time that all drives, and all shuttles, have spent in each state: so far, or in an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Activity {
    drives: [Micros; 8],
    shuttles: [Micros; 7],
}

impl Activity {
    /// Adds the time of a drive by [`DriveState`].
    pub fn add_drive(&mut self, time: &[Micros; 8]) {
        self.drives = added(&self.drives, time);
    }

    /// Adds the time of a shuttle by [`ShuttleState`].
    pub fn add_shuttle(&mut self, time: &[Micros; 7]) {
        self.shuttles = added(&self.shuttles, time);
    }

    /// Time of all drives in a state.
    #[must_use]
    pub fn drives_in(&self, state: DriveState) -> Micros {
        self.drives[state as usize]
    }

    /// Time of all shuttles in a state.
    #[must_use]
    pub fn shuttles_in(&self, state: ShuttleState) -> Micros {
        self.shuttles[state as usize]
    }

    /// Time of all drives.
    #[must_use]
    pub fn of_drives(&self) -> Micros {
        Micros(self.drives.iter().map(|time| time.0).sum())
    }

    /// Time of all shuttles.
    #[must_use]
    pub fn of_shuttles(&self) -> Micros {
        Micros(self.shuttles.iter().map(|time| time.0).sum())
    }

    /// The difference from earlier activity of the same machines.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            drives: std::array::from_fn(|state| self.drives[state] - earlier.drives[state]),
            shuttles: std::array::from_fn(|state| self.shuttles[state] - earlier.shuttles[state]),
        }
    }

    /// The sum of two intervals.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self { drives: added(&self.drives, &other.drives), shuttles: added(&self.shuttles, &other.shuttles) }
    }
}

fn added<const N: usize>(one: &[Micros; N], other: &[Micros; N]) -> [Micros; N] {
    std::array::from_fn(|state| one[state] + other[state])
}

/// The state of a run at an instant, before anything happens at it.
#[derive(Clone, Copy)]
pub struct Sample<'a> {
    /// The instant.
    pub at: Micros,
    /// The controllers.
    pub region: &'a Region,
    /// What the machines of all libraries have done so far.
    pub activity: Activity,
}

impl<'a> Sample<'a> {
    pub(super) fn of<L: MotionLog>(at: Micros, region: &'a Region, mechanics: &[Mechanics<L>]) -> Self {
        let mut activity = Activity::default();
        for machines in mechanics {
            let layout = machines.layout();
            (0..layout.drive_count()).for_each(|drive| activity.add_drive(&machines.drive_statistics(Drive(drive), at).time));
            (0..layout.shuttles).for_each(|shuttle| activity.add_shuttle(&machines.shuttle_statistics(Shuttle(shuttle), at).time));
        }
        Self { at, region, activity }
    }

    /// Number of platters queued to be fetched, in all libraries.
    #[must_use]
    pub fn platters_waiting(&self) -> u64 {
        platters_waiting(self.region)
    }
}

pub(super) fn platters_waiting(region: &Region) -> u64 {
    let lanes = region.controllers().iter().flat_map(|one| one.panel().lanes().map(|lane| one.panel().queue().platters_in(lane)));
    lanes.map(u64::from).sum()
}

/// Observes a run. Callbacks that are not implemented cost nothing.
///
/// Together, [`Observer::request`] and [`Observer::event`] receive all inputs of a [`Region`], in
/// order: another region in the same initial state gives the same commands for them. The commands
/// and ends caused by an event follow it.
pub trait Observer {
    /// The run begins; the controllers have received nothing yet.
    fn begin(&mut self, region: &Region) {
        let _ = region;
    }

    /// A request is passed to the region.
    fn request(&mut self, request: &Request<'_>) {
        let _ = request;
    }

    /// An event is passed to a controller.
    fn event(&mut self, now: Micros, library: Library, event: &Event) {
        let _ = (now, library, event);
    }

    /// A controller gives a command; never [`Command::Finish`], which the region turns into ends.
    fn command(&mut self, now: Micros, library: Library, command: &Command) {
        let _ = (now, library, command);
    }

    /// A request has ended.
    fn ended(&mut self, ended: &Ended) {
        let _ = ended;
    }

    /// All consequences of a request or event have been reported; the region stays unchanged until
    /// the next one.
    fn settled(&mut self, now: Micros, region: &Region) {
        let _ = (now, region);
    }

    /// When [`Observer::sample`] is wanted next; by default never.
    fn next_sample(&self) -> Micros {
        Micros::NEVER
    }

    /// The instant of [`Observer::next_sample`] has come, which then moves on.
    fn sample(&mut self, sample: &Sample<'_>) {
        let _ = sample;
    }

    /// The run has ended, not before the end of the measured interval unless an observer
    /// [stopped](Self::is_stopped) it.
    fn end(&mut self, sample: &Sample<'_>) {
        let _ = sample;
    }

    /// Whether to end the run now, after a [sample](Self::sample). Its results mean nothing then.
    fn is_stopped(&self) -> bool {
        false
    }
}

/// Observes nothing.
impl Observer for () {}

/// An observer that may be missing.
impl<O: Observer> Observer for Option<O> {
    fn begin(&mut self, region: &Region) {
        self.iter_mut().for_each(|observer| observer.begin(region));
    }

    fn request(&mut self, request: &Request<'_>) {
        self.iter_mut().for_each(|observer| observer.request(request));
    }

    fn event(&mut self, now: Micros, library: Library, event: &Event) {
        self.iter_mut().for_each(|observer| observer.event(now, library, event));
    }

    fn command(&mut self, now: Micros, library: Library, command: &Command) {
        self.iter_mut().for_each(|observer| observer.command(now, library, command));
    }

    fn ended(&mut self, ended: &Ended) {
        self.iter_mut().for_each(|observer| observer.ended(ended));
    }

    fn settled(&mut self, now: Micros, region: &Region) {
        self.iter_mut().for_each(|observer| observer.settled(now, region));
    }

    fn next_sample(&self) -> Micros {
        self.as_ref().map_or(Micros::NEVER, O::next_sample)
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        self.iter_mut().for_each(|observer| observer.sample(sample));
    }

    fn end(&mut self, sample: &Sample<'_>) {
        self.iter_mut().for_each(|observer| observer.end(sample));
    }

    fn is_stopped(&self) -> bool {
        self.as_ref().is_some_and(O::is_stopped)
    }
}

/// An observer that is used again after the run.
impl<O: Observer + ?Sized> Observer for &mut O {
    fn begin(&mut self, region: &Region) {
        (**self).begin(region);
    }

    fn request(&mut self, request: &Request<'_>) {
        (**self).request(request);
    }

    fn event(&mut self, now: Micros, library: Library, event: &Event) {
        (**self).event(now, library, event);
    }

    fn command(&mut self, now: Micros, library: Library, command: &Command) {
        (**self).command(now, library, command);
    }

    fn ended(&mut self, ended: &Ended) {
        (**self).ended(ended);
    }

    fn settled(&mut self, now: Micros, region: &Region) {
        (**self).settled(now, region);
    }

    fn next_sample(&self) -> Micros {
        (**self).next_sample()
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        (**self).sample(sample);
    }

    fn end(&mut self, sample: &Sample<'_>) {
        (**self).end(sample);
    }

    fn is_stopped(&self) -> bool {
        (**self).is_stopped()
    }
}

/// Two observers, called in order.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn begin(&mut self, region: &Region) {
        self.0.begin(region);
        self.1.begin(region);
    }

    fn request(&mut self, request: &Request<'_>) {
        self.0.request(request);
        self.1.request(request);
    }

    fn event(&mut self, now: Micros, library: Library, event: &Event) {
        self.0.event(now, library, event);
        self.1.event(now, library, event);
    }

    fn command(&mut self, now: Micros, library: Library, command: &Command) {
        self.0.command(now, library, command);
        self.1.command(now, library, command);
    }

    fn ended(&mut self, ended: &Ended) {
        self.0.ended(ended);
        self.1.ended(ended);
    }

    fn settled(&mut self, now: Micros, region: &Region) {
        self.0.settled(now, region);
        self.1.settled(now, region);
    }

    fn next_sample(&self) -> Micros {
        self.0.next_sample().min(self.1.next_sample())
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        if self.0.next_sample() <= sample.at {
            self.0.sample(sample);
        }
        if self.1.next_sample() <= sample.at {
            self.1.sample(sample);
        }
    }

    fn end(&mut self, sample: &Sample<'_>) {
        self.0.end(sample);
        self.1.end(sample);
    }

    fn is_stopped(&self) -> bool {
        self.0.is_stopped() || self.1.is_stopped()
    }
}
