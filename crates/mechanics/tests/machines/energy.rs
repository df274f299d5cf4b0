//! Energy of motion, and low-battery warnings.

use fulgurite_domain::Micros;
use fulgurite_library::{Action, Event, Fault, Position, Shuttle, Side, Slot};
use fulgurite_mechanics::{Battery, Breakdown, Energy, Faults, PlannedFault, Power, Settings, ShuttleState};

use crate::rig::{Rig, SHUTTLE, pick, place, slot};

fn near(found: f64, wanted: f64) {
    assert!((found - wanted).abs() < 1e-3 + wanted.abs() * 1e-6, "{found} instead of {wanted}");
}

fn powered(battery: Battery) -> Settings {
    Settings { battery: Some(battery), ..Settings::default() }
}

#[test]
fn energy_adds_up_by_kind() {
    let mut rig = Rig::new(powered(Battery::default()));
    let home = rig.mechanics.layout().slot_position(Slot(0));
    rig.go(0, Position { x_um: home.x_um + 5_000_000, ..home });
    rig.go(0, Position { x_um: home.x_um + 4_500_000, ..home });
    rig.go(0, Position { x_um: home.x_um + 4_500_000, shelf: 1 });
    rig.go(0, Position { x_um: home.x_um + 4_500_000, shelf: 0 });
    rig.go(0, home);
    rig.take(SHUTTLE, pick(slot(0), 0));
    rig.take(SHUTTLE, place(slot(0), 0));
    let statistics = rig.mechanics.shuttle_statistics(Shuttle(0), rig.now);
    // Half of 10 kg at 1 m/s, twice; a leg of 0.5 m only reaches 0.5 m/s at 0.5 m/s².
    near(statistics.joules_on(Energy::Kinetic), 5.0 + 1.25 + 5.0);
    near(statistics.metres, 10.0);
    near(statistics.joules_on(Energy::Drag), 20.0);
    near(statistics.joules_on(Energy::Crab), 60.0);
    near(statistics.joules_on(Energy::Handling), 20.0);
    near(statistics.joules_on(Energy::Idle), 5.0 * rig.now.seconds());
    near(statistics.motion_joules(), 111.25);
    near(rig.mechanics.charge_j(Shuttle(0)), 360e3 - statistics.joules.iter().sum::<f64>());
}

#[test]
fn a_low_battery_is_reported_once_and_again_after_charging() {
    // The battery is low after 1,000 s of idling.
    let mut rig = Rig::new(powered(Battery { capacity_j: 10_000.0, low_j: 5_000.0, charging_w: 100.0 }));
    let low = Event::ChargeLow { shuttle: Shuttle(0) };
    let warnings = |rig: &Rig| rig.delivered_events.iter().filter(|(_, event)| *event == low).map(|(at, _)| *at).collect::<Vec<_>>();
    rig.run(Micros(1_100_000_000));
    assert_eq!(warnings(&rig), [Micros(1_000_000_000)]);
    // The command given then makes no difference.
    rig.go(0, rig.mechanics.layout().dock_position(0, Side::Left));
    let used_j = 5.0 * rig.now.seconds() + rig.mechanics.shuttle_statistics(Shuttle(0), rig.now).motion_joules();
    let seconds = rig.take(SHUTTLE, Action::Charge);
    near(seconds, used_j / 100.0);
    near(rig.mechanics.charge_j(Shuttle(0)), 10_000.0);
    assert_eq!(warnings(&rig).len(), 1);
    let statistics = rig.mechanics.shuttle_statistics(Shuttle(0), rig.now);
    near(statistics.time_in(ShuttleState::Charging).seconds(), seconds);
    let full = rig.now;
    rig.run(rig.now + Micros(2_000_000_000));
    near((warnings(&rig)[1] - full).seconds(), 1_000.0);
    assert_eq!(warnings(&rig).len(), 2);
}

#[test]
fn motion_makes_a_battery_low_at_its_end() {
    // No idle power, so only the 20 J of handling count.
    let power = Power { idle_w: 0.0, ..Power::default() };
    let battery = Some(Battery { capacity_j: 100.0, low_j: 85.0, charging_w: 1.0 });
    let mut rig = Rig::new(Settings { power, battery, ..Settings::default() });
    rig.take(SHUTTLE, pick(slot(0), 0));
    assert_eq!(rig.next(Micros::HOUR), None);
    rig.take(SHUTTLE, place(slot(0), 0));
    let end = rig.now;
    rig.run(Micros(2 * Micros::HOUR.0));
    assert_eq!(rig.delivered_events.last(), Some(&(end, Event::ChargeLow { shuttle: Shuttle(0) })));
}

#[test]
fn an_empty_battery_stops_its_shuttle_on_the_way() {
    // 5 J to accelerate, and 10 of the 20 J of drag for 10 m.
    let power = Power { idle_w: 0.0, ..Power::default() };
    let battery = Some(Battery { capacity_j: 15.0, low_j: 1.0, charging_w: 1.0 });
    let mut rig = Rig::new(Settings { power, battery, ..Settings::default() });
    let command = rig.command(SHUTTLE, Action::Move { to: rig.mechanics.layout().slot_position(Slot(18_000)) });
    let Some(Event::Failed { command: failed, fault: Fault::Stopped { x_um } }) = rig.next(Micros::HOUR) else {
        panic!("{:?}", rig.delivered_events)
    };
    assert_eq!(failed, command);
    assert!((4_000_000..9_000_000).contains(&x_um), "{x_um}");
    while rig.next(Micros::NEVER) != Some(Event::Repaired { actor: SHUTTLE }) {}
    near(rig.mechanics.charge_j(Shuttle(0)), 15.0);
}

#[test]
fn a_lost_shuttle_keeps_its_charge_and_sends_no_battery_warning() {
    // It fails while it charges, and would be low by the time it is repaired.
    let (battery, stop) = (Battery { capacity_j: 10_000.0, low_j: 5_000.0, charging_w: 1.0 }, Breakdown::ShuttleStops(Shuttle(0)));
    let planned = vec![PlannedFault { at: Micros(900_000_000), what: stop }];
    let faults = Faults { planned, repair_s: 1e5, ..Faults::default() };
    let mut rig = Rig::new(Settings { battery: Some(battery), faults, ..Settings::default() });
    rig.run(Micros(700_000_000));
    rig.go(0, rig.mechanics.layout().dock_position(0, Side::Left));
    let begin = rig.now;
    let left = rig.mechanics.charge_j(Shuttle(0));
    let command = rig.command(SHUTTLE, Action::Charge);
    // The other shuttles' batteries also run low.
    let low = Event::ChargeLow { shuttle: Shuttle(0) };
    let next = |rig: &mut Rig| loop {
        match rig.next(Micros::NEVER) {
            Some(Event::ChargeLow { shuttle }) if shuttle != Shuttle(0) => {}
            event => return event,
        }
    };
    let event = next(&mut rig);
    assert!(matches!(event, Some(Event::Failed { command: failed, .. }) if failed == command), "{event:?}");
    near(rig.mechanics.charge_j(Shuttle(0)), left + 900.0 - begin.seconds());
    assert_eq!(next(&mut rig), Some(Event::Repaired { actor: SHUTTLE }), "no battery warning came in between");
    near(rig.mechanics.charge_j(Shuttle(0)), 10_000.0);
    let full = rig.now;
    assert_eq!(next(&mut rig), Some(low));
    near((rig.now - full).seconds(), 1_000.0);
}
