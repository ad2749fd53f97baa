//! A table's folder as one process of many has it: with a committer of its own, and a test that is asked before each
//! change of the folder.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use delta_commit::LogStore;
use delta_commit::log::{
    BodyDigest, Listing, PutOutcome, StoreError, UnsyncedFile, Version, VersionPresence,
};
use parquet_writer::WriteError;
use parquet_writer::sink::Sink;

use crate::{Bodies, LocalStorage, Names, Result, StoredFiles, TableError, TableStorage};

/// A change of the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// A version is created.
    Version,
    /// Anything else.
    Other,
}

/// The question before each change. An error says that the change, and all that follow, are not made.
pub(crate) type Before = dyn Fn(Step) -> io::Result<()> + Send + Sync;

/// The process.
pub(crate) struct Process {
    folder: Arc<LocalStorage>,
    key: OsString,
    before: Arc<Before>,
    reads: Reads,
    /// The number of files that are read before they are asked for.
    ahead: usize,
}

/// The parts of files that were read, with the names of the files.
pub(crate) type Reads = Arc<Mutex<Vec<(String, Range<u64>)>>>;

impl Process {
    /// The table's storage for the process of this number. Processes of one number share a committer.
    pub fn storage(root: &Path, number: usize, before: Arc<Before>) -> Arc<dyn TableStorage> {
        let folder = Arc::new(LocalStorage::new(root).unwrap());
        let mut key = folder.key();
        key.push(format!(" of process {number}"));
        Arc::new(Self {
            folder,
            key,
            before,
            reads: Reads::default(),
            ahead: 0,
        })
    }

    /// The table's storage, and what is read of it from now on.
    pub fn counted(root: &Path) -> (Arc<dyn TableStorage>, Reads) {
        Self::counted_ahead(root, 0)
    }

    /// A storage that reads `ahead` files ahead.
    pub fn counted_ahead(root: &Path, ahead: usize) -> (Arc<dyn TableStorage>, Reads) {
        let folder = Arc::new(LocalStorage::new(root).unwrap());
        let storage = Self {
            key: folder.key(),
            folder,
            before: Arc::new(|_| Ok(())),
            reads: Reads::default(),
            ahead,
        };
        let reads = Arc::clone(&storage.reads);
        (Arc::new(storage), reads)
    }

    fn ask(&self, name: &str) -> Result<()> {
        (self.before)(Step::Other).map_err(|error| TableError::io(name, &error))
    }
}

impl TableStorage for Process {
    fn root(&self) -> &Path {
        self.folder.root()
    }

    fn key(&self) -> OsString {
        self.key.clone()
    }

    fn log_store(&self) -> Arc<dyn LogStore> {
        Arc::new(Log {
            log: self.folder.log_store(),
            before: Arc::clone(&self.before),
        })
    }

    fn prepare(&self) -> Result<()> {
        self.ask("the folder")?;
        self.folder.prepare()
    }

    fn list(&self, folder: &str, after: Option<&str>) -> Result<Vec<String>> {
        self.folder.list(folder, after)
    }

    fn read(&self, name: &str) -> Result<Option<Bytes>> {
        self.folder.read(name)
    }

    fn read_ahead<'a>(&'a self, mut names: Names<'a>) -> Bodies<'a> {
        let mut read = VecDeque::new();
        Box::new(std::iter::from_fn(move || {
            while read.len() <= self.ahead
                && let Some(name) = names.next()
            {
                read.push_back(self.folder.read(&name));
                self.reads.lock().unwrap().push((name, 0..u64::MAX));
            }
            read.pop_front()
        }))
    }

    fn read_range(&self, name: &str, range: Range<u64>) -> Result<Bytes> {
        let read = (name.to_owned(), range.clone());
        self.reads.lock().unwrap().push(read);
        self.folder.read_range(name, range)
    }

    fn size(&self, name: &str) -> Result<Option<u64>> {
        self.folder.size(name)
    }

    fn has(&self, name: &str) -> Result<bool> {
        self.folder.has(name)
    }

    fn mark(&self, name: &str) -> Result<Option<String>> {
        self.folder.mark(name)
    }

