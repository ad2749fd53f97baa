//! Conditions on columns of text with a dictionary: each value of the dictionary is asked for once.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, new_null_array};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{ArrowError, DataType, Field, Fields};
use parquet::basic::Encoding;
use parquet::file::metadata::ParquetMetaData;

use super::reader::BATCH_ROWS;

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
    for_null: Option<bool>,
}

impl Answers {
    /// The answers for the rows of a batch of one column with a dictionary; none for any other batch, or where the
    /// dictionary has more values than a batch has rows. `ask` gives those for a batch of that column's values.
    pub fn for_rows(
        &mut self,
        rows: &RecordBatch,
        ask: impl Fn(&RecordBatch) -> Result<BooleanArray, ArrowError>,
    ) -> Result<Option<BooleanArray>, ArrowError> {
        let [column] = rows.columns() else {
            return Ok(None);
        };
        let Some(column) = column.as_dictionary_opt::<Int32Type>() else {
            return Ok(None);
        };
        let (keys, values) = (column.keys(), column.values());
        let is_value = |key: i32| usize::try_from(key).is_ok_and(|key| key < values.len());
        if let Some(key) = keys.iter().flatten().find(|key| !is_value(*key)) {
            return Err(ArrowError::ComputeError(format!(
                "a row has the value {key} of a dictionary of {}: the file is damaged, write it again",
                values.len()
            )));
        }
        if values.len() > BATCH_ROWS {
            return Ok(None);
        }
        let ask_for = |values: ArrayRef| {
            let asked = RecordBatch::try_from_iter_with_nullable([("value", values, true)])?;
            ask(&asked)
        };
        let for_null = match self.for_null {
            Some(answer) => answer,
            None => ask_for(new_null_array(values.data_type(), 1))?.value(0),
        };
        self.for_null = Some(for_null);
        // Batches of a row group share a dictionary.
        let answers = match &self.of {
            Some((known, answers)) if Arc::ptr_eq(known, values) => answers.clone(),
            _ => ask_for(Arc::clone(values))?.values().clone(),
        };
        self.of = Some((Arc::clone(values), answers.clone()));
        let answer = |row| match usize::try_from(keys.value(row)) {
            Ok(value) if keys.is_valid(row) => answers.value(value),
            _ => for_null,
        };
        let answers = BooleanBuffer::collect_bool(keys.len(), answer);
        Ok(Some(BooleanArray::new(answers, None)))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use arrow_array::{DictionaryArray, Int32Array, StringArray};

    use super::*;

    fn batch(keys: &[Option<i32>], values: &ArrayRef) -> RecordBatch {
        let keys = Int32Array::from(keys.to_vec());
        // SAFETY: only the rows' keys are looked at, as those of a damaged file.
        #[expect(unsafe_code, reason = "a key without a value, as a damaged file has it")]
        let column = unsafe { DictionaryArray::new_unchecked(keys, Arc::clone(values)) };
        RecordBatch::try_from_iter_with_nullable([("text", Arc::new(column) as ArrayRef, true)]).unwrap()
    }

    fn values(of: &[&str]) -> ArrayRef {
        Arc::new(StringArray::from(of.to_vec()))
    }

    /// The answers for null and texts but "a", with a count of the questions.
    fn ask(asked: &Cell<usize>) -> impl Fn(&RecordBatch) -> Result<BooleanArray, ArrowError> {
        |rows| {
            asked.set(asked.get() + 1);
            let texts = rows.column(0).as_string::<i32>().iter();
            Ok(texts.map(|text| Some(text != Some("a"))).collect())
        }
    }

    #[test]
    fn a_dictionary_is_asked_for_once_in_all_of_its_batches() {
        let (asked, mut answers) = (Cell::new(0), Answers::default());
        let (one, other) = (values(&["a", "b"]), values(&["b", "a"]));
        let mut of = |keys: &[Option<i32>], values| {
            let answers = answers.for_rows(&batch(keys, values), ask(&asked)).unwrap();
            answers.unwrap().iter().flatten().collect::<Vec<bool>>()
        };
        assert_eq!(of(&[Some(0), Some(1), None], &one), [false, true, true]);
        assert_eq!(asked.get(), 2, "the values, and null");
        assert_eq!(of(&[Some(1), None, Some(0)], &one), [true, true, false]);
        assert_eq!(asked.get(), 2);
        assert_eq!(of(&[Some(0), Some(1)], &other), [true, false]);
        assert_eq!(asked.get(), 3);
    }

    #[test]
    fn a_key_without_a_value_is_an_error() {
        let values = values(&["a", "b"]);
        for key in [2, -1] {
            let asked = Cell::new(0);
            let answers = Answers::default().for_rows(&batch(&[Some(0), Some(key)], &values), ask(&asked));
            assert!(answers.unwrap_err().to_string().contains("damaged"));
        }
    }

    #[test]
    fn a_dictionary_with_more_values_than_rows_is_not_asked_for() {
        let texts: Vec<String> = (0..=BATCH_ROWS).map(|number| number.to_string()).collect();
        let values: ArrayRef = Arc::new(StringArray::from(texts));
        let asked = Cell::new(0);
        let answers = Answers::default().for_rows(&batch(&[Some(0)], &values), ask(&asked));
        assert_eq!((answers.unwrap(), asked.get()), (None, 0));
    }
}
