use std::sync::atomic::AtomicBool;
use std::sync::mpsc;

use super::*;

/// A clock that the test sets, in hours.
#[derive(Default)]
struct TestClock(AtomicU64);

impl TestClock {
    fn at_hour(hour: u64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(hour * Micros::HOUR.0)))
    }
}

impl Clock for TestClock {
    fn now(&self) -> Micros {
        Micros(self.0.load(Ordering::SeqCst))
    }
}

/// A task that does what its text says.
enum Fake {
    Sector(u32),
    Panic,
    /// Blocks its thread until the sender is dropped.
    Block(Mutex<mpsc::Receiver<()>>),
}

/// What tasks ran, in order.
#[derive(Default)]
struct Log(Vec<u32>);

struct Logged(Fake, Arc<Mutex<Log>>);

impl Task for Logged {
    type Output = u32;
    type Tools = ();

    fn sectors(&self) -> usize {
        1
    }

    fn decode(&self, _tools: &mut ()) -> Vec<Option<u32>> {
        match &self.0 {
            Fake::Sector(number) => {
                self.1.lock().expect("no panic").0.push(*number);
                vec![Some(*number)]
            }
            Fake::Panic => panic!("for a test"),
            Fake::Block(until) => {
                let _ = until.lock().expect("no panic").recv();
                vec![None]
            }
        }
    }

    fn part(&self, indices: &[usize]) -> Self {
        assert_eq!(indices, [0]);
        let Fake::Sector(number) = self.0 else { panic!("only sectors are handed over") };
        Self(Fake::Sector(number), self.1.clone())
    }
}

fn pool(threads: usize, settings: Settings, clock: Arc<TestClock>) -> Arc<Pool<Logged>> {
    Arc::new(Pool::new(settings, threads, clock, || ()))
}

fn at_once() -> Settings {
    Settings { policy: Policy::AtOnce, ..Settings::default() }
}

/// Waits for a condition that another thread brings about.
fn until(condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the condition did not come about in a minute");
        std::thread::yield_now();
    }
}

fn waiting(pool: &Pool<Logged>) -> usize {
    pool.tasks.lock().queue.waiting()
}

#[test]
fn reads_overtake_queued_verification() {
    let log = Arc::new(Mutex::new(Log::default()));
    let pool = pool(1, at_once(), TestClock::at_hour(0));
    let (release, blocked) = mpsc::channel();
    let task = |fake| Logged(fake, log.clone());
    std::thread::scope(|scope| {
        // The only thread is busy while the others queue up.
        scope.spawn(|| pool.decode(Class::Deferrable, vec![task(Fake::Block(Mutex::new(blocked)))]));
        until(|| {
            !pool.threads.lock().expect("no panic").is_empty() && pool.tasks.lock().waiting.is_empty() && pool.tasks.lock().next_number == 1
        });
        scope.spawn(|| pool.decode(Class::Deferrable, (10..13).map(|number| task(Fake::Sector(number))).collect()));
        until(|| waiting(&pool) == 3);
        let read = scope.spawn(|| pool.decode(Class::Read, (0..2).map(|number| task(Fake::Sector(number))).collect()));
        until(|| waiting(&pool) == 5);
        drop(release);
        assert_eq!(read.join().expect("no panic"), [vec![Some(0)], vec![Some(1)]]);
    });
    assert_eq!(log.lock().expect("no panic").0, [0, 1, 10, 11, 12]);
}

#[test]
fn a_panic_costs_its_task_and_no_thread() {
    let log = Arc::new(Mutex::new(Log::default()));
    let pool = pool(1, at_once(), TestClock::at_hour(0));
    let task = |fake| Logged(fake, log.clone());
    let results = pool.decode(Class::Read, vec![task(Fake::Sector(1)), task(Fake::Panic), task(Fake::Sector(2))]);
    assert_eq!(results, [vec![Some(1)], vec![None], vec![Some(2)]]);
    assert_eq!(pool.decode(Class::Read, vec![task(Fake::Sector(3))]), [vec![Some(3)]]);
    assert_eq!(pool.totals().sectors_here, 4);
}

