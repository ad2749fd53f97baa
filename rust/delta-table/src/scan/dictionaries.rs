//! Conditions on columns of text with a dictionary: each value of the dictionary is asked for once.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, BooleanArray, DictionaryArray, RecordBatch, new_null_array};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{ArrowError, DataType, Field, Fields};
use arrow_select::concat::concat;
use parquet::basic::Encoding;
use parquet::file::metadata::ParquetMetaData;

/// The fields of a file, of which those that conditions name are read with their dictionaries. All pages must have one:
/// of others the reader would have to make one.
pub(super) fn kept(fields: &Fields, footer: &ParquetMetaData, is_named: impl Fn(&Field) -> bool) -> Fields {
    let fields = fields.iter().enumerate().map(|(place, field)| {
        if *field.data_type() == DataType::Utf8 && is_named(field) && is_all_dictionaries(footer, place) {
            let kept = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
            Arc::new(field.as_ref().clone().with_data_type(kept))
        } else {
            Arc::clone(field)
        }
    });
    fields.collect()
}

/// Returns true if all data pages of a top-level column name their values by a dictionary.
fn is_all_dictionaries(footer: &ParquetMetaData, place: usize) -> bool {
    let schema = footer.file_metadata().schema_descr();
    let Some(leaf) = (0..schema.num_columns()).find(|leaf| schema.get_column_root_idx(*leaf) == place) else {
        return false;
    };
    // Older writers have the other one.
    let encodings = [Encoding::RLE_DICTIONARY, Encoding::PLAIN_DICTIONARY];
    footer.row_groups().iter().all(|group| {
        let mask = group.column(leaf).page_encoding_stats_mask();
        mask.is_some_and(|mask| encodings.iter().any(|encoding| mask.is_only(*encoding)))
    })
}

/// The answers to a condition by the values of the last dictionary.
#[derive(Default)]
pub(super) struct Answers {
    of: Option<(ArrayRef, BooleanBuffer)>,
}

impl Answers {
    /// The answers for the rows of a batch of one column with a dictionary; none for any other batch. `ask` gives those
    /// for a batch of that column's values.
    pub fn for_rows(
        &mut self,
        rows: &RecordBatch,
        ask: impl FnOnce(&RecordBatch) -> Result<BooleanArray, ArrowError>,
    ) -> Result<Option<BooleanArray>, ArrowError> {
        let [column] = rows.columns() else {
            return Ok(None);
        };
        let Some(column) = column.as_dictionary_opt::<Int32Type>() else {
            return Ok(None);
        };
        let answers = self.of_values(column, ask)?;
        // Behind the values is the answer for null.
        let null = answers.len() - 1;
        let keys = column.keys();
        let answer = |row| match usize::try_from(keys.value(row)) {
            Ok(value) if keys.is_valid(row) => answers.value(value),
            _ => answers.value(null),
        };
        let answers = BooleanBuffer::collect_bool(keys.len(), answer);
        Ok(Some(BooleanArray::new(answers, None)))
    }

    /// The answers for all values of a dictionary, and for null. Batches of a row group share a dictionary.
    fn of_values(
        &mut self,
        column: &DictionaryArray<Int32Type>,
        ask: impl FnOnce(&RecordBatch) -> Result<BooleanArray, ArrowError>,
    ) -> Result<BooleanBuffer, ArrowError> {
        let values = column.values();
        match &self.of {
            Some((known, answers)) if Arc::ptr_eq(known, values) => Ok(answers.clone()),
            _ => {
                let null = new_null_array(values.data_type(), 1);
                let asked = concat(&[values.as_ref(), null.as_ref()])?;
                let asked = RecordBatch::try_from_iter_with_nullable([("value", asked, true)])?;
                let answers = ask(&asked)?.values().clone();
                self.of = Some((Arc::clone(values), answers.clone()));
                Ok(answers)
            }
        }
    }
}
