//! Row tracking: rows keep their ids when they are copied to other files.
//!
//! The committer gives the rows of new files their ids. Where a table has `delta.enableRowTracking`, a row that is
//! copied or updated takes its id along, in a column of the new file that the table's schema does not have. A second
//! such column has the version of each row that is copied as it is. The table's metadata has their names: see "Row
//! Tracking" in Delta's PROTOCOL.md.

use std::iter::Peekable;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, UInt32Array, new_null_array};
use arrow_schema::{DataType, Schema};
use arrow_select::take::take;
use delta_commit::actions::{Add, Metadata};
use delta_commit::row_ids::{self, DOMAIN, ENABLED, FEATURE, SUSPENDED};
use parquet_writer::{Batch, WriteError};
use roaring::RoaringTreemap;
use roaring::treemap::IntoIter;
use serde_json::Map;
use uuid::Uuid;

use crate::error::{Result, TableError};
use crate::head::Head;
use crate::place::Place;
use crate::scan::FileRows;
use crate::schema::{Column, Kind, Primitive, TableSchema};
use crate::snapshot::Snapshot;

/// The properties with the names of the columns.
const ID_COLUMN: &str = "delta.rowTracking.materializedRowIdColumnName";
const VERSION_COLUMN: &str = "delta.rowTracking.materializedRowCommitVersionColumnName";

/// The highest row id that a table has given, for its committer. One that cannot be read is found before any write.
pub(crate) fn high_water_mark(head: &Head) -> Option<i64> {
    let domain = head.domains.get(DOMAIN)?;
    row_ids::high_water_mark(domain).ok().flatten()
}

/// Refuses to write a table whose row tracking is not whole.
pub(crate) fn check(head: &Head) -> Result<()> {
    if !row_ids::are_supported(&head.protocol) {
        return Ok(());
    }
    let mut features = head.protocol.writer_features.iter().flatten();
    if !features.any(|feature| feature == "domainMetadata") {
        return Err(TableError::unsupported(format!(
            "the table has the feature {FEATURE} without domainMetadata, so that no writer can say which row ids are \
             given: have the writer that gave it the feature mend it"
        )));
    }
    check_properties(&head.metadata)?;
    if let Some(domain) = head.domains.get(DOMAIN) {
        row_ids::high_water_mark(domain)?;
    }
    Ok(())
}

/// Refuses metadata by which rows keep ids and get none.
pub(crate) fn check_properties(metadata: &Metadata) -> Result<()> {
    if metadata.is_enabled(ENABLED) && metadata.is_enabled(SUSPENDED) {
        return Err(TableError::unsupported(format!(
            "the table would have, or has, {ENABLED}=true and {SUSPENDED}=true, of which only one may be: have Spark \
             take one away"
        )));
    }
    Ok(())
}

/// Gives metadata the names that the columns have in this table: they are the same for as long as it lives, since
/// files of any version may come back.
pub(crate) fn keep_names(head: &Head, metadata: &mut Metadata) {
    if !row_ids::are_supported(&head.protocol) {
        return;
    }
    for property in [ID_COLUMN, VERSION_COLUMN] {
        if let Some(name) = head.property(property) {
            metadata
                .configuration
                .insert(property.to_owned(), name.to_owned());
        }
    }
}

/// Returns true if the table's rows keep their ids.
pub(crate) fn is_enabled(head: &Head) -> bool {
    row_ids::are_enabled(&head.protocol, &head.metadata)
}

/// Returns true if each new file of the table gets ids.
pub(crate) fn gives_ids(head: &Head) -> bool {
    row_ids::are_given(&head.protocol, &head.metadata)
}

/// Names the columns of metadata that enables row tracking, where they have no names yet.
pub(crate) fn name_columns(metadata: &mut Metadata) {
    if !metadata.is_enabled(ENABLED) {
        return;
    }
    for (property, prefix) in [
        (ID_COLUMN, "_row-id-col-"),
        (VERSION_COLUMN, "_row-commit-version-col-"),
    ] {
        let name = || format!("{prefix}{}", Uuid::new_v4());
        metadata
            .configuration
            .entry(property.to_owned())
            .or_insert_with(name);
    }
}

/// Refuses to enable row tracking in a table with files whose rows have no ids.
pub(crate) fn check_files(snapshot: &Snapshot) -> Result<()> {
    let has_ids = |add: &Add| add.base_row_id.is_some() && add.default_row_commit_version.is_some();
    match snapshot.files().find(|add| !has_ids(add)) {
        None => Ok(()),
        Some(add) => Err(TableError::unsupported(format!(
            "{ENABLED}=true is not accepted: the table has files whose rows have no ids, as {:?}, and to give them some \
             is not built. Create a table with the property and append the rows to it, or have Spark set it here",
            add.path
        ))),
    }
}

