//! Compactions beside deletes, vacuum and other compactions.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use delta_commit::conflict::ConflictKind;
use parquet_writer::OptionInput;
use proptest::prelude::*;

use super::*;
use crate::{
    Condition, ConditionValue, CreateMode, CreateOptions, PendingChange, ScanOptions, VacuumOptions,
};

fn wait_limit() -> WaitLimit<'static> {
    WaitLimit::until(Instant::now() + Duration::from_secs(60))
}

fn options() -> WriterOptions {
    WriterOptions::new(OptionInput::default()).unwrap()
}

const FILES: i64 = 4;
const FILE_ROWS: i64 = 12;

fn table(root: &Path, isolation: &str) -> Table {
    table_by(root, isolation, &[])
}

fn table_by(root: &Path, isolation: &str, cluster_by: &[&str]) -> Table {
    let columns = ["id", "mixed"].map(|name| Field::new(name, DataType::Int64, true));
    let schema = Arc::new(Schema::new(columns.to_vec()));
    let properties = [
        ("delta.enableDeletionVectors", "true"),
        ("delta.isolationLevel", isolation),
    ];
    let create = CreateOptions {
        properties: properties
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        cluster_by: cluster_by.iter().map(|&name| name.to_owned()).collect(),
        ..CreateOptions::default()
    };
    let table = Table::create(root, &schema, create, CreateMode::Error, &mut wait_limit()).unwrap();
    for file in 0..FILES {
        append(&table, file * FILE_ROWS..(file + 1) * FILE_ROWS);
    }
    table
}

fn append(table: &Table, ids: std::ops::Range<i64>) {
    let schema = table.snapshot().unwrap().schema.arrow();
    let mixed = Int64Array::from_iter_values(ids.clone().map(|id| id * 31 % 47));
    let ids = Int64Array::from_iter_values(ids);
    let rows = RecordBatch::try_new(schema, vec![Arc::new(ids), Arc::new(mixed)]).unwrap();
    let mut append = table.append(AppendOptions::default(), options()).unwrap();
    append.write(&rows.into(), &mut || true).unwrap();
    append.commit(&mut wait_limit(), &mut || true).unwrap();
}

fn compaction(table: &Table, purge: bool) -> Compaction<'_> {
    let compact = CompactOptions {
        purge,
        ..CompactOptions::default()
    };
    table.compact(compact, options()).unwrap()
}

/// A compaction with limits that small files exceed.
fn limited(table: &Table, purge: bool, limits: GroupLimits) -> Compaction<'_> {
    let mut compaction = compaction(table, purge);
    // As many rows as a new file has at least.
    compaction.options.target_file_bytes = (!compaction.cluster_by.is_empty()).then_some(1);
    compaction.limits = limits;
    compaction.known = None;
    compaction.plan().unwrap();
    compaction
}

/// Limits of a table with two columns of numbers: rows of a group, a part of a file or a whole group in memory, and
/// rows of a new file.
fn limits() -> impl Strategy<Value = GroupLimits> {
    let held = prop::sample::select(&[1, 1 << 20]);
    (12_u64..60, held, 1_u64..30).prop_map(|(rows, held_bytes, file_rows)| GroupLimits {
        group_bytes: rows * 64,
        held_bytes,
        file_rows,
    })
}

fn pending(table: &Table) -> PendingCompaction<'_> {
    compaction(table, false).rewrite(&mut || true).unwrap().unwrap()
}

fn delete(table: &Table, ids: &BTreeSet<i64>) -> Option<PendingChange> {
    let condition = Condition {
        column: "id".to_owned(),
        operator: "in".to_owned(),
        values: ids.iter().copied().map(ConditionValue::Long).collect(),
    };
    let pending = table.prepare_delete(&[condition].into(), None, &options(), &mut || true);
    pending.unwrap().1
}

fn commit(pending: Option<PendingChange>) {
    pending.unwrap().commit(&mut wait_limit()).unwrap();
}

/// Removes all files that the newest version does not need; returns their number.
fn vacuumed(table: &Table) -> usize {
    let now = VacuumOptions {
        retention: Some(0),
        dry_run: false,
        enforce_retention: false,
    };
    table.vacuum(&now, &mut || true).unwrap().removed
}

