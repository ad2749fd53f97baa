//! The numbers of rows in a file, as a column behind those of the file.

use std::sync::Arc;

use arrow_schema::{DataType, Field};
use parquet::arrow::RowNumber;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;

/// Options of a reader that has the column, too. A file has no column with a space in its name.
pub(super) fn with_numbers(options: ArrowReaderOptions) -> Result<ArrowReaderOptions, ParquetError> {
    let field = Field::new("row number", DataType::Int64, false).with_extension_type(RowNumber);
    options.with_virtual_columns(vec![Arc::new(field)])
}

/// The footer with row groups that are numbered by their places, as the numbers of rows follow from them. Some writers
/// leave out the numbers of row groups, or write others.
pub(super) fn in_order(footer: &Arc<ParquetMetaData>) -> Result<Arc<ParquetMetaData>, ParquetError> {
    let numbered = || footer.row_groups().iter().zip(0..);
    if numbered().all(|(group, place)| group.ordinal() == Some(place)) {
        return Ok(Arc::clone(footer));
    }
    let groups = numbered().map(|(group, place)| group.clone().into_builder().set_ordinal(place).build());
    let groups = groups.collect::<Result<_, _>>()?;
    let footer = footer.as_ref().clone().into_builder().set_row_groups(groups);
    Ok(Arc::new(footer.build()))
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{ArrayRef, Int64Array, RecordBatch};
    use bytes::Bytes;
    use parquet::arrow::ArrowWriter;
    use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};
    use parquet::file::properties::WriterProperties;

    use super::*;

    fn file(groups: i64, rows: i64) -> Bytes {
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..groups * rows));
        let batch = RecordBatch::try_from_iter([("id", values)]).unwrap();
        let mut bytes = Vec::new();
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(usize::try_from(rows).ok())
            .build();
        let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        bytes.into()
    }

    /// A footer whose row groups have this number.
    fn misnumbered(footer: &ParquetMetaData, ordinal: i32) -> Arc<ParquetMetaData> {
        let groups = footer.row_groups().iter();
        let groups = groups.map(|group| group.clone().into_builder().set_ordinal(ordinal).build());
        let groups = groups.collect::<Result<_, _>>().unwrap();
        Arc::new(footer.clone().into_builder().set_row_groups(groups).build())
    }

    #[test]
    fn rows_have_their_numbers_whatever_row_groups_are_numbered() {
        let bytes = file(3, 5);
        let options = with_numbers(ArrowReaderOptions::new()).unwrap();
        let sound = ArrowReaderMetadata::load(&bytes, ArrowReaderOptions::new()).unwrap();
        for footer in [Arc::clone(sound.metadata()), misnumbered(sound.metadata(), 1)] {
            let metadata = ArrowReaderMetadata::try_new(in_order(&footer).unwrap(), options.clone()).unwrap();
            for group in 0..3 {
                let builder =
                    ParquetRecordBatchReaderBuilder::new_with_metadata(bytes.clone(), metadata.clone());
                for batch in builder.with_row_groups(vec![group]).build().unwrap() {
                    let batch = batch.unwrap();
                    let column = |place: usize| batch.column(place).as_primitive::<Int64Type>().clone();
                    assert_eq!(column(0).values(), column(1).values());
                }
            }
        }
    }
}