    fn believes_marks_for(&self) -> Duration {
        self.folder.believes_marks_for()
    }

    fn replace(&self, name: &str) -> Result<Box<dyn Sink>> {
        self.ask(name)?;
        self.folder.replace(name)
    }

    fn create(&self, name: &Path) -> Result<Box<dyn Sink>, WriteError> {
        Ok(Box::new(DataFile {
            path: self.root().join(name),
            file: self.folder.create(name)?,
            bytes: Vec::new(),
            before: Arc::clone(&self.before),
        }))
    }

    fn ages(&self, folder: &str) -> Result<Option<Vec<(String, i64)>>> {
        self.folder.ages(folder)
    }

    fn walk(&self, enters: &dyn Fn(&str) -> bool) -> Result<Option<StoredFiles>> {
        self.folder.walk(enters)
    }

    fn takes(&self, folder: &Path) -> bool {
        self.folder.takes(folder)
    }

    fn keeps(&self) -> bool {
        self.folder.keeps()
    }

    fn now_for_removal(&self) -> Result<i64> {
        self.folder.now_for_removal()
    }

    fn remove(&self, names: &[String]) -> usize {
        let removed = names.iter().filter(|name| {
            (self.before)(Step::Other).is_ok() && self.folder.remove(std::slice::from_ref(name)) == 1
        });
        removed.count()
    }
}

/// A data file, of which half is there unless it is completed.
struct DataFile {
    path: PathBuf,
    file: Box<dyn Sink>,
    bytes: Vec<u8>,
    before: Arc<Before>,
}

impl Write for DataFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for DataFile {
    fn commit(&mut self) -> io::Result<()> {
        if let Err(error) = (self.before)(Step::Other) {
            fs::write(&self.path, &self.bytes[..self.bytes.len() / 2])?;
            return Err(error);
        }
        self.file.write_all(&self.bytes)?;
        self.file.commit()
    }

    fn discard(&mut self) {
        self.bytes.clear();
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.path)
    }

    fn spill_directory(&self) -> Option<PathBuf> {
        self.file.spill_directory()
    }
}

struct Log {
    log: Arc<dyn LogStore>,
    before: Arc<Before>,
}

impl Log {
    fn ask(&self, step: Step) -> Result<(), StoreError> {
        (self.before)(step).map_err(|error| StoreError::io("the log", &error))
    }
}

impl LogStore for Log {
    fn find_tip(&self) -> Result<Version, StoreError> {
        self.log.find_tip()
    }

    fn read_version(&self, version: Version) -> Result<Option<Vec<u8>>, StoreError> {
        self.log.read_version(version)
    }

    fn put_version(&self, version: Version, body: &[u8]) -> Result<PutOutcome, StoreError> {
        self.ask(Step::Version)?;
        self.log.put_version(version, body)
    }

    fn check_version(
        &self,
        version: Version,
        digest: Option<BodyDigest>,
    ) -> Result<VersionPresence, StoreError> {
        self.log.check_version(version, digest)
    }

    fn remove_version(&self, version: Version) -> Result<(), StoreError> {
        self.ask(Step::Other)?;
        self.log.remove_version(version)
    }

    fn list_intents(&self) -> Result<Listing, StoreError> {
        self.log.list_intents()
    }

    fn read_intent(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.log.read_intent(name)
    }

    fn put_intent(&self, name: &str, body: &[u8]) -> Result<(), StoreError> {
        self.ask(Step::Other)?;
        self.log.put_intent(name, body)
    }

    fn delete_intent(&self, name: &str) -> Result<(), StoreError> {
        self.ask(Step::Other)?;
        self.log.delete_intent(name)
    }

    fn sync_data(&self, files: &[UnsyncedFile]) -> Vec<Result<(), StoreError>> {
        match self.ask(Step::Other) {
            Ok(()) => self.log.sync_data(files),
            Err(error) => vec![Err(error); files.len()],
        }
    }

    fn sync_log(&self, first: Version, last: Version) -> Result<(), StoreError> {
        self.ask(Step::Other)?;
        self.log.sync_log(first, last)
    }
}
