//! Results: the figures of a run with units and descriptions, as shown in the terminal, in tables
//! and in JSON, and the comparison with what the scenario expects.

mod expectations;
mod tables;

pub use expectations::Missed;
pub use tables::{summary, table};

use fulgurite_table::Value;

use crate::simulation::Run;

/// One figure of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Column name.
    pub name: &'static str,
    /// Its unit: empty for a count or a ratio, `share` for a part of a whole.
    pub unit: &'static str,
    /// What it means.
    pub about: &'static str,
    /// Its value.
    pub value: Value,
}

/// All figures of a run, in display order. Every run has the same figures.
#[must_use]
pub fn figures(run: &Run) -> Vec<Figure> {
    let mut all = completion_figures(run);
    all.extend(bound_figures(run));
    all.extend(outcome_figures(run));
    all.extend(drive_figures(run));
    all.extend(shuttle_figures(run));
    all.extend(load_figures(run));
    all.extend(decode_figures(run));
    all.push(whole("events", "Arrivals and due events over the whole run.", run.events));
    all
}

/// Names of all figures.
#[must_use]
pub fn names() -> Vec<&'static str> {
    figures(&Run::default()).into_iter().map(|figure| figure.name).collect()
}

/// Figures that are lower bounds if requests were censored.
pub const LOWER_BOUNDS_IF_CENSORED: [&str; 7] = ["mean_s", "p50_s", "p90_s", "p99_s", "tail_s", "longest_s", "ended_s"];

fn real(name: &'static str, unit: &'static str, about: &'static str, value: f64) -> Figure {
    Figure { name, unit, about, value: Value::F64(value) }
}

fn whole(name: &'static str, about: &'static str, value: u64) -> Figure {
    Figure { name, unit: "", about, value: Value::I64(i64::try_from(value).unwrap_or(i64::MAX)) }
}

fn maybe(name: &'static str, unit: &'static str, about: &'static str, value: Option<f64>) -> Figure {
    Figure { name, unit, about, value: value.into() }
}

/// The requests, and how long they took.
fn completion_figures(run: &Run) -> Vec<Figure> {
    let mut completions = run.completions.clone();
    let mut percentile = |part: f64| completions.percentile(part).map(|micros| micros as f64 / 1e6);
    vec![
        whole("requests", "Requests that arrived in the measured interval.", run.requests),
        whole(
            "censored",
            "Those that had not ended when the run stopped. If there are any, completion times are lower bounds.",
            run.censored(),
        ),
        whole("reads", "Shards of the requests.", run.reads),
        whole("bytes", "Bytes of the requested files.", run.bytes),
        maybe(
            "mean_s",
            "s",
            "Mean completion time, from arrival to the last byte leaving the library.",
            run.completions.mean().map(|m| m / 1e6),
        ),
        maybe("p50_s", "s", "Median completion time.", percentile(0.5)),
        maybe("p90_s", "s", "90th percentile of completion times.", percentile(0.9)),
        maybe("p99_s", "s", "99th percentile of completion times.", percentile(0.99)),
        maybe("tail_s", "s", "99.9th percentile of completion times.", percentile(crate::bound::TAIL_QUANTILE)),
        maybe("longest_s", "s", "The longest completion time.", percentile(1.0)),
    ]
}

/// Lower bounds of completion times.
fn bound_figures(run: &Run) -> Vec<Figure> {
    let bound = |of: fn(&crate::bound::Bound) -> f64| run.bound.as_ref().map(of);
    vec![
        maybe("bound_tail_s", "s", "Lower bound of the 99.9th percentile under any policy.", bound(|bound| bound.tail.seconds())),
        maybe(
            "bound_unforeseen_s",
            "s",
            "Expected lower bound for policies that don't know future requests, if requests fall on platters evenly.",
            run.bound.and_then(|bound| bound.unforeseen).map(|tail| tail.seconds()),
        ),
        maybe(
            "bound_sweep_s",
            "s",
            "Time for all shuttles to fetch every requested platter once and take it home.",
            bound(|bound| bound.one_sweep.seconds()),
        ),
        maybe("bound_longest_s", "s", "Lower bound of the longest completion time.", bound(|bound| bound.longest.seconds())),
        maybe("bound_shuttles_s", "s", "Bound of the 99.9th percentile by shuttles.", bound(|bound| bound.tails.shuttles.seconds())),
        maybe("bound_drives_s", "s", "Bound of the 99.9th percentile by drives.", bound(|bound| bound.tails.drives.seconds())),
        maybe("bound_platter_s", "s", "Bound of it by one platter in one drive.", bound(|bound| bound.tails.platter.seconds())),
    ]
}

/// How requests ended.
fn outcome_figures(run: &Run) -> Vec<Figure> {
    let outcomes = &run.outcomes;
    vec![
        whole("read", "Requests read from their own platters.", outcomes.read),
        whole("recovered", "Requests with at least one read recovered from other platters of the set.", outcomes.recovered),
        whole("unavailable", "Requests that ended without their bytes.", outcomes.unavailable),
        whole("refused", "Requests for tracks that don't exist.", outcomes.refused),
        whole("recoveries", "Reads recovered from other platters of the set, over the whole run.", run.recoveries),
    ]
}

