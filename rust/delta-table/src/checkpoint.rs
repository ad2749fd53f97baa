//! Checkpoints: one Parquet file that stands for all versions up to its own.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arrow_array::RecordBatch;
use arrow_json::writer::{LineDelimited, WriterBuilder};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, SchemaRef};
use delta_commit::Version;
use delta_commit::actions::{Action, Add, Remove};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet_writer::sink::Sink;
use parquet_writer::{CompressionRule, FileWriter, OptionInput, WriteError, WriterOptions};
use serde_json::{Value, json};

use crate::error::{Result, TableError};
use crate::log_dir::{CHANGED_IN, HINT, LogDir};
use crate::snapshot::Snapshot;

/// Actions that are turned over together: what is known of each costs memory.
const BATCH_ROWS: usize = 8_192;

/// For how long a removed file is remembered unless the table says otherwise.
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

/// The actions of a checkpoint of the second form are in files beside it. The column alone is in others too.
const SIDECAR: &str = "sidecar";

/// The name of a version's checkpoint.
pub(crate) fn file_name(version: Version) -> String {
    format!("{version:020}.checkpoint.parquet")
}

/// The actions of a checkpoint's file.
///
/// Rows go through their JSON form, which is what actions are read from everywhere else.
pub(crate) fn read(log: &LogDir, name: &str) -> Result<Vec<Action>> {
    let malformed = |what: String| TableError::Malformed(format!("{}: {what}", log.shown(name).display()));
    let Some(file) = log.file(name)? else {
        return Err(malformed(
            "it was listed, and is gone: open the table again".to_owned(),
        ));
    };
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(file, options)
        .map_err(|e| malformed(e.to_string()))?;
    let parquet = builder.parquet_schema();
    let known = (0..parquet.num_columns()).filter(|leaf| {
        let column = parquet.column(*leaf);
        let parts = column.path().parts();
        let parsed = parts.get(1).is_some_and(|name| name.ends_with("_parsed"));
        !parsed && parts.first().is_some_and(|name| COLUMNS.contains(&name.as_str()))
    });
    let mask = ProjectionMask::leaves(parquet, known.collect::<Vec<_>>());
    let reader = builder
        .with_projection(mask)
        .with_batch_size(BATCH_ROWS)
        .build()
        .map_err(|e| malformed(e.to_string()))?;
    let mut actions = Vec::new();
    for batch in reader {
        let batch = batch.map_err(|e| malformed(e.to_string()))?;
        let rows = rows(&batch).map_err(|e| malformed(e.to_string()))?;
        for row in rows.split(|byte| *byte == b'\n').filter(|row| !row.is_empty()) {
            actions.extend(action(row)?);
        }
    }
    Ok(actions)
}

/// A batch as lines of JSON. Nulls are written, as a partition value may be one.
fn rows(batch: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
    let mut writer = WriterBuilder::new()
        .with_explicit_nulls(true)
        .build::<_, LineDelimited>(Vec::new());
    writer.write(batch)?;
    writer.finish()?;
    Ok(writer.into_inner())
}

fn action(row: &[u8]) -> Result<Option<Action>> {
    let value: Value =
        serde_json::from_slice(row).map_err(|e| TableError::Malformed(format!("a row is not JSON: {e}")))?;
    let Value::Object(columns) = value else {
        return Ok(None);
    };
    match columns.into_iter().find(|(_, value)| !value.is_null()) {
        Some((name, _)) if name == SIDECAR => Err(TableError::unsupported(
            "the table has a checkpoint of the second form (feature v2Checkpoint), which is not built",
        )),
        Some((name, body)) => Ok(Action::from_line(&json!({name: body}).to_string())?),
        None => Ok(None),
    }
}

/// Writes the checkpoint of a table's version, and the hint at it.
///
/// # Errors
/// When the log's folder cannot be written; readers find the older checkpoint then.
pub(crate) fn write(log: &LogDir, snapshot: &Snapshot) -> Result<()> {
    let actions = actions(snapshot);
    let sink = log.replace(&file_name(snapshot.version))?;
    let bytes = encode(sink, &actions)?;
    hint(log, snapshot, actions.len(), bytes)
}

/// Everything that later readers need, and nothing else.
fn actions(snapshot: &Snapshot) -> Vec<Action> {
    let contents = &snapshot.contents;
    let oldest = now() - tombstone_millis(snapshot);
    let mut actions = vec![
        Action::Protocol(snapshot.protocol.clone()),
        Action::Metadata(snapshot.metadata.as_ref().clone()),
    ];
    actions.extend(contents.progress.values().cloned().map(Action::Txn));
    actions.extend(contents.domains.values().cloned().map(Action::DomainMetadata));
    actions.extend(contents.files.values().map(|add| {
        Action::Add(Add {
            data_change: false,
            ..add.as_ref().clone()
        })
    }));
    let kept = contents
        .tombstones
        .values()
        .filter(|remove| remove.deletion_timestamp.unwrap_or(0) > oldest);
    actions.extend(kept.map(|remove| {
        Action::Remove(Remove {
            data_change: false,
            stats: None,
            tags: None,
            ..remove.as_ref().clone()
        })
    }));
    actions
}

