//! Schemas of tables and of rows, as Arrow libraries take them.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::ffi::FFI_ArrowSchema;
use arrow_schema::{Schema, SchemaRef};
use delta_table::schema::TableSchema;
use parquet_writer::WriteError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};

use crate::arrow::{ArrowSource, Batches};
use crate::errors::Failure;
use crate::rows;
use crate::turn::detached;

use super::errors;

/// A schema that any Arrow library takes.
#[pyclass(module = "spillway._native", frozen)]
pub(crate) struct DeltaSchema {
    pub(super) schema: Arc<TableSchema>,
}

#[pymethods]
impl DeltaSchema {
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema.arrow())
    }

    /// The schema that a table of these dicts has.
    #[staticmethod]
    fn of_rows(rows: &Bound<'_, PyList>) -> PyResult<Self> {
        let py = rows.py();
        let rows: Vec<_> = rows.iter().collect();
        let schema = rows::inferred(&rows).map_err(|failure| failure.into_py(py))?;
        let schema = TableSchema::of(&schema).map_err(|error| errors::raised(py, error))?;
        Ok(Self {
            schema: Arc::new(schema),
        })
    }

    /// The schema as the log holds it.
    fn to_json(&self) -> String {
        self.schema.to_json()
    }

    /// Names of the columns.
    #[getter]
    fn names(&self) -> Vec<String> {
        let columns = self.schema.columns.iter();
        columns.map(|column| column.name.clone()).collect()
    }
}

/// Rows whose schema is read before they are written.
#[pyclass(module = "spillway._native", frozen)]
pub(crate) struct RowSource {
    schema: SchemaRef,
    batches: Mutex<Option<Batches>>,
    /// The number of arrays that are written together.
    pub(super) together: usize,
    /// True if each batch may be made when it is asked for.
    pub(super) is_made: bool,
}

#[pymethods]
impl RowSource {
    /// Takes any object with the Arrow `PyCapsule` interface.
    #[new]
    pub(super) fn new(data: &Bound<'_, PyAny>) -> PyResult<Self> {
        let source = ArrowSource::take(data)?;
        let (together, is_made) = (source.arrays_together(), source.is_made());
        let (schema, batches) = detached(data.py(), || source.open())?;
        Ok(Self {
            together,
            is_made,
            schema,
            batches: Mutex::new(Some(batches)),
        })
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema)
    }

    #[getter]
    fn names(&self) -> Vec<String> {
        let fields = self.schema.fields().iter();
        fields.map(|field| field.name().clone()).collect()
    }
}

impl RowSource {
    /// The rows, once.
    pub(super) fn open(&self) -> Result<(SchemaRef, Batches), Failure> {
        let mut batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        match batches.take() {
            Some(batches) => Ok((Arc::clone(&self.schema), batches)),
            None => Err(WriteError::Closed("the rows were written before".into()).into()),
        }
    }
}

pub(super) fn schema_capsule<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema)
        .map_err(|error| Failure::from(WriteError::from(error)).into_py(py))?;
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}
