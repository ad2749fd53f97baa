//! An append reads the head of its table, and who waits for another's reading goes on waiting on terms of its own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use arrow_array::{Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use delta_commit::{CommitError, LogStore, Patience};
use delta_table::{
    Ages, Append, AppendOptions, Attend, CreateMode, CreateOptions, Folder, Place, Result, Table, TableError,
};
use parquet_writer::sink::Sink;
use parquet_writer::{OptionInput, WriteError, WriterOptions};

/// A file that every reading of a whole table begins with.
const HINT: &str = "_delta_log/_last_checkpoint";

/// A folder that counts the files that are read, and may hold up who reads a table.
struct Counted {
    folder: Folder,
    read: Mutex<Vec<(String, usize)>>,
    is_held: Mutex<bool>,
    bell: Condvar,
    /// Called once, by who reads the table next.
    meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Counted {
    fn new(root: &Path) -> Arc<Self> {
        Arc::new(Self {
            folder: Folder::new(root).unwrap(),
            read: Mutex::default(),
            is_held: Mutex::default(),
            bell: Condvar::new(),
            meanwhile: Mutex::default(),
        })
    }

    fn forget(&self) {
        self.read.lock().unwrap().clear();
    }

    /// The number of files that were read since, and their bytes.
    fn counts(&self) -> (usize, usize) {
        let read = self.read.lock().unwrap();
        (read.len(), read.iter().map(|(_, bytes)| bytes).sum())
    }

    /// The number of times that a table was read.
    fn loads(&self) -> usize {
        let read = self.read.lock().unwrap();
        read.iter().filter(|(name, _)| name == HINT).count()
    }

    fn hold(&self, is_held: bool) {
        *self.is_held.lock().unwrap() = is_held;
        self.bell.notify_all();
    }
}

impl Place for Counted {
    fn root(&self) -> &Path {
        self.folder.root()
    }

    fn key(&self) -> OsString {
        self.folder.key()
    }

    fn log_store(&self) -> Arc<dyn LogStore> {
        self.folder.log_store()
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
        if name == HINT {
            if let Some(meanwhile) = self.meanwhile.lock().unwrap().take() {
                meanwhile();
            }
            let held = self.is_held.lock().unwrap();
            // A test that failed must not wait for ever.
            let limit = Duration::from_secs(60);
            drop(self.bell.wait_timeout_while(held, limit, |held| *held).unwrap());
        }
        Ok(body)
    }

    fn read_range(&self, name: &str, range: Range<u64>) -> Result<Bytes> {
        let bytes = self.folder.read_range(name, range)?;
        self.read.lock().unwrap().push((name.to_owned(), bytes.len()));
        Ok(bytes)
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
        self.folder.replace(name)
    }

    fn create(&self, name: &Path) -> Result<Box<dyn Sink>, WriteError> {
        self.folder.create(name)
    }

    fn ages(&self, folder: &str) -> Result<Option<Ages>> {
        self.folder.ages(folder)
    }

    fn takes(&self, folder: &Path) -> bool {
        self.folder.takes(folder)
    }

    fn keeps(&self) -> bool {
        self.folder.keeps()
    }

    fn remove(&self, names: &[String]) -> usize {
        self.folder.remove(names)
    }
}

fn patience() -> Patience<'static> {
    Patience::until(Instant::now() + Duration::from_secs(30))
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true)]))
}

fn create(root: &Path) {
    let options = CreateOptions::default();
    Table::create(root, &schema(), options, CreateMode::Error, &mut patience()).unwrap();
}

fn version_path(root: &Path, version: i64) -> PathBuf {
    root.join(format!("_delta_log/{version:020}.json"))
}

