//! The class `DatasetWriter`, which `spillway.DatasetWriter` wraps.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_schema::SchemaRef;
use object_sink::{DatasetObjects, Detached, PendingObjects, StoreFolder, refuse_reading_back};
use parquet_dataset::{DatasetInput, DatasetMode, DatasetOptions, DatasetResult, OnSchemaChange};
use parquet_writer::{Batch, WriteError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::arrow::{ArrowSource, Follows, schema_from};
use crate::errors::Failure;
use crate::object_folder::{UploadTuple, tuple_of};
use crate::options::{FLAG, INTEGER, INTEGER_OR_NONE, Options, TEXT, attribute, describe};
use crate::rows::{self, RowState, TakesRows};
use crate::storage_options::StorageOptions;
use crate::turn::{Turns, check_signals, detached, interruptible, watch};
use crate::writer::result_dict;

/// A `spillway.DatasetOptions`, whose values were not looked at.
pub(crate) struct FolderOptions(DatasetInput);

impl<'py> FromPyObject<'_, 'py> for FolderOptions {
    type Error = PyErr;

    fn extract(options: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self(DatasetInput {
            partition_by: attribute(options, "partition_by", "a column name or a list of them")?,
            max_file_bytes: attribute(options, "max_file_bytes", INTEGER_OR_NONE)?,
            max_file_rows: attribute(options, "max_file_rows", INTEGER_OR_NONE)?,
            max_open_files: attribute(options, "max_open_files", INTEGER)?,
            basename_template: attribute(options, "basename_template", TEXT)?,
            mode: attribute(options, "mode", TEXT)?,
            metadata_file: attribute(options, "metadata_file", FLAG)?,
            on_schema_change: attribute(options, "on_schema_change", TEXT)?,
        }))
    }
}

impl FolderOptions {
    pub fn validated(self, py: Python<'_>) -> PyResult<DatasetOptions> {
        DatasetOptions::new(self.0).map_err(|error| Failure::from(error).into_py(py))
    }
}

/// Raises `OptionError` unless every option has a value that is accepted.
#[pyfunction]
pub(crate) fn check_dataset_options(py: Python<'_>, options: FolderOptions) -> PyResult<()> {
    options.validated(py).map(|_| ())
}

/// The options of a dataset by their names: `default`, and what is `accepted` where that can be listed.
#[pyfunction]
pub(crate) fn dataset_options(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let DatasetInput {
        partition_by,
        max_file_bytes,
        max_file_rows,
        max_open_files,
        basename_template,
        mode,
        metadata_file,
        on_schema_change,
    } = DatasetInput::default();
    let options = PyDict::new(py);
    let unlisted: [&str; 0] = [];
    describe(
        &options,
        "partition_by",
        PyTuple::new(py, partition_by)?,
        &unlisted,
    )?;
    describe(&options, "max_file_bytes", max_file_bytes, &unlisted)?;
    describe(&options, "max_file_rows", max_file_rows, &unlisted)?;
    describe(&options, "max_open_files", max_open_files, &unlisted)?;
    describe(&options, "basename_template", basename_template, &unlisted)?;
    describe(&options, "mode", mode, &DatasetMode::NAMES)?;
    describe(&options, "metadata_file", metadata_file, &unlisted)?;
    describe(
        &options,
        "on_schema_change",
        on_schema_change,
        &OnSchemaChange::NAMES,
    )?;
    Ok(options)
}

/// A folder of files that is being written. Any thread may use it, one at a time.
#[pyclass(module = "spillway._native", name = "DatasetWriter", frozen)]
pub(crate) struct PyDatasetWriter {
    dataset: Turns<parquet_dataset::DatasetWriter>,
    written: Arc<AtomicU64>,
    rows: RowState,
    /// The partition columns, where the schema of the rows may change.
    typed: Option<Vec<String>>,
    uploads: Detached,
}

impl PyDatasetWriter {
    /// A writer to a prefix that leaves the completions of its uploads to another process.
    pub fn detaching(
        py: Python<'_>,
        folder: Arc<StoreFolder>,
        schema: &Bound<'_, PyAny>,
        dataset: FolderOptions,
        options: Options<'_>,
        journal: &str,
    ) -> PyResult<Self> {
        let options = options.validated(py)?;
        let dataset = dataset.validated(py)?;
        let schema = schema_from(schema)?;
        detached(py, || {
            refuse_reading_back(&options)?;
            let objects = PendingObjects::new(folder, dataset.clone(), journal, watch)?;
            let uploads = objects.detached();
            let objects = Box::new(objects);
            let typed = typed(&dataset);
            let writer = parquet_dataset::DatasetWriter::over(objects, Some(schema), dataset, options)?;
            Ok(Self::of(writer, typed, uploads))
        })
    }

    fn of(writer: parquet_dataset::DatasetWriter, typed: Option<Vec<String>>, uploads: Detached) -> Self {
        Self {
            written: writer.written(),
            dataset: Turns::new(writer),
            rows: RowState::default(),
            typed,
            uploads,
        }
    }
}

