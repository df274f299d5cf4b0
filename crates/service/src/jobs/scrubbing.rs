//! The server's own scrub: verifies platter after platter, those verified longest ago first, at a
//! limited rate. In between it verifies what is staged.
//!
//! Platters that were written together are not read together: the scrub spreads them evenly over
//! the interval, so that no day has all the work. The catalogue records when each copy was
//! verified, so a restarted server continues where it was.
//!
//! If the settings allow it, a platter that is damaged, or missing from a store that is present, is
//! rewritten from its set. Platters of absent or failing stores are left alone: their bytes may be
//! intact.
//!
//! With a robotic library, the scrub reads a platter while a drive verifies it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fulgurite_archive::catalogue::{Health, PlatterRow, SetState, StagedHealth};
use fulgurite_archive::watch::{Trouble, Watcher};
use fulgurite_archive::{ArchiveError, UNKNOWN_STORE};
use fulgurite_domain::{PlatterId, SetId};
use fulgurite_library::RegionOutcome;
use tokio::sync::watch;

use crate::gateway::Gateway;
use crate::health::scrub_progress::believable;
use crate::library::{Turn, TurnState};
use crate::settings::Scrub;
use crate::state::now_ms;

/// Interval between two checks for platters that are due.
const DUE_CHECK_PERIOD: Duration = Duration::from_secs(60);
/// Interval between two looks for platters that are missing from stores. Listing stores of a
/// million platters takes seconds.
const MISSING_CHECK_PERIOD: Duration = Duration::from_secs(900);
/// Interval at which the scrub checks whether a command from the command line has ended.
const COMMAND_CHECK_PERIOD: Duration = Duration::from_secs(1);
const DAY_S: u64 = 86_400;
/// A platter that is damaged or unreadable is checked again after this time.
const RETRY_AFTER_S: u64 = DAY_S;
/// A platter that the library can't reach is tried again after this time.
const UNREACHABLE_RETRY_S: u64 = 3_600;
/// Pauses are split into pieces of this length, so that a stop is noticed.
const PAUSE_SLICE: Duration = Duration::from_millis(100);

/// Limits the read rate. The caller passes the time, so that tests need no clock.
#[derive(Debug)]
struct RateLimiter {
    bytes_per_s: u64,
    /// When the bytes read so far would have been read at the permitted rate.
    due: Duration,
}

impl RateLimiter {
    fn new(bytes_per_s: u64) -> Self {
        Self { bytes_per_s: bytes_per_s.max(1), due: Duration::ZERO }
    }

    /// How long to pause at `now`, after `bytes` more were read. The rate is halved while clients
    /// are active.
    fn pause(&mut self, now: Duration, bytes: u64, is_busy: bool) -> Duration {
        let cost = Duration::from_secs_f64(bytes as f64 / self.bytes_per_s as f64);
        // Idle time isn't made up for by reading faster, except for one second.
        self.due = self.due.max(now.saturating_sub(Duration::from_secs(1))) + if is_busy { cost * 2 } else { cost };
        self.due.saturating_sub(now)
    }
}

/// Interval between two looks for staged versions that are due.
const STAGED_CHECK_PERIOD: Duration = Duration::from_secs(3_600);
/// A staged version is verified again after this time. By default, sets are written as often.
const STAGED_EVERY_S: u64 = DAY_S;

/// Whether a staged version is due: a new one at once.
fn is_staged_due(health: &StagedHealth, now_s: u64) -> bool {
    health.damaged.or(health.verified).is_none_or(|last| now_s.saturating_sub(last) >= STAGED_EVERY_S)
}

