//! The comparison of constraints with the rows of files.

use std::sync::Arc;

use delta_commit::actions::Add;
use parquet_writer::{Batch, WriteError};

use crate::deletion_vectors;
use crate::error::Result;
use crate::head::TableHead;
use crate::scan::{FileRows, chosen};
use crate::schema::TableColumn;
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
