//! A slow, plain LDPC decoder that tests compare the fast one with: sum-product in floating point.
//! The fast one is min-sum, so they agree on words, not on every step.

use super::base_matrix::BaseMatrix;

/// Decodes by the sum-product algorithm, in flooding order: all checks from all bits, then all bits
/// from all checks. `nats` are natural-log likelihood ratios, positive where 0 is more likely.
/// Returns the bits even if they are not a codeword.
///
/// Source: Richardson and Urbanke, *Modern Coding Theory*, section 2.5: a check sends a bit
/// `2 atanh` of the product, over its other bits, of `tanh(message / 2)`.
pub fn sum_product(matrix: &BaseMatrix, nats: &[f64], max_iterations: u32) -> Vec<bool> {
    let checks: Vec<Vec<usize>> = (0..matrix.rows().len())
        .flat_map(|row| (0..matrix.lifting()).map(move |check| (row, check)))
        .map(|(row, check)| matrix.bits_of_check(row, check).collect())
        .collect();
    let mut messages: Vec<Vec<f64>> = checks.iter().map(|bits| vec![0.0; bits.len()]).collect();
    let mut totals = nats.to_vec();
    for _ in 0..max_iterations {
        if matrix.is_codeword(&hard_decisions(&totals)) {
            break;
        }
        for (bits, messages) in checks.iter().zip(&mut messages) {
            // The clamp keeps `atanh` finite.
            let halves: Vec<f64> = bits
                .iter()
                .zip(messages.iter())
                .map(|(&bit, message)| ((totals[bit] - message) / 2.0).tanh().clamp(-1.0 + 1e-15, 1.0 - 1e-15))
                .collect();
            for (n, message) in messages.iter_mut().enumerate() {
                let product: f64 = halves.iter().enumerate().filter(|&(other, _)| other != n).map(|(_, half)| half).product();
                *message = 2.0 * product.atanh();
            }
        }
        totals.copy_from_slice(nats);
        for (bits, messages) in checks.iter().zip(&messages) {
            for (&bit, message) in bits.iter().zip(messages) {
                totals[bit] += message;
            }
        }
    }
    hard_decisions(&totals)
}

fn hard_decisions(ratios: &[f64]) -> Vec<bool> {
    ratios.iter().map(|&ratio| ratio < 0.0).collect()
}