/// Refuses to bring back metadata under which rows had no ids, or had them in other columns or by another count.
pub(crate) fn check_restored(now: &Head, before: &Head) -> Result<()> {
    let columns = |head: &Head| {
        let names = [ID_COLUMN, VERSION_COLUMN].map(|name| head.property(name).map(str::to_owned));
        is_enabled(head).then_some(names)
    };
    if columns(now) == columns(before) && high_water_mark(now) >= high_water_mark(before) {
        return Ok(());
    }
    Err(TableError::unsupported(format!(
        "row tracking ({ENABLED}) was changed or dropped after version {}, and to take that back is not built: restore \
         a later version, or have Spark restore this one",
        before.version
    )))
}

/// Refuses files of a caller that hold rows of the table, where rows keep their ids, and files that can get no ids.
pub(crate) fn check_added(head: &Head, adds: &[Add]) -> Result<()> {
    if let Some(add) = adds.iter().find(|add| !add.data_change)
        && is_enabled(head)
    {
        return Err(TableError::unsupported(format!(
            "the file {:?} has data_change=False, and the table has {ENABLED}=true: its rows would lose their ids. \
             Have optimize() or purge() write rows again, which keep them",
            add.path
        )));
    }
    if let Some(add) = adds.iter().find(|add| row_ids::rows_of(add).is_none())
        && gives_ids(head)
    {
        return Err(TableError::option(
            "adds",
            format!(
                "the file {:?} has no numRecords in its statistics that can be, and the table has row tracking, which \
                 gives each row an id: add it with them",
                add.path
            ),
        ));
    }
    Ok(())
}

/// The columns of files with the ids of copied rows, and with the versions that they are of.
#[derive(Debug, Clone)]
pub(crate) struct RowColumns([Column; 2]);

impl RowColumns {
    /// The columns of a table; none where rows need not keep their ids.
    ///
    /// # Errors
    /// [`delta_commit::CommitError::Unsupported`] when the table does not name them, or has columns of these names.
    pub fn of(head: &Head) -> Result<Option<Self>> {
        if !is_enabled(head) {
            return Ok(None);
        }
        let column = |property: &str| {
            let name = head.property(property);
            let free = name.filter(|name| head.schema.column(name).is_none());
            let name = free.ok_or_else(|| {
                TableError::unsupported(format!(
                    "the table has {ENABLED}=true, and {property}={:?}, expected the name of a column that it does not \
                     have: rows that are copied would lose their ids. Have the writer that enabled it mend it",
                    name.unwrap_or_default()
                ))
            })?;
            Ok::<_, TableError>(Column {
                name: name.to_owned(),
                kind: Kind::Primitive(Primitive::Long),
                nullable: true,
                metadata: Map::new(),
            })
        };
        Ok(Some(Self([column(ID_COLUMN)?, column(VERSION_COLUMN)?])))
    }

    /// Rows with the ids that they keep; null for new ones. All are of the version that brings them.
    pub fn beside(&self, rows: &Batch, ids: Option<ArrayRef>) -> Result<Batch> {
        let mut fields = rows.schema().fields().to_vec();
        fields.extend(self.0.iter().map(|column| Arc::new(column.arrow())));
        let mut columns = rows.columns().to_vec();
        let null = || new_null_array(&DataType::Int64, rows.rows());
        columns.extend([ids.unwrap_or_else(null), null()]);
        Ok(Batch::new(Arc::new(Schema::new(fields)), columns, rows.rows())?)
    }
}

/// The head of a table whose schema has the columns too, for files that copied rows are written into.
pub(crate) fn head_of_copies(head: &Arc<Head>) -> Result<Arc<Head>> {
    let Some(RowColumns(columns)) = RowColumns::of(head)? else {
        return Ok(Arc::clone(head));
    };
    let mut schema = head.schema.as_ref().clone();
    schema.columns.extend(columns);
    Ok(Arc::new(Head {
        schema: Arc::new(schema),
        ..head.as_ref().clone()
    }))
}

