//! Row tracking: rows keep their ids when they are copied to other files.
//!
//! The committer gives the rows of new files their ids. Where a table has `delta.enableRowTracking`, a row that is
//! copied or updated takes its id along, in a column of the new file that the table's schema does not have. A second
//! such column has the version of each row that is copied as it is. The table's metadata has their names: see "Row
//! Tracking" in Delta's PROTOCOL.md.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, UInt32Array, new_null_array};
use arrow_schema::{DataType, Schema};
use arrow_select::take::take;
use delta_commit::Version;
use delta_commit::actions::{Add, Metadata};
use delta_commit::row_ids::{self, DOMAIN, ENABLED, FEATURE, SUSPENDED};
use parquet_writer::{Batch, WriteError};
use roaring::RoaringTreemap;
use serde_json::Map;
use uuid::Uuid;

use crate::error::{Result, TableError};
use crate::head::TableHead;
use crate::scan::{FileRows, Filters, ScanPlan, TrackedColumn};
use crate::schema::{ColumnType, Primitive, TableColumn, TableSchema};
use crate::snapshot::Snapshot;
use crate::storage::TableStorage;

/// The properties with the names of the columns.
const ID_COLUMN: &str = "delta.rowTracking.materializedRowIdColumnName";
const VERSION_COLUMN: &str = "delta.rowTracking.materializedRowCommitVersionColumnName";

/// The highest row id that a table has given, for its committer. One that cannot be read is found before any write.
pub(crate) fn high_water_mark(head: &TableHead) -> Option<i64> {
    let domain = head.domains.get(DOMAIN)?;
    row_ids::high_water_mark(domain).ok().flatten()
}

