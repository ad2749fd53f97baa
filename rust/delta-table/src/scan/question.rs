//! The question of which rows satisfy conditions, apart by what answers it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};
use delta_commit::actions::Add;
use delta_commit::predicate::{Comparison, Predicate, Term};
use parquet_writer::Batch;

use crate::conditions::{Conditions, bound};
use crate::error::{Result, TableError};
use crate::head::TableHead;
use crate::mapping::Mapping;
use crate::schema::TableColumn;
use crate::snapshot::Snapshot;
use crate::sql::BoundCondition;

use super::{constants, filter};

/// A condition that is answered for each row.
#[derive(Debug, Clone)]
pub(crate) enum RowCondition {
    /// A comparison of the column of this name.
    Comparison(String, Comparison),
    /// A condition in SQL.
    Sql(Arc<BoundCondition>),
}

impl RowCondition {
    /// Names of the top-level columns that it asks for.
    fn names(&self) -> BTreeSet<&str> {
        match self {
            Self::Comparison(name, _) => BTreeSet::from([name.as_str()]),
            Self::Sql(condition) => tops(condition),
        }
    }

    /// The columns that it asks for, in the order of the table.
    pub fn columns<'a>(&self, head: &'a TableHead) -> Vec<&'a TableColumn> {
        let names = self.names();
        let columns = head.schema.columns.iter();
        columns
            .filter(|column| names.contains(column.name.as_str()))
            .collect()
    }

    /// The rows for which it holds; nothing is null in it. The rows have the columns that it asks for, by the names and
    /// in the types of the table.
    pub fn holds(&self, rows: &RecordBatch) -> Result<BooleanArray, ArrowError> {
        match self {
            Self::Comparison(name, comparison) => {
                let Some(values) = rows.column_by_name(name) else {
                    return Err(ArrowError::SchemaError(format!(
                        "the rows have no column {name:?}"
                    )));
                };
                let holds = filter::holds(values, comparison)?;
                Ok(BooleanArray::new(filter::certain(&holds), None))
            }
            Self::Sql(condition) => {
                let truth = condition.truth(&Batch::from(rows.clone()))?;
                Ok(BooleanArray::new(truth.is_true, None))
            }
        }
    }
}

/// Names of the top-level columns of a condition.
fn tops(condition: &BoundCondition) -> BTreeSet<&str> {
    let columns = condition.columns().into_iter();
    columns
        .filter_map(|column| column.path.first())
        .map(String::as_str)
        .collect()
}

/// Conditions that all hold for every row that is looked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filters {
    /// The conditions as they are answered.
    pub each: Vec<RowCondition>,
    /// A predicate that holds for every row for which they do, and perhaps for others.
    pub cover: Predicate,
}

impl Filters {
    /// No condition but a predicate, by which files and row groups are left out. All rows of the others are looked for.
    pub fn covered_by(cover: Predicate) -> Self {
        Self {
            each: Vec::new(),
            cover,
        }
    }
}

/// Conditions, apart by what answers them.
pub(crate) struct Question {
    /// Conditions on partition columns: the log has the answer for each file.
    of_partitions: Filters,
    /// Conditions on columns that the files hold, or on both.
    pub of_rows: Filters,
}

impl Question {
    /// The question of the conditions of an argument `option`.
    pub fn of(head: &TableHead, conditions: &Conditions, option: &str) -> Result<Self> {
        match conditions {
            Conditions::All(conditions) => {
                let terms = conditions.iter().map(|condition| condition.term(head));
                Self::of_terms(head, terms.collect::<Result<_>>()?)
            }
            Conditions::Sql(text) => Ok(Self::of_condition(head, bound(head, text, option)?)),
        }
    }

    pub fn of_terms(head: &TableHead, terms: Vec<Term>) -> Result<Self> {
        let (mut of_partitions, mut of_rows) = (Vec::new(), Vec::new());
        for term in terms {
            let Some(column) = head.column_of(&term) else {
                return Err(TableError::Malformed(format!(
                    "the table has no column {:?}",
                    term.column
                )));
            };
            let part = if head.is_partition_column(column) {
                &mut of_partitions
            } else {
                &mut of_rows
            };
            let filter = RowCondition::Comparison(column.name.clone(), term.comparison.clone());
            part.push((filter, term));
        }
        let filters = |part: Vec<(RowCondition, Term)>| {
            let (each, terms): (Vec<_>, Vec<_>) = part.into_iter().unzip();
            let cover = Predicate::all(terms);
            Filters { each, cover }
        };
        Ok(Self {
            of_partitions: filters(of_partitions),
            of_rows: filters(of_rows),
        })
    }

