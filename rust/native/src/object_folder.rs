//! The class `ObjectFolder`: a prefix of an object store, as the jobs of Spark use it.

use std::sync::Arc;

use object_sink::{ListedObject, Location, PendingUpload, RequestFailure, StoreFolder};
use parquet_writer::WriteError;
use pyo3::prelude::*;

use crate::dataset::{FolderOptions, PyDatasetWriter};
use crate::errors::Failure;
use crate::options::Options;
use crate::storage_options::StorageOptions;
use crate::turn::{detached, watch};

/// An upload as Python has it: the object's name, the upload's id, its parts, and the object's size.
pub(crate) type UploadTuple = (String, String, Vec<String>, u64);

pub(crate) fn tuple_of(upload: PendingUpload) -> UploadTuple {
    let PendingUpload {
        name,
        id,
        parts,
        bytes,
    } = upload;
    (name, id, parts, bytes)
}

fn upload_of((name, id, parts, bytes): UploadTuple) -> PendingUpload {
    PendingUpload {
        name,
        id,
        parts,
        bytes,
    }
}

fn failure(refused: RequestFailure) -> Failure {
    WriteError::Io {
        path: None,
        source: refused.into(),
    }
    .into()
}

fn entry(found: ListedObject) -> (String, u64, i64) {
    (found.name, found.bytes, found.modified)
}

/// The errors of names, as exceptions.
fn errors(py: Python<'_>, failed: Vec<(String, RequestFailure)>) -> Vec<(String, PyErr)> {
    let failed = failed.into_iter();
    failed
        .map(|(name, refused)| (name, failure(refused).into_py(py)))
        .collect()
}

/// A prefix of an object store. It belongs to the process that made it.
#[pyclass(module = "spillway._native", frozen)]
pub(crate) struct ObjectFolder {
    folder: Arc<StoreFolder>,
}

#[pymethods]
impl ObjectFolder {
    #[new]
    fn new(py: Python<'_>, url: &str, storage_options: StorageOptions) -> PyResult<Self> {
        let StorageOptions(options) = storage_options;
        detached(py, || {
            let location = Location::new(url, &options)?;
            let folder = Arc::new(StoreFolder::open(&location, watch)?);
            Ok(Self { folder })
        })
    }

    /// The objects below a folder: name in the folder, size and time of writing in milliseconds.
    fn list(&self, py: Python<'_>, folder: &str) -> PyResult<Vec<(String, u64, i64)>> {
        let listed = detached(py, || self.folder.list(folder, None).map_err(failure))?;
        Ok(listed.found.into_iter().map(entry).collect())
    }

    /// The objects directly in a folder, as those of `list`, and the names of its folders.
    #[expect(clippy::type_complexity, reason = "two lists")]
    fn children(&self, py: Python<'_>, folder: &str) -> PyResult<(Vec<(String, u64, i64)>, Vec<String>)> {
        let (found, folders) = detached(py, || self.folder.children(folder).map_err(failure))?;
        Ok((found.into_iter().map(entry).collect(), folders))
    }

    /// Returns true if there is an object below a folder, or the object of this name.
    fn exists(&self, py: Python<'_>, folder: &str) -> PyResult<bool> {
        detached(py, || {
            let found = self.folder.find(folder, |_| true).map_err(failure)?;
            Ok(found.is_some()
                || (!folder.is_empty() && self.folder.size(folder).map_err(failure)?.is_some()))
        })
    }

    /// The bodies of objects; `None` for those that are not there.
    fn read(&self, py: Python<'_>, names: Vec<String>) -> PyResult<Vec<Option<Vec<u8>>>> {
        detached(py, move || self.folder.read(&names).map_err(failure))
    }

    /// The bytes of objects; `None` for those that are not there.
    fn sizes(&self, py: Python<'_>, names: Vec<String>) -> PyResult<Vec<Option<u64>>> {
        detached(py, move || self.folder.sizes(&names).map_err(failure))
    }

    /// Writes an object, and replaces one of its name.
    fn write(&self, py: Python<'_>, name: &str, body: &[u8]) -> PyResult<()> {
        detached(py, || self.folder.write(name, body).map_err(failure))
    }

    /// Copies objects to other names, and replaces what is there. The store carries the copies out itself.
    fn copy(&self, py: Python<'_>, places: Vec<(String, String)>) -> PyResult<()> {
        detached(py, move || self.folder.copy(&places).map_err(failure))
    }

    /// Deletes objects; one that is gone is no error. Returns those that may still be there, with the errors.
    fn delete(&self, py: Python<'_>, names: Vec<String>) -> PyResult<Vec<(String, PyErr)>> {
        let failed = detached(py, move || Ok(self.folder.delete_each(&names)))?;
        Ok(errors(py, failed))
    }

    /// A writer of a dataset to the prefix that leaves the completions of its uploads to another process. Objects below
    /// `journal` name the uploads.
    fn writer(
        &self,
        py: Python<'_>,
        schema: &Bound<'_, PyAny>,
        dataset: FolderOptions,
        options: Options<'_>,
        journal: &str,
    ) -> PyResult<PyDatasetWriter> {
        PyDatasetWriter::detaching(py, Arc::clone(&self.folder), schema, dataset, options, journal)
    }

    /// Makes the objects of uploads appear.
    fn complete(&self, py: Python<'_>, uploads: Vec<UploadTuple>) -> PyResult<()> {
        let uploads: Vec<_> = uploads.into_iter().map(upload_of).collect();
        detached(py, || self.folder.complete(&uploads).map_err(failure))
    }

    /// Aborts uploads, and deletes their objects. Returns those that may still be there, with the errors.
    fn take_back(&self, py: Python<'_>, uploads: Vec<UploadTuple>) -> PyResult<Vec<(String, PyErr)>> {
        let uploads: Vec<_> = uploads.into_iter().map(upload_of).collect();
        let failed = detached(py, || Ok(self.folder.take_back(&uploads)))?;
        Ok(errors(py, failed))
    }

    /// Aborts uploads, by the names of their objects and their ids. Returns those that may still be there, with the
    /// errors.
    fn abort(&self, py: Python<'_>, uploads: Vec<(String, String)>) -> PyResult<Vec<(String, PyErr)>> {
        let failed = detached(py, move || Ok(self.folder.abort(&uploads)))?;
        Ok(errors(py, failed))
    }
}
