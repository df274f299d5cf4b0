//! How much of a core a live library takes at a hundred times real time, and how much a forecast:
//! `cargo bench -p fulgurite-live`. An early library, 20 shuttles and 20 drives, with 7,000
//! platters; drives get their bytes within a tenth of a second. Five times a second of real time,
//! what moved becomes an event for pages; the last columns are what that alone takes, and the size
//! of the events.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a bench measures time")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use fulgurite_chance::Stream;
use fulgurite_domain::{Micros, SetShape};
use fulgurite_journal::{Fact, Stock};
use fulgurite_library::{RegionPlatter, RequestId, Shard, Tracks};
use fulgurite_library_settings::LibrarySettings;
use fulgurite_live::{Ended, LiveLibrary, Outside, Plan, Read, forecast};

const SHAPE: SetShape = SetShape { information: 16, redundancy: 3 };
const SETS: u32 = 368;
const HOURS: u64 = 6;
/// A fifth of a second at a hundred times real time.
const REPORT_EVERY: Micros = Micros(20_000_000);

#[derive(Default)]
struct Outputs {
    facts: u64,
    reads: Vec<Read>,
    ended: u64,
}

impl Outside for Outputs {
    fn read(&mut self, read: Read) {
        self.reads.push(read);
    }
    fn ended(&mut self, _: Ended) {
        self.ended += 1;
    }
    fn fact(&mut self, _: Fact) {
        self.facts += 1;
    }
}

fn main() {
    let plan = Plan::new(LibrarySettings::default(), SHAPE, 100_000, 20_000_000).expect("sets fit");
    let plan = Arc::new(plan);
    println!(
        "{:>12} {:>10} {:>10} {:>8} {:>14} {:>14} {:>12} {:>14} {:>8}",
        "requests/s", "facts", "ended", "open", "core at x100", "forecast, ms", "step, us", "events at x100", "KB/s"
    );
    for per_second in [0.0, 0.2, 1.0, 3.0] {
        run(&plan, per_second);
    }
}

fn run(plan: &Arc<Plan>, per_second: f64) {
    let (mut chance, mut outputs) = (Stream::new(1, "requests"), Outputs::default());
    let stock = Stock { written: SETS * u32::from(SHAPE.platters()), ..Stock::default() };
    let start = Instant::now();
    let mut library = LiveLibrary::start(plan.clone(), &stock, 1, &mut outputs);
    let (end, mut number, mut longest) = (Micros(HOURS * Micros::HOUR.0), 0, 0);
    let (mut reported, mut reporting, mut bytes) = (Micros::ZERO, Duration::ZERO, 0);
    while library.now() < end {
        let until = if per_second > 0.0 { library.now() + Micros::from_seconds(chance.exponential(1.0 / per_second)) } else { end };
        // Bytes come within a tenth of a second.
        while library.now() < until.min(end) {
            let step = Instant::now();
            library.advance(until.min(end).min(library.now() + Micros(100_000)), usize::MAX, &mut outputs);
            std::mem::take(&mut outputs.reads).into_iter().for_each(|read| library.bytes_read(read.command, &mut outputs));
            longest = longest.max(step.elapsed().as_micros());
            if library.now().since(reported) >= REPORT_EVERY {
                let begin = Instant::now();
                bytes += library.take_motions().json().to_string().len();
                (reported, reporting) = (library.now(), reporting + begin.elapsed());
            }
        }
        if per_second > 0.0 {
            let platter = RegionPlatter(chance.below(SETS.into()) as u32 * 19 + chance.below(16) as u32);
            let tracks = Tracks { first: chance.below(100_000) as u32, count: 1 };
            library.request(RequestId(number), vec![Shard { platter, tracks }], Micros::NEVER, &mut outputs);
            number += 1;
        }
    }
    let of_core = |time: Duration| time.as_secs_f64() / (HOURS * 3_600) as f64 * 100.0 * 100.0;
    let (share, reporting) = (of_core(start.elapsed() - reporting), of_core(reporting));
    let kb_per_s = bytes as f64 / 1e3 / ((HOURS * 3_600) as f64 / 100.0);
    let view = library.view(stock.written);
    let start = Instant::now();
    let expected = forecast(&view, 10_000_000);
    let forecast_ms = start.elapsed().as_secs_f64() * 1e3;
    assert_eq!(expected.len(), library.open_requests());
    let (facts, ended, open) = (outputs.facts, outputs.ended, library.open_requests());
    print!("{per_second:>12} {facts:>10} {ended:>10} {open:>8} {share:>13.2}% {forecast_ms:>14.1} {longest:>12}");
    println!(" {reporting:>13.2}% {kb_per_s:>8.1}");
}
