//! A live library without its clock: restarts, faults, requests for several shards, journals that
//! replay, and forecasts that come true.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fulgurite_chance::Stream;
use fulgurite_checks::Checks;
use fulgurite_domain::{Micros, SetShape};
use fulgurite_journal::{Detail, Fact, Header, JournalReader, JournalWriter, Stock, Subject};
use fulgurite_library::{Action, Actor, Command, Drive, Operation, RegionOutcome, RegionPlatter, RequestId, Shard, Shuttle, Tracks};
use fulgurite_library_settings::{LibrarySettings, PolicyName};
use fulgurite_live::{Ended, LiveLibrary, Outside, Plan, Read, Verify, WrongMachine, forecast, replay};

const SHAPE: SetShape = SetShape { information: 4, redundancy: 2 };
const TRACKS: u32 = 50;
const TRACK_BYTES: u64 = 20_000_000;

fn plan(text: &str) -> Arc<Plan> {
    let settings = LibrarySettings::parse("test", text).unwrap_or_else(|errors| panic!("{errors}"));
    Arc::new(Plan::new(settings, SHAPE, TRACKS, TRACK_BYTES).expect("sets fit"))
}

/// A small library: 6 racks, 8 shuttles, 6 drives.
fn small() -> Arc<Plan> {
    plan("[library]\nracks = 6\nslots = 20\n[shuttles]\ncount = 8\n[drives]\nleft = 3\nright = 3\n")
}

/// Collects everything, and holds the bytes of reads back until it is asked for them.
#[derive(Default)]
struct Collected {
    facts: Vec<Fact>,
    reads: Vec<Read>,
    verifying: Vec<Verify>,
    ended: Vec<Ended>,
}

impl Outside for Collected {
    fn read(&mut self, read: Read) {
        self.reads.push(read);
    }
    fn verify(&mut self, verify: Verify) {
        self.verifying.push(verify);
    }
    fn interrupted(&mut self, verify: Verify) {
        let before = self.verifying.len();
        self.verifying.retain(|other| *other != verify);
        assert_eq!(self.verifying.len() + 1, before, "{verify:?} was under way");
    }
    fn ended(&mut self, ended: Ended) {
        self.ended.push(ended);
    }
    fn fact(&mut self, fact: Fact) {
        self.facts.push(fact);
    }
}

/// The journal of facts, as the runner writes it. Without an `end`, the runner was killed.
fn journal(plan: &Plan, stock: &Stock, facts: &[Fact], end: Option<Micros>) -> Vec<u8> {
    let header = Header::new(Subject::Library, plan.description(stock), 1, Detail::Commands);
    let mut writer = JournalWriter::new(Vec::new(), &header).expect("memory takes everything");
    facts.iter().for_each(|fact| writer.add(fact));
    let mut bytes = writer.finish(end.unwrap_or_default()).expect("memory takes everything");
    if end.is_none() {
        let last_line = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').expect("it has lines");
        // Some of the last lines are lost too, the last of them in part.
        bytes.truncate(last_line - 20.min(last_line / 2));
    }
    bytes
}

fn shards(chance: &mut Stream, written_sets: u32) -> Vec<Shard> {
    let count = 1 + chance.below(3);
    let mut platters = BTreeSet::new();
    for _ in 0..count {
        platters.insert(chance.below(u64::from(written_sets)) as u32 * u32::from(SHAPE.platters()) + chance.below(4) as u32);
    }
    let shard = |platter| Shard { platter: RegionPlatter(platter), tracks: Tracks { first: chance.below(40) as u32, count: 2 } };
    platters.into_iter().map(shard).collect()
}

/// How often each of these happened.
#[derive(Default, Debug)]
struct Seen {
    recovered: u32,
    unavailable: u32,
    repaired: u32,
    faults: u32,
    verified: u32,
    unverified: u32,
    commands: u64,
}

/// The number of the first request to verify a platter.
const FIRST_VERIFICATION: u64 = 1_000_000;

