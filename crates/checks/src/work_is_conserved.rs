//! Checks that no actor idles while it has work. For drives this holds under every policy: a
//! working drive with an unfinished customer's platter in it executes a command for customers. For
//! waiting platters each policy promises something else:
//!
//! | policy | promise, at every instant |
//! | --- | --- |
//! | `no-shuttles` | no working drive is without a customer while a platter waits |
//! | `shortest-paths` | no shuttle is free while a platter waits and some drive has room, or while a platter is to be taken from a drive |
//! | `partitioned` | the same, within the shuttle's rectangle, for the shuttles working there |
//! | `balanced` | no shuttle is free while a section in which none has a task has a waiting platter and a drive with room, or a platter to be taken from a drive; one shuttle may wait for each section whose platters wait for a drive |
//!
//! A shuttle is free if it works, has no task and need not charge. A drive has room if it is
//! reachable, holds no customer's platter, is promised none, and has an empty bay. Several events
//! may share an instant, so the check happens when time advances.

use std::collections::{BTreeMap, BTreeSet};

use fulgurite_domain::Micros;
use fulgurite_journal::Fact;
use fulgurite_library::{
    Action, Actor, Berth, Command, Drive, Event, Job, Library, Operation, Panel, Platter, Rectangle, Region, Section, Shuttle, Whereabouts,
    rectangles, sections,
};

use fulgurite_library_settings::PolicyName;

use super::{AnsweredCommand, EveryCommandIsAnsweredOnce};

/// A policy's promise beyond what all controllers do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// Drives are never without a customer while a platter waits.
    DrivesFetch,
    /// No shuttle idles anywhere.
    ShuttlesServeAll,
    /// No shuttle idles in its rectangle.
    ShuttlesServeTheirOwn,
    /// No shuttle idles while a section is unattended.
    SectionsAreAttended,
}

impl From<PolicyName> for Promise {
    fn from(policy: PolicyName) -> Self {
        match policy {
            PolicyName::NoShuttles => Self::DrivesFetch,
            PolicyName::ShortestPaths => Self::ShuttlesServeAll,
            PolicyName::Partitioned => Self::ShuttlesServeTheirOwn,
            PolicyName::Balanced => Self::SectionsAreAttended,
        }
    }
}

/// An actor idled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what happened")]
pub enum Idled {
    #[error("from {since} to {now}, drive {} of library {} did nothing for platter {} in it", .drive.0, .library.0, .platter.0)]
    WithPlatter { since: Micros, now: Micros, library: Library, drive: Drive, platter: Platter },
    #[error("from {since} to {now}, drive {} of library {} had no customer while platter {} waited", .drive.0, .library.0, .platter.0)]
    WhileWaited { since: Micros, now: Micros, library: Library, drive: Drive, platter: Platter },
    #[error(
        "from {since} to {now}, shuttle {} of library {} was free while platter {} waited and drive {} had room",
        .shuttle.0, .library.0, .platter.0, .drive.0
    )]
    WhileRoom { since: Micros, now: Micros, library: Library, shuttle: Shuttle, platter: Platter, drive: Drive },
    #[error("from {since} to {now}, shuttle {} of library {} was free while drive {} was done with a platter", .shuttle.0, .library.0, .drive.0)]
    WhileReleased { since: Micros, now: Micros, library: Library, shuttle: Shuttle, drive: Drive },
}

/// Looks for idle actors.
#[derive(Debug, Clone)]
pub struct WorkIsConserved {
    promise: Promise,
    needs_no_shuttles: bool,
    /// For each library, the shuttles that may serve each group of lanes, and the drives to which
    /// they may bring platters.
    groups: Vec<Vec<Rectangle>>,
    /// Platters still to be verified, by library, with the last command before that was so; all
    /// others in drives are customers'.
    unverified: Vec<BTreeMap<Platter, u64>>,
    /// The last command of each library.
    commands: Vec<u64>,
    places: Vec<(Library, Platter)>,
    /// Customers' platters that have not been unmounted since they came into a drive.
    unserved: BTreeSet<(Library, Drive, Platter)>,
    /// Found after the last event; becomes a violation when time advances.
    suspect: Option<Idled>,
}

