//! RFC 3339 times, such as `2023-10-23T08:00:00.25+02:00`.

/// Microseconds since 1970 UTC, or `None` if the text is not such a time. Digits beyond
/// microseconds are dropped; a leap second counts as the first second of the next minute.
pub(super) fn parse_rfc3339(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let number = |from: usize, digits: usize| {
        let field = bytes.get(from..from + digits)?;
        field.iter().try_fold(0_i64, |number, digit| digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0')))
    };
    let is = |place: usize, any: &[u8]| bytes.get(place).is_some_and(|byte| any.contains(byte));
    if !(is(4, b"-") && is(7, b"-") && is(10, b"Tt ") && is(13, b":") && is(16, b":")) {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 2)?, number(8, 2)?);
    let (hour, minute, second) = (number(11, 2)?, number(14, 2)?, number(17, 2)?);
    let days = days_since_1970(year, month, day)?;
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut place = 19;
    let mut micros = 0;
    if is(place, b".") {
        let begin = place + 1;
        place = begin + bytes[begin..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if place == begin {
            return None;
        }
        for digit in 0..6 {
            micros = micros * 10 + if begin + digit < place { i64::from(bytes[begin + digit] - b'0') } else { 0 };
        }
    }
    let (offset_minutes, end) = if is(place, b"Zz") {
        (0, place + 1)
    } else if is(place, b"+-") && is(place + 3, b":") {
        let (hours, minutes) = (number(place + 1, 2)?, number(place + 4, 2)?);
        let ahead = hours * 60 + minutes;
        if hours > 23 || minutes > 59 {
            return None;
        }
        (if is(place, b"-") { -ahead } else { ahead }, place + 6)
    } else {
        return None;
    };
    let seconds = ((days * 24 + hour) * 60 + minute - offset_minutes) * 60 + second;
    (end == bytes.len()).then_some(seconds * 1_000_000 + micros)
}

/// `None` if the calendar has no such day.
fn days_since_1970(year: i64, month: i64, day: i64) -> Option<i64> {
    const BEGIN: i32 = time::UtcDateTime::UNIX_EPOCH.date().to_julian_day();
    let month = time::Month::try_from(u8::try_from(month).ok()?).ok()?;
    let date = time::Date::from_calendar_date(i32::try_from(year).ok()?, month, u8::try_from(day).ok()?).ok()?;
    Some(i64::from(date.to_julian_day() - BEGIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_match_the_calendar() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:00:00Z", 951_825_600),
            ("2023-10-23T08:00:00+02:00", 1_698_040_800),
            ("2023-10-23t06:00:00z", 1_698_040_800),
            ("2016-12-31T23:59:60Z", 1_483_228_800),
            ("1969-12-31 23:59:59-00:00", -1),
        ] {
            assert_eq!(parse_rfc3339(text), Some(seconds * 1_000_000), "{text}");
        }
        assert_eq!(parse_rfc3339("1970-01-01T00:00:01.2500009Z"), Some(1_250_000));
    }

    #[test]
    fn every_day_of_four_centuries_follows_the_one_before() {
        let first = days_since_1970(1800, 1, 1).expect("a day");
        let mut expected = first;
        for (year, month) in (1800..2200).flat_map(|year| (1..=12).map(move |month| (year, month))) {
            for found in (1..=31).filter_map(|day| days_since_1970(year, month, day)) {
                assert_eq!(found, expected);
                expected += 1;
            }
        }
        assert_eq!(expected - first, 146_097);
    }

    #[test]
    fn invalid_times_are_rejected() {
        for text in [
            "",
            "2023-10-23",
            "2023-10-23T08:00:00",
            "2023-13-23T08:00:00Z",
            "2023-02-29T08:00:00Z",
            "2023-10-23T24:00:00Z",
            "2023-10-23T08:00:00.Z",
            "2023-10-23T08:00:00Zx",
            "2023-10-23T08:00:00+2:00",
            "+023-10-23T08:00:00Z",
            "2023-10-23T08:00:00ü",
        ] {
            assert_eq!(parse_rfc3339(text), None, "{text}");
        }
    }
}
