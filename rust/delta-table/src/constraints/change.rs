//! Constraints that come and go.

use std::fmt;
use std::sync::Arc;

use delta_commit::actions::{Action, Metadata};
use delta_commit::{Operation, Transaction, Version, WaitLimit};

use crate::create::with_feature;
use crate::error::{Result, TableError};
use crate::operations::begin;
use crate::sql::{self, Purpose, Scope};
use crate::table::{SharedTable, Table, or_late, patient};

use super::files::check_table;
use super::{Constraint, FEATURE, PREFIX, name_of, stated};

/// A constraint that all rows of the table satisfy, and that is not committed yet.
pub struct PendingConstraint {
    shared: Arc<SharedTable>,
    transaction: Transaction,
}

impl fmt::Debug for PendingConstraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingConstraint").finish_non_exhaustive()
    }
}

impl PendingConstraint {
    /// Commits it; returns the version from which on it holds.
    ///
    /// # Errors
    /// A conflict when a concurrent transaction added rows, which nobody has compared with the constraint, removed
    /// rows, or changed the schema, the properties or the protocol.
    pub fn commit(self, wait: &mut WaitLimit<'_>) -> Result<Version> {
        self.shared.commit(self.transaction, wait)
    }
}

impl Table {
    /// Compares all rows of the table with a constraint that is to come. Names are stored in lower case, as Spark does.
    ///
    /// # Errors
    /// [`TableError::Constraint`] when it is not true for a row; [`TableError::Option`] when the expression is not
    /// understood, or the table has a constraint of this name;
    /// [`CommitError::Unsupported`](delta_commit::CommitError::Unsupported) when the table asks its writers for what is
    /// not built; [`WriteError::Interrupted`](parquet_writer::WriteError::Interrupted) when `go_on` said no.
    pub fn prepare_constraint(
        &self,
        name: &str,
        expression: &str,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<PendingConstraint> {
        let snapshot = self.writable()?;
        let name = new_name(name, &snapshot.metadata)?;
        let scope = Scope {
            schema: &snapshot.schema,
            partition_columns: &snapshot.metadata.partition_columns,
            purpose: Purpose::Added,
            of_files: false,
            sides: &[],
        };
        let constraint = Constraint::of(&name, expression, scope);
        let constraint = constraint.map_err(|fault| sql::refused("expression", expression, &fault))?;
        let shared = self.shared()?;
        check_table(&shared.storage, &snapshot, &constraint, go_on)?;
        let mut metadata = snapshot.metadata.as_ref().clone();
        metadata
            .configuration
            .insert(format!("{PREFIX}{name}"), expression.to_owned());
        let mut transaction = begin(&snapshot, operation("ADD CONSTRAINT", &name, expression))?;
        // A file that another transaction adds meanwhile was not looked at.
        transaction.reads.whole_table = true;
        let protocol = with_feature(&snapshot.protocol, FEATURE, false)?;
        transaction.actions.extend(protocol.map(Action::Protocol));
        transaction.actions.push(Action::Metadata(metadata));
        Ok(PendingConstraint { shared, transaction })
    }

    /// Drops a constraint, also one that is not understood.
    ///
    /// # Errors
    /// [`TableError::Option`] when the table has none of this name; a conflict when a concurrent transaction changed
    /// the schema, the properties or the protocol.
    pub fn drop_constraint(&self, name: &str, wait: &mut WaitLimit<'_>) -> Result<Version> {
        let shared = self.shared()?;
        let head = shared.refresh(&mut patient(wait));
        let head = head.map_err(|error| or_late(error, wait))?;
        head.check_features()?;
        let mut metadata = head.metadata.as_ref().clone();
        let is_named =
            |property: &str| name_of(property).is_some_and(|known| known.eq_ignore_ascii_case(name));
        let dropped = metadata
            .configuration
            .iter()
            .find(|(property, _)| is_named(property));
        let Some((property, expression)) = dropped.map(|(key, value)| (key.clone(), value.clone())) else {
            return Err(no_constraint(name, &metadata));
        };
        metadata.configuration.remove(&property);
        let mut transaction = begin(&head, operation("DROP CONSTRAINT", name, &expression))?;
        transaction.actions.push(Action::Metadata(metadata));
        shared.commit(transaction, wait)
    }
}

fn operation(what: &str, name: &str, expression: &str) -> Operation {
    let mut operation = Operation::new(what);
    operation.parameters = [
        ("name".to_owned(), name.to_owned()),
        ("expr".to_owned(), expression.to_owned()),
    ]
    .into();
    operation.changes_data = false;
    operation
}

/// The name as it is stored.
fn new_name(name: &str, metadata: &Metadata) -> Result<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(is_part) {
        return Err(TableError::option(
            "name",
            format!("name={name:?} is not accepted: give letters, digits and underscores"),
        ));
    }
    let lower = name.to_ascii_lowercase();
    match stated(metadata).find(|(known, _)| known.eq_ignore_ascii_case(&lower)) {
        None => Ok(lower),
        Some((known, expression)) => Err(TableError::option(
            "name",
            format!(
                "the table has a constraint {known} already, CHECK ({expression}): drop it first, or take another name"
            ),
        )),
    }
}

