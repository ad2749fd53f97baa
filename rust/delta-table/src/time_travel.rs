//! Time travel: the version that was the newest at a time.
//!
//! The time of a version is its in-commit timestamp if the table has them, and otherwise the modification time of its
//! file, adjusted to rise from version to version ("In-Commit Timestamps" in Delta's PROTOCOL.md). If they were enabled
//! on an existing table, its earlier versions have the times of their files.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use chrono::{DateTime, SecondsFormat};
use delta_commit::Version;
use delta_commit::log::version_file;
use serde_json::Value;

use crate::error::{Result, TableError};
use crate::head::{TableHead, in_commit_timestamp};
use crate::log_dir::LogDir;
use crate::properties::{IN_COMMIT_TIMESTAMPS, IN_COMMIT_TIMESTAMPS_FROM};
use crate::table::{HistoryEntry, Table};

/// The times of the versions that are still in the log, in milliseconds since the epoch.
struct VersionTimes<'a> {
    log: &'a LogDir,
    /// The times of files, for versions without in-commit timestamps.
    of_files: BTreeMap<Version, i64>,
    versions: RangeInclusive<Version>,
    /// The first version with an in-commit timestamp.
    in_commit_from: Version,
}

/// The first version with an in-commit timestamp.
fn in_commit_from(head: &TableHead) -> Version {
    if head.metadata.is_enabled(IN_COMMIT_TIMESTAMPS) {
        let stated = head.property(IN_COMMIT_TIMESTAMPS_FROM);
        stated.and_then(|text| text.parse().ok()).unwrap_or(0)
    } else {
        Version::MAX
    }
}

/// Fills in the times of history entries.
pub(crate) fn tell_times(log: &LogDir, head: &TableHead, history: &mut [HistoryEntry]) -> Result<()> {
    let in_commit_from = in_commit_from(head);
    let oldest = history.iter().map(|entry| entry.version).min();
    let of_files = match oldest.filter(|oldest| *oldest < in_commit_from) {
        // Times are adjusted from the first version on, so start at the same version as `version_at`.
        Some(oldest) => log.written(log.first_with_changes()?.unwrap_or(oldest))?,
        None => BTreeMap::new(),
    };
    for entry in history {
        entry.time = if entry.version < in_commit_from {
            of_files.get(&entry.version).copied()
        } else {
            entry.info.get("inCommitTimestamp").and_then(Value::as_i64)
        };
    }
    Ok(())
}

impl<'a> VersionTimes<'a> {
    fn of(log: &'a LogDir, head: &TableHead) -> Result<Self> {
        let first = log.first_with_changes()?.ok_or_else(|| {
            TableError::NoSuchVersion(
                "the log has a checkpoint and no version after it, so no version has a time: give a version's number"
                    .to_owned(),
            )
        })?;
        let in_commit_from = in_commit_from(head);
        let of_files = if first < in_commit_from {
            log.written(first)?
        } else {
            BTreeMap::new()
        };
        Ok(Self {
            log,
            of_files,
            versions: first..=head.version,
            in_commit_from,
        })
    }

    fn of_version(&self, version: Version) -> Result<i64> {
        if version < self.in_commit_from {
            return self.of_files.get(&version).copied().ok_or_else(|| {
                TableError::unsupported(
                    "the store does not report when the table's versions were written: give a version's number",
                )
            });
        }
        let body = self.log.read(version)?.ok_or_else(|| {
            TableError::NoSuchVersion(format!(
                "version {version} was cleaned up while its time was read: ask again"
            ))
        })?;
        in_commit_timestamp(self.log, version, &body)?.ok_or_else(|| {
            let file = self.log.shown(&version_file(version));
            TableError::Malformed(format!(
                "{}: its commitInfo has no inCommitTimestamp, although the table has {IN_COMMIT_TIMESTAMPS}=true",
                file.display()
            ))
        })
    }

    /// The newest version of a range that is not after `time`, by binary search: times rise.
    fn last_by(&self, time: i64, range: RangeInclusive<Version>) -> Result<Option<Version>> {
        let (mut from, mut to) = range.into_inner();
        let mut found = None;
        while from <= to {
            let middle = from + (to - from) / 2;
            if self.of_version(middle)? <= time {
                found = Some(middle);
                from = middle + 1;
            } else {
                to = middle - 1;
            }
        }
        Ok(found)
    }

    /// The newest version at a time, as delta-spark finds it.
    fn version_at(&self, time: i64) -> Result<Version> {
        let (first, newest) = (*self.versions.start(), *self.versions.end());
        // In-commit timestamps and the times of files come from different clocks.
        let found = match self.last_by(time, first.max(self.in_commit_from)..=newest)? {
            None => self.last_by(time, first..=newest.min(self.in_commit_from.saturating_sub(1)))?,
            found => found,
        };
        let Some(version) = found else {
            let cleaned_up = if first > 0 {
                "; earlier ones were cleaned up"
            } else {
                ""
            };
            return Err(TableError::NoSuchVersion(format!(
                "the table has no version as old as {}: the first one that can be read is version {first}, written at \
                 {}{cleaned_up}",
                shown(time),
                shown(self.of_version(first)?)
            )));
        };
        let written = self.of_version(version)?;
        if version == newest && written < time {
            return Err(TableError::NoSuchVersion(format!(
                "{} is after the newest version {newest}, written at {}: leave the time out to read the newest version",
                shown(time),
                shown(written)
            )));
        }
        Ok(version)
    }
}

/// A time as an error shows it.
fn shown(millis: i64) -> String {
    DateTime::from_timestamp_millis(millis).map_or_else(
        || format!("{millis} ms since the epoch"),
        |time| time.to_rfc3339_opts(SecondsFormat::Millis, true),
    )
}

impl Table {
    /// The version that was the newest at a time, in milliseconds since the epoch.
    ///
    /// # Errors [`TableError::NoSuchVersion`] if the time is before the first version that can be read, or after the
    /// newest one; [`delta_commit::CommitError::Unsupported`] if the store does not report when files were written.
    pub fn version_at(&self, time: i64) -> Result<Version> {
        let shared = self.shared()?;
        let head = shared.refresh(&mut shared.looking())?;
        let found = VersionTimes::of(&shared.log, &head).and_then(|times| times.version_at(time));
        found.map_err(|error| shared.or_replaced(error))
    }
}
