//! Conditions on the values of an array.
//!
//! A comparison with null is null, which does not hold. NaN equals NaN and is above all other numbers, and -0.0 equals
//! 0.0, as in Spark ("NaN Semantics" in its SQL reference).

use std::collections::HashSet;
use std::mem::discriminant;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Datum, Float32Array, Float64Array, Int64Array, Scalar, StringArray,
};
use arrow_buffer::BooleanBuffer;
use arrow_cast::cast;
use arrow_ord::cmp;
use arrow_schema::{ArrowError, DataType};
use delta_commit::predicate::{Comparison, Literal};

/// For each value, true if the comparison holds; false or null if it does not.
pub(super) fn holds(array: &ArrayRef, comparison: &Comparison) -> Result<BooleanArray, ArrowError> {
    use Comparison::{
        Equal, Greater, GreaterOrEqual, In, IsEmpty, IsNotEmpty, IsNotNull, IsNull, Less, LessOrEqual,
        NotEqual,
    };
    type Compare = fn(&dyn Datum, &dyn Datum) -> Result<BooleanArray, ArrowError>;
    let (compare, literal): (Compare, &Literal) = match comparison {
        IsNull => return Ok(is_null(array)),
        IsNotNull => {
            let is_null = is_null(array);
            return Ok(BooleanArray::new(!is_null.values(), None));
        }
        IsEmpty => return is_empty(array),
        IsNotEmpty => {
            let is_empty = is_empty(array)?;
            return Ok(BooleanArray::new(!is_empty.values(), None));
        }
        In(literals) => return is_in(array, literals),
        Equal(literal) => (cmp::eq, literal),
        NotEqual(literal) => (cmp::neq, literal),
        Less(literal) => (cmp::lt, literal),
        LessOrEqual(literal) => (cmp::lt_eq, literal),
        Greater(literal) => (cmp::gt, literal),
        GreaterOrEqual(literal) => (cmp::gt_eq, literal),
    };
    compare(&comparable(array, literal)?, &scalar(literal))
}

/// The values of which it is certain that they are true.
pub(super) fn certain(array: &BooleanArray) -> BooleanBuffer {
    match array.nulls() {
        None => array.values().clone(),
        Some(nulls) => array.values() & nulls.inner(),
    }
}

fn is_null(array: &ArrayRef) -> BooleanArray {
    let values = match array.logical_nulls() {
        None => BooleanBuffer::new_unset(array.len()),
        Some(nulls) => !nulls.inner(),
    };
    BooleanArray::new(values, None)
}

/// The values that are null or the empty text; nothing is null in it.
fn is_empty(array: &ArrayRef) -> Result<BooleanArray, ArrowError> {
    let empty = holds(array, &Comparison::Equal(Literal::String(String::new())))?;
    let either = is_null(array).values() | &certain(&empty);
    Ok(BooleanArray::new(either, None))
}

/// The values that are among these, which have the type of the column; nothing is null in it.
pub(crate) fn is_in(array: &ArrayRef, literals: &[Literal]) -> Result<BooleanArray, ArrowError> {
    let mut any = BooleanBuffer::new_unset(array.len());
    // The literals of a column have one type, to which the array is converted once.
    for same in literals.chunk_by(|a, b| discriminant(a) == discriminant(b)) {
        let Some(first) = same.first() else {
            continue;
        };
        any = &any | &among(&comparable(array, first)?, same);
    }
    Ok(BooleanArray::new(any, None))
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

/// The array in the type of [`scalar`].
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

fn scalar(literal: &Literal) -> Scalar<ArrayRef> {
    let array: ArrayRef = match literal {
        Literal::Boolean(value) => Arc::new(BooleanArray::from(vec![*value])),
        Literal::String(value) => Arc::new(StringArray::from(vec![value.as_str()])),
        Literal::Long(value) | Literal::Timestamp(value) | Literal::Date(value) => {
            Arc::new(Int64Array::from(vec![*value]))
        }
        Literal::Float(value) => Arc::new(Float32Array::from(vec![plain_float(*value)])),
        Literal::Double(value) | Literal::Decimal(value) => {
            Arc::new(Float64Array::from(vec![plain_double(*value)]))
        }
    };
    Scalar::new(array)
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
