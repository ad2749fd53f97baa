//! The class `DeltaAppend`, which `spillway.delta.Append` wraps.

use std::collections::BTreeMap;

use arrow_schema::SchemaRef;
use delta_table::Append;
use parquet_writer::Batch;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::attention::Caller;
use super::awaited::{Awaited, AwaitedCommit};
use super::{DeltaTable, PyCommitCounter, RowSource};
use crate::arrow::Follows;
use crate::errors::Failure;
use crate::rows::{self, RowState, TakesRows};
use crate::turn::{Turns, detached};

/// Rows on their way into a table.
#[pyclass(module = "spillway._native", frozen)]
pub(crate) struct DeltaAppend {
    pub(super) append: Turns<Append>,
    rows: RowState,
    counter: delta_table::CommitCounter,
}

impl DeltaAppend {
    pub(super) fn new(append: Append) -> Self {
        Self {
            counter: append.commit_counter(),
            append: Turns::new(append),
            rows: RowState::default(),
        }
    }

    /// The append as the writer of rows in one call.
    fn rows_of(&self, py: Python<'_>) -> PyResult<RowCall<'_>> {
        let caller = Caller::of(py, None)?;
        Ok(RowCall { append: self, caller })
    }
}

/// An append that takes rows from one thread, which can be interrupted.
struct RowCall<'a> {
    append: &'a DeltaAppend,
    caller: Caller,
}

impl TakesRows for RowCall<'_> {
    fn rows(&self) -> &RowState {
        &self.append.rows
    }

    fn schema(&self) -> Result<Option<SchemaRef>, Failure> {
        self.append.append.take(|append| Ok(Some(append.schema()?)))
    }

    fn put_all(&self, batches: Vec<Batch>) -> Result<(), Failure> {
        self.append
            .append
            .take(|append| self.caller.wait(|_, go_on| append.write_whole(&batches, go_on)))
    }
}

#[pymethods]
impl DeltaAppend {
    /// Writes all batches of a `RowSource`, or of an object with the Arrow `PyCapsule` interface.
    fn write(&self, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let caller = Caller::of(data.py(), None)?;
        let rows = match data.cast::<RowSource>() {
            Ok(rows) => rows.clone(),
            Err(_) => Bound::new(data.py(), RowSource::new(data)?)?,
        };
        let rows = rows.get();
        detached(data.py(), || {
            let (schema, batches) = rows.open()?;
            self.append.take(|append| Ok(append.accept(&schema)?))?;
            let mut before = 0;
            batches.each_group(rows.together, |group, follows| {
                self.append.take(|append| {
                    caller.wait(|_, go_on| {
                        let written = if rows.is_made && follows == Follows::More {
                            append.hold_all(group, go_on)
                        } else {
                            append.write_all(group, go_on)
                        };
                        written.map_err(|error| error.after(before))
                    })
                })?;
                before += group.iter().map(|batch| batch.rows() as u64).sum::<u64>();
                Ok(())
            })
        })
    }

    /// Says that the schema was inferred from rows, so that none is converted to it.
    fn infer_types(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.rows.infer())
    }

    /// Writes dicts; returns the number of rows that were written.
    fn write_rows(
        &self,
        data: &Bound<'_, PyAny>,
        on_error: &Bound<'_, PyAny>,
        extra: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        rows::write_rows(&self.rows_of(data.py())?, data, on_error, extra)
    }

    /// Writes a chunk or a file of NDJSON; returns the number of rows that were written.
    fn write_ndjson(
        &self,
        source: &Bound<'_, PyAny>,
        on_error: &Bound<'_, PyAny>,
        extra: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        rows::write_ndjson(&self.rows_of(source.py())?, source, on_error, extra)
    }

    /// Completes the files and commits them; returns the version.
    fn commit(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<i64> {
        let caller = Caller::of(py, timeout)?;
        let call = self.rows_of(py)?;
        detached(py, move || {
            rows::write_tail(&call)?;
            let caller = caller.anew();
            self.append
                .take(|append| caller.commit(|wait, go_on| append.commit(wait, go_on)))
        })
    }

    /// Begins a commit that no thread waits for. Its end is told to `waiter` in the thread of `event_loop`, by
    /// `spillway.delta._awaited`.
    fn commit_async(
        slf: Bound<'_, Self>,
        table: Py<DeltaTable>,
        timeout: Option<f64>,
        event_loop: Py<PyAny>,
        waiter: Py<PyAny>,
    ) -> PyResult<AwaitedCommit> {
        let py = slf.py();
        let caller = Caller::of(py, timeout)?;
        let call = slf.get().rows_of(py)?;
        // Here, since it may call `on_error`.
        detached(py, || rows::write_tail(&call))?;
        let deadline = caller.anew().deadline();
        let awaited = Awaited::new(slf.unbind(), table, deadline, event_loop, waiter);
        detached(py, move || awaited.begin())
    }

    /// Completes the files without a commit; returns the bytes of the part that they are.
    fn detach<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let caller = Caller::of(py, None)?;
        let call = self.rows_of(py)?;
        let part = detached(py, move || {
            rows::write_tail(&call)?;
            self.append
                .take(|append| caller.wait(|_, go_on| append.detach(go_on)))
        })?;
        Ok(PyBytes::new(py, &part))
    }

    /// Adds measures to the history's entry.
    fn add_metrics(&self, py: Python<'_>, metrics: BTreeMap<String, String>) -> PyResult<()> {
        detached(py, move || {
            self.append.take(|append| Ok(append.add_metrics(metrics)?))
        })
    }

    /// A counter of the versions that this process tries to write. Does no I/O.
    fn commit_counter(&self) -> PyCommitCounter {
        PyCommitCounter(self.counter.clone())
    }

    /// Takes over the files of a part.
    fn attach(&self, py: Python<'_>, part: Vec<u8>) -> PyResult<()> {
        detached(py, move || self.append.take(|append| Ok(append.attach(&part)?)))
    }

    /// The version that holds the rows, once they are committed.
    #[getter]
    fn version(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        detached(py, || self.append.take(|append| Ok(append.version())))
    }

    /// Gives the append up.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        self.append.abort(py)
    }

    #[getter]
    fn closed(&self) -> bool {
        self.append.closed()
    }

    /// Returns true if the table already has these rows by their application's transaction version.
    #[getter]
    fn is_repeated(&self, py: Python<'_>) -> PyResult<bool> {
        detached(py, || self.append.take(|append| Ok(append.is_repeated())))
    }
}
