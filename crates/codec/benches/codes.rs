//! Information bytes coded per second of CPU time, compared with other implementations in the same
//! run.
//!
//! `cargo bench -p fulgurite-codec --bench codes [-- [--quick] [CASE]]` prints one table per case
//! whose name contains `CASE`. Each figure is the median over rounds; every competitor runs once in
//! each round, so all see the same machine load. GB/s are 10^9 bytes of information per second of
//! CPU time of the thread (or of the peer's process). Pools have about 100 MB unless a case says
//! otherwise, so that sources come from memory or a shared cache.
//!
//! Peers outside Cargo run if their tools are installed: klauspost/reedsolomon (Go) and ISA-L (a C
//! compiler and libisal).

use std::hint::black_box;

use fulgurite_codec::{CauchyCode, Kernel, PooledCode, PooledEncoder};

#[path = "codes/bench.rs"]
mod bench;
#[path = "codes/ldpc.rs"]
mod ldpc;
#[path = "codes/peers.rs"]
mod peers;

use bench::{Bench, Competitor, Pool, lost_positions, slices, slices_mut};

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let quick = arguments.iter().any(|argument| argument == "--quick");
    arguments.retain(|argument| !argument.starts_with("--"));
    let bench = Bench { quick, filter: arguments.pop().unwrap_or_default() };
    println!("kernels: {:?}; quick: {quick}", Kernel::available());

    bounds(&bench);
    for (information, redundancy) in [(200, 16), (100, 8)] {
        cauchy_encode(&bench, "track", information, redundancy, 64 * 1024, 110_000_000);
    }
    for lost in [1, 4, 8] {
        cauchy_repair(&bench, "track", 200, 16, lost);
    }
    cauchy_encode(&bench, "set column", 16, 3, 64 * 1024, 80_000_000);
    cauchy_encode(&bench, "set column in L2", 16, 3, 32 * 1024, 1);
    let shard_bytes = if quick { 4096 } else { 32 * 1024 };
    pooled_encode(&bench, "large group", 20_000, 2000, shard_bytes);
    pooled_encode(&bench, "large group", 48_000, 1200, shard_bytes);
    for (lost, burst) in [(1, false), (20, false), (200, false), (200, true), (1000, false), (2000, false)] {
        pooled_repair(&bench, 20_000, 2000, shard_bytes, lost, burst);
    }
    pooled_encode(&bench, "platter-set", 3200, 600, 32 * 1024);
    pooled_encode(&bench, "platter-set", 800, 400, 32 * 1024);
    pooled_encode(&bench, "platter-set", 20, 10, 64 * 1024);
    ldpc::ldpc(&bench);
}

/// The memory bound: reading a pool once.
fn bounds(bench: &Bench) {
    let pool = Pool::new(1600, 64 * 1024);
    bench.case(
        "bound: reading memory",
        pool.bytes(),
        vec![Competitor::on_this_thread("sum of all words", || {
            let mut sum = 0u64;
            for shard in pool.shards() {
                let (words, _) = shard.as_chunks::<8>();
                sum = sum.wrapping_add(words.iter().fold(0, |sum: u64, word| sum ^ u64::from_le_bytes(*word)));
            }
            black_box(sum);
        })],
    );
}

fn cauchy_encode(bench: &Bench, what: &str, information: usize, redundancy: usize, shard_bytes: usize, pool_bytes: usize) {
    let title = format!("{what} {information}+{redundancy} encode, {} KiB", shard_bytes / 1024);
    if !bench.is_selected(&title) {
        return;
    }
    let groups = pool_bytes.div_ceil(information * shard_bytes);
    // A pool that fits a cache is coded many times; otherwise reading the clock would dominate.
    let times = (20_000_000 / (groups * information * shard_bytes)).max(1);
    let pool = Pool::new(groups * information, shard_bytes);
    let mut competitors = Vec::new();
    for &kernel in Kernel::available() {
        let code = CauchyCode::with_kernel(information, redundancy, kernel).expect("a code of this size");
        let mut out = vec![vec![0; shard_bytes]; groups * redundancy];
        let pool = &pool;
        competitors.push(Competitor::on_this_thread(&format!("{kernel:?}"), move || {
            for _ in 0..times {
                for (group, out) in pool.shards().chunks(information).zip(out.chunks_mut(redundancy)) {
                    code.encode(&slices(group), &mut slices_mut(out));
                }
            }
        }));
    }
    if shard_bytes * information >= 1 << 20 {
        competitors.push(peers::simd_encode(&pool, information, redundancy));
    }
    competitors.extend(peers::klauspost("gf8", information, redundancy, shard_bytes, groups, 0));
    competitors.extend(peers::klauspost("leo8", information, redundancy, shard_bytes, groups, 0));
    competitors.extend(peers::isal(information, redundancy, shard_bytes, groups, 0));
    bench.case_repeated(&title, pool.bytes(), times, competitors);
}

