//! The literals of conditions, each in the type of the column that it is compared with.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array, StringArray,
    TimestampMicrosecondArray,
};
use arrow_schema::DataType;
use chrono::{DateTime, Timelike};
use sqlparser::ast::{
    DataType as SqlType, Expr, TimezoneInfo, TypedString, UnaryOperator, Value, ValueWithSpan,
};

use crate::schema::{ColumnType, Primitive};

use super::Purpose;
use super::bind::{decimal_of, digits_of};
use super::fault::SqlFault;
use super::parse::{bare, place};

/// The digits of the widest decimal.
pub(super) const MOST_DIGITS: u8 = 38;

/// The digits of a number with a fraction that a double keeps.
const MOST_FRACTIONAL: u8 = 15;

/// Whole numbers up to this one are the same in single precision.
const MOST_SINGLE: i128 = 1 << 24;

/// The bytes of a time up to the fraction of its seconds.
const SECONDS: usize = "2026-01-31 12:00:00.".len();

/// Microseconds of a day.
const MICROS_PER_DAY: i64 = 86_400_000_000;

/// A literal.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SqlLiteral {
    /// No value.
    Null,
    /// True or false.
    Boolean(bool),
    /// A number without an exponent, which is exact.
    Number(DecimalLiteral),
    /// A number with an exponent.
    Double(f64),
    /// Text.
    Text(String),
    /// The text of a date.
    Date(String),
    /// The text of a timestamp.
    Timestamp(String),
}

/// A decimal number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DecimalLiteral {
    /// Its digits as a whole number.
    pub unscaled: i128,
    /// The number of digits behind the point.
    pub scale: u8,
    /// The number of all digits.
    pub digits: u8,
}

impl SqlLiteral {
    /// The literal that an expression is; none for one that is something else.
    pub fn of(expression: &Expr) -> Result<Option<Self>, SqlFault> {
        let of_number = |text: &str| number(text).map_err(|why| SqlFault::at(place(expression), why));
        // A quote in it is doubled.
        let of_text = |text: &str| text.replace("''", "'");
        Ok(match bare(expression) {
            Expr::Value(value) => match &value.value {
                Value::Null => Some(Self::Null),
                Value::Boolean(value) => Some(Self::Boolean(*value)),
                Value::Number(text, _) => Some(of_number(text)?),
                Value::SingleQuotedString(text) => Some(Self::Text(of_text(text))),
                _ => None,
            },
            Expr::UnaryOp {
                op: UnaryOperator::Minus,
                expr,
            } => match expr.as_ref() {
                Expr::Value(ValueWithSpan {
                    value: Value::Number(text, _),
                    ..
                }) => Some(of_number(&format!("-{text}"))?),
                _ => None,
            },
            Expr::TypedString(TypedString { data_type, value, .. }) => match (data_type, &value.value) {
                (SqlType::Date, Value::SingleQuotedString(text)) => Some(Self::Date(of_text(text))),
                (SqlType::Timestamp(None, TimezoneInfo::None), Value::SingleQuotedString(text)) => {
                    Some(Self::Timestamp(of_text(text)))
                }
                _ => None,
            },
            _ => None,
        })
    }
}

