//! Replays a journal: gives its inputs to new controllers and compares the outputs.

use std::collections::VecDeque;
use std::fmt;
use std::io::BufRead;

use fulgurite_domain::Micros;
use fulgurite_library::{Actor, Command, Event, Fault, Library, Platter, Region, RegionOutcome, RequestId};

use crate::digest::OutputDigest;
use crate::{Detail, Fact, JournalError, JournalReader, Subject};

/// The result of a replay without differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Replayed {
    /// Requests to the region.
    pub requests: u64,
    /// Events to controllers.
    pub events: u64,
    /// Commands, all equal to the journal's.
    pub commands: u64,
    /// Requests that ended, all as in the journal.
    pub ended: u64,
    /// The last instant of the journal.
    pub until: Micros,
    /// False if the journal of a live library lacks its end: the server was killed, or still writes
    /// it.
    pub is_complete: bool,
}

/// The journal can't be replayed, or the outputs differ.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what happened, with its fields")]
pub enum ReplayError {
    /// The journal can't be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("line {line}: found library {}, but the region has {libraries} of them, counted from 0", found.0)]
    NoLibrary { line: u64, found: Library, libraries: usize },
    #[error(
        "line {line}: found {} of library {}, but the region has {actors} of them there, counted from 0",
        actor_name(*found), library.0
    )]
    NoActor { line: u64, found: Actor, library: Library, actors: u16 },
    #[error("line {line}: found platter {} of library {}, but the region has {platters} there, counted from 0", found.0, library.0)]
    NoPlatter { line: u64, found: Platter, library: Library, platters: u32 },
    /// The outputs differ.
    #[error(transparent)]
    Differs(#[from] Box<Difference>),
}

/// The first difference from the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The line where it shows.
    pub line: u64,
    /// The fact in the journal.
    pub journal: Fact,
    /// The fact of the replay; `None` if it has no more outputs.
    pub replay: Option<Fact>,
    /// The last input before it, with its line; `None` before the first input. With digests, an
    /// earlier input may be the cause.
    pub input: Option<(u64, Fact)>,
    /// With digests: the line of the last equal one, or 1.
    pub equal_until: u64,
}

impl std::error::Error for Difference {}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, journal, replay, input, equal_until } = self;
        if let Fact::Digest { .. } = journal {
            write!(f, "line {line}: outputs of the inputs after line {equal_until} differ: ")?;
        } else {
            write!(f, "line {line}: ")?;
        }
        write!(f, "the journal has `{journal}`, ")?;
        match replay {
            Some(fact) => write!(f, "and the replay `{fact}`")?,
            None => write!(f, "and the replay has no more outputs")?,
        }
        match input {
            Some((line, input)) => write!(f, " (after the input of line {line}, `{input}`)"),
            None => Ok(()),
        }
    }
}

/// Sees a replay. Closures see only its facts.
pub trait Watcher {
    /// An input or an output, with the region after the input.
    fn fact(&mut self, fact: &Fact, region: &Region);
    /// All outputs of the last input were seen.
    fn settled(&mut self, region: &Region) {
        let _ = region;
    }
}

impl<F: FnMut(&Fact, &Region)> Watcher for F {
    fn fact(&mut self, fact: &Fact, region: &Region) {
        self(fact, region);
    }
}

/// Gives the inputs of a journal to a region in its initial state, and compares the outputs.
///
/// # Errors
/// [`ReplayError::Differs`] with the first difference; other variants if the journal can't be
/// replayed.
pub fn replay<R: BufRead>(journal: JournalReader<R>, region: &mut Region) -> Result<Replayed, ReplayError> {
    replay_seen(journal, region, &mut |_: &Fact, _: &Region| ())
}

