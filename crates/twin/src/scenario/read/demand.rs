//! The settings of what is asked for, what is measured and what has to come out.

use fulgurite_domain::Micros;
use fulgurite_workload::AccountLayout;

use crate::decode;
use crate::scenario::{Bursts, Decode, Expectations, Ingest, Pattern, RunSettings, Scenario, SizeLaw, Steady, Workload, WorkloadKind};
use crate::settings::kind::{bytes, choice, count, duration, file, flag, frequency, number, per_hour, rate, share};
use crate::settings::{Reader, Section};

const PATTERNS: [(&str, Pattern); 3] = [("poisson", Pattern::Poisson), ("constant", Pattern::Constant), ("modulated", Pattern::Modulated)];
const SIZE_LAWS: [(&str, SizeLaw); 3] = [("mixture", SizeLaw::Mixture), ("fixed", SizeLaw::Fixed), ("exponential", SizeLaw::Exponential)];
const DECODE_POLICIES: [(&str, decode::Policy); 2] = [("cheapest", decode::Policy::Cheapest), ("at-once", decode::Policy::AtOnce)];
const LAYOUTS: [(&str, AccountLayout); 2] = [("together", AccountLayout::Together), ("scattered", AccountLayout::Scattered)];

pub(super) fn workload(reader: &mut Reader, base: &Workload) -> Workload {
    let mut section = reader.section(
        "workload",
        "What is asked for. A preset brings all numbers, of which any can be changed; the defaults given here are those of `typical`. \
         [The workload](workload.md) has the others'.",
    );
    let kind = section.setting_or("preset", choice(&WorkloadKind::ALL), base.kind, "Whose numbers to begin with, or `trace`.");
    let base = if kind == base.kind { base.clone() } else { Workload::preset(kind) };
    let trace = section.optional_or(
        "trace",
        file(),
        base.trace,
        "A CSV or Parquet file, where `preset` is `trace`; nothing else here is then of effect.",
    );
    let rate = section.setting_or(
        "rate",
        frequency(..="1000000 /s"),
        base.rate,
        "Requests in the mean, those of bursts included; for modulated arrivals the median rate outside of bursts.",
    );
    let shared = Workload {
        kind,
        trace,
        rate,
        zipf: section.setting_or("zipf", number(0.0..=20.0), base.zipf, "Exponent of Zipf's law over platters; 0 is uniform."),
        layout: section.setting_or("accounts", choice(&LAYOUTS), base.layout, "Where the files of an account lie."),
        shard_bytes: section.setting_or("shard", bytes("1 B"..), base.shard_bytes, "The largest piece of a file on one platter."),
        deadline: Some(section.setting_or(
            "deadline",
            duration(..),
            base.deadline.unwrap_or(Micros::ZERO),
            "How long after its arrival a request's last byte is wanted; 0 s for at leisure.",
        ))
        .filter(|deadline| *deadline > Micros::ZERO),
        steady: base.steady,
        bursts: base.bursts,
    };
    let steady = steady(&mut section.section("steady", "Requests outside of bursts."), &base.steady);
    let bursts =
        bursts(&mut section.section("bursts", "Bursts: in each period so many, in parts of it that are of equal length."), &base.bursts);
    Workload { steady, bursts, ..shared }
}

fn steady(section: &mut Section<'_>, base: &Steady) -> Steady {
    Steady {
        pattern: section.setting_or("arrivals", choice(&PATTERNS), base.pattern, "When they come."),
        sizes: section.setting_or("sizes", choice(&SIZE_LAWS), base.sizes, "How large the files are; `mixture` is the published law."),
        mean_bytes: section.setting_or("mean", bytes("1 B"..), base.mean_bytes, "Mean size."),
        largest_bytes: section.setting_or("largest", bytes("1 GB"..="1 TB"), base.largest_bytes, "The largest file of a mixture."),
        account_files: section.setting_or(
            "account_files",
            count(1..=100_000_000),
            base.account_files,
            "Files of an account, which are requested together.",
        ),
        spread: section.setting_or("spread", number(1.0..=1e12), base.spread, "Modulated: the rate's 99.9th percentile over its median."),
        period: section.setting_or("period", duration("1 s"..), base.period, "Modulated: how long a rate lasts."),
        persistence: section.setting_or(
            "persistence",
            number(0.0..1.0),
            base.persistence,
            "Modulated: how much one period's rate is like the last one's.",
        ),
        most: section.setting_or("most", frequency(..="1000000 /s"), base.most, "Modulated: the highest rate of accounts."),
    }
}

fn bursts(section: &mut Section<'_>, base: &Bursts) -> Bursts {
    Bursts {
        period: section.setting_or("period", duration("1 s"..), base.period, "After it the next ones come."),
        count: section.setting_or("count", count(0..=1_000_000), base.count, "Bursts in a period; 0 for none."),
        arrivals: section.setting_or("arrivals", count(1..=1_000_000_000), base.arrivals, "Accounts asked for in a burst."),
        account_files: section.setting_or(
            "account_files",
            count(1..=100_000_000),
            base.account_files,
            "Files of an account, which are requested together.",
        ),
        over: section.setting_or("over", duration(..), base.over, "How long a burst lasts."),
        jitter: section.setting_or("jitter", number(0.0..=1.0), base.jitter, "Share of its spare time by which a burst may be late."),
        sizes: section.setting_or("sizes", choice(&SIZE_LAWS), base.sizes, "How large the files are."),
        mean_bytes: section.setting_or("mean", bytes("1 B"..), base.mean_bytes, "Mean size."),
        largest_bytes: section.setting_or("largest", bytes("1 GB"..="1 TB"), base.largest_bytes, "The largest file of a mixture."),
    }
}

