//! The version that a handle is pinned to: all reads see it until the handle is refreshed or commits.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

use delta_commit::Version;

use crate::error::Result;
use crate::head::TableHead;
use crate::snapshot::Snapshot;
use crate::table::{Table, lock};

/// The version that a handle is pinned to.
#[derive(Default)]
pub(crate) struct Pinned {
    head: Option<Arc<TableHead>>,
    /// The same version with its files, once they were read.
    files: Option<Arc<Snapshot>>,
    /// How often the handle was unpinned. A snapshot that was read before the last time may lack a commit of the
    /// caller, and is not pinned.
    unpinned: u64,
}

impl Pinned {
    /// A handle that is pinned to this version.
    pub fn to(head: Arc<TableHead>) -> Self {
        Self {
            head: Some(head),
            ..Self::default()
        }
    }

    fn version(&self) -> Option<Version> {
        self.head.as_ref().map(|head| head.version)
    }
}

impl Table {
    fn pinned(&self) -> MutexGuard<'_, Pinned> {
        lock(self.pinned.get_or_init(Mutex::default))
    }

    /// The pinned version without its files. A handle is pinned to the version that it opened, and after
    /// [`refresh`](Self::refresh) or [`unpin`](Self::unpin) to the one that is the newest at the next read. A forked
    /// child starts unpinned.
    ///
    /// # Errors
    /// As [`head`](Self::head), if the handle is not pinned.
    pub fn pinned_head(&self) -> Result<Arc<TableHead>> {
        let unpinned = {
            let pinned = self.pinned();
            if let Some(head) = &pinned.head {
                return Ok(Arc::clone(head));
            }
            pinned.unpinned
        };
        let head = self.head()?;
        Ok(self.pin(unpinned, &head, None).unwrap_or(head))
    }

    /// The same table with its files.
    ///
    /// # Errors
    /// As [`head`](Self::head); [`TableError::NoSuchVersion`](crate::TableError::NoSuchVersion) if the version was
    /// cleaned up.
    pub fn pinned_snapshot(&self) -> Result<Arc<Snapshot>> {
        loop {
            let (version, unpinned) = {
                let pinned = self.pinned();
                if let Some(snapshot) = &pinned.files {
                    return Ok(Arc::clone(snapshot));
                }
                (pinned.version(), pinned.unpinned)
            };
            let snapshot = self.newest_or_at(version)?;
            if self.pin(unpinned, &snapshot.head, Some(&snapshot)).is_none() {
                return Ok(snapshot);
            }
            // Another thread pinned another version meanwhile.
        }
    }

    /// A version with its files, which are kept if the handle is pinned to it.
    ///
    /// # Errors
    /// As [`snapshot_at`](Self::snapshot_at).
    pub fn snapshot_of(&self, version: Version) -> Result<Arc<Snapshot>> {
        let is_pinned = self.pinned().version() == Some(version);
        if is_pinned {
            let snapshot = self.pinned_snapshot()?;
            if snapshot.version == version {
                return Ok(snapshot);
            }
        }
        Ok(Arc::new(self.snapshot_at(version)?))
    }

    /// Pins the handle to the newest version, and reads its files if those of the previous version were read.
    ///
    /// # Errors
    /// As [`head`](Self::head). The handle is not pinned then.
    pub fn refresh(&self) -> Result<Arc<TableHead>> {
        let has_files = self.pinned().files.is_some();
        self.unpin();
        if has_files {
            // New versions are read once for both.
            return Ok(Arc::clone(&self.pinned_snapshot()?.head));
        }
        self.pinned_head()
    }

    /// Unpins the handle, after a commit or an attempt.
    pub fn unpin(&self) {
        let mut pinned = self.pinned();
        let unpinned = pinned.unpinned + 1;
        let before = std::mem::replace(
            &mut *pinned,
            Pinned {
                unpinned,
                ..Pinned::default()
            },
        );
        drop(pinned);
        // Dropping many files takes time, so the lock is released first.
        drop(before);
    }

    /// Pins the handle to a version, unless it was unpinned since `unpinned` was read. Returns the version that another
    /// thread has pinned it to meanwhile, if that is a different one.
    fn pin(
        &self,
        unpinned: u64,
        head: &Arc<TableHead>,
        files: Option<&Arc<Snapshot>>,
    ) -> Option<Arc<TableHead>> {
        let mut pinned = self.pinned();
        if pinned.unpinned != unpinned {
            return None;
        }
        match &pinned.head {
            Some(there) if there.version != head.version => return Some(Arc::clone(there)),
            Some(_) => {}
            None => pinned.head = Some(Arc::clone(head)),
        }
        if let Some(snapshot) = files {
            pinned.files = Some(Arc::clone(snapshot));
        }
        self.seen.store(head.version, Ordering::Release);
        None
    }

    /// This version with its files, by default the newest. The newest is kept for all handles of this process.
    fn newest_or_at(&self, version: Option<Version>) -> Result<Arc<Snapshot>> {
        let Some(version) = version else {
            return self.snapshot();
        };
        if version >= self.shared()?.head().version {
            let newest = self.snapshot()?;
            if newest.version == version {
                return Ok(newest);
            }
        }
        Ok(Arc::new(self.snapshot_at(version)?))
    }
}
