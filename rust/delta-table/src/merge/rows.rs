//! The rows that a merge writes: updated and inserted ones.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{Array, BooleanArray, RecordBatch, new_null_array};
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::filter::filter;
use arrow_select::interleave::interleave;
use parquet_writer::Batch;

use crate::error::{Result, TableError};
use crate::head::Head;
use crate::row_change::NewRows;

use super::Search;
use super::keys::Groups;
use super::source::Source;

/// The rows that a merge writes.
pub(super) struct MergedRows {
    /// The columns of the table.
    schema: SchemaRef,
    source: Source,
    groups: Groups,
    pairs: HashMap<String, Vec<(usize, usize)>>,
    /// The columns that are updated, by their places in the table and in the source.
    updated: Vec<(usize, usize)>,
    keeps_partitions: bool,
    /// The batch of the source that is inserted next; none where nothing is.
    next: Option<usize>,
}

impl MergedRows {
    /// The rows of what was found, with these columns updated.
    pub fn new(head: &Head, search: Search<'_>, updated: &[String]) -> Self {
        let schema = head.schema.arrow();
        let place = |name: &String| {
            let (place, _) = schema.column_with_name(name)?;
            Some((place, search.source.place(name)?))
        };
        let partitions = &head.metadata.partition_columns;
        Self {
            updated: updated.iter().filter_map(place).collect(),
            keeps_partitions: !updated.iter().any(|name| partitions.contains(name)),
            next: search.options.insert.then_some(0),
            source: search.source,
            groups: search.groups,
            pairs: search.pairs,
            schema,
        }
    }

    /// The rows of a batch of the source that are inserted.
    fn inserted(&self, batch: usize) -> Result<Batch> {
        let rows = 0..self.source.rows_of(batch);
        let inserted: Vec<bool> = rows
            .map(|row| self.source.is_inserted(&self.groups, batch, row))
            .collect();
        let count = inserted.iter().filter(|is_inserted| **is_inserted).count();
        let inserted = BooleanArray::from(inserted);
        let columns = self
            .schema
            .fields()
            .iter()
            .map(|field| match self.source.place(field.name()) {
                Some(place) => filter(self.source.array(batch, place), &inserted),
                None => Ok(new_null_array(field.data_type(), count)),
            });
        let columns = columns.collect::<Result<_, ArrowError>>();
        let columns = columns.map_err(|error| unwritten(&error))?;
        Ok(Batch::new(Arc::clone(&self.schema), columns, count)?)
    }
}

impl NewRows for MergedRows {
    fn changed(&mut self, path: &str, first: usize, rows: &RecordBatch) -> Result<Batch> {
        let pairs = self.pairs.get(path).map(Vec::as_slice).unwrap_or_default();
        let Some(pairs) = pairs.get(first..first + rows.num_rows()) else {
            return Err(TableError::Malformed(format!(
                "{path}: the file has other rows than when it was read first"
            )));
        };
        let mut columns = rows.columns().to_vec();
        for (to, from) in &self.updated {
            let parts: Vec<&dyn Array> = self.source.column(*from).map(AsRef::as_ref).collect();
            columns[*to] = interleave(&parts, pairs).map_err(|error| unwritten(&error))?;
        }
        Ok(Batch::new(Arc::clone(&self.schema), columns, rows.num_rows())?)
    }

    fn keeps_partitions(&self) -> bool {
        self.keeps_partitions
    }

    fn added(&mut self) -> Result<Option<Batch>> {
        let Some(batch) = self.next.filter(|batch| *batch < self.source.batches()) else {
            return Ok(None);
        };
        self.next = Some(batch + 1);
        self.inserted(batch).map(Some)
    }
}

fn unwritten(error: &ArrowError) -> TableError {
    TableError::schema(format!("the source rows cannot be put together: {error}"))
}
