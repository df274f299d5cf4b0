use proptest::prelude::*;

use super::*;
use crate::reference::{noise, pooled_encode};

fn shards(seed: u64, count: usize, bytes: usize) -> Vec<Vec<u8>> {
    noise(seed, count * bytes).chunks_exact(bytes).map(<[u8]>::to_vec).collect()
}

fn slices(shards: &[Vec<u8>]) -> Vec<&[u8]> {
    shards.iter().map(Vec::as_slice).collect()
}

fn encode(code: &PooledCode, information: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut redundancy = vec![vec![0xA5; information[0].len()]; code.redundancy()];
    let mut out: Vec<&mut [u8]> = redundancy.iter_mut().map(Vec::as_mut_slice).collect();
    code.encode(&slices(information), &mut out).unwrap();
    redundancy
}

fn repair(code: &PooledCode, plan: &PooledPlan, information: &[Vec<u8>], redundancy: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let rows: Vec<&[u8]> = plan.rows().iter().map(|&row| redundancy[row].as_slice()).collect();
    let mut left = slices(information);
    for &lost in plan.lost() {
        left[lost] = &[];
    }
    let mut rebuilt = vec![vec![0xA5; redundancy[0].len()]; plan.wanted().len()];
    let mut out: Vec<&mut [u8]> = rebuilt.iter_mut().map(Vec::as_mut_slice).collect();
    code.repair(plan, &left, &rows, &mut out).unwrap();
    rebuilt
}

/// Draws `count` numbers of `0..limit`, in a random order.
fn draw(seed: u64, limit: usize, count: usize) -> Vec<usize> {
    let words = noise(seed, 8 * limit);
    let mut order: Vec<usize> = (0..limit).collect();
    order.sort_by_key(|&i| u64::from_le_bytes(words[8 * i..8 * i + 8].try_into().expect("8 bytes")));
    order.truncate(count);
    order
}

fn by_leopard(information: &[Vec<u8>], redundancy: usize) -> Vec<Vec<u8>> {
    use reed_solomon_simd::engine::DefaultEngine;
    use reed_solomon_simd::rate::{HighRateEncoder, RateEncoder};
    let bytes = information[0].len();
    let mut encoder = HighRateEncoder::new(information.len(), redundancy, bytes, DefaultEngine::new(), None).unwrap();
    for shard in information {
        encoder.add_original_shard(shard).unwrap();
    }
    encoder.encode().unwrap().recovery_iter().map(<[u8]>::to_vec).collect()
}

