//! Formats dates, counts, sizes and durations for people.

use time::OffsetDateTime;

/// A point of time in UTC, to the minute.
pub(super) fn time(seconds: u64) -> String {
    match i64::try_from(seconds).ok().and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok()) {
        Some(at) => format!("{} {:02}:{:02}", at.date(), at.hour(), at.minute()),
        None => format!("{seconds} s since 1970"),
    }
}

/// A day in UTC, counted from 1970.
pub(super) fn day(day: u64) -> String {
    let at = day.checked_mul(crate::node::DAY_S).and_then(|seconds| i64::try_from(seconds).ok());
    at.and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok())
        .map_or_else(|| format!("{day} days since 1970"), |at| at.date().to_string())
}

/// A count with thousands separators.
pub(super) fn count(number: u64) -> String {
    let mut digits = number.to_string();
    let mut at = digits.len();
    while at > 3 {
        at -= 3;
        digits.insert(at, ',');
    }
    digits
}

/// A number of copies.
pub(super) fn copies(number: u64) -> String {
    format!("{} {}", count(number), if number == 1 { "copy" } else { "copies" })
}

/// Writes bytes in decimal units, such as 1.5 GB.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1_000 {
        return format!("{bytes} B");
    }
    let exponent = (bytes.ilog10() / 3).min(UNITS.len() as u32);
    let value = bytes as f64 / libm::pow(1_000.0, f64::from(exponent));
    format!("{value:.1} {}", UNITS[exponent as usize - 1])
}

/// A number of days.
pub(super) fn days(days: f64) -> String {
    if days < 0.1 {
        "less than 0.1 days".into()
    } else if days == 1.0 {
        "1 day".into()
    } else if days < 100.0 && days.fract() != 0.0 {
        format!("{days:.1} days")
    } else if days < 1e6 {
        format!("{days:.0} days")
    } else {
        "over a million days".into()
    }
}

/// A ratio of times.
pub(super) fn factor(factor: f64) -> String {
    if factor < 10.0 { format!("{factor:.2}") } else { format!("{factor:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_written_in_units_that_fit() {
        assert_eq!((time(951_782_399), time(u64::MAX)), ("2000-02-28 23:59".into(), "18446744073709551615 s since 1970".into()));
        assert_eq!((day(0), day(u64::MAX)), ("1970-01-01".into(), "18446744073709551615 days since 1970".into()));
        assert_eq!((copies(1), copies(1_234_567)), ("1 copy".into(), "1,234,567 copies".into()));
        assert_eq!([0, 999, 1_000, 12_000_000_000_000, u64::MAX].map(bytes), ["0 B", "999 B", "1.0 kB", "12.0 TB", "18.4 EB"]);
        assert_eq!(
            [0.0, 1.0, 1.26, 90.0, 132.17, f64::INFINITY].map(days),
            ["less than 0.1 days", "1 day", "1.3 days", "90 days", "132 days", "over a million days"]
        );
    }
}
