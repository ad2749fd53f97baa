//! Dates and times as the log writes them.

/// Microseconds in a millisecond.
pub(crate) const MICROS_PER_MILLI: i64 = 1_000;
const MICROS_PER_SECOND: i64 = 1_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// The last year that a date is read of. Microseconds in 64 bits end before it, and days in 32 bits after it.
const MOST_YEARS: i64 = 999_999;

/// The most seconds that an offset loses when it is cut to minutes.
const MOST_CUT_SECONDS: i64 = 59;

/// Days since the epoch of `year-month-day`; none for anything else. Years that do not have four digits have a sign.
pub(crate) fn parse_date(text: &str) -> Option<i64> {
    let (sign, years, text) = match text.as_bytes().first()? {
        b'+' => (1, 10_000..=MOST_YEARS, &text[1..]),
        b'-' => (-1, 0..=MOST_YEARS, &text[1..]),
        _ => (1, 0..=9_999, text),
    };
    let mut parts = text.splitn(3, '-');
    let year: i64 = digits(parts.next()?)?;
    let month: i64 = digits(parts.next()?)?;
    let day: i64 = digits(parts.next()?)?;
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || !years.contains(&year) {
        return None;
    }
    Some(days_from_civil(sign * year, month, day))
}

/// Microseconds since the epoch of `date time` or `dateTtime`, in UTC or with an offset; none for anything else.
#[must_use]
pub fn parse_timestamp(text: &str) -> Option<i64> {
    let (date, rest) = text.split_once(['T', ' '])?;
    let (clock, offset) = split_offset(rest)?;
    let (whole, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let mut parts = whole.splitn(3, ':');
    let hours = digits(parts.next()?)?;
    let minutes = digits(parts.next()?)?;
    let seconds = digits(parts.next()?)?;
    if hours > 23 || minutes > 59 || seconds > 60 || fraction.len() > 9 {
        return None;
    }
    // Bytes are cut below.
    if !fraction.is_ascii() {
        return None;
    }
    let micros = digits(&format!("{fraction:0<6}")[..6])?;
    let day_seconds = hours * 3_600 + minutes * 60 + seconds - offset;
    let seconds = parse_date(date)? * SECONDS_PER_DAY + day_seconds;
    seconds.checked_mul(MICROS_PER_SECOND)?.checked_add(micros)
}

/// The microseconds that a bound in statistics may stand for, from the first to the last; none for anything else.
///
/// delta-spark 3.2 and 3.3 write the offset of the session's time zone without its seconds, which zones had before
/// they had standard time, so that such a bound is up to 59 s off. UTC has none to lose, and neither has a time without
/// a zone.
#[must_use]
pub fn parse_bound(text: &str) -> Option<(i64, i64)> {
    let moment = parse_timestamp(text)?;
    let (_, clock) = text.split_once(['T', ' '])?;
    let is_whole = clock.ends_with('Z') || !clock.contains(['+', '-']);
    let slack = if is_whole {
        0
    } else {
        MOST_CUT_SECONDS * MICROS_PER_SECOND
    };
    Some((moment.saturating_sub(slack), moment.saturating_add(slack)))
}

/// Microseconds since the epoch of a timestamp, or of the midnight that a date begins with; none for anything else.
#[must_use]
pub fn parse_moment(text: &str) -> Option<i64> {
    parse_timestamp(text).or_else(|| parse_date(text)?.checked_mul(SECONDS_PER_DAY * MICROS_PER_SECOND))
}

/// Splits off the offset: the time of day, and the seconds that its zone is ahead of UTC.
fn split_offset(text: &str) -> Option<(&str, i64)> {
    if let Some(clock) = text.strip_suffix('Z') {
        return Some((clock, 0));
    }
    let Some(at) = text.find(['+', '-']) else {
        return Some((text, 0));
    };
    let (hours, minutes) = text[at + 1..].split_once(':')?;
    let seconds = digits(hours)? * 3_600 + digits(minutes)? * 60;
    let sign = if text.as_bytes()[at] == b'-' { -1 } else { 1 };
    Some((&text[..at], sign * seconds))
}

fn digits(text: &str) -> Option<i64> {
    let ok = !text.is_empty() && text.len() <= 9 && text.bytes().all(|b| b.is_ascii_digit());
    if ok { text.parse().ok() } else { None }
}

/// Days since the epoch in the proleptic Gregorian calendar, counted in years that begin in March.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    const DAYS_PER_ERA: i64 = 146_097;
    const EPOCH_IN_ERAS: i64 = 719_468;
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * DAYS_PER_ERA + day_of_era - EPOCH_IN_ERAS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_count_from_the_epoch() {
        for (text, days) in [
            ("1970-01-01", 0),
            ("1969-12-31", -1),
            ("2000-02-29", 11_016),
            ("2024-12-31", 20_088),
            ("+10000-01-01", 2_932_897),
            ("-0001-01-01", -719_893),
        ] {
            assert_eq!(parse_date(text), Some(days), "{text}");
        }
        for text in ["1970-13-01", "today", "1970-01", "+1970-01-01", "10000-01-01", ""] {
            assert_eq!(parse_date(text), None, "{text}");
        }
    }

    #[test]
    fn bounds_with_an_offset_may_have_lost_its_seconds() {
        for text in ["1850-01-01T00:07:33Z", "1850-01-01T00:07:33"] {
            let moment = parse_timestamp(text).unwrap();
            assert_eq!(parse_bound(text), Some((moment, moment)));
        }
        let moment = parse_timestamp("1850-01-01T00:07:33Z").unwrap();
        for text in [
            "1850-01-01T01:01:01+00:53",
            "1850-01-01T00:06:01-00:01",
            "1850-01-01T00:07:00-00:00",
            "1850-01-01T00:08:00+00:00",
        ] {
            let (first, last) = parse_bound(text).unwrap();
            assert!(first <= moment && moment <= last, "{text}");
            assert_eq!(last - first, 2 * 59_000_000);
        }
        assert_eq!(parse_bound("1850-01-01"), None);
    }

    #[test]
    fn one_moment_has_many_spellings() {
        let moment = 86_400_000_000 + 3_723_123_456;
        for text in [
            "1970-01-02 01:02:03.123456",
            "1970-01-02T01:02:03.123456Z",
            "1970-01-02T02:02:03.123456+01:00",
            "1970-01-01T23:32:03.123456-01:30",
        ] {
            assert_eq!(parse_timestamp(text), Some(moment), "{text}");
        }
        assert_eq!(parse_timestamp("1970-01-01"), None);
        assert_eq!(parse_moment("1970-01-02"), Some(86_400_000_000));
        assert_eq!(parse_moment("1970-01-01T00:00:01"), Some(1_000_000));
        assert_eq!(parse_moment("today"), None);
        assert_eq!(parse_timestamp("1970-01-01T25:00:00Z"), None);
    }
}