/// Several sessions of one library; each but the last ends like a killed process, with the stock
/// that was kept last.
fn run_sessions(seed: u64, seen: &mut Seen) {
    let plan = small();
    let mut chance = Stream::new(seed, "sessions");
    let mut stock = Stock { written: 5 * 6, ..Stock::default() };
    let mut open: BTreeMap<RequestId, Vec<Shard>> = (0..60).map(|number| (RequestId(number), shards(&mut chance, 5))).collect();
    let mut ended = BTreeSet::new();
    let (sessions, mut written, mut verifications) = (4, stock.written, 0);
    for session in 0..sessions {
        let is_last = session == sessions - 1;
        let mut outside = Collected::default();
        let first_stock = stock.clone();
        let mut library = LiveLibrary::start(plan.clone(), &stock, seed + session, &mut outside);
        // What was written since the state was kept is taken in again.
        for platter in 0..written {
            library.take_in(RegionPlatter(platter), &mut outside);
        }
        open.iter().for_each(|(request, shards)| library.request(*request, shards.clone(), Micros::NEVER, &mut outside));
        let until = Micros(if is_last { 40 * Micros::HOUR.0 } else { 60_000_000 + chance.below(1_200_000_000) });
        let mut down: Vec<Actor> = stock.down.clone();
        let mut now = Micros::ZERO;
        while now < until {
            now += Micros(1 + chance.below(20_000_000));
            library.advance(now, usize::MAX, &mut outside);
            // Bytes come late, and out of order.
            while !outside.reads.is_empty() && (is_last || chance.below(4) > 0) {
                let index = chance.below(outside.reads.len() as u64) as usize;
                let read = outside.reads.swap_remove(index);
                library.bytes_read(read.command, &mut outside);
            }
            if !outside.verifying.is_empty() && chance.below(4) == 0 {
                let index = chance.below(outside.verifying.len() as u64) as usize;
                let verify = outside.verifying.swap_remove(index);
                library.bytes_read(verify.command, &mut outside);
            }
            match chance.below(120) {
                0..4 if !is_last => {
                    let number = chance.below(8) as u16;
                    let actor = if chance.below(2) == 0 { Actor::Shuttle(Shuttle(number)) } else { Actor::Drive(Drive(number % 6)) };
                    if library.break_down(actor).is_ok() {
                        down.push(actor);
                        seen.faults += 1;
                    }
                }
                4..6 if !down.is_empty() => {
                    let actor = down[chance.below(down.len() as u64) as usize];
                    if library.repair(actor, &mut outside).is_ok() {
                        down.retain(|other| *other != actor);
                        seen.repaired += 1;
                    }
                }
                6 if written < 8 * 6 => {
                    for platter in written..written + 6 {
                        assert!(library.take_in(RegionPlatter(platter), &mut outside));
                        assert!(!library.take_in(RegionPlatter(platter), &mut outside), "a platter is taken in once");
                    }
                    // Some are wanted before they are verified.
                    for _ in 0..chance.below(6) {
                        let request = RequestId(1_000 + (open.len() + ended.len()) as u64);
                        let platter = RegionPlatter(written + chance.below(4) as u32);
                        let wanted = vec![Shard { platter, tracks: Tracks { first: chance.below(40) as u32, count: 2 } }];
                        let due = library.now() + Micros(chance.below(20 * Micros::HOUR.0));
                        library.request(request, wanted.clone(), due, &mut outside);
                        open.insert(request, wanted);
                    }
                    written += 6;
                }
                7 => stock = library.stock(written),
                14 => {
                    let request = RequestId(1_000 + chance.below(30));
                    library.hasten(request, library.now() + Micros(chance.below(Micros::HOUR.0)), &mut outside);
                }
                12..14 => {
                    let request = RequestId(FIRST_VERIFICATION + verifications);
                    verifications += 1;
                    library.verify(request, RegionPlatter(chance.below(u64::from(written)) as u32), &mut outside);
                }
                8..12 => {
                    let view = library.view(written);
                    let expected = forecast(&view, 20_000);
                    assert!(expected.keys().all(|request| open.contains_key(request)), "seed {seed}");
                }
                _ => {}
            }
        }
        if is_last {
            for actor in &down {
                library.repair(*actor, &mut outside).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            }
            let is_unavailable = |ended: &&Ended| ended.outcome == RegionOutcome::Unavailable && ended.request.0 < FIRST_VERIFICATION;
            let unavailable: BTreeSet<RequestId> = outside.ended.iter().filter(is_unavailable).map(|ended| ended.request).collect();
            unavailable.iter().for_each(|request| library.request(*request, open[request].clone(), Micros::NEVER, &mut outside));
            let until = library.now() + Micros(10 * Micros::HOUR.0);
            while library.now() < until {
                library.advance(library.now() + Micros(20_000_000), usize::MAX, &mut outside);
                std::mem::take(&mut outside.reads).into_iter().for_each(|read| library.bytes_read(read.command, &mut outside));
                std::mem::take(&mut outside.verifying).into_iter().for_each(|verify| library.bytes_read(verify.command, &mut outside));
            }
            assert_eq!(library.open_requests(), 0, "seed {seed}");
            stock = library.stock(written);
        }
        plan.check(&stock).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        for Ended { request, outcome, .. } in &outside.ended {
            if request.0 >= FIRST_VERIFICATION {
                match outcome {
                    RegionOutcome::Read => seen.verified += 1,
                    RegionOutcome::Unavailable => seen.unverified += 1,
                    outcome => panic!("seed {seed}: verification {} ended as {outcome:?}", request.0),
                }
                continue;
            }
            match outcome {
                RegionOutcome::Read => {}
                RegionOutcome::Recovered => seen.recovered += 1,
                // Too much is out of order: it is requested again in the next session.
                RegionOutcome::Unavailable => {
                    seen.unavailable += 1;
                    continue;
                }
                RegionOutcome::Refused => panic!("seed {seed}: request {} was refused", request.0),
            }
            assert!(open.remove(request).is_some() && ended.insert(*request), "seed {seed}: request {} ended twice", request.0);
        }
        let text = journal(&plan, &first_stock, &outside.facts, is_last.then_some(until));
        let replayed = replay(JournalReader::new(&text[..]).expect("a header")).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(replayed.is_complete, is_last, "{replayed:?}");
        seen.commands += replayed.commands;
    }
    assert!(open.is_empty(), "seed {seed}: {open:?}");
    // Everything is repaired and at home in the end.
    assert_eq!((stock.down, stock.failed), (Vec::new(), Vec::new()), "seed {seed}");
    assert!(stock.found.iter().all(|found| found.verified == TRACKS), "seed {seed}: {:?}", stock.found);
}

