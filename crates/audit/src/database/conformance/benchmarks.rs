//! Of the benchmark matrix.

use std::time::Duration;

use super::{NOW, checked, claim, import, row, two_nodes};
use crate::copy::{FileId, Finding, NodeId};
use crate::database::{AuditDatabase, BenchmarkRecord, DUE_TO_BE_READ, DetectorState, ExpectedTime};
use crate::expectation::{Expectation, Verdict};
use crate::node::DAY_S;
use crate::series::{Probe, Series};

const HOUR: Duration = Duration::from_secs(3_600);

/// Two nodes with one file.
fn two_copies(database: &mut dyn AuditDatabase) -> ([NodeId; 2], FileId) {
    let nodes = two_nodes(database);
    import(database, &nodes, false, vec![row("known")]);
    let file = database.history("known").expect("readable").expect("imported").file;
    (nodes, file)
}

fn record(node: NodeId, file: FileId, probe: Probe, at: u64, verdict: Option<Verdict>) -> BenchmarkRecord {
    BenchmarkRecord {
        record: 0,
        node,
        file,
        probe,
        at,
        bytes: 5,
        measured: Duration::from_micros(1_500_000),
        expected_s: verdict.map(|_| 0.75),
        verdict,
        detail: if verdict == Some(Verdict::Unanswered) { "no answer\0".into() } else { String::new() },
    }
}

pub(super) fn are_read_once(database: &mut dyn AuditDatabase) {
    let ([a, b], file) = two_copies(database);
    for (node, probe) in [(b, Probe::Audit), (a, Probe::Audit), (a, Probe::Access)] {
        database.set_benchmark(node, file, probe, HOUR, NOW).expect("added");
    }
    let found = database.benchmarks().expect("readable");
    let keys: Vec<_> = found.iter().map(|found| (found.node, found.probe, found.due_at, found.every)).collect();
    assert_eq!(keys, [(a, Probe::Access, NOW, HOUR), (a, Probe::Audit, NOW, HOUR), (b, Probe::Audit, NOW, HOUR)]);
    assert_eq!((&*found[0].name, &*found[0].location, found[0].expected.bytes, &found[0].last), ("known", "known", Some(5), &None));

    // The first to move the due time reads.
    assert!(database.claim_benchmark(&found[0], NOW + 3_600).expect("claimed"));
    assert!(!database.claim_benchmark(&found[0], NOW + 3_600).expect("asked"));
    // An interrupted reading is due again, unless it was claimed anew.
    database.release_benchmark(&found[0], NOW + 9_999).expect("asked");
    assert_eq!(database.benchmarks().expect("readable")[0].due_at, NOW + 3_600);
    database.release_benchmark(&found[0], NOW + 3_600).expect("released");
    assert!(database.claim_benchmark(&found[0], NOW + 3_600).expect("claimed"));
    // A new interval never delays what is due, and shortens a wait.
    database.set_benchmark(a, file, Probe::Access, Duration::from_secs(60), NOW).expect("changed");
    database.set_benchmark(a, file, Probe::Audit, Duration::from_secs(9_999), NOW).expect("changed");
    let due: Vec<u64> = database.benchmarks().expect("readable").iter().map(|found| found.due_at).collect();
    assert_eq!(due, [NOW + 60, NOW, NOW]);

    assert!(database.remove_benchmark(a, file, Probe::Access).expect("removed"));
    assert!(!database.remove_benchmark(a, file, Probe::Access).expect("asked"));
    assert_eq!(database.benchmarks().expect("readable").len(), 2);
}