/// How many of the platters read longest ago have to be read now, so that each is read once in
/// `every_s` at an even pace. `checked` are the times of their last readings, ascending.
fn behind_pace(checked: &[Option<u64>], now_s: u64, every_s: u64) -> usize {
    let count = checked.len() as u128;
    // At an even pace, this many platters can be read until one is overdue. A reading that has
    // begun counts: otherwise one that was just read would make the scrub seem behind at once.
    let affordable = |checked: Option<u64>| {
        let left_s = checked.map_or(0, |checked| checked.saturating_add(every_s).saturating_sub(now_s));
        (u128::from(left_s) * count).div_ceil(u128::from(every_s.max(1)))
    };
    let behind = (1..).zip(checked).map(|(rank, checked): (usize, _)| rank.saturating_sub(affordable(*checked).min(count) as usize));
    behind.max().unwrap_or(0)
}

/// The platters to read now, those read longest ago first: those whose time has come, and those
/// that are read early, so that the work is spread evenly.
fn due(
    platters: &[PlatterRow],
    now_s: u64,
    every_s: u64,
    retry_at_s: &HashMap<PlatterId, u64>,
    is_usable: impl Fn(&str) -> bool,
) -> Vec<Due> {
    let period = |health: &Health| if health.is_sound() { every_s } else { every_s.min(RETRY_AFTER_S) };
    let can_be_read = |row: &&PlatterRow| {
        row.state == SetState::Complete && retry_at_s.get(&row.place.platter).is_none_or(|at| now_s >= *at) && is_usable(&row.place.store)
    };
    let mut in_order: Vec<&PlatterRow> = platters.iter().filter(can_be_read).collect();
    // By the last look, not by the last success: otherwise platters that stay missing would be
    // looked for again and again before all others.
    in_order.sort_by_key(|row| believable(row.health.checked, now_s));
    let checked: Vec<Option<u64>> = in_order.iter().map(|row| believable(row.health.checked, now_s)).collect();
    let behind = behind_pace(&checked, now_s, every_s);
    let is_due = |rank: usize, health: &Health| {
        rank < behind || believable(health.checked, now_s).is_none_or(|at| now_s.saturating_sub(at) >= period(health))
    };
    let due = in_order.into_iter().enumerate().filter(|(rank, row)| is_due(*rank, &row.health));
    due.map(|(_, row)| row.into()).collect()
}

/// A platter that is to be read now.
#[derive(Debug, Clone)]
struct Due {
    platter: PlatterId,
    store: String,
    set: SetId,
    position: u16,
}

impl From<&PlatterRow> for Due {
    fn from(row: &PlatterRow) -> Self {
        Self { platter: row.place.platter, store: row.place.store.clone(), set: row.set, position: row.position }
    }
}

/// Stops a reading when it begins: that of a missing platter has nothing to read.
struct StopsAtBytes;

impl Watcher for StopsAtBytes {
    fn is_stopped(&self) -> bool {
        true
    }
}

/// Logs findings, and pauses the scrub to limit its rate.
struct ScrubWatcher<'a> {
    gateway: &'a Gateway,
    stop: &'a watch::Receiver<bool>,
    /// The turn in the library in which the platter is read.
    turn: Option<&'a Turn>,
    started: Instant,
    rate_limiter: &'a Mutex<RateLimiter>,
    /// When the last bytes had been read, and the pause after them was over.
    last_read: Mutex<Instant>,
}

impl Watcher for ScrubWatcher<'_> {
    fn done(&self, _objects: u64, bytes: u64) {
        let scrub_progress = &self.gateway.jobs.scrub_progress;
        scrub_progress.bytes.fetch_add(bytes, Ordering::Relaxed);
        let is_busy = scrub_progress.is_busy();
        let pause = self.rate_limiter.lock().unwrap_or_else(PoisonError::into_inner).pause(self.started.elapsed(), bytes, is_busy);
        let until = Instant::now() + pause;
        while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            if self.is_stopped() {
                break;
            }
            std::thread::sleep(left.min(PAUSE_SLICE));
        }
        if let Some(turn) = self.turn {
            while !self.is_stopped() && turn.wait(PAUSE_SLICE) == TurnState::Waiting {}
        }
        let mut last_read = self.last_read.lock().unwrap_or_else(PoisonError::into_inner);
        scrub_progress.measure(bytes, last_read.elapsed());
        *last_read = Instant::now();
    }

    fn trouble(&self, trouble: Trouble<'_>) {
        match trouble {
            Trouble::Lost { name, version, why } => {
                tracing::error!(name = name.display(), version, why, "the scrub found a version that is lost");
            }
            trouble => tracing::warn!(?trouble, "scrubbing"),
        }
    }

    // Not the lock that the scrub itself takes, which commands that read platters wait for.
    fn is_stopped(&self) -> bool {
        *self.stop.borrow() || self.gateway.jobs.command_lock.is_locked() || self.turn.is_some_and(Turn::has_ended)
    }
}

