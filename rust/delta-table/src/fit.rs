//! Values of one Arrow type as those of another: each arrives as it is, or is refused with a reason.
//!
//! The rules are those of rows that are appended. Whole numbers and decimals have to be exact in their new type. A
//! floating-point column gets the nearest number of its precision from floating-point numbers and decimals, and no
//! infinity from a finite one. Timestamps keep whether they have a time zone, and dates get no time of day.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, DecimalType, Float16Type, Float32Type, Float64Type, TimestampMicrosecondType,
};
use arrow_array::{
    Array, ArrayRef, Float32Array, Float64Array, ListArray, MapArray, StructArray, UInt64Array, make_array,
    new_null_array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_cast::cast::{CastOptions, cast_with_options};
use arrow_cast::display::array_value_to_string;
use arrow_ord::cmp::distinct;
use arrow_schema::{ArrowError, DataType, FieldRef, Fields, TimeUnit};
use arrow_select::take::take;

use crate::rows::finer;
use crate::sql::plain;

/// Characters of a value in an error.
const MOST_SHOWN: usize = 60;

const MICROS_PER_DAY: i64 = 86_400_000_000;

/// The reason why values do not fit, in words that follow "does not fit: ".
pub(crate) type MisfitReason = String;

/// Checks that values of the type `from` may be values of the type `to`.
///
/// # Errors
/// The reason, if no value fits, or none without a conversion that the caller has to choose.
pub(crate) fn check_type(from: &DataType, to: &DataType) -> Result<(), MisfitReason> {
    use DataType::{
        Binary, BinaryView, Boolean, Date32, Date64, Decimal128, Dictionary, FixedSizeBinary, FixedSizeList,
        Float32, Float64, LargeBinary, LargeList, LargeListView, LargeUtf8, List, ListView, Map, Null,
        RunEndEncoded, Struct, Timestamp, Utf8, Utf8View,
    };
    let fits = match (from, to) {
        (Dictionary(_, values), _) => return check_type(values, to),
        (RunEndEncoded(_, values), _) => return check_type(values.data_type(), to),
        (Struct(from), Struct(to)) => return check_fields(from, to),
        (
            List(from) | LargeList(from) | ListView(from) | LargeListView(from) | FixedSizeList(from, _),
            List(to),
        ) => return check_type(from.data_type(), to.data_type()),
        (Map(from, _), Map(to, _)) => return check_entries(from, to),
        (Null, _)
        | (Boolean, Boolean)
        | (Utf8 | LargeUtf8 | Utf8View, Utf8)
        | (Binary | LargeBinary | BinaryView | FixedSizeBinary(_), Binary)
        | (Date32 | Date64, Date32)
        | (Timestamp(_, Some(_)), Timestamp(_, Some(_)))
        | (Timestamp(_, None) | Date32 | Date64, Timestamp(_, None)) => true,
        (from, Float32 | Float64) => from.is_numeric(),
        (from, Decimal128(..)) => from.is_integer() || from.is_decimal(),
        (from, to) => to.is_integer() && from.is_numeric(),
    };
    if fits {
        Ok(())
    } else {
        Err(format!("{from} is no {to}: cast it to that first"))
    }
}

fn check_fields(from: &Fields, to: &Fields) -> Result<(), MisfitReason> {
    for field in from {
        let Some((_, known)) = to.find(field.name()) else {
            return Err(format!("the struct has no field {:?}", field.name()));
        };
        check_type(field.data_type(), known.data_type())
            .map_err(|why| format!("its field {:?}: {why}", field.name()))?;
    }
    Ok(())
}

/// The path of the first struct field that the type `to` has and the type `from` lacks.
pub(crate) fn lacking(from: &DataType, to: &DataType) -> Option<String> {
    use DataType::{
        Dictionary, FixedSizeList, LargeList, LargeListView, List, ListView, Map, RunEndEncoded, Struct,
    };
    match (from, to) {
        (Dictionary(_, values), _) => lacking(values, to),
        (RunEndEncoded(_, values), _) => lacking(values.data_type(), to),
        (Struct(from), Struct(to)) => to.iter().find_map(|field| {
            let name = field.name();
            match from.find(name) {
                None => Some(name.clone()),
                Some((_, given)) => {
                    lacking(given.data_type(), field.data_type()).map(|below| format!("{name}.{below}"))
                }
            }
        }),
        (
            List(from) | LargeList(from) | ListView(from) | LargeListView(from) | FixedSizeList(from, _),
            List(to),
        ) => lacking(from.data_type(), to.data_type()),
        (Map(from, _), Map(to, _)) => match (from.data_type(), to.data_type()) {
            (Struct(from), Struct(to)) => from
                .iter()
                .zip(to)
                .find_map(|(from, to)| lacking(from.data_type(), to.data_type())),
            _ => None,
        },
        _ => None,
    }
}

/// Checks that values of the type `from` can replace values of the type `to` without losing a struct field.
///
/// # Errors
/// As [`check_type`], and the path of the first missing field.
pub fn check_new_values(from: &DataType, to: &DataType) -> Result<(), MisfitReason> {
    check_type(from, to)?;
    lacking(from, to).map_or(Ok(()), |field| {
        Err(format!(
            "it has no field {field:?}, which would become null: add the field"
        ))
    })
}

/// Checks keys and values by their places: their names differ by writer.
fn check_entries(from: &FieldRef, to: &FieldRef) -> Result<(), MisfitReason> {
    let (DataType::Struct(from), DataType::Struct(to)) = (from.data_type(), to.data_type()) else {
        return Err("the entries of the map are no struct".to_owned());
    };
    from.iter()
        .zip(to)
        .try_for_each(|(from, to)| check_type(from.data_type(), to.data_type()))
}

/// The array in the type `to`.
///
/// # Errors
/// As [`check_type`]; the reason with the first value that does not fit.
pub(crate) fn fitted(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, MisfitReason> {
    check_type(array.data_type(), to)?;
    converted(array, to)
}

/// The array in a type that [`check_type`] accepts for it.
fn converted(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, MisfitReason> {
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    match (array.data_type(), to) {
        (DataType::Null, _) => Ok(new_null_array(to, array.len())),
        (DataType::Dictionary(_, values), _) => converted(&loosely(array, values)?, to),
        (DataType::RunEndEncoded(_, values), _) => converted(&loosely(array, values.data_type())?, to),
        (DataType::Struct(_), DataType::Struct(fields)) => group(array.as_struct(), fields),
        (DataType::Map(..), DataType::Map(entries, sorted)) => map(array.as_map(), entries, *sorted),
        (DataType::List(_), DataType::List(element)) => list(array.as_list(), element),
        (
            DataType::LargeList(field)
            | DataType::ListView(field)
            | DataType::LargeListView(field)
            | DataType::FixedSizeList(field, _),
            DataType::List(_),
        ) => converted(&loosely(array, &DataType::List(Arc::clone(field)))?, to),
        _ => leaf(array, to),
    }
}

/// A cast in which values that do not fit become null.
fn loosely(array: &dyn Array, to: &DataType) -> Result<ArrayRef, MisfitReason> {
    cast_with_options(array, to, &CastOptions::default()).map_err(|error| words(&error))
}

fn words(error: &ArrowError) -> MisfitReason {
    error.to_string()
}

fn group(array: &StructArray, fields: &Fields) -> Result<ArrayRef, MisfitReason> {
    let columns = fields
        .iter()
        .map(|field| match array.column_by_name(field.name()) {
            // Whatever is below a null is no value.
            Some(column) => converted(&masked(column, array.nulls()), field.data_type()),
            None => Ok(new_null_array(field.data_type(), array.len())),
        });
    let columns = columns.collect::<Result<_, _>>()?;
    let nulls = array.nulls().cloned();
    let group = StructArray::try_new_with_length(fields.clone(), columns, nulls, array.len());
    Ok(Arc::new(group.map_err(|error| words(&error))?))
}

/// The array with these nulls beside its own.
pub(crate) fn masked(array: &ArrayRef, nulls: Option<&NullBuffer>) -> ArrayRef {
    match nulls {
        Some(nulls) if nulls.null_count() > 0 && *array.data_type() != DataType::Null => {
            let data = array.to_data();
            let both = NullBuffer::union(data.nulls(), Some(nulls));
            data.into_builder()
                .nulls(both)
                .build()
                .map_or_else(|_| Arc::clone(array), make_array)
        }
        _ => Arc::clone(array),
    }
}

fn list(array: &ListArray, element: &FieldRef) -> Result<ArrayRef, MisfitReason> {
    let (offsets, values) = own_values(array.offsets(), array.values(), array.nulls())?;
    let values = converted(&values, element.data_type())?;
    let list = ListArray::try_new(Arc::clone(element), offsets, values, array.nulls().cloned());
    Ok(Arc::new(list.map_err(|error| words(&error))?))
}

fn map(array: &MapArray, entries: &FieldRef, sorted: bool) -> Result<ArrayRef, MisfitReason> {
    let DataType::Struct(fields) = entries.data_type() else {
        return Err("the entries of the map are no struct".to_owned());
    };
    let given: ArrayRef = Arc::new(array.entries().clone());
    let (offsets, given) = own_values(array.offsets(), &given, array.nulls())?;
    let columns = given.as_struct().columns().iter().zip(fields);
    let columns = columns.map(|(column, field)| converted(column, field.data_type()));
    let columns = columns.collect::<Result<_, _>>()?;
    let given = StructArray::try_new(fields.clone(), columns, None).map_err(|error| words(&error))?;
    let map = MapArray::try_new(
        Arc::clone(entries),
        offsets,
        given,
        array.nulls().cloned(),
        sorted,
    );
    Ok(Arc::new(map.map_err(|error| words(&error))?))
}

/// The values of lists, without those that belong to no list or to a null one, and the offsets in them.
pub(crate) fn own_values(
    offsets: &OffsetBuffer<i32>,
    values: &ArrayRef,
    nulls: Option<&NullBuffer>,
) -> Result<(OffsetBuffer<i32>, ArrayRef), MisfitReason> {
    let is_valid = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row));
    let lengths = offsets.lengths().enumerate();
    let lengths: Vec<usize> = lengths
        .map(|(row, length)| if is_valid(row) { length } else { 0 })
        .collect();
    let start = offsets.first();
    let all: usize = lengths.iter().sum();
    if usize::try_from(offsets.last() - start) == Ok(all) {
        let first = usize::try_from(start).unwrap_or(0);
        return Ok((OffsetBuffer::from_lengths(lengths), values.slice(first, all)));
    }
    let starts = offsets.iter().map(|start| u64::try_from(*start).unwrap_or(0));
    let own = starts.zip(&lengths);
    let own: UInt64Array = own
        .flat_map(|(start, length)| start..start + *length as u64)
        .collect::<Vec<_>>()
        .into();
    let values = take(values, &own, None).map_err(|error| words(&error))?;
    Ok((OffsetBuffer::from_lengths(lengths), values))
}

/// Converts values that have none inside them.
fn leaf(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, MisfitReason> {
    let from = array.data_type();
    let made = match (from, to) {
        (DataType::Date64, DataType::Timestamp(..)) => {
            let millis = loosely(array, &DataType::Timestamp(TimeUnit::Millisecond, None))?;
            return leaf(&millis, to);
        }
        (DataType::Date32, DataType::Timestamp(..)) => midnights(array),
        (from, DataType::Float32) if from.is_decimal() => {
            let parsed = |row| array_value_to_string(array, row).ok()?.parse::<f32>().ok();
            Arc::new(each(array, parsed).collect::<Float32Array>())
        }
        (from, DataType::Float64) if from.is_decimal() => {
            let parsed = |row| array_value_to_string(array, row).ok()?.parse::<f64>().ok();
            Arc::new(each(array, parsed).collect::<Float64Array>())
        }
        _ => loosely(array, to)?,
    };
    match first_changed(array, &made)? {
        None => Ok(made),
        Some(row) => Err(refusal(array, row, to)),
    }
}

fn each<'a, T>(
    array: &'a ArrayRef,
    value: impl Fn(usize) -> Option<T> + 'a,
) -> impl Iterator<Item = Option<T>> + 'a {
    (0..array.len()).map(move |row| array.is_valid(row).then(|| value(row)).flatten())
}

