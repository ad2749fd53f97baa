//! Data files of one transaction: rows are fitted to the table, checked, and spread over files by partition.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::SchemaRef;
use delta_commit::actions::{Add, PartitionValues};
use delta_commit::{CommitError, Version, path};
use parquet_dataset::{DatasetInput, DatasetOptions, Prepared, Spread, SpreadFile, SpreadPlan, ValuesIn};
use parquet_writer::{Batch, OptionFault, WriterOptions};

use crate::append::coalesce::Terms;
use crate::append::options::{AppendOptions, check_options};
use crate::buffered_rows::BufferedRows;
use crate::change_feed;
use crate::clock::now;
use crate::conditions::Conditions;
use crate::constraints::Constraints;
use crate::detached::DetachedFiles;
use crate::error::{Result, TableError};
use crate::head::TableHead;
use crate::limits::LengthLimits;
use crate::mapping::Mapping;
use crate::optimize::bytes_of;
use crate::properties::TARGET_FILE_SIZE;
use crate::row_ids;
use crate::rows::RowConversion;
use crate::schema::{ColumnType, Primitive, TableSchema};
use crate::stats_columns::StatsColumns;
use crate::storage::DataFiles;
use crate::table::SharedTable;

/// Bytes of a data file, unless the table or the caller says otherwise.
const FILE_BYTES: i64 = 1 << 30;

/// The files of a finished writer, for one commit.
#[derive(Debug, Default)]
pub(crate) struct WrittenFiles {
    pub adds: Vec<Add>,
    pub rows: u64,
    pub bytes: u64,
}

impl WrittenFiles {
    pub(super) fn extend(&mut self, part: &DetachedFiles) {
        self.adds.extend(part.adds.iter().cloned());
        self.rows += part.rows;
        self.bytes += part.bytes;
    }
}

/// Data files being written for one transaction.
pub(crate) struct DataWriter {
    shared: Arc<SharedTable>,
    pub(super) options: AppendOptions,
    writer_options: WriterOptions,
    /// The table when the first rows came, which rows are checked against.
    pub(super) head: Arc<TableHead>,
    /// The partition values of all rows as the log has them; none if they follow from the rows.
    partition: Option<PartitionValues>,
    pub(super) open: Option<OpenWriter>,
}

/// A comparison of rows with the table's constraints.
type ConstraintCheck<'a> = dyn Fn(&Constraints, &Batch) -> Result<()> + 'a;

/// The origin of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowsFrom {
    /// From outside. Texts have the lengths that their columns declare.
    Caller,
    /// From the table, but for new values that have these lengths.
    Table,
}

/// A batch that the table takes.
pub(super) struct Fitted {
    /// Its rows as the table has them.
    batch: Batch,
    /// The partition of each of them.
    plan: SpreadPlan,
    /// True if a column had to be converted.
    is_converted: bool,
}

pub(super) struct OpenWriter {
    shape: RowConversion,
    /// The table's schema once these rows are in it.
    pub(super) schema: Arc<TableSchema>,
    pub(super) changes_schema: bool,
    indexed: StatsColumns,
    limits: LengthLimits,
    constraints: Constraints,
    pub(super) spread: Spread<DataFiles>,
}

impl OpenWriter {
    /// The columns of the files, and the partition columns.
    pub(super) fn written(&self) -> TableSchema {
        let written = |name: &str| self.shape.schema().column_with_name(name).is_some();
        let columns = self.schema.columns.iter();
        TableSchema {
            columns: columns.filter(|column| written(&column.name)).cloned().collect(),
        }
    }
}

impl DataWriter {
    pub fn new(
        shared: Arc<SharedTable>,
        head: Arc<TableHead>,
        options: AppendOptions,
        writer_options: WriterOptions,
    ) -> Result<Self> {
        head.check_writable()?;
        let clustering = head.clustering()?;
        check_options(&writer_options)?;
        if let Some(column) = clustering
            .iter()
            .find(|column| !writer_options.has_statistics(column))
        {
            let why = format!(
                "statistics leaves out those of the column {:?}, by which the table is clustered: its protocol asks for \
                 them in every file; keep them",
                column.join(".")
            );
            return Err(TableError::Option(OptionFault::new("statistics", why)));
        }
        Ok(Self {
            shared,
            options,
            writer_options,
            head,
            partition: None,
            open: None,
        })
    }

