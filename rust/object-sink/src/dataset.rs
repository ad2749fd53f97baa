//! A dataset under a prefix of an object store.
//!
//! Every file is an upload whose completion waits until the dataset is closed. Names are unique to their writer, so
//! that writers never replace each other's files. A store has no request that makes several objects appear at once. The
//! completions are sent together, and what appeared is removed again when one of them fails.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use parquet_dataset::{
    COMMON_METADATA_FILE, DELTA_LOG, DatasetMode, DatasetOptions, Places, Published, SpreadFile, Storage,
    TableLog, Unpublished, is_hidden, logs, table_below, table_here, table_of, unlisted,
};
use parquet_writer::sink::Sink;
use parquet_writer::{METADATA_FILE, OptionFault, WriteError, metadata_file};
use uuid::Uuid;

use crate::folder::{FailureKind, Location, RequestFailure, StoreFolder};
use crate::held::{HeldUploads, Incomplete};
use crate::sink::Attend;
use crate::target::Target;

const SUFFIX: &str = ".parquet";

/// The files of one dataset, as objects under a prefix.
pub struct DatasetObjects {
    folder: StoreFolder,
    uploads: HeldUploads,
    options: DatasetOptions,
    naming: Naming,
    /// The paths of files below the prefix by their URLs, where `_metadata` lists them.
    names: HashMap<PathBuf, String>,
    url: String,
}

impl DatasetObjects {
    /// The dataset that `url` names. Settings are those of [`Target::new`]. The function that `attend` returns is
    /// called during every wait, and its error ends the wait.
    ///
    /// # Errors
    /// [`WriteError::Option`] when the URL does not belong to an object store, when it is a Delta table or a partition
    /// of a table, when an overwrite would remove the files of a table, or when a setting is not known;
    /// [`WriteError::Io`] when there are objects that the options do not allow, or the store refuses to say so.
    pub fn new(
        url: &str,
        settings: &[(String, String)],
        options: DatasetOptions,
        attend: fn() -> Attend,
    ) -> Result<Self, WriteError> {
        let location = Location::new(url, settings).map_err(of_directory)?;
        let with_url = |error| WriteError::io(location.url(), error);
        let dataset = Self {
            folder: StoreFolder::open(&location, attend)?,
            uploads: HeldUploads::new(attend).map_err(with_url)?,
            naming: Naming::new(options.clone()),
            options,
            names: HashMap::new(),
            url: location.url().to_owned(),
        };
        // An overwrite lists all objects, and finds the logs of other tables among them.
        let delta = logs().filter(|(log, ..)| *log == DELTA_LOG);
        dataset.refuse_table_in(&dataset.folder, &dataset.url, delta)?;
        let mut above = dataset.url.trim_end_matches('/');
        while let Some((parent, name)) = above.rsplit_once('/')
            && name.contains('=')
        {
            above = parent;
            let location = Location::new(above, settings).map_err(of_directory)?;
            dataset.refuse_table_in(&StoreFolder::open(&location, attend)?, above, logs())?;
        }
        dataset.replaced(true)?;
        Ok(dataset)
    }

    /// Refuses a table whose log knows its files by name.
    fn refuse_table_in(
        &self,
        folder: &StoreFolder,
        url: &str,
        logs: impl Iterator<Item = TableLog>,
    ) -> Result<(), WriteError> {
        for (log, is_of_it, format) in logs {
            match folder.find(log, is_of_it) {
                Ok(None) => {}
                // Credentials that may only write cannot check this; the write goes on.
                Err(failure) if failure.kind == FailureKind::Denied => return Ok(()),
                Ok(Some(_)) => return Err(table_here(&url, format)),
                Err(failure) => return Err(self.error(failure)),
            }
        }
        Ok(())
    }

    /// The files that are to give way to new ones: data files, and those that summarise them.
    ///
    /// # Errors
    /// An error if the prefix cannot be listed, or has objects in it that the options do not allow.
    fn replaced(&self, has_files: bool) -> Result<Vec<String>, WriteError> {
        match self.options.mode() {
            DatasetMode::Append => self.refuse_listed().map(|()| Vec::new()),
            DatasetMode::Error => self.refuse_taken().map(|()| Vec::new()),
            DatasetMode::Overwrite => self.old_files(has_files),
        }
    }

