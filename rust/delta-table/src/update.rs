//! Update of rows by conditions: they leave their files, and are written anew with other values.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use delta_commit::{Operation, Version};
use parquet_writer::{Batch, WriterOptions};

use crate::conditions::Conditions;
use crate::error::Result;
use crate::head::TableHead;
use crate::row_change::{Dependence, NewRows, PendingChange, RowChange, RowCounts, UpdatedRows};
use crate::scan::{Question, RowSearch, chosen};
use crate::schema::TableColumn;
use crate::table::Table;
use crate::values::{Argument, NewColumns};

/// The new values of an update, by the names of their columns.
pub struct NewValues<'a> {
    /// Values that are the same for all rows, in one row.
    pub literals: RecordBatch,
    /// Columns whose values are computed.
    pub computed: Vec<String>,
    /// Computes these columns from some rows of the table, in batches of as many rows together.
    pub compute: &'a mut dyn FnMut(&RecordBatch) -> Result<Vec<Batch>>,
}

impl Table {
    /// The schema of some of the table's columns, in the order of their names here.
    ///
    /// # Errors
    /// [`CommitError::Schema`](delta_commit::CommitError::Schema) when the table lacks one; as
    /// [`head`](Self::head).
    pub fn columns(&self, names: &[String]) -> Result<SchemaRef> {
        let head = self.head()?;
        let columns = chosen(&head, Some(names))?;
        let fields: Vec<_> = columns.iter().map(TableColumn::arrow).collect();
        Ok(Arc::new(Schema::new(fields)))
    }

    /// Finds all rows for which the conditions hold, and writes the files of an update of them. A row of which a
    /// condition is null stays as it is. Returns the version that was read, and no update where no row changes.
    ///
    /// The rows leave their files as those of [`prepare_delete`](Self::prepare_delete) do. With their new values they
    /// are in new files.
    ///
    /// # Errors
    /// [`TableError::Option`](crate::TableError::Option) when a condition does not fit its column;
    /// [`CommitError::Schema`](delta_commit::CommitError::Schema) when a new value does not;
    /// [`WriteError::Interrupted`](parquet_writer::WriteError::Interrupted) when `go_on` said no.
    pub fn prepare_update(
        &self,
        conditions: &Conditions,
        values: NewValues<'_>,
        user_metadata: Option<String>,
        writer_options: &WriterOptions,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(Version, Option<PendingChange>)> {
        let mut change = RowChange::begin(self, Some("update()"), writer_options)?;
        let mut assignment = Assignment::of(change.snapshot(), values)?;
        let question = Question::of(change.snapshot(), conditions, "where")?;
        let (shared, snapshot) = (change.shared(), change.snapshot());
        let positions = RowSearch::new(&shared.storage, snapshot, question.of_rows.clone())?;
        let mut updated = 0;
        for add in question.files(change.snapshot())? {
            let found = positions.of(&add, go_on)?;
            updated += found.matching.len();
            let changed = found.matching.clone();
            change.touch(add, found, changed, true);
        }
        change.scanned();
        let version = change.snapshot().version;
        if change.is_empty() {
            return Ok((version, None));
        }
        let mut operation = Operation::new("UPDATE");
        operation.user_metadata = user_metadata;
        operation.parameters = [("predicate".to_owned(), conditions.describe())].into();
        operation.metrics = [("numUpdatedRows".to_owned(), updated.to_string())].into();
        let dependence = Dependence {
            predicate: question.predicate(),
            files: Vec::new(),
        };
        let counts = RowCounts {
            updated,
            ..RowCounts::default()
        };
        let pending = change.prepare(operation, dependence, counts, Some(&mut assignment), go_on)?;
        Ok((version, Some(pending)))
    }
}

/// The assignment of new values to columns of the table.
struct Assignment<'a> {
    schema: SchemaRef,
    new: NewColumns,
    compute: &'a mut dyn FnMut(&RecordBatch) -> Result<Vec<Batch>>,
    keeps_partitions: bool,
}

impl<'a> Assignment<'a> {
    fn of(head: &TableHead, values: NewValues<'a>) -> Result<Self> {
        let NewValues {
            literals,
            computed,
            compute,
        } = values;
        let new = NewColumns::of(
            head,
            &literals,
            &computed,
            Argument {
                what: "set".to_owned(),
                option: "set",
            },
        )?;
        let columns = &head.schema.columns;
        let keeps_partitions = !new
            .places()
            .any(|place| head.is_partition_column(&columns[place]));
        Ok(Self {
            schema: head.schema.arrow(),
            new,
            compute,
            keeps_partitions,
        })
    }
}

impl NewRows for Assignment<'_> {
    fn changed(&mut self, _path: &str, _first: usize, rows: &RecordBatch) -> Result<Vec<UpdatedRows>> {
        let mut columns = rows.columns().to_vec();
        self.new
            .put(&mut columns, rows.num_rows(), || (self.compute)(rows))?;
        let rows = Batch::new(Arc::clone(&self.schema), columns, rows.num_rows())?;
        Ok(vec![UpdatedRows { rows, places: None }])
    }

    fn reads(&self, _column: &TableColumn) -> bool {
        true
    }

    fn at_once(&self) -> usize {
        self.new.at_once()
    }

    fn keeps_partitions(&self) -> bool {
        self.keeps_partitions
    }

    fn added(&mut self) -> Result<Option<Batch>> {
        Ok(None)
    }
}