fn left(table: &Table) -> BTreeSet<i64> {
    let mut ids = Vec::new();
    for batch in table.scan(&ScanOptions::default()).unwrap().reader() {
        let batch = batch.unwrap();
        ids.extend(batch.column(0).as_primitive::<Int64Type>().values());
    }
    let left: BTreeSet<i64> = ids.iter().copied().collect();
    assert_eq!(left.len(), ids.len(), "a row is there twice");
    left
}

/// Data files and vectors that no version names.
fn stray(table: &Table) -> Vec<String> {
    let mut in_use = BTreeSet::new();
    for version in 0..=table.version().unwrap() {
        let snapshot = table.snapshot_at(version).unwrap();
        for add in snapshot.files() {
            in_use.insert(path::decode_inside(&add.path).unwrap());
            let vector = add.deletion_vector.as_ref();
            in_use.extend(vector.and_then(|vector| deletion_vectors::file_of(table.root(), vector).unwrap()));
        }
    }
    let files = std::fs::read_dir(table.root()).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names
        .filter(|name| !name.starts_with('_') && !in_use.contains(name))
        .collect()
}

#[derive(Debug, Clone)]
enum Step {
    Begin(BTreeSet<i64>),
    Commit(prop::sample::Index),
    Append,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let begin = prop::collection::btree_set(0..FILES * FILE_ROWS, 1..14).prop_map(Step::Begin);
    let commit = any::<prop::sample::Index>().prop_map(Step::Commit);
    prop::collection::vec(
        prop_oneof![3 => begin, 3 => commit, 1 => Just(Step::Append)],
        0..10,
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.div_ceil(4), failure_persistence: None, ..ProptestConfig::default() })]

    /// Deletes begin before the compaction is made and while it is under way, and commit before and after it.
    #[test]
    fn a_compaction_changes_no_row_whatever_comes_first(
        before in steps(),
        meanwhile in steps(),
        isolation in prop::sample::select(&["Serializable", "WriteSerializable"]),
        cluster_by in prop::sample::select(vec![vec![], vec!["mixed"], vec!["mixed", "id"]]),
        limits in limits(),
        purge in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let table = table_by(folder.path(), isolation, &cluster_by);
        let mut next = FILES * FILE_ROWS;
        let mut here: BTreeSet<i64> = (0..next).collect();
        let mut deletes = Vec::new();
        let mut step = |step: &Step| match step {
            Step::Begin(ids) => deletes.extend(delete(&table, ids).map(|pending| (ids.clone(), pending))),
            Step::Commit(_) if deletes.is_empty() => {}
            Step::Commit(at) => {
                let (ids, pending) = deletes.remove(at.index(deletes.len()));
                if pending.commit(&mut wait_limit()).is_ok() {
                    here.retain(|id| !ids.contains(id));
                }
            }
            Step::Append => {
                append(&table, next..next + 3);
                here.extend(next..next + 3);
                next += 3;
            }
        };
        before.iter().for_each(&mut step);
        let mut compaction = limited(&table, purge, limits);
        let pending = compaction.rewrite(&mut || true).unwrap();
        meanwhile.iter().for_each(&mut step);
        if let Some(pending) = pending {
            pending.commit(&mut wait_limit()).unwrap();
        }
        while let Some(more) = compaction.rewrite(&mut || true).unwrap() {
            more.commit(&mut wait_limit()).unwrap();
        }
        prop_assert_eq!(&left(&table), &here);
        drop(deletes);
        let stray = stray(&table);
        prop_assert!(stray.is_empty(), "{stray:?}");
    }
}

#[test]
fn what_is_marked_meanwhile_is_marked_in_the_new_file() {
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path(), "Serializable");
    delete(&table, &[0, 13].into())
        .unwrap()
        .commit(&mut wait_limit())
        .unwrap();
    let pending = pending(&table);
    for ids in [[1, 14], [2, 47]] {
        let delete = delete(&table, &ids.into()).unwrap();
        delete.commit(&mut wait_limit()).unwrap();
    }
    let done = pending.commit(&mut wait_limit()).unwrap();
    assert_eq!((done.removed_files, done.added_files), (4, 1));
    let snapshot = table.snapshot().unwrap();
    let [add] = snapshot.files().collect::<Vec<_>>()[..] else {
        panic!("{:?}", snapshot.contents.files);
    };
    assert!(!add.data_change);
    assert_eq!(add.deletion_vector.as_ref().unwrap().cardinality, 4);
    let gone = [0, 13, 1, 14, 2, 47];
    assert_eq!(left(&table), (0..48).filter(|id| !gone.contains(id)).collect());
}

