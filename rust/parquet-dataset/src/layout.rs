//! The schemas of a dataset at one time: that of the rows, and that of the files that are begun now.

use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use parquet_writer::sink::StreamSink;
use parquet_writer::{Batch, FileWriter, Fit, WriteError, WriterOptions, without_range_index};

use crate::options::{DatasetOptions, OnSchemaChange};
use crate::schema_change::{fitted, wider_schema, with_text, without_untyped};

pub(crate) struct DatasetLayout {
    /// The schema of the rows, partition columns included, and the check of batches against it.
    pub fit: Fit,
    /// The schema of the rows without the partition columns.
    pub stored: SchemaRef,
    /// The schema of new files: columns without a type are left out, where schemas may change.
    pub file: SchemaRef,
}

impl DatasetLayout {
    /// # Errors
    /// [`WriteError::Schema`] when the schema cannot be written, [`WriteError::Option`] when an option does not fit it.
    pub fn new(
        schema: &SchemaRef,
        options: &DatasetOptions,
        writer_options: &WriterOptions,
    ) -> Result<Self, WriteError> {
        let fit = Fit::new(Arc::clone(schema), writer_options)?.without(&options.partition_by);
        let is_stored = |name: &String| !options.partition_by.contains(name);
        let stored = schema.fields().iter().filter(|field| is_stored(field.name()));
        let stored: Vec<_> = stored.cloned().collect();
        let mut stored = Arc::new(Schema::new_with_metadata(stored, schema.metadata().clone()));
        if !options.partition_by.is_empty() {
            stored = without_range_index(&stored);
        }
        // Options that name columns are held against the schema now, not when the first file is opened.
        check(&stored, writer_options)?;
        let mut file = Arc::clone(&stored);
        if options.on_schema_change != OnSchemaChange::Raise {
            let typed = without_untyped(&stored);
            // An option may name a column that has no type yet.
            if !Arc::ptr_eq(&typed, &stored) && check(&typed, writer_options).is_ok() {
                file = typed;
            }
        }
        Ok(Self { fit, stored, file })
    }

    /// Returns true if a column has no type yet, and new files lack it.
    pub fn lacks_types(&self) -> bool {
        self.stored.fields() != self.file.fields()
    }

    /// The layout of the last files, in which no column is left out.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn ended(&self, is_text: bool, writer_options: &WriterOptions) -> Result<Self, WriteError> {
        let schema = |schema: &SchemaRef| {
            if is_text {
                with_text(schema)
            } else {
                Arc::clone(schema)
            }
        };
        let stored = schema(&self.stored);
        check(&stored, writer_options)?;
        Ok(Self {
            fit: Fit::new(schema(self.fit.schema()), writer_options)?,
            file: Arc::clone(&stored),
            stored,
        })
    }
}

fn check(stored: &SchemaRef, writer_options: &WriterOptions) -> Result<(), WriteError> {
    let nowhere = Box::new(StreamSink::new(Box::new(std::io::sink())));
    FileWriter::new(
        nowhere,
        Some(Arc::clone(stored)),
        writer_options.clone().for_a_check(),
    )
    .map(drop)
}

/// The layout that a batch needs after this one, and the batch in its schema where it comes in another.
///
/// # Errors
/// [`WriteError::Schema`] when the batch fits no schema that the options allow; [`WriteError::Option`] when an option
/// does not fit the one that it needs.
pub(crate) fn adapted(
    layout: &Arc<DatasetLayout>,
    batch: &Batch,
    options: &DatasetOptions,
    writer_options: &WriterOptions,
) -> Result<(Arc<DatasetLayout>, Option<Batch>), WriteError> {
    let refused = match layout.fit.accept(batch.schema()) {
        Ok(()) => return Ok((Arc::clone(layout), None)),
        Err(refused) => refused,
    };
    if options.on_schema_change == OnSchemaChange::Raise {
        return Err(refused);
    }
    let layout = widened(layout, batch.schema(), options, writer_options)?;
    let fitted = fitted(batch, layout.fit.schema())?;
    Ok((layout, Some(fitted)))
}

/// The layout for rows of this one and of the schema `given`.
///
/// # Errors
/// As [`adapted`].
pub(crate) fn widened(
    layout: &Arc<DatasetLayout>,
    given: &Schema,
    options: &DatasetOptions,
    writer_options: &WriterOptions,
) -> Result<Arc<DatasetLayout>, WriteError> {
    let known = layout.fit.schema();
    let Some(schema) = wider_schema(known, given)? else {
        return Ok(Arc::clone(layout));
    };
    for (before, after) in known.fields().iter().zip(schema.fields()) {
        let (name, before, after) = (before.name(), before.data_type(), after.data_type());
        if before != after && options.partition_by.contains(name) {
            return Err(WriteError::column(
                name,
                format!(
                    "column {name:?} would become {after}, and was {before} so far: the folders of a partition column \
                     are named by one type. Cast it to {before}; the writer can go on"
                ),
            ));
        }
    }
    DatasetLayout::new(&Arc::new(schema), options, writer_options).map(Arc::new)
}
