//! Rows as they come in.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, StructArray, make_array};
use arrow_buffer::NullBuffer;
use arrow_schema::SchemaRef;

use crate::error::{Result, WriteError};

/// Columns of one length with their schema.
///
/// Not a [`RecordBatch`]: that one refuses nulls in non-nullable fields with an error of its own, and a struct's own
/// nulls have no place in it.
#[derive(Debug, Clone)]
pub struct Batch {
    pub(crate) schema: SchemaRef,
    pub(crate) columns: Vec<ArrayRef>,
    pub(crate) rows: usize,
}

impl Batch {
    /// A batch from a struct array; where the struct itself is null, every column is.
    ///
    /// # Errors
    /// When a column's arrays are inconsistent.
    pub fn from_struct(schema: SchemaRef, array: StructArray) -> Result<Self> {
        let rows = array.len();
        let (_, columns, nulls) = array.into_parts();
        let columns = match nulls.filter(|nulls| nulls.null_count() > 0) {
            None => columns,
            Some(nulls) => columns
                .iter()
                .map(|column| mask(column, &nulls))
                .collect::<Result<_>>()?,
        };
        Ok(Self {
            schema,
            columns,
            rows,
        })
    }

    /// A batch of columns that `schema` names in their order, each of `rows` rows.
    ///
    /// # Errors
    /// [`WriteError::Schema`] when there are more or fewer columns, or one is longer or shorter.
    pub fn new(schema: SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<Self> {
        if schema.fields().len() != columns.len() || columns.iter().any(|column| column.len() != rows) {
            return Err(WriteError::Schema(format!(
                "a batch of {rows} rows needs {} columns of that length",
                schema.fields().len()
            )));
        }
        Ok(Self {
            schema,
            columns,
            rows,
        })
    }

    /// Rows in the batch.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// What the columns are.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The columns, in the order of the schema.
    #[must_use]
    pub fn columns(&self) -> &[ArrayRef] {
        &self.columns
    }

    /// `rows` rows from `start` on, which must be there; nothing is copied.
    #[must_use]
    pub fn slice(&self, start: usize, rows: usize) -> Self {
        Self {
            schema: Arc::clone(&self.schema),
            columns: self
                .columns
                .iter()
                .map(|column| column.slice(start, rows))
                .collect(),
            rows,
        }
    }
}

impl From<RecordBatch> for Batch {
    fn from(batch: RecordBatch) -> Self {
        let rows = batch.num_rows();
        let (schema, columns, _) = batch.into_parts();
        Self {
            schema,
            columns,
            rows,
        }
    }
}

/// `column` with nulls where `nulls` has them.
fn mask(column: &ArrayRef, nulls: &NullBuffer) -> Result<ArrayRef> {
    if column.data_type().is_null() {
        return Ok(Arc::clone(column));
    }
    let mask = arrow_array::BooleanArray::new(!nulls.inner(), None);
    Ok(match column.as_ref().nulls() {
        // Runs have no validity of their own: the expanded form can carry it.
        None if matches!(column.data_type(), arrow_schema::DataType::RunEndEncoded(_, _)) => {
            arrow_select::nullif::nullif(&crate::schema::expand_runs(column)?, &mask)?
        }
        own => {
            let both = NullBuffer::union(own, Some(nulls));
            let data = column.to_data().into_builder().nulls(both).build()?;
            make_array(data)
        }
    })
}
