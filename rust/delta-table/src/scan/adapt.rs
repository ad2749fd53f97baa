//! Arrays of a file in the types of the table: the file may be older than a column, or come from another writer.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{Array, ArrayRef, ListArray, MapArray, StructArray, new_null_array};
use arrow_cast::cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType, Fields, TimeUnit};

/// The array in another type. Fields of structs are found by name, and are null where the file has none.
pub(crate) fn adapt(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    match (array.data_type(), to) {
        (DataType::Struct(_), DataType::Struct(fields)) => {
            Ok(Arc::new(adapt_struct(array.as_struct(), fields)?))
        }
        (DataType::List(_), DataType::List(element)) => {
            let list = array.as_list::<i32>();
            let values = adapt(list.values(), element.data_type())?;
            let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
            Ok(Arc::new(ListArray::try_new(
                Arc::clone(element),
                offsets,
                values,
                nulls,
            )?))
        }
        (DataType::Map(_, _), DataType::Map(entries, sorted)) => {
            let map = array.as_map();
            let (offsets, nulls) = (map.offsets().clone(), map.nulls().cloned());
            let adapted = adapt_entries(map.entries(), entries.data_type())?;
            Ok(Arc::new(MapArray::try_new(
                Arc::clone(entries),
                offsets,
                adapted,
                nulls,
                *sorted,
            )?))
        }
        // A clock without a zone is read as one of UTC.
        (DataType::Timestamp(_, None), DataType::Timestamp(TimeUnit::Microsecond, zone)) => {
            let clock = strictly(array, &DataType::Timestamp(TimeUnit::Microsecond, None))?;
            let clock = clock.as_primitive::<TimestampMicrosecondType>().clone();
            Ok(Arc::new(clock.with_timezone_opt(zone.clone())))
        }
        _ => strictly(array, to),
    }
}

/// The array in another type; a value that does not fit is an error, and no null.
fn strictly(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    let strict = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(array, to, &strict)
}

fn adapt_struct(array: &StructArray, fields: &Fields) -> Result<StructArray, ArrowError> {
    let columns = fields
        .iter()
        .map(|field| match array.column_by_name(field.name()) {
            Some(column) => adapt(column, field.data_type()),
            None => Ok(new_null_array(field.data_type(), array.len())),
        });
    StructArray::try_new_with_length(
        fields.clone(),
        columns.collect::<Result<_, _>>()?,
        array.nulls().cloned(),
        array.len(),
    )
}

/// The entries of a map. Key and value are found by their places: writers differ in their names.
fn adapt_entries(entries: &StructArray, to: &DataType) -> Result<StructArray, ArrowError> {
    let DataType::Struct(fields) = to else {
        return Err(ArrowError::SchemaError(
            "the entries of a map are no struct".into(),
        ));
    };
    let columns = entries
        .columns()
        .iter()
        .zip(fields)
        .map(|(column, field)| adapt(column, field.data_type()));
    StructArray::try_new(
        fields.clone(),
        columns.collect::<Result<_, _>>()?,
        entries.nulls().cloned(),
    )
}
