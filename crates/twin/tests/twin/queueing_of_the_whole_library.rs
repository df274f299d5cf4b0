//! Compares a whole library with queueing theory. Without shuttles, with instant mounts, switches
//! and seeks, and with reads of one law, each drive is a server, and a library of c drives is M/M/c
//! or M/D/c. The controller, the mechanics, the simulation and the trace reader are all under test;
//! nothing is replaced.
//!
//! Requests in progress are all for different platters, because requests for one platter are read
//! in one visit by one drive. All times are in units of the mean service time, a second.
//!
//! The first check follows each customer: service is in order of arrival and starts as soon as a
//! server is free, to the microsecond. The second compares with theory: each figure is the mean of
//! independent replications with fixed seeds. It must be within a confidence interval of 99.9 %,
//! and the interval must be narrow.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::Write;
use std::path::Path;

use fulgurite_chance::Stream;
use fulgurite_domain::{Micros, SetShape};
use fulgurite_library::{Action, Command, CommandId, Event, Layout, Library, Verification};
use fulgurite_mechanics::{DriveTimes, Service, Settings};
use fulgurite_twin::scenario::{PolicyChoice, PolicyName, RunSettings, Scenario, Workload, WorkloadKind};
use fulgurite_twin::simulation::{Observer, Request, run_with};
use fulgurite_twin::statistics::confidence;

/// Number of platters, requested in turn; far more than ever wait at once.
const PLATTERS: u32 = 3_000;

/// A library with this many servers and the requests of the trace.
fn servers(drives: [u8; 2], service: Service, trace: &Path) -> Scenario {
    let times = DriveTimes { mount_s: 0.0, unmount_s: 0.0, switch_s: 0.0, service, ..DriveTimes::default() };
    let mut workload = Workload::preset(WorkloadKind::Trace);
    (workload.trace, workload.deadline) = (Some(trace.to_owned()), None);
    let mut scenario = Scenario {
        layout: Layout { drives, shuttles: 0, ..Layout::default() },
        platters: PLATTERS,
        verification: Verification::Off,
        policy: PolicyChoice { name: PolicyName::NoShuttles, ..PolicyChoice::default() },
        mechanics: Settings { drive: times, ..Settings::default() },
        workload,
        run: RunSettings { warm_up: Micros::ZERO, measured: Micros(1_000 * Micros::HOUR.0), ..RunSettings::default() },
        ..Scenario::default()
    };
    scenario.sets.shape = SetShape { information: 1, redundancy: 0 };
    scenario
}

/// Customers in the order in which their service began.
#[derive(Default)]
struct Customers {
    /// Arrival of the request for each platter, and the read commands in progress.
    arrived: BTreeMap<u32, Micros>,
    reading: BTreeMap<CommandId, usize>,
    served: Vec<Served>,
}

#[derive(Clone, Copy)]
struct Served {
    arrived: Micros,
    begun: Micros,
    ended: Micros,
}

impl Observer for Customers {
    fn request(&mut self, request: &Request<'_>) {
        let [shard] = request.shards else { panic!("{} shards instead of one", request.shards.len()) };
        // In sets of one, platter numbers of the region equal those of the library.
        assert!(self.arrived.insert(shard.platter.0, request.at).is_none(), "two requests for one platter at a time");
    }

    fn event(&mut self, now: Micros, _: Library, event: &Event) {
        if let Event::Done { command } = event
            && let Some(index) = self.reading.remove(command)
        {
            self.served[index].ended = now;
        }
    }

    fn command(&mut self, now: Micros, _: Library, command: &Command) {
        if let Command::Do { id, action: Action::Read { platter, .. } } = command {
            let arrived = self.arrived.remove(&platter.0).expect("its platter was requested");
            self.reading.insert(*id, self.served.len());
            self.served.push(Served { arrived, begun: now, ended: now });
        }
    }
}

