//! Checkpoints: files that replace all versions up to their own.
//!
//! Those that are read are of all forms of the protocol: one Parquet file, several parts, and the V2 spec, of which a
//! Parquet or JSON file names sidecars with the entries of files. Those that are written are one Parquet file of the V1
//! spec, which every table may have ("Checkpoints" in Delta's PROTOCOL.md).

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, StructArray};
use arrow_schema::TimeUnit;
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, SchemaRef};
use bytes::Bytes;
use delta_commit::actions::{Action, Add, Remove};
use delta_commit::log::version_file;
use delta_commit::{Version, path};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::Type as PhysicalType;
use parquet::errors::ParquetError;
use parquet::file::reader::ChunkReader;
use parquet::schema::types::SchemaDescriptor;
use parquet_writer::sink::Sink;
use parquet_writer::{CompressionRule, FileWriter, OptionInput, WriteError, WriterOptions};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::cells::Cell;
use crate::data_file::{DataFile, load_footer, ranges_of, table_error};
use crate::error::{Result, TableError};
use crate::foreign_fields::ForeignFields;
use crate::incremental_checkpoint::{Base, Since};
use crate::interval::interval_millis;
use crate::log_dir::{CHANGED_IN, HINT, IN_COMMIT_TIMESTAMP, LogDir, Witness};
use crate::parsed::{Forms, PARTITION_VALUES, Parsed, STATS, stats_texts};
use crate::properties::TRANSACTION_RETENTION;
use crate::scan::Calendar;
use crate::snapshot::Snapshot;

/// Actions that are converted together. Their intermediate forms cost memory: the statistics of a file with fifty
/// columns are 6 kB of text.
const BATCH_ROWS: usize = 512;

/// The compressed bytes of a row group. The writer holds one row group in memory, and so does the reader that copies
/// the file into the next checkpoint.
const GROUP_BYTES: i64 = 16 << 20;

/// The time for which tombstones are kept, unless the table's properties say otherwise.
const TOMBSTONE_DAYS: i64 = 7;

const COLUMNS: [&str; 7] = [
    "txn",
    "add",
    "remove",
    "metaData",
    "protocol",
    "domainMetadata",
    SIDECAR,
];

/// The columns among them that a head is read from.
const HEAD_COLUMNS: [&str; 4] = ["txn", "metaData", "protocol", "domainMetadata"];

const ADD: &str = "add";

/// The column of statistics as text.
const JSON_STATS: &str = "stats";

/// The column that names files with the actions of a V2 checkpoint. Other checkpoints may have the column, but no
/// values in it.
const SIDECAR: &str = "sidecar";

/// The folder of those files in the log's.
pub(crate) const SIDECARS: &str = "_sidecars";

/// The name of a version's checkpoint.
pub(crate) fn file_name(version: Version) -> String {
    format!("{version:020}.checkpoint.parquet")
}

/// Reads the actions of a checkpoint's file, and of the files that it names.
pub(crate) fn read(log: &LogDir, name: &str) -> Result<Vec<Action>> {
    let Entries {
        mut actions,
        sidecars,
    } = read_file(log, name)?;
    for sidecar in sidecars {
        let more = read_file(log, &sidecar)?;
        if let Some(nested) = more.sidecars.first() {
            return Err(names_another(log, &sidecar, nested));
        }
        actions.extend(more.actions);
    }
    Ok(actions)
}

/// Returns true if a checkpoint's files, and those that they name, can be read, and hold protocol and metadata. No
/// action is kept in memory.
///
/// # Errors
/// When the store does not answer.
pub(crate) fn is_whole(log: &LogDir, names: &[&str]) -> Result<bool> {
    let (mut has_protocol, mut has_metadata) = (false, false);
    let mut read = |name: &str| -> Result<Vec<String>> {
        let file = bytes_of(log, name)?;
        let (mut sidecars, mut lacks_some) = (Vec::new(), false);
        read_batches(log, name, &file, |entries| {
            for action in &entries.actions {
                has_protocol |= matches!(action, Action::Protocol(_));
                has_metadata |= matches!(action, Action::Metadata(_));
                lacks_some |= lacks_statistics(action);
            }
            sidecars.extend(entries.sidecars);
        })?;
        if lacks_some && !is_json(name) {
            add_statistics(&file, &mut []).map_err(|what| malformed(log, name, &what))?;
        }
        Ok(sidecars)
    };
    let mut read_all = || -> Result<()> {
        for name in names {
            for sidecar in read(name)? {
                if let Some(nested) = read(&sidecar)?.first() {
                    return Err(names_another(log, &sidecar, nested));
                }
            }
        }
        Ok(())
    };
    match read_all() {
        Err(error) if error.is_corruption() => Ok(false),
        done => done.map(|()| has_protocol && has_metadata),
    }
}

