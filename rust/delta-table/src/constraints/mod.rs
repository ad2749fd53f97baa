//! CHECK constraints: conditions that are true for every row of a table.
//!
//! They are properties, `delta.constraints.NAME`, whose values are SQL ("CHECK Constraints" in Delta's PROTOCOL.md). A
//! row for which one is false or null is refused, as delta-spark does. A constraint that is not understood
//! ([`sql`](crate::sql) says what is) keeps the table from being written. [`invariants`] are constraints that columns
//! state.

mod change;
mod files;
mod invariants;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{Array, ArrayRef};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType, TimeUnit};
use delta_commit::actions::Metadata;
use parquet_writer::{Batch, WriteError};

use crate::clustering::shown;
use crate::error::{Result, TableError};
use crate::head::TableHead;
use crate::schema::TableSchema;
use crate::sql::{BoundCondition, NamedColumn, Purpose, Scope, SqlFault};

pub use change::PendingConstraint;
pub(crate) use files::{check_files, check_nulls};

/// The beginning of the properties that are constraints.
const PREFIX: &str = "delta.constraints.";

/// The feature of tables with constraints.
const FEATURE: &str = "checkConstraints";

/// Characters of a value in an error.
const MOST_SHOWN: usize = 60;

/// The constraints of a table: names and expressions. The prefix is in any case.
pub(crate) fn stated(metadata: &Metadata) -> impl Iterator<Item = (&str, &str)> {
    let properties = metadata.configuration.iter();
    properties.filter_map(|(property, expression)| Some((name_of(property)?, expression.as_str())))
}

/// The constraints and invariants that the rows of a table are compared with: names and expressions.
pub(crate) fn compared(head: &TableHead) -> Vec<(String, String)> {
    let constraints =
        stated(&head.metadata).map(|(name, expression)| (name.to_owned(), expression.to_owned()));
    let invariants = invariants::stated(&head.schema);
    constraints
        .chain(invariants.iter().map(invariants::Stated::described))
        .collect()
}

/// Returns true if every constraint and invariant of `after` is one of `before`, so that rows need not be compared
/// again.
pub(crate) fn are_of(before: &TableHead, after: &TableHead) -> bool {
    let known = invariants::stated(&before.schema);
    stated(&after.metadata).all(|constraint| stated(&before.metadata).any(|known| known == constraint))
        && invariants::stated(&after.schema)
            .iter()
            .all(|invariant| known.contains(invariant))
}

/// The name of the constraint that a property is; none where it is another property.
fn name_of(property: &str) -> Option<&str> {
    let (start, name) = property.split_at_checked(PREFIX.len())?;
    start.eq_ignore_ascii_case(PREFIX).then_some(name)
}

/// A constraint over the columns of a table.
#[derive(Debug)]
struct Constraint {
    name: String,
    expression: String,
    condition: BoundCondition,
    /// The words for it.
    shown: String,
    /// The words for what to do about rows that break it.
    advice: &'static str,
}

/// The constraints of a table over its columns.
#[derive(Debug, Default)]
pub(crate) struct Constraints(Vec<Constraint>);

impl Constraints {
    /// The constraints and invariants of a table of this schema.
    ///
    /// # Errors
    /// [`delta_commit::CommitError::Unsupported`] names the first one that is not understood.
    pub fn of(metadata: &Metadata, schema: &TableSchema) -> Result<Self> {
        let scope = Scope {
            schema,
            partition_columns: &metadata.partition_columns,
            purpose: Purpose::Stated,
            of_files: false,
            sides: &[],
        };
        let constraints = stated(metadata).map(|(name, expression)| {
            Constraint::of(name, expression, scope).map_err(|fault| {
                let why = fault.words(expression);
                TableError::unsupported(format!(
                    "the table has the property {PREFIX}{name}={expression:?}, which is not understood, so that rows \
                     cannot be checked: {why}. Write it with Spark, or take the constraint away with drop_constraint()"
                ))
            })
        });
        let mut all: Vec<Constraint> = constraints.collect::<Result<_>>()?;
        all.extend(invariants::of(scope)?);
        Ok(Self(all))
    }

    /// Refuses rows for which a constraint is false or null. `named` has the words for a row, by its number.
    ///
    /// # Errors
    /// [`TableError::Constraint`] with the first such row.
    pub fn check(&self, rows: &Batch, named: impl Fn(usize) -> String) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        rows.check_text()?;
        for constraint in &self.0 {
            if let Some((row, _)) = constraint.violations(rows)? {
                return Err(constraint.broken(format!(
                    "{} has {}, for which {} is not true: {}",
                    named(row),
                    constraint.values(rows, row),
                    constraint.shown,
                    constraint.advice
                )));
            }
        }
        Ok(())
    }
}

impl Constraint {
    fn of(name: &str, expression: &str, scope: Scope<'_>) -> Result<Self, SqlFault> {
        Ok(Self {
            name: name.to_owned(),
            expression: expression.to_owned(),
            condition: scope.read(expression)?,
            shown: format!("the constraint {name} CHECK ({expression})"),
            advice: "leave such rows out, or drop the constraint",
        })
    }

    /// The columns that it names.
    fn columns(&self) -> Vec<&NamedColumn> {
        self.condition.columns()
    }

    /// The first row that breaks it, and the number of such rows; none without one.
    fn violations(&self, rows: &Batch) -> Result<Option<(usize, usize)>> {
        let truth = self.condition.truth(rows).map_err(WriteError::from)?;
        let broken = !&truth.is_true;
        let first = broken.set_indices().next();
        Ok(first.map(|first| (first, broken.count_set_bits())))
    }

    /// The values of a row in the columns that it names.
    fn values(&self, rows: &Batch, row: usize) -> String {
        let row = rows.slice(row, 1);
        let columns = self.columns().into_iter();
        let values = columns.map(|column| {
            let value = value(column, &row);
            let value = value.unwrap_or_else(|_| "a value that cannot be shown".to_owned());
            format!("{} = {value}", shown(&column.path))
        });
        values.collect::<Vec<_>>().join(", ")
    }

    fn broken(&self, message: String) -> TableError {
        TableError::Constraint {
            message,
            constraint: self.name.clone(),
            expression: self.expression.clone(),
            taken: 0,
        }
    }
}

/// The only value of a column. The error is that of a type or a time which Arrow does not show.
fn value(column: &NamedColumn, row: &Batch) -> Result<String, ArrowError> {
    let values = with_offset(column.values(row)?);
    if values.is_null(0) {
        return Ok("NULL".to_owned());
    }
    let options = FormatOptions::default();
    let text = ArrayFormatter::try_new(&values, &options)?
        .value(0)
        .try_to_string()?;
    let mut shown: String = text.chars().take(MOST_SHOWN).collect();
    if shown.len() < text.len() {
        shown.push_str("...");
    }
    Ok(match values.data_type() {
        DataType::Utf8 => format!("'{shown}'"),
        _ => shown,
    })
}

/// The array with the offset of its zone, which Arrow shows: it knows no names of zones here. Others stay as they are.
fn with_offset(array: ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => {
            let moments = array.as_primitive::<TimestampMicrosecondType>().clone();
            Arc::new(moments.with_timezone("+00:00"))
        }
        _ => array,
    }
}
