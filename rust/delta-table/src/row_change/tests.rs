use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use delta_commit::conflict::{Conflict, ConflictKind};
use parquet_writer::OptionInput;

use super::*;
use crate::append::AppendOptions;
use crate::{
    ClauseKind, Condition, ConditionValue, Conditions, CreateMode, CreateOptions, Expressions, MergeClause,
    MergeOptions, MergeValues, NewValues, ScanOptions,
};

/// The rows of both files. Identifiers beyond are free.
const ROWS: i64 = 24;

fn wait_limit() -> WaitLimit<'static> {
    WaitLimit::until(Instant::now() + Duration::from_secs(60))
}

fn options() -> WriterOptions {
    WriterOptions::new(OptionInput::default()).unwrap()
}

fn schema() -> SchemaRef {
    let field = |name| Field::new(name, DataType::Int64, true);
    Arc::new(Schema::new(vec![field("id"), field("value")]))
}

fn numbers(ids: &[i64], value: i64) -> RecordBatch {
    let ids = Int64Array::from(ids.to_vec());
    let values = Int64Array::from_value(value, ids.len());
    RecordBatch::try_new(schema(), vec![Arc::new(ids), Arc::new(values)]).unwrap()
}

fn append(table: &Table, ids: &[i64]) {
    let mut append = table.append(AppendOptions::default(), options()).unwrap();
    append.write(&numbers(ids, 0).into(), &mut || true).unwrap();
    append.commit(&mut wait_limit(), &mut || true).unwrap();
}

fn table(root: &Path, isolation: &str, marks: bool) -> Table {
    let properties = [
        (
            "delta.enableDeletionVectors",
            if marks { "true" } else { "false" },
        ),
        ("delta.isolationLevel", isolation),
    ];
    let create = CreateOptions {
        properties: properties
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        ..CreateOptions::default()
    };
    let table = Table::create(root, &schema(), create, CreateMode::Error, &mut wait_limit()).unwrap();
    append(&table, &(0..ROWS / 2).collect::<Vec<_>>());
    append(&table, &(ROWS / 2..ROWS).collect::<Vec<_>>());
    table
}

/// The value of each identifier.
type Rows = BTreeMap<i64, i64>;

fn rows(table: &Table) -> Rows {
    let mut rows = Rows::new();
    for batch in table.scan(&ScanOptions::default()).unwrap().reader() {
        let batch = batch.unwrap();
        let column = |place: usize| batch.column(place).as_primitive::<Int64Type>().clone();
        for (id, value) in column(0).iter().zip(column(1).iter()) {
            let before = rows.insert(id.unwrap(), value.unwrap());
            assert_eq!(before, None, "a row is there twice");
        }
    }
    rows
}

/// A clause without a condition. Its rows get all values of the source, or are deleted.
fn clause(kind: ClauseKind, deletes: bool) -> MergeClause {
    let values = MergeValues {
        taken: None,
        literals: RecordBatch::new_empty(Arc::new(Schema::empty())),
        computed: Vec::new(),
        expressions: None,
    };
    MergeClause {
        kind,
        condition: None,
        values: (!deletes).then_some(values),
    }
}

fn merge_by_id(clauses: &[MergeClause]) -> MergeOptions {
    MergeOptions {
        on: vec!["id".to_owned()],
        clauses: clauses.to_vec(),
        user_metadata: None,
    }
}

fn prepare_merge(
    table: &Table,
    clauses: &[MergeClause],
    ids: &[i64],
    value: i64,
) -> (Version, Option<PendingChange>) {
    let source = [Batch::from(numbers(ids, value))];
    let merge = merge_by_id(clauses);
    let evaluate = &mut |_: usize, _: &RecordBatch| Ok(Vec::new());
    let prepared = table.prepare_merge(&schema(), &source, &merge, evaluate, &options(), &mut || true);
    prepared.unwrap()
}

#[derive(Debug, Clone)]
enum Kind {
    Delete,
    Update(i64),
    Upsert(i64),
    Insert(i64),
    DeleteMatching,
    /// Deletes the rows of all other identifiers.
    DeleteOthers,
}

#[derive(Debug, Clone)]
struct Change {
    kind: Kind,
    ids: BTreeSet<i64>,
}

impl Change {
    fn new(kind: Kind, ids: &[i64]) -> Self {
        let ids = ids.iter().copied().collect();
        Self { kind, ids }
    }

