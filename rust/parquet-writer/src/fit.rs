//! The check that a batch can be written, made before any part of it is.

use arrow_schema::SchemaRef;

use crate::batch::Batch;
use crate::error::Result;
use crate::limits;
use crate::normalize;
use crate::options::WriterOptions;
use crate::schema::FileSchema;

/// The check of batches against one schema and its options. A caller that divides a batch among several writers makes
/// it first; otherwise a batch could be refused after a part of it was written.
pub struct Fit(FileSchema);

impl Fit {
    /// # Errors
    /// [`crate::WriteError::Schema`] names the column that Parquet cannot hold, [`crate::WriteError::Option`] says
    /// that a limit is too small for so many columns.
    pub fn new(schema: SchemaRef, options: &WriterOptions) -> Result<Self> {
        let schema = FileSchema::new(schema, options.timestamps)?;
        options.for_columns(schema.parquet.num_columns())?;
        Ok(Self(schema))
    }

    /// Checks that batches of `schema` have the same names, order and logical types.
    ///
    /// # Errors
    /// [`crate::WriteError::Schema`] names the first difference.
    pub fn accept(&self, schema: &SchemaRef) -> Result<()> {
        self.0.check(schema)
    }

    /// Checks that [`crate::FileWriter::write`] would not refuse any row of `batch`.
    ///
    /// # Errors
    /// [`crate::WriteError::Schema`] names what does not fit.
    pub fn check(&self, batch: &Batch) -> Result<()> {
        self.accept(&batch.schema)?;
        self.0.check_nulls(&batch.columns)?;
        limits::check(batch)?;
        normalize::with_stored_times(&batch.columns, &self.0).map(|_| ())
    }
}
