//! A region of a hundred libraries takes memory for its platters and for what is under way, and none for files.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use fulgurite_domain::Micros;
use fulgurite_twin::scenario::Scenario;
use fulgurite_twin::simulation::run;

struct Counting;

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator as it came; the cells have no destructor and allocate nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.set(HELD.get().wrapping_add(layout.size()));
        MOST.set(MOST.get().max(HELD.get()));
        // SAFETY: the caller's promises are those that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.set(HELD.get().saturating_sub(layout.size()));
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes held at once while a hundred libraries run for two minutes, by files of such a size.
fn peak(tracks: u32, mean_bytes: u64) -> usize {
    let mut scenario = Scenario { libraries: 100, platters: 0, tracks, ..Scenario::default() };
    scenario.run.warm_up = Micros(30_000_000);
    scenario.run.measured = Micros(90_000_000);
    scenario.workload.bursts.count = 0;
    scenario.workload.rate = 37.0;
    scenario.workload.steady.mean_bytes = mean_bytes;
    scenario.workload.steady.largest_bytes = 1_000_000_000;
    HELD.set(0);
    MOST.set(0);
    let run = run(&scenario, 1).unwrap_or_else(|error| panic!("{error}"));
    assert!(run.requests > 3_000);
    MOST.get()
}

#[test]
fn a_hundred_libraries_take_as_much_for_ten_billion_files_as_for_ten_million() {
    // 590,000 information platters of 100,000 tracks hold 6 x 10^11 files of 2 MB; those of 100 tracks a thousandth of it.
    let (few, many) = (peak(100, 2_000_000), peak(100_000, 2_000_000));
    assert!(many < few + few / 20, "{few} bytes for few files, {many} for many");
    // Some 700,000 platters, each with its place in the region, in its controller, in its machines and in its line.
    assert!(many < 400 << 20, "{many} bytes");
}
