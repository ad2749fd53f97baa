//! Folder names of partitions, as Hive and Spark write them: `column=value`.

use std::fmt::Write;

use arrow_array::cast::AsArray;
use arrow_array::temporal_conversions::as_datetime;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Float32Type, Float64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{Array, ArrayRef};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, TimeUnit};
use chrono::{NaiveDateTime, Timelike};
use parquet_writer::WriteError;

/// The directory value for null, and for the empty string, which no folder can be named after.
const NOTHING: &str = "__HIVE_DEFAULT_PARTITION__";

const MILLIS_PER_DAY: i64 = 86_400_000;

/// `column=value`, escaped.
pub(crate) fn folder(column: &str, value: Option<&str>) -> String {
    let mut name = String::new();
    escape(column, &mut name);
    name.push('=');
    match value {
        None | Some("") => name.push_str(NOTHING),
        Some(value) => escape(value, &mut name),
    }
    name
}

/// Checks that the name of a folder can stand for a value.
///
/// # Errors
/// [`WriteError::Schema`] when readers of the folder would take the value for null, or the name has more than
/// `longest_name` bytes.
pub(crate) fn check(column: &str, value: Option<&str>, longest_name: usize) -> Result<(), WriteError> {
    if value == Some(NOTHING) {
        return Err(WriteError::column(
            column,
            format!(
                "the partition column {column:?} has the text {NOTHING:?}, which cannot name a folder: readers take it \
                 for null. Replace it by null or another text, or partition by another column"
            ),
        ));
    }
    let bytes = folder(column, value).len();
    if bytes > longest_name {
        return Err(WriteError::column(
            column,
            format!(
                "the partition column {column:?} has a value whose folder would have a name of {bytes} bytes, and the \
                 file system takes {longest_name}: shorten the value, or partition by another column"
            ),
        ));
    }
    Ok(())
}

/// Percent-escapes the characters that Spark escapes, which every reader of Hive folders restores.
fn escape(text: &str, name: &mut String) {
    for letter in text.chars() {
        if letter.is_ascii_control() || "\"#%'*/:=?\\{[]^".contains(letter) {
            // Writing to a string does not fail.
            let _ = write!(name, "%{:02X}", u32::from(letter));
        } else {
            name.push(letter);
        }
    }
}

/// Returns true if values of this type can name a folder and be read back from it.
pub(crate) fn can_name(data_type: &DataType) -> bool {
    data_type.is_integer()
        || data_type.is_decimal()
        || matches!(
            data_type,
            DataType::Boolean
                | DataType::Float32
                | DataType::Float64
                | DataType::Utf8View
                | DataType::Date32
                | DataType::Date64
                | DataType::Timestamp(_, _)
        )
}

/// The text of a column's value, before it is escaped; `None` for null.
///
/// # Errors
/// [`WriteError::Schema`] names the column when it is a time that no calendar has, or a date with a time of day.
pub(crate) fn text(column: &str, array: &ArrayRef, row: usize) -> Result<Option<String>, WriteError> {
    if array.is_null(row) {
        return Ok(None);
    }
    let text = match array.data_type() {
        DataType::Utf8View => array.as_string_view().value(row).to_string(),
        DataType::Date64 => {
            if array.as_primitive::<Date64Type>().value(row) % MILLIS_PER_DAY != 0 {
                return Err(WriteError::column(
                    column,
                    format!(
                        "the partition column {column:?} has a date with a time of day in row {row}, which the name of a \
                         folder would lose: cast it to a timestamp, or to date32"
                    ),
                ));
            }
            day(time::<Date64Type>(column, array, row)?)
        }
        DataType::Date32 => day(time::<Date32Type>(column, array, row)?),
        DataType::Timestamp(unit, zone) => {
            let time = match unit {
                TimeUnit::Second => time::<TimestampSecondType>(column, array, row),
                TimeUnit::Millisecond => time::<TimestampMillisecondType>(column, array, row),
                TimeUnit::Microsecond => time::<TimestampMicrosecondType>(column, array, row),
                TimeUnit::Nanosecond => time::<TimestampNanosecondType>(column, array, row),
            };
            timestamp(time?, zone.is_some())
        }
        DataType::Float32 => {
            let number = array.as_primitive::<Float32Type>().value(row);
            real(f64::from(number), &format!("{number:?}"), &format!("{number:e}"))
        }
        DataType::Float64 => {
            let number = array.as_primitive::<Float64Type>().value(row);
            real(number, &format!("{number:?}"), &format!("{number:e}"))
        }
        _ => ArrayFormatter::try_new(array, &FormatOptions::default())?
            .value(row)
            .try_to_string()?,
    };
    Ok(Some(text))
}

/// The shortest decimal form of a number, in Java's notation, which every reader accepts: `0.1`, `1.0E10`, `NaN`,
/// `-Infinity`.
fn real(number: f64, plain: &str, scientific: &str) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() || number == 0.0 || (1e-3..1e7).contains(&number.abs()) {
        return plain.replace("inf", "Infinity");
    }
    let (digits, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let point = if digits.contains('.') { "" } else { ".0" };
    format!("{digits}{point}E{exponent}")
}

