//! Forecasts when requests will end: the same controllers run ahead with emulated machines.

use std::collections::BTreeMap;

use fulgurite_domain::Micros;
use fulgurite_library::{Event, RegionOutcome, RequestId};
use fulgurite_mechanics::{Lasting, Witness};

use crate::View;
use crate::plan::{LIBRARY, breakdown};

/// Seed of the machines of a forecast; any will do.
const SEED: u64 = 0;

/// When each open request will end, as time from the view's instant on. Requests that don't end
/// within `events` events, or find no way to their bytes, are left out.
///
/// What is under way at the view's instant begins anew, so a forecast is late by a few seconds. It
/// assumes that nothing else is requested and that machines which are out of order stay so.
#[must_use]
pub fn forecast(view: &View, events: usize) -> BTreeMap<RequestId, Micros> {
    let mut libraries = view.plan.libraries(
        &view.stock,
        SEED,
        |_| (),
        |settings| {
            settings.faults.planned.clear();
            (settings.faults.shuttle_hours, settings.faults.drive_hours) = (f64::INFINITY, f64::INFINITY);
        },
    );
    let mut ends = Ends::default();
    libraries.start_machines();
    for actor in view.stock.down.iter().chain(&view.stock.failed) {
        libraries.start_out_of_order(LIBRARY, breakdown(*actor), Lasting::UntilRepaired, &mut ends);
    }
    libraries.deliver(Micros::ZERO, LIBRARY, Event::Woken, &mut ends);
    let mut open = 0;
    for request in &view.requests {
        if request.shards.is_empty() {
            // All shards were read: its end is at hand.
            ends.0.insert(request.request, Micros::ZERO);
            continue;
        }
        open += 1;
        libraries.request(Micros::ZERO, request.request, &request.shards, request.deadline, &mut ends);
    }
    let already = ends.0.len();
    for _ in 0..events {
        if ends.0.len() >= already + open {
            break;
        }
        let Some((at, due)) = libraries.pop_until(Micros(u64::MAX - 1)) else { break };
        libraries.handle(at, due, &mut ends);
    }
    ends.0.retain(|_, end| *end != Micros::NEVER);
    ends.0
}

#[derive(Default)]
struct Ends(BTreeMap<RequestId, Micros>);

impl Witness for Ends {
    fn ended(&mut self, now: Micros, request: RequestId, outcome: RegionOutcome) {
        let is_read = matches!(outcome, RegionOutcome::Read | RegionOutcome::Recovered);
        self.0.insert(request, if is_read { now } else { Micros::NEVER });
    }
}
