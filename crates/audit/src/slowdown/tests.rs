use fulgurite_chance::Stream;

use super::*;

const DAY_S: u64 = 86_400;
const HOUR_S: u64 = 3_600;
const START_S: u64 = 1_735_689_600;
const LEARNED_S: u64 = START_S + 28 * DAY_S;

/// A node that is checked every two hours, with normal noise of 15 %.
struct Node {
    detector: Detector,
    noise: Stream,
    now_s: u64,
}

impl Node {
    fn new(seed: u64) -> Self {
        println!("seed {seed}");
        let detector = Detector::new(Expectation::S3, Parameters::default()).unwrap();
        Self { detector, noise: Stream::new(seed, "slowdown tests"), now_s: START_S }
    }

    /// A node whose detector has learned that all is as expected.
    fn learned(seed: u64) -> Self {
        let mut node = Self::new(seed);
        let events = node.run(29, |_| 1.0);
        assert!(matches!(events[..], [Event::Learned { factor }] if (0.9..1.1).contains(&factor)), "{events:?}");
        assert!(node.now_s > LEARNED_S);
        node
    }

    fn check(&mut self, bytes: u64, factor: f64) -> Check {
        let seconds = self.detector.expectation.seconds(bytes) * factor * self.noise.lognormal(1.0, 0.15);
        Check { at_s: self.now_s, bytes, timing: Timing::Answered(Duration::from_secs_f64(seconds)) }
    }

    /// Goes on for some days. `factor` gets the days since this began.
    fn run(&mut self, days: u64, factor: impl Fn(f64) -> f64) -> Vec<Event> {
        let from_s = self.now_s;
        let mut events = Vec::new();
        while self.now_s < from_s + days * DAY_S {
            let factor = factor((self.now_s - from_s) as f64 / DAY_S as f64);
            let check = self.check(50_000_000, factor);
            events.extend(self.detector.observe(check));
            self.now_s += 2 * HOUR_S;
            events.extend(self.detector.advance(self.now_s));
        }
        events
    }
}

fn only_begun(events: &[Event]) -> Episode {
    match events {
        [Event::Began(episode)] => *episode,
        other => panic!("one change should begin, not {other:?}"),
    }
}

#[test]
fn a_lasting_twofold_slowdown_is_named_once_with_its_time_and_factor() {
    for seed in 0..20 {
        let mut node = Node::learned(seed);
        let from_s = node.now_s;
        let episode = only_begun(&node.run(200, |_| 2.0));
        assert_eq!(episode.direction, Direction::Slower);
        assert!(episode.named_s <= from_s + 12 * 2 * HOUR_S && episode.since_s.abs_diff(from_s) <= 6 * HOUR_S, "{episode:?}");
        assert!((1.6..2.4).contains(&episode.factor.unwrap()) && episode.unanswered == 0, "{episode:?}");
        let Status::Changed { factor_now: Some(now), .. } = node.detector.status() else { panic!("the slowdown lasts") };
        assert!((1.6..2.5).contains(&now), "{now}");
    }
}

#[test]
fn the_end_of_a_slowdown_is_named_and_dated() {
    for seed in 0..20 {
        let mut node = Node::learned(seed);
        node.run(10, |_| 3.0);
        let ended_s = node.now_s;
        let events = node.run(30, |_| 1.0);
        let [Event::Ended { episode, until_s }] = events[..] else { panic!("one slowdown should end, not {events:?}") };
        assert!(until_s.abs_diff(ended_s) <= 2 * DAY_S, "{until_s} instead of {ended_s}");
        assert!((2.4..3.6).contains(&episode.factor.unwrap()), "{episode:?}");
        assert!(episode.checks.abs_diff(120) <= 30, "{episode:?}");
        assert!(matches!(node.detector.status(), Status::Usual { .. }));
    }
}

#[test]
fn a_small_slowdown_does_not_hide_a_large_one_of_the_same_node() {
    for seed in 0..20 {
        let mut node = Node::learned(seed);
        only_begun(&node.run(10, |_| 1.5));
        let from_s = node.now_s;
        let events = node.run(10, |_| 16.0);
        let [Event::Worsened { episode, since_s, named_s }] = events[..] else { panic!("it gets worse once, not {events:?}") };
        assert!((12.0..20.0).contains(&episode.factor.unwrap()) && since_s.abs_diff(from_s) <= 2 * HOUR_S, "{episode:?} {since_s}");
        assert!(named_s <= from_s + 12 * HOUR_S && episode.since_s < from_s - 9 * DAY_S, "{episode:?}");
    }
}

