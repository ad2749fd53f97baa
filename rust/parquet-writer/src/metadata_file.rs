//! The file `_metadata`, which has the row groups of all files of a folder and no pages.

use parquet::file::metadata::{ParquetMetaDataBuilder, ParquetMetaDataWriter, RowGroupMetaData};

use crate::error::Result;
use crate::footer;
use crate::result::WriteResult;

/// The name of the file in the folder of the dataset, by which readers know it.
pub const METADATA_FILE: &str = "_metadata";

const MAGIC: &[u8] = b"PAR1";

/// The bytes of `_metadata` for `files`, each with its path from the folder; none where there are no files.
///
/// Each column chunk says which file it is in: `ColumnChunk.file_path` of the format's `parquet.thrift`. All places are
/// those in that file. The files have one schema. Schema and key-value metadata are the first one's.
///
/// # Errors
/// [`WriteError::Encode`](crate::WriteError::Encode) when the `parquet` crate cannot write it.
pub fn metadata_file<'a>(
    files: impl IntoIterator<Item = (&'a str, &'a WriteResult)>,
) -> Result<Option<Vec<u8>>> {
    let mut files = files.into_iter().peekable();
    let Some((_, first)) = files.peek() else {
        return Ok(None);
    };
    let file_metadata = first.metadata.file_metadata();
    let columns = file_metadata.schema_descr().num_columns();
    let mut builder = ParquetMetaDataBuilder::new(file_metadata.clone());
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
