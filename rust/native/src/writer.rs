//! The class `Writer`, which `spillway.ParquetWriter` wraps.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use object_sink::{ObjectSink, Target};
use parquet_writer::sink::{self, Sink, StreamSink};
use parquet_writer::{Batch, FileWriter, Progress, StageTimes, WriteError, WriteResult};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyMapping, PyString};

use crate::arrow::{ArrowSource, Follows, schema_from};
use crate::destination::Destination;
use crate::errors::Failure;
use crate::file_object::FileObject;
use crate::options::{self, Options};
use crate::rows::{self, RowState, TakesRows};
use crate::storage_options::StorageOptions;
use crate::turn::{Turns, attend, check_signals, detached, interruptible};

/// The destination of the bytes, before anything was opened.
pub(crate) enum UnopenedSink {
    Path(PathBuf),
    Url(String, StorageOptions),
    Object(FileObject),
    Destination(Destination),
}

impl UnopenedSink {
    /// Parses a destination. A string is a URL when storage options are given, even empty ones.
    pub fn of(destination: Bound<'_, PyAny>, storage_options: Option<StorageOptions>) -> PyResult<Self> {
        if destination.is_instance_of::<PyString>() {
            return Ok(match storage_options {
                Some(options) => Self::Url(destination.extract()?, options),
                None => Self::Path(destination.extract()?),
            });
        }
        Ok(match Destination::of(&destination)? {
            Some(destination) => Self::Destination(destination),
            None => Self::Object(FileObject::new(destination)),
        })
    }

    /// Opens the destination.
    pub fn open(self, durable: bool) -> Result<Box<dyn Sink>, WriteError> {
        Ok(match self {
            Self::Path(path) => sink::create(&path, durable)?,
            Self::Url(url, options) => {
                let target = Target::new(&url, &options.0)?;
                Box::new(ObjectSink::new(target, Box::new(attend))?)
            }
            Self::Object(object) => Box::new(StreamSink::new(Box::new(object))),
            Self::Destination(destination) => Box::new(destination),
        })
    }
}

/// Asks the store of a URL if the object exists.
#[pyfunction]
pub(crate) fn is_object(py: Python<'_>, url: &str, storage_options: StorageOptions) -> PyResult<bool> {
    let StorageOptions(options) = storage_options;
    let asked = py.detach(|| {
        let sink = ObjectSink::new(Target::new(url, &options)?, Box::new(attend))?;
        sink.is_there().map_err(|error| WriteError::io(url, error))
    });
    asked.map_err(|error| Failure::from(error).into_py(py))
}

/// A file that is being written. Any thread may use it, one at a time.
#[pyclass(module = "spillway._native", name = "Writer", frozen)]
pub(crate) struct PyWriter {
    file: Turns<FileWriter>,
    progress: Arc<Progress>,
    rows: RowState,
}

#[pymethods]
impl PyWriter {
    /// Opens a path (a string), a URL (a string with storage options), a `Destination` or an object with `write()`.
    #[new]
    #[pyo3(signature = (destination, schema, options, storage_options=None))]
    fn new(
        py: Python<'_>,
        destination: Bound<'_, PyAny>,
        schema: Option<&Bound<'_, PyAny>>,
        options: Options<'_>,
        storage_options: Option<StorageOptions>,
    ) -> PyResult<Self> {
        let options = options.validated(py)?;
        let schema = schema.map(schema_from).transpose()?;
        let place = UnopenedSink::of(destination, storage_options)?;
        let file = py
            .detach(move || FileWriter::new(place.open(options.durable())?, schema, options))
            .map_err(|error| Failure::from(error).into_py(py))?;
        Ok(Self {
            progress: file.progress(),
            file: Turns::new(file),
            rows: RowState::default(),
        })
    }

    /// Writes all batches of an object with the Arrow `PyCapsule` interface, and completes the file if nothing follows.
    #[pyo3(signature = (data, last=false))]
    fn write(&self, data: &Bound<'_, PyAny>, last: bool) -> PyResult<()> {
        let source = ArrowSource::take(data)?;
        detached(data.py(), || self.write_from(source, last))
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
        rows::write_rows(self, data, on_error, extra)
    }