#[pymethods]
impl PyDatasetWriter {
    /// Opens a folder, or, with storage options, even empty ones, the prefix that a URL names.
    #[new]
    #[pyo3(signature = (directory, schema, dataset, options, storage_options=None))]
    fn new(
        py: Python<'_>,
        directory: PathBuf,
        schema: Option<&Bound<'_, PyAny>>,
        dataset: FolderOptions,
        options: Options<'_>,
        storage_options: Option<StorageOptions>,
    ) -> PyResult<Self> {
        let options = options.validated(py)?;
        let dataset = dataset.validated(py)?;
        let schema = schema.map(schema_from).transpose()?;
        let typed = typed(&dataset);
        let writer = detached(py, move || {
            let Some(settings) = storage_options else {
                return Ok(parquet_dataset::DatasetWriter::new(
                    &directory, schema, dataset, options,
                )?);
            };
            refuse_reading_back(&options)?;
            let url = directory.to_string_lossy();
            let objects = DatasetObjects::new(&url, &settings.0, dataset.clone(), watch)?;
            let objects = Box::new(objects);
            Ok(parquet_dataset::DatasetWriter::over(
                objects, schema, dataset, options,
            )?)
        })?;
        Ok(Self::of(writer, typed, Detached::default()))
    }

    /// Writes all batches of an object with the Arrow `PyCapsule` interface.
    fn write(&self, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let source = ArrowSource::take(data)?;
        let (together, is_made) = (source.arrays_together(), source.is_made());
        detached(data.py(), || {
            let (schema, batches) = source.open()?;
            self.dataset
                .take(|dataset| dataset.accept(&schema).map_err(Failure::from))?;
            batches.each_group(together, |group, follows| {
                self.dataset.take(|dataset| {
                    interruptible(|go_on| {
                        if is_made && follows == Follows::More {
                            dataset.hold_all(group, go_on)
                        } else {
                            dataset.write_all(group, go_on)
                        }
                    })
                })?;
                Ok(check_signals()?)
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

    /// Completes all files and makes them appear.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || {
            rows::write_tail(self)?;
            self.dataset
                .take(|dataset| interruptible(|go_on| dataset.close(go_on)))
        })
    }

    /// Gives all files up.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        self.dataset.abort(py)
    }

    #[getter]
    fn bytes_written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    #[getter]
    fn closed(&self) -> bool {
        self.dataset.closed()
    }

    /// The URLs of files that appeared, or may have, although the dataset failed.
    #[getter]
    fn left(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let text = |path: &PathBuf| path.to_string_lossy().into_owned();
        detached(py, || {
            self.dataset
                .take(|dataset| Ok(dataset.left().iter().map(text).collect()))
        })
    }

    /// The uploads whose completion is left to another process, once the writer is closed.
    #[getter]
    fn uploads(&self) -> Vec<UploadTuple> {
        self.uploads.uploads().into_iter().map(tuple_of).collect()
    }

    /// The files that were written, as dicts; `None` before all are complete.
    #[getter]
    fn result<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyList>>> {
        let result = detached(py, || self.dataset.take(|dataset| Ok(dataset.result().cloned())))?;
        result.map(|result| files(py, &result)).transpose()
    }
}

impl TakesRows for PyDatasetWriter {
    fn rows(&self) -> &RowState {
        &self.rows
    }

    fn schema(&self) -> Result<Option<SchemaRef>, Failure> {
        self.dataset.take(|dataset| Ok(dataset.schema()?))
    }

    fn typed_from_the_start(&self) -> Option<&[String]> {
        self.typed.as_deref()
    }

    fn accepts(&self, schema: &SchemaRef) -> Result<bool, Failure> {
        self.dataset.take(|dataset| {
            // Rows that were not written yet give the schema.
            if dataset.schema()?.is_none() {
                return Ok(true);
            }
            match dataset.accept(schema) {
                Ok(()) => Ok(true),
                Err(WriteError::Schema(_) | WriteError::Option(_)) => Ok(false),
                Err(error) => Err(error.into()),
            }
        })
    }

    fn put_all(&self, batches: Vec<Batch>) -> Result<(), Failure> {
        self.dataset
            .take(|dataset| interruptible(|go_on| dataset.write_whole(&batches, go_on)))
    }
}

/// The columns of a dataset that need a type from the first rows on, if its schema may change.
fn typed(options: &DatasetOptions) -> Option<Vec<String>> {
    let may_change = options.on_schema_change() != OnSchemaChange::Raise;
    may_change.then(|| options.partition_by().to_vec())
}

pub(crate) fn files<'py>(py: Python<'py>, result: &DatasetResult) -> PyResult<Bound<'py, PyList>> {
    let files = result.files.iter().map(|file| {
        let partition = PyDict::new(py);
        for (column, value) in &file.partition {
            partition.set_item(column, value)?;
        }
        let entry = PyDict::new(py);
        entry.set_item("path", file.path.as_os_str())?;
        entry.set_item("partition", partition)?;
        entry.set_item("file", result_dict(py, &file.file)?)?;
        Ok(entry)
    });
    PyList::new(py, files.collect::<PyResult<Vec<_>>>()?)
}
