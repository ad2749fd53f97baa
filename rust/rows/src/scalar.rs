//! Conversion of values of any kind to columns of any type, where that makes sense.

use arrow_buffer::ArrowNativeType;
use arrow_schema::TimeUnit;
use half::f16;

use crate::column::ColumnBuilder;
use crate::decimal::{Notation, notation, shown, unscaled, unscaled_256};
use crate::error::Misfit;
use crate::temporal::{
    NANOS_PER_DAY, parse_date, parse_instant, parse_time, tick_nanos, ticks_of, unit_name,
};
use crate::values::Values;

/// The bound below which every whole double is an `i128`.
#[expect(clippy::cast_precision_loss, reason = "it is the power of two above")]
const WHOLE: f64 = i128::MAX as f64;
/// The bound of timestamps in nanoseconds: as microseconds, which a file may store, they must fit 64 bits.
const MOST_NANOS: i128 = i64::MAX as i128 * 1_000;

/// A value that is not nested.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Scalar<'a> {
    Bool(bool),
    Int(i128),
    Float(f64),
    /// A number as decimal digits, which may be too long for the other variants.
    Number(&'a str),
    Text(&'a str),
    Bytes(&'a [u8]),
    /// Days since 1970.
    Date(i32),
    /// Nanoseconds since midnight.
    Time(i64),
    /// Nanoseconds since 1970, in UTC if it is zoned.
    Instant {
        nanos: i128,
        zoned: bool,
    },
    /// Nanoseconds.
    Duration(i128),
    Uuid([u8; 16]),
}

impl Scalar<'_> {
    fn shown(&self) -> String {
        match self {
            Self::Bool(value) => format!("the bool {value}"),
            Self::Int(value) => format!("the integer {value}"),
            Self::Float(value) => format!("the float {value}"),
            Self::Number(text) => format!("the number {}", shown(text).trim_matches('"')),
            Self::Text(text) => format!("the text {}", shown(text)),
            Self::Bytes(bytes) => format!("{} bytes", bytes.len()),
            Self::Date(_) => "a date".into(),
            Self::Time(_) => "a time".into(),
            Self::Instant { zoned: true, .. } => "a date and time with a zone".into(),
            Self::Instant { zoned: false, .. } => "a date and time without a zone".into(),
            Self::Duration(_) => "a duration".into(),
            Self::Uuid(_) => "a UUID".into(),
        }
    }

    #[cold]
    fn refused(&self, expected: &str) -> Misfit {
        Misfit::expected(expected, &self.shown())
    }

    /// The value as an integer, if it is one.
    fn integer(&self) -> Option<i128> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Float(value) => whole(*value),
            Self::Number(text) => text.parse().ok().or_else(|| unscaled(text, 38, 0).ok()),
            _ => None,
        }
    }
}

/// Converts a float without a fraction to an integer.
fn whole(value: f64) -> Option<i128> {
    #[expect(clippy::cast_possible_truncation, reason = "the range was looked at")]
    (value.fract() == 0.0 && value.abs() < WHOLE).then_some(value as i128)
}

impl ColumnBuilder {
    /// Appends a value, converted to the column's type, unless that was inferred.
    ///
    /// # Errors
    /// When the value is of another kind, or outside of what the type can hold.
    pub fn push(&mut self, value: Scalar<'_>) -> Result<(), Misfit> {
        if self.is_inferred && self.values.would_convert(&value) {
            return Err(value
                .refused(self.values.expects())
                .explained("the type was inferred from the first rows. Convert the value, or pass schema="));
        }
        self.values.push(value)?;
        self.count();
        Ok(())
    }
}

macro_rules! integers {
    ($values:expr, $value:expr, $type:ty, $name:expr) => {
        $values.push(integer::<$type>(
            $value,
            $name,
            <$type>::MIN.into(),
            <$type>::MAX.into(),
        )?)
    };
}