/// The date and time in a row of a column of dates or timestamps.
fn time<T: ArrowPrimitiveType<Native: Into<i64>>>(
    column: &str,
    array: &ArrayRef,
    row: usize,
) -> Result<NaiveDateTime, WriteError> {
    let value = array.as_primitive::<T>().value(row).into();
    as_datetime::<T>(value).ok_or_else(|| {
        WriteError::column(
            column,
            format!(
                "partition column {column:?} has {value} in row {row}, outside the calendar's range for {}: correct \
                 the value, or partition by another column",
                array.data_type()
            ),
        )
    })
}

/// A day such as `2026-01-31`.
fn day(time: NaiveDateTime) -> String {
    time.format("%Y-%m-%d").to_string()
}

/// A timestamp such as `2026-01-31 12:30:00.5`: without zeros at the end, as Spark writes it, and with `Z` if it has a
/// time zone.
fn timestamp(time: NaiveDateTime, zoned: bool) -> String {
    let mut text = time.format("%Y-%m-%d %H:%M:%S").to_string();
    if time.nanosecond() > 0 {
        let fraction = format!(".{:09}", time.nanosecond());
        text.push_str(fraction.trim_end_matches('0'));
    }
    if zoned {
        text.push('Z');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{
        BooleanArray, Date32Array, Date64Array, Decimal128Array, Float32Array, Float64Array, Int8Array,
        StringViewArray, TimestampMicrosecondArray, TimestampNanosecondArray, TimestampSecondArray,
        UInt64Array,
    };

    use super::*;

    fn only(array: impl Array + 'static) -> Option<String> {
        text("k", &(Arc::new(array) as ArrayRef), 0).unwrap()
    }

    #[test]
    fn values_are_written_as_spark_writes_them() {
        assert_eq!(only(Int8Array::from(vec![-7])).unwrap(), "-7");
        assert_eq!(
            only(UInt64Array::from(vec![u64::MAX])).unwrap(),
            "18446744073709551615"
        );
        assert_eq!(only(BooleanArray::from(vec![true])).unwrap(), "true");
        assert_eq!(only(StringViewArray::from(vec!["a b"])).unwrap(), "a b");
        assert_eq!(only(StringViewArray::from(vec![None::<&str>])), None);
        assert_eq!(only(Date32Array::from(vec![20_000])).unwrap(), "2024-10-04");
        assert_eq!(
            only(Date64Array::from(vec![20_000 * 86_400_000])).unwrap(),
            "2024-10-04"
        );
        let decimal = Decimal128Array::from(vec![-150]).with_precision_and_scale(5, 2);
        assert_eq!(only(decimal.unwrap()).unwrap(), "-1.50");
    }

    #[test]
    fn reals_are_written_as_java_writes_them() {
        for (number, expected) in [
            (0.1, "0.1"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (-1.5e300, "-1.5E300"),
            (1e-3, "0.001"),
            (9.5e-4, "9.5E-4"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(only(Float64Array::from(vec![number])).unwrap(), expected);
        }
        assert_eq!(only(Float32Array::from(vec![0.1])).unwrap(), "0.1");
        assert_eq!(only(Float32Array::from(vec![f32::MAX])).unwrap(), "3.4028235E38");
    }

    #[test]
    fn times_lose_their_last_zeros_and_keep_their_zone() {
        let micros = TimestampMicrosecondArray::from(vec![1_700_000_000_500_000]);
        assert_eq!(only(micros.clone()).unwrap(), "2023-11-14 22:13:20.5");
        assert_eq!(
            only(micros.with_timezone("+05:00")).unwrap(),
            "2023-11-14 22:13:20.5Z"
        );
        assert_eq!(
            only(TimestampSecondArray::from(vec![0])).unwrap(),
            "1970-01-01 00:00:00"
        );
        assert_eq!(
            only(TimestampNanosecondArray::from(vec![-1])).unwrap(),
            "1969-12-31 23:59:59.999999999"
        );
        let never: ArrayRef = Arc::new(TimestampSecondArray::from(vec![i64::MAX]));
        assert!(text("k", &never, 0).unwrap_err().to_string().contains("calendar"));
    }

    #[test]
    fn special_characters_are_escaped_and_letters_are_not() {
        assert_eq!(folder("a/b", Some("50% = x:y\u{1}")), "a%2Fb=50%25 %3D x%3Ay%01");
        assert_eq!(folder("k", Some("żółć 🦀+.-_~")), "k=żółć 🦀+.-_~");
        assert_eq!(folder("k", None), "k=__HIVE_DEFAULT_PARTITION__");
        assert_eq!(folder("k", Some("")), "k=__HIVE_DEFAULT_PARTITION__");
    }
}
