//! The options of a dataset, validated in this one place.

use parquet_writer::{OptionFault, WriteError};

use crate::template::Template;

/// The number of files that may be open at once. Each holds a row group in memory.
pub const DEFAULT_MAX_OPEN_FILES: i64 = 64;
/// The template for names of files. Numbers are zero-padded, so that the order of names is that of rows.
pub const DEFAULT_TEMPLATE: &str = "part-{i:05d}.parquet";

/// The treatment of files that are in the folder already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatasetMode {
    /// There must be none.
    Error,
    /// They stay; new files get the next free numbers.
    Append,
    /// Every Parquet file in the folder is removed.
    Overwrite,
}

impl DatasetMode {
    /// The accepted names.
    pub const NAMES: [&'static str; 3] = ["error", "append", "overwrite"];
    const ALL: [Self; 3] = [Self::Error, Self::Append, Self::Overwrite];
}

/// What a writer does when the schema of later rows needs more than the present one: a column, or a wider type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnSchemaChange {
    /// Refuses the batch.
    Raise,
    /// Changes the schema of a file none of whose rows are encoded; any other file is closed, and the next one has the
    /// new schema.
    Widen,
    /// Closes the files, and begins the next ones with the new schema.
    Rotate,
}

impl OnSchemaChange {
    /// The accepted names.
    pub const NAMES: [&'static str; 3] = ["raise", "widen", "rotate"];
    const ALL: [Self; 3] = [Self::Raise, Self::Widen, Self::Rotate];
}

/// Options as a caller gives them: names and plain integers.
#[derive(Debug, Clone)]
pub struct DatasetInput {
    /// Columns whose values name folders, outermost first.
    pub partition_by: Vec<String>,
    /// Bytes of a file.
    pub max_file_bytes: Option<i64>,
    /// Rows of a file.
    pub max_file_rows: Option<i64>,
    /// Files open at once.
    pub max_open_files: i64,
    /// A name with `{i}` or `{i:05d}` for the file's number.
    pub basename_template: String,
    /// `error`, `append` or `overwrite`.
    pub mode: String,
    /// Write the file `_metadata` beside the files.
    pub metadata_file: bool,
    /// `raise`, `widen` or `rotate`.
    pub on_schema_change: String,
}

impl Default for DatasetInput {
    fn default() -> Self {
        Self {
            partition_by: Vec::new(),
            max_file_bytes: None,
            max_file_rows: None,
            max_open_files: DEFAULT_MAX_OPEN_FILES,
            basename_template: DEFAULT_TEMPLATE.into(),
            mode: "error".into(),
            metadata_file: false,
            on_schema_change: "raise".into(),
        }
    }
}

/// Options that were found valid.
#[derive(Debug, Clone)]
pub struct DatasetOptions {
    pub(crate) partition_by: Vec<String>,
    pub(crate) max_file_bytes: Option<u64>,
    pub(crate) max_file_rows: Option<u64>,
    pub(crate) max_open_files: usize,
    pub(crate) template: Template,
    pub(crate) mode: DatasetMode,
    pub(crate) metadata_file: bool,
    pub(crate) on_schema_change: OnSchemaChange,
}

impl DatasetOptions {
    /// Validates what a caller gave.
    ///
    /// # Errors
    /// [`WriteError::Option`] names the option, the value and what is accepted.
    pub fn new(input: DatasetInput) -> Result<Self, WriteError> {
        let limit = |option, value: Option<i64>| value.map(|value| at_least_one(option, value)).transpose();
        let open = at_least_one("max_open_files", input.max_open_files)?;
        let mode = named("mode", &input.mode, DatasetMode::NAMES, DatasetMode::ALL)?;
        let on_schema_change = named(
            "on_schema_change",
            &input.on_schema_change,
            OnSchemaChange::NAMES,
            OnSchemaChange::ALL,
        )?;
        if input.metadata_file && on_schema_change != OnSchemaChange::Raise {
            return Err(WriteError::option(
                "metadata_file",
                "metadata_file=True with on_schema_change is not accepted: _metadata has one schema for all files. \
                 Leave one of the two out",
            ));
        }
        if input.metadata_file && mode == DatasetMode::Append {
            return Err(WriteError::option(
                "metadata_file",
                "metadata_file=True with mode=\"append\" is not accepted: _metadata has to list the files that are \
                 there, too. Choose mode=\"error\" or \"overwrite\"",
            ));
        }
        Ok(Self {
            partition_by: distinct(input.partition_by)?,
            max_file_bytes: limit("max_file_bytes", input.max_file_bytes)?,
            max_file_rows: limit("max_file_rows", input.max_file_rows)?,
            max_open_files: usize::try_from(open).unwrap_or(usize::MAX),
            template: Template::parse(&input.basename_template)
                .map_err(|message| WriteError::option("basename_template", message))?,
            mode,
            metadata_file: input.metadata_file,
            on_schema_change,
        })
    }

