//! Nobody idles who has something to do. Of drives that holds under every policy: while a drive works and has a customer's platter in it that
//! is not done with, it carries out something for customers. Of what is waited for, each policy promises something else:
//!
//! | policy | promise, at every instant |
//! | --- | --- |
//! | `no-shuttles` | no drive that works is without a customer while a platter waits |
//! | `shortest-paths` | no shuttle is free while a platter waits and some drive has room, or while a platter is to be taken from a drive |
//! | `partitioned`, `fulgurite` | the same, within the shuttle's rectangle, for those that are in work there |
//!
//! A shuttle is free if it works, has nothing to do and need not charge. A drive has room if it can be reached, holds no customer's platter,
//! is promised none, and has an empty bay. Several things may happen at one instant, so it is looked at when time goes on.

use std::collections::BTreeSet;

use fulgurite_domain::Micros;
use fulgurite_library::{
    Action, Actor, Berth, Command, Drive, Event, Library, Operation, Panel, Platter, Rectangle, Region, Shuttle, rectangles,
};

use super::{Answered, EveryCommandIsAnsweredOnce};
use crate::journal::Fact;

/// What a policy promises beyond what all controllers do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// Drives are never without a customer while a platter waits.
    DrivesFetch,
    /// Shuttles never stand by anywhere.
    ShuttlesServeAll,
    /// Shuttles never stand by in their rectangles.
    ShuttlesServeTheirOwn,
}

/// Somebody idled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Idled {
    /// A drive, with a customer's platter in it.
    #[error("from {since} to {now}, drive {} of library {} did nothing for platter {} in it", .drive.0, .library.0, .platter.0)]
    WithPlatter {
        /// Since when.
        since: Micros,
        /// Until when.
        now: Micros,
        /// In which library.
        library: Library,
        /// Who.
        drive: Drive,
        /// The platter.
        platter: Platter,
    },
    /// A drive that could have fetched a platter by itself.
    #[error("from {since} to {now}, drive {} of library {} had no customer while platter {} waited", .drive.0, .library.0, .platter.0)]
    WhileWaited {
        /// Since when.
        since: Micros,
        /// Until when.
        now: Micros,
        /// In which library.
        library: Library,
        /// Who.
        drive: Drive,
        /// The platter.
        platter: Platter,
    },
    /// A shuttle that could have brought a platter.
    #[error(
        "from {since} to {now}, shuttle {} of library {} was free while platter {} waited and drive {} had room",
        .shuttle.0, .library.0, .platter.0, .drive.0
    )]
    WhileRoom {
        /// Since when.
        since: Micros,
        /// Until when.
        now: Micros,
        /// In which library.
        library: Library,
        /// Who.
        shuttle: Shuttle,
        /// The platter.
        platter: Platter,
        /// The drive.
        drive: Drive,
    },
    /// A shuttle that could have taken a platter away.
    #[error("from {since} to {now}, shuttle {} of library {} was free while drive {} was done with a platter", .shuttle.0, .library.0, .drive.0)]
    WhileReleased {
        /// Since when.
        since: Micros,
        /// Until when.
        now: Micros,
        /// In which library.
        library: Library,
        /// Who.
        shuttle: Shuttle,
        /// The drive.
        drive: Drive,
    },
}

/// Looks for idlers.
#[derive(Debug, Clone)]
pub struct WorkIsConserved {
    promise: Promise,
    needs_no_shuttles: bool,
    /// For each library, the shuttles that may serve each group of lanes, and the drives they may bring platters to.
    groups: Vec<Vec<Rectangle>>,
    /// Platters that are to be verified, by library; others in drives are customers'.
    unverified: Vec<BTreeSet<Platter>>,
    /// Customers' platters in drives that were not released since they came.
    unserved: BTreeSet<(Library, Drive, Platter)>,
    /// Found after the last event; true if time goes on.
    suspect: Option<Idled>,
}

impl WorkIsConserved {
    /// For a region that was told nothing yet.
    #[must_use]
    pub fn new(region: &Region, promise: Promise) -> Self {
        let panels = || region.controllers().iter().map(fulgurite_library::Controller::panel);
        // What has no home is there to be verified and never ends.
        let endless = |panel: &Panel| (0..panel.platter_count()).map(Platter).filter(|platter| panel.home(*platter).is_none()).collect();
        let groups = |panel: &Panel| match promise {
            Promise::ShuttlesServeTheirOwn => rectangles(panel.layout()),
            Promise::DrivesFetch | Promise::ShuttlesServeAll => vec![Rectangle {
                lanes: panel.lanes().collect(),
                drives: panel.drives().collect(),
                shuttles: (0..panel.layout().shuttles).map(Shuttle).collect(),
            }],
        };
        Self {
            promise,
            needs_no_shuttles: promise == Promise::DrivesFetch,
            groups: panels().map(groups).collect(),
            unverified: panels().map(endless).collect(),
            unserved: BTreeSet::new(),
            suspect: None,
        }
    }

