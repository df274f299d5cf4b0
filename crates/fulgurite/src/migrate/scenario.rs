//! A scenario for `migrate plan` from what a run has measured.

use anyhow::{Result, bail};
use fulgurite_domain::Micros;
use fulgurite_migration::figures::StageFigures;
use fulgurite_migration::layout::{LOTS_AT_ONCE, Spool, Stage};
use fulgurite_migration::plan::Scenario;
use fulgurite_migration::run::database::{State, Totals};

use super::folder::Migration;
use super::progress::RunProgress;

/// The section of a stage with the rate and the gap that a run has measured.
fn section(of: &StageFigures) -> String {
    let (name, rate, gap) = (of.stage.name(), of.rate().max(1.0), of.gap_s() * 1e3);
    format!("[{name}]\nrate = \"{rate:.0} B/s\"\ngap = \"{gap:.6} ms\"\ngap_max = \"{gap:.6} ms\"\n")
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
    let has_moved = |of: &StageFigures| of.bytes > 0 && of.moving > Micros::ZERO;
    let Some(stages) = stages.filter(|stages| stages.iter().all(has_moved)) else {
        bail!(
            "no run has moved files through all stages yet, so no rates are known: write a scenario by hand, or run the migration for a while"
        );
    };
    let waiting = totals.of(State::Waiting);
    let (what, (files, bytes)) = if waiting.1 > 0 { ("What is left", waiting) } else { ("All files", totals.all()) };
    let settings = &migration.settings;
    let station = &settings.layout.stations[0];
    let size = (bytes / files.max(1)).max(1);
    let spool_bytes = spool_bytes(&station.spools, size.max(settings.lot_bytes));
    // Lots end with a family and with a volume.
    let groups = migration.database.groups()?.max(1);
    let lot_files = settings.lot_files.min(usize::try_from(totals.all().0.div_ceil(groups)).unwrap_or(usize::MAX)).max(1);
    let text = format!(
        "title = \"{what} of a migration, at the rates of its last run\"\n\n\
         [files]\ntotal = \"{bytes} B\"\nsize = \"{size} B\"\nlot_files = {lot_files}\nlot_bytes = \"{lot_bytes} B\"\n\n{sections}\n\
         [rules]\nfamilies_together = {together}\nunscanned = {unscanned}\n\n\
         [stations]\ncount = 1\ninputs = {inputs}\noutputs = {outputs}\nscans = {scans}\nspools = 1\nspool = \"{spool_bytes} B\"\n\
         spool_exclusive = false\nspool_write = \"1 PB/s\"\nspool_read = \"1 PB/s\"\nlink = \"1 PB/s\"\n",
        lot_bytes = settings.lot_bytes,
        sections = stages.each_ref().map(section).join("\n"),
        together = settings.layout.rules.families_together,
        unscanned = settings.layout.rules.unscanned_max,
        inputs = station.inputs,
        outputs = station.outputs,
        scans = station.scans,
    );
    // What is written must be readable.
    Scenario::parse("migration", &text, &[])?;
    Ok(text)
}
