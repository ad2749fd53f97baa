//! The literals of conditions, each in the type of the column that it is compared with.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array, StringArray,
    TimestampMicrosecondArray,
};
use arrow_schema::DataType;
use chrono::{NaiveDate, NaiveDateTime, NaiveTime, TimeDelta};

use crate::schema::{Kind, Primitive};

use super::Purpose;
use super::bind::{decimal_of, digits_of};
use super::parse::{Literal, Number};

/// The digits of the widest decimal.
pub(super) const MOST_DIGITS: u8 = 38;

/// The digits of a number with a fraction that a double keeps.
const MOST_FRACTIONAL: u8 = 15;

/// Whole numbers up to this one are the same in single precision.
const MOST_SINGLE: i128 = 1 << 24;

/// Microseconds of a day.
const MICROS_PER_DAY: i64 = 86_400_000_000;

/// A literal as an array of one value, in the type in which it is compared with a column. The error is in words that
/// follow "compared with".
pub(super) fn value_of(kind: &Kind, literal: &Literal, purpose: Purpose) -> Result<ArrayRef, String> {
    use Primitive::{
        Boolean, Byte, Date, Double, Float, Integer, Long, Short, String as Text, Timestamp, TimestampNtz,
    };
    let double = |value: f64| -> ArrayRef { Arc::new(Float64Array::from(vec![value])) };
    if let (Some(digits), Literal::Number(number)) = (digits_of(kind), literal) {
        return exact(kind, digits, *number, purpose);
    }
    let Kind::Primitive(primitive) = kind else {
        return Err(format!("a literal of this type: {}", accepted(kind, purpose)));
    };
    let value: ArrayRef = match (primitive, literal) {
        (Boolean, Literal::Boolean(value)) => Arc::new(BooleanArray::from(vec![*value])),
        (Float, Literal::Number(number)) if number.scale == 0 && number.unscaled.abs() > MOST_SINGLE => {
            return Err("so large a whole number, which single precision would round".to_owned());
        }
        (Float | Double, Literal::Number(number)) => double(number.to_double().ok_or("this number")?),
        (Byte | Short | Integer | Long | Float | Double, Literal::Double(value)) => double(*value),
        (Text, Literal::Text(text)) => Arc::new(StringArray::from(vec![text.as_str()])),
        (Date, Literal::Date(text) | Literal::Text(text)) => Arc::new(Date32Array::from(vec![of_day(text)?])),
        (Timestamp, Literal::Timestamp(text) | Literal::Text(text)) => {
            let micros = moment(text).ok_or_else(|| {
                format!("'{text}', which is no time with a zone, such as '2026-01-31 12:00:00Z'")
            })?;
            Arc::new(TimestampMicrosecondArray::from(vec![micros]).with_timezone("UTC"))
        }
        (TimestampNtz, Literal::Text(text)) => of_clock(text)?,
        // A constraint has none: Spark reads the literal in the zone of its session.
        (TimestampNtz, Literal::Timestamp(text)) if purpose == Purpose::Asked => of_clock(text)?,
        (TimestampNtz, Literal::Date(text)) if purpose == Purpose::Asked => {
            let midnight = i64::from(of_day(text)?) * MICROS_PER_DAY;
            Arc::new(TimestampMicrosecondArray::from(vec![midnight]))
        }
        _ => return Err(format!("a literal of this type: {}", accepted(kind, purpose))),
    };
    Ok(value)
}

/// The words for the literals that a column of this type is compared with.
fn accepted(kind: &Kind, purpose: Purpose) -> &'static str {
    use Primitive::{
        Binary, Boolean, Byte, Date, Double, Float, Integer, Long, Short, String as Text, Timestamp,
        TimestampNtz,
    };
    match kind {
        Kind::Decimal(..) | Kind::Primitive(Byte | Short | Integer | Long | Float | Double) => {
            "give a number such as 7 or -0.5"
        }
        Kind::Primitive(Boolean) => "give TRUE or FALSE",
        Kind::Primitive(Text) => "give a text such as 'a'",
        Kind::Primitive(Date) => "give DATE '2026-01-31'",
        Kind::Primitive(Timestamp) => "give TIMESTAMP '2026-01-31 12:00:00Z'",
        Kind::Primitive(TimestampNtz) if purpose == Purpose::Asked => "give TIMESTAMP '2026-01-31 12:00:00'",
        Kind::Primitive(TimestampNtz) => "give '2026-01-31 12:00:00'",
        Kind::Primitive(Binary) | Kind::Struct(_) | Kind::Array(..) | Kind::Map(..) => {
            "it goes with IS NULL alone"
        }
    }
}

fn of_day(text: &str) -> Result<i32, String> {
    days(text).ok_or_else(|| format!("'{text}', which is no date such as '2026-01-31'"))
}

fn of_clock(text: &str) -> Result<ArrayRef, String> {
    let micros = clock(text)
        .ok_or_else(|| format!("'{text}', which is no time without a zone, such as '2026-01-31 12:00:00'"))?;
    Ok(Arc::new(TimestampMicrosecondArray::from(vec![micros])))
}