/// A turn in the library, which is given back in any case.
struct HeldTurn {
    gateway: Arc<Gateway>,
    turn: Arc<Turn>,
    requested: Instant,
    was_read: bool,
}

impl Drop for HeldTurn {
    fn drop(&mut self) {
        if let Some(library) = &self.gateway.library {
            library.finish_turn(&self.turn, self.was_read);
        }
    }
}

/// What the scrub reads next.
enum Next {
    Platter(PlatterId, Option<HeldTurn>),
    /// The library has yet to bring it to a drive, or can't.
    Awaited,
    /// No platter is due.
    None,
}

/// Result of a step of the scrub.
enum Step {
    Done,
    /// No platter is due.
    Idle,
    /// A command from the command line is running.
    Waiting,
}

/// The server's own scrub, from start to stop.
struct Scrubber {
    gateway: Arc<Gateway>,
    settings: Scrub,
    stop: watch::Receiver<bool>,
    started: Instant,
    rate_limiter: Mutex<RateLimiter>,
    queue: VecDeque<Due>,
    /// Platters that are missing; they come before the queue.
    missing: VecDeque<Due>,
    /// The platter for which the library has been asked.
    awaited: Option<(Due, HeldTurn)>,
    /// Platters that couldn't be read, with the time of the next attempt.
    retry_at_s: HashMap<PlatterId, u64>,
    /// Those of them that were out of the library's reach.
    unreachable: HashSet<PlatterId>,
    /// When to look for staged versions that are due, since the start.
    staged_check_at: Duration,
    /// When to look for missing platters, since the start.
    missing_check_at: Duration,
}

/// Scrubs until `stop` is set.
pub(crate) async fn scrub(gateway: Arc<Gateway>, settings: Scrub, mut stop: watch::Receiver<bool>) {
    if settings.every_days == 0 {
        return;
    }
    let watched = gateway.clone();
    gateway.jobs.scrub_progress.start(&settings);
    let mut scrubber = Scrubber::new(gateway, settings, stop.clone());
    while !*stop.borrow() {
        let stepped = tokio::task::spawn_blocking(move || {
            let step = scrubber.step();
            (scrubber, step)
        });
        let step = match stepped.await {
            Ok((same, step)) => {
                scrubber = same;
                step
            }
            Err(error) => {
                tracing::error!("the scrub ended; restart the server to continue it");
                watched.log_panic("scrubbing", error);
                return;
            }
        };
        let pause = match step {
            Step::Done => continue,
            Step::Idle => DUE_CHECK_PERIOD,
            Step::Waiting => COMMAND_CHECK_PERIOD,
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = repaired(&watched), if !scrubber.unreachable.is_empty() => scrubber.retry_unreachable(),
            _ = stop.changed() => {}
        }
    }
}

/// Returns after the next repair in the library; without a library, never.
async fn repaired(gateway: &Gateway) {
    match &gateway.library {
        Some(library) => library.repaired().await,
        None => std::future::pending().await,
    }
}

impl Scrubber {
    fn new(gateway: Arc<Gateway>, settings: Scrub, stop: watch::Receiver<bool>) -> Self {
        Self {
            gateway,
            stop,
            started: Instant::now(),
            rate_limiter: Mutex::new(RateLimiter::new(settings.mib_per_s.saturating_mul(1 << 20))),
            settings,
            queue: VecDeque::new(),
            missing: VecDeque::new(),
            awaited: None,
            retry_at_s: HashMap::new(),
            unreachable: HashSet::new(),
            staged_check_at: Duration::ZERO,
            missing_check_at: Duration::ZERO,
        }
    }

