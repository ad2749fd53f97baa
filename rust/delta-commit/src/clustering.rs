//! Clustering columns, as far as they decide which files a version may add.
//!
//! The protocol asks for statistics of these columns in every file of the table ("Clustered Table" in Delta's
//! PROTOCOL.md). So files without them and a version that names the columns are in conflict, whichever came first.

use serde_json::Value;

use crate::actions::{Action, Add};

/// The domain that names the columns.
pub const DOMAIN: &str = "delta.clustering";

/// The columns in the configuration of the domain: each a list of names from the top, or one name.
#[must_use]
pub fn columns_of(configuration: &str) -> Option<Vec<Vec<String>>> {
    let value: Value = serde_json::from_str(configuration).ok()?;
    let columns = value.get("clusteringColumns")?.as_array()?;
    columns
        .iter()
        .map(|column| match column {
            Value::String(name) => Some(vec![name.clone()]),
            Value::Array(path) => path.iter().map(|name| name.as_str().map(str::to_owned)).collect(),
            _ => None,
        })
        .collect()
}

/// The columns that an action gives the table; none where it is about something else, or cannot be understood.
#[must_use]
pub fn columns_by(action: &Action) -> Option<Vec<Vec<String>>> {
    match action {
        Action::DomainMetadata(domain) if domain.domain == DOMAIN && !domain.removed => {
            columns_of(&domain.configuration)
        }
        _ => None,
    }
}

/// Returns true if the file's statistics have a count of rows, and one of nulls for the column.
#[must_use]
pub fn has_statistics(add: &Add, column: &[String]) -> bool {
    let parsed = |text: &str| serde_json::from_str::<Value>(text).ok();
    let Some(stats) = add.stats.as_deref().and_then(parsed) else {
        return false;
    };
    let nulls = column
        .iter()
        .try_fold(stats.get("nullCount").unwrap_or(&Value::Null), |value, name| {
            value.get(name)
        });
    nulls.is_some_and(Value::is_i64) && stats.get("numRecords").is_some_and(Value::is_i64)
}

/// The first file that lacks statistics of one of the columns, and that column.
pub fn without_statistics<'a, 'b>(
    adds: impl IntoIterator<Item = &'a Add>,
    columns: &'b [Vec<String>],
) -> Option<(&'a Add, &'b [String])> {
    if columns.is_empty() {
        return None;
    }
    adds.into_iter().find_map(|add| {
        let column = columns.iter().find(|column| !has_statistics(add, column))?;
        Some((add, column.as_slice()))
    })
}
