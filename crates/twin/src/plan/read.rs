//! Plan files: each setting is asked for once, and so read, checked, documented and printed.

use std::io;
use std::path::Path;

use fulgurite_domain::Micros;
use fulgurite_workload::IngestSpec;

use super::report::time;
use super::{Case, Draws, Failures, IngestPlan, Limits, Margin, Plan, Reads, Service};
use crate::scenario::{Scenario, WorkloadKind};
use crate::settings::kind::{bytes, choice, count, duration, file, frequency, number, power, rate, seconds, share, text};
use crate::settings::{Document, Override, Reader, SettingErrors};

impl Plan {
    /// Reads the file at `path` and those it is based on, with settings of the command line on top; and the scenario that says what its
    /// libraries are like. Its name is the file's, without folder and ending.
    ///
    /// # Errors
    /// All settings that are wrong, unknown, missing or don't go together, each with its place.
    pub fn read(path: &Path, overrides: &[Override]) -> Result<Self, SettingErrors> {
        let load = crate::settings::read_file;
        let name = path.file_stem().map_or_else(|| "plan".to_owned(), |stem| stem.to_string_lossy().into_owned());
        Self::load(&path.to_string_lossy(), &load, &name, overrides)
    }

    /// Like [`Plan::read`], of a text that is based on nothing.
    ///
    /// # Errors
    /// As there.
    pub fn parse(name: &str, text: &str, overrides: &[Override]) -> Result<Self, SettingErrors> {
        let load = |path: &str| match path == name {
            true => Ok(text.to_owned()),
            false => Err(io::Error::new(io::ErrorKind::Unsupported, "this plan is not read from a folder")),
        };
        Self::load(name, &load, name, overrides)
    }

    fn load(path: &str, load: &dyn Fn(&str) -> io::Result<String>, name: &str, overrides: &[Override]) -> Result<Self, SettingErrors> {
        let mut document = Document::load(path, load)?;
        overrides.iter().for_each(|setting| document.apply(setting));
        let mut reader = Reader::new(document);
        let mut plan = ask(&mut reader)?;
        name.clone_into(&mut plan.name);
        if reader.is_sound() {
            check(&plan, &mut reader);
        }
        reader.finish().map(|_| plan)
    }
}

/// The page of all settings of plan files.
#[must_use]
pub fn reference() -> String {
    const INTRODUCTION: &str = include_str!("introduction.txt");
    let mut reader = Reader::new(Document::empty("reference"));
    // Nothing is given, so nothing can be wrong with a scenario.
    let _ = ask(&mut reader);
    let page = reader.reference();
    let settings = page.find("\n## ").map_or("", |begin| &page[begin..]);
    format!("{INTRODUCTION}{settings}")
}

