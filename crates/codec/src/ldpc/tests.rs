use super::*;
use crate::kernel::Kernel;
use crate::reference::noise;

/// Uniform numbers in 0..1 from the generator of the tests.
fn uniform(seed: u64, count: usize) -> Vec<f64> {
    noise(seed, 8 * count).chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()) as f64 / 2f64.powi(64)).collect()
}

/// A codeword of random information.
fn codeword(code: &LdpcCode, seed: u64) -> Vec<u8> {
    let mut codeword = noise(seed, LdpcCode::CODEWORD_BYTES);
    let (information, parity) = codeword.split_at_mut(code.information_bytes());
    code.encode(information, parity);
    codeword
}

fn bits(bytes: &[u8]) -> Vec<bool> {
    bytes.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1)).collect()
}

/// Likelihoods of a word's bits after Gaussian noise, in nats.
fn nats(bits: &[bool], deviation: f64, seed: u64) -> Vec<f64> {
    let uniform = uniform(seed, 2 * bits.len());
    bits.iter()
        .zip(uniform.chunks_exact(2))
        .map(|(&bit, pair)| {
            let normal = (-2.0 * (1.0 - pair[0]).ln()).sqrt() * (std::f64::consts::TAU * pair[1]).cos();
            let received = if bit { -1.0 } else { 1.0 } + deviation * normal;
            2.0 * received / (deviation * deviation)
        })
        .collect()
}

fn ratios(nats: &[f64]) -> Vec<i8> {
    nats.iter().map(|&nats| LdpcDecoder::ratio(nats as f32)).collect()
}

#[test]
#[cfg_attr(miri, ignore = "too much for Miri")]
fn what_each_code_encodes_satisfies_all_checks() {
    for parity_columns in LdpcCode::PARITY_COLUMNS {
        let code = LdpcCode::new(parity_columns).unwrap();
        assert_eq!(code.information_bytes(), (80 - parity_columns) * 64);
        let word = codeword(&code, parity_columns as u64);
        assert!(code.matrix().is_codeword(&bits(&word)), "{parity_columns} parity columns");
        let mut damaged = bits(&word);
        damaged[12345] ^= true;
        assert!(!code.matrix().is_codeword(&damaged));
    }
    assert!(LdpcCode::new(4).is_err());
    assert!(LdpcCode::new(21).is_err());
}

/// Differences of shifts between two rows, with the column of each.
fn differences(matrix: &BaseMatrix, i: usize, k: usize) -> Vec<(usize, usize)> {
    let shift = |row: usize, column| matrix.rows()[row].iter().find(|entry| entry.column == column).map(|entry| entry.shift);
    let z = matrix.lifting();
    (0..matrix.columns()).filter_map(|column| Some(((shift(i, column)? + z - shift(k, column)?) % z, column))).collect()
}

#[test]
#[cfg_attr(miri, ignore = "too much for Miri")]
fn the_matrices_have_few_short_cycles() {
    let mut found = Vec::new();
    for parity_columns in LdpcCode::PARITY_COLUMNS {
        let code = LdpcCode::new(parity_columns).unwrap();
        let matrix = code.matrix();
        let (mut of_length_4, mut of_length_6) = (0, 0);
        for i in 0..parity_columns {
            for k in i + 1..parity_columns {
                let first = differences(matrix, i, k);
                of_length_4 += first.iter().enumerate().map(|(n, a)| first[n + 1..].iter().filter(|b| a.0 == b.0).count()).sum::<usize>();
                for l in k + 1..parity_columns {
                    let (second, third) = (differences(matrix, k, l), differences(matrix, i, l));
                    for (a, first_column) in &first {
                        for (b, second_column) in &second {
                            let closes = |&&(c, column): &&(usize, usize)| {
                                c == (a + b) % matrix.lifting()
                                    && column != *first_column
                                    && column != *second_column
                                    && first_column != second_column
                            };
                            of_length_6 += third.iter().filter(closes).count();
                        }
                    }
                }
            }
        }
        assert_eq!(of_length_4, 0, "{parity_columns} parity columns");
        found.push(of_length_6);
    }
    // Each of them stands for Z cycles of the binary matrix.
    assert_eq!(found, [65, 22, 9, 3, 2, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]);
}