    /// Time goes on: whoever idles now did so until `now`.
    ///
    /// # Errors
    /// [`Idled`], if somebody did.
    pub fn time_passes(&mut self, since: Micros, now: Micros, commands: &EveryCommandIsAnsweredOnce) -> Result<(), Idled> {
        for (library, drive, platter) in &self.unserved {
            let (library, drive, platter) = (*library, *drive, *platter);
            let actor = Actor::Drive(drive);
            let works = commands.open(library, actor).is_some_and(|open| !matches!(open.action, Action::Verify { .. }));
            if !works && !commands.is_down(library, actor) {
                return Err(Idled::WithPlatter { since, now, library, drive, platter });
            }
        }
        match self.suspect.take() {
            None => Ok(()),
            Some(mut idled) => {
                let (Idled::WithPlatter { now: until, .. }
                | Idled::WhileWaited { now: until, .. }
                | Idled::WhileRoom { now: until, .. }
                | Idled::WhileReleased { now: until, .. }) = &mut idled;
                *until = now;
                Err(idled)
            }
        }
    }

    /// Looks at one fact, and the command that it answers.
    pub fn see(&mut self, fact: &Fact, answered: Option<&Answered>) {
        match *fact {
            Fact::Commanded { library, command: Command::Do { id, action: Action::Mount { platter, .. } } } => {
                if let (Actor::Drive(drive), true) = (id.actor, self.needs_no_shuttles) {
                    self.arrived(library, drive, platter);
                }
            }
            Fact::Happened { library, event, .. } => match event {
                Event::PlatterWritten { platter } => {
                    self.unverified[usize::from(library.0)].insert(platter);
                }
                // What was mounted in it was let go of, and may have lost those who waited for it.
                Event::Repaired { actor: Actor::Drive(drive) } => {
                    self.unserved.retain(|(where_, who, _)| (*where_, *who) != (library, drive))
                }
                _ => {}
            },
            _ => {}
        }
        let Some(Answered { library, open, how: Event::Done { .. } }) = answered else { return };
        match (open.action, open.id.actor) {
            (Action::Place { to: Berth::Bay(drive, _), platter }, _) => self.arrived(*library, drive, platter),
            (Action::Unmount { platter, .. }, Actor::Drive(drive)) => {
                self.unserved.remove(&(*library, drive, platter));
            }
            (Action::Verify { platter, .. }, _) => {
                self.unverified[usize::from(library.0)].remove(&platter);
            }
            _ => {}
        }
    }

    fn arrived(&mut self, library: Library, drive: Drive, platter: Platter) {
        if !self.unverified[usize::from(library.0)].contains(&platter) {
            self.unserved.insert((library, drive, platter));
        }
    }

    /// Looks at the controllers behind an event or request. Who idles there is told by [`WorkIsConserved::time_passes`], if it does.
    pub fn settled(&mut self, now: Micros, region: &Region) {
        let mut libraries = region.controllers().iter().enumerate();
        self.suspect = libraries.find_map(|(index, controller)| {
            let (library, panel) = (Library(index as u16), controller.panel());
            self.groups[index].iter().find_map(|group| self.idler(now, library, panel, group))
        });
    }

    fn idler(&self, now: Micros, library: Library, panel: &Panel, group: &Rectangle) -> Option<Idled> {
        let mut waiting = group.lanes.iter().filter_map(|lane| panel.queue().line(*lane).next());
        let mut drives = group.drives.iter().copied().filter(|drive| panel.is_reachable(*drive));
        if self.promise == Promise::DrivesFetch {
            let platter = waiting.next()?;
            let drive = drives.find(|drive| matches!(panel.operation(*drive), None | Some(Operation::Verify)))?;
            return Some(Idled::WhileWaited { since: now, now, library, drive, platter });
        }
        let is_in_work = |shuttle: &Shuttle| match self.promise {
            Promise::ShuttlesServeTheirOwn => group.working(panel).any(|other| other == *shuttle),
            Promise::ShuttlesServeAll | Promise::DrivesFetch => true,
        };
        let shuttle = panel.idle_shuttles().find(is_in_work)?;
        if let Some(drive) = drives.clone().find(|drive| panel.released_bay(*drive).is_some()) {
            return Some(Idled::WhileReleased { since: now, now, library, shuttle, drive });
        }
        let platter = waiting.next()?;
        let drive = drives.find(|drive| panel.empty_bay(*drive).is_some() && panel.customers(*drive) == 0)?;
        Some(Idled::WhileRoom { since: now, now, library, shuttle, platter, drive })
    }
}
