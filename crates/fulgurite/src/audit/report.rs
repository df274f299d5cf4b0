//! `audit report`: what an audit knows, in forms for people, spreadsheets and monitoring.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use fulgurite_audit::report::{self, Summary};

use super::{Opened, now, status};
use crate::standard_output::standard_output;
use crate::{Outcome, Session};

#[derive(Debug, Args)]
pub(super) struct Report {
    /// Write a page with figures, which needs nothing from elsewhere
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print a CSV table instead of a mail, one row for each node
    #[arg(long)]
    csv: bool,
    /// Write metrics for the textfile collector of Prometheus's node_exporter; FILE ends in .prom
    #[arg(long, value_name = "FILE")]
    prometheus: Option<PathBuf>,
}

pub(super) fn report(session: &Session, opened: &mut Opened, asked: &Report) -> Result<Outcome> {
    let now = now();
    let summary = Summary::read(&mut *opened.database, &opened.nodes, now)?;
    // Metrics come first: monitoring gets them even if the page cannot be written.
    if let Some(path) = &asked.prometheus {
        report::write(path, &report::prometheus(&summary))?;
    }
    if let Some(path) = &asked.html {
        report::write(path, &report::html(&summary))?;
    }
    let prints = if session.json {
        Some(format!("{}\n", report::json(&summary)))
    } else if asked.csv {
        Some(report::csv(&summary))
    } else if asked.html.is_none() && asked.prometheus.is_none() {
        Some(report::text(&summary))
    } else {
        None
    };
    if let Some(text) = prints {
        let mut out = standard_output();
        out.write_all(text.as_bytes())?;
        out.flush()?;
    }
    // Also for a slowdown, and for a cycle that is too long: nothing is lost, and all is not well.
    let least = if summary.is_well() { Outcome::Good } else { Outcome::Absent };
    Ok(status::outcome(&mut *opened.database, &opened.nodes, now)?.worst(least))
}
