//! Formats sizes, rates, counts, paths and times for people.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use fulgurite_domain::ObjectName;

/// A size with a binary unit.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1_024 {
        return format!("{bytes} B");
    }
    let exponent = (bytes.ilog2() / 10).min(UNITS.len() as u32);
    let value = bytes as f64 / 1_024_f64.powi(exponent as i32);
    format!("{value:.1} {}", UNITS[exponent as usize - 1])
}

/// A rate with a binary unit.
pub(crate) fn rate(amount: u64, time: Duration) -> String {
    format!("{}/s", bytes((amount as f64 / time.as_secs_f64().max(1e-6)) as u64))
}

/// A count with thousands separators and its noun.
pub(crate) fn count(number: u64, one: &str, many: &str) -> String {
    let mut digits = number.to_string();
    let mut at = digits.len();
    while at > 3 {
        at -= 3;
        digits.insert(at, ',');
    }
    format!("{digits} {}", if number == 1 { one } else { many })
}

/// Escapes control characters other than line breaks, so that a name in the text can't control the
/// terminal.
pub(crate) fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && c != '\n' { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

/// A path for people, on one line.
pub(crate) fn path(path: &Path) -> String {
    ObjectName(path.as_os_str().as_bytes().to_vec()).display()
}

/// A point of time in UTC, to the second.
pub(crate) fn time(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days since 0000-03-01, so that a leap day comes last in its year (H. Hinnant,
    // "chrono-compatible low-level date algorithms"). Times of files can be beyond the year 9999,
    // where the crate `time` ends.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", second / 3_600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_unit_that_fits() {
        assert_eq!([0, 1_023, 1_024, 1_536, 1 << 20, 5 << 30].map(bytes), ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "5.0 GiB"]);
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
    }

    #[test]
    fn times_follow_the_calendar() {
        assert_eq!(time(0), "1970-01-01 00:00:00");
        assert_eq!(time(951_782_399), "2000-02-28 23:59:59");
        assert_eq!(time(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(time(-1), "1969-12-31 23:59:59");
        assert_eq!(time(4_102_444_800), "2100-01-01 00:00:00");
    }

    #[test]
    fn control_characters_of_names_are_escaped() {
        assert_eq!(harmless("a\u{1b}[31m\nb"), "a\\u{1b}[31m\nb");
        assert_eq!(path(Path::new("a\u{1b}[31m\nb")), "a\\u{1b}[31m\\nb");
    }

    #[test]
    fn counts_are_grouped() {
        assert_eq!(count(1, "file", "files"), "1 file");
        assert_eq!(count(1_234_567, "file", "files"), "1,234,567 files");
    }
}
