use std::time::Duration;

use fulgurite_digest::{Algorithm, Digest};
use fulgurite_places::{Cause, Refusal};

use super::*;
use crate::copy::{Expected, Finding, Method, NodeId, State, Unavailability};
use crate::database::{
    AuditDatabase, BenchmarkDatabase as _, BenchmarkRecord, Checked, DetectorState, Incident, IncidentKind, Source, Sqlite,
};
use crate::expectation::{Expectation, Verdict};
use crate::inventory::Row;
use crate::node::{DAY_S, Medium, Node};
use crate::series::{Probe, Series};
use crate::service_level::{DayVerdict, Projection, Tally};
use crate::slowdown::{Detector, Parameters};

/// Noon in UTC.
const NOW: u64 = 20_833 * DAY_S + 43_200;
const MB: u64 = 1_000_000;

struct Audit {
    database: Sqlite,
    _folder: tempfile::TempDir,
}

impl Audit {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self { database: Sqlite::create(&folder.path().join("audit.db")).expect("a database"), _folder: folder }
    }

    fn node(&mut self, name: &str, medium: Medium) -> NodeId {
        let expected_time = Some((0.5, 100.0));
        let node = Node {
            id: NodeId(0),
            name: name.into(),
            place: "/mnt".into(),
            options: Vec::new(),
            medium,
            rules: medium.rules(),
            expected_time,
        };
        self.database.add_node(&node).expect("the name is free")
    }

    fn files(&mut self, node: NodeId, names: &[&str]) {
        let row = |name: &&str| Row {
            name: (*name).into(),
            expected: Expected { bytes: Some(MB), digests: Vec::new() },
            location: None,
            node: Some(node),
        };
        let rows: Vec<Row> = names.iter().map(row).collect();
        self.database.import(Source::list("list"), &[node], false, NOW, &mut rows.into_iter().map(Ok)).expect("imported");
    }

    /// Checks up to `limit` copies at `at`; each takes `stream`.
    fn check(&mut self, node: NodeId, at: u64, limit: usize, stream: Duration, finding: impl Fn() -> Finding) {
        let method = self.nodes().into_iter().find(|known| known.id == node).expect("the node is known").rules.method;
        let claims = self.database.claim(node, u64::MAX >> 1, limit).expect("claimed");
        assert_eq!(claims.len(), limit);
        let bytes = if method == Method::Stream { MB } else { 0 };
        let results: Vec<Checked> =
            claims.into_iter().map(|claim| Checked { claim, at, method, finding: finding(), bytes, stream }).collect();
        self.database.record(&results, &[]).expect("recorded");
    }

    fn incident(&mut self, node: NodeId, at: u64, kind: IncidentKind) {
        let incident = Incident {
            node,
            series: Series::Checks(Method::Stream),
            at,
            kind,
            since: at - 600,
            factor: Some(16.0),
            checks: 40,
            unanswered: 2,
        };
        self.database.record_incidents(&[incident]).expect("recorded");
    }

    fn nodes(&mut self) -> Vec<Node> {
        self.database.nodes().expect("readable")
    }

    fn summary(&mut self, now: u64) -> Summary {
        let nodes = self.nodes();
        Summary::read(&mut self.database, &nodes, now).expect("the database can be read")
    }
}

const GOOD: fn() -> Finding = || Finding::Verified { disputed: None };
/// 0.5 s, and 100 ns for each of a million bytes.
const EXPECTED: Duration = Duration::from_millis(600);

fn first_line(summary: &Summary) -> String {
    text(summary).lines().next().expect("a line").to_owned()
}

/// All forms; none may fail, whatever the summary.
fn forms(summary: &Summary) -> [String; 5] {
    [text(summary), html(summary), csv(summary), json(summary).to_string(), prometheus(summary)]
}

/// The value of a metric, with its labels.
fn metric(summary: &Summary, name: &str) -> Option<f64> {
    let exposition = prometheus(summary);
    exposition.lines().find_map(|line| line.strip_prefix(&format!("fulgurite_audit_{name} "))).map(|value| value.parse().expect("a number"))
}