#[test]
fn a_library_that_is_killed_takes_up_its_work_and_its_journals_replay() {
    let mut seen = Seen::default();
    (0..30).for_each(|seed| run_sessions(seed, &mut seen));
    assert!(seen.verified > 100 && seen.unverified > 5, "{seen:?}");
    assert!(seen.recovered > 20 && seen.unavailable > 0 && seen.repaired > 20 && seen.faults > 20 && seen.commands > 10_000, "{seen:?}");
}

/// A library so small that some platters have no spare slot that keeps I3, in which a shuttle and a
/// drive fail at any instant and are never repaired.
#[test]
fn every_request_ends_although_nothing_is_repaired() {
    let settings = "[library]\nracks = 3\nshelves = 8\nslots = 4\n[shuttles]\ncount = 8\n[drives]\nleft = 4\nright = 4\n";
    let settings = LibrarySettings::parse("test", settings).unwrap_or_else(|errors| panic!("{errors}"));
    let shape = SetShape { information: 2, redundancy: 1 };
    let plan = Arc::new(Plan::new(settings, shape, TRACKS, TRACK_BYTES).expect("sets fit"));
    let mut recovered = 0;
    for seed in 0..200 {
        let (mut chance, mut outside) = (Stream::new(seed, "faults that stay"), Collected::default());
        let mut library = LiveLibrary::start(plan.clone(), &Stock::default(), seed, &mut outside);
        let step = |library: &mut LiveLibrary, outside: &mut Collected, time: Micros| {
            library.advance(library.now() + time, usize::MAX, outside);
            std::mem::take(&mut outside.reads).into_iter().for_each(|read| library.bytes_read(read.command, outside));
            std::mem::take(&mut outside.verifying).into_iter().for_each(|verify| library.bytes_read(verify.command, outside));
        };
        for platter in 0..30 {
            library.take_in(RegionPlatter(platter), &mut outside);
        }
        step(&mut library, &mut outside, Micros(chance.below(900_000_000)));
        for number in 0..10 {
            let platter = RegionPlatter(chance.below(30) as u32);
            library.verify(RequestId(FIRST_VERIFICATION + number), platter, &mut outside);
            step(&mut library, &mut outside, Micros(chance.below(20_000_000)));
        }
        library.break_down(Actor::Shuttle(Shuttle(chance.below(8) as u16))).expect("it works");
        library.break_down(Actor::Drive(Drive(chance.below(8) as u16))).expect("it works");
        for number in 0..60 {
            step(&mut library, &mut outside, Micros(chance.below(20_000_000)));
            let platter = RegionPlatter(chance.below(10) as u32 * 3 + chance.below(2) as u32);
            let shard = Shard { platter, tracks: Tracks { first: chance.below(40) as u32, count: 1 } };
            library.request(RequestId(number), vec![shard], Micros::NEVER, &mut outside);
            if number % 10 == 5 {
                let platter = RegionPlatter(chance.below(30) as u32);
                library.verify(RequestId(FIRST_VERIFICATION + 10 + number), platter, &mut outside);
            }
        }
        for _ in 0..7_200 {
            step(&mut library, &mut outside, Micros::SECOND);
        }
        assert_eq!((outside.ended.len(), library.open_requests()), (60 + 16, 0), "seed {seed}");
        recovered += outside.ended.iter().filter(|ended| ended.outcome == RegionOutcome::Recovered).count();
    }
    assert!(recovered > 100, "{recovered}");
}

