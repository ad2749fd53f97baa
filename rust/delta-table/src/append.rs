//! An append: it writes files first, and commits them once at the end.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::SchemaRef;
use delta_commit::actions::{Action, Add, Metadata, PartitionValues, Txn};
use delta_commit::clustering::without_statistics;
use delta_commit::log::{LoggedSize, UnsyncedFile};
use delta_commit::{CommitError, MemberId, Operation, Patience, Transaction, Version, announced_files, path};
use parquet_dataset::{DatasetInput, DatasetOptions, Prepared, Spread, SpreadFile, SpreadPlan, ValuesIn};
use parquet_writer::{Batch, OptionFault, Timestamps, WriteError, WriterOptions};

use crate::change_feed;
use crate::clock::now;
use crate::coalesce::{self, Terms};
use crate::conditions::{Conditions, FileChoice};
use crate::constraints::{self, Constraints};
use crate::create::is_quicker;
use crate::detached::{self, Part, check_new, is_known, stray_files};
use crate::error::{Result, TableError};
use crate::head::Head;
use crate::indexed::Indexed;
use crate::kept::Kept;
use crate::limits::Limits;
use crate::mapping::Mapping;
use crate::operations::remove_chosen;
use crate::optimize::bytes_of;
use crate::place::DataFiles;
use crate::properties::TARGET_FILE_SIZE;
use crate::row_ids;
use crate::rows::Shape;
use crate::schema::{Column, Kind, Primitive, TableSchema};
use crate::single_flight::Look;
use crate::snapshot::Snapshot;
use crate::table::{CommitCounter, Shared, Table, or_late, patient};

mod async_commit;

pub use async_commit::{Answer, Reply, Step, Wait};

/// Bytes of a data file, unless the table or the caller says otherwise.
const FILE_BYTES: i64 = 1 << 30;

/// The options of an append.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AppendOptions {
    /// True if columns that the table lacks are added to it.
    pub merge_schema: bool,
    /// The application's id and its transaction version. Rows of a version that the table already has are not written
    /// again.
    pub app_transaction: Option<(String, i64)>,
    /// Conditions on partition columns alone. The append replaces the rows that satisfy all of them; with an empty list
    /// it replaces every row.
    pub replace: Option<Conditions>,
    /// A note for the history.
    pub user_metadata: Option<String>,
    /// Bytes of a file.
    pub max_file_bytes: Option<i64>,
    /// Rows of a file.
    pub max_file_rows: Option<i64>,
    /// True if appends of this process that commit at the same time share files and a transaction.
    pub coalesce: bool,
    /// The folder in the table for the data files, where they are not to be in the table's own.
    pub folder: Option<String>,
}

/// The files of a finished writer, for one commit.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub adds: Vec<Add>,
    pub rows: u64,
    pub bytes: u64,
}

impl Written {
    fn extend(&mut self, part: &Part) {
        self.adds.extend(part.adds.iter().cloned());
        self.rows += part.rows;
        self.bytes += part.bytes;
    }
}

/// Checks that a Delta table takes files with these options.
///
/// # Errors
/// [`TableError::Option`] says why not.
pub fn check_options(options: &WriterOptions) -> Result<()> {
    let refuse = |option: &str, why: &str| Err(TableError::Option(OptionFault::new(option, why)));
    if options.is_encrypted() {
        return refuse(
            "encryption",
            "encryption is not accepted for a Delta table: its log holds the least and the greatest value of each column \
             as they are, and its readers are given no keys; leave it out",
        );
    }
    if options.has_field_ids() {
        return refuse(
            "field_ids",
            "field_ids is not accepted for a Delta table, which numbers its columns itself where it maps their names; \
             leave it out",
        );
    }
    if options.timestamps() == Timestamps::Ms {
        return refuse(
            "timestamps",
            "timestamps=\"ms\" is not accepted for a Delta table, whose timestamps are in microseconds: leave it out, or \
             round the times before",
        );
    }
    Ok(())
}

/// Data files being written for one transaction.
pub(crate) struct DataWriter {
    shared: Arc<Shared>,
    options: AppendOptions,
    writer_options: WriterOptions,
    /// The table when the first rows came, which rows are checked against.
    head: Arc<Head>,
    /// The partition values of all rows as the log has them; none if they follow from the rows.
    partition: Option<PartitionValues>,
    open: Option<Open>,
}

/// A comparison of rows with the table's constraints.
type Check<'a> = dyn Fn(&Constraints, &Batch) -> Result<()> + 'a;

/// The origin of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowsFrom {
    /// From outside. Texts have the lengths that their columns declare.
    Caller,
    /// From the table, but for new values that have these lengths.
    Table,
}

/// A batch that the table takes.
struct Fitted {
    /// Its rows as the table has them.
    batch: Batch,
    /// The partition of each of them.
    plan: SpreadPlan,
    /// True if a column had to be converted.
    is_converted: bool,
}

struct Open {
    shape: Shape,
    /// The table's schema once these rows are in it.
    schema: Arc<TableSchema>,
    changes_schema: bool,
    indexed: Indexed,
    limits: Limits,
    constraints: Constraints,
    spread: Spread<DataFiles>,
}

