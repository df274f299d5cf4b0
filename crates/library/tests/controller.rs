//! The controller against a driver that answers every command after a fixed time, with and without
//! failures.

use std::collections::BTreeMap;

use fulgurite_domain::Micros;
use fulgurite_library::{
    Action, Actor, Balanced, Bay, Berth, Carry, Command, CommandId, Controller, Drive, Event, Fault, Inventory, Job, Layout, NoShuttles,
    Operation, Outcome, Pace, Panel, Partitioned, Platter, Policy, Position, ReadRequest, RequestId, ShortestPaths, Shuttle, Slot, Task,
    Techniques, Tracks, Verification, Whereabouts,
};

/// Answers commands in order of time, and tracks where platters really are.
struct Driver {
    controller: Controller,
    due: BTreeMap<(Micros, u64), Event>,
    sequence: u64,
    now: Micros,
    ended: Vec<(RequestId, Outcome)>,
    /// A silent shuttle: its commands are never answered.
    lost: Option<Shuttle>,
    moved: BTreeMap<u32, Vec<Berth>>,
    /// The tracks of each verification that was started.
    verifications: Vec<Tracks>,
    /// The verifications under way.
    verifying: BTreeMap<Actor, CommandId>,
}

impl Driver {
    fn new(policy: Box<dyn Policy>, layout: &Layout, verification: Verification) -> Self {
        // Every third slot has a platter.
        let homes = (0..layout.slot_count()).step_by(3).map(Slot).collect::<Vec<_>>();
        let written = homes.len() as u32;
        Self::with(policy, layout, &Inventory { homes, written, tracks: 1_000, verification, ..Inventory::default() })
    }

    fn with(policy: Box<dyn Policy>, layout: &Layout, inventory: &Inventory) -> Self {
        let mut driver = Self {
            controller: Controller::new(layout.clone(), Pace::default(), inventory, policy),
            due: BTreeMap::new(),
            sequence: 0,
            now: Micros::ZERO,
            ended: Vec::new(),
            lost: None,
            moved: BTreeMap::new(),
            verifications: Vec::new(),
            verifying: BTreeMap::new(),
        };
        driver.deliver(Event::Woken);
        driver
    }

    fn deliver(&mut self, event: Event) {
        let mut commands = Vec::new();
        self.controller.step(self.now, event, &mut commands);
        for command in commands {
            match command {
                Command::Do { id, action } if self.lost.is_none_or(|lost| id.actor != Actor::Shuttle(lost)) => {
                    if let Action::Place { to, platter } = action {
                        self.moved.entry(platter.0).or_default().push(to);
                    }
                    if let Some(command) = self.verifying.remove(&id.actor) {
                        self.sequence += 1;
                        self.due.insert((self.now, self.sequence), Event::Interrupted { command, verified: 0 });
                    }
                    // Verification never ends here; an interruption answers it.
                    if let Action::Verify { tracks, .. } = action {
                        self.verifications.push(tracks);
                        self.verifying.insert(id.actor, id);
                    } else {
                        self.sequence += 1;
                        self.due.insert((self.now + Micros::SECOND, self.sequence), Event::Done { command: id });
                    }
                }
                Command::Do { .. } => {}
                Command::Finish { request, outcome } => self.ended.push((request, outcome)),
            }
        }
    }

    fn request_read(&mut self, id: u64, platter: u32) {
        let request =
            ReadRequest { id: RequestId(id), platter: Platter(platter), tracks: Tracks { first: 5, count: 2 }, deadline: Micros::NEVER };
        self.deliver(Event::ReadRequested(request));
    }

    /// Runs until nothing is due or `until` is reached.
    fn run(&mut self, until: Micros) {
        loop {
            let wake = self.controller.deadline().filter(|_| self.due.is_empty());
            let first = self.due.first_key_value().map(|((at, _), _)| *at).or(wake).filter(|at| *at <= until);
            let Some(at) = first else {
                self.now = until;
                return;
            };
            let event = self.due.pop_first().map_or(Event::Woken, |(_, event)| event);
            self.now = at.max(self.now);
            self.deliver(event);
        }
    }

    fn is_home(&self, platter: u32) -> bool {
        let home = Berth::Slot(Slot(3 * platter));
        self.controller.panel().whereabouts(Platter(platter)) == Whereabouts::Berth(home)
    }
}

