//! The smallest and largest values of statistics, written by their logical type.

use chrono::{DateTime, NaiveDate, NaiveTime, TimeDelta};
use half::f16;
use parquet::data_type::{AsBytes, ByteArray};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::statistics::Statistics;

use crate::meaning::{Meaning, Unit};

/// Longest text shown, in characters.
const TEXT_CHARACTERS: usize = 64;
/// Most bytes of a binary value shown.
const BINARY_BYTES: usize = 32;

/// The smallest and the largest value, where the statistics have them.
pub(crate) fn bounds(statistics: &Statistics, meaning: &Meaning) -> (Option<String>, Option<String>) {
    match statistics {
        Statistics::Boolean(s) => (s.min_opt().map(bool::to_string), s.max_opt().map(bool::to_string)),
        Statistics::Int32(s) => {
            let show = |value: &i32| int32(*value, meaning);
            (s.min_opt().map(show), s.max_opt().map(show))
        }
        Statistics::Int64(s) => {
            let show = |value: &i64| int64(*value, meaning);
            (s.min_opt().map(show), s.max_opt().map(show))
        }
        // The format defines no order for INT96; what is there, is shown as a time.
        Statistics::Int96(s) => {
            let show = |value: &parquet::data_type::Int96| timestamp(value.to_nanos(), Unit::Nanos, false);
            (s.min_opt().map(show), s.max_opt().map(show))
        }
        Statistics::Float(s) => (s.min_opt().map(f32::to_string), s.max_opt().map(f32::to_string)),
        Statistics::Double(s) => (s.min_opt().map(f64::to_string), s.max_opt().map(f64::to_string)),
        Statistics::ByteArray(s) => {
            let show = |value: &ByteArray| bytes(value.data(), meaning);
            (s.min_opt().map(show), s.max_opt().map(show))
        }
        Statistics::FixedLenByteArray(s) => {
            let show = |value: &parquet::data_type::FixedLenByteArray| bytes(value.as_bytes(), meaning);
            (s.min_opt().map(show), s.max_opt().map(show))
        }
    }
}

/// The smallest and the largest value of a page, where the column index has them. The page is one of those in it.
pub(crate) fn page_bounds(
    index: &ColumnIndexMetaData,
    page: usize,
    meaning: &Meaning,
) -> (Option<String>, Option<String>) {
    /// Both bounds of an index of one type, as text.
    macro_rules! shown {
        ($index:expr, $show:expr) => {
            (
                $index.min_value(page).map($show),
                $index.max_value(page).map($show),
            )
        };
    }
    match index {
        ColumnIndexMetaData::BOOLEAN(index) => shown!(index, bool::to_string),
        ColumnIndexMetaData::INT32(index) => shown!(index, |value| int32(*value, meaning)),
        ColumnIndexMetaData::INT64(index) => shown!(index, |value| int64(*value, meaning)),
        ColumnIndexMetaData::INT96(index) => {
            shown!(index, |value| timestamp(value.to_nanos(), Unit::Nanos, false))
        }
        ColumnIndexMetaData::FLOAT(index) => shown!(index, f32::to_string),
        ColumnIndexMetaData::DOUBLE(index) => shown!(index, f64::to_string),
        ColumnIndexMetaData::BYTE_ARRAY(index) | ColumnIndexMetaData::FIXED_LEN_BYTE_ARRAY(index) => {
            shown!(index, |value| bytes(value, meaning))
        }
    }
}

fn int32(value: i32, meaning: &Meaning) -> String {
    match meaning {
        Meaning::Integer { signed: false, .. } => value.cast_unsigned().to_string(),
        Meaning::Date => date(value),
        _ => int64(value.into(), meaning),
    }
}

fn int64(value: i64, meaning: &Meaning) -> String {
    match meaning {
        Meaning::Integer { signed: false, .. } => value.cast_unsigned().to_string(),
        Meaning::Decimal { scale, .. } => decimal(value.into(), *scale),
        Meaning::Time { unit, .. } => time_of_day(value, *unit),
        Meaning::Timestamp { unit, utc } => timestamp(value, *unit, *utc),
        _ => value.to_string(),
    }
}

fn bytes(value: &[u8], meaning: &Meaning) -> String {
    match (meaning, value) {
        (Meaning::Text(_), _) => text(value),
        (Meaning::Decimal { scale, .. }, [_, ..]) if value.len() <= size_of::<i128>() => {
            decimal(big_endian(value), *scale)
        }
        (Meaning::Uuid, [_, ..]) if value.len() == 16 => {
            let hex = hexadecimal(value);
            format!(
                "{}-{}-{}-{}-{}",
                &hex[..8],
                &hex[8..12],
                &hex[12..16],
                &hex[16..20],
                &hex[20..]
            )
        }
        (Meaning::Float16, [low, high]) => f16::from_le_bytes([*low, *high]).to_string(),
        _ if value.len() > BINARY_BYTES => format!("0x{}…", hexadecimal(&value[..BINARY_BYTES])),
        _ => format!("0x{}", hexadecimal(value)),
    }
}

