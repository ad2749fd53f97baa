//! The class `Writer`, which `spillway.ParquetWriter` wraps.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_schema::SchemaRef;
use parquet_writer::sink::{self, Sink, Stream};
use parquet_writer::{
    Batch, DictionaryRule, FileWriter, OptionInput, Progress, WriteError, WriteResult, WriterOptions,
};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyUnicodeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyMapping, PyString};

use crate::arrow::{Source, schema_from};
use crate::errors::Failure;
use crate::file_object::FileObject;
use crate::rows::{self, RowState};

/// The attributes of a `spillway.WriterOptions`.
#[derive(FromPyObject)]
pub(crate) struct Options<'py> {
    compression: String,
    compression_level: Option<i64>,
    row_group_rows: i64,
    row_group_bytes: i64,
    page_bytes: i64,
    dictionary: Bound<'py, PyAny>,
    compatibility: String,
    timestamps: String,
    durable: bool,
    metadata: Option<Bound<'py, PyMapping>>,
}

impl Options<'_> {
    fn validated(self, py: Python<'_>) -> PyResult<WriterOptions> {
        let input = OptionInput {
            compression: self.compression,
            compression_level: self.compression_level,
            row_group_rows: self.row_group_rows,
            row_group_bytes: self.row_group_bytes,
            page_bytes: self.page_bytes,
            dictionary: dictionary_rule(&self.dictionary)?,
            compatibility: self.compatibility,
            timestamps: self.timestamps,
            durable: self.durable,
            metadata: self.metadata.as_ref().map_or(Ok(Vec::new()), metadata)?,
        };
        WriterOptions::new(input).map_err(|error| Failure::from(error).into_py(py))
    }
}

fn metadata(pairs: &Bound<'_, PyMapping>) -> PyResult<Vec<(String, String)>> {
    let items = pairs.items()?;
    items.extract().map_err(|error: PyErr| {
        // Text that UTF-8 cannot hold says so itself.
        if error.is_instance_of::<PyUnicodeError>(pairs.py()) {
            return error;
        }
        let wrong = PyTypeError::new_err("metadata must be a mapping from str to str");
        wrong.set_cause(pairs.py(), Some(error));
        wrong
    })
}

fn dictionary_rule(value: &Bound<'_, PyAny>) -> PyResult<DictionaryRule> {
    if let Ok(all) = value.extract::<bool>() {
        return Ok(DictionaryRule::All(all));
    }
    let columns = value.cast::<PyMapping>().map_err(|_| {
        PyTypeError::new_err("dictionary must be True, False or a mapping from column paths to bool")
    })?;
    let parts = |key: Bound<'_, PyAny>| match key.cast::<PyString>() {
        Ok(path) => Ok(vec![path.extract()?]),
        Err(_) => key.extract::<Vec<String>>(),
    };
    let rule = columns.items()?.iter().map(|item| {
        let (key, allowed) = item.extract::<(Bound<'_, PyAny>, bool)>()?;
        Ok((parts(key)?, allowed))
    });
    Ok(DictionaryRule::Columns(rule.collect::<PyResult<_>>()?))
}

/// Raises `OptionError` unless every option has a value that is accepted.
#[pyfunction]
pub(crate) fn check_options(py: Python<'_>, options: Options<'_>) -> PyResult<()> {
    options.validated(py).map(|_| ())
}

/// Where bytes go, before anything was opened.
enum Place {
    Path(PathBuf),
    Object(FileObject),
}

impl Place {
    fn of(destination: Bound<'_, PyAny>) -> PyResult<Self> {
        match destination.cast::<PyString>() {
            Ok(path) => Ok(Self::Path(path.extract()?)),
            Err(_) => Ok(Self::Object(FileObject::new(destination))),
        }
    }

    fn open(self, durable: bool) -> Result<Box<dyn Sink>, WriteError> {
        match self {
            Self::Path(path) => sink::create(&path, durable),
            Self::Object(object) => Ok(Box::new(Stream::new(Box::new(object)))),
        }
    }
}

/// A file being written; any thread may use it, one at a time gets its turn.
#[pyclass(module = "spillway._native", frozen)]
pub(crate) struct Writer {
    file: Mutex<FileWriter>,
    /// The thread whose turn it is, by the address of something it owns; 0 for none.
    turn: AtomicUsize,
    closed: AtomicBool,
    progress: Arc<Progress>,
    process: u32,
    rows: RowState,
}

#[pymethods]
impl Writer {
    /// Opens a path (a string) or an object with `write()`.
    #[new]
    fn new(
        py: Python<'_>,
        destination: Bound<'_, PyAny>,
        schema: Option<&Bound<'_, PyAny>>,
        options: Options<'_>,
    ) -> PyResult<Self> {
        let options = options.validated(py)?;
        let schema = schema.map(schema_from).transpose()?;
        let place = Place::of(destination)?;
        let file = py
            .detach(move || FileWriter::new(place.open(options.durable())?, schema, options))
            .map_err(|error| Failure::from(error).into_py(py))?;
        Ok(Self {
            progress: file.progress(),
            file: Mutex::new(file),
            turn: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            process: std::process::id(),
            rows: RowState::default(),
        })
    }

    /// Writes all batches of an object with the Arrow `PyCapsule` interface.
    fn write(&self, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let source = Source::take(data)?;
        detached(data.py(), || {
            let (schema, mut batches) = source.open()?;
            self.on_turn(|file| file.accept(&schema).map_err(Failure::from))?;
            while let Some(batch) = batches.next()? {
                self.on_turn(|file| interruptible(|go_on| file.write(&batch, go_on)))?;
                check_signals()?;
            }
            Ok(())
        })
    }