/// Returns true if a checkpoint's files and sidecars have readable footers, and hold protocol and metadata. Adds and
/// removes are not read.
///
/// # Errors
/// When the store does not answer.
pub(crate) fn is_readable(log: &LogDir, names: &[&str]) -> Result<bool> {
    let (mut has_protocol, mut has_metadata) = (false, false);
    let mut read_all = || -> Result<()> {
        for name in names {
            let entries = read_columns(log, name, &["metaData", "protocol", SIDECAR])?;
            for action in &entries.actions {
                has_protocol |= matches!(action, Action::Protocol(_));
                has_metadata |= matches!(action, Action::Metadata(_));
            }
            for sidecar in entries.sidecars {
                read_columns(log, &sidecar, &[])?;
            }
        }
        Ok(())
    };
    match read_all() {
        Err(error) if error.is_corruption() => Ok(false),
        done => done.map(|()| has_protocol && has_metadata),
    }
}

/// The names in the log of the files that a checkpoint's file names.
pub(crate) fn sidecars_of(log: &LogDir, name: &str) -> Result<Vec<String>> {
    Ok(read_columns(log, name, &[SIDECAR])?.sidecars)
}

/// The entries of one file.
#[derive(Default)]
struct Entries {
    actions: Vec<Action>,
    /// The names of files with more of them.
    sidecars: Vec<String>,
}

impl Entries {
    /// Takes a line of JSON in: an action, or a row in which one column has a value.
    fn take_line(&mut self, line: &[u8]) -> Result<()> {
        let value: Value = serde_json::from_slice(line)
            .map_err(|e| TableError::Malformed(format!("a row is not JSON: {e}")))?;
        let Value::Object(mut columns) = value else {
            return Ok(());
        };
        columns.retain(|_, value| !value.is_null());
        if columns.len() > 1 {
            columns.retain(|_, value| has_value(value));
        }
        self.take_row(columns.iter().map(|(name, body)| (name.as_str(), body)))
    }

    /// Takes the rows of a Parquet file in.
    fn take_rows(&mut self, batch: &RecordBatch) -> Result<()> {
        each_row(batch, |cells| self.take_row(cells.iter().copied()))
    }

    /// Takes the one action or sidecar of a row in. Readers disagree on which of two counts, so such a row is rejected.
    fn take_row<'a, 'de>(
        &mut self,
        columns: impl Iterator<Item = (&'a str, impl Deserializer<'de>)>,
    ) -> Result<()> {
        let before = self.actions.len() + self.sidecars.len();
        for (name, fields) in columns {
            self.take(name, fields)?;
        }
        if self.actions.len() + self.sidecars.len() > before + 1 {
            return Err(TableError::Malformed("a row has two actions".to_owned()));
        }
        Ok(())
    }

    /// Takes the action of this name in, or the sidecar.
    fn take<'de>(&mut self, name: &str, fields: impl Deserializer<'de>) -> Result<()> {
        let malformed =
            |what: String| TableError::Malformed(format!("not an action of the Delta log: {what}"));
        if name == SIDECAR {
            let entry = Value::deserialize(fields).map_err(|e| malformed(e.to_string()))?;
            self.sidecars.push(sidecar_file(&entry)?);
        } else {
            let action = Action::from_fields(name, fields).map_err(|e| malformed(format!("{name}: {e}")))?;
            self.actions.extend(action);
        }
        Ok(())
    }
}

/// Calls back with each row of a Parquet file: its columns that have a value. A valid row has one.
fn each_row<'a>(
    batch: &'a RecordBatch,
    mut take: impl FnMut(&[(&'a str, Cell<'a>)]) -> Result<()>,
) -> Result<()> {
    let names = batch
        .schema_ref()
        .fields()
        .iter()
        .map(|field| field.name().as_str());
    let columns: BTreeMap<&str, &ArrayRef> = names.zip(batch.columns()).collect();
    let mut cells = Vec::new();
    for row in 0..batch.num_rows() {
        cells.clear();
        let valid = columns.iter().filter(|(_, array)| array.is_valid(row));
        cells.extend(valid.map(|(name, array)| (*name, Cell { array, row })));
        if cells.len() > 1 {
            cells.retain(|(_, cell)| cell.has_value());
        }
        take(&cells)?;
    }
    Ok(())
}

/// Calls back with the action of each row of a checkpoint without sidecars, and with none for a row without an action.
/// One action is in memory at a time.
///
/// # Errors
/// [`TableError::Malformed`] for a row that is not an action, as in a full read.
pub(crate) fn each_action(batch: &RecordBatch, mut take: impl FnMut(Option<Action>)) -> Result<()> {
    let mut row = Entries::default();
    each_row(batch, |cells| {
        row.take_row(cells.iter().copied())?;
        take(row.actions.pop());
        Ok(())
    })
}

