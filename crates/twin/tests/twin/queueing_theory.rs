//! Compares stations on the bare event queue with queueing theory. Each figure is the mean of
//! independent replications with fixed seeds. It must be within a confidence interval of 99.9 %,
//! and the interval must be narrow.
//!
//! All times are in units of the mean service time.

use fulgurite_chance::Stream;
use fulgurite_decode::{DecodeService, Job, Policy, Settings};
use fulgurite_domain::Micros;

use crate::support::station::{Class, Discipline, Polling, ServiceTime, Station, Totals, Visit};

const REPLICATIONS: u64 = 10;

/// Student's t for 9 degrees of freedom, two-sided 99.9 %.
const STUDENT: f64 = 4.781;

/// Compares figures, one per replication, with theory.
fn agrees(what: &str, figures: &[f64], theory: f64, width: f64) {
    let count = figures.len() as f64;
    let mean = figures.iter().sum::<f64>() / count;
    let variance = figures.iter().map(|figure| (figure - mean) * (figure - mean)).sum::<f64>() / (count - 1.0);
    let half = STUDENT * (variance / count).sqrt();
    assert!((mean - theory).abs() <= half, "{what}: {mean:.6} ± {half:.6} over seeds 0..{REPLICATIONS}, but theory says {theory:.6}");
    assert!(half <= width * theory, "{what}: ± {half:.6} is too wide for {theory:.6}");
}

/// The figures of all replications, without the first customers.
fn replicate<T>(customers: usize, run: impl Fn(u64, &mut dyn FnMut(Visit)), figure: impl Fn(&[Visit]) -> T) -> Vec<T> {
    let skipped = customers / 20;
    (0..REPLICATIONS)
        .map(|seed| {
            let mut visits = Vec::with_capacity(customers);
            run(seed, &mut |visit| visits.push(visit));
            figure(&visits[skipped..])
        })
        .collect()
}

fn wait(visit: &Visit) -> f64 {
    (visit.begun - visit.arrived).seconds()
}

fn sojourn(visit: &Visit) -> f64 {
    (visit.ended - visit.arrived).seconds()
}

fn mean(of: impl Fn(&Visit) -> f64, visits: &[Visit]) -> f64 {
    visits.iter().map(of).sum::<f64>() / visits.len() as f64
}

/// The wait that one in a thousand customers exceeds.
fn tail(visits: &[Visit]) -> f64 {
    let mut waits: Vec<f64> = visits.iter().map(wait).collect();
    waits.sort_by(f64::total_cmp);
    waits[waits.len() - waits.len() / 1000 - 1]
}

/// Mean and tail of the wait for each replication.
fn waits(station: &Station, customers: usize) -> (Vec<f64>, Vec<f64>) {
    let run = |seed: u64, visit: &mut dyn FnMut(Visit)| {
        station.run(seed, customers as u64, visit);
    };
    replicate(customers, run, |visits| (mean(wait, visits), tail(visits))).into_iter().unzip()
}

#[test]
fn one_server_with_exponential_service_matches_theory() {
    // M/M/1: mean rho / (1 - rho); P(W > t) = rho exp(-(1 - rho) t).
    let (means, tails) = waits(&Station::single(1, 0.8, ServiceTime::Exponential(1.0)), 200_000);
    agrees("mean wait of M/M/1 at 0.8", &means, 4.0, 0.06);
    agrees("p99.9 of M/M/1 at 0.8", &tails, 33.4231, 0.15);
}

#[test]
fn twenty_servers_with_exponential_service_match_theory() {
    // M/M/c: P(W > t) = C exp(-c (1 - rho) t), with Erlang's C(20, 16) = 0.256077.
    let (means, tails) = waits(&Station::single(20, 16.0, ServiceTime::Exponential(1.0)), 400_000);
    agrees("mean wait of M/M/20 at 0.8", &means, 0.064_019, 0.1);
    agrees("p99.9 of M/M/20 at 0.8", &tails, 1.3864, 0.15);
}

#[test]
fn one_server_with_fixed_service_matches_theory() {
    // M/D/1, Pollaczek and Khinchine: rho / (2 (1 - rho)).
    let (means, _) = waits(&Station::single(1, 0.9, ServiceTime::Fixed(1.0)), 200_000);
    agrees("mean wait of M/D/1 at 0.9", &means, 4.5, 0.08);
}

#[test]
fn urgent_customers_interrupt_the_others() {
    // Preemptive resume: 1 / (1 - rho1), and 1 / ((1 - rho1) (1 - rho1 - rho2)).
    let service = ServiceTime::Exponential(1.0);
    let station = Station { servers: 1, classes: [0.3, 0.5].map(|arrivals_s| Class { arrivals_s, service }).to_vec() };
    let run = |seed: u64, visit: &mut dyn FnMut(Visit)| {
        station.run(seed, 200_000, visit);
    };
    let of_class =
        |visits: &[Visit], class| mean(sojourn, &visits.iter().filter(|visit| visit.class == class).copied().collect::<Vec<_>>());
    let (urgent, others): (Vec<f64>, Vec<f64>) =
        replicate(200_000, run, |visits| (of_class(visits, 0), of_class(visits, 1))).into_iter().unzip();
    agrees("sojourn of the urgent", &urgent, 1.428_571, 0.03);
    agrees("sojourn of the others", &others, 7.142_857, 0.08);
}