/// Writes a version that adds so many files, as another writer might.
fn add_files(root: &Path, version: i64, files: usize) {
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

fn written(table: &Table, options: AppendOptions) -> Append {
    let rows = RecordBatch::try_new(schema(), vec![Arc::new(Int64Array::from(vec![1]))]).unwrap();
    let writer_options = WriterOptions::new(OptionInput::default()).unwrap();
    let mut append = table.append(options, writer_options).unwrap();
    append.write(&rows.into(), &mut || true).unwrap();
    append
}

fn commit(mut append: Append) -> Result<i64> {
    append.commit(&mut patience(), &mut || true)
}

fn append(table: &Table) -> i64 {
    commit(written(table, AppendOptions::default())).unwrap()
}

fn loader(version: i64) -> AppendOptions {
    AppendOptions {
        app_transaction: Some(("loader".to_owned(), version)),
        ..AppendOptions::default()
    }
}

/// The files and bytes that the second append of an application reads.
fn read_by_an_append(files: usize) -> (usize, usize) {
    let folder = tempfile::tempdir().unwrap();
    create(folder.path());
    add_files(folder.path(), 1, files);
    Table::open(folder.path()).unwrap().checkpoint().unwrap();
    let place = Counted::new(folder.path());
    let table = Table::open_at(Arc::clone(&place) as Arc<dyn Place>).unwrap();
    commit(written(&table, loader(1))).unwrap();
    place.forget();
    commit(written(&table, loader(2))).unwrap();
    let counts = place.counts();
    assert!(written(&table, loader(2)).is_repeated());
    assert_eq!(table.transaction_version("loader").unwrap(), Some(2));
    counts
}

#[test]
fn an_append_of_an_application_reads_the_versions_since_and_no_more() {
    let (files, bytes) = read_by_an_append(3_000);
    // That of the append before, and the one after it, which is not there.
    assert!(files <= 2, "{files} files");
    assert!(bytes < 2_000, "{bytes} bytes");
    let (fewer, smaller) = read_by_an_append(1);
    assert_eq!(files, fewer);
    assert!(bytes.abs_diff(smaller) < 100);
}

#[test]
fn a_table_is_opened_without_the_columns_of_its_files() {
    let folder = tempfile::tempdir().unwrap();
    create(folder.path());
    add_files(folder.path(), 1, 100_000);
    let before = Table::open(folder.path()).unwrap();
    commit(written(&before, loader(7))).unwrap();
    before.checkpoint().unwrap();
    drop(before);
    fs::remove_file(version_path(folder.path(), 1)).unwrap();
    let place = Counted::new(folder.path());
    let table = Table::open_at(Arc::clone(&place) as Arc<dyn Place>).unwrap();
    append(&table);
    assert_eq!(table.transaction_version("loader").unwrap(), Some(7));
    let (_, bytes) = place.counts();
    let checkpoint = folder
        .path()
        .join("_delta_log/00000000000000000002.checkpoint.parquet");
    let whole = fs::metadata(checkpoint).unwrap().len();
    assert!(bytes as u64 * 3 < whole, "{bytes} bytes of {whole}");
    let head = table.head().unwrap();
    let snapshot = table.snapshot().unwrap();
    assert_eq!(snapshot.files().count(), 100_002);
    assert_eq!(
        (head.version, head.changed_in),
        (snapshot.version, snapshot.changed_in)
    );
    assert_eq!(head.metadata, snapshot.metadata);
    assert_eq!(head.protocol, snapshot.protocol);
}

/// A table whose log was cleaned up past the version that this process knows it by.
fn cleaned_up(root: &Path, place: &Arc<Counted>, appends: usize) -> (Table, Vec<Append>) {
    create(root);
    let table = Table::open_at(Arc::clone(place) as Arc<dyn Place>).unwrap();
    let open = (0..appends).map(|_| written(&table, AppendOptions::default()));
    let open = open.collect();
    for _ in 0..5 {
        append(&table);
    }
    table.checkpoint().unwrap();
    for version in 0..5 {
        fs::remove_file(version_path(root, version)).unwrap();
    }
    place.forget();
    (table, open)
}

#[test]
fn twelve_threads_wait_for_one_reading_of_a_table_that_was_cleaned_up() {
    let folder = tempfile::tempdir().unwrap();
    let place = Counted::new(folder.path());
    let (table, mut open) = cleaned_up(folder.path(), &place, 12);
    let start = Barrier::new(12);
    thread::scope(|scope| {
        let committers: Vec<_> = open
            .drain(..6)
            .map(|append| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    commit(append).unwrap()
                })
            })
            .collect();
        for _ in 0..6 {
            scope.spawn(|| {
                start.wait();
                append(&table)
            });
        }
        for committer in committers {
            committer.join().unwrap();
        }
    });
    assert_eq!(place.loads(), 1);
    // Those that hold the table as it was go on with what was read then.
    for append in open {
        commit(append).unwrap();
    }
    assert_eq!(place.loads(), 1);
    assert_eq!(table.snapshot().unwrap().files().count(), 5 + 18);
}

