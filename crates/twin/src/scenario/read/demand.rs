//! Settings of the workload, of what is measured, and of the expected results.

use fulgurite_decode::Policy;
use fulgurite_domain::Micros;
use fulgurite_settings::setting_type::{bytes, choice, count, duration, file, flag, frequency, number, per_hour, rate, share};
use fulgurite_settings::{Reader, Section};
use fulgurite_workload::AccountLayout;

use crate::scenario::{Bursts, Decode, Expectations, Ingest, Pattern, RunSettings, Scenario, SizeLaw, Steady, Workload, WorkloadKind};

const PATTERNS: [(&str, Pattern); 3] = [("poisson", Pattern::Poisson), ("constant", Pattern::Constant), ("modulated", Pattern::Modulated)];
const SIZE_LAWS: [(&str, SizeLaw); 3] = [("mixture", SizeLaw::Mixture), ("fixed", SizeLaw::Fixed), ("exponential", SizeLaw::Exponential)];
const DECODE_POLICIES: [(&str, Policy); 2] = [("cheapest", Policy::Cheapest), ("at-once", Policy::AtOnce)];
const LAYOUTS: [(&str, AccountLayout); 2] = [("together", AccountLayout::Together), ("scattered", AccountLayout::Scattered)];

pub(super) fn workload(reader: &mut Reader, base: &Workload) -> Workload {
    let mut section = reader.section(
        "workload",
        "The requests. A preset supplies all numbers, and each can be overridden; the defaults listed here\n\
         are those of `typical`. [The workload](workload.md) lists the other presets.",
    );
    let kind = section.setting_or("preset", choice(&WorkloadKind::ALL), base.kind, "Preset that supplies the defaults, or `trace`.");
    let base = if kind == base.kind { base.clone() } else { Workload::preset(kind) };
    let trace = section.optional_or(
        "trace",
        file(),
        base.trace,
        "A CSV or Parquet file, if `preset` is `trace`; of the other settings only `shard` and `deadline` then apply.",
    );
    let rate = section.setting_or(
        "rate",
        frequency(..="1000000 /s"),
        base.rate,
        "Mean request rate, including bursts; for modulated arrivals, the median rate outside of bursts.",
    );
    let shared = Workload {
        kind,
        trace,
        rate,
        zipf: section.setting_or("zipf", number(0.0..=20.0), base.zipf, "Exponent of Zipf's law over platters; 0 is uniform."),
        layout: section.setting_or("accounts", choice(&LAYOUTS), base.layout, "Placement of an account's files."),
        shard_bytes: section.setting_or("shard", bytes("1 B"..), base.shard_bytes, "Largest piece of a file on one platter."),
        deadline: Some(section.setting_or(
            "deadline",
            duration(..),
            base.deadline.unwrap_or(Micros::ZERO),
            "Time from a request's arrival until its last byte is wanted; 0 s if it isn't urgent.",
        ))
        .filter(|deadline| *deadline > Micros::ZERO),
        steady: base.steady,
        bursts: base.bursts,
    };
    let steady = steady(&mut section.section("steady", "Requests outside of bursts."), &base.steady);
    let bursts =
        bursts(&mut section.section("bursts", "Bursts: a fixed number in each period, one in each of its equal parts."), &base.bursts);
    Workload { steady, bursts, ..shared }
}

fn steady(section: &mut Section<'_>, base: &Steady) -> Steady {
    Steady {
        pattern: section.setting_or("arrivals", choice(&PATTERNS), base.pattern, "Arrival pattern."),
        sizes: section.setting_or("sizes", choice(&SIZE_LAWS), base.sizes, "File sizes; `mixture` is the published law."),
        mean_bytes: section.setting_or("mean", bytes("1 B"..), base.mean_bytes, "Mean size."),
        largest_bytes: section.setting_or("largest", bytes("1 GB"..="1 TB"), base.largest_bytes, "Largest file of a mixture."),
        account_files: section.setting_or(
            "account_files",
            count(1..=100_000_000),
            base.account_files,
            "Files of an account, which are requested together.",
        ),
        spread: section.setting_or("spread", number(1.0..=1e12), base.spread, "Modulated: the rate's 99.9th percentile over its median."),
        period: section.setting_or("period", duration("1 s"..), base.period, "Modulated: how long each rate lasts."),
        persistence: section.setting_or(
            "persistence",
            number(0.0..1.0),
            base.persistence,
            "Modulated: correlation of the rate between successive periods.",
        ),
        most: section.setting_or("most", frequency(..="1000000 /s"), base.most, "Modulated: maximum rate of accounts."),
    }
}

fn bursts(section: &mut Section<'_>, base: &Bursts) -> Bursts {
    Bursts {
        period: section.setting_or("period", duration("1 s"..), base.period, "Length of a period."),
        count: section.setting_or("count", count(0..=1_000_000), base.count, "Bursts in a period; 0 for none."),
        arrivals: section.setting_or("arrivals", count(1..=1_000_000_000), base.arrivals, "Accounts requested in a burst."),
        account_files: section.setting_or(
            "account_files",
            count(1..=100_000_000),
            base.account_files,
            "Files of an account, which are requested together.",
        ),
        over: section.setting_or("over", duration(..), base.over, "How long a burst lasts."),
        jitter: section.setting_or("jitter", number(0.0..=1.0), base.jitter, "Maximum delay of a burst, as a share of its spare time."),
        sizes: section.setting_or("sizes", choice(&SIZE_LAWS), base.sizes, "File sizes."),
        mean_bytes: section.setting_or("mean", bytes("1 B"..), base.mean_bytes, "Mean size."),
        largest_bytes: section.setting_or("largest", bytes("1 GB"..="1 TB"), base.largest_bytes, "Largest file of a mixture."),
    }
}