#[test]
fn a_short_slowdown_keeps_its_factor_after_its_end_was_named() {
    let mut factors = Vec::new();
    for seed in 0..20 {
        let mut node = Node::learned(seed);
        node.run(2, |_| 2.0);
        let events = node.run(30, |_| 1.0);
        let [Event::Ended { episode, .. }] = events[..] else { panic!("one slowdown should end, not {events:?}") };
        factors.push(episode.factor.unwrap());
    }
    factors.sort_unstable_by(f64::total_cmp);
    assert!((1.8..2.2).contains(&factors[10]), "{factors:?}");
}

#[test]
fn ten_thousand_slow_checks_in_a_minute_are_one_witness() {
    let mut node = Node::learned(1);
    for _ in 0..10_000 {
        let check = node.check(50_000_000, 8.0);
        assert_eq!(node.detector.observe(check), None);
    }
    node.now_s += 2 * HOUR_S;
    assert_eq!(node.detector.advance(node.now_s), None);
    let Status::Usual { suspicion } = node.detector.status() else { panic!("no slowdown") };
    let parameters = Parameters::default();
    let most = 2.0 * (parameters.clip - parameters.allowance) / parameters.threshold;
    assert!(suspicion > 0.0 && suspicion <= most, "{suspicion}");
    assert_eq!(node.run(20, |_| 1.0), []);
}

#[test]
fn a_slowdown_that_grows_over_four_weeks_is_not_taken_for_the_usual() {
    for seed in 0..10 {
        let mut node = Node::learned(seed);
        let from_s = node.now_s;
        let events = node.run(60, |day| 1.0 + (day / 28.0).min(1.0));
        let episode = only_begun(&events[..1]);
        assert!(events[1..].iter().all(|event| matches!(event, Event::Worsened { .. })) && events.len() <= 3, "{events:?}");
        assert!(episode.direction == Direction::Slower && episode.named_s < from_s + 14 * DAY_S, "{episode:?}");
    }
}

#[test]
fn a_node_that_stops_answering_is_not_fast() {
    let mut node = Node::learned(2);
    let mut events = Vec::new();
    for _ in 0..12 {
        let check = Check { at_s: node.now_s, bytes: 50_000_000, timing: Timing::Unanswered };
        events.extend(node.detector.observe(check));
        node.now_s += 2 * HOUR_S;
        events.extend(node.detector.advance(node.now_s));
    }
    let episode = only_begun(&events);
    assert_eq!((episode.direction, episode.factor), (Direction::Slower, None));
    assert!(episode.unanswered >= 5 && episode.checks <= episode.unanswered + 1, "{episode:?}");
    // While learning, too: half of the checks without an answer are no fast node.
    let mut node = Node::new(3);
    for index in 0..13 * 31 {
        let check = if index % 3 == 0 {
            Check { at_s: node.now_s, bytes: 50_000_000, timing: Timing::Unanswered }
        } else {
            node.check(50_000_000, 1.0)
        };
        node.detector.observe(check);
        node.now_s += 2 * HOUR_S;
    }
    let factor = node.detector.baseline().unwrap().factor();
    assert!((0.95..1.3).contains(&factor), "{factor}");
}

#[test]
fn a_faster_node_is_noted_and_its_slowdown_is_still_named() {
    let mut node = Node::learned(4);
    assert_eq!(only_begun(&node.run(20, |_| 0.4)).direction, Direction::Faster);
    assert_eq!(only_begun(&node.run(10, |_| 3.0)).direction, Direction::Slower);
}

#[test]
fn only_an_operator_makes_a_new_level_the_usual_one() {
    let mut node = Node::learned(5);
    only_begun(&node.run(400, |_| 1.8));
    assert!(matches!(node.detector.status(), Status::Changed { .. }));
    node.detector.relearn();
    let events = node.run(60, |_| 1.8);
    assert!(matches!(events[..], [Event::Learned { factor }] if (1.6..2.0).contains(&factor)), "{events:?}");
}

#[test]
fn a_change_of_the_mix_of_sizes_is_no_change_of_the_node() {
    for seed in 0..10 {
        let mut node = Node::new(seed);
        let mut events = Vec::new();
        // Small files take 1.8 times as long as expected, large ones as long as expected.
        for hour in 0..24 * 60 {
            for index in 0..20 {
                let is_small = index < if hour < 24 * 30 { 6 } else { 14 };
                let check = if is_small { node.check(2_000, 1.8) } else { node.check(500_000_000, 1.0) };
                events.extend(node.detector.observe(check));
            }
            node.now_s += HOUR_S;
        }
        assert!(matches!(events[..], [Event::Learned { .. }]), "{events:?}");
    }
}

