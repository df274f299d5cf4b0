//! Observers of a run: see all inputs and outputs of the controllers.

use fulgurite_domain::Micros;
use fulgurite_library::{Command, Event, Library, Region, RegionOutcome, RequestId, Shard};

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
}

/// Observes nothing.
impl Observer for () {}

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
}