#[test]
fn decoding_with_two_kinds_of_deadlines_matches_the_priority_station() {
    // One worker. All deadlines of the urgent kind precede those of the other; within each kind
    // they are in order of arrival.
    let settings = Settings { policy: Policy::AtOnce, workers: [1; 24], ..Settings::default() };
    let run = |seed: u64, visit: &mut dyn FnMut(Visit)| {
        let mut service = DecodeService::new(settings.clone());
        let [mut arrivals, mut kinds, mut works] = ["arrivals", "kinds", "works"].map(|purpose| Stream::new(seed, purpose));
        let (mut seconds, far) = (0.0, Micros(1_000_000 * Micros::HOUR.0));
        for _ in 0..100_000 {
            seconds += arrivals.exponential(1.0 / 0.8);
            let ready = Micros::from_seconds(seconds);
            service.advance(ready, |done| {
                let class = usize::from(done.job.deadline >= far);
                visit(Visit { class, arrived: done.job.ready, begun: done.job.ready, ended: done.at });
            });
            let work = Micros::from_seconds(works.exponential(1.0)).max(Micros(1));
            let deadline = if kinds.happens(0.3 / 0.8) { ready } else { ready + far };
            service
                .submit(Job { id: 0, class: fulgurite_decode::Class::Deferrable, ready, work, width: 1, deadline })
                .expect("there is room");
        }
    };
    let of_class =
        |visits: &[Visit], class| mean(sojourn, &visits.iter().filter(|visit| visit.class == class).copied().collect::<Vec<_>>());
    let (urgent, others): (Vec<f64>, Vec<f64>) =
        replicate(100_000, run, |visits| (of_class(visits, 0), of_class(visits, 1))).into_iter().unzip();
    agrees("sojourn of urgent decoding", &urgent, 1.428_571, 0.04);
    agrees("sojourn of other decoding", &others, 7.142_857, 0.1);
}

#[test]
fn a_server_that_polls_four_queues_matches_theory() {
    // Symmetric polling with exponential service of mean 1 (second moment 2) and a fixed switch of
    // r = 0.5 between neighbours, N = 4, rho = N lambda = 0.6: mean wait = N lambda 2 / (2 (1 -
    // rho)) + r (N -+ rho) / (2 (1 - rho)), minus for exhaustive, plus for gated service. Takagi,
    // Analysis of Polling Systems (1986); a switch that varies would add its variance / (2 r).
    for (discipline, theory) in [(Discipline::Exhaustive, 3.625), (Discipline::Gated, 4.375)] {
        let polling = Polling { queues: 4, arrivals_s: 0.15, service: ServiceTime::Exponential(1.0), switch_s: 0.5, discipline };
        let means = replicate(60_000, |seed, visit| polling.run(seed, 60_000, visit), |visits| mean(wait, visits));
        agrees(&format!("{discipline:?} polling"), &means, theory, 0.06);
    }
}

#[test]
fn laws_hold_in_every_run() {
    let service = ServiceTime::Exponential(1.0);
    let classes = [0.5, 1.0, 0.9].map(|arrivals_s| Class { arrivals_s, service }).to_vec();
    for (station, seed) in [1, 3, 7].map(|servers| Station { servers, classes: classes.clone() }).iter().zip(0..) {
        let (mut sojourns, mut served) = (0.0, 0_u64);
        let totals: Totals = station.run(seed, 50_000, |visit| {
            assert!(visit.arrived <= visit.begun && visit.begun <= visit.ended, "seed {seed}: {visit:?}");
            sojourns += sojourn(&visit);
            served += 1;
        });
        assert_eq!(totals.wasted_seconds, 0.0, "seed {seed}: a server was idle while a customer waited");
        assert_eq!(served, totals.departed);
        if station.servers > 2 {
            // Little: customers present = rate times sojourn, except for the few still present.
            let little = totals.customer_seconds / sojourns;
            assert!((1.0..1.01).contains(&little), "seed {seed}: Little's law is off by {little}");
            // Utilization: busy servers = rate times mean service, 2.4; four standard deviations of
            // 50,000 services and arrivals.
            let busy = totals.busy_seconds / totals.end.seconds();
            assert!((busy - 2.4).abs() < 0.06, "seed {seed}: {busy} servers busy");
        } else {
            assert!((totals.busy_seconds - totals.end.seconds()).abs() < 20.0, "seed {seed}: an overloaded server rested");
        }
    }
}
