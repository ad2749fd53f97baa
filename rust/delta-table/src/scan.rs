//! Scans: the rows of one version that satisfy conditions, as Arrow batches.
//!
//! Files are left out by their partition values and statistics, row groups by theirs. The `parquet` crate decodes what
//! is left, first the columns that the conditions name, then the others of the rows that satisfy them. The answer is
//! exact: statistics only save work.

mod adapt;
mod changes;
mod constants;
mod filter;
mod positions;
mod question;
mod reader;

use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef};
use delta_commit::Version;
use delta_commit::actions::Add;

use crate::conditions::Conditions;
use crate::error::{Result, TableError};
use crate::head::Head;
use crate::place::Place;
use crate::schema::Column;
use crate::snapshot::Snapshot;
use crate::table::Table;

pub(crate) use adapt::adapt;
pub use changes::{Changes, ChangesOptions, ChangesReader};
pub(crate) use filter::{is_in, plain};
pub(crate) use positions::{FileRows, Found, NumberedRows, Positions, row_count};
pub(crate) use question::{Filter, Filters, PartitionFilter, Question};
pub use reader::ScanReader;
pub(crate) use reader::repeated;

/// The rows and columns to read.
#[derive(Debug, Clone, Default)]
pub struct ScanOptions {
    /// Names of top-level columns, in the order of the answer. The default is all of the table.
    pub columns: Option<Vec<String>>,
    /// Conditions that hold for every row of the answer.
    pub conditions: Conditions,
    /// The version. The default is the newest.
    pub version: Option<Version>,
}

/// A scan that is planned: its files are chosen, and none is read yet.
pub struct Scan {
    plan: Arc<Plan>,
    files: Vec<Arc<Add>>,
    skipped: usize,
}

/// Everything that holds for all files of a scan.
pub(crate) struct Plan {
    place: Arc<dyn Place>,
    snapshot: Arc<Snapshot>,
    /// The columns of the answer.
    columns: Vec<Column>,
    schema: SchemaRef,
    /// Conditions on columns that the files hold, or on these and partition columns.
    filters: Filters,
}

impl Plan {
    pub fn new(
        place: &Arc<dyn Place>,
        snapshot: &Arc<Snapshot>,
        columns: Vec<Column>,
        filters: Filters,
    ) -> Result<Self> {
        snapshot.check_names()?;
        let fields: Vec<Field> = columns.iter().map(Column::arrow).collect();
        Ok(Self {
            place: Arc::clone(place),
            snapshot: Arc::clone(snapshot),
            columns,
            schema: Arc::new(Schema::new(fields)),
            filters,
        })
    }

    /// The columns of the answer that files hold.
    fn held(&self) -> impl Iterator<Item = &Column> {
        self.columns
            .iter()
            .filter(|column| !self.snapshot.is_partition_column(column))
    }
}

impl Table {
    /// Plans a scan. A file that can hold no row of the answer, by its partition values or its statistics, is left out.
    ///
    /// # Errors
    /// An error if the table cannot be read at this version, a column is not there, or a condition does not fit its
    /// column.
    pub fn scan(&self, options: &ScanOptions) -> Result<Scan> {
        let snapshot = match options.version {
            None => self.look()?,
            Some(version) => Arc::new(self.snapshot_at(version)?),
        };
        let columns = chosen(&snapshot, options.columns.as_deref())?;
        let question = Question::of(&snapshot, &options.conditions, "where")?;
        let files = question.files(&snapshot)?;
        let skipped = snapshot.contents.files.len() - files.len();
        Ok(Scan {
            plan: Arc::new(Plan::new(&self.place, &snapshot, columns, question.of_rows)?),
            files,
            skipped,
        })
    }
}

/// The columns of these names, by default all.
pub(crate) fn chosen(head: &Head, names: Option<&[String]>) -> Result<Vec<Column>> {
    let Some(names) = names else {
        return Ok(head.schema.columns.clone());
    };
    let columns = names.iter().map(|name| {
        let column = head.schema.column(name).cloned();
        column.ok_or_else(|| no_column(head, name))
    });
    columns.collect()
}

/// The error of a name that no column of the table has.
pub(crate) fn no_column(head: &Head, name: &str) -> TableError {
    let columns = head.schema.columns.iter();
    let known: Vec<&str> = columns.map(|column| column.name.as_str()).collect();
    TableError::column(
        name,
        format!(
            "the table has no column {name:?}: its columns are {}",
            known.join(", ")
        ),
    )
}

impl Scan {
    /// The schema of the answer.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.plan.schema)
    }

    /// The version that is read.
    #[must_use]
    pub fn version(&self) -> Version {
        self.plan.snapshot.version
    }

    /// The files that are read, in the order of the answer.
    pub fn files(&self) -> impl Iterator<Item = &Arc<Add>> {
        self.files.iter()
    }

    /// The table at that version.
    #[must_use]
    pub fn head(&self) -> &Head {
        &self.plan.snapshot
    }

    /// The number of files of the version that are left out.
    #[must_use]
    pub fn skipped(&self) -> usize {
        self.skipped
    }

    /// Starts to read, from the first file on. Each call reads anew.
    #[must_use]
    pub fn reader(&self) -> ScanReader {
        ScanReader::new(Arc::clone(&self.plan), self.files.clone())
    }
}
