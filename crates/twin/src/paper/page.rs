//! The page: text with the numbers filled in.

use std::fmt::Write;

use super::chapter::{Block, Chapter};
use super::write::FIGURES;
use super::{Paper, Settings};
use crate::scenario::Scenario;

const INTRODUCTION: &str = "\
# The evaluation, run again

Every figure and table of the evaluation of Project Silica (Anderson et al., SOSP '23, [doi:10.1145/3600006.3613208](https://doi.org/10.1145/3600006.3613208)) that is about the system, and some of ours. \
This page is made by `{command}`; numbers, tables and figures come from the run, and the text around them from the program. The data are written as CSV and Parquet, the figures as SVG and PNG.

## What is calibrated, and what is predicted

The paper's traces, its library and its controller are not public. Made from published figures are:

- the workload: sizes, ratios between the intervals, burstiness ([workload](workload.md));
- the mechanics: crabbing, the difference of picks and places, fine positioning, mounting, switching, seeking;
- the three policies `no-shuttles`, `shortest-paths` and `partitioned`, after its description.

*Calibrated* are the levels of the three intervals, with six numbers: with 20 drives of 60 MB/s and no shuttles, tails of 2.6 minutes (Typical), 15 to 22 minutes (IOPS) and 4.6 hours (Volume), and reads for 6 %, 31 % and 26 % of the drives' time. Blast zones are chosen so that Table 1 comes out.
Everything else on this page is a *prediction* of the model: no policy and no machine was fitted to any other number.

*Proposed*, without a source, are: slots, widths and shelf pitch of racks (100 slots, 1.2 m), speed and acceleration of shuttles (1 m/s, 0.5 m/s²), the level of pick and place (2.17 and 2.0 s), energies, the work-stealing threshold (1 GB), sizes of bursts, prices of computing. \
Ways and handling decide what a shuttle can carry, so that absolute tails of policies with shuttles hang on these proposals. Comparisons of policies on the same hardware hang on them less.

## How it is run

Completion time is from a request's arrival to its last byte leaving the library, decoding not counted; the *tail* is its 99.9th percentile. Requests count that arrive in 12 hours after 6 of warm-up; unless said otherwise. \
All policies get the same requests for each seed. What follows ± is half of the 95 % confidence interval of the mean over seeds (Student's t), where there are five of them or more; so are the whiskers of figures. Comparisons of policies are means of ratios seed by seed.
";

impl Paper {
    /// The page, as Markdown. Its figures are in a folder beside it.
    #[must_use]
    pub fn page(&self) -> String {
        let Settings { seeds, sweep_seeds, .. } = self.settings;
        let mut page =
            INTRODUCTION.replace("{command}", &format!("fulgurite twin paper --seeds {seeds} --sweep-seeds {sweep_seeds} --docs docs"));
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
                "\nSeeds {seeds} for the default library under each policy and for the ablation; {} for all other points (`--seeds`, `--sweep-seeds`), and one for 100 libraries. Version {}; {} runs with {} million events.{quick}",
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
        line(&mut page, "\n## Settings\n\nThe scenario that all runs begin with; each chapter says what it changes.\n\n```toml");
        line(&mut page, canonical.trim_end());
        line(&mut page, "```");
        page
    }
}

fn write_chapter(page: &mut String, number: usize, chapter: &Chapter) {
    let mut line = |text: std::fmt::Arguments<'_>| {
        page.write_fmt(text).expect("a string takes all");
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