/// Asks for every setting.
///
/// # Errors
/// Those of the scenario that libraries are like.
fn ask(reader: &mut Reader) -> Result<Plan, SettingErrors> {
    let mut top = reader.top();
    let title = top.setting("title", text(), "", "What the plan is about, in a line.");
    let horizon = top.setting("years", count(1..=50), "10", "How many years are planned.");
    let ingest = ingest(reader);
    let reads = reads(reader);
    let mut section = reader.section("service", "What is promised.");
    let service = Service {
        share: section.setting("share", share("50 %"..="99.999 %"), "99.9 %", "Share of the reads that are there in time."),
        within: section.setting("within", duration("1 min"..="30 d"), "15 h", "Until the last byte is there, decoded."),
        for_decoding: section.setting("for_decoding", duration("0 s"..="30 d"), "1 h", "What of it is left to the decode service."),
    };
    let mut section = reader.section("margin", "What has to be left over.");
    let margin = Margin {
        service: section.setting("service", share("0 %"..="95 %"), "20 %", "Of the time within which reads have to leave the libraries."),
        verification: section.setting(
            "verification",
            share("0 %"..="1000 %"),
            "25 %",
            "What drives can verify beside reading more than what is written in the mean, as a share of that.",
        ),
        idle: section.setting("idle", share("0 %"..="90 %"), "10 %", "Of the time of shuttles, and of drives beside reading."),
        slots: section.setting("slots", share("0 %"..="90 %"), "2 %", "Of the slots that sets can have."),
    };
    let (like, limits) = library(reader)?;
    let failures = failures(reader);
    let decode_bytes_s = reader.section("decoding", "The decode service.").setting(
        "worker",
        rate("1 B/s"..="1 TB/s"),
        "0.25 MB/s",
        "Content that a worker decodes. A core ran a small network at 0.7 million voxels/s, of about 3 bits each (proposed).",
    );
    let mut section = reader.section("energy", "What is drawn besides motion (all proposed). Only ratios are to be compared.");
    let draws = Draws {
        drive_busy_w: section.setting("drive_busy", power("0 W"..="100 kW"), "100 W", "A drive that reads or verifies."),
        drive_idle_w: section.setting("drive_idle", power("0 W"..="100 kW"), "20 W", "A drive that doesn't."),
        worker_w: section.setting("worker", power("0 W"..="100 kW"), "5 W", "A decode worker at work."),
    };
    let mut section = reader.section("run", "How a size is tried.");
    let mut like = like;
    like.run.warm_up = section.setting("warm_up", duration(..), "6 h", "Time before the measured interval.");
    like.run.measured = section.setting("measured", duration("1 min"..), "12 h", "The interval in which reads have to arrive to count.");
    let seed = section.setting("seed", count(0..=u32::MAX), "1", "The first seed.");
    let seeds = section.setting("seeds", count(2..=1_000), "3", "How many seeds; the level has to be kept in each.");
    Ok(Plan {
        name: "plan".to_owned(),
        title,
        horizon,
        like,
        ingest,
        reads,
        service,
        margin,
        limits,
        failures,
        decode_bytes_s,
        draws,
        seed: u64::from(seed),
        seeds,
    })
}

fn ingest(reader: &mut Reader) -> IngestPlan {
    let mut section = reader.section("ingest", "What comes in. Redundancy is written beside it.");
    IngestPlan {
        bytes_per_month: section.required(
            "per_month",
            bytes("0 B"..),
            "Content in a month of the first year, in the mean; nothing for an archive that is only read.",
        ),
        growth: section.setting("growth", share("0 %"..="1000 %"), "0 %", "What each year has more than the one before."),
        stored_bytes: section.setting("stored", bytes("0 B"..), "0 B", "Content that is there at the beginning."),
        sigma: section.setting_or(
            "sigma",
            number(0.0..=5.0),
            IngestSpec::SIGMA,
            "Standard deviation of the logarithm of a day's bytes; the default has the published peaks.",
        ),
        persistence: section.setting_or(
            "persistence",
            number(0.0..=0.99),
            IngestSpec::PERSISTENCE,
            "How much that logarithm is like the last day's.",
        ),
        headroom: section.setting_or(
            "headroom",
            number(1.01..=100.0),
            IngestSpec::HEADROOM,
            "What the write drives can write, over the mean.",
        ),
    }
}

fn reads(reader: &mut Reader) -> Reads {
    let mut section = reader.section("reads", "What is asked for.");
    Reads {
        kind: section.setting(
            "like",
            choice(&WorkloadKind::ALL),
            "typical",
            "Whose sizes and bursts: a preset (see [the workload](workload.md)), or `trace`.",
        ),
        trace: section.optional("trace", file(), "The trace, a CSV or Parquet file (see [the workload](workload.md)); it is asked for as it is in every year."),
        per_second: section.optional(
            "per_second",
            frequency("0.000001 /s"..="100000 /s"),
            "Requests at the end of the first year, of all libraries. None is a byte read for each 47 written.",
        ),
        growth: section.setting(
            "growth",
            share("0 %"..="1000 %"),
            "48 %",
            "By how much reads grow each time that what was stored at the end of the first year has come once more. Published are 0.3 reads/s \
             of an early library and 1.6 nine ages later; 0 % is no growth, 100 % goes with the bytes.",
        ),
    }
}

