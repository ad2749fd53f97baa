//! Scans and change data feeds: the classes `DeltaScan` and `DeltaChanges`, which those of `spillway.delta` wrap.

use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use delta_table::{Changes, Scan};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};

use super::{file_dict, schema_capsule};
use crate::turn::{keep_raised, take_raised};

/// A reading of rows, from the first one on.
type Read = Box<dyn Fn() -> Box<dyn RecordBatchReader + Send> + Send + Sync>;

/// Rows for an Arrow library, which cannot be given the exception of a signal handler.
struct Interruptible(Box<dyn RecordBatchReader + Send>);

impl Iterator for Interruptible {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.0.next();
        if matches!(next, Some(Err(_)))
            && let Some(raised) = take_raised()
        {
            Python::attach(|py| interrupt_again(py, raised));
        }
        next
    }
}

impl RecordBatchReader for Interruptible {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }
}

/// Has Python raise a `KeyboardInterrupt` once the Arrow library has returned. Another exception is raised by the next
/// call of this module.
fn interrupt_again(py: Python<'_>, raised: PyErr) {
    let again = || py.import("_thread")?.call_method0("interrupt_main");
    if !raised.is_instance_of::<PyKeyboardInterrupt>(py) || again().is_err() {
        keep_raised(raised);
    }
}

/// Rows of a table as an Arrow stream. Nothing is read before a stream is asked for.
#[pyclass(module = "spillway._native", frozen, subclass)]
pub(crate) struct DeltaRows {
    schema: SchemaRef,
    read: Read,
}

#[pymethods]
impl DeltaRows {
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema)
    }

    /// A stream from the first row on, in the table's own types.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface lets a producer answer in other types.
        let _ = requested_schema;
        let rows = Interruptible((self.read)());
        let stream = FFI_ArrowArrayStream::new(Box::new(rows));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}

/// The rows of a version that satisfy conditions.
#[pyclass(module = "spillway._native", frozen, extends = DeltaRows)]
pub(crate) struct DeltaScan {
    scan: Arc<Scan>,
}

impl DeltaScan {
    pub fn of(py: Python<'_>, scan: Scan) -> PyResult<Bound<'_, Self>> {
        let scan = Arc::new(scan);
        let of_rows = Arc::clone(&scan);
        let rows = DeltaRows {
            schema: scan.schema(),
            read: Box::new(move || Box::new(of_rows.reader())),
        };
        Bound::new(py, PyClassInitializer::from(rows).add_subclass(Self { scan }))
    }
}

#[pymethods]
impl DeltaScan {
    /// The version that is read.
    #[getter]
    fn version(&self) -> i64 {
        self.scan.version()
    }

    /// The files that are read, as dicts.
    fn files<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let head = self.scan.head();
        let files = self.scan.files().map(|add| file_dict(py, &head.named(add)));
        PyList::new(py, files.collect::<PyResult<Vec<_>>>()?)
    }

    /// The number of files that are left out.
    #[getter]
    fn skipped(&self) -> usize {
        self.scan.skipped()
    }
}

/// The rows that a range of versions changed.
#[pyclass(module = "spillway._native", frozen, extends = DeltaRows)]
pub(crate) struct DeltaChanges {
    versions: (i64, i64),
}

impl DeltaChanges {
    pub fn of(py: Python<'_>, changes: Changes) -> PyResult<Bound<'_, Self>> {
        let versions = changes.versions();
        let rows = DeltaRows {
            schema: changes.schema(),
            read: Box::new(move || Box::new(changes.reader())),
        };
        Bound::new(py, PyClassInitializer::from(rows).add_subclass(Self { versions }))
    }
}

#[pymethods]
impl DeltaChanges {
    /// The first and the last version that are read.
    #[getter]
    fn versions(&self) -> (i64, i64) {
        self.versions
    }
}
