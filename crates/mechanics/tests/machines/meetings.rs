//! Tests of the distance checker: against sampling, with planted near-misses, and on a clean run of
//! half a day.

use fulgurite_chance::Stream;
use fulgurite_domain::Micros;
use fulgurite_library::{Action, Actor, Event, Layout, Position, Shuttle};
use fulgurite_mechanics::{Footprint, Motion, MotionLog, NoTwoShuttlesMeet, Settings, Trajectory};

use crate::rig::Rig;

fn at(shelf: u8, x_um: i64) -> Footprint {
    Footprint::level(Position { shelf, x_um })
}

fn along(start_s: f64, from: Footprint, to_um: i64) -> Trajectory {
    Trajectory::along(Micros::from_seconds(start_s), from, Footprint { x_um: to_um, ..from }, &Motion::default())
}

/// The least distance of two shuttles as computed by the checker; `None` if they keep the spacing.
fn least(legs: &[(u16, Trajectory)], until: Micros, spacing_um: i64) -> Option<f64> {
    let mut checker = NoTwoShuttlesMeet::new(&Layout { shuttles: 2, spacing_um, ..Layout::default() });
    for (shuttle, leg) in legs {
        checker.leg(Shuttle(*shuttle), leg);
    }
    checker.check(until).err().map(|meeting| meeting.distance_um)
}

#[test]
fn a_near_miss_is_found_to_the_micrometre() {
    // One shuttle brakes to a stop at 2 m; the other stands 0.349999 m, then 0.349990 m, further.
    let stands = Trajectory::stationary(Micros::ZERO, at(3, 2_349_999));
    let comes = along(0.0, at(3, 0), 2_000_000);
    assert_eq!(least(&[(0, comes), (1, stands)], Micros::HOUR, 350_000), None, "one micrometre is within the tolerance");
    let stands = Trajectory::stationary(Micros::ZERO, at(3, 2_349_990));
    assert_eq!(least(&[(0, comes), (1, stands)], Micros::HOUR, 350_000), Some(349_990.0));
    // The other shuttle leaves in time, though the places overlap.
    let leaves = along(0.0, at(3, 1_000_000), 3_000_000);
    assert_eq!(least(&[(0, along(0.0, at(3, 0), 2_000_000)), (1, leaves)], Micros::HOUR, 350_000), None);
}

#[test]
fn shuttles_that_swap_places_meet_although_they_end_up_apart() {
    let legs = [(0, along(0.0, at(3, 0), 4_000_000)), (1, along(0.0, at(3, 4_000_000), 0))];
    assert!(least(&legs, Micros::HOUR, 350_000).is_some_and(|distance| distance < -3_900_000.0));
}

#[test]
fn a_shuttle_that_changes_shelves_is_on_both_until_it_arrives() {
    let crab = Trajectory::crab(Micros::ZERO, at(3, 1_000_000), at(4, 1_000_000), 3.0);
    let pass = |shelf, start_s| along(start_s, at(shelf, 0), 2_000_000);
    // The passing shuttle is at 1 m after 2 s.
    for (shelf, start_s, meets) in [(3, 0.0, true), (4, 0.0, true), (2, 0.0, false), (3, 3.0, false), (4, 3.0, true)] {
        let found =
            least(&[(0, crab), (1, Trajectory::stationary(Micros::ZERO, at(shelf, 0))), (1, pass(shelf, start_s))], Micros::HOUR, 350_000);
        assert_eq!(found.is_some(), meets, "on shelf {shelf} from {start_s} s: {found:?}");
    }
    // Another shuttle may take its place at the very instant it leaves.
    let follow = Trajectory::crab(Micros(3_000_000), at(2, 1_000_000), at(3, 1_000_000), 3.0);
    assert_eq!(least(&[(0, crab), (1, Trajectory::stationary(Micros::ZERO, at(2, 1_000_000))), (1, follow)], Micros::HOUR, 350_000), None);
}

