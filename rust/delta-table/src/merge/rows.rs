//! The rows that a merge writes: updated and inserted ones.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt32Array, new_null_array};
use arrow_schema::SchemaRef;
use arrow_select::take::take;
use parquet_writer::Batch;

use crate::error::{Result, TableError};
use crate::head::TableHead;
use crate::row_change::{NewRows, UpdatedRows};
use crate::schema::{ColumnType, Primitive, TableColumn};
use crate::values::Evaluate;

use super::clauses::{Clause, ClauseKind, ClauseRows, unmade};
use super::search::{ClauseMatch, Insertion, Search};
use super::source::SourceRow;

/// The rows that a merge writes.
pub(super) struct MergedRows<'a> {
    /// The columns of the table.
    schema: SchemaRef,
    search: Search<'a>,
    insertions: VecDeque<Insertion>,
    /// Rows of the first of them that are inserted already.
    inserted: usize,
    keeps_partitions: bool,
    evaluate: &'a mut Evaluate<'a>,
}

impl<'a> MergedRows<'a> {
    /// The rows of what was found.
    pub fn new(
        head: &TableHead,
        search: Search<'a>,
        insertions: Vec<Insertion>,
        evaluate: &'a mut Evaluate<'a>,
    ) -> Self {
        let columns = &head.schema.columns;
        let clauses = search.clauses.iter();
        let mut updating = clauses.filter(|clause| clause.kind != ClauseKind::NotMatched);
        let moves = updating.any(|clause| {
            clause
                .places()
                .any(|place| head.is_partition_column(&columns[place]))
        });
        Self {
            schema: head.schema.arrow(),
            search,
            insertions: insertions.into(),
            inserted: 0,
            keeps_partitions: !moves,
            evaluate,
        }
    }

    /// The rows that a clause changes, with their new values: those at these places of a batch.
    fn updated(
        &mut self,
        clause: usize,
        rows: &RecordBatch,
        places: &[u32],
        sources: &[SourceRow],
    ) -> Result<Batch> {
        let taken = UInt32Array::from(places.to_vec());
        let fields = self.schema.fields().iter();
        let columns = fields.map(|field| match rows.column_by_name(field.name()) {
            Some(column) if places.len() == rows.num_rows() => Ok(Arc::clone(column)),
            Some(column) => take(column, &taken, None),
            None => match self.search.key_place(field.name()) {
                Some(place) if !sources.is_empty() => self.search.source.values(place, sources),
                // The clause sets it.
                _ => Ok(new_null_array(field.data_type(), places.len())),
            },
        });
        let columns = columns.collect::<Result<Vec<_>, _>>();
        let mut columns = columns.map_err(|error| unmade(&error))?;
        let of = ClauseRows {
            target: Some((rows, places)),
            source: (!sources.is_empty()).then_some((&self.search.source, sources)),
            len: places.len(),
        };
        self.search.clauses[clause].put(&mut columns, &of, self.evaluate)?;
        Ok(Batch::new(Arc::clone(&self.schema), columns, places.len())?)
    }

    /// Rows of the source as the table has them.
    fn insert(&mut self, clause: usize, rows: &[SourceRow]) -> Result<Batch> {
        let len = rows.len();
        let fields = self.schema.fields().iter();
        let mut columns: Vec<ArrayRef> = fields
            .map(|field| new_null_array(field.data_type(), len))
            .collect();
        let of = ClauseRows {
            target: None,
            source: Some((&self.search.source, rows)),
            len,
        };
        self.search.clauses[clause].put(&mut columns, &of, self.evaluate)?;
        Ok(Batch::new(Arc::clone(&self.schema), columns, len)?)
    }
}

impl NewRows for MergedRows<'_> {
    fn changed(&mut self, path: &str, first: usize, rows: &RecordBatch) -> Result<Vec<UpdatedRows>> {
        let changes = self
            .search
            .updates
            .get(path)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let Some(changes) = changes.get(first..first + rows.num_rows()) else {
            return Err(TableError::Malformed(format!(
                "{path}: the file has other rows than when it was read first"
            )));
        };
        let mut of_clauses: BTreeMap<usize, (Vec<u32>, Vec<SourceRow>)> = BTreeMap::new();
        for (place, ClauseMatch { clause, source }) in (0..).zip(changes) {
            let (places, sources) = of_clauses.entry(*clause).or_default();
            places.push(place);
            sources.extend(source);
        }
        let of_clauses = of_clauses.into_iter();
        of_clauses
            .map(|(clause, (places, sources))| {
                Ok(UpdatedRows {
                    rows: self.updated(clause, rows, &places, &sources)?,
                    places: Some(places),
                })
            })
            .collect()
    }

    fn reads(&self, column: &TableColumn) -> bool {
        let name = &column.name;
        // Floats of one key may differ: -0.0 equals 0.0.
        let is_float = matches!(
            column.kind,
            ColumnType::Primitive(Primitive::Float | Primitive::Double)
        );
        let is_equal = self.search.on.contains(name) && !is_float;
        let place = self.schema.index_of(name).unwrap_or(usize::MAX);
        let clauses = self.search.clauses.iter();
        let mut updating =
            clauses.filter(|clause| clause.kind != ClauseKind::NotMatched && !clause.deletes());
        updating.any(|clause| clause.reads(place, name, is_equal))
    }

    fn at_once(&self) -> usize {
        let clauses = self.search.clauses.iter();
        let updating = clauses.filter(|clause| clause.kind != ClauseKind::NotMatched);
        updating.map(Clause::at_once).min().unwrap_or(usize::MAX)
    }

    fn keeps_partitions(&self) -> bool {
        self.keeps_partitions
    }

    fn added(&mut self) -> Result<Option<Batch>> {
        let Some(insertion) = self.insertions.pop_front() else {
            return Ok(None);
        };
        let most = self.search.clauses[insertion.clause].at_once();
        let end = insertion.rows.len().min(self.inserted.saturating_add(most));
        let batch = self.insert(insertion.clause, &insertion.rows[self.inserted..end])?;
        self.inserted = 0;
        if end < insertion.rows.len() {
            self.inserted = end;
            self.insertions.push_front(insertion);
        }
        Ok(Some(batch))
    }
}
