//! Errors of cells and of rows.

use std::fmt::Write as _;

use arrow_schema::DataType;

/// The reason why a cell does not fit its column, and the cell's path in the row.
#[derive(Debug)]
pub struct Misfit(Box<Details>);

/// The details of a misfit. They are behind a pointer, so that the result of every cell is as small as that.
#[derive(Debug)]
struct Details {
    /// The path from the inside out, in the order in which it is built on the way back.
    steps: Vec<PathStep>,
    message: String,
    kind: MisfitKind,
}

/// What callers do more about than to report it.
#[derive(Debug, PartialEq, Eq)]
enum MisfitKind {
    Value,
    Full,
    UnknownKey,
    RepeatedKey,
}

#[derive(Debug)]
pub(crate) enum PathStep {
    Field(String),
    Item(usize),
}

impl Misfit {
    /// A misfit with a message of one sentence: the value that was found, and the kind that was expected.
    #[cold]
    pub fn new(message: impl Into<String>) -> Self {
        Self::of(MisfitKind::Value, message.into())
    }

    #[cold]
    fn of(kind: MisfitKind, message: String) -> Self {
        Self(Box::new(Details {
            steps: Vec::new(),
            message,
            kind,
        }))
    }

    /// The misfit of a value that has another kind than the column.
    #[must_use]
    #[cold]
    pub fn expected(what: &str, found: &str) -> Self {
        Self::new(format!("expected {what}, found {found}"))
    }

    /// The misfit of a column that is as full as one batch can be.
    #[cold]
    pub(crate) fn full(message: String) -> Self {
        Self::of(MisfitKind::Full, message)
    }

    /// The misfit of a key that the schema does not have.
    #[must_use]
    #[cold]
    pub fn unknown_key() -> Self {
        let message = "the schema has no such key: leave it out, or pass extra=\"ignore\"";
        Self::of(MisfitKind::UnknownKey, message.into())
    }

    /// The misfit of a key that an object has twice.
    #[must_use]
    #[cold]
    pub fn repeated_key() -> Self {
        Self::of(MisfitKind::RepeatedKey, "the key comes twice".into())
    }

    /// Says why as well.
    #[must_use]
    #[cold]
    pub fn explained(mut self, why: &str) -> Self {
        self.0.message = format!("{}: {why}", self.0.message);
        self
    }

    /// Returns true if the row may fit into an empty batch.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.0.kind == MisfitKind::Full
    }

    /// Returns true if the schema does not have the key.
    #[must_use]
    pub fn is_unknown_key(&self) -> bool {
        self.0.kind == MisfitKind::UnknownKey
    }

    /// Returns true if an object has the key twice.
    pub(crate) fn is_repeated_key(&self) -> bool {
        self.0.kind == MisfitKind::RepeatedKey
    }

    /// Adds the field `name` to the path.
    #[must_use]
    #[cold]
    pub fn in_field(mut self, name: &str) -> Self {
        self.0.steps.push(PathStep::Field(name.into()));
        self
    }

    /// Adds the element `index` of a list to the path.
    #[must_use]
    #[cold]
    pub fn in_item(mut self, index: usize) -> Self {
        self.0.steps.push(PathStep::Item(index));
        self
    }

    /// The path of the cell, from the row inwards.
    pub(crate) fn steps(&self) -> impl Iterator<Item = &PathStep> {
        self.0.steps.iter().rev()
    }

    /// The sentence that says what is wrong.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The path of the cell, as in `tags[3].name`; empty for the row itself.
    #[must_use]
    pub fn path(&self) -> String {
        let mut path = String::new();
        for step in self.0.steps.iter().rev() {
            match step {
                PathStep::Field(name) if path.is_empty() => path.push_str(name),
                PathStep::Field(name) => {
                    path.push('.');
                    path.push_str(name);
                }
                PathStep::Item(index) => {
                    let _ = write!(path, "[{index}]");
                }
            }
        }
        path
    }
}

/// A row that was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("row {row}{}{}: {message}", place(field), source_line(*line))]
pub struct RowError {
    /// The row's index in the call, from 0.
    pub row: u64,
    /// The line's number, from 1, over everything that was read; none for rows that are not text.
    pub line: Option<u64>,
    /// The path of the cell, as in `tags[3].name`; empty for the row itself.
    pub field: String,
    /// The reason why it was refused.
    pub message: String,
}

impl RowError {
    /// The report of `misfit` in a row.
    #[must_use]
    pub fn new(misfit: &Misfit, row: u64, line: Option<u64>) -> Self {
        Self {
            row,
            line,
            field: misfit.path(),
            message: misfit.message().into(),
        }
    }
}

fn place(field: &str) -> String {
    if field.is_empty() {
        String::new()
    } else {
        format!(", field {field:?}")
    }
}

fn source_line(line: Option<u64>) -> String {
    line.map_or_else(String::new, |line| format!(" (line {line})"))
}

/// A column that rows cannot be built into.
#[derive(Debug, thiserror::Error)]
pub enum UnsupportedColumn {
    /// Its type has no builder.
    #[error(
        "column {path:?} has type {data_type}, which rows cannot be built into: write it as record batches"
    )]
    Type {
        /// The column's dotted path.
        path: String,
        /// Its type.
        data_type: DataType,
    },
    /// Another one has its name, by which rows give their values.
    #[error(
        "the schema has the column {path:?} more than once, and rows give values by name: rename one of them, or write record batches"
    )]
    Repeated {
        /// The column's dotted path.
        path: String,
    },
}
