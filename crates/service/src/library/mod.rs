//! The robotic library of a server: restores wait until its shuttles have carried platters to its
//! drives.
//!
//! ```text
//!   restore --> flights::submit --> Runner (thread, clock) --> Read: a drive reads ---.
//!                                      ^      |                                      v
//!                                      |      '-----> Ended -----------> workers: read and check the
//!                                      '------ bytes_read ------------   shard, complete the restore
//!   write_sets --> take_in                    '-----> stock ----> service.db
//! ```
//!
//! The library's thread never waits for a disk: workers read platters and write `service.db`.
//! `waiting` holds the restores that have no room in the library yet, `places` says which slots the
//! platters of a set have, `motions` lets pages watch, and `turns` lets the scrub read what drives
//! verify.

mod flights;
mod motions;
mod places;
mod report;
mod turns;
mod waiting;
mod workers;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fulgurite_archive::Archive;
use fulgurite_archive::catalogue::CatalogueError;
use fulgurite_domain::{SetId, SetShape};
use fulgurite_journal::Stock;
use fulgurite_library::placement::PlacementError;
use fulgurite_library::{Actor, Slot};
use fulgurite_library_settings::LibrarySettings;
use fulgurite_live::{Events, JournalSettings, Plan, Runner, RunnerSettings};
use tokio::sync::Notify;

use self::flights::{Flights, due_in};
use self::motions::{REPORT_EVERY, Readers, Reporter};
use self::places::{Places, largest_platter};
use self::report::Estimates;
use self::turns::Turns;
use self::waiting::Cause;
use self::workers::{Job, ToWorkers};
use crate::settings;
use crate::state::{KeptLibrary, Restore, State, StateError, random};
use crate::traces::Traces;

pub(crate) use self::motions::NoMotions;
pub(crate) use self::report::LibraryMetrics;
pub use self::report::Machine;
pub(crate) use self::turns::{Turn, TurnState};
pub(crate) use self::workers::run_workers;

/// How often the library's state is kept, while anything moves.
const KEEP_EVERY: Duration = Duration::from_secs(1);
/// Much faster, and the clock would run over within years.
const TIME_SCALE_MAX: u32 = 100_000;
/// The folder of the journals, in the archive's folder.
const JOURNALS: &str = "library";
/// Number of journals that are kept, including the new one.
const JOURNALS_MAX: usize = 10;

/// Why the library can't start.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// Its settings can't be used.
    #[error("[library] layout = {layout:?} in service.toml: {why}")]
    Settings {
        /// The setting.
        layout: String,
        /// What is wrong.
        why: String,
    },
    /// The archive's sets don't fit.
    #[error("[library] layout = {layout:?} in service.toml has no slots for sets of {shape}: {source}")]
    Placement {
        /// The setting.
        layout: String,
        /// The shape of the archive's sets.
        shape: String,
        /// The reason.
        source: PlacementError,
    },
    /// It would run too fast.
    #[error("[library] time_scale = {found} in service.toml: expected 1 to {TIME_SCALE_MAX}")]
    TimeScale {
        /// The setting.
        found: u32,
    },
    /// The state can't be read or written.
    #[error(transparent)]
    State(#[from] StateError),
    /// The catalogue can't be read.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// The journal can't be created, or no thread can be started.
    #[error("can't start the library: {0}")]
    Start(#[from] io::Error),
}

/// The library of a server.
pub(crate) struct Library {
    plan: Arc<Plan>,
    time_scale: u32,
    runner: Runner,
    places: RwLock<Places>,
    flights: Arc<Flights>,
    turns: Arc<Turns>,
    /// Told of repairs.
    repaired: Notify,
    estimates: Estimates,
    /// Those who watch the library.
    readers: Readers,
    /// What workers do next; the other end is in the library's thread.
    jobs: Mutex<Receiver<Job>>,
    own_jobs: Sender<Job>,
    /// The state to keep; only the latest counts.
    to_keep: Arc<Mutex<Option<Stock>>>,
    /// Held while a state is written.
    keeping: Mutex<()>,
    journal: Option<PathBuf>,
    journal_ended: AtomicBool,
    /// Set when the server stops: restores that have not begun are left for the next start.
    is_stopping: AtomicBool,
    /// Restores that ended, by how: read by drives, recovered, read without the library, failed.
    ended: [AtomicU64; 4],
}

/// How a restore ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RestoreEnd {
    Read,
    Recovered,
    WithoutLibrary,
    Failed,
}

