//! Journals of arbitrary facts: what is written can be read, and damage is detected.

use std::num::NonZeroU64;

use fulgurite_domain::Micros;
use fulgurite_library::{
    Action, Actor, Bay, Berth, Command, CommandId, Drive, Event, Fault, Library, Outcome, Platter, Position, ReadRequest, RegionOutcome,
    RegionPlatter, RequestId, Shard, Shuttle, Slot, Tracks,
};
use proptest::prelude::*;

use crate::words::parse;
use crate::{Detail, Fact, Header, JournalError, JournalReader, JournalWriter, Subject};

fn tracks() -> impl Strategy<Value = Tracks> {
    any::<(u32, u32)>().prop_map(|(first, count)| Tracks { first, count })
}

fn platter() -> impl Strategy<Value = Platter> {
    any::<u32>().prop_map(Platter)
}

fn request() -> impl Strategy<Value = RequestId> {
    any::<u64>().prop_map(RequestId)
}

fn instant() -> impl Strategy<Value = Micros> {
    prop_oneof![any::<u64>().prop_map(Micros), Just(Micros::NEVER), Just(Micros::ZERO)]
}

fn actor() -> impl Strategy<Value = Actor> {
    prop_oneof![any::<u16>().prop_map(|it| Actor::Shuttle(Shuttle(it))), any::<u16>().prop_map(|it| Actor::Drive(Drive(it)))]
}

fn id() -> impl Strategy<Value = CommandId> {
    (actor(), any::<u64>()).prop_map(|(actor, number)| CommandId { actor, number })
}

fn berth() -> impl Strategy<Value = Berth> {
    prop_oneof![
        any::<u32>().prop_map(|slot| Berth::Slot(Slot(slot))),
        any::<(u16, u8)>().prop_map(|(drive, bay)| Berth::Bay(Drive(drive), Bay(bay))),
        Just(Berth::Port),
    ]
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        any::<i64>().prop_map(|x_um| Fault::Stopped { x_um }),
        any::<(u16, i64)>().prop_map(|(with, x_um)| Fault::Collided { with: Shuttle(with), x_um }),
        Just(Fault::DriveDown),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let asked = (request(), platter(), tracks(), instant());
    prop_oneof![
        asked.prop_map(|(id, platter, tracks, deadline)| Event::ReadRequested(ReadRequest { id, platter, tracks, deadline })),
        (request(), platter(), instant()).prop_map(|(request, platter, deadline)| Event::ReadHastened { request, platter, deadline }),
        (request(), platter()).prop_map(|(request, platter)| Event::VerificationRequested { request, platter }),
        platter().prop_map(|platter| Event::PlatterWritten { platter }),
        id().prop_map(|command| Event::Done { command }),
        (id(), any::<u32>()).prop_map(|(command, verified)| Event::Interrupted { command, verified }),
        (id(), fault()).prop_map(|(command, fault)| Event::Failed { command, fault }),
        (actor(), fault()).prop_map(|(actor, fault)| Event::Lost { actor, fault }),
        actor().prop_map(|actor| Event::Repaired { actor }),
        platter().prop_map(|platter| Event::PlatterUnavailable { platter }),
        platter().prop_map(|platter| Event::PlatterAvailable { platter }),
        any::<u16>().prop_map(|shuttle| Event::ChargeLow { shuttle: Shuttle(shuttle) }),
        Just(Event::Woken),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        any::<(u8, i64)>().prop_map(|(shelf, x_um)| Action::Move { to: Position { shelf, x_um } }),
        (berth(), platter()).prop_map(|(from, platter)| Action::Pick { from, platter }),
        (berth(), platter()).prop_map(|(to, platter)| Action::Place { to, platter }),
        Just(Action::Charge),
        (any::<u8>(), platter()).prop_map(|(bay, platter)| Action::Mount { bay: Bay(bay), platter }),
        (any::<u8>(), platter()).prop_map(|(bay, platter)| Action::Unmount { bay: Bay(bay), platter }),
        any::<u8>().prop_map(|bay| Action::Switch { to: Bay(bay) }),
        (platter(), tracks(), any::<bool>(), request()).prop_map(|(platter, tracks, adjacent, request)| Action::Read {
            platter,
            tracks,
            adjacent,
            request
        }),
        (platter(), tracks()).prop_map(|(platter, tracks)| Action::Verify { platter, tracks }),
    ]
}

