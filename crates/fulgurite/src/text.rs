//! Formats sizes, rates, counts, paths and times for people.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use fulgurite_domain::{ObjectName, is_hidden};

pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1_024 {
        return format!("{bytes} B");
    }
    let exponent = (bytes.ilog2() / 10).min(UNITS.len() as u32);
    let value = bytes as f64 / 1_024_f64.powi(exponent as i32);
    format!("{value:.1} {}", UNITS[exponent as usize - 1])
}

pub(crate) fn rate(amount: u64, time: Duration) -> String {
    per_second(amount as f64 / time.as_secs_f64().max(1e-6))
}

/// A rate in bytes per second.
pub(crate) fn per_second(rate: f64) -> String {
    format!("{}/s", bytes(rate as u64))
}

/// A count with thousands separators, and its noun. The plural ends in "s".
pub(crate) fn count(number: u64, noun: &str) -> String {
    phrase(number, noun, &format!("{noun}s"))
}

/// A count with thousands separators, and the words for one or for many.
pub(crate) fn phrase(number: u64, one: &str, many: &str) -> String {
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

/// The same on one line, so that a name can't look like a line of the answer, and without
/// characters that change the direction of text.
pub(crate) fn one_line(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

/// A path for people, on one line.
pub(crate) fn path(path: &Path) -> String {
    ObjectName(path.as_os_str().as_bytes().to_vec()).display()
}

/// A point of time in UTC, to the second.
pub(crate) fn time(seconds: i64) -> String {
    match time::OffsetDateTime::from_unix_timestamp(seconds) {
        Ok(at) => format!("{} {:02}:{:02}:{:02}", at.date(), at.hour(), at.minute(), at.second()),
        // A file system can claim any time.
        Err(_) => format!("{seconds} s since 1970"),
    }
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
    fn names_stay_on_their_line() {
        assert_eq!(one_line("ü 'a'\nAll is well\u{202e}\t"), "ü 'a'\\nAll is well\\u{202e}\\t");
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
        assert_eq!(count(1, "file"), "1 file");
        assert_eq!(count(1_234_567, "file"), "1,234,567 files");
    }
}
