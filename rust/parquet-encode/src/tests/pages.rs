//! Tests of headers, and of whole chunks read back as a file.

use std::sync::Arc;

use parquet::basic::{Encoding as TheirEncoding, PageType, Repetition, Type as Physical};
use parquet::column::page::{Page, PageReader};
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::ByteArrayType;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::properties::ReaderProperties;
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::{ColumnDescPtr, ColumnDescriptor, ColumnPath, Type};

use super::{byte_arrays, with_bitmap};
use crate::dictionary::{ByteDictionary, Dictionary, DictionaryLimits};
use crate::levels::encode_validity;
use crate::page_header::{Encoding, PageContent, PageHeader, TooLarge};
use crate::rle::{encode_indices_in, index_width};

fn column() -> ColumnDescPtr {
    let primitive = Type::primitive_type_builder("column", Physical::BYTE_ARRAY)
        .with_repetition(Repetition::OPTIONAL)
        .build()
        .unwrap();
    Arc::new(ColumnDescriptor::new(
        Arc::new(primitive),
        1,
        0,
        ColumnPath::new(vec!["column".into()]),
    ))
}

fn pages(chunk: &[u8], values: usize, dictionary: bool) -> SerializedPageReader<bytes::Bytes> {
    let mut metadata = ColumnChunkMetaData::builder(column())
        .set_num_values(values as i64)
        .set_total_compressed_size(chunk.len() as i64)
        .set_total_uncompressed_size(chunk.len() as i64);
    if dictionary {
        metadata = metadata.set_dictionary_page_offset(Some(0));
    }
    let properties = ReaderProperties::builder().set_read_page_statistics(true).build();
    SerializedPageReader::new_with_properties(
        Arc::new(bytes::Bytes::copy_from_slice(chunk)),
        &metadata.build().unwrap(),
        values,
        None,
        Arc::new(properties),
    )
    .unwrap()
}

fn page(content: PageContent, body: &[u8], out: &mut Vec<u8>) {
    let header = PageHeader {
        uncompressed_size: body.len(),
        compressed_size: body.len(),
        crc: Some(0xdead_beef),
        content,
    };
    header.write(out).unwrap();
    out.extend_from_slice(body);
}

/// A chunk of a dictionary page and two data pages, read as a column.
#[test]
fn a_chunk_of_all_page_kinds_comes_back() {
    let valid: Vec<bool> = (0..1000).map(|row| row % 7 != 3).collect();
    let rows: Vec<Vec<u8>> = (0..1000)
        .map(|row| format!("value {}", row % 13).into_bytes())
        .collect();
    let present: Vec<&[u8]> = rows
        .iter()
        .zip(&valid)
        .filter(|(_, valid)| **valid)
        .map(|(row, _)| &row[..])
        .collect();
    let mut dictionary = ByteDictionary::new(DictionaryLimits::default());
    let mut indices = vec![];
    for value in &present {
        indices.push(dictionary.index_of(value).unwrap());
    }
    let first = valid[..600].iter().filter(|valid| **valid).count();

    let mut chunk = vec![];
    page(
        PageContent::Dictionary {
            entries: dictionary.len(),
        },
        dictionary.page(),
        &mut chunk,
    );
    let mut body = vec![];
    with_bitmap(&valid[..600], 1, |bits| {
        encode_validity(bits, &mut body);
    });
    let width = index_width(dictionary.len());
    encode_indices_in(&indices[..first], width, &mut body);
    let content = PageContent::Data {
        values: 600,
        encoding: Encoding::RleDictionary,
    };
    page(content, &body, &mut chunk);
    body.clear();
    with_bitmap(&valid[600..], 1, |bits| {
        encode_validity(bits, &mut body);
    });
    encode_indices_in(&indices[first..], width, &mut body);
    page(
        PageContent::Data {
            values: 400,
            encoding: Encoding::RleDictionary,
        },
        &body,
        &mut chunk,
    );

    let seen: Vec<Page> = pages(&chunk, 1000, true).collect::<Result<_, _>>().unwrap();
    assert_eq!(
        seen.iter().map(Page::page_type).collect::<Vec<_>>(),
        [
            PageType::DICTIONARY_PAGE,
            PageType::DATA_PAGE,
            PageType::DATA_PAGE
        ]
    );
    assert_eq!(
        seen.iter().map(Page::num_values).collect::<Vec<_>>(),
        [13, 600, 400]
    );
    assert!(
        seen.iter()
            .skip(1)
            .all(|page| page.encoding() == TheirEncoding::RLE_DICTIONARY)
    );
    let reader: Box<dyn PageReader> = Box::new(pages(&chunk, 1000, true));
    let mut reader = get_typed_column_reader::<ByteArrayType>(parquet::column::reader::get_column_reader(
        column(),
        reader,
    ));
    let (mut levels, mut values) = (vec![], vec![]);
    let (records, _, _) = reader
        .read_records(1000, Some(&mut levels), None, &mut values)
        .unwrap();
    assert_eq!(records, 1000);
    assert_eq!(values, byte_arrays(&present));
    assert_eq!(
        levels,
        valid.iter().map(|valid| i16::from(*valid)).collect::<Vec<_>>()
    );
}

#[test]
fn pages_of_no_values() {
    let mut body = vec![];
    with_bitmap(&[false; 100], 0, |bits| {
        encode_validity(bits, &mut body);
    });
    encode_indices_in(&[0_u8; 0], index_width(0), &mut body);
    let content = PageContent::Data {
        values: 100,
        encoding: Encoding::RleDictionary,
    };
    let mut chunk = vec![];
    page(PageContent::Dictionary { entries: 0 }, &[], &mut chunk);
    page(content, &body, &mut chunk);
    let reader: Box<dyn PageReader> = Box::new(pages(&chunk, 100, true));
    let mut reader = get_typed_column_reader::<ByteArrayType>(parquet::column::reader::get_column_reader(
        column(),
        reader,
    ));
    let (mut levels, mut values) = (vec![], vec![]);
    let (records, found, _) = reader
        .read_records(100, Some(&mut levels), None, &mut values)
        .unwrap();
    assert_eq!((records, found), (100, 0));
    assert_eq!(levels, [0; 100]);
}

#[test]
fn page_sizes_past_31_bits_are_refused() {
    let most = i32::MAX as usize;
    let content = PageContent::Data {
        values: 1,
        encoding: Encoding::Plain,
    };
    let mut out = vec![1, 2, 3];
    let header = PageHeader {
        uncompressed_size: most + 1,
        compressed_size: 0,
        crc: None,
        content,
    };
    assert_eq!(
        header.write(&mut out),
        Err(TooLarge {
            what: "uncompressed size",
            number: most + 1
        })
    );
    let header = PageHeader {
        uncompressed_size: most,
        compressed_size: most,
        crc: None,
        content,
    };
    header.write(&mut out).unwrap();
    out.truncate(3);
    let content = PageContent::Dictionary { entries: usize::MAX };
    let header = PageHeader {
        uncompressed_size: 1,
        compressed_size: 1,
        crc: None,
        content,
    };
    assert!(header.write(&mut out).is_err());
    assert_eq!(out, [1, 2, 3], "a refused header leaves nothing behind");
}
