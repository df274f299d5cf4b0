//! Statistics: properties of the requests in a stream of reads, compared with published figures. A
//! request is for one file; its reads are the file's shards.
//!
//! Each row gives the value measured on the stream, the published value if any, and its source.

use std::fmt;

use fulgurite_domain::Micros;

use crate::Read;

const MIB: u64 = 1 << 20;

/// Figures of the requests whose reads were observed, in order of time. Memory use is 8 bytes per
/// hour with a request.
#[derive(Debug, Clone, Default)]
pub struct Statistics {
    requests: u64,
    up_to_4_mib: Sum,
    under_10_mib: Sum,
    over_256_mib: Sum,
    all: Sum,
    shards: u64,
    smallest: Option<u64>,
    largest: u64,
    first: Option<Micros>,
    last: Micros,
    hours: Hours,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    requests: u64,
    bytes: u128,
}

impl Sum {
    fn add(&mut self, bytes: u64) {
        self.requests += 1;
        self.bytes += u128::from(bytes);
    }
}

/// Requests per hour.
#[derive(Debug, Clone, Default)]
struct Hours {
    /// The first and the last hour with a request.
    first: u64,
    last: u64,
    counts: Vec<u64>,
}

/// A published figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Published {
    /// No published figure.
    Nothing,
    /// This value.
    Exactly(f64),
    /// About this value.
    About(f64),
    /// Less than this.
    Below(f64),
    /// Up to this, depending on the case.
    UpTo(f64),
}

impl fmt::Display for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (words, value) = match *self {
            Self::Nothing => return f.pad("-"),
            Self::Exactly(value) => ("", value),
            Self::About(value) => ("about ", value),
            Self::Below(value) => ("under ", value),
            Self::UpTo(value) => ("up to ", value),
        };
        f.pad(&format!("{words}{}", Figure(value)))
    }
}

/// One figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StatisticRow {
    /// The measured property, with its unit.
    pub name: &'static str,
    /// Measured on the requests observed; `None` if undefined; infinite relative to a median of 0.
    pub generated: Option<f64>,
    /// The published figure.
    pub published: Published,
    /// Where it was published; empty if nowhere.
    pub source: &'static str,
}

impl fmt::Display for StatisticRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let generated = self.generated.map_or_else(|| String::from("-"), |value| Figure(value).to_string());
        write!(f, "{:<46} {generated:>12}  {:<14} {}", self.name, self.published, self.source)
    }
}

/// Formats a number with about four significant digits; whole numbers below 10^7 in full.
struct Figure(f64);

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.0.abs();
        if self.0.is_infinite() {
            f.write_str("infinite")
        } else if size < 1e7 && f64::from(self.0 as i32) == self.0 {
            write!(f, "{}", self.0)
        } else if !(1e-3..1e5).contains(&size) {
            write!(f, "{:.3e}", self.0)
        } else if size < 10.0 {
            f.write_str(format!("{:.4}", self.0).trim_end_matches('0').trim_end_matches('.'))
        } else {
            write!(f, "{:.1}", self.0)
        }
    }
}

impl Statistics {
    /// Adds a read. A request counts once, by its first shard, with the size of its whole file.
    pub fn observe(&mut self, read: &Read) {
        self.shards += 1;
        if read.shard > 0 {
            return;
        }
        self.requests += 1;
        let bytes = read.file_bytes;
        self.all.add(bytes);
        if bytes <= 4 * MIB {
            self.up_to_4_mib.add(bytes);
        }
        if bytes < 10 * MIB {
            self.under_10_mib.add(bytes);
        }
        if bytes > 256 * MIB {
            self.over_256_mib.add(bytes);
        }
        self.smallest = Some(self.smallest.map_or(bytes, |smallest| smallest.min(bytes)));
        self.largest = self.largest.max(bytes);
        self.first.get_or_insert(read.at);
        self.last = read.at;
        self.hours.observe(read.at);
    }

