//! Tests of every encoder with the decoders of the `parquet` crate, in its wide and its portable variant.

#![allow(
    clippy::float_cmp,
    clippy::cast_precision_loss,
    reason = "values are compared with themselves"
)]

mod bloom;
mod delta;
mod dictionary;
mod levels;
mod pages;
mod plain;
mod rle;
mod stats;

use std::sync::Arc;

use parquet::basic::Type as Physical;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::column::reader::{get_column_reader, get_typed_column_reader};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::Result as TheirResult;
use parquet::schema::types::{ColumnDescriptor, ColumnPath, Type};
use proptest::prelude::*;

use crate::bitmap::Bitmap;

/// The bytes that `encode` appends, which must not depend on the processor or on what the buffer held.
fn encoded(encode: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut wide = b"before".to_vec();
    encode(&mut wide);
    let mut portable = Vec::new();
    crate::cpu::portably(|| encode(&mut portable));
    assert_eq!(&wide[..6], b"before");
    assert_eq!(
        wide[6..],
        portable[..],
        "the wide and the portable variant differ"
    );
    portable
}

/// The one data page of a column chunk, as a reader of columns takes it.
struct OnePage(Option<Page>);

impl Iterator for OnePage {
    type Item = TheirResult<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for OnePage {
    fn get_next_page(&mut self) -> TheirResult<Option<Page>> {
        Ok(self.0.take())
    }

    fn peek_next_page(&mut self) -> TheirResult<Option<PageMetadata>> {
        // Only a reader that skips rows asks.
        Ok(None)
    }

    fn skip_next_page(&mut self) -> TheirResult<()> {
        self.0 = None;
        Ok(())
    }
}

/// Decodes a page body of `count` values, and checks that there are no more.
fn decoded<T: DataType>(
    encoding: parquet::basic::Encoding,
    width: i32,
    body: &[u8],
    count: usize,
) -> Vec<T::T> {
    let physical = T::get_physical_type();
    let mut builder = Type::primitive_type_builder("column", physical);
    if physical == Physical::FIXED_LEN_BYTE_ARRAY {
        builder = builder.with_length(width);
    }
    let column = ColumnDescriptor::new(
        Arc::new(builder.build().unwrap()),
        0,
        0,
        ColumnPath::new(vec!["column".into()]),
    );
    let page = Page::DataPage {
        buf: body.to_vec().into(),
        num_values: count as u32,
        encoding,
        def_level_encoding: parquet::basic::Encoding::RLE,
        rep_level_encoding: parquet::basic::Encoding::RLE,
        statistics: None,
    };
    let pages: Box<dyn PageReader> = Box::new(OnePage(Some(page)));
    let mut reader = get_typed_column_reader::<T>(get_column_reader(Arc::new(column), pages));
    let mut values = vec![];
    let (records, ..) = reader.read_records(count + 1, None, None, &mut values).unwrap();
    assert_eq!((records, values.len()), (count, count));
    values
}

fn byte_arrays<B: AsRef<[u8]>>(values: &[B]) -> Vec<ByteArray> {
    values
        .iter()
        .map(|value| ByteArray::from(value.as_ref().to_vec()))
        .collect()
}

/// Bits packed least significant first, behind `offset` bits of garbage.
fn packed_bits(bits: &[bool], offset: usize) -> Vec<u8> {
    let mut bytes = vec![0b1010_0110; (bits.len() + offset).div_ceil(8) + 1];
    for (index, bit) in bits.iter().enumerate() {
        let at = index + offset;
        bytes[at / 8] = bytes[at / 8] & !(1 << (at % 8)) | u8::from(*bit) << (at % 8);
    }
    bytes
}

fn with_bitmap<R>(bits: &[bool], offset: usize, body: impl FnOnce(&Bitmap<'_>) -> R) -> R {
    let bytes = packed_bits(bits, offset);
    body(&Bitmap::new(&bytes, offset, bits.len()).unwrap())
}

/// Validity with stretches that are all valid, all null and mixed.
fn validity(most: usize) -> impl Strategy<Value = Vec<bool>> {
    let stretch = prop_oneof![
        (any::<bool>(), 1..300usize).prop_map(|(bit, len)| vec![bit; len]),
        prop::collection::vec(any::<bool>(), 1..100),
        prop::collection::vec(prop::bool::weighted(0.05), 1..200),
    ];
    prop::collection::vec(stretch, 0..8).prop_map(move |stretches| {
        let mut bits = stretches.concat();
        bits.truncate(most);
        bits
    })
}

/// Short, long, equal and shared-prefix byte arrays.
fn strings() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let value = prop_oneof![
        4 => prop::collection::vec(b'a'..=b'c', 0..3),
        2 => prop::collection::vec(any::<u8>(), 0..20),
        2 => (0..40usize, any::<u8>()).prop_map(|(len, last)| {
            let mut value = vec![b'x'; len];
            value.push(last);
            value
        }),
        1 => prop::collection::vec(0..2u8, 14..70),
    ];
    prop::collection::vec(value, 0..400)
}

/// Offsets and data of values, behind some other data.
fn as_offsets(values: &[Vec<u8>]) -> (Vec<i32>, Vec<u8>) {
    let mut data = b"another slice".to_vec();
    let mut offsets = vec![data.len() as i32];
    for value in values {
        data.extend_from_slice(value);
        offsets.push(data.len() as i32);
    }
    (offsets, data)
}

/// Views and the one buffer of the long values.
fn as_views(values: &[Vec<u8>]) -> (Vec<u128>, Vec<u8>) {
    let mut data = b"another value".to_vec();
    let views = values
        .iter()
        .map(|value| {
            let mut view = [0; 16];
            view[..4].copy_from_slice(&(value.len() as u32).to_le_bytes());
            if value.len() <= 12 {
                view[4..4 + value.len()].copy_from_slice(value);
            } else {
                view[4..8].copy_from_slice(&value[..4]);
                view[8..12].copy_from_slice(&1u32.to_le_bytes());
                view[12..].copy_from_slice(&(data.len() as u32).to_le_bytes());
                data.extend_from_slice(value);
            }
            u128::from_le_bytes(view)
        })
        .collect();
    (views, data)
}
