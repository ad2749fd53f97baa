//! The intake of rows: writes their batches and handles bad rows by `on_error`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use parquet_dataset::wider_type;
use parquet_writer::{Batch, OptionFault, WriteError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use rows::{Extra, Misfit, RowError, Rows, Shape, Visitor, infer_ndjson};

use crate::errors::{Failure, option_error};
use crate::options::shown;
use crate::rows::TakesRows;
use crate::turn::check_signals;

const BETWEEN_SIGNALS: Duration = Duration::from_millis(50);
/// Bytes of batches that are written together, which is faster than one by one.
const TOGETHER_BYTES: usize = 8 << 20;

/// The options of a call with rows.
pub(crate) struct Rules {
    on_error: OnError,
    pub extra: Extra,
}

enum OnError {
    Raise,
    Skip,
    Call(Py<PyAny>),
}

impl Rules {
    /// # Errors
    /// `OptionError` for anything else than what is accepted.
    pub fn new(on_error: &Bound<'_, PyAny>, extra: &Bound<'_, PyAny>) -> PyResult<Self> {
        // Not by `Display`: it asks Python for the text, which runs handlers of signals, and drops what they raise.
        let word = |value: &Bound<'_, PyAny>| {
            let text = value.cast::<PyString>().ok()?;
            Some(text.to_string_lossy().into_owned())
        };
        let on_error = match word(on_error).as_deref() {
            Some("raise") => OnError::Raise,
            Some("skip") => OnError::Skip,
            None if on_error.is_callable() => OnError::Call(on_error.clone().unbind()),
            _ => {
                return Err(not_accepted(
                    on_error,
                    "on_error",
                    "\"raise\", \"skip\" or a callable",
                    &["raise", "skip", "a callable"],
                ));
            }
        };
        let extra = match word(extra).as_deref() {
            Some("error") => Extra::Error,
            Some("ignore") => Extra::Ignore,
            _ => {
                return Err(not_accepted(
                    extra,
                    "extra",
                    "\"error\" or \"ignore\"",
                    &["error", "ignore"],
                ));
            }
        };
        Ok(Self { on_error, extra })
    }

    /// Returns true if one bad row keeps every row of the call out. A bad row of a stream keeps those after it out.
    pub fn is_all_or_nothing(&self, is_stream: bool) -> bool {
        matches!(self.on_error, OnError::Raise) && !is_stream
    }
}

fn not_accepted(value: &Bound<'_, PyAny>, option: &str, choice: &str, accepted: &[&str]) -> PyErr {
    let found = match shown(value) {
        Ok(found) => found,
        Err(error) => return error,
    };
    let message = format!("{option}={found} is not accepted: choose {choice}");
    option_error(value.py(), OptionFault::new(option, message).accepting(accepted))
}

/// The batches and bad rows of one call. The GIL is not held.
pub(crate) struct Intake<'a> {
    writer: &'a dyn TakesRows,
    rules: &'a Rules,
    all_or_nothing: bool,
    /// Batches that are not written yet: all of them in a call that keeps all rows or none.
    held: Vec<Batch>,
    held_bytes: usize,
    held_rows: u64,
    written: u64,
    looked: Instant,
}

impl<'a> Intake<'a> {
    /// The intake of a call. Rows of a stream, such as a file or an iterator, are not all in memory, and are not held.
    pub fn new(writer: &'a dyn TakesRows, rules: &'a Rules, is_stream: bool) -> Self {
        Self {
            writer,
            rules,
            all_or_nothing: rules.is_all_or_nothing(is_stream),
            held: Vec::new(),
            held_bytes: 0,
            held_rows: 0,
            written: 0,
            looked: Instant::now(),
        }
    }

    /// Ends the call: writes the batches that were held and the rows in the builders. After an error, a call that keeps
    /// all rows or none keeps none, and any other the good ones before it.
    pub fn end(mut self, rows: &mut Rows, outcome: Result<(), Failure>) -> Result<u64, Failure> {
        if outcome.is_err() && self.all_or_nothing {
            rows.clear();
            return outcome.map(|()| 0);
        }
        rows.roll_back();
        let rest = self.last(rows);
        outcome.and(rest).map(|()| self.written)
    }

