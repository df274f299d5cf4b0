//! Faults: when they are noticed, and what becomes of commands and platters.

use fulgurite_domain::Micros;
use fulgurite_library::{Action, Actor, Bay, Drive, Event, Fault, Layout, Platter, Position, Shuttle, Slot};
use fulgurite_mechanics::{Breakdown, DriveState, Faults, Footprint, NoTwoShuttlesMeet, PlannedFault, Settings, ShuttleState, Whereabouts};

use crate::rig::{DRIVE, Rig, SHUTTLE, mount, pick, read, slot, verify};

fn planned(seconds: u64, what: Breakdown) -> Settings {
    let planned = vec![PlannedFault { at: Micros(seconds * 1_000_000), what }];
    Settings { faults: Faults { planned, ..Faults::default() }, ..Settings::default() }
}

#[test]
fn a_shuttle_stopped_on_its_way_stays_there_and_continues_after_repair() {
    let mut rig = Rig::new(planned(6, Breakdown::ShuttleStops(Shuttle(0))));
    let from = rig.mechanics.layout().slot_position(Slot(0));
    let to = Position { x_um: from.x_um + 8_000_000, ..from };
    let command = rig.command(SHUTTLE, Action::Move { to });
    let x_um = from.x_um + 5_000_000;
    assert_eq!(rig.next(Micros::NEVER), Some(Event::Failed { command, fault: Fault::Stopped { x_um } }));
    assert!(rig.now > Micros(6_000_000), "it takes a while to be noticed");
    assert_eq!(rig.mechanics.trajectory(Shuttle(0)).to, Footprint { x_um, low: 0, high: 0 });
    assert_eq!(rig.next(Micros::NEVER), Some(Event::Repaired { actor: SHUTTLE }));
    let statistics = rig.mechanics.shuttle_statistics(Shuttle(0), rig.now);
    assert_eq!(statistics.time_in(ShuttleState::Moving), Micros(6_000_000));
    assert_eq!(statistics.time_in(ShuttleState::Lost), rig.now - Micros(6_000_000));
    assert!((statistics.metres - 5.0).abs() < 1e-9);
    rig.go(0, to);
}

#[test]
fn a_shuttle_stopped_between_two_shelves_blocks_both_and_can_leave_to_either() {
    for shelf in [0, 1] {
        let mut rig = Rig::new(planned(1, Breakdown::ShuttleStops(Shuttle(0))));
        let from = rig.mechanics.layout().slot_position(Slot(0));
        let command = rig.command(SHUTTLE, Action::Move { to: Position { shelf: 1, ..from } });
        assert_eq!(rig.next(Micros::NEVER), Some(Event::Failed { command, fault: Fault::Stopped { x_um: from.x_um } }));
        assert_eq!(rig.mechanics.trajectory(Shuttle(0)).to, Footprint { x_um: from.x_um, low: 0, high: 1 });
        rig.next(Micros::NEVER);
        assert!(rig.go(0, Position { shelf, ..from }) > 2.9);
        assert_eq!(rig.mechanics.trajectory(Shuttle(0)).to, Footprint { x_um: from.x_um, low: shelf, high: shelf });
    }
}

#[test]
fn an_interrupted_pick_leaves_the_platter_in_place() {
    let mut rig = Rig::new(planned(1, Breakdown::ShuttleStops(Shuttle(0))));
    rig.command(SHUTTLE, pick(slot(0), 0));
    rig.run(Micros(1_000 * Micros::HOUR.0));
    assert_eq!(rig.mechanics.whereabouts(Platter(0)), Whereabouts::At(slot(0)));
    rig.take(SHUTTLE, pick(slot(0), 0));
    assert_eq!(rig.mechanics.count_platters(), 2);
}

#[test]
fn an_idle_actor_is_lost() {
    let mut rig = Rig::new(planned(5, Breakdown::DriveDown(Drive(3))));
    let actor = Actor::Drive(Drive(3));
    assert_eq!(rig.next(Micros::NEVER), Some(Event::Lost { actor, fault: Fault::DriveDown }));
    assert_eq!(rig.next(Micros::NEVER), Some(Event::Repaired { actor }));
    assert_eq!(rig.next(Micros::HOUR), None);
}

#[test]
fn a_failed_drive_keeps_its_platter_and_releases_it_unmounted_after_repair() {
    let mut rig = Rig::new(planned(2, Breakdown::DriveDown(Drive(0))));
    rig.take(DRIVE, mount(0, 1));
    let command = rig.command(DRIVE, read(1, 0, 1_000, false));
    assert_eq!(rig.next(Micros::NEVER), Some(Event::Failed { command, fault: Fault::DriveDown }));
    assert_eq!(rig.mechanics.mounted(Drive(0), Bay(0)), Some(Platter(1)));
    rig.next(Micros::NEVER);
    assert_eq!(rig.mechanics.mounted(Drive(0), Bay(0)), None);
    rig.take(DRIVE, mount(0, 1));
    assert_eq!(rig.mechanics.drive_statistics(Drive(0), rig.now).failures, 1);
    assert!(rig.mechanics.drive_statistics(Drive(0), rig.now).time_in(DriveState::Failed) > Micros::ZERO);
}