#[test]
#[cfg_attr(miri, ignore = "too much for Miri")]
fn all_columns_but_the_last_have_at_least_three_entries() {
    for parity_columns in LdpcCode::PARITY_COLUMNS {
        let code = LdpcCode::new(parity_columns).unwrap();
        let entries: Vec<usize> =
            (0..80).map(|column| code.matrix().rows().iter().flatten().filter(|entry| entry.column == column).count()).collect();
        assert_eq!(entries[79], 2);
        assert!(entries[..79].iter().all(|&entries| entries >= 3), "{parity_columns} parity columns: {entries:?}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "too much for Miri")]
fn every_kernel_decodes_to_the_same_ratios() {
    for parity_columns in [5, 9, 20] {
        let code = LdpcCode::new(parity_columns).unwrap();
        let word = codeword(&code, 1);
        // Noise from none to more than the code can bear, with erased bits and the largest ratios.
        for (case, deviation) in [0.2, 0.45, 0.55, 0.9].into_iter().enumerate() {
            let mut ratios = ratios(&nats(&bits(&word), deviation, case as u64));
            ratios[100..150].fill(0);
            ratios[3000..3010].fill(i8::MIN);
            let mut expected = None;
            for &kernel in Kernel::available() {
                let mut decoder = LdpcDecoder::with_kernel(code.matrix(), kernel);
                let decoded = decoder.decode(&ratios, 8);
                let mut after = vec![0; ratios.len()];
                decoder.copy_ratios(&mut after);
                let got = (decoded, after);
                assert_eq!(
                    *expected.get_or_insert_with(|| got.clone()),
                    got,
                    "{kernel:?}, {parity_columns} parity columns, noise {deviation}"
                );
            }
        }
    }
}

/// A small matrix whose lifting factor isn't a multiple of any register.
fn odd_matrix() -> BaseMatrix {
    let rows = (0..3).map(|row| (0..9).map(|column| Circulant { column, shift: (row * column * 7 + column) % 45 }).collect()).collect();
    BaseMatrix::new(45, 9, rows)
}

#[test]
fn any_lifting_factor_decodes_like_the_plain_algorithm() {
    let matrix = odd_matrix();
    let zero = vec![false; matrix.codeword_bits()];
    for seed in 0..if cfg!(miri) { 1 } else { 40 } {
        let ratios = ratios(&nats(&zero, 0.55, seed));
        let (plain, plain_decoded) = plain_min_sum(&matrix, &ratios, 6);
        for &kernel in Kernel::available() {
            let mut decoder = LdpcDecoder::with_kernel(&matrix, kernel);
            assert_eq!(decoder.decode(&ratios, 6), plain_decoded, "{kernel:?}, seed {seed}");
            let mut after = vec![0; ratios.len()];
            decoder.copy_ratios(&mut after);
            assert_eq!(after, plain, "{kernel:?}, seed {seed}");
        }
    }
}

/// The same algorithm, check by check and without rotated columns.
fn plain_min_sum(matrix: &BaseMatrix, ratios: &[i8], most_iterations: u32) -> (Vec<i8>, Decoded) {
    let mut ratios: Vec<i8> = ratios.iter().map(|ratio| (*ratio).clamp(-40, 40)).collect();
    let mut messages = std::collections::HashMap::new();
    let mut iterations = 0;
    loop {
        let is_codeword = matrix.is_codeword(&ratios.iter().map(|&ratio| ratio < 0).collect::<Vec<_>>());
        if is_codeword || iterations == most_iterations {
            return (ratios, Decoded { iterations, is_codeword });
        }
        iterations += 1;
        for row in 0..matrix.rows().len() {
            for check in 0..matrix.lifting() {
                let bits: Vec<usize> = matrix.bits_of_check(row, check).collect();
                let known: Vec<i8> =
                    bits.iter().map(|&bit| ratios[bit].saturating_sub(*messages.get(&(row, check, bit)).unwrap_or(&0))).collect();
                for (n, &bit) in bits.iter().enumerate() {
                    let others = || known.iter().enumerate().filter(move |&(other, _)| other != n).map(|(_, known)| known);
                    let magnitude = others().map(|known| known.unsigned_abs()).min().unwrap().min(42);
                    let magnitude = (magnitude - magnitude / 4).cast_signed();
                    let negative = others().filter(|known| **known < 0).count() % 2 == 1;
                    let message = if negative { -magnitude } else { magnitude };
                    messages.insert((row, check, bit), message);
                    ratios[bit] = known[n].saturating_add(message);
                }
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "too much for Miri")]
fn words_with_noise_that_the_code_bears_decode_to_what_was_written() {
    // Rate and deviation of the noise, well inside of what docs/medium.md gives for that rate.
    for (parity_columns, deviation) in [(5, 0.40), (9, 0.47), (14, 0.53), (20, 0.59)] {
        let code = LdpcCode::new(parity_columns).unwrap();
        let mut decoder = LdpcDecoder::new(code.matrix());
        for seed in 0..20 {
            let word = codeword(&code, seed);
            let ratios = ratios(&nats(&bits(&word), deviation, seed + 1000));
            let raw_errors = ratios.iter().zip(bits(&word)).filter(|&(&ratio, bit)| (ratio < 0) != bit).count();
            assert!(raw_errors > 100, "the test needs noise: {raw_errors} raw errors");
            let decoded = decoder.decode(&ratios, 20);
            assert!(decoded.is_codeword, "{parity_columns} parity columns, seed {seed}");
            let mut got = vec![0; word.len()];
            decoder.copy_bits(&mut got);
            assert!(got == word, "{parity_columns} parity columns, seed {seed}: another codeword");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "too much for Miri")]
fn it_decodes_what_sum_product_decodes() {
    let code = LdpcCode::new(9).unwrap();
    let mut decoder = LdpcDecoder::new(code.matrix());
    for seed in 0..4 {
        let word = bits(&codeword(&code, seed));
        let nats = nats(&word, 0.47, seed + 50);
        assert!(reference::sum_product(code.matrix(), &nats, 20) == word, "sum-product fails, seed {seed}");
        assert!(decoder.decode(&ratios(&nats), 20).is_codeword, "seed {seed}");
        let mut got = vec![0; LdpcCode::CODEWORD_BYTES];
        decoder.copy_bits(&mut got);
        assert!(bits(&got) == word, "seed {seed}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "too much for Miri")]
fn pure_noise_fails_and_an_erased_word_decodes_to_zeros() {
    let code = LdpcCode::new(9).unwrap();
    let mut decoder = LdpcDecoder::new(code.matrix());
    let noise: Vec<i8> = noise(3, LdpcCode::CODEWORD_BITS).iter().map(|byte| byte.cast_signed()).collect();
    assert_eq!(decoder.decode(&noise, 20), Decoded { iterations: 20, is_codeword: false });
    // Erasing more bits than there is parity leaves no way to tell codewords apart; zero ratios
    // count as zeros, and zeros are a codeword. That is what the checksum of a sector is for.
    assert_eq!(decoder.decode(&vec![0; noise.len()], 20), Decoded { iterations: 0, is_codeword: true });
}

#[test]
#[cfg_attr(miri, ignore = "too much for Miri")]
fn bits_that_the_channel_is_wrongly_sure_of_are_corrected() {
    for parity_columns in LdpcCode::PARITY_COLUMNS {
        let code = LdpcCode::new(parity_columns).unwrap();
        let word = codeword(&code, 4);
        let mut sure: Vec<i8> = bits(&word).iter().map(|&bit| if bit { -127 } else { 127 }).collect();
        // One in each column, each in another place.
        for column in 0..80 {
            let bit = column * 512 + (column * 197) % 512;
            sure[bit] = -sure[bit];
        }
        let mut decoder = LdpcDecoder::new(code.matrix());
        assert!(decoder.decode(&sure, 20).is_codeword, "{parity_columns} parity columns");
        let mut got = vec![0; word.len()];
        decoder.copy_bits(&mut got);
        assert!(got == word, "{parity_columns} parity columns");
    }
}

#[test]
fn likelihoods_round_to_ratios() {
    for (nats, ratio) in [(0.0, 0), (0.12, 0), (0.13, 1), (-1.0, -4), (100.0, 40), (-100.0, -40), (f32::NAN, 0), (f32::NEG_INFINITY, -40)] {
        assert_eq!(LdpcDecoder::ratio(nats), ratio, "{nats} nats");
    }
}

#[test]
#[cfg_attr(miri, ignore = "too much for Miri")]
fn the_matrices_are_those_that_were_published() {
    // Sectors are written with these matrices, so a change here makes them unreadable.
    let checksums: Vec<u64> = LdpcCode::PARITY_COLUMNS
        .map(|parity_columns| {
            let code = LdpcCode::new(parity_columns).unwrap();
            let mut checksum = crate::checksum::Crc64::new();
            for (row, entries) in code.matrix().rows().iter().enumerate() {
                for entry in entries {
                    for number in [row, entry.column, entry.shift] {
                        checksum.update(&(number as u16).to_le_bytes());
                    }
                }
            }
            checksum.value()
        })
        .collect();
    assert_eq!(
        checksums,
        [
            14882719914250328754,
            7897196478241324051,
            8940023759001835385,
            17104729972827866253,
            16230286751654988374,
            14930803209231471023,
            9269591914118469294,
            1856370263019165925,
            18248125808091378759,
            3103299417708603441,
            691755422017921130,
            8148805305458109301,
            6672343400495711486,
            9236444616514649317,
            1272554106701173990,
            7607769427380493162
        ]
    );
}