impl WorkIsConserved {
    /// For a region without input so far.
    pub fn new(region: &Region, promise: Promise) -> Self {
        let panels = || region.controllers().iter().map(fulgurite_library::Controller::panel);
        let unverified = |panel: &Panel| {
            let written = (0..panel.platter_count()).map(Platter).filter(|platter| panel.whereabouts(*platter) != Whereabouts::Unwritten);
            written.filter(|platter| !panel.is_verified(*platter)).map(|platter| (platter, 0)).collect()
        };
        let groups = |panel: &Panel| match promise {
            Promise::ShuttlesServeTheirOwn => rectangles(panel.layout()),
            Promise::SectionsAreAttended => {
                let group = |Section { lanes, drives, .. }| Rectangle { lanes, drives, shuttles: Vec::new() };
                sections(panel.layout()).into_iter().map(group).collect()
            }
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
            unverified: panels().map(unverified).collect(),
            commands: vec![0; region.controllers().len()],
            places: region.sets().places.clone(),
            unserved: BTreeSet::new(),
            suspect: None,
        }
    }

    /// Time advances to `now`: whatever idles now has done so since `since`.
    ///
    /// # Errors
    /// [`Idled`] if an actor idled.
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

    /// Checks one fact, and the command that it answers.
    pub fn observe(&mut self, fact: &Fact, answered: Option<&AnsweredCommand>) {
        if let Fact::Commanded { library, command: Command::Do { id, .. } } = fact {
            self.commands[usize::from(library.0)] = id.number;
        }
        match *fact {
            Fact::VerificationRequested { platter, .. } => {
                if let Some((library, platter)) = self.places.get(platter.0 as usize) {
                    self.unverified[usize::from(library.0)].insert(*platter, self.commands[usize::from(library.0)]);
                }
            }
            Fact::Commanded { library, command: Command::Do { id, action: Action::Mount { platter, .. } } } => {
                if let (Actor::Drive(drive), true) = (id.actor, self.needs_no_shuttles) {
                    self.arrived(library, drive, platter);
                }
            }
            Fact::Happened { library, event, .. } => match event {
                Event::PlatterWritten { platter } => {
                    self.unverified[usize::from(library.0)].insert(platter, self.commands[usize::from(library.0)]);
                }
                // A repair releases the mounted platter, which may have lost its waiting requests.
                Event::Repaired { actor: Actor::Drive(drive) } => {
                    self.unserved.retain(|(at_library, at_drive, _)| (*at_library, *at_drive) != (library, drive))
                }
                _ => {}
            },
            _ => {}
        }
        let Some(AnsweredCommand { library, open, outcome: Event::Done { .. } }) = answered else { return };
        match (open.action, open.id.actor) {
            (Action::Place { to: Berth::Bay(drive, _), platter }, _) => self.arrived(*library, drive, platter),
            (Action::Unmount { platter, .. }, Actor::Drive(drive)) => {
                self.unserved.remove(&(*library, drive, platter));
            }
            (Action::Verify { platter, .. }, _) => {
                let unverified = &mut self.unverified[usize::from(library.0)];
                if unverified.get(&platter).is_some_and(|after| *after < open.id.number) {
                    unverified.remove(&platter);
                }
            }
            _ => {}
        }
    }

    fn arrived(&mut self, library: Library, drive: Drive, platter: Platter) {
        if !self.unverified[usize::from(library.0)].contains_key(&platter) {
            self.unserved.insert((library, drive, platter));
        }
    }

    /// Looks for idle actors in the controllers after an event or request.
    /// [`WorkIsConserved::time_passes`] reports the one found, if time advances.
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
            Promise::ShuttlesServeTheirOwn => panel.working_in(group).any(|other| other == *shuttle),
            Promise::ShuttlesServeAll | Promise::DrivesFetch => true,
            Promise::SectionsAreAttended => {
                !is_attended(panel, group) && panel.idle_shuttles().count() > self.sections_without_room(library, panel)
            }
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

impl WorkIsConserved {
    /// Sections in which platters wait, but no drive has room.
    fn sections_without_room(&self, library: Library, panel: &Panel) -> usize {
        let has_room = |drive: &Drive| panel.empty_bay(*drive).is_some() && panel.customers(*drive) == 0 && panel.is_reachable(*drive);
        let waits = |group: &&Rectangle| group.lanes.iter().any(|lane| panel.queue().platters_in(*lane) > 0);
        self.groups[usize::from(library.0)].iter().filter(waits).filter(|group| !group.drives.iter().any(has_room)).count()
    }
}

/// Whether some shuttle has a task that takes a platter from or to a section.
fn is_attended(panel: &Panel, section: &Rectangle) -> bool {
    let is_here = |berth: Berth| match berth {
        Berth::Bay(drive, _) => section.drives.contains(&drive),
        berth => section.lanes.contains(&panel.lane_at(panel.layout().berth_position(berth))),
    };
    let mut shuttles = (0..panel.layout().shuttles).map(Shuttle).filter(|shuttle| panel.is_working(*shuttle));
    shuttles.any(|shuttle| matches!(panel.job(shuttle), Job::Carry(carry) if is_here(carry.from) || is_here(carry.to)))
}