/// Returns true if a column of a row has a value, at whatever depth.
fn has_value(column: &Value) -> bool {
    match column {
        Value::Null => false,
        Value::Object(fields) => fields.values().any(has_value),
        _ => true,
    }
}

/// The name in the log of the file that an entry names. All of them are in one folder, whatever the path is.
fn sidecar_file(entry: &Value) -> Result<String> {
    let path = entry.get("path").and_then(Value::as_str);
    let name = path.and_then(|path| path.rsplit('/').next());
    let name = name.ok_or_else(|| TableError::Malformed(format!("a sidecar has no path: {entry}")))?;
    Ok(format!("{SIDECARS}/{}", path::decode_inside(name)?))
}

fn names_another(log: &LogDir, sidecar: &str, nested: &str) -> TableError {
    let shown = log.shown(sidecar);
    TableError::Malformed(format!(
        "{}: a file that a checkpoint names cannot name another one, {nested}",
        shown.display()
    ))
}

fn malformed(log: &LogDir, name: &str, what: &str) -> TableError {
    TableError::Malformed(format!("{}: {what}", log.shown(name).display()))
}

fn bytes_of(log: &LogDir, name: &str) -> Result<Bytes> {
    log.file(name)?.ok_or_else(|| gone(log, name))
}

/// Reads the entries of one file.
fn read_file(log: &LogDir, name: &str) -> Result<Entries> {
    let file = bytes_of(log, name)?;
    let mut all = Entries::default();
    read_batches(log, name, &file, |entries| {
        all.actions.extend(entries.actions);
        all.sidecars.extend(entries.sidecars);
    })?;
    if all.actions.iter().any(lacks_statistics) && !is_json(name) {
        add_statistics(&file, &mut all.actions).map_err(|what| malformed(log, name, &what))?;
    }
    Ok(all)
}

/// Calls back with the entries of one file, a part at a time. Statistics that are there as structs alone are left out.
fn read_batches(log: &LogDir, name: &str, file: &Bytes, mut take: impl FnMut(Entries)) -> Result<()> {
    let malformed = |what: String| malformed(log, name, &what);
    if is_json(name) {
        let lines = file.split(|byte| *byte == b'\n');
        for line in lines.filter(|line| !line.trim_ascii().is_empty()) {
            let mut entries = Entries::default();
            entries.take_line(line).map_err(|e| malformed(e.to_string()))?;
            take(entries);
        }
        return Ok(());
    }
    let reader = reader(file, |parts| {
        let derived = parts
            .get(1)
            .is_some_and(|name| [STATS, PARTITION_VALUES].contains(name));
        !derived && parts.first().is_some_and(|name| COLUMNS.contains(name))
    });
    for batch in reader.map_err(malformed)? {
        let batch = batch.map_err(|e| malformed(e.to_string()))?;
        let mut entries = Entries::default();
        entries.take_rows(&batch).map_err(|e| malformed(e.to_string()))?;
        take(entries);
    }
    Ok(())
}

pub(crate) fn is_json(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|end| end == "json")
}

/// Reads the actions of a checkpoint's file that are not about files of the table. There may be others among them.
///
/// Of a Parquet file only their columns are read, one row group at a time. In the rows of files they are null and take
/// next to nothing. Files that it names hold none of them.
pub(crate) fn read_head(log: &LogDir, name: &str) -> Result<Vec<Action>> {
    Ok(read_columns(log, name, &HEAD_COLUMNS)?.actions)
}

/// Reads the entries of a file that are in some columns. Of a JSON file there may be others among them.
fn read_columns(log: &LogDir, name: &str, columns: &[&str]) -> Result<Entries> {
    if is_json(name) {
        return read_file(log, name);
    }
    let shown = log.shown(name).display().to_string();
    let failed = |error| table_error(&shown, error);
    let Some(file) = log.open(name).map_err(failed)? else {
        return Err(gone(log, name));
    };
    let metadata = metadata_of(&file).map_err(failed)?;
    let is_wanted = |parts: &[&str]| parts.first().is_some_and(|name| columns.contains(name));
    let mut entries = Entries::default();
    let fields = metadata.schema().fields();
    if !fields
        .iter()
        .any(|field| columns.contains(&field.name().as_str()))
    {
        return Ok(entries);
    }
    let mask = leaves_of(&metadata, is_wanted);
    each_batch(&file, &metadata, &mask, &shown, |batch| entries.take_rows(&batch))?;
    Ok(entries)
}