/// The moments at which days begin.
fn midnights(array: &ArrayRef) -> ArrayRef {
    let days = array.as_primitive::<Date32Type>();
    let moments =
        days.unary_opt::<_, TimestampMicrosecondType>(|days| i64::from(days).checked_mul(MICROS_PER_DAY));
    Arc::new(moments)
}

/// The first row whose value is another one in the array that was made of it.
fn first_changed(array: &ArrayRef, made: &ArrayRef) -> Result<Option<usize>, MisfitReason> {
    let lost = |row: &usize| array.is_valid(*row) && made.is_null(*row);
    if made.null_count() > array.null_count()
        && let Some(row) = (0..array.len()).find(lost)
    {
        return Ok(Some(row));
    }
    let (from, to) = (array.data_type(), made.data_type());
    // What has no null instead of a value is the same there.
    if (from.is_integer() && to.is_integer()) || !(from.is_numeric() || from.is_temporal()) {
        return Ok(None);
    }
    if let (from, DataType::Float32 | DataType::Float64) = (from, to)
        && !from.is_integer()
    {
        let is_finite = |array: &ArrayRef, row| is_finite(array, row).unwrap_or(true);
        let overflows = |row: &usize| made.is_valid(*row) && !is_finite(made, *row) && is_finite(array, *row);
        return Ok((0..array.len()).find(overflows));
    }
    if let DataType::Decimal128(precision, scale) = to {
        let values = made.as_primitive::<Decimal128Type>();
        let overflows = |row: &usize| {
            let value = values.value(*row);
            made.is_valid(*row)
                && Decimal128Type::validate_decimal_precision(value, *precision, *scale).is_err()
        };
        if let Some(row) = (0..array.len()).find(overflows) {
            return Ok(Some(row));
        }
    }
    let back = plain(&loosely(made, from)?);
    let differs = distinct(&back, &plain(array)).map_err(|error| words(&error))?;
    Ok(differs.values().set_indices().next())
}

