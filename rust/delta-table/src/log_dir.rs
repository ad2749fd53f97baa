//! The folder of the log: which versions and checkpoints there are, and how a table is read from them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use delta_commit::Version;
use delta_commit::actions::parse_commit;
use delta_commit::log::{BEFORE_FIRST, version_file, version_of_file};
use serde_json::Value;

use crate::checkpoint;
use crate::error::{Result, TableError};
use crate::snapshot::{Replay, Snapshot};

/// Where a hint at the newest checkpoint is.
pub(crate) const HINT: &str = "_last_checkpoint";

/// Where our checkpoints' hints keep the last version that changed metadata or protocol.
pub(crate) const CHANGED_IN: &str = "spillway.changedIn";

/// `_delta_log`.
#[derive(Debug, Clone)]
pub(crate) struct LogDir {
    pub path: PathBuf,
}

/// What a listing shows.
#[derive(Debug, Default)]
pub(crate) struct LogListing {
    /// The newest version; [`BEFORE_FIRST`] without any.
    pub tip: Version,
    /// The oldest version that has a file of its own.
    pub oldest: Option<Version>,
    /// Parts of checkpoints: part number, number of parts, file name.
    checkpoints: BTreeMap<Version, Vec<(u32, u32, String)>>,
    /// The newest checkpoint of the second form, which is not built.
    newest_v2: Option<Version>,
}

impl LogListing {
    /// The files of the newest checkpoint that is whole and not after `at_most`.
    pub fn checkpoint(&self, at_most: Version) -> Option<(Version, Vec<&str>)> {
        self.checkpoints
            .range(..=at_most)
            .rev()
            .find_map(|(version, parts)| {
                let whole = parts
                    .iter()
                    .map(|(_, of, _)| *of)
                    .find(|of| (1..=*of).all(|part| parts.iter().any(|(n, m, _)| (*n, *m) == (part, *of))))?;
                let names = parts.iter().filter(|(_, of, _)| *of == whole);
                Some((*version, names.map(|(.., name)| name.as_str()).collect()))
            })
    }
}

/// The version and the part of a checkpoint's file.
fn checkpoint_of_file(name: &str) -> Option<(Version, Option<(u32, u32)>)> {
    let (digits, rest) = name.split_once(".checkpoint.")?;
    let version = version_of_file(&format!("{digits}.json"))?;
    if rest == "parquet" {
        return Some((version, Some((1, 1))));
    }
    let part = rest
        .strip_suffix(".parquet")
        .and_then(|numbers| numbers.split_once('.'))
        .and_then(|(part, of)| Some((part.parse().ok()?, of.parse().ok()?)));
    Some((version, part))
}

impl LogDir {
    pub fn list(&self) -> Result<LogListing> {
        let mut listing = LogListing {
            tip: BEFORE_FIRST,
            ..LogListing::default()
        };
        let entries = match fs::read_dir(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(listing),
            entries => entries.map_err(|e| TableError::io(self.path.display(), &e))?,
        };
        for entry in entries {
            let entry = entry.map_err(|e| TableError::io(self.path.display(), &e))?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if let Some(version) = version_of_file(name) {
                listing.tip = listing.tip.max(version);
                listing.oldest = Some(listing.oldest.map_or(version, |oldest| oldest.min(version)));
            } else if let Some((version, part)) = checkpoint_of_file(name) {
                match part {
                    Some((part, of)) => {
                        let parts = listing.checkpoints.entry(version).or_default();
                        parts.push((part, of, name.to_owned()));
                    }
                    None => listing.newest_v2 = listing.newest_v2.max(Some(version)),
                }
            }
        }
        Ok(listing)
    }

    /// A version's bytes; none when it is not there.
    pub fn read(&self, version: Version) -> Result<Option<Vec<u8>>> {
        let path = self.path.join(version_file(version));
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(TableError::io(path.display(), &error)),
        }
    }

    /// Whether a version is there, as its own file.
    pub fn has(&self, version: Version) -> bool {
        self.path.join(version_file(version)).exists()
    }

    /// The table at `at`, or at its newest version.
    pub fn load(&self, root: &Path, at: Option<Version>) -> Result<Snapshot> {
        let listing = self.list()?;
        let target = at.unwrap_or(Version::MAX);
        let mut replay = Replay::new();
        if let Some((version, names)) = listing.checkpoint(target) {
            let changed_in = self.changed_in(version);
            for name in names {
                let actions = checkpoint::read(&self.path.join(name))?;
                replay.checkpoint(version, changed_in, actions);
            }
        } else if listing.tip == BEFORE_FIRST && listing.newest_v2.is_none() {
            return Err(TableError::NotFound(root.to_path_buf()));
        }
        while replay.version() < target {
            let next = replay.version() + 1;
            let Some(body) = self.read(next)? else {
                if next <= listing.tip {
                    return Err(self.gap(next, &listing, at));
                }
                break;
            };
            replay.commit(next, self.parse(next, &body)?);
        }
        match at {
            Some(at) if replay.version() != at => Err(TableError::NoSuchVersion(format!(
                "the table has no version {at}: its newest is {}",
                replay.version()
            ))),
            _ => replay.finish(),
        }
    }

    /// The actions of a version.
    pub fn parse(&self, version: Version, body: &[u8]) -> Result<Vec<delta_commit::actions::Action>> {
        parse_commit(body).map_err(|error| {
            let path = self.path.join(version_file(version));
            TableError::Malformed(format!("{}: {error}", path.display()))
        })
    }

    fn gap(&self, missing: Version, listing: &LogListing, at: Option<Version>) -> TableError {
        if listing.newest_v2.is_some_and(|version| version >= missing) {
            return TableError::unsupported(
                "the table has checkpoints of the second form (feature v2Checkpoint), which are not built, and its log \
                 does not reach back to its beginning",
            );
        }
        let before = listing.checkpoints.keys().any(|version| *version >= missing);
        if let (Some(at), true) = (at, before) {
            return TableError::NoSuchVersion(format!(
                "version {at} cannot be read any more: the log before a later checkpoint was cleaned up"
            ));
        }
        TableError::Malformed(format!(
            "{}: it is missing, and version {} is there: the log has a gap",
            self.path.join(version_file(missing)).display(),
            listing.tip
        ))
    }

    /// What our own hint says of a checkpoint. Without it, processes that begin at one checkpoint agree on its version.
    fn changed_in(&self, checkpoint: Version) -> Version {
        let Some(hint) = self.hint() else {
            return checkpoint;
        };
        let of_it = hint.get("version").and_then(Value::as_i64) == Some(checkpoint);
        hint.get("tags")
            .and_then(|tags| tags.get(CHANGED_IN))
            .and_then(Value::as_str)
            .filter(|_| of_it)
            .and_then(|text| text.parse().ok())
            .unwrap_or(checkpoint)
    }

    /// `_last_checkpoint`; it is a hint, so what cannot be read counts as absent.
    pub fn hint(&self) -> Option<Value> {
        let text = fs::read(self.path.join(HINT)).ok()?;
        serde_json::from_slice(&text).ok()
    }
}
