//! `fulgurite bench`: plays loads against S3 servers with the crate `load`, and prints what they
//! did.
//!
//! Exit status: 0 if every operation succeeded; 1 if one failed, a load was stopped early, the
//! objects ran out, or the command failed; 2 for wrong arguments, including missing credentials or
//! certificate authorities.

mod print;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{ArgGroup, Args};
use fulgurite_client::{ARCHIVE_BYTES_MAX, ENTRY_BYTES_MAX, Server, ServerOptions, region};
use fulgurite_load::{Length, Load, Mix, Objects, Pace, Place, Progress, Run, Sizes, Target, Window, play, rows, table};
use fulgurite_settings::Dimension;

use crate::outcome::Misuse;
use crate::{Outcome, Session, signals, text};

/// Sizes with names, in bytes: those of the repository's and the survey's tests.
const NAMED_SIZES: [(&str, u64); 7] = [
    ("object-only", 0),
    ("cutout", 15_000),
    ("small", 20_000),
    ("light-curve", 500_000),
    ("medium", 15_000_000),
    ("large", 700_000_000),
    ("extra-large", 4_700_000_000),
];

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("length").multiple(false))]
pub(crate) struct Bench {
    /// A server, as http://HOST:PORT or https://HOST:PORT, with a name for the results before it;
    /// the option may be repeated
    #[arg(long = "endpoint", value_name = "[NAME=]URL")]
    endpoints: Vec<String>,
    /// Also write, sync and read files in this folder, for comparison
    #[arg(long, value_name = "FOLDER")]
    files: Option<PathBuf>,
    /// What clients do: ingest, access, update, delete, mixed, or shares such as
    /// access=70,ingest=30
    #[arg(long, default_value = "ingest", value_name = "MIX")]
    workload: String,
    /// Size of objects, such as "15 kB", or object-only (0 B), cutout (15 kB), small (20 kB),
    /// light-curve (500 kB), medium (15 MB), large (700 MB), extra-large (4.7 GB). With shares,
    /// objects have several sizes; the option may be repeated
    #[arg(long = "size", default_value = "small", value_name = "SIZE[=SHARE]")]
    sizes: Vec<String>,
    /// New objects that a client puts with one request, a bulk put; only Fulgurite's servers have
    /// them
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    bulk: u64,
    /// Clients. Each has one connection and at most one open request
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    clients: u32,
    /// Requests a second, at random instants, whether or not the server keeps up. Default: each
    /// client sends its next request when the last one is answered
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// How long a load lasts
    #[arg(long, default_value_t = 30.0, value_name = "SECONDS", group = "length")]
    seconds: f64,
    /// End after this many operations
    #[arg(long, value_name = "N", group = "length", value_parser = clap::value_parser!(u64).range(1..))]
    operations: Option<u64>,
    /// Run until Ctrl-C, then report whether the server got slower or used more memory. For one
    /// target
    #[arg(long, group = "length", conflicts_with = "rounds")]
    until_stopped: bool,
    /// Number of times that each target is loaded. Targets take turns, and results are medians
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// Number of objects to read, replace and delete, put before the load begins; ingest alone
    /// needs none
    #[arg(long, default_value_t = 1_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    objects: u64,
    /// Prefix of all keys. Default: a new one for each run
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,
    /// Put the objects and exit, so that they can be archived before they are read
    #[arg(long, requires = "prefix", conflicts_with = "prepared")]
    prepare_only: bool,
    /// Use the objects that an earlier run with the same prefix and sizes put
    #[arg(long, requires = "prefix")]
    prepared: bool,
    /// The bucket; it is created if it doesn't exist
    #[arg(long, default_value = "bench", value_name = "NAME")]
    bucket: String,
    /// The region that requests are signed for. Default: AWS_REGION, AWS_DEFAULT_REGION, or
    /// us-east-1
    #[arg(long, value_name = "NAME")]
    region: Option<String>,
    /// A profile in ~/.aws, for all endpoints, or for the endpoint of this name. Default:
    /// AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the default profile
    #[arg(long = "profile", value_name = "[NAME=]PROFILE")]
    profiles: Vec<String>,
    /// Certificate authorities to trust, in PEM form. Default: those of the system
    #[arg(long, value_name = "FILE")]
    ca_file: Option<String>,
    /// The storage class of the objects
    #[arg(long, value_name = "CLASS")]
    storage_class: Option<String>,
    /// Timeout of an operation, to which a second is added for each MB
    #[arg(long, default_value_t = 60.0, value_name = "SECONDS")]
    timeout: f64,
    /// Threads of the load generator. Default: half of the cores, so that a server on this machine
    /// has the others
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Seed of the random choices
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Length of the windows for figures over time. Default: a 30th of --seconds, at least 0.1; 1
    /// with --operations; 10 with --until-stopped
    #[arg(long, value_name = "SECONDS")]
    window: Option<f64>,
    /// Write the results of all rounds as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write a page that compares the targets, with figures
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// A target with its objects and what it did.
struct Loaded {
    target: Target,
    objects: Objects,
    runs: Vec<Run>,
}

pub(crate) fn bench(session: &Session, asked: &Bench) -> Result<Outcome> {
    let load = load(asked)?;
    let targets = targets(asked)?;
    let prefix = match &asked.prefix {
        Some(prefix) => plain(prefix)?,
        None => {
            format!("bench-{:x}/", std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_micros()))
        }
    };
    if asked.until_stopped && targets.len() > 1 {
        return Err(Misuse("--until-stopped: expected one target".to_owned()).into());
    }
    let sizes = sizes(&asked.sizes)?;
    if asked.bulk > 1 && sizes.largest().saturating_add(ENTRY_BYTES_MAX as u64).saturating_mul(asked.bulk) > ARCHIVE_BYTES_MAX as u64 {
        return Err(Misuse("--bulk: expected objects that fit into a request of 16 MiB together".to_owned()).into());
    }
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    signals::on_stop(None, move || stopped.store(true, Ordering::Relaxed))?;
    let needed = if load.mix.needs_objects() || asked.prepare_only { asked.objects } else { 0 };
    // Preparing and loading may take hours, and must not be lost to a wrong path.
    for path in asked.csv.iter().chain(&asked.html).filter(|_| !asked.prepare_only) {
        let file = std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(path);
        file.with_context(|| path.display().to_string())?;
    }
    let mut loaded = Vec::new();
    for target in targets {
        target.create(load.patience)?;
        let objects = Objects::new(prefix.clone(), sizes.clone(), needed, load.clients).in_class(asked.storage_class.clone());
        if needed > 0 && !asked.prepared {
            let bar = print::Preparing::new(session, &target.name, needed);
            target.prepare(&load, &objects, needed, &mut &bar, &stop)?;
            if stop.load(Ordering::Relaxed) {
                drop(bar);
                session.warn(&format!("{}: stopped before the objects were put that the load needs", target.name));
                return Ok(Outcome::Troubled);
            }
        }
        loaded.push(Loaded { target, objects, runs: Vec::new() });
    }
    if asked.prepare_only {
        for Loaded { target, .. } in &loaded {
            session.say(&format!("{}: {needed} objects exist below {prefix}", target.name));
        }
        session.answer(|| serde_json::json!({ "prefix": prefix, "objects": needed }));
        return Ok(Outcome::Good);
    }
    print::begin(session, asked, &load, &prefix);
    for round in 1..=asked.rounds {
        for each in &mut loaded {
            if stop.load(Ordering::Relaxed) && !asked.until_stopped {
                break;
            }
            let mut over_time = OverTime { session, is_shown: asked.until_stopped };
            let run = play(&load, &each.target, &each.objects, &mut over_time, &stop);
            print::round(session, &each.target.name, round, asked.rounds, &run);
            each.runs.push(run);
        }
    }
    let mut results = table();
    for each in &loaded {
        for (round, run) in (1..).zip(&each.runs) {
            for row in rows(&each.target.name, round, run) {
                results.push(row).expect("rows have the columns of the table");
            }
        }
    }
    let results = results.note("workload", &load.mix).note("prefix", &prefix);
    let named: Vec<(&str, &[Run])> = loaded.iter().map(|each| (each.target.name.as_str(), &each.runs[..])).collect();
    print::end(session, asked, &load, &prefix, &named);
    if let Some(path) = &asked.csv {
        let mut csv = Vec::new();
        results.write_csv(&mut csv)?;
        std::fs::write(path, csv).with_context(|| path.display().to_string())?;
    }
    if let Some(path) = &asked.html {
        let page = fulgurite_load::page(&print::title(asked, &load), &named)?;
        std::fs::write(path, page).with_context(|| path.display().to_string())?;
    }
    let is_short = |run: &Run| run.was_stopped || run.ran_out || run.operations.iter().any(|figures| figures.failures() > 0);
    let is_incomplete = loaded.iter().any(|each| each.runs.len() < asked.rounds as usize || each.runs.iter().any(is_short));
    Ok(Outcome::troubled_if(is_incomplete))
}