pub(super) fn ingest(reader: &mut Reader, base: &Scenario) -> Option<Ingest> {
    let mut section = reader.section("ingest", "What is written during a run.");
    let used = section.setting_or("used", flag(), base.ingest.is_some(), "Whether it is simulated; needs `verification.of` = `written`.");
    let known = base.ingest.unwrap_or_default();
    let ingest = Ingest {
        bytes_per_day: section.setting_or(
            "bytes_per_day",
            bytes("1 B"..),
            known.bytes_per_day,
            "Mean content ingested by all libraries together. Redundancy is written in addition.",
        ),
        sigma: section.setting_or("sigma", number(0.0..=5.0), known.sigma, "Standard deviation of the logarithm of a day's bytes."),
        persistence: section.setting_or("persistence", number(0.0..1.0), known.persistence, "Correlation between successive days."),
        headroom: section.setting_or("headroom", number(1.0..=1e6), known.headroom, "Capacity of the write drives over the mean; above 1."),
        room: section.setting_or(
            "room",
            count(0..=100_000_000),
            known.room,
            "Platters that each library has room for, beyond those at the start; once it is full, platters are written elsewhere.",
        ),
    };
    used.then_some(ingest)
}

pub(super) fn decode(reader: &mut Reader, base: &Scenario) -> Option<Decode> {
    let mut section = reader.section("decode", "The decode service that processes what leaves the libraries. It is reported separately.");
    let used = section.setting_or("used", flag(), base.decode.is_some(), "Whether it is simulated.");
    let Decode { service, throughput_bytes_s } = base.decode.clone().unwrap_or_default();
    let throughput_bytes_s = section.setting_or("throughput", rate("1 B/s"..="1 TB/s"), throughput_bytes_s, "Throughput of one worker.");
    let service = fulgurite_decode::Settings {
        policy: section.setting_or(
            "policy",
            choice(&DECODE_POLICIES),
            service.policy,
            "`cheapest`: in the cheapest hours before the deadlines; `at-once`: as soon as workers are available.",
        ),
        workers: section.setting_or("workers", per_hour(count(0..=10_000_000)), service.workers, "Available workers."),
        prices: section.setting_or("prices", per_hour(number(0.0..=1e9)), service.prices, "Price of a worker for an hour."),
        margin: section.setting_or("margin", duration(..), service.margin, "How long before its deadline a job should finish."),
        reserve: section.setting_or("reserve", share("0 %"..="99 %"), service.reserve, "Share of each later hour that is left unplanned."),
        leisure: section.setting_or("leisure", duration("1 s"..), service.leisure, "How long jobs without a deadline may wait."),
        jobs_max: section.setting_or("jobs", count(1..=1_000_000_000), service.jobs_max, "Maximum number of waiting requests."),
    };
    used.then_some(Decode { service, throughput_bytes_s })
}

pub(super) fn run(reader: &mut Reader, base: &RunSettings) -> RunSettings {
    let mut section = reader.section("run", "What is measured.");
    RunSettings {
        warm_up: section.setting_or("warm_up", duration(..), base.warm_up, "Time before the measured interval."),
        measured: section.setting_or("measured", duration("1 s"..), base.measured, "Length of the interval in which requests count."),
        cool_down: section.setting_or(
            "cool_down",
            duration(..),
            base.cool_down,
            "Maximum time after the interval for counted requests to end. Those that don't are censored: a run reports lower bounds of completion times and fails.",
        ),
        seed: section.setting_or("seed", count(0..=u64::MAX), base.seed, "The first seed."),
        seeds: section.setting_or("seeds", count(1..=1_000_000), base.seeds, "Number of seeds of a sweep, from the first one on."),
    }
}

pub(super) fn expect(reader: &mut Reader, base: &Expectations) -> Expectations {
    let mut section = reader.section("expect", "Expected results. Every scenario also expects that every request ends.");
    Expectations {
        tail_at_most: section.optional_or("tail", duration(..), base.tail_at_most, "Maximum 99.9th percentile of completion times."),
        longest_at_most: section.optional_or("longest", duration(..), base.longest_at_most, "Maximum of the longest completion time."),
        mean_at_most: section.optional_or("mean", duration(..), base.mean_at_most, "Maximum mean completion time."),
        lost_at_most: section.setting_or(
            "lost",
            share("0 %"..="100 %"),
            base.lost_at_most,
            "Maximum share of requests that end without their bytes.",
        ),
        tail_over_bound_at_most: section.optional_or(
            "tail_over_bound",
            number(1.0..),
            base.tail_over_bound_at_most,
            "Maximum ratio of the tail to the bound that no policy can beat.",
        ),
        unverified_at_most: section.optional_or(
            "unverified",
            count(0..=u32::MAX),
            base.unverified_at_most,
            "Maximum number of written platters that wait to be verified or are being verified.",
        ),
    }
}
