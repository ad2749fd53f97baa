//! The question of which rows satisfy conditions, apart by what answers it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};
use delta_commit::actions::Add;
use delta_commit::predicate::Predicate;

use crate::conditions::Conditions;
use crate::error::{Result, TableError};
use crate::head::TableHead;
use crate::mapping::Mapping;
use crate::schema::TableColumn;
use crate::snapshot::Snapshot;
use crate::sql::BoundCondition;

use super::constants;

/// The columns that a condition asks for, in the order of the table.
pub(super) fn columns_of<'a>(head: &'a TableHead, condition: &BoundCondition) -> Vec<&'a TableColumn> {
    let names = condition.names();
    let columns = head.schema.columns.iter();
    columns
        .filter(|column| names.contains(column.name.as_str()))
        .collect()
}

/// Conditions that all hold for every row that is looked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filters {
    /// The conditions as they are answered.
    pub each: Vec<Arc<BoundCondition>>,
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

/// Conditions, divided into those that the log answers for whole files, and those that are evaluated on rows. The
/// default is true for every row.
#[derive(Debug, Default)]
pub(crate) struct Question {
    /// Conditions on partition columns: the log has the answer for each file.
    of_partitions: Filters,
    /// Conditions on columns that the files hold, or on both.
    pub of_rows: Filters,
    /// True if it selects whole files. A partition value that cannot be compared is an error of the option then.
    is_of_files: bool,
}

impl Question {
    /// The question of the conditions of an argument `option`.
    pub fn of(head: &TableHead, conditions: &Conditions, option: &str) -> Result<Self> {
        Ok(Self::of_condition(head, conditions.bound(head, option, false)?))
    }

    /// Selects whole files by conditions on partition columns.
    ///
    /// # Errors
    /// [`TableError::Option`] if a condition is invalid, or names a column that is not a partition column.
    pub fn of_files(head: &TableHead, conditions: &Conditions, option: &str) -> Result<Self> {
        let question = Self::of_condition(head, conditions.bound(head, option, true)?);
        Ok(Self {
            is_of_files: true,
            ..question
        })
    }

    /// Divides a condition. Conjuncts on the same columns are evaluated together, so that these are decoded once.
    pub fn of_condition(head: &TableHead, condition: BoundCondition) -> Self {
        let mut parts: Vec<(BTreeSet<String>, Vec<BoundCondition>)> = Vec::new();
        for part in condition.conjuncts() {
            let names: BTreeSet<String> = part.names().into_iter().map(str::to_owned).collect();
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
            let conditions = parts.into_iter();
            let conditions = conditions.map(|(_, together)| BoundCondition::All(together));
            let each: Vec<Arc<BoundCondition>> = conditions.map(Arc::new).collect();
            let covers = each.iter().map(|condition| condition.cover(head));
            Filters {
                cover: Predicate::All(covers.collect()),
                each,
            }
        };
        Self {
            of_partitions: filters(of_partitions),
            of_rows: filters(of_rows),
            is_of_files: false,
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

    /// Evaluates the conditions on partition columns for files.
    pub fn of_partitions<'a>(&'a self, head: &'a TableHead) -> PartitionAnswers<'a> {
        let filters = self.of_partitions.each.iter();
        PartitionAnswers {
            question: self,
            head,
            filters: filters.map(|filter| PartitionFilter::of(head, filter)).collect(),
        }
    }

    /// The error for a file whose partition values cannot be compared.
    fn unanswered(&self, head: &TableHead, file: &Add, error: TableError) -> TableError {
        if !self.is_of_files {
            return error;
        }
        let file = head.named(file);
        let values = file.partition_values.iter();
        let values: Vec<String> = values
            .map(|(column, value)| format!("{column}={}", value.unwrap_or("null")))
            .collect();
        TableError::refused(format!(
            "the file {:?} is in the partition {}, which cannot be compared with the conditions, so that nobody can say \
             whether its rows were meant: choose by another column, or by commit(removes=[...])",
            file.path,
            values.join(", ")
        ))
    }

    /// The files that may hold a row for which all conditions hold.
    pub fn files(&self, snapshot: &Snapshot) -> Result<Vec<Arc<Add>>> {
        let mut answers = self.of_partitions(snapshot);
        let mut files = Vec::new();
        for file in snapshot.files() {
            if answers.hold(file)? && self.of_rows.cover.may_match(file) {
                files.push(Arc::clone(file));
            }
        }
        Ok(files)
    }
}

/// Evaluates conditions on partition columns, once for each partition.
pub(crate) struct PartitionAnswers<'a> {
    question: &'a Question,
    head: &'a TableHead,
    filters: Vec<PartitionFilter<'a>>,
}

impl PartitionAnswers<'_> {
    /// Returns true if the partition values of a file satisfy all conditions. A condition that is false decides, even
    /// if another one cannot be evaluated.
    pub fn hold(&mut self, file: &Add) -> Result<bool> {
        let mut unanswered = None;
        for filter in &mut self.filters {
            match filter.holds(file) {
                Ok(false) => return Ok(false),
                Ok(true) => {}
                Err(error) => unanswered = Some(error),
            }
        }
        unanswered.map_or(Ok(true), |error| {
            Err(self.question.unanswered(self.head, file, error))
        })
    }
}

/// A condition on partition columns alone, which the log answers for each file. Files of one partition have one answer.
struct PartitionFilter<'a> {
    filter: &'a BoundCondition,
    columns: Vec<&'a TableColumn>,
    mapping: Mapping,
    schema: SchemaRef,
    answers: HashMap<Vec<Option<String>>, bool>,
}

