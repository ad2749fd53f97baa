//! The rows that left a table when its schema was replaced: their own schema is that of the version before.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, new_null_array};
use arrow_schema::ArrowError;

use crate::error::Result;
use crate::head::TableHead;
use crate::mapping::Mapping;
use crate::scan::{Filters, ScanPlan, adapt};
use crate::schema::TableColumn;
use crate::snapshot::Snapshot;
use crate::storage::TableStorage;

/// The reading of rows in a schema that is no more, in the columns of another one.
pub(super) struct Former {
    /// The reading in their own columns.
    pub plan: ScanPlan,
    /// The place of each column of the answer among them. A column without a place is null.
    places: Vec<Option<usize>>,
}

impl Former {
    /// Reads rows of this state as `columns`, which become nullable where needed. A column or field is null if the rows
    /// lack it or its type does not hold their values; those that only the rows have are left out.
    pub fn new(
        storage: &Arc<dyn TableStorage>,
        head: Arc<TableHead>,
        columns: &mut [TableColumn],
    ) -> Result<Self> {
        let mut own = Vec::new();
        let mut places = Vec::new();
        for column in columns {
            let former = head.schema.column(&column.name);
            let mut place = None;
            let shown = former.map(|former| TableColumn {
                kind: former.kind.within(&column.kind),
                ..former.clone()
            });
            if let (Some(relaxed), Some(former)) = (column.relaxed(shown.as_ref()), former) {
                *column = relaxed;
                place = Some(own.len());
                own.push(former.clone());
            } else {
                column.nullable = true;
            }
            places.push(place);
        }
        let snapshot = Arc::new(Snapshot::empty(head));
        Ok(Self {
            plan: ScanPlan::new(storage, &snapshot, own, Filters::default())?.unadvised(),
            places,
        })
    }

    /// The columns of the answer, of rows in their own.
    pub fn answer(&self, rows: &RecordBatch, columns: &[TableColumn]) -> Result<Vec<ArrayRef>, ArrowError> {
        let answer = self
            .places
            .iter()
            .zip(columns)
            .map(|(place, column)| match place {
                Some(place) => adapt(rows.column(*place), &column.kind, Mapping::None),
                None => Ok(new_null_array(&column.kind.arrow(), rows.num_rows())),
            });
        answer.collect()
    }
}
