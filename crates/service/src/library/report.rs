//! What the library tells: open restores with what they wait for and when they should be done, and
//! the state of its machines.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fulgurite_domain::VersionId;
use fulgurite_library::{Operation, RegionPlatter, RequestId};
use fulgurite_live::{View, Waiting, forecast};
use fulgurite_mechanics::Outage;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::flights::Flight;
use super::waiting::Cause;
use super::{Library, RestoreEnd, lock};
use crate::fixity::rfc_3339;
use crate::gateway::Gateway;
use crate::health::liveness;
use crate::state::{Restore, StateError, now_ms};

/// Maximum number of restores in an answer.
const LISTED_MAX: usize = 1_000;
/// Most events of a forecast: a second of work.
const FORECAST_EVENTS_MAX: usize = 2_000_000;
/// How long a forecast is used again.
const FRESH: Duration = Duration::from_secs(2);
/// It is used for at least this multiple of the time that it took, so that viewers can't keep a
/// core busy.
const IDLE_RATIO: u32 = 20;
/// Restores whose estimates are compared with what came true.
const COMPARED: usize = 1_000;

/// A machine of the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Machine {
    /// A shuttle, counted from 0.
    Shuttle(u16),
    /// A read drive, counted from 0.
    Drive(u16),
}

/// Estimates of when restores will be done, and how good they were.
#[derive(Default)]
pub(super) struct Estimates {
    last: Mutex<Option<Forecast>>,
    /// Relative errors of the first estimates of restores that ended lately.
    errors: Mutex<VecDeque<f64>>,
}

struct Forecast {
    at: Instant,
    fresh_for: Duration,
    outlook: Arc<Outlook>,
}

/// The library at an instant, and when its open requests should end.
struct Outlook {
    view: View,
    /// In milliseconds since 1970.
    ends_ms: BTreeMap<RequestId, i64>,
}

impl Estimates {
    /// Compares the first estimate of a restore with its end. Times are in milliseconds since 1970.
    pub(super) fn note(&self, requested_ms: i64, expected_ms: i64, ended_ms: i64) {
        let took = (ended_ms - requested_ms).max(1) as f64;
        let error = (expected_ms - ended_ms) as f64 / took;
        let mut errors = lock(&self.errors);
        if errors.len() == COMPARED {
            errors.pop_front();
        }
        errors.push_back(error.abs());
    }

    fn median_error(&self) -> Option<(usize, f64)> {
        let mut errors: Vec<f64> = lock(&self.errors).iter().copied().collect();
        errors.sort_unstable_by(f64::total_cmp);
        Some((errors.len(), *errors.get(errors.len() / 2)?))
    }
}

