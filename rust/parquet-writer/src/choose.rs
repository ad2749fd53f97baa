//! Which encoding each leaf column gets: by what a sample of it costs in each.

mod evidence;
mod sample;

use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{
    EnabledStatistics, WriterProperties, WriterPropertiesBuilder, WriterVersion,
};
use parquet::schema::types::{ColumnPath, SchemaDescriptor};

use crate::error::{Result, WriteError};
use crate::options::{DictionaryRule, WriterOptions};

pub(crate) use evidence::Chooser;

/// Bytes of a dictionary above which a column chunk goes on without it: twice what other writers allow, since a column
/// was chosen for it by what it saves.
pub(crate) const DICTIONARY_BYTES: usize = 2 << 20;
/// Rows of a page at most: what a reader that looks for one row has to decode.
pub(crate) const PAGE_ROWS: usize = 20_000;

/// The choice for one leaf column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Whether it starts with a dictionary.
    pub dictionary: bool,
    /// Its encoding without one, or after one that grew too large.
    pub encoding: Encoding,
}

/// Which leaf columns may have a dictionary.
pub(crate) fn dictionary_allowed(parquet: &SchemaDescriptor, rule: &DictionaryRule) -> Result<Vec<bool>> {
    let columns = match rule {
        DictionaryRule::All(allowed) => return Ok(vec![*allowed; parquet.num_columns()]),
        DictionaryRule::Columns(columns) => columns,
    };
    let mut allowed = vec![true; parquet.num_columns()];
    for (key, value) in columns {
        let matching: Vec<_> = (0..parquet.num_columns())
            .filter(|&leaf| is_named(parquet, leaf, key))
            .collect();
        if matching.is_empty() {
            let paths: Vec<_> = parquet
                .columns()
                .iter()
                .map(|column| format!("{:?}", column.path().string()))
                .collect();
            return Err(WriteError::Option(format!(
                "dictionary names the column {:?}, which the schema does not have: it has {}",
                key.join("."),
                paths.join(", ")
            )));
        }
        for leaf in matching {
            allowed[leaf] = *value;
        }
    }
    Ok(allowed)
}

/// A key of one part is a dotted path; one of several parts names each.
fn is_named(parquet: &SchemaDescriptor, leaf: usize, key: &[String]) -> bool {
    let column = parquet.column(leaf);
    let parts = column.path().parts();
    parts == key || (key.len() == 1 && parts.join(".") == key[0])
}

/// Properties of columns that the crate encodes, with the given choices. Pages come out as they are, uncompressed.
pub(crate) fn properties(options: &WriterOptions, columns: &[(ColumnPath, Choice)]) -> WriterProperties {
    let mut builder = base(options);
    for (path, choice) in columns {
        builder = builder
            .set_column_encoding(path.clone(), choice.encoding)
            .set_column_dictionary_enabled(path.clone(), choice.dictionary);
    }
    builder.build()
}

fn base(options: &WriterOptions) -> WriterPropertiesBuilder {
    // Pages of version 1 throughout: they compress levels too, and the flags of nullable columns shrink by half.
    WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::UNCOMPRESSED)
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_data_page_size_limit((options.page_bytes / 4 * 3).max(1))
        .set_dictionary_page_size_limit(DICTIONARY_BYTES)
        .set_data_page_row_count_limit(PAGE_ROWS.min(options.page_bytes).max(1))
        .set_coerce_types(true)
}
