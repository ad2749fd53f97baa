//! An append reads the head of its table, and who waits for another's reading goes on waiting on terms of its own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod counted;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use delta_commit::actions::Action;
use delta_commit::{CommitError, WaitLimit};
use delta_table::{Append, AppendOptions, LocalStorage, Table, TableError, TableStorage, WaitCheck};
use parquet_writer::{OptionInput, WriterOptions};

use counted::{
    Counted, HINT, add_files, append, commit, create, loader, open, version_path, wait_limit, written,
};

/// The files and bytes that the second append of an application reads.
fn read_by_an_append(files: usize) -> (usize, usize) {
    let folder = tempfile::tempdir().unwrap();
    create(folder.path());
    add_files(folder.path(), 1, files);
    Table::open(folder.path()).unwrap().checkpoint().unwrap();
    let storage = Counted::new(folder.path());
    let table = Table::open_at(Arc::clone(&storage) as Arc<dyn TableStorage>).unwrap();
    commit(written(&table, loader(1))).unwrap();
    storage.forget();
    commit(written(&table, loader(2))).unwrap();
    let counts = storage.counts();
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
    let storage = Counted::new(folder.path());
    let table = Table::open_at(Arc::clone(&storage) as Arc<dyn TableStorage>).unwrap();
    append(&table);
    assert_eq!(table.transaction_version("loader").unwrap(), Some(7));
    let (_, bytes) = storage.counts();
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
fn cleaned_up(root: &Path, storage: &Arc<Counted>, appends: usize) -> (Table, Vec<Append>) {
    create(root);
    let table = Table::open_at(Arc::clone(storage) as Arc<dyn TableStorage>).unwrap();
    let open = (0..appends).map(|_| written(&table, AppendOptions::default()));
    let open = open.collect();
    for _ in 0..5 {
        append(&table);
    }
    table.checkpoint().unwrap();
    for version in 0..5 {
        fs::remove_file(version_path(root, version)).unwrap();
    }
    storage.forget();
    (table, open)
}

#[test]
fn twelve_threads_wait_for_one_reading_of_a_table_that_was_cleaned_up() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Counted::new(folder.path());
    let (table, mut open) = cleaned_up(folder.path(), &storage, 12);
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
    assert_eq!(storage.loads(), 1);
    // Those that hold the table as it was go on with what was read then.
    for append in open {
        commit(append).unwrap();
    }
    assert_eq!(storage.loads(), 1);
    assert_eq!(table.snapshot().unwrap().files().count(), 5 + 18);
}

#[test]
fn who_waits_for_anothers_reading_keeps_its_own_deadline() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Counted::new(folder.path());
    let (_table, mut open) = cleaned_up(folder.path(), &storage, 3);
    let (mut first, mut second, mut third) = (open.remove(0), open.remove(0), open.remove(0));
    storage.hold(true);
    thread::scope(|scope| {
        let reader = scope.spawn(move || first.commit(&mut wait_limit(), &mut || true));
        while storage.loads() == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        let asked = Instant::now();
        let deadline = asked + Duration::from_millis(100);
        let done = second.commit(&mut WaitLimit::until(deadline), &mut || true);
        assert!(matches!(
            done,
            Err(TableError::Commit(CommitError::DeadlinePassed))
        ));
        let mut interrupted = || false;
        // Longer than the reading is held: who waits for that comes too late.
        let mut wait = WaitLimit::while_asked(asked + Duration::from_secs(120), &mut interrupted);
        let done = third.commit(&mut wait, &mut || true);
        assert!(matches!(
            done,
            Err(TableError::Commit(CommitError::DeadlinePassed))
        ));
        assert!(!reader.is_finished());
        storage.hold(false);
        assert_eq!(reader.join().unwrap().unwrap(), 6);
    });
    assert_eq!(storage.loads(), 1);
}

