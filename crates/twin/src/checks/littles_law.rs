//! Little's law at every station: the number present, over time, is the time that each spent there. Both sides are whole microseconds and
//! have to be the same, since what is still there at the end counts with the time it has been there.
//!
//! ```text
//!   present                                    integral of the number present, as the controller counts it after each event
//!   3 |      ____                                = sum of the times from arrival to departure, by name, from commands and answers
//!   2 |   __|    |__                           L = integral / time,  lambda = arrivals / time,  W = mean time of those who left
//!   1 |__|          |____                      L = lambda W up to those who are still there
//!     +-------------------- time
//! ```
//!
//! The sides don't know of each other. The left one is read off the controllers: how many they say are waiting, in a drive, on a shuttle. The
//! right one is kept by name from what goes in and out of them; for waiting platters, which enter and leave their lines inside the
//! controller, from the lists of the lines, while the left side takes their counters.

use std::collections::BTreeMap;

use fulgurite_domain::Micros;
use fulgurite_library::{Action, Actor, Bay, Berth, Drive, Event, Library, Platter, Region, Shuttle, Stage};

use super::{Answered, PlattersAreConserved};
use crate::journal::Fact;

/// Where somebody is for a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Station {
    /// Requests in the region, from arrival to end.
    Region,
    /// Platters that stand in a line of a library.
    Waiting(Library),
    /// Platters that lie in a drive.
    InDrive(Library, Drive),
    /// Platters that are mounted in a drive.
    Mounted(Library, Drive),
    /// Platters on the shuttles of a library.
    OnShuttles(Library),
}

/// What was seen at a station.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Law {
    /// Which.
    pub station: Station,
    /// Integral of the number present over time, in microseconds; the left side.
    pub present_us: u128,
    /// The times spent, in microseconds; the right side.
    pub spent_us: u128,
    /// Who came, those who were there at the beginning included.
    pub arrivals: u64,
    /// Who left.
    pub departures: u64,
    /// The mean number present: L.
    pub l: f64,
    /// Arrivals a second: lambda.
    pub lambda: f64,
    /// Mean seconds of those who left: W.
    pub w: f64,
}

/// The law is broken: somebody was counted and not there, or there and not counted.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{:?}: {} µs by counting who is there, but {} µs by adding up how long each was", .0.station, .0.present_us, .0.spent_us)]
pub struct Unequal(pub Law);

#[derive(Debug, Clone, Default)]
struct Record {
    present: u64,
    since: Micros,
    present_us: u128,
    inside: BTreeMap<u64, Micros>,
    left_us: u128,
    arrivals: u64,
    departures: u64,
}

impl Record {
    fn count(&mut self, now: Micros, present: u64) {
        self.present_us += u128::from(self.present) * u128::from(now.since(self.since).0);
        (self.present, self.since) = (present, now);
    }

    fn arrive(&mut self, now: Micros, who: u64) {
        if self.inside.insert(who, now).is_none() {
            self.arrivals += 1;
        }
    }

    fn leave(&mut self, now: Micros, who: u64) {
        if let Some(arrived) = self.inside.remove(&who) {
            self.departures += 1;
            self.left_us += u128::from(now.since(arrived).0);
        }
    }

    fn law(&self, station: Station, now: Micros) -> Law {
        let still_there: u128 = self.inside.values().map(|arrived| u128::from(now.since(*arrived).0)).sum();
        let present_us = self.present_us + u128::from(self.present) * u128::from(now.since(self.since).0);
        let over = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        Law {
            station,
            present_us,
            spent_us: self.left_us + still_there,
            arrivals: self.arrivals,
            departures: self.departures,
            l: over(present_us as f64 / 1e6, now.seconds()),
            lambda: over(self.arrivals as f64, now.seconds()),
            w: over(self.left_us as f64 / 1e6, self.departures as f64),
        }
    }
}

/// All stations of a run.
#[derive(Debug, Clone, Default)]
pub struct LittlesLaw {
    stations: BTreeMap<Station, Record>,
    /// Who stood in the lines of each library.
    lines: Vec<Vec<Platter>>,
    /// Without shuttles, a platter is in a drive when its controller thinks so, and no command says when.
    needs_no_shuttles: bool,
}

impl LittlesLaw {
    /// For a region that was told nothing yet.
    #[must_use]
    pub fn new(region: &Region, platters: &PlattersAreConserved, needs_no_shuttles: bool) -> Self {
        let mut law = Self { lines: vec![Vec::new(); region.controllers().len()], needs_no_shuttles, ..Self::default() };
        if !needs_no_shuttles {
            for (library, drive) in drives(region) {
                for platter in [Bay(0), Bay(1)].into_iter().filter_map(|bay| platters.in_bay(library, drive, bay)) {
                    law.at(Station::InDrive(library, drive)).arrive(Micros::ZERO, platter.0.into());
                }
            }
        }
        law.settled(Micros::ZERO, region);
        law
    }

