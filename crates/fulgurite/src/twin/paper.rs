//! `twin paper`: repeats the evaluation of Project Silica.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use fulgurite_twin::paper::{self, NAMES, Settings};
use serde_json::json;

use super::bar;
use crate::{Outcome, Session, text};

#[derive(Debug, Args)]
pub(crate) struct Paper {
    /// Folder for the page, figures and tables
    #[arg(long, default_value = "paper-results", value_name = "FOLDER")]
    out: PathBuf,
    /// Number of seeds for the points that conclusions are drawn from
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    seeds: u32,
    /// Number of seeds for other points (some skewed reads have at least 5, or --seeds if that
    /// is less); with 5 or more, their tails have intervals
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    sweep_seeds: u32,
    /// Run only this part; the option may be repeated
    #[arg(long, value_name = "NAME", value_parser = NAMES)]
    only: Vec<String>,
    /// Simulate half an hour of a light load, and only the ends of each axis: a smoke test
    #[arg(long)]
    quick: bool,
    /// Number of runs in parallel. Default: the number of cores. The results don't depend on it
    #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "N")]
    threads: usize,
    /// Also write the page and its figures into the documents of this source tree. Not with --only,
    /// because the figures of the other parts would be removed
    #[arg(long, value_name = "FOLDER", conflicts_with = "only")]
    docs: Option<PathBuf>,
}

pub(crate) fn paper(session: &Session, options: &Paper) -> Result<Outcome> {
    let Paper { seeds, sweep_seeds, quick, threads, .. } = *options;
    let settings = Settings { seeds, sweep_seeds, only: options.only.clone(), quick, threads, ..Settings::default() };
    let bar = bar(session, 1_000, "runs [{bar:30}] {percent:>3} %  {elapsed}, {eta} left");
    let paper = paper::run(&settings, &|share| bar.set_position((share * 1_000.0) as u64));
    bar.finish_and_clear();
    let paper = paper?;
    let mut written = paper.write(&options.out)?;
    if let Some(docs) = &options.docs {
        written.extend(paper.write_docs(docs)?);
    }
    session.say(&format!("{} runs, {} million events; {} files", paper.runs, paper.events / 1_000_000, written.len()));
    session.say(&format!("{}", options.out.join("paper.md").display()));
    if paper.censored > 0 {
        let runs = text::phrase(paper.censored, "run", "runs");
        let text = format!("{runs} stopped before all requests had ended; their tails are lower bounds, marked ≥");
        crate::diagnostics::trouble(&text);
    }
    session.answer(|| {
        let files: Vec<_> = written.iter().map(|path| path.display().to_string()).collect();
        json!({ "runs": paper.runs, "events": paper.events, "censored": paper.censored, "files": files })
    });
    Ok(Outcome::troubled_if(paper.censored > 0))
}
