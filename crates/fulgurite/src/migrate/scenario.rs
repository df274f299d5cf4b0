//! A scenario for `migrate plan` from what a run has measured.

use anyhow::{Result, bail};
use fulgurite_migration::plan::Scenario;
use fulgurite_migration::run::database::{State, Totals};
use serde_json::Value;

use super::folder::Migration;

/// A stage as a run has measured it.
struct Measured {
    bytes_s: f64,
    gap_s: f64,
}

impl Measured {
    /// From the streams of the stage; `None` if they moved nothing.
    fn of(progress: &Value, stage: &str) -> Option<Self> {
        let streams = progress["streams"].as_array()?;
        let sum = |name: &str| -> f64 {
            streams.iter().filter(|stream| stream["stage"] == stage).filter_map(|stream| stream[name].as_f64()).sum()
        };
        let (files, bytes, busy, moving) = (sum("files"), sum("bytes"), sum("busy_s"), sum("moving_s"));
        (bytes > 0.0 && moving > 0.0).then(|| Self { bytes_s: bytes / moving, gap_s: ((busy - moving) / files).max(0.0) })
    }

    fn section(&self, name: &str) -> String {
        let (rate, gap) = (self.bytes_s.max(1.0), self.gap_s * 1e3);
        format!("[{name}]\nrate = \"{rate:.0} B/s\"\ngap = \"{gap:.6} ms\"\ngap_max = \"{gap:.6} ms\"\n")
    }
}

/// The scenario of what is left of a migration, or of all of it if nothing is.
pub(super) fn of(migration: &Migration, progress: Option<&Value>, totals: &Totals) -> Result<String> {
    let stages = ["input", "output", "scan"];
    let measured: Option<Vec<Measured>> = progress.and_then(|progress| stages.iter().map(|stage| Measured::of(progress, stage)).collect());
    let Some(measured) = measured else {
        bail!("no run has moved anything yet, so no rates are known: write a scenario by hand, or run the migration for a while");
    };
    let waiting = totals.of(State::Waiting);
    let (what, (files, bytes)) = if waiting.1 > 0 { ("What is left", waiting) } else { ("All files", totals.all()) };
    let settings = &migration.settings;
    let station = &settings.layout.stations[0];
    let spool_bytes: u64 = station.spools.iter().map(|spool| spool.bytes).sum();
    let size = (bytes / files.max(1)).max(1);
    // Lots end with a family and with a volume.
    let groups = migration.database.groups()?.max(1);
    let lot_files = settings.lot_files.min(usize::try_from(totals.all().0.div_ceil(groups)).unwrap_or(usize::MAX)).max(1);
    let sections: Vec<String> = measured.iter().zip(stages).map(|(measured, stage)| measured.section(stage)).collect();
    let text = format!(
        "title = \"{what} of a migration, at the rates of its last run\"\n\n\
         [files]\ntotal = \"{bytes} B\"\nsize = \"{size} B\"\nlot_files = {lot_files}\nlot_bytes = \"{lot_bytes} B\"\n\n{sections}\n\
         [rules]\nfamilies_together = {together}\nunscanned = {unscanned}\n\n\
         [stations]\ncount = 1\ninputs = {inputs}\noutputs = {outputs}\nscans = {scans}\nspools = 1\nspool = \"{spool_bytes} B\"\n\
         spool_exclusive = false\nspool_write = \"1 PB/s\"\nspool_read = \"1 PB/s\"\nlink = \"1 PB/s\"\n",
        lot_bytes = settings.lot_bytes,
        sections = sections.join("\n"),
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
