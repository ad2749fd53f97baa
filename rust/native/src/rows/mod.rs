//! Writing rows: `write_rows` and `write_ndjson`, whatever they are written to.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_schema::{Schema, SchemaRef};
use parquet_writer::{Batch, WriteError};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rows::{Ndjson, Rows, Shape, TypeConflict};

use crate::errors::Failure;
use crate::turn::{detached, thread_mark};

mod cells;
mod classes;
mod clock;
mod dicts;
mod guess;
mod intake;
mod layout;
mod lines;
mod one;
mod usual;

use intake::Rules;
use lines::NdjsonSource;

pub(crate) use one::{column_stream, inferred, one_row};

// A cell that the writer refused later would be refused after other rows of its call were written.
const _: () = assert!(rows::MOST_VALUE_BYTES as u64 == parquet_writer::MOST_ROW_BYTES);

/// Rows that a schema is inferred from.
const SAMPLE_ROWS: usize = 1000;

/// A writer that takes rows as batches.
pub(crate) trait TakesRows: Sync {
    /// The state that is kept between calls with rows.
    fn rows(&self) -> &RowState;

    /// The schema that rows are built for; none if the first rows give it.
    ///
    /// # Errors
    /// The writer is closed, was aborted or failed before.
    fn schema(&self) -> Result<Option<SchemaRef>, Failure>;

    /// The columns that have a type from the first rows on, where the schema may change; `None` where it may not.
    fn typed_from_the_start(&self) -> Option<&[String]> {
        None
    }

    /// Returns true if later rows may have this schema.
    ///
    /// # Errors
    /// The writer is closed, was aborted or failed before.
    fn accepts(&self, schema: &SchemaRef) -> Result<bool, Failure> {
        let _ = schema;
        Ok(false)
    }

    /// Writes batches, or none of them when one does not fit.
    ///
    /// # Errors
    /// A batch does not fit, or the writer fails.
    fn put_all(&self, batches: Vec<Batch>) -> Result<(), Failure>;
}

/// The state that a writer keeps between calls with rows. Each call has it exclusively from beginning to end.
#[derive(Default)]
pub(crate) struct RowState {
    kept: Mutex<PendingRows>,
    /// The thread whose turn it is, by the address of something it owns; 0 for none.
    turn: AtomicUsize,
}

/// Builders of the file's schema, and the unended last line.
#[derive(Default)]
struct PendingRows {
    rows: Option<Rows>,
    /// True if the schema was inferred from rows.
    is_inferred: bool,
    ndjson: Ndjson,
    /// The options of the call that left the line.
    rules: Option<Rules>,
}

impl RowState {
    /// Has later rows taken as the first ones would be: the schema that the writer was given was inferred from such.
    pub fn infer(&self) -> Result<(), Failure> {
        self.on_turn(|kept| {
            kept.is_inferred = true;
            Ok(())
        })
    }

    /// Waits for this thread's turn and runs `work`. The GIL is not held.
    fn on_turn<T>(&self, work: impl FnOnce(&mut PendingRows) -> Result<T, Failure>) -> Result<T, Failure> {
        let me = thread_mark();
        if self.turn.load(Ordering::Relaxed) == me {
            return Err(PyRuntimeError::new_err(
                "the writer was given rows from inside one of its own calls",
            )
            .into());
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        self.turn.store(me, Ordering::Relaxed);
        let done = catch_unwind(AssertUnwindSafe(|| work(&mut kept)));
        self.turn.store(0, Ordering::Relaxed);
        if done.is_err() {
            *kept = PendingRows {
                is_inferred: kept.is_inferred,
                ..PendingRows::default()
            };
        }
        drop(kept);
        done.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl PendingRows {
    /// Makes builders for the file's schema; without one, for the schema of the shape that `infer` finds.
    fn builders(
        &mut self,
        schema: Option<SchemaRef>,
        writer: &dyn TakesRows,
        infer: impl FnOnce() -> Result<Shape, Failure>,
    ) -> Result<&mut Rows, Failure> {
        self.is_inferred |= schema.is_none();
        let schema = match (schema, writer.typed_from_the_start()) {
            (Some(schema), _) => schema,
            (None, Some(typed)) => Arc::new(infer()?.waiting_schema(typed)),
            (None, None) => Arc::new(infer()?.schema()),
        };
        let rows = match self.rows.take() {
            Some(rows) if same(rows.declared(), &schema) => rows,
            _ => {
                let rows = Rows::new(schema).map_err(|error| WriteError::schema(error.to_string()))?;
                if self.is_inferred { rows.inferred() } else { rows }
            }
        };
        Ok(self.rows.insert(rows))
    }
}

fn same(left: &Arc<Schema>, right: &Arc<Schema>) -> bool {
    Arc::ptr_eq(left, right) || left == right
}

fn conflict(row: u64, conflict: &TypeConflict) -> Failure {
    WriteError::column(
        conflict.path(),
        format!(
            "row {row}, field {:?}: no type can be inferred: {conflict}",
            conflict.path()
        ),
    )
    .into()
}

/// Writes an iterable of dicts; returns the number of rows that were written.
pub(crate) fn write_rows(
    writer: &dyn TakesRows,
    data: &Bound<'_, PyAny>,
    on_error: &Bound<'_, PyAny>,
    extra: &Bound<'_, PyAny>,
) -> PyResult<u64> {
    let rules = Rules::new(on_error, extra)?;
    let py = data.py();
    let data = data.clone().unbind();
    detached(py, || {
        with_kept(writer, |kept, schema| {
            dicts::write(writer, kept, schema, &data, &rules)
        })
    })
}

/// Writes a chunk of NDJSON or a file of it; returns the number of rows that were written.
pub(crate) fn write_ndjson(
    writer: &dyn TakesRows,
    source: &Bound<'_, PyAny>,
    on_error: &Bound<'_, PyAny>,
    extra: &Bound<'_, PyAny>,
) -> PyResult<u64> {
    let rules = Rules::new(on_error, extra)?;
    let py = source.py();
    let source = NdjsonSource::of(source)?;
    detached(py, || {
        with_kept(writer, |kept, schema| {
            lines::write(writer, kept, schema, source, rules)
        })
    })
}

/// Writes the unended last line, when there is no more to come.
pub(crate) fn write_tail(writer: &dyn TakesRows) -> Result<(), Failure> {
    writer.rows().on_turn(|kept| {
        if !kept.ndjson.is_mid_line() {
            return Ok(());
        }
        let schema = writer.schema()?;
        lines::write_tail(writer, kept, schema)
    })
}

/// Runs `work` exclusively, with the schema of the writer's file.
fn with_kept<T>(
    writer: &dyn TakesRows,
    work: impl FnOnce(&mut PendingRows, Option<SchemaRef>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    // Says at once when the writer is closed.
    writer.schema()?;
    writer.rows().on_turn(|kept| {
        let done = work(kept, writer.schema()?);
        // Nothing was written, and other data may give the schema.
        kept.is_inferred &= !matches!(writer.schema(), Ok(None));
        done
    })
}