fn policies(layout: &Layout) -> Vec<Box<dyn Policy>> {
    vec![
        Box::new(ShortestPaths),
        Box::new(Partitioned::new(layout, Some(100))),
        Box::new(Balanced::new(layout, &Pace::default(), Techniques::default())),
        Box::new(Balanced::new(layout, &Pace::default(), Techniques { exchanges: false, ..Techniques::default() })),
    ]
}

const DAY: Micros = Micros(86_400_000_000);

#[test]
fn every_platter_is_read_once_for_many_requests_and_goes_back_to_its_own_slot() {
    let layout = Layout { shuttles: 8, ..Layout::default() };
    for policy in policies(&layout) {
        let mut driver = Driver::new(policy, &layout, Verification::Endless);
        for request in 0..300 {
            driver.request_read(request, (request as u32 * 7) % 150);
        }
        driver.run(DAY);
        assert_eq!(driver.ended.len(), 300);
        assert!(driver.ended.iter().all(|(_, outcome)| *outcome == Outcome::Read));
        assert!((0..150).all(|platter| driver.is_home(platter)));
        assert!(
            driver.moved.iter().filter(|(platter, _)| **platter < 150).all(|(_, places)| places.len() == 2),
            "one way there and one back"
        );
    }
}

#[test]
fn under_load_both_bays_serve_customers_and_verification_returns_afterwards() {
    let layout = Layout::default();
    let mut driver = Driver::new(Box::new(Balanced::new(&layout, &Pace::default(), Techniques::default())), &layout, Verification::Endless);
    let is_verifying = |driver: &Driver, drive: Drive| {
        let bays = driver.controller.panel().bays(drive);
        bays.iter().any(|bay| bay.held.is_some_and(|held| held.purpose == fulgurite_library::Purpose::Verification))
    };
    // Half a shelf next to drive 0.
    for request in 0..30 {
        driver.request_read(request, request as u32);
    }
    driver.run(Micros(120_000_000));
    assert!(!is_verifying(&driver, Drive(0)), "its bay is needed");
    assert!(is_verifying(&driver, Drive(5)), "no request waits there");
    driver.run(DAY);
    // A request long after: the policy then notices that none has waited for a while.
    driver.request_read(99, 0);
    driver.run(Micros(2 * DAY.0));
    assert_eq!(driver.ended.len(), 31);
    assert!(driver.controller.panel().drives().all(|drive| is_verifying(&driver, drive)));
}

#[test]
fn two_shuttles_of_one_drive_finish_whenever_one_of_them_is_lost() {
    let layout = Layout { drives: [1, 0], shuttles: 2, ..Layout::default() };
    for (lost, after_s) in [Shuttle(0), Shuttle(1)].into_iter().flat_map(|lost| (1..60).step_by(3).map(move |after_s| (lost, after_s))) {
        let policy = Balanced::new(&layout, &Pace::default(), Techniques::default());
        let mut driver = Driver::new(Box::new(policy), &layout, Verification::Off);
        for request in 0..60 {
            driver.request_read(request, request as u32 * 5);
        }
        driver.run(Micros(after_s * 1_000_000));
        // It stops as soon as it has picked the next platter.
        let carried = |driver: &Driver| driver.controller.panel().carried(lost);
        while carried(&driver).is_some() || driver.controller.panel().job(lost) == Job::Idle {
            driver.run(driver.now + Micros::SECOND);
        }
        while carried(&driver).is_none() {
            driver.run(driver.now + Micros::SECOND);
        }
        let Job::Carry(carry) = driver.controller.panel().job(lost) else { panic!("it carries a platter") };
        let x_um = layout.berth_position(carry.from).x_um;
        driver.lost = Some(lost);
        driver.deliver(Event::Lost { actor: Actor::Shuttle(lost), fault: Fault::Stopped { x_um } });
        driver.run(Micros::HOUR);
        driver.lost = None;
        driver.deliver(Event::Repaired { actor: Actor::Shuttle(lost) });
        driver.run(DAY);
        assert_eq!(driver.ended.len(), 60, "{lost:?} was lost after {after_s} s");
        assert!((0..300).step_by(5).all(|platter| driver.is_home(platter)), "{lost:?} was lost after {after_s} s");
    }
}

