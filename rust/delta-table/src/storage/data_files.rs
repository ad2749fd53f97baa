//! The data files of one transaction, in whatever storage the table is.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parquet_dataset::Places;
use parquet_writer::WriteError;
use parquet_writer::sink::{ReadBack, Sink};
use uuid::Uuid;

use super::TableStorage;
use crate::error::Result;

/// The data files of one writer, each with a name of its own.
pub(crate) struct DataFiles {
    storage: Arc<dyn TableStorage>,
    /// The folder in the table that all of them are in.
    folder: PathBuf,
    /// All that were begun.
    files: Vec<PathBuf>,
    /// True if each is read back before a version names it.
    is_read_back: bool,
    /// True if those of all partitions lie in one folder.
    is_flat: bool,
}

impl DataFiles {
    pub fn new(storage: Arc<dyn TableStorage>, folder: Option<&str>) -> Self {
        Self {
            storage,
            folder: folder.map(PathBuf::from).unwrap_or_default(),
            files: Vec::new(),
            is_read_back: false,
            is_flat: false,
        }
    }

    /// Writes the files of all partitions into one folder, since partition columns may be renamed.
    #[must_use]
    pub fn in_one_folder(self, is_flat: bool) -> Self {
        Self { is_flat, ..self }
    }

    /// The same files, which may be read back.
    #[must_use]
    pub fn read_back(self, is_read_back: bool) -> Self {
        Self { is_read_back, ..self }
    }

    /// Removes all files of a transaction that certainly is not in the table and never will be.
    pub fn remove(&self) {
        let names = self.files.iter().filter_map(|file| file.to_str());
        let names: Vec<String> = names.map(str::to_owned).collect();
        self.storage.remove(&names);
    }
}

impl Places for DataFiles {
    fn open(&mut self, folder: &Path) -> Result<(PathBuf, Box<dyn Sink>), WriteError> {
        let name = format!("part-{:05}-{}.c000.parquet", self.files.len(), Uuid::new_v4());
        // The log says what a file's partition values are; its folder is for people, and must only be possible.
        let relative = if !self.is_flat && self.storage.takes(folder) {
            self.folder.join(folder).join(name)
        } else {
            self.folder.join(name)
        };
        let file = self.storage.create(&relative)?;
        self.files.push(relative.clone());
        let file = match relative.to_str().filter(|_| self.is_read_back) {
            Some(name) => Box::new(Readable::new(file, &self.storage, name)),
            None => file,
        };
        Ok((relative, file))
    }
}

/// A data file that is read back from the storage, where no version names it yet: it is complete there before it is
/// read, as an upload has to be.
struct Readable {
    file: Box<dyn Sink>,
    storage: Arc<dyn TableStorage>,
    name: String,
    is_complete: bool,
}

impl Readable {
    fn new(file: Box<dyn Sink>, storage: &Arc<dyn TableStorage>, name: &str) -> Self {
        Self {
            file,
            storage: Arc::clone(storage),
            name: name.to_owned(),
            is_complete: false,
        }
    }
}

impl Write for Readable {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Sink for Readable {
    fn commit(&mut self) -> io::Result<()> {
        if !self.is_complete {
            self.file.commit()?;
            self.is_complete = true;
        }
        Ok(())
    }

    fn discard(&mut self) {
        if std::mem::take(&mut self.is_complete) {
            self.storage.remove(std::slice::from_ref(&self.name));
        } else {
            self.file.discard();
        }
    }

    fn path(&self) -> Option<&Path> {
        self.file.path()
    }

    fn spill_directory(&self) -> Option<PathBuf> {
        self.file.spill_directory()
    }

    fn unreadable(&self) -> Option<&'static str> {
        None
    }

    fn read_back(&mut self) -> io::Result<Arc<dyn ReadBack>> {
        self.commit()?;
        Ok(Arc::new(WrittenDataFile {
            storage: Arc::clone(&self.storage),
            name: self.name.clone(),
        }))
    }
}

/// A file at its place.
struct WrittenDataFile {
    storage: Arc<dyn TableStorage>,
    name: String,
}

impl ReadBack for WrittenDataFile {
    fn size(&self) -> io::Result<u64> {
        let size = self.storage.size(&self.name).map_err(io::Error::other)?;
        size.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn read_at(&self, start: u64, length: usize) -> io::Result<Bytes> {
        let range = start..start.saturating_add(length as u64);
        let bytes = self
            .storage
            .read_range(&self.name, range)
            .map_err(io::Error::other)?;
        if bytes.len() == length {
            Ok(bytes)
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }
}
