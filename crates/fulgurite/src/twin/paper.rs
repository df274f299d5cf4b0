//! `fulgurite twin paper`: the evaluation of Project Silica, run again.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use fulgurite_twin::paper::{self, NAMES, Settings};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{Outcome, Session};

#[derive(Debug, Args)]
pub(crate) struct Paper {
    /// Where the page, figures and tables go
    #[arg(long, default_value = "paper-results", value_name = "FOLDER")]
    out: PathBuf,
    /// Seeds of the points that conclusions are drawn from
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    seeds: u32,
    /// Seeds of all other points; with 5 or more, their tails are given with intervals
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    sweep_seeds: u32,
    /// Only this part of it; give it several times
    #[arg(long, value_name = "NAME", value_parser = NAMES)]
    only: Vec<String>,
    /// Half an hour of a light load, and only the ends of each axis: to see that it works
    #[arg(long)]
    quick: bool,
    /// Run so many at once; without it, as many as there are cores. The results are the same
    #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "N")]
    threads: usize,
    /// Write the page and its figures into the documents of a source tree too
    #[arg(long, value_name = "FOLDER")]
    docs: Option<PathBuf>,
}

pub(crate) fn paper(session: &Session, options: &Paper) -> Result<Outcome> {
    let Paper { seeds, sweep_seeds, quick, threads, .. } = *options;
    let settings = Settings { seeds, sweep_seeds, only: options.only.clone(), quick, threads, ..Settings::default() };
    let bar = bar(session);
    let paper = paper::run(&settings, &|share| bar.set_position((share * 1_000.0) as u64));
    bar.finish_and_clear();
    let paper = paper?;
    let mut written = paper.write(&options.out)?;
    if let Some(docs) = &options.docs {
        written.extend(paper.write_docs(docs)?);
    }
    session.say(&format!("{} runs, {} million events; {} files", paper.runs, paper.events / 1_000_000, written.len()));
    session.say(&format!("{}", options.out.join("paper.md").display()));
    if session.json {
        let files: Vec<_> = written.iter().map(|path| path.display().to_string()).collect();
        session.answer(&serde_json::json!({ "runs": paper.runs, "events": paper.events, "files": files }));
    }
    Ok(Outcome::Good)
}

fn bar(session: &Session) -> ProgressBar {
    if session.quiet || !std::io::IsTerminal::is_terminal(&std::io::stderr()) {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("runs [{bar:30}] {percent:>3} %  {elapsed}, {eta} left").expect("a good template");
    ProgressBar::with_draw_target(Some(1_000), ProgressDrawTarget::stderr_with_hz(8)).with_style(style.progress_chars("=> "))
}
