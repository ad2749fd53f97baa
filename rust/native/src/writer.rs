//! The class `Writer`, which `spillway.ParquetWriter` wraps.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use object_sink::{ObjectSink, Target};
use parquet_writer::sink::{self, Sink, Stream};
use parquet_writer::{
    Amount, Batch, BloomRule, ByColumn, CompressionRule, DEFAULT_FPP, DictionaryRule, EncodingRule,
    FileWriter, OptionInput, Progress, SortInput, WriteError, WriteResult, WriterOptions,
};
use pyo3::exceptions::{PyTypeError, PyUnicodeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyMapping, PyString};

use crate::arrow::{Source, schema_from};
use crate::destination::Destination;
use crate::errors::Failure;
use crate::file_object::FileObject;
use crate::rows::{self, RowState};
use crate::turn::{Turns, attend, check_signals, detached, interruptible};

/// The attributes of a `spillway.WriterOptions`.
#[derive(FromPyObject)]
pub(crate) struct Options<'py> {
    compression: Bound<'py, PyAny>,
    compression_level: Option<i64>,
    row_group_rows: i64,
    row_group_bytes: i64,
    page_bytes: i64,
    memory_limit: Option<Bound<'py, PyAny>>,
    threads: i64,
    dictionary: Bound<'py, PyAny>,
    encoding: Bound<'py, PyAny>,
    bloom_filter: Bound<'py, PyAny>,
    page_checksums: bool,
    compatibility: String,
    timestamps: String,
    sorting_columns: Vec<Bound<'py, PyAny>>,
    sorting: String,
    durable: bool,
    metadata: Option<Bound<'py, PyMapping>>,
}

impl Options<'_> {
    pub fn validated(self, py: Python<'_>) -> PyResult<WriterOptions> {
        let input = OptionInput {
            compression: compression_rule(&self.compression)?,
            compression_level: self.compression_level,
            row_group_rows: self.row_group_rows,
            row_group_bytes: self.row_group_bytes,
            page_bytes: self.page_bytes,
            memory_limit: self.memory_limit.as_ref().map(amount).transpose()?,
            threads: self.threads,
            dictionary: dictionary_rule(&self.dictionary)?,
            encoding: encoding_rule(&self.encoding)?,
            bloom_filter: bloom_rule(&self.bloom_filter)?,
            page_checksums: self.page_checksums,
            compatibility: self.compatibility,
            timestamps: self.timestamps,
            sorting_columns: self
                .sorting_columns
                .iter()
                .map(sort_key)
                .collect::<PyResult<_>>()?,
            sorting: self.sorting,
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
    let wrong = "dictionary must be True, False or a mapping from column paths to bool";
    Ok(DictionaryRule::Columns(by_column(value, wrong)?))
}

fn encoding_rule(value: &Bound<'_, PyAny>) -> PyResult<EncodingRule> {
    if let Ok(all) = value.extract::<String>() {
        return Ok(EncodingRule::All(all));
    }
    let wrong = "encoding must be the name of an encoding or a mapping from column paths to names";
    Ok(EncodingRule::Columns(by_column(value, wrong)?))
}

fn compression_rule(value: &Bound<'_, PyAny>) -> PyResult<CompressionRule> {
    if let Ok(all) = value.extract::<String>() {
        return Ok(CompressionRule::All(all));
    }
    let wrong = "compression must be the name of a codec or a mapping from column paths to names";
    Ok(CompressionRule::Columns(by_column(value, wrong)?))
}

fn amount(value: &Bound<'_, PyAny>) -> PyResult<Amount> {
    if value.is_instance_of::<PyString>() {
        return Ok(Amount::Text(value.extract()?));
    }
    let bytes = value.extract::<i64>().map_err(|error| {
        let wrong = PyTypeError::new_err("memory_limit must be bytes as an int or text such as \"16MB\"");
        wrong.set_cause(value.py(), Some(error));
        wrong
    });
    Ok(Amount::Bytes(bytes?))
}

/// Parses a bloom filter option: all columns or none, a list of paths, or a mapping from paths to false positive rates.
fn bloom_rule(value: &Bound<'_, PyAny>) -> PyResult<BloomRule> {
    let wrong = "bloom_filter must be True, False, a list of column paths or a mapping from them to a share of wrong answers";
    if let Ok(all) = value.extract::<bool>() {
        return Ok(BloomRule::All(all.then_some(DEFAULT_FPP)));
    }
    if value.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err(wrong));
    }
    if value.cast::<PyMapping>().is_ok() {
        let columns = by_column::<f64>(value, wrong)?.into_iter();
        return Ok(ByColumn::Columns(
            columns.map(|(path, fpp)| (path, Some(fpp))).collect(),
        ));
    }
    let paths = value.try_iter().map_err(|_| PyTypeError::new_err(wrong))?;
    let columns = paths.map(|path| Ok((parts(&path?)?, Some(DEFAULT_FPP))));
    Ok(ByColumn::Columns(columns.collect::<PyResult<_>>()?))
}

/// Parses a name, or a tuple of a name and optionally a direction and the place of nulls.
fn sort_key(key: &Bound<'_, PyAny>) -> PyResult<SortInput> {
    let wrong = || {
        PyTypeError::new_err(
            "sorting_columns must be column names, or tuples such as (\"a\", \"descending\", \"nulls_first\")",
        )
    };
    let parts: Vec<String> = match key.cast::<PyString>() {
        Ok(name) => vec![name.extract()?],
        Err(_) => key.extract().map_err(|_| wrong())?,
    };
    let mut parts = parts.into_iter();
    let input = SortInput {
        column: parts.next().ok_or_else(wrong)?,
        direction: parts.next().unwrap_or_else(|| "ascending".into()),
        nulls: parts.next().unwrap_or_else(|| "nulls_last".into()),
    };
    parts.next().map_or(Ok(input), |_| Err(wrong()))
}

