//! The cleanup of the log: removes files of versions that are past the table's retention.
//!
//! The newest checkpoint before the cut-off and everything after it are kept, so that each version after the cut-off
//! can still be read. What goes is what "Metadata Cleanup" in Delta's PROTOCOL.md says: versions, checkpoints and
//! checksums before that checkpoint, compacted ranges that begin before or with it, and sidecars that no checkpoint
//! names any more.

use std::collections::{BTreeMap, HashSet};

use delta_commit::Version;

use crate::checkpoint::{is_whole, sidecars_of};
use crate::error::Result;
use crate::head::TableHead;
use crate::interval::interval_millis;
use crate::log_dir::{LogDir, LogFile, LogFiles, LogListing};

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
/// When the folder cannot be read; when the clock of this machine is far off that of the storage.
pub(crate) fn clean_up(log: &LogDir, head: &TableHead) -> Result<usize> {
    let Some(retention) = retention(head) else {
        return Ok(0);
    };
    let Some(LogFiles {
        files,
        listing,
        derived,
    }) = log.files()?
    else {
        return Ok(0);
    };
    let newest = listing.checkpoint(Version::MAX).map(|(version, _)| version);
    if !files.iter().any(|file| Some(file.version) < newest) {
        return Ok(0);
    }
    let now = log.0.now_for_removal()?;
    let Some(cut_off) = cut_off(now, retention) else {
        return Ok(0);
    };
    let Some(first_kept) = first_kept(log, &files, &listing, cut_off)? else {
        return Ok(0);
    };
    let is_old = |file: &&LogFile| file.version < first_kept;
    let mut expired: Vec<&LogFile> = files.iter().filter(is_old).collect();
    // In this order, so that what is left of a folder after a crash has no gap; a store removes several at once.
    expired.sort_by_key(|file| file.version);
    // The actions of a compacted range that begins with the checkpoint's version are in it, and in later versions.
    expired.extend(derived.iter().filter(|file| file.is_past(first_kept)));
    let removed = log.remove(&expired);
    if !has_v2_checkpoints(head) {
        return Ok(removed);
    }
    Ok(removed + remove_sidecars(log, now)?)
}

fn has_v2_checkpoints(head: &TableHead) -> bool {
    let mut features = head.protocol.writer_features.iter().flatten();
    features.any(|feature| feature == V2_CHECKPOINT)
}

/// Removes sidecars that no checkpoint names, but for those of the last day: their checkpoint may be under way.
fn remove_sidecars(log: &LogDir, now: i64) -> Result<usize> {
    let Some(cut_off) = cut_off(now, DAY) else {
        return Ok(0);
    };
    // Before the checkpoints are read: a checkpoint that comes later names young ones, or those of one that is there.
    let mut old = log.sidecars()?;
    old.retain(|(_, written)| *written < cut_off);
    if old.is_empty() {
        return Ok(0);
    }
    let mut named = HashSet::new();
    for name in log.list(None)?.checkpoint_files() {
        named.extend(sidecars_of(log, name)?);
    }
    let strays = old.into_iter().map(|(name, _)| name);
    let strays: Vec<String> = strays.filter(|name| !named.contains(name)).collect();
    Ok(log.remove_named(&strays))
}

/// The time for which files of the log are kept, in milliseconds; none when they are kept for ever.
fn retention(head: &TableHead) -> Option<i64> {
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

/// The newest checkpoint that can be read with all of its sidecars and up to which every version is too old; none where
/// nothing comes before it. A damaged one is passed over: versions before it are all that is left of the table's then.
///
/// # Errors
/// When the store does not answer.
fn first_kept(
    log: &LogDir,
    files: &[LogFile],
    listing: &LogListing,
    cut_off: i64,
) -> Result<Option<Version>> {
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
    let mut at_most = last_old;
    while let Some((version, names)) = listing.checkpoint(at_most) {
        if !files.iter().any(|file| file.version < version) {
            return Ok(None);
        }
        if is_whole(log, &names)? {
            return Ok(Some(version));
        }
        at_most = version - 1;
    }
    Ok(None)
}