/// The literal that a number is, perhaps with a sign.
pub(super) fn number(text: &str) -> Result<SqlLiteral, String> {
    let unknown = || format!("the number {text} has more than {MOST_DIGITS} digits");
    if text.contains(['e', 'E']) {
        let value: f64 = text.parse().map_err(|_| format!("{text} is no number"))?;
        if !value.is_finite() {
            return Err(format!("the number {text} is beyond the doubles"));
        }
        return Ok(SqlLiteral::Double(value));
    }
    let (is_negative, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole = whole.trim_start_matches('0');
    let digits = (whole.len() + fraction.len()).max(1);
    if digits > usize::from(MOST_DIGITS) {
        return Err(unknown());
    }
    let unscaled: i128 = match format!("{whole}{fraction}").as_str() {
        "" => 0,
        digits => digits.parse().map_err(|_| unknown())?,
    };
    Ok(SqlLiteral::Number(DecimalLiteral {
        unscaled: if is_negative { -unscaled } else { unscaled },
        scale: u8::try_from(fraction.len()).map_err(|_| unknown())?,
        digits: u8::try_from(digits).map_err(|_| unknown())?,
    }))
}

impl DecimalLiteral {
    /// The nearest double.
    pub fn to_double(self) -> Option<f64> {
        nearest_double(self.unscaled, self.scale)
    }
}

/// The double nearest to a decimal number.
pub(super) fn nearest_double(unscaled: i128, scale: u8) -> Option<f64> {
    format!("{unscaled}e-{scale}").parse().ok()
}

/// A literal as an array of one value, in the type in which it is compared with a column. The error is in words that
/// follow "compared with".
pub(super) fn value_of(
    kind: &ColumnType,
    literal: &SqlLiteral,
    purpose: Purpose,
) -> Result<ArrayRef, String> {
    use Primitive::{
        Boolean, Byte, Date, Double, Float, Integer, Long, Short, String as Text, Timestamp, TimestampNtz,
    };
    let double = |value: f64| -> ArrayRef { Arc::new(Float64Array::from(vec![value])) };
    if let (Some(digits), SqlLiteral::Number(number)) = (digits_of(kind), literal) {
        return exact(kind, digits, *number, purpose);
    }
    let ColumnType::Primitive(primitive) = kind else {
        return Err(format!("a literal of this type: {}", accepted(kind, purpose)));
    };
    let value: ArrayRef = match (primitive, literal) {
        (Boolean, SqlLiteral::Boolean(value)) => Arc::new(BooleanArray::from(vec![*value])),
        (Float, SqlLiteral::Number(number)) if number.scale == 0 && number.unscaled.abs() > MOST_SINGLE => {
            return Err("so large a whole number, which single precision would round".to_owned());
        }
        (Float | Double, SqlLiteral::Number(number)) => double(number.to_double().ok_or("this number")?),
        (Byte | Short | Integer | Long | Float | Double, SqlLiteral::Double(value)) => double(*value),
        (Text, SqlLiteral::Text(text)) => Arc::new(StringArray::from(vec![text.as_str()])),
        (Date, SqlLiteral::Date(text) | SqlLiteral::Text(text)) => {
            Arc::new(Date32Array::from(vec![of_day(text)?]))
        }
        (Timestamp, SqlLiteral::Timestamp(text) | SqlLiteral::Text(text)) => {
            let micros = moment(text).ok_or_else(|| {
                format!("'{text}', which is no time with a zone, such as '2026-01-31 12:00:00Z'")
            })?;
            Arc::new(TimestampMicrosecondArray::from(vec![micros]).with_timezone("UTC"))
        }
        (TimestampNtz, SqlLiteral::Text(text)) => of_clock(text)?,
        // A constraint has none: Spark reads the literal in the zone of its session.
        (TimestampNtz, SqlLiteral::Timestamp(text)) if purpose == Purpose::Asked => of_clock(text)?,
        (TimestampNtz, SqlLiteral::Date(text)) if purpose == Purpose::Asked => {
            let midnight = i64::from(of_day(text)?) * MICROS_PER_DAY;
            Arc::new(TimestampMicrosecondArray::from(vec![midnight]))
        }
        _ => return Err(format!("a literal of this type: {}", accepted(kind, purpose))),
    };
    Ok(value)
}

/// The words for the literals that a column of this type is compared with.
fn accepted(kind: &ColumnType, purpose: Purpose) -> &'static str {
    use Primitive::{
        Binary, Boolean, Byte, Date, Double, Float, Integer, Long, Short, String as Text, Timestamp,
        TimestampNtz,
    };
    match kind {
        ColumnType::Decimal(..) | ColumnType::Primitive(Byte | Short | Integer | Long | Float | Double) => {
            "give a number such as 7 or -0.5"
        }
        ColumnType::Primitive(Boolean) => "give TRUE or FALSE",
        ColumnType::Primitive(Text) => "give a text such as 'a'",
        ColumnType::Primitive(Date) => "give DATE '2026-01-31'",
        ColumnType::Primitive(Timestamp) => "give TIMESTAMP '2026-01-31 12:00:00Z'",
        ColumnType::Primitive(TimestampNtz) if purpose == Purpose::Asked => {
            "give TIMESTAMP '2026-01-31 12:00:00'"
        }
        ColumnType::Primitive(TimestampNtz) => "give '2026-01-31 12:00:00'",
        ColumnType::Primitive(Binary)
        | ColumnType::Struct(_)
        | ColumnType::Array(..)
        | ColumnType::Map(..) => "it goes with IS NULL alone",
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
fn exact(
    kind: &ColumnType,
    digits: (u8, u8),
    number: DecimalLiteral,
    purpose: Purpose,
) -> Result<ArrayRef, String> {
    // DataFusion takes it for a double first.
    if purpose != Purpose::Asked && number.scale > 0 && number.digits > MOST_FRACTIONAL {
        return Err(format!(
            "a fraction of more than {MOST_FRACTIONAL} digits, which delta-rs would round"
        ));
    }
    if matches!(kind, ColumnType::Primitive(_)) {
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

/// Days since the epoch of the date `2026-01-31`, in no other spelling.
fn days(text: &str) -> Option<i32> {
    let midnight = clock(&format!("{text} 00:00:00"))?;
    i32::try_from(midnight / MICROS_PER_DAY).ok()
}

/// Microseconds of a clock without a zone.
fn clock(text: &str) -> Option<i64> {
    moment(&format!("{text}Z"))
}

/// Microseconds since the epoch of `2026-01-31 12:00:00.000000Z`, with a fraction of one to six digits or none, perhaps
/// a `T`, and `Z` or an offset of 18 hours at most, such as `+01:00`. All engines read it alike.
fn moment(text: &str) -> Option<i64> {
    let moment = DateTime::parse_from_rfc3339(text).ok()?;
    let fraction = text.bytes().skip(SECONDS).take_while(u8::is_ascii_digit);
    // RFC 3339 has small letters, too, and chrono a minus beyond ASCII. A leap second has no place in a table.
    let is_one_spelling = text
        .bytes()
        .all(|byte| byte.is_ascii() && !byte.is_ascii_lowercase());
    let is_known = is_one_spelling
        && fraction.count() <= 6
        && moment.nanosecond() < 1_000_000_000
        && moment.offset().local_minus_utc().abs() <= 18 * 60 * 60;
    is_known.then(|| moment.timestamp_micros())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exact_without_an_exponent() {
        let exact = |unscaled, scale, digits| {
            Ok(SqlLiteral::Number(DecimalLiteral {
                unscaled,
                scale,
                digits,
            }))
        };
        assert_eq!(number("007"), exact(7, 0, 1));
        assert_eq!(number("0"), exact(0, 0, 1));
        assert_eq!(number("-0.50"), exact(-50, 2, 2));
        assert_eq!(number("12.5"), exact(125, 1, 3));
        assert_eq!(number("1e-3"), Ok(SqlLiteral::Double(1e-3)));
        assert_eq!(number("-2E2"), Ok(SqlLiteral::Double(-200.0)));
        assert!(number(&"9".repeat(38)).is_ok());
        assert!(number(&"9".repeat(39)).is_err());
    }

    #[test]
    fn the_nearest_double_is_that_of_the_digits() {
        for text in ["0.1", "123456789.987654321", "2", "0.30000000000000001"] {
            let Ok(SqlLiteral::Number(number)) = number(text) else {
                panic!("{text} is no exact number");
            };
            assert_eq!(number.to_double(), text.parse().ok(), "{text}");
        }
    }

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
