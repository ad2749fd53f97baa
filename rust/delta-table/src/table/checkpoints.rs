//! When a table gets a checkpoint, and what one is made from.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use delta_commit::Version;

use crate::checkpoint::{self, Since, SinceReplay};
use crate::cleanup;
use crate::error::Result;
use crate::versions::VersionCache;

use super::{SharedTable, Table, lock};

/// The number of versions between two checkpoints, unless the table's properties say otherwise.
const CHECKPOINT_INTERVAL: i64 = 10;

/// The actions of a checkpoint for which there is one more version up to the next.
const ACTIONS_A_VERSION: i64 = 100;

/// The most intervals between two checkpoints. A reader reads all versions since the last one.
const MOST_INTERVALS: i64 = 50;

/// The number of versions until the next checkpoint, a multiple of `interval`. It grows with `size`, the number of
/// actions in the last checkpoint.
///
/// Each checkpoint holds all files. In a table of many, to which each version adds a few, checkpoints would cost more
/// than commits.
fn spacing(interval: Version, size: i64) -> Version {
    interval.saturating_mul((size / ACTIONS_A_VERSION / interval).clamp(1, MOST_INTERVALS))
}

impl SharedTable {
    /// The table with the files of the versions after its newest checkpoint. None if that checkpoint is damaged, or if
    /// the table has to be opened anew.
    fn since_checkpoint(&self) -> Result<Option<Since>> {
        if self.is_planned {
            return Ok(None);
        }
        let loaded = self.log.load::<SinceReplay>(None, VersionCache::default());
        // Asked after it was read, and before it is believed, or its absence.
        if !self.is_confirmed()? {
            return Ok(None);
        }
        let loaded = match loaded {
            Err(error) if error.is_corruption() => return Ok(None),
            loaded => loaded?,
        };
        if loaded.damaged.is_some() {
            return Ok(None);
        }
        self.check_same(&loaded.state.snapshot.metadata)?;
        Ok(Some(loaded.state))
    }

    /// Writes the checkpoint of a version. An existing file of its name is replaced if it is among the `unreadable`
    /// ones. Returns false if the entries of the previous checkpoint cannot be copied.
    fn write_checkpoint(self: &Arc<Self>, since: &Since, unreadable: &[&str]) -> Result<bool> {
        let snapshot = &since.snapshot;
        snapshot.check_features()?;
        self.checkpointed.fetch_max(snapshot.version, Ordering::AcqRel);
        // Checkpoints of other writers do not say what changed metadata last. This process may have seen it.
        let known = self.refresh(&mut self.looking())?.changed_in;
        let changed_in = if known <= snapshot.version {
            known.min(snapshot.changed_in)
        } else {
            snapshot.changed_in
        };
        let check: Arc<checkpoint::InPlace> = {
            let shared = Arc::clone(self);
            Arc::new(move || shared.check_in_place())
        };
        // Any other existing file was written by another process meanwhile, and is kept.
        let replace = unreadable.contains(&checkpoint::file_name(snapshot.version).as_str());
        let is_written = checkpoint::write(&self.log, since, changed_in, replace, &check)?;
        if is_written {
            *lock(&self.damaged) = None;
        }
        Ok(is_written)
    }
}