#[test]
fn who_waits_without_a_deadline_looks_up() {
    static IS_ENOUGH: AtomicBool = AtomicBool::new(false);
    fn attend() -> WaitCheck {
        Box::new(|| {
            if IS_ENOUGH.load(Ordering::Acquire) {
                return Err(std::io::ErrorKind::Interrupted.into());
            }
            Ok(())
        })
    }
    let folder = tempfile::tempdir().unwrap();
    let storage = Counted::new(folder.path());
    create(folder.path());
    storage.hold(true);
    thread::scope(|scope| {
        let reader = scope.spawn(|| Table::open_at(Arc::clone(&storage) as Arc<dyn TableStorage>).map(drop));
        while storage.loads() == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        IS_ENOUGH.store(true, Ordering::Release);
        let other = LocalStorage::attended(folder.path(), attend).unwrap();
        assert!(Table::open_at(Arc::new(other)).is_err());
        assert!(!reader.is_finished());
        storage.hold(false);
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
            let storage = Counted::new(folder.path());
            create(folder.path());
            let table = Table::open_at(Arc::clone(&storage) as Arc<dyn TableStorage>).unwrap();
            append(&table);
            append(&table);
            let root = folder.path().to_path_buf();
            *storage.meanwhile.lock().unwrap() = Some(Box::new(move || make_anew(&root, versions)));
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

fn remove_versions(root: &Path) {
    for version in 0.. {
        if fs::remove_file(version_path(root, version)).is_err() {
            break;
        }
    }
}

/// The tag of the newest checkpoint that says what version changed metadata last.
fn changed_in(root: &Path) -> serde_json::Value {
    let hint: serde_json::Value = serde_json::from_slice(&fs::read(root.join(HINT)).unwrap()).unwrap();
    hint["tags"]["spillway.changedIn"].clone()
}

#[test]
fn a_table_that_is_a_checkpoint_and_no_version_is_read_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    create(root);
    let before = Table::open(root).unwrap();
    append(&before);
    append(&before);
    before.checkpoint().unwrap();
    drop(before);
    remove_versions(root);
    let storage = Counted::new(root);
    let table = open(&storage);
    assert_eq!(table.snapshot().unwrap().files().count(), 2);
    assert_eq!(table.checkpoint().unwrap(), 2);
    // Read once for the head and once for the files.
    assert_eq!(storage.loads(), 2);
    assert_eq!(commit(written(&table, AppendOptions::default())).unwrap(), 3);
    assert_eq!(table.snapshot().unwrap().files().count(), 3);
    drop(table);
    assert_eq!(open(&Counted::new(root)).snapshot().unwrap().files().count(), 3);
}

#[test]
fn files_are_read_at_most_once_more_where_marks_do_not_last() {
    let folder = tempfile::tempdir().unwrap();
    create(folder.path());
    add_files(folder.path(), 1, 3);
    let mut storage = Counted::new(folder.path());
    Arc::get_mut(&mut storage).unwrap().unsteady = Some(AtomicU64::new(0));
    let table = open(&storage);
    storage.forget();
    assert_eq!(table.snapshot().unwrap().files().count(), 3);
    assert!(storage.loads() <= 6, "{} readings", storage.loads());
}

#[test]
fn what_one_thread_learns_of_a_table_made_anew_protects_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Counted::new(folder.path());
    create(folder.path());
    let table = open(&storage);
    append(&table);
    let first = written(&table, AppendOptions::default());
    let second = written(&table, AppendOptions::default());
    make_anew(folder.path(), 1);
    assert!(matches!(commit(first), Err(TableError::Replaced(_))));
    // The other one comes while the first one's answer is fresh.
    *storage.believes_for.lock().unwrap() = Duration::from_secs(3_600);
    let done = commit(second);
    assert!(matches!(done, Err(TableError::Replaced(_))), "{done:?}");
    assert!(!version_path(folder.path(), 2).exists());
}

#[test]
fn a_checkpoint_says_what_this_process_knows_of_the_last_change() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    create(root);
    let table = Table::open(root).unwrap();
    append(&table);
    table.checkpoint().unwrap();
    // As other writers make them.
    fs::remove_file(root.join(HINT)).unwrap();
    append(&table);
    assert_eq!(table.checkpoint().unwrap(), 2);
    assert_eq!(changed_in(root), "0");
    let metadata = table.head().unwrap().metadata.as_ref().clone();
    let changed = delta_commit::actions::Metadata {
        configuration: [("a".to_owned(), "b".to_owned())].into(),
        ..metadata
    };
    let line = serde_json::to_string(&Action::Metadata(changed)).unwrap();
    fs::write(version_path(root, 3), line).unwrap();
    append(&table);
    table.checkpoint().unwrap();
    assert_eq!(changed_in(root), "3");
}

#[test]
fn a_checkpoint_of_the_old_table_does_not_land_in_the_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Counted::new(folder.path());
    create(folder.path());
    let table = open(&storage);
    append(&table);
    append(&table);
    let root = folder.path().to_path_buf();
    *storage.before_replacing.lock().unwrap() = Some(Box::new(move || make_anew(&root, 0)));
    let done = table.checkpoint();
    assert!(matches!(done, Err(TableError::Replaced(_))), "{done:?}");
    let names = storage.list("_delta_log", None).unwrap();
    assert!(!names.iter().any(|name| name.contains("checkpoint")), "{names:?}");
}