#[test]
fn a_drive_waits_for_the_bytes_of_its_read() {
    let (plan, mut outside) = (small(), Collected::default());
    let mut library = LiveLibrary::start(plan, &Stock { written: 6, ..Stock::default() }, 1, &mut outside);
    let shard = Shard { platter: RegionPlatter(1), tracks: Tracks { first: 3, count: 1 } };
    library.request(RequestId(7), vec![shard], Micros::NEVER, &mut outside);
    library.advance(Micros::HOUR, usize::MAX, &mut outside);
    assert_eq!(outside.ended, []);
    let [read] = outside.reads[..] else { panic!("one drive reads: {:?}", outside.reads) };
    assert_eq!((read.request, read.platter, read.tracks, read.is_recovery), (RequestId(7), shard.platter, shard.tracks, false));
    library.bytes_read(read.command, &mut outside);
    assert_eq!(outside.ended, [Ended { request: RequestId(7), outcome: RegionOutcome::Read, took: library.now().since(Micros(1)) }]);
}

/// A scrub reads what the drive may read: it goes on for as long as the scrub needs, gives way to
/// requests, and ends when the scrub has read everything.
#[test]
fn a_verification_gives_way_to_requests_and_ends_with_its_last_byte() {
    let (plan, mut outside) = (small(), Collected::default());
    let mut library = LiveLibrary::start(plan, &Stock { written: 6, ..Stock::default() }, 1, &mut outside);
    let platter = RegionPlatter(1);
    library.verify(RequestId(7), platter, &mut outside);
    library.advance(Micros::HOUR, usize::MAX, &mut outside);
    let [first] = outside.verifying[..] else { panic!("one drive verifies: {:?}", outside.verifying) };
    assert_eq!((first.platter, first.tracks), (platter, Tracks { first: 0, count: TRACKS }));
    let shard = Shard { platter, tracks: Tracks { first: 3, count: 1 } };
    library.request(RequestId(8), vec![shard], Micros::NEVER, &mut outside);
    library.advance(library.now() + Micros::SECOND, usize::MAX, &mut outside);
    let ([read], []) = (&outside.reads[..], &outside.verifying[..]) else { panic!("it gives way: {:?}", outside.verifying) };
    library.bytes_read(read.command, &mut outside);
    library.advance(library.now() + Micros(600_000_000), usize::MAX, &mut outside);
    // The drive had time for all tracks, but the last of them is read only with the last byte.
    let [second] = outside.verifying[..] else { panic!("it goes on: {:?}", outside.verifying) };
    assert_eq!(second.tracks, Tracks { first: TRACKS - 1, count: 1 });
    let outcomes = |outside: &Collected| outside.ended.iter().map(|ended| (ended.request.0, ended.outcome)).collect::<Vec<_>>();
    assert_eq!(outcomes(&outside), [(8, RegionOutcome::Read)]);
    library.bytes_read(second.command, &mut outside);
    assert_eq!(outcomes(&outside), [(8, RegionOutcome::Read), (7, RegionOutcome::Read)]);
    library.advance(library.now() + Micros(600_000_000), usize::MAX, &mut outside);
    assert_eq!(library.stock(6).found, [], "the platter is at home again");
}