#[test]
fn all_is_well_only_if_every_copy_is_verified_in_time() {
    let mut audit = Audit::new();
    let node = audit.node("a", Medium::Disk);
    audit.files(node, &["x", "y", "z"]);
    assert!(!audit.summary(NOW).is_well());
    audit.check(node, NOW - 60, 2, EXPECTED, GOOD);
    let summary = audit.summary(NOW);
    assert_eq!(summary.nodes[0].concerns(), [Concern::Unverified(1)]);
    assert!(first_line(&summary).starts_with("Not well"), "{}", first_line(&summary));
    audit.check(node, NOW - 50, 1, EXPECTED, GOOD);
    let summary = audit.summary(NOW);
    assert_eq!(first_line(&summary), "All is well: 3 of 3 copies verified, none overdue.");
    assert_eq!((metric(&summary, "well"), metric(&summary, "keeps_up{node=\"a\"}")), (Some(1.0), Some(1.0)));
    assert_eq!(summary.nodes[0].ages, [3, 0, 0, 0, 0, 0, 0, 0]);
    // Nothing was checked for months: verified, and no longer evidence.
    let late = audit.summary(NOW + 92 * DAY_S);
    assert_eq!(late.nodes[0].concerns(), [Concern::Overdue(3), Concern::Unknown]);
    assert_eq!(metric(&late, "cycle_seconds{node=\"a\"}"), None);
    assert!(first_line(&late).starts_with("Not well"));
}

