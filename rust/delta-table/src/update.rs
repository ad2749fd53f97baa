//! Update of rows by conditions: they leave their files, and are written anew with other values.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use arrow_select::concat::concat;
use delta_commit::{Operation, Version};
use parquet_writer::{Batch, WriterOptions};

use crate::error::{Result, TableError};
use crate::head::Head;
use crate::mapping::Mapping;
use crate::operations::{Condition, describe};
use crate::row_change::{Counts, Dependence, NewRows, PendingChange, RowChange};
use crate::scan::{Positions, Question, adapt, chosen, no_column, repeated};
use crate::schema::{Column, Kind};
use crate::table::Table;

/// Bytes of values that are the same for all rows, which are in memory together.
const AT_ONCE: usize = 16 << 20;

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
        let fields: Vec<_> = columns.iter().map(Column::arrow).collect();
        Ok(Arc::new(Schema::new(fields)))
    }

    /// Finds all rows for which the conditions hold, and writes the files of an update of them. A row of which a
    /// condition is null stays as it is. Returns the version that was read, and no update where no row changes.
    ///
    /// The rows leave their files as those of [`prepare_delete`](Self::prepare_delete) do. With their new values they
    /// are in new files.
    ///
    /// # Errors
    /// [`TableError::Option`] when a condition does not fit its column;
    /// [`CommitError::Schema`](delta_commit::CommitError::Schema) when a new value does not;
    /// [`CommitError::Unsupported`](delta_commit::CommitError::Unsupported) when the table has a change data feed;
    /// [`WriteError::Interrupted`](parquet_writer::WriteError::Interrupted) when `go_on` said no.
    pub fn prepare_update(
        &self,
        conditions: &[Condition],
        values: NewValues<'_>,
        user_metadata: Option<String>,
        writer_options: &WriterOptions,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(Version, Option<PendingChange>)> {
        let mut change = RowChange::begin(self, Some("update()"), writer_options)?;
        change.snapshot().check_rewritable()?;
        let mut assignment = Assignment::of(change.snapshot(), values)?;
        let question = Question::of(change.snapshot(), conditions)?;
        let (shared, snapshot) = (change.shared(), change.snapshot());
        let positions = Positions::new(&shared.place, snapshot, question.of_rows.clone())?;
        let mut updated = 0;
        for add in question.files(change.snapshot())? {
            let found = positions.of(&add, go_on)?;
            updated += found.matching.len();
            let changed = found.matching.clone();
            change.touch(add, found, changed, true)?;
        }
        change.scanned();
        let version = change.snapshot().version;
        if change.is_empty() {
            return Ok((version, None));
        }
        let mut operation = Operation::new("UPDATE");
        operation.user_metadata = user_metadata;
        operation.parameters = [("predicate".to_owned(), describe(conditions))].into();
        operation.metrics = [("numUpdatedRows".to_owned(), updated.to_string())].into();
        let dependence = Dependence {
            predicate: question.predicate(),
            files: Vec::new(),
        };
        let counts = Counts {
            updated,
            ..Counts::default()
        };
        let pending = change.prepare(operation, dependence, counts, Some(&mut assignment), go_on)?;
        Ok((version, Some(pending)))
    }
}

/// The assignment of new values to columns of the table.
struct Assignment<'a> {
    schema: SchemaRef,
    /// The types of the table's columns.
    kinds: Vec<Kind>,
    /// Columns by their places in the schema, and their values.
    literals: Vec<(usize, ArrayRef)>,
    computed: Vec<usize>,
    compute: &'a mut dyn FnMut(&RecordBatch) -> Result<Vec<Batch>>,
    /// Rows of which the literals take [`AT_ONCE`] bytes.
    at_once: usize,
    keeps_partitions: bool,
}

