//! The checks of a Delta schema: names and types.

use std::collections::HashSet;

use serde_json::Value;

use crate::error::{CommitError, Result};

/// Characters that no column name may hold. Parquet readers before column mapping could not take them.
const REFUSED_IN_NAMES: &str = " ,;{}()\n\t=";

const PRIMITIVES: [&str; 13] = [
    "string",
    "long",
    "integer",
    "short",
    "byte",
    "float",
    "double",
    "boolean",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
    "decimal",
];

/// The facts that the check of a schema gathers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SchemaFacts {
    /// Names of the top-level columns, in order.
    pub columns: Vec<String>,
    /// True if a column at any depth is a timestamp without time zone, which the protocol must name.
    pub has_timestamp_ntz: bool,
}

/// Checks the names and types of a schema string.
///
/// # Errors
/// [`CommitError::Schema`] names the column and what is wrong with it.
pub fn check_schema(schema: &str) -> Result<SchemaFacts> {
    SchemaCheck::default().run(schema)
}

/// Checks likewise the schema of a table whose files have other names for its columns. Its names may hold any
/// character.
///
/// # Errors
/// As [`check_schema`].
pub fn check_mapped_schema(schema: &str) -> Result<SchemaFacts> {
    let check = SchemaCheck {
        is_mapped: true,
        ..SchemaCheck::default()
    };
    check.run(schema)
}

/// Checks that partition columns are columns, each once, and not all of them.
///
/// # Errors
/// [`CommitError::Schema`] names the column.
pub fn check_partitioning(facts: &SchemaFacts, partition_columns: &[String]) -> Result<()> {
    let mut seen = HashSet::new();
    for column in partition_columns {
        if !facts.columns.contains(column) {
            return Err(CommitError::column(
                column,
                format!(
                    "the partition column {column:?} is not in the schema; its columns are {}",
                    facts.columns.join(", ")
                ),
            ));
        }
        if !seen.insert(column) {
            return Err(CommitError::column(
                column,
                format!("the partition column {column:?} is given twice"),
            ));
        }
    }
    if !partition_columns.is_empty() && seen.len() == facts.columns.len() {
        return Err(CommitError::schema(
            "every column is a partition column, so files would have none; leave one out",
        ));
    }
    Ok(())
}

/// Checks one column name.
///
/// # Errors
/// [`CommitError::Schema`] when it is empty or holds one of the refused characters.
pub fn check_name(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(CommitError::schema("a column has an empty name"));
    }
    match name.chars().find(|c| REFUSED_IN_NAMES.contains(*c)) {
        Some(character) => Err(CommitError::column(
            name,
            format!(
                "the column name {name:?} holds {character:?}; rename the column: none of {REFUSED_IN_NAMES:?} is \
             accepted"
            ),
        )),
        None => Ok(()),
    }
}

/// Parses the JSON of a schema.
///
/// # Errors
/// [`CommitError::Schema`] when it is no JSON, or nests more deeply than JSON is read.
pub fn json_of_schema(schema: &str) -> Result<Value> {
    serde_json::from_str(schema).map_err(|error| {
        let text = error.to_string();
        CommitError::schema(if text.starts_with("recursion limit exceeded") {
            "the schema nests too deeply: its JSON has more than 127 levels".to_owned()
        } else {
            format!("the schema is not JSON: {text}")
        })
    })
}

/// The check of one schema.
#[derive(Default)]
struct SchemaCheck {
    /// True if files have other names for the columns.
    is_mapped: bool,
    /// True once a timestamp without time zone was met.
    has_timestamp_ntz: bool,
}

impl SchemaCheck {
    fn run(mut self, schema: &str) -> Result<SchemaFacts> {
        let value = json_of_schema(schema)?;
        Ok(SchemaFacts {
            columns: self.structure(&value, "")?,
            has_timestamp_ntz: self.has_timestamp_ntz,
        })
    }

    fn structure(&mut self, value: &Value, at: &str) -> Result<Vec<String>> {
        let fields = value
            .get("fields")
            .and_then(Value::as_array)
            .filter(|_| value.get("type").and_then(Value::as_str) == Some("struct"))
            .ok_or_else(|| CommitError::schema(format!("{} is not a struct with fields", place(at))))?;
        let mut names: Vec<String> = Vec::with_capacity(fields.len());
        let mut folded = HashSet::new();
        for field in fields {
            let name = field
                .get("name")
                .and_then(Value::as_str)
                .ok_or_else(|| CommitError::schema(format!("a field of {} has no name", place(at))))?;
            if !self.is_mapped || name.is_empty() {
                check_name(name)?;
            }
            if !folded.insert(name.to_lowercase()) {
                let how = if names.iter().any(|other| other == name) {
                    "is there twice"
                } else {
                    "differs from another only in case"
                };
                return Err(CommitError::column(
                    name,
                    format!("the column {name:?} of {} {how}; rename one", place(at)),
                ));
            }
            if !field.get("nullable").is_some_and(Value::is_boolean) {
                return Err(CommitError::column(
                    name,
                    format!(
                        "the column {name:?} of {} does not say whether it is nullable",
                        place(at)
                    ),
                ));
            }
            let below = if at.is_empty() {
                name.to_owned()
            } else {
                format!("{at}.{name}")
            };
            self.kind(field.get("type").unwrap_or(&Value::Null), &below)?;
            names.push(name.to_owned());
        }
        Ok(names)
    }

    fn kind(&mut self, value: &Value, at: &str) -> Result<()> {
        if let Some(name) = value.as_str() {
            self.has_timestamp_ntz |= name == "timestamp_ntz";
            return check_primitive(name, at);
        }
        match value.get("type").and_then(Value::as_str) {
            Some("struct") => self.structure(value, at).map(drop),
            Some("array") => self.child(value, "elementType", at),
            Some("map") => {
                self.child(value, "keyType", at)?;
                self.child(value, "valueType", at)
            }
            _ => Err(CommitError::column(
                at,
                format!("the column {at:?} has the type {value}, which Delta does not know"),
            )),
        }
    }

    fn child(&mut self, value: &Value, child: &str, at: &str) -> Result<()> {
        let inner = value
            .get(child)
            .ok_or_else(|| CommitError::column(at, format!("the column {at:?} has no {child}")))?;
        self.kind(inner, at)
    }
}

fn check_primitive(name: &str, at: &str) -> Result<()> {
    if PRIMITIVES.contains(&name) || decimal(name).is_some_and(|(p, s)| (1..=38).contains(&p) && s <= p) {
        return Ok(());
    }
    Err(CommitError::column(
        at,
        format!(
            "the column {at:?} has the type {name:?}, which is not known here; known are {} and decimal(1..38, scale)",
            PRIMITIVES.join(", ")
        ),
    ))
}

fn decimal(name: &str) -> Option<(u8, u8)> {
    let inner = name.strip_prefix("decimal(")?.strip_suffix(')')?;
    let (precision, scale) = inner.split_once(',')?;
    Some((precision.trim().parse().ok()?, scale.trim().parse().ok()?))
}

fn place(at: &str) -> String {
    if at.is_empty() {
        "the schema".to_owned()
    } else {
        format!("the column {at:?}")
    }
}