/// What drives did.
fn drive_figures(run: &Run) -> Vec<Figure> {
    let drives = &run.drives;
    vec![
        real(
            "drives_utilization",
            "share",
            "Share of drive time spent on reads, verification, mounting, seeking and unmounting.",
            drives.utilization,
        ),
        real("drives_reading", "share", "Share of drive time spent on reads, mounting, seeking and unmounting.", drives.reading),
        real("drives_verifying", "share", "Share of drive time spent verifying.", drives.verifying),
        real("drives_switching", "share", "Share of drive time spent switching between bays.", drives.switching),
        real("drives_idle", "share", "Share of drive time spent idle.", drives.idle),
        real("drives_failed", "share", "Share of drive time spent out of order.", drives.failed),
        whole("visits", "Platters mounted.", drives.visits),
        real("reads_per_visit", "", "Reads for customers per platter mounted.", drives.reads_per_visit()),
        whole("bytes_verified", "Bytes read for verification.", drives.bytes_verified),
    ]
}

/// What shuttles did.
fn shuttle_figures(run: &Run) -> Vec<Figure> {
    let shuttles = &run.shuttles;
    vec![
        real("shuttles_moving", "share", "Share of shuttle time spent moving along shelves.", shuttles.moving),
        real("shuttles_crabbing", "share", "Share of shuttle time spent changing shelves.", shuttles.crabbing),
        real("shuttles_handling", "share", "Share of shuttle time spent picking and placing.", shuttles.handling),
        real("shuttles_charging", "share", "Share of shuttle time spent charging at a dock.", shuttles.charging),
        real("shuttles_idle", "share", "Share of shuttle time spent idle.", shuttles.idle),
        real("shuttles_lost", "share", "Share of shuttle time spent out of order.", shuttles.lost),
        whole(
            "operations",
            "Platters placed by shuttles; bringing a platter to a drive and taking it home count as two operations.",
            shuttles.operations,
        ),
        real("metres_per_operation", "m", "Distance along shelves per operation.", shuttles.metres_per_operation()),
        real("joules_per_operation", "J", "Energy of motion per operation.", shuttles.joules_per_operation()),
        real(
            "congestion_overhead",
            "share",
            "Extra trip time caused by other shuttles, relative to the trip time without them.",
            shuttles.congestion_overhead(),
        ),
        real(
            "trip_tail_s",
            "s",
            "99.9th percentile of the shuttles' travel times, including waits for other shuttles.",
            shuttles.trip_tail.seconds(),
        ),
        whole("evasions", "Times a shuttle moved out of the way of another.", shuttles.congestion.evasions),
    ]
}

/// How much waited in the library, and when the run ended.
fn load_figures(run: &Run) -> Vec<Figure> {
    let system = &run.system;
    vec![
        real("requests_present", "", "Mean number of requests in progress over the measured interval.", system.requests),
        real("requests_present_most", "", "Maximum number of requests in progress.", system.requests_most),
        real("platters_waiting", "", "Mean number of platters queued to be fetched, sampled once a minute.", system.platters_waiting),
        whole("unverified_most", "Maximum sampled number of written platters that were not verified yet.", system.unverified_most),
        whole("platters_waiting_most", "Maximum sampled number of platters queued to be fetched.", system.platters_waiting_most),
        real(
            "ended_s",
            "s",
            "End of the last measured request, or of a run with censored ones, from the start of the warm-up.",
            run.ended_at.seconds(),
        ),
    ]
}

/// The decode service.
fn decode_figures(run: &Run) -> Vec<Figure> {
    let decode = run.decode.as_ref();
    let decoded = |of: fn(&crate::simulation::DecodeFigures) -> f64| decode.map(of);
    let decode_tail_s =
        decode.and_then(|decode| decode.waits.clone().percentile(crate::bound::TAIL_QUANTILE)).map(|micros| micros as f64 / 1e6);
    vec![
        maybe("decode_jobs", "", "Requests to decode, over the whole run.", decoded(|decode| decode.jobs as f64)),
        maybe(
            "decode_late",
            "",
            "Requests decoded after their deadline, or not within 31 days after the run.",
            decoded(|decode| decode.late as f64),
        ),
        maybe("decode_turned_away", "", "Requests rejected because the queue was full.", decoded(|decode| decode.turned_away as f64)),
        maybe(
            "decode_mean_s",
            "s",
            "Mean time from the last byte leaving the library until it is decoded.",
            decoded(|decode| decode.waits.mean().unwrap_or(0.0) / 1e6),
        ),
        maybe("decode_tail_s", "s", "99.9th percentile of the time until decoded.", decode_tail_s),
        maybe("decode_cost", "", "Cost of the workers, in units of the price.", decoded(|decode| decode.cost)),
        maybe("decode_cost_at_mean_price", "", "Cost of the same work at the mean price.", decoded(|decode| decode.cost_at_mean_price)),
        maybe("decode_utilization", "share", "Share of the available workers that were used.", decoded(|decode| decode.utilization)),
    ]
}