/// A dotted path, or a tuple of its parts.
fn parts(path: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    match path.cast::<PyString>() {
        Ok(path) => Ok(vec![path.extract()?]),
        Err(_) => path.extract(),
    }
}

/// A mapping from dotted paths, or tuples of their parts.
fn by_column<T>(value: &Bound<'_, PyAny>, wrong: &'static str) -> PyResult<Vec<(Vec<String>, T)>>
where
    T: for<'a, 'py> FromPyObject<'a, 'py, Error = PyErr>,
{
    let columns = value
        .cast::<PyMapping>()
        .map_err(|_| PyTypeError::new_err(wrong))?;
    let rule = columns.items()?.iter().map(|item| {
        let (key, value) = item.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
        Ok((parts(&key)?, value.extract::<T>()?))
    });
    rule.collect()
}

/// Raises `OptionError` unless every option has a value that is accepted.
#[pyfunction]
pub(crate) fn check_options(py: Python<'_>, options: Options<'_>) -> PyResult<()> {
    options.validated(py).map(|_| ())
}

/// The destination of a file's bytes, not yet opened.
enum Place {
    Path(PathBuf),
    Url(String, HashMap<String, String>),
    Object(FileObject),
    Destination(Destination),
}

impl Place {
    /// Parses a destination. A string is a URL when storage options are given, even empty ones.
    fn of(destination: Bound<'_, PyAny>, storage_options: Option<HashMap<String, String>>) -> PyResult<Self> {
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

    fn open(self, durable: bool) -> Result<Box<dyn Sink>, WriteError> {
        Ok(match self {
            Self::Path(path) => sink::create(&path, durable)?,
            Self::Url(url, options) => {
                let target = Target::new(&url, &options.into_iter().collect::<Vec<_>>())?;
                Box::new(ObjectSink::new(target, Box::new(attend))?)
            }
            Self::Object(object) => Box::new(Stream::new(Box::new(object))),
            Self::Destination(destination) => Box::new(destination),
        })
    }
}

/// A file that is being written. Any thread may use it, one at a time.
#[pyclass(module = "spillway._native", frozen)]
pub(crate) struct Writer {
    file: Turns<FileWriter>,
    progress: Arc<Progress>,
    rows: RowState,
}

#[pymethods]
impl Writer {
    /// Opens a path (a string), a URL (a string with storage options), a `Destination` or an object with `write()`.
    #[new]
    #[pyo3(signature = (destination, schema, options, storage_options=None))]
    fn new(
        py: Python<'_>,
        destination: Bound<'_, PyAny>,
        schema: Option<&Bound<'_, PyAny>>,
        options: Options<'_>,
        storage_options: Option<HashMap<String, String>>,
    ) -> PyResult<Self> {
        let options = options.validated(py)?;
        let schema = schema.map(schema_from).transpose()?;
        let place = Place::of(destination, storage_options)?;
        let file = py
            .detach(move || FileWriter::new(place.open(options.durable())?, schema, options))
            .map_err(|error| Failure::from(error).into_py(py))?;
        Ok(Self {
            progress: file.progress(),
            file: Turns::new(file),
            rows: RowState::default(),
        })
    }

    /// Writes all batches of an object with the Arrow `PyCapsule` interface.
    fn write(&self, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let source = Source::take(data)?;
        detached(data.py(), || {
            let (schema, mut batches) = source.open()?;
            self.file
                .take(|file| file.accept(&schema).map_err(Failure::from))?;
            while let Some(batch) = batches.next()? {
                self.file
                    .take(|file| interruptible(|go_on| file.write(&batch, go_on)))?;
                check_signals()?;
            }
            Ok(())
        })
    }

    /// Writes dicts; returns the number of rows that were written.
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

    /// Writes a chunk or a file of NDJSON; returns the number of rows that were written.
    fn write_ndjson(
        &self,
        source: &Bound<'_, PyAny>,
        on_error: &Bound<'_, PyAny>,
        extra: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        let rules = rows::Rules::new(on_error, extra)?;
        let lines = rows::Source::of(source)?;
        detached(source.py(), || rows::write_ndjson(self, lines, rules))
    }

    /// Adds key-value metadata to the file.
    fn add_metadata(&self, py: Python<'_>, metadata: &Bound<'_, PyMapping>) -> PyResult<()> {
        let pairs = self::metadata(metadata)?;
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

impl Writer {
    /// The state that is kept between calls with rows.
    pub(crate) fn rows(&self) -> &RowState {
        &self.rows
    }

    /// The file's schema, once there is one.
    pub(crate) fn schema(&self) -> Result<Option<SchemaRef>, Failure> {
        self.file.take(|file| Ok(file.schema()?))
    }

    /// Writes one batch.
    pub(crate) fn put(&self, batch: &Batch) -> Result<(), Failure> {
        self.file
            .take(|file| interruptible(|go_on| file.write(batch, go_on)))
    }
}

pub(crate) fn result_dict<'py>(py: Python<'py>, result: &WriteResult) -> PyResult<Bound<'py, PyDict>> {
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
