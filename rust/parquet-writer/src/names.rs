//! Names of columns in options, resolved against a schema. A name that several columns have is refused in every option.

use arrow_schema::Fields;
use parquet::schema::types::SchemaDescriptor;

use crate::error::{Result, WriteError};

/// One value for all columns, or one for each of some.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ByColumn<T> {
    /// The same for every column.
    All(T),
    /// By column path; columns that are not named get the default.
    Columns(Vec<(Vec<String>, T)>),
}

/// Resolves a rule for each leaf; `otherwise` for those that it does not name.
///
/// # Errors
/// [`WriteError::Option`] when a path is that of no leaf column, or of several.
pub(crate) fn by_leaf<T: Copy>(
    parquet: &SchemaDescriptor,
    option: &str,
    rule: &ByColumn<T>,
    otherwise: T,
) -> Result<Vec<T>> {
    let columns = match rule {
        ByColumn::All(value) => return Ok(vec![*value; parquet.num_columns()]),
        ByColumn::Columns(columns) => columns,
    };
    let mut leaves = vec![otherwise; parquet.num_columns()];
    for (key, value) in columns {
        let mut matching = (0..parquet.num_columns()).filter(|&leaf| is_named(parquet, leaf, key));
        let Some(leaf) = matching.next() else {
            let paths = parquet.columns().iter().map(|column| column.path().string());
            return Err(missing(option, &key.join("."), paths));
        };
        if let Some(other) = matching.next() {
            let paths = [leaf, other].map(|leaf| parquet.column(leaf).path().parts().to_vec());
            return Err(ambiguous(option, &key.join("."), &paths));
        }
        leaves[leaf] = *value;
    }
    Ok(leaves)
}

/// The place of the top-level column that an option names; none where the schema does not have it.
///
/// # Errors
/// [`WriteError::Option`] when it has several.
pub fn column_named(option: &str, fields: &Fields, name: &str) -> Result<Option<usize>> {
    let mut matching = (0..fields.len()).filter(|&place| fields[place].name() == name);
    let found = matching.next();
    match matching.next() {
        None => Ok(found),
        Some(_) => Err(ambiguous(
            option,
            name,
            &[vec![name.to_owned()], vec![name.to_owned()]],
        )),
    }
}

/// Returns true if a key of a mapping names a leaf column.
pub(crate) fn is_named(parquet: &SchemaDescriptor, leaf: usize, key: &[String]) -> bool {
    is_path(parquet.column(leaf).path().parts(), key)
}

/// Returns true if a key names the column with these parts. A key of one part is a dotted path; one of several parts
/// names each.
pub(crate) fn is_path(parts: &[String], key: &[String]) -> bool {
    parts == key || (key.len() == 1 && parts.join(".") == key[0])
}

pub(crate) fn missing(option: &str, name: &str, there: impl Iterator<Item = String>) -> WriteError {
    let there: Vec<_> = there.map(|path| format!("{path:?}")).collect();
    WriteError::option(
        option,
        format!(
            "{option} names the column {name:?}, which the schema does not have: it has {}",
            there.join(", ")
        ),
    )
}

pub(crate) fn ambiguous(option: &str, name: &str, [first, second]: &[Vec<String>; 2]) -> WriteError {
    let why = if first == second {
        "which the schema has more than once: rename all of them but one".to_owned()
    } else {
        format!(
            "which may be {first:?} or {second:?}: rename one of them, or name the nested one by a tuple of its parts"
        )
    };
    WriteError::option(option, format!("{option} names the column {name:?}, {why}"))
}
