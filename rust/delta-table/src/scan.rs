//! Scans: the rows of one version that satisfy conditions, as Arrow batches.
//!
//! Files are left out by their partition values and statistics, row groups by theirs. The `parquet` crate decodes what
//! is left, first the columns that the conditions name, then the others of the rows that satisfy them. The answer is
//! exact: statistics only save work.

mod adapt;
mod constants;
mod filter;
mod reader;

use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef};
use delta_commit::Version;
use delta_commit::actions::Add;
use delta_commit::predicate::{Predicate, Term};

use crate::error::{Result, TableError};
use crate::operations::Condition;
use crate::place::Place;
use crate::schema::Column;
use crate::snapshot::Snapshot;
use crate::table::Table;

pub use reader::ScanReader;

/// The rows and columns to read.
#[derive(Debug, Clone, Default)]
pub struct ScanOptions {
    /// Names of top-level columns, in the order of the answer. The default is all of the table.
    pub columns: Option<Vec<String>>,
    /// Conditions that all hold for every row of the answer.
    pub conditions: Vec<Condition>,
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
struct Plan {
    place: Arc<dyn Place>,
    snapshot: Arc<Snapshot>,
    /// The columns of the answer.
    columns: Vec<Column>,
    schema: SchemaRef,
    /// Conditions on columns that the files hold.
    conditions: Predicate,
}

impl Plan {
    fn is_partition_column(&self, name: &str) -> bool {
        self.snapshot
            .metadata
            .partition_columns
            .iter()
            .any(|column| column == name)
    }
}

impl Table {
    /// Plans a scan. A file that can hold no row of the answer, by its partition values or its statistics, is left out.
    ///
    /// # Errors
    /// An error if the table cannot be read at this version, a column is not there, a condition does not fit its column,
    /// or a file has what is not built: deleted rows that are marked, or columns under other names.
    pub fn scan(&self, options: &ScanOptions) -> Result<Scan> {
        let snapshot = match options.version {
            None => self.look()?,
            Some(version) => Arc::new(self.snapshot_at(version)?),
        };
        snapshot.check_names()?;
        let columns = chosen(&snapshot, options.columns.as_deref())?;
        let terms = options
            .conditions
            .iter()
            .map(|condition| condition.term(&snapshot));
        let (of_partitions, of_rows): (Vec<Term>, Vec<Term>) = terms
            .collect::<Result<Vec<_>>>()?
            .into_iter()
            .partition(|term| snapshot.metadata.partition_columns.contains(&term.column[0]));
        let fields: Vec<Field> = columns.iter().map(Column::arrow).collect();
        let plan = Plan {
            place: Arc::clone(&self.place),
            columns,
            schema: Arc::new(Schema::new(fields)),
            conditions: Predicate(of_rows),
            snapshot,
        };
        let mut files = Vec::new();
        let mut skipped = 0;
        for file in plan.snapshot.files() {
            if constants::satisfy(&plan.snapshot, file, &of_partitions)? && plan.conditions.may_match(file) {
                files.push(Arc::clone(file));
            } else {
                skipped += 1;
            }
        }
        if let Some(file) = files.iter().find(|file| file.deletion_vector.is_some()) {
            return Err(TableError::unsupported(format!(
                "{}: the file has rows that are marked as deleted (a deletion vector), and reading them is not built: \
                 read the table with Spark, polars or DuckDB, or rewrite it with Spark's REORG TABLE ... APPLY (PURGE)",
                file.path
            )));
        }
        Ok(Scan {
            plan: Arc::new(plan),
            files,
            skipped,
        })
    }
}

/// The columns of these names, by default all.
fn chosen(snapshot: &Snapshot, names: Option<&[String]>) -> Result<Vec<Column>> {
    let Some(names) = names else {
        return Ok(snapshot.schema.columns.clone());
    };
    let columns = names.iter().map(|name| {
        snapshot.schema.column(name).cloned().ok_or_else(|| {
            let known: Vec<&str> = snapshot
                .schema
                .columns
                .iter()
                .map(|column| column.name.as_str())
                .collect();
            TableError::column(
                name,
                format!(
                    "the table has no column {name:?}: its columns are {}",
                    known.join(", ")
                ),
            )
        })
    });
    columns.collect()
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
