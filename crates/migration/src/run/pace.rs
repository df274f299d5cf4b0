//! When a run ends, by the pace so far.

/// Intervals that are kept.
const INTERVALS: usize = 64;
/// Standard deviations of a two-sided 95 % confidence interval.
const DEVIATIONS: f64 = 1.96;
/// Intervals from which an interval of the end is estimated.
const INTERVALS_MIN: usize = 4;

/// Bytes in equal intervals of time. When there are many, each two become one, so the memory is
/// bounded however long a run takes.
#[derive(Debug, Clone)]
pub struct Pace {
    width_s: f64,
    began_s: f64,
    bytes: Vec<f64>,
    current: f64,
}

/// The seconds that are left.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Left {
    /// By the mean rate.
    pub mean_s: f64,
    /// The 95 % confidence interval, if the rate varied enough to say something; it knows nothing
    /// of what hasn't happened yet.
    pub interval_s: Option<(f64, f64)>,
}

impl Pace {
    /// A pace that begins at an instant, in seconds.
    #[must_use]
    pub fn new(now_s: f64) -> Self {
        Self { width_s: 1.0, began_s: now_s, bytes: Vec::new(), current: 0.0 }
    }

    /// More bytes arrived. Instants never decrease.
    pub fn add(&mut self, now_s: f64, bytes: u64) {
        while now_s >= self.began_s + self.width_s {
            self.began_s += self.width_s;
            self.bytes.push(std::mem::take(&mut self.current));
            if self.bytes.len() == INTERVALS {
                self.bytes = self.bytes.chunks(2).map(|pair| pair.iter().sum()).collect();
                self.width_s *= 2.0;
            }
        }
        self.current += bytes as f64;
    }

    /// The time that so many bytes will take; `None` without a finished interval in which some
    /// arrived.
    #[must_use]
    pub fn left(&self, bytes: u64) -> Option<Left> {
        let (count, left) = (self.bytes.len() as f64, bytes as f64);
        let mean = self.bytes.iter().sum::<f64>() / count / self.width_s;
        if self.bytes.is_empty() || mean <= 0.0 {
            return None;
        }
        let variance = self.bytes.iter().map(|bytes| (bytes / self.width_s - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let error = DEVIATIONS * (variance / count).sqrt();
        let is_known = self.bytes.len() >= INTERVALS_MIN && error < mean;
        Some(Left { mean_s: left / mean, interval_s: is_known.then(|| (left / (mean + error), left / (mean - error))) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_follows_from_the_rate_so_far() {
        let mut pace = Pace::new(100.0);
        assert_eq!(pace.left(1_000), None);
        for second in 0..1_000 {
            pace.add(100.0 + f64::from(second) + 0.5, if second % 2 == 0 { 150 } else { 50 });
        }
        let left = pace.left(1_000_000).expect("a rate is known");
        assert!((left.mean_s - 10_000.0).abs() < 200.0, "{left:?}");
        let (low, high) = left.interval_s.expect("an interval");
        assert!(low <= left.mean_s && left.mean_s <= high && high < 11_000.0, "{left:?}");
        assert!(pace.bytes.len() <= INTERVALS);
    }

    #[test]
    fn without_enough_evidence_there_is_no_interval() {
        let mut pace = Pace::new(0.0);
        pace.add(0.5, 100);
        pace.add(5.5, 0);
        let left = pace.left(1_000).expect("a rate");
        assert!((left.mean_s - 50.0).abs() < 1e-9 && left.interval_s.is_none(), "{left:?}");
    }
}
