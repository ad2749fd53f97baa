//! Vacuum: removes files of the table's folder that no version within the retention needs.
//!
//! A file stays if it is in the table, if it left the table within the retention, if an announced bundle names it, or
//! if it was written within the retention. So do the files of deletion vectors, and change data files of versions
//! within the retention. A file that no version has named stays for a day at least, however short the retention is: the
//! transaction that it belongs to may be under way, in another process, and would commit a file that is gone. Names
//! that begin with an underscore or a dot are no data, unless they are a partition's folder or that of change data
//! files. No version is written, since nothing changes for readers of the versions that are kept.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use delta_commit::actions::{Action, DeletionVector, Remove};
use delta_commit::{CommitError, announced_files, path};
use parquet_writer::WriteError;

use crate::change_feed;
use crate::deletion_vectors;
use crate::error::{Result, TableError};
use crate::head::TableHead;
use crate::interval::interval_millis;
use crate::log_dir::FOLDER;
use crate::snapshot::Snapshot;
use crate::storage::{StoredFile, StoredFiles};
use crate::table::{SharedTable, Table};

/// The time for which files that left a table are kept, unless its properties say otherwise.
const RETENTION: i64 = 7 * 86_400_000;

/// The time for which files stay that no version has named yet. Transactions are taken to be shorter: an append that is
/// open for longer can lose the files that it has finished, where the retention is as short.
const UNNAMED_RETENTION: i64 = 86_400_000;

/// The property that says otherwise.
pub(crate) const RETENTION_PROPERTY: &str = "delta.deletedFileRetentionDuration";

/// Files that are removed before the caller is asked whether to go on.
const AT_ONCE: usize = 200;

/// The options of a vacuum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VacuumOptions {
    /// Milliseconds for which files that left the table are kept. The default is the table's own time.
    pub retention: Option<i64>,
    /// True if files are named and none is removed.
    pub dry_run: bool,
    /// True if a shorter time than the table's own is refused.
    pub enforce_retention: bool,
}

/// The result of a vacuum.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Vacuum {
    /// The files that are not needed, by their names relative to the table, in order.
    pub files: Vec<String>,
    /// Their bytes.
    pub bytes: u64,
    /// The number of files that were removed.
    pub removed: usize,
}

impl Table {
    /// Removes files that no version within the retention needs.
    ///
    /// # Errors
    /// [`TableError::Option`] when the retention is negative, or shorter than the table's own;
    /// [`delta_commit::CommitError::Unsupported`] when the table asks its writers for what is not built, the store does
    /// not tell what time it is or the clock of this machine is far off, or a file is outside of the table's folder;
    /// [`WriteError::Interrupted`] when `go_on` said no. Files that were removed before stay so.
    pub fn vacuum(&self, options: &VacuumOptions, go_on: &mut dyn FnMut() -> bool) -> Result<Vacuum> {
        let shared = self.shared()?;
        if shared.is_planned {
            return Err(TableError::NotFound(self.root().to_path_buf()));
        }
        let head = shared.refresh(&mut shared.looking())?;
        head.check_features()?;
        let retention = retention(&head, options)?;
        let partitions = partitions_of(&head.metadata.partition_columns);
        let stored = shared.storage.walk(&|folder| enters(folder, &partitions))?;
        let stored = stored.ok_or_else(|| {
            TableError::unsupported(
                "the store's answers have no Date, by which the ages of files are told: nothing was removed",
            )
        })?;
        let now = match shared.storage.now_for_removal() {
            // A dry run must work without write permission.
            Err(TableError::Commit(CommitError::Store(_))) if options.dry_run => stored.now,
            now => now?,
        };
        // In this order: a bundle that is gone from the announced ones may be in the table, which is read after them.
        let announced = announced_files(shared.storage.log_store().as_ref(), &[])?;
        let snapshot = shared.snapshot(&mut shared.looking())?;
        snapshot.check_features()?;
        let cut_off = now.saturating_sub(retention);
        let ages = CutOffs {
            left: cut_off,
            unnamed: cut_off.min(now.saturating_sub(UNNAMED_RETENTION)),
        };
        let mut needed = RetainedFiles::of(self.root(), &snapshot, ages)?;
        needed.announce(&announced);
        needed.add_versions(&shared, &stored, &partitions, go_on)?;
        let mut vacuum = needed.others(&stored, &snapshot.metadata.partition_columns);
        if !options.dry_run {
            for names in vacuum.files.chunks(AT_ONCE) {
                if !go_on() {
                    return Err(WriteError::Interrupted.into());
                }
                vacuum.removed += shared.storage.remove(names);
            }
        }
        Ok(vacuum)
    }
}

