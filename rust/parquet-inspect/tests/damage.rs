//! Files that are not what they should be are refused, whatever is wrong with them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::metadata::{
    ColumnChunkMetaDataBuilder, ParquetMetaDataBuilder, ParquetMetaDataOptions, ParquetMetaDataWriter,
};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet_inspect::{Depth, InspectError, inspect, read_footer};
use proptest::prelude::*;

/// Two columns, two row groups, page indexes and a bloom filter.
fn parquet_file() -> Vec<u8> {
    let schema = "message rows { required int64 id; optional binary name (UTF8); }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_bloom_filter_enabled(true)
        .set_data_page_row_count_limit(100)
        .set_write_batch_size(100)
        .build();
    let mut file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties)).unwrap();
    for start in [0, 500] {
        let mut group = file.next_row_group().unwrap();
        let ids: Vec<i64> = (start..start + 500).collect();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(&ids, None, None).unwrap();
        column.close().unwrap();
        let levels: Vec<i16> = ids.iter().map(|id| i16::from(id % 5 != 0)).collect();
        let names: Vec<ByteArray> = ids
            .iter()
            .filter(|id| *id % 5 != 0)
            .map(|id| format!("name {id}").as_str().into())
            .collect();
        let mut column = group.next_column().unwrap().unwrap();
        column
            .typed::<ByteArrayType>()
            .write_batch(&names, Some(&levels), None)
            .unwrap();
        column.close().unwrap();
        group.close().unwrap();
    }
    file.into_inner().unwrap()
}

fn inspect_bytes(content: &[u8]) -> Result<parquet_inspect::FileReport, InspectError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), content).unwrap();
    inspect(file.path(), Depth::Pages)
}

#[test]
fn a_whole_file_is_reported() {
    let content = parquet_file();
    let report = inspect_bytes(&content).unwrap();
    assert_eq!(
        (report.bytes, report.rows, report.row_groups.len()),
        (content.len() as u64, 1_000, 2)
    );
    let name = &report.row_groups[1].columns[1];
    assert_eq!(
        (name.path.as_str(), name.nulls, name.data_pages),
        ("name", Some(100), Some(5))
    );
    assert_eq!(
        (name.min.as_deref(), name.max.as_deref()),
        (Some("name 501"), Some("name 999"))
    );
    let pages = name.pages.as_ref().unwrap();
    let dictionary = ("DICTIONARY_PAGE", "PLAIN", None, None);
    let data = |first, rows| ("DATA_PAGE", "RLE_DICTIONARY", Some(first), Some(rows));
    let found: Vec<_> = pages
        .iter()
        .map(|page| {
            (
                page.page_type.as_str(),
                page.encoding.as_deref().unwrap(),
                page.first_row,
                page.rows,
            )
        })
        .collect();
    let expected = (0..5).map(|number| data(number * 100, 100));
    assert_eq!(
        found,
        std::iter::once(dictionary).chain(expected).collect::<Vec<_>>()
    );
    assert_eq!(
        (pages[1].nulls, pages[1].min.as_deref()),
        (Some(20), Some("name 501"))
    );
    assert_eq!(
        pages.iter().map(|page| page.compressed_bytes).sum::<u64>(),
        u64::try_from(name.compressed_bytes).unwrap()
    );
    assert!(name.bloom_filter && name.column_index && name.offset_index && name.dictionary_page);
}

#[test]
fn a_page_needs_the_header_of_its_type() {
    const I32_FIELD: u8 = 0x15;
    let content = parquet_file();
    let report = inspect_bytes(&content).unwrap();
    let columns = report.row_groups.iter().flat_map(|group| &group.columns);
    for page in columns.flat_map(|column| column.pages.iter().flatten()) {
        let at = usize::try_from(page.offset).unwrap();
        assert_eq!(content[at], I32_FIELD);
        // The types as zigzag numbers: DATA_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2.
        for page_type in [0, 4, 6].into_iter().filter(|other| *other != content[at + 1]) {
            let mut damaged = content.clone();
            damaged[at + 1] = page_type;
            let found = inspect_bytes(&damaged);
            assert!(
                matches!(found, Err(InspectError::DamagedPage(place)) if place == page.offset),
                "{found:?}"
            );
        }
    }
}