/// Prints the windows of a load without an end.
struct OverTime<'a> {
    session: &'a Session,
    is_shown: bool,
}

impl Progress for OverTime<'_> {
    fn window(&mut self, window: &Window) {
        if self.is_shown {
            print::window(self.session, window);
        }
    }
}

fn load(asked: &Bench) -> Result<Load> {
    let wrong = |option: &str, expected: &str| Misuse(format!("{option}: expected {expected}"));
    let seconds = |option: &str, value: f64| {
        Duration::try_from_secs_f64(value)
            .ok()
            .filter(|time| *time >= Duration::from_millis(1))
            .ok_or_else(|| wrong(option, "0.001 seconds or more"))
    };
    let mix: Mix = asked.workload.parse().map_err(|error| Misuse(format!("--workload: {error}")))?;
    let pace = match asked.rate {
        None => Pace::Closed,
        Some(rate) if (0.001..=10_000_000.0).contains(&rate) => Pace::Open(rate),
        Some(_) => return Err(wrong("--rate", "0.001 to 10,000,000 requests a second").into()),
    };
    let length = match (asked.operations, asked.until_stopped) {
        (Some(count), _) => Length::Operations(count),
        (None, true) => Length::UntilStopped,
        (None, false) => Length::Time(seconds("--seconds", asked.seconds)?),
    };
    let usual = match length {
        Length::Time(time) => (time / 30).max(Duration::from_millis(100)),
        Length::Operations(_) => Duration::from_secs(1),
        Length::UntilStopped => Duration::from_secs(10),
    };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Ok(Load {
        mix,
        bulk: asked.bulk,
        clients: asked.clients as usize,
        pace,
        length,
        window: asked.window.map_or(Ok(usual), |window| seconds("--window", window))?,
        patience: seconds("--timeout", asked.timeout)?,
        threads: asked.threads.unwrap_or(cores.div_ceil(2)),
        seed: asked.seed,
    })
}

