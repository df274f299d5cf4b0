//! What a report says, as numbers.

use std::collections::BTreeMap;

use super::episodes::{Slowdown, slowdowns};
use crate::copy::{FileId, Method, NodeId, State};
use crate::database::{Age, AuditDatabase, Benchmark, BenchmarkRecord, DatabaseError, Hour, Problem, UnfinishedImport};
use crate::expectation::Expectation;
use crate::matrix;
use crate::node::{DAY_S, Node};
use crate::overdue::{Overdue, future_looks, overdue_looks};
use crate::series::{Probe, Series};
use crate::service_level::{DailyRule, DayVerdict, Projection, Tally, Window};
use crate::slowdown::Detector;

/// Problems that a report names; all are counted.
pub const NAMED_PROBLEMS: usize = 100;
/// Upper ends of the classes of ages, in days, without the last class, which has none.
pub const AGE_LIMITS_D: [u64; 7] = [1, 7, 30, 60, 90, 180, 365];

const HOUR_S: u64 = 3_600;
/// Hours of the ratios of times.
const RATIO_HOURS: u64 = 14 * 24;
/// Days from which rates and projections are computed, and days that are judged.
const WEEK: u64 = 7;
/// Ended slowdowns are reported for this long.
const ENDED_FOR_S: u64 = 30 * DAY_S;
/// A backlog that takes at most this many days shows that the node keeps up: its rate is then
/// bounded by what was due, not by what it can do.
const SMALL_BACKLOG_D: f64 = 1.0;
const TROUBLED: [State; 4] = [State::Missing, State::SizeMismatch, State::DigestMismatch, State::Unavailable];

/// What is known of an audit at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The time of the report, in seconds since 1970.
    pub now: u64,
    /// The nodes, in the order in which they were given.
    pub nodes: Vec<NodeSummary>,
    /// The last seven complete days in UTC, oldest first, judged over all nodes by
    /// [`DailyRule::CDL`]. The rule is for large archives: it doesn't affect
    /// [`is_well`](Self::is_well).
    pub days: Vec<Day>,
    /// The first [`NAMED_PROBLEMS`] copies that are lost, wrong or unavailable, in this order.
    pub problems: Vec<NamedProblem>,
    /// The benchmark matrix, by file, node and kind.
    pub benchmarks: Vec<NamedBenchmark>,
    /// Imports that were not completed: copies may be missing in this summary.
    pub unfinished_imports: Vec<UnfinishedImport>,
}

/// What was audited on a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Day {
    /// The day, counted from 1970 in UTC.
    pub day: u64,
    /// Copies whose bytes were read and compared.
    pub audited: Tally,
    /// The verdict on that.
    pub verdict: DayVerdict,
}

/// A problem, with the name of its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedProblem {
    /// The node's name.
    pub node: String,
    /// The problem.
    pub problem: Problem,
}

/// A benchmark, with the name of its node.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedBenchmark {
    /// The node's name.
    pub node: String,
    /// The benchmark.
    pub benchmark: Benchmark,
}

/// Ratios of measured to expected time, for one series.
#[derive(Debug, Clone, PartialEq)]
pub struct Ratios {
    /// The series.
    pub series: Series,
    /// The expected time: the operator's, else the detector's.
    pub expectation: Expectation,
    /// The hour, counted from 1970 in UTC, and the ratio of its sums. Hours without an answered
    /// check are left out.
    pub hours: Vec<(u64, f64)>,
    /// The ratio of the sums of the last 24 hours, if a check was answered in them.
    pub last_day: Option<f64>,
}

/// What is known of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeSummary {
    /// The node.
    pub node: Node,
    /// Copies by state, for all states.
    pub by_state: BTreeMap<State, Tally>,
    /// All copies.
    pub total: Tally,
    /// Copies whose bytes were never read and found right.
    pub never: Tally,
    /// Copies last verified longer ago than the node's interval, by whole days. For methods that
    /// read no bytes, copies last looked at longer ago than that and a day; their bytes are not
    /// counted.
    pub overdue: Tally,
    /// True if more copies than [`overdue`](Self::overdue) counts have been due for over a day.
    pub more_overdue: bool,
    /// Copies whose last verification or look is dated later than today: the clock was or is wrong.
    /// Bytes are counted for verifications only.
    pub future: Tally,
    /// The day of the oldest verification, counted from 1970 in UTC.
    pub oldest_day: Option<u64>,
    /// Copies by days since their last verification: one class for each of [`AGE_LIMITS_D`], each
    /// without its limit, and one for older ones.
    pub ages: [u64; AGE_LIMITS_D.len() + 1],
    /// Copies audited in the last 24 hours.
    pub last_day: Tally,
    /// Copies audited in the last seven days.
    pub last_week: Tally,
    /// Copies that wait: never verified (or looked at, by the node's method) or overdue, without
    /// those known to be lost or wrong, which wait for their repair.
    pub waiting: Tally,
    /// How long it takes until none waits, at the rate of the last days.
    pub remaining: Projection,
    /// How long a cycle over all copies takes at that rate. [`Projection::Complete`] while none
    /// waits: the rate then says nothing about the node.
    pub cycle: Projection,
    /// Ratios of measured to expected times, for each series with an expectation.
    pub ratios: Vec<Ratios>,
    /// Slowdowns: open ones, and those that ended within 30 days.
    pub slowdowns: Vec<Slowdown>,
    /// Benchmarks whose last reading got wrong bytes, or none.
    pub wrong_readings: u64,
}