    fn prepare(&self, table: &Table) -> Option<PendingChange> {
        let ids: Vec<i64> = self.ids.iter().copied().collect();
        let conditions = Conditions::from([Condition {
            column: "id".to_owned(),
            operator: "in".to_owned(),
            values: ids.iter().copied().map(ConditionValue::Long).collect(),
        }]);
        let merge = |clauses: &[MergeClause], value| prepare_merge(table, clauses, &ids, value);
        let update_matched = clause(ClauseKind::Matched, false);
        let insert = clause(ClauseKind::NotMatched, false);
        let (_, prepared) = match self.kind {
            Kind::Delete => table
                .prepare_delete(&conditions, None, &options(), &mut || true)
                .unwrap(),
            Kind::Update(value) => update(table, &conditions, "value", value).unwrap(),
            Kind::Upsert(value) => merge(&[update_matched, insert], value),
            Kind::Insert(value) => merge(&[insert], value),
            Kind::DeleteMatching => merge(&[clause(ClauseKind::Matched, true)], 0),
            Kind::DeleteOthers => merge(&[clause(ClauseKind::NotMatchedBySource, true)], 0),
        };
        prepared
    }

    fn apply(&self, rows: &mut Rows) {
        if matches!(self.kind, Kind::DeleteOthers) {
            rows.retain(|id, _| self.ids.contains(id));
            return;
        }
        for id in &self.ids {
            match self.kind {
                Kind::DeleteOthers => {}
                Kind::Delete | Kind::DeleteMatching => {
                    rows.remove(id);
                }
                Kind::Update(value) => {
                    if let Some(row) = rows.get_mut(id) {
                        *row = value;
                    }
                }
                Kind::Upsert(value) => {
                    rows.insert(*id, value);
                }
                Kind::Insert(value) => {
                    rows.entry(*id).or_insert(value);
                }
            }
        }
    }
}

fn update(
    table: &Table,
    conditions: &Conditions,
    column: &str,
    value: i64,
) -> Result<(Version, Option<PendingChange>)> {
    let field = Field::new(column, DataType::Int64, true);
    let value = Int64Array::from(vec![value]);
    let literals = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![Arc::new(value)]).unwrap();
    let values = NewValues {
        literals,
        computed: Vec::new(),
        compute: &mut |_| Ok(Vec::new()),
    };
    table.prepare_update(conditions, values, None, &options(), &mut || true)
}

fn conflict(error: TableError) -> Conflict {
    match error {
        TableError::Commit(CommitError::Conflict(conflict)) => *conflict,
        other => panic!("{other}"),
    }
}

fn upsert(table: &Table, ids: &[i64], value: i64) -> PendingChange {
    let clauses = [
        clause(ClauseKind::Matched, false),
        clause(ClauseKind::NotMatched, false),
    ];
    prepare_merge(table, &clauses, ids, value).1.unwrap()
}

#[test]
fn a_key_between_those_of_another_merge_is_a_conflict_and_one_beside_them_is_none() {
    for isolation in ["Serializable", "WriteSerializable"] {
        for (key, between) in [(5, true), (10, false)] {
            let folder = tempfile::tempdir().unwrap();
            let table = table(folder.path(), isolation, true);
            let first = upsert(&table, &[0, 9], 1);
            let second = upsert(&table, &[key], 2);
            first.commit(&mut wait_limit()).unwrap();
            let done = second.commit(&mut wait_limit());
            assert_eq!(done.is_err(), between, "{isolation} {key}");
            if let Err(error) = done {
                let conflict = conflict(error).to_string();
                assert!(conflict.contains("ConcurrentAppend"), "{conflict}");
            }
        }
    }
}

#[test]
fn changes_of_different_rows_of_a_file_all_commit() {
    for isolation in ["Serializable", "WriteSerializable"] {
        let folder = tempfile::tempdir().unwrap();
        let table = table(folder.path(), isolation, true);
        let mut expected = rows(&table);
        let changes = [
            Change::new(Kind::Update(1), &[0]),
            Change::new(Kind::Delete, &[1]),
            Change::new(Kind::Upsert(2), &[2]),
            Change::new(Kind::DeleteMatching, &[3]),
            Change::new(Kind::Update(3), &[4]),
            Change::new(Kind::Upsert(4), &[5, ROWS]),
        ];
        let pending: Vec<_> = changes
            .iter()
            .map(|change| change.prepare(&table).unwrap())
            .collect();
        for (change, pending) in changes.iter().zip(pending) {
            pending.commit(&mut wait_limit()).unwrap();
            change.apply(&mut expected);
        }
        assert_eq!(rows(&table), expected);
        let marked = table
            .snapshot()
            .unwrap()
            .files()
            .filter(|add| add.deletion_vector.is_some())
            .count();
        assert_eq!(marked, 1);
    }
}

#[test]
fn of_changes_of_one_row_one_commits() {
    for marks in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let table = table(folder.path(), "WriteSerializable", marks);
        let changes = [
            Kind::Update(1),
            Kind::Upsert(2),
            Kind::Delete,
            Kind::DeleteMatching,
            Kind::Update(3),
        ];
        let pending = changes.map(|kind| Change::new(kind, &[7]).prepare(&table).unwrap());
        let done = pending.map(|pending| pending.commit(&mut wait_limit()).is_ok());
        assert_eq!(done, [true, false, false, false, false]);
        assert_eq!(rows(&table)[&7], 1);
    }
}

