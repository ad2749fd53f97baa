//! The snapshot that a handle answers from: one version for all that its caller asks, until it is refreshed or commits.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

use delta_commit::Version;

use crate::error::Result;
use crate::head::Head;
use crate::snapshot::Snapshot;
use crate::table::{Table, lock};

/// The version that a handle is pinned to.
#[derive(Default)]
pub(crate) struct Pinned {
    head: Option<Arc<Head>>,
    /// The same with its files, once somebody asked for them.
    files: Option<Arc<Snapshot>>,
    /// The number of times that the handle was unpinned. A state that was read before the last one may lack a commit of
    /// the caller's own, and is not pinned.
    unpinned: u64,
}

impl Pinned {
    /// A handle that is pinned to this version.
    pub fn to(head: Arc<Head>) -> Self {
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

    /// The table without files at the version that this handle is pinned to: that of its opening, or the one that was
    /// the newest when it was first asked after [`refresh`](Self::refresh) or [`unpin`](Self::unpin). A forked child is
    /// not pinned.
    ///
    /// # Errors
    /// As [`head`](Self::head), if the handle is not pinned.
    pub fn pinned_head(&self) -> Result<Arc<Head>> {
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

    /// Pins the handle to the newest version, with its files if it had those of the version before.
    ///
    /// # Errors
    /// As [`head`](Self::head). The handle is not pinned then.
    pub fn refresh(&self) -> Result<Arc<Head>> {
        let has_files = self.pinned().files.is_some();
        self.unpin();
        if has_files {
            // New versions are read once for both.
            return Ok(Arc::clone(&self.pinned_snapshot()?.head));
        }
        self.pinned_head()
    }

    /// Unpins the handle, for a caller that has committed, or tried to.
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
        // A table may have many files.
        drop(before);
    }

    /// Pins the handle to a state, unless it was unpinned since. Returns the other version that it is pinned to.
    fn pin(&self, unpinned: u64, head: &Arc<Head>, files: Option<&Arc<Snapshot>>) -> Option<Arc<Head>> {
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

    /// This version with its files, or the newest, which is kept for others that ask.
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