#[test]
fn a_shuttle_that_gives_way_in_time_is_not_a_meeting() {
    // The second shuttle is bound for the place of the first, which leaves in time.
    let legs = [
        (0, Trajectory::stationary(Micros::ZERO, at(3, 3_000_000))),
        (1, along(0.0, at(3, 0), 3_000_000)),
        (0, along(1.0, at(3, 3_000_000), 6_000_000)),
    ];
    assert_eq!(least(&legs, Micros::HOUR, 350_000), None);
    let late = [legs[0], legs[1], (0, along(4.0, at(3, 3_000_000), 6_000_000))];
    assert!(least(&late, Micros::HOUR, 350_000).is_some());
}

#[test]
fn the_least_distance_matches_sampling() {
    for seed in 0..300 {
        let mut chance = Stream::new(seed, "legs");
        let mut place = || chance.below(10_000_000) as i64;
        let (a, b) = (along(0.0, at(0, place()), place()), along(0.0, at(0, place()), place()));
        let start_s = (place() as f64) * 4e-7;
        let b = Trajectory { start: Micros::from_seconds(start_s), ..b };
        let until = a.end().max(b.end()) + Micros(1_000_000);
        let exact = least(&[(0, a), (1, b)], until, 100_000_000).expect("everything is a meeting at that spacing");
        let side = if a.position_at(b.start).x_um < b.from.x_um { -1 } else { 1 };
        let span = (until - b.start).0;
        let sampled = (0..=20_000_u64).map(|step| {
            let time = b.start + Micros(span * step / 20_000);
            side * (a.position_at(time).x_um - b.position_at(time).x_um)
        });
        let sampled = sampled.min().expect("there are samples") as f64;
        // Sampling every millisecond misses at most 2 m/s² t² / 2, and nothing at the ends of the
        // interval.
        assert!(exact <= sampled + 1.0 && exact >= sampled - 3.0, "seed {seed}: {exact} and {sampled} for {a:?} and {b:?}");
    }
}

/// Forty shuttles, four to a shelf, each moving back and forth on a stretch of its own.
fn to_and_fro(hours: u64, reach_um: i64) -> (Result<(), fulgurite_mechanics::Meeting>, u64) {
    let layout = Layout { shuttles: 40, ..Layout::default() };
    let mut rig = Rig::with_log(layout.clone(), Settings::default(), 1, NoTwoShuttlesMeet::new(&layout));
    let homes: Vec<Position> = (0..40).map(|shuttle| rig.mechanics.home(Shuttle(shuttle))).collect();
    // The rig places its first shuttle elsewhere.
    let begin = rig.mechanics.trajectory(Shuttle(0)).to.position().expect("on a shelf");
    let mut chance = Stream::new(1, "targets");
    let mut moves = 0;
    let end = Micros(hours * Micros::HOUR.0);
    let mut go = |rig: &mut Rig<NoTwoShuttlesMeet>, shuttle: Shuttle| {
        let home = if shuttle.0 == 0 { begin } else { homes[usize::from(shuttle.0)] };
        let x_um = home.x_um + chance.below(2 * reach_um as u64 + 1) as i64 - reach_um;
        rig.command(Actor::Shuttle(shuttle), Action::Move { to: Position { x_um, ..home } });
    };
    for shuttle in 0..40 {
        go(&mut rig, Shuttle(shuttle));
    }
    while let Some(event) = rig.next(end) {
        if let Event::Done { command } = event
            && let Actor::Shuttle(shuttle) = command.actor
        {
            moves += 1;
            go(&mut rig, shuttle);
        }
    }
    (rig.mechanics.log_mut().check(end), moves)
}

#[test]
fn half_a_day_of_forty_separated_shuttles_is_clean() {
    let (outcome, moves) = to_and_fro(12, 300_000);
    assert_eq!(outcome, Ok(()));
    assert!(moves > 500_000, "{moves}");
}

#[test]
fn overlapping_stretches_are_detected_within_an_hour() {
    let (outcome, _) = to_and_fro(1, 1_400_000);
    let meeting = outcome.expect_err("stretches overlap");
    assert!(meeting.to_string().starts_with("shuttles "), "{meeting}");
}