impl Library {
    /// The library now or a short time ago, and when open requests should end; `None` if it has
    /// stopped.
    fn outlook(&self) -> Option<Arc<Outlook>> {
        // Others that ask meanwhile wait for the same forecast.
        let mut last = lock(&self.estimates.last);
        if let Some(last) = &*last
            && last.at.elapsed() < last.fresh_for
        {
            return Some(last.outlook.clone());
        }
        let start = Instant::now();
        let view = self.runner.view()?;
        let now = now_ms();
        // Without estimates, there is still much to tell.
        let ends = catch_unwind(AssertUnwindSafe(|| forecast(&view, FORECAST_EVENTS_MAX))).unwrap_or_else(|panic| {
            let message = liveness::message(&*panic);
            tracing::error!(panic = message, "there are no estimates for restores: the forecast panicked");
            BTreeMap::new()
        });
        let real_ms = |library_us: u64| (library_us as f64 / 1e3 / f64::from(self.time_scale)) as i64;
        let ends_ms: BTreeMap<RequestId, i64> = ends.into_iter().map(|(request, end)| (request, now + real_ms(end.0))).collect();
        for (request, flight) in &*lock(&self.flights.by_request) {
            if let Some(end) = ends_ms.get(request) {
                // Only the first estimate is kept.
                let _ = flight.expected_ms.compare_exchange(0, *end as u64, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
        let outlook = Arc::new(Outlook { view, ends_ms });
        let fresh_for = FRESH.max(start.elapsed() * IDLE_RATIO);
        *last = Some(Forecast { at: Instant::now(), fresh_for, outlook: outlook.clone() });
        Some(outlook)
    }

    fn report(&self, view: &View) -> Value {
        let places = self.places.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (sets, outside) = (places.sets().len(), places.outside());
        drop(places);
        let platter = |platter: Option<RegionPlatter>| platter.map(|platter| platter.0);
        let shuttles = view.shuttles.iter().map(|shuttle| {
            json!({
                "shelf": shuttle.at.shelf,
                "x_m": shuttle.at.x_um as f64 / 1e6,
                "carries": platter(shuttle.carries),
                "state": state_of(shuttle.outage),
            })
        });
        let drives = view.drives.iter().map(|drive| {
            json!({
                "does": drive.operation.map_or("nothing", activity),
                "platters": drive.bays.map(platter),
                "state": state_of(drive.outage),
            })
        });
        let (compared, median_error) = self.estimates.median_error().unzip();
        let (next, set_back) = self.flights.count_waiting();
        let (scrubbed, out_of_reach) = self.turns.counts();
        json!({
            "time_scale": self.time_scale,
            "sets": sets,
            "room_sets": self.plan.sets(),
            "outside_sets": outside,
            "platters_queued": view.queued,
            "platters_unverified": view.unverified,
            "requests_open": self.flights.count(),
            "reads_recovered": view.recovered,
            "restores": {
                "read": self.counted(RestoreEnd::Read),
                "recovered": self.counted(RestoreEnd::Recovered),
                "without_library": self.counted(RestoreEnd::WithoutLibrary),
                "failed": self.counted(RestoreEnd::Failed),
                "next": next,
                "set_back": set_back,
            },
            "scrub": { "state": self.turns.activity(), "read": scrubbed, "out_of_reach": out_of_reach },
            "estimates": { "compared": compared.unwrap_or(0), "median_error": median_error },
            "journal": self.journal.as_ref().filter(|_| !self.journal_ended.load(Ordering::Relaxed)),
            "shuttles": shuttles.collect::<Vec<_>>(),
            "drives": drives.collect::<Vec<_>>(),
        })
    }
}

/// Figures for metrics.
pub(crate) struct LibraryMetrics {
    pub(crate) requests_open: u64,
    pub(crate) set_back: u64,
    pub(crate) platters_queued: u64,
    pub(crate) platters_unverified: u64,
    pub(crate) outside_sets: u64,
    /// Machines that work, and others.
    pub(crate) shuttles: (usize, usize),
    pub(crate) drives: (usize, usize),
    pub(crate) restores: [(&'static str, u64); 4],
    pub(crate) reads_recovered: u64,
    /// Platters that the scrub has read in drives, and those that were out of reach.
    pub(crate) scrubbed: (u64, u64),
    pub(crate) estimate_error: Option<f64>,
}

impl Library {
    /// Figures for metrics; `None` if the library has stopped.
    pub(crate) fn metrics(&self) -> Option<LibraryMetrics> {
        let view = self.runner.view()?;
        let count = |outages: Vec<bool>| (outages.iter().filter(|works| **works).count(), outages.iter().filter(|works| !**works).count());
        Some(LibraryMetrics {
            requests_open: self.flights.count() as u64,
            set_back: self.flights.count_waiting().1 as u64,
            platters_queued: view.queued.into(),
            platters_unverified: view.unverified.into(),
            outside_sets: self.places.read().unwrap_or_else(std::sync::PoisonError::into_inner).outside(),
            shuttles: count(view.shuttles.iter().map(|shuttle| shuttle.outage.is_none()).collect()),
            drives: count(view.drives.iter().map(|drive| drive.outage.is_none()).collect()),
            restores: RestoreEnd::ALL.map(|end| (end.word(), self.counted(end))),
            reads_recovered: view.recovered,
            scrubbed: self.turns.counts(),
            estimate_error: self.estimates.median_error().map(|(_, error)| error),
        })
    }
}

fn state_of(outage: Option<Outage>) -> &'static str {
    match outage {
        None => "works",
        Some(Outage { is_detected: false, .. }) => "failed, not noticed yet",
        Some(Outage { needs_repair: true, .. }) => "out of order until it is repaired",
        Some(_) => "out of order",
    }
}

fn activity(operation: Operation) -> &'static str {
    match operation {
        Operation::Mount => "mounting",
        Operation::Unmount => "unmounting",
        Operation::Switch(_) => "switching",
        Operation::Read(..) => "reading",
        Operation::Verify => "verifying",
    }
}

/// What a restore waits for.
fn reason(view: &View, waiting: Option<&Waiting>) -> String {
    let none_works = |mut outages: Box<dyn Iterator<Item = Option<Outage>> + '_>| {
        outages.next().is_some_and(|first| first.is_some()) && outages.all(|outage| outage.is_some())
    };
    let needs_drive = !matches!(waiting, Some(Waiting::Reading) | None);
    let needs_shuttle = needs_drive && !matches!(waiting, Some(Waiting::InDrive(_)));
    if needs_drive && none_works(Box::new(view.drives.iter().map(|drive| drive.outage))) {
        return "a repair: no drive works".to_owned();
    }
    if needs_shuttle && none_works(Box::new(view.shuttles.iter().map(|shuttle| shuttle.outage))) {
        return "a repair: no shuttle works".to_owned();
    }
    match waiting {
        Some(Waiting::InSlot { before: 0 }) => "a shuttle; it is the next on its half of the shelf".to_owned(),
        Some(Waiting::InSlot { before: 1 }) => "a shuttle; 1 platter is before it".to_owned(),
        Some(Waiting::InSlot { before }) => format!("a shuttle; {before} platters are before it"),
        Some(Waiting::OnShuttle(shuttle)) => format!("shuttle {}, which carries its platter", shuttle.0),
        Some(Waiting::InDrive(drive)) => format!("drive {}, which has its platter", drive.0),
        Some(Waiting::Reading) | None => "its bytes, which are being read and checked".to_owned(),
        Some(Waiting::AtPort { before: 0 }) => "its platter, which is the next at the write rack to be verified".to_owned(),
        Some(Waiting::AtPort { before }) => format!("its platter, which waits at the write rack behind {before} others"),
        Some(Waiting::OutOfReach) => "other platters of its set, because its own is out of reach".to_owned(),
        Some(Waiting::NotWritten) => "its platter, which is not in the library yet".to_owned(),
    }
}

fn time_ms(ms: i64) -> Option<String> {
    rfc_3339(u64::try_from(ms).ok()? / 1_000)
}

impl Gateway {
    /// Open restores, the most urgent first, and the library. Blocks.
    ///
    /// # Errors
    /// [`StateError`] if `service.db` can't be read.
    pub(crate) fn restores_report(&self) -> Result<Value, StateError> {
        let open = self.state.open_restores(LISTED_MAX)?;
        let count = self.state.count_open_restores()?;
        let library = self.library.as_ref();
        let outlook = library.and_then(Library::outlook);
        let flights: HashMap<VersionId, Arc<Flight>> = library.map_or_else(HashMap::new, |library| {
            lock(&library.flights.by_request).values().map(|flight| (flight.id, flight.clone())).collect()
        });
        let set_back = library.map_or_else(
            || self.jobs.set_back.all().into_iter().map(|id| (id, Cause::Stores)).collect(),
            |library| library.flights.set_back(),
        );
        let requests: HashMap<RequestId, usize> = outlook.as_ref().map_or_else(HashMap::new, |outlook| {
            outlook.view.requests.iter().enumerate().map(|(index, request)| (request.request, index)).collect()
        });
        let row = |restore: &Restore| {
            let flight = flights.get(&restore.id);
            let (waits_for, expected_ms) = match (flight, &outlook) {
                (Some(flight), Some(outlook)) => match requests.get(&flight.request) {
                    Some(index) => {
                        let next = outlook.view.requests[*index].shards.first();
                        let waiting = next.and_then(|shard| outlook.view.waiting.get(&shard.platter));
                        (reason(&outlook.view, waiting), outlook.ends_ms.get(&flight.request).copied())
                    }
                    None if flight.is_slow.load(Ordering::Relaxed) => {
                        ("its bytes, which are read from whatever stores have them".to_owned(), None)
                    }
                    // It came after the view.
                    None => ("a shuttle".to_owned(), None),
                },
                _ => {
                    let why = match set_back.get(&restore.id) {
                        None => "its turn",
                        Some(Cause::Machines) => "repairs: machines that are out of order block too many platters of its set",
                        Some(Cause::Stores) => "stores that are absent or fail; it is tried again every minute, and when a store is back",
                        Some(Cause::Error) => "another try, because of an error that the log tells; it is tried again every minute",
                    };
                    (why.to_owned(), None)
                }
            };
            let platters = flight.map(|flight| {
                flight.platters().map(|(number, id)| json!({ "id": id.to_string(), "number": number.0 })).collect::<Vec<_>>()
            });
            json!({
                "bucket": restore.bucket,
                "key": restore.key,
                "version": restore.id.to_string(),
                "account": restore.account,
                "tier": restore.tier,
                "days": restore.days,
                "requested": time_ms(restore.requested_ms),
                "due": time_ms(restore.due_ms),
                "waits_for": waits_for,
                "expected": expected_ms.and_then(time_ms),
                "expected_s": expected_ms.map(|ms| (ms - now_ms()).max(0) as f64 / 1e3),
                "platters": platters,
            })
        };
        let restores: Vec<Value> = open.iter().map(row).collect();
        Ok(json!({
            "now": time_ms(now_ms()),
            "open": count,
            "restores": restores,
            "library": library.zip(outlook.as_ref()).map(|(library, outlook)| library.report(&outlook.view)),
        }))
    }

    /// The library; `None` if the server has none, or it has stopped. Blocks.
    pub(crate) fn library_report(&self) -> Option<Value> {
        let library = self.library.as_ref()?;
        Some(library.report(&library.runner.view()?))
    }
}
