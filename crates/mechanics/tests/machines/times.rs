//! Times compared with the published figures, and the order of answers.

use fulgurite_domain::Micros;
use fulgurite_library::{Action, Bay, Berth, Drive, Event, Platter, Position, Shuttle, Slot};
use fulgurite_mechanics::{DriveState, DriveTimes, Service, Settings, ShuttleState, Whereabouts};

use crate::rig::{DRIVE, Rig, SHUTTLE, mount, pick, place, read, slot, verify};

fn near(found: f64, wanted: f64, within: f64) {
    assert!((found - wanted).abs() <= within, "{found} instead of {wanted}");
}

#[test]
fn a_move_takes_its_trapezoid_and_half_a_second() {
    let mut rig = Rig::new(Settings::default());
    let here = rig.mechanics.layout().slot_position(Slot(0));
    near(rig.go(0, Position { x_um: here.x_um + 7_000_000, ..here }), 7.0 + 2.0 + 0.5, 1e-6);
    near(rig.go(0, Position { x_um: here.x_um + 6_500_000, ..here }), 2.0 + 0.5, 1e-6);
    near(rig.go(0, Position { x_um: here.x_um + 6_500_000, ..here }), 0.5, 1e-6);
}

#[test]
fn crab_times_match_the_published_distribution() {
    let mut rig = Rig::new(Settings::default());
    let home = rig.mechanics.layout().slot_position(Slot(0));
    let times: Vec<f64> = (0..20_000).map(|turn| rig.go(0, Position { shelf: u8::from(turn % 2 == 0), ..home })).collect();
    let (fastest, slowest) = times.iter().fold((f64::MAX, 0.0_f64), |(low, high), &time| (low.min(time), high.max(time)));
    near(slowest - fastest, 0.088, 0.004);
    assert!(slowest <= 3.02 && fastest >= 2.932, "{fastest} to {slowest}");
    near(times.iter().filter(|time| **time <= 3.0).count() as f64 / 20_000.0, 0.86, 0.02);
}

#[test]
fn a_pick_takes_170_ms_more_than_a_place_on_average() {
    let mut rig = Rig::new(Settings::default());
    let (mut picks, mut places, mut squares) = (0.0, 0.0, 0.0);
    for _ in 0..5_000 {
        picks += rig.take(SHUTTLE, pick(slot(0), 0)) / 5_000.0;
        let time = rig.take(SHUTTLE, place(slot(0), 0));
        places += time / 5_000.0;
        squares += (time - 2.0) * (time - 2.0) / 5_000.0;
        assert!((1.6..=2.4).contains(&time), "{time}");
    }
    near(picks - places, 0.17, 0.008);
    near(places, 2.0, 0.006);
    near(squares.sqrt(), 0.1, 0.005);
}

#[test]
fn seeks_match_the_configured_median_and_maximum() {
    // Tracks of one byte take no time to read.
    let drive = DriveTimes { track_bytes: 1, throughput_bytes_s: 1e12, ..DriveTimes::default() };
    let mut rig = Rig::new(Settings { drive, ..Settings::default() });
    near(rig.take(DRIVE, mount(0, 1)), 1.0, 1e-6);
    let mut times: Vec<f64> = (0..20_001).map(|_| rig.take(DRIVE, read(1, 7, 1, false))).collect();
    times.sort_by(f64::total_cmp);
    near(times[10_000], 0.6, 0.01);
    assert_eq!(times[20_000], 2.0);
    // Lognormal: exp(0.4) times the median at one standard deviation, 84.13 %.
    near(times[16_827], 0.6 * 1.4918, 0.02);
    assert_eq!(rig.take(DRIVE, read(1, 8, 1, true)), 0.0);
}

#[test]
fn tracks_are_read_at_the_drive_throughput_and_adjacent_ones_without_a_seek() {
    let mut rig = Rig::new(Settings::default());
    rig.take(DRIVE, mount(0, 1));
    let first = rig.take(DRIVE, read(1, 10, 3, false));
    assert!(first > 1.0 && first <= 3.0, "{first}");
    near(rig.take(DRIVE, read(1, 13, 6, true)), 2.0, 1e-6);
    let statistics = rig.mechanics.drive_statistics(Drive(0), rig.now);
    assert_eq!((statistics.reads, statistics.adjacent_reads, statistics.tracks_read), (2, 1, 9));
    near(statistics.time_in(DriveState::Reading).seconds(), 3.0, 2e-6);
    near(statistics.time_in(DriveState::Seeking).seconds(), first - 1.0, 2e-6);
    near(statistics.time_in(DriveState::Mounting).seconds(), 1.0, 1e-6);
    assert_eq!(statistics.utilization(), 1.0);
}