/// Calls back with the rows of a checkpoint's file, a batch at a time. One row group is in memory.
pub(crate) fn each_batch(
    file: &DataFile,
    metadata: &ArrowReaderMetadata,
    columns: &ProjectionMask,
    shown: &str,
    mut take: impl FnMut(RecordBatch) -> Result<()>,
) -> Result<()> {
    let failed = |error| table_error(shown, error);
    for group in 0..metadata.metadata().num_row_groups() {
        let ranges = ranges_of(metadata.metadata(), group, columns, None);
        let held = file.with(ranges).map_err(failed)?;
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(held, metadata.clone())
            .with_row_groups(vec![group])
            .with_projection(columns.clone())
            .with_batch_size(BATCH_ROWS)
            .build();
        for batch in reader.map_err(failed)? {
            take(batch.map_err(|error| TableError::Malformed(format!("{shown}: {error}")))?)?;
        }
    }
    Ok(())
}

fn gone(log: &LogDir, name: &str) -> TableError {
    TableError::CheckpointGone(log.shown(name))
}

/// The footer of a checkpoint, and the types that its columns are read in.
fn metadata_of<T: ChunkReader>(file: &T) -> Result<ArrowReaderMetadata, ParquetError> {
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let loaded = load_footer(file, options.clone())?;
    let fields = with_micros(loaded.schema().fields(), loaded.parquet_schema(), &mut 0);
    let options = options.with_schema(Arc::new(Schema::new(fields)));
    ArrowReaderMetadata::try_new(Arc::clone(loaded.metadata()), options)
}

/// Those leaf columns whose path is wanted.
fn leaves_of(metadata: &ArrowReaderMetadata, wanted: impl Fn(&[&str]) -> bool) -> ProjectionMask {
    let parquet = metadata.parquet_schema();
    let leaves = (0..parquet.num_columns()).filter(|leaf| {
        let column = parquet.column(*leaf);
        let parts: Vec<&str> = column.path().parts().iter().map(String::as_str).collect();
        wanted(&parts)
    });
    ProjectionMask::leaves(parquet, leaves.collect::<Vec<_>>())
}

/// The rows of a checkpoint, with those leaf columns whose path is wanted.
fn reader(file: &Bytes, wanted: impl Fn(&[&str]) -> bool) -> Result<ParquetRecordBatchReader, String> {
    let text = |error: ParquetError| error.to_string();
    let metadata = metadata_of(file).map_err(text)?;
    let mask = leaves_of(&metadata, wanted);
    let built = ParquetRecordBatchReaderBuilder::new_with_metadata(file.clone(), metadata)
        .with_projection(mask)
        .with_batch_size(BATCH_ROWS);
    built.build().map_err(text)
}

/// The fields, with timestamps in 96 bits read as microseconds. Spark writes them so, and nanoseconds cannot hold all
/// years.
pub(crate) fn with_micros(fields: &Fields, parquet: &SchemaDescriptor, leaf: &mut usize) -> Fields {
    let fields = fields.iter().map(|field| {
        let micros = |inner: &Arc<Field>, leaf: &mut usize| {
            let inner = with_micros(&Fields::from(vec![Arc::clone(inner)]), parquet, leaf);
            Arc::clone(&inner[0])
        };
        let data_type = match field.data_type() {
            DataType::Struct(fields) => DataType::Struct(with_micros(fields, parquet, leaf)),
            DataType::List(element) => DataType::List(micros(element, leaf)),
            DataType::Map(entries, sorted) => DataType::Map(micros(entries, leaf), *sorted),
            plain => {
                *leaf += 1;
                if parquet.column(*leaf - 1).physical_type() == PhysicalType::INT96 {
                    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
                } else {
                    plain.clone()
                }
            }
        };
        field.as_ref().clone().with_data_type(data_type)
    });
    fields.collect()
}

fn lacks_statistics(action: &Action) -> bool {
    matches!(action, Action::Add(add) if add.stats.is_none())
}

/// Fills in statistics as text, for files that the checkpoint has only structs of statistics for.
fn add_statistics(file: &Bytes, actions: &mut [Action]) -> Result<(), String> {
    let calendar = Calendar::of("", metadata_of(file).map_err(|e| e.to_string())?.metadata());
    let reader = reader(file, |parts| {
        matches!(parts, ["add", "path"]) || matches!(parts, ["add", name, ..] if *name == STATS)
    })?;
    let mut adds = actions.iter_mut().filter_map(|action| match action {
        Action::Add(add) => Some(add),
        _ => None,
    });
    for batch in reader {
        let mut batch = batch.map_err(|e| e.to_string())?;
        if let Some(calendar) = &calendar {
            // Of times that nobody knows there are no statistics.
            let Ok(converted) = calendar.converted(&batch) else {
                return Ok(());
            };
            batch = converted;
        }
        let files = batch
            .column_by_name("add")
            .and_then(|column| column.as_struct_opt());
        let Some(files) = files else { return Ok(()) };
        let path = files
            .column_by_name("path")
            .and_then(|column| column.as_string_opt::<i32>());
        let stats = files
            .column_by_name(STATS)
            .and_then(|column| column.as_struct_opt());
        let (Some(paths), Some(stats)) = (path, stats) else {
            return Ok(());
        };
        let texts = stats_texts(stats).map_err(|e| e.to_string())?;
        let there = (0..).zip(texts).filter(|(row, _)| files.is_valid(*row));
        for ((row, text), add) in there.zip(adds.by_ref()) {
            if add.stats.is_none() && paths.value(row) == add.path {
                add.stats = text;
            }
        }
    }
    Ok(())
}

