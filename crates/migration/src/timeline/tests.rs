use fulgurite_table::Value;

use super::*;
use crate::journal::JournalWriter;
use crate::layout::{Rules, Spool, Station};
use crate::lot::{FamilyId, Lot};

const MS: u64 = 1_000;

fn layout() -> Layout {
    let spools = vec![Spool { bytes: 1_000, is_exclusive: false, is_reserve: false }; 2];
    let station = Station { name: "one".into(), inputs: 1, outputs: 1, scans: 1, spools };
    Layout { stations: vec![station], rules: Rules::default() }
}

fn step(at: u64, event: Event, commands: &[Command]) -> Step {
    Step { at: Micros(1_000_000_000_000 + at), event, commands: commands.to_vec() }
}

fn done(stream: u16, lot: u64, bytes: u64) -> Done {
    Done { stream: StreamId(stream), lot: LotId(lot), files: 1, bytes, moving: Micros(1) }
}

/// The steps of a lot of 100 bytes that takes `ms` milliseconds in each stage, one after the other.
fn lot_steps(id: u64, from: u64, ms: u64) -> Vec<Step> {
    let (lot, spool) = (LotId(id), SpoolId(0));
    let of = Lot { id: lot, files: 1, bytes: 100, family: FamilyId(1), volume: None, priority: 0 };
    let at = |stage: u64| from + stage * ms * MS;
    vec![
        step(at(0), Event::Offered { stream: StreamId(0), lot: of }, &[Command::Read { stream: StreamId(0), lot, spool }]),
        step(at(1), Event::Read(done(0, id, 100)), &[Command::Write { stream: StreamId(1), lot, spool }]),
        step(at(2), Event::Written(done(1, id, 100)), &[Command::Release { lot, spool }, Command::Scan { stream: StreamId(2), lot }]),
        step(at(3), Event::Scanned(done(2, id, 100)), &[]),
    ]
}

fn observed(steps: &[Step]) -> Timeline {
    let mut timeline = Timeline::new(&layout());
    steps.iter().for_each(|step| timeline.observe(step).expect("it follows"));
    timeline
}

#[test]
fn bytes_are_spread_over_the_time_of_their_stage() {
    // 25 ms in each stage, and intervals of 10 ms.
    let timeline = observed(&lot_steps(1, 0, 25));
    let bytes: Vec<[u64; 3]> = timeline.intervals.iter().map(|of| of.bytes).collect();
    let expected = [[40, 0, 0], [40, 0, 0], [20, 20, 0], [0, 40, 0], [0, 40, 0], [0, 0, 40], [0, 0, 40], [0, 0, 20]];
    assert_eq!(bytes, expected);
    assert_eq!(Stage::ALL.map(|stage| timeline.passed(stage)), [100, 100, 100]);
    let rates = timeline.rates();
    // The last interval has 5 ms.
    let last = ["from", "to", "scan", "scan_bytes"].map(|column| rates.value(7, column).expect("a value").clone());
    assert_eq!(last, [Value::F64(0.07), Value::F64(0.075), Value::F64(4_000.0), Value::I64(20)]);
}

#[test]
fn spools_are_as_full_as_lots_that_were_not_released() {
    // It takes room from the beginning of its reading to the end of its writing.
    let timeline = observed(&lot_steps(1, 0, 12));
    let spools = timeline.spools();
    let column = |name: &str| (0..8).map(|row| spools.value(row, name).expect("a value").clone()).collect::<Vec<_>>();
    let means = [100.0, 100.0, 40.0, 0.0, 0.0, 0.0, 0.0, 0.0].map(Value::F64);
    assert_eq!(column("mean_bytes"), means);
    assert_eq!(column("max_bytes"), [100, 100, 100, 0, 0, 0, 0, 0].map(Value::I64));
    assert_eq!(column("spool"), [1, 1, 1, 1, 2, 2, 2, 2].map(Value::I64));
}

