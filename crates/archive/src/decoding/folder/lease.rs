//! Leases: which processes are alive, and what dead ones have left.
//!
//! A worker proves that it is alive by changing its lease every second; so does an archive while it
//! has jobs in the folder. Others compare what they see with what they saw before, by their own
//! clock: clocks of several machines may differ.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::{ALIVE, CLAIMED, Folder, JOBS, JobName, Owner, RESULTS, TMP, read_bounded};

/// Intervals and timeouts. Tests use shorter ones.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timing {
    /// Interval at which a lease is renewed.
    pub(super) renewal: Duration,
    /// How long a lease holds after a renewal.
    pub(super) lease: Duration,
    /// How long a job waits for a worker before the archive takes it back.
    pub(super) claim: Duration,
    /// How long a worker may take for a job.
    pub(super) work: Duration,
    /// How long an owner must be dead before its files are removed.
    pub(super) leftover: Duration,
    /// Interval at which workers look for jobs, and archives for results.
    pub(super) poll: Duration,
}

impl Timing {
    pub(super) const DEFAULT: Self = Self {
        renewal: Duration::from_secs(1),
        lease: Duration::from_secs(5),
        claim: Duration::from_secs(2),
        work: Duration::from_secs(60),
        leftover: Duration::from_secs(60),
        poll: Duration::from_millis(20),
    };
}

/// The longest lease that is read.
const LEASE_BYTES_MAX: u64 = 1_000;
/// Most threads of a worker that count.
const THREADS_MAX: u32 = 1_024;

/// The lease of this process.
pub(super) struct OwnLease {
    /// 0 for an archive.
    threads: u32,
    count: u64,
    renewed: Option<Instant>,
}

impl OwnLease {
    pub(super) fn new(threads: u32) -> Self {
        Self { threads, count: 0, renewed: None }
    }

    /// Renews the lease if it is time to.
    pub(super) fn renew(&mut self, folder: &Folder, timing: &Timing) -> std::io::Result<()> {
        if self.renewed.is_some_and(|renewed| renewed.elapsed() < timing.renewal) {
            return Ok(());
        }
        self.count += 1;
        let kind = if self.threads == 0 { "archive" } else { "worker" };
        let text = format!("{kind} {}\nthreads {}\ncount {}\n", super::VERSION, self.threads, self.count);
        folder.write(ALIVE, &folder.owner.to_string(), text.as_bytes())?;
        self.renewed = Some(Instant::now());
        Ok(())
    }

    pub(super) fn end(&mut self, folder: &Folder) {
        if self.renewed.take().is_some() {
            folder.remove(ALIVE, &folder.owner.to_string());
        }
    }
}

/// What is known of an owner.
struct Seen {
    /// Its lease; `None` if it has none.
    text: Option<String>,
    /// When this text, or the absence of one, was first seen.
    since: Instant,
    /// True once its lease has changed: one that never does may be that of a dead process.
    has_renewed: bool,
    threads: u32,
}

/// The other processes that use the folder.
#[derive(Default)]
pub(super) struct Others(HashMap<Owner, Seen>);

impl Others {
    /// Reads all leases.
    pub(super) fn look(&mut self, folder: &Folder) -> std::io::Result<()> {
        let now = Instant::now();
        let mut found: HashMap<Owner, String> = HashMap::new();
        for name in folder.names(ALIVE)? {
            let Some(owner) = Owner::parse(&name) else { continue };
            if let Ok(text) = read_bounded(&folder.path(ALIVE, &name), LEASE_BYTES_MAX) {
                found.insert(owner, String::from_utf8_lossy(&text).into_owned());
            }
        }
        for (owner, seen) in &mut self.0 {
            let text = found.remove(owner);
            if seen.text != text {
                seen.has_renewed |= seen.text.is_some() && text.is_some();
                seen.threads = text.as_deref().map_or(0, threads_of);
                (seen.text, seen.since) = (text, now);
            }
        }
        for (owner, text) in found {
            self.0.insert(owner, Seen { threads: threads_of(&text), text: Some(text), since: now, has_renewed: false });
        }
        Ok(())
    }

    /// True if a lease holds.
    pub(super) fn is_alive(&self, owner: Owner, timing: &Timing) -> bool {
        self.0.get(&owner).is_some_and(|seen| seen.text.is_some() && seen.since.elapsed() <= timing.lease)
    }

    /// Threads of all workers whose leases were renewed and hold.
    pub(super) fn threads(&self, timing: &Timing) -> u32 {
        let is_live = |seen: &&Seen| seen.has_renewed && seen.text.is_some() && seen.since.elapsed() <= timing.lease;
        self.0.values().filter(is_live).map(|seen| seen.threads).sum()
    }

    /// Removes the files of owners whose lease is missing or unchanged for longer than
    /// `timing.leftover`. Files with other names are left alone.
    pub(super) fn remove_leftovers(&mut self, folder: &Folder, timing: &Timing) -> std::io::Result<()> {
        for directory in [JOBS, CLAIMED, RESULTS, TMP, ALIVE] {
            for name in folder.names(directory)? {
                let owner = match directory {
                    ALIVE => Owner::parse(&name),
                    TMP => name.split_once('-').and_then(|(owner, _)| Owner::parse(owner)),
                    CLAIMED => JobName::parse_claimed(&name).map(|(job, _)| job.owner),
                    _ => JobName::parse(&name).map(|job| job.owner),
                };
                let Some(owner) = owner.filter(|owner| *owner != folder.owner) else { continue };
                let unknown = || Seen { text: None, since: Instant::now(), has_renewed: false, threads: 0 };
                if self.0.entry(owner).or_insert_with(unknown).since.elapsed() > timing.leftover {
                    folder.remove(directory, &name);
                }
            }
        }
        // Those of which nothing is left need not be remembered.
        self.0.retain(|_, seen| seen.text.is_some() || seen.since.elapsed() <= 2 * timing.leftover);
        Ok(())
    }
}

/// Threads of the worker with this lease; 0 for text that is no lease, or one of another version.
fn threads_of(text: &str) -> u32 {
    let mut lines = text.lines();
    let is_worker = lines.next().and_then(|line| line.strip_prefix("worker ")) == Some(&super::VERSION.to_string());
    let threads = lines.next().and_then(|line| line.strip_prefix("threads ")?.parse().ok());
    threads.filter(|_| is_worker).unwrap_or(0).min(THREADS_MAX)
}
