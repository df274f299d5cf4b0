//! A scenario for `migrate plan` from what a run has measured.

use anyhow::{Result, bail};
use fulgurite_migration::figures::StageFigures;
use fulgurite_migration::layout::{LOTS_AT_ONCE, Spool, Stage};
use fulgurite_migration::plan::{Part, Parts, Scenario};
use fulgurite_migration::run::database::{State, Totals};

use super::folder::Migration;
use super::progress::RunProgress;

/// The highest rate of a stream that a scenario can have, in bytes per second.
const RATE_MAX: f64 = 1e12;

/// The longest time of a file or a gap that it can have, in milliseconds.
const LONGEST_MS: f64 = 3_600_000.0;

/// The section of a stage with the rate and the gap that a run has measured, and what each file
/// cost.
fn section(of: &StageFigures) -> String {
    let (name, gap) = (of.stage.name(), of.gap_s() * 1e3);
    let cost = of.cost().filter(|cost| cost.per_file_s <= LONGEST_MS / 1e3);
    let (rate, per_file) = cost.map_or((of.rate(), 0.0), |cost| (cost.rate, cost.per_file_s * 1e3));
    let (rate, gap) = (rate.clamp(1.0, RATE_MAX), gap.min(LONGEST_MS));
    format!("[{name}]\nrate = \"{rate:.0} B/s\"\ngap = \"{gap:.6} ms\"\ngap_max = \"{gap:.6} ms\"\nper_file = \"{per_file:.6} ms\"\n")
}

/// What is known of sizes: the mean, or the tables of parts whose files differ. A file larger than
/// every spool volume can't be migrated, and counts as several that just fit.
fn sizes(parts: &[Part], mean: u64, spool_bytes: u64) -> (String, String) {
    if parts.len() < 2 {
        return (format!("size = \"{} B\"\n", mean.min(spool_bytes)), String::new());
    }
    let table = |part: &Part| {
        let (size, share) = (part.size.min(spool_bytes), part.share * 100.0);
        format!("[[files.parts]]\nsize = \"{size} B\"\nshare = \"{share:.6} %\"\n\n")
    };
    (String::new(), parts.iter().map(table).collect())
}

/// The setting of the limits by hour, if there are any.
fn limits(limits: &[Option<u64>; 24]) -> String {
    if limits == &[None; 24] {
        return String::new();
    }
    let hours = limits.map(|limit| limit.map_or_else(|| "\"1 PB/s\"".to_owned(), |limit| format!("\"{limit} B/s\"")));
    format!("limits = [{}]\n", hours.join(", "))
}

/// Room for lots of up to `lot_bytes`: without the reserve, if they don't need it.
fn spool_bytes(spools: &[Spool], lot_bytes: u64) -> u64 {
    let (needed, all) = spools
        .iter()
        .fold((0, 0), |(needed, all), spool| (if spool.is_reserve { needed } else { needed + spool.bytes }, all + spool.bytes));
    if needed / LOTS_AT_ONCE >= lot_bytes { needed } else { all }
}

/// The scenario of what is left of a migration, or of all of it if nothing is.
pub(super) fn of(migration: &Migration, progress: Option<&RunProgress>, totals: &Totals) -> Result<String> {
    let stages = progress.map(|progress| Stage::ALL.map(|stage| progress.stage(stage)));
    let Some(stages) = stages.filter(|stages| stages.iter().all(|of| of.cost().is_some())) else {
        bail!(
            "no run has moved files through all stages yet, so no rates are known: write a scenario by hand, or run the migration for a while"
        );
    };
    let waiting = totals.of(State::Waiting);
    let (what, (files, bytes)) = if waiting.1 > 0 { ("What is left", waiting) } else { ("All files", totals.all()) };
    let settings = &migration.settings;
    let station = &settings.layout.stations[0];
    let size = (bytes / files.max(1)).max(1);
    let mut parts = Parts::new(files, bytes);
    migration.database.sizes_in_order(waiting.1 > 0, &mut |bytes| parts.add(bytes))?;
    let parts = parts.finish();
    let largest = parts.iter().map(|part| part.size).max().unwrap_or(size);
    let spool_bytes = spool_bytes(&station.spools, largest.max(settings.lot_bytes));
    let (size, parts) = sizes(&parts, size, spool_bytes);
    // Lots end with a family and with a volume.
    let groups = migration.database.groups()?.max(1);
    let lot_files = settings.lot_files.min(usize::try_from(totals.all().0.div_ceil(groups)).unwrap_or(usize::MAX)).max(1);
    let text = format!(
        "title = \"{what} of a migration, at the rates of its last run\"\n\n\
         [files]\ntotal = \"{bytes} B\"\n{size}lot_files = {lot_files}\nlot_bytes = \"{lot_bytes} B\"\n\n{parts}{sections}\n\
         [rules]\nfamilies_together = {together}\nunscanned = {unscanned}\n{limits}\n\
         [stations]\ncount = 1\ninputs = {inputs}\noutputs = {outputs}\nscans = {scans}\nspools = 1\nspool = \"{spool_bytes} B\"\n\
         spool_exclusive = false\nspool_write = \"1 PB/s\"\nspool_read = \"1 PB/s\"\nlink = \"1 PB/s\"\n\n\
         [measured]\n{measured}",
        lot_bytes = settings.lot_bytes,
        sections = stages.each_ref().map(section).join("\n"),
        measured = stages.each_ref().map(|of| format!("{}s = {}\n", of.stage.name(), of.streams)).concat(),
        together = settings.layout.rules.families_together,
        unscanned = settings.layout.rules.unscanned_max,
        limits = limits(&settings.layout.rules.limits),
        inputs = station.inputs,
        outputs = station.outputs,
        scans = station.scans,
    );
    // What is written must be readable.
    Scenario::parse("migration", &text, &[])?;
    Ok(text)
}