#[test]
fn many_intervals_become_few_and_lose_nothing() {
    let mut timeline = Timeline::new(&layout());
    // 4,000 lots, each 30 ms apart from the next: two minutes.
    let steps = (0..4_000).flat_map(|id| lot_steps(id, id * 30 * MS, 10));
    steps.for_each(|step| timeline.observe(&step).expect("it follows"));
    assert_eq!(timeline.width, Micros(500 * MS));
    assert_eq!((timeline.intervals.len(), timeline.elapsed()), (241, Micros(120_000_000)));
    assert_eq!(Stage::ALL.map(|stage| timeline.passed(stage)), [400_000, 400_000, 400_000]);
    // 100 bytes each 30 ms: as many as if the intervals had always been as long.
    assert!(timeline.intervals[..240].iter().all(|of| of.bytes.iter().all(|bytes| (1_600..=1_700).contains(bytes))));
    // Room for 100 bytes was taken for two thirds of the time.
    let filled: u128 = timeline.intervals.iter().map(|of| of.filled[0]).sum();
    assert_eq!(filled, 100 * 80_000_000);
    assert_eq!(timeline.rates().rows().len(), 240);
    // Whatever the length of a journal, its timeline is short.
    for exponent in 0..64 {
        let event = step(0, Event::Woken, &[]);
        timeline.observe(&Step { at: Micros(timeline.now.0.max(1 << exponent)), ..event }).expect("it follows");
        assert!((50..=INTERVALS_MAX).contains(&timeline.intervals.len()), "{exponent}: {}", timeline.intervals.len());
    }
    timeline.observe(&Step { at: Micros(u64::MAX), ..step(0, Event::Woken, &[]) }).expect("it follows");
    assert!(timeline.intervals.len() <= INTERVALS_MAX && timeline.passed(Stage::Scan) == 400_000);
    assert!(timeline.rate_figure().expect("something moved").svg().is_ok());
}

#[test]
fn a_run_that_took_no_time_has_no_figures() {
    let timeline = observed(&lot_steps(1, 0, 0));
    assert_eq!((timeline.passed(Stage::Scan), timeline.elapsed()), (100, Micros::ZERO));
    assert!(timeline.rate_figure().is_none() && timeline.spool_figures(9).is_empty());
    assert_eq!(timeline.rates().value(0, "scan"), Some(&Value::Missing));
}

#[test]
fn what_of_a_lot_failed_frees_its_room() {
    let mut steps = lot_steps(1, 0, 10);
    steps[1].event = Event::Read(done(0, 1, 30));
    steps[2].event = Event::Written(done(1, 1, 30));
    steps[3].event = Event::Scanned(done(2, 1, 30));
    let timeline = observed(&steps);
    let filled: Vec<u128> = timeline.intervals.iter().map(|of| of.filled[0]).collect();
    assert_eq!((filled, timeline.spooled), (vec![1_000_000, 300_000, 0, 0], vec![0, 0]));
}

#[test]
fn a_journal_is_read_up_to_what_is_wrong() {
    let mut writer = JournalWriter::begin(Vec::new(), &layout()).expect("memory");
    for step in lot_steps(1, 0, 25) {
        writer.step(step.at, &step.event, &step.commands).expect("memory");
    }
    let journal = String::from_utf8(writer.into_inner()).expect("JSON");
    let whole = read(journal.as_bytes()).expect("a journal");
    assert_eq!((whole.steps, whole.has_ended, whole.timeline.passed(Stage::Scan)), (4, false, 100));
    assert!(whole.trouble.is_none());
    let cut = read(&journal.as_bytes()[..journal.len() - 9]).expect("a journal");
    assert!(cut.steps == 3 && cut.trouble.is_none() && cut.timeline.passed(Stage::Scan) == 0);
    // A step of the middle is missing.
    let lines: Vec<&str> = journal.lines().collect();
    let changed = [lines[0], lines[1], lines[3], ""].join("\n");
    let changed = read(changed.as_bytes()).expect("a journal");
    assert!(matches!(changed.trouble, Some(ReplayError::Unfit { line: 3, source: Unfit::NotHandled { .. } })), "{changed:?}");
    assert_eq!((changed.steps, changed.timeline.elapsed()), (1, Micros(50 * MS)));
    let other = journal.replace("\"spool\":0", "\"spool\":7");
    assert!(matches!(
        read(other.as_bytes()).expect("a journal").trouble,
        Some(ReplayError::Unfit { source: Unfit::NoSpool(SpoolId(7)), .. })
    ));
    assert!(matches!(read(&b""[..]), Err(ReplayError::NotBegun)));
}
