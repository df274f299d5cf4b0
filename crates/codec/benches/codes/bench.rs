//! Pools, clocks and result tables.

use fulgurite_codec::reference::noise;

/// Shards of noise, each in its own allocation like sectors.
pub(crate) struct Pool(Vec<Vec<u8>>);

impl Pool {
    pub(crate) fn new(shards: usize, shard_bytes: usize) -> Self {
        Pool((0..shards as u64).map(|seed| noise(seed, shard_bytes)).collect())
    }

    pub(crate) fn shards(&self) -> &[Vec<u8>] {
        &self.0
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }
}

pub(crate) fn slices(shards: &[Vec<u8>]) -> Vec<&[u8]> {
    shards.iter().map(Vec::as_slice).collect()
}

pub(crate) fn slices_mut(shards: &mut [Vec<u8>]) -> Vec<&mut [u8]> {
    shards.iter_mut().map(Vec::as_mut_slice).collect()
}

/// Positions spread evenly over the information.
pub(crate) fn lost_positions(information: usize, lost: usize) -> Vec<usize> {
    (0..lost).map(|i| i * information / lost).collect()
}

/// One line of a table.
pub(crate) struct Competitor<'a> {
    pub(crate) name: String,
    /// Runs once and returns its CPU nanoseconds.
    pub(crate) run: Box<dyn FnMut() -> u64 + 'a>,
    /// Whether a run codes the case's bytes repeatedly.
    pub(crate) repeats: bool,
}

impl<'a> Competitor<'a> {
    /// A competitor on this thread, timed by its CPU clock.
    pub(crate) fn on_this_thread(name: &str, mut work: impl FnMut() + 'a) -> Self {
        let run = Box::new(move || {
            let start = thread_cpu_ns();
            work();
            thread_cpu_ns() - start
        });
        Competitor { name: name.into(), run, repeats: true }
    }
}

fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(result, 0, "clock_gettime failed");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

pub(crate) struct Bench {
    pub(crate) quick: bool,
    pub(crate) filter: String,
}

impl Bench {
    pub(crate) fn is_selected(&self, title: &str) -> bool {
        title.contains(&self.filter)
    }

    /// Prints a table of competitors that each code `bytes` per run.
    pub(crate) fn case(&self, title: &str, bytes: usize, competitors: Vec<Competitor<'_>>) {
        self.case_repeated(title, bytes, 1, competitors);
    }

    /// Like [`Bench::case`], but competitors on this thread code `bytes` that many `times` per run.
    pub(crate) fn case_repeated(&self, title: &str, bytes: usize, times: usize, mut competitors: Vec<Competitor<'_>>) {
        if !self.is_selected(title) {
            return;
        }
        println!("\n{title} ({:.0} MB)", bytes as f64 / 1e6);
        let rounds = match (self.quick, bytes > 300_000_000) {
            (true, _) => 3,
            (false, true) => 5,
            (false, false) => 11,
        };
        let mut rates: Vec<Vec<f64>> = competitors.iter().map(|_| Vec::new()).collect();
        for round in 0..=rounds {
            for (competitor, rates) in competitors.iter_mut().zip(&mut rates) {
                let bytes = if competitor.repeats { bytes * times } else { bytes };
                let rate = bytes as f64 / (competitor.run)() as f64;
                // Skip the first round: it faults pages in and fills tables.
                if round > 0 {
                    rates.push(rate);
                }
            }
        }
        for (competitor, rates) in competitors.iter().zip(&mut rates) {
            rates.sort_by(f64::total_cmp);
            let (low, high) = (rates[0], rates[rates.len() - 1]);
            println!("  {:<40} {:6.3} GB/s  [{low:.3}-{high:.3}]", competitor.name, rates[rates.len() / 2]);
        }
    }
}
