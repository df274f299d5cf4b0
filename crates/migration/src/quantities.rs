//! Quantities in words: sizes, rates, times, counts and shares.

const DAY_S: f64 = 86_400.0;

/// Bytes in decimal units, such as "1.5 GB".
#[must_use]
pub fn size(bytes: f64) -> String {
    const UNITS: [(&str, f64); 6] = [("EB", 1e18), ("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    let unit = UNITS.into_iter().find(|(_, unit)| bytes >= *unit);
    let Some((name, unit)) = unit else { return format!("{bytes:.0} B") };
    let value = bytes / unit;
    let digits = if value >= 99.95 { 0 } else { 1 };
    format!("{value:.digits$} {name}").replace(".0 ", " ")
}

/// Bytes per second, such as "80 MB/s".
#[must_use]
pub fn rate(bytes_s: f64) -> String {
    format!("{}/s", size(bytes_s))
}

/// A number with thousands separators.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).expect("digits")).collect();
    groups.join(",")
}

/// A time in the unit that fits, such as "4.8 d".
#[must_use]
pub fn time(seconds: f64) -> String {
    match seconds {
        s if s >= 2.0 * DAY_S => format!("{:.1} d", s / DAY_S),
        s if s >= 7_200.0 => format!("{:.1} h", s / 3_600.0),
        s if s >= 120.0 => format!("{:.1} min", s / 60.0),
        s => format!("{s:.1} s"),
    }
}

/// A short time, such as a gap: "1.5 ms" below a second.
#[must_use]
pub fn short_time(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.1} ms", seconds * 1e3) } else { time(seconds) }
}

/// A share in percent, such as "60 %".
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_the_unit_that_fits() {
        assert_eq!([0.0, 999.0, 1_000.0, 1.25e9, 250e12].map(size), ["0 B", "999 B", "1 kB", "1.2 GB", "250 TB"]);
        assert_eq!((rate(80e6), percent(0.604)), ("80 MB/s".into(), "60 %".into()));
        assert_eq!([1.0, 119.0, 120.0, 7_200.0, 172_800.0].map(time), ["1.0 s", "119.0 s", "2.0 min", "2.0 h", "2.0 d"]);
        assert_eq!([0.0, 0.0015, 2.0].map(short_time), ["0.0 ms", "1.5 ms", "2.0 s"]);
        assert_eq!([0, 999, 1_000, 12_345_678].map(grouped), ["0", "999", "1,000", "12,345,678"]);
    }
}