    /// Scrubs what is staged if it is time for that, or else the next platter.
    fn step(&mut self) -> Step {
        if self.gateway.jobs.command_lock.is_locked() {
            // The command may verify platters of the queue, which then need no second check.
            self.queue.clear();
            self.awaited = None;
            return Step::Waiting;
        }
        let is_staged_check = self.started.elapsed() >= self.staged_check_at;
        let gateway = self.gateway.clone();
        let _scrub_guard = gateway.jobs.command_lock.lock_scrub();
        let is_suspected = gateway.jobs.platters_suspected.load(Ordering::Relaxed);
        let sooner = if is_suspected { MISSING_CHECK_PERIOD - DUE_CHECK_PERIOD } else { Duration::ZERO };
        if self.started.elapsed() + sooner >= self.missing_check_at {
            gateway.jobs.platters_suspected.store(false, Ordering::Relaxed);
            if let Err(error) = self.look_for_missing() {
                tracing::error!(%error, "can't look for missing platters");
            }
            self.missing_check_at = self.started.elapsed() + MISSING_CHECK_PERIOD;
        }
        let next = if is_staged_check {
            // No drive waits for that.
            if let Some((due, _)) = self.awaited.take() {
                self.queue.push_front(due);
            }
            None
        } else {
            match self.next_platter() {
                Next::Platter(platter, turn) => Some((platter, turn)),
                Next::Awaited => return Step::Done,
                Next::None => return Step::Idle,
            }
        };
        let turn = next.as_ref().and_then(|(_, held)| Some(held.as_ref()?.turn.clone()));
        let watcher = ScrubWatcher {
            gateway: &gateway,
            stop: &self.stop,
            turn: turn.as_deref(),
            started: self.started,
            rate_limiter: &self.rate_limiter,
            // Waiting for a drive takes its time too.
            last_read: Mutex::new(next.as_ref().and_then(|(_, held)| Some(held.as_ref()?.requested)).unwrap_or_else(Instant::now)),
        };
        let Some((platter, held)) = next else {
            self.staged_check_at = match verify_staged(&gateway, &watcher) {
                // What was read until then is recorded, so the next attempt continues after it.
                Err(ArchiveError::Stopped) => self.staged_check_at,
                Err(error) => {
                    tracing::error!(%error, "can't verify what is staged");
                    self.started.elapsed() + STAGED_CHECK_PERIOD
                }
                Ok(()) => self.started.elapsed() + STAGED_CHECK_PERIOD,
            };
            return Step::Done;
        };
        match self.verify_and_repair(platter, held, &watcher) {
            Ok(false) => {
                self.retry_at_s.insert(platter, now_s() + RETRY_AFTER_S);
            }
            Ok(true) => {
                gateway.jobs.scrub_progress.platters.fetch_add(1, Ordering::Relaxed);
            }
            Err(ArchiveError::Stopped) if turn.as_ref().is_some_and(|turn| turn.has_ended()) => self.note_unreachable(platter),
            // If reading the platter was interrupted, it is still the one verified longest ago, and
            // comes next. The check of a set is made up for when the platter is verified again.
            Err(ArchiveError::Stopped) => {
                self.queue.clear();
                if self.retry_at_s.remove(&platter).is_some() {
                    // It was missing.
                    self.missing_check_at = Duration::ZERO;
                }
            }
            Err(error) => {
                tracing::error!(%platter, %error, "can't verify a platter");
                self.retry_at_s.insert(platter, now_s() + RETRY_AFTER_S);
            }
        }
        Step::Done
    }

