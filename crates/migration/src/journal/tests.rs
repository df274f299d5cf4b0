use super::*;
use crate::event::Done;
use crate::layout::{Rules, Spool, Station, StreamId};
use crate::lot::{FamilyId, Lot, LotId};

fn layout() -> Layout {
    let spools = vec![Spool { bytes: 1_000, is_exclusive: false, is_reserve: false }];
    let station = Station { name: "one".into(), inputs: 1, outputs: 1, scans: 1, spools };
    Layout { stations: vec![station], rules: Rules::default() }
}

/// The journal of a run that migrates one lot.
fn journal() -> String {
    let lot = Lot { id: LotId(3), files: 2, bytes: 100, family: FamilyId(1), volume: None, priority: 0 };
    let done = |stream| Done { stream: StreamId(stream), lot: lot.id, files: 2, bytes: 100, moving: Micros(5) };
    let events = [
        Event::Begun,
        Event::Offered { stream: StreamId(0), lot },
        Event::Read(done(0)),
        Event::NothingOffered { stream: StreamId(0), again_at: None },
        Event::Written(done(1)),
        Event::Scanned(done(2)),
    ];
    let mut writer = JournalWriter::begin(Vec::new(), &layout()).expect("memory");
    let (mut pipeline, mut commands) = (Pipeline::new(&layout()), Vec::new());
    for (at, event) in (1_000..).zip(events) {
        commands.clear();
        pipeline.step(Micros(at), event, &mut commands);
        writer.step(Micros(at), &event, &commands).expect("memory");
    }
    String::from_utf8(writer.into_inner()).expect("JSON")
}

fn replayed(text: &str) -> Result<Replayed, ReplayError> {
    replay(text.as_bytes())
}

#[test]
fn a_journal_replays_to_its_end_or_to_where_it_was_cut() {
    let journal = journal();
    assert_eq!(replayed(&journal).expect("it replays"), Replayed { steps: 6, has_ended: true });
    let first = journal.find('\n').expect("a line") + 1;
    // Wherever a kill cuts it.
    for end in 0..journal.len() {
        match replayed(&journal[..end]) {
            Ok(of) => assert!(end >= first && of.steps < 6 && !of.has_ended, "{end}"),
            Err(error) => assert!(end < first && matches!(error, ReplayError::NotBegun), "{end}: {error}"),
        }
    }
    let mut reader = JournalReader::begin(&journal.as_bytes()[..journal.len() - 1]).expect("a header");
    while reader.next_step().expect("whole lines").is_some() {}
    assert!(reader.is_cut() && reader.line() == 6);
}

#[test]
fn a_changed_journal_is_an_error() {
    let journal = journal();
    let lines: Vec<&str> = journal.lines().collect();
    let with = |changed: &[&str]| replayed(&(changed.join("\n") + "\n")).expect_err("it was changed").to_string();
    // Each line removed, repeated or moved to the beginning.
    for index in 1..lines.len() {
        let without = [&lines[..index], &lines[index + 1..]].concat();
        if index + 1 < lines.len() {
            assert!(with(&without).contains("journal"));
        }
        assert!(with(&[&lines[..=index], &lines[index..]].concat()).contains("journal"));
        if index > 1 {
            assert!(with(&[&lines[..1], &lines[index..=index]].concat()).contains("line 2 of the journal"));
        }
    }
    let replaced = |from: &str, to: &str| {
        assert!(journal.contains(from), "{from}");
        replayed(&journal.replace(from, to)).expect_err("it was changed")
    };
    assert!(matches!(replaced("\"files\":2", "\"files\":0"), ReplayError::Unfit { line: 3, source: Unfit::NoFiles(_) }));
    assert!(matches!(replaced("\"at\":1004", "\"at\":1"), ReplayError::Backwards { line: 6 }));
    assert!(matches!(replaced("{\"journal\":1", "{\"journal\":2,\"new\":{}"), ReplayError::Version(2)));
    assert!(matches!(replaced("\"inputs\":1", "\"inputs\":0"), ReplayError::Layout));
    assert!(matches!(replaced("\"inputs\":1", "\"inputs\":65535"), ReplayError::Layout));
    let grown = replaced("{\"Written\":{\"stream\":1,\"lot\":3,\"files\":2", "{\"Written\":{\"stream\":1,\"lot\":3,\"files\":3");
    assert!(matches!(grown, ReplayError::Unfit { line: 6, source: Unfit::Grown(LotId(3)) }), "{grown}");
    let stream = replaced("{\"Scanned\":{\"stream\":2", "{\"Scanned\":{\"stream\":9");
    assert!(matches!(stream, ReplayError::Unfit { line: 7, source: Unfit::NoStream(StreamId(9)) }), "{stream}");
    let other = replaced("{\"Scanned\":{\"stream\":2", "{\"Scanned\":{\"stream\":0");
    assert!(matches!(other, ReplayError::Unfit { line: 7, source: Unfit::NotHandled { .. } }), "{other}");
    // The last instant there is.
    let last = replaced("\"at\":1001", &format!("\"at\":{}", u64::MAX));
    assert!(matches!(last, ReplayError::Backwards { line: 4 }), "{last}");
}
