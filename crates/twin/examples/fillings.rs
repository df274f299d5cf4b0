//! Prints the tables of `docs/placement.md`: the number of complete sets in libraries of increasing
//! size, and the time to place one set.
//!
//! `cargo run --release -p fulgurite-twin --example fillings`

use std::time::Instant;

use fulgurite_library::Layout;
use fulgurite_library::placement::{Spread, Zones, fill};
use fulgurite_twin::placement_program::{largest_set, most_sets};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let zones = Zones::default();
    println!("| platters | racks | most of a set | sets | at most | slots used | time a set |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for (members, racks) in [(15, 6..=8), (19, 7..=10), (27, 10..=13)] {
        for storage_racks in racks {
            let layout = Layout { storage_racks, ..Layout::default() };
            let most = largest_set(storage_racks, layout.shelves, &zones)?.len();
            let start = Instant::now();
            let filling = fill(&layout, &zones, members)?;
            let took = start.elapsed() / filling.sets.len().max(1) as u32;
            let (sets, bound) = (filling.sets.len(), most_sets(&layout, &zones, members)?);
            let share = 100.0 * f64::from(filling.used) / f64::from(layout.slot_count());
            println!("| {members} | {storage_racks} | {most} | {sets} | {bound} | {share:.1} % | {} µs |", took.as_micros());
        }
    }
    println!();
    println!("| libraries of 7 racks | sets of 19 | slots used | most of a set in one |");
    println!("| --- | --- | --- | --- |");
    for libraries in [1, 2, 3, 7, 19, 100] {
        let layout = Layout::default();
        let spread = Spread::new(&layout, &zones, libraries, 19)?;
        let share = 100.0 * f64::from(spread.platters_per_library()) / f64::from(layout.slot_count());
        println!("| {libraries} | {} | {share:.1} % | {} |", spread.sets(), spread.most_together());
    }
    Ok(())
}
