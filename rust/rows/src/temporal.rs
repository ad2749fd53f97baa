//! Dates, times and instants: parsing, and conversion between units.

use arrow_schema::TimeUnit;

pub(crate) const NANOS_PER_DAY: i64 = 86_400_000_000_000;
const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// A point in time, or on a calendar without a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instant {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds after them.
    pub nanos: u32,
    /// True if its source gave a zone or an offset from UTC.
    pub zoned: bool,
}

impl Instant {
    /// The instant of a clock with this reading, in years 1 to 9999.
    #[inline]
    #[must_use]
    pub fn of_clock(date: (u32, u32, u32), time: (u32, u32, u32), micros: u32, zoned: bool) -> Self {
        let (hour, minute, second) = time;
        let days = i64::from(days_since_epoch(date.0, date.1, date.2));
        Self {
            seconds: days * 86_400 + i64::from(hour * 3600 + minute * 60 + second),
            nanos: micros * 1_000,
            zoned,
        }
    }

    /// Ticks since 1970, rounded down; none where they do not fit.
    #[inline]
    #[must_use]
    pub fn ticks(self, unit: TimeUnit) -> Option<i64> {
        let nanos = i64::from(self.nanos);
        match unit {
            TimeUnit::Second => Some(self.seconds),
            TimeUnit::Millisecond => self.seconds.checked_mul(1_000)?.checked_add(nanos / 1_000_000),
            TimeUnit::Microsecond => self.seconds.checked_mul(1_000_000)?.checked_add(nanos / 1_000),
            TimeUnit::Nanosecond => {
                i64::try_from(i128::from(self.seconds) * NANOS_PER_SECOND + i128::from(nanos)).ok()
            }
        }
    }
}

/// Nanoseconds of one tick.
pub(crate) const fn tick_nanos(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

/// Ticks of a number of nanoseconds, rounded down; none where they do not fit.
pub(crate) fn ticks_of(nanos: i128, unit: TimeUnit) -> Option<i64> {
    i64::try_from(nanos.div_euclid(i128::from(tick_nanos(unit)))).ok()
}

/// The number that a unit is called by.
pub(crate) const fn unit_name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "seconds",
        TimeUnit::Millisecond => "milliseconds",
        TimeUnit::Microsecond => "microseconds",
        TimeUnit::Nanosecond => "nanoseconds",
    }
}