    /// The treatment of files that are there already.
    #[must_use]
    pub fn mode(&self) -> DatasetMode {
        self.mode
    }

    /// The partition columns, outermost first.
    #[must_use]
    pub fn partition_by(&self) -> &[String] {
        &self.partition_by
    }

    /// What the writer does when the schema changes.
    #[must_use]
    pub fn on_schema_change(&self) -> OnSchemaChange {
        self.on_schema_change
    }

    /// The most bytes of a file, if they are limited.
    #[must_use]
    pub fn max_file_bytes(&self) -> Option<u64> {
        self.max_file_bytes
    }

    /// Returns true if the file `_metadata` is written beside the files.
    #[must_use]
    pub fn has_metadata_file(&self) -> bool {
        self.metadata_file
    }

    /// The name of a file, with a mark behind its number that tells files of different writers apart.
    #[must_use]
    pub fn marked_name(&self, number: u64, mark: &str) -> String {
        self.template.marked(number, mark)
    }
}

fn at_least_one(option: &str, value: i64) -> Result<u64, WriteError> {
    match u64::try_from(value) {
        Ok(value) if value > 0 => Ok(value),
        _ => Err(WriteError::option(
            option,
            format!("{option}={value} is not accepted: give an integer from 1 up"),
        )),
    }
}

fn distinct(columns: Vec<String>) -> Result<Vec<String>, WriteError> {
    for (index, name) in columns.iter().enumerate() {
        if columns[..index].contains(name) {
            return Err(WriteError::option(
                "partition_by",
                format!("partition_by names {name:?} twice: name each column once"),
            ));
        }
    }
    Ok(columns)
}

fn named<T: Copy>(option: &str, value: &str, accepted: [&str; 3], all: [T; 3]) -> Result<T, WriteError> {
    let mut pairs = accepted.iter().zip(all);
    pairs
        .find_map(|(name, meant)| (*name == value).then_some(meant))
        .ok_or_else(|| WriteError::Option(OptionFault::choose(option, value, "", &accepted)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(input: DatasetInput) -> String {
        DatasetOptions::new(input).unwrap_err().to_string()
    }

    #[test]
    fn what_is_accepted_is_named() {
        let message = refused(DatasetInput {
            max_file_bytes: Some(0),
            ..DatasetInput::default()
        });
        assert_eq!(
            message,
            "max_file_bytes=0 is not accepted: give an integer from 1 up"
        );
        let message = refused(DatasetInput {
            mode: "ignore".into(),
            ..DatasetInput::default()
        });
        assert!(message.contains("\"append\""));
        let message = refused(DatasetInput {
            mode: "append".into(),
            metadata_file: true,
            ..DatasetInput::default()
        });
        assert!(message.contains("metadata_file=True with mode=\"append\""));
        let message = refused(DatasetInput {
            partition_by: vec!["a".into(), "b".into(), "a".into()],
            ..DatasetInput::default()
        });
        assert!(message.contains("\"a\" twice"));
    }
}
