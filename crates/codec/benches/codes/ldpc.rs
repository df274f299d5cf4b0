//! LDPC codes: encoding, and decoding at several noise levels.

use fulgurite_codec::Kernel;
use fulgurite_codec::ldpc::{LdpcCode, LdpcDecoder};
use fulgurite_codec::reference::noise;

use crate::bench::{Bench, Competitor};

/// Words of a case; all of them fit the L3 cache.
const WORDS: u64 = 64;

pub(crate) fn ldpc(bench: &Bench) {
    for parity_columns in [5, 9, 20] {
        let code = LdpcCode::new(parity_columns).expect("a rate of the family");
        let information: Vec<Vec<u8>> = (0..WORDS).map(|seed| noise(seed, code.information_bytes())).collect();
        let bytes = information.iter().map(Vec::len).sum();
        let mut parity = vec![0; LdpcCode::CODEWORD_BYTES - code.information_bytes()];
        let encode = Competitor::on_this_thread("any kernel", || {
            for _ in 0..20 {
                for word in &information {
                    code.encode(word, &mut parity);
                    std::hint::black_box(&parity);
                }
            }
        });
        bench.case_repeated(&format!("LDPC rate {:.4} encode", code.rate()), bytes, 20, vec![encode]);
    }
    // Raw bit error rates, and the standard deviations of noise that cause them.
    for (parity_columns, bit_errors, deviation) in
        [(9, "0.5 %", 0.3882), (9, "1.0 %", 0.4299), (9, "1.8 %", 0.4769), (5, "0.8 %", 0.4151), (20, "4.5 %", 0.5898)]
    {
        decode(bench, parity_columns, bit_errors, deviation);
    }
}

fn decode(bench: &Bench, parity_columns: usize, bit_errors: &str, deviation: f64) {
    let code = LdpcCode::new(parity_columns).expect("a rate of the family");
    let title = format!("LDPC rate {:.4} decode, {bit_errors} of bits wrong", code.rate());
    if !bench.is_selected(&title) {
        return;
    }
    let words: Vec<Vec<i8>> = (0..WORDS).map(|seed| received(&code, deviation, seed)).collect();
    let mut competitors = Vec::new();
    for &kernel in Kernel::available() {
        let mut decoder = LdpcDecoder::with_kernel(code.matrix(), kernel);
        let (words, mut decoded) = (&words, vec![0; code.information_bytes()]);
        competitors.push(Competitor::on_this_thread(&format!("{kernel:?}"), move || {
            for word in words {
                assert!(decoder.decode(word, 30).is_codeword, "noise beyond what the code bears");
                decoder.copy_bits(&mut decoded);
                std::hint::black_box(&decoded);
            }
        }));
    }
    bench.case(&title, words.len() * code.information_bytes(), competitors);
}

/// The ratios of a random codeword after Gaussian noise.
fn received(code: &LdpcCode, deviation: f64, seed: u64) -> Vec<i8> {
    let mut word = noise(seed, LdpcCode::CODEWORD_BYTES);
    let (information, parity) = word.split_at_mut(code.information_bytes());
    code.encode(information, parity);
    let uniform = noise(seed + 1000, 16 * LdpcCode::CODEWORD_BITS);
    let mut uniform = uniform.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("8 bytes")) as f64 / 2f64.powi(64));
    let mut draw = || uniform.next().expect("two values for each bit");
    (0..LdpcCode::CODEWORD_BITS)
        .map(|bit| {
            let normal = (-2.0 * (1.0 - draw()).ln()).sqrt() * (std::f64::consts::TAU * draw()).cos();
            let sent = if word[bit / 8] >> (bit % 8) & 1 == 1 { -1.0 } else { 1.0 };
            LdpcDecoder::ratio((2.0 * (sent + deviation * normal) / (deviation * deviation)) as f32)
        })
        .collect()
}
