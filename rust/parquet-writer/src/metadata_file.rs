//! The file `_metadata`, which has the row groups of all files of a folder and no pages.

use parquet::file::metadata::{
    FileMetaData, ParquetMetaDataBuilder, ParquetMetaDataWriter, RowGroupMetaData,
};

use crate::error::Result;
use crate::footer;
use crate::result::WriteResult;
use crate::stored_schema::{self, StoredSchema};

/// The name of the file in the folder of the dataset, by which readers know it.
pub const METADATA_FILE: &str = "_metadata";

const MAGIC: &[u8] = b"PAR1";

/// The bytes of `_metadata` for `files`, each with its path from the folder; none where there are no files.
///
/// Each column chunk says which file it is in: `ColumnChunk.file_path` of the format's `parquet.thrift`. All places are
/// those in that file. The files have one schema and one set of key-value metadata, but for the stored Arrow schema,
/// which says what is so of all of them.
///
/// # Errors
/// [`WriteError::Encode`](crate::WriteError::Encode) when the `parquet` crate cannot write it.
pub fn metadata_file<'a>(
    files: impl IntoIterator<Item = (&'a str, &'a WriteResult)>,
) -> Result<Option<Vec<u8>>> {
    let files: Vec<_> = files.into_iter().collect();
    let Some((_, first)) = files.first() else {
        return Ok(None);
    };
    let file_metadata = of_all(first.metadata.file_metadata(), stored_by_all(&files).as_ref())?;
    let columns = file_metadata.schema_descr().num_columns();
    let mut builder = ParquetMetaDataBuilder::new(file_metadata);
    for (path, result) in files {
        for row_group in result.metadata.row_groups() {
            builder = builder.add_row_group(in_file(row_group, path)?);
        }
    }
    let mut bytes = MAGIC.to_vec();
    ParquetMetaDataWriter::new(&mut bytes, &builder.build()).finish()?;
    footer::set_type_order(&mut bytes, columns)?;
    Ok(Some(bytes))
}

/// The Arrow schema that is so of all files; none where they store none.
fn stored_by_all(files: &[(&str, &WriteResult)]) -> Option<StoredSchema> {
    let mut stored = files.iter().map(|(_, result)| result.stored.as_ref());
    let first = stored.next()??.clone();
    stored.try_fold(first, |all, file| Some(all.and(file?)))
}

/// The metadata of the first file, with an Arrow schema that all of them have.
fn of_all(first: &FileMetaData, stored: Option<&StoredSchema>) -> Result<FileMetaData> {
    let mut pairs = first.key_value_metadata().cloned().unwrap_or_default();
    if let Some(stored) = stored {
        let stored = stored_schema::encoded(&stored.to_arrow())?;
        pairs.retain(|pair| pair.key != stored.key);
        pairs.push(stored);
    }
    Ok(FileMetaData::new(
        first.version(),
        first.num_rows(),
        first.created_by().map(str::to_owned),
        (!pairs.is_empty()).then_some(pairs),
        first.schema_descr_ptr(),
        first.column_orders().cloned(),
    ))
}

/// A row group whose chunks are in another file.
fn in_file(row_group: &RowGroupMetaData, path: &str) -> Result<RowGroupMetaData> {
    let mut row_group = row_group.clone();
    for column in row_group.columns_mut() {
        *column = column
            .clone()
            .into_builder()
            .set_file_path(path.to_owned())
            .build()?;
    }
    Ok(row_group)
}
