//! Files that share rows share pages, where these end by their content.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::builder::{Int64Builder, ListBuilder};
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use bytes::Bytes;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaDataReader};
use parquet_writer::OptionInput;
use proptest::prelude::*;

use crate::common::written;

const ROWS: u64 = 40_000;

/// A number that looks like none of its neighbours.
fn mixed(row: u64) -> u64 {
    let mixed = (row + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

/// Rows of which each is what its number makes it: sorted and random numbers, floats, text, nulls and lists.
fn rows(numbers: &[u64]) -> RecordBatch {
    let mut lists = ListBuilder::new(Int64Builder::new());
    for row in numbers {
        let length = usize::try_from(mixed(*row) % 4).unwrap();
        let list = (0..length).map(|place| Some(mixed(row + place as u64).cast_signed()));
        lists.append_option((length > 0).then_some(list));
    }
    let numbers = || numbers.iter().copied();
    let text = |row: u64| format!("the text of row {:x}", mixed(row));
    let columns: [(&str, ArrayRef); 6] = [
        (
            "sorted",
            Arc::new(Int64Array::from_iter_values(
                numbers().map(|row| (row * 1_000 + mixed(row) % 999).cast_signed()),
            )),
        ),
        (
            "random",
            Arc::new(Int64Array::from_iter_values(
                numbers().map(|row| mixed(row).cast_signed()),
            )),
        ),
        (
            "float",
            Arc::new(Float64Array::from_iter_values(
                numbers().map(|row| f64::from_bits(mixed(row) >> 2)),
            )),
        ),
        (
            "text",
            Arc::new(StringArray::from_iter_values(numbers().map(text))),
        ),
        (
            "gaps",
            Arc::new(
                numbers()
                    .map(|row| (!mixed(row).is_multiple_of(3)).then(|| text(row)))
                    .collect::<StringArray>(),
            ),
        ),
        ("list", Arc::new(lists.finish())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}

fn options(row_group_rows: i64, chunks: Option<(i64, i64)>) -> OptionInput {
    OptionInput {
        row_group_rows,
        content_defined_chunking: chunks,
        ..OptionInput::default()
    }
}

/// The data pages of each leaf column, headers included.
fn pages(file: Vec<u8>) -> Vec<Vec<Bytes>> {
    let file = Bytes::from(file);
    let reader = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Required);
    let metadata = reader.parse_and_finish(&file).unwrap();
    let leaves = metadata.file_metadata().schema_descr().num_columns();
    let of_leaf = |leaf| {
        let groups = 0..metadata.num_row_groups();
        let pages = groups.flat_map(|group| {
            let index = metadata.page_index_for_row_group(group);
            index.page_locations(leaf).cloned().unwrap()
        });
        let bytes = pages.map(|page| {
            let start = usize::try_from(page.offset).unwrap();
            file.slice(start..start + usize::try_from(page.compressed_page_size).unwrap())
        });
        bytes.collect()
    };
    (0..leaves).map(of_leaf).collect()
}

/// The number of pages of the one that the other lacks.
fn lost(before: &[Bytes], after: &[Bytes]) -> usize {
    let after: HashSet<_> = after.iter().collect();
    before.iter().filter(|page| !after.contains(page)).count()
}

fn with_rows_between(at: u64, inserted: u64) -> Vec<u64> {
    (0..at)
        .chain(1 << 40..(1 << 40) + inserted)
        .chain(at..ROWS)
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.div_ceil(32), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rows_that_are_inserted_change_few_pages(at in 0..ROWS, inserted in 1..500_u64, groups in 1..3_i64) {
        let options = options((ROWS.cast_signed() + groups) / groups, Some((1_024, 4_096)));
        let before: Vec<_> = (0..ROWS).collect();
        let before = pages(written(&rows(&before), &[], &options));
        let after = pages(written(&rows(&with_rows_between(at, inserted)), &[], &options));
        for (leaf, (before, after)) in before.iter().zip(&after).enumerate() {
            prop_assert!(before.len() > 80, "leaf {leaf} has {} pages", before.len());
            let lost = lost(before, after);
            prop_assert!(lost * 2 <= before.len(), "leaf {leaf}: {lost} of {} pages are lost", before.len());
        }
    }
}

#[test]
fn pages_that_end_when_they_are_full_are_lost_behind_an_insertion() {
    let options = OptionInput {
        page_bytes: 4_096,
        ..options(ROWS.cast_signed() * 2, None)
    };
    let before: Vec<_> = (0..ROWS).collect();
    let before = pages(written(&rows(&before), &[], &options));
    let after = pages(written(&rows(&with_rows_between(ROWS / 4, 7)), &[], &options));
    for (before, after) in before.iter().zip(&after) {
        assert!(lost(before, after) * 2 > before.len());
    }
}

/// A column of few different words, which gets a dictionary.
fn words(numbers: &[u64]) -> RecordBatch {
    let word = |row: u64| format!("the word {}", if row < 1 << 40 { mixed(row) % 200 } else { row });
    let words: ArrayRef = Arc::new(StringArray::from_iter_values(
        numbers.iter().map(|row| word(*row)),
    ));
    RecordBatch::try_from_iter_with_nullable([("word", words, true)]).unwrap()
}

#[test]
fn pages_of_a_dictionary_are_shared_where_no_word_is_new_and_in_front_of_new_ones() {
    let options = options(ROWS.cast_signed() * 2, Some((1_024, 4_096)));
    let all: Vec<_> = (0..ROWS).collect();
    let [before] = &pages(written(&words(&all), &[], &options))[..] else {
        panic!("there is one leaf");
    };
    let at = usize::try_from(ROWS / 2).unwrap();
    let known = [&all[..at], &all[..9], &all[at..]].concat();
    let [after] = &pages(written(&words(&known), &[], &options))[..] else {
        panic!("there is one leaf");
    };
    assert!(before.len() > 80);
    assert!(lost(before, after) <= 16);
    let [after] = &pages(written(&words(&with_rows_between(ROWS / 2, 300)), &[], &options))[..] else {
        panic!("there is one leaf");
    };
    assert!(lost(&before[..before.len() / 2 - 16], after) <= 1);
}