impl RestoreEnd {
    const ALL: [Self; 4] = [Self::Read, Self::Recovered, Self::WithoutLibrary, Self::Failed];

    /// Its name in metrics and traces.
    fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Recovered => "recovered",
            Self::WithoutLibrary => "without_library",
            Self::Failed => "failed",
        }
    }
}

impl Library {
    /// Takes up the work of the library that the settings describe, or sets it up. `None` if they
    /// want none.
    pub(crate) fn open(
        archive: &Archive,
        state: &State,
        settings: &settings::Library,
        traces: Option<Arc<Traces>>,
    ) -> Result<Option<Self>, LibraryError> {
        let wrong = |why: String| LibraryError::Settings { layout: settings.layout.clone(), why };
        let of_library = match settings.layout.as_str() {
            "none" => return Ok(None),
            _ if settings.time_scale.get() > TIME_SCALE_MAX => {
                return Err(LibraryError::TimeScale { found: settings.time_scale.get() });
            }
            "early" => LibrarySettings::default(),
            path => LibrarySettings::read(&archive.home().join(path)).map_err(|errors| wrong(errors.to_string()))?,
        };
        let sets = archive.reading().sets()?;
        let shape = archive.settings().shape();
        let (tracks, track_bytes) = largest_platter(archive, &sets);
        let building = Plan::building(&of_library, shape);
        let kept = state.library()?.map(|kept| taken_up(&of_library, shape, (tracks, track_bytes), &building, kept));
        let (plan, places, stock) = match kept {
            Some(Ok((plan, stock, numbered))) => {
                let plan = Arc::new(plan);
                (plan.clone(), Places::new(&plan, numbered, &sets), stock)
            }
            other => {
                let plan = Plan::new(of_library, shape, tracks, track_bytes);
                let of_placement = |source| LibraryError::Placement { layout: settings.layout.clone(), shape: shape.to_string(), source };
                let plan = Arc::new(plan.map_err(of_placement)?);
                let places = Places::all_of(&plan, &sets);
                let stock = places.stock();
                let slots = plan.homes().iter().map(|slot| slot.0).collect();
                state.set_up_library(&KeptLibrary { building, slots, stock: stock.to_string(), sets: places.sets().to_vec() })?;
                // Not before it is recorded: a start that fails above has set up nothing.
                if let Some(Err(why)) = other {
                    tracing::warn!(why, "the library is set up anew, with every platter in its slot");
                }
                tracing::info!(sets = places.sets().len(), room = plan.sets(), "set up the library: every platter is in its slot");
                (plan, places, stock)
            }
        };
        let (own_jobs, jobs) = channel();
        let to_keep = Arc::new(Mutex::new(None));
        let readers = Readers::default();
        let turns = Arc::new(Turns::default());
        let reporter = Reporter::new(readers.clone());
        let flights = Arc::new(Flights::default());
        let events = ToWorkers {
            jobs: own_jobs.clone(),
            to_keep: to_keep.clone(),
            turns: turns.clone(),
            flights: flights.clone(),
            reporter,
            traces,
        };
        let journal = if settings.journal { new_journal(archive.home()) } else { None };
        let runner = start(&plan, stock, settings, journal.clone(), events)?;
        if let Some(journal) = &journal {
            remove_old_journals(journal);
        }
        let platters = places.all_platters();
        runner.take_in(platters);
        Ok(Some(Self {
            plan,
            time_scale: settings.time_scale.get(),
            runner,
            places: RwLock::new(places),
            flights,
            turns,
            repaired: Notify::new(),
            estimates: Estimates::default(),
            readers,
            jobs: Mutex::new(jobs),
            own_jobs,
            to_keep,
            keeping: Mutex::default(),
            journal,
            journal_ended: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
            ended: Default::default(),
        }))
    }

    /// Waits for the next repair, or returns at once if there was one since.
    pub(crate) async fn repaired(&self) {
        self.repaired.notified().await;
    }

    /// A store is back: tries restores again that wait.
    pub(crate) fn store_is_back(&self) {
        self.flights.retry_for(&[Cause::Stores, Cause::Error]);
    }

    /// Tries again to record a state that couldn't be recorded.
    fn retry_keeping(&self) {
        if lock(&self.to_keep).is_some() {
            let _ = self.own_jobs.send(Job::Keep);
        }
    }

    /// Brings a restore into the library. One that is there is hastened, if it is due sooner now.
    pub(crate) fn enqueue(&self, restore: &Restore) {
        if let Some(request) = self.flights.enqueue(restore) {
            self.runner.hasten(request, due_in(restore));
        }
    }