fn sizes(asked: &[String]) -> Result<Sizes> {
    let size = |text: &String| {
        let (name, share) = match text.rsplit_once('=') {
            None => (text.as_str(), 1),
            Some((name, share)) => (name, share.parse().map_err(|_| Misuse(format!("--size {text}: expected a whole number after `=`")))?),
        };
        let named = NAMED_SIZES.iter().find(|(known, _)| *known == name).map(|(_, bytes)| *bytes);
        let bytes =
            named.map_or_else(|| Dimension::Size.parse_whole(name), Ok).map_err(|error| Misuse(format!("--size {text}: {error}")))?;
        Ok((bytes, share))
    };
    let sizes = asked.iter().map(size).collect::<Result<Vec<_>, Misuse>>()?;
    Ok(Sizes::new(sizes).ok_or_else(|| Misuse("--size: shares must be more than 0".to_owned()))?)
}

/// A prefix of letters that need no escaping in URLs and names of files.
fn plain(prefix: &str) -> Result<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/_-".contains(&byte);
    if prefix.bytes().all(is_plain) && !prefix.starts_with('/') && !prefix.contains("//") {
        return Ok(prefix.to_owned());
    }
    Err(Misuse("--prefix: expected letters, digits, `_`, `-` and single `/`, not at the beginning".to_owned()).into())
}

fn targets(asked: &Bench) -> Result<Vec<Target>> {
    let named = |text: &str, default: &str| match text.split_once('=') {
        Some((name, value)) if !name.contains("://") => (name.to_owned(), value.to_owned()),
        _ => (default.to_owned(), text.to_owned()),
    };
    let profiles: Vec<(String, String)> = asked.profiles.iter().map(|profile| named(profile, "")).collect();
    let mut targets = Vec::new();
    for endpoint in &asked.endpoints {
        let (name, url) = named(endpoint, endpoint);
        if name.is_empty() {
            return Err(Misuse(format!("--endpoint {endpoint}: the name before the = is empty")).into());
        }
        let of_name = |wanted: &str| profiles.iter().find(|(of, _)| of == wanted).map(|(_, profile)| profile.clone());
        let options = ServerOptions {
            bucket: asked.bucket.clone(),
            region: region(asked.region.as_deref()),
            keys: None,
            profile: of_name(&name).or_else(|| of_name("")),
            authorities: asked.ca_file.clone(),
        };
        let server = Server::new(&url, &options).map_err(|error| Misuse(error.to_string()))?;
        targets.push(Target { name, place: Place::Server(Arc::new(server)) });
    }
    if let Some((stray, _)) = profiles.iter().find(|(name, _)| !name.is_empty() && !targets.iter().any(|target| target.name == *name)) {
        return Err(Misuse(format!("--profile {stray}=…: no endpoint has this name")).into());
    }
    if let Some(folder) = asked.files.iter().find(|folder| !folder.is_dir()) {
        return Err(Misuse(format!("--files: {} is not a folder: is its disk mounted? Or make it first", text::path(folder))).into());
    }
    targets.extend(asked.files.iter().map(|folder| Target { name: "files".to_owned(), place: Place::Files(folder.clone()) }));
    let is_double = (1..targets.len()).find(|index| targets[..*index].iter().any(|other| other.name == targets[*index].name));
    match is_double {
        _ if targets.is_empty() => Err(Misuse("name a server with --endpoint URL, or a folder with --files FOLDER".to_owned()).into()),
        Some(index) => Err(Misuse(format!("two targets are called {}: name them with --endpoint NAME=URL", targets[index].name)).into()),
        None => Ok(targets),
    }
}
