//! Reports of a plan: a table by year, a table of failures, the assumptions, and figures.

use std::fmt::Write as _;

use super::{Limit, Outcome, Unmet, YearPlan};
use crate::scenario::WorkloadKind;
use fulgurite_plot::{Axis, Figure, Panel, Point};
use fulgurite_table::{Column, Table, Value};

/// With so many expected reads, a simulation has hardly ever none.
const READS_ENOUGH: f64 = 20.0;

/// A duration in a suitable unit.
pub(super) fn time(seconds: f64) -> String {
    match seconds {
        _ if !seconds.is_finite() => "without end".to_owned(),
        _ if seconds >= 5_400.0 => format!("{:.1} h", seconds / 3_600.0),
        _ if seconds >= 90.0 => format!("{:.1} min", seconds / 60.0),
        _ => format!("{seconds:.1} s"),
    }
}

/// A column, and its value for a year.
struct Given {
    column: Column,
    of: fn(&Outcome, &YearPlan) -> Value,
}

fn real(name: &str, unit: &str, about: &str, of: fn(&Outcome, &YearPlan) -> Value) -> Given {
    Given { column: Column::f64(name, unit, about), of }
}

fn whole(name: &str, about: &str, of: fn(&Outcome, &YearPlan) -> Value) -> Given {
    Given { column: Column::i64(name, "", about), of }
}

fn words(name: &str, about: &str, of: fn(&Outcome, &YearPlan) -> Value) -> Given {
    Given { column: Column::text(name, about), of }
}

fn number(value: u64) -> Value {
    Value::I64(value.min(i64::MAX as u64) as i64)
}

/// Infinite values are reported as missing.
fn finite(value: f64) -> Value {
    if value.is_finite() { Value::F64(value) } else { Value::Missing }
}

/// What bounds the number of libraries (`index` 0), drives (1) or shuttles (2).
fn bound(index: usize, year: &YearPlan) -> Value {
    Value::Text(year.bound_by[index].text().to_owned())
}

fn sizes() -> Vec<Given> {
    vec![
        whole("year", "Number of the year, from 1; figures are for its end.", |_, y| number(y.year.number.into())),
        real("stored_tb", "TB", "Content stored.", |_, y| Value::F64(y.year.stored_bytes / 1e12)),
        whole("platters", "Platters of all sets.", |_, y| number(y.year.platters)),
        whole("sets", "Sets.", |_, y| number(y.year.sets)),
        whole("libraries", "Libraries.", |_, y| number(y.size.libraries.into())),
        whole("racks", "Storage racks of all libraries.", |o, y| number(u64::from(y.size.libraries) * u64::from(o.racks))),
        whole("drives", "Drives of each library.", |_, y| number(y.size.drives.into())),
        whole("shuttles", "Shuttles of each library.", |_, y| number(y.size.shuttles.into())),
        words("libraries_by", "What requires this many libraries.", |_, y| bound(0, y)),
        words("drives_by", "What requires this many drives.", |_, y| bound(1, y)),
        words("shuttles_by", "What requires this many shuttles.", |_, y| bound(2, y)),
        real("full_after", "years", "Years from the beginning until all slots of these libraries are used.", |_, y| {
            finite(y.full_after_years)
        }),
    ]
}

fn loads() -> Vec<Given> {
    vec![
        whole("year", "Number of the year, from 1; figures are for its end.", |_, y| number(y.year.number.into())),
        real("reads", "/s", "Requests to all libraries; missing for a trace.", |o, y| match o.plan.reads.kind {
            WorkloadKind::Trace => Value::Missing,
            _ => Value::F64(y.year.reads_per_second),
        }),
        real("tail", "min", "Time in the libraries that the level's share of the reads doesn't exceed, mean over the seeds.", |_, y| {
            y.trial.tail().map_or(Value::Missing, |tail| Value::F64(tail.mean / 60.0))
        }),
        real("tail_pm", "min", "Half the width of its 95 % interval.", |_, y| {
            y.trial.tail().map_or(Value::Missing, |tail| Value::F64(tail.half_width / 60.0))
        }),
        real("level_used", "%", "The worst seed's tail, relative to the time limit of the libraries.", |o, y| match y.trial.has_reads() {
            true => finite(100.0 * y.trial.worst_tail_s() / o.plan.service.in_library().seconds()),
            false => Value::Missing,
        }),
        real("reading", "%", "Share of the drives' time spent reading.", |_, y| Value::F64(100.0 * y.trial.reading)),
        real("could_verify", "%", "Share of the drives' time available for verification.", |_, y| Value::F64(100.0 * y.trial.verifying)),
        real("verification", "x", "Verification capacity, relative to what is written.", |_, y| finite(y.trial.verification)),
        real("shuttles_busy", "%", "Busy share of the shuttles' time.", |_, y| Value::F64(100.0 * (1.0 - y.trial.shuttles_idle))),
        real("staging_tb", "TB", "Content not yet verified on glass: the yearly peak that 19 of 20 years don't exceed.", |_, y| {
            Value::F64(y.staging_bytes / 1e12)
        }),
        real("decode_mean", "workers", "Busy decode workers, on average.", |_, y| Value::F64(y.decode.mean)),
        whole("decode_most", "Decode workers needed.", |_, y| number(y.decode.must_have.into())),
        real("energy", "MWh/a", "Shuttles, drives and decoding.", |_, y| Value::F64(y.energy_kwh.total() / 1e3)),
        real("energy_ratio", "x", "Energy relative to the first year.", |o, y| {
            finite(y.energy_kwh.total() / o.years[0].energy_kwh.total())
        }),
    ]
}