#[test]
fn a_row_that_another_updates_so_that_it_is_not_looked_for_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path(), "Serializable", true);
    let seven = Conditions::from([Condition {
        column: "id".to_owned(),
        operator: "=".to_owned(),
        values: vec![ConditionValue::Long(7)],
    }]);
    let late = Change::new(Kind::Update(1), &[7]).prepare(&table).unwrap();
    let away = update(&table, &seven, "id", 1000).unwrap().1.unwrap();
    let version = away.commit(&mut wait_limit()).unwrap();
    let refused = conflict(late.commit(&mut wait_limit()).unwrap_err());
    assert!(
        matches!(refused.kind, ConflictKind::ConcurrentRows { rows: 1, .. }),
        "{refused}"
    );
    assert_eq!((refused.version, refused.operation.as_str()), (version, "UPDATE"));
}

#[test]
fn a_key_is_inserted_once() {
    for isolation in ["Serializable", "WriteSerializable"] {
        let folder = tempfile::tempdir().unwrap();
        let table = table(folder.path(), isolation, true);
        let insert = |value| {
            Change::new(Kind::Insert(value), &[ROWS, ROWS + 1])
                .prepare(&table)
                .unwrap()
        };
        let (first, second) = (insert(1), insert(2));
        let other = Change::new(Kind::Insert(3), &[ROWS + 2]).prepare(&table).unwrap();
        first.commit(&mut wait_limit()).unwrap();
        let refused = conflict(second.commit(&mut wait_limit()).unwrap_err());
        assert!(
            matches!(refused.kind, ConflictKind::ConcurrentAppend { .. }),
            "{refused}"
        );
        other.commit(&mut wait_limit()).unwrap();
        assert_eq!(rows(&table)[&ROWS], 1);
    }
}

#[test]
fn a_row_that_kept_another_from_being_inserted_has_to_stay() {
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path(), "WriteSerializable", true);
    let insert = Change::new(Kind::Insert(1), &[3, ROWS]).prepare(&table).unwrap();
    let delete = Change::new(Kind::Delete, &[3]).prepare(&table).unwrap();
    delete.commit(&mut wait_limit()).unwrap();
    let refused = conflict(insert.commit(&mut wait_limit()).unwrap_err());
    assert!(
        matches!(refused.kind, ConflictKind::ConcurrentDeleteRead(_)),
        "{refused}"
    );
}

#[test]
fn an_append_of_a_key_beside_a_merge_is_a_conflict_where_all_is_serializable() {
    for (isolation, refused) in [("Serializable", true), ("WriteSerializable", false)] {
        for (id, has_key) in [(ROWS, true), (ROWS + 1, false)] {
            let folder = tempfile::tempdir().unwrap();
            let table = table(folder.path(), isolation, true);
            let pending = Change::new(Kind::Upsert(1), &[3, ROWS]).prepare(&table).unwrap();
            append(&table, &[id]);
            let done = pending.commit(&mut wait_limit());
            assert_eq!(done.is_err(), refused && has_key, "{isolation} {id}");
        }
    }
}

#[test]
fn a_merge_about_rows_that_no_source_row_matches_reads_the_whole_table() {
    for (isolation, refused) in [("Serializable", true), ("WriteSerializable", false)] {
        let folder = tempfile::tempdir().unwrap();
        let table = table(folder.path(), isolation, true);
        let ids: Vec<i64> = (1..ROWS).collect();
        let pending = Change::new(Kind::DeleteOthers, &ids).prepare(&table).unwrap();
        append(&table, &[1_000]);
        let done = pending.commit(&mut wait_limit());
        assert_eq!(done.is_err(), refused, "{isolation}");
        if let Err(error) = done {
            let conflict = conflict(error);
            assert!(
                matches!(conflict.kind, ConflictKind::ConcurrentAppend { .. }),
                "{conflict}"
            );
        }
    }
}

#[test]
fn the_files_of_a_change_that_is_dropped_do_not_stay() {
    for marks in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let table = table(folder.path(), "Serializable", marks);
        let files = || std::fs::read_dir(folder.path()).unwrap().count();
        let before = files();
        for kind in [Kind::Update(1), Kind::Upsert(1)] {
            let pending = Change::new(kind, &[1, 15, ROWS]).prepare(&table).unwrap();
            assert!(files() > before);
            drop(pending);
            assert_eq!(files(), before);
        }
    }
}