    /// This writer, for files that have these partition values, as the log has them, whatever the rows say: a value may
    /// have another meaning for another reader, as a timestamp without a zone has, and another form than this writer's,
    /// as the empty text has.
    pub fn in_partition(self, values: &PartitionValues) -> Self {
        Self {
            partition: Some(values.clone()),
            ..self
        }
    }

    /// Checks that rows of a schema can be written. The first schema fixes the columns of the files.
    pub fn accept(&mut self, schema: &SchemaRef) -> Result<()> {
        self.opened(schema).map(drop)
    }

    fn opened(&mut self, schema: &SchemaRef) -> Result<&mut OpenWriter> {
        let open = match self.open.take() {
            Some(open) => open,
            None => self.start(schema)?,
        };
        Ok(self.open.insert(open))
    }

    /// The columns of the files; before the first rows, all of the table's.
    pub(super) fn schema(&self) -> SchemaRef {
        match &self.open {
            Some(open) => Arc::clone(open.shape.schema()),
            None => self.head.schema.arrow(),
        }
    }

    fn start(&self, schema: &SchemaRef) -> Result<OpenWriter> {
        let given = TableSchema::of_rows(schema, &self.head)?;
        let merge = self.options.merge_schema;
        let (table, changes_schema) = target_schema(&self.head, &self.head.schema, &given, merge)
            .map_err(|error| self.advised(error))?;
        if changes_schema {
            change_feed::check_columns(&self.head.metadata, &table)?;
        }
        for column in &self.head.metadata.partition_columns {
            if given.column(column).is_none() {
                return Err(TableError::column(
                    column,
                    format!("the rows have no column {column:?}, which the table is partitioned by"),
                ));
            }
        }
        let shape = RowConversion::new(&table, &given);
        let options = DatasetOptions::new(DatasetInput {
            partition_by: self.head.metadata.partition_columns.clone(),
            max_file_bytes: Some(self.file_bytes()),
            max_file_rows: self.options.max_file_rows,
            ..DatasetInput::default()
        })?;
        let prepared = Prepared::new(
            shape.schema(),
            options,
            self.writer_options
                .clone()
                .stored_as(self.head.mapping.stored_fields(&table.columns)),
            ValuesIn::Log,
        )?;
        Ok(OpenWriter {
            shape,
            indexed: StatsColumns::of(&self.head, &table)?,
            limits: LengthLimits::of(&table)?,
            constraints: Constraints::of(&self.head.metadata, &table)?,
            schema: table,
            changes_schema,
            spread: Spread::new(
                prepared,
                DataFiles::new(Arc::clone(&self.shared.storage), self.options.folder.as_deref())
                    .in_one_folder(self.head.mapping != Mapping::None)
                    .read_back(self.writer_options.verify().is_some()),
            ),
        })
    }

    /// The most bytes of a file: those of the caller, of the table, or the default. An unreadable
    /// `delta.targetFileSize` is ignored.
    fn file_bytes(&self) -> i64 {
        let of_table = || i64::try_from(bytes_of(self.head.property(TARGET_FILE_SIZE)?)?).ok();
        let asked = self.options.max_file_bytes.or_else(of_table);
        asked.unwrap_or(FILE_BYTES)
    }

    /// Adds to the error of rows that do not fit, for an overwrite of all rows, how to change the table's schema.
    fn advised(&self, error: TableError) -> TableError {
        match error {
            TableError::Commit(CommitError::Schema { column, message })
                if self.options.replace.as_ref().is_some_and(Conditions::is_empty) =>
            {
                let message = format!(
                    "{message}. An overwrite keeps the table's schema: create(..., mode=\"overwrite\") gives it another \
                     one, and no rows; append them then"
                );
                TableError::Commit(CommitError::Schema { column, message })
            }
            other => other,
        }
    }

    /// Takes a batch, or puts it into `buffered` while there is room. Its rows may wait for [`Self::encode`].
    pub fn take(
        &mut self,
        batch: &Batch,
        buffered: &mut Option<BufferedRows>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let check = |constraints: &Constraints, rows: &Batch| {
            constraints.check(rows, |row| format!("row {row} of a batch"))
        };
        let fitted = self.fit(batch, RowsFrom::Caller, buffered.is_some(), &check)?;
        self.take_fitted(fitted, buffered, go_on)
    }

