use fulgurite_chance::Stream;

use super::*;

const MINUTE: u64 = Micros::HOUR.0 / 60;

fn job(id: u64, ready: u64, work: u64, deadline: u64) -> Job {
    Job {
        id,
        class: Class::Deferrable,
        ready: Micros(ready * MINUTE),
        work: Micros(work * MINUTE),
        width: 216,
        deadline: Micros(deadline * MINUTE),
    }
}

/// Submits jobs when they are ready, and lets all of them finish.
fn run(settings: Settings, jobs: &[Job]) -> (Vec<Decoded>, Totals) {
    let mut service = DecodeService::new(settings);
    let mut decoded = Vec::new();
    for job in jobs {
        service.advance(job.ready, |done| decoded.push(done));
        service.submit(*job).expect("there is room");
    }
    let end = Micros((service.now().0 / Micros::HOUR.0 + 50) * Micros::HOUR.0);
    service.advance(end, |done| decoded.push(done));
    assert_eq!(service.waiting(), 0, "all jobs are done in two days");
    assert_eq!(decoded.len(), jobs.len(), "each job is done once");
    (decoded, service.totals().clone())
}

/// A week of jobs, half of them urgent, for 40 % of the workers on average.
fn week(seed: u64) -> Vec<Job> {
    let mut chance = Stream::new(seed, "jobs");
    let (mut ready, mut jobs) = (0.0, Vec::new());
    while ready < 7.0 * 24.0 * 60.0 {
        let minutes = if chance.happens(0.5) { chance.between(20.0, 60.0) } else { chance.between(60.0, 900.0) };
        let at = Micros((ready * MINUTE as f64) as u64);
        let work = Micros::from_seconds(chance.exponential(12_000.0)).max(Micros(1));
        jobs.push(Job {
            id: jobs.len() as u64,
            class: Class::Deferrable,
            ready: at,
            work,
            width: 216,
            deadline: at + Micros((minutes * MINUTE as f64) as u64),
        });
        ready += chance.exponential(5.0);
    }
    jobs
}

fn cheapest_alone(job: &Job) -> f64 {
    let Settings { prices, margin, .. } = Settings::default();
    let hours = job.ready.0 / Micros::HOUR.0..=job.deadline.since(margin).0 / Micros::HOUR.0;
    let price = hours.map(|hour| prices[(hour % 24) as usize]).fold(f64::INFINITY, f64::min);
    price * job.work.seconds() / 3600.0
}

#[test]
fn no_deadline_is_missed_and_it_costs_less_than_at_once() {
    for seed in 0..5 {
        let jobs = week(seed);
        let (_, cheapest) = run(Settings::default(), &jobs);
        let (_, at_once) = run(Settings { policy: Policy::AtOnce, ..Settings::default() }, &jobs);
        assert_eq!((cheapest.late, at_once.late), (0, 0), "seed {seed}");
        assert!((cheapest.busy_seconds - at_once.busy_seconds).abs() < 1.0, "seed {seed}: both policies do the same work");
        // No plan is cheaper than running each job alone in its cheapest hour.
        let alone: f64 = jobs.iter().map(cheapest_alone).sum();
        let (saved, most) = (at_once.cost - cheapest.cost, at_once.cost - alone);
        assert!(saved > 0.5 * most, "seed {seed}: {saved} saved, of {most} at most; at once {}", at_once.cost);
        assert!((0.2..0.5).contains(&cheapest.utilization()), "seed {seed}: {}", cheapest.utilization());
    }
}

#[test]
fn work_waits_for_cheap_hours_but_no_longer() {
    // Ready at 8:00, due at 4:00 the next morning; from 23:00 the price is halved. 100 workers
    // do the 6,000 minutes in an hour.
    let settings = Settings { margin: Micros::ZERO, ..Settings::default() };
    let (decoded, totals) = run(settings, &[job(0, 8 * 60, 6_000, 28 * 60)]);
    assert_eq!(decoded[0].at, Micros(24 * Micros::HOUR.0));
    assert!((totals.cost - 50.0).abs() < 1e-6, "{}", totals.cost);
    assert!((totals.workers[23] - 100.0).abs() < 1e-6 && totals.workers[22] == 0.0);
    // With an earlier deadline it runs at the day's price, but no later than needed.
    let (decoded, totals) = run(Settings::default(), &[job(0, 8 * 60, 6_000, 12 * 60)]);
    assert!(decoded[0].at <= Micros(12 * Micros::HOUR.0));
    assert!((totals.cost - 100.0).abs() < 1e-6, "{}", totals.cost);
}

