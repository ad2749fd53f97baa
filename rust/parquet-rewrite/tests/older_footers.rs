//! Files whose footers are as older or other writers write them, which no writer of the tests in Python does.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use parquet::arrow::arrow_reader::{
    ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection, RowSelector,
};
use parquet::bloom_filter::Sbbf;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, RowGroupMetaData};
use parquet::file::properties::ReaderProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::serialized_reader::ReadOptionsBuilder;
use parquet_rewrite::{Inputs, RewriteError};
use parquet_writer::thrift::{ThriftStruct, ThriftValue};
use parquet_writer::{Batch, BloomRule, FileWriter, OptionInput, WriteResult, WriterOptions, sink};

const ROWS: i64 = 3_000;

/// Writes ids from `first` on in three row groups, of several pages each.
fn write(path: &Path, first: i64) {
    let options = OptionInput {
        row_group_rows: 1_000,
        page_rows: 100,
        bloom_filter: BloomRule::All(Some(0.01)),
        ..OptionInput::default()
    };
    let ids: Vec<_> = (first..first + ROWS).collect();
    let words: Vec<_> = ids.iter().map(|id| format!("word {id}")).collect();
    let columns: [(&str, ArrayRef); 2] = [
        ("id", Arc::new(Int64Array::from(ids))),
        ("word", Arc::new(StringArray::from(words))),
    ];
    let batch = Batch::from(RecordBatch::try_from_iter(columns).unwrap());
    let options = WriterOptions::new(options).unwrap();
    let mut writer = FileWriter::new(sink::create(path, false).unwrap(), None, options).unwrap();
    writer.write(&batch, &mut || true).unwrap();
    writer.close(&mut || true).unwrap();
}

/// Changes the footer of a file.
fn change(path: &Path, change: impl Fn(&mut ThriftStruct)) {
    let mut content = fs::read(path).unwrap();
    let end = content.len() - 8;
    let length = u32::from_le_bytes(content[end..end + 4].try_into().unwrap()) as usize;
    let mut footer = ThriftStruct::parse(&content[end - length..end]).unwrap();
    change(&mut footer);
    content.truncate(end - length);
    let footer = footer.bytes();
    content.extend_from_slice(&footer);
    content.extend_from_slice(&u32::try_from(footer.len()).unwrap().to_le_bytes());
    content.extend_from_slice(b"PAR1");
    fs::write(path, content).unwrap();
}

/// Changes each `ColumnChunk`.
fn change_chunks(path: &Path, each: impl Fn(&mut ThriftStruct)) {
    change(path, |footer| {
        for group in footer.list(4).unwrap() {
            for chunk in group.as_struct().unwrap().list(1).unwrap() {
                each(chunk.as_struct().unwrap());
            }
        }
    });
}

fn join(paths: &[PathBuf], out: &Path) -> Result<WriteResult, RewriteError> {
    Inputs::open(paths, &mut |_| true)?.into_file(|| sink::create(out, false), &mut |_| true)
}

/// The ids of the rows that a selection by page has, where the file has page indexes.
fn ids(path: &Path, selected: Option<RowSelection>) -> Vec<i64> {
    let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Optional);
    let file = fs::File::open(path).unwrap();
    let mut builder = ParquetRecordBatchReaderBuilder::try_new_with_options(file, options).unwrap();
    if let Some(selected) = selected {
        builder = builder.with_row_selection(selected);
    }
    let mut found = Vec::new();
    for batch in builder.build().unwrap() {
        let batch = batch.unwrap();
        let column = batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap();
        found.extend_from_slice(column.values());
    }
    found
}

fn metadata(path: &Path) -> ParquetMetaData {
    let reader = SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
    reader.metadata().clone()
}

/// The Bloom filter of ids in each row group.
fn filters(path: &Path) -> Vec<Sbbf> {
    let properties = ReaderProperties::builder().set_read_bloom_filter(true).build();
    let options = ReadOptionsBuilder::new()
        .with_reader_properties(properties)
        .build();
    let reader = SerializedFileReader::new_with_options(fs::File::open(path).unwrap(), options).unwrap();
    (0..reader.num_row_groups())
        .map(|group| {
            let group = reader.get_row_group(group).unwrap();
            group.get_column_bloom_filter(0).unwrap().clone()
        })
        .collect()
}

