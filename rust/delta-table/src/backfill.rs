//! The backfill of row ids: rows that are in a table when it gets row tracking.
//!
//! The table gets the feature first, so that every file that comes from then on has ids. Then versions name the files
//! of before once more, so many at a time, and the committer gives their rows ids. They change no row: appends go on,
//! and a change of rows that such a version got ahead of begins anew. If a file leaves the table meanwhile, or rows of
//! it are marked, the version has a conflict, and is made anew from the files that are there then. See "Row Tracking"
//! in Delta's PROTOCOL.md.

use std::collections::BTreeMap;
use std::sync::Arc;

use delta_commit::actions::{Action, Add};
use delta_commit::row_ids::{ENABLED, rows_of};
use delta_commit::{CommitError, Operation, Patience};
use serde_json::{Map, Value};

use crate::create::with_features;
use crate::error::{Result, TableError};
use crate::head::Head;
use crate::operations::begin;
use crate::place::Place;
use crate::properties::features;
use crate::row_ids;
use crate::scan::row_count;
use crate::snapshot::Snapshot;
use crate::table::{Table, patient};

/// Files of a version at most: with their statistics, most of such versions may be announced.
const AT_ONCE: usize = 2_000;

impl Table {
    /// Gives ids to the rows of all files that have none. Returns true if versions were written for that.
    ///
    /// # Errors
    /// As a commit. Files of versions that were written before keep their ids, and another call goes on from there.
    pub(crate) fn backfill(&self, patience: &mut Patience<'_>) -> Result<bool> {
        self.backfill_by(AT_ONCE, patience)
    }

    fn backfill_by(&self, at_once: usize, patience: &mut Patience<'_>) -> Result<bool> {
        let snapshot = self.snapshot_in_time(patience)?;
        if row_ids::without_ids(&snapshot).next().is_none() {
            return Ok(false);
        }
        if !row_ids::gives_ids(&snapshot) {
            self.give_feature(&snapshot, patience)?;
        }
        while self.give_ids(at_once, patience)? {}
        Ok(true)
    }

    fn give_feature(&self, head: &Head, patience: &mut Patience<'_>) -> Result<()> {
        let enabled = BTreeMap::from([(ENABLED.to_owned(), "true".to_owned())]);
        let protocol = with_features(&head.protocol, &features(&enabled))?;
        let mut operation = Operation::new("UPGRADE PROTOCOL");
        let shown = serde_json::to_string(&protocol).unwrap_or_default();
        operation.parameters.insert("newProtocol".to_owned(), shown);
        operation.changes_data = false;
        let mut transaction = begin(head, operation)?;
        transaction.actions.push(Action::Protocol(protocol));
        self.shared()?.commit(transaction, patience).map(drop)
    }

    /// Gives ids to the rows of so many files at most. Returns false if none was left without.
    fn give_ids(&self, at_once: usize, patience: &mut Patience<'_>) -> Result<bool> {
        let shared = self.shared()?;
        let snapshot = self.snapshot_in_time(patience)?;
        let mut operation = Operation::new("ROW TRACKING BACKFILL");
        operation.changes_data = false;
        let mut transaction = begin(&snapshot, operation)?;
        for add in row_ids::without_ids(&snapshot).take(at_once) {
            patient(patience)()?;
            // Whoever marks rows of the file, or removes it, has its entry changed.
            transaction.reads.files.insert(add.path.clone());
            let counted = counted(&shared.place, &snapshot, add)?;
            transaction.actions.push(Action::Add(counted));
        }
        if transaction.actions.is_empty() {
            return Ok(false);
        }
        match shared.commit(transaction, patience) {
            Err(TableError::Commit(CommitError::Conflict(conflict))) if conflict.kind.is_of_files() => {}
            done => {
                done?;
            }
        }
        Ok(true)
    }
}