/// Returns whether a number is finite; none for other types.
fn is_finite(array: &ArrayRef, row: usize) -> Option<bool> {
    match array.data_type() {
        DataType::Float16 => Some(array.as_primitive::<Float16Type>().value(row).is_finite()),
        DataType::Float32 => Some(array.as_primitive::<Float32Type>().value(row).is_finite()),
        DataType::Float64 => Some(array.as_primitive::<Float64Type>().value(row).is_finite()),
        _ => None,
    }
}

fn refusal(array: &ArrayRef, row: usize, to: &DataType) -> MisfitReason {
    let value = shown(array, row);
    match finer(array.data_type()) {
        Some(lost) => format!("the value {value} has {lost}"),
        None => format!("the value {value} is no {to}, and would be changed: round it or cast it first"),
    }
}

/// A value as an error has it.
pub(crate) fn shown(array: &ArrayRef, row: usize) -> String {
    let array = match array.data_type() {
        // Names of zones would need a table of names.
        DataType::Timestamp(unit, Some(_)) => {
            loosely(array, &DataType::Timestamp(*unit, Some("+00:00".into())))
        }
        _ => Ok(Arc::clone(array)),
    };
    let text = array.map(|array| array_value_to_string(&array, row));
    let Ok(Ok(text)) = text else {
        return "that cannot be shown".to_owned();
    };
    let mut shown: String = text.chars().take(MOST_SHOWN).collect();
    if shown.len() < text.len() {
        shown.push_str("...");
    }
    shown
}
