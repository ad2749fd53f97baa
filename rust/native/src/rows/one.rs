//! Rows that are looked at and not written: one row of values, and the schema of the first rows.

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use parquet_writer::WriteError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rows::{Extra, Rows};

use crate::errors::Failure;
use crate::rows::cells::{Fault, Reader};
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
    let mut rows = Rows::new(schema).map_err(|error| WriteError::schema(error.to_string()))?;
    let mut reader = Reader::new(values.py(), Extra::Error)?;
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