fn library(reader: &mut Reader) -> Result<(Scenario, Limits), SettingErrors> {
    let mut section = reader.section("library", "What a library is like, and what it can have.");
    let like = section.optional(
        "like",
        file(),
        "A scenario: its mechanics, platters, sets, policy and layout are taken. None is the default one.",
    );
    let limits = Limits {
        libraries: section.setting("most", count(1..=1_000), "1000", "The most libraries."),
        racks: section.optional("racks", count(1..=100), "Storage racks. None is the fewest in which blast zones leave room for a set."),
        drives: [
            section.setting("drives_min", count(1..=200), "2", "Fewest drives of a library."),
            section.setting("drives_max", count(1..=200), "20", "Most drives of a library."),
        ],
        shuttles: [
            section.setting("shuttles_min", count(1..=400), "2", "Fewest shuttles of a library."),
            section.setting("shuttles_max", count(1..=400), "40", "Most shuttles of a library; and at most two for each drive."),
        ],
    };
    let like = match like {
        Some(path) => Scenario::read(&path, &[])?,
        None => Scenario::default(),
    };
    Ok((like, limits))
}

fn failures(reader: &mut Reader) -> Failures {
    let mut section = reader.section("failures", "What fails. The last year is tried with failures in any case.");
    Failures {
        shuttle_hours: section.setting("shuttle_every", seconds("1 h"..), "2000 h", "Mean time of motion after which a shuttle stops (proposed).")
            / 3600.0,
        drive_hours: section.setting("drive_every", seconds("1 h"..), "10000 h", "Mean time after which a drive goes down (proposed).") / 3600.0,
        detection_s: section.setting("detection", seconds("0 s"..), "30 s", "Mean time until a failure is noticed (proposed)."),
        repair_s: section.setting("repair", seconds("0 s"..), "4 h", "Mean time from then until it is repaired (proposed)."),
        planned_for: section.setting(
            "planned_for",
            choice(&Case::PLANNABLE),
            "nothing",
            "With what going wrong the level has to be kept: `by-chance`, or `machines`, where a shuttle and a drive of each library are down \
             all the time.",
        ),
    }
}

/// Reports what doesn't go together, at the setting it is about.
fn check(plan: &Plan, reader: &mut Reader) {
    let Plan { limits, service, like, reads, .. } = plan;
    if limits.drives[0] > limits.drives[1] {
        reader.refuse("library.drives_min", format!("{} drives at most, as drives_max says", limits.drives[1]));
    }
    let shelves = u16::from(like.layout.shelves);
    if limits.drives[1] > 2 * shelves {
        reader.refuse("library.drives_max", format!("{} at most, one for each shelf at both ends", 2 * shelves));
    }
    if limits.shuttles[0] > limits.shuttles[1] {
        reader.refuse("library.shuttles_min", format!("{} shuttles at most, as shuttles_max says", limits.shuttles[1]));
    }
    if limits.shuttles[0] > 2 * limits.drives[0] {
        reader.refuse("library.shuttles_min", format!("{} at most, two for each of the fewest drives", 2 * limits.drives[0]));
    }
    if plan.ingest.bytes_per_month == 0 {
        if plan.ingest.stored_bytes == 0 {
            reader.refuse("ingest.stored", "more than nothing, where nothing comes in");
        }
        if reads.kind != WorkloadKind::Trace && reads.per_second.is_none() {
            reader.refuse("reads.per_second", "a rate, where nothing is written by which it could be reckoned");
        }
    }
    if service.in_library() == Micros::ZERO {
        reader.refuse(
            "service.for_decoding",
            format!("less than the {} within which reads have to be there", time(service.within.seconds())),
        );
    }
    if (reads.kind == WorkloadKind::Trace) != reads.trace.is_some() {
        reader.refuse("reads.trace", "a path where reads are like \"trace\", and nothing otherwise");
    }
}
