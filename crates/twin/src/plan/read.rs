//! Plan files: each setting is declared once, and thereby read, checked, documented and printed.

use std::path::Path;

use fulgurite_domain::Micros;
use fulgurite_settings::setting_type::{bytes, choice, count, duration, file, frequency, number, power, rate, seconds, share, text};
use fulgurite_settings::{Document, Override, Reader, SettingErrors, read_file};
use fulgurite_workload::IngestSpec;

use super::report::time;
use super::{Case, Failures, IngestPlan, Limits, Margin, Plan, PowerDraw, Reads, ServiceLevel};
use crate::scenario::{Scenario, WorkloadKind};

impl Plan {
    /// Reads the file at `path` and the files it is based on, with the overrides of the command
    /// line on top, and the scenario that describes its libraries. The plan's name is the file's,
    /// without folder and ending.
    ///
    /// # Errors
    /// All settings that are wrong, unknown, missing or inconsistent, each with its place.
    pub fn read(path: &Path, overrides: &[Override]) -> Result<Self, SettingErrors> {
        let name = path.file_stem().map_or_else(|| "plan".to_owned(), |stem| stem.to_string_lossy().into_owned());
        Self::from_document(Document::load(&path.to_string_lossy(), &read_file)?, &name, overrides)
    }

    /// Like [`Plan::read`], for a text that is based on no file.
    pub fn parse(name: &str, text: &str, overrides: &[Override]) -> Result<Self, SettingErrors> {
        Self::from_document(Document::parse(name, text)?, name, overrides)
    }

    fn from_document(mut document: Document, name: &str, overrides: &[Override]) -> Result<Self, SettingErrors> {
        overrides.iter().for_each(|setting| document.apply(setting));
        let mut reader = Reader::new(document);
        let mut plan = read_settings(&mut reader)?;
        name.clone_into(&mut plan.name);
        if reader.is_sound() {
            check(&plan, &mut reader);
        }
        reader.finish().map(|_| plan)
    }
}

/// The reference page of all settings in plan files.
#[must_use]
pub fn reference() -> String {
    const INTRODUCTION: &str = include_str!("introduction.txt");
    let mut reader = Reader::new(Document::empty("reference"));
    // Nothing is given, so no scenario can be wrong.
    let _ = read_settings(&mut reader);
    reader.reference(INTRODUCTION)
}

