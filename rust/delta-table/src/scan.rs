//! Scans: the rows of one version that satisfy conditions, as Arrow batches.
//!
//! Files are left out by their partition values and statistics, row groups by theirs. The `parquet` crate decodes what
//! is left, first the columns that the conditions name, then the others of the rows that satisfy them. The answer is
//! exact: statistics only save work.

mod adapt;
mod calendar;
mod changes;
mod constants;
mod dictionaries;
mod pages;
mod positions;
mod prefetch;
mod question;
mod reader;
mod row_numbers;

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use delta_commit::actions::Add;
use delta_commit::{Version, path};

use crate::conditions::Conditions;
use crate::error::{Result, TableError};
use crate::head::TableHead;
use crate::near::near;
use crate::row_ids::{self, RowValue};
use crate::schema::{ColumnType, Primitive, TableColumn};
use crate::snapshot::Snapshot;
use crate::storage::TableStorage;
use crate::table::Table;

pub(crate) use adapt::adapt;
pub(crate) use calendar::Calendar;
pub use changes::{Changes, ChangesOptions, ChangesReader};
pub(crate) use constants::constant;
pub(crate) use positions::{FileRows, FoundRows, NumberedRows, RowSearch, row_count};
pub use prefetch::ScanReader;
use question::columns_of;
pub(crate) use question::{Filters, Question};
use reader::Advice;
pub(crate) use reader::repeated;

/// The rows and columns to read.
#[derive(Debug, Clone, Default)]
pub struct ScanOptions {
    /// Names of top-level columns, in the order of the answer: of the table, or `_metadata.row_id` and
    /// `_metadata.row_commit_version`. The default is all of the table.
    pub columns: Option<Vec<String>>,
    /// Conditions that hold for every row of the answer.
    pub conditions: Conditions,
    /// The version. The default is the newest.
    pub version: Option<Version>,
}

/// A scan that is planned: its files are chosen, and none is read yet.
pub struct Scan {
    plan: Arc<ScanPlan>,
    files: Vec<Arc<Add>>,
    skipped: usize,
}

/// Everything that holds for all files of a scan.
pub(crate) struct ScanPlan {
    storage: Arc<dyn TableStorage>,
    snapshot: Arc<Snapshot>,
    /// The columns of the answer, as files have them.
    columns: Vec<TableColumn>,
    /// The columns of the answer in which row tracking has the values that files lack.
    tracked: Vec<TrackedColumn>,
    schema: SchemaRef,
    /// Conditions on columns that the files hold, or on these and partition columns.
    filters: Filters,
    /// The advice about a file that is not there.
    advice: Option<Advice>,
}

impl ScanPlan {
    pub fn new(
        storage: &Arc<dyn TableStorage>,
        snapshot: &Arc<Snapshot>,
        columns: Vec<TableColumn>,
        filters: Filters,
    ) -> Result<Self> {
        snapshot.check_names()?;
        let fields: Vec<Field> = columns.iter().map(TableColumn::arrow).collect();
        Ok(Self {
            storage: Arc::clone(storage),
            snapshot: Arc::clone(snapshot),
            columns,
            tracked: Vec::new(),
            schema: Arc::new(Schema::new(fields)),
            filters,
            advice: Some(reader::advice),
        })
    }

    /// The same, where nulls of some columns are what row tracking says of a row.
    pub fn tracking(self, tracked: Vec<TrackedColumn>) -> Self {
        let mut fields = self.schema.fields().to_vec();
        for column in &tracked {
            fields[column.place] = Arc::new(column.answer.clone());
        }
        Self {
            tracked,
            schema: Arc::new(Schema::new(fields)),
            ..self
        }
    }

    /// The same without advice about a file that is not there: the caller has its own.
    pub fn unadvised(self) -> Self {
        Self { advice: None, ..self }
    }

    /// Returns true if a condition asks for the column that files have under this name, which is one of text, and for
    /// no other column.
    fn asks_for_text(&self, stored_name: &str) -> bool {
        let mut filters = self.filters.each.iter();
        filters.any(|filter| match columns_of(&self.snapshot, filter)[..] {
            [column] => {
                column.kind == ColumnType::Primitive(Primitive::String)
                    && self.snapshot.mapping.stored_name(column) == stored_name
            }
            _ => false,
        })
    }