/// The waits of one replication, without its first tenth.
fn replication(drives: [u8; 2], service: Service, load: f64, customers: u32, seed: u64) -> Vec<f64> {
    let count = usize::from(drives[0]) + usize::from(drives[1]);
    let folder = tempfile::tempdir().expect("a folder for the trace");
    let path = folder.path().join("arrivals.csv");
    let mut trace = std::io::BufWriter::new(std::fs::File::create(&path).expect("a file for the trace"));
    let (mut stream, mut now) = (Stream::new(seed, "arrivals of a queue"), 0.0);
    writeln!(trace, "arrival,file,bytes,platter,track").expect("the trace is written");
    for customer in 0..customers {
        now += stream.exponential(1.0 / (load * count as f64));
        writeln!(trace, "{now:.6},{customer},1,{},0", customer % PLATTERS).expect("the trace is written");
    }
    trace.flush().expect("the trace is written");
    let mut seen = Customers::default();
    let run = run_with(&servers(drives, service, &path), seed, &mut seen, |_| ());
    let run = run.unwrap_or_else(|error| panic!("seed {seed}: {error}")).run;
    assert_eq!((run.requests, run.outcomes.read), (customers.into(), customers.into()), "seed {seed}");
    follows_kiefer_and_wolfowitz(count, &seen.served, seed);
    let settled = &seen.served[customers as usize / 10..];
    settled.iter().map(|one| (one.begun - one.arrived).seconds()).collect()
}

/// Checks that customers are served in order of arrival, each as soon as a server is free, to the
/// microsecond, for any distribution.
fn follows_kiefer_and_wolfowitz(servers: usize, served: &[Served], seed: u64) {
    let mut free = BinaryHeap::from(vec![Reverse(Micros::ZERO); servers]);
    let mut last = Micros::ZERO;
    for (index, one) in served.iter().enumerate() {
        assert!(last <= one.arrived, "seed {seed}: customer {index} overtook another one");
        last = one.arrived;
        let Reverse(earliest) = free.pop().expect("there is a server");
        assert_eq!(one.begun, earliest.max(one.arrived), "seed {seed}: customer {index}");
        free.push(Reverse(one.ended));
    }
}

fn mean(waits: &[f64]) -> f64 {
    waits.iter().sum::<f64>() / waits.len() as f64
}

/// Compares the figures of all replications with theory; `part` limits the relative width of the
/// interval.
fn agrees(what: &str, figures: &[f64], theory: f64, part: f64) {
    let interval = confidence(figures, 0.999).expect("several replications");
    assert!(interval.contains(theory), "{what}: {:?} to {:?}, but theory says {theory}: {figures:?}", interval.low(), interval.high());
    assert!(interval.relative().is_some_and(|relative| relative < part), "{what}: {:?} is too wide", interval);
}

/// The wait that one in a thousand customers exceeds.
fn tail(waits: &[f64]) -> f64 {
    let mut waits = waits.to_vec();
    waits.sort_by(f64::total_cmp);
    waits[waits.len() - waits.len() / 1_000 - 1]
}

const REPLICATIONS: u64 = 10;

/// The waits of all replications.
fn waits(drives: [u8; 2], service: Service, load: f64, customers: u32) -> Vec<Vec<f64>> {
    (1..=REPLICATIONS).map(|seed| replication(drives, service, load, customers, seed)).collect()
}

fn each(replications: &[Vec<f64>], figure: fn(&[f64]) -> f64) -> Vec<f64> {
    replications.iter().map(|waits| figure(waits)).collect()
}

#[test]
fn twenty_drives_are_m_m_20() {
    // Erlang's C at 16 of 20 is 0.256. The mean wait is C / (20 - 16), the 99.9th percentile
    // ln(0.256 / 0.001) / 4.
    let waits = waits([10, 10], Service::Exponential(1.0), 0.8, 25_000);
    agrees("M/M/20 at 0.8: mean wait", &each(&waits, mean), 0.064_019, 0.3);
    agrees("M/M/20 at 0.8: 99.9th percentile", &each(&waits, tail), 1.386_4, 0.3);
}

#[test]
fn one_drive_is_m_m_1() {
    // 0.8 / (1 - 0.8), and ln(0.8 / 0.001) / 0.2.
    let waits = waits([1, 0], Service::Exponential(1.0), 0.8, 40_000);
    agrees("M/M/1 at 0.8: mean wait", &each(&waits, mean), 4.0, 0.15);
    agrees("M/M/1 at 0.8: 99.9th percentile", &each(&waits, tail), 33.423_1, 0.3);
}

#[test]
fn one_drive_with_fixed_read_times_is_m_d_1() {
    // Pollaczek and Khinchine: 0.9 / (2 (1 - 0.9)).
    let waits = waits([1, 0], Service::Fixed(1.0), 0.9, 20_000);
    agrees("M/D/1 at 0.9: mean wait", &each(&waits, mean), 4.5, 0.2);
}
