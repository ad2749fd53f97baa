//! Clustering columns: the columns of a table along which a compaction orders its rows.
//!
//! They are the table's state, in the domain `delta.clustering`: see "Clustered Table" in Delta's PROTOCOL.md. A change
//! of them writes no row again. A compaction takes the files that are not clustered yet in groups ([`cubes`]), puts the
//! rows of a group into the order of a Hilbert curve ([`curve`]), and writes them again ([`rewrite`]).

mod cubes;
mod curve;
mod rewrite;

use delta_commit::actions::{Action, DomainMetadata, Metadata};
use delta_commit::clustering::without_statistics;
use delta_commit::{Operation, Version, WaitLimit};
use serde_json::{Value, json};

use crate::create::with_features;
use crate::error::{Result, TableError};
use crate::head::TableHead;
use crate::operations::begin;
use crate::schema::{ColumnType, Primitive, TableSchema};
use crate::snapshot::Snapshot;
use crate::stats_columns::{StatsColumns, parse};
use crate::table::{Table, or_late};

pub(crate) use cubes::{Packing, groups, is_clustered, marks_of};
pub(crate) use delta_commit::clustering::{DOMAIN, columns_of};
pub(crate) use rewrite::{GroupLimits, Rewrite};

/// The feature of tables whose rows are clustered by columns.
pub(crate) const FEATURE: &str = "clustering";

/// The features that a table with clustering columns needs. Readers need none of them.
pub(crate) const FEATURES: [(&str, bool); 2] = [(FEATURE, false), ("domainMetadata", false)];

/// Columns at most, as in delta-spark.
const MOST_COLUMNS: usize = 4;

const OPTION: &str = "cluster_by";

/// A column's name as Spark writes it: parts with other characters than letters, digits and `_` are quoted, and those
/// that begin with a digit.
pub(crate) fn shown(column: &[String]) -> String {
    let parts = column.iter().map(|part| {
        let is_plain = part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if is_plain && part.starts_with(|c: char| !c.is_ascii_digit()) {
            part.clone()
        } else {
            format!("`{}`", part.replace('`', "``"))
        }
    });
    parts.collect::<Vec<_>>().join(".")
}

/// Columns by name, as a JSON list.
pub(crate) fn listed(columns: &[Vec<String>]) -> String {
    Value::from(columns.iter().map(|column| shown(column)).collect::<Vec<_>>()).to_string()
}

fn separated(columns: &[Vec<String>]) -> String {
    let names: Vec<String> = columns.iter().map(|column| shown(column)).collect();
    names.join(",")
}

/// The columns of these names, each as its path from the top.
///
/// # Errors
/// [`TableError::Option`] when a table of this metadata cannot be clustered by them.
pub(crate) fn chosen(
    names: &[String],
    metadata: &Metadata,
    schema: &TableSchema,
) -> Result<Vec<Vec<String>>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let partitions = &metadata.partition_columns;
    if !partitions.is_empty() {
        return Err(refused(format!(
            "{OPTION} goes with a table without partitions, and this one is partitioned by {}: leave one of them out",
            partitions.join(", ")
        )));
    }
    if names.len() > MOST_COLUMNS {
        return Err(refused(format!(
            "{OPTION} names {} columns: give {MOST_COLUMNS} at most, those that conditions name most often",
            names.len()
        )));
    }
    let indexed = StatsColumns::by_properties(metadata, schema)?;
    let mut columns: Vec<Vec<String>> = Vec::new();
    for name in names {
        let column = column(name, schema, &indexed)?;
        if columns.contains(&column) {
            return Err(refused(format!("{OPTION} names the column {name:?} twice")));
        }
        columns.push(column);
    }
    Ok(columns)
}

fn column(name: &str, schema: &TableSchema, indexed: &StatsColumns) -> Result<Vec<String>> {
    let path = match (schema.column(name), parse(name).as_deref()) {
        (None, Some([path])) => path.clone(),
        _ => vec![name.to_owned()],
    };
    let leaves = schema.leaves(&[]);
    let Some(place) = leaves.iter().position(|leaf| leaf.path == path) else {
        let known: Vec<String> = leaves
            .iter()
            .filter(|leaf| is_ordered(leaf.kind))
            .map(|leaf| separated(&[leaf.path.iter().map(|&part| part.to_owned()).collect()]))
            .collect();
        return Err(refused(format!(
            "{OPTION} names {name:?}, which is no column without fields: choose of {}",
            known.join(", ")
        )));
    };
    if !is_ordered(leaves[place].kind) {
        return Err(refused(format!(
            "{OPTION} names the column {name:?}, whose type has no minimum and maximum in the log: choose numbers, \
             text, dates or timestamps"
        )));
    }
    if !indexed.has(place) {
        return Err(refused(format!(
            "{OPTION} names the column {name:?}, of which files have no statistics: it is none of the first 32, or of \
             those that delta.dataSkippingNumIndexedCols or delta.dataSkippingStatsColumns says. Choose another one, or \
             have the property name it"
        )));
    }
    Ok(path)
}

/// Returns true if statistics have a least and a greatest value of this type.
fn is_ordered(kind: &ColumnType) -> bool {
    match kind {
        ColumnType::Primitive(primitive) => !matches!(primitive, Primitive::Boolean | Primitive::Binary),
        ColumnType::Decimal(..) => true,
        ColumnType::Struct(_) | ColumnType::Array(..) | ColumnType::Map(..) => false,
    }
}