/// Writes the checkpoint of a table's version, and the hint that names it. An existing checkpoint is kept, unless
/// `replace` says that it is damaged. Returns false, and writes nothing, if the entries of the previous checkpoint
/// cannot be copied.
///
/// # Errors
/// When the log's folder cannot be written; readers find the older checkpoint then.
///
/// `check` refuses when another table is in the place by now. It is called before anything appears there.
pub(crate) fn write(
    log: &LogDir,
    since: &Since,
    changed_in: Version,
    replace: bool,
    check: &Arc<InPlace>,
) -> Result<bool> {
    let snapshot = &since.snapshot;
    // If the clock cannot be trusted, nothing expires.
    let actions = Actions::of(snapshot, log.0.now_for_removal().unwrap_or(0));
    // What cannot be held is refused before there is a file.
    let layout = Layout::of(snapshot, &actions)?;
    let Some(base) = base_of(log, since, &layout)? else {
        return Ok(false);
    };
    let name = file_name(snapshot.version);
    // Asked for before the check, so it is one of this table's.
    let witness = log.witness(version_file(snapshot.version))?;
    let is_sent = Arc::new(AtomicBool::new(false));
    let sink = Checked {
        sink: if replace {
            log.replace(&name)?
        } else {
            log.create_whole(&name)?
        },
        check: Arc::clone(check),
        is_sent: Arc::clone(&is_sent),
    };
    let encoded = encode_all(Box::new(sink), &layout, &actions, snapshot, &base);
    let exists = matches!(&encoded, Err(error) if is_of_existing(error));
    let is_own = is_sent.load(Ordering::Acquire) && !exists;
    // It also says in its own way why nothing was committed.
    confirm(log, &witness, check, || {
        if is_own {
            log.remove_file(&name);
        }
    })?;
    if exists {
        return Ok(true);
    }
    let text = hint(snapshot, changed_in, &encoded?);
    write_hint(log, snapshot.version, &text)?;
    confirm(log, &witness, check, || {
        log.remove_file(&name);
        if log
            .file(HINT)
            .is_ok_and(|found| found.is_some_and(|found| found == text))
        {
            log.remove_file(HINT);
        }
    })?;
    Ok(true)
}

/// Opens the files of the previous checkpoint. Returns none if the new checkpoint has other columns, or statistics as
/// structs: their types depend on all files of the table.
fn base_of(log: &LogDir, since: &Since, layout: &Layout) -> Result<Option<Vec<Base>>> {
    if layout.parsed.is_some() && !since.base.is_empty() {
        return Ok(None);
    }
    let files = since.base.iter().map(|name| Base::open(log, name, &layout.plain));
    files.collect()
}

/// Checks that what was sent has not arrived in another table. It is removed there before anything is read: whoever
/// opens that table reads the checkpoint of this one.
fn confirm(log: &LogDir, witness: &Witness, check: &Arc<InPlace>, remove: impl FnOnce()) -> Result<()> {
    // A version that only a checkpoint stands for has no file to be looked up.
    if witness.is_none() {
        return check().inspect_err(|_| remove());
    }
    if log.confirms(witness)? {
        return Ok(());
    }
    remove();
    check()?;
    Err(TableError::Replaced(log.0.root().to_path_buf()))
}