/// Declares every setting.
///
/// # Errors
/// Errors of the scenario that describes the libraries.
fn read_settings(reader: &mut Reader) -> Result<Plan, SettingErrors> {
    let mut top = reader.top();
    let title = top.setting("title", text(), "", "Title of the plan, in one line.");
    let horizon = top.setting("years", count(1..=50), "10", "Number of planned years.");
    let ingest = ingest(reader);
    let reads = reads(reader);
    let mut section = reader.section("service", "The service level.");
    let service = ServiceLevel {
        share: section.setting("share", share("50 %"..="99.999 %"), "99.9 %", "Share of the reads that must be in time."),
        within: section.setting("within", duration("1 min"..="30 d"), "15 h", "Time limit for the last byte, decoded."),
        for_decoding: section.setting(
            "for_decoding",
            duration("0 s"..="30 d"),
            "1 h",
            "Part of the limit that is reserved for the decode service.",
        ),
    };
    let mut section = reader.section("margin", "Required margins.");
    let margin = Margin {
        service: section.setting(
            "service",
            share("0 %"..="95 %"),
            "20 %",
            "Reserve, as a share of the time in which reads must leave the libraries.",
        ),
        verification: section.setting(
            "verification",
            share("0 %"..="1000 %"),
            "25 %",
            "Verification capacity of the drives beyond what is written on average, as a share of that.",
        ),
        idle: section.setting(
            "idle",
            share("0 %"..="90 %"),
            "10 %",
            "Idle share of the time of shuttles, and of drives apart from reading.",
        ),
        slots: section.setting("slots", share("0 %"..="90 %"), "2 %", "Free share of the slots that sets can use."),
    };
    let (template, limits) = library(reader)?;
    let failures = failures(reader);
    let decode_bytes_s = reader.section("decoding", "The decode service.").setting(
        "worker",
        rate("1 B/s"..="1 TB/s"),
        "0.25 MB/s",
        "Content that a worker decodes. One core ran a small network at 0.7 million voxels/s, of about 3 bits each (proposed).",
    );
    let mut section = reader.section("energy", "Power apart from motion (all proposed). Only ratios are meaningful.");
    let power_draw = PowerDraw {
        drive_busy_w: section.setting("drive_busy", power("0 W"..="100 kW"), "100 W", "A drive that reads or verifies."),
        drive_idle_w: section.setting("drive_idle", power("0 W"..="100 kW"), "20 W", "An idle drive."),
        worker_w: section.setting("worker", power("0 W"..="100 kW"), "5 W", "A busy decode worker."),
    };
    let mut section = reader.section("run", "How a size is simulated.");
    let mut template = template;
    template.run.warm_up = section.setting("warm_up", duration(..), "6 h", "Time before the measured interval.");
    template.run.measured =
        section.setting("measured", duration("1 min"..), "12 h", "The measured interval; only reads that arrive in it count.");
    let seed = section.setting("seed", count(0..=u32::MAX), "1", "The first seed.");
    let seeds = section.setting("seeds", count(2..=1_000), "3", "Number of seeds; the level must be kept in each.");
    Ok(Plan {
        name: "plan".to_owned(),
        title,
        horizon,
        template,
        ingest,
        reads,
        service,
        margin,
        limits,
        failures,
        decode_bytes_s,
        power_draw,
        seed: u64::from(seed),
        seeds,
    })
}

fn ingest(reader: &mut Reader) -> IngestPlan {
    let mut section = reader.section("ingest", "Ingest. Redundancy is written in addition.");
    IngestPlan {
        bytes_per_month: section.required(
            "per_month",
            bytes("0 B"..),
            "Mean content per month in the first year; 0 for an archive that is only read.",
        ),
        growth: section.setting("growth", share("0 %"..="1000 %"), "0 %", "Growth from each year to the next."),
        stored_bytes: section.setting("stored", bytes("0 B"..), "0 B", "Content stored at the beginning."),
        sigma: section.setting_or(
            "sigma",
            number(0.0..=5.0),
            IngestSpec::SIGMA,
            "Standard deviation of the logarithm of a day's bytes; the default gives the published peaks.",
        ),
        persistence: section.setting_or(
            "persistence",
            number(0.0..=0.99),
            IngestSpec::PERSISTENCE,
            "Correlation of that logarithm with the day before.",
        ),
        headroom: section.setting_or(
            "headroom",
            number(1.01..=100.0),
            IngestSpec::HEADROOM,
            "Capacity of the write drives, relative to the mean.",
        ),
    }
}

fn reads(reader: &mut Reader) -> Reads {
    let mut section = reader.section("reads", "Reads.");
    Reads {
        kind: section.setting(
            "like",
            choice(&WorkloadKind::ALL),
            "typical",
            "The preset whose sizes and bursts apply (see [the workload](workload.md)), or `trace`.",
        ),
        trace: section.optional("trace", file(), "The trace, a CSV or Parquet file (see [the workload](workload.md)). Every year replays it unchanged."),
        per_second: section.optional(
            "per_second",
            frequency("0.000001 /s"..="100000 /s"),
            "Requests at the end of the first year, for all libraries. The default is one byte read per 47 written.",
        ),
        growth: section.setting(
            "growth",
            share("0 %"..="1000 %"),
            "48 %",
            "Growth of reads for each further amount of data equal to that stored at the end of the first year. Published are 0.3 reads/s for \
             an early library and 1.6 nine ages later; 0 % is no growth, 100 % is proportional to the bytes.",
        ),
    }
}

