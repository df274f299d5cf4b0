//! Quantiles of Student's t, from the incomplete beta function.

/// The quantile of Student's t distribution with `degrees` degrees of freedom. For a 95 % interval
/// over n runs, use `student_t_quantile(0.975, n - 1)`.
///
/// # Panics
/// If `degrees` is 0 or the probability isn't between 0 and 1.
///
/// Source: NIST Digital Library of Mathematical Functions, 8.17.5 and 8.17.22.
#[must_use]
pub fn student_t_quantile(probability: f64, degrees: u64) -> f64 {
    assert!(degrees > 0, "one run says nothing about the spread of runs");
    assert!(probability > 0.0 && probability < 1.0, "{probability} is not a probability between 0 and 1");
    // The smaller tail keeps more digits; the distribution is symmetric.
    let tail = probability.min(1.0 - probability);
    if tail == 0.5 {
        return 0.0;
    }
    let nu = degrees as f64;
    // 2 P(T > t) = I_x(nu/2, 1/2) with x = nu / (nu + t²), which falls as t grows.
    let upper_tail = |t: f64| 0.5 * incomplete_beta(nu / (nu + t * t), t * t / (nu + t * t), 0.5 * nu, 0.5);
    let (mut low, mut high) = (0.0, 1.0);
    while upper_tail(high) > tail && high < 1e150 {
        low = high;
        high *= 2.0;
    }
    loop {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            return if probability < 0.5 { -middle } else { middle };
        }
        if upper_tail(middle) > tail {
            low = middle;
        } else {
            high = middle;
        }
    }
}

/// The regularized incomplete beta function I_x(a, b). The caller passes `y` = 1 - x, because the
/// subtraction would lose digits.
fn incomplete_beta(x: f64, y: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if y <= 0.0 {
        return 1.0;
    }
    let front = libm::exp(a * libm::log(x) + b * libm::log(y) - libm::lgamma(a) - libm::lgamma(b) + libm::lgamma(a + b));
    // The fraction converges fast on this side only; symmetry gives the other side.
    if x < (a + 1.0) / (a + b + 2.0) { front * beta_fraction(x, a, b) / a } else { 1.0 - front * beta_fraction(y, b, a) / b }
}

/// The continued fraction of DLMF 8.17.22, evaluated by Lentz's method.
fn beta_fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for m in 1..10_000 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut step = 1.0;
        for term in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + term * d);
            c = away_from_zero(1.0 + term / c);
            step = d * c;
            fraction *= step;
        }
        if (step - 1.0).abs() < 1e-16 {
            break;
        }
    }
    fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_match_the_published_tables() {
        // NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2, three decimals.
        for (probability, degrees, wanted) in [
            (0.975, 1, 12.706),
            (0.975, 2, 4.303),
            (0.975, 4, 2.776),
            (0.975, 9, 2.262),
            (0.975, 29, 2.045),
            (0.975, 100, 1.984),
            (0.90, 1, 3.078),
            (0.95, 10, 1.812),
            (0.99, 5, 3.365),
            (0.995, 9, 3.250),
            (0.999, 3, 10.215),
        ] {
            let found = student_t_quantile(probability, degrees);
            assert!((found - wanted).abs() < 0.000_6, "{found} instead of {wanted} at {probability} and {degrees}");
        }
    }

    #[test]
    fn quantiles_match_the_closed_forms() {
        // One degree: t = tan(pi (p - 1/2)). Two: t = (2p - 1) sqrt(2 / (4 p (1 - p))).
        for probability in [0.5, 0.55, 0.75, 0.9, 0.975, 0.999, 0.999_999] {
            let one = libm::tan(std::f64::consts::PI * (probability - 0.5));
            let two = (2.0 * probability - 1.0) * (2.0 / (4.0 * probability * (1.0 - probability))).sqrt();
            for (degrees, wanted) in [(1, one), (2, two)] {
                let found = student_t_quantile(probability, degrees);
                assert!((found - wanted).abs() <= 1e-9 * wanted.max(1.0), "{found} instead of {wanted} at {probability} and {degrees}");
            }
        }
    }

    #[test]
    fn many_degrees_approach_the_normal_distribution_and_quantiles_are_symmetric() {
        assert!((student_t_quantile(0.975, 10_000_000) - 1.959_964).abs() < 1e-5);
        assert_eq!(student_t_quantile(0.25, 7), -student_t_quantile(0.75, 7));
    }
}