impl Values {
    /// The kind of value that a cell should have, in words.
    #[must_use]
    pub fn expects(&self) -> &'static str {
        match self {
            Self::Null => "null: the column has that type",
            Self::Bool(_) => "true or false",
            Self::F16(_) | Self::F32(_) | Self::F64(_) => "a number",
            Self::Text(_) | Self::LargeText(_) => "text",
            Self::Binary(_) | Self::LargeBinary(_) | Self::FixedBinary(_, _) => "bytes",
            Self::Date32(_) | Self::Date64(_) => "a date",
            Self::Time32(_, _) | Self::Time64(_, _) => "a time",
            Self::Timestamp(_, _, _) => "a date and time",
            Self::Duration(_, _) => "a duration",
            Self::Decimal32(_, _, _)
            | Self::Decimal64(_, _, _)
            | Self::Decimal128(_, _, _)
            | Self::Decimal256(_, _, _) => "a decimal",
            Self::List(_) | Self::LargeList(_) | Self::FixedList(_) => "a list",
            Self::Struct(_) => "an object with the struct's fields",
            Self::Map(_) => "an object, or pairs of keys and values",
            _ => "an integer",
        }
    }

    /// Returns true for text in a column of numbers or bytes, and for a number in one of dates or times: the zeros of
    /// `"007"` would be lost, and a unit guessed. Text in the form of a time or a UUID is one, as NDJSON has no other.
    fn would_convert(&self, value: &Scalar<'_>) -> bool {
        match value {
            Scalar::Text(_) => matches!(
                self,
                Self::I64(_)
                    | Self::U64(_)
                    | Self::F64(_)
                    | Self::Binary(_)
                    | Self::Decimal128(_, _, _)
                    | Self::Decimal256(_, _, _)
            ),
            Scalar::Int(_) | Scalar::Number(_) | Scalar::Float(_) => matches!(
                self,
                Self::Date32(_) | Self::Time64(_, _) | Self::Timestamp(_, _, _) | Self::Duration(_, _)
            ),
            _ => false,
        }
    }

    fn push(&mut self, value: Scalar<'_>) -> Result<(), Misfit> {
        match self {
            Self::Bool(values) => match value {
                Scalar::Bool(flag) => values.push(flag),
                other => return Err(other.refused("true or false")),
            },
            Self::I8(values) => integers!(values, value, i8, "int8"),
            Self::I16(values) => integers!(values, value, i16, "int16"),
            Self::I32(values) => integers!(values, value, i32, "int32"),
            Self::I64(values) => integers!(values, value, i64, "int64"),
            Self::U8(values) => integers!(values, value, u8, "uint8"),
            Self::U16(values) => integers!(values, value, u16, "uint16"),
            Self::U32(values) => integers!(values, value, u32, "uint32"),
            Self::U64(values) => integers!(values, value, u64, "uint64"),
            Self::F16(values) => values.push(float(value)?),
            Self::F32(values) => values.push(float(value)?),
            Self::F64(values) => values.push(float(value)?),
            Self::Text(text) => with_text(value, |value| text.push(value))?,
            Self::LargeText(text) => with_text(value, |value| text.push(value))?,
            Self::Binary(blob) => blob.push(bytes_of(&value)?)?,
            Self::LargeBinary(blob) => blob.push(bytes_of(&value)?)?,
            Self::FixedBinary(width, data) => push_fixed(*width, data, &value)?,
            Self::Decimal32(precision, scale, values) => {
                values.push(narrow(decimal(value, *precision, *scale)?, &value)?);
            }
            Self::Decimal64(precision, scale, values) => {
                values.push(narrow(decimal(value, *precision, *scale)?, &value)?);
            }
            Self::Decimal128(precision, scale, values) => values.push(decimal(value, *precision, *scale)?),
            Self::Decimal256(precision, scale, values) => {
                values.push(with_number(value, |text| unscaled_256(text, *precision, *scale))?);
            }
            Self::Null
            | Self::List(_)
            | Self::LargeList(_)
            | Self::FixedList(_)
            | Self::Struct(_)
            | Self::Map(_) => {
                return Err(value.refused(self.expects()));
            }
            temporal => return temporal.push_temporal(value),
        }
        Ok(())
    }

    fn push_temporal(&mut self, value: Scalar<'_>) -> Result<(), Misfit> {
        match self {
            Self::Date32(values) => values.push(date(value, 1)?),
            Self::Date64(values) => values.push(date::<i64>(value, 86_400_000)?),
            Self::Time32(unit, values) => values.push(time(value, *unit)?),
            Self::Time64(unit, values) => values.push(time(value, *unit)?),
            Self::Timestamp(unit, zoned, values) => values.push(timestamp(value, *unit, *zoned)?),
            Self::Duration(unit, values) => values.push(duration(value, *unit)?),
            _ => return Err(value.refused("a value of the column's type")),
        }
        Ok(())
    }
}