fn command() -> impl Strategy<Value = Command> {
    let outcome = prop_oneof![Just(Outcome::Read), Just(Outcome::Unavailable), Just(Outcome::Refused)];
    prop_oneof![
        (id(), action()).prop_map(|(id, action)| Command::Do { id, action }),
        (request(), outcome).prop_map(|(request, outcome)| Command::Finish { request, outcome }),
    ]
}

fn shard() -> impl Strategy<Value = Shard> {
    (any::<u32>(), tracks()).prop_map(|(platter, tracks)| Shard { platter: RegionPlatter(platter), tracks })
}

fn input() -> impl Strategy<Value = Fact> {
    prop_oneof![
        (instant(), request(), instant(), prop::collection::vec(shard(), 0..5))
            .prop_map(|(now, request, deadline, shards)| Fact::Requested { now, request, deadline, shards }),
        (instant(), request(), instant()).prop_map(|(now, request, deadline)| Fact::Hastened { now, request, deadline }),
        (instant(), request(), any::<u32>()).prop_map(|(now, request, platter)| Fact::VerificationRequested {
            now,
            request,
            platter: RegionPlatter(platter)
        }),
        (instant(), any::<u16>(), event()).prop_map(|(now, library, event)| Fact::Happened { now, library: Library(library), event }),
    ]
}

fn followed() -> impl Strategy<Value = Fact> {
    let outcome = prop_oneof![
        Just(RegionOutcome::Read),
        Just(RegionOutcome::Recovered),
        Just(RegionOutcome::Unavailable),
        Just(RegionOutcome::Refused)
    ];
    prop_oneof![
        (any::<u16>(), command()).prop_map(|(library, command)| Fact::Commanded { library: Library(library), command }),
        (request(), outcome).prop_map(|(request, outcome)| Fact::Ended { request, outcome }),
    ]
}

/// Facts in order of time.
fn facts() -> impl Strategy<Value = Vec<Fact>> {
    prop::collection::vec(prop_oneof![input(), followed()], 0..40).prop_map(|mut facts| {
        let mut last = Micros::ZERO;
        for fact in &mut facts {
            if let Fact::Requested { now, .. }
            | Fact::Hastened { now, .. }
            | Fact::VerificationRequested { now, .. }
            | Fact::Happened { now, .. } = fact
            {
                last = last.max(*now);
                *now = last;
            }
        }
        facts
    })
}

fn header(detail: Detail) -> Header {
    let description = "[library]\n\nshuttles = 2 # zwei, für später\n".into();
    Header { program: "0.1.0".into(), detail, seed: u64::MAX, subject: Subject::Scenario, description }
}

fn write(facts: &[Fact], detail: Detail) -> Vec<u8> {
    let mut journal = JournalWriter::new(Vec::new(), &header(detail)).expect("memory takes everything");
    facts.iter().for_each(|fact| journal.add(fact));
    journal.finish(Micros::ZERO).expect("memory takes everything")
}

fn read(text: &[u8]) -> Result<Vec<(u64, Fact)>, JournalError> {
    JournalReader::new(text)?.collect()
}

fn is_input(fact: &Fact) -> bool {
    fact.is_input()
}