fn refused(message: String) -> TableError {
    TableError::option(OPTION, message)
}

/// The action that gives a table these columns, each a path of the names that the log has.
pub(crate) fn action(columns: &[Vec<String>]) -> Action {
    Action::DomainMetadata(DomainMetadata {
        domain: DOMAIN.to_owned(),
        configuration: json!({"clusteringColumns": columns, "domainName": DOMAIN}).to_string(),
        ..DomainMetadata::default()
    })
}

/// The action that changes a table's columns to these; none where they are these.
fn change(head: &TableHead, columns: &[Vec<String>]) -> Option<Action> {
    let is_same = match head.domains.get(DOMAIN) {
        Some(domain) => columns_of(&domain.configuration).as_deref() == Some(columns),
        None => columns.is_empty(),
    };
    (!is_same).then(|| action(columns))
}

/// Refuses a partitioned state of a table with the feature, which no writer may take away.
pub(crate) fn check_partitions(head: &TableHead, next: &Metadata, what: &str) -> Result<()> {
    if head.is_clustered() && !next.partition_columns.is_empty() {
        return Err(TableError::unsupported(format!(
            "the table has the feature {FEATURE}, which goes with no partitions, and {what} would partition it by {}: \
             make another table",
            next.partition_columns.join(", ")
        )));
    }
    Ok(())
}

/// Refuses columns of which a file of the table has no statistics.
fn check_files(snapshot: &Snapshot, columns: &[Vec<String>]) -> Result<()> {
    let stored = snapshot.stored_paths(columns);
    match without_statistics(snapshot.files().map(AsRef::as_ref), &stored) {
        None => Ok(()),
        Some((add, without)) => Err(refused(format!(
            "{OPTION} names the column {:?}, of which the file {:?} has no statistics with numRecords and nullCount: \
             the protocol asks for them in all files of a clustered table. Choose another column, or write the file again",
            shown(named(columns, &stored, without)),
            add.path
        ))),
    }
}

/// The column whose path in the log is `stored`.
fn named<'a>(columns: &'a [Vec<String>], stored: &[Vec<String>], path: &'a [String]) -> &'a [String] {
    let mut pairs = columns.iter().zip(stored);
    pairs
        .find(|(_, stored)| *stored == path)
        .map_or(path, |(column, _)| column)
}

impl Table {
    /// Changes the columns that the table's rows are clustered by; none end it. No row is written again. Returns the
    /// version that has them.
    ///
    /// # Errors
    /// [`TableError::Option`] when rows cannot be clustered by them, or a file has no statistics of one; a conflict
    /// when a concurrent transaction added such a file, or changed the columns, the schema, the properties or the
    /// protocol.
    pub fn cluster_by(&self, names: &[String], wait: &mut WaitLimit<'_>) -> Result<Version> {
        let snapshot = self.writable().map_err(|error| or_late(error, wait))?;
        let columns = chosen(names, &snapshot.metadata, &snapshot.schema)?;
        check_files(&snapshot, &columns)?;
        let mut actions = Vec::new();
        if snapshot.is_clustered() || !columns.is_empty() {
            let protocol = with_features(&snapshot.protocol, &FEATURES)?;
            actions.extend((protocol != snapshot.protocol).then_some(Action::Protocol(protocol)));
            actions.extend(change(&snapshot, &snapshot.stored_paths(&columns)));
        }
        if actions.is_empty() {
            return Ok(snapshot.version);
        }
        let mut operation = Operation::new("CLUSTER BY");
        // Columns that cannot be understood are replaced.
        let before = snapshot.clustering().unwrap_or_default();
        operation.parameters = [
            ("oldClusteringColumns".to_owned(), separated(&before)),
            ("newClusteringColumns".to_owned(), separated(&columns)),
        ]
        .into();
        operation.changes_data = false;
        let mut transaction = begin(&snapshot, operation)?;
        transaction.actions = actions;
        self.shared()?.commit(transaction, wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_as_spark_writes_them() {
        let shown = |parts: &[&str]| shown(&parts.iter().map(|&part| part.to_owned()).collect::<Vec<_>>());
        assert_eq!(shown(&["a_1"]), "a_1");
        assert_eq!(shown(&["a", "b"]), "a.b");
        assert_eq!(
            shown(&["a.b", "12", "2x", "c`d", "ü"]),
            "`a.b`.`12`.`2x`.`c``d`.`ü`"
        );
    }

    #[test]
    fn columns_are_read_as_lists_of_names_or_as_names() {
        let expected = vec![vec!["a".to_owned()], vec!["b".to_owned(), "c".to_owned()]];
        let Action::DomainMetadata(domain) = action(&expected) else {
            panic!("no domain");
        };
        assert_eq!(columns_of(&domain.configuration), Some(expected));
        assert_eq!(
            columns_of(r#"{"clusteringColumns":["a"]}"#),
            Some(vec![vec!["a".to_owned()]])
        );
        assert_eq!(columns_of(r#"{"clusteringColumns":[7]}"#), None);
        assert_eq!(columns_of("{}"), None);
    }
}
