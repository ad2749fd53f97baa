//! Uploads that one process begins and another one completes, as the tasks and the driver of a job do.
//!
//! A task writes a dataset whose files are complete but for their completions, and tells the driver of each upload its
//! id and parts. The driver completes the uploads of the tasks that count, and aborts all others. No object is staged,
//! copied or renamed.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use parquet_dataset::{DatasetOptions, Places, Published, SpreadFile, Storage, Unpublished};
use parquet_writer::WriteError;
use parquet_writer::sink::Sink;

use crate::dataset::Naming;
use crate::folder::{RequestFailure, StoreFolder, below, until_failure};
use crate::held::HeldUploads;
use crate::sink::Attend;
use crate::upload::{PendingUpload, Upload};
use crate::watch::with_status;

/// The uploads of a dataset, once its writer is closed.
#[derive(Clone, Default)]
pub struct Detached(Arc<Mutex<Vec<PendingUpload>>>);

impl Detached {
    /// The uploads; none before the writer is closed.
    #[must_use]
    pub fn uploads(&self) -> Vec<PendingUpload> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The files of a dataset whose completion is left to another process. Nothing is checked about the prefix.
pub struct PendingObjects {
    folder: Arc<StoreFolder>,
    uploads: HeldUploads,
    naming: Naming,
    detached: Detached,
}

impl PendingObjects {
    /// A dataset in `folder`. Each upload is named in an object below `journal`, a path in the folder, as
    /// [`HeldUploads::with_journal`] does. The function that `attend` returns is called during every wait, and its
    /// error ends the wait.
    ///
    /// # Errors
    /// [`WriteError::Io`] when the threads that drive requests cannot be started.
    pub fn new(
        folder: Arc<StoreFolder>,
        options: DatasetOptions,
        journal: &str,
        attend: fn() -> Attend,
    ) -> Result<Self, WriteError> {
        let with_url = |error| WriteError::io(folder.url_of(journal), error);
        let target = folder.target(journal).map_err(with_url)?;
        let uploads = HeldUploads::new(attend).map_err(with_url)?;
        Ok(Self {
            uploads: uploads.with_journal(target, folder.path.to_string()),
            folder,
            naming: Naming::new(options),
            detached: Detached::default(),
        })
    }

    /// The uploads, which are there once the writer is closed.
    #[must_use]
    pub fn detached(&self) -> Detached {
        self.detached.clone()
    }
}

impl Places for PendingObjects {
    fn open(&mut self, folder: &Path) -> Result<(PathBuf, Box<dyn Sink>), WriteError> {
        let (_, target) = self.naming.next(&self.folder, folder)?;
        Ok((PathBuf::from(&target.url), Box::new(self.uploads.sink(target))))
    }
}

impl Storage for PendingObjects {
    /// Ends all uploads but for their completions.
    fn publish(&mut self, files: &[SpreadFile]) -> Result<Published, Unpublished> {
        let prefix = &self.folder.path;
        let found = self.uploads.detach(|path| below(prefix, path))?;
        *self.detached.0.lock().unwrap_or_else(PoisonError::into_inner) = found;
        Ok(Published {
            paths: files.iter().map(|file| file.path.clone()).collect(),
            unremoved: None,
        })
    }
}

impl StoreFolder {
    /// Makes the objects of uploads appear, many at a time. An upload that was completed before is no error while its
    /// object is there. After a failure no other completion begins, and what has appeared stays.
    ///
    /// # Errors
    /// The first [`RequestFailure`]; any of the objects may have appeared.
    pub fn complete(&self, uploads: &[PendingUpload]) -> Result<(), RequestFailure> {
        self.wait(until_failure(uploads, &Cell::new(false), |upload| {
            self.completed(upload)
        }))?
    }

    async fn completed(&self, pending: &PendingUpload) -> Result<(), RequestFailure> {
        let upload = self.resumed(pending)?;
        match with_status(upload.finish()).await {
            (Err(error), status) if !upload.has_appeared(&*self.store).await => {
                Err(self.failure(&pending.name, &error, status))
            }
            _ => Ok(()),
        }
    }

    /// Aborts uploads and deletes their objects, where they were completed. Returns the names of the objects that may
    /// still be there, each with the reason.
    #[must_use]
    pub fn take_back(&self, uploads: &[PendingUpload]) -> Vec<(String, RequestFailure)> {
        self.each(
            uploads,
            |upload| upload.name.as_str(),
            |pending| async move {
                let upload = self.resumed(pending)?;
                // First, so that no late completion makes the object after it was deleted.
                let (aborted, status) = with_status(upload.abort()).await;
                let aborted = aborted.map_err(|error| self.failure(&pending.name, &error, status));
                let (deleted, status) = with_status(upload.delete(&*self.store)).await;
                deleted.map_err(|error| self.failure(&pending.name, &error, status))?;
                aborted
            },
        )
    }

    /// Aborts uploads, given by the names of their objects and their ids; one that is gone is no error. Returns the
    /// names of those that may still be there, each with the reason. Azure aborts no upload: it removes the blocks
    /// after a week.
    #[must_use]
    pub fn abort(&self, uploads: &[(String, String)]) -> Vec<(String, RequestFailure)> {
        self.each(
            uploads,
            |(name, _)| name.as_str(),
            |(name, id)| async move {
                let pending = PendingUpload {
                    name: name.clone(),
                    id: id.clone(),
                    parts: Vec::new(),
                    bytes: 0,
                };
                let (aborted, status) = with_status(self.resumed(&pending)?.abort()).await;
                aborted.map_err(|error| self.failure(name, &error, status))
            },
        )
    }

    fn resumed(&self, pending: &PendingUpload) -> Result<Upload, RequestFailure> {
        let path = self.path_of(&pending.name)?;
        Ok(Upload::resume(Arc::clone(&self.store) as _, path, pending))
    }
}
