//! The valid values of a few rows.

use parquet_encode::bitmap::Bitmap;
use parquet_encode::byte_arrays::{ByteArrays, ByteSpan, FixedSize, Offsets, RowRange, Spans, Views};
use parquet_encode::compact::{compact, compact_offsets};
use parquet_encode::fixed::Fixed;

/// Some rows of a run, and which of them are valid; `None` when all are.
#[derive(Clone, Copy)]
pub(super) struct Piece<'a> {
    pub start: usize,
    pub rows: usize,
    pub validity: Option<Bitmap<'a>>,
}

/// Buffers for the values that are left when nulls are skipped; reused from piece to piece.
#[derive(Debug, Default)]
pub(super) struct Skipped {
    spans: Vec<ByteSpan>,
    views: Vec<u128>,
}

impl Skipped {
    pub fn memory_bytes(&self) -> usize {
        self.spans.capacity() * size_of::<ByteSpan>() + self.views.capacity() * size_of::<u128>()
    }
}

/// An operation on byte arrays from any source.
pub(super) trait Taker {
    type Out;
    fn take<V: ByteArrays>(self, values: &V) -> Self::Out;
}

impl Piece<'_> {
    /// The number of its valid rows.
    pub fn valid(&self) -> usize {
        self.validity.map_or(self.rows, |validity| validity.count_ones())
    }

    /// The number of its rows before its valid value number `count`, from 0; all when it has no more values than that.
    pub fn rows_with(&self, count: usize) -> usize {
        match &self.validity {
            None => count.min(self.rows),
            Some(validity) if validity.count_ones() <= count => self.rows,
            Some(validity) => {
                let mut valid = (0..self.rows).filter(|row| validity.get(*row));
                valid.nth(count).unwrap_or(self.rows)
            }
        }
    }

    /// The lengths of its values, `None` for those that are null.
    pub fn lengths<'p>(
        &'p self,
        length: impl Fn(usize) -> usize + 'p,
    ) -> impl Iterator<Item = Option<usize>> + 'p {
        let valid = |row: usize| self.validity.as_ref().is_none_or(|validity| validity.get(row));
        (0..self.rows).map(move |row| valid(row).then(|| length(self.start + row)))
    }

    /// The valid values of `slots`, copied to `scratch` where nulls lie between them.
    pub fn numbers<'v, T: Fixed>(&self, slots: &'v [T], scratch: &'v mut Vec<T>) -> &'v [T] {
        let slots = &slots[self.start..self.start + self.rows];
        match &self.validity {
            None => slots,
            Some(validity) => {
                scratch.clear();
                compact(slots, validity, scratch);
                scratch
            }
        }
    }

    /// Gives `taker` the valid values of Arrow's byte arrays with offsets.
    pub fn offsets<O, T>(&self, values: &Offsets<'_, O>, skipped: &mut Skipped, taker: T) -> T::Out
    where
        O: Copy + Into<i64>,
        T: Taker,
    {
        let offsets = &values.offsets[self.start..=self.start + self.rows];
        match &self.validity {
            None => taker.take(&Offsets {
                offsets,
                data: values.data,
            }),
            Some(validity) => {
                skipped.spans.clear();
                let joined = compact_offsets(offsets, validity, &mut skipped.spans).is_some();
                taker.take(&Spans {
                    spans: &skipped.spans,
                    data: values.data,
                    joined,
                })
            }
        }
    }

    /// Gives `taker` the valid values of Arrow's views.
    pub fn views<T: Taker>(
        &self,
        views: &[u128],
        buffers: &[&[u8]],
        skipped: &mut Skipped,
        taker: T,
    ) -> T::Out {
        let views = self.numbers(views, &mut skipped.views);
        taker.take(&Views { views, buffers })
    }

    /// Gives `taker` the valid values of one width.
    pub fn fixed<T: Taker>(&self, values: &FixedSize<'_>, skipped: &mut Skipped, taker: T) -> T::Out {
        let Some(validity) = &self.validity else {
            return taker.take(&RowRange {
                values,
                start: self.start,
                count: self.rows,
            });
        };
        skipped.spans.clear();
        let width = values.width;
        skipped
            .spans
            .extend((0..self.rows).filter(|row| validity.get(*row)).map(|row| {
                let start = (self.start + row) * width;
                ByteSpan {
                    start,
                    end: start + width,
                }
            }));
        taker.take(&Spans {
            spans: &skipped.spans,
            data: values.data,
            joined: false,
        })
    }
}
