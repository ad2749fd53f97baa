//! The smallest and largest value of a flat column.

use std::cmp::Ordering;
use std::fmt;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayAccessor, PrimitiveArray};
use arrow_buffer::i256;
use arrow_schema::DataType;

use crate::cells::{integers, plain};
use crate::error::Error;

/// One value of a flat column. Temporal values are integers in their type's unit, decimals are unscaled.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A boolean.
    Bool(bool),
    /// A signed integer, or a date, time, timestamp or duration.
    Signed(i64),
    /// An unsigned integer.
    Unsigned(u64),
    /// A float of any width; never NaN.
    Float(f64),
    /// A decimal's unscaled value.
    Decimal(i256),
    /// A string.
    Text(String),
    /// A binary value.
    Bytes(Vec<u8>),
}

impl Value {
    /// Orders two values of one column: numbers by value with -0.0 below 0.0, strings and binary by bytes.
    ///
    /// Values of different kinds never meet in one column; they order by kind.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Signed(a), Self::Signed(b)) => a.cmp(b),
            (Self::Unsigned(a), Self::Unsigned(b)) => a.cmp(b),
            (Self::Float(a), Self::Float(b)) => a.total_cmp(b),
            (Self::Decimal(a), Self::Decimal(b)) => a.cmp(b),
            (Self::Text(a), Self::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Self::Bytes(a), Self::Bytes(b)) => a.cmp(b),
            _ => self.kind().cmp(&other.kind()),
        }
    }

    pub(crate) fn kind(&self) -> u8 {
        match self {
            Self::Bool(_) => 1,
            Self::Signed(_) => 2,
            Self::Unsigned(_) => 3,
            Self::Float(_) => 4,
            Self::Decimal(_) => 5,
            Self::Text(_) => 6,
            Self::Bytes(_) => 7,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(v) => v.fmt(f),
            Self::Signed(v) => v.fmt(f),
            Self::Unsigned(v) => v.fmt(f),
            Self::Float(v) => write!(f, "{v:?}"),
            Self::Decimal(v) => v.fmt(f),
            Self::Text(v) => f.write_str(v),
            Self::Bytes(v) => v.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
        }
    }
}

/// The smallest and largest non-null value; `None` for nested types, and where there is no value but NaN.
pub(crate) fn extremes(array: &dyn Array) -> Result<Option<(Value, Value)>, Error> {
    use DataType as T;
    Ok(match array.data_type() {
        T::Boolean => spans(array.as_boolean(), |v| v).map(both(Value::Bool)),
        T::Int8 => signed::<Int8Type>(array),
        T::Int16 => signed::<Int16Type>(array),
        T::Int32 => signed::<Int32Type>(array),
        T::Int64 => signed::<Int64Type>(array),
        T::UInt8 => unsigned::<UInt8Type>(array),
        T::UInt16 => unsigned::<UInt16Type>(array),
        T::UInt32 => unsigned::<UInt32Type>(array),
        T::UInt64 => unsigned::<UInt64Type>(array),
        T::Float16 => floats::<Float16Type>(array, half::f16::to_f64),
        T::Float32 => floats::<Float32Type>(array, f64::from),
        T::Float64 => floats::<Float64Type>(array, |v| v),
        T::Date32 => signed::<Date32Type>(array),
        T::Date64 => signed::<Date64Type>(array),
        T::Time32(_) => signed_values(&integers::<Int32Type>(array)),
        T::Time64(_) | T::Timestamp(..) | T::Duration(_) => signed_values(&integers::<Int64Type>(array)),
        T::Decimal32(..) => decimals::<Decimal32Type>(array, |v| i256::from_i128(v.into())),
        T::Decimal64(..) => decimals::<Decimal64Type>(array, |v| i256::from_i128(v.into())),
        T::Decimal128(..) => decimals::<Decimal128Type>(array, i256::from_i128),
        T::Decimal256(..) => decimals::<Decimal256Type>(array, |v| v),
        T::Utf8 => spans(array.as_string::<i32>(), str::as_bytes).map(both(text)),
        T::LargeUtf8 => spans(array.as_string::<i64>(), str::as_bytes).map(both(text)),
        T::Utf8View => spans(array.as_string_view(), str::as_bytes).map(both(text)),
        T::Binary => spans(array.as_binary::<i32>(), |v| v).map(both(binary)),
        T::LargeBinary => spans(array.as_binary::<i64>(), |v| v).map(both(binary)),
        T::BinaryView => spans(array.as_binary_view(), |v| v).map(both(binary)),
        T::FixedSizeBinary(_) => spans(array.as_fixed_size_binary(), |v| v).map(both(binary)),
        T::Dictionary(..) => extremes(plain(array)?.as_ref())?,
        _ => None,
    })
}