/// A schema without the columns: no statistics are of them.
pub(crate) fn shown(schema: &Arc<TableSchema>, metadata: &Metadata) -> Arc<TableSchema> {
    let names = [ID_COLUMN, VERSION_COLUMN].map(|property| metadata.configuration.get(property));
    let is_hidden = |column: &Column| names.contains(&Some(&column.name));
    if !schema.columns.iter().any(is_hidden) {
        return Arc::clone(schema);
    }
    let columns = schema.columns.iter().filter(|column| !is_hidden(column));
    Arc::new(TableSchema {
        columns: columns.cloned().collect(),
    })
}

/// The rows of one file for another file. Where rows keep their ids, each batch ends with the columns of these.
pub(crate) struct CopiedRows {
    rows: FileRows,
    ids: Option<Ids>,
}

/// The ids of the rows of a file that is read in order.
struct Ids {
    /// The id of the first row, and the version that rows are of, unless columns say otherwise.
    first: i64,
    version: i64,
    /// The number of the next row.
    next: u64,
    /// The rows that are passed over.
    gone: Peekable<IntoIter>,
}

impl CopiedRows {
    /// Opens a file in all columns of the table, without the rows of these numbers.
    pub fn open(
        place: &Arc<dyn Place>,
        snapshot: &Arc<Snapshot>,
        add: &Arc<Add>,
        gone: RoaringTreemap,
    ) -> Result<Self> {
        Self::in_columns(place, snapshot, snapshot.schema.columns.clone(), add, gone)
    }

    /// Opens a file in these columns of the table, without the rows of these numbers.
    pub fn in_columns(
        place: &Arc<dyn Place>,
        snapshot: &Arc<Snapshot>,
        mut columns: Vec<Column>,
        add: &Arc<Add>,
        gone: RoaringTreemap,
    ) -> Result<Self> {
        let mut ids = None;
        if let Some(RowColumns(hidden)) = RowColumns::of(snapshot)? {
            let (Some(first), Some(version)) = (add.base_row_id, add.default_row_commit_version) else {
                return Err(TableError::Malformed(format!(
                    "the table has {ENABLED}=true, and its file {:?} lacks baseRowId or defaultRowCommitVersion: the \
                     log is not whole",
                    add.path
                )));
            };
            columns.extend(hidden);
            ids = Some(Ids {
                first,
                version,
                next: 0,
                gone: gone.clone().into_iter().peekable(),
            });
        }
        Ok(Self {
            rows: FileRows::in_columns(place, snapshot, columns, add, gone)?,
            ids,
        })
    }

    /// The columns of the table in a batch, and the ids of its rows, if they keep them.
    ///
    /// # Errors
    /// An error if the batch is not one of these rows.
    pub fn apart(&self, batch: RecordBatch) -> Result<(RecordBatch, Option<ArrayRef>)> {
        if self.ids.is_none() {
            return Ok((batch, None));
        }
        let of_table: Vec<usize> = (0..batch.num_columns().saturating_sub(2)).collect();
        let ids = Arc::clone(batch.column(of_table.len()));
        let rows = batch.project(&of_table).map_err(WriteError::from)?;
        Ok((rows, Some(ids)))
    }
}

impl Iterator for CopiedRows {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.rows.next()?;
        Some(match &mut self.ids {
            None => batch,
            Some(ids) => batch.and_then(|batch| ids.fill(&batch)),
        })
    }
}

impl Ids {
    /// A batch with an id and a version for each row.
    fn fill(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut columns = batch.columns().to_vec();
        let hidden = columns.split_off(columns.len().saturating_sub(2));
        for (number, column) in hidden.into_iter().enumerate() {
            let given = column.as_primitive::<Int64Type>().iter();
            let filled: Int64Array = if number == 0 {
                given
                    .map(|id| {
                        let own = self.own();
                        Some(id.unwrap_or(own))
                    })
                    .collect()
            } else {
                given
                    .map(|version| Some(version.unwrap_or(self.version)))
                    .collect()
            };
            columns.push(Arc::new(filled));
        }
        Ok(RecordBatch::try_new(batch.schema(), columns).map_err(WriteError::from)?)
    }

    /// The id that the next row has by its place in the file.
    fn own(&mut self) -> i64 {
        while self.gone.next_if_eq(&self.next).is_some() {
            self.next += 1;
        }
        let place = i64::try_from(self.next).unwrap_or(i64::MAX);
        self.next += 1;
        self.first.saturating_add(place)
    }
}

/// The ids of the rows at these places; of all rows, where there are none.
pub(crate) fn at(ids: &ArrayRef, places: Option<Vec<u32>>) -> Result<ArrayRef> {
    match places {
        None => Ok(Arc::clone(ids)),
        Some(places) => Ok(take(ids, &UInt32Array::from(places), None).map_err(WriteError::from)?),
    }
}