pub(super) fn records_come_back(database: &mut dyn AuditDatabase) {
    let ([a, b], file) = two_copies(database);
    database.set_benchmark(a, file, Probe::Audit, HOUR, NOW).expect("added");
    let detector = DetectorState { node: a, series: Series::Benchmarks(Probe::Audit), state: vec![7; 9] };
    let all = [
        record(a, file, Probe::Audit, NOW, None),
        record(b, file, Probe::Access, NOW + 1, Some(Verdict::Unanswered)),
        record(a, file, Probe::Audit, NOW + 2, Some(Verdict::Info)),
    ];
    for found in &all {
        database.record_benchmark(found, Some(&detector).filter(|_| found.node == a)).expect("recorded");
    }
    assert_eq!(database.detector(a, Series::Benchmarks(Probe::Audit)).expect("readable"), Some(vec![7; 9]));

    let stored = database.benchmark_records(0, 100).expect("readable");
    let numbers: Vec<u64> = stored.iter().map(|(found, _)| found.record).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b) && numbers[0] > 0, "{numbers:?}");
    for ((found, name), given) in stored.iter().zip(&all) {
        assert_eq!(name, "known");
        // PostgreSQL stores no NUL.
        let detail = given.detail.chars().next().map(|_| "no answer").unwrap_or_default();
        assert!(found.detail.starts_with(detail), "{found:?}");
        assert_eq!(BenchmarkRecord { record: 0, detail: given.detail.clone(), ..found.clone() }, *given);
    }
    let after = database.benchmark_records(numbers[0], 1).expect("readable");
    assert_eq!(after.iter().map(|(found, _)| found.record).collect::<Vec<_>>(), numbers[1..2]);
    let recent = database.benchmark_records_from(NOW + 1).expect("readable");
    assert_eq!(recent.iter().map(|found| found.record).collect::<Vec<_>>(), numbers[1..]);
    let series = database.benchmark_series(a, Probe::Audit, 0, 9).expect("readable");
    assert_eq!(series.iter().map(|found| found.at).collect::<Vec<_>>(), [NOW, NOW + 2]);
    assert!(database.benchmark_series(a, Probe::Audit, numbers[2], 9).expect("readable").is_empty());
    let benchmark = database.benchmarks().expect("readable").remove(0);
    assert_eq!(benchmark.last.map(|last| (last.at, last.verdict)), Some((NOW + 2, Some(Verdict::Info))));

    // Wrong bytes make the copy due, and say nothing about its state.
    let verified = checked(claim(database, a, NOW, 1).remove(0), NOW, Finding::Verified { disputed: None });
    database.record(&[verified], &[]).expect("recorded");
    assert!(claim(database, a, NOW + 5, 1).is_empty());
    let before = database.totals().expect("readable");
    database.record_benchmark(&record(a, file, Probe::Access, NOW + 5, Some(Verdict::Error)), None).expect("recorded");
    assert_eq!(database.totals().expect("readable"), before);
    let doubtful = claim(database, a, NOW + 5, 1);
    assert_eq!(doubtful.iter().map(|claim| claim.due_at).collect::<Vec<_>>(), [DUE_TO_BE_READ]);
    assert!(claim(database, b, NOW, 1).len() == 1 && database.next_due(a).expect("readable") < Some(NOW + DAY_S));
}

pub(super) fn a_learned_time_replaces_no_other(database: &mut dyn AuditDatabase) {
    let [a, b] = two_nodes(database);
    let time = |node, base_s, is_learned| ExpectedTime {
        node,
        probe: Probe::Access,
        expectation: Expectation::new(base_s, 24.5).expect("usable"),
        is_learned,
    };
    database.set_expected_time(&time(b, 0.5, true)).expect("stored");
    database.set_expected_time(&time(b, 9.0, true)).expect("asked");
    database.set_expected_time(&time(a, 0.25, false)).expect("stored");
    database.set_expected_time(&time(a, 9.0, true)).expect("asked");
    assert_eq!(database.expected_times().expect("readable"), [time(a, 0.25, false), time(b, 0.5, true)]);
    database.set_expected_time(&time(b, 0.125, false)).expect("stored");
    assert_eq!(database.expected_times().expect("readable")[1], time(b, 0.125, false));
    assert!(database.forget_expected_time(a, Probe::Access).expect("forgotten"));
    assert!(!database.forget_expected_time(a, Probe::Access).expect("asked"));
    assert_eq!(database.expected_times().expect("readable").len(), 1);
}