#[test]
fn all_is_not_well_while_an_import_is_unfinished() {
    let mut audit = Audit::new();
    let node = audit.node("a", Medium::Disk);
    audit.files(node, &["x"]);
    audit.check(node, NOW - 60, 1, EXPECTED, GOOD);
    assert_eq!(metric(&audit.summary(NOW), "unfinished_imports"), Some(0.0));
    let error = crate::inventory::InventoryError::Read { path: "list".into(), source: std::io::Error::other("cut") };
    let imported = audit.database.import(Source::list("csv <list>"), &[node], false, NOW - 50, &mut std::iter::once(Err(error)));
    assert!(imported.is_err());
    let summary = audit.summary(NOW);
    assert!(!summary.is_well() && summary.nodes[0].concerns().is_empty());
    assert_eq!(first_line(&summary), "Not well: an inventory isn't imported completely.");
    assert_eq!((metric(&summary, "well"), metric(&summary, "unfinished_imports")), (Some(0.0), Some(1.0)));
    let [text, html, _, json, _] = forms(&summary);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("the import of csv <list> that began") && text.contains("dismiss 2"), "{text}");
    assert!(html.contains("csv &lt;list&gt;") && html.contains("dismiss 2"), "{html}");
    assert!(json.contains(r#"{"began_at":"#) && json.contains(r#""number":2"#), "{json}");
    audit.database.dismiss_import(2).expect("dismissed");
    assert!(audit.summary(NOW).is_well());
}

#[test]
fn bad_and_unavailable_copies_are_named_and_counted() {
    let mut audit = Audit::new();
    let (a, b) = (audit.node("a", Medium::Disk), audit.node("b", Medium::Disk));
    let names: Vec<String> = (0..NAMED_PROBLEMS + 7).map(|number| format!("file-{number:04}")).collect();
    audit.files(a, &names.iter().map(String::as_str).collect::<Vec<_>>());
    audit.files(b, &["of-b"]);
    audit.check(a, NOW, names.len(), EXPECTED, || Finding::Missing);
    let refusal = || Finding::Unavailable(Unavailability::Refused(Refusal::new(Cause::TimedOut, "after 60 s")));
    audit.check(b, NOW, 1, EXPECTED, refusal);
    let summary = audit.summary(NOW);
    assert_eq!((summary.problems.len(), summary.problem_count()), (NAMED_PROBLEMS, names.len() as u64 + 1));
    assert!(first_line(&summary).contains("107 copies lost or wrong; see a, b"), "{}", first_line(&summary));
    assert_eq!(metric(&summary, "copies{node=\"a\",state=\"missing\"}"), Some(107.0));
    assert_eq!(metric(&summary, "copies{node=\"b\",state=\"missing\"}"), Some(0.0));
    // Of one node alone, its own problems are named, although another has more than fit.
    let nodes = audit.nodes();
    let of_b = Summary::read(&mut audit.database, &nodes[1..], NOW).expect("readable");
    assert_eq!(of_b.problems.iter().map(|named| named.problem.name.as_str()).collect::<Vec<_>>(), ["of-b"]);
    assert!(text(&of_b).contains("after 60 s"));
    // Bad copies wait for their repair, not for the audit.
    assert_eq!(summary.nodes[0].waiting, Tally::default());
}

#[test]
fn a_cycle_longer_than_the_interval_is_reported_before_anything_is_overdue() {
    let mut audit = Audit::new();
    let node = audit.node("a", Medium::Disk);
    let names: Vec<String> = (0..1_000).map(|number| format!("file-{number:04}")).collect();
    audit.files(node, &names.iter().map(String::as_str).collect::<Vec<_>>());
    for day in 0..7 {
        audit.check(node, NOW - day * DAY_S, 10, EXPECTED, GOOD);
    }
    let summary = audit.summary(NOW);
    let found = &summary.nodes[0];
    assert_eq!((found.last_day.copies, found.last_week.copies, found.overdue.copies, found.waiting.copies), (10, 70, 0, 930));
    let Projection::Days { days, within: Some((low, high)), .. } = found.cycle else { panic!("a week is known: {:?}", found.cycle) };
    assert!((days - 100.0).abs() < 1e-9 && (low - 100.0).abs() < 1e-9 && (high - 100.0).abs() < 1e-9);
    assert!((found.remaining.days().expect("known") - 93.0).abs() < 1e-9);
    assert!(!found.keeps_up() && found.concerns().contains(&Concern::Slow(days)));
    assert_eq!(metric(&summary, "keeps_up{node=\"a\"}"), Some(0.0));
    assert!(html(&summary).contains("Projected length of the cycle"));
    // A few new copies at a node that is up to date say nothing of its rate.
    audit.check(node, NOW, 925, EXPECTED, GOOD);
    let summary = audit.summary(NOW);
    assert!(summary.nodes[0].keeps_up());
    assert_eq!(summary.nodes[0].concerns(), [Concern::Unverified(5)]);
}

#[test]
fn days_are_judged_by_complete_days_over_all_nodes() {
    let mut audit = Audit::new();
    let (a, b) = (audit.node("a", Medium::Disk), audit.node("b", Medium::Disk));
    audit.files(a, &["1", "2"]);
    audit.files(b, &["1"]);
    let today = NOW / DAY_S;
    audit.check(a, today * DAY_S - 1, 1, EXPECTED, GOOD);
    audit.check(b, (today - 1) * DAY_S, 1, EXPECTED, GOOD);
    audit.check(a, today * DAY_S, 1, EXPECTED, GOOD);
    let days = audit.summary(NOW).days;
    assert_eq!(days.iter().map(|day| day.day).collect::<Vec<_>>(), (today - 7..today).collect::<Vec<_>>());
    assert_eq!((days[6].audited, days[6].verdict), (Tally { copies: 2, bytes: 2 * MB }, DayVerdict::Fail));
    assert!(days[..6].iter().all(|day| day.audited == Tally::default()));
}

#[test]
fn ratios_are_those_of_sums_and_without_unanswered_checks() {
    let mut audit = Audit::new();
    let node = audit.node("a", Medium::Disk);
    audit.files(node, &["1", "2", "3", "4"]);
    audit.check(node, NOW - 30 * 3_600, 1, EXPECTED, GOOD);
    audit.check(node, NOW - 60, 1, EXPECTED, GOOD);
    audit.check(node, NOW - 50, 1, EXPECTED * 9, GOOD);
    let timeout = || Finding::Unavailable(Unavailability::Refused(Refusal::new(Cause::TimedOut, "")));
    audit.check(node, NOW - 40, 1, Duration::from_secs(3_600), timeout);
    let summary = audit.summary(NOW);
    let ratios = &summary.nodes[0].ratios;
    assert_eq!((ratios.len(), ratios[0].series, ratios[0].hours.len()), (1, Series::Checks(Method::Stream), 2));
    assert!((ratios[0].hours[0].1 - 1.0).abs() < 1e-9 && (ratios[0].last_day.expect("known") - 5.0).abs() < 1e-9);
    assert!((metric(&summary, "time_ratio{node=\"a\",method=\"stream\"}").expect("known") - 5.0).abs() < 1e-9);
    assert!(html(&summary).contains("Times of a"));
}

#[test]
fn the_detectors_expectation_stands_in_for_one_that_is_not_pinned() {
    let mut audit = Audit::new();
    let node = audit.node("a", Medium::Disk);
    let unpinned = Node { expected_time: None, ..audit.nodes()[0].clone() };
    audit.database.change_node(&unpinned).expect("changed");
    assert!(audit.summary(NOW).nodes[0].ratios.is_empty());
    let store = |audit: &mut Audit, state| {
        audit.database.record(&[], &[DetectorState { node, series: Series::Checks(Method::Stream), state }]).expect("recorded");
    };
    store(&mut audit, b"not a state".to_vec());
    assert!(audit.summary(NOW).nodes[0].ratios.is_empty());
    let learned = Expectation::new(0.25, 7.0).expect("usable");
    store(&mut audit, Detector::new(learned, Parameters::default()).expect("usable").to_bytes());
    assert_eq!(audit.summary(NOW).nodes[0].ratios[0].expectation, learned);
}

#[test]
fn an_open_slowdown_is_reported_until_it_ends() {
    let mut audit = Audit::new();
    let node = audit.node("a", Medium::Disk);
    audit.files(node, &["x"]);
    audit.check(node, NOW - 60, 1, EXPECTED, GOOD);
    audit.incident(node, NOW - 3 * DAY_S, IncidentKind::Slower);
    let open = audit.summary(NOW);
    assert_eq!(open.nodes[0].concerns(), [Concern::Slowdowns(1)]);
    assert_eq!(metric(&open, "slowdown_open{node=\"a\",method=\"stream\"}"), Some(1.0));
    assert_eq!(metric(&open, "slowdown_factor{node=\"a\",method=\"stream\"}"), Some(16.0));
    assert!(text(&open).contains("still open") && html(&open).contains("still open"));
    audit.incident(node, NOW - DAY_S, IncidentKind::Ended);
    let ended = audit.summary(NOW);
    assert!(ended.is_well());
    assert_eq!(metric(&ended, "slowdown_open{node=\"a\",method=\"stream\"}"), Some(0.0));
    assert_eq!(metric(&ended, "slowdown_factor{node=\"a\",method=\"stream\"}"), None);
    assert_eq!(ended.nodes[0].slowdowns.len(), 1);
    assert!(audit.summary(NOW + 40 * DAY_S).nodes[0].slowdowns.is_empty());
}

#[test]
fn benchmarks_are_shown_with_their_last_readings_and_ratios() {
    let mut audit = Audit::new();
    let node = audit.node("a", Medium::Disk);
    audit.files(node, &["<known>"]);
    let file = audit.database.history("<known>").expect("readable").expect("imported").file;
    for probe in Probe::ALL {
        audit.database.set_benchmark(node, file, probe, Duration::from_secs(3_600), NOW).expect("added");
    }
    assert!(text(&audit.summary(NOW)).contains("a  access  not read yet  <known>"));
    // Twice the expected 0.6 s, then no answer, which has no time.
    for (at, verdict, measured) in [(NOW - 7_200, Verdict::Info, EXPECTED * 2), (NOW - 60, Verdict::Unanswered, EXPECTED * 90)] {
        let record = BenchmarkRecord {
            record: 0,
            node,
            file,
            probe: Probe::Access,
            at,
            bytes: MB,
            measured,
            expected_s: Some(0.6),
            verdict: Some(verdict),
            detail: "<why>".into(),
        };
        audit.database.record_benchmark(&record, None).expect("recorded");
    }
    let summary = audit.summary(NOW);
    let ratios = summary.nodes[0].ratios.iter().find(|ratios| ratios.series == Series::Benchmarks(Probe::Access)).expect("known");
    assert_eq!((ratios.hours.len(), ratios.last_day), (1, Some(2.0)));
    assert_eq!(metric(&summary, "time_ratio{node=\"a\",method=\"access\"}"), Some(2.0));
    assert_eq!(metric(&summary, "benchmarks{node=\"a\",method=\"access\",verdict=\"unanswered\"}"), Some(1.0));
    assert_eq!(metric(&summary, "benchmarks{node=\"a\",method=\"audit\",verdict=\"unread\"}"), Some(1.0));
    let page = html(&summary);
    assert!(page.contains("UNANSWERED") && page.contains("&lt;why&gt;") && !page.contains("<known>"));
    let benchmarks = &json(&summary)["benchmarks"];
    assert_eq!((&benchmarks[0]["last"]["verdict"], &benchmarks[0]["last"]["ratio"]), (&"UNANSWERED".into(), &serde_json::Value::Null));
    assert_eq!(benchmarks[1]["last"], serde_json::Value::Null);
    // Wrong bytes are a concern, whatever is known of the copies.
    let wrong = BenchmarkRecord {
        record: 0,
        node,
        file,
        probe: Probe::Audit,
        at: NOW,
        bytes: MB,
        measured: EXPECTED,
        expected_s: None,
        verdict: Some(Verdict::Error),
        detail: String::new(),
    };
    audit.database.record_benchmark(&wrong, None).expect("recorded");
    let summary = audit.summary(NOW);
    assert!(!summary.is_well() && summary.nodes[0].concerns().contains(&Concern::WrongReadings(1)));
    assert!(text(&summary).contains("a known file was read wrong"));
}

#[test]
fn header_checks_are_enough_for_nodes_that_are_only_looked_at() {
    let mut audit = Audit::new();
    let node = audit.node("cold", Medium::Cold);
    audit.files(node, &["x"]);
    audit.check(node, NOW - 60, 1, EXPECTED, || Finding::HeaderChecked);
    let summary = audit.summary(NOW);
    assert_eq!(first_line(&summary), "All is well: 0 of 1 copy verified, 1 looked at, none overdue.");
    // The same state is not enough where bytes should be read.
    let mut node = audit.nodes()[0].clone();
    node.rules.method = Method::Stream;
    audit.database.change_node(&node).expect("changed");
    assert!(!audit.summary(NOW).is_well());
}

#[test]
fn looks_dated_in_the_future_are_reported() {
    let mut audit = Audit::new();
    let node = audit.node("cold", Medium::Cold);
    audit.files(node, &["a", "b"]);
    for at in [NOW + 3_650 * DAY_S, NOW + 3_652 * DAY_S] {
        audit.check(node, at, 2, Duration::from_secs(1), || Finding::HeaderChecked);
    }
    let summary = audit.summary(NOW);
    assert!(!summary.is_well());
    assert!(text(&summary).contains("2 copies are dated in the future"), "{}", text(&summary));
    assert_eq!(metric(&summary, "future_dated_copies{node=\"cold\"}"), Some(2.0));
    let later = audit.summary(NOW + 3_653 * DAY_S);
    assert_eq!(later.nodes[0].future.copies, 0);
}

#[test]
fn looks_that_are_overdue_are_reported_in_every_form() {
    let mut audit = Audit::new();
    let node = audit.node("cold", Medium::Cold);
    audit.files(node, &["x", "y", "z"]);
    audit.check(node, NOW, 3, EXPECTED, || Finding::HeaderChecked);
    // The second look is due after a day; the interval counts.
    assert!(audit.summary(NOW + 89 * DAY_S).nodes[0].overdue.copies == 0);
    let late = audit.summary(NOW + 91 * DAY_S + 60);
    let found = &late.nodes[0];
    assert_eq!((found.overdue.copies, found.waiting.copies, found.more_overdue), (3, 3, false));
    assert_eq!(found.concerns(), [Concern::Overdue(3), Concern::Unknown]);
    assert_eq!(metric(&late, "overdue_copies{node=\"cold\"}"), Some(3.0));
    assert!(text(&late).contains("3 copies are overdue") && html(&late).contains("3 copies are overdue"));
    audit.check(node, NOW + 91 * DAY_S, 3, EXPECTED, || Finding::ProviderAttested {
        stated: Digest::new(Algorithm::Md5, &[1; 16]).expect("16 bytes"),
    });
    assert!(audit.summary(NOW + 92 * DAY_S).is_well());
    // So many that they were not counted.
    let mut many = late.clone();
    many.nodes[0].more_overdue = true;
    assert_eq!(many.nodes[0].concerns()[0], Concern::ManyOverdue(3));
    assert!(text(&many).contains("more than 3 copies have been due for over a day"));
}

#[test]
fn an_audit_without_nodes_or_copies_is_not_well_and_has_every_form() {
    let mut audit = Audit::new();
    let none = audit.summary(NOW);
    assert!(!none.is_well() && first_line(&none).contains("no nodes"));
    assert!(forms(&none).iter().all(|form| !form.is_empty()));
    audit.node("a", Medium::Tape);
    let empty = audit.summary(NOW);
    assert_eq!(empty.nodes[0].concerns(), [Concern::Empty]);
    assert!(first_line(&empty).starts_with("Not well"));
    assert!(forms(&empty).iter().all(|form| form.contains("\"a\"") || form.contains('a')));
    assert_eq!(csv(&empty).lines().count(), 2);
}

#[test]
fn a_clock_before_the_last_check_is_a_concern_and_no_evidence() {
    let mut audit = Audit::new();
    let node = audit.node("a", Medium::Disk);
    audit.files(node, &["x"]);
    audit.check(node, NOW, 1, EXPECTED, GOOD);
    for now in [0, 1, NOW - 5 * DAY_S] {
        let summary = audit.summary(now);
        assert_eq!(summary.nodes[0].concerns(), [Concern::Future(1)], "{now}");
        assert_eq!((summary.nodes[0].last_week, summary.nodes[0].oldest_day), (Tally::default(), None));
        forms(&summary);
    }
    let far = audit.summary(u64::MAX);
    assert!(!far.is_well());
    forms(&far);
}

#[test]
fn names_from_outside_are_text_in_every_form() {
    let mut audit = Audit::new();
    let hostile = "<script>alert(1)</script>\"\n'&\u{1b}]0;x\u{7}\u{202e},x";
    let node = audit.node(hostile, Medium::Disk);
    audit.files(node, &[hostile, "fine"]);
    audit.check(node, NOW - 60, 1, EXPECTED, GOOD);
    let refusal = || Finding::Unavailable(Unavailability::Refused(Refusal::new(Cause::Fault, "<img src=x>\r\n".repeat(500))));
    audit.check(node, NOW - 60, 1, EXPECTED, refusal);
    audit.incident(node, NOW - DAY_S, IncidentKind::Slower);
    let summary = audit.summary(NOW);
    let [text, html, csv, json, metrics] = forms(&summary);
    assert!(!html.contains("<script") && !html.contains("<img") && !html.contains('\u{202e}') && html.len() < 200_000);
    for form in [&text, &html, &metrics] {
        assert!(!form.contains('\u{7}') || std::ptr::eq(form, &metrics), "{form}");
    }
    assert!(!text.contains('\u{1b}') && text.lines().all(|line| line.chars().count() < 1_000));
    let parsed: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(parsed["nodes"][0]["node"], hostile);
    assert!(csv.lines().nth(1).expect("a row").starts_with("\"<script>alert(1)</script>\"\"") && csv.contains(",x\",stream,"));
    // Each line of the exposition is a comment, or a name, labels and a value.
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        let value = line.rsplit(' ').next().expect("a value");
        assert!(line.starts_with("fulgurite_audit_") && value.parse::<f64>().is_ok(), "{line}");
    }
    assert!(metrics.contains("</script>\\\"\\n'&"));
}