    /// The place of each column of the answer among the fields of a file; none where the file does not hold it.
    fn places(&self, fields: &Fields) -> Vec<Option<usize>> {
        let places = self.columns.iter().enumerate().map(|(number, column)| {
            if self.tracked.iter().any(|tracked| tracked.place == number) {
                // No schema has it, so that it has no other name in files.
                return fields.iter().position(|field| *field.name() == column.name);
            }
            if self.snapshot.is_partition_column(column) {
                return None;
            }
            self.snapshot.mapping.place(fields, column)
        });
        places.collect()
    }
}

/// A column of the answer whose nulls are what row tracking says of a row.
pub(crate) struct TrackedColumn {
    /// Its place in the answer.
    pub place: usize,
    /// The field of the answer.
    pub answer: Field,
    pub value: RowValue,
}

impl Table {
    /// Plans a scan. A file that can hold no row of the answer, by its partition values or its statistics, is left out.
    ///
    /// # Errors
    /// An error if the table cannot be read at this version, a column is not there, or a condition does not fit its
    /// column; [`delta_commit::CommitError::Unsupported`] if a file has an absolute path. Columns of row tracking are
    /// there where the table has it.
    pub fn scan(&self, options: &ScanOptions) -> Result<Scan> {
        let snapshot = match options.version {
            None => self.snapshot()?,
            Some(version) => self.snapshot_of(version)?,
        };
        let (columns, tracked) = answered(&snapshot, options.columns.as_deref())?;
        let question = Question::of(&snapshot, &options.conditions, "where")?;
        let files = question.files(&snapshot)?;
        // Here, since readers of the stream wrap its errors in their own.
        for add in &files {
            path::decode_inside(&add.path)?;
        }
        let skipped = snapshot.contents.files.len() - files.len();
        let plan = ScanPlan::new(&self.storage, &snapshot, columns, question.of_rows)?;
        Ok(Scan {
            plan: Arc::new(plan.tracking(tracked)),
            files,
            skipped,
        })
    }
}

/// The columns of these names, by default all.
pub(crate) fn chosen(head: &TableHead, names: Option<&[String]>) -> Result<Vec<TableColumn>> {
    let Some(names) = names else {
        return Ok(head.schema.columns.clone());
    };
    let columns = names.iter().map(|name| {
        let column = head.schema.column(name).cloned();
        column.ok_or_else(|| no_column(head, name))
    });
    columns.collect()
}

/// The columns of a scan by their names, by default those of the table, and those of row tracking among them.
fn answered(head: &TableHead, names: Option<&[String]>) -> Result<(Vec<TableColumn>, Vec<TrackedColumn>)> {
    let mut tracked = Vec::new();
    let Some(names) = names else {
        return Ok((head.schema.columns.clone(), tracked));
    };
    let columns = names.iter().enumerate().map(|(place, name)| {
        match (head.schema.column(name), RowValue::named(name)) {
            (None, Some(value)) => {
                tracked.push(TrackedColumn {
                    place,
                    answer: Field::new(name, DataType::Int64, false),
                    value,
                });
                row_ids::stored_column(head, value)
            }
            (Some(column), _) => Ok(column.clone()),
            (None, None) => Err(no_column(head, name)),
        }
    });
    Ok((columns.collect::<Result<_>>()?, tracked))
}

/// The error of a name that no column of the table has.
pub(crate) fn no_column(head: &TableHead, name: &str) -> TableError {
    TableError::column(
        name,
        format!("the table has no column {name:?}: {}", instead_of(head, name)),
    )
}

/// Suggests columns with a similar name, or lists all.
pub(crate) fn instead_of(head: &TableHead, name: &str) -> String {
    let columns = head.schema.columns.iter();
    let known: Vec<&str> = columns.map(|column| column.name.as_str()).collect();
    let near = near(name, known.iter().copied());
    if near.is_empty() {
        format!("its columns are {}", known.join(", "))
    } else {
        format!("did you mean {}?", near.join(" or "))
    }
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
    pub fn head(&self) -> &TableHead {
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
