//! Comparison of arrays with literals of the column's type.
//!
//! NaN equals NaN and is above all other numbers, and -0.0 equals 0.0, as in Spark ("NaN Semantics" in its SQL
//! reference).

use std::collections::HashSet;
use std::mem::discriminant;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Float32Array, Float64Array, Int64Array, Scalar, StringArray,
    TimestampMicrosecondArray,
};
use arrow_buffer::BooleanBuffer;
use arrow_cast::cast;
use arrow_ord::cmp;
use arrow_schema::{ArrowError, DataType};
use delta_commit::predicate::Literal;

/// The values that are among these, which have the type of the column; nothing is null in it.
pub(super) fn is_in(array: &ArrayRef, literals: &[Literal]) -> Result<BooleanArray, ArrowError> {
    let mut any = BooleanBuffer::new_unset(array.len());
    // The literals of a column have one type, to which the array is converted once.
    for same in literals.chunk_by(|a, b| discriminant(a) == discriminant(b)) {
        let Some(first) = same.first() else {
            continue;
        };
        let found = match same {
            [one] => equal(array, one)?,
            _ => among(&comparable(array, first)?, same),
        };
        any = &any | &found;
    }
    Ok(BooleanArray::new(any, None))
}

/// Compares each value with one literal by Arrow's kernel, which is faster than a lookup.
fn equal(array: &ArrayRef, literal: &Literal) -> Result<BooleanBuffer, ArrowError> {
    let value = array_of(literal, array.data_type());
    let array = plain(&cast(array, value.data_type())?);
    let equal = cmp::eq(&array, &Scalar::new(plain(&value)))?;
    Ok(match equal.nulls() {
        None => equal.values().clone(),
        Some(valid) => equal.values() & valid.inner(),
    })
}

/// The values, in the type of [`comparable`], that are among these literals of one type.
fn among(array: &ArrayRef, literals: &[Literal]) -> BooleanBuffer {
    let keys: HashSet<EqualityKey<'_>> = literals.iter().map(key).collect();
    let has = |row: usize, value: EqualityKey<'_>| array.is_valid(row) && keys.contains(&value);
    let len = array.len();
    match array.data_type() {
        DataType::Boolean => {
            let values = array.as_boolean();
            BooleanBuffer::collect_bool(len, |row| {
                has(row, EqualityKey::Number(u64::from(values.value(row))))
            })
        }
        DataType::Utf8 => {
            let values = array.as_string::<i32>();
            BooleanBuffer::collect_bool(len, |row| has(row, EqualityKey::Text(values.value(row))))
        }
        DataType::Float32 => {
            let values = array.as_primitive::<Float32Type>().values();
            BooleanBuffer::collect_bool(len, |row| {
                has(row, EqualityKey::Number(values[row].to_bits().into()))
            })
        }
        DataType::Float64 => {
            let values = array.as_primitive::<Float64Type>().values();
            BooleanBuffer::collect_bool(len, |row| has(row, EqualityKey::Number(values[row].to_bits())))
        }
        _ => {
            let values = array.as_primitive::<Int64Type>().values();
            BooleanBuffer::collect_bool(len, |row| {
                has(row, EqualityKey::Number(values[row].cast_unsigned()))
            })
        }
    }
}

/// A value that is compared by equality alone.
#[derive(PartialEq, Eq, Hash)]
enum EqualityKey<'a> {
    /// Its bits.
    Number(u64),
    Text(&'a str),
}

fn key(literal: &Literal) -> EqualityKey<'_> {
    match literal {
        Literal::Boolean(value) => EqualityKey::Number(u64::from(*value)),
        Literal::String(value) => EqualityKey::Text(value),
        Literal::Long(value) | Literal::Timestamp(value) | Literal::Date(value) => {
            EqualityKey::Number(value.cast_unsigned())
        }
        Literal::Float(value) => EqualityKey::Number(plain_float(*value).to_bits().into()),
        Literal::Double(value) | Literal::Decimal(value) => {
            EqualityKey::Number(plain_double(*value).to_bits())
        }
    }
}

/// The array in the type in which [`among`] looks its values up.
fn comparable(array: &ArrayRef, literal: &Literal) -> Result<ArrayRef, ArrowError> {
    Ok(match literal {
        Literal::Boolean(_) => cast(array, &DataType::Boolean)?,
        Literal::String(_) => cast(array, &DataType::Utf8)?,
        Literal::Long(_) | Literal::Timestamp(_) => cast(array, &DataType::Int64)?,
        // Days have 32 bits; the literal may have more.
        Literal::Date(_) => cast(&cast(array, &DataType::Int32)?, &DataType::Int64)?,
        Literal::Float(_) => plain(&cast(array, &DataType::Float32)?),
        Literal::Double(_) | Literal::Decimal(_) => plain(&cast(array, &DataType::Float64)?),
    })
}

/// A literal as an array of one value, in the type in which a column of this type is compared with it.
pub(super) fn array_of(literal: &Literal, column: &DataType) -> ArrayRef {
    match literal {
        Literal::Boolean(value) => Arc::new(BooleanArray::from(vec![*value])),
        Literal::String(value) => Arc::new(StringArray::from(vec![value.as_str()])),
        Literal::Long(value) => Arc::new(Int64Array::from(vec![*value])),
        Literal::Date(days) => {
            // Outside of the range no date of a column compares differently.
            let end = if *days < 0 { i32::MIN } else { i32::MAX };
            Arc::new(Date32Array::from(vec![i32::try_from(*days).unwrap_or(end)]))
        }
        Literal::Timestamp(micros) => {
            let value = TimestampMicrosecondArray::from(vec![*micros]);
            Arc::new(match column {
                DataType::Timestamp(_, zone) => value.with_timezone_opt(zone.clone()),
                _ => value,
            })
        }
        Literal::Float(value) => Arc::new(Float32Array::from(vec![*value])),
        Literal::Double(value) | Literal::Decimal(value) => Arc::new(Float64Array::from(vec![*value])),
    }
}

/// The array with one NaN and one zero, if it has floats. Others it returns as they are.
pub(crate) fn plain(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float32 => {
            let floats = array.as_primitive::<Float32Type>();
            Arc::new(floats.unary::<_, Float32Type>(plain_float))
        }
        DataType::Float64 => {
            let doubles = array.as_primitive::<Float64Type>();
            Arc::new(doubles.unary::<_, Float64Type>(plain_double))
        }
        _ => Arc::clone(array),
    }
}

/// The one NaN, and the one zero, that Arrow's total order compares as this module says.
fn plain_float(value: f32) -> f32 {
    if value.is_nan() { f32::NAN } else { value + 0.0 }
}

fn plain_double(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value + 0.0 }
}
