//! Who watches a run: sees all that goes into the controllers and all that comes out of them.

use fulgurite_domain::Micros;
use fulgurite_library::{Command, Event, Library, Region, RegionOutcome, RequestId, Shard};

/// A request for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// Counted from 0 in order of arrival.
    pub id: RequestId,
    /// When it arrived.
    pub at: Micros,
    /// What has to be read for it.
    pub shards: &'a [Shard],
    /// Bytes of the file.
    pub bytes: u64,
    /// When its last byte is wanted, [`Micros::NEVER`] if at leisure.
    pub deadline: Micros,
    /// Whether it arrived in the measured interval.
    pub counts: bool,
}

/// A request whose bytes have left the library, as images still; or that ended without them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The request.
    pub id: RequestId,
    /// When it arrived.
    pub arrived: Micros,
    /// When it ended: its last byte left the library.
    pub at: Micros,
    /// Bytes of the file.
    pub bytes: u64,
    /// When its last byte is wanted, decoded: what the decode service has to keep.
    pub deadline: Micros,
    /// How it ended.
    pub outcome: RegionOutcome,
    /// Whether it arrived in the measured interval.
    pub counts: bool,
}

/// Sees a run as it goes on. What is not asked for costs nothing.
///
/// Between them, [`Observer::request`] and [`Observer::event`] have all that a [`Region`] is told, in order: told to another one that
/// begins alike, it gives the same commands. An event's commands and ends follow it.
pub trait Observer {
    /// The run begins; the controllers have been told nothing yet.
    fn begin(&mut self, region: &Region) {
        let _ = region;
    }

    /// A request is handed to the region.
    fn request(&mut self, request: &Request<'_>) {
        let _ = request;
    }

    /// A controller is told an event.
    fn event(&mut self, now: Micros, library: Library, event: &Event) {
        let _ = (now, library, event);
    }

    /// A controller commands; never [`Command::Finish`], of which the region makes ends.
    fn command(&mut self, now: Micros, library: Library, command: &Command) {
        let _ = (now, library, command);
    }

    /// A request has ended.
    fn ended(&mut self, ended: &Ended) {
        let _ = ended;
    }

    /// All that followed a request or an event has been seen, and the region is as it is until the next one.
    fn settled(&mut self, now: Micros, region: &Region) {
        let _ = (now, region);
    }
}

/// Nobody.
impl Observer for () {}

/// Someone who is needed afterwards.
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

/// Someone or nobody.
impl<O: Observer> Observer for Option<O> {
    fn begin(&mut self, region: &Region) {
        if let Some(observer) = self {
            observer.begin(region);
        }
    }

    fn request(&mut self, request: &Request<'_>) {
        if let Some(observer) = self {
            observer.request(request);
        }
    }

    fn event(&mut self, now: Micros, library: Library, event: &Event) {
        if let Some(observer) = self {
            observer.event(now, library, event);
        }
    }

    fn command(&mut self, now: Micros, library: Library, command: &Command) {
        if let Some(observer) = self {
            observer.command(now, library, command);
        }
    }

    fn ended(&mut self, ended: &Ended) {
        if let Some(observer) = self {
            observer.ended(ended);
        }
    }

    fn settled(&mut self, now: Micros, region: &Region) {
        if let Some(observer) = self {
            observer.settled(now, region);
        }
    }
}

/// Two at once.
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