#[test]
fn pages_need_nothing_from_elsewhere() {
    let mut audit = Audit::new();
    for name in ["a", "b"] {
        let node = audit.node(name, Medium::Disk);
        audit.files(node, &["x", "y"]);
        audit.check(node, NOW - 3 * 3_600, 1, EXPECTED, GOOD);
        audit.check(node, NOW - 60, 1, EXPECTED, GOOD);
    }
    let page = html(&audit.summary(NOW));
    for outside in ["<script", "src=", "href=", "@import", "<link"] {
        assert!(!page.contains(outside), "{outside}");
    }
    // The name space of SVG is the only address.
    assert_eq!(page.matches("://").count(), page.matches("xmlns=\"http://www.w3.org/2000/svg\"").count());
    assert!(page.matches("<svg").count() >= 3);
    let ids: Vec<&str> = page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let distinct: std::collections::BTreeSet<&&str> = ids.iter().collect();
    assert_eq!(ids.len(), distinct.len(), "{ids:?}");
}

#[test]
fn mails_fit_into_their_columns_and_end_with_a_timestamp_in_metrics() {
    let mut audit = Audit::new();
    for number in 0..20 {
        let node = audit.node(&format!("provider-{number}.region"), Medium::Cloud);
        audit.files(node, &["x"]);
        audit.check(node, NOW - 60, 1, EXPECTED * 20, || Finding::SizeMismatch { found: 5 });
        audit.incident(node, NOW - DAY_S, IncidentKind::Slower);
    }
    let summary = audit.summary(NOW);
    let mail = text(&summary);
    assert!(mail.lines().all(|line| line.chars().count() <= 76), "{mail}");
    assert!(prometheus(&summary).ends_with(&format!("fulgurite_audit_report_timestamp_seconds {NOW}\n")));
    assert!(html(&summary).contains("first 12 of 20 nodes"));
}

