//! Deletion of rows by conditions: rows are marked by deletion vectors, or files are written again without them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delta_commit::actions::{Action, Add, PartitionValues, Remove};
use delta_commit::{CommitError, Operation, Patience, Transaction, Version};
use parquet_writer::{Batch, WriteError, WriterOptions};
use roaring::RoaringTreemap;

use crate::append::{AppendOptions, DataWriter, Written};
use crate::checkpoint::now;
use crate::deletion_vectors::{self, WrittenVectors, widened};
use crate::error::{Result, TableError};
use crate::operations::{Condition, begin, describe};
use crate::row_merge::RowMerge;
use crate::scan::{FileRows, Found, Positions, Question, row_count};
use crate::snapshot::Snapshot;
use crate::table::{Shared, Table};

const DELETION_VECTORS: &str = "deletionVectors";

/// The fate of a file with rows to delete.
enum Fate {
    /// All its rows go, and the file leaves the table.
    Removed,
    /// The file is written again without these rows, some of which were deleted before.
    Rewritten(RoaringTreemap),
    /// These rows are marked, beside those that were before.
    Marked(Found),
}

/// A file with rows to delete.
struct Touched {
    add: Arc<Add>,
    fate: Fate,
}

/// The files with rows to delete.
#[derive(Default)]
struct Touch {
    files: Vec<Touched>,
    /// Rows to delete.
    rows: u64,
}

/// Files of a deletion. If they are dropped before a version may name them, they are removed.
struct Files {
    shared: Arc<Shared>,
    writers: Vec<DataWriter>,
    written: Written,
    vectors: WrittenVectors,
    /// The files of vectors, once others may follow them.
    merge: Option<Arc<RowMerge>>,
    /// True if a version names them, or may yet.
    stay: bool,
}

impl Table {
    /// Finds all rows for which the conditions hold, and writes the files of a deletion of them. A row of which a
    /// condition is null stays. Returns the version that was read, and no deletion where no file changes.
    ///
    /// A file of which all rows go leaves the table. Rows of others are marked by a deletion vector where the table has
    /// `delta.enableDeletionVectors`, unless they are more than half of the rows that the file was written with. Other
    /// files are written again without the rows.
    ///
    /// # Errors
    /// [`TableError::Option`] when a condition does not fit its column; [`CommitError::Unsupported`] when a file would
    /// have to be written again and the table has a change data feed; [`WriteError::Interrupted`] when `go_on` said no.
    pub fn prepare_delete(
        &self,
        conditions: &[Condition],
        user_metadata: Option<String>,
        writer_options: &WriterOptions,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(Version, Option<PendingDelete>)> {
        let mut clock = Clock::start();
        let snapshot = self.removable("delete()")?;
        let question = Question::of(&snapshot, conditions)?;
        let shared = self.shared()?;
        let touch = touched(&shared, &snapshot, &question, go_on)?;
        clock.scanned = clock.begun.elapsed();
        if touch.files.is_empty() {
            return Ok((snapshot.version, None));
        }
        let mut operation = Operation::new("DELETE");
        operation.user_metadata = user_metadata;
        let predicate = describe(conditions);
        operation.parameters.insert("predicate".to_owned(), predicate);
        let mut transaction = begin(&snapshot, operation)?;
        transaction.reads.predicates.push(question.predicate());
        let mut files = Files::of(&shared);
        write_files(&mut files, &snapshot, &touch, writer_options, go_on)
            .map_err(|error| shared.or_replaced(error))?;
        fill(&mut transaction, &touch, &files);
        clock.note(&mut transaction);
        if !shared.place.keeps() {
            let paths = files.written.adds.iter().map(|add| add.path.clone());
            transaction.unsynced = paths.chain(files.vectors.files.iter().cloned()).collect();
        }
        let rows = touch.rows;
        let merge = RowMerge::new(&shared.place, marked(touch), files.vectors.files.clone());
        transaction.marks = Some(merge.marks());
        files.merge = Some(merge);
        let pending = PendingDelete {
            transaction,
            files,
            rows,
        };
        Ok((snapshot.version, Some(pending)))
    }
}

/// A deletion whose files are written, and that is not committed yet. If it is dropped, its files are removed.
pub struct PendingDelete {
    transaction: Transaction,
    files: Files,
    rows: u64,
}

impl fmt::Debug for PendingDelete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingDelete")
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

impl PendingDelete {
    /// The number of rows that it deletes. None are in a file that was empty before and leaves the table.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Commits it; returns the version without the rows.
    ///
    /// # Errors
    /// A conflict when a concurrent transaction added rows for which the conditions hold, marked a row that this one
    /// marks too, or changed a file with rows to delete in another way; [`CommitError::DeadlinePassed`] when the time
    /// was up and the rows are certainly still there; [`CommitError::Unknown`] when nobody knows, which
    /// [`Table::outcome`] finds out by its token. Unless it is not known, the files are removed.
    pub fn commit(self, patience: &mut Patience<'_>) -> Result<Version> {
        let Self {
            transaction,
            mut files,
            ..
        } = self;
        files.stay = true;
        let done = files.shared.commit(transaction, patience);
        files.stay = matches!(done, Ok(_) | Err(TableError::Commit(CommitError::Unknown { .. })));
        done.map_err(|error| files.shared.or_replaced(error))
    }
}

/// The times of a deletion's steps, for the history.
struct Clock {
    begun: Instant,
    scanned: Duration,
}

impl Clock {
    fn start() -> Self {
        Self {
            begun: Instant::now(),
            scanned: Duration::ZERO,
        }
    }

