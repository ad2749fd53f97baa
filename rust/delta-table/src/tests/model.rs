//! A model of a table's rows, and of the changes of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use delta_commit::Version;
use parquet_writer::Batch;

use super::{Rows, batch, options, schema};
use crate::{
    ClauseKind, Condition, ConditionValue, Conditions, MergeClause, MergeOptions, MergeValues, NewValues,
    PendingChange, RowCounts, Table,
};

/// Conditions of the rows that a deletion or an update looks for.
#[derive(Debug, Clone)]
pub(super) enum Wanted {
    Ids(BTreeSet<i64>),
    Value(i64),
    All,
}

impl Wanted {
    fn conditions(&self) -> Conditions {
        let condition = |column: &str, operator: &str, values: Vec<i64>| Condition {
            column: column.to_owned(),
            operator: operator.to_owned(),
            values: values.into_iter().map(ConditionValue::Long).collect(),
        };
        match self {
            Self::Ids(ids) => [condition("id", "in", ids.iter().copied().collect())].into(),
            Self::Value(value) => [condition("value", "=", vec![*value])].into(),
            Self::All => Conditions::default(),
        }
    }

    fn has(&self, row: &Row) -> bool {
        match self {
            Self::Ids(ids) => ids.contains(&row.id),
            Self::Value(value) => row.value == *value,
            Self::All => true,
        }
    }
}

/// The clauses of a merge: for rows that match, and for those that match none.
#[derive(Debug, Clone, Copy)]
pub(super) enum Merging {
    Upsert,
    Insert,
    Delete,
    /// Deletes the rows that no row of the source matches.
    DeleteOthers,
}

/// A change of rows.
#[derive(Debug, Clone)]
pub(super) enum Change {
    Delete(Wanted),
    Set(Wanted, i64),
    /// Adds 1 to the values.
    Increment(Wanted),
    /// A merge by identifiers, with this value for each.
    Merge(Merging, BTreeSet<i64>, i64),
}

impl Change {
    /// Finds the rows in the newest version, and writes the files.
    pub fn prepare(&self, table: &Table) -> crate::Result<(Version, Option<PendingChange>)> {
        match self {
            Self::Delete(wanted) => {
                table.prepare_delete(&wanted.conditions(), None, &options(), &mut || true)
            }
            Self::Set(wanted, value) => {
                let field = Field::new("value", DataType::Int64, true);
                let value = Arc::new(Int64Array::from(vec![*value]));
                let literals = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![value]).unwrap();
                let values = NewValues {
                    literals,
                    computed: Vec::new(),
                    compute: &mut |_| Ok(Vec::new()),
                };
                table.prepare_update(&wanted.conditions(), values, None, &options(), &mut || true)
            }
            Self::Increment(wanted) => {
                let values = NewValues {
                    literals: RecordBatch::new_empty(Arc::new(Schema::empty())),
                    computed: vec!["value".to_owned()],
                    compute: &mut |rows| Ok(vec![incremented(rows)]),
                };
                table.prepare_update(&wanted.conditions(), values, None, &options(), &mut || true)
            }
            Self::Merge(merging, ids, value) => {
                let insert = clause(ClauseKind::NotMatched, false);
                let clauses = match merging {
                    Merging::Upsert => vec![clause(ClauseKind::Matched, false), insert],
                    Merging::Insert => vec![insert],
                    Merging::Delete => vec![clause(ClauseKind::Matched, true)],
                    Merging::DeleteOthers => vec![clause(ClauseKind::NotMatchedBySource, true)],
                };
                let merge = MergeOptions {
                    on: vec!["id".to_owned()],
                    clauses,
                    user_metadata: None,
                };
                let source: Rows = ids.iter().map(|id| (*id, *value)).collect();
                let source = [Batch::from(batch(&source))];
                let evaluate = &mut |_: usize, _: &RecordBatch| Ok(Vec::new());
                table.prepare_merge(&schema(), &source, &merge, evaluate, &options(), &mut || true)
            }
        }
    }

    /// Returns true if it does something else where the row is there.
    fn concerns(&self, row: &Row) -> bool {
        match self {
            Self::Delete(wanted) | Self::Set(wanted, _) | Self::Increment(wanted) => wanted.has(row),
            Self::Merge(Merging::DeleteOthers, ids, _) => !ids.contains(&row.id),
            Self::Merge(_, ids, _) => ids.contains(&row.id),
        }
    }

    /// Returns true if the rows that it concerns go, or get other values.
    fn changes_rows(&self) -> bool {
        !matches!(self, Self::Merge(Merging::Insert, ..))
    }

    /// Changes the rows of the model.
    pub fn apply(&self, rows: &mut Vec<Row>) -> RowCounts {
        let mut counts = RowCounts::default();
        let concerned = |row: &Row| self.concerns(row);
        match self {
            Self::Delete(_) | Self::Merge(Merging::Delete | Merging::DeleteOthers, ..) => {
                counts.deleted = delete(rows, concerned);
            }
            Self::Set(_, value) => counts.updated = update(rows, concerned, |_| *value),
            Self::Increment(_) => counts.updated = update(rows, concerned, |value| value + 1),
            Self::Merge(merging, ids, value) => {
                let mut new = ids.clone();
                for row in rows.iter() {
                    new.remove(&row.id);
                }
                if matches!(merging, Merging::Upsert) {
                    counts.updated = update(rows, concerned, |_| *value);
                }
                counts.inserted = new.len() as u64;
                rows.extend(new.into_iter().map(|id| Row::new(id, *value)));
            }
        }
        counts
    }
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