    /// The question of a condition in SQL. Parts of it on the same columns are answered together, since each answer
    /// decodes its columns.
    fn of_condition(head: &TableHead, condition: BoundCondition) -> Self {
        let mut parts: Vec<(BTreeSet<String>, Vec<BoundCondition>)> = Vec::new();
        for part in condition.conjuncts() {
            let names: BTreeSet<String> = tops(&part).into_iter().map(str::to_owned).collect();
            match parts.iter_mut().find(|(known, _)| *known == names) {
                Some((_, together)) => together.push(part),
                None => parts.push((names, vec![part])),
            }
        }
        let partition_columns = &head.metadata.partition_columns;
        let is_of_partitions = |(names, _): &(BTreeSet<String>, Vec<BoundCondition>)| {
            names.iter().all(|name| partition_columns.contains(name))
        };
        let (of_partitions, of_rows): (Vec<_>, Vec<_>) = parts.into_iter().partition(is_of_partitions);
        let filters = |parts: Vec<(BTreeSet<String>, Vec<BoundCondition>)>| {
            let conditions = parts
                .into_iter()
                .map(|(_, together)| BoundCondition::All(together));
            let conditions: Vec<Arc<BoundCondition>> = conditions.map(Arc::new).collect();
            let covers = conditions.iter().map(|condition| condition.cover(head));
            Filters {
                cover: Predicate::All(covers.collect()),
                each: conditions.into_iter().map(RowCondition::Sql).collect(),
            }
        };
        Self {
            of_partitions: filters(of_partitions),
            of_rows: filters(of_rows),
        }
    }

    /// A predicate that holds for every row for which all conditions do, and perhaps for others.
    pub fn predicate(&self) -> Predicate {
        Predicate::All(vec![self.of_partitions.cover.clone(), self.of_rows.cover.clone()])
    }

    /// Returns true if the partition values of a file answer all of it.
    pub fn is_of_partitions(&self) -> bool {
        self.of_rows.each.is_empty()
    }

    /// The files that may hold a row for which all conditions hold.
    pub fn files(&self, snapshot: &Snapshot) -> Result<Vec<Arc<Add>>> {
        let filters = self.of_partitions.each.iter();
        let mut filters: Vec<PartitionFilter<'_>> = filters
            .map(|filter| PartitionFilter::of(snapshot, filter))
            .collect();
        let mut files = Vec::new();
        for file in snapshot.files() {
            let mut may_be = true;
            for filter in &mut filters {
                may_be = may_be && filter.holds(file)?;
            }
            if may_be && self.of_rows.cover.may_match(file) {
                files.push(Arc::clone(file));
            }
        }
        Ok(files)
    }
}

/// A condition on partition columns alone, which the log answers for each file. Files of one partition have one answer.
pub(crate) struct PartitionFilter<'a> {
    filter: &'a RowCondition,
    columns: Vec<&'a TableColumn>,
    mapping: Mapping,
    schema: SchemaRef,
    answers: HashMap<Vec<Option<String>>, bool>,
}

impl<'a> PartitionFilter<'a> {
    pub fn of(head: &'a TableHead, filter: &'a RowCondition) -> Self {
        let columns = filter.columns(head);
        Self {
            schema: nullable(columns.iter().copied()),
            filter,
            columns,
            mapping: head.mapping,
            answers: HashMap::new(),
        }
    }

    /// Returns true if the partition values of a file satisfy it.
    pub fn holds(&mut self, file: &Add) -> Result<bool> {
        let values = self.columns.iter().map(|column| {
            let value = file.partition_values.get(self.mapping.stored_name(column));
            value.flatten().map(str::to_owned)
        });
        let values: Vec<Option<String>> = values.collect();
        if let Some(answer) = self.answers.get(&values) {
            return Ok(*answer);
        }
        let answer = self.answer(file)?;
        self.answers.insert(values, answer);
        Ok(answer)
    }

    fn answer(&self, file: &Add) -> Result<bool> {
        let values = self.columns.iter();
        let values = values.map(|column| constants::constant(file, column, self.mapping));
        let row = batch(&self.schema, values.collect::<Result<_>>()?, 1);
        let holds = row.and_then(|row| self.filter.holds(&row)).map_err(|error| {
            TableError::Malformed(format!(
                "{}: the file's partition values do not fit the conditions: {error}",
                file.path
            ))
        })?;
        Ok(holds.value(0))
    }
}

/// The schema of columns that may be null.
pub(super) fn nullable<'a>(columns: impl Iterator<Item = &'a TableColumn>) -> SchemaRef {
    let fields = columns.map(|column| Field::new(&column.name, column.kind.arrow(), true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// A batch of so many rows, also without a column.
pub(super) fn batch(
    schema: &SchemaRef,
    columns: Vec<ArrayRef>,
    rows: usize,
) -> Result<RecordBatch, ArrowError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}
