//! A page that compares targets: a table, and figures over time.

use std::fmt::Write;

use fulgurite_plot::{Axis, Figure, Panel, PlotError};

use crate::{Figures, Operation, Run, Window};

/// Inline, so that the page loads nothing from the network.
const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}\
table{border-collapse:collapse;font-variant-numeric:tabular-nums}th,td{padding:.25rem .75rem;text-align:right;border-bottom:1px solid #ddd}\
th:nth-child(-n+3),td:nth-child(-n+3){text-align:left}figure{margin:2rem 0;overflow-x:auto}td.bad{color:#a00}div{overflow-x:auto}";

/// The page of these targets, each with its rounds.
///
/// # Errors
/// [`PlotError`] if a figure can't be drawn.
pub fn page(title: &str, targets: &[(&str, &[Run])]) -> Result<String, PlotError> {
    let title = escaped(title);
    let mut page = format!(
        "<!DOCTYPE html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title}</title><style>{STYLE}</style><h1>{title}</h1><div><table><thead><tr><th>target<th>round<th>operation<th>done\
         <th>failed<th>1/s<th>MB/s<th>p50, ms<th>p90, ms<th>p99, ms<th>p99.9, ms<th>max, ms<th>server, cores<th>server, MB</tr></thead><tbody>"
    );
    for (name, runs) in targets {
        for (round, run) in (1..).zip(*runs) {
            for (operation, figures) in Operation::ALL.into_iter().zip(&run.operations) {
                if figures.done + figures.failures() > 0 {
                    row(&mut page, name, round, operation, figures, run);
                }
            }
        }
    }
    page.push_str("</tbody></table></div>");
    let rate = |window: &Window| Some(window.all.done as f64 / window.seconds);
    let time = |window: &Window| window.all.p99.map(|time| time.as_secs_f64().max(1e-6));
    let figures = [
        ("Operations a second", figure("Operations a second", Axis::new("operations", "1/s").from(0.0), targets, rate)),
        ("99th percentile of times", figure("99th percentile of times", Axis::seconds("time").log(), targets, time)),
    ];
    // Without any success there is nothing to draw but the rate.
    let has_times = targets.iter().flat_map(|(_, runs)| *runs).flat_map(whole).any(|window| time(window).is_some());
    for (label, figure) in figures.into_iter().take(if has_times { 2 } else { 1 }) {
        let _ = write!(page, "<figure role=\"img\" aria-label=\"{label}\">{}</figure>", figure.svg()?);
    }
    page.push_str("</html>\n");
    Ok(page)
}

/// The windows of a run to draw: the last one is seldom whole.
fn whole(run: &Run) -> &[Window] {
    if run.windows.len() > 1 { &run.windows[..run.windows.len() - 1] } else { &run.windows }
}

/// A measure over time, of all rounds one after another.
fn figure(title: &str, y: Axis, targets: &[(&str, &[Run])], measure: impl Fn(&Window) -> Option<f64>) -> Figure {
    let mut panel = Panel::new(Axis::seconds("time, all rounds one after another").from(0.0), y);
    for (name, runs) in targets {
        let mut begin = 0.0;
        let mut points = Vec::new();
        for run in *runs {
            points.extend(whole(run).iter().filter_map(|window| Some((begin + window.at_s + window.seconds, measure(window)?))));
            begin += run.seconds;
        }
        panel = panel.line(name, points);
    }
    Figure::new(title).panel(panel)
}

fn row(page: &mut String, name: &str, round: u32, operation: Operation, figures: &Figures, run: &Run) {
    let class = if figures.failures() > 0 { " class=\"bad\"" } else { "" };
    let time = |share| figures.time(share).map_or_else(String::new, |time| format!("{:.2}", time.as_secs_f64() * 1e3));
    let server = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.2}"));
    let cells = [
        format!("{:.1}", figures.done as f64 / run.seconds),
        format!("{:.2}", figures.bytes as f64 / run.seconds / 1e6),
        time(0.5),
        time(0.9),
        time(0.99),
        time(0.999),
        time(1.0),
        server(run.server.map(|usage| usage.cpu_s / run.seconds)),
        server(run.server.map(|usage| usage.memory as f64 / 1e6)),
    ];
    let errors: Vec<String> = figures.errors.iter().map(|(kind, count)| format!("{count} x {kind}")).collect();
    let _ = write!(
        page,
        "<tr><td>{}<td>{round}<td>{}<td>{}<td{class} title=\"{}\">{}<td>{}</tr>",
        escaped(name),
        operation.name(),
        figures.done,
        escaped(&errors.join(", ")),
        figures.failures(),
        cells.join("<td>")
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Brief;

    #[test]
    fn a_page_has_rows_and_figures_and_no_name_becomes_markup() {
        let mut run = Run { seconds: 2.0, ..Run::default() };
        run.operations[0].succeeded(Duration::from_millis(5), 1, 1_000);
        run.operations[0].failed("<b>".to_owned());
        let window = |at_s: f64| Window { at_s, seconds: 1.0, ..Window::default() };
        run.windows = vec![window(0.0), window(1.0), window(2.0)];
        let mut failing = run.clone();
        let success = Brief { done: 1, p99: Some(Duration::from_millis(5)), ..Brief::default() };
        failing.windows[2].all = success;
        run.windows[0].all = success;
        let runs = [run.clone(), run];
        let page = page("ingest & more", &[("<script>", &runs), ("files", &runs[..1])]).expect("it can be drawn");
        assert_eq!((page.matches("<tr><td>").count(), page.matches("<svg").count()), (3, 2));
        assert_eq!(super::page("down", &[("server", &[failing])]).expect("it can be drawn").matches("<svg").count(), 1);
        assert!(
            page.contains("&lt;script&gt;<td>2<td>ingest<td>1") && page.contains("1 x &lt;b&gt;") && page.contains("ingest &amp; more")
        );
        assert!(!page.contains("<script>") && !page.contains("<b>") && !page.contains("http://") || page.contains("www.w3.org"));
    }
}
