//! Reads checkpoints of all forms: protocol and metadata alone, or every action.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::Schema;
use bytes::Bytes;
use delta_commit::actions::Action;
use delta_commit::path;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::reader::ChunkReader;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::data_file::{DataFile, load_footer, ranges_of, table_error, with_micros};
use crate::error::{Result, TableError};
use crate::log_dir::LogDir;
use crate::scan::Calendar;

use super::cells::CheckpointCell;
use super::parsed::{PARTITION_VALUES, STATS, stats_texts};
use super::{BATCH_ROWS, SIDECAR, SIDECARS, is_json};

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

/// Reads the actions of a checkpoint's file, and of the files that it names.
pub(crate) fn read(log: &LogDir, name: &str) -> Result<Vec<Action>> {
    let CheckpointActions {
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
struct CheckpointActions {
    actions: Vec<Action>,
    /// The names of files with more of them.
    sidecars: Vec<String>,
}

impl CheckpointActions {
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
    mut take: impl FnMut(&[(&'a str, CheckpointCell<'a>)]) -> Result<()>,
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
        cells.extend(valid.map(|(name, array)| (*name, CheckpointCell { array, row })));
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
    let mut row = CheckpointActions::default();
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
fn read_file(log: &LogDir, name: &str) -> Result<CheckpointActions> {
    let file = bytes_of(log, name)?;
    let mut all = CheckpointActions::default();
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
fn read_batches(
    log: &LogDir,
    name: &str,
    file: &Bytes,
    mut take: impl FnMut(CheckpointActions),
) -> Result<()> {
    let malformed = |what: String| malformed(log, name, &what);
    if is_json(name) {
        let lines = file.split(|byte| *byte == b'\n');
        for line in lines.filter(|line| !line.trim_ascii().is_empty()) {
            let mut entries = CheckpointActions::default();
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
        let mut entries = CheckpointActions::default();
        entries.take_rows(&batch).map_err(|e| malformed(e.to_string()))?;
        take(entries);
    }
    Ok(())
}

/// Reads the actions of a checkpoint's file that are not about files of the table. There may be others among them.
///
/// Of a Parquet file only their columns are read, one row group at a time. In the rows of files they are null and take
/// next to nothing. Files that it names hold none of them.
pub(crate) fn read_head(log: &LogDir, name: &str) -> Result<Vec<Action>> {
    Ok(read_columns(log, name, &HEAD_COLUMNS)?.actions)
}

/// Reads the entries of a file that are in some columns. Of a JSON file there may be others among them.
fn read_columns(log: &LogDir, name: &str, columns: &[&str]) -> Result<CheckpointActions> {
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
    let mut entries = CheckpointActions::default();
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
