//! The decode service: savings from waiting for cheap hours, and late jobs.

use fulgurite_decode::{Class, DecodeService, Job, Policy, Settings as Service, Totals};
use fulgurite_library::RegionOutcome;

use super::*;
use crate::simulation::{Ended, Observer, run_with};

/// Deadlines for decoding, in hours after a request's arrival. The service level is 15 (SOSP '23,
/// section 2).
const DEADLINES: [f64; 5] = [1.0, 4.0, 8.0, 12.0, 15.0];
/// Time of one worker for a sector (proposed): 200,000 to 250,000 voxels, at 1 million a second.
const SECTOR_S: f64 = 0.25;
/// Sectors of a track.
const SECTORS: u64 = 216;
const WORKERS: u32 = 1_000;

/// Requests that have left the libraries with their bytes: arrival, end and bytes of the file.
#[derive(Default)]
struct Left(Vec<(Micros, Micros, u64)>);

impl Observer for &mut Left {
    fn ended(&mut self, ended: &Ended) {
        if matches!(ended.outcome, RegionOutcome::Read | RegionOutcome::Recovered) {
            self.0.push((ended.arrived, ended.at, ended.bytes));
        }
    }
}

#[derive(Debug, Clone)]
struct Compared {
    at_once: Totals,
    cheapest: Totals,
}

pub(super) fn plan(plan: &mut Plan) -> Report {
    let mut tasks = Vec::new();
    let deadlines = plan.along(&DEADLINES);
    for (kind, name) in INTERVALS {
        let scenario = interval(plan, kind, PolicyName::Balanced);
        for seed in plan.settings().first_seed..plan.settings().first_seed + u64::from(plan.settings().sweep_seeds) {
            let (scenario, deadlines) = (scenario.clone(), deadlines.clone());
            let task = plan.task(4.0, move || {
                let mut left = Left::default();
                run_with(&scenario, seed, &mut left, |_| ()).map_err(|source| Plan::failed("decode", &scenario, seed, source))?;
                let totals = |policy, hours| decode(&left.0, scenario.mechanics.drive.track_bytes, policy, hours);
                let compared = |&deadline_h: &f64| Compared {
                    at_once: totals(Policy::AtOnce, deadline_h),
                    cheapest: totals(Policy::Cheapest, deadline_h),
                };
                Ok(deadlines.iter().map(compared).collect::<Vec<_>>())
            });
            tasks.push((kind, name, task));
        }
    }
    Box::new(move |results| {
        let mut chapter = Chapter::new("decode", "The decode service");
        chapter.add_paragraph(introduction());
        let of = |kind: WorkloadKind, at: usize, value: &dyn Fn(&Compared) -> f64| {
            let values: Vec<f64> = tasks.iter().filter(|task| task.0 == kind).map(|task| value(&results.task(task.2)[at])).collect();
            Estimate::of(&values)
        };
        let cost = |compared: &Compared| compared.cheapest.cost / compared.at_once.cost.max(f64::MIN_POSITIVE);
        let late = |totals: &Totals| totals.late as f64 / totals.jobs.max(1) as f64;
        let mut panel =
            Panel::new(Axis::new("Deadline after arrival", "h").from(0.0), Axis::share("Cost of decoding, to at once").from(0.0));
        let mut rows = Vec::new();
        let mut table = empty_table();
        for (kind, name) in INTERVALS {
            let points = deadlines.iter().enumerate().map(|(at, &hours)| plot_point(hours, &of(kind, at, &cost)));
            panel = panel.line(name, points.collect::<Vec<_>>());
            for (at, &hours) in deadlines.iter().enumerate() {
                let mean = |value: &dyn Fn(&Compared) -> f64| of(kind, at, value).mean;
                let (at_once, cheapest) = (mean(&|one| one.at_once.cost), mean(&|one| one.cheapest.cost));
                let (late_at_once, late_cheapest) = (mean(&|one| late(&one.at_once)), mean(&|one| late(&one.cheapest)));
                let latest = mean(&|one| one.cheapest.latest.seconds());
                table.push([
                    kind.text().into(),
                    hours.into(),
                    at_once.into(),
                    cheapest.into(),
                    mean(&cost).into(),
                    late_at_once.into(),
                    late_cheapest.into(),
                    latest.into(),
                ])?;
                rows.push(vec![
                    name.to_owned(),
                    format!("{hours} h"),
                    digits(at_once),
                    digits(cheapest),
                    percent(late_at_once),
                    percent(late_cheapest),
                    time(latest),
                ]);
            }
        }
        chapter.draw(
            "decode",
            Figure::new("").panel(panel),
            "Cost of decoding in the cheapest hours before the deadline, relative to decoding at once.",
        );
        chapter.list(["interval", "deadline", "cost at once", "cheapest", "late at once", "late, cheapest", "latest"], rows);
        chapter.add_paragraph(
            "Jobs that are late at once were late when they left the library, or arrived faster than all workers can decode.",
        );
        chapter.sheet("decode", table);
        Ok(chapter)
    })
}

fn introduction() -> String {
    let prices = Service::default().prices;
    format!(
        "Images from the drives are decoded elsewhere, by workers that are paid by the hour; the paper excludes this from completion times, and so do we. Here {WORKERS} workers each take {SECTOR_S} s for a sector (proposed), at a price of {} by day and {} from 23:00 to 7:00 (proposed). Runs begin at midnight, under `balanced`. \
         *At once* decodes all available images; *cheapest* moves work to the cheapest hours before its deadline. The deadline counts from the request's arrival, so it includes the time in the library.",
        prices[12], prices[0],
    )
}

fn empty_table() -> Table {
    Table::new([
        Column::text("interval", "The interval."),
        Column::f64("deadline", "h", "Deadline for decoding, after the request's arrival."),
        Column::f64("cost_at_once", "", "Cost of decoding at once, in hours of a worker by day."),
        Column::f64("cost_cheapest", "", "Cost of decoding when it is cheapest."),
        Column::f64("cost_ratio", "", "Mean ratio of the two, seed by seed."),
        Column::f64("late_at_once", "", "Share of the requests that were late, at once."),
        Column::f64("late_cheapest", "", "Share of the requests that were late, when it is cheapest."),
        Column::f64("latest_cheapest", "s", "Longest delay of a request, when it is cheapest; mean over seeds."),
    ])
}

fn decode(left: &[(Micros, Micros, u64)], track_bytes: u64, policy: Policy, deadline_h: f64) -> Totals {
    let mut service = DecodeService::new(Service { policy, workers: [WORKERS; 24], ..Service::default() });
    for (id, (arrived, at, bytes)) in left.iter().enumerate() {
        let sectors = bytes.div_ceil(track_bytes).max(1) * SECTORS;
        let job = Job {
            id: id as u64,
            class: Class::Deferrable,
            ready: *at,
            work: Micros::from_seconds(sectors as f64 * SECTOR_S),
            width: sectors.min(u64::from(u32::MAX)) as u32,
            deadline: *arrived + Micros::from_seconds(deadline_h * 3_600.0),
        };
        service.advance(*at, |_| ());
        service.submit(job).expect("fewer requests than may wait left the library");
    }
    let mut until = left.last().map_or(Micros::ZERO, |last| last.1);
    while service.waiting() > 0 {
        until += Micros::HOUR;
        service.advance(until, |_| ());
    }
    service.totals().clone()
}