#[test]
fn rows_come_into_the_order_of_the_clustering_columns() {
    let folder = tempfile::tempdir().unwrap();
    let table = table_by(folder.path(), "Serializable", &["mixed"]);
    let limits = GroupLimits {
        file_rows: 16,
        ..GroupLimits::default()
    };
    let mut compaction = limited(&table, false, limits);
    let pending = compaction.rewrite(&mut || true).unwrap().unwrap();
    let done = pending.commit(&mut wait_limit()).unwrap();
    assert_eq!((done.removed_files, done.added_files), (4, 3));
    let snapshot = table.snapshot().unwrap();
    let mut ends: Vec<(i64, i64)> = snapshot
        .files()
        .map(|add| {
            let stats: serde_json::Value = serde_json::from_str(add.stats.as_ref().unwrap()).unwrap();
            let end = |name: &str| stats[name]["mixed"].as_i64().unwrap();
            (end("minValues"), end("maxValues"))
        })
        .collect();
    ends.sort_unstable();
    assert!(ends.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{ends:?}");
}

#[test]
fn a_file_that_left_the_table_takes_its_bin_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path(), "Serializable");
    let pending = pending(&table);
    delete(&table, &(0..12).collect())
        .unwrap()
        .commit(&mut wait_limit())
        .unwrap();
    let version = table.version().unwrap();
    let done = pending.commit(&mut wait_limit()).unwrap();
    assert_eq!(
        done,
        Compacted {
            version,
            ..Compacted::default()
        }
    );
    assert_eq!(stray(&table), Vec::<String>::new());
    assert_eq!(left(&table), (12..48).collect());
}

#[test]
fn a_file_that_left_the_table_and_its_folder_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path(), "Serializable");
    let mut begun = compaction(&table, false);
    delete(&table, &(0..12).collect())
        .unwrap()
        .commit(&mut wait_limit())
        .unwrap();
    assert_eq!(vacuumed(&table), 1);
    while let Some(pending) = begun.rewrite(&mut || true).unwrap() {
        pending.commit(&mut wait_limit()).unwrap();
    }
    assert_eq!(table.snapshot().unwrap().files().count(), 1);
    assert_eq!(left(&table), (12..48).collect());
}

#[test]
fn a_file_of_the_table_that_is_not_there_is_named_with_what_to_do() {
    for is_marked in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let table = table(folder.path(), "Serializable");
        commit(delete(&table, &[1].into()));
        let snapshot = table.snapshot().unwrap();
        let mut files = snapshot.files();
        let lost = files
            .find(|add| add.deletion_vector.is_some() == is_marked)
            .unwrap();
        let path = lost.path.clone();
        std::fs::remove_file(folder.path().join(&path)).unwrap();
        let refused = compaction(&table, is_marked).rewrite(&mut || true);
        let refused = refused.unwrap_err().to_string();
        let advice = format!("table.commit(removes=[{path:?}])");
        assert!(refused.contains(&path) && refused.contains(&advice), "{refused}");
    }
}

#[test]
fn a_file_whose_vector_was_replaced_and_left_its_folder_is_left_out() {
    for purge in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let table = table(folder.path(), "Serializable");
        // So many rows that the log does not hold their vector.
        let every = |first: i64| (first..2_048).step_by(10).collect::<BTreeSet<i64>>();
        append(&table, 48..2_048);
        commit(delete(&table, &every(50)));
        let mut begun = compaction(&table, purge);
        commit(delete(&table, &every(51)));
        assert_eq!(vacuumed(&table), 1);
        while let Some(pending) = begun.rewrite(&mut || true).unwrap() {
            pending.commit(&mut wait_limit()).unwrap();
        }
        let gone = &every(50) | &every(51);
        assert_eq!(left(&table), (0..2_048).filter(|id| !gone.contains(id)).collect());
        let files = table.snapshot().unwrap().files().count();
        assert_eq!(files, if purge { 5 } else { 1 });
    }
}