    /// The platter to read next. In a library, a drive has to be told to verify it first.
    fn next_platter(&mut self) -> Next {
        let (due, held) = match self.awaited.take() {
            Some(awaited) => awaited,
            None => {
                if let Some(Due { platter, .. }) = self.missing.pop_front() {
                    // If it can't be repaired, it is tried again tomorrow. No drive has it.
                    self.retry_at_s.insert(platter, now_s() + RETRY_AFTER_S);
                    return Next::Platter(platter, None);
                }
                if self.queue.is_empty() {
                    self.queue = self.find_due_platters();
                }
                let Some(due) = self.queue.pop_front() else { return Next::None };
                let library = self.gateway.library.as_ref().filter(|_| self.gateway.is_usable(&due.store));
                match library.and_then(|library| library.request_turn(due.set, due.position)) {
                    Some(turn) => (due, HeldTurn { gateway: self.gateway.clone(), turn, requested: Instant::now(), was_read: false }),
                    None => return Next::Platter(due.platter, None),
                }
            }
        };
        let platter = due.platter;
        match held.turn.wait(PAUSE_SLICE) {
            TurnState::Waiting => {
                self.awaited = Some((due, held));
                Next::Awaited
            }
            // The library doesn't verify platters.
            TurnState::Ended(RegionOutcome::Refused) => Next::Platter(platter, None),
            TurnState::Ended(_) => {
                self.note_unreachable(platter);
                Next::Awaited
            }
            // The platter may have been asked for long ago.
            TurnState::Reading(_) | TurnState::Finished if !self.gateway.is_usable(&due.store) => Next::Platter(platter, None),
            TurnState::Reading(_) | TurnState::Finished => Next::Platter(platter, Some(held)),
        }
    }

    fn note_unreachable(&mut self, platter: PlatterId) {
        tracing::warn!(%platter, "the library can't reach a platter that is to be verified; it is tried again in an hour, or after a repair");
        self.retry_at_s.insert(platter, now_s() + UNREACHABLE_RETRY_S);
        self.unreachable.insert(platter);
    }

    fn retry_unreachable(&mut self) {
        for platter in self.unreachable.drain() {
            self.retry_at_s.remove(&platter);
        }
    }

