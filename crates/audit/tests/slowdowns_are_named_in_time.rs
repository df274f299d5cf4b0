//! The study of `examples/slowdown_study` in short: it fails if the detector gets worse.

#[allow(dead_code, reason = "the study uses the rest")]
#[path = "../examples/slowdown_study/peers.rs"]
mod peers;
#[allow(dead_code, reason = "the study uses the rest")]
#[path = "../examples/slowdown_study/trials.rs"]
mod trials;
#[allow(dead_code, reason = "the study uses the rest")]
#[path = "../examples/slowdown_study/world.rs"]
mod world;

use fulgurite_audit::slowdown::{Detector, Direction, Event, Parameters};
use trials::{Summary, Watcher, step, year};
use world::{DAY, HOUR, Rate, START, Slowdown, World};

const CASES: [(f64, f64); 3] = [(2.0, 0.0), (1.5, 0.0), (2.0, 28.0 * DAY)];

/// Alarms a year, and the delays of the cases.
fn short_study(rate: Rate, noise: f64, years: u64) -> (f64, [Summary; 3]) {
    let mut alarms = 0;
    let mut delays = vec![Vec::new(); CASES.len()];
    for seed in 1_000..1_000 + years {
        println!("seed {seed}, {}, noise {noise}", rate.name());
        let world = World::new(seed, 0, rate, noise);
        let ours = Watcher::ours(&world, Parameters::default());
        let year = year(world, vec![ours], &CASES, &[11.4, 95.8, 201.1, 280.6]);
        alarms += year.alarms[0];
        delays.iter_mut().zip(&year.delays[0]).for_each(|(all, some)| all.extend(some));
    }
    let summaries = [0, 1, 2].map(|case| Summary::of(&delays[case]));
    let a_year = f64::from(alarms) / years as f64;
    println!("{}, noise {noise}: {a_year} false alarms a year, {summaries:?}", rate.name());
    (a_year, summaries)
}

#[test]
fn four_checks_a_day_name_a_twofold_slowdown_within_a_dozen() {
    for (noise, median, late) in [(0.15, 7.0, 9.0), (0.5, 12.0, 24.0)] {
        let (alarms, [twice, half, slow]) = short_study(Rate::FourADay, noise, 30);
        assert!(alarms <= 0.6, "{alarms} false alarms a year");
        assert!(twice.checks.0 <= median && twice.checks.1 <= late && twice.missed == 0.0, "{twice:?}");
        assert!(half.missed <= 0.03 && slow.missed == 0.0 && slow.hours.0 < 28.0 * 24.0, "{half:?} {slow:?}");
        assert!(twice.trials >= 110, "{twice:?}");
    }
}

#[test]
fn a_check_in_five_minutes_names_a_twofold_slowdown_within_hours() {
    for noise in [0.15, 0.5] {
        let (alarms, [twice, half, slow]) = short_study(Rate::FiveMinutes, noise, 8);
        assert!(alarms <= 0.8, "{alarms} false alarms a year");
        assert!(twice.hours.0 <= 12.0 && twice.hours.1 <= 16.0 && twice.missed == 0.0, "{twice:?}");
        assert!(half.hours.1 <= 36.0 && slow.hours.0 <= 12.0 * 24.0, "{half:?} {slow:?}");
    }
}

#[test]
fn of_two_overlapping_slowdowns_both_are_named_and_dated() {
    let day = |day: f64| START + day * DAY;
    let plans = [
        Slowdown { from: day(35.0), until: day(60.0), ramp: 0.0, factor: 36.0 },
        Slowdown { from: day(38.0), until: day(43.0), ramp: 0.0, factor: 2.0 },
    ];
    for seed in 0..3 {
        println!("seed {seed}");
        for (node, plan) in plans.iter().enumerate() {
            let mut world = World::new(seed, node as u32, Rate::FiveMinutes, 0.5);
            let mut detector = Detector::new(world.expectation, Parameters::default()).unwrap();
            let mut events = Vec::new();
            while world.now() < day(70.0) {
                let check = world.check(&[*plan]);
                events.extend(step(&mut detector, check, world.now()));
            }
            let [Event::Learned { .. }, Event::Began(began), Event::Ended { episode, until_s }] = events[..] else {
                panic!("node {node}: one slowdown begins and ends, not {events:?}")
            };
            assert_eq!(began.direction, Direction::Slower);
            assert!(began.named_s as f64 - plan.from <= 16.0 * HOUR, "{began:?}");
            assert!((began.since_s as f64 - plan.from).abs() <= 12.0 * HOUR, "{began:?}");
            assert!((until_s as f64 - plan.until).abs() <= 48.0 * HOUR, "{until_s}");
            let factor = episode.factor.unwrap() / plan.factor;
            assert!((0.8..1.25).contains(&factor), "{episode:?}");
        }
    }
}
