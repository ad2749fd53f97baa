//! Joining and splitting of files by row group, for `spillway.rewrite`.

use std::path::PathBuf;

use object_sink::DatasetObjects;
use parquet_dataset::{LocalFolder, Storage};
use parquet_rewrite::{Copied, FileLimits, Inputs, RewriteError};
use parquet_writer::WriteError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::dataset::{self, FolderOptions};
use crate::errors::Failure;
use crate::storage_options::StorageOptions;
use crate::turn::{detached, ended, watch};
use crate::writer::{UnopenedSink, result_dict};

/// Copies the row groups of files into one file. `progress` is called now and then, with rows and bytes so far.
#[pyfunction]
pub(crate) fn join_files<'py>(
    py: Python<'py>,
    files: Vec<PathBuf>,
    destination: Bound<'py, PyAny>,
    durable: bool,
    storage_options: Option<StorageOptions>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let place = UnopenedSink::of(destination, storage_options)?;
    let result = detached(py, move || {
        copying(progress.as_ref(), |go_on| {
            Inputs::open(&files, go_on)?.into_file(|| place.open(durable), go_on)
        })
    })?;
    result_dict(py, &result)
}

/// Copies the row groups of files into the files of a folder, or of a prefix that a URL names.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "those of the Python function")]
pub(crate) fn split_files(
    py: Python<'_>,
    files: Vec<PathBuf>,
    directory: PathBuf,
    options: FolderOptions,
    max_file_row_groups: Option<u64>,
    durable: bool,
    storage_options: Option<StorageOptions>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'_, PyList>> {
    let options = options.validated(py)?;
    let limits = FileLimits {
        bytes: options.max_file_bytes(),
        row_groups: max_file_row_groups,
    };
    let result = detached(py, move || {
        copying(progress.as_ref(), |go_on| {
            let open = || -> Result<Box<dyn Storage>, WriteError> {
                let Some(settings) = storage_options else {
                    return Ok(Box::new(LocalFolder::new(&directory, options, durable)?));
                };
                let url = directory.to_string_lossy();
                Ok(Box::new(DatasetObjects::new(&url, &settings.0, options, watch)?))
            };
            Inputs::open(&files, go_on)?.into_folder(open, limits, go_on)
        })
    })?;
    dataset::files(py, &result)
}

/// Runs `copy` with a check for signals, which calls `progress`. An exception of either is the error then.
fn copying<T>(
    progress: Option<&Py<PyAny>>,
    copy: impl FnOnce(&mut dyn FnMut(Copied) -> bool) -> Result<T, RewriteError>,
) -> Result<T, Failure> {
    let mut raised = None;
    let done = copy(&mut |copied| {
        let told = Python::attach(|py| {
            py.check_signals()?;
            match progress {
                Some(progress) => progress.call1(py, (copied.rows, copied.bytes)).map(|_| ()),
                None => Ok(()),
            }
        });
        raised = raised.take().or(told.err());
        raised.is_none()
    });
    ended(done.map_err(Failure::from), raised)
}
