//! The libraries of a region: controllers and machines, coupled by one queue of events.
//!
//! ```text
//!                    request, deliver
//!                           v
//!   pop_until --> handle --> Region (Controllers) --- commands ---> Mechanics of the library
//!       ^                           |                                  |
//!       |                           '--- ends ---> Witness             | answers, each with its instant
//!       '---------------------- queue <--------------------------------'
//! ```
//!
//! The caller decides when an event is due: a simulation jumps to the next one, a service waits for
//! its clock. Both therefore run the same loop, and a [`Witness`] sees the same inputs and outputs.

use fulgurite_domain::Micros;
use fulgurite_library::{
    Actor, Berth, Command, Event, Layout, Library, Platter, Position, Region, RegionOutcome, RegionPlatter, RequestId, Shard, Shuttle,
    Whereabouts,
};

use crate::{Breakdown, Detection, EventQueue, Footprint, Lasting, Mechanics, MotionLog, NotRepaired, Settings};

/// Sees every input and output of the controllers, in order.
#[allow(unused_variables, reason = "a witness may ignore any of them")]
pub trait Witness {
    /// An event is about to be given to the controller of a library.
    fn event(&mut self, now: Micros, library: Library, event: &Event) {}

    /// The controller has handled an event; its commands follow.
    fn handled(&mut self, now: Micros, library: Library, region: &Region) {}

    /// A command for a library, about to be carried out.
    fn command(&mut self, now: Micros, library: Library, command: &Command) {}

    /// A request to the region has ended.
    fn ended(&mut self, now: Micros, request: RequestId, outcome: RegionOutcome) {}

    /// All commands that followed from an input were given, and all ends reported.
    fn settled(&mut self, now: Micros, region: &Region) {}
}

impl Witness for () {}

/// An event and its library.
#[derive(Debug, Clone, Copy)]
pub struct Due {
    /// The library.
    pub library: Library,
    /// The event.
    pub event: Event,
}

/// The controllers of a region and the machines of its libraries.
pub struct Libraries<L = ()> {
    region: Region,
    mechanics: Vec<Mechanics<L>>,
    queue: EventQueue<Due>,
    /// When each library's controller will be woken; [`Micros::NEVER`] if it won't.
    wakeups: Vec<Micros>,
    // Emptied in each step; kept to reuse their memory.
    commands: Vec<(Library, Command)>,
    ended: Vec<(RequestId, RegionOutcome)>,
    answers: Vec<(Micros, Event)>,
}

