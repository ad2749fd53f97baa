//! The class `MemoryBudget`, which `spillway.MemoryBudget` extends.

use std::sync::Arc;

use pyo3::prelude::*;

use crate::errors::Failure;
use crate::options::bytes_or_text;

/// Memory that the writers of a process share.
#[pyclass(module = "spillway._native", name = "MemoryBudget", frozen, subclass)]
pub(crate) struct PyMemoryBudget(Arc<parquet_writer::MemoryBudget>);

impl PyMemoryBudget {
    /// The budget itself.
    pub fn shared(&self) -> Arc<parquet_writer::MemoryBudget> {
        Arc::clone(&self.0)
    }
}

#[pymethods]
impl PyMemoryBudget {
    #[new]
    fn new(limit: &Bound<'_, PyAny>, writers: i64) -> PyResult<Self> {
        let py = limit.py();
        let limit = bytes_or_text(limit, "limit must be bytes as an int or text such as \"256MB\"")?;
        let budget = parquet_writer::MemoryBudget::new(&limit, writers);
        budget
            .map(|budget| Self(Arc::new(budget)))
            .map_err(|error| Failure::from(error).into_py(py))
    }

    #[getter]
    fn limit(&self) -> usize {
        self.0.bytes()
    }

    #[getter]
    fn writers(&self) -> usize {
        self.0.writers()
    }

    #[getter]
    fn share(&self) -> usize {
        self.0.share()
    }

    #[getter]
    fn open_writers(&self) -> usize {
        self.0.open_writers()
    }
}
