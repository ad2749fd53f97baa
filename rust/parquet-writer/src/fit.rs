//! The check that a batch can be written, made before any part of it is.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::SchemaRef;

use crate::batch::Batch;
use crate::error::Result;
use crate::leaf_options;
use crate::limits;
use crate::normalize;
use crate::options::{TimestampLoss, WriterOptions};
use crate::schema::FileSchema;
use crate::stored_names::StoredNames;
use crate::timestamp_loss;

/// The check of batches against one schema and its options. A caller that divides a batch among several writers makes
/// it first; otherwise a batch could be refused after a part of it was written.
pub struct Fit {
    schema: FileSchema,
    timestamp_loss: TimestampLoss,
    /// Columns that no file has.
    unwritten: Vec<String>,
}

impl Fit {
    /// # Errors
    /// [`crate::WriteError::Schema`] names the column that Parquet cannot hold, [`crate::WriteError::Option`] says
    /// that a limit is too small for so many columns.
    pub fn new(schema: SchemaRef, options: &WriterOptions) -> Result<Self> {
        // Field ids and the names in files do not decide whether rows fit, and rows may lack columns that the option
        // names.
        let names = StoredNames::default();
        let schema = FileSchema::new(schema, options.timestamps, options.compatibility, &[], &names)?;
        options.for_leaves(&leaf_options::codecs(&schema.parquet, &options.compression)?)?;
        Ok(Self {
            schema,
            timestamp_loss: options.timestamp_loss,
            unwritten: Vec::new(),
        })
    }

    /// The same, where files have all columns but these.
    #[must_use]
    pub fn without(self, unwritten: &[String]) -> Self {
        Self {
            unwritten: unwritten.to_vec(),
            ..self
        }
    }

    /// The schema, as it was given.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema.declared
    }

    /// Checks that batches of `schema` have the same names, order and logical types.
    ///
    /// # Errors
    /// [`crate::WriteError::Schema`] names the first difference.
    pub fn accept(&self, schema: &SchemaRef) -> Result<()> {
        self.schema.check(schema)
    }

    /// Checks that [`crate::FileWriter::write`] would not refuse any row of `batch`.
    ///
    /// # Errors
    /// [`crate::WriteError::Schema`] names what does not fit.
    pub fn check(&self, batch: &Batch) -> Result<()> {
        self.accept(&batch.schema)?;
        self.schema.check_nulls(&batch.columns)?;
        limits::check(batch)?;
        let stored = normalize::with_stored_times(&batch.columns, &self.schema)?;
        if self.timestamp_loss == TimestampLoss::Allow {
            return Ok(());
        }
        let fields = self.schema.declared.fields().iter();
        let written = fields.zip(batch.columns.iter().zip(&stored));
        // What no file has is not rounded.
        let given: Vec<ArrayRef> = written
            .map(|(field, (given, stored))| {
                let is_written = !self.unwritten.contains(field.name());
                Arc::clone(if is_written { given } else { stored })
            })
            .collect();
        timestamp_loss::check(&given, &stored, &self.schema)
    }
}
