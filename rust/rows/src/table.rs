//! Rows under construction.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, FieldRef, Schema, SchemaRef};

use crate::column::ColumnBuilder;
use crate::error::{Misfit, UnsupportedColumn};
use crate::keys::Keys;
use crate::large_values::LargeValues;

/// The most rows of a batch. Larger batches cause more page faults: with 8,192 rows, NDJSON of logs takes 10% longer.
const MOST_ROWS: usize = 2048;
const MOST_BYTES: usize = 8 << 20;
/// The number of rows between two counts of bytes.
const ROWS_BETWEEN_LOOKS: usize = 64;
/// The bytes of large values between two counts of all bytes.
const LARGE_BYTES_BETWEEN_LOOKS: usize = 1 << 20;

/// The treatment of a key that the schema does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extra {
    /// The row is refused.
    Error,
    /// The value is passed over.
    Ignore,
}

/// The columns of a row, or of a struct inside of one, with their keys.
#[derive(Debug)]
pub struct Fields {
    /// One column for each field, in the schema's order.
    pub columns: Vec<ColumnBuilder>,
    /// The keys and the columns that they lead to.
    pub keys: Keys,
}

impl Fields {
    pub(crate) fn new(path: &str, fields: &[FieldRef]) -> Result<Self, UnsupportedColumn> {
        let path_of = |name: &str| {
            if path.is_empty() {
                name.to_owned()
            } else {
                format!("{path}.{name}")
            }
        };
        let mut names = HashSet::new();
        if let Some(field) = fields.iter().find(|field| !names.insert(field.name())) {
            let path = path_of(field.name());
            return Err(UnsupportedColumn::Repeated { path });
        }
        let column = |field: &FieldRef| ColumnBuilder::new(&path_of(field.name()), field);
        Ok(Self {
            columns: fields.iter().map(column).collect::<Result<_, _>>()?,
            keys: Keys::new(fields.iter().map(|field| field.name().as_str())),
        })
    }

    /// Ends a row: columns that got nothing since `len` get a null.
    ///
    /// # Errors
    /// When one of them takes no nulls.
    #[inline]
    pub fn fill(&mut self, len: usize, found: usize) -> Result<(), Misfit> {
        if found == self.columns.len() {
            return Ok(());
        }
        self.columns
            .iter_mut()
            .filter(|column| column.len() == len)
            .try_for_each(push_missing)
    }

    /// Forgets which objects were keys last, also inside of structs.
    pub fn forget_tokens(&mut self) {
        self.keys.forget_tokens();
        self.columns.iter_mut().for_each(ColumnBuilder::forget_tokens);
    }

    pub(crate) fn finish(&mut self) -> Result<Vec<ArrayRef>, ArrowError> {
        self.columns.iter_mut().map(ColumnBuilder::finish).collect()
    }
}

#[inline]
fn push_missing(column: &mut ColumnBuilder) -> Result<(), Misfit> {
    column
        .push_null()
        .map_err(|_| Misfit::new("the key is missing and the field is not nullable").in_field(column.name()))
}

/// Rows on their way into a record batch.
#[derive(Debug)]
pub struct Rows {
    /// The columns. Code that appends to them calls [`Self::commit`] or [`Self::roll_back`] after each row.
    pub fields: Fields,
    count: usize,
    large: LargeValues,
    declared: SchemaRef,
    schema: SchemaRef,
    is_inferred: bool,
}

impl Rows {
    /// Builders for rows of a schema.
    ///
    /// # Errors
    /// When a column has a type that cannot be built from cells.
    pub fn new(schema: SchemaRef) -> Result<Self, UnsupportedColumn> {
        let mut fields = Fields::new("", schema.fields())?;
        let large = LargeValues::default();
        fields.columns.iter_mut().for_each(|column| column.share(&large));
        let built: Vec<_> = fields.columns.iter().map(ColumnBuilder::field).collect();
        Ok(Self {
            schema: Arc::new(Schema::new_with_metadata(built, schema.metadata().clone())),
            declared: schema,
            fields,
            count: 0,
            large,
            is_inferred: false,
        })
    }

    /// Refuses values of another kind instead of converting them: text in a column of integers, a number in one of
    /// timestamps. The schema was inferred from rows, which said nothing of such values.
    #[must_use]
    pub fn inferred(mut self) -> Self {
        self.is_inferred = true;
        self.fields.columns.iter_mut().for_each(ColumnBuilder::infer);
        self
    }

    /// Builders for rows of a wider schema, which convert values as these do.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn widened(&self, schema: SchemaRef) -> Result<Self, UnsupportedColumn> {
        let rows = Self::new(schema)?;
        Ok(if self.is_inferred { rows.inferred() } else { rows })
    }

    /// The schema that these builders were made for.
    #[must_use]
    pub fn declared(&self) -> &SchemaRef {
        &self.declared
    }

    /// Whole rows since the last batch.
    #[inline]
    #[must_use]
    pub fn rows(&self) -> usize {
        self.count
    }

    /// Keeps the row that was appended.
    #[inline]
    pub fn commit(&mut self) {
        self.count += 1;
    }

    /// Removes everything that was appended since the last whole row.
    pub fn roll_back(&mut self) {
        for column in &mut self.fields.columns {
            column.truncate(self.count);
        }
    }

    /// Removes all rows since the last batch.
    pub fn clear(&mut self) {
        self.count = 0;
        self.roll_back();
    }

    /// Returns true if there are enough rows or bytes for a batch.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        // The first rows are looked at one by one: a few large ones fill a batch.
        let is_looked_at = self.count < ROWS_BETWEEN_LOOKS
            || self.count.is_multiple_of(ROWS_BETWEEN_LOOKS)
            || self.large.bytes() >= LARGE_BYTES_BETWEEN_LOOKS;
        if is_looked_at {
            self.large.clear();
        }
        self.count >= MOST_ROWS || (is_looked_at && self.bytes() >= MOST_BYTES)
    }

    fn bytes(&self) -> usize {
        self.fields.columns.iter().map(ColumnBuilder::bytes).sum()
    }

    /// Returns the rows as a batch, and empties the builders.
    ///
    /// # Errors
    /// When the columns make no batch, which the builders are there to prevent.
    pub fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        let options = RecordBatchOptions::new().with_row_count(Some(self.count));
        self.count = 0;
        let columns = self.fields.finish()?;
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
    }
}
