//! Between which times a migration ends, if its rates were measured with other numbers of streams.

use fulgurite_domain::Micros;

use super::scenario::{Scenario, Speed};
use super::simulation::simulate;
use crate::layout::Stage;
use crate::quantities::time;

/// The shortest and the longest time that follow from what was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// If the streams of each stage are as fast as is possible by what was measured.
    pub least: Micros,
    /// If they are as slow.
    pub most: Micros,
}

/// The range of a scenario whose rates were measured with other numbers of streams; `None` if they
/// weren't.
///
/// Streams share processors and disks, and nothing says how much. If they shared nothing, each
/// would be as fast as it was beside others. If they shared everything, the streams of a stage
/// would move as much as before in all, however many they are. How much stages take from each other
/// isn't considered, so a run can end outside of the range.
#[must_use]
pub fn range(scenario: &Scenario) -> Option<Range> {
    let by = streams(scenario)?.map(|(planned, measured)| match planned.min(measured) {
        0 => 1.0,
        _ => f64::from(planned) / f64::from(measured),
    });
    if by == [1.0; 3] {
        return None;
    }
    let elapsed = |bound: fn(f64) -> f64| {
        let mut scaled = scenario.clone();
        for (speed, by) in [&mut scaled.input, &mut scaled.output, &mut scaled.scan].into_iter().zip(by.map(bound)) {
            slow_down(speed, by);
        }
        simulate(&scaled).elapsed()
    };
    // Faster streams take lots in another order, so now and then they end a little later.
    let times = [elapsed(|by| by.min(1.0)), elapsed(|by| by.max(1.0)), elapsed(|_| 1.0)];
    Some(Range { least: times.into_iter().min()?, most: times.into_iter().max()? })
}

/// For each stage of a station, the planned streams and the measured ones.
fn streams(scenario: &Scenario) -> Option<[(u32, u32); 3]> {
    let (of, measured) = (&scenario.stations, scenario.measured?);
    let planned = [of.inputs, of.outputs, of.scans].map(|streams| u32::from(streams) * u32::from(of.instances));
    Some([0, 1, 2].map(|stage| (planned[stage], u32::from(measured[stage]))))
}

/// Makes a stream slower by a factor; faster if it is below 1.
fn slow_down(speed: &mut Speed, by: f64) {
    let Speed { rate, gap_s, gap_max_s, file_s } = *speed;
    *speed = Speed { rate: rate / by, gap_s: gap_s * by, gap_max_s: gap_max_s * by, file_s: file_s * by };
}

impl Range {
    /// The range of a scenario in a sentence.
    #[must_use]
    pub fn statement(&self, scenario: &Scenario) -> String {
        let streams = streams(scenario).unwrap_or_default();
        let counted = |of: fn(&(u32, u32)) -> u32| {
            let count = |(stage, pair): (&Stage, _)| match of(pair) {
                1 => format!("1 {}", stage.name()),
                many => format!("{many} {}s", stage.name()),
            };
            Stage::ALL.iter().zip(&streams).map(count).collect::<Vec<_>>().join(", ")
        };
        format!(
            "Rates were measured at a station with {}. With {}, the time is between {} and {}: each stream may be as fast as it was, or the \
             streams of a stage may share what those had.",
            counted(|pair| pair.1),
            counted(|pair| pair.0),
            time(self.least.seconds()),
            time(self.most.seconds()),
        )
    }
}
