//! The values of a page of booleans.

use arrow_buffer::BooleanBufferBuilder;
use parquet::basic::BoundaryOrder;
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet_encode::bitmap::Bitmap;
use parquet_encode::compact::compact_bits;
use parquet_encode::dictionary::NumberDictionary;
use parquet_encode::page_header::Encoding;
use parquet_encode::{plain, stats};

use super::dictionary::DictionaryEncoder;
use super::numbers::mismatch;
use super::piece::Piece;
use super::ranges::Ranges;
use super::source::RunValues;
use super::values::{PageFacts, ValueEncoder};
use crate::error::Result;

/// Collects the booleans of a page, eight to a byte.
#[derive(Debug)]
pub(super) struct Bools {
    encoding: Encoding,
    bits: BooleanBufferBuilder,
    ranges: Ranges<bool>,
    dense: Vec<u8>,
    packed: Vec<u8>,
}

impl Bools {
    /// Booleans in pages of PLAIN or RLE.
    pub fn new(encoding: Encoding) -> Self {
        Self {
            encoding,
            bits: BooleanBufferBuilder::new(0),
            ranges: Ranges::new(bool::cmp),
            dense: Vec::new(),
            packed: Vec::new(),
        }
    }

    fn page(&self) -> Option<Bitmap<'_>> {
        Bitmap::new(self.bits.as_slice(), 0, self.bits.len())
    }
}

/// Stands for a dictionary in the interface of values; columns of booleans have none.
type IndexedBools = DictionaryEncoder<NumberDictionary<i32>>;

impl ValueEncoder for Bools {
    type Dictionary = NumberDictionary<i32>;

    fn fitting(&self, _: &RunValues<'_>, piece: Piece<'_>, page: usize, _: Option<&IndexedBools>) -> usize {
        piece.rows_with((page * 8).saturating_sub(self.bits.len()))
    }

    fn append(
        &mut self,
        run: &RunValues<'_>,
        piece: Piece<'_>,
        _: Option<&mut IndexedBools>,
    ) -> Result<usize> {
        let RunValues::Bools { bytes, offset } = run else {
            return Err(mismatch());
        };
        let start = offset + piece.start;
        match &piece.validity {
            None => {
                self.bits.append_packed_range(start..start + piece.rows, bytes);
                Ok(piece.rows)
            }
            Some(validity) => {
                let values = Bitmap::new(bytes, start, piece.rows).ok_or_else(mismatch)?;
                self.dense.clear();
                self.packed.clear();
                compact_bits(&values, validity, &mut self.dense);
                plain::pack_bools(&self.dense, &mut self.packed);
                self.bits.append_packed_range(0..self.dense.len(), &self.packed);
                Ok(self.dense.len())
            }
        }
    }

    fn direct_bytes(&self, _: Encoding, _: Option<&IndexedBools>) -> usize {
        self.pending_bytes()
    }

    fn encode(&mut self, out: &mut Vec<u8>) -> Encoding {
        let Some(bits) = self.page().filter(|bits| !bits.is_empty()) else {
            return Encoding::Plain;
        };
        if self.encoding == Encoding::Rle {
            plain::encode_bools_rle(&bits, out);
            return Encoding::Rle;
        }
        plain::encode_bools(&bits, out);
        Encoding::Plain
    }

    fn finish(&mut self, _: Option<&mut IndexedBools>) -> PageFacts {
        let range = self.page().and_then(|bits| stats::bools(&bits));
        if let Some(range) = range.map(|range| (range.min, range.max)) {
            self.ranges.note(range, Some(range));
        }
        self.bits.truncate(0);
        PageFacts {
            bounds: range.map(|range| (vec![range.min.into()], vec![range.max.into()])),
            has_bounds: true,
            value_bytes: None,
        }
    }

    fn statistics(&self, nulls: u64) -> Statistics {
        let (min, max) = self.ranges.whole().copied().unzip();
        Statistics::Boolean(ValueStatistics::new(min, max, None, Some(nulls), false))
    }

    fn boundary_order(&self) -> BoundaryOrder {
        self.ranges.order()
    }

    fn pending_bytes(&self) -> usize {
        self.bits.len() / 8
    }

    fn memory_bytes(&self) -> usize {
        self.bits.capacity() / 8 + self.dense.capacity() + self.packed.capacity()
    }
}