/// Joins a file of older footers between two others, and checks all that readers find.
fn check(older: impl Fn(&Path)) -> ParquetMetaData {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<_> = (0..3)
        .map(|number| folder.path().join(format!("{number}.parquet")))
        .collect();
    for (path, first) in paths.iter().zip([0, ROWS, 2 * ROWS]) {
        write(path, first);
    }
    older(&paths[1]);
    let out = folder.path().join("out.parquet");
    let result = join(&paths, &out).unwrap();
    assert_eq!((result.rows, result.row_groups), (9_000, 9));
    assert_eq!(ids(&out, None), (0..3 * ROWS).collect::<Vec<_>>());
    // Rows of a few pages in each of the files.
    let selected = RowSelection::from(vec![
        RowSelector::skip(1_234),
        RowSelector::select(5),
        RowSelector::skip(3_000),
        RowSelector::select(5),
        RowSelector::skip(3_000),
        RowSelector::select(5),
        RowSelector::skip(9_000 - 7_249),
    ]);
    let expected: Vec<_> = [1_234, 4_239, 7_244]
        .into_iter()
        .flat_map(|first| first..first + 5)
        .collect();
    assert_eq!(ids(&out, Some(selected)), expected);
    for (group, filter) in filters(&out).iter().enumerate() {
        let first = i64::try_from(group).unwrap() * 1_000;
        assert!((first..first + 1_000).all(|id| filter.check(&id)));
        let misses = (0..1_000).filter(|id| filter.check(&(20_000 + id))).count();
        assert!(misses < 100, "{misses} of a thousand other values");
    }
    metadata(&out)
}

#[test]
fn footers_of_today() {
    let found = check(|_| ());
    let chunks = || found.row_groups().iter().flat_map(RowGroupMetaData::columns);
    assert!(
        chunks().all(|chunk| chunk.offset_index_offset().is_some() && chunk.column_index_offset().is_some())
    );
    let ordinals: Vec<_> = found.row_groups().iter().map(RowGroupMetaData::ordinal).collect();
    assert_eq!(ordinals, (0..9).map(Some).collect::<Vec<_>>());
    let created_by = found.file_metadata().created_by().unwrap();
    assert_eq!(created_by, parquet_writer::CREATED_BY);
}

#[test]
fn a_filter_without_its_length_is_copied_whole() {
    let found = check(|path| change_chunks(path, |chunk| chunk.nested(3).unwrap().remove(15)));
    let chunks = found.row_groups().iter().flat_map(RowGroupMetaData::columns);
    assert!(
        chunks
            .into_iter()
            .all(|chunk| chunk.bloom_filter_length().is_some())
    );
}

#[test]
fn a_file_without_page_indexes_leaves_those_of_others() {
    let found = check(|path| {
        change_chunks(path, |chunk| (4..=7).for_each(|id| chunk.remove(id)));
    });
    for (number, group) in found.row_groups().iter().enumerate() {
        let has = group
            .columns()
            .iter()
            .all(|chunk| chunk.offset_index_offset().is_some());
        assert_eq!(has, !(3..6).contains(&number), "row group {number}");
    }
}

#[test]
fn a_dictionary_at_zero_is_none() {
    // The ids have no dictionary.
    check(|path| {
        change_chunks(path, |chunk| {
            let meta = chunk.nested(3).unwrap();
            if meta.get(11).is_none() {
                meta.set(11, ThriftValue::i64(0));
            }
        });
    });
}

#[test]
fn fields_that_may_hold_places_and_are_not_known_are_left_out() {
    let found = check(|path| {
        change(path, |footer| {
            footer.set(100, ThriftValue::i64(1));
            for group in footer.list(4).unwrap() {
                group.as_struct().unwrap().set(100, ThriftValue::i64(1));
            }
        });
        change_chunks(path, |chunk| {
            chunk.set(100, ThriftValue::i64(1));
            chunk.nested(3).unwrap().set(100, ThriftValue::i64(1));
            chunk.nested(3).unwrap().set(10, ThriftValue::i64(4));
            chunk.set(2, ThriftValue::i64(4));
        });
    });
    // Of row groups that were there, the first chunk begins where the row group does.
    for group in &found.row_groups()[3..6] {
        let first = &group.columns()[0];
        assert_eq!(Some(first.file_offset()), group.file_offset());
    }
}

