//! Conditions of clauses: expressions that the caller evaluates, and SQL.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, StructArray};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use parquet_writer::Batch;

use crate::error::{Result, TableError};
use crate::head::TableHead;
use crate::rows::finer;
use crate::schema::{TableColumn, columns};
use crate::sql::{BoundCondition, NamedColumn, SideColumns, over_sides};
use crate::values::Evaluate;

use super::MergeOptions;
use super::clauses::{ClauseKind, ClauseRows, MergeClause, MergeCondition};
use super::source::fitted;

/// The sides by the names that they have in conditions.
const TARGET: &str = "target";
const SOURCE: &str = "source";

/// A condition whose columns are known.
pub(super) struct ClauseCondition {
    /// Columns of the table that it names.
    pub target: Vec<String>,
    /// Columns of the source that it names.
    pub source: Vec<String>,
    answer: ConditionEvaluation,
}

/// The evaluation of a condition.
enum ConditionEvaluation {
    /// The caller, who knows it by this number.
    Caller(usize),
    Sql(BoundCondition),
}

impl ClauseCondition {
    /// The conditions of the clauses; none of those without one.
    ///
    /// # Errors
    /// [`TableError::Option`] when a text is no condition on the columns that its clause is about.
    pub fn of_clauses(
        head: &TableHead,
        schema: &SchemaRef,
        options: &MergeOptions,
    ) -> Result<Vec<Option<Self>>> {
        let clauses = options.clauses.iter();
        let conditions = clauses.map(|clause| match &clause.condition {
            None => Ok(None),
            Some(MergeCondition::Expression(expression, _)) => Ok(Some(Self {
                target: expression.target.clone(),
                source: expression.source.clone(),
                answer: ConditionEvaluation::Caller(expression.number),
            })),
            Some(MergeCondition::Sql(text)) => {
                let sides = sides(head, schema, options, clause);
                Ok(Some(Self::of(over_sides(&sides, text, "where")?)))
            }
        });
        conditions.collect()
    }

    fn of(condition: BoundCondition) -> Self {
        let of_side = |side: &str| {
            let mut names: Vec<String> = Vec::new();
            for NamedColumn { path, .. } in condition.columns() {
                if let [of, name, ..] = path.as_slice()
                    && of == side
                    && !names.contains(name)
                {
                    names.push(name.clone());
                }
            }
            names
        };
        Self {
            target: of_side(TARGET),
            source: of_side(SOURCE),
            answer: ConditionEvaluation::Sql(condition),
        }
    }

    /// For each of some rows, true if it is true; false or null if it is not.
    pub fn holds(
        &self,
        rows: &ClauseRows<'_>,
        some: &[u32],
        evaluate: &mut Evaluate<'_>,
    ) -> Result<BooleanArray> {
        let columns = rows.columns_of(&self.target, &self.source, Some(some))?;
        match &self.answer {
            ConditionEvaluation::Caller(number) => answered(&evaluate(*number, &columns)?, some.len()),
            ConditionEvaluation::Sql(condition) => {
                let truth = condition.truth(&in_sides(&columns)?);
                let truth = truth.map_err(|error| unanswered(&error))?;
                Ok(BooleanArray::new(truth.is_true, None))
            }
        }
    }
}

/// The sides that a clause is about. Columns of the source have the types in which clauses get them.
fn sides(
    head: &TableHead,
    schema: &SchemaRef,
    options: &MergeOptions,
    clause: &MergeClause,
) -> Vec<SideColumns> {
    let mut sides = Vec::new();
    if clause.kind != ClauseKind::NotMatched {
        sides.push(SideColumns {
            name: TARGET,
            columns: head.schema.columns.clone(),
            others: Vec::new(),
        });
    }
    if clause.kind != ClauseKind::NotMatchedBySource {
        let fitted = fitted(head, schema, options);
        let mut side = SideColumns {
            name: SOURCE,
            columns: Vec::new(),
            others: Vec::new(),
        };
        for field in schema.fields() {
            let fits = fitted.contains(field.name());
            match head.schema.column(field.name()).filter(|_| fits) {
                Some(column) => side.columns.push(column.clone()),
                None => match as_given(field) {
                    Ok(column) => side.columns.extend(column),
                    Err(why) => side.others.push((field.name().clone(), why)),
                },
            }
        }
        sides.push(side);
    }
    sides
}

/// The column of a field that only conditions name. The error says why none is built on it.
fn as_given(field: &FieldRef) -> Result<Vec<TableColumn>, String> {
    if let Some(lost) = finer(field.data_type()) {
        return Err(format!("the column {:?} has {lost}", field.name()));
    }
    columns(&Fields::from(vec![Arc::clone(field)]), "").map_err(|error| error.to_string())
}

/// The answer of a caller on some rows.
fn answered(answer: &[Batch], rows: usize) -> Result<BooleanArray> {
    let mut all = Vec::with_capacity(rows);
    for batch in answer {
        match batch.columns() {
            [column] if *column.data_type() == DataType::Boolean => all.extend(column.as_boolean().iter()),
            _ => return Err(TableError::option("where", "where is not one column of booleans")),
        }
    }
    if all.len() != rows {
        let message = format!(
            "where has {} values for {rows} rows: give one for each",
            all.len()
        );
        return Err(TableError::option("where", message));
    }
    Ok(all.into())
}

/// Columns `target.NAME` and `source.NAME` as those of a struct for each side.
fn in_sides(columns: &RecordBatch) -> Result<Batch> {
    let mut sides: Vec<(Field, ArrayRef)> = Vec::new();
    for side in [TARGET, SOURCE] {
        let schema = columns.schema();
        let (fields, arrays): (Vec<FieldRef>, Vec<ArrayRef>) = schema
            .fields()
            .iter()
            .zip(columns.columns())
            .filter_map(|(field, array)| {
                let name = field.name().strip_prefix(side)?.strip_prefix('.')?;
                let field = field.as_ref().clone().with_name(name);
                Some((Arc::new(field), Arc::clone(array)))
            })
            .unzip();
        if !fields.is_empty() {
            let group =
                StructArray::try_new(fields.into(), arrays, None).map_err(|error| unanswered(&error))?;
            sides.push((
                Field::new(side, group.data_type().clone(), false),
                Arc::new(group),
            ));
        }
    }
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = sides.into_iter().unzip();
    Ok(Batch::new(
        Arc::new(Schema::new(fields)),
        arrays,
        columns.num_rows(),
    )?)
}

fn unanswered(error: &ArrowError) -> TableError {
    TableError::option(
        "where",
        format!("where cannot be compared with the rows of the merge: {error}"),
    )
}
