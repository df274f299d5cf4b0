//! A report as a page that needs nothing else: no script, no font, no request.

use std::fmt::Write;

use anyhow::Result;
use fulgurite_migration::figures::StageFigures;
use fulgurite_migration::quantities::{grouped, percent, short_time, time};
use fulgurite_migration::run::database::State;
use fulgurite_migration::starvation;

use super::compared::Compared;
use super::progress::SetAside;
use super::report::Known;
use crate::text;

/// Marks the page of a report.
pub(super) const MARK: &str = "<meta name=\"generator\" content=\"fulgurite migrate report\"/>";
/// Failed files on the page.
const FAILED_MAX: usize = 1_000;
/// Spool volumes with a plot.
pub(super) const SPOOLS_MAX: usize = 12;

/// Tables scroll by themselves on narrow screens.
const STYLE: &str = "\
body{margin:0 auto;max-width:64rem;padding:1rem;font:1rem/1.45 system-ui,sans-serif;color:#1c1c1c;background:#fff}\
h1{font-size:1.4rem;margin:.5rem 0}h2{font-size:1.1rem;margin:2rem 0 .5rem}\
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem}\
th,td{padding:.3rem .9rem .3rem 0;text-align:left;vertical-align:top;border-bottom:1px solid #d5d5d5;overflow-wrap:anywhere}\
td.number,th.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}\
figure{margin:1rem 0}figure svg{width:100%;max-width:48rem;height:auto}";

/// A cell of a table.
enum Cell {
    Text(String),
    Number(String),
}

/// The report as one page.
pub(super) fn page(known: &Known) -> Result<String> {
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n{MARK}\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>Migration</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>Migration</h1>\n"
    );
    paragraph(&mut out, &format!("From {} to {}", known.source, known.destination));
    paragraph(&mut out, &format!("As of {} UTC. {}", text::time(known.at.cast_signed()), known.state));
    if let Some(sentence) = &known.not_begun {
        paragraph(&mut out, sentence);
    }
    if let Some(end) = &known.end {
        paragraph(&mut out, end);
    }
    totals(&mut out, known);
    certificate(&mut out, known);
    set_aside(&mut out, known);
    last_run(&mut out, known);
    if let Some(compared) = &known.compared {
        comparison(&mut out, compared);
    }
    plots(&mut out, known)?;
    failed(&mut out, known);
    out += "</body>\n</html>\n";
    Ok(out)
}

fn totals(out: &mut String, known: &Known) {
    let row = |state: State| {
        let (files, bytes) = known.totals.of(state);
        vec![Cell::Text(state.name().to_owned()), Cell::Number(grouped(files)), Cell::Number(text::bytes(bytes))]
    };
    heading(out, "Files");
    table(out, &["state", "#files", "#bytes"], State::ALL.map(row));
}

fn certificate(out: &mut String, known: &Known) {
    if let Some(trouble) = &known.certificate_trouble {
        heading(out, "Certificate");
        paragraph(out, trouble);
    }
    let Some(certificate) = &known.certificate else { return };
    heading(out, "Certificate");
    let of = |path: &str| certificate.pointer(path).and_then(|value| value.as_str()).unwrap_or("unknown").to_owned();
    let amount = |name: &str| {
        let of = |what: &str| certificate[name][what].as_u64();
        let known = of("files").zip(of("bytes"));
        known.map_or_else(
            || "unknown".to_owned(),
            |(files, bytes)| format!("{}, {}", text::count(files, "file"), text::count(bytes, "byte")),
        )
    };
    let rows = [
        ("made at", of("/made_at")),
        ("by", of("/program")),
        ("migrated and read back", amount("migrated")),
        ("failed", amount("failed")),
        ("list", of("/list/file")),
        ("SHA-256 of the list", of("/list/sha256")),
    ];
    table(out, &["", ""], rows.map(|(name, value)| vec![Cell::Text(name.to_owned()), Cell::Text(value)]));
}

fn set_aside(out: &mut String, known: &Known) {
    let Some(progress) = known.progress.as_ref().filter(|progress| !progress.set_aside.is_empty()) else { return };
    heading(out, "Tapes set aside");
    let which = if known.is_running() { "The current run" } else { "The last run" };
    paragraph(out, &format!("{which} stopped reading these tapes; the next run tries them again."));
    let row = |of: &SetAside| vec![Cell::Text(of.volume.clone()), Cell::Number(grouped(of.failed.into())), Cell::Text(of.reason.clone())];
    table(out, &["tape", "#files in a row that failed", "last error"], progress.set_aside.iter().map(row));
}