    /// Requests of an account's restores that the library has, including those of objects that were
    /// removed since.
    pub(crate) fn requests_of(&self, account: &str) -> u64 {
        self.flights.count_of(account)
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    fn count(&self, end: RestoreEnd) {
        self.ended[end as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn counted(&self, end: RestoreEnd) -> u64 {
        self.ended[end as usize].load(Ordering::Relaxed)
    }
}

fn start(
    plan: &Arc<Plan>,
    stock: Stock,
    settings: &settings::Library,
    journal: Option<PathBuf>,
    events: impl Events,
) -> io::Result<Runner> {
    let seed = u64::from_le_bytes(random());
    let journal = journal.map(|path| JournalSettings { path, bytes_max: u64::from(settings.journal_mib.get()) << 20 });
    let settings =
        RunnerSettings { time_scale: settings.time_scale.get().into(), keep_every: KEEP_EVERY, report_every: REPORT_EVERY, journal, seed };
    Runner::start(plan.clone(), stock, &settings, events)
}

/// The plan, state and sets of the library that was kept; or why there has to be a new one, such as
/// settings that describe another.
fn taken_up(
    settings: &LibrarySettings,
    shape: SetShape,
    (tracks, track_bytes): (u32, u64),
    building: &str,
    kept: KeptLibrary,
) -> Result<(Plan, Stock, Vec<SetId>), String> {
    if kept.building != building {
        return Err("the layout of the library or the shape of its sets has changed".to_owned());
    }
    let homes = kept.slots.iter().copied().map(Slot).collect();
    let plan = Plan::with_homes(settings.clone(), shape, tracks, track_bytes, homes).map_err(|error| error.to_string())?;
    let stock = Stock::parse(kept.stock.lines()).map_err(|error| error.to_string())?;
    plan.check(&stock).map_err(|error| error.to_string())?;
    if kept.sets.len() > plan.sets() as usize {
        return Err("it has more sets than slots".to_owned());
    }
    if stock.written as usize > kept.sets.len() * usize::from(shape.platters()) {
        return Err("it has more platters than the sets that were recorded".to_owned());
    }
    Ok((plan, stock, kept.sets))
}

/// The path of a new journal. `None` if there is no folder for it: the library goes on without one.
fn new_journal(home: &Path) -> Option<PathBuf> {
    let folder = home.join(JOURNALS);
    if let Err(error) = fs::create_dir_all(&folder) {
        tracing::error!(%error, path = %folder.display(), "can't create the folder of the library's journals; the library goes on without one");
        return None;
    }
    // The clock may have been set back, and the newest journal has the greatest number.
    let last = journals(&folder).last().map_or(0, |(number, _)| *number);
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    Some(folder.join(format!("{:013}.journal", now_ms.max(last + 1))))
}

/// The journals of a folder, in order of their numbers.
fn journals(folder: &Path) -> Vec<(u64, PathBuf)> {
    let number = |path: &PathBuf| {
        let name = path.file_name()?.to_str()?.strip_suffix(".journal")?;
        (name.len() == 13).then(|| name.parse().ok()).flatten()
    };
    let paths = fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let mut journals: Vec<(u64, PathBuf)> = paths.filter_map(|path| Some((number(&path)?, path))).collect();
    journals.sort_unstable();
    journals
}

/// Removes the oldest journals beside the newest, and empty ones, which a start leaves that is
/// killed.
fn remove_old_journals(newest: &Path) {
    let Some(folder) = newest.parent() else { return };
    let is_empty = |path: &PathBuf| fs::metadata(path).is_ok_and(|metadata| metadata.len() == 0);
    let others = journals(folder).into_iter().map(|(_, path)| path).filter(|path| path != newest);
    let (mut removed, mut old): (Vec<PathBuf>, Vec<PathBuf>) = others.partition(is_empty);
    // If the new one could not be created, all may stay.
    let kept = JOURNALS_MAX - usize::from(newest.exists());
    removed.extend(old.drain(..old.len().saturating_sub(kept)));
    for path in removed {
        if let Err(error) = fs::remove_file(&path) {
            tracing::warn!(%error, path = %path.display(), "can't remove an old journal");
        }
    }
}

/// A poisoned lock of this module is usable: each change under it is complete at once.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl From<Machine> for Actor {
    fn from(machine: Machine) -> Self {
        match machine {
            Machine::Shuttle(shuttle) => Self::Shuttle(fulgurite_library::Shuttle(shuttle)),
            Machine::Drive(drive) => Self::Drive(fulgurite_library::Drive(drive)),
        }
    }
}