/// Why all is not well.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Concern {
    /// Copies are lost or wrong.
    Bad(u64),
    /// Copies couldn't be read.
    Unavailable(u64),
    /// Copies are not verified by the node's method.
    Unverified(u64),
    /// Verifications, or looks, are older than the interval.
    Overdue(u64),
    /// More copies than this have been due for over a day.
    ManyOverdue(u64),
    /// Verifications or looks are dated later than today.
    Future(u64),
    /// A cycle takes this many days, longer than the interval.
    Slow(f64),
    /// Copies wait and no rate is known: nothing tells when they will be verified.
    Unknown,
    /// This many slowdowns are open.
    Slowdowns(u64),
    /// The last readings of this many known files got wrong bytes, or none.
    WrongReadings(u64),
    /// No copies are known.
    Empty,
}

impl Summary {
    /// Summarizes what a database knows of `nodes` at `now`, in seconds since 1970.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn read(database: &mut dyn AuditDatabase, nodes: &[Node], now: u64) -> Result<Self, DatabaseError> {
        let hour = now / HOUR_S;
        database.check_counts()?;
        // Read first: an import that isn't among them has added its copies before they are counted.
        let unfinished_imports = database.unfinished_imports()?;
        let (totals, ages, hours) = (database.totals()?, database.ages()?, database.hours(hour.saturating_sub(RATIO_HOURS))?);
        // A check dated later than now has a wrong date; whose clock is wrong is not known.
        let hours: Vec<Hour> = hours.into_iter().filter(|found| found.hour <= hour).collect();
        let slowdowns = slowdowns(database.incidents(0)?.into_iter().filter(|incident| nodes.iter().any(|node| node.id == incident.node)));
        let times = database.expected_times()?;
        let benchmarks = database.benchmarks()?;
        let records = database.benchmark_records_from(hour.saturating_sub(RATIO_HOURS) * HOUR_S)?;
        let mut summaries = Vec::new();
        for node in nodes {
            let mut summary = NodeSummary::new(node.clone());
            for total in totals.iter().filter(|total| total.node == node.id) {
                let tally = Tally { copies: total.copies, bytes: total.bytes };
                add(summary.by_state.entry(total.state).or_default(), tally);
                add(&mut summary.total, tally);
            }
            summary.wrong_readings = benchmarks.iter().filter(|benchmark| benchmark.node == node.id && benchmark.is_wrong()).count() as u64;
            summary.take_ages(&ages, now);
            summary.take_looks(overdue_looks(database, node, now)?, future_looks(database, node, now)?);
            let hours: Vec<&Hour> = hours.iter().filter(|hour| hour.node == node.id).collect();
            summary.take_rates(&hours, hour);
            for method in Method::ALL {
                let Some(expectation) = expectation(database, node, method)? else { continue };
                summary.ratios.push(Ratios::of_checks(method, expectation, &hours, hour));
            }
            for probe in Probe::ALL {
                let Some(expectation) = matrix::expectation(node, probe, &times) else { continue };
                let of_series = records.iter().filter(|record| record.node == node.id && record.probe == probe && record.at <= now);
                let ratios = Ratios::of_benchmarks(probe, expectation, of_series, hour);
                if !ratios.hours.is_empty() {
                    summary.ratios.push(ratios);
                }
            }
            let is_recent = |slowdown: &&Slowdown| slowdown.end.is_none_or(|end| end.at().saturating_add(ENDED_FOR_S) >= now);
            summary.slowdowns = slowdowns.iter().filter(|slowdown| slowdown.node == node.id).filter(is_recent).copied().collect();
            summaries.push(summary);
        }
        let problems = problems(database, nodes)?;
        let named = |benchmark: Benchmark| {
            let node = nodes.iter().find(|node| node.id == benchmark.node)?;
            Some(NamedBenchmark { node: node.name.clone(), benchmark })
        };
        let benchmarks = benchmarks.into_iter().filter_map(named).collect();
        Ok(Self { now, days: days(&hours, nodes, now), nodes: summaries, problems, benchmarks, unfinished_imports })
    }

    /// True only if there are nodes, no import is unfinished, every copy is verified by its node's
    /// method, none is overdue, no slowdown is open, no known file was read wrong, and each cycle
    /// ends within its interval.
    #[must_use]
    pub fn is_well(&self) -> bool {
        !self.nodes.is_empty() && self.unfinished_imports.is_empty() && self.nodes.iter().all(|node| node.concerns().is_empty())
    }

    /// Copies of all nodes in one state.
    #[must_use]
    pub fn count(&self, state: State) -> Tally {
        self.nodes.iter().fold(Tally::default(), |sum, node| plus(sum, node.count(state)))
    }

    /// All copies of all nodes.
    #[must_use]
    pub fn total(&self) -> Tally {
        self.nodes.iter().fold(Tally::default(), |sum, node| plus(sum, node.total))
    }

    /// True if there are enough copies that a day could do better than fail by the rule of
    /// [`days`](Self::days).
    #[must_use]
    pub fn is_large(&self) -> bool {
        self.total().copies > DailyRule::CDL.info.copies
    }

    /// Copies that are lost, wrong or unavailable, named or not.
    #[must_use]
    pub fn problem_count(&self) -> u64 {
        TROUBLED.into_iter().map(|state| self.count(state).copies).fold(0, u64::saturating_add)
    }
}