/// Like [`replay`], and shows each input and the outputs that followed, even if the journal has
/// only digests of them, with the region after the input.
///
/// # Errors
/// As for [`replay`]. What was shown after the last equal output or digest isn't to be trusted.
pub fn replay_seen<R: BufRead>(journal: JournalReader<R>, region: &mut Region, seen: &mut dyn Watcher) -> Result<Replayed, ReplayError> {
    let (detail, subject) = (journal.header().detail, journal.header().subject);
    let mut replay = Replay {
        region,
        seen,
        detail,
        commands: VecDeque::new(),
        ended: VecDeque::new(),
        commanded: Vec::new(),
        finished: Vec::new(),
        digest: OutputDigest::NEW,
        equal_until: 1,
        input: None,
        report: Replayed::default(),
    };
    for fact in journal {
        match fact {
            // A simulation that was cut off can be run again, so its journal is refused. A live
            // library has nothing but what was written.
            Err(JournalError::Truncated { .. }) if subject == Subject::Library => return Ok(replay.report),
            fact => {
                let (line, fact) = fact?;
                replay.fact(line, fact)?;
            }
        }
    }
    replay.report.is_complete = true;
    Ok(replay.report)
}

struct Replay<'a> {
    region: &'a mut Region,
    seen: &'a mut dyn Watcher,
    detail: Detail,
    /// Outputs of the last input not yet seen in the journal; unused with digests.
    commands: VecDeque<Fact>,
    ended: VecDeque<Fact>,
    /// Empty between inputs; kept to reuse its memory, like the next.
    commanded: Vec<(Library, Command)>,
    finished: Vec<(RequestId, RegionOutcome)>,
    digest: OutputDigest,
    equal_until: u64,
    input: Option<(u64, Fact)>,
    report: Replayed,
}