#[test]
fn every_kernel_encodes_like_the_reference() {
    for (information, redundancy, bytes) in
        [(1, 1, 64), (4, 2, 64), (2, 4, 192), (10, 3, 128), (20, 10, 320), (70, 17, 64), (100, 64, 576), (300, 33, 704)]
    {
        if cfg!(miri) && information > 10 {
            continue;
        }
        let shards = shards(information as u64, information, bytes);
        let want = pooled_encode(&slices(&shards), redundancy);
        for &kernel in Kernel::available() {
            let code = PooledCode::with_kernel(information, redundancy, kernel).unwrap();
            assert!(encode(&code, &shards) == want, "{kernel:?} {information}+{redundancy}, {bytes} bytes");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "too much for Miri")]
fn redundancy_matches_reed_solomon_simd_at_high_rate() {
    for (information, redundancy, bytes) in
        [(3, 2, 64), (20, 10, 128), (800, 400, 640), (3200, 600, 192), (1000, 1000, 64), (5000, 1200, 128), (60000, 1000, 64)]
    {
        let shards = shards(information as u64, information, bytes);
        let want = by_leopard(&shards, redundancy);
        for &kernel in Kernel::available() {
            let code = PooledCode::with_kernel(information, redundancy, kernel).unwrap();
            assert!(encode(&code, &shards) == want, "{kernel:?} {information}+{redundancy}, {bytes} bytes");
        }
    }
}

#[test]
fn every_pattern_with_enough_shards_left_is_repaired_in_tiny_codes() {
    for (information, redundancy) in [(1, 1), (2, 1), (4, 2), (3, 3), (2, 4), (5, 3)] {
        if cfg!(miri) && information + redundancy > 3 {
            continue;
        }
        let code = PooledCode::new(information, redundancy).unwrap();
        let shards = shards(9, information, 64);
        let stored = encode(&code, &shards);
        let positions = information + redundancy;
        for pattern in 0u32..1 << positions {
            let lost: Vec<usize> = (0..information).filter(|p| pattern >> p & 1 == 1).collect();
            let rows: Vec<usize> = (0..redundancy).filter(|r| pattern >> (information + r) & 1 == 0).collect();
            let plan = code.plan(&lost, &rows, &lost);
            if lost.len() > rows.len() {
                let want = CodeError::TooManyLost { lost: lost.len(), available: rows.len() };
                assert_eq!(plan.unwrap_err(), want);
                continue;
            }
            let plan = plan.unwrap();
            assert_eq!(plan.rows().len(), lost.len());
            for (rebuilt, &position) in repair(&code, &plan, &shards, &stored).iter().zip(&lost) {
                assert!(*rebuilt == shards[position], "{information}+{redundancy}, pattern {pattern:b}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    #[cfg_attr(miri, ignore = "too much for Miri")]
    fn any_information_many_shards_restore_the_wanted_ones_on_every_kernel(
        information in 1usize..400, redundancy in 1usize..140, blocks in 1usize..6, seed: u64,
        lost_part in 0.0..=1.0f64, spare_part in 0.0..=1.0f64, wanted_part in 0.0..=1.0f64, burst: bool,
    ) {
        let part = |of: usize, part: f64| (of as f64 * part).round() as usize;
        let count = part(redundancy.min(information), lost_part);
        let mut lost = draw(seed, information, count);
        if burst {
            lost = (information - count..information).collect();
        }
        let rows = draw(seed ^ 1, redundancy, count + part(redundancy - count, spare_part));
        let wanted: Vec<usize> = lost[..part(count, wanted_part)].to_vec();
        let shards = shards(seed ^ 2, information, 64 * blocks);
        let stored = encode(&PooledCode::new(information, redundancy).unwrap(), &shards);
        for &kernel in Kernel::available() {
            let code = PooledCode::with_kernel(information, redundancy, kernel).unwrap();
            let plan = code.plan(&lost, &rows, &wanted).unwrap();
            for (rebuilt, &position) in repair(&code, &plan, &shards, &stored).iter().zip(&wanted) {
                prop_assert!(*rebuilt == shards[position], "{:?}, shard {}", kernel, position);
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "too much for Miri")]
    fn streaming_matches_in_memory_results_however_the_input_is_split(
        information in 1usize..300, redundancy in 1usize..70, blocks in 1usize..70, seed: u64,
        pushed_part in 0.0..=1.0f64, piece in 1usize..50, threads in 1usize..4, lost_part in 0.0..=1.0f64,
    ) {
        let bytes = 64 * blocks;
        let code = PooledCode::new(information, redundancy).unwrap();
        let mut shards = shards(seed, information, bytes);
        let pushed = (information as f64 * pushed_part).round() as usize;
        for (i, shard) in shards.iter_mut().enumerate() {
            if i >= pushed || i % 7 == 3 {
                shard.fill(0);
            }
        }
        let stored = encode(&code, &shards);
        let mut encoder = PooledEncoder::new(&code, bytes).unwrap().with_threads(threads);
        for _ in 0..2 {
            encoder.reset();
            for (start, piece) in shards[..pushed].chunks(piece).enumerate().map(|(i, p)| (i * piece, p)) {
                if piece.len() == 1 && start % 7 == 3 {
                    encoder.push_zero(1);
                } else {
                    encoder.push(&slices(piece));
                }
            }
            prop_assert!(encoder.finish().iter().eq(stored.iter().map(Vec::as_slice)));
        }

        let count = (redundancy.min(information) as f64 * lost_part).round() as usize;
        let lost = draw(seed ^ 1, information, count);
        let rows = draw(seed ^ 2, redundancy, redundancy);
        let plan = code.plan(&lost, &rows, &lost).unwrap();
        let mut repairer = PooledRepairer::new(&code, plan, bytes).unwrap().with_threads(threads);
        for _ in 0..2 {
            repairer.reset();
            for (i, shard) in shards.iter().enumerate().take(pushed) {
                repairer.push((!lost.contains(&i)).then_some(shard.as_slice()));
            }
            for row in repairer.plan().rows().to_vec() {
                repairer.push_redundancy(row, &stored[row]);
            }
            if count == 0 {
                prop_assert!(repairer.finish().is_empty());
                continue;
            }
            prop_assert!(repairer.finish().iter().eq(lost.iter().map(|&i| shards[i].as_slice())));
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "too much for Miri")]
fn a_large_group_is_repaired_for_various_numbers_of_losses() {
    let code = PooledCode::new(20_000, 2000).unwrap();
    let shards = shards(4, 20_000, 64);
    let stored = encode(&code, &shards);
    for count in [1, 20, 200, 1000, 1999, 2000] {
        let lost = draw(count as u64, 20_000, count);
        // Some redundancy is lost too.
        let rows = draw(3, 2000, 2000.min(count + 500));
        let plan = code.plan(&lost, &rows, &lost).unwrap();
        for (rebuilt, &position) in repair(&code, &plan, &shards, &stored).iter().zip(&lost) {
            assert!(*rebuilt == shards[position], "{count} lost, shard {position}");
        }
    }
}

#[test]
fn impossible_codes_and_plans_are_errors() {
    assert!(PooledCode::new(48_000, 1200).is_ok());
    assert!(PooledCode::new(65_535, 1).is_ok());
    assert!(PooledCode::new(32_768, 32_768).is_ok());
    let too_long = CodeError::TooLong { information: 64_000, redundancy: 1200, limit: 65536 };
    assert_eq!(PooledCode::new(64_000, 1200).unwrap_err(), too_long);
    assert_eq!(PooledCode::new(3, 0).unwrap_err(), CodeError::Empty { information: 3, redundancy: 0 });

    let code = PooledCode::new(10, 4).unwrap();
    let length = CodeError::ShardLength { shard_bytes: 100, block_bytes: 64 };
    assert_eq!(PooledEncoder::new(&code, 100).map(|_| ()).unwrap_err(), length);
    assert_eq!(code.plan(&[10], &[0], &[]).unwrap_err(), CodeError::Position { position: 10, positions: 10 });
    assert_eq!(code.plan(&[1, 1], &[0, 1], &[]).unwrap_err(), CodeError::Position { position: 1, positions: 10 });
    assert_eq!(code.plan(&[1], &[0], &[2]).unwrap_err(), CodeError::Position { position: 2, positions: 10 });
    assert_eq!(code.plan(&[1, 2], &[0], &[1]).unwrap_err(), CodeError::TooManyLost { lost: 2, available: 1 });
}