/// Parses a date and time of RFC 3339. Without an offset it is a local time.
#[inline]
pub(crate) fn parse_instant(text: &str) -> Option<Instant> {
    let (head, mut rest) = text.as_bytes().split_first_chunk::<19>()?;
    if !matches!(head[10], b'T' | b't' | b' ') {
        return None;
    }
    let days = date_of(&head[..10])?;
    let clock = clock_of(&head[11..])?;
    let mut nanos = 0;
    if let Some((b'.', fraction)) = rest.split_first() {
        (nanos, rest) = fraction_of(fraction)?;
    }
    let offset = match rest {
        [] => None,
        [b'Z' | b'z'] => Some(0),
        [sign @ (b'+' | b'-'), hours @ .., b':', tens, ones] => {
            let (hours, minutes) = (two_digits(hours)?, two_digits(&[*tens, *ones])?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            let seconds = i64::from(hours * 3600 + minutes * 60);
            Some(if *sign == b'+' { seconds } else { -seconds })
        }
        _ => return None,
    };
    Some(Instant {
        seconds: i64::from(days) * 86_400 + i64::from(clock) - offset.unwrap_or(0),
        nanos,
        zoned: offset.is_some(),
    })
}

/// Days since 1970 of an RFC 3339 date.
pub(crate) fn parse_date(text: &str) -> Option<i32> {
    date_of(text.as_bytes())
}

/// Nanoseconds since midnight of a time such as `13:05` or `13:05:09.25`.
pub(crate) fn parse_time(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    if bytes.len() == 5 {
        return parse_time(&format!("{text}:00"));
    }
    let (clock, rest) = bytes.split_first_chunk::<8>()?;
    let seconds = clock_of(clock)?;
    let nanos = match rest.split_first() {
        None => 0,
        Some((b'.', fraction)) => match fraction_of(fraction)? {
            (nanos, []) => nanos,
            _ => return None,
        },
        Some(_) => return None,
    };
    Some(i64::from(seconds) * 1_000_000_000 + i64::from(nanos))
}

#[inline]
fn two_digits(digits: &[u8]) -> Option<u32> {
    let [tens, ones] = digits else { return None };
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    (tens < 10 && ones < 10).then(|| u32::from(tens) * 10 + u32::from(ones))
}

#[inline]
fn date_of(text: &[u8]) -> Option<i32> {
    let [c0, c1, y0, y1, b'-', m0, m1, b'-', d0, d1] = text else {
        return None;
    };
    let year = two_digits(&[*c0, *c1])? * 100 + two_digits(&[*y0, *y1])?;
    let (month, day) = (two_digits(&[*m0, *m1])?, two_digits(&[*d0, *d1])?);
    if !(1..=12).contains(&month) || day < 1 || day > days_in(year, month) {
        return None;
    }
    Some(days_since_epoch(year, month, day))
}

#[inline]
fn days_in(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 in the proleptic Gregorian calendar, for years 0 to 9999.
#[inline]
fn days_since_epoch(year: u32, month: u32, day: u32) -> i32 {
    // Years begin in March, so that the leap day is the last one; 400 years are added to stay above zero.
    let year = year + 400 - u32::from(month <= 2);
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era * 146_097 + day_of_era;
    days.cast_signed() - 146_097 - 719_468
}

/// Seconds since midnight of `hh:mm:ss`.
#[inline]
fn clock_of(text: &[u8]) -> Option<u32> {
    let [h0, h1, b':', m0, m1, b':', s0, s1] = text else {
        return None;
    };
    let (hour, minute, second) = (
        two_digits(&[*h0, *h1])?,
        two_digits(&[*m0, *m1])?,
        two_digits(&[*s0, *s1])?,
    );
    (hour < 24 && minute < 60 && second < 60).then_some(hour * 3600 + minute * 60 + second)
}

/// The nanoseconds of a fraction's digits, rounded down, and the text after them.
#[inline]
fn fraction_of(text: &[u8]) -> Option<(u32, &[u8])> {
    let (mut nanos, mut weight) = (0, 100_000_000);
    let mut count = 0;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        nanos += u32::from(digit) * weight;
        weight /= 10;
        count += 1;
    }
    (count > 0).then(|| (nanos, &text[count..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(text: &str) -> Option<(i64, u32, bool)> {
        parse_instant(text).map(|instant| (instant.seconds, instant.nanos, instant.zoned))
    }

    #[test]
    fn instants_are_read_with_their_offset() {
        assert_eq!(seconds("1970-01-01T00:00:00Z"), Some((0, 0, true)));
        assert_eq!(seconds("1969-12-31T23:59:59.5z"), Some((-1, 500_000_000, true)));
        assert_eq!(seconds("2000-02-29 12:00:00+01:30"), Some((951_820_200, 0, true)));
        assert_eq!(seconds("2026-01-01T00:00:00"), Some((1_767_225_600, 0, false)));
        assert_eq!(
            seconds("0001-01-01T00:00:00-00:00"),
            Some((-62_135_596_800, 0, true))
        );
        assert_eq!(
            seconds("2026-01-01T00:00:00.1234567899Z"),
            Some((1_767_225_600, 123_456_789, true))
        );
    }

    #[test]
    fn what_is_no_instant_is_refused() {
        for text in [
            "",
            "2026-01-01",
            "2026-13-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:60Z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00+1:00",
            "2026-01-01T00:00:00ZZ",
            "2026-01-01T00:00:00+24:00",
            "2026-00-01T00:00:00Z",
            "２０２６-01-01T00:00:00Z",
        ] {
            assert_eq!(parse_instant(text), None, "{text}");
        }
    }

    #[test]
    fn every_day_is_the_day_before_and_one() {
        let mut last = days_since_epoch(0, 1, 1) - 1;
        for year in 0..=2400 {
            for month in 1..=12 {
                for day in 1..=days_in(year, month) {
                    let days = days_since_epoch(year, month, day);
                    assert_eq!(days, last + 1, "{year}-{month}-{day}");
                    last = days;
                }
            }
        }
        assert_eq!(days_since_epoch(1970, 1, 1), 0);
    }

    #[test]
    fn times_have_seconds_or_not() {
        assert_eq!(parse_time("13:05"), Some(47_100_000_000_000));
        assert_eq!(parse_time("00:00:00.000000001"), Some(1));
        assert_eq!(parse_time("00:00:00.1x"), None);
    }
}