#[test]
fn what_is_not_parquet_is_named() {
    let content = parquet_file();
    assert!(matches!(inspect_bytes(b""), Err(InspectError::Empty)));
    assert!(matches!(
        inspect_bytes(b"id,name\n1,a\n"),
        Err(InspectError::NotParquet)
    ));
    assert!(matches!(inspect_bytes(b"PAR1"), Err(InspectError::Truncated)));
    assert!(matches!(
        inspect_bytes(&content[..content.len() - 1]),
        Err(InspectError::Truncated)
    ));
    assert!(matches!(
        inspect_bytes(b"PARE0000000000PARE"),
        Err(InspectError::Encrypted)
    ));
    assert!(matches!(
        inspect_bytes(b"PAR1\xff\xff\xff\x7fPAR1"),
        Err(InspectError::Damaged(_))
    ));
    assert!(matches!(
        inspect(std::env::temp_dir().as_path(), Depth::Footer),
        Err(InspectError::Io(_))
    ));
}

/// Ten bytes ask for room for two billion pages: the process would end where there is no such memory.
#[test]
fn an_offset_index_has_no_more_pages_than_bytes() {
    let mut content = parquet_file();
    let footer = read_footer(&Bytes::copy_from_slice(&content), ParquetMetaDataOptions::new()).unwrap();
    let index = footer.row_group(0).column(0).offset_index_range().unwrap();
    let start = usize::try_from(index.start).unwrap();
    // A list of structs, with its length in a number of its own.
    content[start..start + 7].copy_from_slice(&[0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07]);
    assert!(matches!(
        inspect_bytes(&content),
        Err(InspectError::DamagedIndex(_))
    ));
}

/// Readers panic at them.
#[test]
fn a_column_chunk_has_no_negative_place_or_size() {
    let footer = read_footer(&Bytes::from(parquet_file()), ParquetMetaDataOptions::new()).unwrap();
    let with = |change: fn(ColumnChunkMetaDataBuilder) -> ColumnChunkMetaDataBuilder| {
        let group = footer.row_group(0).clone();
        let mut columns = group.columns().to_vec();
        columns[0] = change(columns[0].clone().into_builder()).build().unwrap();
        let group = group.into_builder().set_column_metadata(columns).build().unwrap();
        let metadata = ParquetMetaDataBuilder::new(footer.file_metadata().clone());
        let mut file = b"PAR1".to_vec();
        ParquetMetaDataWriter::new(&mut file, &metadata.add_row_group(group).build())
            .finish()
            .unwrap();
        read_footer(&Bytes::from(file), ParquetMetaDataOptions::new())
    };
    assert!(with(|chunk| chunk).is_ok());
    assert!(with(|chunk| chunk.set_total_compressed_size(-1)).is_err());
    assert!(with(|chunk| chunk.set_data_page_offset(-1)).is_err());
    assert!(with(|chunk| chunk.set_dictionary_page_offset(Some(-1))).is_err());
}

proptest! {
    #[test]
    fn no_truncation_passes_for_a_file(cut in 1usize..) {
        let content = parquet_file();
        prop_assert!(inspect_bytes(&content[..content.len() - 1 - cut % content.len()]).is_err());
    }

    #[test]
    fn no_damage_to_a_page_panics(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let mut content = parquet_file();
        let end = content.len() - 1_500;
        for (place, byte) in changes {
            content[4 + place.index(end - 4)] = byte;
        }
        // Values may differ, headers may be errors.
        let _ = inspect_bytes(&content);
    }

    #[test]
    fn no_damage_to_the_footer_panics(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let mut content = parquet_file();
        let (start, end) = (content.len() - 1_500, content.len() - 4);
        for (place, byte) in changes {
            content[start + place.index(end - start)] = byte;
        }
        // Some changes leave a valid file; the others must be errors.
        let _ = inspect_bytes(&content);
    }
}