#[inline]
fn integer<T: TryFrom<i128>>(value: Scalar<'_>, name: &str, low: i128, high: i128) -> Result<T, Misfit> {
    // Text in the form of a number is one.
    let found = match value {
        Scalar::Text(text) => Scalar::Number(text).integer(),
        other => other.integer(),
    };
    let Some(found) = found else {
        return Err(value.refused(&format!("an integer ({name})")));
    };
    T::try_from(found)
        .map_err(|_| Misfit::new(format!("{found} is out of range for {name}: {low} to {high}")))
}

/// The floats of a column, by their width.
trait Width: Copy {
    const NAME: &'static str;
    /// Bits of an integer that are kept, from the first to the last that is set.
    const BITS: u32;

    /// The nearest one; infinite where the double is out of range.
    fn nearest(wide: f64) -> Self;

    /// The one nearest to a decimal number; none where the text is no number.
    fn parse(number: &str) -> Option<Self>;

    fn wide(self) -> f64;
}

impl Width for f16 {
    const NAME: &'static str = "a half-precision float";
    const BITS: u32 = Self::MANTISSA_DIGITS;

    fn nearest(wide: f64) -> Self {
        Self::from_f64(wide)
    }

    fn parse(number: &str) -> Option<Self> {
        number.parse().ok().map(Self::nearest)
    }

    fn wide(self) -> f64 {
        self.into()
    }
}

impl Width for f32 {
    const NAME: &'static str = "a single-precision float";
    const BITS: u32 = Self::MANTISSA_DIGITS;

    #[expect(clippy::cast_possible_truncation, reason = "it is rounded to the nearest")]
    fn nearest(wide: f64) -> Self {
        wide as Self
    }

    fn parse(number: &str) -> Option<Self> {
        number.parse().ok()
    }

    fn wide(self) -> f64 {
        self.into()
    }
}

impl Width for f64 {
    const NAME: &'static str = "a float";
    const BITS: u32 = Self::MANTISSA_DIGITS;

    fn nearest(wide: f64) -> Self {
        wide
    }

    fn parse(number: &str) -> Option<Self> {
        number.parse().ok()
    }

    fn wide(self) -> f64 {
        self
    }
}

/// The float of a number. An integer in all of its digits has to be exact; other numbers become the nearest float.
/// Neither becomes infinite.
fn float<T: Width>(value: Scalar<'_>) -> Result<T, Misfit> {
    match value {
        Scalar::Float(wide) => {
            let narrow = T::nearest(wide);
            if wide.is_finite() && !narrow.wide().is_finite() {
                return Err(too_large_a_float::<T>(&format!("{wide:?}")));
            }
            Ok(narrow)
        }
        Scalar::Int(value) => {
            let size = value.unsigned_abs();
            let bits = u128::BITS - (size >> size.trailing_zeros().min(127)).leading_zeros();
            #[expect(clippy::cast_precision_loss, reason = "it is exact where it is taken")]
            let nearest = T::nearest(value as f64);
            if bits <= T::BITS && nearest.wide().is_finite() {
                return Ok(nearest);
            }
            integer_as_float(&value.to_string())
        }
        Scalar::Number(text) if has_decimals(text) => nearest_float(text),
        Scalar::Number(text) | Scalar::Text(text) => match notation(text) {
            Some(Notation::Integer(digits)) => integer_as_float(&digits),
            Some(Notation::Other) => nearest_float(text),
            None => Err(value.refused("a number")),
        },
        other => Err(other.refused("a number")),
    }
}

/// Returns true for most numbers that have decimals, at little cost.
#[inline]
fn has_decimals(number: &str) -> bool {
    let number = number.as_bytes();
    memchr::memchr(b'.', number).is_some() && memchr::memchr2(b'e', b'E', number).is_none()
}

#[inline]
fn nearest_float<T: Width>(number: &str) -> Result<T, Misfit> {
    // A single is not made by way of a double, which would round twice. A half is: it has no parser of its own.
    let nearest = T::parse(number);
    let finite = nearest.filter(|nearest| nearest.wide().is_finite());
    finite.ok_or_else(|| too_large_a_float::<T>(number))
}