impl NodeSummary {
    fn new(node: Node) -> Self {
        Self {
            node,
            by_state: State::ALL.into_iter().map(|state| (state, Tally::default())).collect(),
            total: Tally::default(),
            never: Tally::default(),
            overdue: Tally::default(),
            more_overdue: false,
            future: Tally::default(),
            oldest_day: None,
            ages: [0; AGE_LIMITS_D.len() + 1],
            last_day: Tally::default(),
            last_week: Tally::default(),
            waiting: Tally::default(),
            remaining: Projection::Unknown,
            cycle: Projection::Unknown,
            ratios: Vec::new(),
            slowdowns: Vec::new(),
            wrong_readings: 0,
        }
    }

    /// Copies in one state.
    #[must_use]
    pub fn count(&self, state: State) -> Tally {
        self.by_state.get(&state).copied().unwrap_or_default()
    }

    /// Copies that are lost or wrong.
    #[must_use]
    pub fn bad(&self) -> Tally {
        State::ALL.into_iter().filter(|state| state.is_bad()).fold(Tally::default(), |sum, state| plus(sum, self.count(state)))
    }

    /// Copies whose last check found all that the node's method can find.
    #[must_use]
    pub fn verified(&self) -> Tally {
        let verified = self.count(State::Verified);
        if self.reads_bytes() {
            return verified;
        }
        plus(plus(verified, self.count(State::HeaderChecked)), self.count(State::ProviderAttested))
    }

    /// The node's interval in days.
    #[must_use]
    pub fn interval_days(&self) -> f64 {
        self.node.rules.interval.as_secs_f64() / DAY_S as f64
    }

    /// True if no copy waits, if few enough wait to be verified within a day, or if a whole cycle
    /// takes no longer than the interval. False if the projection is unknown.
    #[must_use]
    pub fn keeps_up(&self) -> bool {
        match self.remaining {
            Projection::Complete => true,
            Projection::Unknown => false,
            Projection::Days { days, .. } if days <= SMALL_BACKLOG_D.min(self.interval_days()) => true,
            Projection::Days { .. } => self.cycle.days().is_some_and(|days| days <= self.interval_days()),
        }
    }

    /// Slowdowns that have not ended.
    pub fn open_slowdowns(&self) -> impl Iterator<Item = &Slowdown> {
        self.slowdowns.iter().filter(|slowdown| slowdown.end.is_none())
    }

