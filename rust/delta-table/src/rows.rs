//! The conversion of given rows to rows of the table.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use parquet_writer::{Batch, element_field};

use crate::error::{Result, TableError};
use crate::fit::fitted;
use crate::schema::TableSchema;

/// A conversion of batches of one schema to rows of the table.
pub(crate) struct RowConversion {
    /// The schema of the files: the table's columns that the rows have, in the table's order.
    schema: SchemaRef,
}

impl RowConversion {
    /// The conversion of rows of `given` for a table of `table`, which must be able to hold them.
    pub fn new(table: &TableSchema, given: &TableSchema) -> Self {
        let columns = table
            .columns
            .iter()
            .filter(|column| given.column(&column.name).is_some());
        let fields: Vec<Field> = columns.map(crate::schema::TableColumn::arrow).collect();
        Self {
            schema: Arc::new(Schema::new(fields)),
        }
    }

    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Converts the batch to this shape's columns, order and types.
    ///
    /// # Errors
    /// [`delta_commit::CommitError::Schema`] when it has other columns, or a value does not fit.
    pub fn fit(&self, batch: &Batch) -> Result<Batch> {
        let given = batch.schema();
        if given.fields().len() != self.schema.fields().len() {
            return Err(TableError::schema(format!(
                "the rows have {} columns, and those before them {}: all batches of an append have the same",
                given.fields().len(),
                self.schema.fields().len()
            )));
        }
        let mut columns = Vec::with_capacity(given.fields().len());
        let mut fields = Vec::with_capacity(given.fields().len());
        for field in self.schema.fields() {
            let Some((index, _)) = given.column_with_name(field.name()) else {
                return Err(TableError::column(
                    field.name(),
                    format!(
                        "the rows have no column {:?}, which those before them had",
                        field.name()
                    ),
                ));
            };
            let column = convert(&batch.columns()[index], field)?;
            fields.push(field.as_ref().clone().with_data_type(column.data_type().clone()));
            columns.push(column);
        }
        Ok(Batch::new(Arc::new(Schema::new(fields)), columns, batch.rows())?)
    }
}

/// Returns true if the writer takes this type where `target` is declared, and writes the same file.
fn is_same(data_type: &DataType, target: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => *target == DataType::Utf8,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => *target == DataType::Binary,
        DataType::Dictionary(_, values) => is_same(values, target),
        other => other == target,
    }
}

fn convert(column: &ArrayRef, field: &Field) -> Result<ArrayRef> {
    let target = field.data_type();
    if is_same(column.data_type(), target) {
        return Ok(Arc::clone(column));
    }
    fitted(column, target).map_err(|why| {
        let name = field.name();
        TableError::column(name, format!("the column {name:?} does not fit: {why}"))
    })
}

/// The precision that values of a type may have and a table's type cannot keep.
pub(crate) fn finer(data_type: &DataType) -> Option<&'static str> {
    match data_type {
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            Some("nanoseconds that microseconds would lose: round it first, as tables hold microseconds")
        }
        DataType::Date64 => Some("times of day that dates would lose: cast it to a timestamp, or to date32"),
        DataType::Struct(fields) => fields.iter().find_map(|field| finer(field.data_type())),
        DataType::Dictionary(_, values) => finer(values),
        DataType::RunEndEncoded(_, values) => finer(values.data_type()),
        other => element_field(other).and_then(|field| finer(field.data_type())),
    }
}