/// The retention that is asked for, in milliseconds.
fn retention(head: &TableHead, options: &VacuumOptions) -> Result<i64> {
    let own = kept_for(head)?;
    let Some(retention) = options.retention else {
        return Ok(own);
    };
    if retention < 0 {
        return Err(TableError::option(
            "retention",
            "the retention is negative, which is not accepted: give the time for which files that left the table are \
             kept, none or more",
        ));
    }
    if retention < own && options.enforce_retention {
        return Err(TableError::option(
            "retention",
            format!(
                "a retention of {} hours is not accepted: the table keeps files that left it for {} hours \
                 ({RETENTION_PROPERTY}), since readers of older versions and unfinished transactions may need them; \
                 give as much or more, or enforce_retention=False if nobody uses the table meanwhile",
                hours(retention),
                hours(own)
            ),
        ));
    }
    Ok(retention)
}

/// The time for which the table keeps files that left it, in milliseconds.
fn kept_for(head: &TableHead) -> Result<i64> {
    let Some(text) = head.property(RETENTION_PROPERTY) else {
        return Ok(RETENTION);
    };
    interval_millis(text).ok_or_else(|| {
        TableError::unsupported(format!(
            "the table has {RETENTION_PROPERTY}={text:?}, which cannot be understood, so nobody can say which files it \
             keeps: set it to an interval of weeks, days, hours, minutes or seconds, such as \"interval 7 days\""
        ))
    })
}

fn hours(millis: i64) -> String {
    let tenths = millis / 360_000;
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// The times, in milliseconds, up to which files are old enough.
#[derive(Debug, Clone, Copy)]
struct CutOffs {
    /// That of files that left the table.
    left: i64,
    /// That of files that no version has named.
    unnamed: i64,
}

/// The names of files that have to stay.
struct RetainedFiles<'a> {
    root: &'a Path,
    ages: CutOffs,
    names: HashSet<String>,
    /// Those that were in the table, and left it before the cut-off. Some may be in it again.
    left: HashSet<String>,
}

impl<'a> RetainedFiles<'a> {
    /// Those that are in the table, or left it after the cut-off. A removal without a timestamp counts as recent.
    fn of(root: &'a Path, snapshot: &Snapshot, ages: CutOffs) -> Result<Self> {
        let mut needed = Self {
            root,
            ages,
            names: HashSet::new(),
            left: HashSet::new(),
        };
        for add in snapshot.files() {
            let names = needed.names_of(&add.path, add.deletion_vector.as_ref())?;
            needed.names.extend(names);
        }
        for remove in snapshot.contents.tombstones.values() {
            let is_young = remove.deletion_timestamp.is_none_or(|at| at > ages.left);
            needed.add_removed(remove, is_young)?;
        }
        Ok(needed)
    }

    /// The names of a file and of its vector's.
    fn names_of(&self, path: &str, vector: Option<&DeletionVector>) -> Result<Vec<String>> {
        // A store without folders has both names; a folder has one file.
        let mut names = vec![path::normal(path).into_owned(), path::decode_inside(path)?];
        if let Some(vector) = vector {
            names.extend(deletion_vectors::file_of(self.root, vector)?);
        }
        Ok(names)
    }

    fn add_removed(&mut self, remove: &Remove, is_young: bool) -> Result<()> {
        let names = self.names_of(&remove.path, remove.deletion_vector.as_ref())?;
        self.add_left(names, is_young);
        Ok(())
    }

    fn add_left(&mut self, names: Vec<String>, is_young: bool) {
        let to = if is_young { &mut self.names } else { &mut self.left };
        to.extend(names);
    }

    fn announce(&mut self, paths: &[String]) {
        for path in paths {
            let path = path::normal(path);
            self.names.extend(path::names_of(&path).map(str::to_owned));
        }
    }

