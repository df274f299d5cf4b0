//! `progress.json`: what the last run did, or does.

use anyhow::{Context, Result};
use fulgurite_domain::Micros;
use fulgurite_migration::figures::{Figures, StageFigures, StreamFigures};
use fulgurite_migration::layout::Stage;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::folder::{Migration, write_json};
use crate::text;

/// What a run did, or does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct RunProgress {
    /// When this was written, in seconds since 1970.
    pub(super) at: u64,
    /// When the run ended. A run that was killed doesn't say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ended_at: Option<u64>,
    pub(super) elapsed_s: f64,
    /// Files and bytes by state.
    pub(super) totals: Value,
    /// Lots on their way.
    pub(super) lots: usize,
    /// The time left at the pace of the run.
    pub(super) left_s: Option<f64>,
    /// Its 95 % confidence interval.
    pub(super) left_interval_s: Option<(f64, f64)>,
    pub(super) streams: Vec<StreamFigures>,
    pub(super) spools: Vec<SpoolProgress>,
    /// Tapes that the last run set aside, even if it moved nothing and the figures are those of an
    /// earlier one.
    #[serde(default)]
    pub(super) set_aside: Vec<SetAside>,
}

/// A tape that a run set aside, because many files in a row failed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SetAside {
    pub(super) volume: String,
    /// Files in a row that failed.
    pub(super) failed: u32,
    /// Why the last of them failed.
    pub(super) reason: String,
}

/// How full a spool volume was.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SpoolProgress {
    pub(super) mean_bytes: f64,
    pub(super) max_bytes: u64,
}

impl RunProgress {
    /// That of a migration; `None` if no run has written it, or it isn't readable.
    pub(super) fn read(migration: &Migration) -> Option<Self> {
        serde_json::from_value(migration.progress()?).ok()
    }

    /// A line that counts the tapes that were set aside, and one for each; none if none was.
    pub(super) fn set_aside_lines(&self, is_running: bool) -> Vec<String> {
        let tapes = self.set_aside.len() as u64;
        if tapes == 0 {
            return Vec::new();
        }
        let first = if is_running {
            format!("{} set aside until the next run:", text::phrase(tapes, "tape is", "tapes are"))
        } else {
            format!("The last run set aside {}; the next tries again:", text::count(tapes, "tape"))
        };
        let line = |of: &SetAside| {
            let failed = text::count(of.failed.into(), "file");
            format!("  {}: {failed} in a row failed; the last: {}", text::harmless(&of.volume), text::harmless(&of.reason))
        };
        std::iter::once(first).chain(self.set_aside.iter().map(line)).collect()
    }

    /// Reads the last run's progress when another begins, and marks it as ended: a run that was
    /// killed couldn't do that. Tapes that it set aside are tried again.
    pub(super) fn of_earlier(migration: &Migration) -> Result<Option<Self>> {
        let Some(found) = Self::read(migration) else { return Ok(None) };
        let is_open = found.ended_at.is_none() || !found.set_aside.is_empty();
        let earlier = Self { ended_at: found.ended_at.or(Some(found.at)), set_aside: Vec::new(), ..found };
        if is_open {
            write_json(&migration.path("progress.json"), &json!(earlier)).context("progress.json")?;
        }
        Ok(Some(earlier))
    }

    /// What the streams of a stage did.
    pub(super) fn stage(&self, stage: Stage) -> StageFigures {
        StageFigures::sum(stage, &self.streams, self.elapsed())
    }

    pub(super) fn elapsed(&self) -> Micros {
        Micros::from_seconds(self.elapsed_s)
    }
}

pub(super) fn spools(figures: &Figures) -> Vec<SpoolProgress> {
    figures.spools.iter().map(|of| SpoolProgress { mean_bytes: figures.mean_bytes(of), max_bytes: of.max_bytes }).collect()
}