#[test]
fn requests_blocked_by_a_lost_shuttle_end_as_unavailable_and_other_shuttles_serve_the_rest() {
    let layout = Layout::default();
    for policy in policies(&layout) {
        let mut driver = Driver::new(policy, &layout, Verification::Endless);
        let lost = Shuttle(3);
        // It stops in the middle of its half of shelf 3.
        let at = Position { shelf: 3, x_um: driver.controller.panel().position(lost).x_um };
        driver.lost = Some(lost);
        driver.deliver(Event::Lost { actor: Actor::Shuttle(lost), fault: Fault::Stopped { x_um: at.x_um } });
        let zone = driver.controller.panel().is_blocked(layout.cell_at(at));
        assert!(zone, "the lost shuttle's cell is unreachable");
        // Slot 0 of shelf 3 in the first storage rack is next to the shuttle, slot 0 of shelf 3 in
        // the third is not.
        let of = |rack: u8| layout.slot(fulgurite_library::Cell { rack, shelf: 3 }, 0).0.div_ceil(3);
        driver.request_read(1, of(2));
        driver.request_read(2, of(4));
        driver.run(DAY);
        driver.ended.sort_unstable_by_key(|(request, _)| *request);
        assert_eq!(driver.ended, [(RequestId(1), Outcome::Unavailable), (RequestId(2), Outcome::Read)]);
        driver.lost = None;
        driver.deliver(Event::Repaired { actor: Actor::Shuttle(lost) });
        driver.request_read(3, of(2));
        driver.run(Micros(2 * DAY.0));
        assert_eq!(driver.ended.last(), Some(&(RequestId(3), Outcome::Read)));
    }
}

#[test]
fn a_platter_whose_slot_is_blocked_waits_in_another_and_goes_home_after_the_repair() {
    let layout = Layout::default();
    let mut driver = Driver::new(Box::new(Partitioned::new(&layout, None)), &layout, Verification::Off);
    // Far from the drive on shelf 0, so that the shuttle can leave with the platter before
    // another one stops at its slot.
    let slot = layout.slot(fulgurite_library::Cell { rack: 4, shelf: 0 }, 0);
    let platter = slot.0.div_ceil(3);
    driver.request_read(1, platter);
    while !matches!(driver.controller.panel().whereabouts(Platter(platter)), Whereabouts::Berth(Berth::Bay(..))) {
        driver.run(driver.now + Micros::SECOND);
    }
    let stopped = Shuttle(10);
    let x_um = layout.slot_position(Slot(3 * platter)).x_um;
    // The shuttle of the right half of this shelf is lost at the platter's slot.
    driver.lost = Some(stopped);
    driver.deliver(Event::Lost { actor: Actor::Shuttle(stopped), fault: Fault::Stopped { x_um } });
    driver.run(driver.now + Micros::HOUR);
    assert_eq!(driver.ended, [(RequestId(1), Outcome::Read)]);
    let Whereabouts::Berth(Berth::Slot(guest)) = driver.controller.panel().whereabouts(Platter(platter)) else { panic!("not in a slot") };
    assert_ne!(guest, Slot(3 * platter));
    // A platter that can't be used waits until it can.
    driver.deliver(Event::PlatterUnavailable { platter: Platter(platter) });
    driver.lost = None;
    driver.deliver(Event::Repaired { actor: Actor::Shuttle(stopped) });
    driver.run(driver.now + Micros::HOUR);
    assert!(!driver.is_home(platter));
    driver.deliver(Event::PlatterAvailable { platter: Platter(platter) });
    driver.run(driver.now + Micros::HOUR);
    assert!(driver.is_home(platter));
}

/// A library with a platter in each slot, except the last `spare` ones.
fn full(policy: Box<dyn Policy>, layout: &Layout, spare: u32, verification: Verification) -> Driver {
    let homes: Vec<Slot> = (0..layout.slot_count() - spare).map(Slot).collect();
    let written = homes.len() as u32;
    Driver::with(policy, layout, &Inventory { homes, written, tracks: 1_000, verification, ..Inventory::default() })
}