    /// Returns true if the schema may change for a row that does not fit.
    pub fn may_widen(&self) -> bool {
        self.writer.typed_from_the_start().is_some()
    }

    /// The schema in which a row of this shape has a place for the value that did not fit, if the writer accepts it.
    pub fn wider_for(
        &self,
        schema: &SchemaRef,
        misfit: &Misfit,
        shape: &Shape,
    ) -> Result<Option<SchemaRef>, Failure> {
        let Some(wider) = rows::widened(schema, misfit, shape, &wider_type).map(Arc::new) else {
            return Ok(None);
        };
        Ok(self.writer.accepts(&wider)?.then_some(wider))
    }

    fn last(&mut self, rows: &mut Rows) -> Result<(), Failure> {
        if rows.rows() > 0 {
            self.hold(rows.finish()?);
        }
        self.flush()
    }

    fn hold(&mut self, batch: RecordBatch) {
        self.held_bytes += batch.get_array_memory_size();
        self.held_rows += batch.num_rows() as u64;
        self.held.push(batch.into());
    }

    /// Writes the batches that are held.
    fn flush(&mut self) -> Result<(), Failure> {
        let held = std::mem::take(&mut self.held);
        let rows = std::mem::take(&mut self.held_rows);
        self.held_bytes = 0;
        let put = self.writer.put_all(held);
        put.map_err(|failure| failure.after(self.written))?;
        self.written += rows;
        Ok(())
    }

    /// Handles a refused row by `on_error`; `raw` is the row as it came.
    pub fn refuse(&self, error: &RowError, raw: impl FnOnce(Python<'_>) -> Py<PyAny>) -> Result<(), Failure> {
        let told = |py: Python<'_>| row_error(py, error, raw(py)).map(Bound::unbind);
        match &self.rules.on_error {
            OnError::Raise => Err(Failure::Python(Python::attach(|py| {
                told(py).map_or_else(|error| error, |told| PyErr::from_value(told.into_bound(py)))
            }))),
            OnError::Skip => Ok(()),
            OnError::Call(callback) => Ok(Python::attach(|py| {
                callback.bind(py).call1((told(py)?,)).map(|_| ())
            })?),
        }
    }
}

impl Visitor for Intake<'_> {
    type Error = Failure;

    fn batch(&mut self, batch: RecordBatch) -> Result<(), Failure> {
        self.hold(batch);
        if self.all_or_nothing || self.held_bytes < TOGETHER_BYTES {
            return Ok(());
        }
        self.flush()
    }

    fn bad_row(&mut self, error: RowError, line: &[u8]) -> Result<(), Failure> {
        self.refuse(&error, |py| {
            pyo3::types::PyBytes::new(py, line).into_any().unbind()
        })
    }

    fn wider(
        &mut self,
        schema: &SchemaRef,
        misfit: &Misfit,
        line: &[u8],
    ) -> Result<Option<SchemaRef>, Failure> {
        if !self.may_widen() {
            return Ok(None);
        }
        // A line that is no object, or whose values have no type together, is bad.
        let Ok(shape) = infer_ndjson(line, 1, true) else {
            return Ok(None);
        };
        self.wider_for(schema, misfit, &shape)
    }

    fn go_on(&mut self) -> Result<(), Failure> {
        if self.looked.elapsed() < BETWEEN_SIGNALS {
            return Ok(());
        }
        self.looked = Instant::now();
        Ok(check_signals()?)
    }
}

impl From<ArrowError> for Failure {
    fn from(error: ArrowError) -> Self {
        WriteError::from(error).into()
    }
}

/// A `spillway.RowError`.
fn row_error<'py>(py: Python<'py>, error: &RowError, raw: Py<PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let details = PyDict::new(py);
    details.set_item("row", error.row)?;
    details.set_item("field", &error.field)?;
    details.set_item("message", &error.message)?;
    details.set_item("line", error.line)?;
    details.set_item("raw", raw)?;
    py.import("spillway.errors")?
        .getattr("RowError")?
        .call((error.to_string(),), Some(&details))
}
