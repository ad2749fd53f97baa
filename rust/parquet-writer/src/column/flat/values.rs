//! The interface of a column's values, whatever their type.

use parquet::basic::BoundaryOrder;
use parquet::file::statistics::Statistics;
use parquet_encode::page_header::Encoding;

use super::dictionary::{ColumnDictionary, DictionaryEncoder};
use super::piece::Piece;
use super::source::RunValues;
use crate::error::Result;

/// Facts about the values of a page.
pub(super) struct PageFacts {
    /// Bounds as the column index has them; `None` without values, and where values have no order, one is NaN, or no
    /// short bound is above the greatest.
    pub bounds: Option<(Vec<u8>, Vec<u8>)>,
    /// False if the page has values and no bounds. Its chunk gets no column index then.
    pub has_bounds: bool,
    /// `SizeStatistics`: bytes of byte arrays, their lengths left out; `None` for other types.
    pub value_bytes: Option<u64>,
}

/// Collects the valid values of one page after the other, and their bounds.
///
/// The column's dictionary is passed in while pages get indices: values go into it then, and are held here without it.
pub(super) trait ValueEncoder: Send {
    type Dictionary: ColumnDictionary;

    /// Makes room for further values without a dictionary.
    fn reserve(&mut self, _count: usize) {}

    /// The number of rows of `piece` that the page takes until its values fill `page` bytes without a dictionary.
    fn fitting(
        &self,
        run: &RunValues<'_>,
        piece: Piece<'_>,
        page: usize,
        indexed: Option<&DictionaryEncoder<Self::Dictionary>>,
    ) -> usize;

    /// Adds the valid values of a piece and returns how many. They are fewer than there are when the dictionary is
    /// full.
    fn append(
        &mut self,
        run: &RunValues<'_>,
        piece: Piece<'_>,
        indexed: Option<&mut DictionaryEncoder<Self::Dictionary>>,
    ) -> Result<usize>;

    /// Forgets values of the page whose indices were dropped.
    fn dropped(&mut self, _dictionary: &Self::Dictionary, _indices: &[u32]) {}

    /// Takes the page's values out of the dictionary.
    fn take_out(&mut self, _indexed: &mut DictionaryEncoder<Self::Dictionary>) {}

    /// Decides about the encoding of values without a dictionary, also for those of the page.
    fn set_encoding(&mut self, _encoding: Encoding) {}

    /// Appends the page's values from the one at `start` on in an encoding without a dictionary, whatever they are held
    /// in.
    fn encode_direct(
        &mut self,
        _encoding: Encoding,
        _start: usize,
        _indexed: Option<&DictionaryEncoder<Self::Dictionary>>,
        _out: &mut Vec<u8>,
    ) {
    }

    /// An estimate of the bytes of the page's values in an encoding without a dictionary, before compression.
    fn direct_bytes(
        &self,
        encoding: Encoding,
        indexed: Option<&DictionaryEncoder<Self::Dictionary>>,
    ) -> usize;

    /// Appends the page's values that are held without a dictionary.
    fn encode(&mut self, out: &mut Vec<u8>) -> Encoding;

    /// Ends the page and forgets its values.
    fn finish(&mut self, indexed: Option<&mut DictionaryEncoder<Self::Dictionary>>) -> PageFacts;

    /// Statistics of all pages.
    fn statistics(&self, nulls: u64) -> Statistics;

    /// The order of the pages' bounds.
    fn boundary_order(&self) -> BoundaryOrder;

    /// An upper bound of the bytes of the values that are held, before compression.
    fn pending_bytes(&self) -> usize;

    /// The memory that is held, used or not.
    fn memory_bytes(&self) -> usize;
}
