//! Overheads of the codes and how rarely each fails: the analytic part of the evaluation of Project
//! Silica (Anderson et al., SOSP '23, section 6).
//!
//! ```text
//! sector lost (1e-3 after LDPC) --> track:       I_t + R_t sectors,  lost if more than R_t are
//! track lost                    --> large group: I_g + R_g tracks,   lost if more than R_g are
//! platter unavailable           --> set:         I_p + R_p platters, lost if more than R_p are
//! ```
//!
//! All three are MDS codes, so with independent failures of probability p a code fails with the
//! upper tail of a binomial distribution. Tails can be as small as 1e-900; they are computed and
//! returned as decimal logarithms.

/// An MDS code: any `information` of its symbols restore all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Code {
    /// Symbols that hold content.
    pub(crate) information: u32,
    /// Symbols that may be lost.
    pub(crate) redundancy: u32,
}

impl Code {
    /// Redundancy divided by information.
    pub(crate) fn overhead(self) -> f64 {
        f64::from(self.redundancy) / f64::from(self.information)
    }

    /// Decimal logarithm of the probability that more symbols are lost than the code has
    /// redundancy, if each is lost independently with this probability.
    pub(crate) fn log10_failure(self, symbol_failure: f64) -> f64 {
        log10_more_than(self.redundancy, self.information + self.redundancy, symbol_failure)
    }
}

/// A track of this archive; the paper gives 100 to 200 and 10 to 16.
pub(crate) const TRACK: Code = Code { information: 200, redundancy: 16 };

/// A large group of this archive, in tracks; the paper gives O(100) and O(10), and about 2 %.
pub(crate) const LARGE_GROUP: Code = Code { information: 240, redundancy: 5 };

/// The sets of Table 1.
pub(crate) const SETS: [Code; 3] =
    [Code { information: 12, redundancy: 3 }, Code { information: 16, redundancy: 3 }, Code { information: 24, redundancy: 3 }];

/// Target for the failure of a track: once in 10^24 (SOSP '23).
pub(crate) const LOG10_TRACK_FAILURE: f64 = -24.0;

/// Sector failure rate after the code inside a sector (SOSP '23).
pub(crate) const SECTOR_FAILURE: f64 = 1e-3;

/// Overhead of one level of the codes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct OverheadRow {
    pub(crate) code: Code,
    pub(crate) overhead: f64,
    /// Bytes that the write drive writes for each byte of content, through this level and those
    /// before it. Headers, labels and file tables aren't counted.
    pub(crate) write_amplification: f64,
}

/// Overheads of tracks, large groups and sets with these codes, in this order. The last row's write
/// amplification is the total.
pub(crate) fn storage_overheads(track: Code, large_group: Code, set: Code) -> [OverheadRow; 3] {
    let mut write_amplification = 1.0;
    [track, large_group, set].map(|code| {
        write_amplification *= 1.0 + code.overhead();
        OverheadRow { code, overhead: code.overhead(), write_amplification }
    })
}

/// Failure probability of a code.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FailureRow {
    pub(crate) code: Code,
    pub(crate) overhead: f64,
    /// Decimal logarithm of the probability that the code fails.
    pub(crate) log10_failure: f64,
}

impl FailureRow {
    fn new(code: Code, symbol_failure: f64) -> Self {
        Self { code, overhead: code.overhead(), log10_failure: code.log10_failure(symbol_failure) }
    }
}

/// Failure probabilities of tracks of 100, 110 ... 200 information sectors, as in the paper, with 8
/// to 16 redundancy sectors each (10 to 16 in the paper).
pub(crate) fn track_failures(sector_failure: f64) -> Vec<FailureRow> {
    let codes = (100..=200).step_by(10).flat_map(|information| (8..=16).map(move |redundancy| Code { information, redundancy }));
    codes.map(|code| FailureRow::new(code, sector_failure)).collect()
}