/// A table of numbered rows with short texts.
fn table_of_texts(root: &Path, rows: i64) -> Table {
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("number", DataType::Int64, true),
        Field::new("text", DataType::Utf8, true),
    ]));
    let create = CreateOptions::default();
    let table = Table::create(root, &schema, create, CreateMode::Error, &mut wait_limit()).unwrap();
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    let texts = Arc::new(StringArray::from_iter_values((0..rows).map(|_| "")));
    let mut append = table.append(AppendOptions::default(), options()).unwrap();
    let rows = RecordBatch::try_new(schema, vec![Arc::clone(&ids), ids, texts]).unwrap();
    append.write(&rows.into(), &mut || true).unwrap();
    append.commit(&mut wait_limit(), &mut || true).unwrap();
    table
}

/// A text of which 16 take as much memory as new values may at once.
fn long_text() -> RecordBatch {
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a".repeat(1 << 20)]));
    RecordBatch::try_from_iter([("text", text)]).unwrap()
}

/// Numbers as they were.
fn numbers_of(rows: &RecordBatch, name: &str) -> Vec<Batch> {
    let numbers = Arc::clone(rows.column_by_name(name).unwrap());
    vec![RecordBatch::try_from_iter([("number", numbers)]).unwrap().into()]
}

#[test]
fn an_update_to_a_long_text_builds_few_rows_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let table = table_of_texts(folder.path(), 40);
    let mut at_once = Vec::new();
    let values = NewValues {
        literals: long_text(),
        computed: vec!["number".to_owned()],
        compute: &mut |rows| {
            at_once.push(rows.num_rows());
            Ok(numbers_of(rows, "number"))
        },
    };
    table
        .prepare_update(&Conditions::default(), values, None, &options(), &mut || true)
        .unwrap();
    assert_eq!(at_once.iter().sum::<usize>(), 40);
    assert!(at_once.iter().all(|rows| *rows <= 16), "{at_once:?}");
}

#[test]
fn a_merge_with_a_long_text_builds_few_rows_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let table = table_of_texts(folder.path(), 40);
    let clause = |kind, target: &[&str], source: &[&str]| MergeClause {
        kind,
        condition: None,
        values: Some(MergeValues {
            taken: (kind == ClauseKind::Matched).then(Vec::new),
            literals: long_text(),
            computed: vec!["number".to_owned()],
            expressions: Some(Expressions {
                number: 0,
                target: target.iter().map(|&name| name.to_owned()).collect(),
                source: source.iter().map(|&name| name.to_owned()).collect(),
            }),
        }),
    };
    let merge = merge_by_id(&[
        clause(ClauseKind::Matched, &["number"], &[]),
        clause(ClauseKind::NotMatched, &[], &["id"]),
    ]);
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(20..60));
    let source = RecordBatch::try_from_iter([("id", ids)]).unwrap();
    let (mut updated, mut inserted) = (Vec::new(), Vec::new());
    let evaluate = &mut |_: usize, rows: &RecordBatch| {
        let is_update = rows.column_by_name("target.number").is_some();
        let at_once = if is_update { &mut updated } else { &mut inserted };
        at_once.push(rows.num_rows());
        Ok(numbers_of(
            rows,
            if is_update { "target.number" } else { "source.id" },
        ))
    };
    let schema = source.schema();
    let merged = table.prepare_merge(
        &schema,
        &[Batch::from(source)],
        &merge,
        evaluate,
        &options(),
        &mut || true,
    );
    merged.unwrap().1.unwrap().commit(&mut wait_limit()).unwrap();
    for at_once in [updated, inserted] {
        assert_eq!(at_once.iter().sum::<usize>(), 20);
        assert!(at_once.iter().all(|rows| *rows <= 16), "{at_once:?}");
    }
    let numbers = ScanOptions {
        columns: Some(vec!["number".to_owned()]),
        ..ScanOptions::default()
    };
    let mut found = BTreeSet::new();
    for batch in table.scan(&numbers).unwrap().reader() {
        found.extend(batch.unwrap().column(0).as_primitive::<Int64Type>().values());
    }
    assert_eq!(found, (0..60).collect());
}

#[test]
fn a_change_that_is_interrupted_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path(), "Serializable", false);
    let files = || std::fs::read_dir(folder.path()).unwrap().count();
    let before = files();
    for most in 0.. {
        let mut looks = 0;
        let source = [Batch::from(numbers(&[1, 15, ROWS], 1))];
        let merge = merge_by_id(&[
            clause(ClauseKind::Matched, false),
            clause(ClauseKind::NotMatched, false),
        ]);
        let evaluate = &mut |_: usize, _: &RecordBatch| Ok(Vec::new());
        let done = table.prepare_merge(&schema(), &source, &merge, evaluate, &options(), &mut || {
            looks += 1;
            looks <= most
        });
        if done.is_ok() {
            assert!(most > 3);
            break;
        }
        assert_eq!(files(), before);
    }
}
