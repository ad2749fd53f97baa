//! Changes of rows: deletions, updates and merges.

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator};
use delta_commit::Version;
use delta_table::{Counts, NewValues, PendingChange, TableError};
use parquet_writer::{Batch, WriteError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arrow::{Batches, Source};
use crate::errors::Failure;

use super::attention::Caller;

/// A change as Python has it: the version; the rows that were inserted, updated and deleted; and true if the version is
/// new.
pub(super) type Changed = (Version, u64, u64, u64, bool);

/// The caller of a change. The timeout is that of the commit: a search of all files may take longer.
#[derive(Clone, Copy)]
pub(super) struct Changing {
    writer: Caller,
    committer: Caller,
}

impl Changing {
    pub fn of(py: Python<'_>, timeout: Option<f64>) -> PyResult<Self> {
        Ok(Self {
            writer: Caller::of(py, None)?,
            committer: Caller::of(py, timeout)?,
        })
    }

    /// All batches of a source. A signal ends the wait for the next one, whoever makes it.
    pub fn collect(self, mut batches: Batches) -> Result<Vec<Batch>, Failure> {
        let mut all = Vec::new();
        while let Some(batch) = batches.next()? {
            all.push(batch);
            self.writer.check()?;
        }
        Ok(all)
    }

    /// Prepares a change, and commits it if it changes anything. Rows that moved to other files meanwhile are looked for
    /// again.
    pub fn change(
        self,
        mut prepare: impl FnMut(&mut dyn FnMut() -> bool) -> Result<(Version, Option<PendingChange>), TableError>,
    ) -> Result<Changed, Failure> {
        loop {
            let (version, pending) = self.writer.wait(|_, go_on| prepare(go_on))?;
            let Some(pending) = pending else {
                return Ok((version, 0, 0, 0, false));
            };
            let Counts {
                inserted,
                updated,
                deleted,
            } = pending.counts();
            let commit = self.committer.anew();
            match commit.commit(|patience, _| pending.commit(patience)) {
                Err(Failure::Table(error)) if error.is_of_moved_rows() => {}
                done => return Ok((done?, inserted, updated, deleted, true)),
            }
        }
    }
}

/// New values of columns: those of one row for all, and those that Python computes.
pub(super) struct Computation {
    literals: RecordBatch,
    computed: Vec<String>,
    /// Takes a capsule with a stream of rows; returns an object with a stream of the computed columns.
    compute: Option<Py<PyAny>>,
    /// The reason why Python could not compute them.
    failed: Option<Failure>,
}

impl Computation {
    pub fn new(literals: RecordBatch, computed: Vec<String>, compute: Option<Py<PyAny>>) -> Self {
        Self {
            literals,
            computed,
            compute,
            failed: None,
        }
    }

    /// Runs an update with these values. What Python raised is the error then.
    pub fn run<T>(mut self, update: impl FnOnce(NewValues<'_>) -> Result<T, Failure>) -> Result<T, Failure> {
        let (literals, computed) = (self.literals.clone(), std::mem::take(&mut self.computed));
        let done = update(NewValues {
            literals,
            computed,
            compute: &mut |rows: &RecordBatch| {
                self.columns(rows).map_err(|failure| {
                    self.failed = Some(failure);
                    WriteError::Interrupted.into()
                })
            },
        });
        self.failed.map_or(done, Err)
    }

    /// The computed columns of some rows.
    fn columns(&self, rows: &RecordBatch) -> Result<Vec<Batch>, Failure> {
        let Some(compute) = &self.compute else {
            return Ok(Vec::new());
        };
        let source = Python::attach(|py| {
            let batches = RecordBatchIterator::new(vec![Ok(rows.clone())], rows.schema());
            let stream = FFI_ArrowArrayStream::new(Box::new(batches));
            let capsule = PyCapsule::new_with_value(py, stream, c"arrow_array_stream")?;
            Source::take(compute.call1(py, (capsule,))?.bind(py))
        })?;
        let (_, batches) = source.open()?;
        batches.collect()
    }
}
