//! Checks that a platter is in exactly one place (I3), and that three accounts of its place agree:
//! commands and answers, the controller's state, and the machines.

use fulgurite_domain::Micros;
use fulgurite_journal::Fact;
use fulgurite_library::{Action, Actor, Bay, Berth, Command, Drive, Event, Library, Platter, Region, Slot, Whereabouts};

use super::{AnsweredCommand, Machines};

/// A platter that is not where it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what happened")]
pub enum Misplaced {
    #[error("at {now}, platter {} of library {} is taken from {expected:?}, but it is {found:?}", .platter.0, .library.0)]
    Elsewhere { now: Micros, library: Library, platter: Platter, found: Whereabouts, expected: Whereabouts },
    #[error("at {now}, platter {} of library {} is put into {berth:?}, but platter {} is there", .platter.0, .library.0, .found.0)]
    Taken { now: Micros, library: Library, platter: Platter, berth: Berth, found: Platter },
    #[error("at {now}, platter {} of library {} is taken from {berth:?}, but it is mounted there", .platter.0, .library.0)]
    Mounted { now: Micros, library: Library, platter: Platter, berth: Berth },
    #[error(
        "platter {} of library {} is {derived:?} by commands and answers, {believed:?} by the controller, and {actual:?} in truth",
        .platter.0, .library.0
    )]
    Disputed { library: Library, platter: Platter, derived: Whereabouts, believed: Whereabouts, actual: fulgurite_mechanics::Whereabouts },
    #[error("library {} holds {found} platters, but {expected} are expected", .library.0)]
    Count { library: Library, found: usize, expected: usize },
}

/// The place of every platter, from commands and answers alone.
#[derive(Debug, Clone, Default)]
pub struct PlattersAreConserved {
    libraries: Vec<Berths>,
    /// True if mounts take platters out of their slots, and unmounts return them.
    needs_no_shuttles: bool,
}

#[derive(Debug, Clone)]
struct Berths {
    whereabouts: Vec<Whereabouts>,
    slots: Vec<Option<Platter>>,
    bays: Vec<[Option<Platter>; 2]>,
    mounted: Vec<[Option<Platter>; 2]>,
    /// The slots to which platters that came without a shuttle return.
    homes: Vec<[Option<Slot>; 2]>,
}

impl PlattersAreConserved {
    /// Starts from the places of platters in a region without input so far.
    pub fn new(region: &Region, needs_no_shuttles: bool) -> Self {
        let libraries = region.controllers().iter().map(|controller| {
            let panel = controller.panel();
            let drives = usize::from(panel.layout().drive_count());
            let mut berths = Berths {
                whereabouts: (0..panel.platter_count()).map(|platter| panel.whereabouts(Platter(platter))).collect(),
                slots: vec![None; panel.layout().slot_count() as usize],
                bays: vec![[None; 2]; drives],
                mounted: vec![[None; 2]; drives],
                homes: vec![[None; 2]; drives],
            };
            for index in 0..berths.whereabouts.len() {
                if let Whereabouts::Berth(berth) = berths.whereabouts[index]
                    && let Some(place) = berths.place(berth)
                {
                    *place = Some(Platter(index as u32));
                }
            }
            berths
        });
        Self { libraries: libraries.collect(), needs_no_shuttles }
    }

    /// Checks one fact, and the command that it answers.
    ///
    /// # Errors
    /// [`Misplaced`] names the platter that is not where it should be.
    pub fn observe(&mut self, now: Micros, fact: &Fact, answered: Option<&AnsweredCommand>) -> Result<(), Misplaced> {
        match *fact {
            Fact::Commanded { library, command: Command::Do { id, action } } => match (action, id.actor) {
                (Action::Mount { bay, platter }, Actor::Drive(drive)) if self.needs_no_shuttles => {
                    let berths = &mut self.libraries[usize::from(library.0)];
                    if let Whereabouts::Berth(from @ Berth::Slot(slot)) = berths.whereabouts[platter.0 as usize] {
                        berths.take_from_berth(now, library, platter, Whereabouts::Berth(from))?;
                        berths.put_in_berth(now, library, platter, Berth::Bay(drive, bay))?;
                        berths.homes[usize::from(drive.0)][usize::from(bay.0)] = Some(slot);
                    }
                    Ok(())
                }
                _ => Ok(()),
            },
            Fact::Happened { library, event: Event::PlatterWritten { platter }, .. } => {
                let berths = &mut self.libraries[usize::from(library.0)];
                berths.expect(now, library, platter, Whereabouts::Unwritten)?;
                berths.put_in_berth(now, library, platter, Berth::Port)
            }
            Fact::Happened { library, event: Event::Repaired { actor: Actor::Drive(drive) }, .. } => {
                [Bay(0), Bay(1)].into_iter().try_for_each(|bay| self.libraries[usize::from(library.0)].release(now, library, drive, bay))
            }
            _ => match answered {
                Some(AnsweredCommand { library, open, outcome: Event::Done { .. } }) => {
                    self.libraries[usize::from(library.0)].apply(now, *library, open.id.actor, open.action)
                }
                _ => Ok(()),
            },
        }
    }

    /// The place of a platter, from commands and answers.
    pub fn whereabouts(&self, library: Library, platter: Platter) -> Whereabouts {
        self.libraries[usize::from(library.0)].whereabouts[platter.0 as usize]
    }

    /// The platter in a bay.
    pub fn in_bay(&self, library: Library, drive: Drive, bay: Bay) -> Option<Platter> {
        self.libraries[usize::from(library.0)].bays[usize::from(drive.0)][usize::from(bay.0)]
    }

