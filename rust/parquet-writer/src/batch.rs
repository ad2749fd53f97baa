//! Rows as they come in.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, StructArray, make_array};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Schema, SchemaRef};

use crate::error::{Result, WriteError};
use crate::feed::copied;
use crate::integrity;
use crate::schema::plain_array;

/// Columns of one length with their schema.
///
/// A [`RecordBatch`] would not do: it refuses nulls in non-nullable fields with an error of its own, and has no place
/// for a struct's own nulls.
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
    /// [`WriteError::Data`] when a column breaks the rules of its layout, as far as that is not for each run of rows to
    /// find out.
    pub fn from_struct(schema: SchemaRef, array: StructArray) -> Result<Self> {
        let rows = array.len();
        let (_, columns, nulls) = array.into_parts();
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        let mut columns = columns
            .into_iter()
            .map(without_stray_offsets)
            .collect::<Result<Vec<_>>>()?;
        // First of all: kernels follow offsets, keys and the ends of runs without looking.
        integrity::check_layout(&schema, &columns, nulls.as_ref())?;
        if let Some(nulls) = nulls {
            columns = columns
                .iter()
                .map(|column| mask(column, &nulls))
                .collect::<Result<_>>()?;
        }
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
            return Err(WriteError::schema(format!(
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

    /// Checks flat text and bytes now. Otherwise they are checked run by run, as they are written.
    ///
    /// # Errors
    /// [`WriteError::Data`] names the column.
    pub fn check_text(&self) -> Result<()> {
        let mut columns = self.schema.fields().iter().zip(&self.columns);
        columns.try_for_each(|(field, column)| integrity::check_run(field.name(), column))
    }

    /// The same rows in buffers of their own, and in the plain layout of each type: nothing of this batch is kept.
    ///
    /// # Errors
    /// [`WriteError::Encode`] when a column cannot be copied.
    pub fn copied(&self) -> Result<Self> {
        let columns = self.columns.iter().map(|column| copied(&[&plain_array(column)?]));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let fields = self.schema.fields().iter().zip(&columns);
        let fields: Vec<_> = fields
            .map(|(field, column)| field.as_ref().clone().with_data_type(column.data_type().clone()))
            .collect();
        Ok(Self {
            schema: Arc::new(Schema::new(fields)),
            columns,
            rows: self.rows,
        })
    }

    /// Rows in the batch.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The schema of the columns.
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

/// Replaces empty text and binary arrays whose offsets do not begin at 0 by arrays that begin there.
///
/// The Arrow columnar format, "Variable-size Binary Layout", lets an empty array begin anywhere in its buffer.
/// Importers cut that buffer to no bytes at all, so that code which copies rows would read behind its end.
fn without_stray_offsets(column: ArrayRef) -> Result<ArrayRef> {
    if !column.data_type().is_nested() {
        return Ok(column);
    }
    Ok(match mended(&column.to_data())? {
        None => column,
        Some(data) => make_array(data),
    })
}

/// The data with such arrays replaced; none where there is nothing to replace.
fn mended(data: &ArrayData) -> Result<Option<ArrayData>> {
    let is_variable = matches!(
        data.data_type(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary
    );
    let begins = |offsets: &Buffer| offsets.iter().any(|byte| *byte != 0);
    if is_variable && data.is_empty() && data.buffers().first().is_some_and(begins) {
        return Ok(Some(ArrayData::new_empty(data.data_type())));
    }
    let children = data.child_data();
    let mended = children.iter().map(mended).collect::<Result<Vec<_>>>()?;
    if mended.iter().all(Option::is_none) {
        return Ok(None);
    }
    let children = mended.into_iter().zip(children);
    let children = children.map(|(mended, child)| mended.unwrap_or_else(|| child.clone()));
    let builder = data.clone().into_builder().child_data(children.collect());
    Ok(Some(builder.build()?))
}

/// `column` with nulls where `nulls` has them.
fn mask(column: &ArrayRef, nulls: &NullBuffer) -> Result<ArrayRef> {
    if column.data_type().is_null() {
        return Ok(Arc::clone(column));
    }
    let mask = arrow_array::BooleanArray::new(!nulls.inner(), None);
    Ok(match column.as_ref().nulls() {
        // Runs have no validity of their own: the expanded form can carry it.
        None if matches!(column.data_type(), DataType::RunEndEncoded(_, _)) => {
            arrow_select::nullif::nullif(&crate::schema::expand_runs(column)?, &mask)?
        }
        own => {
            let both = NullBuffer::union(own, Some(nulls));
            let data = column.to_data().into_builder().nulls(both).build()?;
            make_array(data)
        }
    })
}