/// Returns true if the error says that another process has made the file.
fn is_of_existing(error: &TableError) -> bool {
    matches!(error, TableError::Write(WriteError::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists)
}

/// A check that refuses another table in the place of the one that was read.
pub(crate) type InPlace = dyn Fn() -> Result<()> + Send + Sync;

/// A sink that makes its file appear only where the table still is the one that was read.
struct Checked {
    sink: Box<dyn Sink>,
    check: Arc<InPlace>,
    /// True once the file may be there.
    is_sent: Arc<AtomicBool>,
}

impl Write for Checked {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sink.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

impl Sink for Checked {
    fn commit(&mut self) -> io::Result<()> {
        (self.check)().map_err(io::Error::other)?;
        self.is_sent.store(true, Ordering::Release);
        self.sink.commit()
    }

    fn discard(&mut self) {
        self.sink.discard();
    }

    fn path(&self) -> Option<&Path> {
        self.sink.path()
    }

    fn spill_directory(&self) -> Option<PathBuf> {
        self.sink.spill_directory()
    }
}

/// The actions that later readers need. Those of files are in memory once, in the snapshot.
struct Actions<'a> {
    others: Vec<Action>,
    adds: Vec<&'a Add>,
    removes: Vec<&'a Remove>,
    /// The time since which removals are kept.
    kept_since: i64,
}

impl<'a> Actions<'a> {
    /// `now` decides what has expired.
    fn of(snapshot: &'a Snapshot, now: i64) -> Self {
        let contents = &snapshot.contents;
        let kept_since = kept_since(snapshot, now);
        let progress_since = progress_since(snapshot, now);
        let mut others = vec![
            Action::Protocol(snapshot.protocol.clone()),
            Action::Metadata(snapshot.metadata.as_ref().clone()),
        ];
        let progress = contents.transactions.values();
        let young = progress.filter(|txn| txn.last_updated.is_none_or(|at| at >= progress_since));
        others.extend(young.cloned().map(Action::Txn));
        others.extend(snapshot.domains.values().cloned().map(Action::DomainMetadata));
        let removes = contents.tombstones.values().map(Arc::as_ref);
        let kept = removes.filter(|remove| remove.deletion_timestamp.is_none_or(|at| at > kept_since));
        Self {
            others,
            adds: contents.files.values().map(Arc::as_ref).collect(),
            removes: kept.collect(),
            kept_since,
        }
    }

    fn foreign_fields(&self) -> Result<ForeignFields> {
        ForeignFields::of(&self.others, &self.adds, &self.removes)
    }

    /// The actions as a checkpoint has them, one at a time.
    fn written(&self) -> impl Iterator<Item = Action> + '_ {
        let adds = self.adds.iter().map(|add| {
            Action::Add(Add {
                data_change: false,
                ..(*add).clone()
            })
        });
        let removes = self.removes.iter().map(|remove| {
            Action::Remove(Remove {
                data_change: false,
                stats: None,
                tags: None,
                ..(*remove).clone()
            })
        });
        self.others.iter().cloned().chain(adds).chain(removes)
    }
}

/// The time after which removals are kept. All are, if the table's retention cannot be parsed.
fn kept_since(snapshot: &Snapshot, now: i64) -> i64 {
    const DAY: i64 = 86_400_000;
    let millis = match snapshot.property("delta.deletedFileRetentionDuration") {
        Some(text) => interval_millis(text),
        None => Some(TOMBSTONE_DAYS * DAY),
    };
    millis.map_or(i64::MIN, |millis| now.saturating_sub(millis))
}

/// The time since which the progress of applications is kept: all, unless the table says for how long. Without it a
/// table of many applications would have all of their entries in each checkpoint for ever.
fn progress_since(snapshot: &Snapshot, now: i64) -> i64 {
    let millis = snapshot.property(TRANSACTION_RETENTION).and_then(interval_millis);
    millis.map_or(i64::MIN, |millis| now.saturating_sub(millis))
}

/// The columns of a checkpoint.
struct Layout {
    /// The columns that hold an action's JSON.
    plain: SchemaRef,
    /// The columns that repeat statistics and partition values in types of their own.
    parsed: Option<Parsed>,
    /// Both.
    whole: SchemaRef,
}

impl Layout {
    /// Those of actions that are repeated in no other types.
    #[cfg(any(test, fuzzing))]
    fn plain(actions: &[Action]) -> Result<Self> {
        let forms = Forms {
            json: true,
            parsed: false,
        };
        let (mut others, mut adds, mut removes) = (Vec::new(), Vec::new(), Vec::new());
        for action in actions {
            match action {
                Action::Add(add) => adds.push(add),
                Action::Remove(remove) => removes.push(remove),
                other => others.push(other.clone()),
            }
        }
        let plain = schema(forms, &ForeignFields::of(&others, &adds, &removes)?);
        Ok(Self {
            whole: Arc::clone(&plain),
            plain,
            parsed: None,
        })
    }

    fn of(snapshot: &Snapshot, actions: &Actions<'_>) -> Result<Self> {
        let forms = Forms::of(snapshot);
        let plain = schema(forms, &actions.foreign_fields()?);
        let parsed = forms.parsed.then(|| Parsed::of(snapshot)).transpose()?;
        let more = parsed.as_ref().map(Parsed::fields).unwrap_or_default();
        let fields = plain.fields().iter().map(|field| match field.data_type() {
            DataType::Struct(columns) if field.name() == ADD => {
                let columns = columns.iter().cloned().chain(more.iter().cloned().map(Arc::new));
                let columns = DataType::Struct(columns.collect());
                Arc::new(field.as_ref().clone().with_data_type(columns))
            }
            _ => Arc::clone(field),
        });
        Ok(Self {
            whole: Arc::new(Schema::new(fields.collect::<Fields>())),
            plain,
            parsed,
        })
    }

