//! Entries of folders that survive a crash, as far as this process made them.
//!
//! Each append to a partition needs the entries of the folders above its file. They survive since the first append that
//! synced them, and every further sync would wait for the disk, and for other processes that sync the same folder.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::Mutex;

use super::sync::{FileIdentity, lock};
use per_process::PerProcess;

/// The most entries that are remembered: some megabytes. Above that all are forgotten, and synced again.
const MOST: usize = 1 << 14;

static SYNCED: PerProcess<Mutex<HashSet<FolderEntry>>> = PerProcess::new();

/// The entry of a folder in the one above it. A folder that was made anew, moved or renamed has another one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct FolderEntry {
    above: FileIdentity,
    folder: FileIdentity,
    name: OsString,
}

impl FolderEntry {
    /// The entry of a folder. None where it is not there, or where it could not be told from that of a later folder.
    pub(super) fn of(folder: &Path) -> Option<Self> {
        // A link has an entry of its own.
        let (above, found) = (fs::metadata(folder.parent()?), fs::symlink_metadata(folder));
        Some(Self {
            above: FileIdentity::of(&above.ok()?).if_unique()?,
            folder: FileIdentity::of(&found.ok()?).if_unique()?,
            name: folder.file_name()?.to_owned(),
        })
    }

    /// Returns true if it survives a crash.
    pub(super) fn is_synced(&self) -> bool {
        let synced = SYNCED.get().map(lock);
        synced.is_some_and(|synced| synced.contains(self))
    }

    /// Notes that it does: the folder above was synced since this was asked for. Nothing is noted if it is another one
    /// by now.
    pub(super) fn keep(self, folder: &Path) {
        if Self::of(folder).as_ref() != Some(&self) {
            return;
        }
        remember(&mut lock(SYNCED.get_or_init(Mutex::default)), self);
    }
}

fn remember(synced: &mut HashSet<FolderEntry>, entry: FolderEntry) {
    if synced.len() >= MOST {
        synced.clear();
    }
    synced.insert(entry);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_was_made_anew_has_another_entry() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("day=1");
        assert_eq!(FolderEntry::of(&folder), None);
        fs::create_dir(&folder).unwrap();
        let entry = FolderEntry::of(&folder).unwrap();
        assert!(!entry.is_synced());
        entry.clone().keep(&folder);
        assert!(FolderEntry::of(&folder).unwrap().is_synced());
        fs::rename(&folder, root.path().join("day=2")).unwrap();
        assert!(!FolderEntry::of(&root.path().join("day=2")).unwrap().is_synced());
        fs::create_dir(&folder).unwrap();
        assert!(!FolderEntry::of(&folder).unwrap().is_synced());
        entry.clone().keep(&folder);
        assert!(!FolderEntry::of(&folder).unwrap().is_synced());
    }

    #[test]
    fn entries_are_forgotten_before_they_fill_the_memory() {
        let root = tempfile::tempdir().unwrap();
        let entry = FolderEntry::of(root.path()).unwrap();
        let mut synced = HashSet::new();
        for number in 0..=MOST {
            let name = number.to_string().into();
            remember(
                &mut synced,
                FolderEntry {
                    name,
                    ..entry.clone()
                },
            );
            assert!(synced.len() <= MOST);
        }
        assert_eq!(synced.len(), 1);
    }
}
