//! `audit export`: the history of checks.

use std::io::{BufWriter, Write};

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::json;

use super::history::event_json;
use super::{Opened, date, premis};
use crate::premis::Form;
use crate::standard_output::standard_output;
use crate::{Outcome, Session};

#[derive(Debug, Args)]
pub(super) struct Export {
    /// Write only events after the one with this number
    #[arg(long, value_name = "EVENT", default_value_t = 0)]
    after: u64,
    /// Form of the output; json means lines of JSON. Default: csv, or json with --json
    #[arg(long, value_name = "FORMAT", value_enum)]
    format: Option<Format>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Csv,
    Json,
    /// PREMIS 3 in XML
    PremisXml,
    /// PREMIS 3 in JSON-LD
    PremisJsonLd,
}

/// A field of a CSV file.
pub(super) fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

pub(super) fn export(session: &Session, opened: &mut Opened, export: &Export) -> Result<Outcome> {
    const PAGE: usize = 10_000;
    let mut out = BufWriter::new(standard_output());
    let format = export.format.unwrap_or(if session.json { Format::Json } else { Format::Csv });
    let form = match format {
        Format::PremisXml => Some(Form::Xml),
        Format::PremisJsonLd => Some(Form::JsonLd),
        Format::Csv | Format::Json => None,
    };
    if let Some(form) = form {
        premis::export(opened, form, export.after, out)?.flush()?;
        return Ok(Outcome::Good);
    }
    let is_json = format == Format::Json;
    if !is_json {
        writeln!(out, "event,time,node,name,kind,method,bytes,stream_us,detail")?;
    }
    let mut after = export.after;
    loop {
        let page = opened.database.events(after, PAGE)?;
        let Some((last, _)) = page.last() else { break };
        after = last.event;
        for (event, name) in &page {
            let node = opened.name(event.node);
            if is_json {
                let mut value = event_json(event);
                value["node"] = json!(node);
                value["name"] = json!(name);
                writeln!(out, "{value}")?;
            } else {
                let (kind, method, micros) = (event.kind.name(), event.method.name(), event.stream.as_micros());
                let time = date(event.at).replace(' ', "T");
                writeln!(
                    out,
                    "{},{time}Z,{node},{},{kind},{method},{},{micros},{}",
                    event.event,
                    quoted(name),
                    event.bytes,
                    quoted(&event.detail)
                )?;
            }
        }
    }
    out.flush()?;
    Ok(Outcome::Good)
}