    /// Number of requests observed.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// All figures.
    #[must_use]
    pub fn rows(&self) -> Vec<StatisticRow> {
        use Published::{About, Below, Exactly, Nothing, UpTo};
        const PAPER_SECTION_2: &str = "Project Silica, section 2";
        let requests_share = |sum: Sum| ratio(sum.requests as f64, self.requests as f64);
        let bytes_share = |sum: Sum| ratio(sum.bytes as f64, self.all.bytes as f64);
        let span = self.first.map(|first| self.last.since(first).seconds()).filter(|span| *span > 0.0);
        let orders_of_magnitude =
            self.smallest.filter(|smallest| *smallest > 0).map(|smallest| libm::log10(self.largest as f64 / smallest as f64));
        let row = |name, generated, published, source| StatisticRow { name, generated, published, source };
        vec![
            row("requests", Some(self.requests as f64), Nothing, ""),
            row("shards a request", ratio(self.shards as f64, self.requests as f64), Nothing, ""),
            row("requests a second", span.and_then(|span| ratio(self.requests as f64, span)), Nothing, ""),
            row("bytes a second", span.and_then(|span| ratio(self.all.bytes as f64, span)), Nothing, ""),
            row("requests up to 4 MiB, of all requests", requests_share(self.up_to_4_mib), Exactly(0.587), PAPER_SECTION_2),
            row("requests up to 4 MiB, of all bytes", bytes_share(self.up_to_4_mib), Exactly(0.012), PAPER_SECTION_2),
            row("requests under 10 MiB, of all requests", requests_share(self.under_10_mib), Exactly(0.8), PAPER_SECTION_2),
            row("requests over 256 MiB, of all requests", requests_share(self.over_256_mib), Below(0.02), PAPER_SECTION_2),
            row("requests over 256 MiB, of all bytes", bytes_share(self.over_256_mib), About(0.85), PAPER_SECTION_2),
            row("largest over smallest, orders of magnitude", orders_of_magnitude, About(10.0), PAPER_SECTION_2),
            row("mean file, bytes", ratio(self.all.bytes as f64, self.requests as f64), About(1e8), PAPER_SECTION_2),
            row("hourly requests, 99.9th percentile over median", self.hours.tail_over_median(), UpTo(1e7), PAPER_SECTION_2),
            row("hourly requests, peak over mean", self.hours.peak_over_mean(), Nothing, ""),
        ]
    }
}

impl fmt::Display for Statistics {
    /// A table with one row per line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<46} {:>12}  {:<14} source", "figure", "here", "published")?;
        self.rows().iter().try_for_each(|row| writeln!(f, "{row}"))
    }
}

fn ratio(value: f64, base: f64) -> Option<f64> {
    (base > 0.0).then(|| value / base)
}

impl Hours {
    fn observe(&mut self, at: Micros) {
        let hour = at.0 / Micros::HOUR.0;
        if self.counts.is_empty() {
            self.first = hour;
        }
        match self.counts.last_mut() {
            Some(count) if hour == self.last => *count += 1,
            _ => self.counts.push(1),
        }
        self.last = hour;
    }

    /// Hours from the first to the last one with a request, including those without.
    fn count(&self) -> u64 {
        if self.counts.is_empty() { 0 } else { self.last - self.first + 1 }
    }

    /// The count that this share of all hours doesn't exceed. `sorted` lacks the hours without
    /// requests.
    fn quantile(&self, sorted: &[u64], share: f64) -> u64 {
        let rank = ((self.count() as f64 * share).ceil() as u64).max(1);
        let empty = self.count() - sorted.len() as u64;
        if rank <= empty { 0 } else { sorted[(rank - empty - 1) as usize] }
    }

    fn tail_over_median(&self) -> Option<f64> {
        // With fewer hours, the 99.9th percentile would be the maximum.
        if self.count() < 1000 {
            return None;
        }
        let mut sorted = self.counts.clone();
        sorted.sort_unstable();
        let (tail, median) = (self.quantile(&sorted, 0.999), self.quantile(&sorted, 0.5));
        (tail > 0).then(|| tail as f64 / median as f64)
    }