fn both<T>(make: impl Fn(T) -> Value) -> impl Fn((T, T)) -> (Value, Value) {
    move |(low, high)| (make(low), make(high))
}

fn text(value: &[u8]) -> Value {
    Value::Text(String::from_utf8_lossy(value).into_owned())
}

fn binary(value: &[u8]) -> Value {
    Value::Bytes(value.to_vec())
}

fn spans<A: ArrayAccessor + Copy, T: Ord + Copy>(array: A, view: impl Fn(A::Item) -> T) -> Option<(T, T)> {
    let mut found: Option<(T, T)> = None;
    for index in (0..array.len()).filter(|i| array.is_valid(*i)) {
        let value = view(array.value(index));
        found = Some(match found {
            None => (value, value),
            Some((low, high)) => (low.min(value), high.max(value)),
        });
    }
    found
}

fn numbers<N: Copy + PartialOrd>(values: impl Iterator<Item = N>) -> Option<(N, N)> {
    values.fold(None, |found, value| {
        Some(match found {
            None => (value, value),
            Some((low, high)) => (
                if value < low { value } else { low },
                if value > high { value } else { high },
            ),
        })
    })
}

fn valid<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>) -> Option<(T::Native, T::Native)>
where
    T::Native: PartialOrd,
{
    if array.null_count() > 0 {
        return numbers(array.iter().flatten());
    }
    // Without an `Option` per value this loop becomes vector instructions.
    let first = *array.values().first()?;
    Some(array.values().iter().fold((first, first), |(low, high), &value| {
        (
            if value < low { value } else { low },
            if value > high { value } else { high },
        )
    }))
}

fn signed<T: ArrowPrimitiveType>(array: &dyn Array) -> Option<(Value, Value)>
where
    T::Native: Into<i64> + PartialOrd,
{
    signed_values(array.as_primitive::<T>())
}

fn signed_values<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>) -> Option<(Value, Value)>
where
    T::Native: Into<i64> + PartialOrd,
{
    valid(array).map(both(|v: T::Native| Value::Signed(v.into())))
}

fn unsigned<T: ArrowPrimitiveType>(array: &dyn Array) -> Option<(Value, Value)>
where
    T::Native: Into<u64> + PartialOrd,
{
    valid(array.as_primitive::<T>()).map(both(|v: T::Native| Value::Unsigned(v.into())))
}

fn decimals<T: ArrowPrimitiveType>(
    array: &dyn Array,
    widen: impl Fn(T::Native) -> i256,
) -> Option<(Value, Value)>
where
    T::Native: PartialOrd,
{
    valid(array.as_primitive::<T>()).map(both(|v: T::Native| Value::Decimal(widen(v))))
}

fn floats<T: ArrowPrimitiveType>(
    array: &dyn Array,
    widen: impl Fn(T::Native) -> f64,
) -> Option<(Value, Value)> {
    let order = |v: f64| {
        let bits = v.to_bits().cast_signed();
        bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
    };
    let values = array
        .as_primitive::<T>()
        .iter()
        .flatten()
        .map(widen)
        .filter(|v| !v.is_nan());
    let found = numbers(values.map(order))?;
    let restore = |key: i64| {
        let bits = key ^ ((key >> 63).cast_unsigned() >> 1).cast_signed();
        Value::Float(f64::from_bits(bits.cast_unsigned()))
    };
    Some(both(restore)(found))
}