impl<'a> PartitionFilter<'a> {
    pub fn of(head: &'a TableHead, filter: &'a BoundCondition) -> Self {
        let columns = columns_of(head, filter);
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

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use delta_commit::WaitLimit;

    use super::*;
    use crate::conditions::{Condition, ConditionValue};
    use crate::{CreateMode, CreateOptions, Table};

    const COLUMNS: [&str; 4] = ["day", "x", "single", "text"];

    fn head(folder: &std::path::Path) -> Arc<TableHead> {
        use arrow_schema::DataType::{Date32, Float32, Float64, Int64, Utf8};
        let kinds = [Date32, Float64, Float32, Utf8];
        let fields = COLUMNS
            .iter()
            .zip(kinds)
            .map(|(name, kind)| Field::new(*name, kind, true));
        let schema = Schema::new(fields.chain([Field::new("n", Int64, true)]).collect::<Vec<_>>());
        let options = CreateOptions {
            partition_by: COLUMNS.map(str::to_owned).to_vec(),
            ..CreateOptions::default()
        };
        let mut wait = WaitLimit::until(Instant::now() + Duration::from_secs(60));
        let table = Table::create(folder, &Arc::new(schema), options, CreateMode::Error, &mut wait).unwrap();
        table.head().unwrap()
    }

    fn in_partition(column: &str, value: Option<&str>) -> Add {
        let mut file = Add::default();
        for name in COLUMNS {
            file.partition_values
                .insert(name, value.filter(|_| name == column));
        }
        file
    }

    #[test]
    fn whole_files_are_chosen_by_their_partition_values() {
        use ConditionValue::{Double, Null, Text};
        let folder = tempfile::tempdir().unwrap();
        let head = head(folder.path());
        let day = |text: &str| Text(text.to_owned());
        for (column, value, operator, than, expected) in [
            ("day", Some("1970-01-03"), "=", day("1970-01-03"), true),
            ("day", Some("1970-01-03"), "!=", day("1970-01-03"), false),
            ("day", Some("1970-01-03"), "<", day("1970-01-03"), false),
            ("day", Some("1970-01-03"), "<=", day("1970-01-03"), true),
            ("day", Some("1970-01-03"), ">", day("1970-01-02"), true),
            ("day", Some("1970-01-03"), ">=", day("1970-01-04"), false),
            ("day", Some("1970-01-03"), "in", day("1970-01-03"), true),
            ("day", None, "<", day("1970-01-03"), false),
            ("day", None, "!=", day("1970-01-03"), false),
            ("day", None, "=", Null, true),
            ("day", Some(""), "=", Null, true),
            // As in Spark: equal to itself, and above all else.
            ("x", Some("NaN"), "<", Double(1.0), false),
            ("x", Some("NaN"), "=", Double(f64::NAN), true),
            ("x", Some("NaN"), ">", Double(f64::INFINITY), true),
            ("x", Some("1"), "=", Double(f64::NAN), false),
            ("x", Some("-Infinity"), "=", Double(f64::NEG_INFINITY), true),
            ("x", Some("-0.0"), "=", Double(0.0), true),
            ("x", Some("0.1"), "=", Double(f64::from(0.1_f32)), false),
            ("single", Some("0.1"), "=", Double(0.1), true),
            ("single", Some("0.1"), "<=", Double(0.1), true),
            ("text", Some(""), "=", Text(String::new()), true),
            ("text", None, "=", Text(String::new()), true),
            ("text", Some(""), "!=", Text(String::new()), false),
            ("text", None, "!=", Text(String::new()), false),
            ("text", Some("a"), "!=", Text(String::new()), true),
            ("text", Some(""), "=", Null, false),
        ] {
            let condition = Condition {
                column: column.to_owned(),
                operator: operator.to_owned(),
                values: vec![than],
            };
            let conditions = Conditions::from([condition]);
            let question = Question::of_files(&head, &conditions, "where").unwrap();
            let file = in_partition(column, value);
            assert_eq!(
                question.of_partitions(&head).hold(&file).unwrap(),
                expected,
                "{value:?} {conditions:?}"
            );
            // Where it is true, a concurrent transaction that adds the file is in the way.
            assert!(
                !expected || question.predicate().may_match(&file),
                "{value:?} {conditions:?}"
            );
        }
    }

    #[test]
    fn nothing_is_chosen_on_a_guess() {
        let folder = tempfile::tempdir().unwrap();
        let head = head(folder.path());
        for (column, value, condition) in [("day", "one", "day < '1970-01-03'"), ("x", "1,0", "x = 1")] {
            let conditions = Conditions::Sql(condition.to_owned());
            let question = Question::of_files(&head, &conditions, "where").unwrap();
            let error = question
                .of_partitions(&head)
                .hold(&in_partition(column, Some(value)))
                .unwrap_err();
            assert!(error.to_string().contains("nobody can say"), "{error}");
        }
        for condition in ["day < '1970-01-03' AND x = 1", "x = 1 AND day < '1970-01-03'"] {
            let conditions = Conditions::Sql(condition.to_owned());
            let question = Question::of_files(&head, &conditions, "where").unwrap();
            let mut file = in_partition("day", Some("one"));
            file.partition_values.insert("x", Some("2"));
            assert!(!question.of_partitions(&head).hold(&file).unwrap(), "{condition}");
        }
        let other = Conditions::Sql("n = 1".to_owned());
        let error = Question::of_files(&head, &other, "where").unwrap_err();
        assert!(error.to_string().contains("cannot choose whole files"), "{error}");
    }
}
