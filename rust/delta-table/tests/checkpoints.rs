//! Checkpoints beside other processes: what they clean up, write anew and replace.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod counted;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use delta_table::{Place, Table};

use counted::{Counted, HINT, add_files, append, create, open, version_path};

/// A table of two versions with a checkpoint of the second, as another process left it.
fn with_checkpoint(root: &Path) -> PathBuf {
    create(root);
    let before = Table::open(root).unwrap();
    append(&before);
    before.checkpoint().unwrap();
    root.join("_delta_log/00000000000000000001.checkpoint.parquet")
}

#[test]
fn a_checkpoint_that_is_cleaned_up_while_it_is_read_is_none_that_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let old = with_checkpoint(folder.path());
    let elsewhere = tempfile::tempdir().unwrap();
    for file in fs::read_dir(folder.path().join("_delta_log")).unwrap() {
        let file = file.unwrap();
        fs::create_dir_all(elsewhere.path().join("_delta_log")).unwrap();
        fs::copy(
            file.path(),
            elsewhere.path().join("_delta_log").join(file.file_name()),
        )
        .unwrap();
    }
    let later = Table::open(elsewhere.path()).unwrap();
    append(&later);
    assert_eq!(later.checkpoint().unwrap(), 2);
    drop(later);
    let root = folder.path().to_path_buf();
    let place = Counted::new(folder.path());
    *place.before_checkpoint.lock().unwrap() = Some(Box::new(move || {
        for name in [
            "00000000000000000002.json",
            "00000000000000000002.checkpoint.parquet",
        ] {
            let (from, to) = (elsewhere.path().join("_delta_log"), root.join("_delta_log"));
            fs::copy(from.join(name), to.join(name)).unwrap();
        }
        for version in 0..2 {
            fs::remove_file(version_path(&root, version)).unwrap();
        }
        fs::remove_file(old).unwrap();
    }));
    let table = open(&place);
    assert_eq!(table.snapshot().unwrap().files().count(), 2);
    assert_eq!(table.damaged_checkpoint(), None);
}

#[test]
fn a_checkpoint_that_another_process_wrote_for_a_damaged_one_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let good = with_checkpoint(folder.path());
    let body = fs::read(&good).unwrap();
    fs::remove_file(&good).unwrap();
    let damaged = "00000000000000000001.checkpoint.00000000-0000-4000-8000-000000000000.parquet";
    fs::write(
        folder.path().join("_delta_log").join(damaged),
        b"PAR1 and no more",
    )
    .unwrap();
    let place = Counted::new(folder.path());
    let name = format!("_delta_log/{}", good.file_name().unwrap().to_str().unwrap());
    let mark = Arc::new(Mutex::new(None));
    let (written, written_as) = (Arc::clone(&mark), Arc::clone(&place));
    *place.before_replacing.lock().unwrap() = Some(Box::new({
        let name = name.clone();
        move || {
            fs::write(&good, body).unwrap();
            *written.lock().unwrap() = written_as.mark(&name).unwrap();
        }
    }));
    let table = open(&place);
    assert!(table.damaged_checkpoint().is_some());
    assert_eq!(table.checkpoint().unwrap(), 1);
    assert!(mark.lock().unwrap().is_some());
    assert_eq!(place.mark(&name).unwrap(), *mark.lock().unwrap());
}

#[test]
fn a_late_checkpoint_does_not_move_the_hint_back() {
    let folder = tempfile::tempdir().unwrap();
    create(folder.path());
    let place = Counted::new(folder.path());
    let table = open(&place);
    append(&table);
    let (root, hooked) = (folder.path().to_path_buf(), Arc::clone(&place));
    let newer = r#"{"version":7,"size":2}"#;
    // Before the checkpoint's file, and then before the hint.
    *place.before_replacing.lock().unwrap() = Some(Box::new(move || {
        *hooked.before_replacing.lock().unwrap() = Some(Box::new(move || {
            let log = root.join("_delta_log");
            let of = |version: i64| log.join(format!("{version:020}.checkpoint.parquet"));
            fs::copy(of(1), of(7)).unwrap();
            fs::write(root.join(HINT), newer).unwrap();
        }));
    }));
    assert_eq!(table.checkpoint().unwrap(), 1);
    assert!(place.before_replacing.lock().unwrap().is_none());
    assert_eq!(fs::read_to_string(folder.path().join(HINT)).unwrap(), newer);
}

#[test]
fn a_checkpoint_that_is_there_is_not_read_whole_to_say_so() {
    let folder = tempfile::tempdir().unwrap();
    create(folder.path());
    add_files(folder.path(), 1, 40_000);
    Table::open(folder.path()).unwrap().checkpoint().unwrap();
    let checkpoint = folder
        .path()
        .join("_delta_log/00000000000000000001.checkpoint.parquet");
    let size = usize::try_from(fs::metadata(checkpoint).unwrap().len()).unwrap();
    let place = Counted::new(folder.path());
    let table = open(&place);
    place.forget();
    assert_eq!(table.checkpoint().unwrap(), 1);
    let (_, bytes) = place.counts();
    assert!(bytes * 2 < size, "{bytes} of {size} bytes");
}