#[test]
fn a_command_given_before_the_fault_is_noticed_fails() {
    let mut rig = Rig::new(planned(11, Breakdown::DriveDown(Drive(0))));
    rig.take(DRIVE, mount(0, 1));
    let verification = rig.command(DRIVE, verify(1, 0, 1_000));
    rig.run(Micros(11_000_001));
    rig.delivered_events.clear();
    let begin = rig.now;
    let switch = rig.command(DRIVE, Action::Switch { to: Bay(1) });
    rig.run(Micros(10_000 * Micros::HOUR.0));
    assert_eq!(rig.delivered_events[0], (begin, Event::Interrupted { command: verification, verified: 30 }));
    assert_eq!(rig.delivered_events[1].1, Event::Failed { command: switch, fault: Fault::DriveDown });
    assert_eq!(rig.delivered_events[2].1, Event::Repaired { actor: DRIVE });
    assert_eq!(rig.delivered_events.len(), 3, "{:?}", rig.delivered_events);
}

#[test]
fn a_collision_also_stops_the_nearest_shuttle() {
    let mut rig = Rig::new(planned(1, Breakdown::Collision(Shuttle(4))));
    // Shuttles 4 and 14 share a shelf.
    rig.run(Micros(100_000 * Micros::HOUR.0));
    let x_um = |shuttle| rig.mechanics.trajectory(Shuttle(shuttle)).to.x_um;
    let lost = |shuttle, with| Event::Lost {
        actor: Actor::Shuttle(Shuttle(shuttle)),
        fault: Fault::Collided { with: Shuttle(with), x_um: x_um(shuttle) },
    };
    assert_eq!((rig.delivered_events[0].1, rig.delivered_events[1].1), (lost(4, 14), lost(14, 4)));
    assert_eq!(rig.delivered_events[0].0, rig.delivered_events[1].0, "both are noticed at once");
    assert_eq!(rig.delivered_events.len(), 4, "and both are repaired");
}

#[test]
fn random_faults_come_at_their_rate_and_every_command_is_answered_once() {
    let faults = Faults { shuttle_hours: 1.0, drive_hours: 2.0, detection_s: 10.0, repair_s: 600.0, ..Faults::default() };
    let layout = Layout { shuttles: 1, drives: [1, 0], ..Layout::default() };
    for seed in 1..=3 {
        let mut rig = Rig::with_log(
            layout.clone(),
            Settings { faults: faults.clone(), ..Settings::default() },
            seed,
            NoTwoShuttlesMeet::new(&layout),
        );
        let end = Micros(800 * Micros::HOUR.0);
        let (mut given, mut answered, mut far) = (0_u64, 0_u64, false);
        let home = layout.slot_position(Slot(0));
        let mut next = Some(Event::Woken);
        let mut lost = false;
        while let Some(event) = next {
            let done = match event {
                Event::Done { command } | Event::Failed { command, .. } if command.actor == SHUTTLE => true,
                Event::Done { command } | Event::Failed { command, .. } => panic!("seed {seed}: {command:?} was never given"),
                _ => false,
            };
            answered += u64::from(done);
            lost = (lost || matches!(event, Event::Failed { .. })) && event != Event::Repaired { actor: SHUTTLE };
            if !lost && (done || event == Event::Repaired { actor: SHUTTLE } || event == Event::Woken) {
                far = !far;
                let to = if far { Position { x_um: home.x_um + 7_000_000, ..home } } else { home };
                rig.command(SHUTTLE, Action::Move { to });
                given += 1;
            }
            next = rig.next(end);
        }
        assert!(given - answered <= 1, "seed {seed}: {given} commands, {answered} answers");
        let shuttle = rig.mechanics.shuttle_statistics(Shuttle(0), end);
        let hours = shuttle.time_in(ShuttleState::Moving).seconds() / 3600.0;
        let rate = shuttle.losses as f64 / hours;
        assert!((rate - 1.0).abs() < 0.12, "seed {seed}: {rate} stops an hour of motion");
        let drive = rig.mechanics.drive_statistics(Drive(0), end);
        let hours = end.seconds() / 3600.0 - drive.time_in(DriveState::Failed).seconds() / 3600.0;
        let rate = drive.failures as f64 / hours;
        assert!((rate - 0.5).abs() < 0.08, "seed {seed}: {rate} failures an hour");
        let down = drive.time_in(DriveState::Failed).seconds() / drive.failures as f64;
        assert!((down - 610.0).abs() < 100.0, "seed {seed}: {down} s until repaired");
        assert_eq!(rig.mechanics.count_platters(), 2);
    }
}