fn no_constraint(name: &str, metadata: &Metadata) -> TableError {
    let names: Vec<&str> = stated(metadata).map(|(known, _)| known).collect();
    let known = if names.is_empty() {
        "it has none".to_owned()
    } else {
        format!("it has {}", names.join(", "))
    };
    TableError::option("name", format!("the table has no constraint {name:?}: {known}"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::{Duration, Instant};

    use arrow_array::{Int64Array, RecordBatch};
    use arrow_schema::{DataType, Field, Schema};
    use delta_commit::CommitError;
    use delta_commit::conflict::{Conflict, ConflictKind};
    use parquet_writer::{OptionInput, WriterOptions};

    use super::*;
    use crate::{AppendOptions, CompactOptions, CreateMode, CreateOptions};

    fn wait_limit() -> WaitLimit<'static> {
        WaitLimit::until(Instant::now() + Duration::from_secs(60))
    }

    fn options() -> WriterOptions {
        WriterOptions::new(OptionInput::default()).unwrap()
    }

    fn table(root: &Path, isolation: &str) -> Table {
        let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true)]));
        let create = CreateOptions {
            properties: [("delta.isolationLevel".to_owned(), isolation.to_owned())].into(),
            ..CreateOptions::default()
        };
        let table = Table::create(root, &schema, create, CreateMode::Error, &mut wait_limit()).unwrap();
        append(&table, &[1, 2]).unwrap();
        append(&table, &[3]).unwrap();
        table
    }

    fn append(table: &Table, ids: &[i64]) -> Result<Version> {
        let schema = table.snapshot()?.schema.arrow();
        let rows = RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from(ids.to_vec()))]).unwrap();
        let mut append = table.append(AppendOptions::default(), options())?;
        append.write(&rows.into(), &mut || true)?;
        append.commit(&mut wait_limit(), &mut || true)
    }

    fn pending(table: &Table) -> PendingConstraint {
        table
            .prepare_constraint("Positive", "id > 0", &mut || true)
            .unwrap()
    }

    fn conflict(error: TableError) -> Conflict {
        match error {
            TableError::Commit(CommitError::Conflict(conflict)) => *conflict,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn rows_that_come_after_the_look_at_all_rows_are_a_conflict() {
        for isolation in ["Serializable", "WriteSerializable"] {
            let folder = tempfile::tempdir().unwrap();
            let table = table(folder.path(), isolation);
            let late = pending(&table);
            append(&table, &[-1]).unwrap();
            let refused = conflict(late.commit(&mut wait_limit()).unwrap_err());
            let is_append = matches!(refused.kind, ConflictKind::ConcurrentAppend { .. });
            assert!(is_append && !refused.only_moved, "{isolation}: {refused}");
        }
    }

    #[test]
    fn rows_that_only_move_meanwhile_are_a_reason_to_look_again() {
        let folder = tempfile::tempdir().unwrap();
        let table = table(folder.path(), "Serializable");
        let late = pending(&table);
        let mut compaction = table.compact(CompactOptions::default(), options()).unwrap();
        let compacted = compaction.rewrite(&mut || true).unwrap().unwrap();
        compacted.commit(&mut wait_limit()).unwrap();
        assert!(conflict(late.commit(&mut wait_limit()).unwrap_err()).only_moved);
        pending(&table).commit(&mut wait_limit()).unwrap();
        assert!(matches!(
            append(&table, &[-1]),
            Err(TableError::Constraint { .. })
        ));
    }

    #[test]
    fn a_look_that_is_interrupted_adds_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let table = table(folder.path(), "Serializable");
        let stopped = table.prepare_constraint("positive", "id > 0", &mut || false);
        assert!(stopped.is_err());
        assert_eq!(append(&table, &[-1]).unwrap(), 3);
    }
}