/// The entry of a file that is in the table, with a count of its rows, by which they get ids.
fn counted(place: &Arc<dyn Place>, snapshot: &Arc<Snapshot>, add: &Arc<Add>) -> Result<Add> {
    let mut entry = Add {
        data_change: false,
        ..add.as_ref().clone()
    };
    if rows_of(&entry).is_none() {
        let stats = entry
            .stats
            .as_deref()
            .map(serde_json::from_str::<Map<String, Value>>);
        let mut stats = stats.and_then(Result::ok).unwrap_or_default();
        let rows = row_count(place, snapshot, add)?;
        stats.insert("numRecords".to_owned(), Value::from(rows));
        entry.stats = Some(Value::Object(stats).to_string());
    }
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{Int64Array, RecordBatch};
    use arrow_schema::{DataType, Field, Schema};
    use delta_commit::Version;
    use parquet_writer::{OptionInput, WriterOptions};

    use super::*;
    use crate::row_change::PendingChange;
    use crate::tests::process::{Process, Step};
    use crate::{AppendOptions, Condition, CreateMode, CreateOptions, Scalar, ScanOptions};

    fn patience() -> Patience<'static> {
        Patience::until(Instant::now() + Duration::from_secs(60))
    }

    fn options() -> WriterOptions {
        WriterOptions::new(OptionInput::default()).unwrap()
    }

    /// A table with files of three rows each, from 0 on.
    fn table(root: &Path, files: i64) -> Table {
        let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true)]));
        let create = CreateOptions {
            properties: [("delta.enableDeletionVectors".to_owned(), "true".to_owned())].into(),
            ..CreateOptions::default()
        };
        let table = Table::create(root, &schema, create, CreateMode::Error, &mut patience()).unwrap();
        for file in 0..files {
            append(&table, file * 3);
        }
        table
    }

    fn append(table: &Table, first: i64) {
        let schema = table.head().unwrap().schema.arrow();
        let ids = Int64Array::from_iter_values(first..first + 3);
        let rows = RecordBatch::try_new(schema, vec![Arc::new(ids)]).unwrap();
        let mut append = table.append(AppendOptions::default(), options()).unwrap();
        append.write(&rows.into(), &mut || true).unwrap();
        append.commit(&mut patience(), &mut || true).unwrap();
    }

    fn deletion(table: &Table, id: i64) -> PendingChange {
        let condition = Condition {
            column: "id".to_owned(),
            operator: "=".to_owned(),
            values: vec![Scalar::Long(id)],
        };
        let prepared = table.prepare_delete(&[condition], None, &options(), &mut || true);
        prepared.unwrap().1.unwrap()
    }

    fn ids(table: &Table) -> Vec<i64> {
        let mut ids: Vec<i64> = Vec::new();
        for batch in table.scan(&ScanOptions::default()).unwrap().reader() {
            ids.extend(batch.unwrap().column(0).as_primitive::<Int64Type>().values());
        }
        ids.sort_unstable();
        ids
    }

    /// Checks that each row of the table's files has an id of its own.
    fn check(table: &Table) {
        let snapshot = table.snapshot().unwrap();
        let mut firsts: Vec<i64> = snapshot.files().map(|add| add.base_row_id.unwrap()).collect();
        firsts.sort_unstable();
        assert!(firsts.windows(2).all(|pair| pair[0] + 3 <= pair[1]), "{firsts:?}");
        let newest = snapshot.version;
        let is_version = |version: Option<Version>| version.is_some_and(|version| version <= newest);
        assert!(
            snapshot
                .files()
                .all(|add| is_version(add.default_row_commit_version))
        );
    }

    #[test]
    fn files_get_ids_in_versions_of_so_many_at_most() {
        let folder = tempfile::tempdir().unwrap();
        let table = table(folder.path(), 5);
        assert!(table.backfill_by(2, &mut patience()).unwrap());
        check(&table);
        let operations = table.history(None).unwrap().into_iter().map(|(_, info)| info);
        let operations: Vec<Value> = operations.map(|info| info["operation"].clone()).collect();
        assert_eq!(operations[..3], ["ROW TRACKING BACKFILL"; 3]);
        assert_eq!(operations[3], "UPGRADE PROTOCOL");
        assert_eq!((operations.len(), ids(&table)), (10, (0..15).collect()));
        assert!(!table.backfill_by(2, &mut patience()).unwrap());
    }

    #[test]
    fn a_delete_that_a_backfill_got_ahead_of_finds_its_rows_again() {
        let folder = tempfile::tempdir().unwrap();
        let table = table(folder.path(), 2);
        let snapshot = table.snapshot().unwrap();
        table.give_feature(&snapshot, &mut patience()).unwrap();
        let late = deletion(&table, 4);
        assert!(table.give_ids(10, &mut patience()).unwrap());
        assert!(late.commit(&mut patience()).unwrap_err().is_of_moved_rows());
        deletion(&table, 4).commit(&mut patience()).unwrap();
        check(&table);
        assert_eq!(ids(&table), [0, 1, 2, 3, 5]);
    }

    #[test]
    fn rows_that_go_beside_a_backfill_stay_away() {
        let folder = tempfile::tempdir().unwrap();
        let table = Arc::new(table(folder.path(), 4));
        let versions = AtomicUsize::new(0);
        let beside = Arc::clone(&table);
        let before = move |step| -> io::Result<()> {
            // The first version is that of the feature.
            match (step, versions.load(Ordering::Relaxed)) {
                (Step::Version, at @ 0..=2) => {
                    versions.store(at + 1, Ordering::Relaxed);
                    if at > 0 {
                        deletion(&beside, i64::try_from(at).unwrap())
                            .commit(&mut patience())
                            .unwrap();
                        append(&beside, 100 * i64::try_from(at).unwrap());
                    }
                }
                _ => {}
            }
            Ok(())
        };
        let other = Table::open_at(Process::place(folder.path(), 0, Arc::new(before))).unwrap();
        assert!(other.backfill_by(3, &mut patience()).unwrap());
        check(&table);
        let expected = [0].into_iter().chain(3..12).chain(100..103).chain(200..203);
        assert_eq!(ids(&table), expected.collect::<Vec<_>>());
    }
}