/// Refuses to write a table whose row tracking is not whole.
pub(crate) fn check(head: &TableHead) -> Result<()> {
    if !row_ids::are_supported(&head.protocol) {
        return Ok(());
    }
    let mut features = head.protocol.writer_features.iter().flatten();
    if !features.any(|feature| feature == "domainMetadata") {
        return Err(TableError::unsupported(format!(
            "the table has the feature {FEATURE} without domainMetadata, so that no writer can say which row ids are \
             given: repair the table with the writer that enabled the feature"
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

/// Refuses to give ids in a table that gives none for now.
pub(crate) fn check_unsuspended(head: &TableHead) -> Result<()> {
    if head.metadata.is_enabled(SUSPENDED) {
        return Err(TableError::unsupported(format!(
            "the table has {SUSPENDED}=true, so that its files get no row ids, and rows that are there cannot get some: \
             have Spark take it away"
        )));
    }
    Ok(())
}

/// Gives metadata the names that the columns have in this table: they are the same for as long as it lives, since
/// files of any version may come back.
pub(crate) fn keep_names(head: &TableHead, metadata: &mut Metadata) {
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
pub(crate) fn is_enabled(head: &TableHead) -> bool {
    row_ids::are_enabled(&head.protocol, &head.metadata)
}

/// Returns true if each new file of the table gets ids.
pub(crate) fn gives_ids(head: &TableHead) -> bool {
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

/// The files of a table whose rows have no ids.
pub(crate) fn without_ids(snapshot: &Snapshot) -> impl Iterator<Item = &Arc<Add>> {
    let has_ids = |add: &Add| add.base_row_id.is_some() && add.default_row_commit_version.is_some();
    snapshot.files().filter(move |add| !has_ids(add))
}

/// Refuses to enable row tracking in a table with files whose rows have no ids.
pub(crate) fn check_files(snapshot: &Snapshot) -> Result<()> {
    match without_ids(snapshot).next() {
        None => Ok(()),
        Some(add) => Err(TableError::unsupported(format!(
            "{ENABLED}=true is not accepted: the file {:?}, whose rows have no ids, was added meanwhile: set it again",
            add.path
        ))),
    }
}

/// Refuses to bring back metadata under which rows had no ids, or had them in other columns or by another count.
pub(crate) fn check_restored(now: &TableHead, before: &TableHead) -> Result<()> {
    let columns = |head: &TableHead| {
        let names = [ID_COLUMN, VERSION_COLUMN].map(|name| head.property(name).map(str::to_owned));
        is_enabled(head).then_some(names)
    };
    if columns(now) == columns(before) && high_water_mark(now) >= high_water_mark(before) {
        return Ok(());
    }
    Err(TableError::unsupported(format!(
        "row tracking ({ENABLED}) was changed or dropped after version {}, and to undo that is not supported: restore \
         a later version, or have Spark restore this one",
        before.version
    )))
}

/// Refuses to bring back files whose rows would have to get ids, and are not counted.
pub(crate) fn check_returning(now: &TableHead, version: Version, adds: &[&Arc<Add>]) -> Result<()> {
    let is_uncounted =
        |add: &&&Arc<Add>| add.base_row_id.is_none() && row_ids::rows_of(add.as_ref()).is_none();
    match adds.iter().find(is_uncounted) {
        Some(add) if gives_ids(now) => Err(TableError::unsupported(format!(
            "version {version} cannot be restored: its file {:?} has no row ids, and no numRecords in its statistics by \
             which its rows would get some, and the table has row tracking now: restore a later version, or append the \
             rows of this one, as scan(version={version}) reads them",
            add.path
        ))),
        _ => Ok(()),
    }
}

/// Refuses files of a caller that hold rows of the table, where rows keep their ids, and files that can get no ids.
pub(crate) fn check_added(head: &TableHead, adds: &[Add]) -> Result<()> {
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
pub(crate) struct RowColumns([TableColumn; 2]);

impl RowColumns {
    /// The columns of a table; none where rows need not keep their ids.
    ///
    /// # Errors
    /// [`delta_commit::CommitError::Unsupported`] when the table does not name them, or has columns of these names.
    pub fn of(head: &TableHead) -> Result<Option<Self>> {
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
            Ok::<_, TableError>(TableColumn {
                name: name.to_owned(),
                kind: ColumnType::Primitive(Primitive::Long),
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
pub(crate) fn head_of_copies(head: &Arc<TableHead>) -> Result<Arc<TableHead>> {
    let Some(RowColumns(columns)) = RowColumns::of(head)? else {
        return Ok(Arc::clone(head));
    };
    let mut schema = head.schema.as_ref().clone();
    schema.columns.extend(columns);
    Ok(Arc::new(TableHead {
        schema: Arc::new(schema),
        ..head.as_ref().clone()
    }))
}

/// A schema without the columns: no statistics are of them.
pub(crate) fn shown(schema: &Arc<TableSchema>, metadata: &Metadata) -> Arc<TableSchema> {
    let names = [ID_COLUMN, VERSION_COLUMN].map(|property| metadata.configuration.get(property));
    let is_hidden = |column: &TableColumn| names.contains(&Some(&column.name));
    if !schema.columns.iter().any(is_hidden) {
        return Arc::clone(schema);
    }
    let columns = schema.columns.iter().filter(|column| !is_hidden(column));
    Arc::new(TableSchema {
        columns: columns.cloned().collect(),
    })
}

/// A value of each row that row tracking has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowValue {
    /// The row's id.
    Id,
    /// The version that it is of.
    Version,
}

impl RowValue {
    const ALL: [Self; 2] = [Self::Id, Self::Version];

    /// The value that a column of a scan has, by its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|value| value.name() == name)
    }

    /// The name of the column of a scan, which Spark has too.
    fn name(self) -> &'static str {
        match self {
            Self::Id => "_metadata.row_id",
            Self::Version => "_metadata.row_commit_version",
        }
    }
}

/// The column of files with a value that row tracking has.
///
/// # Errors
/// [`delta_commit::CommitError::Schema`] when the table has no row tracking; as [`RowColumns::of`].
pub(crate) fn stored_column(head: &TableHead, value: RowValue) -> Result<TableColumn> {
    let Some(RowColumns([id, version])) = RowColumns::of(head)? else {
        return Err(TableError::column(
            value.name(),
            format!(
                "version {} of the table has no column {:?}, since its rows have no ids: enable them by \
                 set_properties({{\"{ENABLED}\": \"true\"}}), and read a version from then on",
                head.version,
                value.name()
            ),
        ));
    };
    Ok(match value {
        RowValue::Id => id,
        RowValue::Version => version,
    })
}

/// The id of a file's first row, and the version that its rows are of, unless columns of the file say otherwise.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    first: i64,
    version: i64,
}

/// The ids of a file's rows.
///
/// # Errors
/// [`TableError::Malformed`] when the log does not have them.
pub(crate) fn origin(add: &Add) -> Result<Origin> {
    match (add.base_row_id, add.default_row_commit_version) {
        (Some(first), Some(version)) => Ok(Origin { first, version }),
        _ => Err(TableError::Malformed(format!(
            "the table has {ENABLED}=true, and its file {:?} lacks baseRowId or defaultRowCommitVersion: the log is not \
             whole",
            add.path
        ))),
    }
}

impl Origin {
    /// A column with a value for each row: its own, or that of the file. Ids need the numbers of the rows in the file.
    pub fn fill(self, value: RowValue, own: &ArrayRef, numbers: Option<&ArrayRef>) -> ArrayRef {
        let own = own.as_primitive::<Int64Type>().iter();
        let filled = match (value, numbers) {
            (RowValue::Id, Some(numbers)) => {
                let numbers = numbers.as_primitive::<Int64Type>().values().iter();
                let ids = own
                    .zip(numbers)
                    .map(|(id, number)| id.unwrap_or(self.first.saturating_add(*number)));
                Int64Array::from_iter_values(ids)
            }
            (RowValue::Id, None) => own.collect(),
            (RowValue::Version, _) => {
                Int64Array::from_iter_values(own.map(|version| version.unwrap_or(self.version)))
            }
        };
        Arc::new(filled)
    }
}

/// The rows of one file for another file. Where rows keep their ids, each batch ends with the columns of these.
pub(crate) struct CopiedRows {
    rows: FileRows,
    keeps_ids: bool,
}

impl CopiedRows {
    /// Opens a file in all columns of the table, without the rows of these numbers.
    pub fn open(
        storage: &Arc<dyn TableStorage>,
        snapshot: &Arc<Snapshot>,
        add: &Arc<Add>,
        gone: RoaringTreemap,
    ) -> Result<Self> {
        Self::in_columns(storage, snapshot, snapshot.schema.columns.clone(), add, gone)
    }

    /// Opens a file in these columns of the table, without the rows of these numbers.
    pub fn in_columns(
        storage: &Arc<dyn TableStorage>,
        snapshot: &Arc<Snapshot>,
        mut columns: Vec<TableColumn>,
        add: &Arc<Add>,
        gone: RoaringTreemap,
    ) -> Result<Self> {
        let hidden = RowColumns::of(snapshot)?;
        let mut tracked = Vec::new();
        for (value, column) in RowValue::ALL
            .into_iter()
            .zip(hidden.into_iter().flat_map(|all| all.0))
        {
            tracked.push(TrackedColumn {
                place: columns.len(),
                answer: column.arrow(),
                value,
            });
            columns.push(column);
        }
        let keeps_ids = !tracked.is_empty();
        let plan = ScanPlan::new(storage, snapshot, columns, Filters::default())?.tracking(tracked);
        Ok(Self {
            rows: FileRows::open(plan, add, gone)?,
            keeps_ids,
        })
    }

    /// The columns of the table in a batch, and the ids of its rows, if they keep them.
    ///
    /// # Errors
    /// An error if the batch is not one of these rows.
    pub fn apart(&self, batch: RecordBatch) -> Result<(RecordBatch, Option<ArrayRef>)> {
        if !self.keeps_ids {
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
        self.rows.next()
    }
}

/// The ids of the rows at these places; of all rows, where there are none.
pub(crate) fn at(ids: &ArrayRef, places: Option<Vec<u32>>) -> Result<ArrayRef> {
    match places {
        None => Ok(Arc::clone(ids)),
        Some(places) => Ok(take(ids, &UInt32Array::from(places), None).map_err(WriteError::from)?),
    }
}
