//! The cleanup of the log: removes files of versions that are past the table's retention.
//!
//! The newest checkpoint before the cut-off and everything after it are kept, so that each version after the cut-off
//! can still be read. Sidecars all stay: other checkpoints may name them.

use std::collections::BTreeMap;

use delta_commit::Version;

use crate::checkpoint::is_whole;
use crate::error::Result;
use crate::head::Head;
use crate::interval::interval_millis;
use crate::log_dir::{LogDir, LogFile, LogFiles};

const DAY: i64 = 86_400_000;

/// The feature of tables of which checkpoints may name other files.
const V2_CHECKPOINT: &str = "v2Checkpoint";

/// The time for which versions are kept, unless the table's properties say otherwise.
const RETENTION: i64 = 30 * DAY;

/// The age below which files stay, whatever the table's properties say. A process that read the tip a while ago goes on
/// from there without a listing.
const YOUNGEST: i64 = 3_600_000;

/// Removes files past the table's retention, and returns their number.
///
/// # Errors
/// When the folder cannot be read.
pub(crate) fn clean_up(log: &LogDir, head: &Head) -> Result<usize> {
    let Some(retention) = retention(head) else {
        return Ok(0);
    };
    let Some(LogFiles { now, files }) = log.files()? else {
        return Ok(0);
    };
    let Some(cut_off) = cut_off(now, retention) else {
        return Ok(0);
    };
    let Some(first_kept) = first_kept(log, head, &files, cut_off)? else {
        return Ok(0);
    };
    let mut expired: Vec<&LogFile> = files.iter().filter(|file| file.version < first_kept).collect();
    // In this order, so that what is left of a folder after a crash has no gap; a store removes several at once.
    expired.sort_by_key(|file| file.version);
    Ok(log.remove(&expired))
}

/// The time for which files of the log are kept, in milliseconds; none when they are kept for ever.
fn retention(head: &Head) -> Option<i64> {
    let enabled = head.property("delta.enableExpiredLogCleanup");
    if enabled.is_some_and(|text| !text.eq_ignore_ascii_case("true")) {
        return None;
    }
    // What cannot be understood may mean any length of time.
    match head.property("delta.logRetentionDuration") {
        Some(text) => interval_millis(text),
        None => Some(RETENTION),
    }
}

/// The moment before which files are too old.
fn cut_off(now: i64, retention: i64) -> Option<i64> {
    let at = now.checked_sub(retention)?;
    Some((at - at.rem_euclid(DAY)).min(now - YOUNGEST))
}

/// The newest checkpoint up to which every version is too old; none where files are gone that it names.
fn first_kept(log: &LogDir, head: &Head, files: &[LogFile], cut_off: i64) -> Result<Option<Version>> {
    let mut youngest: BTreeMap<Version, i64> = BTreeMap::new();
    for file in files {
        let at = youngest.entry(file.version).or_insert(file.modified);
        *at = file.modified.max(*at);
    }
    // A clock that was set back makes later versions look older: the first that is young ends it.
    let old = youngest
        .into_iter()
        .take_while(|(_, modified)| *modified < cut_off);
    let Some((last_old, _)) = old.last() else {
        return Ok(None);
    };
    let listing = log.list(None)?;
    let Some((version, names)) = listing.checkpoint(last_old) else {
        return Ok(None);
    };
    let mut features = head.protocol.writer_features.iter().flatten();
    let is_whole = match names.as_slice() {
        [name] if features.any(|feature| feature == V2_CHECKPOINT) => is_whole(log, name)?,
        _ => true,
    };
    Ok(is_whole.then_some(version))
}