fn cauchy_repair(bench: &Bench, what: &str, information: usize, redundancy: usize, lost: usize) {
    let shard_bytes = 64 * 1024;
    let title = format!("{what} {information}+{redundancy} repair {lost} lost, 64 KiB");
    if !bench.is_selected(&title) {
        return;
    }
    let groups = 8;
    let pool = Pool::new(groups * (information + redundancy), shard_bytes);
    let mut competitors = Vec::new();
    for &kernel in Kernel::available() {
        let code = CauchyCode::with_kernel(information, redundancy, kernel).expect("a code of this size");
        let mut out = vec![vec![0; shard_bytes]; lost];
        let pool = &pool;
        competitors.push(Competitor::on_this_thread(&format!("{kernel:?}, plan included"), move || {
            for group in pool.shards().chunks(information + redundancy) {
                let plan = code.plan(&lost_positions(information, lost)).expect("no more lost than redundancy");
                let sources: Vec<&[u8]> = plan.sources().iter().map(|&p| group[p].as_slice()).collect();
                plan.run(&sources, &mut slices_mut(&mut out));
            }
        }));
    }
    competitors.extend(peers::klauspost("gf8", information, redundancy, shard_bytes, groups, lost));
    competitors.extend(peers::klauspost("leo8", information, redundancy, shard_bytes, groups, lost));
    competitors.extend(peers::isal(information, redundancy, shard_bytes, groups, lost));
    bench.case(&title, groups * information * shard_bytes, competitors);
}

fn pooled_encode(bench: &Bench, what: &str, information: usize, redundancy: usize, shard_bytes: usize) {
    let title = format!("{what} {information}+{redundancy} encode, {} KiB", shard_bytes / 1024);
    if !bench.is_selected(&title) {
        return;
    }
    let groups = (80_000_000 / (information * shard_bytes)).max(1);
    let pool = Pool::new(groups * information, shard_bytes);
    let mut competitors = Vec::new();
    for &kernel in Kernel::available() {
        if kernel == Kernel::Portable && pool.bytes() > 500_000_000 {
            continue;
        }
        let code = PooledCode::with_kernel(information, redundancy, kernel).expect("a code of this size");
        let mut out = vec![vec![0; shard_bytes]; redundancy];
        let pool = &pool;
        competitors.push(Competitor::on_this_thread(&format!("{kernel:?}"), move || {
            for group in pool.shards().chunks(information) {
                code.encode(&slices(group), &mut slices_mut(&mut out)).expect("shards of whole blocks");
            }
        }));
    }
    let code = PooledCode::new(information, redundancy).expect("a code of this size");
    let mut encoder = PooledEncoder::new(&code, shard_bytes).expect("shards of whole blocks");
    let streamed = &pool;
    competitors.push(Competitor::on_this_thread("streamed (PooledEncoder)", move || {
        for group in streamed.shards().chunks(information) {
            encoder.reset();
            for shards in group.chunks(200) {
                encoder.push(&slices(shards));
            }
            black_box(encoder.finish().row(0)[0]);
        }
    }));
    competitors.push(peers::simd_encode(&pool, information, redundancy));
    competitors.extend(peers::klauspost("leo16", information, redundancy, shard_bytes, groups, 0));
    if information == 3200 {
        // The price of pooling: the same sectors as 200 codes of 16+3.
        let code = CauchyCode::new(16, 3).expect("a code of this size");
        let mut out = vec![vec![0; shard_bytes]; 3];
        let pool = &pool;
        competitors.push(Competitor::on_this_thread("16+3 per column, not pooled", move || {
            for group in pool.shards().chunks(16) {
                code.encode(&slices(group), &mut slices_mut(&mut out));
            }
        }));
    }
    bench.case(&title, pool.bytes(), competitors);
}

fn pooled_repair(bench: &Bench, information: usize, redundancy: usize, shard_bytes: usize, lost: usize, burst: bool) {
    let order = if burst { "in a row" } else { "spread" };
    let title = format!("large group {information}+{redundancy} repair {lost} lost {order}, {} KiB", shard_bytes / 1024);
    if !bench.is_selected(&title) {
        return;
    }
    let pool = Pool::new(information + redundancy, shard_bytes);
    let positions = if burst { (1000..1000 + lost).collect() } else { lost_positions(information, lost) };
    let rows: Vec<usize> = (0..redundancy).collect();
    let mut competitors = Vec::new();
    for &kernel in Kernel::available() {
        if kernel == Kernel::Portable {
            continue;
        }
        let code = PooledCode::with_kernel(information, redundancy, kernel).expect("a code of this size");
        let mut out = vec![vec![0; shard_bytes]; lost];
        let (pool, positions, rows) = (&pool, &positions, &rows);
        competitors.push(Competitor::on_this_thread(&format!("{kernel:?}, plan included"), move || {
            let plan = code.plan(positions, rows, positions).expect("no more lost than redundancy");
            let mut left = slices(&pool.shards()[..information]);
            for &position in positions {
                left[position] = &[];
            }
            let stored: Vec<&[u8]> = plan.rows().iter().map(|&row| pool.shards()[information + row].as_slice()).collect();
            code.repair(&plan, &left, &stored, &mut slices_mut(&mut out)).expect("shards of whole blocks");
        }));
    }
    competitors.push(peers::simd_repair(&pool, information, redundancy, positions.clone()));
    competitors.extend(peers::klauspost("leo16", information, redundancy, shard_bytes, 1, lost));
    bench.case(&title, information * shard_bytes, competitors);
}
