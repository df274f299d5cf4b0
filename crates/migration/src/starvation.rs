//! What starves what: the stage that sets the pace, and what the others wait for.

use fulgurite_domain::Micros;

use crate::figures::StageFigures;
use crate::quantities::percent;

/// A stage sets the pace if its streams are busy at least this share of the time.
pub const ALWAYS_BUSY: f64 = 0.9;
/// Waits of other stages are named from this share of the time on.
const NAMED: f64 = 0.1;
/// A run that is shorter says nothing.
const ELAPSED_MIN: Micros = Micros(10_000_000);
/// A run of fewer files says nothing.
const FILES_MIN: u64 = 20;

/// The stage whose streams were busiest; `None` if none were busy.
#[must_use]
pub fn busiest(stages: &[StageFigures]) -> Option<&StageFigures> {
    let busy = stages.iter().filter(|of| of.busy > Micros::ZERO);
    busy.max_by(|a, b| a.busy_share().total_cmp(&b.busy_share()))
}

/// Which stage sets the pace, and what the others wait for, in a sentence; `None` if the run was
/// too short to say.
#[must_use]
pub fn sentence(stages: &[StageFigures]) -> Option<String> {
    let first = busiest(stages).filter(|of| of.elapsed >= ELAPSED_MIN && of.files >= FILES_MIN)?;
    let (name, busy) = (first.stage.name(), first.busy_share());
    let mut text = match first.wait_shares().first() {
        Some((wait, share)) if busy < ALWAYS_BUSY => {
            format!("The {name}s are busiest, {} of the time, and wait {} {} of it", percent(busy), wait.phrase(), percent(*share))
        }
        _ => format!("The {name}s set the pace: they are busy {} of the time", percent(busy)),
    };
    for of in stages.iter().filter(|of| of.stage != first.stage) {
        if let Some((wait, share)) = of.wait_shares().first().filter(|(_, share)| *share >= NAMED) {
            text += &format!("; the {}s wait {} {}", of.stage.name(), wait.phrase(), percent(*share));
        }
    }
    Some(text + ".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::LotTimes;
    use crate::layout::Stage;
    use crate::pipeline::Wait;

    fn stage(stage: Stage, busy_s: f64, wait: Wait, files: u64) -> StageFigures {
        let mut waits = [Micros::ZERO; Wait::ALL.len()];
        waits[wait as usize] = Micros::from_seconds(100.0 - busy_s);
        let (busy, elapsed) = (Micros::from_seconds(busy_s), Micros::from_seconds(100.0));
        StageFigures { stage, elapsed, streams: 1, files, bytes: files * 10, busy, moving: busy, waits, lot_times: LotTimes::default() }
    }

    #[test]
    fn the_busiest_stage_sets_the_pace_and_starves_others() {
        let outputs_limit = [
            stage(Stage::Input, 40.0, Wait::Room, 50),
            stage(Stage::Output, 96.0, Wait::Input, 50),
            stage(Stage::Scan, 95.0, Wait::Output, 50),
        ];
        let said = "The outputs set the pace: they are busy 96 % of the time; the inputs wait for room in spools 60 %.";
        assert_eq!(sentence(&outputs_limit).as_deref(), Some(said));
        let fed = [stage(Stage::Input, 30.0, Wait::Files, 50), stage(Stage::Output, 20.0, Wait::Input, 50)];
        let said = "The inputs are busiest, 30 % of the time, and wait for files 70 % of it; the outputs wait for inputs 80 %.";
        assert_eq!(sentence(&fed).as_deref(), Some(said));
    }

    #[test]
    fn too_little_data_says_nothing() {
        assert_eq!(sentence(&[]), None);
        assert_eq!(sentence(&[stage(Stage::Input, 95.0, Wait::Files, 19)]), None);
        let short = StageFigures { elapsed: Micros(9_999_999), ..stage(Stage::Input, 9.0, Wait::Files, 50) };
        assert_eq!(sentence(&[short]), None);
        assert_eq!(sentence(&[stage(Stage::Input, 0.0, Wait::Files, 50)]), None);
    }
}