/// After a restart, a drive goes on with a verification before anyone asks for it. It starts again
/// for the scrub, which must read all tracks.
#[test]
fn a_verification_under_way_starts_again_for_a_scrub() {
    let (plan, mut outside) = (small(), Collected::default());
    let mut library = LiveLibrary::start(plan.clone(), &Stock { written: 6, ..Stock::default() }, 1, &mut outside);
    library.verify(RequestId(7), RegionPlatter(1), &mut outside);
    library.advance(Micros::HOUR, usize::MAX, &mut outside);
    let (stock, mut outside) = (library.stock(6), Collected::default());
    let mut library = LiveLibrary::start(plan, &stock, 2, &mut outside);
    let verifies = |library: &LiveLibrary| {
        let panel = library.region().controllers()[0].panel();
        panel.drives().any(|drive| panel.operation(drive) == Some(Operation::Verify))
    };
    while !verifies(&library) {
        library.advance(library.now() + Micros::SECOND, usize::MAX, &mut outside);
    }
    library.advance(library.now() + Micros::SECOND, usize::MAX, &mut outside);
    assert_eq!(outside.verifying, [], "no request waits for it");
    library.verify(RequestId(8), RegionPlatter(1), &mut outside);
    let [again] = outside.verifying[..] else { panic!("it starts again: {:?}", outside.verifying) };
    assert_eq!(again.tracks, Tracks { first: 0, count: TRACKS });
    // A second request starts it once more, and both end with it.
    library.advance(library.now() + Micros::SECOND, usize::MAX, &mut outside);
    library.verify(RequestId(9), RegionPlatter(1), &mut outside);
    library.advance(library.now() + Micros::HOUR, usize::MAX, &mut outside);
    let [last] = outside.verifying[..] else { panic!("one drive verifies: {:?}", outside.verifying) };
    assert_eq!((last.tracks, outside.ended.len()), (again.tracks, 0));
    library.bytes_read(last.command, &mut outside);
    assert_eq!(outside.ended.iter().map(|ended| ended.request.0).collect::<Vec<_>>(), [8, 9]);
}

/// The checks reject a verification that ends before drives have read all tracks.
#[test]
fn a_verification_that_ends_too_early_is_found() {
    let (plan, mut outside, stock) = (small(), Collected::default(), Stock { written: 6, ..Stock::default() });
    let mut library = LiveLibrary::start(plan.clone(), &stock, 1, &mut outside);
    library.verify(RequestId(7), RegionPlatter(1), &mut outside);
    library.advance(Micros::HOUR, usize::MAX, &mut outside);
    library.bytes_read(outside.verifying[0].command, &mut outside);
    let end = Fact::Ended { request: RequestId(7), outcome: RegionOutcome::Read };
    let is_end = |fact: &Fact| *fact == end;
    assert!(outside.facts.iter().any(is_end));
    let violation = |facts: &mut dyn Iterator<Item = &Fact>| {
        let mut checks = Checks::new(plan.settings().zones.clone(), TRACKS, PolicyName::Balanced);
        checks.begin(&plan.region(&stock));
        facts.for_each(|fact| checks.observe(fact));
        checks.violation().map(ToString::to_string)
    };
    assert_eq!(violation(&mut outside.facts.iter()), None);
    let verifies = |fact: &&Fact| matches!(fact, Fact::Commanded { command: Command::Do { action: Action::Verify { .. }, .. }, .. });
    let before = outside.facts.iter().position(|fact| verifies(&fact)).expect("a drive verifies");
    let early = violation(&mut outside.facts[..=before].iter().chain([&end]));
    assert!(early.as_ref().is_some_and(|text| text.contains("not all tracks were verified")), "{early:?}");
}

