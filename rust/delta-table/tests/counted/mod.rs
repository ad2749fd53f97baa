//! A table's folder that counts reads, and runs a test's hooks between calls.
#![allow(dead_code, reason = "each test uses a part")]

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use arrow_array::{Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use delta_commit::log::{BodyDigest, Listing, PutOutcome, StoreError, UnsyncedFile, VersionPresence};
use delta_commit::{LogStore, WaitLimit};
use delta_table::{
    Append, AppendOptions, CreateMode, CreateOptions, LocalStorage, Result, StoredFiles, Table, TableStorage,
};
use parquet_writer::sink::Sink;
use parquet_writer::{OptionInput, WriteError, WriterOptions};

/// The file that is read first when a table is opened.
pub const HINT: &str = "_delta_log/_last_checkpoint";

/// What another process does in the middle of a call.
pub type Hook = Box<dyn FnOnce() + Send>;

fn call(hook: &Mutex<Option<Hook>>) {
    // A hook may set the next one, so the lock is released first.
    let hook = hook.lock().unwrap().take();
    if let Some(hook) = hook {
        hook();
    }
}

/// A folder that counts reads, and can block the opening of tables.
pub struct Counted {
    folder: LocalStorage,
    pub read: Mutex<Vec<(String, usize)>>,
    /// The files that were read as a whole.
    pub whole: Mutex<Vec<String>>,
    is_held: Mutex<bool>,
    released: Condvar,
    /// Called once, when a table is opened next.
    pub meanwhile: Mutex<Option<Hook>>,
    /// Called once, before the next file is replaced.
    pub before_replacing: Mutex<Option<Hook>>,
    /// Called once, before the size of a checkpoint's file is read.
    pub before_checkpoint: Mutex<Option<Hook>>,
    pub believes_for: Mutex<Duration>,
    /// True if checkpoints change while they are read in ranges.
    pub is_torn: AtomicBool,
    /// True if nothing can be read.
    pub is_silent: AtomicBool,
    /// The number of marks so far, if each is to differ from the last.
    pub unsteady: Option<AtomicU64>,
    /// The ranges of versions that were synced.
    pub synced: Arc<Mutex<Vec<(i64, i64)>>>,
}

impl Counted {
    pub fn new(root: &Path) -> Arc<Self> {
        Arc::new(Self {
            folder: LocalStorage::new(root).unwrap(),
            read: Mutex::default(),
            whole: Mutex::default(),
            is_held: Mutex::default(),
            released: Condvar::new(),
            meanwhile: Mutex::default(),
            before_replacing: Mutex::default(),
            before_checkpoint: Mutex::default(),
            believes_for: Mutex::default(),
            is_torn: AtomicBool::new(false),
            is_silent: AtomicBool::new(false),
            unsteady: None,
            synced: Arc::default(),
        })
    }

    pub fn forget(&self) {
        self.read.lock().unwrap().clear();
        self.whole.lock().unwrap().clear();
    }

    /// The number of reads since, and their bytes.
    pub fn counts(&self) -> (usize, usize) {
        let read = self.read.lock().unwrap();
        (read.len(), read.iter().map(|(_, bytes)| bytes).sum())
    }

    /// How often a table was opened.
    pub fn loads(&self) -> usize {
        let read = self.read.lock().unwrap();
        read.iter().filter(|(name, _)| name == HINT).count()
    }

    pub fn hold(&self, is_held: bool) {
        *self.is_held.lock().unwrap() = is_held;
        self.released.notify_all();
    }
}

impl TableStorage for Counted {
    fn root(&self) -> &Path {
        self.folder.root()
    }

    fn key(&self) -> OsString {
        self.folder.key()
    }

    fn log_store(&self) -> Arc<dyn LogStore> {
        Arc::new(Syncing {
            inner: self.folder.log_store(),
            synced: Arc::clone(&self.synced),
        })
    }

    fn prepare(&self) -> Result<()> {
        self.folder.prepare()
    }

    fn list(&self, folder: &str, after: Option<&str>) -> Result<Vec<String>> {
        self.folder.list(folder, after)
    }

    fn read(&self, name: &str) -> Result<Option<Bytes>> {
        let body = self.folder.read(name)?;
        let bytes = body.as_ref().map_or(0, Bytes::len);
        self.read.lock().unwrap().push((name.to_owned(), bytes));
        self.whole.lock().unwrap().push(name.to_owned());
        if name == HINT {
            call(&self.meanwhile);
            let held = self.is_held.lock().unwrap();
            // A failed test must not hang.
            let limit = Duration::from_secs(60);
            drop(
                self.released
                    .wait_timeout_while(held, limit, |held| *held)
                    .unwrap(),
            );
            if self.is_silent.load(Ordering::Acquire) {
                return Err(StoreError::transient("no answer").into());
            }
        }
        Ok(body)
    }

    fn read_range(&self, name: &str, range: Range<u64>) -> Result<Bytes> {
        let bytes = self.folder.read_range(name, range)?;
        self.read.lock().unwrap().push((name.to_owned(), bytes.len()));
        if self.is_torn.load(Ordering::Acquire) && name.contains(".checkpoint.") {
            return Ok(Bytes::from(vec![0; bytes.len()]));
        }
        Ok(bytes)
    }

    fn size(&self, name: &str) -> Result<Option<u64>> {
        if name.contains(".checkpoint.") {
            call(&self.before_checkpoint);
        }
        self.folder.size(name)
    }

    fn has(&self, name: &str) -> Result<bool> {
        self.folder.has(name)
    }

    fn mark(&self, name: &str) -> Result<Option<String>> {
        let mark = self.folder.mark(name)?;
        Ok(mark.map(|mark| match &self.unsteady {
            Some(asked) => asked.fetch_add(1, Ordering::AcqRel).to_string(),
            None => mark,
        }))
    }

    fn believes_marks_for(&self) -> Duration {
        *self.believes_for.lock().unwrap()
    }

    fn replace(&self, name: &str) -> Result<Box<dyn Sink>> {
        call(&self.before_replacing);
        self.folder.replace(name)
    }

    fn create_whole(&self, name: &str) -> Result<Box<dyn Sink>> {
        Ok(Box::new(New {
            path: self.root().join(name),
            sink: self.replace(name)?,
        }))
    }

    fn create(&self, name: &Path) -> Result<Box<dyn Sink>, WriteError> {
        self.folder.create(name)
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
        self.folder.remove(names)
    }
}

/// A file that must not replace another, as on object stores.
struct New {
    path: PathBuf,
    sink: Box<dyn Sink>,
}

impl io::Write for New {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sink.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

impl Sink for New {
    fn commit(&mut self) -> io::Result<()> {
        if self.path.exists() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.sink.commit()
    }

    fn discard(&mut self) {
        self.sink.discard();
    }
}

/// A log that records which versions are synced.
struct Syncing {
    inner: Arc<dyn LogStore>,
    synced: Arc<Mutex<Vec<(i64, i64)>>>,
}

impl LogStore for Syncing {
    fn find_tip(&self) -> Result<i64, StoreError> {
        self.inner.find_tip()
    }

    fn read_version(&self, version: i64) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.read_version(version)
    }

    fn put_version(&self, version: i64, body: &[u8]) -> Result<PutOutcome, StoreError> {
        self.inner.put_version(version, body)
    }

    fn check_version(&self, version: i64, digest: Option<BodyDigest>) -> Result<VersionPresence, StoreError> {
        self.inner.check_version(version, digest)
    }

    fn remove_version(&self, version: i64) -> Result<(), StoreError> {
        self.inner.remove_version(version)
    }

    fn list_intents(&self) -> Result<Listing, StoreError> {
        self.inner.list_intents()
    }

    fn read_intent(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.read_intent(name)
    }

    fn put_intent(&self, name: &str, body: &[u8]) -> Result<(), StoreError> {
        self.inner.put_intent(name, body)
    }

    fn delete_intent(&self, name: &str) -> Result<(), StoreError> {
        self.inner.delete_intent(name)
    }

    fn sync_data(&self, files: &[UnsyncedFile]) -> Vec<Result<(), StoreError>> {
        self.inner.sync_data(files)
    }

    fn sync_log(&self, first: i64, last: i64) -> Result<(), StoreError> {
        self.inner.sync_log(first, last)?;
        self.synced.lock().unwrap().push((first, last));
        Ok(())
    }
}

pub fn wait_limit() -> WaitLimit<'static> {
    WaitLimit::until(Instant::now() + Duration::from_secs(30))
}

