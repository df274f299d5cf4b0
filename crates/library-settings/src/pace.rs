//! The machine times that controllers assume: the mean of each time that the machines draw.

use fulgurite_domain::Micros;
use fulgurite_library::Pace;
use fulgurite_mechanics::{DriveTimes, Service, Settings};

/// The pace of machines with these settings.
#[must_use]
pub fn pace(settings: &Settings) -> Pace {
    let Settings { motion, drive, .. } = settings;
    let (service_s, track_s) = match drive.service {
        Service::Tracks => (mean_seek_s(drive), drive.track_bytes as f64 / drive.throughput_bytes_s),
        Service::Fixed(seconds) | Service::Exponential(seconds) => (seconds, 0.0),
    };
    Pace {
        speed: motion.speed_m_s,
        acceleration: motion.acceleration_m_s2,
        positioning: Micros::from_seconds(motion.positioning_s),
        // Beta(2, 2) is symmetric.
        crab: Micros::from_seconds(motion.crab_s + motion.crab_spread_s / 2.0),
        pick: Micros::from_seconds(motion.pick_s),
        place: Micros::from_seconds(motion.place_s),
        track: Micros::from_seconds(track_s),
        visit: Micros::from_seconds(drive.switch_s + drive.mount_s + service_s + drive.unmount_s),
    }
}

/// Mean seek time: the mean of a lognormal law with median m, clamped at M. With z = ln(M/m) /
/// sigma it is m e^(sigma²/2) Phi(z - sigma) + M (1 - Phi(z)).
#[must_use]
pub fn mean_seek_s(drive: &DriveTimes) -> f64 {
    let (median, sigma, most) = (drive.seek_median_s, drive.seek_sigma, drive.seek_max_s);
    if sigma == 0.0 || median == 0.0 || most <= 0.0 {
        return median.min(most);
    }
    let phi = |z: f64| libm::erfc(-z / std::f64::consts::SQRT_2) / 2.0;
    let z = libm::log(most / median) / sigma;
    median * libm::exp(sigma * sigma / 2.0) * phi(z - sigma) + most * (1.0 - phi(z))
}

#[cfg(test)]
mod tests {
    use fulgurite_chance::Stream;

    use super::*;

    #[test]
    fn the_mean_seek_matches_the_mean_of_drawn_seeks() {
        for (seek_median_s, seek_sigma, seek_max_s) in [(0.6, 0.4, 2.0), (0.6, 1.2, 2.0), (0.6, 0.0, 2.0), (0.6, 0.4, 0.5)] {
            let drive = DriveTimes { seek_median_s, seek_sigma, seek_max_s, ..DriveTimes::default() };
            let mut stream = Stream::new(1, "seeks");
            let drawn = (0..200_000).map(|_| stream.lognormal(seek_median_s, seek_sigma).min(seek_max_s)).sum::<f64>() / 200_000.0;
            assert!((mean_seek_s(&drive) / drawn - 1.0).abs() < 0.005, "{} instead of {drawn}", mean_seek_s(&drive));
        }
    }

    #[test]
    fn the_default_pace_matches_the_default_machines() {
        let pace = pace(&Settings::default());
        let expected = Pace { visit: pace.visit, ..Pace::default() };
        assert_eq!(pace, expected);
        assert!((pace.visit.seconds() - 3.648).abs() < 0.005, "{}", pace.visit);
    }
}
