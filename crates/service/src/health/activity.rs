//! What clients did in the last hour, for the dashboard: requests and their times, bytes received,
//! and how much content is staged and archived, in steps of about ten seconds.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::fixity::rfc_3339;
use crate::gateway::Gateway;
use crate::state::now_ms;

/// Time between two points.
const EVERY: Duration = Duration::from_secs(10);
/// Points that are kept: an hour.
const POINTS_MAX: usize = 360;
/// Classes of request times: four for each doubling, from [`FASTEST_US`] on, up to 10 minutes.
const CLASSES: usize = 91;
/// Upper bound of the first class.
const FASTEST_US: f64 = 100.0;
/// Groups of requests: those that read, and those that write.
const GROUPS: [&str; 2] = ["reads", "writes"];

/// Counters of requests since the last point, and the points of the last hour.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    groups: [Group; GROUPS.len()],
    received_bytes: AtomicU64,
    points: Mutex<VecDeque<Point>>,
}

#[derive(Debug)]
struct Group {
    times: [AtomicU64; CLASSES],
    failed: AtomicU64,
}

impl Default for Group {
    fn default() -> Self {
        Self { times: std::array::from_fn(|_| AtomicU64::new(0)), failed: AtomicU64::new(0) }
    }
}

#[derive(Debug, Clone, PartialEq)]
struct Point {
    /// Its end, in seconds since 1970.
    at_s: u64,
    /// Its length.
    step: Duration,
    groups: [Requests; GROUPS.len()],
    received_bytes: u64,
    totals: Option<Totals>,
}

/// Requests of a group between two points.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Requests {
    count: u64,
    /// Those that were answered with a status of 500 or more.
    failed: u64,
    /// Half of them, and 99 %, took at most this long until the head of the response.
    median_s: Option<f64>,
    p99_s: Option<f64>,
}

/// What the archive held at a point.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Totals {
    versions: u64,
    staged_versions: u64,
    staged_bytes: u64,
}

impl Activity {
    /// Counts a request of a client; `time` is the time until the head of the response, and
    /// `in_bytes` the length of its body, by its head.
    pub(crate) fn count(&self, method: &Method, status: StatusCode, time: Duration, in_bytes: u64) {
        let group = &self.groups[usize::from(!matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS))];
        group.times[class(time)].fetch_add(1, Ordering::Relaxed);
        if status.is_server_error() {
            group.failed.fetch_add(1, Ordering::Relaxed);
        }
        // Anyone can claim any length. A request that succeeded had a body of that length.
        if status.is_success() {
            self.received_bytes.fetch_add(in_bytes, Ordering::Relaxed);
        }
    }

    /// Ends the current step.
    fn add_point(&self, at_s: u64, step: Duration, totals: Option<Totals>) {
        let groups = [0, 1].map(|index: usize| {
            let group = &self.groups[index];
            let times: Vec<u64> = group.times.iter().map(|count| count.swap(0, Ordering::Relaxed)).collect();
            let failed = group.failed.swap(0, Ordering::Relaxed);
            Requests { count: times.iter().sum(), failed, median_s: quantile(&times, 0.5), p99_s: quantile(&times, 0.99) }
        });
        let received_bytes = self.received_bytes.swap(0, Ordering::Relaxed);
        let mut points = self.points.lock().unwrap_or_else(PoisonError::into_inner);
        if points.len() == POINTS_MAX {
            points.pop_front();
        }
        points.push_back(Point { at_s, step, groups, received_bytes, totals });
    }

    /// The points of the last hour, the oldest first.
    pub(crate) fn report(&self) -> Value {
        let points = self.points.lock().unwrap_or_else(PoisonError::into_inner);
        let requests = |Requests { count, failed, median_s, p99_s }: &Requests| json!({ "count": count, "failed": failed, "median_s": median_s, "p99_s": p99_s });
        let point = |point: &Point| {
            let mut value =
                json!({ "at": rfc_3339(point.at_s), "step_s": point.step.as_secs_f64(), "received_bytes": point.received_bytes });
            for (name, group) in GROUPS.iter().zip(&point.groups) {
                value[*name] = requests(group);
            }
            if let Some(Totals { versions, staged_versions, staged_bytes }) = point.totals {
                value["archived_versions"] = json!(versions.saturating_sub(staged_versions));
                value["staged_versions"] = json!(staged_versions);
                value["staged_bytes"] = json!(staged_bytes);
            }
            value
        };
        json!({ "every_s": EVERY.as_secs(), "points": points.iter().map(point).collect::<Vec<_>>() })
    }
}