/// The least redundancy with which tracks of `information` sectors fail more rarely than
/// [`LOG10_TRACK_FAILURE`]. `None` if even as much redundancy as information is too little.
pub(crate) fn least_redundancy(information: u32, sector_failure: f64) -> Option<FailureRow> {
    let rows = (0..=information).map(|redundancy| FailureRow::new(Code { information, redundancy }, sector_failure));
    rows.into_iter().find(|row| row.log10_failure < LOG10_TRACK_FAILURE)
}

/// Decimal logarithm of the probability that more than `threshold` of `trials` independent events
/// happen, each with this probability; minus infinity if that is impossible.
///
/// The largest term of the tail is computed in logarithms. The others follow from it by their
/// ratios, in both directions, so that no term that matters underflows. Checked to 1e-12 against
/// exact fractions.
///
/// # Panics
/// If `probability` is not in 0.0..=1.0.
pub(crate) fn log10_more_than(threshold: u32, trials: u32, probability: f64) -> f64 {
    assert!((0.0..=1.0).contains(&probability), "probability is {probability}, expected 0.0 to 1.0");
    if threshold >= trials || probability == 0.0 {
        return f64::NEG_INFINITY;
    }
    if probability == 1.0 {
        return 0.0;
    }
    let odds = probability / (1.0 - probability);
    // Terms rise up to the mode and fall beyond it.
    let mode = ((f64::from(trials) + 1.0) * probability) as u32;
    let top = mode.clamp(threshold + 1, trials);
    // From term k to term k + 1.
    let ratio = |k: u32| f64::from(trials - k) / f64::from(k + 1) * odds;

    let choices: f64 = (0..top).map(|k| libm::log(f64::from(trials - k) / f64::from(k + 1))).sum();
    let ln_top = choices + f64::from(top) * libm::log(probability) + f64::from(trials - top) * libm::log1p(-probability);

    let up = (top..trials).scan(1.0, |term, k| falling(term, ratio(k)));
    let down = (threshold + 1..top).rev().scan(1.0, |term, k| falling(term, 1.0 / ratio(k)));
    // The smallest terms are added first. Rounding may leave a result above 1, which `min` removes.
    let mut terms: Vec<f64> = up.chain(down).collect();
    terms.sort_by(f64::total_cmp);
    let sum = terms.iter().sum::<f64>() + 1.0;
    ((ln_top + libm::log(sum)) / std::f64::consts::LN_10).min(0.0)
}