    /// Checks all batches before any is taken. Their rows are numbered as those of one call.
    pub(super) fn fit_all(&mut self, batches: &[Batch], is_kept: bool) -> Result<Vec<Fitted>> {
        let mut before = 0;
        let fitted = batches.iter().map(|batch| {
            let check = |constraints: &Constraints, rows: &Batch| {
                constraints.check(rows, |row| format!("row {}", before + row))
            };
            let fitted = self.fit(batch, RowsFrom::Caller, is_kept, &check)?;
            before += batch.rows();
            Ok(fitted)
        });
        fitted.collect()
    }

    /// Takes a batch of a change, whose rows have no number that the caller knows.
    pub fn take_changed(&mut self, batch: &Batch, go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        let check = |constraints: &Constraints, rows: &Batch| {
            constraints.check(rows, |_| "a changed or inserted row".to_owned())
        };
        self.take_of_table(batch, &check, go_on)
    }

    /// Takes a batch of rows that the table has already: no constraint is compared with them.
    pub fn take_known(&mut self, batch: &Batch, go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        self.take_of_table(batch, &|_, _| Ok(()), go_on)
    }

    fn take_of_table(
        &mut self,
        batch: &Batch,
        check: &ConstraintCheck<'_>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let fitted = self.fit(batch, RowsFrom::Table, false, check)?;
        self.take_fitted(fitted, &mut None, go_on)
    }

    /// Checks a batch, and converts it to rows of the table.
    fn fit(
        &mut self,
        batch: &Batch,
        from: RowsFrom,
        is_kept: bool,
        check: &ConstraintCheck<'_>,
    ) -> Result<Fitted> {
        let open = self.opened(batch.schema())?;
        let given = batch.columns();
        let batch = open.shape.fit(batch)?;
        if from == RowsFrom::Caller {
            open.limits.check_batch(&batch)?;
        }
        let is_given = |column: &ArrayRef| given.iter().any(|given| Arc::ptr_eq(given, column));
        let is_converted = !batch.columns().iter().all(is_given);
        open.spread.check(&batch)?;
        if is_kept {
            // Rows that are buffered go into files with those of others.
            batch.check_text()?;
        }
        check(&open.constraints, &batch)?;
        let plan = open.spread.plan(&batch)?;
        Ok(Fitted {
            batch,
            plan,
            is_converted,
        })
    }

    pub(super) fn take_fitted(
        &mut self,
        fitted: Fitted,
        buffered: &mut Option<BufferedRows>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        if let (Some(buffered), Some(open)) = (buffered.as_mut(), &self.open)
            && buffered.keep(&fitted.batch, open.shape.schema())?
        {
            return Ok(());
        }
        self.take_buffered(buffered.take(), go_on)?;
        self.take_planned(&fitted.batch, fitted.plan, go_on)?;
        // What was converted is not the caller's, and would wait in memory of its own.
        if fitted.is_converted {
            self.encode(go_on)
        } else {
            Ok(())
        }
    }

    /// Encodes the rows that wait, and keeps nothing of their batches.
    pub fn encode(&mut self, go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        match &mut self.open {
            Some(open) => Ok(open.spread.encode(go_on)?),
            None => Ok(()),
        }
    }

