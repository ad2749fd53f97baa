//! Source rows in the types of the table.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_cast::display::array_value_to_string;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet_writer::Batch;

use crate::error::{Result, TableError};
use crate::head::Head;
use crate::mapping::Mapping;
use crate::rows::Shape;
use crate::scan::adapt;
use crate::schema::TableSchema;

use super::MergeOptions;
use super::keys::Groups;

/// Source rows.
pub(super) struct Source {
    /// The columns that the table has, too.
    schema: SchemaRef,
    batches: Vec<Batch>,
    /// For each row, true if it deletes the rows that it matches; nothing where no column says so.
    flags: Option<Vec<BooleanArray>>,
}

impl Source {
    /// # Errors
    /// [`CommitError::Schema`](delta_commit::CommitError::Schema) when the rows do not fit the table;
    /// [`TableError::Option`] when they lack a column of the key, or have no flags where such a column is named.
    pub fn of(head: &Head, schema: &SchemaRef, batches: &[Batch], options: &MergeOptions) -> Result<Self> {
        let flag = options.delete.flag();
        let flag_place = flag.map(|name| flag_column(schema, name)).transpose()?;
        let is_stored =
            |field: &Field| flag != Some(field.name().as_str()) || head.schema.column(field.name()).is_some();
        let fields = schema.fields().iter().enumerate();
        let stored: Vec<usize> = fields
            .filter(|(_, field)| is_stored(field))
            .map(|(place, _)| place)
            .collect();
        let fields: Vec<Field> = stored.iter().map(|place| schema.field(*place).clone()).collect();
        let given_schema = Arc::new(Schema::new(fields));
        let given = TableSchema::of(&given_schema)?;
        check(head, &given, options)?;
        let shape = Shape::new(&head.schema, &given);
        let mut source = Self {
            schema: Arc::clone(shape.schema()),
            batches: Vec::new(),
            flags: flag_place.map(|_| Vec::new()),
        };
        for batch in batches.iter().filter(|batch| batch.rows() > 0) {
            batch.check_text()?;
            let columns = stored.iter().map(|place| Arc::clone(&batch.columns()[*place]));
            let stored = Batch::new(Arc::clone(&given_schema), columns.collect(), batch.rows())?;
            let fitted = shape.fit(&stored)?;
            let columns = fitted.columns().iter().zip(shape.schema().fields());
            let columns = columns.map(|(column, field)| in_type(column, head, field.name()));
            let columns = columns.collect::<Result<Vec<_>>>()?;
            source
                .batches
                .push(Batch::new(Arc::clone(shape.schema()), columns, batch.rows())?);
            if let (Some(flags), Some(place)) = (&mut source.flags, flag_place) {
                flags.push(batch.columns()[place].as_boolean().clone());
            }
        }
        Ok(source)
    }

    /// The number of rows.
    pub fn rows(&self) -> u64 {
        self.batches.iter().map(|batch| batch.rows() as u64).sum()
    }

    pub fn batches(&self) -> usize {
        self.batches.len()
    }

    pub fn rows_of(&self, batch: usize) -> usize {
        self.batches[batch].rows()
    }

    /// Names of the columns that the table has, too, in the table's order.
    pub fn names(&self) -> Vec<String> {
        let fields = self.schema.fields().iter();
        fields.map(|field| field.name().clone()).collect()
    }

    /// The place of a column.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.schema.column_with_name(name).map(|(place, _)| place)
    }

    /// A column of a batch.
    pub fn array(&self, batch: usize, place: usize) -> &ArrayRef {
        &self.batches[batch].columns()[place]
    }

    /// A column of each batch.
    pub fn column(&self, place: usize) -> impl Iterator<Item = &ArrayRef> {
        self.batches.iter().map(move |batch| &batch.columns()[place])
    }

    /// Columns of a batch, by their names.
    pub fn columns(&self, batch: usize, names: &[String]) -> Result<Vec<ArrayRef>> {
        let columns = names.iter().map(|name| {
            let place = self.place(name).ok_or_else(|| no_key(name))?;
            Ok(Arc::clone(self.array(batch, place)))
        });
        columns.collect()
    }

    /// Returns true if a row deletes the rows that it matches, by its flag.
    pub fn is_flagged(&self, batch: usize, row: usize) -> bool {
        let flags = self.flags.as_ref().map(|flags| &flags[batch]);
        flags.is_some_and(|flags| flags.is_valid(row) && flags.value(row))
    }

    /// Returns true if a row is inserted once all matches are found.
    pub fn is_inserted(&self, groups: &Groups, batch: usize, row: usize) -> bool {
        !groups.is_matched(batch, row) && !self.is_flagged(batch, row)
    }

    /// The number of rows that are inserted.
    pub fn inserted(&self, groups: &Groups, insert: bool) -> u64 {
        if !insert {
            return 0;
        }
        let of = |batch: usize| {
            let rows = 0..self.rows_of(batch);
            rows.filter(|row| self.is_inserted(groups, batch, *row)).count() as u64
        };
        (0..self.batches()).map(of).sum()
    }

    /// The key of a row, in words.
    pub fn key_text(&self, on: &[String], batch: usize, row: usize) -> String {
        let texts = on.iter().map(|name| {
            let column = self.place(name).map(|place| self.array(batch, place));
            let value = column.and_then(|column| array_value_to_string(column, row).ok());
            format!("{name}={}", value.unwrap_or_default())
        });
        texts.collect::<Vec<_>>().join(", ")
    }
}

/// The place of the column that says which matched rows are deleted.
fn flag_column(schema: &SchemaRef, name: &str) -> Result<usize> {
    match schema.column_with_name(name) {
        Some((place, field)) if *field.data_type() == DataType::Boolean => Ok(place),
        Some((_, field)) => Err(TableError::option(
            "delete",
            format!(
                "delete names the column {name:?}, which is {} in the source: name a column of booleans",
                field.data_type()
            ),
        )),
        None => Err(TableError::option(
            "delete",
            format!("delete names the column {name:?}, which the source does not have"),
        )),
    }
}

/// Checks that the rows fit the table, and have the key.
fn check(head: &Head, given: &TableSchema, options: &MergeOptions) -> Result<()> {
    if let Some(name) = options.on.iter().find(|name| given.column(name).is_none()) {
        return Err(no_key(name));
    }
    if !options.insert {
        return head.schema.check_columns(given);
    }
    head.schema.check_rows(given)?;
    let mut partitions = head.metadata.partition_columns.iter();
    match partitions.find(|name| given.column(name).is_none()) {
        Some(name) => Err(TableError::column(
            name,
            format!("the source has no column {name:?}, which the table is partitioned by"),
        )),
        None => Ok(()),
    }
}

fn no_key(name: &str) -> TableError {
    TableError::option(
        "on",
        format!("on names the column {name:?}, which the source does not have: give it, or name another key"),
    )
}

/// A column in exactly the type of the table.
fn in_type(array: &ArrayRef, head: &Head, name: &str) -> Result<ArrayRef> {
    let Some(column) = head.schema.columns.iter().find(|column| column.name == name) else {
        return Ok(Arc::clone(array));
    };
    adapt(array, &column.kind, Mapping::None).map_err(|error| {
        let message = format!("the column {name:?} does not fit: {error}");
        TableError::column(name, message)
    })
}
