//! A dataset in a local folder.

use std::path::{Path, PathBuf};

use parquet_writer::WriteError;
use parquet_writer::sink::Sink;

use crate::options::DatasetOptions;
use crate::publish::{self, PublishTarget, Staged};
use crate::spread::{Places, SpreadFile};
use crate::staging::{StagedFile, Staging};
use crate::storage::{Published, Storage, Unpublished};
use crate::template::LONGEST_NAME;

/// A local folder, whose files are hidden until all are complete.
pub struct LocalFolder {
    staging: Staging,
    root: PathBuf,
    options: DatasetOptions,
    durable: bool,
}

impl LocalFolder {
    /// Makes the folder if its parent exists.
    ///
    /// # Errors
    /// [`WriteError::Io`] when the folder cannot be written or has something in it that the options do not allow,
    /// [`WriteError::Option`] when it is a Delta table.
    pub fn new(root: &Path, options: DatasetOptions, durable: bool) -> Result<Self, WriteError> {
        let root = std::path::absolute(root).map_err(|error| WriteError::io(root, error))?;
        publish::check_folder(target(&root, &options, durable))?;
        Ok(Self {
            staging: Staging::new(&root).map_err(|error| WriteError::io(&root, error))?,
            root,
            options,
            durable,
        })
    }
}

fn target<'a>(root: &'a Path, options: &'a DatasetOptions, durable: bool) -> PublishTarget<'a> {
    PublishTarget {
        root,
        template: &options.template,
        mode: options.mode,
        metadata_file: options.metadata_file,
        durable,
    }
}

impl Places for LocalFolder {
    fn open(&mut self, folder: &Path) -> Result<(PathBuf, Box<dyn Sink>), WriteError> {
        let with_path = |error| WriteError::io(&self.root, error);
        let staged = self.staging.next_path().map_err(with_path)?;
        let file = StagedFile::create(staged.clone(), self.root.join(folder), self.durable);
        Ok((staged, Box::new(file.map_err(with_path)?)))
    }

    fn longest_name(&self) -> usize {
        LONGEST_NAME
    }
}

impl Storage for LocalFolder {
    fn publish(&mut self, files: &[SpreadFile]) -> Result<Published, Unpublished> {
        let staged: Vec<_> = files
            .iter()
            .map(|file| Staged {
                from: &file.path,
                folder: &file.folder,
                result: &file.result,
            })
            .collect();
        let target = target(&self.root, &self.options, self.durable);
        let paths = publish::publish(&staged, target, &mut self.staging)?;
        // The files are where they belong: what is left of the hidden folder is no reason to say otherwise.
        let _ = self.staging.finish();
        Ok(Published {
            paths,
            unremoved: None,
        })
    }
}