    fn batch(&self, actions: &[Action]) -> Result<Option<RecordBatch>> {
        let unwritable =
            |e: ArrowError| TableError::Malformed(format!("the checkpoint cannot be written: {e}"));
        let Some(batch) = plain_batch(&self.plain, actions).map_err(unwritable)? else {
            return Ok(None);
        };
        let Some(parsed) = &self.parsed else {
            return Ok(Some(batch));
        };
        let adds = actions.iter().map(|action| match action {
            Action::Add(add) => Some(add),
            _ => None,
        });
        let more = parsed.columns(&adds.collect::<Vec<_>>())?;
        let columns = batch.schema_ref().fields().iter().zip(batch.columns());
        let columns = columns.map(|(field, column)| match column.as_struct_opt() {
            Some(add) if field.name() == ADD => with_columns(add, &parsed.fields(), &more),
            _ => Ok(Arc::clone(column)),
        });
        let columns = columns.collect::<Result<Vec<_>, _>>().map_err(unwritable)?;
        RecordBatch::try_new(Arc::clone(&self.whole), columns)
            .map(Some)
            .map_err(unwritable)
    }
}

/// A struct with more columns.
fn with_columns(group: &StructArray, fields: &[Field], columns: &[ArrayRef]) -> Result<ArrayRef, ArrowError> {
    let fields = group
        .fields()
        .iter()
        .cloned()
        .chain(fields.iter().cloned().map(Arc::new));
    let columns = group.columns().iter().chain(columns).cloned();
    let whole = StructArray::try_new(fields.collect(), columns.collect(), group.nulls().cloned())?;
    Ok(Arc::new(whole))
}

/// A checkpoint that was written.
#[derive(Default)]
struct Encoded {
    bytes: u64,
    actions: usize,
    /// The files in the table.
    files: usize,
}

/// The encoder of a checkpoint's file.
struct Encoder<'a> {
    layout: &'a Layout,
    writer: FileWriter,
    done: Encoded,
}

impl<'a> Encoder<'a> {
    fn new(sink: Box<dyn Sink>, layout: &'a Layout) -> Result<Self> {
        // The oldest readers of checkpoints support nothing newer.
        let options = WriterOptions::new(OptionInput {
            compression: CompressionRule::All("snappy".to_owned()),
            compatibility: "v1".into(),
            row_group_bytes: GROUP_BYTES,
            ..OptionInput::default()
        })?;
        Ok(Self {
            layout,
            writer: FileWriter::new(sink, Some(Arc::clone(&layout.whole)), options)?,
            done: Encoded::default(),
        })
    }

    fn write(&mut self, batch: RecordBatch) -> Result<()> {
        let adds = batch.column_by_name(ADD);
        self.done.actions += batch.num_rows();
        self.done.files += adds.map_or(0, |adds| adds.len() - adds.null_count());
        Ok(self.writer.write(&batch.into(), &mut || true)?)
    }

    fn write_actions(&mut self, mut actions: impl Iterator<Item = Action>) -> Result<()> {
        loop {
            let part: Vec<Action> = actions.by_ref().take(BATCH_ROWS).collect();
            if part.is_empty() {
                return Ok(());
            }
            if let Some(batch) = self.layout.batch(&part)? {
                self.write(batch)?;
            }
        }
    }

    fn finish(mut self) -> Result<Encoded> {
        self.writer.close(&mut || true)?;
        self.done.bytes = self.writer.result().map_or(0, |result| result.bytes);
        Ok(self.done)
    }
}

/// Writes the actions since the previous checkpoint, and then the entries of that one which they do not replace.
fn encode_all(
    sink: Box<dyn Sink>,
    layout: &Layout,
    actions: &Actions<'_>,
    since: &Snapshot,
    base: &[Base],
) -> Result<Encoded> {
    let mut encoder = Encoder::new(sink, layout)?;
    encoder.write_actions(actions.written())?;
    for file in base {
        file.each(&since.contents, actions.kept_since, &mut |batch| {
            encoder.write(batch)
        })?;
    }
    encoder.finish()
}

/// Writes actions as a checkpoint's file, whatever they are.
#[cfg(any(test, fuzzing))]
pub(crate) fn write_actions(log: &LogDir, name: &str, actions: &[Action]) -> Result<u64> {
    let layout = Layout::plain(actions)?;
    let mut encoder = Encoder::new(log.replace(name)?, &layout)?;
    encoder.write_actions(actions.iter().cloned())?;
    Ok(encoder.finish()?.bytes)
}

