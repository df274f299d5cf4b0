//! Dates and times as inventories state them.

/// What is wrong with a date and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MomentFault {
    /// No offset from UTC, and no `Z`.
    #[error("it has no time zone")]
    Zone,
    /// No seconds.
    #[error("it has no seconds")]
    Seconds,
    /// Not a date and time at all.
    #[error("it is not a date and time as in RFC 3339")]
    Form,
    /// A month, day, hour, minute, second or offset that doesn't exist.
    #[error("there is no such date or time")]
    Range,
}

/// Checks a date and time of RFC 3339, 5.6, such as `2026-11-25T07:26:23Z`.
///
/// # Errors
/// What is wrong with it.
pub fn check_moment(text: &str) -> Result<(), MomentFault> {
    let mut rest = text.as_bytes();
    let year = number(&mut rest, 4)?;
    byte(&mut rest, b"-")?;
    let month = number(&mut rest, 2)?;
    byte(&mut rest, b"-")?;
    let day = number(&mut rest, 2)?;
    byte(&mut rest, b"Tt ")?;
    let hour = number(&mut rest, 2)?;
    byte(&mut rest, b":")?;
    let minute = number(&mut rest, 2)?;
    if rest.first() != Some(&b':') {
        return Err(if rest.is_empty() || is_zone(rest) { MomentFault::Seconds } else { MomentFault::Form });
    }
    rest = &rest[1..];
    let second = number(&mut rest, 2)?;
    if rest.first() == Some(&b'.') {
        let digits = rest[1..].iter().take_while(|digit| digit.is_ascii_digit()).count();
        if digits == 0 {
            return Err(MomentFault::Form);
        }
        rest = &rest[1 + digits..];
    }
    if rest.is_empty() {
        return Err(MomentFault::Zone);
    }
    if !is_zone(rest) {
        return Err(MomentFault::Form);
    }
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return Err(MomentFault::Range),
    };
    let zone_in_range = rest.len() == 1 || (two_digits(&rest[1..3]) < 24 && two_digits(&rest[4..6]) < 60);
    // 60 is a leap second.
    if day == 0 || day > days || hour > 23 || minute > 59 || second > 60 || !zone_in_range {
        return Err(MomentFault::Range);
    }
    Ok(())
}

/// `Z`, or a sign, two digits, a colon and two digits.
fn is_zone(text: &[u8]) -> bool {
    match text {
        [b'Z' | b'z'] => true,
        [b'+' | b'-', a, b, b':', c, d] => [a, b, c, d].into_iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

fn two_digits(text: &[u8]) -> u32 {
    text.iter().fold(0, |value, digit| 10 * value + u32::from(digit - b'0'))
}

fn byte(rest: &mut &[u8], allowed: &[u8]) -> Result<(), MomentFault> {
    let (first, others) = rest.split_first().ok_or(MomentFault::Form)?;
    *rest = others;
    if allowed.contains(first) { Ok(()) } else { Err(MomentFault::Form) }
}

fn number(rest: &mut &[u8], digits: usize) -> Result<u32, MomentFault> {
    let (now, later) = rest.split_at_checked(digits).ok_or(MomentFault::Form)?;
    *rest = later;
    if now.iter().all(u8::is_ascii_digit) { Ok(two_digits(now)) } else { Err(MomentFault::Form) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_times_of_rfc_3339_are_accepted() {
        // The first five are RFC 3339's own examples (5.8).
        for text in [
            "1985-04-12T23:20:50.52Z",
            "1996-12-19T16:39:57-08:00",
            "1990-12-31T23:59:60Z",
            "1990-12-31T15:59:60-08:00",
            "1937-01-01T12:00:27.87+00:20",
            "2000-02-29t00:00:00z",
            "2021-03-31T08:22:37.241208990-05:00",
        ] {
            assert_eq!(check_moment(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn incomplete_and_impossible_times_are_told_apart() {
        for (text, fault) in [
            ("2019-01-01T02:03:04", MomentFault::Zone),
            ("2019-01-01T02:03:04.5", MomentFault::Zone),
            ("2019-01-01T02:03Z", MomentFault::Seconds),
            ("2019-01-01T02:03", MomentFault::Seconds),
            ("2019-01-01T01:02+01:00", MomentFault::Seconds),
            ("2019-01-01", MomentFault::Form),
            ("", MomentFault::Form),
            ("yesterday", MomentFault::Form),
            ("2019-01-01T02:03:04.Z", MomentFault::Form),
            ("2019-01-01T02:03:04+0100", MomentFault::Form),
            ("2019-01-01T02:03:04Zulu", MomentFault::Form),
            ("2019-13-01T02:03:04Z", MomentFault::Range),
            ("2019-02-29T02:03:04Z", MomentFault::Range),
            ("1900-02-29T02:03:04Z", MomentFault::Range),
            ("2019-01-01T24:03:04Z", MomentFault::Range),
            ("2019-01-01T02:03:04+24:00", MomentFault::Range),
            ("2019-01-00T02:03:04Z", MomentFault::Range),
        ] {
            assert_eq!(check_moment(text), Err(fault), "{text}");
        }
    }
}
