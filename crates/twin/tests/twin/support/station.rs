//! Stations of queueing theory on the bare [`EventQueue`]. Their exact results are known, so they
//! validate the event queue, the random draws and the statistics before a library of shuttles and
//! drives does.
//!
//! ```text
//!   class 0 --Poisson--> [ | | | ] \            / server 0 \
//!                                   >--> first -             -> Visit { arrived, begun, ended }
//!   class 1 --Poisson--> [ | | | ] /   of the   \ server c /
//!                                      most urgent class; it interrupts what is less urgent, which goes on later
//! ```

#![allow(dead_code, reason = "the benchmark uses a part of it")]

use std::collections::VecDeque;

use fulgurite_chance::Stream;
use fulgurite_domain::Micros;
use fulgurite_mechanics::EventQueue;

/// Distribution of service times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ServiceTime {
    /// Exponential with this mean, in seconds.
    Exponential(f64),
    /// Constant, in seconds.
    Fixed(f64),
}

/// A class of customers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Class {
    /// Mean arrivals per second; arrivals are a Poisson process.
    pub(crate) arrivals_s: f64,
    /// Distribution of service times.
    pub(crate) service: ServiceTime,
}

/// Identical servers with one queue in order of arrival for each class. Classes are in order of
/// priority: the first is served first and interrupts the others (preemptive resume).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Station {
    /// Number of servers.
    pub(crate) servers: u32,
    /// The classes, the highest priority first.
    pub(crate) classes: Vec<Class>,
}

/// One customer's stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Visit {
    /// Class, counted from 0.
    pub(crate) class: usize,
    /// Arrival time.
    pub(crate) arrived: Micros,
    /// Start of the service.
    pub(crate) begun: Micros,
    /// Departure time.
    pub(crate) ended: Micros,
}

/// Totals of a run.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Totals {
    /// End of the run.
    pub(crate) end: Micros,
    /// Number of customers that left.
    pub(crate) departed: u64,
    /// Number of customers in the station, integrated over time: the mean times `end`.
    pub(crate) customer_seconds: f64,
    /// Number of busy servers, integrated over time.
    pub(crate) busy_seconds: f64,
    /// Seconds during which a server was idle while a customer waited. Always 0 in a correct
    /// station.
    pub(crate) wasted_seconds: f64,
    /// Number of events processed.
    pub(crate) events: u64,
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
    remaining: Micros,
}

#[derive(Debug, Clone, Copy)]
struct Server {
    customer: Option<Customer>,
    since: Micros,
    /// Incremented for each service, so that the end of an interrupted service is recognized as
    /// void.
    service: u32,
}

struct Run<'a> {
    station: &'a Station,
    queue: EventQueue<Event>,
    arrivals: Vec<Stream>,
    services: Vec<Stream>,
    servers: Vec<Server>,
    idle: Vec<u32>,
    waiting: Vec<VecDeque<Customer>>,
    waiting_count: usize,
}

impl Station {
    /// A single class: M/M/c or M/D/c.
    #[must_use]
    pub(crate) fn single(servers: u32, arrivals_s: f64, service: ServiceTime) -> Self {
        Self { servers, classes: vec![Class { arrivals_s, service }] }
    }

    /// Runs from an empty station until this many customers have left, and calls `visit` for each
    /// as it leaves.
    pub(crate) fn run(&self, seed: u64, customers: u64, mut visit: impl FnMut(Visit)) -> Totals {
        let stream =
            |purpose: &'static str| (0..self.classes.len() as u32).map(move |class| Stream::numbered(seed, purpose, class)).collect();
        let mut run = Run {
            station: self,
            queue: EventQueue::new(),
            arrivals: stream("station arrivals"),
            services: stream("station services"),
            servers: vec![Server { customer: None, since: Micros::ZERO, service: 0 }; self.servers as usize],
            idle: (0..self.servers).rev().collect(),
            waiting: vec![VecDeque::new(); self.classes.len()],
            waiting_count: 0,
        };
        for class in 0..self.classes.len() {
            run.schedule_arrival(Micros::ZERO, class);
        }
        let mut totals = Totals::default();
        while totals.departed < customers {
            let (now, event) = run.queue.pop().expect("the next arrival is always scheduled");
            run.accumulate(&mut totals, now);
            match event {
                Event::Arrives { class } => run.arrives(now, class as usize),
                Event::Leaves { server, service } => {
                    if let Some(stay) = run.leaves(now, server, service) {
                        totals.departed += 1;
                        visit(stay);
                    }
                }
            }
        }
        totals
    }
}