/// The float that is an integer, given by its digits without leading zeros.
fn integer_as_float<T: Width>(digits: &str) -> Result<T, Misfit> {
    let nearest = digits.parse().ok().map(T::nearest);
    let nearest = nearest
        .filter(|nearest| nearest.wide().is_finite())
        .ok_or_else(|| too_large_a_float::<T>(digits))?;
    // With a precision, the standard library prints all digits of a float.
    let found = format!("{:.0}", nearest.wide());
    if found == digits {
        return Ok(nearest);
    }
    Err(Misfit::new(format!(
        "the integer {} is not exact as {}, the nearest is {}: give a float, or declare an integer or a decimal",
        shown(digits).trim_matches('"'),
        T::NAME,
        shown(&found).trim_matches('"')
    )))
}

#[cold]
fn too_large_a_float<T: Width>(number: &str) -> Misfit {
    Misfit::new(format!(
        "{} is out of range for {}",
        shown(number).trim_matches('"'),
        T::NAME
    ))
}

fn with_text(value: Scalar<'_>, push: impl FnOnce(&str) -> Result<(), Misfit>) -> Result<(), Misfit> {
    match value {
        Scalar::Text(text) => push(text),
        Scalar::Uuid(bytes) => push(&uuid_text(&bytes)),
        other => Err(other.refused("text")),
    }
}

fn bytes_of<'a>(value: &'a Scalar<'_>) -> Result<&'a [u8], Misfit> {
    match value {
        Scalar::Bytes(bytes) => Ok(bytes),
        Scalar::Text(text) => Ok(text.as_bytes()),
        Scalar::Uuid(bytes) => Ok(bytes),
        other => Err(other.refused("bytes")),
    }
}

fn push_fixed(width: i32, data: &mut Vec<u8>, value: &Scalar<'_>) -> Result<(), Misfit> {
    if width == 16
        && let Scalar::Text(text) = value
        && let Some(uuid) = parse_uuid(text)
    {
        data.extend_from_slice(&uuid);
        return Ok(());
    }
    let bytes = bytes_of(value)?;
    if bytes.len() != width.unsigned_abs() as usize {
        return Err(value.refused(&format!("exactly {width} bytes")));
    }
    data.extend_from_slice(bytes);
    Ok(())
}

fn decimal(value: Scalar<'_>, precision: u8, scale: i8) -> Result<i128, Misfit> {
    with_number(value, |text| unscaled(text, precision, scale))
}

fn with_number<T>(value: Scalar<'_>, convert: impl FnOnce(&str) -> Result<T, Misfit>) -> Result<T, Misfit> {
    match value {
        Scalar::Number(text) | Scalar::Text(text) => convert(text),
        Scalar::Int(value) => convert(&value.to_string()),
        other => Err(other.refused("a decimal, an integer or decimal text")),
    }
}

fn narrow<T: TryFrom<i128>>(unscaled: i128, value: &Scalar<'_>) -> Result<T, Misfit> {
    T::try_from(unscaled).map_err(|_| value.refused("a decimal within the column's width"))
}

fn date<T: ArrowNativeType + TryFrom<i128>>(value: Scalar<'_>, ticks_per_day: i32) -> Result<T, Misfit> {
    let ticks = match value {
        Scalar::Date(days) => i128::from(days) * i128::from(ticks_per_day),
        Scalar::Text(text) => match parse_date(text) {
            Some(days) => i128::from(days) * i128::from(ticks_per_day),
            None => return Err(value.refused("a date such as 2026-01-31")),
        },
        other => match other.integer() {
            Some(ticks) if ticks % i128::from(ticks_per_day) == 0 => ticks,
            Some(_) => return Err(other.refused("milliseconds of a whole day")),
            None => return Err(other.refused("a date")),
        },
    };
    let days = i32::try_from(ticks / i128::from(ticks_per_day));
    days.ok()
        .and_then(|_| T::try_from(ticks).ok())
        .ok_or_else(|| value.refused("a date that is less than 2147483648 days from 1970"))
}