proptest! {
    #[test]
    fn every_fact_round_trips(fact in prop_oneof![input(), followed()], digest in any::<(u64, u64)>()) {
        let others = [Fact::Digest { count: digest.0, digest: digest.1 }, Fact::End { inputs: digest.0, now: Micros(digest.1) }];
        for fact in [fact].into_iter().chain(others) {
            let line = fact.to_string();
            prop_assert_eq!(parse(&line), Ok(fact));
        }
    }

    #[test]
    fn a_journal_round_trips_in_both_details(facts in facts(), every in 1_u64..10) {
        let text = write(&facts, Detail::Commands);
        let journal = JournalReader::new(text.as_slice()).expect("it is whole");
        prop_assert_eq!(journal.header(), &header(Detail::Commands));
        let mut again: Vec<Fact> = journal.map(|fact| fact.expect("it is whole").1).collect();
        let inputs = facts.iter().filter(|fact| is_input(fact)).count() as u64;
        let counts_right = matches!(again.pop(), Some(Fact::End { inputs: counted, .. }) if counted == inputs);
        prop_assert!(counts_right);
        prop_assert_eq!(&again, &facts);

        let every = NonZeroU64::new(every).expect("1 or more");
        let short = read(&write(&facts, Detail::Digests(every))).expect("it is whole");
        let kept: Vec<&Fact> = short.iter().map(|(_, fact)| fact).filter(|fact| is_input(fact)).collect();
        prop_assert_eq!(kept, facts.iter().filter(|fact| is_input(fact)).collect::<Vec<_>>());
        let counts: Vec<u64> = short.iter().filter_map(|(_, fact)| if let Fact::Digest { count, .. } = fact { Some(*count) } else { None }).collect();
        prop_assert_eq!(counts.last().copied(), Some(facts.len() as u64 - inputs));
    }

    #[test]
    fn any_changed_byte_is_detected_at_its_line(facts in facts(), place in any::<prop::sample::Index>(), change in 1_u8..=255) {
        let mut text = write(&facts, Detail::Commands);
        let place = place.index(text.len());
        let line = 1 + text[..place].iter().filter(|byte| **byte == b'\n').count() as u64;
        let was_end = text[place] == b'\n';
        // The first check is the header's. The change may put a `~` before it.
        let begin = 1 + text.iter().take_while(|byte| **byte != b'~').filter(|byte| **byte == b'\n').count() as u64;
        text[place] ^= change;
        let begin = begin + u64::from(text[place] == b'\n');
        match read(&text) {
            Ok(again) => prop_assert!(false, "no damage found in {} lines, though line {} was changed", again.len(), line),
            Err(JournalError::Line { line: found, .. } | JournalError::Damaged { line: found, .. } | JournalError::Truncated { line: found, .. }) => {
                // The header has one check, at its end.
                prop_assert!(found == line || line < begin && (1..=begin).contains(&found) || was_end, "{} instead of {}", found, line);
            }
            Err(JournalError::NoJournal { .. }) => prop_assert_eq!(line, 1),
            Err(JournalError::Backwards { line: found, .. } | JournalError::Count { line: found, .. }) => prop_assert_eq!(found, line),
            Err(other) => prop_assert!(false, "{}", other),
        }
    }

    #[test]
    fn a_journal_truncated_anywhere_is_rejected(facts in facts(), place in any::<prop::sample::Index>()) {
        let text = write(&facts, Detail::Commands);
        let text = &text[..place.index(text.len())];
        let lines = text.iter().filter(|byte| **byte == b'\n').count() as u64;
        let error = read(text).expect_err("the end is missing");
        prop_assert!(matches!(error, JournalError::Truncated { line, .. } if line == lines), "{} instead of {}", error, lines);
    }

    #[test]
    fn a_missing_or_moved_line_is_detected_there(facts in facts(), which in any::<prop::sample::Index>()) {
        prop_assume!(facts.len() > 1);
        let text = String::from_utf8(write(&facts, Detail::Commands)).expect("it is text");
        let mut lines: Vec<&str> = text.lines().collect();
        let first = lines.iter().position(|line| line.starts_with("begin")).expect("there is a header") + 1;
        let which = first + which.index(facts.len() - 1);
        lines.swap(which, which + 1);
        let error = read((lines.join("\n") + "\n").as_bytes()).expect_err("two lines are swapped");
        let JournalError::Damaged { line, .. } = error else { panic!("{error}") };
        prop_assert_eq!(line, which as u64 + 1);
        lines.remove(which + 1);
        let error = read((lines.join("\n") + "\n").as_bytes()).expect_err("a line is missing");
        let JournalError::Damaged { line, .. } = error else { panic!("{error}") };
        prop_assert_eq!(line, which as u64 + 1);
    }
}

