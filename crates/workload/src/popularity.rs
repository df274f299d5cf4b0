//! Popularity: how reads are distributed over platters.
//!
//! A draw costs the same for any law and any number of platters: it picks one column of Walker's
//! alias table. A column contains one or two platters and the share of the first.
//!
//! ```text
//! shares 1/2, 1/4, 1/8, 1/8 of 4 platters; each column has probability 1/4
//!
//!        column 0    column 1    column 2    column 3
//!       |    0    | | 1  | 0  | | 2  | 0  | | 3  | 1  |
//! ```

use fulgurite_chance::Stream;

use crate::SpecError;
use crate::error::check_range;
use crate::read::scaled;

/// Which platters are read more often than others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Popularity {
    /// All platters equally: the paper's assumption unless it studies skew (SOSP '23, section 7.2).
    Uniform,
    /// The platter of rank r (1 is the most popular) has a share proportional to r^-`exponent`.
    /// Ranks are assigned to platters at random, so that popular ones are not neighbours; the same
    /// seed gives the same ranks to all sources.
    Zipf {
        /// 0 is uniform, 1 the classical Zipf law.
        exponent: f64,
    },
}

/// A distribution over `0..count`, ready for drawing.
#[derive(Debug, Clone)]
pub(crate) enum Picker {
    Uniform(u64),
    Alias(Vec<Column>),
}

/// Parts of a column, 2^32.
const COLUMN_PARTS: f64 = 4_294_967_296.0;

/// `own` of [`COLUMN_PARTS`] parts of the column belong to the platter with the column's index, the
/// rest to `other`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    own: u32,
    other: u32,
}

impl Picker {
    pub(crate) fn new(popularity: Popularity, count: u32, seed: u64) -> Result<Self, SpecError> {
        let exponent = match popularity {
            Popularity::Uniform => return Ok(Self::Uniform(count.into())),
            Popularity::Zipf { exponent } => exponent,
        };
        check_range("popularity.exponent", exponent, (0.0..=20.0).contains(&exponent), "0 to 20")?;
        let mut shares: Vec<f64> = (1..=count).map(|rank| libm::pow(f64::from(rank), -exponent)).collect();
        // Fisher-Yates shuffle.
        let mut stream = Stream::new(seed, "ranks");
        for last in (1..shares.len()).rev() {
            shares.swap(last, stream.below(last as u64 + 1) as usize);
        }
        Ok(Self::Alias(alias(&shares)))
    }

    /// The platter for 64 random bits; each platter gets its share of all values. The integer part
    /// of the product selects the column, the fraction the position in it.
    #[inline]
    pub(crate) fn at(&self, bits: u64) -> u32 {
        match self {
            Self::Uniform(count) => scaled(bits, *count) as u32,
            Self::Alias(columns) => {
                let product = u128::from(bits) * columns.len() as u128;
                let (index, part) = ((product >> 64) as u32, (product >> 32) as u32);
                let column = columns[index as usize];
                if part < column.own { index } else { column.other }
            }
        }
    }
}

/// Vose's construction of the table (IEEE Trans. Software Eng. 17, 972, 1991), in linear time.
fn alias(shares: &[f64]) -> Vec<Column> {
    let count = shares.len() as f64;
    let total: f64 = shares.iter().sum();
    let mut left: Vec<f64> = shares.iter().map(|share| share / total * count).collect();
    let mut columns: Vec<Column> = (0..shares.len()).map(|index| Column { own: u32::MAX, other: index as u32 }).collect();
    let (mut poor, mut rich): (Vec<usize>, Vec<usize>) = (0..shares.len()).partition(|index| left[*index] < 1.0);
    while let (Some(from), Some(to)) = (rich.last().copied(), poor.pop()) {
        columns[to] = Column { own: (left[to] * COLUMN_PARTS) as u32, other: from as u32 };
        left[from] -= 1.0 - left[to];
        if left[from] < 1.0 {
            rich.pop();
            poor.push(from);
        }
    }
    // The columns left over are full, but for rounding; their `other` is already their own index.
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pearson's statistic of `draws` against `shares`.
    fn chi_square(picker: &Picker, shares: &[f64], draws: u32, seed: u64) -> f64 {
        let mut stream = Stream::new(seed, "draws");
        let mut found = vec![0_u32; shares.len()];
        for _ in 0..draws {
            found[picker.at(stream.bits()) as usize] += 1;
        }
        let total: f64 = shares.iter().sum();
        let term = |(found, share): (u32, &f64)| {
            let wanted = share / total * f64::from(draws);
            (f64::from(found) - wanted) * (f64::from(found) - wanted) / wanted
        };
        found.into_iter().zip(shares).map(term).sum()
    }

    #[test]
    fn platters_are_drawn_according_to_zipf() {
        for (exponent, seed) in [(0.0, 1), (0.6, 2), (1.0, 3), (1.4, 4)] {
            let picker = Picker::new(Popularity::Zipf { exponent }, 100, seed).unwrap();
            // The assigned ranks: the same swaps on the same stream.
            let mut shares: Vec<f64> = (1..=100).map(|rank| libm::pow(f64::from(rank), -exponent)).collect();
            let mut stream = Stream::new(seed, "ranks");
            for last in (1..shares.len()).rev() {
                shares.swap(last, stream.below(last as u64 + 1) as usize);
            }
            let statistic = chi_square(&picker, &shares, 1_000_000, seed);
            // With 99 degrees of freedom, 1 in 1,000 values exceeds 148.2, and 1 in 1,000 is below
            // 60.
            assert!((60.0..148.2).contains(&statistic), "seed {seed}, exponent {exponent}: chi-square {statistic}");
        }
    }

    #[test]
    fn uniform_draws_are_uniform() {
        let picker = Picker::new(Popularity::Uniform, 100, 0).unwrap();
        let statistic = chi_square(&picker, &[1.0; 100], 1_000_000, 5);
        assert!((60.0..148.2).contains(&statistic), "seed 5: chi-square {statistic}");
    }

    #[test]
    fn the_shares_of_the_columns_add_up_to_the_law() {
        let shares = [0.5, 0.25, 0.125, 0.125];
        let columns = alias(&shares);
        let mut sums = [0.0; 4];
        for (index, column) in columns.iter().enumerate() {
            let own = f64::from(column.own) / COLUMN_PARTS;
            sums[index] += own / 4.0;
            sums[column.other as usize] += (1.0 - own) / 4.0;
        }
        for (sum, share) in sums.iter().zip(shares) {
            assert!((sum - share).abs() < 1e-9, "{sums:?}");
        }
    }

    #[test]
    fn different_seeds_make_different_platters_popular() {
        let hottest = |seed| {
            let picker = Picker::new(Popularity::Zipf { exponent: 3.0 }, 1000, seed).unwrap();
            let mut stream = Stream::new(9, "draws");
            let mut found = vec![0; 1000];
            for _ in 0..1000 {
                found[picker.at(stream.bits()) as usize] += 1;
            }
            found.iter().position(|count| count == found.iter().max().unwrap()).unwrap()
        };
        let places: std::collections::BTreeSet<usize> = (0..20).map(hottest).collect();
        assert!(places.len() > 15, "{places:?}");
    }

    #[test]
    fn invalid_exponents_are_rejected() {
        for exponent in [-0.1, f64::NAN, f64::INFINITY] {
            assert!(Picker::new(Popularity::Zipf { exponent }, 10, 0).is_err());
        }
    }
}