#[test]
fn bounds_whose_order_depends_on_the_writer_go_with_its_name() {
    let old = |path: &Path| {
        change_chunks(path, |chunk| {
            let statistics = chunk.nested(3).unwrap().nested(12).unwrap();
            statistics.set(1, ThriftValue::Binary(b"zzzzzzzz".to_vec()));
            statistics.set(2, ThriftValue::Binary(b"aaaaaaaa".to_vec()));
            statistics.remove(5);
            statistics.remove(6);
        });
    };
    let has_bounds = |found: &ParquetMetaData, column: usize| {
        let statistics = found.row_group(4).column(column).statistics().unwrap();
        statistics.max_bytes_opt().is_some()
    };
    let kept = check(old);
    assert!(has_bounds(&kept, 0) && has_bounds(&kept, 1));
    let renamed = check(|path| {
        old(path);
        change(path, |footer| {
            footer.set(6, ThriftValue::Binary(b"parquet-mr version 1.9.0".to_vec()));
            footer.remove(7);
        });
    });
    assert!(has_bounds(&renamed, 0) && !has_bounds(&renamed, 1));
    assert!(renamed.file_metadata().column_orders().is_none());
}

#[test]
fn a_place_outside_of_the_file_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let (good, bad, out) = (
        folder.path().join("good.parquet"),
        folder.path().join("bad.parquet"),
        folder.path().join("out.parquet"),
    );
    write(&good, 0);
    let beyond = i64::try_from(fs::metadata(&good).unwrap().len()).unwrap() - 100;
    let changes: [&dyn Fn(&mut ThriftStruct); 5] = [
        &|chunk| chunk.nested(3).unwrap().set(9, ThriftValue::i64(beyond)),
        &|chunk| chunk.nested(3).unwrap().set(7, ThriftValue::i64(beyond)),
        &|chunk| chunk.nested(3).unwrap().set(14, ThriftValue::i64(beyond)),
        &|chunk| chunk.set(4, ThriftValue::i64(beyond)),
        &|chunk| chunk.set(6, ThriftValue::i64(-1)),
    ];
    for damage in changes {
        write(&bad, 0);
        change_chunks(&bad, damage);
        let refused = join(&[good.clone(), bad.clone()], &out).unwrap_err();
        assert!(
            matches!(&refused, RewriteError::Corrupt(message) if message.contains("bad.parquet")),
            "{refused}"
        );
        assert!(!out.exists());
    }
    write(&bad, 0);
    change(&bad, |footer| {
        let groups = footer.list(4).unwrap();
        groups.extend(groups.clone());
    });
    let refused = join(std::slice::from_ref(&bad), &out).unwrap_err();
    assert!(
        matches!(&refused, RewriteError::Corrupt(message) if message.contains("overlap")),
        "{refused}"
    );
}

#[test]
fn files_of_old_writers_are_copied_only_where_readers_still_know_them_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(format!("{name}.parquet"));
    let (old, other, ours, out) = (place("old"), place("other"), place("ours"), place("out"));
    let by = |path: &Path, creator: &str| {
        write(path, 0);
        change(path, |footer| footer.set(6, ThriftValue::Binary(creator.into())));
    };
    write(&ours, 0);
    for (creator, alone, mixed) in [
        ("parquet-mr version 1.2.8 (build 1)", false, false),
        ("parquet-mr version 1.2.9", true, false),
        ("parquet-mr version 1.7.0 (build 2)", true, false),
        ("parquet-mr version 1.8.0 (build 3)", true, true),
        ("parquet-mr version 1.10.0", true, true),
        ("parquet-mr", true, true),
        ("parquet-cpp version 1.5.1-SNAPSHOT", true, false),
        ("parquet-cpp-arrow version 3.0.0", true, true),
    ] {
        by(&old, creator);
        by(&other, creator);
        assert_eq!(
            join(&[old.clone(), other.clone()], &out).is_ok(),
            alone,
            "{creator}"
        );
        for both in [[old.clone(), ours.clone()], [ours.clone(), old.clone()]] {
            let joined = join(&both, &out);
            assert_eq!(joined.is_ok(), mixed, "{creator}");
            if let Err(refused) = joined {
                assert!(
                    refused.to_string().contains("old.parquet is by an old writer"),
                    "{refused}"
                );
            }
        }
    }
}