#[test]
fn only_one_spelling_of_each_fact_is_accepted() {
    for (line, found, expected) in [
        ("1 L0  woken", "", "an event, such as `done`"),
        ("1 L0 woken ", "", "nothing more on this line"),
        ("01 L0 woken", "01", "an instant, `>`, `=` or `.`"),
        ("1 L+0 woken", "L+0", "a request or a library"),
        ("1 L0 lost S1 stopped -0", "-0", "a place in micrometres"),
        ("1 L0 lost S1 stopped --1", "--1", "a place in micrometres"),
        ("1 R0 by 18446744073709551615", "18446744073709551615", "an instant or `never`"),
        ("1 R0 by never P0:1", "P0:1", "a shard, such as P5:0+3"),
        ("> L0 S3#1 read P1:0+1 seek", "", "a request, such as R17"),
        ("> L0 S70000#1 charge", "S70000#1", "a command, such as S3#89, or `finish`"),
        ("= 3 1A2B3C4D5E6F7081", "1A2B3C4D5E6F7081", "a digest of 16 digits"),
    ] {
        let wrong = parse(line).expect_err(line);
        assert_eq!((wrong.found, wrong.expected), (found, expected), "{line}");
    }
}

#[test]
fn errors_name_the_line_what_was_found_and_what_was_expected() {
    let whole = String::from_utf8(write(&[], Detail::Commands)).expect("it is text");
    let text = |from: &str, to: &str| {
        let changed = whole.replacen(from, to, 1);
        assert_ne!(changed, whole);
        read(changed.as_bytes()).expect_err(to).to_string()
    };
    let first = "line 1: found `fulgurite journal 2`, but `fulgurite journal 1` is expected: not a journal, or one of another version";
    assert_eq!(text("journal 1", "journal 2"), first);
    assert_eq!(text("seed 1", "sead 1"), "line 4: found `sead 18446744073709551615`, but `seed` and a number is expected");
    assert!(text("scenario 3", "scenario 2").starts_with("line 8: found `| shuttles = 2"));
    assert!(text("shuttles = 2", "shuttles = 3").starts_with("line 9: found check "));
    assert_eq!(
        read(&whole.as_bytes()[..whole.find(".").unwrap_or(0)]).expect_err("cut off").to_string(),
        "the journal ends after line 1, but `program` and a version is expected: the file was truncated, or the run was cut off"
    );
    assert!(read(b"PK\x03\x04\n").expect_err("no text").to_string().starts_with("line 1: found `PK"));
    assert_eq!(read(b"\xff\n").expect_err("no text").to_string(), "line 1: found byte ff in column 1, but text in UTF-8 is expected");
    assert_eq!(
        read((whole.clone() + "x\n").as_bytes()).expect_err("more").to_string(),
        "line 11: found `x`, but the end of the journal is expected"
    );
}

/// A writer that accepts only this many bytes.
struct Full(usize);

impl std::io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0 == 0 {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_reported_by_finish() {
    let mut journal = JournalWriter::new(Full(10_000), &header(Detail::Commands)).expect("the header fits");
    for now in 0..10_000 {
        journal.add(&Fact::Happened { now: Micros(now), library: Library(0), event: Event::Woken });
    }
    let error = journal.finish(Micros::ZERO).err().expect("it doesn't fit");
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
}
