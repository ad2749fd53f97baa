//! Partition values as Arrow arrays of one value.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, StringArray, TimestampMicrosecondArray, new_null_array};
use arrow_cast::cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType};
use delta_commit::actions::Add;
use delta_commit::time::{parse_moment, parse_timestamp};

use crate::error::{Result, TableError};
use crate::mapping::Mapping;
use crate::schema::TableColumn;

/// The file's value in a partition column: an array of one value.
///
/// The text is one of those of the protocol, section "Partition Value Serialization". Some writers write the empty text
/// where the protocol has null. In columns of text and bytes it is read as such, as by Spark and delta-rs.
pub(crate) fn constant(file: &Add, column: &TableColumn, mapping: Mapping) -> Result<ArrayRef> {
    let data_type = column.kind.arrow();
    let text = file.partition_values.get(mapping.stored_name(column)).flatten();
    let Some(text) = text.filter(|text| !text.is_empty() || column.kind.has_empty()) else {
        return Ok(new_null_array(&data_type, 1));
    };
    parsed(text, &data_type).map_err(|error| unfit(file, column, &error))
}

fn parsed(text: &str, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    match data_type {
        DataType::Binary => return Ok(Arc::new(BinaryArray::from_vec(vec![text.as_bytes()]))),
        DataType::Timestamp(_, zone) => {
            let micros = match zone {
                Some(_) => parse_timestamp(text),
                // The column may have been one of dates when the file was written.
                None => parse_moment(text),
            };
            let micros = micros.ok_or_else(|| ArrowError::ParseError(format!("{text:?}")))?;
            let value = TimestampMicrosecondArray::from_value(micros, 1);
            return Ok(Arc::new(value.with_timezone_opt(zone.clone())));
        }
        _ => {}
    }
    let text: ArrayRef = Arc::new(StringArray::from(vec![text]));
    let strict = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(&text, data_type, &strict)
}

fn unfit(file: &Add, column: &TableColumn, error: &ArrowError) -> TableError {
    TableError::Malformed(format!(
        "{}: the file's partition value of {:?} is no {}: {error}",
        file.path,
        column.name,
        column.kind.arrow()
    ))
}
