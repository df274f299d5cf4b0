//! Stations of queueing theory on the bare [`Queue`], for which the answers are known: what the kernel, the draws of chance and the
//! statistics are held against, before a library of shuttles and drives is.
//!
//! ```text
//!   class 0 --Poisson--> [ | | | ] \            / server 0 \
//!                                   >--> first -             -> Visit { arrived, begun, ended }
//!   class 1 --Poisson--> [ | | | ] /   of the   \ server c /
//!                                      most urgent class; it interrupts what is less urgent, which goes on later
//! ```

use std::collections::VecDeque;

use fulgurite_chance::Stream;
use fulgurite_domain::Micros;

use crate::kernel::Queue;

/// How long a customer is served.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ServiceTime {
    /// Exponential with this mean, in seconds.
    Exponential(f64),
    /// Always this many seconds.
    Fixed(f64),
}

/// Customers of a kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Class {
    /// How many arrive a second, on average; their arrivals are a Poisson process.
    pub arrivals_s: f64,
    /// How long each is served.
    pub service: ServiceTime,
}

/// Identical servers before which customers wait in order of arrival, and the classes in order of urgency: the first is served first, and
/// interrupts the others (preemptive resume).
#[derive(Debug, Clone, PartialEq)]
pub struct Station {
    /// How many servers.
    pub servers: u32,
    /// Who comes, the most urgent first.
    pub classes: Vec<Class>,
}

/// One customer's stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visit {
    /// Class, counted from 0.
    pub class: usize,
    /// When the customer came.
    pub arrived: Micros,
    /// When it was first served.
    pub begun: Micros,
    /// When it left.
    pub ended: Micros,
}

/// What a run adds up to.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Totals {
    /// When the run ended.
    pub end: Micros,
    /// Customers that left.
    pub left: u64,
    /// The number of customers in the station, summed over time: its mean times `end`.
    pub customer_seconds: f64,
    /// The number of busy servers, summed over time.
    pub busy_seconds: f64,
    /// The number of seconds in which a server was idle while somebody waited. 0: no station does that.
    pub wasted_seconds: f64,
    /// Events dealt with.
    pub events: u64,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Arrives { class: u32 },
    Leaves { server: u32, service: u32 },
}

#[derive(Debug, Clone, Copy)]
struct Customer {
    class: usize,
    arrived: Micros,
    begun: Option<Micros>,
    left: Micros,
}

#[derive(Debug, Clone, Copy)]
struct Server {
    customer: Option<Customer>,
    since: Micros,
    /// Counts up, so that the end of an interrupted service is known to be void.
    service: u32,
}

struct Run<'a> {
    station: &'a Station,
    queue: Queue<Event>,
    arrivals: Vec<Stream>,
    services: Vec<Stream>,
    servers: Vec<Server>,
    idle: Vec<u32>,
    waiting: Vec<VecDeque<Customer>>,
    waiting_count: usize,
}

impl Station {
    /// One class in front of some servers: M/M/c or M/D/c.
    #[must_use]
    pub fn single(servers: u32, arrivals_s: f64, service: ServiceTime) -> Self {
        Self { servers, classes: vec![Class { arrivals_s, service }] }
    }

    /// Runs until this many customers have left, from an empty station; `visit` is told of each as it leaves.
    pub fn run(&self, seed: u64, customers: u64, mut visit: impl FnMut(Visit)) -> Totals {
        let stream =
            |purpose: &'static str| (0..self.classes.len() as u32).map(move |class| Stream::numbered(seed, purpose, class)).collect();
        let mut run = Run {
            station: self,
            queue: Queue::new(),
            arrivals: stream("station arrivals"),
            services: stream("station services"),
            servers: vec![Server { customer: None, since: Micros::ZERO, service: 0 }; self.servers as usize],
            idle: (0..self.servers).rev().collect(),
            waiting: vec![VecDeque::new(); self.classes.len()],
            waiting_count: 0,
        };
        for class in 0..self.classes.len() {
            run.expect(Micros::ZERO, class);
        }
        let mut totals = Totals::default();
        while totals.left < customers {
            let (now, event) = run.queue.pop().expect("somebody is always about to arrive");
            run.add_up(&mut totals, now);
            match event {
                Event::Arrives { class } => run.arrives(now, class as usize),
                Event::Leaves { server, service } => {
                    if let Some(stay) = run.leaves(now, server, service) {
                        totals.left += 1;
                        visit(stay);
                    }
                }
            }
        }
        totals
    }
}

