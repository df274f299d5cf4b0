//! The page: the text of the evaluation, with its numbers.

use std::fmt::Write;

use super::chapter::{Block, Chapter, digits};
use super::write::FIGURES;
use super::{Paper, Settings};
use crate::scenario::Scenario;

const INTRODUCTION: &str = "\
# The evaluation, repeated

Every figure and table of the evaluation of Project Silica (Anderson et al., SOSP '23, [doi:10.1145/3600006.3613208](https://doi.org/10.1145/3600006.3613208)) that concerns the system, and some of our own. \
`{command}` generates this page: numbers, tables and figures come from the run, the text around them from the program. The data are written as CSV and Parquet, the figures as SVG and PNG.

## What is calibrated, and what is predicted

The paper's traces, its library and its controller are not public. The following are derived from published figures:

- the workload: sizes, ratios between the intervals, burstiness ([workload](workload.md));
- the mechanics: crabbing, the difference of picks and places, fine positioning, mounting, switching, seeking;
- the three policies `no-shuttles`, `shortest-paths` and `partitioned`, following its description.

The levels of the three intervals are *calibrated* to six numbers: with 20 drives of 60 MB/s and no shuttles, tails of 2.6 minutes (Typical), 15 to 22 minutes (IOPS) and 4.6 hours (Volume), and reads for 6 %, 31 % and 26 % of the drives' time. Blast zones are chosen to reproduce Table 1.
Everything else on this page is a *prediction* of the model: no policy and no machine was fitted to any other number.

The following are *proposed*, without a source:

- {slots} slots on each shelf of a rack of {width} m: platters about 2 mm thick stand like books, {pitch} mm apart;
- about {platters} platters. The paper derives its number from the data stored at the time, and calls 10 % of it \"several hundreds of platters, or multiple blast zones\";
- top speed ({speed} m/s) and acceleration ({acceleration} m/s²) of shuttles, and the level of pick and place ({pick} and {place} s);
- the work-stealing threshold of `partitioned` ({threshold} GB);
- shelf pitch, energies, sizes of bursts, prices of computing.

Paths and handling times determine how much a shuttle can carry, so the absolute tails of policies with shuttles depend on these proposals. The chapter *Sensitivity to proposed settings* shows how much each moves the tails, and the comparison of policies.

## Method

Completion time runs from a request's arrival until its last byte leaves the library, without decoding; the *tail* is its 99.9th percentile. Unless noted, the requests that count arrive in 12 hours, after 6 hours of warm-up. \
All policies get the same requests for each seed. The number after ± is half the width of the 95 % confidence interval of the mean over seeds (Student's t), given for five seeds or more; the whiskers in figures show the same interval. Comparisons of policies are means of the ratios of each seed.
";

fn introduction(command: &str) -> String {
    let scenario = Scenario::default();
    let (layout, motion) = (&scenario.layout, &scenario.mechanics.motion);
    let width_m = layout.rack_width_um as f64 / 1e6;
    let threshold = scenario.policy.steals_above.map_or("none".to_owned(), |bytes| (bytes as f64 / 1e9).to_string());
    [
        ("{command}", command.to_owned()),
        ("{slots}", layout.slots.to_string()),
        ("{width}", width_m.to_string()),
        ("{pitch}", digits(width_m * 1e3 / f64::from(layout.slots))),
        ("{platters}", scenario.platters.to_string()),
        ("{speed}", motion.speed_m_s.to_string()),
        ("{acceleration}", motion.acceleration_m_s2.to_string()),
        ("{pick}", motion.pick_s.to_string()),
        ("{place}", motion.place_s.to_string()),
        ("{threshold}", threshold),
    ]
    .into_iter()
    .fold(INTRODUCTION.to_owned(), |text, (name, value)| text.replace(name, &value))
}

impl Paper {
    fn command(&self) -> String {
        let Settings { seeds, sweep_seeds, only, quick, .. } = &self.settings;
        let mut command = format!("fulgurite twin paper --seeds {seeds} --sweep-seeds {sweep_seeds}");
        if *quick {
            command.push_str(" --quick");
        }
        only.iter().for_each(|name| command.push_str(&format!(" --only {name}")));
        if only.is_empty() {
            command.push_str(" --docs docs");
        }
        command
    }

    /// The page, as Markdown. It links figures in a sibling folder.
    #[must_use]
    pub fn page(&self) -> String {
        let mut page = introduction(&self.command());
        let line = |page: &mut String, text: &str| {
            page.push_str(text);
            page.push('\n');
        };
        let seeds = self.seeds_text();
        let quick =
            if self.settings.quick { " This is a quick look: half an hour is measured, and only the ends of each axis." } else { "" };
        line(
            &mut page,
            &format!(
                "\nSeeds {seeds} for the default library under each policy and for the ablation; {} for other points (`--seeds`, `--sweep-seeds`), except those that a chapter names, and one for 100 libraries. Version {}; {} runs with {} million events.{quick}",
                self.settings.sweep_seeds,
                env!("CARGO_PKG_VERSION"),
                self.runs,
                self.events / 1_000_000
            ),
        );
        for (index, chapter) in self.chapters.iter().enumerate() {
            write_chapter(&mut page, index + 1, chapter);
        }
        let canonical = Scenario { name: "paper".to_owned(), ..Scenario::default() }.canonical();
        line(&mut page, "\n## Settings\n\nThe base scenario of all runs; each chapter names its changes.\n\n```toml");
        line(&mut page, canonical.trim_end());
        line(&mut page, "```");
        page
    }
}

fn write_chapter(page: &mut String, number: usize, chapter: &Chapter) {
    let mut line = |text: std::fmt::Arguments<'_>| {
        page.write_fmt(text).expect("writing to a string never fails");
        page.push('\n');
    };
    line(format_args!("\n## {number}. {}", chapter.title));
    for block in &chapter.blocks {
        match block {
            Block::Paragraph(text) => line(format_args!("\n{}", text.trim())),
            Block::Drawing(at) => {
                let drawing = &chapter.drawings[*at];
                line(format_args!("\n![{}]({FIGURES}/{}.svg)\n\n*{}*", drawing.caption, drawing.name, drawing.caption));
            }
            Block::Listing(head, rows) => {
                line(format_args!("\n| {} |\n|{}", head.join(" | "), " --- |".repeat(head.len())));
                rows.iter().for_each(|row| line(format_args!("| {} |", row.join(" | "))));
            }
        }
    }
    let sheets: Vec<String> = chapter.sheets.iter().map(|sheet| format!("`{}`", sheet.name)).collect();
    line(format_args!("\nData: {}.", sheets.join(", ")));
}
