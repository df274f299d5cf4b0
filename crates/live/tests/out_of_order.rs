//! Restarts of a library with machines that are out of order: they stay where they are, and get no
//! command.

use std::sync::{Arc, LazyLock};

use fulgurite_domain::{Micros, SetShape};
use fulgurite_journal::{Detail, Fact, Header, JournalReader, JournalWriter, Stock, Subject};
use fulgurite_library::{Actor, Berth, Command, Drive, Event, Platter, Shuttle, Whereabouts};
use fulgurite_library_settings::LibrarySettings;
use fulgurite_live::{Ended, LiveLibrary, Outside, Plan, Read, replay};

const WRITTEN: u32 = 5 * 6;

fn small() -> Arc<Plan> {
    static SMALL: LazyLock<Arc<Plan>> = LazyLock::new(set_up);
    SMALL.clone()
}

fn set_up() -> Arc<Plan> {
    let text = "[library]\nracks = 6\nslots = 20\n[shuttles]\ncount = 8\n[drives]\nleft = 3\nright = 3\n";
    let settings = LibrarySettings::parse("test", text).unwrap_or_else(|errors| panic!("{errors}"));
    Arc::new(Plan::new(settings, SetShape { information: 4, redundancy: 2 }, 50, 20_000_000).expect("sets fit"))
}

#[derive(Default)]
struct Facts(Vec<Fact>);

impl Outside for Facts {
    fn read(&mut self, _: Read) {}
    fn ended(&mut self, _: Ended) {}
    fn fact(&mut self, fact: Fact) {
        self.0.push(fact);
    }
}

/// The commands to a machine until it is repaired.
fn commands(facts: &[Fact], to: Actor) -> usize {
    let is_repair = |fact: &&Fact| matches!(fact, Fact::Happened { event: Event::Repaired { actor }, .. } if *actor == to);
    let is_command = |fact: &&Fact| matches!(fact, Fact::Commanded { command: Command::Do { id, .. }, .. } if id.actor == to);
    facts.iter().take_while(|fact| !is_repair(fact)).filter(is_command).count()
}

/// Shuttle 0 carries a platter, and drive 1 has one to verify: both would start at once.
fn stock(rest: &[&str]) -> Stock {
    let shuttles = (0..8).map(|shuttle| format!("shuttle {}@{}", (shuttle + 4) % 10, 2_000_000 + shuttle * 500_000));
    let lines: Vec<String> = ["written 30".to_owned()].into_iter().chain(shuttles).collect();
    let found = ["found P2 S0 50", "found P3 D1.0 0"];
    Stock::parse(lines.iter().map(String::as_str).chain(rest.iter().copied()).chain(found)).expect("a stock")
}

/// Starts a library five times, each time with what was left before.
fn restart(mut stock: Stock, mut each: impl FnMut(&LiveLibrary, &[Fact], &Stock)) -> Stock {
    for seed in 0..5 {
        let mut outside = Facts::default();
        let plan = small();
        plan.check(&stock).unwrap_or_else(|error| panic!("{error}"));
        let mut library = LiveLibrary::start(plan.clone(), &stock, seed, &mut outside);
        library.advance(Micros(60_000_000 + seed), usize::MAX, &mut outside);
        let after = library.stock(WRITTEN);
        each(&library, &outside.0, &after);
        let header = Header::new(Subject::Library, plan.description(&stock), 1, Detail::Commands);
        let mut writer = JournalWriter::new(Vec::new(), &header).expect("memory takes everything");
        outside.0.iter().for_each(|fact| writer.add(fact));
        let journal = writer.finish(library.now()).expect("memory takes everything");
        replay(JournalReader::new(journal.as_slice()).expect("a journal")).unwrap_or_else(|error| panic!("start {seed}: {error}"));
        stock = after;
    }
    stock
}

const SHUTTLE: Actor = Actor::Shuttle(Shuttle(0));
const DRIVE: Actor = Actor::Drive(Drive(1));

