//! Rows that are not written as such: one row of values, one column of values, and the schema of the first rows.

use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator};
use arrow_schema::{DataType, Schema, SchemaRef};
use parquet_writer::WriteError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList, PyString, PyTuple};
use rows::{Extra, Rows};

use crate::arrow::schema_from;
use crate::errors::Failure;
use crate::rows::cells::{CellReader, Fault};
use crate::rows::guess;

/// The schema that rows of these dicts have, as a writer without a schema infers it.
pub(crate) fn inferred(rows: &[Bound<'_, PyAny>]) -> Result<Schema, Failure> {
    Ok(guess::shape(rows)?.schema())
}

/// The row of a dict that has a value for each field of the schema. Values are converted as those of rows that are
/// written; `what` names the dict in the error of one that does not fit.
pub(crate) fn one_row(
    schema: SchemaRef,
    values: &Bound<'_, PyDict>,
    what: &str,
) -> Result<RecordBatch, Failure> {
    for field in schema.fields() {
        let value = values.get_item(field.name()).map_err(Failure::Python)?;
        if let Some(lacked) = value.and_then(|value| lacked_field(&value, field.data_type())) {
            let path = std::iter::once(field.name().as_str()).chain(lacked.iter().map(String::as_str));
            let path = path.collect::<Vec<_>>().join(".");
            let message = format!(
                "{what} has a struct without the field {path:?}, which would become null: give the field a value, or None"
            );
            return Err(WriteError::column(path, message).into());
        }
    }
    let mut rows = Rows::new(schema).map_err(|error| WriteError::schema(error.to_string()))?;
    let mut reader = CellReader::new(values.py(), Extra::Error)?;
    let done = reader.dict(values, &mut rows.fields, 0);
    rows.fields.forget_tokens();
    match done {
        Ok(()) => {
            rows.commit();
            Ok(rows.finish().map_err(WriteError::from)?)
        }
        Err(Fault::Raised(error)) => Err(Failure::Python(*error)),
        Err(Fault::Misfit(misfit)) => {
            let path = misfit.path();
            let message = format!(
                "{what} has a value for {path:?} that does not fit: {}",
                misfit.message()
            );
            Err(WriteError::column(path, message).into())
        }
    }
}

/// The values of a column, which is the only field of the schema, as a capsule of a stream of Arrow. They are converted
/// as those of rows are; a name in place of a schema has its type inferred from all of them.
#[pyfunction]
pub(crate) fn column_stream<'py>(
    column: &Bound<'py, PyAny>,
    values: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let py = values.py();
    let schema = match column.cast::<PyString>() {
        Ok(name) => {
            let name: String = name.extract()?;
            let shape = guess::column(&name, values).map_err(|failure| failure.into_py(py))?;
            Arc::new(shape.waiting_schema(&[]))
        }
        Err(_) => schema_from(column)?,
    };
    let batches = batches_of(&schema, values).map_err(|failure| failure.into_py(py))?;
    // The builders make no views and no dictionaries.
    let schema = batches.first().map_or(schema, RecordBatch::schema);
    let batches = RecordBatchIterator::new(batches.into_iter().map(Ok), schema);
    let stream = FFI_ArrowArrayStream::new(Box::new(batches));
    PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
}

fn batches_of(schema: &SchemaRef, values: &Bound<'_, PyAny>) -> Result<Vec<RecordBatch>, Failure> {
    let mut rows = Rows::new(Arc::clone(schema)).map_err(|error| WriteError::schema(error.to_string()))?;
    let mut reader = CellReader::new(values.py(), Extra::Error)?;
    let name = schema
        .fields()
        .first()
        .map(|field| field.name().as_str())
        .unwrap_or_default();
    let row = PyDict::new(values.py());
    let mut batches = Vec::new();
    for (number, value) in values.try_iter().map_err(Failure::Python)?.enumerate() {
        let set = value.and_then(|value| row.set_item(name, value));
        set.map_err(Failure::Python)?;
        let at = rows.rows();
        match reader.dict(&row, &mut rows.fields, at) {
            Ok(()) => rows.commit(),
            Err(Fault::Raised(error)) => return Err(Failure::Python(*error)),
            Err(Fault::Misfit(misfit)) => {
                let message = format!(
                    "value {number} of column {name:?} does not fit: {}",
                    misfit.message()
                );
                return Err(WriteError::column(misfit.path(), message).into());
            }
        }
        if rows.is_full() {
            values.py().check_signals().map_err(Failure::Python)?;
            batches.push(rows.finish().map_err(WriteError::from)?);
        }
    }
    batches.push(rows.finish().map_err(WriteError::from)?);
    Ok(batches)
}

/// The path of the first field of a struct that a dict in its place lacks. In rows such a field is null; a value that
/// replaces another one would clear it unnoticed.
fn lacked_field(value: &Bound<'_, PyAny>, kind: &DataType) -> Option<Vec<String>> {
    match kind {
        DataType::Struct(fields) => {
            let dict = value.cast::<PyDict>().ok()?;
            fields.iter().find_map(|field| {
                let lacked = match dict.get_item(field.name()).ok()? {
                    Some(value) => lacked_field(&value, field.data_type())?,
                    None => Vec::new(),
                };
                Some([vec![field.name().clone()], lacked].concat())
            })
        }
        DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => {
            elements(value)?.find_map(|value| lacked_field(&value, element.data_type()))
        }
        DataType::Map(entries, _) => {
            let DataType::Struct(fields) = entries.data_type() else {
                return None;
            };
            let kind = fields.get(1)?.data_type();
            match value.cast::<PyDict>() {
                Ok(dict) => dict.values().iter().find_map(|value| lacked_field(&value, kind)),
                Err(_) => elements(value)?.find_map(|pair| lacked_field(&pair.get_item(1).ok()?, kind)),
            }
        }
        _ => None,
    }
}

/// The elements of a list or a tuple, which are what rows take for a list; none for another value.
fn elements<'py>(value: &Bound<'py, PyAny>) -> Option<impl Iterator<Item = Bound<'py, PyAny>>> {
    let is_list = value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>();
    let elements = is_list.then(|| value.try_iter().ok())??;
    Some(elements.filter_map(PyResult::ok))
}