    /// Refuses a prefix that has objects in it.
    fn refuse_taken(&self) -> Result<(), WriteError> {
        match self.folder.find("", is_visible) {
            Ok(Some(_)) => Err(WriteError::io(
                &self.url,
                io::Error::from(io::ErrorKind::AlreadyExists),
            )),
            Ok(None) => Ok(()),
            Err(failure) => Err(self.error(failure)),
        }
    }

    /// Refuses to add files to those that `_metadata` lists.
    fn refuse_listed(&self) -> Result<(), WriteError> {
        match self.folder.size(METADATA_FILE) {
            Ok(None) => Ok(()),
            // Credentials that may only write cannot check this; the write goes on.
            Err(failure) if failure.kind == FailureKind::Denied => Ok(()),
            Ok(Some(_)) => {
                let place = self.folder.url_of(METADATA_FILE);
                Err(WriteError::option("mode", unlisted(Path::new(&place))))
            }
            Err(failure) => Err(self.error(failure)),
        }
    }

    /// Every data file below the prefix and their summaries, unless there is a table whose log knows its files by name.
    fn old_files(&self, has_files: bool) -> Result<Vec<String>, WriteError> {
        let listed = self
            .folder
            .list("", None)
            .map_err(|failure| self.error(failure))?;
        let names: Vec<_> = listed.found.into_iter().map(|found| found.name).collect();
        if let Some(table) = names.iter().find_map(|name| table_of(name)) {
            return Err(table_below(
                &self.folder.url_of(table.path),
                table.format,
                &self.url,
            ));
        }
        let replaces = |name: &String| is_data_file(name) || self.is_old_summary(name, has_files);
        Ok(names.into_iter().filter(replaces).collect())
    }

    /// Returns true for a summary of the old files that is not replaced by one of the new ones.
    fn is_old_summary(&self, name: &str, has_files: bool) -> bool {
        let is_replaced = has_files && self.options.has_metadata_file();
        name == COMMON_METADATA_FILE || (name == METADATA_FILE && !is_replaced)
    }

    /// Writes `_metadata` for files that have appeared.
    fn summarise(&self, files: &[SpreadFile]) -> Result<(), WriteError> {
        if !self.options.has_metadata_file() {
            return Ok(());
        }
        let listed = files.iter().map(|file| {
            let name = self.names.get(&file.path)?;
            Some((name.as_str(), &file.result))
        });
        let listed: Option<Vec<_>> = listed.collect();
        let listed = listed.ok_or_else(|| WriteError::schema("a file is not one of this dataset"))?;
        let Some(bytes) = metadata_file(listed)? else {
            return Ok(());
        };
        self.folder.write(METADATA_FILE, &bytes).map_err(|failure| {
            let message = format!(
                "all new files are there, and {METADATA_FILE} does not list them; old files are there, too, if there were \
                 any: write the dataset again with mode=\"overwrite\". The reason: {}",
                failure.message
            );
            self.refusal(failure.kind, message)
        })
    }

    /// Deletes files that gave way to new ones.
    fn remove(&self, old: &[String]) -> Option<WriteError> {
        let failed = self.folder.delete_each(old);
        let left = failed.len();
        let (_, failure) = failed.into_iter().next()?;
        let message = format!(
            "all new files are there, and {left} of {} old ones may be, too, so that readers see the rows of both: delete \
             those whose names lack {}, or write the dataset again with mode=\"overwrite\". The reason: {}",
            old.len(),
            self.naming.mark,
            failure.message
        );
        Some(self.refusal(failure.kind, message))
    }

    fn unpublished(&self, files: usize, incomplete: Incomplete) -> Unpublished {
        let Incomplete { error, left } = incomplete;
        if left.is_empty() {
            return error.into();
        }
        let message = format!(
            "{} of {files} files may be there, and could not be removed: delete those whose names hold {} before the rows \
             are written again. The reason: {error}",
            left.len(),
            self.naming.mark
        );
        Unpublished {
            error: self.refusal(FailureKind::Lost, message),
            left: left.into_iter().map(PathBuf::from).collect(),
        }
    }

    /// The error of a request about the prefix.
    fn error(&self, failure: RequestFailure) -> WriteError {
        self.refusal(failure.kind, failure.message)
    }