    /// Records platters that are missing from stores that are present, and lets them be repaired
    /// before others are read.
    fn look_for_missing(&mut self) -> Result<(), ArchiveError> {
        let archive = &self.gateway.archive;
        let missing = archive.missing_platters()?.into_iter().filter(|row| self.gateway.is_usable(&row.place.store));
        let (now, retry_at_s) = (now_s(), &self.retry_at_s);
        let missing: Vec<PlatterRow> = missing.filter(|row| retry_at_s.get(&row.place.platter).is_none_or(|at| now >= *at)).collect();
        self.missing = missing.iter().map(Due::from).collect();
        for row in missing.iter().filter(|row| row.health.is_sound()) {
            if *self.stop.borrow() || self.gateway.jobs.command_lock.is_locked() {
                // The others are recorded when they are repaired.
                break;
            }
            match archive.verify_platter(row.place.platter, &StopsAtBytes) {
                Ok(_) => {}
                // It is there after all.
                Err(ArchiveError::Stopped) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn find_due_platters(&self) -> VecDeque<Due> {
        let rows = match self.gateway.archive.reading().platters() {
            Ok(rows) => rows,
            Err(error) => {
                tracing::error!(%error, "can't read the platters to verify from the catalogue");
                return VecDeque::new();
            }
        };
        let is_usable = |name: &str| self.gateway.is_usable(name);
        due(&rows, now_s(), self.settings.every_days.saturating_mul(DAY_S), &self.retry_at_s, is_usable).into()
    }

    /// Verifies a platter, in its turn. If it is damaged or missing, rewrites it if the settings
    /// allow that. Returns `false` if it can't be read now.
    fn verify_and_repair(&self, platter: PlatterId, held: Option<HeldTurn>, watcher: &dyn Watcher) -> Result<bool, ArchiveError> {
        let archive = &self.gateway.archive;
        let finding = archive.verify_platter(platter, watcher)?;
        // The drive doesn't wait for a repair.
        held.into_iter().for_each(|mut held| held.was_read = true);
        if finding.is_sound() {
            return Ok(true);
        }
        // An absent or unreadable platter may come back intact. It is checked again tomorrow.
        if let Some(hindrance) = finding.hindrance() {
            tracing::warn!(%platter, store = finding.store, %hindrance, "can't verify a platter now");
            return Ok(false);
        }
        // A disk that is removed during a read makes its platters look damaged.
        if !self.gateway.is_usable(&finding.store) {
            tracing::warn!(%platter, store = finding.store, "a store disappeared while a platter was verified");
            return Ok(false);
        }
        self.gateway.jobs.scrub_progress.unsound.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(
            %platter,
            store = finding.store,
            state = finding.state().word(),
            elsewhere = finding.elsewhere,
            lost_sectors = finding.lost_sectors,
            lost_tracks = finding.lost_tracks,
            bad_headers = finding.bad_headers,
            "the scrub found a damaged or missing platter"
        );
        if self.settings.repair {
            match archive.recover(platter, None, watcher) {
                Ok(store) => {
                    self.gateway.jobs.scrub_progress.repaired.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!(%platter, store, "the platter was rewritten");
                    return Ok(true);
                }
                Err(ArchiveError::Stopped) => return Err(ArchiveError::Stopped),
                Err(error) => tracing::error!(%platter, %error, "can't rewrite the platter"),
            }
        }
        // It was not repaired: find out which versions are lost. The watcher logs them.
        archive.verify_set_of(platter, watcher)?;
        Ok(true)
    }
}

/// Verifies the staged versions that are due.
fn verify_staged(gateway: &Gateway, watcher: &dyn Watcher) -> Result<(), ArchiveError> {
    let now_s = now_s();
    let report = gateway.archive.verify_staged(&|health| is_staged_due(health, now_s), watcher)?;
    gateway.jobs.scrub_progress.staged_versions.fetch_add(report.versions, Ordering::Relaxed);
    Ok(())
}

impl Gateway {
    /// Whether the store is present, so that a platter which isn't found on it is really missing. A
    /// platter of the unknown store, which a rebuild of the catalogue found nowhere, could be on
    /// any store, so all must be present.
    fn is_usable(&self, name: &str) -> bool {
        match name {
            UNKNOWN_STORE => self.archive.stores().iter().all(|store| store.check().is_ok()),
            name => self.archive.store(name).is_some_and(|store| store.check().is_ok()),
        }
    }
}

fn now_s() -> u64 {
    now_ms().div_euclid(1_000) as u64
}

#[cfg(test)]
mod tests {
    use fulgurite_archive::Source;
    use fulgurite_archive::catalogue::PlatterPlace;
    use fulgurite_archive::settings::StoreSettings;
    use fulgurite_archive::watch::Unwatched;
    use fulgurite_domain::{ObjectName, SetId};

    use super::*;
    use crate::settings::Settings;
    use crate::state::State;
    use crate::test_gateway::{new_archive_with, new_gateway};

    const MIB: u64 = 1 << 20;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_platter_that_its_store_refuses_is_rewritten_on_another_one() {
        let home = tempfile::tempdir().expect("a folder");
        let store = |name: &str| StoreSettings { name: name.into(), path: home.path().join(name) };
        let archive = new_archive_with(home.path(), |settings| {
            settings.set.redundancy = 1;
            settings.stores = ["d1", "d2", "d3"].map(store).into();
        });
        let source = Source::Stream { reader: Box::new(&b"moon"[..]), name: ObjectName(b"moon".to_vec()) };
        archive.put(std::iter::once(source), &Unwatched).expect("put");
        archive.flush(&Unwatched).expect("flushed");
        let gateway = new_gateway(Arc::new(State::open(archive.clone()).expect("a state")), &Settings::default());
        let (_stop, stopped) = watch::channel(false);
        let scrubber = Scrubber::new(Arc::new(gateway), Scrub::default(), stopped);
        let places =
            || -> Vec<PlatterPlace> { archive.catalogue().platters().expect("platters").into_iter().map(|row| row.place).collect() };
        let lost = places().swap_remove(0);
        let file = home.path().join(&lost.store).join(format!("platters/{}.platter", lost.platter));
        std::fs::remove_file(&file).expect("removed");
        // In the way of the file that becomes the platter.
        std::fs::create_dir(file.with_extension("part")).expect("a folder");
        assert!(scrubber.verify_and_repair(lost.platter, None, &Unwatched).expect("verified"));
        let mut stores: Vec<String> = places().into_iter().map(|place| place.store).collect();
        stores.sort();
        assert_eq!(stores, ["d1", "d2", "d3"].into_iter().filter(|store| *store != lost.store).collect::<Vec<_>>());
        assert!(archive.scrub(None, &Unwatched).expect("scrubbed").unsound.is_empty());
    }

    /// Total read time, by a clock that only pauses advance.
    fn reading(mib: u64, is_busy: bool) -> Duration {
        let (mut rate_limiter, mut now) = (RateLimiter::new(20 * MIB), Duration::from_secs(1_000));
        let started = now;
        for _ in 0..mib {
            now += rate_limiter.pause(now, MIB, is_busy);
        }
        now - started
    }

    #[test]
    fn the_rate_is_limited_and_halved_while_clients_are_active() {
        // The first second may be unpaced.
        assert!((9.0..=10.1).contains(&reading(200, false).as_secs_f64()), "{:?}", reading(200, false));
        assert!((19.0..=20.1).contains(&reading(200, true).as_secs_f64()), "{:?}", reading(200, true));
    }

    #[test]
    fn a_disk_below_the_rate_is_neither_paused_nor_caught_up() {
        let mut rate_limiter = RateLimiter::new(20 * MIB);
        let mut now = Duration::ZERO;
        for _ in 0..100 {
            now += Duration::from_millis(100);
            assert_eq!(rate_limiter.pause(now, MIB, false), Duration::ZERO);
        }
        // Of the unused time, one second counts.
        let burst = (0..40).take_while(|_| rate_limiter.pause(now, MIB, false).is_zero()).count();
        assert!((19..=21).contains(&burst), "{burst}");
    }

    fn row(number: u8, store: &str, verified: Option<u64>, lost_sectors: u64) -> PlatterRow {
        PlatterRow {
            place: PlatterPlace { platter: PlatterId([number; 16]), store: store.to_owned() },
            set: SetId([9; 16]),
            position: 0,
            state: SetState::Complete,
            health: Health { checked: verified, lost_sectors, ..Health::default() },
        }
    }

    #[test]
    fn a_damaged_header_is_looked_at_again_the_next_day() {
        let now = 100 * DAY_S;
        let mut damaged = row(1, "d1", Some(now - 2 * DAY_S), 0);
        damaged.health.bad_headers = 1;
        let due = due(&[damaged], now, 30 * DAY_S, &HashMap::new(), |_| true);
        assert_eq!(due.len(), 1);
        assert_eq!(due[0].platter, PlatterId([1; 16]));
    }

    #[test]
    fn new_and_old_staged_versions_are_due() {
        let now = 100 * DAY_S;
        let is_due = |verified, damaged| is_staged_due(&StagedHealth { verified, damaged }, now);
        assert!(is_due(None, None) && is_due(Some(now - DAY_S), None));
        assert!(!is_due(Some(now - DAY_S + 1), None) && !is_due(Some(now + 5), None));
        assert!(!is_due(Some(1), Some(now - 1)) && is_due(Some(1), Some(now - DAY_S)));
    }

    /// Runs the scrub for some days, by a clock that goes on by the interval of the due checks.
    /// Returns how many platters were read on each day, and the largest age of a platter.
    fn simulate(mut rows: Vec<PlatterRow>, days: u64, mut each_day: impl FnMut(u64, &mut Vec<PlatterRow>)) -> (Vec<usize>, u64) {
        let (start, mut age_max) = (1_000 * DAY_S, 0);
        let mut read = vec![0; days as usize];
        for now in (start..start + days * DAY_S).step_by(600) {
            let day = (now - start) / DAY_S;
            if (now - start).is_multiple_of(DAY_S) {
                each_day(day, &mut rows);
            }
            for Due { platter, .. } in due(&rows, now, 30 * DAY_S, &HashMap::new(), |store| store != "away") {
                let row = rows.iter_mut().find(|row| row.place.platter == platter).expect("a row");
                age_max = age_max.max(now - row.health.checked.unwrap_or(now));
                row.health = Health::intact_at(now);
                read[day as usize] += 1;
            }
        }
        (read, age_max)
    }

    #[test]
    fn platters_written_together_are_read_evenly_over_the_interval() {
        let rows: Vec<_> = (0..60).map(|number| row(number, "d1", Some(1_000 * DAY_S), 0)).collect();
        let (read, age_max) = simulate(rows, 90, |_, _| {});
        assert!(read.iter().all(|count| (1..=3).contains(count)), "{read:?}");
        assert!((175..=185).contains(&read.iter().sum::<usize>()), "each is read once in 30 days: {read:?}");
        assert!(age_max <= 30 * DAY_S, "{age_max}");
    }

    #[test]
    fn platters_that_come_back_or_are_added_are_spread_too() {
        let mut rows: Vec<_> = (0..30).map(|number| row(number, "d1", Some(1_000 * DAY_S), 0)).collect();
        rows.extend((30..60).map(|number| row(number, "away", Some(900 * DAY_S), 0)));
        let (read, _) = simulate(rows, 60, |day, rows| match day {
            10 => rows.iter_mut().for_each(|row| row.place.store = "d1".to_owned()),
            20 => rows.extend((60..90).map(|number| row(number, "d1", Some(1_020 * DAY_S), 0))),
            _ => {}
        });
        assert!(read[..10].iter().all(|count| *count <= 2), "{read:?}");
        assert!(read[10] >= 30, "those that come back are overdue: {read:?}");
        assert!(read[11..].iter().all(|count| *count <= 7), "{read:?}");
    }

    #[test]
    fn nothing_is_early_if_the_dates_are_spread_evenly() {
        let (now, every) = (1_000_000, 1_000);
        let checked: Vec<_> = (1..=10).map(|rank| Some(now - every + rank * 100)).collect();
        assert_eq!(behind_pace(&checked, now, every), 0);
        assert_eq!(behind_pace(&checked, now + 100, every), 1);
        assert_eq!(behind_pace(&checked, now + every, every), 10);
        assert_eq!(behind_pace(&[None, None, Some(now)], now, every), 2);
        assert_eq!(behind_pace(&[], now, every), 0);
        assert_eq!(behind_pace(&[Some(u64::MAX)], 0, u64::MAX), 0, "a clock that was set back does no harm");
    }

    #[test]
    fn the_longest_unverified_platter_comes_first() {
        let now = 100 * DAY_S;
        let rows = [
            row(1, "d1", Some(now - 40 * DAY_S), 0),
            row(2, "d2", Some(now - 10 * DAY_S), 0),
            row(3, "d1", None, 0),
            row(4, "d2", Some(now - 50 * DAY_S), 0),
            row(5, "away", None, 0),
            row(6, "d1", Some(now - 2 * DAY_S), 7),
            PlatterRow { state: SetState::Writing, ..row(7, "d1", None, 0) },
            row(8, "d1", None, 0),
        ];
        let retry_at_s = HashMap::from([(PlatterId([8; 16]), now + 1)]);
        let due = due(&rows, now, 30 * DAY_S, &retry_at_s, |store| store != "away");
        let numbers: Vec<u8> = due.iter().map(|due| due.platter.0[0]).collect();
        assert_eq!(numbers, [3, 4, 1, 6]);
    }
}
