//! Deletion of rows by conditions.

use delta_commit::{Operation, Version};
use parquet_writer::WriterOptions;
use roaring::RoaringTreemap;

use crate::conditions::Conditions;
use crate::error::Result;
use crate::row_change::{Dependence, PendingChange, RowChange, RowCounts};
use crate::scan::{Question, RowSearch};
use crate::table::Table;

impl Table {
    /// Finds all rows for which the conditions hold, and writes the files of a deletion of them. A row of which a
    /// condition is null stays. Returns the version that was read, and no deletion where no file changes.
    ///
    /// A file of which all rows go leaves the table. Rows of others are marked by a deletion vector where the table has
    /// `delta.enableDeletionVectors`, unless they are more than half of the rows that the file was written with. Other
    /// files are written again without the rows.
    ///
    /// # Errors
    /// [`TableError::Option`](crate::TableError::Option) when a condition does not fit its column;
    /// [`WriteError::Interrupted`](parquet_writer::WriteError::Interrupted) when `go_on` said no.
    pub fn prepare_delete(
        &self,
        conditions: &Conditions,
        user_metadata: Option<String>,
        writer_options: &WriterOptions,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(Version, Option<PendingChange>)> {
        let mut change = RowChange::begin(self, Some("delete()"), writer_options)?;
        let question = Question::of(change.snapshot(), conditions, "where")?;
        let (shared, snapshot) = (change.shared(), change.snapshot());
        let positions = RowSearch::new(&shared.storage, snapshot, question.of_rows.clone())?;
        let mut deleted = 0;
        for add in question.files(change.snapshot())? {
            if question.is_of_partitions() {
                deleted += change.remove(add)?;
                continue;
            }
            let found = positions.of(&add, go_on)?;
            deleted += found.matching.len();
            change.touch(add, found, RoaringTreemap::new(), true);
        }
        change.scanned();
        let version = change.snapshot().version;
        if change.is_empty() {
            return Ok((version, None));
        }
        let mut operation = Operation::new("DELETE");
        operation.user_metadata = user_metadata;
        operation.parameters = [("predicate".to_owned(), conditions.describe())].into();
        operation.metrics = [("numDeletedRows".to_owned(), deleted.to_string())].into();
        let dependence = Dependence {
            predicate: question.predicate(),
            files: Vec::new(),
        };
        let counts = RowCounts {
            deleted,
            ..RowCounts::default()
        };
        let pending = change.prepare(operation, dependence, counts, None, go_on)?;
        Ok((version, Some(pending)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use arrow_array::{Int64Array, RecordBatch};
    use arrow_schema::{DataType, Field, Schema};
    use delta_commit::actions::Action;
    use delta_commit::conflict::{Conflict, ConflictKind};
    use delta_commit::{CommitError, Marked, WaitLimit};
    use parquet_writer::OptionInput;
    use proptest::prelude::*;

    use super::*;
    use crate::append::AppendOptions;
    use crate::change_feed::CHANGE_FEED;
    use crate::deletion_vectors;
    use crate::{Condition, ConditionValue, CreateMode, CreateOptions, ScanOptions, TableError};

    const ROWS: i64 = 24;
    /// Rows of a file. A deletion that takes at most half of them marks them.
    const FILE_ROWS: i64 = 12;

    fn wait_limit() -> WaitLimit<'static> {
        WaitLimit::until(Instant::now() + Duration::from_secs(60))
    }

    fn options() -> WriterOptions {
        WriterOptions::new(OptionInput::default()).unwrap()
    }

    fn table(root: &Path, isolation: &str) -> Table {
        table_with(root, ("delta.isolationLevel", isolation))
    }

    fn table_with(root: &Path, property: (&str, &str)) -> Table {
        let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true)]));
        let properties = [("delta.enableDeletionVectors", "true"), property];
        let create = CreateOptions {
            properties: properties
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..CreateOptions::default()
        };
        let table = Table::create(root, &schema, create, CreateMode::Error, &mut wait_limit()).unwrap();
        for first in (0..ROWS).step_by(12) {
            append(&table, &(first..first + FILE_ROWS).collect::<Vec<_>>());
        }
        table
    }

    fn append(table: &Table, ids: &[i64]) {
        let schema = table.snapshot().unwrap().schema.arrow();
        let rows = RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from(ids.to_vec()))]).unwrap();
        let mut append = table.append(AppendOptions::default(), options()).unwrap();
        append.write(&rows.into(), &mut || true).unwrap();
        append.commit(&mut wait_limit(), &mut || true).unwrap();
    }

    fn prepared(table: &Table, ids: &BTreeSet<i64>) -> Option<PendingChange> {
        let condition = Condition {
            column: "id".to_owned(),
            operator: "in".to_owned(),
            values: ids.iter().copied().map(ConditionValue::Long).collect(),
        };
        table
            .prepare_delete(&[condition].into(), None, &options(), &mut || true)
            .unwrap()
            .1
    }

    fn left(table: &Table) -> BTreeSet<i64> {
        let scan = table.scan(&ScanOptions::default()).unwrap();
        let mut ids = Vec::new();
        for batch in scan.reader() {
            use arrow_array::cast::AsArray;
            use arrow_array::types::Int64Type;
            let batch = batch.unwrap();
            ids.extend(
                batch
                    .column(0)
                    .as_primitive::<Int64Type>()
                    .values()
                    .iter()
                    .copied(),
            );
        }
        let left: BTreeSet<i64> = ids.iter().copied().collect();
        assert_eq!(left.len(), ids.len(), "a row is there twice");
        left
    }

    /// Files of vectors that no entry of the newest version names.
    fn stray(table: &Table) -> usize {
        let snapshot = table.snapshot().unwrap();
        let files = std::fs::read_dir(table.root()).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let vectors = names.filter(|name| Path::new(name).extension().is_some_and(|end| end == "bin"));
        let in_use: BTreeSet<String> = snapshot
            .files()
            .filter_map(|add| deletion_vectors::file_of(table.root(), add.deletion_vector.as_ref()?).unwrap())
            .collect();
        vectors.filter(|name| !in_use.contains(name)).count()
    }

    fn conflict(error: TableError) -> Conflict {
        match error {
            TableError::Commit(CommitError::Conflict(conflict)) => *conflict,
            other => panic!("{other}"),
        }
    }

    #[derive(Debug, Clone)]
    enum CommitStep {
        Begin(BTreeSet<i64>),
        Commit(prop::sample::Index),
    }

    fn steps() -> impl Strategy<Value = Vec<CommitStep>> {
        let begin = prop::collection::btree_set(0..ROWS, 1..6).prop_map(CommitStep::Begin);
        let commit = any::<prop::sample::Index>().prop_map(CommitStep::Commit);
        prop::collection::vec(prop_oneof![begin, commit], 1..16)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.div_ceil(4), failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn concurrent_deletes_are_as_one_after_the_other(
            steps in steps(),
            isolation in prop::sample::select(&["Serializable", "WriteSerializable"]),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let table = table(folder.path(), isolation);
            let mut here: BTreeSet<i64> = (0..ROWS).collect();
            let mut pending = Vec::new();
            for step in steps {
                match step {
                    CommitStep::Begin(ids) => {
                        let mine: BTreeSet<i64> = here.intersection(&ids).copied().collect();
                        let begun = prepared(&table, &ids);
                        prop_assert_eq!(begun.is_some(), !mine.is_empty());
                        pending.extend(begun.map(|begun| (mine, begun)));
                    }
                    CommitStep::Commit(_) if pending.is_empty() => {}
                    CommitStep::Commit(at) => {
                        let (mine, begun) = pending.remove(at.index(pending.len()));
                        prop_assert_eq!(begun.counts().deleted, mine.len() as u64);
                        let done = begun.commit(&mut wait_limit());
                        if mine.is_subset(&here) {
                            done.unwrap();
                            here.retain(|id| !mine.contains(id));
                        } else {
                            let name = conflict(done.unwrap_err()).to_string();
                            prop_assert!(name.contains("ConcurrentDelete"), "{name}");
                        }
                        prop_assert_eq!(&left(&table), &here);
                    }
                }
            }
        }
    }

    #[test]
    fn rows_that_two_delete_fail_the_later_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let table = table(folder.path(), "Serializable");
        let first = prepared(&table, &BTreeSet::from([1, 2])).unwrap();
        let other = prepared(&table, &BTreeSet::from([3])).unwrap();
        let second = prepared(&table, &BTreeSet::from([2, 4])).unwrap();
        let version = first.commit(&mut wait_limit()).unwrap();
        other.commit(&mut wait_limit()).unwrap();
        let refused = conflict(second.commit(&mut wait_limit()).unwrap_err());
        let ConflictKind::ConcurrentRows { path, rows: 1 } = &refused.kind else {
            panic!("{refused}");
        };
        assert!(table.snapshot().unwrap().files().any(|add| add.path == *path));
        assert_eq!((refused.version, refused.operation.as_str()), (version, "DELETE"));
        assert_eq!(
            left(&table),
            (0..ROWS).filter(|id| ![1, 2, 3].contains(id)).collect()
        );
    }

    #[test]
    fn the_rows_of_a_conflict_are_those_of_the_version_that_it_names() {
        let folder = tempfile::tempdir().unwrap();
        let table = table(folder.path(), "Serializable");
        let late = prepared(&table, &BTreeSet::from([2, 4])).unwrap();
        let delete = |id| prepared(&table, &BTreeSet::from([id])).unwrap();
        let version = delete(2).commit(&mut wait_limit()).unwrap();
        delete(4).commit(&mut wait_limit()).unwrap();
        let refused = conflict(late.commit(&mut wait_limit()).unwrap_err());
        let named = matches!(refused.kind, ConflictKind::ConcurrentRows { rows: 1, .. });
        assert!(named && refused.version == version, "{refused}");
    }

    #[test]
    fn rows_that_came_back_meanwhile_are_a_conflict() {
        let folder = tempfile::tempdir().unwrap();
        let table = table(folder.path(), "Serializable");
        let before = table.snapshot().unwrap().version;
        prepared(&table, &BTreeSet::from([1]))
            .unwrap()
            .commit(&mut wait_limit())
            .unwrap();
        let late = prepared(&table, &BTreeSet::from([2])).unwrap();
        table.restore(before, &mut wait_limit()).unwrap();
        conflict(late.commit(&mut wait_limit()).unwrap_err());
        assert_eq!(left(&table).len(), 24);
    }

    #[test]
    fn a_row_that_comes_meanwhile_and_satisfies_the_conditions_is_a_conflict() {
        for (isolation, refused) in [("Serializable", true), ("WriteSerializable", false)] {
            for (id, matches) in [(3, true), (100, false)] {
                let folder = tempfile::tempdir().unwrap();
                let table = table(folder.path(), isolation);
                let pending = prepared(&table, &BTreeSet::from([3])).unwrap();
                append(&table, &[id]);
                let done = pending.commit(&mut wait_limit());
                assert_eq!(done.is_err(), refused && matches, "{isolation} {id}");
            }
        }
    }

    #[test]
    fn a_row_that_comes_meanwhile_and_satisfies_an_alternative_is_a_conflict() {
        for (isolation, refused) in [("Serializable", true), ("WriteSerializable", false)] {
            for (id, matches) in [(3, true), (15, true), (8, false), (100, false)] {
                let folder = tempfile::tempdir().unwrap();
                let table = table(folder.path(), isolation);
                let text = Conditions::Sql("id = 3 OR NOT (id < 14 OR id > 16)".to_owned());
                let prepared = table.prepare_delete(&text, None, &options(), &mut || true);
                let pending = prepared.unwrap().1.unwrap();
                assert_eq!(pending.counts().deleted, 4);
                append(&table, &[id]);
                let done = pending.commit(&mut wait_limit());
                assert_eq!(done.is_err(), refused && matches, "{isolation} {id}");
            }
        }
    }

    /// A table with one file of 10,000 numbers.
    fn long_table(root: &Path) -> Table {
        let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true)]));
        let create = CreateOptions {
            properties: [("delta.enableDeletionVectors".to_owned(), "true".to_owned())].into(),
            ..CreateOptions::default()
        };
        let table = Table::create(root, &schema, create, CreateMode::Error, &mut wait_limit()).unwrap();
        append(&table, &(0..10_000).collect::<Vec<_>>());
        table
    }

    /// Every tenth number of a long table.
    fn every(from: i64) -> BTreeSet<i64> {
        (from..10_000).step_by(10).collect()
    }

    #[test]
    fn the_files_of_a_deletion_that_is_dropped_do_not_stay() {
        let folder = tempfile::tempdir().unwrap();
        let table = long_table(folder.path());
        let files = || std::fs::read_dir(folder.path()).unwrap().count();
        let before = files();
        for ids in [every(0), (0..9_000).collect()] {
            let pending = prepared(&table, &ids).unwrap();
            assert_eq!(files(), before + 1);
            drop(pending);
            assert_eq!(files(), before);
        }
    }

    #[test]
    fn a_merge_for_a_deletion_that_was_given_up_leaves_no_vector() {
        let folder = tempfile::tempdir().unwrap();
        let table = long_table(folder.path());
        let pending = prepared(&table, &every(0)).unwrap();
        let other = prepared(&table, &every(1)).unwrap();
        let version = other.commit(&mut wait_limit()).unwrap();
        let add = table.snapshot().unwrap().files().next().unwrap().as_ref().clone();
        let transaction = pending.transaction.clone();
        drop(pending);
        let operation = "DELETE".to_owned();
        let theirs = [Marked {
            version,
            operation,
            add,
        }];
        let merge = transaction.marks.clone().unwrap().merge;
        merge.merge(&transaction, &theirs).unwrap();
        assert_eq!(stray(&table), 0);
    }

    #[test]
    fn a_deletion_that_is_merged_keeps_its_change_data_files_and_has_them_synced() {
        let folder = tempfile::tempdir().unwrap();
        let table = table_with(folder.path(), (CHANGE_FEED, "true"));
        let pending = prepared(&table, &BTreeSet::from([1])).unwrap();
        let other = prepared(&table, &BTreeSet::from([2])).unwrap();
        let version = other.commit(&mut wait_limit()).unwrap();
        let snapshot = table.snapshot().unwrap();
        let mut marked = snapshot.files().filter(|add| add.deletion_vector.is_some());
        let theirs = Marked {
            version,
            operation: "DELETE".to_owned(),
            add: marked.next().unwrap().as_ref().clone(),
        };
        let transaction = &pending.transaction;
        let merge = &transaction.marks.as_ref().unwrap().merge;
        let merged = merge.merge(transaction, &[theirs]).unwrap();
        let noted = merged.actions.iter().filter_map(|action| match action {
            Action::Cdc(cdc) => Some(&cdc.path),
            _ => None,
        });
        let noted: Vec<&String> = noted.collect();
        assert_eq!(noted.len(), 1);
        assert!(merged.unsynced.contains(noted[0]));
    }

    #[test]
    fn vectors_of_lost_races_do_not_stay() {
        let folder = tempfile::tempdir().unwrap();
        let table = long_table(folder.path());
        let pending: Vec<PendingChange> = (0..4).filter_map(|from| prepared(&table, &every(from))).collect();
        let same = prepared(&table, &every(3)).unwrap();
        for delete in pending {
            delete.commit(&mut wait_limit()).unwrap();
        }
        conflict(same.commit(&mut wait_limit()).unwrap_err());
        assert_eq!(left(&table).len(), 6_000);
        // Those of the older versions, which may be read.
        assert_eq!(stray(&table), 3);
    }
}