    /// Writes a chunk or a file of NDJSON; returns the number of rows that were written.
    fn write_ndjson(
        &self,
        source: &Bound<'_, PyAny>,
        on_error: &Bound<'_, PyAny>,
        extra: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        rows::write_ndjson(self, source, on_error, extra)
    }

    /// Adds key-value metadata to the file.
    fn add_metadata(&self, py: Python<'_>, metadata: &Bound<'_, PyMapping>) -> PyResult<()> {
        let pairs = options::metadata(metadata)?;
        detached(py, || {
            self.file
                .take(|file| file.add_metadata(pairs).map_err(Failure::from))
        })
    }

    /// Closes the row group.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || {
            self.file.take(|file| interruptible(|go_on| file.flush(go_on)))
        })
    }

    /// Completes the file.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || {
            rows::write_tail(self)?;
            self.file.take(|file| interruptible(|go_on| file.close(go_on)))
        })
    }

    /// Gives the file up.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        self.file.abort(py)
    }

    #[getter]
    fn bytes_written(&self) -> u64 {
        self.progress.bytes_written()
    }

    #[getter]
    fn closed(&self) -> bool {
        self.file.closed()
    }

    /// The result of the complete file, as a dict; `None` before.
    #[getter]
    fn result<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let result = detached(py, || self.file.take(|file| Ok(file.result().cloned())))?;
        result.map(|result| result_dict(py, &result)).transpose()
    }
}

impl PyWriter {
    /// Writes the batches of a source: those in memory together, which is faster. All others were made for this call:
    /// they are held until they make a round, at most to its end.
    fn write_from(&self, source: ArrowSource, last: bool) -> Result<(), Failure> {
        let (together, is_made) = (source.arrays_together(), source.is_made());
        let (schema, batches) = source.open()?;
        self.file
            .take(|file| file.accept(&schema).map_err(Failure::from))?;
        batches.each_group(together, |group, follows| {
            self.file.take(|file| {
                interruptible(|go_on| match follows {
                    Follows::Nothing if last => file.write_last(group, go_on),
                    Follows::More if is_made => file.hold_all(group, go_on),
                    _ => file.write_all(group, go_on),
                })
            })?;
            Ok(check_signals()?)
        })
    }
}

impl TakesRows for PyWriter {
    fn rows(&self) -> &RowState {
        &self.rows
    }

    fn schema(&self) -> Result<Option<SchemaRef>, Failure> {
        self.file.take(|file| Ok(file.schema()?))
    }

    fn put_all(&self, batches: Vec<Batch>) -> Result<(), Failure> {
        self.file.take(|file| {
            if batches.len() > 1 {
                file.check_all(&batches)?;
            }
            interruptible(|go_on| file.hold_built(&batches, go_on))
        })
    }
}

pub(crate) fn result_dict<'py>(py: Python<'py>, result: &WriteResult) -> PyResult<Bound<'py, PyDict>> {
    let columns = result.columns.iter().map(|column| {
        let entry = PyDict::new(py);
        entry.set_item("path", &column.path)?;
        entry.set_item("physical_type", &column.physical_type)?;
        entry.set_item("encodings", &column.encodings)?;
        entry.set_item("reason", column.reason.name())?;
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
    dict.set_item("spilled_bytes", result.spilled_bytes)?;
    dict.set_item("seconds", seconds(py, &result.times)?)?;
    dict.set_item("footer", PyBytes::new(py, &result.footer))?;
    Ok(dict)
}

/// The time that a file took, in seconds by stage.
fn seconds<'py>(py: Python<'py>, times: &StageTimes) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("encode", times.encode.as_secs_f64())?;
    dict.set_item("compress", times.compress.as_secs_f64())?;
    dict.set_item("write", times.write.as_secs_f64())?;
    dict.set_item("wait", times.wait.as_secs_f64())?;
    Ok(dict)
}
