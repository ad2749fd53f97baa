//! The interface of a page's values, whatever their type.

use arrow_array::ArrayRef;
use parquet::basic::BoundaryOrder;
use parquet::file::statistics::Statistics;
use parquet_encode::page_header::Encoding;

use super::contest::{Neighbours, Repeats};
use super::piece::Piece;
use super::preserved::Preserved;
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

/// Collects the valid values of one page after the other.
pub(super) trait PageValues: Send {
    /// Begins with the values of dictionaries that rows come with.
    fn adopt(&mut self, _: Preserved) {}

    /// Adds the values of a dictionary that rows come with. Adds none and returns `false` if indices of so many entries
    /// would make the page larger than `page` bytes.
    fn preserve(&mut self, _: &ArrayRef, _page: usize) -> bool {
        true
    }

    /// The preserved dictionary, once nothing is left to be encoded.
    fn into_preserved(self: Box<Self>) -> Option<Preserved> {
        None
    }

    /// A run of rows begins, of which the page has room for so many.
    fn begin(&mut self, run: &RunValues<'_>, rows: usize);

    /// The number of rows of `piece` that the page takes until its values fill `page` bytes.
    fn fitting(&self, run: &RunValues<'_>, piece: Piece<'_>, page: usize) -> usize;

    /// Adds the valid values of a piece and returns how many. They are fewer than there are when the dictionary is
    /// full.
    fn append(&mut self, run: &RunValues<'_>, piece: Piece<'_>) -> Result<usize>;

    /// Drops the last values of the page; their entries stay in the dictionary.
    fn drop_last(&mut self, count: usize);

    /// Gives the most frequent of the values so far the smallest indices. Only the first page may have values.
    fn rank(&mut self);

    /// Dictionary fallback: goes on without the dictionary. The page must be empty.
    fn fall_back(&mut self);

    /// The repeats among the values of the page, while there is a dictionary.
    fn repeats(&self) -> Option<Repeats> {
        None
    }

    /// Appends the page's values from the one at `start` on in an encoding without a dictionary, whatever they are held
    /// in.
    fn encode_direct(&mut self, _encoding: Encoding, _start: usize, _out: &mut Vec<u8>) {}

    /// Appends the indices of the page's values from the one at `start` on.
    fn encode_indices(&self, _index_width: u8, _start: usize, _out: &mut Vec<u8>) {}

    /// Returns true if the indices of the page's values from the one at `start` on, of less than a byte each, are
    /// certain to compress better in a byte each.
    fn suit_bytes(&self, _start: usize) -> bool {
        false
    }

    /// The neighbours of the page's last values, as far as a dictionary shows.
    fn neighbours(&self, _last: usize) -> Neighbours {
        Neighbours::default()
    }

    /// Returns true if no value of the first page is the same as another, as far as a dictionary shows.
    fn never_repeats(&self) -> bool {
        false
    }

    /// Takes the first page's values out of the dictionary and drops it.
    fn undo_dictionary(&mut self) {}

    /// An estimate of the bytes of the page's values in an encoding without a dictionary, before compression.
    fn direct_bytes(&self, _encoding: Encoding) -> usize {
        self.pending_bytes()
    }

    /// Falls back to an encoding without a dictionary, for the page's values too. A dictionary that no page refers to
    /// is dropped.
    fn set_encoding(&mut self, _encoding: Encoding) {}

    /// Goes on with the dictionary. After a fallback, values have this encoding.
    fn set_fallback_encoding(&mut self, _encoding: Encoding) {}

    /// The bits that an index needs, while pages get indices.
    fn index_width(&self) -> Option<u8>;

    /// Appends the page's values; indices take `index_width` bits at least.
    fn encode(&mut self, index_width: u8, out: &mut Vec<u8>) -> Encoding;

    /// Ends the page and forgets its values.
    fn finish(&mut self) -> PageFacts;

    /// The body of the dictionary page and how many entries it has.
    fn dictionary(&self) -> Option<(&[u8], usize)>;

    /// Statistics of all pages.
    fn statistics(&self, nulls: u64) -> Statistics;

    /// The order of the pages' bounds.
    fn boundary_order(&self) -> BoundaryOrder;

    /// An upper bound of the bytes of the unfinished page's values before compression.
    fn pending_bytes(&self) -> usize;

    /// The memory that is held, used or not.
    fn memory_bytes(&self) -> usize;
}