    fn at(&mut self, station: Station) -> &mut Record {
        self.stations.entry(station).or_default()
    }

    /// Right sides: looks at one fact, and the command that it answers.
    pub fn see(&mut self, now: Micros, fact: &Fact, answered: Option<&Answered>) {
        match *fact {
            Fact::Requested { request, .. } => self.at(Station::Region).arrive(now, request.0),
            Fact::Ended { request, .. } => self.at(Station::Region).leave(now, request.0),
            Fact::Happened { library, event: Event::Repaired { actor: Actor::Drive(drive) }, .. } => {
                // A drive that was repaired has let go of what was mounted.
                let mounted = self.at(Station::Mounted(library, drive));
                for who in mounted.inside.keys().copied().collect::<Vec<_>>() {
                    mounted.leave(now, who);
                }
            }
            _ => {}
        }
        let Some(Answered { library, open, how: Event::Done { .. } }) = answered else { return };
        let library = *library;
        match (open.action, open.id.actor) {
            (Action::Pick { from, platter }, _) => {
                if let Berth::Bay(drive, _) = from {
                    self.at(Station::InDrive(library, drive)).leave(now, platter.0.into());
                }
                self.at(Station::OnShuttles(library)).arrive(now, platter.0.into());
            }
            (Action::Place { to, platter }, _) => {
                self.at(Station::OnShuttles(library)).leave(now, platter.0.into());
                if let Berth::Bay(drive, _) = to {
                    self.at(Station::InDrive(library, drive)).arrive(now, platter.0.into());
                }
            }
            (Action::Mount { platter, .. }, Actor::Drive(drive)) => {
                self.at(Station::Mounted(library, drive)).arrive(now, platter.0.into());
            }
            (Action::Unmount { platter, .. }, Actor::Drive(drive)) => {
                self.at(Station::Mounted(library, drive)).leave(now, platter.0.into());
            }
            _ => {}
        }
    }

    /// Left sides: looks at the controllers behind each event or request.
    pub fn settled(&mut self, now: Micros, region: &Region) {
        self.at(Station::Region).count(now, region.open_requests() as u64);
        for (index, controller) in region.controllers().iter().enumerate() {
            let (library, panel) = (Library(index as u16), controller.panel());
            let waiting = panel.lanes().map(|lane| u64::from(panel.queue().platters_in(lane))).sum();
            self.at(Station::Waiting(library)).count(now, waiting);
            let mut line: Vec<Platter> = panel.lanes().flat_map(|lane| panel.queue().line(lane)).collect();
            line.sort_unstable();
            if line != self.lines[index] {
                let before = std::mem::replace(&mut self.lines[index], line.clone());
                let record = self.at(Station::Waiting(library));
                before.iter().filter(|one| line.binary_search(one).is_err()).for_each(|one| record.leave(now, one.0.into()));
                line.iter().filter(|one| before.binary_search(one).is_err()).for_each(|one| record.arrive(now, one.0.into()));
            }
            for drive in panel.drives() {
                let held = || panel.bays(drive).iter().filter_map(|bay| bay.held);
                let mounted = held().filter(|held| held.stage == Stage::Mounted).count() as u64;
                self.at(Station::Mounted(library, drive)).count(now, mounted);
                if !self.needs_no_shuttles {
                    self.at(Station::InDrive(library, drive)).count(now, held().count() as u64);
                }
            }
            let carried = (0..panel.layout().shuttles).filter(|shuttle| panel.carried(Shuttle(*shuttle)).is_some()).count() as u64;
            self.at(Station::OnShuttles(library)).count(now, carried);
        }
    }

    /// Compares both sides of all stations up to `now`.
    ///
    /// # Errors
    /// [`Unequal`] names the first station where they differ.
    pub fn finish(&self, now: Micros) -> Result<Vec<Law>, Unequal> {
        let laws: Vec<Law> = self.stations.iter().map(|(station, record)| record.law(*station, now)).collect();
        match laws.iter().find(|law| law.present_us != law.spent_us) {
            Some(law) => Err(Unequal(*law)),
            None => Ok(laws),
        }
    }
}

fn drives(region: &Region) -> impl Iterator<Item = (Library, Drive)> + '_ {
    let all = region.controllers().iter().enumerate();
    all.flat_map(|(index, controller)| controller.panel().drives().map(move |drive| (Library(index as u16), drive)))
}