    fn peak_over_mean(&self) -> Option<f64> {
        let peak = *self.counts.iter().max()?;
        ratio(peak as f64 * self.count() as f64, self.counts.iter().sum::<u64>() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arrivals, Demand, Platters, SHARD_BYTES, Sizes, Source, Spec};

    fn read(hour: u64, bytes: u64, shard: u32) -> Read {
        Read {
            at: Micros(hour * Micros::HOUR.0),
            request: 0,
            group: 0,
            object: 0,
            file_bytes: bytes,
            bytes,
            platter: 0,
            first_track: 0,
            tracks: 1,
            shard,
            shards: shard + 1,
        }
    }

    fn figure(statistics: &Statistics, name: &str) -> Option<f64> {
        statistics.rows().into_iter().find(|row| row.name.starts_with(name)).unwrap_or_else(|| panic!("no row {name}")).generated
    }

    #[test]
    fn sizes_on_an_edge_count_as_published() {
        let mut statistics = Statistics::default();
        for bytes in [4 * MIB, 4 * MIB + 1, 10 * MIB, 256 * MIB, 256 * MIB + 1] {
            statistics.observe(&read(0, bytes, 0));
            statistics.observe(&read(0, bytes, 1));
        }
        assert_eq!(figure(&statistics, "requests up to 4 MiB, of all requests"), Some(0.2));
        assert_eq!(figure(&statistics, "requests under 10 MiB"), Some(0.4));
        assert_eq!(figure(&statistics, "requests over 256 MiB, of all requests"), Some(0.2));
        assert_eq!(figure(&statistics, "shards a request"), Some(2.0));
        assert_eq!(figure(&statistics, "mean file"), Some((530 * MIB + 2) as f64 / 5.0));
    }

    #[test]
    fn hours_without_a_request_count() {
        let mut statistics = Statistics::default();
        // 2,000 hours: 1,499 with one request, one with 50, the rest without.
        for hour in (0..1500).filter(|hour| *hour != 7) {
            statistics.observe(&read(hour, 1, 0));
            if hour == 9 {
                (0..49).for_each(|_| statistics.observe(&read(hour, 1, 0)));
            }
        }
        statistics.observe(&read(1999, 1, 0));
        assert_eq!(figure(&statistics, "hourly requests, 99.9th"), Some(1.0));
        assert_eq!(figure(&statistics, "hourly requests, peak"), Some(50.0 * 2000.0 / 1549.0));
        let mut sparse = Statistics::default();
        for hour in [0, 1, 2, 3, 1000] {
            sparse.observe(&read(hour, 1, 0));
        }
        assert_eq!(figure(&sparse, "hourly requests, 99.9th"), Some(f64::INFINITY));
    }

    #[test]
    fn an_empty_stream_has_no_figures() {
        let statistics = Statistics::default();
        assert_eq!(statistics.requests(), 0);
        assert!(statistics.rows().iter().skip(1).all(|row| row.generated.is_none()));
        assert!(statistics.to_string().contains("up to 1.000e7"));
    }

    #[test]
    fn a_long_run_of_modulated_arrivals_has_a_heavy_tail() {
        let arrivals =
            Arrivals::Modulated { median_per_second: 0.003, spread: 1e3, period: Micros::HOUR, persistence: 0.5, most_per_second: 100.0 };
        let spec = Spec {
            platters: Platters::new(1000),
            shard_bytes: SHARD_BYTES,
            until: Micros(20_000 * Micros::HOUR.0),
            sources: vec![Source::plain(arrivals, Sizes::PUBLISHED)],
        };
        let mut statistics = Statistics::default();
        Demand::new(&spec, 12).unwrap().for_each(|read| statistics.observe(&read));
        let tail = figure(&statistics, "hourly requests, 99.9th").unwrap();
        assert!((500.0..2000.0).contains(&tail), "seed 12: {tail}");
    }
}