    /// Adds the files that left the table after the cut-off, and change data files of versions after it, as far as its
    /// log goes back, by the store's own times. Checkpoints do not hold change data files, or files that left the table
    /// before the retention that it had then, and the times of removals are those of the clocks of their writers.
    ///
    /// Older versions, of the last day, name files that left the table before the cut-off and need not stay for a day.
    /// They are read where a file is so young that it goes only if one of them names it.
    fn add_versions(
        &mut self,
        shared: &SharedTable,
        stored: &StoredFiles,
        partitions: &[String],
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let is_open = |file: &StoredFile| {
            let name = file.name.as_str();
            file.modified > self.ages.unnamed
                && file.modified <= self.ages.left
                && !self.names.contains(name)
                && !self.left.contains(name)
                && !is_hidden(name, partitions)
        };
        let from = if stored.files.iter().any(is_open) {
            self.ages.unnamed
        } else {
            self.ages.left
        };
        let files = shared.log.files()?.map(|log| log.files).unwrap_or_default();
        let read = files.iter().filter(|file| file.modified > from);
        // A version may be in the log in several forms.
        let mut versions: BTreeMap<_, bool> = BTreeMap::new();
        for file in read {
            *versions.entry(file.version).or_default() |= file.modified > self.ages.left;
        }
        for found in shared.log.bodies(versions.keys().copied()) {
            if !go_on() {
                return Err(WriteError::Interrupted.into());
            }
            let (version, Some(body)) = found? else {
                continue;
            };
            let is_young = versions.get(&version).is_some_and(|is_young| *is_young);
            for action in shared.log.parse(version, &body)? {
                match action {
                    Action::Remove(remove) => self.add_removed(&remove, is_young)?,
                    Action::Cdc(cdc) => {
                        let names = self.names_of(&cdc.path, None)?;
                        self.add_left(names, is_young);
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// The other files that are old enough.
    fn others(&self, stored: &StoredFiles, partition_columns: &[String]) -> Vacuum {
        let partitions = partitions_of(partition_columns);
        let within = format!("/{FOLDER}/");
        let tables = stored
            .files
            .iter()
            .filter_map(|file| file.name.split_once(&within));
        let tables: HashSet<&str> = tables.map(|(table, _)| table).collect();
        let mut vacuum = Vacuum::default();
        for file in &stored.files {
            let name = file.name.as_str();
            let cut_off = if self.left.contains(name) {
                self.ages.left
            } else {
                self.ages.unnamed
            };
            if file.modified <= cut_off
                && !self.names.contains(name)
                && !is_hidden(name, &partitions)
                && !is_within(name, &tables)
            {
                vacuum.files.push(name.to_owned());
                vacuum.bytes += file.bytes;
            }
        }
        vacuum.files.sort_unstable();
        vacuum
    }
}

/// The beginnings of the names of partitions' folders.
fn partitions_of(columns: &[String]) -> Vec<String> {
    columns.iter().map(|column| folder_of(column)).collect()
}

/// The beginning of the names of a partition column's folders.
fn folder_of(column: &str) -> String {
    let folder = path::partition_directory([(column, Some("v"))]);
    folder.strip_suffix("v/").unwrap_or(&folder).to_owned()
}

/// Returns true if a name is none of data: a part of it begins with an underscore or a dot, and is no partition's
/// folder.
fn is_hidden(name: &str, partitions: &[String]) -> bool {
    let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
    file.starts_with(HIDING) || is_hidden_folder(folder, partitions)
}

/// The first characters of names that are none of data.
const HIDING: [char; 2] = ['_', '.'];

fn is_hidden_folder(folder: &str, partitions: &[String]) -> bool {
    let is_partition = |part: &str| partitions.iter().any(|begin| part.starts_with(begin.as_str()));
    let mut parts = folder.split('/').peekable();
    parts.next_if_eq(&change_feed::FOLDER);
    parts.any(|part| part.starts_with(HIDING) && !is_partition(part))
}

/// Returns true if files of a folder may be data, or show that its parent is another table's.
fn enters(folder: &str, partitions: &[String]) -> bool {
    match folder.rsplit_once('/') {
        Some((table, FOLDER)) => !is_hidden_folder(table, partitions),
        _ => !is_hidden_folder(folder, partitions),
    }
}

/// Returns true if a file lies in one of these folders: that of another table.
fn is_within(name: &str, tables: &HashSet<&str>) -> bool {
    name.match_indices('/')
        .any(|(at, _)| tables.contains(&name[..at]))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::storage::{LocalStorage, TableStorage};

    fn stored(names: &[&str]) -> StoredFiles {
        let file = |name: &&str| StoredFile {
            name: (*name).to_owned(),
            modified: 50,
            bytes: 3,
        };
        StoredFiles {
            now: 100,
            files: names.iter().map(file).collect(),
        }
    }

    fn needed(names: &[&str], cut_off: i64) -> RetainedFiles<'static> {
        RetainedFiles {
            root: Path::new("/table"),
            ages: CutOffs {
                left: cut_off,
                unnamed: cut_off,
            },
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            left: HashSet::new(),
        }
    }

    #[test]
    fn only_data_that_is_not_needed_is_chosen() {
        let all = stored(&[
            "part-1.parquet",
            "part-2.parquet",
            "_delta_log/00000000000000000000.json",
            "_spillway/intents/x.json",
            "_change_data/cdc.parquet",
            "_change_data/day=1/cdc.parquet",
            "_change_data/.cdc.parquet.crc",
            "day=1/_change_data/cdc.parquet",
            ".part-2.parquet.crc",
            "_secret=1/part-3.parquet",
            "_secret=1/_part-3.parquet",
            "_other=1/part-3.parquet",
            "day=1/part-4.parquet",
            "deletion_vector_1.bin",
            "notes/readme.md",
            "inner/_delta_log/00000000000000000000.json",
            "inner/part-5.parquet",
            "inner/deep/part-5.parquet",
            "innermost/part-6.parquet",
        ]);
        let columns = ["day".to_owned(), "_secret".to_owned()];
        let vacuum = needed(&["part-1.parquet"], 50).others(&all, &columns);
        assert_eq!(
            vacuum.files,
            [
                "_change_data/cdc.parquet",
                "_change_data/day=1/cdc.parquet",
                "_secret=1/part-3.parquet",
                "day=1/part-4.parquet",
                "deletion_vector_1.bin",
                "innermost/part-6.parquet",
                "notes/readme.md",
                "part-2.parquet",
            ]
        );
        assert_eq!((vacuum.bytes, vacuum.removed), (24, 0));
        assert_eq!(needed(&[], 49).others(&all, &columns), Vacuum::default());
    }

    #[test]
    fn files_that_left_may_be_younger_than_those_that_no_version_has_named() {
        let all = stored(&["left.parquet", "back.parquet", "unnamed.parquet"]);
        let mut needed = needed(&["back.parquet"], 50);
        needed.ages.unnamed = 49;
        needed.left = ["left.parquet", "back.parquet"].map(str::to_owned).into();
        assert_eq!(needed.others(&all, &[]).files, ["left.parquet"]);
        needed.ages.left = 49;
        assert_eq!(needed.others(&all, &[]), Vacuum::default());
    }

    #[test]
    fn hidden_folders_are_not_entered() {
        let folder = tempfile::tempdir().unwrap();
        let names = [
            "_delta_log/00000000000000000000.json",
            "_spillway/intents/x.json",
            "_checkpoints/deep/part-1.parquet",
            "_change_data/day=1/cdc.parquet",
            "day=1/.cache/part-2.parquet",
            "_secret=1/part-3.parquet",
            "_secret=1/_other=1/part-4.parquet",
            "day=1/part-5.parquet",
            "inner/_delta_log/00000000000000000000.json",
            "inner/part-6.parquet",
        ];
        for name in names {
            let file = folder.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "").unwrap();
        }
        let partitions = partitions_of(&["day".to_owned(), "_secret".to_owned()]);
        let storage = LocalStorage::new(folder.path()).unwrap();
        let walked = storage
            .walk(&|folder| enters(folder, &partitions))
            .unwrap()
            .unwrap();
        let walked: BTreeSet<&str> = walked.files.iter().map(|file| file.name.as_str()).collect();
        let expected = [
            "_change_data/day=1/cdc.parquet",
            "_secret=1/part-3.parquet",
            "day=1/part-5.parquet",
            "inner/_delta_log/00000000000000000000.json",
            "inner/part-6.parquet",
        ];
        assert_eq!(walked, expected.into());
    }

    #[test]
    fn names_are_those_of_files_and_not_of_the_log() {
        let mut needed = needed(&[], 100);
        for path in ["c=a%253Ab/part%20one.parquet", "./day=1//part-2.parquet"] {
            let names = needed.names_of(path, None).unwrap();
            needed.add_left(names, true);
        }
        let announced = [
            "part-%25.parquet",
            "./day=1//part-3.parquet",
            "file:/table/day=1/part-4.parquet",
            "../outside",
        ];
        needed.announce(&announced.map(str::to_owned));
        let all = stored(&[
            "c=a%3Ab/part one.parquet",
            "day=1/part-2.parquet",
            "day=1/part-3.parquet",
            "day=1/part-4.parquet",
            "part-%.parquet",
        ]);
        assert_eq!(needed.others(&all, &[]), Vacuum::default());
    }
}