#[test]
fn reads_of_one_platter_share_a_visit() {
    let (plan, mut outside) = (small(), Collected::default());
    let mut library = LiveLibrary::start(plan, &Stock { written: 6, ..Stock::default() }, 1, &mut outside);
    for number in 0..100 {
        let shard = Shard { platter: RegionPlatter(1), tracks: Tracks { first: number % 40, count: 1 } };
        library.request(RequestId(number.into()), vec![shard], Micros::NEVER, &mut outside);
    }
    for _ in 0..1_000 {
        library.advance(library.now() + Micros::SECOND, usize::MAX, &mut outside);
        std::mem::take(&mut outside.reads).into_iter().for_each(|read| library.bytes_read(read.command, &mut outside));
    }
    assert_eq!(outside.ended.len(), 100);
    let mounts = outside.facts.iter().filter(|fact| fact.to_string().contains(" mount P1 ")).count();
    assert_eq!(mounts, 1);
}

/// A verified platter waits in a drive, and a shuttle comes to take it away. Then it is requested,
/// and the shuttle stops.
#[test]
fn a_drive_keeps_a_platter_that_a_shuttle_can_not_take_away() {
    let stock = Stock::parse(["written 6", "found P2 D3.0 50"]).expect("a stock");
    let mut outside = Collected::default();
    let mut library = LiveLibrary::start(small(), &stock, 1, &mut outside);
    let collector = outside.facts.iter().find_map(|fact| match fact {
        Fact::Commanded { command: Command::Do { id, .. }, .. } => Some(id.actor),
        _ => None,
    });
    let collector = collector.filter(|actor| matches!(actor, Actor::Shuttle(_))).expect("a shuttle comes");
    let shard = Shard { platter: RegionPlatter(2), tracks: Tracks { first: 3, count: 1 } };
    library.request(RequestId(1), vec![shard], Micros::NEVER, &mut outside);
    library.break_down(collector).expect("it works");
    for _ in 0..600 {
        library.advance(library.now() + Micros::SECOND, usize::MAX, &mut outside);
        std::mem::take(&mut outside.reads).into_iter().for_each(|read| library.bytes_read(read.command, &mut outside));
    }
    let outcomes: Vec<RegionOutcome> = outside.ended.iter().map(|ended| ended.outcome).collect();
    assert_eq!(outcomes, [RegionOutcome::Read]);
}

#[test]
fn commands_name_machines_that_exist_and_are_out_of_order() {
    let (plan, mut outside) = (small(), Collected::default());
    let mut library = LiveLibrary::start(plan, &Stock::default(), 1, &mut outside);
    let (none, drive) = (Actor::Shuttle(Shuttle(8)), Actor::Drive(Drive(5)));
    assert_eq!(library.break_down(none), Err(WrongMachine::Unknown(none)));
    assert_eq!(library.repair(none, &mut outside), Err(WrongMachine::Unknown(none)));
    assert_eq!(library.repair(drive, &mut outside).expect_err("it works").to_string(), "drive 5 was not repaired: it works");
    library.break_down(drive).expect("it works");
    assert_eq!(library.break_down(drive), Err(WrongMachine::OutOfOrder(drive)));
    assert_eq!(library.stock(0).down, [drive]);
    library.advance(Micros::HOUR, usize::MAX, &mut outside);
    library.repair(drive, &mut outside).expect("it is down");
    assert_eq!(library.stock(0).down, []);
}

