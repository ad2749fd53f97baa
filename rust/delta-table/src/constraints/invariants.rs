//! Invariants: conditions for every row that the metadata of columns state.
//!
//! They are SQL in JSON ("Column Invariants" in Delta's PROTOCOL.md), over the columns of the table. A row for which
//! one is false or null is refused, as for a CHECK constraint. One that is not understood keeps the table from being
//! written, and so does one of a column inside an array or a map.

use serde_json::Value;

use crate::clustering::shown;
use crate::error::{Result, TableError};
use crate::schema::{ColumnType, TableColumn, TableSchema};

use super::Constraint;
use crate::sql::Scope;

/// The note of a column with an invariant.
const NOTE: &str = "delta.invariants";

/// A column's invariant, as the schema states it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Stated<'a> {
    /// Names from the top.
    path: Vec<&'a str>,
    /// True if one of them is that of an array or a map.
    is_repeated: bool,
    rule: &'a Value,
}

impl Stated<'_> {
    /// The column and the rule, as text.
    pub fn described(&self) -> (String, String) {
        (
            format!("invariant of {}", self.path.join(".")),
            self.rule.to_string(),
        )
    }
}

/// The invariants of a schema.
pub(super) fn stated(schema: &TableSchema) -> Vec<Stated<'_>> {
    let mut found = Vec::new();
    collect(&schema.columns, &mut Vec::new(), false, &mut found);
    found
}

fn collect<'a>(
    columns: &'a [TableColumn],
    path: &mut Vec<&'a str>,
    is_repeated: bool,
    found: &mut Vec<Stated<'a>>,
) {
    for column in columns {
        path.push(&column.name);
        found.extend(column.metadata.get(NOTE).map(|rule| Stated {
            path: path.clone(),
            is_repeated,
            rule,
        }));
        let repeats = is_repeated || matches!(column.kind, ColumnType::Array(..) | ColumnType::Map(..));
        for fields in column.kind.structs() {
            collect(fields, path, repeats, found);
        }
        path.pop();
    }
}

/// The invariants of a schema as constraints.
///
/// # Errors
/// [`delta_commit::CommitError::Unsupported`] names the first one that is not understood.
pub(super) fn of(scope: Scope<'_>) -> Result<Vec<Constraint>> {
    let invariants = stated(scope.schema).into_iter().map(|stated| {
        let path: Vec<String> = stated.path.iter().map(|&name| name.to_owned()).collect();
        let column = shown(&path);
        constraint(&stated, &column, scope).map_err(|why| {
            TableError::unsupported(format!(
                "the column {column} has {NOTE}={}, which is not understood, so that rows cannot be checked: {why}. \
                 Write the table with Spark",
                stated.rule
            ))
        })
    });
    invariants.collect()
}

/// The constraint that an invariant is. The error says why it is not understood.
fn constraint(stated: &Stated<'_>, column: &str, scope: Scope<'_>) -> Result<Constraint, String> {
    if stated.is_repeated {
        return Err("the column is inside an array or a map".to_owned());
    }
    let expression = expression_of(stated.rule).ok_or("it holds no expression")?;
    let constraint = Constraint::of(column, &expression, scope).map_err(|fault| fault.words(&expression))?;
    Ok(Constraint {
        shown: format!("the invariant of the column {column}, {expression},"),
        advice: "leave such rows out",
        ..constraint
    })
}

/// The SQL in `{"expression": {"expression": "x > 3"}}`, which is a text.
fn expression_of(rule: &Value) -> Option<String> {
    let rule: Value = serde_json::from_str(rule.as_str()?).ok()?;
    let expression = rule.get("expression")?.get("expression")?.as_str()?;
    Some(expression.to_owned())
}
