//! Tables of formats whose readers see only the files that a log lists: files beside it are no part of the table, and
//! none of its own may be removed.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use parquet_writer::WriteError;

/// The folder of the log of a Delta table.
pub const DELTA_LOG: &str = "_delta_log";

/// The folders that such a log is in, and what their parent is then.
const LOGS: [(&str, &str); 3] = [
    (DELTA_LOG, "a Delta table"),
    (
        "_spark_metadata",
        "the output of a stream of Spark's own file sink",
    ),
    (".hoodie", "a Hudi table"),
];

/// The folder of an Iceberg table's metadata, which others may have for other things, and the end of the names of
/// metadata files ("Table Metadata" in Iceberg's specification).
const ICEBERG: (&str, &str, &str) = ("metadata", ".metadata.json", "an Iceberg table");

/// A table of such a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundTable<'a> {
    /// Its path below the folder that was looked at.
    pub path: &'a str,
    /// What it is, with an article.
    pub format: &'static str,
}

/// A folder that tells a table, a test of the names of the files in it, and what the table is.
pub type TableLog = (&'static str, fn(&str) -> bool, &'static str);

/// The folders that tell tables.
pub fn logs() -> impl Iterator<Item = TableLog> {
    let any: fn(&str) -> bool = |_| true;
    let logs = LOGS.into_iter().map(move |(log, format)| (log, any, format));
    let is_metadata: fn(&str) -> bool = |name| name.ends_with(ICEBERG.1);
    logs.chain([(ICEBERG.0, is_metadata, ICEBERG.2)])
}

/// The table to whose log a path belongs.
#[must_use]
pub fn table_of(path: &str) -> Option<FoundTable<'_>> {
    let file = path.rsplit('/').next().unwrap_or_default();
    let folders = path.match_indices('/').map(|(end, _)| &path[..end]);
    folders.into_iter().find_map(|folder| {
        let (table, name) = folder.rsplit_once('/').unwrap_or(("", folder));
        let format = logs().find(|(log, is_of_it, _)| *log == name && is_of_it(file));
        format.map(|(.., format)| FoundTable { path: table, format })
    })
}

/// What a folder is in which there is an entry of this name; none if it is no table of such a format.
///
/// # Errors
/// An error if the entry is a folder that cannot be read.
pub(crate) fn format_by(folder: &Path, name: &str) -> io::Result<Option<&'static str>> {
    let Some((log, is_of_it, format)) = logs().find(|(log, ..)| *log == name) else {
        return Ok(None);
    };
    if log != ICEBERG.0 {
        return Ok(Some(format));
    }
    let entries = match fs::read_dir(folder.join(name)) {
        Err(error) if [io::ErrorKind::NotADirectory, io::ErrorKind::NotFound].contains(&error.kind()) => {
            return Ok(None);
        }
        entries => entries?,
    };
    for entry in entries {
        if entry?.file_name().to_str().is_some_and(is_of_it) {
            return Ok(Some(format));
        }
    }
    Ok(None)
}

/// Refuses a table of such a format, and the folder of a partition in one, such as `day=1`: readers go by the log
/// above it.
///
/// # Errors
/// [`WriteError::Option`] with the table; [`WriteError::Io`] if a folder cannot be read.
pub(crate) fn check_no_table(root: &Path) -> Result<(), WriteError> {
    let mut folder = root;
    loop {
        // A relative path may begin with the name of the partition.
        let place = if folder.as_os_str().is_empty() {
            Path::new(".")
        } else {
            folder
        };
        for (log, ..) in logs().filter(|(log, ..)| place.join(log).is_dir()) {
            if let Some(format) = format_by(place, log).map_err(|error| WriteError::io(place, error))? {
                return Err(table_here(&place.display(), format));
            }
        }
        let name = folder.file_name().unwrap_or_default();
        match folder.parent() {
            Some(parent) if name.as_encoded_bytes().contains(&b'=') => folder = parent,
            _ => return Ok(()),
        }
    }
}

/// The refusal to write beside the log of a table.
pub fn table_here(place: &dyn fmt::Display, format: &str) -> WriteError {
    WriteError::option(
        "directory",
        format!("{place} is {format}: files beside its log are not part of it. Choose another place"),
    )
}

/// The refusal to overwrite a folder or prefix that holds a table, whose files would be removed.
pub fn table_below(table: &dyn fmt::Display, format: &str, root: &dyn fmt::Display) -> WriteError {
    WriteError::option(
        "directory",
        format!(
            "{table} is {format}, and an overwrite of {root} would remove its files. Choose another place, or \
             mode=\"append\""
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_told_by_its_log() {
        for (path, table) in [
            (
                "_delta_log/00000000000000000000.json",
                Some(("", "a Delta table")),
            ),
            ("a/b/_delta_log/0.json", Some(("a/b", "a Delta table"))),
            ("a/.hoodie/hoodie.properties", Some(("a", "a Hudi table"))),
            (
                "a/metadata/00000-x.metadata.json",
                Some(("a", "an Iceberg table")),
            ),
            ("a/metadata/notes.json", None),
            ("a/old_delta_log/0.json", None),
            ("a/_delta_log", None),
            ("a/part-0.parquet", None),
        ] {
            let found = table_of(path).map(|table| (table.path, table.format));
            assert_eq!(found, table, "{path}");
        }
    }
}
