//! The controller against a driver that answers every command after a fixed time, with and without
//! failures.

use std::collections::BTreeMap;

use fulgurite_domain::Micros;
use fulgurite_library::{
    Action, Actor, Bay, Berth, Command, Controller, Drive, Event, Fault, Inventory, Job, Layout, LeastCost, Outcome, Pace, Partitioned,
    Platter, Policy, Position, ReadRequest, RequestId, ShortestPaths, Shuttle, Slot, Techniques, Tracks, Verification, Whereabouts,
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
}

impl Driver {
    fn new(policy: Box<dyn Policy>, layout: &Layout, verification: Verification) -> Self {
        // Every third slot has a platter.
        let homes = (0..layout.slot_count()).step_by(3).map(Slot).collect::<Vec<_>>();
        let written = homes.len() as u32;
        let inventory = Inventory { homes, written, tracks: 1_000, verification, ..Inventory::default() };
        let controller = Controller::new(layout.clone(), Pace::default(), &inventory, policy);
        let mut driver = Self {
            controller,
            due: BTreeMap::new(),
            sequence: 0,
            now: Micros::ZERO,
            ended: Vec::new(),
            lost: None,
            moved: BTreeMap::new(),
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
                    // Verification never ends here; an interruption answers it.
                    if !matches!(action, Action::Verify { .. }) {
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
        Box::new(LeastCost::new(layout, Techniques::default())),
        Box::new(LeastCost::new(layout, Techniques { exchanges: false, ..Techniques::default() })),
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
    let mut driver = Driver::new(Box::new(LeastCost::new(&layout, Techniques::default())), &layout, Verification::Endless);
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
    driver.lost = None;
    driver.deliver(Event::Repaired { actor: Actor::Shuttle(stopped) });
    driver.run(driver.now + Micros::HOUR);
    assert!(driver.is_home(platter));
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

#[test]
fn written_platters_are_verified_and_stored() {
    let layout = Layout::default();
    for policy in policies(&layout) {
        let homes = vec![Slot(0), Slot(900), Slot(1_800)];
        let inventory = Inventory { homes, written: 1, tracks: 10, verification: Verification::Written, ..Inventory::default() };
        let controller = Controller::new(layout.clone(), Pace::default(), &inventory, policy);
        let mut driver = Driver {
            controller,
            due: BTreeMap::new(),
            sequence: 0,
            now: Micros::ZERO,
            ended: Vec::new(),
            lost: None,
            moved: BTreeMap::new(),
        };
        driver.deliver(Event::Woken);
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