impl Replay<'_> {
    fn fact(&mut self, line: u64, fact: Fact) -> Result<(), ReplayError> {
        match fact {
            Fact::Commanded { .. } | Fact::Ended { .. } => {
                let outputs = if let Fact::Ended { .. } = fact { &mut self.ended } else { &mut self.commands };
                match outputs.pop_front() {
                    Some(replayed_output) if replayed_output == fact => Ok(()),
                    replayed_output => {
                        let replayed_output = replayed_output.or_else(|| self.next_unmatched_output());
                        Err(self.differs(line, fact, replayed_output))
                    }
                }
            }
            Fact::Digest { count, digest } => {
                let replayed_output = Fact::Digest { count: self.digest.count(), digest: self.digest.digest() };
                if replayed_output != (Fact::Digest { count, digest }) {
                    return Err(self.differs(line, fact, Some(replayed_output)));
                }
                self.equal_until = line;
                Ok(())
            }
            Fact::Requested { now, request, deadline, ref shards } => {
                self.check_no_more_outputs(line, &fact)?;
                self.region.request(now, request, shards, deadline, &mut self.commanded, &mut self.finished);
                self.report.requests += 1;
                self.collect_outputs(line, fact);
                Ok(())
            }
            Fact::Hastened { now, request, deadline } => {
                self.check_no_more_outputs(line, &fact)?;
                self.region.hasten(now, request, deadline, &mut self.commanded, &mut self.finished);
                self.collect_outputs(line, fact);
                Ok(())
            }
            Fact::VerificationRequested { now, request, platter } => {
                self.check_no_more_outputs(line, &fact)?;
                self.region.verify(now, request, platter, &mut self.commanded, &mut self.finished);
                self.report.requests += 1;
                self.collect_outputs(line, fact);
                Ok(())
            }
            Fact::Happened { now, library, event } => {
                self.check_no_more_outputs(line, &fact)?;
                self.check(line, library, &event)?;
                self.region.step(now, library, event, &mut self.commanded, &mut self.finished);
                self.report.events += 1;
                self.collect_outputs(line, fact);
                Ok(())
            }
            Fact::End { now, .. } => {
                self.check_no_more_outputs(line, &fact)?;
                self.report.until = now;
                Ok(())
            }
        }
    }

    fn collect_outputs(&mut self, line: u64, input: Fact) {
        if let Some(now) = input.instant() {
            self.report.until = now;
        }
        self.report.commands += self.commanded.len() as u64;
        self.report.ended += self.finished.len() as u64;
        self.seen.fact(&input, self.region);
        let commands = self.commanded.drain(..).map(|(library, command)| Fact::Commanded { library, command });
        let ended = self.finished.drain(..).map(|(request, outcome)| Fact::Ended { request, outcome });
        for fact in commands.chain(ended) {
            self.seen.fact(&fact, self.region);
            match (self.detail, &fact) {
                (Detail::Digests(_), _) => self.digest.add(&fact),
                (Detail::Commands, Fact::Ended { .. }) => self.ended.push_back(fact),
                (Detail::Commands, _) => self.commands.push_back(fact),
            }
        }
        self.seen.settled(self.region);
        self.input = Some((line, input));
    }

    /// Before the next input or the end, all outputs of the last input must have been in the
    /// journal.
    fn check_no_more_outputs(&mut self, line: u64, fact: &Fact) -> Result<(), ReplayError> {
        match self.next_unmatched_output() {
            None => Ok(()),
            more => Err(self.differs(line, fact.clone(), more)),
        }
    }

    fn next_unmatched_output(&mut self) -> Option<Fact> {
        self.commands.pop_front().or_else(|| self.ended.pop_front())
    }

    fn differs(&mut self, line: u64, journal: Fact, replay: Option<Fact>) -> ReplayError {
        let (input, equal_until) = (self.input.take(), self.equal_until);
        Box::new(Difference { line, journal, replay, input, equal_until }).into()
    }

    /// Rejects events that name machines or platters outside the library: controllers or watchers
    /// panic on those.
    fn check(&self, line: u64, library: Library, event: &Event) -> Result<(), ReplayError> {
        let controllers = self.region.controllers();
        let Some(controller) = controllers.get(usize::from(library.0)) else {
            return Err(ReplayError::NoLibrary { line, found: library, libraries: controllers.len() });
        };
        let platters = controller.panel().platter_count();
        if let Event::ReadHastened { platter, .. }
        | Event::PlatterWritten { platter }
        | Event::PlatterUnavailable { platter }
        | Event::PlatterAvailable { platter } = *event
            && platter.0 >= platters
        {
            return Err(ReplayError::NoPlatter { line, found: platter, library, platters });
        }
        let layout = controller.panel().layout();
        for actor in actors(event).into_iter().flatten() {
            let (number, actors) = match actor {
                Actor::Shuttle(shuttle) => (shuttle.0, layout.shuttles),
                Actor::Drive(drive) => (drive.0, layout.drive_count()),
            };
            if number >= actors {
                return Err(ReplayError::NoActor { line, found: actor, library, actors });
            }
        }
        Ok(())
    }
}

fn actor_name(actor: Actor) -> String {
    match actor {
        Actor::Shuttle(shuttle) => format!("shuttle {}", shuttle.0),
        Actor::Drive(drive) => format!("drive {}", drive.0),
    }
}

fn actors(event: &Event) -> [Option<Actor>; 2] {
    let other = |fault: Fault| match fault {
        Fault::Collided { with, .. } => Some(Actor::Shuttle(with)),
        Fault::Stopped { .. } | Fault::DriveDown => None,
    };
    match *event {
        Event::Done { command } | Event::Interrupted { command, .. } => [Some(command.actor), None],
        Event::Failed { command, fault } => [Some(command.actor), other(fault)],
        Event::Lost { actor, fault } => [Some(actor), other(fault)],
        Event::Repaired { actor } => [Some(actor), None],
        Event::ChargeLow { shuttle } => [Some(Actor::Shuttle(shuttle)), None],
        Event::ReadRequested(_)
        | Event::ReadHastened { .. }
        | Event::VerificationRequested { .. }
        | Event::PlatterWritten { .. }
        | Event::PlatterUnavailable { .. }
        | Event::PlatterAvailable { .. }
        | Event::Woken => [None, None],
    }
}