fn library(reader: &mut Reader) -> Result<(Scenario, Limits), SettingErrors> {
    let mut section = reader.section("library", "The kind of library, and its limits.");
    let like = section.optional(
        "like",
        file(),
        "A scenario whose mechanics, platters, sets, policy and layout apply. The default is the default scenario.",
    );
    let limits = Limits {
        libraries: section.setting("most", count(1..=1_000), "1000", "Most libraries."),
        racks: section.optional(
            "racks",
            count(1..=100),
            "Storage racks. The default is the fewest in which blast zones leave room for a set.",
        ),
        drives: [
            section.setting("drives_min", count(1..=200), "2", "Fewest drives of a library."),
            section.setting("drives_max", count(1..=200), "20", "Most drives of a library."),
        ],
        shuttles: [
            section.setting("shuttles_min", count(1..=400), "2", "Fewest shuttles of a library."),
            section.setting("shuttles_max", count(1..=400), "40", "Most shuttles of a library; never more than two per drive."),
        ],
    };
    let template = match like {
        Some(path) => Scenario::read(&path, &[])?,
        None => Scenario::default(),
    };
    Ok((template, limits))
}

fn failures(reader: &mut Reader) -> Failures {
    let mut section = reader.section("failures", "Failures. The last year is always simulated with failures too.");
    Failures {
        shuttle_hours: section.setting("shuttle_every", seconds("1 h"..), "2000 h", "Mean time of motion after which a shuttle stops (proposed).")
            / 3600.0,
        drive_hours: section.setting("drive_every", seconds("1 h"..), "10000 h", "Mean time after which a drive goes down (proposed).") / 3600.0,
        detection_s: section.setting("detection", seconds("0 s"..), "30 s", "Mean time until a failure is detected (proposed)."),
        repair_s: section.setting("repair", seconds("0 s"..), "4 h", "Mean time from then until it is repaired (proposed)."),
        planned_for: section.setting(
            "planned_for",
            choice(&Case::PLANNABLE),
            "nothing",
            "The failures with which the level must be kept: `nothing`, `by-chance`, or `machines`, where a shuttle and a drive of each library are down \
             all the time.",
        ),
    }
}

/// Reports inconsistent settings, each at its place.
fn check(plan: &Plan, reader: &mut Reader) {
    let Plan { limits, service, template, reads, .. } = plan;
    if limits.drives[0] > limits.drives[1] {
        reader.reject("library.drives_min", format!("at most {} drives, the value of drives_max", limits.drives[1]));
    }
    let shelves = u16::from(template.layout.shelves);
    if limits.drives[1] > 2 * shelves {
        reader.reject("library.drives_max", format!("at most {}, one per shelf at each end", 2 * shelves));
    }
    if limits.shuttles[0] > limits.shuttles[1] {
        reader.reject("library.shuttles_min", format!("at most {} shuttles, the value of shuttles_max", limits.shuttles[1]));
    }
    if limits.shuttles[0] > 2 * limits.drives[0] {
        reader.reject("library.shuttles_min", format!("at most {}, two for each of the drives_min drives", 2 * limits.drives[0]));
    }
    if plan.ingest.bytes_per_month == 0 {
        if plan.ingest.stored_bytes == 0 {
            reader.reject("ingest.stored", "more than 0 B, since nothing comes in");
        }
        if reads.kind != WorkloadKind::Trace && reads.per_second.is_none() {
            reader.reject("reads.per_second", "a rate, since nothing is written from which to derive it");
        }
    }
    if service.in_library() == Micros::ZERO {
        reader.reject("service.for_decoding", format!("less than the {} of service.within", time(service.within.seconds())));
    }
    if (reads.kind == WorkloadKind::Trace) != reads.trace.is_some() {
        reader.reject("reads.trace", "a path if reads.like is \"trace\", and no value otherwise");
    }
}