#[test]
fn many_readers_share_few_threads() {
    let log = Arc::new(Mutex::new(Log::default()));
    let pool = pool(2, at_once(), TestClock::at_hour(0));
    std::thread::scope(|scope| {
        for reader in 0..64 {
            let (pool, log) = (&pool, &log);
            scope.spawn(move || {
                for round in 0..20 {
                    let class = if round % 2 == 0 { Class::Read } else { Class::Deferrable };
                    let results = pool.decode(class, (0..3).map(|_| Logged(Fake::Sector(reader), log.clone())).collect());
                    assert_eq!(results, vec![vec![Some(reader)]; 3]);
                }
            });
        }
    });
    assert_eq!(log.lock().expect("no panic").0.len(), 64 * 20 * 3);
}

#[test]
fn the_price_delays_verification_until_a_cheap_hour_and_no_read() {
    let log = Arc::new(Mutex::new(Log::default()));
    // Computing is cheap from 23:00.
    let clock = TestClock::at_hour(8);
    let pool = pool(1, Settings::default(), clock.clone());
    let deadline = Micros(32 * Micros::HOUR.0);
    let is_due = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (pool, is_due) = (&pool, &is_due);
        let verification = scope.spawn(move || {
            pool.wait_until_cheap(8, deadline, &|| true);
            is_due.store(true, Ordering::SeqCst);
        });
        until(|| waiting(pool) == 1);
        assert_eq!(pool.decode(Class::Read, vec![Logged(Fake::Sector(1), log.clone())]), [vec![Some(1)]]);
        assert_eq!(pool.decode(Class::Deferrable, vec![Logged(Fake::Sector(2), log.clone())]), [vec![Some(2)]], "it is due already");
        clock.0.store(22 * Micros::HOUR.0, Ordering::SeqCst);
        assert_eq!(pool.decode(Class::Read, vec![Logged(Fake::Sector(3), log.clone())]), [vec![Some(3)]]);
        assert_eq!((waiting(pool), is_due.load(Ordering::SeqCst)), (1, false));
        clock.0.store(23 * Micros::HOUR.0, Ordering::SeqCst);
        verification.join().expect("no panic");
    });
    assert_eq!(waiting(&pool), 0);
}

#[test]
fn a_verification_that_is_stopped_waits_no_longer() {
    let pool = pool(1, Settings::default(), TestClock::at_hour(8));
    let stopped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (pool, stopped) = (&pool, &stopped);
        let verification = scope.spawn(move || pool.wait_until_cheap(8, Micros(32 * Micros::HOUR.0), &|| !stopped.load(Ordering::SeqCst)));
        until(|| waiting(pool) == 1);
        stopped.store(true, Ordering::SeqCst);
        verification.join().expect("no panic");
        assert_eq!(waiting(pool), 0, "no hour is planned for it");
    });
}

#[test]
fn dropping_the_pool_ends_its_threads() {
    let log = Arc::new(Mutex::new(Log::default()));
    let pool = pool(3, at_once(), TestClock::at_hour(0));
    pool.decode(Class::Read, vec![Logged(Fake::Sector(1), log.clone())]);
    let tasks = pool.tasks();
    assert!(tasks.upgrade().is_some());
    drop(pool);
    assert!(tasks.upgrade().is_none(), "each thread held the tasks");
}

/// Workers that keep what they get.
#[derive(Default)]
struct Keeping {
    kept: Mutex<Vec<u64>>,
    are_dead: AtomicBool,
}

impl Workers<Logged> for Keeping {
    fn have_room(&self) -> bool {
        self.kept.lock().expect("no panic").is_empty()
    }

    fn threads(&self) -> usize {
        1
    }