/// Names of metrics in a text, without their functions and labels.
fn named(text: &str) -> std::collections::BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("fulgurite_audit_")).map(Into::into).collect()
}

#[test]
fn rules_and_dashboard_use_only_metrics_that_reports_write() {
    let mut audit = Audit::new();
    let written = named(&prometheus(&audit.summary(NOW)));
    let state_names: Vec<&str> = State::ALL.iter().map(|state| state.name()).collect();
    for (file, least) in [
        (include_str!("../../../../deploy/prometheus/audit-rules.yml"), 5),
        (include_str!("../../../../deploy/prometheus/audit-rules-test.yml"), 5),
        (include_str!("../../../../deploy/grafana/audit.json"), 8),
    ] {
        let used = named(file);
        assert!(used.len() >= least && used.is_subset(&written), "{:?}", used.difference(&written));
        for states in file.split("state=~\\\"").chain(file.split("state=~\"")).skip(1).filter_map(|rest| rest.split(['"', '\\']).next()) {
            if states.contains('|') && !states.contains(' ') {
                assert!(states.split('|').all(|state| state_names.contains(&state)), "{states}");
            }
        }
    }
    let dashboard: serde_json::Value = serde_json::from_str(include_str!("../../../../deploy/grafana/audit.json")).expect("JSON");
    assert!(dashboard["panels"].as_array().is_some_and(|panels| panels.len() >= 6));
}
