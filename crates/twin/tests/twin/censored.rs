//! Runs that stop before all requests have ended: their completion times are lower bounds. And
//! requests that end without their bytes, which have no completion time.

use fulgurite_domain::Micros;
use fulgurite_twin::results::Missed;
use fulgurite_twin::scenario::Scenario;
use fulgurite_twin::simulation::{Run, StopReason, run};

const SEED: u64 = 7;

/// More requests than two shuttles can serve, for ten minutes.
fn overloaded(cool_down: Micros) -> Scenario {
    let mut scenario = Scenario { platters: 190, ..Scenario::default() };
    scenario.layout.shuttles = 2;
    (scenario.run.warm_up, scenario.run.measured, scenario.run.cool_down) = (Micros::ZERO, Micros(600_000_000), cool_down);
    scenario.workload.rate = 2.0;
    scenario.workload.bursts.count = 0;
    scenario
}

fn ran(scenario: &Scenario) -> Run {
    run(scenario, SEED).unwrap_or_else(|error| panic!("seed {SEED}: {error}"))
}

#[test]
fn unfinished_requests_count_with_their_time_until_the_end_of_the_run() {
    let cool_down = Micros(30_000_000);
    let mut cut = ran(&overloaded(cool_down));
    let unfinished = cut.unfinished.expect("two shuttles can't serve all of them in 30 s");
    assert_eq!(unfinished.reason, StopReason::Over);
    assert!(unfinished.at <= Micros(600_000_000) + cool_down && unfinished.arrived < unfinished.at);
    assert_eq!(cut.ended_at, unfinished.at);
    assert_eq!(cut.completions.count(), cut.requests);
    assert_eq!(cut.outcomes.total() + cut.censored(), cut.requests);
    assert!(cut.completions.largest() >= Some(unfinished.at.since(unfinished.arrived).0));

    let mut whole = ran(&overloaded(Micros(30 * 24 * Micros::HOUR.0)));
    assert_eq!((whole.censored(), whole.requests, whole.bytes), (0, cut.requests, cut.bytes));
    for part in [0.1, 0.5, 0.9, 0.99, 0.999, 1.0] {
        assert!(cut.percentile_s(part) <= whole.percentile_s(part), "{part} of seed {SEED}");
    }
    assert!(cut.percentile_s(0.999) < whole.percentile_s(0.999));
    assert!(cut.mean_s() < whole.mean_s());
}

#[test]
fn no_limit_counts_as_kept_by_a_lower_bound() {
    let mut scenario = overloaded(Micros(30_000_000));
    let (limits, week) = (&mut scenario.expect, Micros(7 * 24 * Micros::HOUR.0));
    (limits.tail_at_most, limits.longest_at_most, limits.mean_at_most) = (Some(week), Some(Micros(1)), Some(week));
    limits.tail_over_bound_at_most = Some(1e9);
    let missed = scenario.expect.missed(&ran(&scenario));
    assert!(
        matches!(
            missed.as_slice(),
            [
                Missed::Censored { what: "the 99.9th percentile of completion times", .. },
                Missed::Censored { what: "the longest completion time", .. },
                Missed::Censored { what: "the mean completion time", .. },
                Missed::CensoredOverBound { .. },
            ]
        ),
        "{missed:?}"
    );
    scenario.run.cool_down = Micros(30 * 24 * Micros::HOUR.0);
    assert!(matches!(scenario.expect.missed(&ran(&scenario)).as_slice(), [Missed::Time { what: "the longest completion time", .. }]));
}

#[test]
fn a_library_that_loses_requests_does_not_look_fast() {
    let of = |away: u16| {
        let mut scenario = overloaded(Micros(30 * 24 * Micros::HOUR.0));
        (scenario.layout.shuttles, scenario.libraries, scenario.away) = (20, 2, away);
        scenario
    };
    let (mut whole, mut half) = (ran(&of(0)), ran(&of(1)));
    let lost = half.outcomes.unavailable;
    assert!(lost > half.requests / 4 && half.lost() > 0.25, "half of the platters can't be reached: {:?}", half.outcomes);
    assert_eq!(half.completions.count() + lost, half.requests);
    assert!(half.percentile_s(0.01) >= 0.5 * whole.percentile_s(0.01) && half.percentile_s(0.01) > 1.0);
    assert!(half.bound.is_none() && whole.bound.is_some(), "the bound is of all requests");
}

#[test]
fn nothing_measured_keeps_no_limit() {
    let mut scenario = overloaded(Micros(30_000_000));
    (scenario.workload.rate, scenario.run.measured) = (0.001, Micros(1_000));
    scenario.expect.tail_at_most = Some(Micros(7 * 24 * Micros::HOUR.0));
    let run = ran(&scenario);
    assert_eq!(run.requests, 0);
    assert!(matches!(scenario.expect.missed(&run).as_slice(), [Missed::Nothing { .. }]));
}