impl Run<'_> {
    fn add_up(&self, totals: &mut Totals, now: Micros) {
        let (passed, idle) = ((now - totals.end).seconds(), self.idle.len());
        let busy = self.servers.len() - idle;
        totals.end = now;
        totals.events += 1;
        totals.busy_seconds += busy as f64 * passed;
        totals.customer_seconds += (busy + self.waiting_count) as f64 * passed;
        if idle > 0 && self.waiting_count > 0 {
            totals.wasted_seconds += passed;
        }
    }

    fn expect(&mut self, now: Micros, class: usize) {
        let gap_s = self.arrivals[class].exponential(1.0 / self.station.classes[class].arrivals_s);
        self.queue.push(now + Micros::from_seconds(gap_s), Event::Arrives { class: class as u32 });
    }

    fn arrives(&mut self, now: Micros, class: usize) {
        self.expect(now, class);
        let left = self.station.classes[class].service.draw(&mut self.services[class]);
        let customer = Customer { class, arrived: now, begun: None, left };
        if let Some(server) = self.idle.pop() {
            self.serve(now, server, customer);
        } else if let Some(server) = self.least_urgent(class) {
            let place = &mut self.servers[server as usize];
            let mut interrupted = place.customer.take().expect("it is busy");
            interrupted.left = interrupted.left - (now - place.since);
            // It was before all others of its class, and is again.
            self.waiting[interrupted.class].push_front(interrupted);
            self.waiting_count += 1;
            self.serve(now, server, customer);
        } else {
            self.waiting[class].push_back(customer);
            self.waiting_count += 1;
        }
    }

    /// The server with the least urgent customer, if that is less urgent than this class.
    fn least_urgent(&self, class: usize) -> Option<u32> {
        if class + 1 == self.waiting.len() {
            return None;
        }
        let classes = self.servers.iter().enumerate().filter_map(|(server, place)| Some((place.customer?.class, server as u32)));
        classes.max().filter(|&(least, _)| least > class).map(|(_, server)| server)
    }

    fn serve(&mut self, now: Micros, server: u32, mut customer: Customer) {
        customer.begun.get_or_insert(now);
        let place = &mut self.servers[server as usize];
        place.service = place.service.wrapping_add(1);
        place.since = now;
        place.customer = Some(customer);
        self.queue.push(now + customer.left, Event::Leaves { server, service: place.service });
    }

    fn leaves(&mut self, now: Micros, server: u32, service: u32) -> Option<Visit> {
        let place = &mut self.servers[server as usize];
        if place.service != service {
            return None;
        }
        let customer = place.customer.take()?;
        if let Some(next) = self.waiting.iter_mut().find_map(VecDeque::pop_front) {
            self.waiting_count -= 1;
            self.serve(now, server, next);
        } else {
            self.idle.push(server);
        }
        let begun = customer.begun.expect("it was served");
        Some(Visit { class: customer.class, arrived: customer.arrived, begun, ended: now })
    }
}

impl ServiceTime {
    fn draw(self, chance: &mut Stream) -> Micros {
        Micros::from_seconds(match self {
            Self::Exponential(mean_s) => chance.exponential(mean_s),
            Self::Fixed(seconds) => seconds,
        })
    }
}

/// One server that goes round a ring of queues, as a shuttle goes round what it serves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Polling {
    /// How many queues.
    pub queues: usize,
    /// Arrivals a second at each.
    pub arrivals_s: f64,
    /// How long each customer is served.
    pub service: ServiceTime,
    /// From each queue to the next, always this many seconds.
    pub switch_s: f64,
    /// Who is served on a visit.
    pub discipline: Discipline,
}

/// Who is served when a queue is visited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discipline {
    /// All, those too that arrive meanwhile.
    Exhaustive,
    /// Those that are there when the server comes.
    Gated,
}

#[derive(Debug, Clone, Copy)]
enum Round {
    Arrives { queue: u32 },
    Comes { queue: u32 },
    Served { queue: u32 },
}

impl Polling {
    /// Runs until this many customers have left, from empty queues; `visit` is told of each as it leaves, with its queue as its class.
    pub fn run(&self, seed: u64, customers: u64, mut visit: impl FnMut(Visit)) {
        let mut arrivals: Vec<Stream> = (0..self.queues as u32).map(|queue| Stream::numbered(seed, "polling arrivals", queue)).collect();
        let mut services = Stream::new(seed, "polling services");
        let mut waiting = vec![VecDeque::new(); self.queues];
        let mut events = Queue::new();
        let gap = |chance: &mut Stream| Micros::from_seconds(chance.exponential(1.0 / self.arrivals_s));
        for (queue, chance) in arrivals.iter_mut().enumerate() {
            events.push(gap(chance), Round::Arrives { queue: queue as u32 });
        }
        events.push(Micros::ZERO, Round::Comes { queue: 0 });
        // How many more are served on this visit, and since when the first of them is.
        let (mut admitted, mut begun, mut left) = (0_usize, Micros::ZERO, 0);
        while left < customers {
            let (now, event) = events.pop().expect("somebody is always about to arrive");
            let queue = match event {
                Round::Arrives { queue } => {
                    waiting[queue as usize].push_back(now);
                    events.push(now + gap(&mut arrivals[queue as usize]), event);
                    continue;
                }
                Round::Comes { queue } => {
                    admitted = waiting[queue as usize].len();
                    queue
                }
                Round::Served { queue } => {
                    let arrived = waiting[queue as usize].pop_front().expect("it was served");
                    visit(Visit { class: queue as usize, arrived, begun, ended: now });
                    left += 1;
                    admitted = match self.discipline {
                        Discipline::Exhaustive => waiting[queue as usize].len(),
                        Discipline::Gated => admitted - 1,
                    };
                    queue
                }
            };
            if admitted > 0 {
                begun = now;
                events.push(now + self.service.draw(&mut services), Round::Served { queue });
            } else {
                let next = (queue + 1) % self.queues as u32;
                events.push(now + Micros::from_seconds(self.switch_s), Round::Comes { queue: next });
            }
        }
    }
}