#[test]
fn a_platter_whose_slot_is_blocked_goes_home_after_the_repair_even_without_a_spare_slot() {
    let layout = Layout::default();
    let mut driver = full(Box::new(Partitioned::new(&layout, None)), &layout, 0, Verification::Off);
    let slot = layout.slot(fulgurite_library::Cell { rack: 4, shelf: 0 }, 0);
    let platter = slot.0;
    driver.request_read(1, platter);
    while !matches!(driver.controller.panel().whereabouts(Platter(platter)), Whereabouts::Berth(Berth::Bay(..))) {
        driver.run(driver.now + Micros::SECOND);
    }
    let stopped = Shuttle(10);
    driver.lost = Some(stopped);
    driver.deliver(Event::Lost { actor: Actor::Shuttle(stopped), fault: Fault::Stopped { x_um: layout.slot_position(slot).x_um } });
    driver.run(driver.now + Micros::HOUR);
    assert_eq!(driver.ended, [(RequestId(1), Outcome::Read)]);
    let at = driver.controller.panel().whereabouts(Platter(platter));
    assert!(matches!(at, Whereabouts::Shuttle(_)), "it waits on a shuttle: {at:?}");
    driver.lost = None;
    driver.deliver(Event::Repaired { actor: Actor::Shuttle(stopped) });
    driver.run(driver.now + Micros::HOUR);
    assert_eq!(driver.controller.panel().whereabouts(Platter(platter)), Whereabouts::Berth(Berth::Slot(slot)));
}

/// A lost shuttle gives up the spare slot that it was going to. If another platter takes it, the
/// repaired shuttle finds another place, or waits for one.
#[test]
fn a_repaired_shuttle_whose_spare_slot_was_taken_finds_another_place() {
    let layout = Layout::default();
    let mut driver = full(Box::new(Balanced::new(&layout, &Pace::default(), Techniques::default())), &layout, 1, Verification::Endless);
    // So many platters near three drives that both bays of each are wanted.
    let cells = [0, 3, 5].map(|shelf| fulgurite_library::Cell { rack: 2, shelf });
    let wanted: Vec<u32> = cells.iter().flat_map(|cell| (0..60).map(|index| layout.slot(*cell, index).0)).collect();
    for (id, platter) in (0..).zip(&wanted) {
        driver.request_read(id, *platter);
    }
    let is_homeless = |driver: &Driver, platter: Platter| driver.controller.panel().home(platter).is_none();
    let carrier = loop {
        let shuttles = (0..layout.shuttles).map(Shuttle);
        let found = shuttles
            .into_iter()
            .find(|shuttle| driver.controller.panel().carried(*shuttle).is_some_and(|platter| is_homeless(&driver, platter)));
        if let Some(shuttle) = found {
            break shuttle;
        }
        assert!(!driver.due.is_empty(), "no shuttle sets a verification aside");
        let next = driver.due.first_key_value().expect("just checked").0.0;
        driver.run(next);
    };
    assert_eq!(driver.controller.panel().spare_slots(), 0, "the only spare slot is reserved");
    // It stops where it picked the platter.
    let Job::Carry(Carry { from: Berth::Bay(drive, _), .. }) = driver.controller.panel().job(carrier) else { panic!("not from a drive") };
    let x_um = layout.drive_position(drive).x_um;
    driver.lost = Some(carrier);
    let number = |event: &Event| matches!(event, Event::Done { command } if command.actor == Actor::Shuttle(carrier));
    driver.due.retain(|_, event| !number(event));
    driver.deliver(Event::Lost { actor: Actor::Shuttle(carrier), fault: Fault::Stopped { x_um } });
    while driver.controller.panel().spare_slots() > 0 {
        assert!(!driver.due.is_empty(), "no other platter takes the spare slot");
        let next = driver.due.first_key_value().expect("just checked").0.0;
        driver.run(next);
    }
    driver.lost = None;
    driver.deliver(Event::Repaired { actor: Actor::Shuttle(carrier) });
    driver.run(driver.now + DAY);
    assert_eq!(driver.controller.panel().carried(carrier), None, "it placed its platter");
    assert_eq!(driver.ended.len(), wanted.len());
}

