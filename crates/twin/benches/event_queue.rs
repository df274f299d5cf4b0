//! Events per second of the bare event queue, on one core:
//!
//! `cargo bench -p fulgurite-twin --bench event_queue`
//!
//! - *hold*: a pop and a push at a random time, with a constant number of pending events, for the
//!   event queue and for the standard library's binary heap with the same keys. Counts pops.
//! - *M/M/c* at a load of 0.8, including random draws: as a bare loop, as a [`Station`] that
//!   records every visit, and as the same station in SimPy, in this same run. Counts arrivals and
//!   departures.
//!
//! SimPy is installed from the package index into a virtual environment in a temporary folder.

#[path = "../tests/twin/support/station.rs"]
mod station;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use fulgurite_chance::Stream;
use fulgurite_domain::Micros;
use fulgurite_mechanics::EventQueue;

use station::{ServiceTime, Station};

const SIZES: [u32; 3] = [10, 1_000, 100_000];
const EVENTS: u64 = 3_000_000;

/// Size of a library's event with the command it answers.
type Payload = [u64; 4];

fn main() {
    println!("million events a second, best of 3      {:>9} {:>9} {:>9}", "c = 10", "1,000", "100,000");
    row("hold, this queue, 4 bytes", |c| hold(c, |item: u64| item as u32, &mut EventQueue::new()));
    row("hold, BinaryHeap, 4 bytes", |c| hold(c, |item: u64| item as u32, &mut Standard::new()));
    row("hold, this queue, 32 bytes", |c| hold(c, |item: u64| [item; 4], &mut EventQueue::<Payload>::new()));
    row("hold, BinaryHeap, 32 bytes", |c| hold(c, |item: u64| [item; 4], &mut Standard::<Payload>::new()));
    row("M/M/c, bare loop", bare);
    row("M/M/c, Station", station);
    match environment() {
        Ok(python) => {
            simpy(&python, 10);
            simpy(&python, 1_000);
            println!(
                "SimPy is skipped at c = 100,000: its resource searches all customers in service at each departure, which takes minutes."
            );
        }
        Err(reason) => println!("SimPy was skipped: {reason}"),
    }
}

fn row(name: &str, run: impl Fn(u32) -> f64) {
    let best = SIZES.map(|c| (0..3).map(|_| run(c)).fold(0.0, f64::max) / 1e6);
    println!("{name:<39} {:>9.1} {:>9.1} {:>9.1}", best[0], best[1], best[2]);
}

trait Events<E> {
    fn add(&mut self, at: Micros, event: E);
    fn take(&mut self) -> Option<(Micros, E)>;
}

impl<E: Copy> Events<E> for EventQueue<E> {
    fn add(&mut self, at: Micros, event: E) {
        self.push(at, event);
    }

    fn take(&mut self) -> Option<(Micros, E)> {
        self.pop()
    }
}

/// The standard library's heap, with the same keys.
struct Standard<E> {
    heap: BinaryHeap<Entry<E>>,
    pushed: u64,
}

struct Entry<E>(Reverse<u128>, E);

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

impl<E> Standard<E> {
    fn new() -> Self {
        Self { heap: BinaryHeap::new(), pushed: 0 }
    }
}

impl<E> Events<E> for Standard<E> {
    fn add(&mut self, at: Micros, event: E) {
        self.heap.push(Entry(Reverse(u128::from(at.0) << 64 | u128::from(self.pushed)), event));
        self.pushed += 1;
    }

    fn take(&mut self) -> Option<(Micros, E)> {
        self.heap.pop().map(|Entry(Reverse(key), event)| (Micros((key >> 64) as u64), event))
    }
}

fn hold<E: Copy>(c: u32, make: impl Fn(u64) -> E, queue: &mut impl Events<E>) -> f64 {
    // Drawn in advance: random numbers are not part of the measurement.
    let mut chance = Stream::new(1, "gaps");
    let gaps: Vec<Micros> = (0..65_536).map(|_| Micros::from_seconds(chance.exponential(f64::from(c)))).collect();
    for number in 0..c {
        queue.add(gaps[number as usize % gaps.len()], make(number.into()));
    }
    let begin = Instant::now();
    for number in 0..EVENTS {
        let (now, event) = queue.take().expect("it holds c events");
        queue.add(now + gaps[(number as usize).wrapping_mul(7) % gaps.len()], black_box(event));
    }
    EVENTS as f64 / begin.elapsed().as_secs_f64()
}

/// Counts the waiting and served customers, without identifying them.
fn bare(c: u32) -> f64 {
    let (mut arrivals, mut services) = (Stream::new(1, "arrivals"), Stream::new(1, "services"));
    let (mut idle, mut waiting) = (c, 0_u64);
    let mut queue = EventQueue::new();
    queue.push(Micros::ZERO, true);
    // All servers begin busy, so that c events are pending from the start.
    while idle > 0 {
        idle -= 1;
        queue.push(Micros::from_seconds(services.exponential(1.0)), false);
    }
    let begin = Instant::now();
    for _ in 0..EVENTS {
        let (now, arrives) = queue.pop().expect("an arrival is always pending");
        if arrives {
            queue.push(now + Micros::from_seconds(arrivals.exponential(1.25 / f64::from(c))), true);
        }
        // An arrival that finds a free server, or a departure while a customer waits.
        let served = if arrives { idle > 0 } else { waiting > 0 };
        match (arrives, served) {
            (true, true) => idle -= 1,
            (true, false) => waiting += 1,
            (false, true) => waiting -= 1,
            (false, false) => idle += 1,
        }
        if served {
            queue.push(now + Micros::from_seconds(services.exponential(1.0)), false);
        }
    }
    black_box(waiting);
    EVENTS as f64 / begin.elapsed().as_secs_f64()
}

fn station(c: u32) -> f64 {
    let station = Station::single(c, 0.8 * f64::from(c), ServiceTime::Exponential(1.0));
    let begin = Instant::now();
    let mut waited = 0.0;
    let totals = station.run(1, EVENTS / 2, |visit| waited += (visit.begun - visit.arrived).seconds());
    black_box(waited);
    totals.events as f64 / begin.elapsed().as_secs_f64()
}

fn simpy(python: &Path, c: u32) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/simpy_station.py");
    match answer(Command::new(python).arg(script).arg(c.to_string()).arg("100000")) {
        Ok(line) => {
            let events: f64 = line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(f64::NAN);
            println!("M/M/c, SimPy, c = {c:<21} {:>9.3}", events / 1e6);
        }
        Err(reason) => println!("SimPy was skipped at c = {c}: {reason}"),
    }
}

/// A Python with SimPy installed.
fn environment() -> Result<PathBuf, String> {
    let folder = std::env::temp_dir().join("fulgurite-bench-simpy");
    let python = folder.join("bin/python");
    if !python.exists() {
        answer(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    }
    if answer(Command::new(&python).args(["-c", "import simpy"])).is_err() {
        answer(Command::new(&python).args(["-m", "pip", "install", "--quiet", "simpy>=4.1,<5"]))?;
    }
    Ok(python)
}

/// A program's output, or its error message.
fn answer(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{:?}: {error}", command.get_program()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("no reason given").to_owned();
    Err(format!("{:?}: {complaint}", command.get_program()))
}