impl Open {
    /// The columns of the files, and the partition columns.
    fn written(&self) -> TableSchema {
        let written = |name: &str| self.shape.schema().column_with_name(name).is_some();
        let columns = self.schema.columns.iter();
        TableSchema {
            columns: columns.filter(|column| written(&column.name)).cloned().collect(),
        }
    }
}

/// Returns true if the files' column can be read as the table's column once that has the new fields. Files are not
/// rewritten.
fn holds_as_written(schema: &TableSchema, column: &Column) -> bool {
    schema.column(&column.name).is_none_or(|now| {
        let merged = now.kind.merged(&column.kind);
        (now.nullable || !column.nullable)
            && merged.is_some_and(|merged| merged.is_evolved_from(&column.kind))
    })
}

fn check_one_type(schema: &TableSchema, written: &TableSchema) -> Result<()> {
    let mut columns = written.columns.iter();
    match columns.find(|column| !holds_as_written(schema, column)) {
        Some(column) => Err(TableError::column(
            &column.name,
            format!(
                "the parts of the append have different types in the column {:?}: give it one type in all of them",
                column.name
            ),
        )),
        None => Ok(()),
    }
}

impl DataWriter {
    pub fn new(
        shared: Arc<Shared>,
        head: Arc<Head>,
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

    fn opened(&mut self, schema: &SchemaRef) -> Result<&mut Open> {
        let open = match self.open.take() {
            Some(open) => open,
            None => self.start(schema)?,
        };
        Ok(self.open.insert(open))
    }

    /// The columns of the files; before the first rows, all of the table's.
    fn schema(&self) -> SchemaRef {
        match &self.open {
            Some(open) => Arc::clone(open.shape.schema()),
            None => self.head.schema.arrow(),
        }
    }

    fn start(&self, schema: &SchemaRef) -> Result<Open> {
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
        let shape = Shape::new(&table, &given);
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
        Ok(Open {
            shape,
            indexed: Indexed::of(&self.head, &table)?,
            limits: Limits::of(&table)?,
            constraints: Constraints::of(&self.head.metadata, &table)?,
            schema: table,
            changes_schema,
            spread: Spread::new(
                prepared,
                DataFiles::new(Arc::clone(&self.shared.place), self.options.folder.as_deref())
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

    /// Takes a batch, or puts it into `kept` while there is room. Its rows may wait for [`Self::encode`].
    pub fn take(
        &mut self,
        batch: &Batch,
        kept: &mut Option<Kept>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let check = |constraints: &Constraints, rows: &Batch| {
            constraints.check(rows, |row| format!("row {row} of a batch"))
        };
        let fitted = self.fit(batch, RowsFrom::Caller, kept.is_some(), &check)?;
        self.take_fitted(fitted, kept, go_on)
    }

    /// Checks all batches before any is taken. Their rows are numbered as those of one call.
    fn fit_all(&mut self, batches: &[Batch], is_kept: bool) -> Result<Vec<Fitted>> {
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
        check: &Check<'_>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let fitted = self.fit(batch, RowsFrom::Table, false, check)?;
        self.take_fitted(fitted, &mut None, go_on)
    }

    /// Checks a batch, and converts it to rows of the table.
    fn fit(&mut self, batch: &Batch, from: RowsFrom, is_kept: bool, check: &Check<'_>) -> Result<Fitted> {
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
            // Rows that are kept go into files with those of others.
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

    fn take_fitted(
        &mut self,
        fitted: Fitted,
        kept: &mut Option<Kept>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        if let (Some(kept), Some(open)) = (kept.as_mut(), &self.open)
            && kept.keep(&fitted.batch, open.shape.schema())?
        {
            return Ok(());
        }
        self.take_kept(kept.take(), go_on)?;
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
    fn changes_schema(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.changes_schema)
    }

    /// Returns true if batches are held from call to call.
    fn holds_batches(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.spread.holds_batches())
    }

    /// Encodes the rows that wait, where they make a round with those of the batches that were taken now.
    fn encode_round(&mut self, taken: &[Batch], go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        match &mut self.open {
            Some(open) => Ok(open.spread.encode_round(taken, go_on)?),
            None => Ok(()),
        }
    }

    /// Returns true if a batch failed of which rows were taken.
    fn is_torn(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.spread.is_torn())
    }

    /// Takes rows that were kept.
    pub fn take_kept(&mut self, kept: Option<Kept>, go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        for batch in kept.map(Kept::into_batches).unwrap_or_default() {
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
    fn terms(&self, read_version: Version) -> Option<Terms> {
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
    pub fn finish(&mut self, go_on: &mut dyn FnMut() -> bool) -> Result<Written> {
        let Some(open) = &mut self.open else {
            return Ok(Written::default());
        };
        let files = open.spread.finish(go_on)?;
        let mut written = Written::default();
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
fn target_schema(
    head: &Head,
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

/// The actions that give the table another schema.
pub(crate) fn metadata_actions(head: &Head, schema: &TableSchema) -> Result<Vec<Action>> {
    let mut actions = Vec::new();
    if schema.has_ntz() && !head.schema.has_ntz() {
        actions
            .extend(crate::create::with_feature(&head.protocol, "timestampNtz", true)?.map(Action::Protocol));
    }
    let mut metadata = Metadata {
        schema_string: schema.to_json(),
        ..head.metadata.as_ref().clone()
    };
    head.mapping.note_highest(&mut metadata, schema);
    actions.push(Action::Metadata(metadata));
    Ok(actions)
}

/// The actions that a planned table begins with.
fn first_actions(head: &Head, changes: bool) -> Result<Vec<Action>> {
    if changes {
        return Err(TableError::refused(
            "the rows have columns that the planned table lacks: plan it with all of them",
        ));
    }
    Ok(vec![
        Action::Protocol(head.protocol.clone()),
        Action::Metadata(head.metadata.as_ref().clone()),
    ])
}

/// The action that brings a file into the table.
fn add_of(file: &SpreadFile, partition_values: PartitionValues, open: &Open, head: &Head) -> Result<Add> {
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
                .is_some_and(|column| column.kind == Kind::Primitive(Primitive::Timestamp));
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

/// An append that is under way. If it is dropped before its commit, its files are removed.
pub struct Append {
    shared: Arc<Shared>,
    read_version: Version,
    /// The transaction version of the append's application in that version.
    app_version: Option<i64>,
    /// The files that the append replaces; none when it replaces nothing.
    replaced: Option<Replaced>,
    writer: DataWriter,
    /// Rows that are to share files with other appends; none when the append has files of its own.
    kept: Option<Kept>,
    /// Measures of the caller for the history.
    metrics: BTreeMap<String, String>,
    /// Files that other processes wrote.
    attached: Vec<Part>,
    /// The paths of these files.
    taken: HashSet<String>,
    /// The table's schema with the attached rows in it; none before the first part.
    merged: Option<Merged>,
    /// The table as it was when the first of them came.
    known: Option<Arc<Snapshot>>,
    /// Its transactions that the committer got.
    tried: Vec<MemberId>,
    /// True if the table already has these rows.
    is_repeated: bool,
    state: State,
    /// True while a commit waits for an answer without a thread.
    is_posted: bool,
    /// True if the committer got the files and did not say that they are in no version.
    in_doubt: bool,
    /// The process that the append belongs to. A forked child inherits the append, but the files are its parent's.
    process: u32,
}

/// The state of the table that an append begins with.
pub(crate) struct Basis {
    head: Arc<Head>,
    read_version: Version,
    /// The transaction version of the append's application.
    app_version: Option<i64>,
    replaced: Option<Replaced>,
}

/// The files that an append replaces.
struct Replaced {
    conditions: Conditions,
    choice: FileChoice,
    files: Vec<Arc<Add>>,
}

impl Basis {
    /// That of an append that depends on no file and no application.
    pub fn blind(head: Arc<Head>, read_version: Version) -> Self {
        Self {
            head,
            read_version,
            app_version: None,
            replaced: None,
        }
    }

    /// That of an append with these options, as far as it has to be read from the log.
    fn of(shared: &Shared, options: &AppendOptions, look: Look<'_>) -> Result<Self> {
        if let Some(conditions) = &options.replace {
            let table = shared.snapshot(look)?;
            table.check_removable("overwriting")?;
            let choice = FileChoice::of(&table, conditions, "where")?;
            let app_id = options.app_transaction.as_ref().map(|(app_id, _)| app_id);
            return Ok(Self {
                head: Arc::clone(&table.head),
                read_version: table.version,
                app_version: app_id.and_then(|app_id| table.transaction_version(app_id)),
                replaced: Some(Replaced {
                    files: choice.files(&table)?,
                    conditions: conditions.clone(),
                    choice,
                }),
            });
        }
        if let Some((app_id, _)) = &options.app_transaction {
            let (head, app_version) = shared.progress(app_id, look)?;
            return Ok(Self {
                app_version,
                ..Self::at(head)
            });
        }
        let (head, version) = shared.base(look)?;
        Ok(Self::blind(head, version))
    }

    fn at(head: Arc<Head>) -> Self {
        let version = head.version;
        Self::blind(head, version)
    }
}

/// A schema that the next attached part is checked against.
struct Merged {
    schema: Arc<TableSchema>,
    /// True if the append's own rows are in it.
    has_own: bool,
}

enum State {
    Writing,
    /// The files are complete, and their commit may be in doubt.
    Written(Written),
    Committed(Version),
    Closed(&'static str),
}

impl Table {
    /// Begins an append.
    ///
    /// # Errors
    /// [`CommitError::Unsupported`] when the table asks its writers for what is not built.
    pub fn append(&self, options: AppendOptions, writer_options: WriterOptions) -> Result<Append> {
        coalesce::check(&options)?;
        let shared = self.shared()?;
        let basis = Basis::of(&shared, &options, &mut shared.looking())?;
        Append::begin(shared, basis, options, writer_options)
    }
}

impl Append {
    /// Begins an append to the table as it is in `basis`.
    pub(crate) fn begin(
        shared: Arc<Shared>,
        basis: Basis,
        options: AppendOptions,
        writer_options: WriterOptions,
    ) -> Result<Self> {
        let Basis {
            head,
            read_version,
            app_version,
            replaced,
        } = basis;
        let is_repeated = options
            .app_transaction
            .as_ref()
            .is_some_and(|(_, version)| app_version.is_some_and(|known| known >= *version));
        let kept = (options.coalesce && !shared.is_planned).then(Kept::default);
        let writer = DataWriter::new(Arc::clone(&shared), head, options, writer_options)?;
        Ok(Self {
            shared,
            read_version,
            app_version,
            replaced,
            writer,
            kept,
            metrics: BTreeMap::new(),
            attached: Vec::new(),
            taken: HashSet::new(),
            merged: None,
            known: None,
            tried: Vec::new(),
            is_repeated,
            state: State::Writing,
            is_posted: false,
            in_doubt: false,
            process: std::process::id(),
        })
    }

    /// A counter of the versions that this process tries to write to the table.
    #[must_use]
    pub fn commit_counter(&self) -> CommitCounter {
        CommitCounter(Arc::clone(&self.shared))
    }

    /// Returns true if it takes no more rows.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.is_posted || !matches!(self.state, State::Writing)
    }

    /// Returns true if the table already has these rows by their application's transaction version. They are not
    /// written again.
    #[must_use]
    pub fn is_repeated(&self) -> bool {
        self.is_repeated
    }

    /// The version that holds the rows, once they are committed.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        match self.state {
            State::Committed(version) => Some(version),
            _ => None,
        }
    }

    fn refuse_if_closed(&self) -> Result<()> {
        let why = match self.state {
            State::Writing if !self.is_posted => return Ok(()),
            State::Writing | State::Written(_) => {
                return Err(WriteError::Closed("the append is being committed".into()).into());
            }
            State::Committed(_) => "is committed",
            State::Closed(why) => why,
        };
        Err(WriteError::Closed(format!("the append {why}: begin another one")).into())
    }

    /// Checks that rows of this schema can be written.
    ///
    /// # Errors
    /// [`CommitError::Schema`] names what does not fit the table.
    pub fn accept(&mut self, schema: &SchemaRef) -> Result<()> {
        self.refuse_if_closed()?;
        self.writer.accept(schema)
    }

    /// Writes a batch.
    ///
    /// # Errors
    /// [`CommitError::Schema`] when the batch does not fit, and [`TableError::Constraint`] when a constraint is not
    /// true for a row of it: nothing of it was written and the append can go on. After any other error it is closed and
    /// its files are gone.
    pub fn write(&mut self, batch: &Batch, go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        self.write_all(std::slice::from_ref(batch), go_on)
    }

    /// The schema that rows are built for: the columns of the files; before the first rows, all of the table's.
    ///
    /// # Errors
    /// [`WriteError::Closed`] when the append takes no more rows.
    pub fn schema(&self) -> Result<SchemaRef> {
        self.refuse_if_closed()?;
        Ok(self.writer.schema())
    }

    /// Writes batches, in each file one column of theirs after the other. Nothing is kept of the batches, unless the
    /// options say that they may be held.
    ///
    /// # Errors
    /// As [`Self::write`]. The batches before one that does not fit are written; [`TableError::Constraint`] has the
    /// number of their rows.
    pub fn write_all(&mut self, batches: &[Batch], go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        if self.writer.holds_batches() {
            return self.hold_all(batches, go_on);
        }
        let taken = self.take_all(batches, go_on);
        if self.is_closed() {
            return taken;
        }
        self.encode(go_on).and(taken)
    }

    /// Writes batches likewise, which are held until they make a round with those of other calls. Their buffers must
    /// stay as they are until [`Self::released`] returns them. Under a memory limit none are held.
    ///
    /// # Errors
    /// As [`Self::write_all`]; nothing is held after an error. Text that is not valid may be found by a later call.
    pub fn hold_all(&mut self, batches: &[Batch], go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        let taken = self.take_all(batches, go_on);
        if self.is_closed() {
            return taken;
        }
        match taken {
            Ok(()) => self.encode_round(batches, go_on),
            refused => self.encode(go_on).and(refused),
        }
    }

    /// The batches that were held and whose rows are encoded, or never will be. Their buffers are freed with them.
    pub fn released(&mut self) -> Vec<Batch> {
        match &mut self.writer.open {
            Some(open) => open.spread.released(),
            None => Vec::new(),
        }
    }

    /// Takes batches, up to one that does not fit.
    fn take_all(&mut self, batches: &[Batch], go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        let mut rows = 0;
        batches.iter().try_for_each(|batch| {
            let taken = self.take(batch, go_on).map_err(|error| error.after(rows));
            rows += batch.rows() as u64;
            taken
        })
    }

    /// Holds batches likewise, or none of them when one does not fit.
    ///
    /// # Errors
    /// As [`Self::write`]. Nothing of any of the batches was written where the append can go on. Rows that their file
    /// refuses close it, unless they are among those of the first batch.
    pub fn write_whole(&mut self, batches: &[Batch], go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        self.refuse_if_closed()?;
        if self.is_repeated {
            return Ok(());
        }
        let was_open = self.writer.open.is_some();
        let fitted = self.writer.fit_all(batches, self.kept.is_some());
        if fitted.is_err() && !was_open {
            // Rows of which nothing is kept say nothing of the columns either.
            self.writer.open = None;
        }
        let fitted = fitted.map_err(|error| self.shared.or_replaced(error))?;
        for (number, fitted) in fitted.into_iter().enumerate() {
            let kept = self.kept.is_some();
            let done = self.writer.take_fitted(fitted, &mut self.kept, go_on);
            let taken = self.after_take(done, kept);
            if taken.is_err() && number > 0 && !self.is_closed() {
                self.fail();
            }
            taken?;
        }
        self.encode_round(batches, go_on)
    }

    /// Encodes the rows that wait.
    fn encode(&mut self, go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        let encoded = self.writer.encode(go_on);
        self.or_fail(encoded)
    }

    /// Encodes the rows that wait, where they make a round.
    fn encode_round(&mut self, taken: &[Batch], go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        let encoded = self.writer.encode_round(taken, go_on);
        self.or_fail(encoded)
    }

    /// Closes the append where rows could not be encoded.
    fn or_fail(&mut self, encoded: Result<()>) -> Result<()> {
        if encoded.is_err() {
            self.fail();
        }
        encoded.map_err(|error| self.shared.or_replaced(error))
    }

    /// Closes the append after an error, and removes its files.
    fn fail(&mut self) {
        self.abort();
        self.state = State::Closed("failed before");
    }

    /// Takes a batch, whose rows may wait for the end of the call.
    fn take(&mut self, batch: &Batch, go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        self.refuse_if_closed()?;
        if self.is_repeated {
            return Ok(());
        }
        let kept = self.kept.is_some();
        let done = self.writer.take(batch, &mut self.kept, go_on);
        self.after_take(done, kept)
    }

    /// Closes the append after an error, unless nothing of the batch was written. Rows were kept before it, or not.
    fn after_take(&mut self, done: Result<()>, kept: bool) -> Result<()> {
        // Rows that were kept may be half written by then, and so may be those of some partitions.
        let refused = kept == self.kept.is_some()
            && !self.writer.is_torn()
            && matches!(
                &done,
                Err(TableError::Commit(CommitError::Schema { .. })
                    | TableError::Constraint { .. }
                    | TableError::Write(WriteError::Schema(_) | WriteError::Option(_)))
            );
        if done.is_err() && !refused {
            self.fail();
        }
        done.map_err(|error| self.shared.or_replaced(error))
    }

    /// Completes the files and commits them.
    ///
    /// Returns their version, which survives a crash; without rows, the version that was read.
    ///
    /// # Errors
    /// [`CommitError::Unknown`] when it is not known yet whether they are in the table: their files stay. After every
    /// other error they certainly are not, and their files are gone.
    pub fn commit(
        &mut self,
        patience: &mut Patience<'_>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Version> {
        self.commit_noted(patience, go_on, &|| {})
    }

    /// Commits likewise, and calls back when the files are complete and may be in the table from then on.
    pub(crate) fn commit_noted(
        &mut self,
        patience: &mut Patience<'_>,
        go_on: &mut dyn FnMut() -> bool,
        tries: &dyn Fn(),
    ) -> Result<Version> {
        self.refuse_if_closed()?;
        if self.is_repeated {
            return self.commit_nothing();
        }
        let done = self.commit_rows(patience, go_on, tries);
        self.end(done)
    }

    /// Ends an append whose rows the table has.
    fn commit_nothing(&mut self) -> Result<Version> {
        // Its writer may have died before the version survived a crash.
        self.shared.sync_log(self.read_version)?;
        self.remove_attached();
        self.state = State::Committed(self.read_version);
        Ok(self.read_version)
    }

    /// Closes the append with the result of its commit.
    fn end(&mut self, done: Result<Version>) -> Result<Version> {
        self.state = match &done {
            Ok(version) => State::Committed(*version),
            Err(TableError::Commit(CommitError::Unknown { .. })) => State::Closed("is in doubt"),
            Err(error) => {
                if matches!(error, TableError::Exists(_)) {
                    // An append to the table that is there takes them.
                    self.attached.clear();
                }
                self.abort();
                State::Closed("failed before")
            }
        };
        done.map_err(|error| self.shared.or_replaced(error))
    }

    fn commit_rows(
        &mut self,
        patience: &mut Patience<'_>,
        go_on: &mut dyn FnMut() -> bool,
        tries: &dyn Fn(),
    ) -> Result<Version> {
        let shared = self.share(|table, terms, rows| coalesce::commit(table, terms, rows, &mut *patience));
        match shared {
            Ok(done) => return done,
            Err(kept) => self.complete(kept, go_on)?,
        }
        tries();
        self.prepare()?;
        loop {
            let transaction = self.transaction()?;
            self.tried.push(transaction.id);
            // Should it panic, nobody knows.
            self.in_doubt = true;
            let done = self.shared.commit(transaction, patience);
            if let Some(version) = self.judge(done, patience)? {
                return Ok(version);
            }
        }
    }

    /// Hands kept rows in to share files with those of others. Returns those that cannot.
    fn share<T>(
        &mut self,
        hand_in: impl FnOnce(&Arc<Shared>, Terms, Kept) -> Result<T, Kept>,
    ) -> Result<T, Option<Kept>> {
        let Some(rows) = self.kept.take().filter(|kept| !kept.is_empty()) else {
            return Err(None);
        };
        match self.writer.terms(self.read_version) {
            Some(terms) => hand_in(&self.shared, terms, rows).map_err(Some),
            None => Err(Some(rows)),
        }
    }

    /// Completes the files.
    fn complete(&mut self, kept: Option<Kept>, go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        self.writer.take_kept(kept, go_on)?;
        let mut written = self.writer.finish(go_on)?;
        for part in &self.attached {
            written.extend(part);
        }
        self.state = State::Written(written);
        Ok(())
    }

    /// Makes the place of a planned table ready for its first version.
    fn prepare(&self) -> Result<()> {
        if self.shared.is_planned {
            self.shared.place.prepare()?;
        }
        Ok(())
    }

    /// Returns the version that the committer answered with; none where the append is to be committed once more.
    fn judge(&mut self, done: Result<Version>, patience: &mut Patience<'_>) -> Result<Option<Version>> {
        self.in_doubt = matches!(&done, Err(TableError::Commit(CommitError::Unknown { .. })));
        let moved = matches!(&done, Err(TableError::Commit(error)) if is_quicker(error));
        if moved && self.shared.is_planned {
            return Err(TableError::Exists(self.shared.place.root().to_path_buf()));
        }
        if moved && self.rebase_in_time(patience)? {
            return Ok(None);
        }
        done.map(Some)
    }

    fn rebase_in_time(&mut self, patience: &mut Patience<'_>) -> Result<bool> {
        let done = self.rebase(&mut patient(patience));
        done.map_err(|error| or_late(error, patience))
    }

    /// Rebases the append on the table's present state, if the rows fit it as they were written.
    ///
    /// An append that merges schemas accepts any present schema, since two appends may add the same column at once.
    /// Other appends go on only if nothing but properties changed.
    fn rebase(&mut self, look: Look<'_>) -> Result<bool> {
        // What is replaced was chosen in the version that was read.
        if self.writer.options.replace.is_some() {
            return Ok(false);
        }
        let app_id = self.writer.options.app_transaction.as_ref();
        let app_id = app_id.map(|(app_id, _)| app_id.as_str());
        let (head, app_version) = if self.attached.is_empty() {
            match app_id {
                Some(app_id) => self.shared.progress(app_id, look)?,
                None => (self.shared.refresh(look)?, None),
            }
        } else {
            // The committer compares paths with later versions only: another append may have added them before.
            let table = self.shared.snapshot(look)?;
            for part in &self.attached {
                check_new(part, &HashSet::new(), &table)?;
            }
            let app_version = app_id.and_then(|app_id| table.transaction_version(app_id));
            let head = Arc::clone(&table.head);
            self.known = Some(table);
            (head, app_version)
        };
        let before = &self.writer.head;
        if !(self.writer.options.merge_schema || is_same_but_for_properties(before, &head)?) {
            return Ok(false);
        }
        head.check_writable()?;
        // Nobody has compared the rows with a constraint that came since.
        if !constraints::are_of(before, &head) {
            return Ok(false);
        }
        if head.metadata.partition_columns != before.metadata.partition_columns
            || head.metadata.id != before.metadata.id
        {
            return Err(TableError::schema(
                "the table was replaced while the append was under way: write the rows again",
            ));
        }
        if app_version != self.app_version {
            return Ok(false);
        }
        if let State::Written(written) = &self.state
            && without_statistics(&written.adds, &head.stored_clustering()?).is_some()
        {
            return Ok(false);
        }
        let all = self.written();
        let mut columns = all.iter().flat_map(|written| &written.columns);
        let is_found = |column: &Column| head.mapping.finds(&head.schema.columns, column);
        if !columns.all(|column| holds_as_written(&head.schema, column) && is_found(column)) {
            return Ok(false);
        }
        let (schema, changes) = self.schema_with_rows(&head)?;
        if before.mapping != Mapping::None || head.mapping != Mapping::None {
            // Its files already contain physical names and ids. A column that was renamed or dropped meanwhile would
            // come back as a new one, and the ids of new columns may have been taken by another writer.
            let is_same = head.mapping == before.mapping && changes == self.writer.changes_schema();
            if !is_same || (changes && !head.has_ids_of(before)) {
                return Ok(false);
            }
        }
        if let Some(open) = &mut self.writer.open {
            open.schema = schema;
            open.changes_schema = changes;
        }
        self.read_version = head.version;
        self.writer.head = head;
        Ok(true)
    }

    /// The columns of all files: those of this process, and those of each attached part.
    fn written(&self) -> Vec<Cow<'_, TableSchema>> {
        let own = self.writer.open.as_ref().map(|open| Cow::Owned(open.written()));
        let attached = self.attached.iter().filter_map(Part::schema).map(Cow::Borrowed);
        own.into_iter().chain(attached).collect()
    }

    /// The table's schema with all rows of the append in it; true if it differs from that of `head`.
    ///
    /// # Errors
    /// An error if the table cannot hold them. It may have got a change data feed since they were written.
    fn schema_with_rows(&self, head: &Head) -> Result<(Arc<TableSchema>, bool)> {
        let (schema, changes) = self.merged_schema(head)?;
        if changes {
            change_feed::check_columns(&head.metadata, &schema)?;
        }
        Ok((schema, changes))
    }

    fn merged_schema(&self, head: &Head) -> Result<(Arc<TableSchema>, bool)> {
        if self.attached.is_empty() {
            return Ok(match &self.writer.open {
                Some(open) => target_schema(
                    head,
                    &head.schema,
                    &open.written(),
                    self.writer.options.merge_schema,
                )?,
                None => (Arc::clone(&head.schema), false),
            });
        }
        let all = self.written();
        let mut schema = Arc::clone(&head.schema);
        for written in &all {
            schema = target_schema(head, &schema, written, self.writer.options.merge_schema)?.0;
        }
        for written in &all {
            check_one_type(&schema, written)?;
        }
        let changes = schema != head.schema;
        Ok((schema, changes))
    }

    /// The table's schema with one more part in it. Parts that are attached already are not checked again: a merge only
    /// adds columns and fields, which their files may lack.
    fn merged_with(&self, part: &Part) -> Result<Merged> {
        let has_own = self.writer.open.is_some();
        let mut schema = match &self.merged {
            Some(merged) if merged.has_own == has_own => Arc::clone(&merged.schema),
            _ => self.schema_with_rows(&self.writer.head)?.0,
        };
        if let Some(written) = part.schema() {
            let merge = self.writer.options.merge_schema;
            schema = target_schema(&self.writer.head, &schema, written, merge)?.0;
            check_one_type(&schema, written)?;
        }
        Ok(Merged { schema, has_own })
    }

    fn transaction(&self) -> Result<Transaction> {
        let State::Written(written) = &self.state else {
            return Err(WriteError::Closed("the append has no files yet".into()).into());
        };
        let (schema, changes) = self.schema_with_rows(&self.writer.head)?;
        let mut actions = if self.shared.is_planned {
            first_actions(&self.writer.head, changes)?
        } else {
            Vec::new()
        };
        actions.extend(written.adds.iter().cloned().map(Action::Add));
        if changes {
            actions.extend(metadata_actions(&self.writer.head, &schema)?);
        }
        if let Some((app_id, version)) = &self.writer.options.app_transaction {
            actions.push(Action::Txn(Txn {
                app_id: app_id.clone(),
                version: *version,
                last_updated: Some(now()),
                ..Txn::default()
            }));
        }
        let head = &self.writer.head;
        let mut transaction = Transaction::append(MemberId::random(), self.read_version, actions);
        transaction.isolation = head.isolation()?;
        if !self.shared.place.keeps() {
            transaction.unsynced = written.adds.iter().map(|add| add.path.clone()).collect();
        }
        if let Some(replaced) = &self.replaced {
            replace(&mut transaction, head, replaced, written)?;
        }
        let operation = &mut transaction.operation;
        operation.metrics.clone_from(&self.metrics);
        describe(operation, head, written);
        operation
            .user_metadata
            .clone_from(&self.writer.options.user_metadata);
        Ok(transaction)
    }

    /// Aborts the append and removes its files. Does nothing while an asynchronous commit waits for its answer.
    pub fn abort(&mut self) {
        if self.is_posted {
            return;
        }
        // Files that are open go with their writers, before those that are complete.
        let files = self.writer.open.take().map(|open| open.spread.into_places());
        if matches!(self.state, State::Committed(_) | State::Closed(_)) {
            return;
        }
        self.state = State::Closed("was aborted");
        if self.in_doubt {
            return;
        }
        if self.process != std::process::id() {
            return;
        }
        if let Some(files) = files {
            files.remove();
        }
        self.remove_attached();
    }

    /// Removes the files of attached parts, except those that the table has by another append's commit, and those that
    /// another process has announced: it, or any other, may still commit them.
    fn remove_attached(&mut self) {
        let attached = std::mem::take(&mut self.attached);
        if attached.iter().all(|part| part.adds.is_empty()) {
            return;
        }
        // Where the log or the announcements cannot be read, the files stay: no reader sees them. What is announced no
        // more may be in the table, which is read afterwards.
        let place = &self.shared.place;
        let Ok(announced) = announced_files(place.log_store().as_ref(), &self.tried) else {
            return;
        };
        if let Ok(table) = self.shared.snapshot(&mut self.shared.looking()) {
            let adds = attached.iter().flat_map(|part| &part.adds);
            place.remove(&stray_files(adds, &table, &announced));
        }
    }

    /// Adds measures of the caller to the `operationMetrics` of the commit. Counts of files, rows and bytes are there
    /// by themselves.
    ///
    /// # Errors
    /// [`WriteError::Closed`] when the append is committed or was given up.
    pub fn add_metrics(&mut self, metrics: BTreeMap<String, String>) -> Result<()> {
        self.refuse_if_closed()?;
        self.metrics.extend(metrics);
        Ok(())
    }

    /// Completes the files and closes the append without a commit. Another append can [`attach`](Self::attach) the
    /// files by the returned bytes. They survive a crash of this machine: the process that commits them can sync only
    /// what its own machine has.
    ///
    /// # Errors
    /// [`TableError::Option`] when the append has an option that only a commit can follow. After any other error it is
    /// closed and its files are gone.
    pub fn detach(&mut self, go_on: &mut dyn FnMut() -> bool) -> Result<Vec<u8>> {
        self.refuse_if_closed()?;
        self.check_detachable()?;
        let done = self.detached(go_on);
        if done.is_ok() {
            self.state = State::Closed("was detached");
        } else {
            self.fail();
        }
        done.map_err(|error| self.shared.or_replaced(error))
    }

    fn check_detachable(&self) -> Result<()> {
        let options = &self.writer.options;
        let of_commit = [
            ("app_id", options.app_transaction.is_some()),
            ("mode", options.replace.is_some()),
            ("user_metadata", options.user_metadata.is_some()),
            ("coalesce", options.coalesce),
        ];
        if let Some((option, _)) = of_commit.iter().find(|(_, given)| *given) {
            return Err(TableError::option(
                option,
                format!("{option} goes with the append that commits: leave it out where rows are detached"),
            ));
        }
        if self.writer.changes_schema() && self.writer.head.mapping != Mapping::None {
            return Err(TableError::refused(
                "the rows have columns that the table lacks, and the table has column mapping: each append would give \
                 them other ids. Add the columns first, by an append of no rows with schema_mode=\"merge\"",
            ));
        }
        if !self.attached.is_empty() {
            return Err(TableError::refused(
                "the append has parts of others: attach them to the append that commits",
            ));
        }
        Ok(())
    }

    fn detached(&mut self, go_on: &mut dyn FnMut() -> bool) -> Result<Vec<u8>> {
        let written = self.writer.finish(go_on)?;
        if !self.shared.place.keeps() {
            let files = written.adds.iter().map(|add| UnsyncedFile {
                path: add.path.clone(),
                size: LoggedSize::Exactly(add.size),
            });
            let synced = self
                .shared
                .place
                .log_store()
                .sync_data(&files.collect::<Vec<_>>());
            synced.into_iter().collect::<Result<(), _>>()?;
        }
        let columns = self.writer.open.as_ref().map(Open::written);
        Part::new(&self.writer.head, columns.as_ref(), written)?.to_bytes()
    }

    /// Takes over files that another process wrote for this table, as if this append had written them: its commit adds
    /// them, and its end without one removes them.
    ///
    /// # Errors
    /// [`TableError::Option`] when the bytes are not those of [`detach`](Self::detach), or of another table.
    /// [`CommitError::Conflict`] when the table changed since they were written. [`CommitError::Schema`] when the rows
    /// do not fit the table or the other rows of this append. [`CommitError::DuplicateFile`] when the table or this
    /// append has the files already. The append can go on without the part.
    pub fn attach(&mut self, part: &[u8]) -> Result<()> {
        self.refuse_if_closed()?;
        if self.writer.options.coalesce {
            return Err(TableError::option(
                "coalesce",
                "coalesce goes with rows that this process writes: leave it out where parts are attached",
            ));
        }
        let mut part = Part::parse(part)?;
        part.check(&self.writer.head, self.writer.options.merge_schema)
            .map_err(|error| self.shared.or_replaced(error))?;
        let known = match &self.known {
            Some(known) => Arc::clone(known),
            None => self.shared.snapshot(&mut self.shared.looking())?,
        };
        if self.is_repeated {
            // These may be the very files that the table has.
            part.adds.retain(|add| !is_known(add, &known));
        }
        check_new(&part, &self.taken, &known)?;
        self.merged = Some(self.merged_with(&part)?);
        self.known = Some(known);
        let paths = part.adds.iter().map(|add| add.normal_path().into_owned());
        self.taken.extend(paths);
        self.attached.push(part);
        Ok(())
    }
}

/// Returns true if files written for `before` are valid in `after`: the same table, protocol, schema and clustering,
/// and no further constraint. Clustering columns decide which statistics a file must have.
fn is_same_but_for_properties(before: &Head, after: &Head) -> Result<bool> {
    Ok(detached::Basis::of(before)?.is_valid_in(&detached::Basis::of(after)?))
}

impl Drop for Append {
    fn drop(&mut self) {
        self.abort();
    }
}

/// Turns an append into the replacement of the rows that the conditions choose.
fn replace(transaction: &mut Transaction, head: &Head, replaced: &Replaced, written: &Written) -> Result<()> {
    let (conditions, choice) = (&replaced.conditions, &replaced.choice);
    for add in &written.adds {
        if choice.has(head, add)? {
            continue;
        }
        return Err(TableError::option(
            "where",
            format!(
                "the rows for {:?} lie outside of what they replace, {}: leave them out, or append them",
                add.path,
                conditions.describe()
            ),
        ));
    }
    let parameters = &mut transaction.operation.parameters;
    parameters.insert("mode".to_owned(), "Overwrite".to_owned());
    if !conditions.is_empty() {
        parameters.insert("predicate".to_owned(), conditions.describe());
    }
    remove_chosen(transaction, choice.predicate.clone(), &replaced.files);
    Ok(())
}

/// Adds parameters and counts of the written files to the operation, for the history.
fn describe(operation: &mut Operation, head: &Head, written: &Written) {
    let columns = serde_json::Value::from(head.metadata.partition_columns.clone());
    operation
        .parameters
        .insert("partitionBy".to_owned(), columns.to_string());
    for (name, count) in [
        ("numFiles", written.adds.len() as u64),
        ("numOutputRows", written.rows),
        ("numOutputBytes", written.bytes),
    ] {
        operation.metrics.insert(name.to_owned(), count.to_string());
    }
}