#[test]
fn an_interruption_counts_once_and_only_for_the_verification_that_made_way() {
    let layout = Layout::default();
    let homes: Vec<Slot> = (0..300).map(|index| Slot(index * (layout.slot_count() / 300))).collect();
    let inventory = Inventory { homes, written: 299, tracks: 10, verification: Verification::Written, ..Inventory::default() };
    let mut driver = Driver::with(Box::new(Balanced::new(&layout, &Pace::default(), Techniques::default())), &layout, &inventory);
    driver.deliver(Event::PlatterWritten { platter: Platter(299) });
    driver.run(Micros::HOUR);
    let verifying =
        |driver: &Driver| driver.controller.panel().drives().find_map(|drive| driver.controller.panel().verification_command(drive));
    let command = verifying(&driver).expect("a drive verifies");
    driver.deliver(Event::Interrupted { command, verified: 10 });
    assert_eq!(driver.controller.unexpected_answers(), 1, "it goes on");
    // Customers for every drive.
    for id in 0..299 {
        driver.request_read(id, id as u32);
    }
    while verifying(&driver) == Some(command) {
        assert!(!driver.due.is_empty(), "no customer came");
        let next = driver.due.first_key_value().expect("just checked").0.0;
        driver.run(next);
    }
    driver.deliver(Event::Interrupted { command, verified: 3 });
    assert_eq!(driver.controller.unexpected_answers(), 1, "this one was expected");
    driver.deliver(Event::Interrupted { command, verified: 3 });
    assert_eq!(driver.controller.unexpected_answers(), 2, "the same answer again");
    driver.run(driver.now + DAY);
    assert_eq!(driver.verifications, [Tracks { first: 0, count: 10 }, Tracks { first: 3, count: 7 }]);
}

#[test]
fn a_drive_that_is_down_keeps_its_platter_until_it_works_again() {
    let layout = Layout::default();
    let mut driver = Driver::new(Box::new(Partitioned::new(&layout, None)), &layout, Verification::Off);
    driver.request_read(1, 0);
    while driver.controller.panel().operation(Drive(0)).is_none() {
        driver.run(driver.now + Micros::SECOND);
    }
    driver.deliver(Event::Lost { actor: Actor::Drive(Drive(0)), fault: Fault::DriveDown });
    driver.due.clear();
    driver.request_read(2, 0);
    driver.run(driver.now + Micros::HOUR);
    assert_eq!(driver.ended, [(RequestId(1), Outcome::Unavailable), (RequestId(2), Outcome::Unavailable)]);
    driver.deliver(Event::Repaired { actor: Actor::Drive(Drive(0)) });
    driver.run(driver.now + Micros::HOUR);
    assert!(driver.is_home(0));
}

impl Driver {
    /// Runs event by event until the condition holds.
    fn run_until(&mut self, what: &str, is_reached: impl Fn(&Controller) -> bool) {
        while !is_reached(&self.controller) {
            assert!(!self.due.is_empty(), "nothing more happens before {what}");
            self.run(self.due.first_key_value().expect("just checked").0.0);
        }
    }

    /// A drive stops working, and with it the command that it carries out.
    fn fail_drive(&mut self, drive: Drive) {
        self.due.retain(|_, event| !matches!(event, Event::Done { command } if command.actor == Actor::Drive(drive)));
        self.deliver(Event::Lost { actor: Actor::Drive(drive), fault: Fault::DriveDown });
    }
}

/// Homes for a platter that is stored and one that has yet to be written.
fn one_to_write() -> Inventory {
    let homes = vec![Slot(0), Slot(900)];
    Inventory { homes, written: 1, tracks: 10, verification: Verification::Written, ..Inventory::default() }
}

/// Has platter 1 written and brought to a drive. Returns the drive, which is verifying it.
fn verifying_drive(driver: &mut Driver) -> Drive {
    driver.deliver(Event::PlatterWritten { platter: Platter(1) });
    let verifying =
        |controller: &Controller| controller.panel().drives().find(|drive| controller.panel().verification_command(*drive).is_some());
    driver.run_until("the verification", |controller| verifying(controller).is_some());
    verifying(&driver.controller).expect("a drive verifies")
}

#[test]
fn a_verified_platter_is_stored_and_read_after_its_drive_failed_and_was_repaired() {
    let layout = Layout::default();
    // The drive fails while it unmounts the platter, or while the released platter waits.
    let cases = [false, true].into_iter().flat_map(|is_released| policies(&layout).into_iter().map(move |policy| (policy, is_released)));
    for (policy, is_released) in cases {
        let mut driver = Driver::with(policy, &layout, &one_to_write());
        let drive = verifying_drive(&mut driver);
        let command = driver.controller.panel().verification_command(drive).expect("it verifies");
        driver.deliver(Event::Done { command });
        assert_eq!(driver.controller.panel().operation(drive), Some(Operation::Unmount));
        if is_released {
            driver.run_until("the unmount", |controller| controller.panel().operation(drive).is_none());
        }
        driver.fail_drive(drive);
        driver.run(driver.now + Micros::HOUR);
        driver.deliver(Event::Repaired { actor: Actor::Drive(drive) });
        driver.request_read(1, 1);
        driver.run(driver.now + Micros::HOUR);
        assert_eq!(driver.ended, [(RequestId(1), Outcome::Read)]);
        assert_eq!(driver.controller.panel().whereabouts(Platter(1)), Whereabouts::Berth(Berth::Slot(Slot(900))));
    }
}