#[test]
fn a_repeated_append_is_acknowledged_when_its_version_survives_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Counted::new(folder.path());
    create(folder.path());
    let table = open(&storage);
    let version = commit(written(&table, loader(1))).unwrap();
    storage.synced.lock().unwrap().clear();
    assert_eq!(commit(written(&table, loader(1))).unwrap(), version);
    assert_eq!(*storage.synced.lock().unwrap(), [(version, version)]);
}

#[test]
fn a_checkpoint_that_is_exchanged_while_it_is_read_in_ranges_is_read_whole() {
    let folder = tempfile::tempdir().unwrap();
    create(folder.path());
    let before = Table::open(folder.path()).unwrap();
    commit(written(&before, loader(7))).unwrap();
    before.checkpoint().unwrap();
    let head = before.head().unwrap();
    drop(before);
    let storage = Counted::new(folder.path());
    storage.is_torn.store(true, Ordering::Release);
    let table = open(&storage);
    assert_eq!(table.head().unwrap().metadata, head.metadata);
    assert_eq!(table.transaction_version("loader").unwrap(), Some(7));
    // A damaged checkpoint is an error if the log before it is incomplete.
    drop(table);
    fs::remove_file(folder.path().join("_delta_log/00000000000000000000.json")).unwrap();
    let checkpoint = "_delta_log/00000000000000000001.checkpoint.parquet";
    fs::write(folder.path().join(checkpoint), b"PAR1 no footer PAR1").unwrap();
    assert!(matches!(
        Table::open_at(storage as Arc<dyn TableStorage>).map(drop),
        Err(TableError::Malformed(_))
    ));
}

#[test]
fn a_part_that_another_append_added_is_not_added_again() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    create(root);
    let table = Table::open(root).unwrap();
    let part = written(&table, AppendOptions::default())
        .detach(&mut || true)
        .unwrap();
    let writer_options = || WriterOptions::new(OptionInput::default()).unwrap();
    let mut first = table.append(AppendOptions::default(), writer_options()).unwrap();
    let mut second = table.append(AppendOptions::default(), writer_options()).unwrap();
    first.attach(&part).unwrap();
    second.attach(&part).unwrap();
    let metadata = table.head().unwrap().metadata.as_ref().clone();
    let changed = delta_commit::actions::Metadata {
        configuration: [("a".to_owned(), "b".to_owned())].into(),
        ..metadata
    };
    let line = serde_json::to_string(&Action::Metadata(changed)).unwrap();
    fs::write(version_path(root, 1), line).unwrap();
    assert_eq!(commit(first).unwrap(), 2);
    let done = commit(second);
    assert!(
        matches!(done, Err(TableError::Commit(CommitError::DuplicateFile { .. }))),
        "{done:?}"
    );
    let snapshot = table.snapshot().unwrap();
    assert_eq!(snapshot.version, 2);
    let file = root.join(&snapshot.files().next().unwrap().path);
    assert!(file.exists());
}

/// Opens a table in eight threads while its store does not answer, and returns the number of readings.
fn readings_of_eight(storage: &Arc<Counted>) -> usize {
    storage.forget();
    storage.hold(true);
    let waiting = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                waiting.fetch_add(1, Ordering::AcqRel);
                let found = Table::open_at(Arc::clone(storage) as Arc<dyn TableStorage>);
                assert!(matches!(
                    found.map(drop),
                    Err(TableError::Commit(CommitError::Store(_)))
                ));
            });
        }
        while waiting.load(Ordering::Acquire) < 8 || storage.loads() == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(300));
        storage.is_silent.store(true, Ordering::Release);
        storage.hold(false);
    });
    storage.is_silent.store(false, Ordering::Release);
    storage.loads()
}

#[test]
fn those_that_wait_for_a_store_that_does_not_answer_hear_together() {
    let folder = tempfile::tempdir().unwrap();
    create(folder.path());
    let storage = Counted::new(folder.path());
    // One that the others waited for, and one that began after they did. On a busy machine a thread may come after
    // the answer, and reads for itself: it can only be more.
    assert!(
        (0..20).any(|_| readings_of_eight(&storage) < 5),
        "each reads for itself"
    );
    append(&open(&storage));
}

#[test]
fn while_a_checkpoint_is_written_no_other_one_is_due() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Counted::new(folder.path());
    create(folder.path());
    let (table, other) = (open(&storage), open(&storage));
    while append(&table) < 10 {}
    let due = Arc::new(Mutex::new(None));
    let asked = Arc::clone(&due);
    *storage.before_replacing.lock().unwrap() = Some(Box::new(move || {
        while append(&other) < 20 {}
        *asked.lock().unwrap() = Some(other.is_checkpoint_due(20).unwrap());
    }));
    assert_eq!(table.checkpoint().unwrap(), 10);
    assert_eq!(*due.lock().unwrap(), Some(false));
    assert!(table.is_checkpoint_due(20).unwrap());
}