#[test]
fn machines_that_are_out_of_order_stay_where_they_are_at_each_restart() {
    let first = stock(&["down S0", "down D1"]);
    let last = restart(first.clone(), |library, facts, after| {
        assert_eq!((commands(facts, SHUTTLE), commands(facts, DRIVE)), (0, 0), "they get no commands");
        assert_eq!(after.shuttles[0], first.shuttles[0]);
        let panel = library.region().controllers()[0].panel();
        assert_eq!(panel.other_shelf(Shuttle(0)), None, "it stands on one shelf and blocks no other");
        assert!(!panel.is_available(Platter(2)) && !panel.is_reachable(Drive(1)));
    });
    assert_eq!((last.down, last.between), (first.down, first.between));
}

#[test]
fn a_machine_that_is_out_of_order_for_a_while_gets_no_command_before_its_repair() {
    let first = stock(&["failed S0", "failed D1"]);
    let mut library = LiveLibrary::start(small(), &first, 1, &mut Facts::default());
    assert_eq!((library.stock(WRITTEN).failed, library.stock(WRITTEN).down), (first.failed.clone(), Vec::new()));
    let mut outside = Facts::default();
    library = LiveLibrary::start(small(), &first, 1, &mut outside);
    library.advance(Micros(100 * Micros::HOUR.0), usize::MAX, &mut outside);
    assert_eq!((commands(&outside.0, SHUTTLE), commands(&outside.0, DRIVE)), (0, 0));
    assert_eq!(library.stock(WRITTEN).failed, [], "both were repaired");
    let panel = library.region().controllers()[0].panel();
    assert!(
        [2, 3]
            .iter()
            .all(|platter| panel.whereabouts(Platter(*platter)) == Whereabouts::Berth(Berth::Slot(panel.home(Platter(*platter)).unwrap())))
    );
}

#[test]
fn a_shuttle_that_stopped_between_two_shelves_is_there_at_each_restart_until_it_is_repaired() {
    // It breaks down a little later each time, until that is while it changes shelves.
    let stopped = (1..400).find_map(|tenths| {
        let mut outside = Facts::default();
        let mut library = LiveLibrary::start(small(), &stock(&[]), 1, &mut outside);
        library.advance(Micros(tenths * 100_000), usize::MAX, &mut outside);
        library.break_down(SHUTTLE).expect("it works");
        Some(library.stock(WRITTEN)).filter(|stock| !stock.between.is_empty())
    });
    let stopped = stopped.expect("the platter's slot is on another shelf");
    let (at, other) = (stopped.shuttles[0], stopped.between[0].1);
    assert_eq!(at.shelf + 1, other);
    assert_eq!(Stock::parse(stopped.to_string().lines()).as_ref(), Ok(&stopped));
    let last = restart(stopped.clone(), |library, _, after| {
        assert_eq!((after.shuttles[0], &after.between), (at, &stopped.between));
        assert_eq!(library.region().controllers()[0].panel().other_shelf(Shuttle(0)), Some(other));
    });
    let mut outside = Facts::default();
    let mut library = LiveLibrary::start(small(), &last, 1, &mut outside);
    library.repair(SHUTTLE, &mut outside).expect("it is out of order");
    library.advance(Micros(Micros::HOUR.0), usize::MAX, &mut outside);
    let (panel, after) = (library.region().controllers()[0].panel(), library.stock(WRITTEN));
    assert_eq!((after.between, after.down), (Vec::new(), Vec::new()));
    let home = panel.home(Platter(2)).expect("it has a slot");
    assert_eq!(panel.whereabouts(Platter(2)), Whereabouts::Berth(Berth::Slot(home)), "it brought its platter home");
}

#[test]
fn a_shuttle_is_between_two_neighbouring_shelves_only_if_it_is_out_of_order() {
    let plan = small();
    for (good, lines) in [
        (true, ["between S0 5", "down S0"]),
        (true, ["between S0 3", "failed S0"]),
        (false, ["between S0 5", "down S1"]),
        (false, ["between S0 6", "down S0"]),
        (false, ["between S9 5", "down S0"]),
    ] {
        assert_eq!(plan.check(&stock(&lines)).is_ok(), good, "{lines:?}");
    }
}
