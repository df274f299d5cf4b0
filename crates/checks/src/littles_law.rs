//! Checks Little's law at every station: the number present, integrated over time, equals the sum
//! of the times spent there. Both sides are whole microseconds and must be equal; customers still
//! present at the end count with the time since their arrival.
//!
//! ```text
//!   present                        integral of the number present, as the controller counts it
//!   3 |      ____                    after each event
//!   2 |   __|    |__               = sum of the times from arrival to departure, by name, from
//!   1 |__|          |____            commands and answers
//!     +-------------------- time
//!                                  L = integral / time, lambda = arrivals / time,
//!                                  W = mean time of those that left
//!                                  L = lambda W apart from those still present
//! ```
//!
//! The two sides are independent. The left one comes from the counters of the controllers: platters
//! waiting, in a drive, on a shuttle. The right one is kept by name from the inputs and outputs.
//! Waiting platters enter and leave their lines inside the controller, so for them the right side
//! reads the lists of the lines, while the left side reads the counters.

use std::collections::BTreeMap;

use fulgurite_domain::Micros;
use fulgurite_journal::Fact;
use fulgurite_library::{Action, Actor, Bay, Berth, Drive, Event, Library, Platter, Region, Shuttle, Stage};

use super::{AnsweredCommand, PlattersAreConserved};

/// A place where customers spend time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Station {
    /// Requests in the region, from arrival to end.
    Region,
    /// Platters that wait in a line of a library.
    Waiting(Library),
    /// Platters in a drive.
    InDrive(Library, Drive),
    /// Platters that are mounted in a drive.
    Mounted(Library, Drive),
    /// Platters on the shuttles of a library.
    OnShuttles(Library),
}

/// What was measured at a station.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Law {
    /// The station.
    pub station: Station,
    /// Integral of the number present over time, in microseconds: the left side.
    pub present_us: u128,
    /// Sum of the times spent, in microseconds: the right side.
    pub spent_us: u128,
    /// Arrivals, including the customers present at the beginning.
    pub arrivals: u64,
    /// Departures.
    pub departures: u64,
    /// Mean number present: L.
    pub l: f64,
    /// Arrivals per second: lambda.
    pub lambda: f64,
    /// Mean seconds spent by those that left: W.
    pub w: f64,
}

/// The law is broken: a customer was counted but not present, or present but not counted.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{:?}: counting those present gives {} µs, adding up the time of each gives {} µs", .0.station, .0.present_us, .0.spent_us)]
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
    /// The platters in the lines of each library.
    lines: Vec<Vec<Platter>>,
    /// True if platters need no shuttles: a platter then counts as in a drive when its controller
    /// says so, and no command gives the instant.
    needs_no_shuttles: bool,
}

impl LittlesLaw {
    /// For a region without input so far.
    pub fn new(region: &Region, platters: &PlattersAreConserved, needs_no_shuttles: bool) -> Self {
        let mut law = Self { lines: vec![Vec::new(); region.controllers().len()], needs_no_shuttles, ..Self::default() };
        if !needs_no_shuttles {
            for (library, drive) in drives(region) {
                for platter in [Bay(0), Bay(1)].into_iter().filter_map(|bay| platters.in_bay(library, drive, bay)) {
                    law.at(Station::InDrive(library, drive)).arrive(Micros::ZERO, platter.0.into());
                }
            }
        }
        for (index, controller) in region.controllers().iter().enumerate() {
            let panel = controller.panel();
            for platter in (0..panel.layout().shuttles).filter_map(|shuttle| panel.carried(Shuttle(shuttle))) {
                law.at(Station::OnShuttles(Library(index as u16))).arrive(Micros::ZERO, platter.0.into());
            }
        }
        law.settled(Micros::ZERO, region);
        law
    }

    fn at(&mut self, station: Station) -> &mut Record {
        self.stations.entry(station).or_default()
    }

    /// Updates the right sides with one fact, and the command that it answers.
    pub fn observe(&mut self, now: Micros, fact: &Fact, answered: Option<&AnsweredCommand>) {
        match *fact {
            Fact::Requested { request, .. } | Fact::VerificationRequested { request, .. } => {
                self.at(Station::Region).arrive(now, request.0)
            }
            Fact::Ended { request, .. } => self.at(Station::Region).leave(now, request.0),
            Fact::Happened { library, event: Event::Repaired { actor: Actor::Drive(drive) }, .. } => {
                // A repair releases whatever was mounted in the drive.
                let mounted = self.at(Station::Mounted(library, drive));
                for who in mounted.inside.keys().copied().collect::<Vec<_>>() {
                    mounted.leave(now, who);
                }
            }
            _ => {}
        }
        let Some(AnsweredCommand { library, open, outcome: Event::Done { .. } }) = answered else { return };
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

    /// Updates the left sides from the controllers after each event or request.
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