fn plain_batch(schema: &SchemaRef, actions: &[Action]) -> Result<Option<RecordBatch>, ArrowError> {
    let mut decoder = arrow_json::ReaderBuilder::new(Arc::clone(schema))
        .with_batch_size(actions.len())
        .build_decoder()?;
    decoder.serialize(actions)?;
    decoder.flush()
}

/// The hint that names the checkpoint.
fn hint(snapshot: &Snapshot, changed_in: Version, done: &Encoded) -> String {
    let mut tags = json!({CHANGED_IN: changed_in.to_string()});
    if let Some(at) = snapshot.in_commit_timestamp {
        tags[IN_COMMIT_TIMESTAMP] = json!(at.to_string());
    }
    let hint = json!({
        "version": snapshot.version,
        "size": done.actions,
        "sizeInBytes": done.bytes,
        "numOfAddFiles": done.files,
        "tags": tags,
    });
    hint.to_string()
}

/// Writes the hint that names the checkpoint of a version, unless a newer checkpoint exists by now. The log is listed
/// to find out: an existing hint may be left from another table at this place.
fn write_hint(log: &LogDir, version: Version, text: &str) -> Result<()> {
    log.replace_unless(HINT, text.as_bytes(), &mut || {
        let listing = log.list(Some(version))?;
        let newest = listing.checkpoint(Version::MAX);
        Ok(newest.is_some_and(|(newest, _)| newest > version))
    })
}

pub(crate) fn now() -> i64 {
    millis(SystemTime::now())
}

/// Milliseconds since the epoch.
pub(crate) fn millis(at: SystemTime) -> i64 {
    at.duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_millis()).ok())
        .unwrap_or(0)
}

fn text(name: &str) -> Field {
    Field::new(name, DataType::Utf8, true)
}

fn long(name: &str) -> Field {
    Field::new(name, DataType::Int64, true)
}

fn int(name: &str) -> Field {
    Field::new(name, DataType::Int32, true)
}

fn flag(name: &str) -> Field {
    Field::new(name, DataType::Boolean, true)
}

fn texts(name: &str) -> Field {
    Field::new(name, DataType::List(Arc::new(text("element"))), true)
}

fn mapping(name: &str) -> Field {
    let entries = Fields::from(vec![Field::new("key", DataType::Utf8, false), text("value")]);
    let entries = Field::new("key_value", DataType::Struct(entries), false);
    Field::new(name, DataType::Map(Arc::new(entries), false), true)
}

fn group(name: &str, fields: Vec<Field>) -> Field {
    Field::new(name, DataType::Struct(fields.into()), true)
}

fn vector(unknown: Vec<Field>) -> Field {
    let mut fields = vec![
        text("storageType"),
        text("pathOrInlineDv"),
        int("offset"),
        int("sizeInBytes"),
        long("cardinality"),
    ];
    fields.extend(unknown);
    group("deletionVector", fields)
}

/// The columns of known actions, and those of fields that only other writers know.
fn schema(forms: Forms, foreign: &ForeignFields) -> SchemaRef {
    let add = vec![
        text("path"),
        mapping("partitionValues"),
        long("size"),
        long("modificationTime"),
        flag("dataChange"),
        text(JSON_STATS),
        mapping("tags"),
        vector(foreign.columns("add.deletionVector")),
        long("baseRowId"),
        long("defaultRowCommitVersion"),
        text("clusteringProvider"),
    ];
    let remove = vec![
        text("path"),
        long("deletionTimestamp"),
        flag("dataChange"),
        flag("extendedFileMetadata"),
        mapping("partitionValues"),
        long("size"),
        vector(foreign.columns("remove.deletionVector")),
        long("baseRowId"),
        long("defaultRowCommitVersion"),
    ];
    let format = vec![text("provider"), mapping("options")];
    let format = [format, foreign.columns("metaData.format")].concat();
    let metadata = vec![
        text("id"),
        text("name"),
        text("description"),
        group("format", format),
        text("schemaString"),
        texts("partitionColumns"),
        mapping("configuration"),
        long("createdTime"),
    ];
    let protocol = vec![
        int("minReaderVersion"),
        int("minWriterVersion"),
        texts("readerFeatures"),
        texts("writerFeatures"),
    ];
    let domain = vec![text("domain"), text("configuration"), flag("removed")];
    let txn = vec![text("appId"), long("version"), long("lastUpdated")];
    let groups = [
        ("txn", txn),
        (ADD, add),
        ("remove", remove),
        ("metaData", metadata),
        ("protocol", protocol),
        ("domainMetadata", domain),
    ];
    let groups = groups.map(|(name, mut fields)| {
        fields.retain(|field| forms.json || field.name() != JSON_STATS);
        fields.extend(foreign.columns(name));
        group(name, fields)
    });
    Arc::new(Schema::new(groups.to_vec()))
}