#[test]
fn the_most_expensive_hour_takes_only_work_that_fits_nowhere_else() {
    // From 20:00 to 24:00: three hours by day and one at night, a quarter of which is kept in
    // reserve.
    let settings = Settings { margin: Micros::ZERO, ..Settings::default() };
    let (_, totals) = run(settings, &[job(0, 20 * 60, 12_000, 24 * 60)]);
    // 200 worker hours: 75 can be planned for 23:00, and 125 come from the hours before it, the
    // earliest first.
    assert_eq!(totals.workers[20..24].iter().map(|workers| workers.round()).collect::<Vec<_>>(), [100.0, 25.0, 0.0, 75.0]);
    assert_eq!(totals.late, 0);
}

#[test]
fn the_earliest_deadline_preempts_other_jobs() {
    let settings = Settings { policy: Policy::AtOnce, workers: [1; 24], ..Settings::default() };
    let jobs = [job(0, 0, 60, 600), job(1, 10, 30, 300), job(2, 20, 5, 100), job(3, 20, 5, 100), job(4, 21, 5, 9_000)];
    let (decoded, _) = run(settings, &jobs);
    let order: Vec<(u64, u64)> = decoded.iter().map(|done| (done.job.id, done.at.0 / MINUTE)).collect();
    assert_eq!(order, [(2, 25), (3, 30), (1, 50), (0, 100), (4, 105)]);
}

#[test]
fn a_read_near_its_deadline_overtakes_jobs_that_can_wait() {
    let leisure = Job { deadline: Micros::NEVER, ..job(0, 0, 60_000, 0) };
    let (decoded, totals) = run(Settings::default(), &[leisure, job(1, 30, 100, 40)]);
    assert_eq!((decoded[0].job.id, decoded[0].at), (1, Micros(31 * MINUTE)));
    assert!(decoded[1].at <= Micros(24 * Micros::HOUR.0), "a job without a deadline doesn't starve: {}", decoded[1].at);
    assert_eq!(totals.late, 0);
}

#[test]
fn few_sectors_occupy_few_workers() {
    let settings = Settings { policy: Policy::AtOnce, ..Settings::default() };
    let narrow = Job { width: 2, ..job(0, 0, 60, 600) };
    let (decoded, totals) = run(settings, &[narrow, job(1, 0, 98, 700)]);
    let ends: Vec<u64> = decoded.iter().map(|done| done.at.0 / MINUTE).collect();
    // 98 of 100 workers are left for the second one.
    assert_eq!(ends, [1, 30]);
    assert!((totals.workers[0] - 158.0 / 60.0).abs() < 1e-9);
}

#[test]
fn the_number_of_workers_changes_by_the_hour() {
    let mut workers = [0; 24];
    workers[3] = 10;
    let settings = Settings { workers, ..Settings::default() };
    let (decoded, totals) = run(settings.clone(), &[job(0, 0, 60, 300)]);
    assert_eq!(decoded[0].at, Micros(186 * MINUTE));
    assert_eq!(totals.offered_seconds, 2.0 * 36_000.0, "ten workers, an hour on each of two days");
    let mut service = DecodeService::new(settings);
    service.submit(job(0, 0, 60, 300)).expect("there is room");
    service.set_workers(0, 10);
    let mut ends = Vec::new();
    service.advance(Micros::HOUR, |done| ends.push(done.at));
    assert_eq!(ends, [Micros(6 * MINUTE)], "the earlier of two hours of equal price");
}

#[test]
fn a_full_queue_rejects_further_jobs() {
    let mut service = DecodeService::new(Settings { jobs_max: 1, ..Settings::default() });
    service.submit(job(0, 0, 1, 10)).expect("there is room");
    let full = service.submit(job(1, 0, 1, 10)).expect_err("there is none");
    assert_eq!(full.to_string(), "1 jobs already wait to be decoded: add workers or raise jobs_max");
    service.advance(Micros::HOUR, |_| {});
    service.submit(job(2, 0, 1, 10)).expect("there is room again");
}