impl<L: MotionLog> Libraries<L> {
    /// Gives each controller of a region emulated machines with these settings, with platters and
    /// shuttles where the controller believes them to be. `log` makes the motion log of each.
    #[must_use]
    pub fn new(region: Region, settings: impl Fn(Library) -> Settings, seed: u64, mut log: impl FnMut(&Layout) -> L) -> Self {
        let mechanics = region.controllers().iter().enumerate().map(|(index, controller)| {
            let panel = controller.panel();
            let layout = panel.layout();
            // Libraries may be identical, but their machines draw different times. The factor, 2^64
            // divided by the golden ratio, keeps the seeds of libraries far apart.
            let seed = seed.wrapping_add((index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let mut machines = Mechanics::with_log(layout.clone(), settings(Library(index as u16)), seed, log(layout));
            for platter in (0..panel.platter_count()).map(Platter) {
                match panel.whereabouts(platter) {
                    Whereabouts::Berth(Berth::Port) => {}
                    Whereabouts::Berth(berth) => machines.put(platter, berth),
                    Whereabouts::Shuttle(shuttle) => machines.load(platter, shuttle),
                    Whereabouts::Unwritten => {}
                }
            }
            panel.at_port().for_each(|platter| machines.put(platter, Berth::Port));
            for shuttle in (0..layout.shuttles).map(Shuttle) {
                let (at, other_shelf) = (panel.position(shuttle), panel.other_shelf(shuttle));
                let other = Footprint::level(Position { shelf: other_shelf.unwrap_or(at.shelf), ..at });
                let footprint = Footprint { low: at.shelf.min(other.low), high: at.shelf.max(other.high), ..other };
                machines.set_start_footprint(shuttle, footprint);
            }
            machines
        });
        let mechanics: Vec<Mechanics<L>> = mechanics.collect();
        Self {
            wakeups: vec![Micros::NEVER; mechanics.len()],
            region,
            mechanics,
            queue: EventQueue::new(),
            commands: Vec::new(),
            ended: Vec::new(),
            answers: Vec::new(),
        }
    }

    /// The controllers.
    #[must_use]
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// The machines of each library.
    #[must_use]
    pub fn mechanics(&self) -> &[Mechanics<L>] {
        &self.mechanics
    }

    /// The controllers and the machines.
    #[must_use]
    pub fn into_parts(self) -> (Region, Vec<Mechanics<L>>) {
        (self.region, self.mechanics)
    }

    /// Starts the machines, at time 0. [`Event::Woken`] to each library then starts the
    /// controllers; before, [`Libraries::start_out_of_order`] says which machines don't work.
    pub fn start_machines(&mut self) {
        for index in 0..self.mechanics.len() {
            self.mechanics[index].start(&mut self.answers);
            self.schedule_answers(Library(index as u16));
        }
    }

    /// A machine is out of order from the start. Its controller knows that before it is woken, and
    /// gives it no command.
    pub fn start_out_of_order(&mut self, library: Library, what: Breakdown, lasting: Lasting, witness: &mut impl Witness) {
        self.break_down(Micros::ZERO, library, what, lasting, Detection::AtOnce);
        while let Some((at, due)) = self.pop_until(Micros::ZERO) {
            self.handle(at, due, witness);
        }
    }

    /// Schedules an event from outside, such as a written platter.
    pub fn schedule(&mut self, at: Micros, library: Library, event: Event) {
        self.queue.push(at, Due { library, event });
    }

    /// When the next event is due.
    pub fn next_at(&mut self) -> Option<Micros> {
        self.queue.next_at()
    }

    /// Takes the next event from the queue, if it is due by `until`. The caller gives it to
    /// [`Libraries::handle`], or drops it at the end of a run.
    pub fn pop_until(&mut self, until: Micros) -> Option<(Micros, Due)> {
        self.queue.pop_until(until)
    }

    /// Handles a due event, unless it has become void.
    pub fn handle(&mut self, now: Micros, due: Due, witness: &mut impl Witness) {
        let (library, event) = (due.library, due.event);
        let index = usize::from(library.0);
        match event {
            Event::Woken => {
                // This wake-up was superseded by an earlier one.
                if self.wakeups[index] != now {
                    return;
                }
                self.wakeups[index] = Micros::NEVER;
                if self.region.controllers()[index].deadline().is_some_and(|deadline| deadline <= now) {
                    self.deliver(now, library, event, witness);
                } else {
                    self.schedule_wakeup(now, library);
                }
            }
            Event::PlatterWritten { platter } => self.deliver_written(now, library, platter, witness),
            _ => {
                let concerns_controller = self.mechanics[index].due(now, &event, &mut self.answers);
                self.schedule_answers(library);
                if concerns_controller {
                    self.deliver(now, library, event, witness);
                }
            }
        }
    }

    /// Starts a request to the region.
    pub fn request(&mut self, now: Micros, request: RequestId, shards: &[Shard], deadline: Micros, witness: &mut impl Witness) {
        self.region.request(now, request, shards, deadline, &mut self.commands, &mut self.ended);
        self.follow_up(now, witness);
    }

    /// Makes an open request due sooner.
    pub fn hasten(&mut self, now: Micros, request: RequestId, deadline: Micros, witness: &mut impl Witness) {
        self.region.hasten(now, request, deadline, &mut self.commands, &mut self.ended);
        self.follow_up(now, witness);
    }

    /// Starts a request to the region to read a platter in full.
    pub fn verify(&mut self, now: Micros, request: RequestId, platter: RegionPlatter, witness: &mut impl Witness) {
        self.region.verify(now, request, platter, &mut self.commands, &mut self.ended);
        self.follow_up(now, witness);
    }

    /// Gives an event to a controller, and carries out what follows.
    pub fn deliver(&mut self, now: Micros, library: Library, event: Event, witness: &mut impl Witness) {
        witness.event(now, library, &event);
        self.region.step(now, library, event, &mut self.commands, &mut self.ended);
        witness.handled(now, library, &self.region);
        self.follow_up(now, witness);
    }

    /// A fault strikes a machine now. Has no effect on one that is already out of order.
    pub fn break_down(&mut self, now: Micros, library: Library, what: Breakdown, lasting: Lasting, detection: Detection) {
        self.mechanics[usize::from(library.0)].break_down(now, what, lasting, detection, &mut self.answers);
        self.schedule_answers(library);
    }

    /// Repairs a machine.
    ///
    /// # Errors
    /// [`NotRepaired`] unless a fault of it was detected.
    pub fn repair(&mut self, now: Micros, library: Library, actor: Actor, witness: &mut impl Witness) -> Result<(), NotRepaired> {
        self.mechanics[usize::from(library.0)].repair(now, actor, &mut self.answers)?;
        self.schedule_answers(library);
        self.deliver(now, library, Event::Repaired { actor }, witness);
        Ok(())
    }

    fn deliver_written(&mut self, now: Micros, library: Library, platter: Platter, witness: &mut impl Witness) {
        self.mechanics[usize::from(library.0)].put(platter, Berth::Port);
        self.deliver(now, library, Event::PlatterWritten { platter }, witness);
    }

    /// Passes commands to the machines, and reports requests that have ended.
    fn follow_up(&mut self, now: Micros, witness: &mut impl Witness) {
        for index in 0..self.commands.len() {
            let (library, command) = self.commands[index];
            witness.command(now, library, &command);
            if let Command::Do { id, action } = command {
                self.mechanics[usize::from(library.0)].begin(now, id, action, &mut self.answers);
                self.schedule_answers(library);
            }
        }
        self.commands.clear();
        for (request, outcome) in self.ended.drain(..) {
            witness.ended(now, request, outcome);
        }
        witness.settled(now, &self.region);
        // A request with several shards, or a recovered read, may have changed several libraries.
        for index in 0..self.region.changed().len() {
            let library = self.region.changed()[index];
            self.schedule_wakeup(now, library);
        }
    }

    fn schedule_answers(&mut self, library: Library) {
        for (at, event) in self.answers.drain(..) {
            self.queue.push(at, Due { library, event });
        }
    }

    /// Schedules a wake-up if the controller needs one earlier than planned.
    fn schedule_wakeup(&mut self, now: Micros, library: Library) {
        let index = usize::from(library.0);
        if let Some(deadline) = self.region.controllers()[index].deadline() {
            let deadline = deadline.max(now + Micros(1));
            if deadline < self.wakeups[index] {
                self.wakeups[index] = deadline;
                self.queue.push(deadline, Due { library, event: Event::Woken });
            }
        }
    }
}