/// For requests that arrive one after another: how far the forecast at each arrival was from what
/// came true, as a share of the true time, in ascending order.
fn forecast_errors(requests: u64, apart: Micros) -> Vec<f64> {
    let plan = plan("");
    let written = 7_000 / 6;
    let mut outside = Collected::default();
    let stock = Stock { written: written * 6, ..Stock::default() };
    let mut library = LiveLibrary::start(plan, &stock, 1, &mut outside);
    let mut chance = Stream::new(1, "forecasts");
    let mut expected = BTreeMap::new();
    for number in 0..requests {
        let at = library.now() + apart;
        while library.now() < at {
            library.advance(at.min(library.now() + Micros(200_000)), usize::MAX, &mut outside);
            std::mem::take(&mut outside.reads).into_iter().for_each(|read| library.bytes_read(read.command, &mut outside));
        }
        library.request(RequestId(number), shards(&mut chance, written), Micros::NEVER, &mut outside);
        let view = library.view(written * 6);
        expected.insert(number, forecast(&view, 1_000_000)[&RequestId(number)]);
    }
    while outside.ended.len() < requests as usize {
        library.advance(library.now() + Micros(200_000), usize::MAX, &mut outside);
        std::mem::take(&mut outside.reads).into_iter().for_each(|read| library.bytes_read(read.command, &mut outside));
    }
    let error = |ended: &Ended| (expected[&ended.request.0].seconds() / ended.took.seconds() - 1.0).abs();
    let mut errors: Vec<f64> = outside.ended.iter().map(error).collect();
    errors.sort_unstable_by(f64::total_cmp);
    errors
}

#[test]
fn half_of_all_forecasts_are_within_three_tenths() {
    for (requests, apart) in [(200, Micros(1_000_000)), (200, Micros(100_000)), (60, Micros(30_000_000))] {
        let errors = forecast_errors(requests, apart);
        let median = errors[errors.len() / 2];
        assert!(median < 0.3, "{requests} requests, {apart} apart: median error {median}");
    }
}

/// Sum of the last count of each lane, the open requests, and the drives that read, of a picture.
fn seen_in(library: &mut LiveLibrary) -> (i64, u64, usize) {
    let picture = library.picture().json();
    let numbers =
        |list: &serde_json::Value| -> Vec<i64> { list.as_array().expect("a list").iter().filter_map(serde_json::Value::as_i64).collect() };
    let waiting = numbers(&picture["entries"]["waiting"]).chunks_exact(3).map(|entry| entry[2]).sum();
    let drives = picture["entries"]["drives"].as_array().expect("drives");
    let reading = drives.iter().filter(|drive| numbers(&drive[1]).rchunks_exact(3).next().is_some_and(|state| state[1] == 4)).count();
    (waiting, picture["open"].as_u64().expect("a number"), reading)
}

#[test]
fn a_picture_at_any_time_shows_the_present_state() {
    let plan = small();
    let (mut chance, mut outside) = (Stream::new(7, "pictures"), Collected::default());
    let stock = Stock { written: 5 * 6, ..Stock::default() };
    let mut library = LiveLibrary::start(plan, &stock, 7, &mut outside);
    let (mut number, mut most) = (0, (0, 0, 0));
    for _ in 0..2_000 {
        library.advance(library.now() + Micros(1 + chance.below(2_000_000)), usize::MAX, &mut outside);
        std::mem::take(&mut outside.reads).into_iter().for_each(|read| library.bytes_read(read.command, &mut outside));
        if chance.below(8) == 0 {
            library.request(RequestId(number), shards(&mut chance, 5), Micros::NEVER, &mut outside);
            number += 1;
        }
        // Now and then, motions are taken before.
        if chance.below(3) == 0 {
            library.take_motions();
        }
        if chance.below(5) == 0 {
            let seen = seen_in(&mut library);
            let view = library.view(stock.written);
            let reading = view.drives.iter().filter(|drive| matches!(drive.operation, Some(Operation::Read(..)))).count();
            assert_eq!(seen, (view.queued.into(), library.open_requests() as u64, reading), "at {:?}", library.now());
            most = (most.0.max(seen.0), most.1.max(seen.1), most.2.max(seen.2));
        }
    }
    assert!(most.0 > 2 && most.1 > 5 && most.2 > 1, "{most:?}");
}
