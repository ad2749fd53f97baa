//! Writes a checkpoint and the hint that names it, only into the table that was read.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::{Array, RecordBatch};
use delta_commit::Version;
use delta_commit::actions::Action;
use delta_commit::log::version_file;
use parquet_writer::sink::Sink;
use parquet_writer::{CompressionRule, FileWriter, OptionInput, WriteError, WriterOptions};
use serde_json::json;

use crate::error::{Result, TableError};
use crate::log_dir::{CHANGED_IN, HINT, IN_COMMIT_TIMESTAMP, Incarnation, LogDir};
use crate::snapshot::Snapshot;

use super::actions::{Actions, checkpoint_add};
use super::incremental::{Base, Since};
use super::layout::CheckpointLayout;
use super::{ADD, BATCH_ROWS, file_name};

/// The compressed bytes of a row group. The writer holds one row group in memory, and so does the reader that copies
/// the file into the next checkpoint.
const GROUP_BYTES: i64 = 16 << 20;

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
    let layout = CheckpointLayout::of(snapshot, &actions)?;
    let Some(base) = base_of(log, since, &layout)? else {
        return Ok(false);
    };
    let name = file_name(snapshot.version);
    // Asked for before the check, so it is one of this table's.
    let incarnation = log.incarnation(version_file(snapshot.version))?;
    let is_sent = Arc::new(AtomicBool::new(false));
    let sink = CheckedSink {
        sink: if replace {
            log.replace(&name)?
        } else {
            log.create_whole(&name)?
        },
        check: Arc::clone(check),
        is_sent: Arc::clone(&is_sent),
    };
    let encoded = encode_all(log, Box::new(sink), &layout, &actions, since, &base);
    let exists = matches!(&encoded, Err(error) if is_of_existing(error));
    let is_own = is_sent.load(Ordering::Acquire) && !exists;
    // It also says in its own way why nothing was committed.
    confirm(log, &incarnation, check, || {
        if is_own {
            log.remove_file(&name);
        }
    })?;
    if exists {
        return Ok(true);
    }
    let text = hint(snapshot, changed_in, &encoded?);
    write_hint(log, snapshot.version, &text)?;
    confirm(log, &incarnation, check, || {
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
fn base_of(log: &LogDir, since: &Since, layout: &CheckpointLayout) -> Result<Option<Vec<Base>>> {
    if layout.parsed.is_some() && !since.is_whole() {
        return Ok(None);
    }
    let files = since.base.iter().map(|name| Base::open(log, name, &layout.plain));
    files.collect()
}

/// Checks that what was sent has not arrived in another table. It is removed there before anything is read: whoever
/// opens that table reads the checkpoint of this one.
fn confirm(
    log: &LogDir,
    incarnation: &Incarnation,
    check: &Arc<InPlace>,
    remove: impl FnOnce(),
) -> Result<()> {
    // A version that only a checkpoint stands for has no file to be looked up.
    if incarnation.is_none() {
        return check().inspect_err(|_| remove());
    }
    if log.confirms(incarnation)? {
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
struct CheckedSink {
    sink: Box<dyn Sink>,
    check: Arc<InPlace>,
    /// True once the file may be there.
    is_sent: Arc<AtomicBool>,
}

impl Write for CheckedSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sink.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

impl Sink for CheckedSink {
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
    layout: &'a CheckpointLayout,
    writer: FileWriter,
    done: Encoded,
}

impl<'a> Encoder<'a> {
    fn new(sink: Box<dyn Sink>, layout: &'a CheckpointLayout) -> Result<Self> {
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
    log: &LogDir,
    sink: Box<dyn Sink>,
    layout: &CheckpointLayout,
    actions: &Actions<'_>,
    since: &Since,
    base: &[Base],
) -> Result<Encoded> {
    let mut encoder = Encoder::new(sink, layout)?;
    match &since.statistics_in {
        None => encoder.write_actions(actions.written())?,
        Some(versions) => {
            encoder.write_actions(actions.others.iter().cloned())?;
            since.each_read_again(log, versions, &mut |adds| {
                encoder.write_actions(adds.into_iter().map(checkpoint_add))
            })?;
            encoder.write_actions(actions.tombstones())?;
        }
    }
    for file in base {
        file.each(&since.snapshot.contents, actions.kept_since, &mut |batch| {
            encoder.write(batch)
        })?;
    }
    encoder.finish()
}

/// Writes actions as a checkpoint's file, whatever they are.
#[cfg(any(test, fuzzing))]
pub(crate) fn write_actions(log: &LogDir, name: &str, actions: &[Action]) -> Result<u64> {
    let layout = CheckpointLayout::plain(actions)?;
    let mut encoder = Encoder::new(log.replace(name)?, &layout)?;
    encoder.write_actions(actions.iter().cloned())?;
    Ok(encoder.finish()?.bytes)
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