#[test]
fn an_interrupted_verification_reports_its_complete_tracks() {
    let mut rig = Rig::new(Settings::default());
    rig.take(DRIVE, mount(0, 1));
    // Three tracks a second.
    let command = rig.command(DRIVE, verify(1, 0, 1_000));
    rig.run(rig.now + Micros(10_500_000));
    rig.delivered_events.clear();
    let begin = rig.now;
    let switch = rig.command(DRIVE, Action::Switch { to: Bay(1) });
    rig.run(Micros(2_000_000_000));
    let expected = [(begin, Event::Interrupted { command, verified: 31 }), (begin + Micros::SECOND, Event::Done { command: switch })];
    assert_eq!(rig.delivered_events, expected, "and nothing more: the end of the verification is void");
    assert_eq!(rig.mechanics.facing(Drive(0)), Bay(1));
    let statistics = rig.mechanics.drive_statistics(Drive(0), begin + Micros::SECOND);
    assert_eq!((statistics.interruptions, statistics.tracks_verified), (1, 31));
    near(statistics.time_in(DriveState::Verifying).seconds(), 10.5, 1e-6);
    // The switch does not count towards utilization: 11.5 of 12.5 seconds.
    near(statistics.utilization(), 11.5 / 12.5, 1e-6);
}

#[test]
fn an_uninterrupted_verification_reads_every_track() {
    let mut rig = Rig::new(Settings::default());
    rig.take(DRIVE, mount(0, 1));
    near(rig.take(DRIVE, verify(1, 100, 300)), 100.0, 1e-6);
    assert_eq!(rig.mechanics.drive_statistics(Drive(0), rig.now).tracks_verified, 300);
}

#[test]
fn a_platter_travels_to_a_drive_and_back() {
    let mut rig = Rig::new(Settings::default());
    let layout = rig.mechanics.layout().clone();
    let (home, door) = (layout.slot_position(Slot(0)), layout.drive_position(Drive(0)));
    let bay = Berth::Bay(Drive(0), Bay(1));
    rig.take(SHUTTLE, pick(slot(0), 0));
    assert_eq!(rig.mechanics.whereabouts(Platter(0)), Whereabouts::On(Shuttle(0)));
    rig.go(0, door);
    rig.take(SHUTTLE, place(bay, 0));
    rig.take(DRIVE, mount(1, 0));
    rig.take(DRIVE, Action::Switch { to: Bay(1) });
    rig.take(DRIVE, read(0, 0, 1, false));
    rig.take(DRIVE, Action::Unmount { bay: Bay(1), platter: Platter(0) });
    rig.take(SHUTTLE, pick(bay, 0));
    rig.go(0, home);
    rig.take(SHUTTLE, place(slot(0), 0));
    assert_eq!(rig.mechanics.whereabouts(Platter(0)), Whereabouts::At(slot(0)));
    assert_eq!(rig.mechanics.count_platters(), 2);
    let statistics = rig.mechanics.shuttle_statistics(Shuttle(0), rig.now);
    assert_eq!((statistics.moves, statistics.picks, statistics.places), (2, 2, 2));
    let all = statistics.time.iter().fold(Micros::ZERO, |sum, &time| sum + time);
    assert_eq!(all, rig.now, "every microsecond is in one state");
    assert!(statistics.time_in(ShuttleState::Picking) > statistics.time_in(ShuttleState::Placing));
}

#[test]
fn without_shuttles_mounting_and_unmounting_move_the_platter() {
    let mut rig = Rig::new(Settings { no_shuttles: true, ..Settings::default() });
    near(rig.take(DRIVE, mount(1, 0)), 1.0, 1e-6);
    assert_eq!(rig.mechanics.whereabouts(Platter(0)), Whereabouts::At(Berth::Bay(Drive(0), Bay(1))));
    near(rig.take(DRIVE, Action::Unmount { bay: Bay(1), platter: Platter(0) }), 1.0, 1e-6);
    assert_eq!(rig.mechanics.whereabouts(Platter(0)), Whereabouts::At(slot(0)));
    assert_eq!(rig.mechanics.count_platters(), 2);
}

#[test]
fn a_drive_can_be_a_server_of_queueing_theory() {
    for (service, deviation) in [(Service::Fixed(2.0), 0.0), (Service::Exponential(2.0), 2.0)] {
        let drive = DriveTimes { mount_s: 0.0, service, ..DriveTimes::default() };
        let mut rig = Rig::new(Settings { drive, ..Settings::default() });
        assert_eq!(rig.take(DRIVE, mount(0, 1)), 0.0);
        let times: Vec<f64> = (0..20_000).map(|_| rig.take(DRIVE, read(1, 0, 5, false))).collect();
        let mean = times.iter().sum::<f64>() / 20_000.0;
        let variance = times.iter().map(|time| (time - mean) * (time - mean)).sum::<f64>() / 20_000.0;
        near(mean, 2.0, 0.05);
        near(variance.sqrt(), deviation, 0.06);
    }
}

#[test]
fn equal_seeds_repeat_and_other_seeds_differ() {
    let times = |seed| {
        let mut rig = Rig::seeded(Settings::default(), seed);
        (0..50).map(|_| rig.take(SHUTTLE, pick(slot(0), 0)) + rig.take(SHUTTLE, place(slot(0), 0))).collect::<Vec<_>>()
    };
    assert_eq!(times(5), times(5));
    assert_ne!(times(5), times(6));
}