    fn hand_over(&self, number: u64, _class: Class, _task: &Logged) -> bool {
        self.kept.lock().expect("no panic").push(number);
        true
    }

    fn respond(&self) -> bool {
        !self.are_dead.load(Ordering::SeqCst)
    }
}

#[test]
fn a_task_that_workers_keep_is_decoded_here_in_the_end() {
    for dies in [false, true] {
        let log = Arc::new(Mutex::new(Log::default()));
        let pool = pool(1, at_once(), TestClock::at_hour(0));
        let workers = Arc::new(Keeping::default());
        pool.set_workers(workers.clone());
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let tasks = (0..3).map(|number| Logged(Fake::Sector(number), log.clone())).collect();
                pool.decode(Class::Read, tasks)
            });
            until(|| log.lock().expect("no panic").0.len() == 2);
            assert!(!reader.is_finished());
            let kept = workers.kept.lock().expect("no panic")[0];
            assert!(pool.tasks.is_away(kept));
            if dies {
                workers.are_dead.store(true, Ordering::SeqCst)
            } else {
                pool.tasks.take_back(kept)
            }
            assert_eq!(reader.join().expect("no panic"), [[Some(0)], [Some(1)], [Some(2)]]);
            assert_eq!(pool.totals(), DecodeTotals { sectors_here: 3, sectors_elsewhere: 0, taken_back: 1, ..DecodeTotals::default() });
            // Too late.
            pool.tasks.returned(kept, vec![Some(99)]);
            assert_eq!(pool.totals().sectors_elsewhere, 0);
        });
    }
}

#[test]
fn the_last_tasks_are_decoded_here() {
    let log = Arc::new(Mutex::new(Log::default()));
    let pool = pool(2, at_once(), TestClock::at_hour(0));
    let workers = Arc::new(Keeping::default());
    pool.set_workers(workers.clone());
    // Two threads here are done before one worker is.
    let tasks = (0..2).map(|number| Logged(Fake::Sector(number), log.clone())).collect();
    assert_eq!(pool.decode(Class::Read, tasks), [[Some(0)], [Some(1)]]);
    assert!(workers.kept.lock().expect("no panic").is_empty());
}

#[test]
fn a_sector_that_workers_lost_is_decoded_here() {
    let log = Arc::new(Mutex::new(Log::default()));
    let pool = pool(1, at_once(), TestClock::at_hour(0));
    let workers = Arc::new(Keeping::default());
    pool.set_workers(workers.clone());
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| pool.decode(Class::Read, (0..3).map(|number| Logged(Fake::Sector(number), log.clone())).collect()));
        until(|| !workers.kept.lock().expect("no panic").is_empty());
        let kept = workers.kept.lock().expect("no panic")[0];
        pool.tasks.returned(kept, vec![None]);
        assert_eq!(reader.join().expect("no panic"), [[Some(0)], [Some(1)], [Some(2)]]);
    });
    assert_eq!(pool.totals(), DecodeTotals { sectors_here: 3, sectors_elsewhere: 0, taken_back: 0, ..DecodeTotals::default() });
}

#[test]
fn results_from_elsewhere_reach_their_reader() {
    let log = Arc::new(Mutex::new(Log::default()));
    let pool = pool(1, at_once(), TestClock::at_hour(0));
    let workers = Arc::new(Keeping::default());
    pool.set_workers(workers.clone());
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| pool.decode(Class::Read, (0..3).map(|number| Logged(Fake::Sector(number), log.clone())).collect()));
        until(|| !workers.kept.lock().expect("no panic").is_empty());
        let kept = workers.kept.lock().expect("no panic")[0];
        pool.tasks.returned(kept, vec![Some(100)]);
        assert_eq!(reader.join().expect("no panic"), [[Some(100)], [Some(1)], [Some(2)]]);
    });
    assert_eq!(pool.totals(), DecodeTotals { sectors_here: 2, sectors_elsewhere: 1, taken_back: 0, ..DecodeTotals::default() });
}
