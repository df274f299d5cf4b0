//! dev version
use crate::kernel::Queue;
use fulgurite_domain::Micros;
use fulgurite_library::*;
use fulgurite_mechanics::{Mechanics, MotionLog};

/// A request for a file.
pub struct Arrival {
    /// when
    pub at: Micros,
    /// what
    pub shards: Vec<Shard>,
}

/// x
pub struct Simulation<L: MotionLog> {
    /// r
    pub region: Region,
    /// m
    pub mechanics: Vec<Mechanics<L>>,
    queue: Queue<(Library, Event)>,
    /// ev
    pub events: u64,
    now: Micros,
    commands: Vec<(Library, Command)>,
    answers: Vec<(Micros, Event)>,
    ended: Vec<(RequestId, RegionOutcome)>,
    arrivals: Vec<Micros>,
    wake: Micros,
    /// done
    pub completions: Vec<(Micros, Micros, RegionOutcome)>,
}

impl<L: MotionLog> Simulation<L> {
    /// n
    pub fn new(region: Region, mut mechanics: Vec<Mechanics<L>>) -> Self {
        for (index, (controller, machines)) in region.controllers().iter().zip(&mut mechanics).enumerate() {
            let _ = index;
            let panel = controller.panel();
            for platter in (0..panel.platter_count()).map(Platter) {
                if let Whereabouts::Berth(berth) = panel.whereabouts(platter) {
                    machines.put(platter, berth);
                }
            }
            for shuttle in (0..panel.layout().shuttles).map(Shuttle) {
                machines.stand(shuttle, panel.position(shuttle));
            }
        }
        Self {
            region,
            mechanics,
            queue: Queue::new(),
            events: 0,
            now: Micros::ZERO,
            commands: vec![],
            answers: vec![],
            ended: vec![],
            arrivals: vec![],
            wake: Micros::ZERO,
            completions: vec![],
        }
    }
    /// run until all ended
    pub fn run(&mut self, demand: impl Iterator<Item = Arrival>, until: Micros) {
        for index in 0..self.mechanics.len() {
            let library = Library(index as u16);
            self.mechanics[index].start(&mut self.answers);
            for (at, event) in self.answers.drain(..) {
                self.queue.push(at, (library, event));
            }
            self.queue.push(Micros::ZERO, (library, Event::Woken));
        }
        let mut demand = demand.peekable();
        loop {
            let take_arrival = match (self.queue.next_at(), demand.peek()) {
                (Some(t), Some(a)) => a.at <= t,
                (None, Some(_)) => true,
                (_, None) => false,
            };
            self.events += 1;
            if take_arrival {
                let a = demand.next().unwrap();
                self.now = a.at;
                let id = RequestId(self.arrivals.len() as u64);
                self.arrivals.push(a.at);
                self.region.request(a.at, id, &a.shards, Micros::NEVER, &mut self.commands, &mut self.ended);
            } else {
                let Some((at, (library, event))) = self.queue.pop() else { break };
                if at > until {
                    break;
                }
                if demand.peek().is_none() && self.completions.len() == self.arrivals.len() {
                    break;
                }
                self.now = at;
                let told = self.mechanics[usize::from(library.0)].due(at, &event, &mut self.answers);
                for (t, e) in self.answers.drain(..) {
                    self.queue.push(t, (library, e));
                }
                if told {
                    self.region.step(at, library, event, &mut self.commands, &mut self.ended);
                }
            }
            self.carry_out();
        }
    }
    /// n
    pub fn arrived(&self) -> usize {
        self.arrivals.len()
    }
    fn carry_out(&mut self) {
        for (library, command) in self.commands.drain(..) {
            if let Command::Do { id, action } = command {
                self.mechanics[usize::from(library.0)].begin(self.now, id, action, &mut self.answers);
                for (t, e) in self.answers.drain(..) {
                    self.queue.push(t, (library, e));
                }
            }
        }
        for (index, controller) in self.region.controllers().iter().enumerate() {
            if let Some(d) = controller.deadline() {
                if self.wake <= self.now {
                    self.wake = d;
                    self.queue.push(d, (Library(index as u16), Event::Woken));
                }
            }
        }
        for (id, outcome) in self.ended.drain(..) {
            self.completions.push((self.arrivals[id.0 as usize], self.now, outcome));
        }
    }
}