fn time<T: ArrowNativeType + TryFrom<i64>>(value: Scalar<'_>, unit: TimeUnit) -> Result<T, Misfit> {
    let nanos = match value {
        Scalar::Time(nanos) => Some(nanos),
        Scalar::Text(text) => parse_time(text),
        other => other
            .integer()
            .and_then(|ticks| i64::try_from(ticks).ok()?.checked_mul(tick_nanos(unit))),
    };
    nanos
        .filter(|nanos| (0..NANOS_PER_DAY).contains(nanos))
        .and_then(|nanos| T::try_from(nanos / tick_nanos(unit)).ok())
        .ok_or_else(|| {
            value.refused(&format!(
                "a time, text such as 13:05:09.25, or {} since midnight",
                unit_name(unit)
            ))
        })
}

fn timestamp(value: Scalar<'_>, unit: TimeUnit, zoned: bool) -> Result<i64, Misfit> {
    match value {
        Scalar::Instant { nanos, zoned: has } if has == zoned => ticks_of(nanos, unit),
        Scalar::Text(text) => return timestamp_text(text, unit, zoned),
        Scalar::Date(days) if !zoned => ticks_of(i128::from(days) * i128::from(NANOS_PER_DAY), unit),
        Scalar::Int(_) | Scalar::Number(_) | Scalar::Float(_) => value
            .integer()
            .ok_or_else(|| value.refused(&wanted(unit, zoned)))
            .map(|ticks| i64::try_from(ticks).ok())?,
        other => return Err(other.refused(&wanted(unit, zoned))),
    }
    .filter(|ticks| in_range(*ticks, unit))
    .ok_or_else(|| out_of_range(&value.shown(), unit))
}

/// Checks that ticks fit the unit of the file, which may store seconds as milliseconds and any unit as microseconds.
#[inline]
fn in_range(ticks: i64, unit: TimeUnit) -> bool {
    let most = match unit {
        TimeUnit::Second => MOST_NANOS / 1_000_000_000,
        TimeUnit::Millisecond => MOST_NANOS / 1_000_000,
        TimeUnit::Microsecond | TimeUnit::Nanosecond => return true,
    };
    i128::from(ticks).abs() <= most
}

/// The ticks of an RFC 3339 text.
#[inline]
pub(crate) fn timestamp_text(text: &str, unit: TimeUnit, zoned: bool) -> Result<i64, Misfit> {
    match parse_instant(text) {
        Some(instant) if instant.zoned == zoned => instant
            .ticks(unit)
            .ok_or_else(|| out_of_range(&shown(text), unit)),
        Some(_) | None => Err(Scalar::Text(text).refused(&wanted(unit, zoned))),
    }
}

fn wanted(unit: TimeUnit, zoned: bool) -> String {
    let unit = unit_name(unit);
    if zoned {
        format!(
            "a date and time with a zone (the column has one): a datetime with tzinfo, text such as \
             2026-01-31T13:05:09Z, or {unit} since 1970"
        )
    } else {
        format!(
            "a date and time without a zone (the column has none): a datetime without tzinfo, text such as \
             2026-01-31T13:05:09, or {unit} since 1970"
        )
    }
}

#[cold]
fn out_of_range(found: &str, unit: TimeUnit) -> Misfit {
    Misfit::new(format!(
        "{found} is out of range for {} since 1970",
        unit_name(unit)
    ))
}

fn duration(value: Scalar<'_>, unit: TimeUnit) -> Result<i64, Misfit> {
    let unit_name = unit_name(unit);
    let ticks = match value {
        Scalar::Duration(nanos) => ticks_of(nanos, unit),
        other => match other.integer() {
            Some(ticks) => i64::try_from(ticks).ok(),
            None => return Err(value.refused(&format!("a duration, or {unit_name}"))),
        },
    };
    ticks.ok_or_else(|| Misfit::new(format!("{} is out of range for {unit_name}", value.shown())))
}

fn uuid_text(bytes: &[u8; 16]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(36);
    for (place, byte) in bytes.iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let dashes = |(place, byte): (usize, u8)| (byte == b'-') == matches!(place, 8 | 13 | 18 | 23);
    if text.len() != 36 || !text.bytes().enumerate().all(dashes) {
        return None;
    }
    let mut bytes = [0; 16];
    let mut digits = text.bytes().filter(|byte| *byte != b'-');
    for byte in &mut bytes {
        let (high, low) = (char::from(digits.next()?), char::from(digits.next()?));
        *byte = u8::try_from(high.to_digit(16)? * 16 + low.to_digit(16)?).ok()?;
    }
    Some(bytes)
}