fn last_run(out: &mut String, known: &Known) {
    heading(out, known.which_run());
    let Some(progress) = &known.progress else {
        return paragraph(out, known.no_figures());
    };
    let ended = progress.ended_at.map_or_else(String::new, |at| format!(", ended {} UTC", text::time(at.cast_signed())));
    paragraph(out, &format!("Time: {}{ended}.", time(progress.elapsed_s)));
    if let Some(sentence) = starvation::sentence(&known.stages) {
        paragraph(out, &sentence);
    }
    let headings = ["stage", "#streams", "#files", "#bytes", "#rate while moving", "#gap", "#duty factor", "#busy", "waiting for"];
    let row = |of: &StageFigures, first: Vec<Cell>| {
        let waits = of.wait_shares().into_iter().filter(|(_, share)| *share >= 0.01);
        let waits: Vec<String> = waits.map(|(wait, share)| format!("{} {}", wait.name(), percent(share))).collect();
        let figures = [
            grouped(of.files),
            text::bytes(of.bytes),
            text::per_second(of.rate()),
            short_time(of.gap_s()),
            format!("{:.2}", of.duty()),
            percent(of.busy_share()),
        ];
        first.into_iter().chain(figures.map(Cell::Number)).chain([Cell::Text(waits.join(", "))]).collect::<Vec<_>>()
    };
    let stages = known.stages.iter().map(|of| row(of, vec![Cell::Text(of.stage.name().to_owned()), Cell::Number(of.streams.to_string())]));
    table(out, &headings, stages);
    heading(out, "Streams");
    let streams = progress.streams.iter().map(|of| {
        let figures = StageFigures::sum(of.place.stage, [of], progress.elapsed());
        let (name, number) = (of.place.stage.name(), of.place.number);
        row(&figures, vec![Cell::Number((u32::from(of.place.station) + 1).to_string()), Cell::Text(format!("{name} {number}"))])
    });
    table(out, &[&["#station", "stream"], &headings[2..]].concat(), streams);
}

fn comparison(out: &mut String, compared: &Compared) {
    heading(out, &format!("Plan and run: {}", compared.scenario));
    if let Some(caution) = compared.caution() {
        paragraph(out, &caution);
    }
    let number = |value: Option<f64>| Cell::Number(value.map_or_else(|| "unknown".to_owned(), decimals));
    let rows = compared.pairs.iter().map(|of| {
        let name = format!("{} ({})", of.figure, of.unit).replace(" (1)", "");
        let stage = of.stage.map_or("run", fulgurite_migration::layout::Stage::name).to_owned();
        let ratio = of.ratio().map_or_else(String::new, |ratio| format!("{ratio:.2}"));
        vec![Cell::Text(stage), Cell::Text(name), number(of.predicted), number(of.measured), Cell::Number(ratio)]
    });
    table(out, &["stage", "figure", "#predicted", "#measured", "#measured / predicted"], rows);
}

/// A number with the decimals that its size needs.
fn decimals(value: f64) -> String {
    match value.abs() {
        size if size >= 1_000.0 => grouped(value as u64),
        size if size == size.trunc() => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.2}"),
        size if size >= 0.01 => format!("{value:.3}"),
        _ => format!("{value:.6}"),
    }
}

fn plots(out: &mut String, known: &Known) -> Result<()> {
    heading(out, "Over time");
    let recorded = match &known.recorded {
        Ok(recorded) => recorded,
        Err(reason) => {
            paragraph(out, &format!("Not known: {reason}."));
            return Ok(());
        }
    };
    paragraph(out, &known.journal_sentence(recorded));
    let figures = recorded.timeline.rate_figure().into_iter().chain(recorded.timeline.spool_figures(SPOOLS_MAX));
    for figure in figures {
        let _ = writeln!(out, "<figure>{}</figure>", figure.svg()?);
    }
    Ok(())
}

fn failed(out: &mut String, known: &Known) {
    let (count, bytes) = known.totals.of(State::Failed);
    heading(out, "Failed files");
    if count == 0 {
        return paragraph(out, &known.none_failed());
    }
    paragraph(out, &format!("{}, {}.", text::count(count, "file"), text::bytes(bytes)));
    let listed = &known.failed[..known.failed.len().min(FAILED_MAX)];
    let row = |row: &fulgurite_migration::run::database::FileRow| {
        let reason = row.reason.as_deref().unwrap_or("unknown").to_owned();
        vec![Cell::Text(row.name.clone()), Cell::Number(text::bytes(row.bytes)), Cell::Number(row.attempts.to_string()), Cell::Text(reason)]
    };
    table(out, &["name", "#bytes", "#attempts", "reason"], listed.iter().map(row));
    if count > listed.len() as u64 {
        paragraph(out, &format!("{} more failed.", grouped(count - listed.len() as u64)));
    }
}

fn heading(out: &mut String, text: &str) {
    // Writing to a string can't fail.
    let _ = writeln!(out, "<h2>{}</h2>", escaped(text));
}

fn paragraph(out: &mut String, text: &str) {
    let _ = writeln!(out, "<p>{}</p>", escaped(text));
}

/// A table. Headings of numbers begin with `#`.
fn table(out: &mut String, headings: &[&str], rows: impl IntoIterator<Item = Vec<Cell>>) {
    *out += "<div class=\"wide\"><table>\n<tr>";
    for heading in headings {
        let (class, name) = heading.strip_prefix('#').map_or(("", *heading), |name| (" class=\"number\"", name));
        let _ = write!(out, "<th{class}>{}</th>", escaped(name));
    }
    *out += "</tr>\n";
    for row in rows {
        *out += "<tr>";
        for cell in row {
            let _ = match cell {
                Cell::Text(text) => write!(out, "<td>{}</td>", escaped(&text)),
                Cell::Number(text) => write!(out, "<td class=\"number\">{}</td>", escaped(&text)),
            };
        }
        *out += "</tr>\n";
    }
    *out += "</table></div>\n";
}

/// Text of a page, on one line.
fn escaped(text: &str) -> String {
    text::one_line(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