impl Outcome {
    /// The required sizes, by year.
    #[must_use]
    pub fn sizes(&self) -> Table {
        self.by_year(sizes())
    }

    /// The loads, by year.
    #[must_use]
    pub fn loads(&self) -> Table {
        self.by_year(loads())
    }

    /// Both tables with all further figures of a year, for files.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut given = sizes();
        given.extend(loads().into_iter().skip(1));
        given.extend([
            real("ingest_tb", "TB", "Content ingested during the year.", |_, y| Value::F64(y.year.ingest_bytes / 1e12)),
            real("written_mb_s", "MB/s", "Mean rate of writing, including redundancy.", |_, y| Value::F64(y.year.written_bytes_s / 1e6)),
            real("could_verify_mb_s", "MB/s", "Verification capacity of the drives.", |_, y| Value::F64(y.trial.verified_bytes_s / 1e6)),
            real("read_mb_s", "MB/s", "Whole tracks read for customers.", |_, y| Value::F64(y.trial.read_bytes_s / 1e6)),
            whole("capacity_platters", "Platters of sets that these libraries can hold.", |_, y| number(y.capacity_platters)),
            whole("simulated", "Simulated libraries, which represent all.", |_, y| number(y.trial.simulated.into())),
            whole("requests", "Reads that counted, in the simulated libraries and all seeds.", |_, y| number(y.trial.requests)),
            real("decode_verification", "workers", "Decode workers busy with verification, on average.", |_, y| {
                Value::F64(y.decode.verification)
            }),
            real("decode_busiest_hour", "workers", "Busy decode workers in the busiest hour of the day.", |_, y| {
                Value::F64(y.decode.by_hour.iter().copied().fold(0.0, f64::max))
            }),
            real("energy_shuttles_kwh", "kWh/a", "Shuttles.", |_, y| Value::F64(y.energy_kwh.shuttles)),
            real("energy_drives_kwh", "kWh/a", "Drives.", |_, y| Value::F64(y.energy_kwh.drives)),
            real("energy_decoding_kwh", "kWh/a", "Decode workers.", |_, y| Value::F64(y.energy_kwh.decoding)),
        ]);
        self.by_year(given)
    }

    fn by_year(&self, given: Vec<Given>) -> Table {
        let mut table = Table::new(given.iter().map(|given| given.column.clone()))
            .note("plan", &self.plan.name)
            .note("seed", self.plan.seed)
            .note("seeds", self.plan.seeds)
            .note("version", env!("CARGO_PKG_VERSION"));
        for year in &self.years {
            table.push(given.iter().map(|given| (given.of)(self, year))).expect("each value is of its column's kind");
        }
        table
    }

    /// The effect of failures on the last year that could be planned.
    #[must_use]
    pub fn failures_table(&self) -> Table {
        let mut table = Table::new([
            Column::text("case", "The failure."),
            Column::bool("level_kept", "True if the service level is kept, ignoring its margin; missing if no read was simulated."),
            Column::f64("tail", "min", "Mean over the seeds; missing if not all reads ended in time, or nothing was simulated."),
            Column::f64("verification", "x", "Verification capacity, relative to what is written."),
            Column::f64("lost", "%", "Reads that ended without their bytes."),
            Column::text("account", "The effect."),
        ]);
        for effect in &self.failures {
            let of = |of: fn(&super::Trial) -> Value| effect.trial.as_ref().map_or(Value::Missing, of);
            let row = [
                Value::Text(effect.case.text().to_owned()),
                effect.keeps_level.map_or(Value::Missing, Value::Bool),
                of(|trial| trial.tail().map_or(Value::Missing, |tail| Value::F64(tail.mean / 60.0))),
                of(|trial| finite(trial.verification)),
                of(|trial| if trial.has_reads() { Value::F64(100.0 * trial.lost) } else { Value::Missing }),
                Value::Text(effect.account.clone()),
            ];
            table.push(row).expect("each value is of its column's kind");
        }
        table
    }

    /// The service level and whether it is kept, in a few sentences.
    #[must_use]
    pub fn statement(&self) -> String {
        let plan = &self.plan;
        let service = &plan.service;
        let level = format!("{} % of the reads within {}", trimmed(100.0 * service.share), time(service.within.seconds()));
        let mut out = match (&self.unmet, self.years.last()) {
            (None, Some(last)) if !self.is_checked() => {
                format!("It is not known whether {} meets the service level ({level}). {}", last.size, self.why_unchecked())
            }
            (None, Some(last)) if plan.horizon == 1 => format!("The service level ({level}) is met for a year with {}.", last.size),
            (None, Some(last)) => format!("The service level ({level}) is met for {} years, with {} in the last.", plan.horizon, last.size),
            (Some(unmet), Some(_)) if !self.is_checked() => {
                format!("The service level ({level}) is not met. {} {}", self.why(unmet), self.why_unchecked())
            }
            (Some(unmet), Some(last)) => {
                format!(
                    "The service level ({level}) is met for {} of {} years, up to {}. {}",
                    last.year.number,
                    plan.horizon,
                    last.size,
                    self.why(unmet)
                )
            }
            (Some(unmet), None) => format!("No size meets the service level ({level}), not even for the first year. {}", self.why(unmet)),
            (None, None) => "The plan has no years.".to_owned(),
        };
        if let Some(last) = self.years.last() {
            match last.full_after_years {
                years if years.is_finite() => write!(out, " These libraries are full after {years:.1} years."),
                _ => write!(out, " These libraries are never full."),
            }
            .expect("writing to a string");
        }
        for effect in &self.failures {
            let _ = write!(out, "\nIf {}: {}.", effect.case.text(), effect.account);
        }
        out
    }

    /// Which simulations had no reads, and what helps.
    fn why_unchecked(&self) -> String {
        let mut without: Vec<String> =
            self.years.iter().filter(|year| !year.trial.has_reads()).map(|year| format!("year {}", year.year.number)).collect();
        let failures = self.failures.iter().filter(|effect| effect.trial.as_ref().is_some_and(|trial| !trial.has_reads()));
        without.extend(failures.map(|effect| format!("\"{}\"", effect.case.text())));
        let enough = self.years.first().map_or(0.0, |year| READS_ENOUGH / year.year.reads_per_second);
        let advice = if enough.is_finite() && enough > 0.0 {
            format!("; at the rate of the first year, {READS_ENOUGH} reads take {}", time(enough))
        } else {
            String::new()
        };
        format!("In the simulations of {}, no read arrived: run.measured is too short{advice}.", without.join(", "))
    }

    fn why(&self, unmet: &Unmet) -> String {
        let Unmet { year, size, limit, trial } = unmet;
        let found = match (limit, trial) {
            (Limit::Slots, _) => format!(
                "{} platters need more slots than {} {}",
                year.platters,
                size.libraries,
                if size.libraries == 1 { "library has" } else { "libraries have" }
            ),
            (Limit::Level, Some(trial)) => {
                let allowed = (1.0 - self.plan.margin.service) * self.plan.service.in_library().seconds();
                format!("with {size} the tail is still {}, but the margin allows {}", time(trial.worst_tail_s()), time(allowed))
            }
            (Limit::Verification, Some(trial)) => format!(
                "{size} verify {:.2} times what is written, but {:.2} times is required",
                trial.verification,
                1.0 + self.plan.margin.verification
            ),
            (Limit::Verification, None) => format!(
                "{:.0} MB/s are written, but {size} verify at most {:.0} MB/s even without reads",
                year.written_bytes_s / 1e6,
                f64::from(size.libraries) * f64::from(size.drives) * self.plan.template.mechanics.drive.throughput_bytes_s / 1e6
            ),
            (Limit::DriveTime, Some(trial)) => format!("{size} read {:.0} % of the time", 100.0 * trial.reading),
            (Limit::ShuttleTime, Some(trial)) => {
                format!("the shuttles of {size} are idle for only {:.0} % of the time", 100.0 * trial.shuttles_idle)
            }
            _ => format!("{size} are too few"),
        };
        format!("Year {} is limited by the {}: {found}.", year.number, limit.text())
    }

    /// The assumptions.
    #[must_use]
    pub fn assumptions(&self) -> Vec<String> {
        let plan = &self.plan;
        let mut all = vec![
            "Sets, and so reads and ingest, are spread evenly over the libraries of a year; when one is added, people carry platters over. \
             Two libraries with their share of the load represent more. All are alike, and none has fewer drives or shuttles than the year before."
                .to_owned(),
            format!(
                "A platter holds {} TB of content; sets are {}; a library has {} storage racks of {} shelves with {} slots, and drives of {} MB/s.",
                trimmed(plan.platter_bytes() / 1e12),
                plan.template.sets.shape,
                self.racks,
                plan.template.layout.shelves,
                plan.template.layout.slots,
                trimmed(plan.template.mechanics.drive.throughput_bytes_s / 1e6)
            ),
            "The drives verify every platter in full in their idle time. Simulated drives always have one to verify; fetching written \
             platters from the write rack, two trips per platter, is left out."
                .to_owned(),
            format!(
                "A day's ingest is lognormal with s = {}; write drives write up to {} times the mean.",
                plan.ingest.sigma, plan.ingest.headroom
            ),
            "Watts, joules and the speed of a decode worker are proposals: compare ratios only.".to_owned(),
        ];
        match plan.reads.kind {
            WorkloadKind::Trace => all.push(
                "Every year replays the trace unchanged, on all libraries, which are all simulated. Its rows count from the end of \
                 the warm-up to the end of the measured interval."
                    .to_owned(),
            ),
            kind => all.push(format!(
                "Reads have the sizes and bursts of `{}`, at another rate; they fall evenly on all platters, and each library gets at least one whole burst \
                 per period.",
                kind.text()
            )),
        }
        if plan.reads.per_second.is_none() && plan.reads.kind != WorkloadKind::Trace {
            all.push("In the first year, one byte is read per 47 written.".to_owned());
        }
        if let Some(last) = self.years.last().filter(|last| last.trial.has_reads())
            && (last.trial.requests as f64) < f64::from(plan.seeds) / (1.0 - plan.service.share)
        {
            all.push(format!(
                "In the last year {} reads counted, in {} seeds: too few to distinguish {} % of them from all, so the tail is that of the slowest.",
                last.trial.requests,
                plan.seeds,
                trimmed(100.0 * plan.service.share)
            ));
        }
        if plan.failures.planned_for != super::Case::Nothing {
            all.push(format!("The level is planned for this case: {}.", plan.failures.planned_for.text()));
        }
        all
    }

    /// Capacity and load over the years: bytes, machines, and the used share of each limit. `None`
    /// without years.
    #[must_use]
    pub fn figure(&self) -> Option<Figure> {
        if self.years.is_empty() {
            return None;
        }
        let years = || Axis::new("Year", "");
        let of = |of: &dyn Fn(&YearPlan) -> f64| -> Vec<Point> {
            self.years.iter().map(|year| Point::new(year.year.number.into(), of(year))).collect()
        };
        let content = self.plan.platter_bytes() / self.plan.written_per_byte();
        let stored = Panel::new(years(), Axis::bytes("Content").from(0.0))
            .line("stored", of(&|y| y.year.stored_bytes))
            .steps("room", of(&|y| y.capacity_platters as f64 * content));
        let machines = Panel::new(years(), Axis::new("Machines of all libraries", "").from(0.0))
            .steps("drives", of(&|y| f64::from(y.size.libraries) * f64::from(y.size.drives)))
            .steps("shuttles", of(&|y| f64::from(y.size.libraries) * f64::from(y.size.shuttles)));
        let in_library = self.plan.service.in_library().seconds();
        let levels = self.years.iter().filter(|year| year.trial.has_reads());
        let levels = levels.map(|y| Point::new(y.year.number.into(), y.trial.worst_tail_s() / in_library)).collect::<Vec<_>>();
        let used = Panel::new(years(), Axis::share("Used of what there is").from(0.0))
            .line("service level", levels)
            .line("verification", of(&|y| if y.trial.verification.is_finite() { 1.0 / y.trial.verification } else { 0.0 }))
            .line("shuttles' time", of(&|y| 1.0 - y.trial.shuttles_idle))
            .line("slots", of(&|y| y.year.platters as f64 / y.capacity_platters as f64))
            .level(1.0, "all");
        Some(Figure::new(&self.plan.title).panel(stored).panel(machines).panel(used))
    }
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
