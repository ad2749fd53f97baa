//! Tests of all changes of rows together, against a model of the rows.

mod columns;
mod compaction_backoff;
mod deaths;
mod feed;
mod histories;
mod model;
mod pages;
pub(crate) mod process;
mod row_ids;
mod sharing;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use delta_commit::actions::{Action, Add};
use delta_commit::{Version, WaitLimit, path};
use parquet_writer::{OptionInput, WriterOptions};

use crate::append::{Append, AppendOptions};
use crate::change_feed::{CHANGE_FEED, CHANGE_TYPE, FOLDER};
use crate::deletion_vectors;
use crate::storage::LocalStorage;
use crate::{ChangesOptions, CreateMode, CreateOptions, ScanOptions, Table};

pub(crate) fn wait_limit() -> WaitLimit<'static> {
    WaitLimit::until(Instant::now() + Duration::from_secs(60))
}

fn options() -> WriterOptions {
    WriterOptions::new(OptionInput::default()).unwrap()
}

fn schema() -> SchemaRef {
    let field = |name| Field::new(name, DataType::Int64, true);
    Arc::new(Schema::new(vec![field("id"), field("value")]))
}

/// Rows, each an identifier and a value.
type Rows = Vec<(i64, i64)>;

pub(crate) fn batch(rows: &[(i64, i64)]) -> RecordBatch {
    let column = |of: fn(&(i64, i64)) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(rows.iter().map(of)))
    };
    RecordBatch::try_new(schema(), vec![column(|row| row.0), column(|row| row.1)]).unwrap()
}

/// The abilities of a table: deletion vectors, a change data feed, rows that keep their ids.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Has {
    marks: bool,
    feed: bool,
    tracks: bool,
}

/// An empty table.
pub(crate) fn table(root: &Path, isolation: &str, has: Has) -> Table {
    let properties = [
        ("delta.enableDeletionVectors", has.marks.to_string()),
        (CHANGE_FEED, has.feed.to_string()),
        ("delta.enableRowTracking", has.tracks.to_string()),
        ("delta.isolationLevel", isolation.to_owned()),
    ];
    let create = CreateOptions {
        properties: properties.map(|(name, value)| (name.to_owned(), value)).into(),
        ..CreateOptions::default()
    };
    Table::create(root, &schema(), create, CreateMode::Error, &mut wait_limit()).unwrap()
}

/// An append whose files are written, and that is not committed yet. Each has so many rows at most; none for one file.
fn appended(table: &Table, rows: &[(i64, i64)], file_rows: Option<i64>) -> Append {
    let append = AppendOptions {
        max_file_rows: file_rows,
        ..AppendOptions::default()
    };
    let mut append = table.append(append, options()).unwrap();
    append.write(&batch(rows).into(), &mut || true).unwrap();
    append
}

fn append(table: &Table, rows: &[(i64, i64)]) {
    appended(table, rows, None)
        .commit(&mut wait_limit(), &mut || true)
        .unwrap();
}

/// The rows of a batch of a table.
fn rows_of(batch: &RecordBatch) -> impl Iterator<Item = (i64, i64)> {
    let column = |place: usize| batch.column(place).as_primitive::<Int64Type>().values().to_vec();
    column(0).into_iter().zip(column(1))
}

/// The rows of a version, by default the newest, in order.
fn rows_at(table: &Table, version: Option<Version>) -> Rows {
    let scan = ScanOptions {
        version,
        ..ScanOptions::default()
    };
    let mut rows = Rows::new();
    for batch in table.scan(&scan).unwrap().reader() {
        rows.extend(rows_of(&batch.unwrap()));
    }
    rows.sort_unstable();
    rows
}

/// The rows of the newest version, in order.
fn rows(table: &Table) -> Rows {
    rows_at(table, None)
}

/// The rows that a version changed, by what happened to them.
fn changes(table: &Table, version: Version) -> BTreeMap<String, Rows> {
    let options = ChangesOptions {
        first: version,
        last: Some(version),
        columns: None,
    };
    let mut changes: BTreeMap<String, Rows> = BTreeMap::new();
    for batch in table.changes(&options, &mut || true).unwrap().reader() {
        let batch = batch.unwrap();
        let kinds = batch.column_by_name(CHANGE_TYPE).unwrap().as_string::<i32>();
        for (row, kind) in rows_of(&batch).zip(kinds) {
            changes.entry(kind.unwrap().to_owned()).or_default().push(row);
        }
    }
    changes
}

/// The files of an entry: its data file, and that of its deletion vector.
fn files_of(root: &Path, add: &Add) -> Vec<String> {
    let vector = add.deletion_vector.as_ref();
    let vector = vector.and_then(|vector| deletion_vectors::file_of(root, vector).unwrap());
    let file = path::decode_inside(&add.path).unwrap();
    std::iter::once(file).chain(vector).collect()
}

/// The names in a folder; none where it is not there.
fn names_in(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).into_iter().flatten();
    files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// The names of the files in a table's folder that are not hidden, and of its change data files.
fn stored(root: &Path) -> BTreeSet<String> {
    let names = names_in(root).into_iter();
    let changes = names_in(&root.join(FOLDER)).into_iter();
    names
        .filter(|name| !name.starts_with('_'))
        .chain(changes.map(|name| format!("{FOLDER}/{name}")))
        .collect()
}

/// The files that no version names.
fn stray(table: &Table) -> Vec<String> {
    let shared = table.shared().unwrap();
    let mut stray = stored(table.root());
    for version in 0..=table.version().unwrap() {
        let body = shared.log.read(version).unwrap().unwrap();
        for action in shared.log.parse(version, &body).unwrap() {
            match action {
                Action::Add(add) => {
                    for file in files_of(table.root(), &add) {
                        stray.remove(&file);
                    }
                }
                Action::Cdc(cdc) => assert!(stray.remove(&cdc.path), "{} is not there", cdc.path),
                _ => {}
            }
        }
    }
    stray.into_iter().collect()
}

/// The table in a folder, opened by another process than any that a test kills.
fn opened(root: &Path) -> Table {
    Table::open_at(Arc::new(LocalStorage::new(root).unwrap())).unwrap()
}