/// The class of a time. The last one has no upper bound.
fn class(time: Duration) -> usize {
    let doublings = (time.as_secs_f64() * 1e6 / FASTEST_US).max(1.0).log2();
    ((4.0 * doublings).ceil() as usize).min(CLASSES - 1)
}

/// The time below which a share of the requests lies, within 20 % if it is 0.1 ms to 10 minutes.
/// Times are taken as spread evenly over their class.
fn quantile(times: &[u64], share: f64) -> Option<f64> {
    let all: u64 = times.iter().sum();
    if all == 0 {
        return None;
    }
    let rank = share * all as f64;
    let mut below = 0.0;
    let upper = |class: usize| FASTEST_US / 1e6 * (class as f64 / 4.0).exp2();
    for (class, count) in times.iter().enumerate() {
        let count = *count as f64;
        if count > 0.0 && below + count >= rank {
            let lower = if class == 0 { 0.0 } else { upper(class - 1) };
            return Some(lower + (upper(class) - lower) * ((rank - below) / count));
        }
        below += count;
    }
    None
}

/// Adds a point every ten seconds until the server stops.
pub(crate) async fn watch(gateway: Arc<Gateway>, mut stop: watch::Receiver<bool>) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // The first one comes at once.
    ticks.tick().await;
    let mut last = Instant::now();
    while !*stop.borrow() {
        tokio::select! {
            _ = ticks.tick() => {}
            _ = stop.changed() => continue,
        }
        let reader = gateway.clone();
        let totals = tokio::task::spawn_blocking(move || reader.archive.reading().totals().ok()).await.ok().flatten();
        let totals = totals.map(|totals| Totals {
            versions: totals.versions,
            staged_versions: totals.staged.versions,
            staged_bytes: totals.staged.stored_bytes,
        });
        let now = Instant::now();
        gateway.health.activity.add_point(now_ms().div_euclid(1_000) as u64, now - last, totals);
        last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_fifth() {
        for us in [1_u64, 100, 101, 1_700, 40_000, 3_000_000, 100_000_000] {
            let activity = Activity::default();
            (0..1_000).for_each(|_| activity.count(&Method::GET, StatusCode::OK, Duration::from_micros(us), 0));
            activity.add_point(0, EVERY, None);
            let report = activity.report();
            for name in ["median_s", "p99_s"] {
                let found = report["points"][0]["reads"][name].as_f64().expect("a time");
                let true_s = us as f64 / 1e6;
                let is_near = (true_s / 1.2..true_s * 1.2).contains(&found);
                assert!(is_near || (us <= 100 && found <= 1e-4), "{us} µs: {name} is {found} s");
            }
        }
    }

    #[test]
    fn each_point_counts_what_came_since_the_last() {
        let activity = Activity::default();
        activity.count(&Method::PUT, StatusCode::OK, Duration::from_millis(3), 100);
        activity.count(&Method::PUT, StatusCode::INTERNAL_SERVER_ERROR, Duration::from_millis(3), 50);
        activity.count(&Method::HEAD, StatusCode::NOT_FOUND, Duration::from_millis(1), 0);
        activity.add_point(1_700_000_000, EVERY, Some(Totals { versions: 7, staged_versions: 2, staged_bytes: 9 }));
        activity.add_point(1_700_000_010, EVERY, None);
        let report = activity.report();
        let [first, second] = &report["points"].as_array().expect("points")[..] else { panic!("{report}") };
        assert_eq!((&first["writes"]["count"], &first["writes"]["failed"], &first["received_bytes"]), (&json!(2), &json!(1), &json!(100)));
        assert_eq!((&first["reads"]["count"], &first["reads"]["failed"]), (&json!(1), &json!(0)));
        assert_eq!(
            (&first["archived_versions"], &first["staged_versions"], &first["at"]),
            (&json!(5), &json!(2), &json!("2023-11-14T22:13:20Z"))
        );
        assert_eq!((&second["writes"]["count"], &second["writes"]["median_s"]), (&json!(0), &Value::Null));
        assert!(second.get("staged_versions").is_none());
        (0..2 * POINTS_MAX).for_each(|_| activity.add_point(0, EVERY, None));
        assert_eq!(activity.report()["points"].as_array().map(Vec::len), Some(POINTS_MAX));
    }
}