/// The next of a series of terms that fall ever faster; ends when they are negligible against 1.
fn falling(term: &mut f64, ratio: f64) -> Option<f64> {
    *term *= ratio;
    (*term > 1e-25).then_some(*term)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threshold, trials, probability, and the logarithm: sums of exact fractions (Python's
    /// `fractions.Fraction` and `math.comb`, with the probability as the decimal fraction or 1/3),
    /// their logarithm by mpmath with 40 digits. The last one: terms by mpmath with 60 digits.
    const EXACT: [(u32, u32, f64, f64); 17] = [
        (8, 108, 0.001, -14.446_363_944_655_562),
        (16, 116, 0.001, -31.031_094_274_878_894),
        (12, 120, 0.001, -22.100_720_529_143_877),
        (12, 162, 0.001, -20.345_379_670_668_954),
        (8, 208, 0.001, -11.851_151_058_544_01),
        (15, 215, 0.001, -24.331_398_046_474_096),
        (16, 216, 0.001, -26.227_678_632_662_677),
        (16, 216, 0.01, -9.963_593_322_283_52),
        (3, 15, 0.1, -1.255_271_923_090_179),
        (3, 19, 0.1, -0.939_311_382_632_058_5),
        (3, 27, 0.1, -0.549_593_815_896_362_5),
        (3, 19, 0.001, -8.416_828_632_252_2),
        (0, 19, 0.5, -8.283_517_762_742_455e-7),
        (5, 245, 1e-6, -24.549_215_630_038_58),
        (150, 200, 0.9, -3.985_079_009_706_212e-10),
        (39, 40, 1.0 / 3.0, -19.084_850_188_786_497),
        (1_000, 49_000, 0.001, -904.020_105_187_910_6),
    ];

    #[test]
    fn tails_match_exact_fractions() {
        for (threshold, trials, probability, exact) in EXACT {
            let found = log10_more_than(threshold, trials, probability);
            assert!(
                (found - exact).abs() < 1e-12 * exact.abs().max(1.0),
                "more than {threshold} of {trials} at {probability}: {found}, not {exact}"
            );
        }
    }

    #[test]
    fn impossible_is_minus_infinity_and_certain_is_zero() {
        assert_eq!(log10_more_than(3, 3, 0.5), f64::NEG_INFINITY);
        assert_eq!(log10_more_than(0, 3, 0.0), f64::NEG_INFINITY);
        assert_eq!(log10_more_than(2, 3, 1.0), 0.0);
    }

    #[test]
    fn long_tracks_fail_less_than_once_in_10_to_the_24_at_about_eight_percent() {
        let rare: Vec<(u32, u32)> = track_failures(SECTOR_FAILURE)
            .iter()
            .filter(|row| row.log10_failure < LOG10_TRACK_FAILURE && row.overhead < 0.085)
            .map(|row| (row.code.information, row.code.redundancy))
            .collect();
        assert_eq!(rare, [(180, 15), (190, 15), (190, 16), (200, 15), (200, 16)]);
        // Exact fractions agree; short tracks need up to 13 %.
        let least: Vec<u32> = (100..=200)
            .step_by(10)
            .filter_map(|information| least_redundancy(information, SECTOR_FAILURE))
            .map(|row| row.code.redundancy)
            .collect();
        assert_eq!(least, [13, 13, 14, 14, 14, 14, 15, 15, 15, 15, 15]);
        assert_eq!(least_redundancy(1, 0.5), None);
    }

    #[test]
    fn the_codes_of_this_archive_write_1_31_bytes_per_byte() {
        let rows = storage_overheads(TRACK, LARGE_GROUP, SETS[1]);
        let percent = rows.map(|row| format!("{:.1}", 100.0 * row.overhead));
        assert_eq!(percent, ["8.0", "2.1", "18.8"]);
        assert!((rows[2].write_amplification - 1.08 * (245.0 / 240.0) * (19.0 / 16.0)).abs() < 1e-12);
        assert_eq!(format!("{:.3}", rows[2].write_amplification), "1.309");
    }

    /// Failures of each set of Table 1, for each probability that a platter is unavailable.
    fn set_failures(unavailable: &[f64]) -> Vec<FailureRow> {
        unavailable.iter().flat_map(|&unavailable| SETS.map(|set| FailureRow::new(set, unavailable))).collect()
    }

    /// Failures of a large group, if whole tracks are lost with these probabilities.
    fn large_group_failures(large_group: Code, symbol_failures: &[f64]) -> Vec<FailureRow> {
        symbol_failures.iter().map(|&symbol_failure| FailureRow::new(large_group, symbol_failure)).collect()
    }

    #[test]
    fn larger_sets_and_likelier_losses_fail_more_often() {
        let rows = set_failures(&[0.1, 0.01, 0.001]);
        assert_eq!(rows.len(), 9);
        assert!(rows.chunks(3).all(|sets| sets.is_sorted_by(|a, b| a.log10_failure < b.log10_failure)));
        assert!(
            (0..3)
                .all(|set| rows[set].log10_failure > rows[set + 3].log10_failure
                    && rows[set + 3].log10_failure > rows[set + 6].log10_failure)
        );
        let groups = large_group_failures(LARGE_GROUP, &[1e-3, 1e-6]);
        assert_eq!(groups[1].log10_failure.round(), -25.0);
        assert!(groups[0].log10_failure > groups[1].log10_failure);
    }
}