    fn refusal(&self, kind: FailureKind, message: String) -> WriteError {
        WriteError::io(&self.url, RequestFailure { message, kind }.into())
    }
}

/// The names of a writer's files.
pub(crate) struct Naming {
    options: DatasetOptions,
    /// A part of the names of all files of this writer, and of no others.
    mark: String,
    /// The next number of a file, by its partition's folder.
    numbers: HashMap<PathBuf, u64>,
}

impl Naming {
    pub fn new(options: DatasetOptions) -> Self {
        Self {
            options,
            mark: Uuid::new_v4().to_string(),
            numbers: HashMap::new(),
        }
    }

    /// The path of the next file in a folder, and the target by which it is uploaded.
    ///
    /// # Errors
    /// [`WriteError`] if no object can have the path.
    pub fn next(&mut self, folder: &StoreFolder, inside: &Path) -> Result<(String, Target), WriteError> {
        let number = self.numbers.entry(inside.to_path_buf()).or_default();
        let name = self.options.marked_name(*number, &self.mark);
        *number += 1;
        let relative = inside.join(name);
        let relative = relative
            .to_str()
            .ok_or_else(|| WriteError::schema("the name of a partition is not UTF-8"))?;
        let url = folder.url_of(relative);
        let target = folder
            .target(relative)
            .map_err(|error| WriteError::io(&url, error))?;
        Ok((relative.to_owned(), Target { url, ..target }))
    }
}

/// The error of a URL, which is an argument of another name for a dataset than for a file.
fn of_directory(error: WriteError) -> WriteError {
    match error {
        WriteError::Option(fault) if fault.option.as_deref() == Some("destination") => {
            WriteError::Option(OptionFault {
                option: Some("directory".into()),
                ..fault
            })
        }
        other => other,
    }
}

/// Returns true if an object is more than a mark of the prefix, and not hidden in it.
fn is_visible(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.')
}

/// Returns true if readers take an object for a data file.
fn is_data_file(name: &str) -> bool {
    let (folders, file) = name.rsplit_once('/').unwrap_or(("", name));
    let in_hidden = || {
        folders
            .split('/')
            .any(|folder| is_hidden(folder.as_bytes(), true))
    };
    file.ends_with(SUFFIX) && !is_hidden(file.as_bytes(), false) && !in_hidden()
}

impl Places for DatasetObjects {
    fn open(&mut self, folder: &Path) -> Result<(PathBuf, Box<dyn Sink>), WriteError> {
        let (relative, target) = self.naming.next(&self.folder, folder)?;
        let url = PathBuf::from(&target.url);
        if self.options.has_metadata_file() {
            self.names.insert(url.clone(), relative);
        }
        Ok((url, Box::new(self.uploads.sink(target))))
    }
}

impl Storage for DatasetObjects {
    fn publish(&mut self, files: &[SpreadFile]) -> Result<Published, Unpublished> {
        // Before the prefix is looked at, so that little time is between that and the completions.
        self.uploads.land()?;
        let old = self.replaced(!files.is_empty())?;
        self.uploads
            .complete()
            .map_err(|incomplete| self.unpublished(files.len(), incomplete))?;
        let unremoved = match self.summarise(files) {
            Ok(()) => self.remove(&old),
            // Readers that go by an old summary still need the files that it lists.
            Err(error) => Some(error),
        };
        Ok(Published {
            paths: files.iter().map(|file| file.path.clone()).collect(),
            unremoved,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_replaced_is_what_readers_take_for_data() {
        for (name, is_data) in [
            ("part-00000.parquet", true),
            ("day=1/part-00000-ab.parquet", true),
            ("day=1/note.txt", false),
            ("_delta_log/1.checkpoint.parquet", false),
            ("day=1/_hidden.parquet", false),
            (".tmp/a.parquet", false),
            ("_region=eu/part-00000.parquet", true),
            ("_spark_metadata/a.parquet", false),
            ("", false),
        ] {
            assert_eq!(is_data_file(name), is_data, "{name}");
        }
    }

    #[test]
    fn the_mark_of_a_folder_is_no_object_of_it() {
        assert!(!is_visible("") && !is_visible(".hidden/a"));
        assert!(is_visible("a") && is_visible("_x") && is_visible("day=1/.a"));
    }
}