fn text(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    match text.char_indices().nth(TEXT_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}

/// A number in two's complement of up to 16 bytes, big-endian.
fn big_endian(value: &[u8]) -> i128 {
    let sign = if value.first().is_some_and(|first| *first >= 0x80) {
        -1
    } else {
        0
    };
    value
        .iter()
        .fold(sign, |number, byte| (number << 8) | i128::from(*byte))
}

fn decimal(unscaled: i128, scale: i32) -> String {
    let Some(places @ 1..) = usize::try_from(scale).ok() else {
        return unscaled.to_string();
    };
    let digits = format!("{:0>width$}", unscaled.unsigned_abs(), width = places + 1);
    let (whole, fraction) = digits.split_at(digits.len() - places);
    format!("{}{whole}.{fraction}", if unscaled < 0 { "-" } else { "" })
}

fn date(days: i32) -> String {
    NaiveDate::from_epoch_days(days).map_or_else(|| days.to_string(), |date| date.to_string())
}

fn time_of_day(value: i64, unit: Unit) -> String {
    let nanos = 1_000_000_000 / unit.per_second();
    let time = value
        .checked_mul(nanos)
        .filter(|nanos| (0..86_400_000_000_000).contains(nanos))
        .map(|nanos| NaiveTime::MIN + TimeDelta::nanoseconds(nanos));
    time.map_or_else(|| value.to_string(), |time| time.to_string())
}

fn timestamp(value: i64, unit: Unit, utc: bool) -> String {
    let (seconds, rest) = (
        value.div_euclid(unit.per_second()),
        value.rem_euclid(unit.per_second()),
    );
    let nanos = u32::try_from(rest * (1_000_000_000 / unit.per_second())).unwrap_or_default();
    match DateTime::from_timestamp(seconds, nanos) {
        Some(time) => format!("{}{}", time.naive_utc(), if utc { "Z" } else { "" }),
        None => value.to_string(),
    }
}

fn hexadecimal(value: &[u8]) -> String {
    value
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|nibble| char::from(b"0123456789abcdef"[usize::from(nibble)]))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn decimals_keep_their_places() {
        assert_eq!(decimal(-5, 2), "-0.05");
        assert_eq!(decimal(12_345, 2), "123.45");
        assert_eq!(decimal(12, 0), "12");
        assert_eq!(
            bytes(
                &[0xff, 0x38],
                &Meaning::Decimal {
                    precision: 4,
                    scale: 1
                }
            ),
            "-20.0"
        );
    }

    #[test]
    fn times_before_the_epoch_are_shown() {
        assert_eq!(timestamp(-1, Unit::Micros, true), "1969-12-31 23:59:59.999999Z");
        assert_eq!(date(-1), "1969-12-31");
        assert_eq!(time_of_day(86_399_999, Unit::Millis), "23:59:59.999");
    }

    #[test]
    fn unsigned_integers_are_not_negative() {
        assert_eq!(
            int32(
                -1,
                &Meaning::Integer {
                    bits: 32,
                    signed: false
                }
            ),
            "4294967295"
        );
        assert_eq!(
            int64(
                -1,
                &Meaning::Integer {
                    bits: 64,
                    signed: false
                }
            ),
            "18446744073709551615"
        );
    }

    proptest! {
        #[test]
        fn any_value_of_any_meaning_is_shown(number: i64, raw: Vec<u8>, scale in -3..40, meaning in 0..7usize) {
            let unit = [Unit::Millis, Unit::Micros, Unit::Nanos][meaning % 3];
            let meaning = [
                Meaning::Plain, Meaning::Text("string"), Meaning::Uuid, Meaning::Float16,
                Meaning::Decimal { precision: 9, scale }, Meaning::Timestamp { unit, utc: false },
                Meaning::Time { unit, utc: true },
            ][meaning].clone();
            prop_assert!(!int64(number, &meaning).is_empty());
            prop_assert!(bytes(&raw, &meaning).chars().count() <= 2 * BINARY_BYTES + 3);
        }

        #[test]
        fn a_decimal_reads_the_same_from_an_integer_and_from_bytes(number: i64, scale in 0..20) {
            let meaning = Meaning::Decimal { precision: 19, scale };
            prop_assert_eq!(bytes(&number.to_be_bytes(), &meaning), int64(number, &meaning));
        }
    }
}