impl Table {
    /// Returns true if a checkpoint should be made now that this version is there. Of all threads that ask, one gets
    /// true.
    ///
    /// # Errors
    /// When the table cannot be opened again.
    pub fn is_checkpoint_due(&self, version: Version) -> Result<bool> {
        let shared = self.shared()?;
        let named = shared
            .head()
            .property("delta.checkpointInterval")
            .and_then(|text| text.parse().ok())
            .filter(|interval| *interval > 0);
        let interval = named.unwrap_or(CHECKPOINT_INTERVAL);
        let last = shared.checkpointed.load(Ordering::Acquire);
        // While one is written the next one waits: the versions after it ask again.
        if version / interval <= last / interval || shared.writing_checkpoint.is_taken() {
            return Ok(false);
        }
        // Each version has one process that wrote it, and may have many whose rows are in it.
        if !shared.committer.has_written_since(version - version % interval) {
            return Ok(false);
        }
        let first = shared
            .checkpointed
            .compare_exchange(last, version, Ordering::AcqRel, Ordering::Acquire)
            .is_ok();
        if !first {
            return Ok(false);
        }
        // Another process may have made it.
        let listing = shared.log.list(None).inspect_err(|_| {
            // The next version asks again.
            shared.checkpointed.store(last, Ordering::Release);
        })?;
        let damaged = lock(&shared.damaged).as_ref().map(|damaged| damaged.version);
        let newest = listing.checkpoint(Version::MAX).map(|(version, _)| version);
        let Some(newest) = newest.filter(|newest| Some(*newest) != damaged) else {
            return Ok(true);
        };
        let step = match named {
            Some(interval) => interval,
            None => spacing(interval, shared.log.size_of_checkpoint(newest)?),
        };
        if version / step <= newest / step {
            return Ok(false);
        }
        // One that takes a while is made by the process that wrote the version. Others would each make it, too, before
        // it is there. They do so later, if it is not there by then.
        let past = version % step;
        Ok(step == interval
            || (shared.committer.has_written_since(version - past) && (past == 0 || past >= step / 2)))
    }

    /// Writes a checkpoint of the newest version, unless there is one of it or of a later one. One that cannot be read
    /// is replaced. Returns the version that has one.
    ///
    /// # Errors
    /// [`CommitError::Unsupported`](delta_commit::CommitError::Unsupported) when the table asks its writers for what is
    /// not built, which may be about checkpoints too, or has fields of other writers that no checkpoint can hold; when
    /// the log's folder cannot be written. Nothing depends on it.
    pub fn checkpoint(&self) -> Result<Version> {
        let shared = self.shared()?;
        let head = shared.refresh(&mut shared.looking())?;
        head.check_features()?;
        let _turn = shared.writing_checkpoint.take(&mut shared.looking())?;
        let listing = shared.log.list(None)?;
        let mut unreadable = Vec::new();
        if let Some((newest, names)) = listing.checkpoint(Version::MAX)
            && newest >= head.version
        {
            let damaged = lock(&shared.damaged).as_ref().map(|damaged| damaged.version);
            if damaged != Some(newest) && checkpoint::is_readable(&shared.log, &names)? {
                return Ok(newest);
            }
            unreadable = names;
        }
        // Nothing of a damaged checkpoint is copied, even if parts of it can be read.
        let is_damaged = lock(&shared.damaged).is_some();
        let since = if is_damaged {
            None
        } else {
            shared.since_checkpoint()?
        };
        if let Some(since) = since {
            match shared.write_checkpoint(&since, &unreadable) {
                // A full read says what is damaged, and falls back to an older checkpoint.
                Err(error) if error.is_corruption() && !since.is_whole() => {}
                done if !matches!(done, Ok(false)) => return done.map(|_| since.snapshot.version),
                _ => {}
            }
        }
        let since = Since::first(shared.snapshot_once(&mut shared.looking())?);
        shared.write_checkpoint(&since, &unreadable)?;
        Ok(since.snapshot.version)
    }

    /// Removes versions that are past the table's retention and not needed. Returns the number of removed files.
    ///
    /// # Errors
    /// [`CommitError::Unsupported`](delta_commit::CommitError::Unsupported) when the table asks its writers for what is
    /// not built, which may be about what is removed too; when the log's folder cannot be read or written. Nothing
    /// depends on it.
    pub fn clean_up_log(&self) -> Result<usize> {
        let shared = self.shared()?;
        let head = shared.refresh(&mut shared.looking())?;
        head.check_features()?;
        cleanup::clean_up(&shared.log, &head)
    }
}