    /// Why all is not well with this node, worst first. Empty if all is well.
    #[must_use]
    pub fn concerns(&self) -> Vec<Concern> {
        if self.total.copies == 0 {
            return vec![Concern::Empty];
        }
        let (bad, unavailable) = (self.bad().copies, self.count(State::Unavailable).copies);
        let unverified = self.total.copies.saturating_sub(self.verified().copies).saturating_sub(bad).saturating_sub(unavailable);
        let slowdowns = self.open_slowdowns().count() as u64;
        let counted = [
            (bad, Concern::Bad(bad)),
            (unavailable, Concern::Unavailable(unavailable)),
            (unverified, Concern::Unverified(unverified)),
            (self.overdue.copies, if self.more_overdue { Concern::ManyOverdue } else { Concern::Overdue }(self.overdue.copies)),
            (self.future.copies, Concern::Future(self.future.copies)),
            (slowdowns, Concern::Slowdowns(slowdowns)),
            (self.wrong_readings, Concern::WrongReadings(self.wrong_readings)),
        ];
        let mut concerns: Vec<Concern> = counted.into_iter().filter(|(count, _)| *count > 0).map(|(_, concern)| concern).collect();
        if !self.keeps_up() {
            concerns.push(self.cycle.days().map_or(Concern::Unknown, Concern::Slow));
        }
        concerns
    }

    fn reads_bytes(&self) -> bool {
        self.node.rules.method == Method::Stream
    }

    fn take_ages(&mut self, ages: &[Age], now: u64) {
        let today = now / DAY_S;
        // The day on which a copy verified one interval ago was verified.
        let limit = now.saturating_sub(self.node.rules.interval.as_secs()) / DAY_S;
        for age in ages.iter().filter(|age| age.node == self.node.id) {
            let tally = Tally { copies: age.copies, bytes: age.bytes };
            let Some(day) = age.day else {
                add(&mut self.never, tally);
                continue;
            };
            if day > today {
                add(&mut self.future, tally);
                continue;
            }
            self.oldest_day = Some(self.oldest_day.map_or(day, |oldest| oldest.min(day)));
            let class = AGE_LIMITS_D.iter().position(|limit| today - day < *limit).unwrap_or(AGE_LIMITS_D.len());
            self.ages[class] = self.ages[class].saturating_add(age.copies);
            if day < limit && self.reads_bytes() {
                add(&mut self.overdue, tally);
            }
        }
    }

    fn take_looks(&mut self, looks: Overdue, future: u64) {
        // Both may be the same copies.
        self.future.copies = self.future.copies.max(future);
        add(&mut self.overdue, Tally { copies: looks.at_least(), bytes: 0 });
        self.more_overdue = looks.is_more();
    }

    /// Rates of days of 24 hours that end with the present hour. It counts as a whole one, so a
    /// rate is at most 1/24 too low, and never too high.
    fn take_rates(&mut self, hours: &[&Hour], hour: u64) {
        let mut days = [Tally::default(); WEEK as usize];
        for found in hours.iter().filter(|found| self.is_progress(found)) {
            if let Some(day) = days.get_mut(usize::try_from((hour - found.hour) / 24).unwrap_or(usize::MAX)) {
                add(day, Tally { copies: found.count, bytes: found.bytes });
            }
        }
        self.last_day = days[0];
        self.last_week = days.into_iter().fold(Tally::default(), plus);
        let mut waiting = if self.reads_bytes() {
            let waiting = plus(self.never, self.overdue);
            let bad = self.bad();
            Tally { copies: waiting.copies.saturating_sub(bad.copies), bytes: waiting.bytes.saturating_sub(bad.bytes) }
        } else {
            plus(plus(self.count(State::Unverified), self.count(State::Unavailable)), self.overdue)
        };
        if waiting.copies == 0 {
            waiting.bytes = 0;
        }
        self.waiting = waiting;
        // Days before a node's first check, or before the end of a pause, say nothing of its rate.
        let audited = days.iter().rposition(|day| day.copies > 0).map_or(&[][..], |oldest| &days[..=oldest]);
        let reads_bytes = self.reads_bytes();
        let by_bytes = |tally: Tally| if reads_bytes { tally } else { Tally { bytes: 0, ..tally } };
        let windows: Vec<Window> = audited.iter().map(|day| Window { seconds: DAY_S, audited: by_bytes(*day) }).collect();
        // Of a lower bound, an end would be too early.
        let left = if self.more_overdue { self.total } else { waiting };
        self.remaining = Projection::of(by_bytes(left), &windows);
        self.cycle = if waiting.copies == 0 { Projection::Complete } else { Projection::of(by_bytes(self.total), &windows) };
    }

    /// True for checks that the node's rate counts.
    fn is_progress(&self, hour: &Hour) -> bool {
        is_audited(hour) || (!self.reads_bytes() && matches!(hour.state, State::HeaderChecked | State::ProviderAttested))
    }
}

