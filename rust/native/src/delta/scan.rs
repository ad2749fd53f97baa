//! Scans and change data feeds: the classes `DeltaScan` and `DeltaChanges`, which those of `spillway.delta` wrap.

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use delta_table::{Changes, Scan};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};

use super::{file_dict, schema_capsule};

/// The rows of a version that satisfy conditions. Nothing is read before a stream is asked for.
#[pyclass(module = "spillway._native", frozen)]
pub(crate) struct DeltaScan {
    scan: Scan,
}

impl DeltaScan {
    pub fn new(scan: Scan) -> Self {
        Self { scan }
    }
}

#[pymethods]
impl DeltaScan {
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.scan.schema())
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
        let stream = FFI_ArrowArrayStream::new(Box::new(self.scan.reader()));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

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

/// The rows that a range of versions changed. Nothing is read before a stream is asked for.
#[pyclass(module = "spillway._native", frozen)]
pub(crate) struct DeltaChanges {
    changes: Changes,
}

impl DeltaChanges {
    pub fn new(changes: Changes) -> Self {
        Self { changes }
    }
}

#[pymethods]
impl DeltaChanges {
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.changes.schema())
    }

    /// A stream from the first version on, in the table's own types.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface lets a producer answer in other types.
        let _ = requested_schema;
        let stream = FFI_ArrowArrayStream::new(Box::new(self.changes.reader()));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// The first and the last version that are read.
    #[getter]
    fn versions(&self) -> (i64, i64) {
        self.changes.versions()
    }
}