fn tombstone_millis(snapshot: &Snapshot) -> i64 {
    const DAY: i64 = 86_400_000;
    snapshot
        .property("delta.deletedFileRetentionDuration")
        .and_then(interval_millis)
        .unwrap_or(TOMBSTONE_DAYS * DAY)
}

/// The milliseconds of `interval 1 week`; none for what is not such.
pub(crate) fn interval_millis(text: &str) -> Option<i64> {
    let mut words = text.split_whitespace();
    let mut first = words.next()?;
    if first.eq_ignore_ascii_case("interval") {
        first = words.next()?;
    }
    let count: i64 = first.parse().ok()?;
    let unit = words.next()?.to_ascii_lowercase();
    let millis = match unit.trim_end_matches('s') {
        "week" => 604_800_000,
        "day" => 86_400_000,
        "hour" => 3_600_000,
        "minute" => 60_000,
        "second" => 1_000,
        "millisecond" => 1,
        _ => return None,
    };
    if words.next().is_some() {
        return None;
    }
    count.checked_mul(millis)
}

fn encode(sink: Box<dyn Sink>, actions: &[Action]) -> Result<u64> {
    // What the oldest readers of checkpoints know.
    let options = WriterOptions::new(OptionInput {
        compression: CompressionRule::All("snappy".to_owned()),
        compatibility: "v1".into(),
        ..OptionInput::default()
    })?;
    let schema = schema();
    let mut writer = FileWriter::new(sink, Some(Arc::clone(&schema)), options)?;
    for actions in actions.chunks(BATCH_ROWS) {
        let batch = batch(&schema, actions)
            .map_err(|e| TableError::Malformed(format!("the checkpoint cannot be written: {e}")))?;
        if let Some(batch) = batch {
            writer.write(&batch.into(), &mut || true)?;
        }
    }
    writer.close(&mut || true)?;
    Ok(writer.result().map_or(0, |result| result.bytes))
}

fn batch(schema: &SchemaRef, actions: &[Action]) -> Result<Option<RecordBatch>, ArrowError> {
    let mut decoder = arrow_json::ReaderBuilder::new(Arc::clone(schema))
        .with_batch_size(actions.len())
        .build_decoder()?;
    decoder.serialize(actions)?;
    decoder.flush()
}

/// Points at the checkpoint, unless there is a newer one by now.
fn hint(log: &LogDir, snapshot: &Snapshot, actions: usize, bytes: u64) -> Result<()> {
    let newest = log
        .list(Some(snapshot.version))?
        .checkpoint(Version::MAX)
        .map(|(version, _)| version);
    if newest.is_some_and(|newest| newest > snapshot.version) {
        return Ok(());
    }
    let text = json!({
        "version": snapshot.version,
        "size": actions,
        "sizeInBytes": bytes,
        "numOfAddFiles": snapshot.contents.files.len(),
        "tags": {CHANGED_IN: snapshot.changed_in.to_string()},
    });
    let mut sink = log.replace(HINT)?;
    let written = sink
        .write_all(text.to_string().as_bytes())
        .and_then(|()| sink.commit());
    Ok(written.map_err(|e| WriteError::Io {
        path: Some(log.shown(HINT)),
        source: e,
    })?)
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

fn vector() -> Field {
    let fields = vec![
        text("storageType"),
        text("pathOrInlineDv"),
        int("offset"),
        int("sizeInBytes"),
        long("cardinality"),
    ];
    group("deletionVector", fields)
}

fn schema() -> SchemaRef {
    let add = vec![
        text("path"),
        mapping("partitionValues"),
        long("size"),
        long("modificationTime"),
        flag("dataChange"),
        text("stats"),
        mapping("tags"),
        vector(),
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
        vector(),
        long("baseRowId"),
        long("defaultRowCommitVersion"),
    ];
    let metadata = vec![
        text("id"),
        text("name"),
        text("description"),
        group("format", vec![text("provider"), mapping("options")]),
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
    Arc::new(Schema::new(vec![
        group("txn", txn),
        group("add", add),
        group("remove", remove),
        group("metaData", metadata),
        group("protocol", protocol),
        group("domainMetadata", domain),
    ]))
}