/// A number for the comparison with a column of exact numbers.
fn exact(kind: &Kind, digits: (u8, u8), number: Number, purpose: Purpose) -> Result<ArrayRef, String> {
    // DataFusion takes it for a double first.
    if purpose != Purpose::Asked && number.scale > 0 && number.digits > MOST_FRACTIONAL {
        return Err(format!(
            "a fraction of more than {MOST_FRACTIONAL} digits, which delta-rs would round"
        ));
    }
    if matches!(kind, Kind::Primitive(_)) {
        match i64::try_from(number.unscaled / 10_i128.pow(number.scale.into())) {
            Ok(whole) if number.scale == 0 => return Ok(Arc::new(Int64Array::from(vec![whole]))),
            // Spark takes nulls for true where no long is as large.
            Err(_) if purpose != Purpose::Asked => return Err("a number beyond the longs".to_owned()),
            Ok(_) | Err(_) => {}
        }
    }
    let too_long = || format!("this number: it takes decimals of more than {MOST_DIGITS} digits");
    let data_type = decimal_of(digits, (number.digits, number.scale)).ok_or_else(too_long)?;
    let DataType::Decimal128(_, scale) = data_type else {
        return Err(too_long());
    };
    let more = u32::try_from(scale).map_err(|_| too_long())? - u32::from(number.scale);
    let unscaled = 10_i128
        .checked_pow(more)
        .and_then(|factor| number.unscaled.checked_mul(factor))
        .ok_or_else(too_long)?;
    Ok(Arc::new(
        Decimal128Array::from(vec![unscaled]).with_data_type(data_type),
    ))
}

/// The date `2026-01-31`, in no other spelling.
fn date(text: &str) -> Option<NaiveDate> {
    let is_plain = is_like(text, b"0000-00-00");
    text.parse().ok().filter(|_| is_plain)
}

/// Returns true if a text has the signs of a pattern, and any digit where that has one.
fn is_like(text: &str, pattern: &[u8]) -> bool {
    let mut pairs = text.bytes().zip(pattern);
    let is_one = |(byte, sign): (u8, &u8)| byte == *sign || (*sign == b'0' && byte.is_ascii_digit());
    text.len() == pattern.len() && pairs.all(is_one)
}

/// Days since the epoch of a date.
fn days(text: &str) -> Option<i32> {
    let days = date(text)?.signed_duration_since(NaiveDate::default());
    i32::try_from(days.num_days()).ok()
}

/// Microseconds since the epoch of a time with a zone: `Z` or an offset such as `+01:00`.
fn moment(text: &str) -> Option<i64> {
    let (clock, zone) = clock_and_rest(text)?;
    Some(clock.and_utc().timestamp_micros() - offset_micros(zone)?)
}

/// Microseconds of a clock without a zone.
fn clock(text: &str) -> Option<i64> {
    let (clock, rest) = clock_and_rest(text)?;
    rest.is_empty().then(|| clock.and_utc().timestamp_micros())
}

/// The clock that a text begins with, `2026-01-31 12:00:00.000000` with a fraction of one to six digits or none and
/// perhaps a `T`, and what follows. All engines read it alike.
fn clock_and_rest(text: &str) -> Option<(NaiveDateTime, &str)> {
    let (day, rest) = text.split_at_checked(10)?;
    let (time, rest) = rest.strip_prefix([' ', 'T'])?.split_at_checked(8)?;
    // A leap second has no place in a table.
    if !is_like(time, b"00:00:00") || &time[6..] > "59" {
        return None;
    }
    let time: NaiveTime = time.parse().ok()?;
    let (micros, rest) = match rest.strip_prefix('.') {
        None => (0, rest),
        Some(fraction) => {
            let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
            let (digits, rest) = fraction.split_at(digits);
            if !(1..=6).contains(&digits.len()) {
                return None;
            }
            (format!("{digits:0<6}").parse().ok()?, rest)
        }
    };
    let clock = date(day)?.and_time(time) + TimeDelta::microseconds(micros);
    Some((clock, rest))
}

/// Microseconds that a zone is ahead of UTC, 18 hours at most.
fn offset_micros(zone: &str) -> Option<i64> {
    if zone == "Z" {
        return Some(0);
    }
    let (sign, ahead) = match zone.strip_prefix('-') {
        Some(behind) => (-1, behind),
        None => (1, zone.strip_prefix('+')?),
    };
    let (hours, minutes) = ahead.split_once(':').filter(|_| is_like(ahead, b"00:00"))?;
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    let all = hours * 60 + minutes;
    (minutes < 60 && all <= 18 * 60).then_some(sign * all * 60_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_one_spelling() {
        let noon = 1_769_860_800_000_000;
        for (text, micros) in [
            ("2026-01-31 12:00:00Z", noon),
            ("2026-01-31T12:00:00.5Z", noon + 500_000),
            ("2026-01-31 13:00:00.000001+01:00", noon + 1),
            ("2026-01-30 18:00:00-18:00", noon),
        ] {
            assert_eq!(moment(text), Some(micros), "{text}");
            assert_eq!(clock(text), None, "{text}");
        }
        assert_eq!(clock("2026-01-31T12:00:00.000010"), Some(noon + 10));
        for text in [
            "2026-01-31",
            "2026-01-31 12:00",
            "2026-01-31  12:00:00",
            "2026-01-31t12:00:00",
            "2026-01-31 12:00:60",
            "2026-01-31 24:00:00",
            "2026-01-31 12:00:00.",
            "2026-01-31 12:00:00.1234567",
            "2026-1-31 12:00:00",
            "2026-02-30 12:00:00",
            "-026-01-31 12:00:00",
            " 2026-01-31 12:00:00",
        ] {
            assert_eq!(clock(text), None, "{text}");
            assert_eq!(moment(&format!("{text}Z")), None, "{text}Z");
        }
        for zone in [
            "",
            "z",
            " Z",
            "UTC",
            "+1:00",
            "+0100",
            "+01:60",
            "+18:01",
            "+01:00:00",
            "01:00",
        ] {
            assert_eq!(moment(&format!("2026-01-31 12:00:00{zone}")), None, "{zone}");
        }
    }
}
