//! Results: a run's figures with their units and meanings, as they go to the terminal, into tables and into JSON; and whether they are as
//! expected.

mod expectations;
mod sweep;

pub use expectations::Missed;
pub use sweep::{Point, PointRuns, points, run_points, summary, table};

use crate::simulation::Run;
use crate::table::Value;

/// One figure of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// As columns are called.
    pub name: &'static str,
    /// Its unit; nothing for a count or a ratio, and `share` for a part of a whole.
    pub unit: &'static str,
    /// What it means.
    pub about: &'static str,
    /// Its value.
    pub value: Value,
}

/// All figures of a run, in the order in which they are shown. Each run has the same ones.
#[must_use]
pub fn figures(run: &Run) -> Vec<Figure> {
    let mut completions = run.completions.clone();
    let mut percentile = |part: f64| completions.percentile(part).map(|micros| micros as f64 / 1e6);
    let real = |name, unit, about, value: f64| Figure { name, unit, about, value: Value::F64(value) };
    let whole = |name, about, value: u64| Figure { name, unit: "", about, value: Value::I64(i64::try_from(value).unwrap_or(i64::MAX)) };
    let maybe = |name, unit, about, value: Option<f64>| Figure { name, unit, about, value: value.into() };
    let (drives, shuttles, system, outcomes) = (&run.drives, &run.shuttles, &run.system, &run.outcomes);
    let bound = |of: fn(&crate::bound::Bound) -> f64| run.bound.as_ref().map(of);
    let decode = run.decode.as_ref();
    let decoded = |of: fn(&crate::simulation::DecodeFigures) -> f64| decode.map(of);
    let decode_tail_s = decode.and_then(|decode| decode.waits.clone().percentile(crate::bound::TAIL)).map(|micros| micros as f64 / 1e6);
    vec![
        whole("requests", "Requests that arrived in the measured interval.", run.requests),
        whole("reads", "Their shards.", run.reads),
        whole("bytes", "Bytes of their files.", run.bytes),
        maybe(
            "mean_s",
            "s",
            "Mean completion time, from arrival to the last byte leaving the library.",
            run.completions.mean().map(|m| m / 1e6),
        ),
        maybe("p50_s", "s", "Median completion time.", percentile(0.5)),
        maybe("p90_s", "s", "90th percentile of completion times.", percentile(0.9)),
        maybe("p99_s", "s", "99th percentile of completion times.", percentile(0.99)),
        maybe("tail_s", "s", "99.9th percentile of completion times.", percentile(crate::bound::TAIL)),
        maybe("longest_s", "s", "The longest completion time.", percentile(1.0)),
        maybe("bound_tail_s", "s", "What no policy can get the 99.9th percentile below.", bound(|bound| bound.tail.seconds())),
        maybe(
            "bound_unforeseen_s",
            "s",
            "What no policy can expect to get it below without knowing what will be asked for, if requests fall on platters evenly.",
            run.bound.and_then(|bound| bound.unforeseen).map(|tail| tail.seconds()),
        ),
        maybe(
            "bound_sweep_s",
            "s",
            "All platters that are asked for, fetched and taken home once by all shuttles.",
            bound(|bound| bound.sweep.seconds()),
        ),
        maybe("bound_longest_s", "s", "What no policy can get the longest below.", bound(|bound| bound.longest.seconds())),
        maybe("bound_shuttles_s", "s", "What shuttles alone say of the 99.9th percentile.", bound(|bound| bound.tails.shuttles.seconds())),
        maybe("bound_drives_s", "s", "What drives alone say of it.", bound(|bound| bound.tails.drives.seconds())),
        maybe("bound_platter_s", "s", "What reading one platter in one drive says of it.", bound(|bound| bound.tails.platter.seconds())),
        whole("read", "Requests read from where they are.", outcomes.read),
        whole("recovered", "Requests of which some was read from others of its set.", outcomes.recovered),
        whole("unavailable", "Requests that ended without their bytes.", outcomes.unavailable),
        whole("refused", "Requests for tracks that are not there.", outcomes.refused),
        whole("recoveries", "Reads done from others of their set, over the whole run.", run.recoveries),
        real(
            "drives_utilization",
            "share",
            "Of drives' time: reading and verifying, with mounting, seeking and unmounting.",
            drives.utilization,
        ),
        real("drives_reading", "share", "Of drives' time: reading for customers, with mounting, seeking and unmounting.", drives.reading),
        real("drives_verifying", "share", "Of drives' time: verifying.", drives.verifying),
        real("drives_switching", "share", "Of drives' time: turning from one bay to the other.", drives.switching),
        real("drives_idle", "share", "Of drives' time: nothing.", drives.idle),
        real("drives_failed", "share", "Of drives' time: out of order.", drives.failed),
        whole("visits", "Platters mounted.", drives.visits),
        real("reads_per_visit", "", "Reads for customers, over platters mounted.", drives.reads_per_visit()),
        whole("bytes_verified", "Bytes read for verification.", drives.bytes_verified),
        real("shuttles_moving", "share", "Of shuttles' time: along shelves.", shuttles.moving),
        real("shuttles_crabbing", "share", "Of shuttles' time: from shelf to shelf.", shuttles.crabbing),
        real("shuttles_handling", "share", "Of shuttles' time: picking and placing.", shuttles.handling),
        real("shuttles_charging", "share", "Of shuttles' time: at a dock.", shuttles.charging),
        real("shuttles_idle", "share", "Of shuttles' time: nothing.", shuttles.idle),
        real("shuttles_lost", "share", "Of shuttles' time: out of order.", shuttles.lost),
        whole(
            "operations",
            "Platters placed by shuttles: one brought to a drive is an operation, and one taken home is another.",
            shuttles.operations,
        ),
        real("metres_per_operation", "m", "Way along shelves, over operations.", shuttles.metres_per_operation()),
        real("joules_per_operation", "J", "Energy of motion, over operations.", shuttles.joules_per_operation()),
        real(
            "congestion_overhead",
            "share",
            "What trips took longer because of others, of what they would have taken alone.",
            shuttles.congestion_overhead(),
        ),
        whole("evasions", "Times a shuttle made room for another.", shuttles.congestion.evasions),
        real("requests_present", "", "Requests under way, averaged over the measured interval.", system.requests),
        real("requests_present_most", "", "The most requests under way.", system.requests_most),
        real("platters_waiting", "", "Platters in line to be fetched, averaged over looks once a minute.", system.platters_waiting),
        whole("platters_waiting_most", "The most platters seen in line.", system.platters_waiting_most),
        real("ended_s", "s", "When the last request that counts had ended, from the start of the warm-up.", run.ended_at.seconds()),
        maybe("decode_jobs", "", "Requests decoded, over the whole run.", decoded(|decode| decode.jobs as f64)),
        maybe("decode_late", "", "Requests decoded after their deadline.", decoded(|decode| decode.late as f64)),
        maybe("decode_turned_away", "", "Requests that came when no more could wait.", decoded(|decode| decode.turned_away as f64)),
        maybe(
            "decode_mean_s",
            "s",
            "From the last byte leaving the library to its being decoded.",
            decoded(|decode| decode.waits.mean().unwrap_or(0.0) / 1e6),
        ),
        maybe("decode_tail_s", "s", "99.9th percentile of that.", decode_tail_s),
        maybe("decode_cost", "", "What the workers cost, in units of the price.", decoded(|decode| decode.cost)),
        maybe("decode_cost_at_mean_price", "", "What they would have cost at the mean price.", decoded(|decode| decode.cost_at_mean_price)),
        maybe("decode_utilization", "share", "Of the workers that could be had: those that worked.", decoded(|decode| decode.utilization)),
        whole("events", "Arrivals, and everything that fell due, over the whole run.", run.events),
    ]
}
