//! Staging: content that has come in and is not yet verified on glass.

use fulgurite_workload::{Ingest, IngestSpec};

use super::load::Year;
use super::{Plan, PlanError, Trial};
use crate::scenario::ScenarioError;

/// Number of years drawn.
const SIMULATED_YEARS: u64 = 200;
/// The share of them that stays below the result.
const PEAK_QUANTILE: f64 = 0.95;
const YEAR_DAYS: usize = 365;
/// Days simulated before the year, so that it doesn't begin with empty staging.
const RUN_IN_DAYS: usize = 180;

/// Bytes of content in staging: the yearly peak that 19 of 20 years don't exceed. Platters are
/// written as fast as the write drives can write or the read drives can verify, whichever is
/// slower. Content under verification is still staged.
pub(super) fn bytes(plan: &Plan, year: &Year, trial: &Trial) -> Result<f64, PlanError> {
    if year.written_bytes_s <= 0.0 {
        return Ok(0.0);
    }
    let headroom = plan.ingest.headroom.min(trial.verification);
    let spec = IngestSpec {
        bytes_per_day: year.written_bytes_s * 86_400.0,
        sigma: plan.ingest.sigma,
        persistence: plan.ingest.persistence,
        platter_bytes: plan.platter_bytes() as u64,
        headroom,
    };
    let mut peaks = Vec::with_capacity(SIMULATED_YEARS as usize);
    for number in 0..SIMULATED_YEARS {
        let days = Ingest::new(spec, plan.seed.wrapping_add(number)).map_err(ScenarioError::from)?;
        // A day's bytes arrive before the platters written from them have left.
        let staged = days.skip(RUN_IN_DAYS).take(YEAR_DAYS).map(|day| day.staged_bytes as f64 + day.platters as f64 * plan.platter_bytes());
        peaks.push(staged.fold(0.0, f64::max));
    }
    peaks.sort_by(f64::total_cmp);
    let peak = peaks[(PEAK_QUANTILE * (peaks.len() - 1) as f64) as usize];
    // Little's law: at the peak the drives verify as much as is written.
    let drives = f64::from(trial.size.libraries) * f64::from(trial.size.drives);
    let share = trial.verifying.max(f64::MIN_POSITIVE);
    let verification_s = plan.platter_bytes() / (plan.template.mechanics.drive.throughput_bytes_s * share);
    let verified = (year.written_bytes_s * headroom * verification_s).min(drives * plan.platter_bytes());
    Ok((peak + verified) / plan.written_per_byte())
}
