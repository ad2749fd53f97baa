//! The comparison of constraints with the rows of files.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use delta_commit::actions::Add;
use parquet_writer::{Batch, WriteError};
use serde_json::Value;

use crate::deletion_vectors;
use crate::error::{Result, TableError};
use crate::head::TableHead;
use crate::scan::{FileRows, chosen};
use crate::schema::{ColumnType, TableColumn};
use crate::single_flight::WaitProbe;
use crate::snapshot::Snapshot;
use crate::storage::TableStorage;

use super::{Constraint, Constraints};

/// Refuses files that are to come with a row for which a constraint of the table is not true.
///
/// # Errors
/// [`TableError::Constraint`] names the first such file; as `look`.
pub(crate) fn check_files(
    storage: &Arc<dyn TableStorage>,
    head: &Arc<TableHead>,
    adds: &[Add],
    look: WaitProbe<'_>,
) -> Result<()> {
    let constraints = Constraints::of(&head.metadata, &head.schema)?;
    if constraints.0.is_empty() {
        return Ok(());
    }
    let columns = columns(&constraints.0, head)?;
    let snapshot = Arc::new(Snapshot::empty(Arc::clone(head)));
    // Nothing says that rows of a file without `data_change` were in the table before.
    for add in adds {
        let add = Arc::new(add.clone());
        let mut before = 0;
        for rows in rows_of(storage, &snapshot, &columns, &add)? {
            look()?;
            let rows = Batch::from(rows?);
            constraints.check(&rows, |row| format!("row {} of {}", before + row, add.path))?;
            before += rows.rows();
        }
    }
    Ok(())
}

/// Refuses files that are to come with a null in a column, or a field of a struct, that allows none.
///
/// A count of no nulls in the statistics is believed; without one, rows are read.
///
/// # Errors
/// [`TableError::Option`] names the first such row; as `look`.
pub(crate) fn check_nulls(
    storage: &Arc<dyn TableStorage>,
    head: &Arc<TableHead>,
    adds: &[Add],
    look: WaitProbe<'_>,
) -> Result<()> {
    let snapshot = Arc::new(Snapshot::empty(Arc::clone(head)));
    let in_files = |column: &&TableColumn| !head.metadata.partition_columns.contains(&column.name);
    for add in adds {
        let stats: Value = add.stats.as_deref().map_or(Value::Null, |stats| {
            serde_json::from_str(stats).unwrap_or_default()
        });
        let counts = stats.get("nullCount").unwrap_or(&Value::Null);
        let doubtful = head.schema.columns.iter().filter(in_files);
        let doubtful: Vec<TableColumn> = doubtful
            .filter(|column| may_break(column, counts))
            .cloned()
            .collect();
        if doubtful.is_empty() {
            continue;
        }
        let add = Arc::new(add.clone());
        let mut before = 0;
        // As they are read: the comparison with what is allowed is below, with words of its own.
        let read: Vec<TableColumn> = doubtful.iter().map(nullable).collect();
        for rows in rows_of(storage, &snapshot, &read, &add)? {
            look()?;
            let rows = rows?;
            for (column, values) in doubtful.iter().zip(rows.columns()) {
                if let Some((path, row)) = first_null(column, values, None) {
                    return Err(TableError::option(
                        "adds",
                        format!(
                            "row {} of {} has null in {path:?}, and the table allows no null there: leave such rows out",
                            before + row,
                            add.path
                        ),
                    ));
                }
            }
            before += rows.num_rows();
        }
    }
    Ok(())
}

/// The column, with nulls in it and in the fields of its structs.
fn nullable(column: &TableColumn) -> TableColumn {
    let kind = match &column.kind {
        ColumnType::Struct(fields) => ColumnType::Struct(fields.iter().map(nullable).collect()),
        other => other.clone(),
    };
    TableColumn {
        kind,
        nullable: true,
        ..column.clone()
    }
}

/// Returns true unless the counts of nulls say that a file has none where the column allows none. Lists and maps have
/// no counts, so that they are read.
fn may_break(column: &TableColumn, counts: &Value) -> bool {
    let count = counts.get(&column.name).unwrap_or(&Value::Null);
    let below = match &column.kind {
        ColumnType::Struct(fields) => fields.iter().any(|field| may_break(field, count)),
        _ => false,
    };
    below || !column.nullable && !counts_none(count)
}

/// Returns true if a count of nulls is zero. A field of a struct is null wherever the struct is.
fn counts_none(count: &Value) -> bool {
    match count {
        Value::Object(fields) => fields.values().any(counts_none),
        count => count.as_i64() == Some(0),
    }
}

/// The path of a column, or of a field below it, that allows no null and has one, and the first row where. `above` says
/// which rows have a value in the structs around it.
fn first_null(
    column: &TableColumn,
    values: &ArrayRef,
    above: Option<&NullBuffer>,
) -> Option<(String, usize)> {
    let own = values.logical_nulls();
    if let Some(own) = own.as_ref().filter(|_| !column.nullable) {
        let is_asked = |row: usize| above.is_none_or(|above| above.is_valid(row));
        if let Some(row) = (0..values.len()).find(|row| own.is_null(*row) && is_asked(*row)) {
            return Some((column.name.clone(), row));
        }
    }
    let (ColumnType::Struct(fields), Some(group)) = (&column.kind, values.as_struct_opt()) else {
        return None;
    };
    let there = NullBuffer::union(above, own.as_ref());
    fields.iter().find_map(|field| {
        let below = group.column_by_name(&field.name)?;
        let (path, row) = first_null(field, below, there.as_ref())?;
        Some((format!("{}.{path}", column.name), row))
    })
}

/// Refuses a constraint that is not true for a row of the table.
///
/// # Errors
/// [`TableError::Constraint`] with the number of such rows; [`WriteError::Interrupted`] when `go_on` said no.
pub(super) fn check_table(
    storage: &Arc<dyn TableStorage>,
    snapshot: &Arc<Snapshot>,
    constraint: &Constraint,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<()> {
    let columns = columns(std::slice::from_ref(constraint), snapshot)?;
    let mut broken = 0;
    let mut example = None;
    for add in snapshot.files() {
        for rows in rows_of(storage, snapshot, &columns, add)? {
            if !go_on() {
                return Err(WriteError::Interrupted.into());
            }
            let rows = Batch::from(rows?);
            let Some((first, count)) = constraint.violations(&rows)? else {
                continue;
            };
            broken += count;
            if example.is_none() {
                example = Some(constraint.values(&rows, first));
            }
        }
    }
    match example {
        None => Ok(()),
        Some(values) => Err(constraint.broken(format!(
            "{} is not true for rows of the table, {broken} in all, such as one with {values}: update or delete them, \
             and add the constraint then",
            constraint.shown
        ))),
    }
}

/// The columns that constraints name.
fn columns(constraints: &[Constraint], head: &TableHead) -> Result<Vec<TableColumn>> {
    let mut names: Vec<String> = Vec::new();
    for column in constraints.iter().flat_map(Constraint::columns) {
        if !names.contains(&column.path[0]) {
            names.push(column.path[0].clone());
        }
    }
    chosen(head, Some(&names))
}

/// The rows of a file that are not deleted.
fn rows_of(
    storage: &Arc<dyn TableStorage>,
    snapshot: &Arc<Snapshot>,
    columns: &[TableColumn],
    add: &Arc<Add>,
) -> Result<FileRows> {
    let deleted = deletion_vectors::read(storage, add)?;
    FileRows::in_columns(storage, snapshot, columns.to_vec(), add, deleted)
}