pub(super) fn ingest(reader: &mut Reader, base: &Scenario) -> Option<Ingest> {
    let mut section = reader.section("ingest", "What is written meanwhile.");
    let used = section.setting_or("used", flag(), base.ingest.is_some(), "Whether anything is; `verification.of` is `written` then.");
    let known = base.ingest.unwrap_or_default();
    let ingest = Ingest {
        bytes_per_day: section.setting_or(
            "bytes_per_day",
            bytes("1 B"..),
            known.bytes_per_day,
            "Content that comes in, in the mean, to all libraries together. Redundancy is written beside it.",
        ),
        sigma: section.setting_or("sigma", number(0.0..=5.0), known.sigma, "Standard deviation of the logarithm of a day's bytes."),
        persistence: section.setting_or("persistence", number(0.0..1.0), known.persistence, "How much a day is like the last one."),
        headroom: section.setting_or("headroom", number(1.0..=1e6), known.headroom, "What write drives can write, over the mean; above 1."),
        room: section.setting_or(
            "room",
            count(0..=100_000_000),
            known.room,
            "Platters that each library has room for beside those that are there; what comes when it is full is written elsewhere.",
        ),
    };
    used.then_some(ingest)
}

pub(super) fn decode(reader: &mut Reader, base: &Scenario) -> Option<Decode> {
    let mut section = reader.section("decode", "The decode service behind the libraries. It is reported apart.");
    let used = section.setting_or("used", flag(), base.decode.is_some(), "Whether it is.");
    let Decode { service, throughput_bytes_s } = base.decode.clone().unwrap_or_default();
    let throughput_bytes_s = section.setting_or("throughput", rate("1 B/s"..="1 TB/s"), throughput_bytes_s, "What one worker decodes.");
    let service = decode::Settings {
        policy: section.setting_or(
            "policy",
            choice(&DECODE_POLICIES),
            service.policy,
            "`cheapest`: in the cheapest hours before the deadlines; `at-once`: as soon as there are workers.",
        ),
        workers: section.setting_or("workers", per_hour(count(0..=10_000_000)), service.workers, "Workers that can be had."),
        prices: section.setting_or("prices", per_hour(number(0.0..=1e9)), service.prices, "What one costs in an hour."),
        margin: section.setting_or("margin", duration(..), service.margin, "How long before its deadline something is to be done."),
        reserve: section.setting_or("reserve", share("0 %"..="99 %"), service.reserve, "Of every later hour, what is not planned for."),
        leisure: section.setting_or("leisure", duration("1 s"..), service.leisure, "How long what has no deadline may wait."),
        jobs_max: section.setting_or("jobs", count(1..=1_000_000_000), service.jobs_max, "Requests that may wait."),
    };
    used.then_some(Decode { service, throughput_bytes_s })
}

pub(super) fn run(reader: &mut Reader, base: &RunSettings) -> RunSettings {
    let mut section = reader.section("run", "What is measured.");
    RunSettings {
        warm_up: section.setting_or("warm_up", duration(..), base.warm_up, "Time before the measured interval."),
        measured: section.setting_or("measured", duration("1 s"..), base.measured, "Requests that arrive in this interval count."),
        cool_down: section.setting_or(
            "cool_down",
            duration(..),
            base.cool_down,
            "The longest that requests which count may go on behind it; a run that takes longer fails.",
        ),
        seed: section.setting_or("seed", count(0..=u64::MAX), base.seed, "The first seed."),
        seeds: section.setting_or("seeds", count(1..=1_000_000), base.seeds, "How many seeds a sweep runs, from the first on."),
    }
}

pub(super) fn expect(reader: &mut Reader, base: &Expectations) -> Expectations {
    let mut section = reader.section("expect", "What has to come out. That every request ends is expected of all scenarios.");
    Expectations {
        tail_at_most: section.optional_or("tail", duration(..), base.tail_at_most, "99.9th percentile of completion times, at most."),
        longest_at_most: section.optional_or("longest", duration(..), base.longest_at_most, "The longest completion time, at most."),
        mean_at_most: section.optional_or("mean", duration(..), base.mean_at_most, "The mean completion time, at most."),
        lost_at_most: section.setting_or(
            "lost",
            share("0 %"..="100 %"),
            base.lost_at_most,
            "Share of the requests that end without their bytes, at most.",
        ),
        tail_over_bound_at_most: section.optional_or(
            "tail_over_bound",
            number(1.0..),
            base.tail_over_bound_at_most,
            "The tail over the bound that no policy can beat, at most.",
        ),
    }
}