    /// Writes dicts; gives the number of rows that were written.
    fn write_rows(
        &self,
        data: &Bound<'_, PyAny>,
        on_error: &Bound<'_, PyAny>,
        extra: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        let rules = rows::Rules::new(on_error, extra)?;
        let py = data.py();
        let data = data.clone().unbind();
        detached(py, || rows::write_rows(self, &data, &rules))
    }

    /// Writes a chunk or a file of NDJSON; gives the number of rows that were written.
    fn write_ndjson(
        &self,
        source: &Bound<'_, PyAny>,
        on_error: &Bound<'_, PyAny>,
        extra: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        let rules = rows::Rules::new(on_error, extra)?;
        let lines = rows::Source::of(source)?;
        detached(source.py(), || rows::write_ndjson(self, lines, &rules))
    }

    /// Closes the row group.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || {
            self.on_turn(|file| interruptible(|go_on| file.flush(go_on)))
        })
    }

    /// Completes the file.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || {
            rows::write_tail(self)?;
            self.on_turn(|file| interruptible(|go_on| file.close(go_on)))
        })
    }

    /// Gives the file up. In a forked child there is nothing to give up: the file is its parent's.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        if self.process != std::process::id() {
            return Ok(());
        }
        detached(py, || {
            self.on_turn(|file| {
                file.abort();
                Ok(())
            })
        })
    }

    #[getter]
    fn bytes_written(&self) -> u64 {
        self.progress.bytes_written()
    }

    #[getter]
    fn closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// What was written, as a dict; `None` before the file is complete.
    #[getter]
    fn result<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let result = detached(py, || self.on_turn(|file| Ok(file.result().cloned())))?;
        result.map(|result| result_dict(py, &result)).transpose()
    }
}

impl Writer {
    /// What is kept between calls with rows.
    pub(crate) fn rows(&self) -> &RowState {
        &self.rows
    }

    /// The file's schema, once there is one.
    pub(crate) fn schema(&self) -> Result<Option<SchemaRef>, Failure> {
        self.on_turn(|file| Ok(file.schema()?))
    }

    /// Writes one batch.
    pub(crate) fn put(&self, batch: &Batch) -> Result<(), Failure> {
        self.on_turn(|file| interruptible(|go_on| file.write(batch, go_on)))
    }

    /// Waits for this thread's turn and runs `work`. The GIL is not held.
    fn on_turn<T>(&self, work: impl FnOnce(&mut FileWriter) -> Result<T, Failure>) -> Result<T, Failure> {
        if self.process != std::process::id() {
            return Err(WriteError::Closed(
                "the writer belongs to another process: open one after the fork".into(),
            )
            .into());
        }
        let me = thread_mark();
        if self.turn.load(Ordering::Relaxed) == me {
            return Err(
                PyRuntimeError::new_err("the writer was called from inside one of its own calls").into(),
            );
        }
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        self.turn.store(me, Ordering::Relaxed);
        // Also after a panic the turn is over.
        let done = catch_unwind(AssertUnwindSafe(|| work(&mut file)));
        self.closed.store(file.is_closed(), Ordering::Release);
        self.turn.store(0, Ordering::Relaxed);
        done.unwrap_or_else(|panic| {
            file.abort();
            self.closed.store(true, Ordering::Release);
            drop(file);
            resume_unwind(panic)
        })
    }
}

/// Runs `work` without the GIL.
fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T, Failure> + Send) -> PyResult<T> {
    py.detach(work).map_err(|failure| failure.into_py(py))
}

/// A number that no two living threads share.
pub(crate) fn thread_mark() -> usize {
    thread_local!(static MARK: u8 = const { 0 });
    MARK.with(|mark| std::ptr::from_ref(mark) as usize)
}

pub(crate) fn check_signals() -> Result<(), Failure> {
    Python::attach(|py| Ok(py.check_signals()?))
}

/// Runs `work` with a check for signals; what a handler raised is the error then.
fn interruptible(
    work: impl FnOnce(&mut dyn FnMut() -> bool) -> Result<(), WriteError>,
) -> Result<(), Failure> {
    let mut raised = None;
    let done = work(&mut || match check_signals() {
        Ok(()) => true,
        Err(error) => {
            raised = Some(error);
            false
        }
    });
    match (done, raised) {
        (Err(WriteError::Interrupted), Some(error)) => Err(error),
        (done, _) => done.map_err(Failure::from),
    }
}

fn result_dict<'py>(py: Python<'py>, result: &WriteResult) -> PyResult<Bound<'py, PyDict>> {
    let columns = result.columns.iter().map(|column| {
        let entry = PyDict::new(py);
        entry.set_item("path", &column.path)?;
        entry.set_item("physical_type", &column.physical_type)?;
        entry.set_item("encodings", &column.encodings)?;
        entry.set_item("compression", &column.compression)?;
        entry.set_item("values", column.values)?;
        entry.set_item("nulls", column.nulls)?;
        entry.set_item("compressed_bytes", column.compressed_bytes)?;
        entry.set_item("uncompressed_bytes", column.uncompressed_bytes)?;
        Ok(entry)
    });
    let columns = columns.collect::<PyResult<Vec<_>>>()?;
    let dict = PyDict::new(py);
    dict.set_item("rows", result.rows)?;
    dict.set_item("bytes", result.bytes)?;
    dict.set_item("row_groups", result.row_groups)?;
    dict.set_item("columns", PyList::new(py, columns)?)?;
    dict.set_item("peak_tracked_bytes", result.peak_tracked_bytes)?;
    Ok(dict)
}