    /// The platter mounted in a bay.
    pub fn mounted(&self, library: Library, drive: Drive, bay: Bay) -> Option<Platter> {
        self.libraries[usize::from(library.0)].mounted[usize::from(drive.0)][usize::from(bay.0)]
    }

    /// Compares the three accounts.
    ///
    /// # Errors
    /// [`Misplaced`] for the first platter on which they differ.
    pub fn finish(&self, region: &Region, machines: &[Machines]) -> Result<(), Misplaced> {
        for (index, (berths, machines)) in self.libraries.iter().zip(machines).enumerate() {
            let library = Library(index as u16);
            let panel = region.controllers()[index].panel();
            for (platter, derived) in berths.whereabouts.iter().enumerate() {
                let platter = Platter(platter as u32);
                let (believed, actual) = (panel.whereabouts(platter), machines.whereabouts(platter));
                let machines_agree = match *derived {
                    Whereabouts::Berth(berth) => actual == fulgurite_mechanics::Whereabouts::At(berth),
                    Whereabouts::Shuttle(shuttle) => actual == fulgurite_mechanics::Whereabouts::On(shuttle),
                    Whereabouts::Unwritten => actual == fulgurite_mechanics::Whereabouts::Absent,
                };
                // Without shuttles, the controller counts a platter as in the drive while the drive
                // still has to switch to that bay.
                let is_in_transit = self.needs_no_shuttles && matches!(believed, Whereabouts::Berth(Berth::Bay(..)));
                if !machines_agree || believed != *derived && !is_in_transit {
                    return Err(Misplaced::Disputed { library, platter, derived: *derived, believed, actual });
                }
            }
            let expected = berths.whereabouts.iter().filter(|whereabouts| **whereabouts != Whereabouts::Unwritten).count();
            if machines.platters != expected {
                return Err(Misplaced::Count { library, found: machines.platters, expected });
            }
        }
        Ok(())
    }
}

impl Berths {
    /// The platter in a berth. `None` for the port, which holds any number.
    fn place(&mut self, berth: Berth) -> Option<&mut Option<Platter>> {
        match berth {
            Berth::Slot(slot) => self.slots.get_mut(slot.0 as usize),
            Berth::Bay(drive, bay) => self.bays.get_mut(usize::from(drive.0))?.get_mut(usize::from(bay.0)),
            Berth::Port => None,
        }
    }

    fn apply(&mut self, now: Micros, library: Library, actor: Actor, action: Action) -> Result<(), Misplaced> {
        match (action, actor) {
            (Action::Pick { from, platter }, Actor::Shuttle(shuttle)) => {
                if let Berth::Bay(drive, bay) = from
                    && self.mounted[usize::from(drive.0)][usize::from(bay.0)].is_some()
                {
                    return Err(Misplaced::Mounted { now, library, platter, berth: from });
                }
                self.take_from_berth(now, library, platter, Whereabouts::Berth(from))?;
                self.whereabouts[platter.0 as usize] = Whereabouts::Shuttle(shuttle);
                Ok(())
            }
            (Action::Place { to, platter }, Actor::Shuttle(shuttle)) => {
                self.expect(now, library, platter, Whereabouts::Shuttle(shuttle))?;
                self.put_in_berth(now, library, platter, to)
            }
            (Action::Mount { bay, platter }, Actor::Drive(drive)) => {
                self.expect(now, library, platter, Whereabouts::Berth(Berth::Bay(drive, bay)))?;
                self.mounted[usize::from(drive.0)][usize::from(bay.0)] = Some(platter);
                Ok(())
            }
            (Action::Unmount { bay, .. }, Actor::Drive(drive)) => self.release(now, library, drive, bay),
            _ => Ok(()),
        }
    }

    /// Unmounts the platter in a bay, and returns it to its slot if it came without a shuttle.
    fn release(&mut self, now: Micros, library: Library, drive: Drive, bay: Bay) -> Result<(), Misplaced> {
        let (drive_index, bay_index) = (usize::from(drive.0), usize::from(bay.0));
        self.mounted[drive_index][bay_index] = None;
        match (self.homes[drive_index][bay_index].take(), self.bays[drive_index][bay_index]) {
            (Some(home), Some(platter)) => {
                self.take_from_berth(now, library, platter, Whereabouts::Berth(Berth::Bay(drive, bay)))?;
                self.put_in_berth(now, library, platter, Berth::Slot(home))
            }
            _ => Ok(()),
        }
    }

    fn expect(&self, now: Micros, library: Library, platter: Platter, expected: Whereabouts) -> Result<(), Misplaced> {
        let found = self.whereabouts.get(platter.0 as usize).copied().unwrap_or(Whereabouts::Unwritten);
        if found == expected { Ok(()) } else { Err(Misplaced::Elsewhere { now, library, platter, found, expected }) }
    }

    fn take_from_berth(&mut self, now: Micros, library: Library, platter: Platter, from: Whereabouts) -> Result<(), Misplaced> {
        self.expect(now, library, platter, from)?;
        if let Whereabouts::Berth(berth) = from
            && let Some(place) = self.place(berth)
        {
            *place = None;
        }
        Ok(())
    }

    fn put_in_berth(&mut self, now: Micros, library: Library, platter: Platter, berth: Berth) -> Result<(), Misplaced> {
        if let Some(place) = self.place(berth) {
            if let Some(found) = *place {
                return Err(Misplaced::Taken { now, library, platter, berth, found });
            }
            *place = Some(platter);
        }
        self.whereabouts[platter.0 as usize] = Whereabouts::Berth(berth);
        Ok(())
    }
}