/// The values of some rows, and 1 more.
fn incremented(rows: &RecordBatch) -> Batch {
    let (place, field) = rows.schema_ref().column_with_name("value").unwrap();
    let values = rows.column(place).as_primitive::<Int64Type>();
    let values: ArrayRef = Arc::new(values.unary::<_, Int64Type>(|value| value + 1));
    let schema = Arc::new(Schema::new(vec![field.clone()]));
    RecordBatch::try_new(schema, vec![values]).unwrap().into()
}

fn delete(rows: &mut Vec<Row>, goes: impl Fn(&Row) -> bool) -> u64 {
    let before = rows.len();
    rows.retain(|row| !goes(row));
    (before - rows.len()) as u64
}

fn update(rows: &mut [Row], wanted: impl Fn(&Row) -> bool, new: impl Fn(i64) -> i64) -> u64 {
    let mut updated = 0;
    for row in rows.iter_mut().filter(|row| wanted(row)) {
        *row = Row::new(row.id, new(row.value));
        updated += 1;
    }
    updated
}

/// A row of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    id: i64,
    value: i64,
    /// The version of the append that brought it; none for a row that another change wrote.
    appended: Option<Version>,
}

impl Row {
    fn new(id: i64, value: i64) -> Self {
        Self {
            id,
            value,
            appended: None,
        }
    }
}

/// The rows that the versions of a table explain, one version after the other.
///
/// Under `WriteSerializable`, an append that a change has not read, and that was committed before it, counts as if it
/// had come after it. Then no change before it has changed rows of that append.
#[derive(Clone)]
pub(super) struct Model {
    rows: Vec<Row>,
    appends_may_follow: bool,
    /// Appends of which rows were changed.
    changed: BTreeSet<Version>,
}

impl Model {
    pub fn new(isolation: &str) -> Self {
        Self {
            rows: Vec::new(),
            appends_may_follow: isolation == "WriteSerializable",
            changed: BTreeSet::new(),
        }
    }

    /// The rows, in order.
    pub fn rows(&self) -> Rows {
        let mut rows: Rows = self.rows.iter().map(|row| (row.id, row.value)).collect();
        rows.sort_unstable();
        rows
    }

    pub fn append(&mut self, version: Version, rows: &[(i64, i64)]) {
        self.rows.extend(rows.iter().map(|(id, value)| Row {
            appended: Some(version),
            ..Row::new(*id, *value)
        }));
    }

    /// Takes a change in that read the version `read`. Returns the counts of the rows that it has to find.
    pub fn change(&mut self, read: Version, change: &Change) -> RowCounts {
        let follows = |row: &Row| self.appends_may_follow && row.appended.is_some_and(|at| at > read);
        let (later, mut rows): (Vec<Row>, Vec<Row>) =
            std::mem::take(&mut self.rows).into_iter().partition(follows);
        for row in later.iter().filter(|row| change.concerns(row)) {
            assert!(
                row.appended.is_none_or(|at| !self.changed.contains(&at)),
                "no order holds {change:?}, which missed {row:?}, and a change of that append before it"
            );
        }
        let concerned = rows.iter().filter(|row| change.concerns(row));
        let appends = concerned.filter_map(|row| row.appended);
        self.changed.extend(appends.filter(|_| change.changes_rows()));
        let counts = change.apply(&mut rows);
        self.rows = later;
        self.rows.append(&mut rows);
        counts
    }

    /// The counts that the change would have now.
    pub fn expected(&self, change: &Change) -> RowCounts {
        change.apply(&mut self.rows.clone())
    }
}
