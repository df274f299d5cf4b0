//! The memory of a region of a hundred libraries depends on its platters and on the requests in
//! progress, not on the number of files.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use fulgurite_domain::Micros;
use fulgurite_twin::scenario::Scenario;
use fulgurite_twin::simulation::run;

struct Counting;

thread_local! {
    static HELD_BYTES: Cell<usize> = const { Cell::new(0) };
    static PEAK_BYTES: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is forwarded unchanged to the system allocator; the cells have no destructor
// and allocate nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD_BYTES.set(HELD_BYTES.get().wrapping_add(layout.size()));
        PEAK_BYTES.set(PEAK_BYTES.get().max(HELD_BYTES.get()));
        // SAFETY: the caller upholds the same contract that the system allocator requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD_BYTES.set(HELD_BYTES.get().saturating_sub(layout.size()));
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Peak bytes allocated while a hundred libraries run for two minutes with files of this mean size.
fn peak(tracks: u32, mean_bytes: u64) -> usize {
    let mut scenario = Scenario { libraries: 100, platters: 7_000, tracks, ..Scenario::default() };
    scenario.run.warm_up = Micros(30_000_000);
    scenario.run.measured = Micros(90_000_000);
    scenario.workload.bursts.count = 0;
    scenario.workload.rate = 37.0;
    scenario.workload.steady.mean_bytes = mean_bytes;
    scenario.workload.steady.largest_bytes = 1_000_000_000;
    HELD_BYTES.set(0);
    PEAK_BYTES.set(0);
    let run = run(&scenario, 1).unwrap_or_else(|error| panic!("{error}"));
    assert!(run.requests > 3_000);
    PEAK_BYTES.get()
}

#[test]
fn memory_of_a_hundred_libraries_does_not_depend_on_the_number_of_files() {
    // 590,000 information platters of 100,000 tracks hold 6 x 10^11 files of 2 MB; platters of 100
    // tracks hold a thousandth of that.
    let (few, many) = (peak(100, 2_000_000), peak(100_000, 2_000_000));
    assert!(many < few + few / 20, "{few} bytes for few files, {many} for many");
    // About 700,000 platters, each recorded in the region, its controller, its machines and its
    // queue.
    assert!(many < 400 << 20, "{many} bytes");
}