    /// Returns true if the rows have columns that the table lacks.
    pub(super) fn changes_schema(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.changes_schema)
    }

    /// Returns true if batches are held from call to call.
    pub(super) fn holds_batches(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.spread.holds_batches())
    }

    /// Encodes the rows that wait, where they make a round with those of the batches that were taken now.
    pub(super) fn encode_round(&mut self, taken: &[Batch], go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        match &mut self.open {
            Some(open) => Ok(open.spread.encode_round(taken, go_on)?),
            None => Ok(()),
        }
    }

    /// Returns true if a batch failed of which rows were taken.
    pub(super) fn is_torn(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.spread.is_torn())
    }

    /// Takes rows that were buffered.
    pub fn take_buffered(
        &mut self,
        buffered: Option<BufferedRows>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        for batch in buffered.map(BufferedRows::into_batches).unwrap_or_default() {
            let Some(open) = &mut self.open else {
                return Ok(());
            };
            let plan = open.spread.plan(&batch)?;
            self.take_planned(&batch, plan, go_on)?;
        }
        Ok(())
    }

    fn take_planned(
        &mut self,
        batch: &Batch,
        plan: SpreadPlan,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        Ok(open.spread.take(batch, plan, go_on)?)
    }

    /// The terms on which the rows can share files with other appends; none when they change the table's schema.
    pub(super) fn terms(&self, read_version: Version) -> Option<Terms> {
        let open = self.open.as_ref().filter(|open| !open.changes_schema)?;
        Some(Terms {
            head: Arc::clone(&self.head),
            read_version,
            schema: Arc::clone(open.shape.schema()),
            options: self.options.clone(),
            writer_options: self.writer_options.clone(),
        })
    }

    /// Removes all files of a transaction that certainly is not in the table.
    pub fn discard(&mut self) {
        if let Some(open) = self.open.take() {
            open.spread.into_places().remove();
        }
    }

    /// Completes all files.
    pub fn finish(&mut self, go_on: &mut dyn FnMut() -> bool) -> Result<WrittenFiles> {
        let Some(open) = &mut self.open else {
            return Ok(WrittenFiles::default());
        };
        let files = open.spread.finish(go_on)?;
        let mut written = WrittenFiles::default();
        for file in files {
            written.rows += file.result.rows;
            written.bytes += file.result.bytes;
            let values = match &self.partition {
                Some(values) => values.clone(),
                None => self.head.stored_values(partition_of_file(&file, &open.schema)?),
            };
            written.adds.push(add_of(&file, values, open, &self.head)?);
        }
        Ok(written)
    }
}

/// The table's schema with rows of `given` in it; true if it differs from the present one.
pub(super) fn target_schema(
    head: &TableHead,
    table: &Arc<TableSchema>,
    given: &TableSchema,
    merge: bool,
) -> Result<(Arc<TableSchema>, bool)> {
    if merge && let Some(merged) = table.merged(given, head.mapping)? {
        merged.check_rows(given)?;
        return Ok((Arc::new(head.mapping.assigned(&merged, &head.metadata)), true));
    }
    table.check_rows(given)?;
    Ok((Arc::clone(table), false))
}

/// The action that brings a file into the table.
fn add_of(
    file: &SpreadFile,
    partition_values: PartitionValues,
    open: &OpenWriter,
    head: &TableHead,
) -> Result<Add> {
    let relative = file
        .path
        .to_str()
        .ok_or_else(|| TableError::Malformed(format!("the path {} is not UTF-8", file.path.display())))?;
    Ok(Add {
        path: path::encode(relative),
        partition_values,
        size: i64::try_from(file.result.bytes).unwrap_or(i64::MAX),
        modification_time: now(),
        data_change: true,
        stats: Some(head.stored_stats(
            &row_ids::shown(&open.schema, &head.metadata),
            &open.indexed,
            &file.result.metadata,
        )),
        ..Add::default()
    })
}

/// The partition values of a file whose rows have them.
///
/// # Errors
/// [`CommitError::Schema`] when an empty text, which is written as null, is in a column that has no nulls.
fn partition_of_file(file: &SpreadFile, schema: &TableSchema) -> Result<PartitionValues> {
    let values = partition_values(&file.partition, schema);
    for (name, value) in values.iter() {
        let column = schema.column(name);
        if value.is_none() && column.is_some_and(|column| !column.nullable) {
            return Err(TableError::column(
                name,
                format!(
                    "the partition column {name:?} has an empty text: Delta stores it as null, which the table does \
                     not allow there"
                ),
            ));
        }
    }
    Ok(values)
}

/// Partition values in the log's form: those of folders, except timestamps, which every reader must take for UTC.
fn partition_values(values: &[(String, Option<String>)], schema: &TableSchema) -> PartitionValues {
    values
        .iter()
        .map(|(name, value)| {
            let moment = schema
                .column(name)
                .is_some_and(|column| column.kind == ColumnType::Primitive(Primitive::Timestamp));
            let value = value
                .as_deref()
                .map(|text| if moment { utc(text) } else { text.to_owned() });
            (name.clone(), value)
        })
        .collect()
}

/// `2026-01-31 12:30:00.5Z` as `2026-01-31T12:30:00.500000Z`.
fn utc(text: &str) -> String {
    let text = text.trim_end_matches('Z').replacen(' ', "T", 1);
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    format!("{whole}.{fraction:0<6}Z")
}