impl Run<'_> {
    fn accumulate(&self, totals: &mut Totals, now: Micros) {
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

    fn schedule_arrival(&mut self, now: Micros, class: usize) {
        let gap_s = self.arrivals[class].exponential(1.0 / self.station.classes[class].arrivals_s);
        self.queue.push(now + Micros::from_seconds(gap_s), Event::Arrives { class: class as u32 });
    }

    fn arrives(&mut self, now: Micros, class: usize) {
        self.schedule_arrival(now, class);
        let remaining = self.station.classes[class].service.draw(&mut self.services[class]);
        let customer = Customer { class, arrived: now, begun: None, remaining };
        if let Some(server) = self.idle.pop() {
            self.serve(now, server, customer);
        } else if let Some(server) = self.least_urgent(class) {
            let place = &mut self.servers[server as usize];
            let mut interrupted = place.customer.take().expect("it is busy");
            interrupted.remaining = interrupted.remaining - (now - place.since);
            // It preceded all others of its class, so it returns to the front.
            self.waiting[interrupted.class].push_front(interrupted);
            self.waiting_count += 1;
            self.serve(now, server, customer);
        } else {
            self.waiting[class].push_back(customer);
            self.waiting_count += 1;
        }
    }

    /// The server with the lowest-priority customer, if that priority is lower than that of
    /// `class`.
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
        self.queue.push(now + customer.remaining, Event::Leaves { server, service: place.service });
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

/// One server that cycles through a ring of queues, like a shuttle through the places it serves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Polling {
    /// Number of queues.
    pub(crate) queues: usize,
    /// Arrivals per second at each queue.
    pub(crate) arrivals_s: f64,
    /// Distribution of service times.
    pub(crate) service: ServiceTime,
    /// Constant time to switch to the next queue, in seconds.
    pub(crate) switch_s: f64,
    /// Which customers are served per visit.
    pub(crate) discipline: Discipline,
}

/// Which customers are served per visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Discipline {
    /// All, including those that arrive during the visit.
    Exhaustive,
    /// Those present when the server arrives.
    Gated,
}

#[derive(Debug, Clone, Copy)]
enum PollingEvent {
    Arrives { queue: u32 },
    ServerArrives { queue: u32 },
    Served { queue: u32 },
}

impl Polling {
    /// Runs from empty queues until this many customers have left, and calls `visit` for each as it
    /// leaves, with its queue as its class.
    pub(crate) fn run(&self, seed: u64, customers: u64, mut visit: impl FnMut(Visit)) {
        let mut arrivals: Vec<Stream> = (0..self.queues as u32).map(|queue| Stream::numbered(seed, "polling arrivals", queue)).collect();
        let mut services = Stream::new(seed, "polling services");
        let mut waiting = vec![VecDeque::new(); self.queues];
        let mut events = EventQueue::new();
        let gap = |chance: &mut Stream| Micros::from_seconds(chance.exponential(1.0 / self.arrivals_s));
        for (queue, chance) in arrivals.iter_mut().enumerate() {
            events.push(gap(chance), PollingEvent::Arrives { queue: queue as u32 });
        }
        events.push(Micros::ZERO, PollingEvent::ServerArrives { queue: 0 });
        // Number of customers still to serve in this visit, and the start of the current service.
        let (mut admitted, mut begun, mut departed) = (0_usize, Micros::ZERO, 0);
        while departed < customers {
            let (now, event) = events.pop().expect("the next arrival is always scheduled");
            let queue = match event {
                PollingEvent::Arrives { queue } => {
                    waiting[queue as usize].push_back(now);
                    events.push(now + gap(&mut arrivals[queue as usize]), event);
                    continue;
                }
                PollingEvent::ServerArrives { queue } => {
                    admitted = waiting[queue as usize].len();
                    queue
                }
                PollingEvent::Served { queue } => {
                    let arrived = waiting[queue as usize].pop_front().expect("it was served");
                    visit(Visit { class: queue as usize, arrived, begun, ended: now });
                    departed += 1;
                    admitted = match self.discipline {
                        Discipline::Exhaustive => waiting[queue as usize].len(),
                        Discipline::Gated => admitted - 1,
                    };
                    queue
                }
            };
            if admitted > 0 {
                begun = now;
                events.push(now + self.service.draw(&mut services), PollingEvent::Served { queue });
            } else {
                let next = (queue + 1) % self.queues as u32;
                events.push(now + Micros::from_seconds(self.switch_s), PollingEvent::ServerArrives { queue: next });
            }
        }
    }
}
