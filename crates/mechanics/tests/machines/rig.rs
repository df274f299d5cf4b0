//! A minimal driver: a queue, and commands one by one.

use std::collections::BTreeMap;

use fulgurite_domain::Micros;
use fulgurite_library::{Action, Actor, Bay, Berth, CommandId, Drive, Event, Layout, Platter, Position, RequestId, Shuttle, Slot, Tracks};
use fulgurite_mechanics::{Mechanics, MotionLog, Settings};

pub(crate) struct Rig<L = ()> {
    pub(crate) mechanics: Mechanics<L>,
    pub(crate) now: Micros,
    /// Events that the controller would have received.
    pub(crate) delivered_events: Vec<(Micros, Event)>,
    queue: BTreeMap<(Micros, u64), Event>,
    pushed: u64,
    commands: u64,
}

pub(crate) const DRIVE: Actor = Actor::Drive(Drive(0));
pub(crate) const SHUTTLE: Actor = Actor::Shuttle(Shuttle(0));

impl Rig {
    pub(crate) fn new(settings: Settings) -> Self {
        Self::seeded(settings, 1)
    }

    pub(crate) fn seeded(settings: Settings, seed: u64) -> Self {
        Self::with_log(Layout::default(), settings, seed, ())
    }
}

impl<L: MotionLog> Rig<L> {
    /// Platter 0 is in slot 0, with shuttle 0 in front of it; platter 1 is in bay 0 of drive 0.
    pub(crate) fn with_log(layout: Layout, settings: Settings, seed: u64, log: L) -> Self {
        let settings = settings.check(&layout).expect("in range");
        let mut mechanics = Mechanics::with_log(layout, settings, seed, log);
        mechanics.put(Platter(0), Berth::Slot(Slot(0)));
        mechanics.put(Platter(1), Berth::Bay(Drive(0), Bay(0)));
        mechanics.set_start_position(Shuttle(0), mechanics.layout().slot_position(Slot(0)));
        let mut rig = Self { mechanics, now: Micros::ZERO, delivered_events: Vec::new(), queue: BTreeMap::new(), pushed: 0, commands: 0 };
        let mut answers = Vec::new();
        rig.mechanics.start(&mut answers);
        rig.push(answers);
        rig
    }

    fn push(&mut self, answers: Vec<(Micros, Event)>) {
        for (at, event) in answers {
            assert!(at >= self.now, "{event:?} is due at {at}, before the current time {}", self.now);
            self.queue.insert((at, self.pushed), event);
            self.pushed += 1;
        }
    }

    pub(crate) fn command(&mut self, actor: Actor, action: Action) -> CommandId {
        self.commands += 1;
        let id = CommandId { actor, number: self.commands };
        let mut answers = Vec::new();
        self.mechanics.begin(self.now, id, action, &mut answers);
        self.push(answers);
        id
    }

    /// The next event for the controller up to this instant; without one, advances the time to it.
    pub(crate) fn next(&mut self, until: Micros) -> Option<Event> {
        while let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= until) {
            let ((at, _), event) = entry.remove_entry();
            self.now = at;
            let mut answers = Vec::new();
            let true_now = self.mechanics.due(at, &event, &mut answers);
            self.push(answers);
            if true_now {
                self.delivered_events.push((at, event));
                return Some(event);
            }
        }
        self.now = until;
        None
    }

    pub(crate) fn run(&mut self, until: Micros) {
        while self.next(until).is_some() {}
    }

    /// Runs a command to completion and returns the seconds it took.
    pub(crate) fn take(&mut self, actor: Actor, action: Action) -> f64 {
        let begin = self.now;
        let command = self.command(actor, action);
        while let Some(event) = self.next(Micros::NEVER) {
            if event == (Event::Done { command }) {
                return (self.now - begin).seconds();
            }
        }
        panic!("{action:?} never ended");
    }

    pub(crate) fn go(&mut self, shuttle: u16, to: Position) -> f64 {
        self.take(Actor::Shuttle(Shuttle(shuttle)), Action::Move { to })
    }
}

pub(crate) fn slot(number: u32) -> Berth {
    Berth::Slot(Slot(number))
}

pub(crate) fn pick(from: Berth, platter: u32) -> Action {
    Action::Pick { from, platter: Platter(platter) }
}

pub(crate) fn place(to: Berth, platter: u32) -> Action {
    Action::Place { to, platter: Platter(platter) }
}

pub(crate) fn mount(bay: u8, platter: u32) -> Action {
    Action::Mount { bay: Bay(bay), platter: Platter(platter) }
}

pub(crate) fn read(platter: u32, first: u32, count: u32, adjacent: bool) -> Action {
    Action::Read { platter: Platter(platter), tracks: Tracks { first, count }, adjacent, request: RequestId(0) }
}

pub(crate) fn verify(platter: u32, first: u32, count: u32) -> Action {
    Action::Verify { platter: Platter(platter), tracks: Tracks { first, count } }
}
