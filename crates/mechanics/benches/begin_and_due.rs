//! Cost of a command and its answer, `begin` and `due` together, without a queue or a controller:
//! `cargo bench -p fulgurite-mechanics`. Counts commands.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a bench measures time")]

use std::hint::black_box;
use std::time::Instant;

use fulgurite_domain::Micros;
use fulgurite_library::{Action, Actor, Bay, Berth, CommandId, Drive, Layout, Platter, Position, RequestId, Shuttle, Slot, Tracks};
use fulgurite_mechanics::{Battery, Mechanics, MotionLog, NoTwoShuttlesMeet, Settings};

const COMMANDS: u64 = 1_000_000;

fn main() {
    println!("{:<44} {:>12}", "commands and their answers", "ns each");
    let layout = Layout { shuttles: 40, ..Layout::default() };
    let settings = Settings { battery: Some(Battery { capacity_j: 1e12, ..Battery::default() }), ..Settings::default() };
    let plain = || Mechanics::new(layout.clone(), settings.clone(), 1);
    report("along a shelf, 40 shuttles", plain(), along);
    let watched = || Mechanics::with_log(layout.clone(), settings.clone(), 1, NoTwoShuttlesMeet::new(&layout));
    report("the same, checked that no two meet", watched(), along);
    report("crabs", plain(), crab);
    report("picks and places", plain(), handle);
    report("reads with a seek", plain(), read);
    report("adjacent reads", plain(), read_on);
}

/// Best of five runs: other load on the machine only adds time.
fn report<L: MotionLog + Clone>(name: &str, mechanics: Mechanics<L>, action: impl Fn(u64) -> (Actor, Action)) {
    let best = (0..5).map(|_| run(mechanics.clone(), &action)).fold(f64::INFINITY, f64::min);
    println!("{name:<44} {best:>12.1}");
}

fn run<L: MotionLog>(mut mechanics: Mechanics<L>, action: impl Fn(u64) -> (Actor, Action)) -> f64 {
    for shuttle in 0..40 {
        mechanics.put(Platter(shuttle.into()), slot(&mechanics, shuttle));
        mechanics.set_start_position(Shuttle(shuttle), mechanics.layout().berth_position(slot(&mechanics, shuttle)));
    }
    let (bay, drive) = (Bay(0), Drive(0));
    mechanics.put(Platter(100), Berth::Bay(drive, bay));
    let mut answers = Vec::new();
    mechanics.start(&mut answers);
    let id = CommandId { actor: Actor::Drive(drive), number: COMMANDS };
    answers.clear();
    mechanics.begin(Micros::ZERO, id, Action::Mount { bay, platter: Platter(100) }, &mut answers);
    let (mut now, event) = answers[0];
    mechanics.due(now, &event, &mut answers);
    let begin = Instant::now();
    for number in 0..COMMANDS {
        answers.clear();
        let (actor, action) = action(number);
        mechanics.begin(now, CommandId { actor, number }, action, &mut answers);
        let (at, event) = answers[0];
        now = at;
        black_box(mechanics.due(now, &event, &mut answers));
    }
    begin.elapsed().as_nanos() as f64 / COMMANDS as f64
}

/// Four shuttles on each of ten shelves, a rack and a half apart.
fn slot<L: MotionLog>(mechanics: &Mechanics<L>, shuttle: u16) -> Berth {
    let layout = mechanics.layout();
    let cell = fulgurite_library::Cell { rack: 2 + (shuttle / 10 * 2) as u8, shelf: (shuttle % 10) as u8 };
    Berth::Slot(layout.slot(cell, 50))
}

fn home(shuttle: u16) -> Position {
    let layout = Layout::default();
    let cell = fulgurite_library::Cell { rack: 2 + (shuttle / 10 * 2) as u8, shelf: (shuttle % 10) as u8 };
    layout.slot_position(layout.slot(cell, 50))
}

fn along(number: u64) -> (Actor, Action) {
    let shuttle = (number % 40) as u16;
    let away_um = (number / 40 % 2) as i64 * 500_000;
    let home = home(shuttle);
    (Actor::Shuttle(Shuttle(shuttle)), Action::Move { to: Position { x_um: home.x_um + away_um, ..home } })
}

fn crab(number: u64) -> (Actor, Action) {
    let shelf = number.is_multiple_of(2).into();
    (Actor::Shuttle(Shuttle(0)), Action::Move { to: Position { shelf, ..home(0) } })
}

fn handle(number: u64) -> (Actor, Action) {
    let (platter, berth) = (Platter(0), Berth::Slot(Slot(50)));
    let action = if number.is_multiple_of(2) { Action::Pick { from: berth, platter } } else { Action::Place { to: berth, platter } };
    (Actor::Shuttle(Shuttle(0)), action)
}

fn read(number: u64) -> (Actor, Action) {
    let tracks = Tracks { first: number as u32, count: 1 };
    (Actor::Drive(Drive(0)), Action::Read { platter: Platter(100), tracks, adjacent: false, request: RequestId(number) })
}

fn read_on(number: u64) -> (Actor, Action) {
    let (actor, action) = read(number);
    let Action::Read { platter, tracks, request, .. } = action else { unreachable!("a read is a read") };
    (actor, Action::Read { platter, tracks, adjacent: number > 0, request })
}