#[test]
fn without_shuttles_a_repaired_drive_serves_other_platters() {
    let layout = Layout { drives: [1, 0], shuttles: 0, ..Layout::default() };
    let mut driver = Driver::new(Box::new(NoShuttles), &layout, Verification::Off);
    driver.request_read(1, 0);
    driver.run_until("the read", |controller| matches!(controller.panel().operation(Drive(0)), Some(Operation::Read(..))));
    driver.fail_drive(Drive(0));
    driver.request_read(2, 7);
    driver.run(driver.now + Micros::HOUR);
    assert_eq!(driver.ended, [(RequestId(1), Outcome::Unavailable)]);
    driver.deliver(Event::Repaired { actor: Actor::Drive(Drive(0)) });
    driver.request_read(3, 0);
    driver.run(driver.now + Micros::HOUR);
    assert_eq!(driver.ended[1..], [(RequestId(2), Outcome::Read), (RequestId(3), Outcome::Read)]);
    assert!(driver.is_home(0) && driver.is_home(7));
}

#[test]
fn a_platter_that_becomes_unavailable_while_it_is_read_is_taken_out_of_its_drive() {
    let layout = Layout::default();
    for policy in policies(&layout) {
        let mut driver = Driver::new(policy, &layout, Verification::Off);
        driver.request_read(1, 0);
        driver.run_until("the read", |controller| matches!(controller.panel().operation(Drive(0)), Some(Operation::Read(..))));
        driver.deliver(Event::PlatterUnavailable { platter: Platter(0) });
        driver.run(driver.now + Micros::HOUR);
        assert!(driver.is_home(0));
        driver.request_read(2, 0);
        driver.deliver(Event::PlatterAvailable { platter: Platter(0) });
        driver.request_read(3, 0);
        driver.run(driver.now + Micros::HOUR);
        assert_eq!(
            driver.ended,
            [1, 2, 3].map(RequestId).into_iter().zip([Outcome::Read, Outcome::Unavailable, Outcome::Read]).collect::<Vec<_>>()
        );
    }
}

#[test]
fn a_platter_that_becomes_unavailable_while_it_is_verified_is_stored() {
    let layout = Layout::default();
    for policy in policies(&layout) {
        let mut driver = Driver::with(policy, &layout, &one_to_write());
        let drive = verifying_drive(&mut driver);
        driver.deliver(Event::PlatterUnavailable { platter: Platter(1) });
        let command = driver.controller.panel().verification_command(drive).expect("it still verifies");
        driver.deliver(Event::Done { command });
        driver.run(driver.now + Micros::HOUR);
        assert_eq!(driver.controller.panel().whereabouts(Platter(1)), Whereabouts::Berth(Berth::Slot(Slot(900))));
    }
}

#[test]
fn written_platters_are_verified_and_stored() {
    let layout = Layout::default();
    for policy in policies(&layout) {
        let homes = vec![Slot(0), Slot(900), Slot(1_800)];
        let inventory = Inventory { homes, written: 1, tracks: 10, verification: Verification::Written, ..Inventory::default() };
        let mut driver = Driver::with(policy, &layout, &inventory);
        let mut verified = 0;
        for platter in [1, 2] {
            driver.deliver(Event::PlatterWritten { platter: Platter(platter) });
        }
        while verified < 2 {
            driver.run(driver.now + Micros::HOUR);
            // The driver doesn't answer verifications itself, so end those in progress.
            let ready: Vec<Drive> = driver
                .controller
                .panel()
                .drives()
                .filter(|drive| driver.controller.panel().verification_command(*drive).is_some())
                .collect();
            assert!(!ready.is_empty(), "no drive is verifying");
            for drive in ready {
                let command = driver.controller.panel().verification_command(drive).expect("checked above");
                driver.deliver(Event::Done { command });
                verified += 1;
            }
        }
        driver.run(driver.now + Micros::HOUR);
        let at = |platter| driver.controller.panel().whereabouts(Platter(platter));
        assert_eq!([at(1), at(2)], [Whereabouts::Berth(Berth::Slot(Slot(900))), Whereabouts::Berth(Berth::Slot(Slot(1_800)))]);
    }
}