pub fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true)]))
}

pub fn create(root: &Path) {
    let options = CreateOptions::default();
    Table::create(root, &schema(), options, CreateMode::Error, &mut wait_limit()).unwrap();
}

pub fn version_path(root: &Path, version: i64) -> PathBuf {
    root.join(format!("_delta_log/{version:020}.json"))
}

/// Writes a version with `files` adds, as another writer would.
pub fn add_files(root: &Path, version: i64, files: usize) {
    let mut lines = String::new();
    for number in 0..files {
        writeln!(
            lines,
            r#"{{"add":{{"path":"{version}-{number}.parquet","partitionValues":{{}},"size":812,"modificationTime":1,"dataChange":true,"stats":"{{\"numRecords\":10}}"}}}}"#
        )
        .unwrap();
    }
    fs::write(version_path(root, version), lines).unwrap();
}

pub fn written(table: &Table, options: AppendOptions) -> Append {
    let rows = RecordBatch::try_new(schema(), vec![Arc::new(Int64Array::from(vec![1]))]).unwrap();
    let writer_options = WriterOptions::new(OptionInput::default()).unwrap();
    let mut append = table.append(options, writer_options).unwrap();
    append.write(&rows.into(), &mut || true).unwrap();
    append
}

pub fn commit(mut append: Append) -> Result<i64> {
    append.commit(&mut wait_limit(), &mut || true)
}

pub fn append(table: &Table) -> i64 {
    commit(written(table, AppendOptions::default())).unwrap()
}

pub fn loader(version: i64) -> AppendOptions {
    AppendOptions {
        app_transaction: Some(("loader".to_owned(), version)),
        ..AppendOptions::default()
    }
}

pub fn open(storage: &Arc<Counted>) -> Table {
    Table::open_at(Arc::clone(storage) as Arc<dyn TableStorage>).unwrap()
}
