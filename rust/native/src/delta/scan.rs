//! Scans and change data feeds: the classes `DeltaScan` and `DeltaChanges`, which those of `spillway.delta` wrap.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use delta_table::{Changes, Mapping, Scan};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};

use super::given::file_dict;
use super::schema::schema_capsule;
use crate::turn::{keep_raised, take_raised};

/// A reading of rows, from the first one on.
type Read = Box<dyn Fn() -> Box<dyn RecordBatchReader + Send> + Send + Sync>;

/// Rows for an Arrow library, which cannot be given the exception of a signal handler.
struct Interruptible(Box<dyn RecordBatchReader + Send>);

impl Iterator for Interruptible {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.0.next();
        if let Some(raised) = take_raised() {
            raise_later(raised);
        }
        next
    }
}

impl RecordBatchReader for Interruptible {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }
}

/// Has Python raise an exception in its main thread, once the Arrow library has returned to it.
fn raise_later(raised: PyErr) {
    let raised = Box::into_raw(Box::new(raised));
    // SAFETY: any thread may call it, and `raise` gets what it takes.
    #[expect(unsafe_code, reason = "Python has no other way to raise an exception later")]
    let is_noted = unsafe { ffi::Py_AddPendingCall(Some(raise), raised.cast()) } == 0;
    if !is_noted {
        // Python has 32 others to raise or to do; the next call of this module raises it.
        // SAFETY: Python did not take it.
        #[expect(unsafe_code, reason = "the exception is not lost")]
        let raised = unsafe { Box::from_raw(raised) };
        keep_raised(*raised);
    }
}

/// Raises an exception that [`raise_later`] has put away. Python calls it once.
extern "C" fn raise(raised: *mut c_void) -> c_int {
    // SAFETY: it is the box of `raise_later`, of which nobody else knows.
    #[expect(unsafe_code, reason = "the exception goes through Python's C interface")]
    let raised = unsafe { Box::from_raw(raised.cast::<PyErr>()) };
    Python::attach(|py| raised.restore(py));
    -1
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

    /// True if the table maps its columns to other names in that version.
    #[getter]
    fn maps_columns(&self) -> bool {
        self.scan.head().mapping != Mapping::None
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
