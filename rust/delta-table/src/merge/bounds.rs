//! Conditions that hold for every row of the table whose key a source row has.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType};
use delta_commit::predicate::Literal;

use crate::error::{Result, TableError};
use crate::schema::{ColumnType, Primitive, TableColumn};
use crate::sql::{BoundCondition, Operator};

use super::source::MergeSource;

/// Values of a column up to which each is named. Of more, the least and the greatest are.
const MOST_NAMED: usize = 256;

/// The condition by which files are skipped and concurrent transactions are checked. Key columns of other types do not
/// restrict it.
pub(super) fn condition(key: &[TableColumn], source: &MergeSource) -> Result<BoundCondition> {
    let mut parts = Vec::new();
    for column in key {
        let Some(place) = source.place(&column.name) else {
            continue;
        };
        let arrays: Vec<&ArrayRef> = source.column(place).iter().collect();
        let of_column = of_column(column, &arrays).map_err(|error| {
            TableError::column(
                &column.name,
                format!("the column {:?} does not fit: {error}", column.name),
            )
        })?;
        parts.extend(of_column);
    }
    Ok(BoundCondition::All(parts))
}

fn of_column(column: &TableColumn, arrays: &[&ArrayRef]) -> Result<Vec<BoundCondition>, ArrowError> {
    use Primitive::{
        Binary, Boolean, Byte, Date, Double, Float, Integer, Long, Short, String, Timestamp, TimestampNtz,
    };
    let ColumnType::Primitive(primitive) = &column.kind else {
        return Ok(Vec::new());
    };
    Ok(match primitive {
        Byte | Short | Integer | Long => between(column, longs(arrays)?, Literal::Long),
        Timestamp | TimestampNtz => between(column, longs(arrays)?, Literal::Timestamp),
        Date => between(column, longs(arrays)?, Literal::Date),
        String => between(column, texts(arrays), |text| Literal::String(text.to_owned())),
        Boolean => between(column, booleans(arrays), Literal::Boolean),
        // Engines order NaN differently.
        Float => among(column, singles(arrays), Literal::Float),
        Double => among(column, doubles(arrays), Literal::Double),
        Binary => Vec::new(),
    })
}

/// Conditions on a column with ordered values: `IN` for a few, else the smallest and the largest.
fn between<T: Ord + Copy>(
    column: &TableColumn,
    mut values: Vec<T>,
    literal: impl Fn(T) -> Literal,
) -> Vec<BoundCondition> {
    values.sort_unstable();
    values.dedup();
    match values.as_slice() {
        [first, .., last] if values.len() > MOST_NAMED => vec![
            BoundCondition::compare(column, Operator::GreaterOrEqual, literal(*first)),
            BoundCondition::compare(column, Operator::LessOrEqual, literal(*last)),
        ],
        _ => among(column, values, literal),
    }
}

/// `IN`, unless there are many values.
fn among<T>(column: &TableColumn, values: Vec<T>, literal: impl Fn(T) -> Literal) -> Vec<BoundCondition> {
    if values.len() > MOST_NAMED {
        return Vec::new();
    }
    vec![BoundCondition::among(
        column,
        values.into_iter().map(literal).collect(),
    )]
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
