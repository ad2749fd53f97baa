//! Conditions that hold for every row of the table whose key a source row has.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType};
use delta_commit::predicate::{Comparison, Literal, Term};

use crate::error::{Result, TableError};
use crate::head::TableHead;
use crate::schema::{ColumnType, Primitive, TableColumn};

use super::source::MergeSource;

/// Values of a column up to which each is named. Of more, the least and the greatest are.
const MOST_NAMED: usize = 256;

/// The conditions, by which files are left out and concurrent transactions are checked. A column of the key for which
/// there are no conditions has none.
pub(super) fn terms(head: &TableHead, key: &[TableColumn], source: &MergeSource) -> Result<Vec<Term>> {
    let mut terms = Vec::new();
    for column in key {
        let Some(place) = source.place(&column.name) else {
            continue;
        };
        let arrays: Vec<&ArrayRef> = source.column(place).iter().collect();
        let comparisons = comparisons(&column.kind, &arrays).map_err(|error| {
            TableError::column(
                &column.name,
                format!("the column {:?} does not fit: {error}", column.name),
            )
        })?;
        let column = |comparison| Term::new(head.mapping.stored_name(column), comparison);
        terms.extend(comparisons.into_iter().map(column));
    }
    Ok(terms)
}

fn comparisons(kind: &ColumnType, arrays: &[&ArrayRef]) -> Result<Vec<Comparison>, ArrowError> {
    use Primitive::{
        Binary, Boolean, Byte, Date, Double, Float, Integer, Long, Short, String, Timestamp, TimestampNtz,
    };
    let ColumnType::Primitive(primitive) = kind else {
        return Ok(Vec::new());
    };
    Ok(match primitive {
        Byte | Short | Integer | Long => between(longs(arrays)?, Literal::Long),
        Timestamp | TimestampNtz => between(longs(arrays)?, Literal::Timestamp),
        Date => between(longs(arrays)?, Literal::Date),
        String => between(texts(arrays), |text| Literal::String(text.to_owned())),
        Boolean => between(booleans(arrays), Literal::Boolean),
        // Engines order NaN differently.
        Float => among(singles(arrays), Literal::Float),
        Double => among(doubles(arrays), Literal::Double),
        Binary => Vec::new(),
    })
}

/// The comparisons with ordered values: one with each, or with both ends.
fn between<T: Ord + Copy>(mut values: Vec<T>, literal: impl Fn(T) -> Literal) -> Vec<Comparison> {
    values.sort_unstable();
    values.dedup();
    match values.as_slice() {
        [first, .., last] if values.len() > MOST_NAMED => vec![
            Comparison::GreaterOrEqual(literal(*first)),
            Comparison::LessOrEqual(literal(*last)),
        ],
        _ => vec![Comparison::In(values.into_iter().map(literal).collect())],
    }
}

/// The comparison with each value, if they are few.
fn among<T>(values: Vec<T>, literal: impl Fn(T) -> Literal) -> Vec<Comparison> {
    if values.len() > MOST_NAMED {
        return Vec::new();
    }
    vec![Comparison::In(values.into_iter().map(literal).collect())]
}

/// Numbers, days since the epoch, or microseconds.
fn longs(arrays: &[&ArrayRef]) -> Result<Vec<i64>, ArrowError> {
    let mut values = Vec::new();
    for array in arrays {
        let whole = match array.data_type() {
            DataType::Date32 => cast(array, &DataType::Int32)?,
            _ => ArrayRef::clone(array),
        };
        let whole = cast(&whole, &DataType::Int64)?;
        values.extend(whole.as_primitive::<Int64Type>().iter().flatten());
    }
    Ok(values)
}

fn texts<'a>(arrays: &[&'a ArrayRef]) -> Vec<&'a str> {
    let all = arrays.iter().flat_map(|array| array.as_string::<i32>().iter());
    all.flatten().collect()
}

fn booleans(arrays: &[&ArrayRef]) -> Vec<bool> {
    let all = arrays.iter().flat_map(|array| array.as_boolean().iter());
    all.flatten().collect()
}

fn singles(arrays: &[&ArrayRef]) -> Vec<f32> {
    let all = arrays
        .iter()
        .flat_map(|array| array.as_primitive::<Float32Type>().iter());
    all.flatten().collect()
}

fn doubles(arrays: &[&ArrayRef]) -> Vec<f64> {
    let all = arrays
        .iter()
        .flat_map(|array| array.as_primitive::<Float64Type>().iter());
    all.flatten().collect()
}