#[test]
fn a_slowdown_of_one_node_neither_hides_nor_delays_that_of_another() {
    let alone = {
        let mut second = Node::learned(7);
        second.run(10, |day| if day < 3.0 { 1.0 } else { 2.0 })
    };
    let mut first = Node::learned(6);
    let mut second = Node::learned(7);
    let (mut of_first, mut of_second) = (Vec::new(), Vec::new());
    for day in 0..10 {
        of_first.extend(first.run(1, |_| 36.0));
        of_second.extend(second.run(1, |_| if day < 3 { 1.0 } else { 2.0 }));
    }
    assert_eq!(of_second, alone);
    assert_eq!(only_begun(&of_second).direction, Direction::Slower);
    assert!(only_begun(&of_first).named_s < only_begun(&of_second).since_s);
}

#[test]
fn a_stored_detector_goes_on_as_if_it_had_never_stopped() {
    let mut node = Node::new(8);
    for day in 0..60 {
        let factor = if (40..50).contains(&day) { 2.5 } else { 1.0 };
        node.run(1, |_| factor);
        let check = node.check(50_000_000, 1.0);
        node.detector.observe(check);
        let bytes = node.detector.to_bytes();
        assert!(bytes.len() < if node.detector.baseline().is_some() { 3_072 } else { 16_384 }, "{} bytes on day {day}", bytes.len());
        assert_eq!(Detector::from_bytes(&bytes).as_ref(), Ok(&node.detector), "day {day}");
    }
}

#[test]
fn damaged_states_are_rejected_or_harmless() {
    let mut node = Node::new(9);
    let mut states = Vec::new();
    node.run(15, |_| 1.0);
    states.push(node.detector.to_bytes());
    node.run(20, |_| 1.0);
    node.run(3, |_| 4.0);
    states.push(node.detector.to_bytes());
    let seed = 10;
    println!("seed {seed}");
    let mut chance = Stream::new(seed, "damage");
    for state in states {
        for length in 0..state.len() {
            assert!(Detector::from_bytes(&state[..length]).is_err(), "{length} bytes");
        }
        assert_eq!(Detector::from_bytes(&[&state[..], &[0]].concat()), Err(StateError::Length));
        for _ in 0..5_000 {
            let mut damaged = state.clone();
            let at = chance.below(state.len() as u64) as usize;
            damaged[at] ^= 1 << chance.below(8);
            let Ok(mut detector) = Detector::from_bytes(&damaged) else { continue };
            for step in 0..40 {
                detector.observe(Check { at_s: node.now_s + step * 7_200, ..node.check(1_000, 1.0) });
            }
            detector.advance(u64::MAX);
            let _ = detector.status();
        }
    }
}

#[test]
fn clocks_that_jump_neither_panic_nor_blind_the_detector() {
    let mut node = Node::learned(11);
    for at_s in [u64::MAX, 0, u64::MAX - 1, node.now_s, 5, node.now_s] {
        let check = Check { at_s, ..node.check(u64::MAX, 1.0) };
        node.detector.observe(check);
        node.detector.advance(at_s);
    }
    assert_eq!(only_begun(&node.run(5, |_| 4.0)).direction, Direction::Slower);
    let mut fresh = Detector::new(Expectation::S3, Parameters::default()).unwrap();
    for index in 0..10_000 {
        let at_s = if index % 2 == 0 { u64::MAX } else { 0 };
        fresh.observe(Check { at_s, bytes: 0, timing: Timing::Answered(Duration::MAX) });
    }
}

#[test]
fn late_checks_of_an_earlier_bin_count_in_the_present_one() {
    let mut node = Node::learned(12);
    node.now_s = node.now_s.next_multiple_of(2 * HOUR_S);
    let before = node.detector.clone();
    for index in 0..100 {
        let at_s = node.now_s - (index % 2);
        let check = Check { at_s, ..node.check(50_000_000, 9.0) };
        assert_eq!(node.detector.observe(check), None);
    }
    assert_ne!(before, node.detector);
    assert_eq!(node.detector.advance(node.now_s + 2 * HOUR_S), None, "100 checks at a border of bins are one witness");
    let judged = node.detector.status();
    // Stragglers of the judged bin wait for the end of the next one.
    for _ in 0..100 {
        let check = node.check(50_000_000, 9.0);
        assert_eq!(node.detector.observe(check), None);
        assert_eq!(node.detector.advance(node.now_s + 3 * HOUR_S), None);
    }
    assert_eq!(node.detector.status(), judged);
}