/// Measured and expected seconds, by hour.
type Sums = BTreeMap<u64, (f64, f64)>;

impl Ratios {
    fn of_checks(method: Method, expectation: Expectation, hours: &[&Hour], now_hour: u64) -> Self {
        let mut sums = Sums::new();
        let answered =
            |hour: &&&Hour| hour.method == method && hour.count > 0 && !matches!(hour.state, State::Unavailable | State::Missing);
        for found in hours.iter().filter(answered) {
            let expected = found.count as f64 * expectation.base_s() + found.bytes as f64 * expectation.slope_ns() * 1e-9;
            let sum = sums.entry(found.hour).or_default();
            *sum = (sum.0 + found.stream.as_secs_f64(), sum.1 + expected);
        }
        Self::new(Series::Checks(method), expectation, sums, now_hour)
    }

    /// Of the times that were expected when the records were made.
    fn of_benchmarks<'a>(
        probe: Probe,
        expectation: Expectation,
        records: impl Iterator<Item = &'a BenchmarkRecord>,
        now_hour: u64,
    ) -> Self {
        let mut sums = Sums::new();
        for record in records {
            if let (Some(expected), Some(_)) = (record.expected_s, record.ratio()) {
                let sum = sums.entry(record.at / HOUR_S).or_default();
                *sum = (sum.0 + record.measured.as_secs_f64(), sum.1 + expected);
            }
        }
        Self::new(Series::Benchmarks(probe), expectation, sums, now_hour)
    }

    fn new(series: Series, expectation: Expectation, sums: Sums, now_hour: u64) -> Self {
        let recent = sums.range(now_hour.saturating_sub(23)..);
        let (measured, expected) = recent.fold((0.0, 0.0), |sum, (_, hour)| (sum.0 + hour.0, sum.1 + hour.1));
        let hours = sums.into_iter().map(|(hour, (measured, expected))| (hour, measured / expected)).collect();
        Self { series, expectation, hours, last_day: (expected > 0.0).then(|| measured / expected) }
    }
}

/// The expected time of a node's checks: the operator's, else the detector's. A detector's state
/// that can't be used is as good as none.
fn expectation(database: &mut dyn AuditDatabase, node: &Node, method: Method) -> Result<Option<Expectation>, DatabaseError> {
    let pinned = node.expected_time.filter(|_| method == node.rules.method);
    if let Some(pinned) = pinned.and_then(|(base, slope)| Expectation::new(base, slope).ok()) {
        return Ok(Some(pinned));
    }
    let stored = database.detector(node.id, Series::Checks(method))?;
    Ok(stored.and_then(|state| Detector::from_bytes(&state).ok()).map(|detector| detector.expectation()))
}

/// True for checks that read all bytes and compared them.
fn is_audited(hour: &Hour) -> bool {
    hour.method == Method::Stream && matches!(hour.state, State::Verified | State::SizeMismatch | State::DigestMismatch)
}

fn days(hours: &[Hour], nodes: &[Node], now: u64) -> Vec<Day> {
    let today = now / DAY_S;
    let judge = |day| {
        let of_day = hours.iter().filter(|hour| hour.hour / 24 == day && is_audited(hour) && nodes.iter().any(|node| node.id == hour.node));
        let audited = of_day.fold(Tally::default(), |sum, hour| plus(sum, Tally { copies: hour.count, bytes: hour.bytes }));
        Day { day, audited, verdict: DailyRule::CDL.judge(audited) }
    };
    (today.saturating_sub(WEEK)..today).map(judge).collect()
}

fn problems(database: &mut dyn AuditDatabase, nodes: &[Node]) -> Result<Vec<NamedProblem>, DatabaseError> {
    let mut named = Vec::new();
    for state in TROUBLED {
        for node in nodes {
            let left = NAMED_PROBLEMS - named.len();
            if left == 0 {
                return Ok(named);
            }
            // After all copies of the node before.
            let after = node.id.0.checked_sub(1).map(|before| (NodeId(before), FileId(i64::MAX.unsigned_abs())));
            let found = database.problems(state, after, left)?;
            let of_node = found.into_iter().take_while(|problem| problem.node == node.id);
            named.extend(of_node.map(|problem| NamedProblem { node: node.name.clone(), problem }));
        }
    }
    Ok(named)
}

fn plus(mut a: Tally, b: Tally) -> Tally {
    add(&mut a, b);
    a
}

fn add(sum: &mut Tally, tally: Tally) {
    *sum = Tally { copies: sum.copies.saturating_add(tally.copies), bytes: sum.bytes.saturating_add(tally.bytes) };
}