    fn note(&self, transaction: &mut Transaction) {
        let all = self.begun.elapsed();
        for (name, time) in [
            ("scanTimeMs", self.scanned),
            ("rewriteTimeMs", all.saturating_sub(self.scanned)),
            ("executionTimeMs", all),
        ] {
            note(transaction, name, &time.as_millis());
        }
    }
}

impl Files {
    fn of(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            writers: Vec::new(),
            written: Written::default(),
            vectors: WrittenVectors::default(),
            merge: None,
            stay: false,
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        if self.stay {
            return;
        }
        for writer in &mut self.writers {
            writer.discard();
        }
        match &self.merge {
            Some(merge) => merge.remove(),
            None => {
                self.shared.place.remove(&self.vectors.files);
            }
        }
    }
}

/// Finds the rows to delete, and decides over their files.
fn touched(
    shared: &Shared,
    snapshot: &Arc<Snapshot>,
    question: &Question,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Touch> {
    let marks = takes_vectors(snapshot);
    // What a change data feed tells of a file that is written again would be wrong.
    let rewrites = snapshot.check_rewritable();
    let mut touch = Touch::default();
    let positions = Positions::new(&shared.place, snapshot, question.of_rows.clone())?;
    for add in question.files(snapshot)? {
        if question.of_rows.0.is_empty() {
            let marked = add.deletion_vector.as_ref();
            let marked = marked.map_or(0, |vector| u64::try_from(vector.cardinality).unwrap_or(0));
            let rows = row_count(&shared.place, snapshot, &add)?;
            touch.rows += rows.saturating_sub(marked);
            let fate = Fate::Removed;
            touch.files.push(Touched { add, fate });
            continue;
        }
        let found = positions.of(&add, go_on)?;
        let goes = found.matching.len();
        if goes == 0 {
            continue;
        }
        let is_most = goes > found.rows / 2;
        let fate = if goes + found.deleted.len() == found.rows {
            Fate::Removed
        } else if marks && !(is_most && rewrites.is_ok()) {
            Fate::Marked(found)
        } else {
            snapshot.check_rewritable()?;
            Fate::Rewritten(found.deleted | found.matching)
        };
        touch.rows += goes;
        touch.files.push(Touched { add, fate });
    }
    Ok(touch)
}

/// Returns true if new deletion vectors may be written: the property asks for them, and readers and writers know them.
fn takes_vectors(snapshot: &Snapshot) -> bool {
    let has = |features: &Option<Vec<String>>| {
        let mut features = features.iter().flatten();
        features.any(|feature| feature == DELETION_VECTORS)
    };
    let protocol = &snapshot.protocol;
    snapshot.metadata.is_enabled("delta.enableDeletionVectors")
        && has(&protocol.reader_features)
        && has(&protocol.writer_features)
}

/// Writes what is left of the files to be written again, and the vectors.
fn write_files(
    files: &mut Files,
    snapshot: &Arc<Snapshot>,
    touch: &Touch,
    writer_options: &WriterOptions,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<()> {
    let mut partitions: BTreeMap<&PartitionValues, Vec<(&Arc<Add>, &RoaringTreemap)>> = BTreeMap::new();
    for Touched { add, fate } in &touch.files {
        if let Fate::Rewritten(gone) = fate {
            let partition = partitions.entry(&add.partition_values).or_default();
            partition.push((add, gone));
        }
    }
    let shared = Arc::clone(&files.shared);
    for (values, sources) in partitions {
        let (head, options) = (Arc::clone(&snapshot.head), writer_options.clone());
        let mut writer = DataWriter::new(Arc::clone(&shared), head, AppendOptions::default(), options)?;
        let written = write_again(&mut writer, &shared, snapshot, &sources, go_on);
        files.writers.push(writer);
        let written = written?;
        files.written.rows += written.rows;
        files.written.bytes += written.bytes;
        // A value may have another meaning for another reader, as a timestamp without a zone has.
        files.written.adds.extend(written.adds.into_iter().map(|add| Add {
            partition_values: values.clone(),
            ..add
        }));
    }
    let marked: Vec<RoaringTreemap> = touch
        .files
        .iter()
        .filter_map(|touched| match &touched.fate {
            Fate::Marked(found) => Some(&found.deleted | &found.matching),
            _ => None,
        })
        .collect();
    files.vectors = deletion_vectors::write(&shared.place, &marked)?;
    Ok(())
}

/// Writes what is left of the files of one partition.
fn write_again(
    writer: &mut DataWriter,
    shared: &Shared,
    snapshot: &Arc<Snapshot>,
    sources: &[(&Arc<Add>, &RoaringTreemap)],
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Written> {
    for (add, gone) in sources {
        for batch in FileRows::open(&shared.place, snapshot, add, (*gone).clone())? {
            if !go_on() {
                return Err(WriteError::Interrupted.into());
            }
            writer.take(&Batch::from(batch?), &mut None, go_on)?;
            writer.encode(go_on)?;
        }
    }
    writer.finish(go_on)
}

/// Takes the rows to mark, by the paths of their files.
fn marked(touch: Touch) -> BTreeMap<String, Found> {
    let marked = touch.files.into_iter().filter_map(|touched| match touched.fate {
        Fate::Marked(found) => Some((touched.add.path.clone(), found)),
        _ => None,
    });
    marked.collect()
}

/// Adds the actions, the files that were read, and the counts.
fn fill(transaction: &mut Transaction, touch: &Touch, files: &Files) {
    let at = now();
    let mut vectors = files.vectors.vectors.iter();
    for Touched { add, fate } in &touch.files {
        transaction.reads.files.insert(add.path.clone());
        transaction
            .actions
            .push(Action::Remove(Remove::of(add, at, true)));
        if let Fate::Marked(found) = fate {
            transaction.actions.push(Action::Add(Add {
                deletion_vector: vectors.next().cloned(),
                data_change: true,
                stats: Some(widened(add.stats.as_deref(), found.rows)),
                ..add.as_ref().clone()
            }));
        }
    }
    let added = files.written.adds.iter().cloned().map(Action::Add);
    transaction.actions.extend(added);
    for (name, count) in [
        ("numAddedFiles", files.written.adds.len() as u64),
        ("numAddedBytes", files.written.bytes),
        ("numCopiedRows", files.written.rows),
        ("numDeletedRows", touch.rows),
        ("numAddedChangeFiles", 0),
    ] {
        note(transaction, name, &count);
    }
    note_files(transaction);
}

/// Counts the files that leave the table and the vectors, by delta-spark's names.
pub(crate) fn note_files(transaction: &mut Transaction) {
    let marked: BTreeSet<&str> = transaction.added_paths().collect();
    let (mut files, mut bytes) = (0, 0);
    let (mut added, mut updated, mut removed) = (0, 0, 0);
    for action in &transaction.actions {
        let Action::Remove(remove) = action else {
            continue;
        };
        match (marked.contains(remove.path.as_str()), &remove.deletion_vector) {
            (true, None) => added += 1,
            (true, Some(_)) => updated += 1,
            (false, vector) => {
                files += 1;
                bytes += remove.size.unwrap_or(0);
                removed += i64::from(vector.is_some());
            }
        }
    }
    for (name, count) in [
        ("numRemovedFiles", files),
        ("numRemovedBytes", bytes),
        ("numDeletionVectorsAdded", added),
        ("numDeletionVectorsUpdated", updated),
        ("numDeletionVectorsRemoved", removed),
    ] {
        note(transaction, name, &count);
    }
}

fn note(transaction: &mut Transaction, name: &str, count: &impl ToString) {
    let metrics = &mut transaction.operation.metrics;
    metrics.insert(name.to_owned(), count.to_string());
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use arrow_array::{Int64Array, RecordBatch};
    use arrow_schema::{DataType, Field, Schema};
    use delta_commit::Marked;
    use delta_commit::conflict::{Conflict, ConflictKind};
    use parquet_writer::OptionInput;
    use proptest::prelude::*;

    use super::*;
    use crate::{CreateMode, CreateOptions, Scalar, ScanOptions};

    const ROWS: i64 = 24;
    /// Rows of a file. A deletion that takes at most half of them marks them.
    const FILE_ROWS: i64 = 12;

    fn patience() -> Patience<'static> {
        Patience::until(Instant::now() + Duration::from_secs(60))
    }

    fn options() -> WriterOptions {
        WriterOptions::new(OptionInput::default()).unwrap()
    }

    fn table(root: &Path, isolation: &str) -> Table {
        let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true)]));
        let properties = [
            ("delta.enableDeletionVectors", "true"),
            ("delta.isolationLevel", isolation),
        ];
        let create = CreateOptions {
            properties: properties
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..CreateOptions::default()
        };
        let table = Table::create(root, &schema, create, CreateMode::Error, &mut patience()).unwrap();
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
        append.commit(&mut patience(), &mut || true).unwrap();
    }

    fn prepared(table: &Table, ids: &BTreeSet<i64>) -> Option<PendingDelete> {
        let condition = Condition {
            column: "id".to_owned(),
            operator: "in".to_owned(),
            values: ids.iter().copied().map(Scalar::Long).collect(),
        };
        table
            .prepare_delete(&[condition], None, &options(), &mut || true)
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
    enum Step {
        Begin(BTreeSet<i64>),
        Commit(prop::sample::Index),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let begin = prop::collection::btree_set(0..ROWS, 1..6).prop_map(Step::Begin);
        let commit = any::<prop::sample::Index>().prop_map(Step::Commit);
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
                    Step::Begin(ids) => {
                        let mine: BTreeSet<i64> = here.intersection(&ids).copied().collect();
                        let begun = prepared(&table, &ids);
                        prop_assert_eq!(begun.is_some(), !mine.is_empty());
                        pending.extend(begun.map(|begun| (mine, begun)));
                    }
                    Step::Commit(_) if pending.is_empty() => {}
                    Step::Commit(at) => {
                        let (mine, begun) = pending.remove(at.index(pending.len()));
                        prop_assert_eq!(begun.rows(), mine.len() as u64);
                        let done = begun.commit(&mut patience());
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
        let version = first.commit(&mut patience()).unwrap();
        other.commit(&mut patience()).unwrap();
        let refused = conflict(second.commit(&mut patience()).unwrap_err());
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
        let version = delete(2).commit(&mut patience()).unwrap();
        delete(4).commit(&mut patience()).unwrap();
        let refused = conflict(late.commit(&mut patience()).unwrap_err());
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
            .commit(&mut patience())
            .unwrap();
        let late = prepared(&table, &BTreeSet::from([2])).unwrap();
        table.restore(before, &mut patience()).unwrap();
        conflict(late.commit(&mut patience()).unwrap_err());
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
                let done = pending.commit(&mut patience());
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
        let table = Table::create(root, &schema, create, CreateMode::Error, &mut patience()).unwrap();
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
        let version = other.commit(&mut patience()).unwrap();
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
    fn vectors_of_lost_races_do_not_stay() {
        let folder = tempfile::tempdir().unwrap();
        let table = long_table(folder.path());
        let pending: Vec<PendingDelete> = (0..4).filter_map(|from| prepared(&table, &every(from))).collect();
        let same = prepared(&table, &every(3)).unwrap();
        for delete in pending {
            delete.commit(&mut patience()).unwrap();
        }
        conflict(same.commit(&mut patience()).unwrap_err());
        assert_eq!(left(&table).len(), 6_000);
        // Those of the older versions, which may be read.
        assert_eq!(stray(&table), 3);
    }
}