impl<'a> Assignment<'a> {
    fn of(head: &Head, values: NewValues<'a>) -> Result<Self> {
        let NewValues {
            literals: given,
            computed,
            compute,
        } = values;
        let mut literals = Vec::new();
        for (field, value) in given.schema().fields().iter().zip(given.columns()) {
            let place = place(head, field.name())?;
            literals.push((place, literal(&head.schema.columns[place], value)?));
        }
        let computed = computed.iter().map(|name| place(head, name));
        let computed = computed.collect::<Result<Vec<_>>>()?;
        let schema = head.schema.arrow();
        let mut set = literals.iter().map(|(place, _)| place).chain(&computed);
        let is_of_partitions = |place: &usize| {
            let partitions = &head.metadata.partition_columns;
            partitions.contains(schema.field(*place).name())
        };
        let keeps_partitions = !set.any(is_of_partitions);
        let bytes = literals.iter().map(|(_, value)| bytes_of(value)).sum::<usize>();
        Ok(Self {
            schema,
            at_once: (AT_ONCE / bytes.max(1)).max(1),
            kinds: head
                .schema
                .columns
                .iter()
                .map(|column| column.kind.clone())
                .collect(),
            literals,
            computed,
            compute,
            keeps_partitions,
        })
    }

    /// The computed columns of some rows.
    fn computed(&mut self, rows: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let batches = (self.compute)(rows)?;
        let schema = Arc::clone(&self.schema);
        let columns = self.computed.iter().map(|place| {
            let field = schema.field(*place);
            let kind = &self.kinds[*place];
            let unfit = |error: ArrowError| {
                TableError::column(
                    field.name(),
                    format!(
                        "the new values of the column {:?} do not fit: {error}",
                        field.name()
                    ),
                )
            };
            let mut parts = Vec::new();
            for batch in &batches {
                batch.check_text()?;
                let Some((index, _)) = batch.schema().column_with_name(field.name()) else {
                    continue;
                };
                parts.push(adapt(&batch.columns()[index], kind, Mapping::None).map_err(unfit)?);
            }
            let given: usize = parts.iter().map(Array::len).sum();
            if given != rows.num_rows() {
                return Err(TableError::column(
                    field.name(),
                    format!(
                        "the column {:?} has {given} new values for {} rows: give one for each",
                        field.name(),
                        rows.num_rows()
                    ),
                ));
            }
            let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
            concat(&parts).map_err(unfit)
        });
        columns.collect()
    }
}

/// The bytes of an array's values.
fn bytes_of(array: &ArrayRef) -> usize {
    let data = array.to_data();
    data.get_slice_memory_size().unwrap_or(0)
}

/// The place of a column in the table's schema.
fn place(head: &Head, name: &str) -> Result<usize> {
    let mut columns = head.schema.columns.iter();
    match columns.position(|column| column.name == name) {
        Some(place) => Ok(place),
        None => Err(no_column(head, name)),
    }
}

/// A literal in its column's type: an array of one value.
fn literal(column: &Column, value: &ArrayRef) -> Result<ArrayRef> {
    let refuse = |why: String| {
        let message = format!("the new value of the column {:?} {why}", column.name);
        TableError::column(&column.name, message)
    };
    if value.len() != 1 {
        return Err(refuse(format!("is not one, but {}", value.len())));
    }
    let value = adapt(value, &column.kind, Mapping::None)
        .map_err(|error| refuse(format!("does not fit: {error}")))?;
    if value.is_null(0) && !column.nullable {
        return Err(refuse("is null, which the table does not allow there".to_owned()));
    }
    Ok(value)
}

impl NewRows for Assignment<'_> {
    fn changed(&mut self, _path: &str, _first: usize, rows: &RecordBatch) -> Result<Batch> {
        let mut columns = rows.columns().to_vec();
        for (place, value) in &self.literals {
            columns[*place] =
                repeated(value, rows.num_rows()).map_err(|error| TableError::Malformed(error.to_string()))?;
        }
        if !self.computed.is_empty() {
            let computed = self.computed(rows)?;
            for (place, values) in self.computed.iter().zip(computed) {
                columns[*place] = values;
            }
        }
        Ok(Batch::new(Arc::clone(&self.schema), columns, rows.num_rows())?)
    }

    fn at_once(&self) -> usize {
        self.at_once
    }

    fn keeps_partitions(&self) -> bool {
        self.keeps_partitions
    }

    fn added(&mut self) -> Result<Option<Batch>> {
        Ok(None)
    }
}