#[test]
fn a_delete_that_comes_after_a_compaction_is_told_that_rows_only_moved() {
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path(), "Serializable");
    let late = delete(&table, &[1].into()).unwrap();
    pending(&table).commit(&mut wait_limit()).unwrap();
    let refused = late.commit(&mut wait_limit()).unwrap_err();
    assert!(refused.is_of_moved_rows(), "{refused}");
    let late = delete(&table, &[1].into()).unwrap();
    delete(&table, &[1].into())
        .unwrap()
        .commit(&mut wait_limit())
        .unwrap();
    let refused = late.commit(&mut wait_limit()).unwrap_err();
    assert!(!refused.is_of_moved_rows(), "{refused}");
}

#[test]
fn a_change_of_the_table_is_a_conflict() {
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path(), "Serializable");
    let pending = pending(&table);
    delete(&table, &(0..12).collect())
        .unwrap()
        .commit(&mut wait_limit())
        .unwrap();
    let merging = AppendOptions {
        merge_schema: true,
        ..AppendOptions::default()
    };
    let more = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("more", DataType::Int64, true),
    ]));
    let ids = || Arc::new(Int64Array::from(vec![100])) as ArrayRef;
    let rows = RecordBatch::try_new(more, vec![ids(), ids()]).unwrap();
    let mut append = table.append(merging, options()).unwrap();
    append.write(&rows.into(), &mut || true).unwrap();
    append.commit(&mut wait_limit(), &mut || true).unwrap();
    let refused = pending.commit(&mut wait_limit()).unwrap_err();
    let TableError::Commit(CommitError::Conflict(conflict)) = refused else {
        panic!("{refused}");
    };
    assert!(
        matches!(conflict.kind, ConflictKind::ConcurrentDeleteRead(_)),
        "{conflict}"
    );
    assert_eq!(stray(&table), Vec::<String>::new());
}

#[test]
fn much_to_do_makes_several_versions() {
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path(), "Serializable");
    for id in [1, 13, 25, 37] {
        delete(&table, &[id].into())
            .unwrap()
            .commit(&mut wait_limit())
            .unwrap();
    }
    let before = table.version().unwrap();
    let mut compaction = compaction(&table, true);
    compaction.at_once = 1;
    while let Some(pending) = compaction.rewrite(&mut || true).unwrap() {
        let done = pending.commit(&mut wait_limit()).unwrap();
        assert_eq!((done.removed_files, done.added_files), (1, 1));
    }
    assert_eq!(table.version().unwrap(), before + 4);
    assert!(
        table
            .snapshot()
            .unwrap()
            .files()
            .all(|add| add.deletion_vector.is_none())
    );
}

#[test]
fn an_interrupted_compaction_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path(), "Serializable");
    for most in 0..4 {
        let mut asked = 0;
        let mut go_on = || {
            asked += 1;
            asked <= most
        };
        let done = compaction(&table, false).rewrite(&mut go_on);
        assert!(
            matches!(done, Err(TableError::Write(WriteError::Interrupted))),
            "{done:?}"
        );
        assert_eq!(stray(&table), Vec::<String>::new());
    }
}

fn file(name: &str, size: i64, at: i64) -> Arc<Add> {
    Arc::new(Add {
        path: name.to_owned(),
        size,
        modification_time: at,
        ..Add::default()
    })
}

#[test]
fn files_are_put_together_in_the_order_in_which_they_were_written() {
    let files = vec![
        file("d", 90, 4),
        file("a", 40, 1),
        file("b", 50, 2),
        file("big", 100, 3),
        file("c", 10, 3),
        file("e", 10, 5),
    ];
    let bins = small(files, 100, |_| Ok(false)).unwrap();
    let names = bins
        .iter()
        .map(|bin| bin.iter().map(|add| add.path.as_str()).collect::<Vec<_>>());
    assert_eq!(names.collect::<Vec<_>>(), [vec!["a", "b", "c"], vec!["d", "e"]]);
}

#[test]
fn sizes_are_read_as_spark_writes_them() {
    for (text, bytes) in [
        ("134217728", Some(128 << 20)),
        ("128mb", Some(128 << 20)),
        ("1 GB", Some(1 << 30)),
        ("64k", Some(64 << 10)),
        ("5b", Some(5)),
        ("0", None),
        ("", None),
        ("mb", None),
        ("-1", None),
        ("12 parsecs", None),
        ("99999999999t", None),
    ] {
        assert_eq!(bytes_of(text), bytes, "{text}");
    }
}
