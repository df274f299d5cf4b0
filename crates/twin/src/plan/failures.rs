//! The effect of failures on a chosen size. Each case is simulated unless its result is known
//! without.

use super::load::YEAR_H;
use super::trial::{SIMULATED_MOST, Trials};
use super::{Case, FailureEffect, Plan, PlanError, Trial, YearPlan};

pub(super) fn effects(plan: &Plan, trials: &mut Trials<'_>, last: &YearPlan) -> Result<Vec<FailureEffect>, PlanError> {
    let mut effects = Vec::new();
    for case in [Case::ByChance, Case::Machines, Case::Library] {
        if let Some(account) = without_simulation(plan, case, last) {
            effects.push(FailureEffect { case, trial: None, keeps_level: Some(false), account });
            continue;
        }
        let trial = trials.run(&last.year, last.size, case, false)?;
        let is_kept = trial.worst_tail_s() <= plan.service.in_library().seconds() && trial.lost == 0.0;
        let keeps_level = trial.has_reads().then_some(is_kept);
        let account = match keeps_level {
            Some(keeps_level) => account(plan, case, last, &trial, keeps_level),
            None => "no read was simulated, so it is not known whether the level is kept".to_owned(),
        };
        effects.push(FailureEffect { case, trial: Some(trial), keeps_level, account });
    }
    Ok(effects)
}

/// Most platters of a set in one library.
fn together(plan: &Plan, libraries: u16) -> u16 {
    plan.template.sets.shape.platters().div_ceil(libraries)
}

/// Libraries over which sets must be spread to survive the loss of one; `None` if sets have no
/// redundancy.
fn enough_libraries(plan: &Plan) -> Option<u16> {
    let shape = plan.template.sets.shape;
    (shape.redundancy > 0).then(|| shape.platters().div_ceil(shape.redundancy))
}

fn advice(plan: &Plan) -> String {
    match enough_libraries(plan) {
        Some(needed) => format!("with {needed} libraries all reads would continue"),
        None => "sets have no redundancy".to_owned(),
    }
}

/// The effect, if it is known without a simulation.
fn without_simulation(plan: &Plan, case: Case, last: &YearPlan) -> Option<String> {
    let size = last.size;
    match case {
        Case::Machines if size.drives < 2 || size.shuttles < 2 => {
            Some("with one drive or shuttle, nothing is read while it is down".to_owned())
        }
        Case::Library if size.libraries == 1 => {
            Some(format!("it is the only one, so nothing can be read until it is back; {}", advice(plan)))
        }
        Case::Library if size.libraries > SIMULATED_MOST && together(plan, size.libraries) > plan.template.sets.shape.redundancy => {
            Some(format!(
                "it holds more platters of a set than the redundancy covers: its content can't be read until it is back; {}",
                advice(plan)
            ))
        }
        _ => None,
    }
}

fn account(plan: &Plan, case: Case, last: &YearPlan, trial: &Trial, keeps_level: bool) -> String {
    let (before, after) = (last.trial.worst_tail_s(), trial.worst_tail_s());
    let verdict = if keeps_level { "the level is kept" } else { "the level is not kept" };
    let ended = if after.is_finite() {
        format!("the tail is {} instead of {}, {verdict}", super::report::time(after), super::report::time(before))
    } else {
        "not all reads end in time, the level is not kept".to_owned()
    };
    let verified = if trial.verification < 1.0 { ", and verification falls behind what is written" } else { "" };
    match case {
        Case::Library if trial.lost > 0.0 => {
            let (together, redundancy) = (together(plan, last.size.libraries), plan.template.sets.shape.redundancy);
            format!(
                "{:.1} % of the reads fail until it is back, the level is not kept{verified}: it holds up to {together} platters of a \
                 set, and {redundancy} may be missing; {}",
                100.0 * trial.lost,
                advice(plan)
            )
        }
        Case::Library => format!(
            "each read of its content becomes {} reads in the others; {ended}{verified}; simulated with {}",
            plan.template.sets.shape.information,
            match trial.simulated == last.size.libraries {
                true => "all libraries".to_owned(),
                false => format!("{} of the remaining ones", trial.simulated),
            }
        ),
        Case::ByChance => {
            let lost =
                if trial.lost > 0.0 { format!(", {:.3} % of the reads wait for a repair", 100.0 * trial.lost) } else { String::new() };
            let libraries = f64::from(last.size.libraries);
            let drives = libraries * f64::from(last.size.drives) * YEAR_H / plan.failures.drive_hours;
            let moving = libraries * f64::from(last.size.shuttles) * last.trial.shuttles_moving * YEAR_H;
            let shuttles = moving / plan.failures.shuttle_hours;
            let run = &plan.template.run;
            let years = f64::from(trial.simulated) / libraries * f64::from(plan.seeds) * run.measured_until().seconds() / 3600.0 / YEAR_H;
            format!(
                "{ended}{verified}{lost}; {drives:.1} drives and {shuttles:.1} shuttles fail in a year, of which {:.1} fall in the simulated \
                 time",
                (drives + shuttles) * years
            )
        }
        Case::Machines | Case::Nothing => format!("{ended}{verified}"),
    }
}
