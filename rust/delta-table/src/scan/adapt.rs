//! Arrays of a file in the types of the table: the file may be older than a column, or come from another writer.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{Array, ArrayRef, ListArray, MapArray, StructArray, new_null_array};
use arrow_cast::cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType, Fields, TimeUnit};

use crate::mapping::Mapping;
use crate::schema::{ColumnType, TableColumn};

/// The array in the type of a table's column. Fields of structs are found as columns are, and are null where the file
/// has none.
pub(crate) fn adapt(array: &ArrayRef, to: &ColumnType, mapping: Mapping) -> Result<ArrayRef, ArrowError> {
    let data_type = to.arrow();
    // Where names are mapped, equal ones may be those of different fields.
    let is_alike =
        mapping == Mapping::None || matches!(to, ColumnType::Primitive(_) | ColumnType::Decimal(..));
    if is_alike && *array.data_type() == data_type {
        return Ok(Arc::clone(array));
    }
    match (array.data_type(), to, &data_type) {
        (DataType::Struct(_), ColumnType::Struct(columns), DataType::Struct(fields)) => {
            let group = adapt_struct(array.as_struct(), columns, fields, mapping)?;
            Ok(Arc::new(group))
        }
        (DataType::List(_), ColumnType::Array(kind, _), DataType::List(element)) => {
            let list = array.as_list::<i32>();
            let values = adapt(list.values(), kind, mapping)?;
            let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
            Ok(Arc::new(ListArray::try_new(
                Arc::clone(element),
                offsets,
                values,
                nulls,
            )?))
        }
        (DataType::Map(_, _), ColumnType::Map(key, value, _), DataType::Map(entries, sorted)) => {
            let map = array.as_map();
            let (offsets, nulls) = (map.offsets().clone(), map.nulls().cloned());
            let adapted = adapt_entries(map.entries(), [key, value], entries.data_type(), mapping)?;
            Ok(Arc::new(MapArray::try_new(
                Arc::clone(entries),
                offsets,
                adapted,
                nulls,
                *sorted,
            )?))
        }
        // A clock without a zone is read as one of UTC.
        (DataType::Timestamp(_, None), _, DataType::Timestamp(TimeUnit::Microsecond, zone)) => {
            let clock = strictly(array, &DataType::Timestamp(TimeUnit::Microsecond, None))?;
            let clock = clock.as_primitive::<TimestampMicrosecondType>().clone();
            Ok(Arc::new(clock.with_timezone_opt(zone.clone())))
        }
        _ => strictly(array, &data_type),
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

fn adapt_struct(
    array: &StructArray,
    columns: &[TableColumn],
    fields: &Fields,
    mapping: Mapping,
) -> Result<StructArray, ArrowError> {
    let columns =
        columns
            .iter()
            .zip(fields)
            .map(|(column, field)| match mapping.place(array.fields(), column) {
                Some(place) => adapt(array.column(place), &column.kind, mapping),
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
fn adapt_entries(
    entries: &StructArray,
    kinds: [&ColumnType; 2],
    to: &DataType,
    mapping: Mapping,
) -> Result<StructArray, ArrowError> {
    let DataType::Struct(fields) = to else {
        return Err(ArrowError::SchemaError(
            "the entries of a map are no struct".into(),
        ));
    };
    let columns = entries
        .columns()
        .iter()
        .zip(kinds)
        .map(|(column, kind)| adapt(column, kind, mapping));
    StructArray::try_new(
        fields.clone(),
        columns.collect::<Result<_, _>>()?,
        entries.nulls().cloned(),
    )
}