#[test]
fn who_waits_for_anothers_reading_keeps_its_own_deadline() {
    let folder = tempfile::tempdir().unwrap();
    let place = Counted::new(folder.path());
    let (_table, mut open) = cleaned_up(folder.path(), &place, 3);
    let (mut first, mut second, mut third) = (open.remove(0), open.remove(0), open.remove(0));
    place.hold(true);
    thread::scope(|scope| {
        let reader = scope.spawn(move || first.commit(&mut patience(), &mut || true));
        while place.loads() == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        let asked = Instant::now();
        let deadline = asked + Duration::from_millis(100);
        let done = second.commit(&mut Patience::until(deadline), &mut || true);
        assert!(matches!(
            done,
            Err(TableError::Commit(CommitError::DeadlinePassed))
        ));
        let mut interrupted = || false;
        let mut patience = Patience::while_asked(asked + Duration::from_secs(60), &mut interrupted);
        let done = third.commit(&mut patience, &mut || true);
        assert!(matches!(
            done,
            Err(TableError::Commit(CommitError::DeadlinePassed))
        ));
        assert!(asked.elapsed() < Duration::from_secs(20));
        assert!(!reader.is_finished());
        place.hold(false);
        assert_eq!(reader.join().unwrap().unwrap(), 6);
    });
    assert_eq!(place.loads(), 1);
}

#[test]
fn who_waits_without_a_deadline_looks_up() {
    static IS_ENOUGH: AtomicBool = AtomicBool::new(false);
    fn attend() -> Attend {
        Box::new(|| {
            if IS_ENOUGH.load(Ordering::Acquire) {
                return Err(std::io::ErrorKind::Interrupted.into());
            }
            Ok(())
        })
    }
    let folder = tempfile::tempdir().unwrap();
    let place = Counted::new(folder.path());
    create(folder.path());
    place.hold(true);
    thread::scope(|scope| {
        let reader = scope.spawn(|| Table::open_at(Arc::clone(&place) as Arc<dyn Place>).map(drop));
        while place.loads() == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        IS_ENOUGH.store(true, Ordering::Release);
        let other = Folder::attended(folder.path(), attend).unwrap();
        assert!(Table::open_at(Arc::new(other)).is_err());
        assert!(!reader.is_finished());
        place.hold(false);
        reader.join().unwrap().unwrap();
    });
}

/// Puts another table into the folder.
fn make_anew(root: &Path, versions: i64) {
    fs::remove_dir_all(root.join("_delta_log")).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    create(elsewhere.path());
    let other = Table::open(elsewhere.path()).unwrap();
    for _ in 0..versions {
        append(&other);
    }
    fs::create_dir(root.join("_delta_log")).unwrap();
    for version in 0..=versions {
        fs::copy(
            version_path(elsewhere.path(), version),
            version_path(root, version),
        )
        .unwrap();
    }
}

#[test]
fn files_of_a_table_that_was_made_anew_meanwhile_are_not_those_of_the_old_one() {
    for versions in [0, 2, 5] {
        for older in [None, Some(0)] {
            let folder = tempfile::tempdir().unwrap();
            let place = Counted::new(folder.path());
            create(folder.path());
            let table = Table::open_at(Arc::clone(&place) as Arc<dyn Place>).unwrap();
            append(&table);
            append(&table);
            let root = folder.path().to_path_buf();
            *place.meanwhile.lock().unwrap() = Some(Box::new(move || make_anew(&root, versions)));
            let found = match older {
                None => table.snapshot().map(|_| ()),
                Some(version) => table.snapshot_at(version).map(|_| ()),
            };
            assert!(matches!(found, Err(TableError::Replaced(_))), "{found:?}");
        }
    }
}

#[test]
fn an_open_append_holds_no_files() {
    let folder = tempfile::tempdir().unwrap();
    create(folder.path());
    let table = Table::open(folder.path()).unwrap();
    let open = written(&table, AppendOptions::default());
    append(&table);
    let before = Arc::as_ptr(&table.snapshot().unwrap());
    append(&table);
    let after = table.snapshot().unwrap();
    assert_eq!(after.files().count(), 2);
    // Nobody else holds the files, so that none was copied.
    assert_eq!(Arc::as_ptr(&after), before);
    drop(open);
}