#[test]
fn unexpected_answers_change_nothing() {
    let layout = Layout::default();
    let mut driver = Driver::new(Box::new(ShortestPaths), &layout, Verification::Off);
    let command = fulgurite_library::CommandId { actor: Actor::Drive(Drive(0)), number: 77 };
    driver.deliver(Event::Done { command });
    driver.deliver(Event::Failed { command, fault: Fault::DriveDown });
    driver.deliver(Event::Repaired { actor: Actor::Shuttle(Shuttle(1)) });
    assert_eq!(driver.controller.unexpected_answers(), 3);
    assert_eq!(driver.controller.panel().job(Shuttle(1)), Job::Idle);
    let empty = driver.controller.panel().bays(Drive(0)).iter().all(|bay| bay.held.is_none());
    assert!(empty && driver.controller.panel().empty_bay(Drive(0)) == Some(Bay(0)));
    driver.request_read(1, u32::MAX);
    assert_eq!(driver.ended, [(RequestId(1), Outcome::Refused)]);
}

#[test]
fn one_shuttle_serves_all_sections_with_the_last_drive_that_works() {
    let layout = Layout { shuttles: 1, drives: [3, 0], ..Layout::default() };
    for verification in [Verification::Endless, Verification::Off] {
        for failing in 0..3 {
            for at_s in (1..120).step_by(7) {
                let mut driver =
                    Driver::new(Box::new(Balanced::new(&layout, &Pace::default(), Techniques::default())), &layout, verification);
                for request in 0..40 {
                    driver.request_read(request, request as u32 * 53);
                }
                driver.run(Micros(at_s * 1_000_000));
                for drive in (0..3).filter(|drive| *drive != failing) {
                    driver.deliver(Event::Lost { actor: Actor::Drive(Drive(drive)), fault: Fault::DriveDown });
                }
                driver.run(DAY);
                assert_eq!(driver.ended.len(), 40, "{verification:?}, drive {failing} works alone from {at_s} s on");
            }
        }
    }
}

/// Wants drives to verify, and doesn't, in turn: each time that it is asked it has another answer.
struct Fickle {
    customers_only: Vec<bool>,
}

impl Policy for Fickle {
    fn assign(&mut self, panel: &Panel) -> Option<(Shuttle, Task)> {
        self.customers_only.iter_mut().for_each(|customers_only| *customers_only = !*customers_only);
        ShortestPaths.assign(panel)
    }

    fn customers_only(&self) -> &[bool] {
        &self.customers_only
    }
}

#[test]
fn a_policy_that_changes_its_mind_each_time_does_not_stop_the_library() {
    let layout = Layout { shuttles: 2, drives: [1, 1], ..Layout::default() };
    let mut driver = Driver::new(Box::new(Fickle { customers_only: vec![false; 2] }), &layout, Verification::Endless);
    assert_eq!(driver.controller.unsettled_events(), 1);
    let deadline = driver.controller.deadline();
    assert!(deadline.is_some_and(|at| at > driver.now), "the rules go on soon: {deadline:?}");
    driver.request_read(1, 40);
    driver.run(Micros::HOUR);
    assert_eq!(driver.ended, [(RequestId(1), Outcome::Read)]);
}

#[test]
fn the_rules_come_to_an_end_whenever_verification_makes_way() {
    let layout = Layout::default();
    let tuned = Techniques::default();
    for techniques in [
        Techniques { set_aside_above: 0, ..tuned },
        Techniques { brought_back_after: Micros::ZERO, ..tuned },
        Techniques { set_aside_above: 0, brought_back_after: Micros::ZERO, ..tuned },
    ] {
        let policy = Balanced::new(&layout, &Pace::default(), techniques);
        let mut driver = Driver::new(Box::new(policy), &layout, Verification::Endless);
        for request in 0..300 {
            driver.request_read(request, request as u32 * 11);
        }
        for second in 0..DAY.0 / Micros::SECOND.0 {
            driver.run(Micros(second * Micros::SECOND.0));
            assert_eq!(driver.controller.unsettled_events(), 0, "after {second} s, {techniques:?}");
        }
        assert_eq!(driver.ended.len(), 300, "{techniques:?}");
        let verifying = (0..20).filter(|drive| driver.controller.panel().verification_command(Drive(*drive)).is_some()).count();
        assert_eq!(verifying, 20, "verification returned: {techniques:?}");
    }
}
