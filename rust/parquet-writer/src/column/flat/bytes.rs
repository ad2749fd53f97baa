//! The values of a page of byte arrays, of varying or of one length.

use std::cmp::Ordering;

use parquet::basic::BoundaryOrder;
use parquet::data_type::{ByteArray, FixedLenByteArray};
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet_encode::byte_arrays::{ByteArrays, FixedSize, Offsets, RowRange, Views};
use parquet_encode::delta_bytes::{self, LengthScratch};
use parquet_encode::dictionary::ByteDictionary;
use parquet_encode::each_width;
use parquet_encode::page_header::Encoding;
use parquet_encode::rle::numbers;
use parquet_encode::stats::{self, Bound, ByteContent, Picked};
use parquet_encode::{byte_stream_split, delta, plain};

use super::dictionary::DictionaryEncoder;
use super::heads::{BOUND_BYTES, head};
use super::numbers::mismatch;
use super::piece::{Piece, Skipped, Taker};
use super::ranges::Ranges;
use super::source::RunValues;
use super::values::{PageFacts, ValueEncoder};
use crate::error::Result;

/// The meaning of a column's bytes, which decides their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ByteMeaning {
    Text,
    Binary,
    /// Bytes of one size. Their bounds are PLAIN values of the type, so that none may be cut: pyarrow and polars fail
    /// on one that is shorter than the type says.
    FixedSize,
    Decimal,
    HalfFloat,
    /// Bytes that have no bounds.
    Unordered,
}

impl ByteMeaning {
    fn compare(self) -> fn(&Vec<u8>, &Vec<u8>) -> Ordering {
        match self {
            Self::Text | Self::Binary | Self::FixedSize | Self::Unordered => Vec::cmp,
            Self::Decimal => |left, right| stats::compare_decimals(left, right),
            Self::HalfFloat => |left, right| half_order(left).cmp(&half_order(right)),
        }
    }

    /// The content by which bounds are cut; `None` where they are stored whole.
    fn content(self) -> Option<ByteContent> {
        match self {
            Self::Text => Some(ByteContent::Utf8),
            Self::Binary => Some(ByteContent::Binary),
            Self::FixedSize | Self::Decimal | Self::HalfFloat | Self::Unordered => None,
        }
    }

    /// The least and the greatest value, as much of them as their bounds need.
    fn range<V: ByteArrays>(self, values: &V) -> Option<(Vec<u8>, Vec<u8>)> {
        let range = match self {
            Self::Text | Self::Binary | Self::FixedSize => stats::byte_arrays(values)?,
            Self::Decimal => stats::big_endian_decimals(values)?,
            Self::HalfFloat => return half_range(values),
            Self::Unordered => return None,
        };
        let (min, max) = match self.content() {
            Some(content) => (head(range.min, content), head(range.max, content)),
            None => (range.min, range.max),
        };
        Some((min.to_vec(), max.to_vec()))
    }
}

fn half_range<V: ByteArrays>(values: &V) -> Option<(Vec<u8>, Vec<u8>)> {
    let bits = |row: usize| half_bits(values.value(row));
    let halves: Vec<u16> = (0..values.len()).map(bits).collect();
    let range = stats::half_floats(&halves).range?;
    Some((range.min.to_le_bytes().to_vec(), range.max.to_le_bytes().to_vec()))
}

fn half_bits(bytes: &[u8]) -> u16 {
    u16::from_le_bytes(bytes.try_into().unwrap_or_default())
}

/// A number that is ordered as the half float is.
fn half_order(bytes: &[u8]) -> u16 {
    let bits = half_bits(bytes);
    if bits & 0x8000 == 0 { bits | 0x8000 } else { !bits }
}

/// The dictionary of byte arrays and its indices.
type IndexedBytes = DictionaryEncoder<ByteDictionary>;

/// Collects the values of a page that have no dictionary as their encoding wants them, and knows the range of all.
#[derive(Debug)]
pub(super) struct ByteValues {
    meaning: ByteMeaning,
    /// The size of every value; `None` where they differ.
    width: Option<usize>,
    encoding: Encoding,
    /// The page as it will be written. Lengths that are packed are added when it is finished.
    data: Vec<u8>,
    lengths: Vec<i32>,
    /// Bytes of the page's values, without lengths.
    unencoded: u64,
    /// Heads of the least and the greatest of the values in `data`.
    range: Option<(Vec<u8>, Vec<u8>)>,
    ranges: Ranges<Vec<u8>>,
    /// NaN in the pages that ended, of half floats.
    nans: u64,
    skipped: Skipped,
    rows: Vec<u32>,
    scratch: LengthScratch,
    /// True until the first page has decided about the encoding.
    undecided: bool,
}

impl ByteValues {
    /// `undecided` if the first page decides about dictionary and encoding.
    pub fn new(meaning: ByteMeaning, width: Option<usize>, encoding: Encoding, undecided: bool) -> Self {
        Self {
            meaning,
            width,
            encoding,
            data: Vec::new(),
            lengths: Vec::new(),
            unencoded: 0,
            range: None,
            ranges: Ranges::new(meaning.compare()),
            nans: 0,
            skipped: Skipped::default(),
            rows: Vec::new(),
            scratch: LengthScratch::default(),
            undecided,
        }
    }

    /// The layout of values without a dictionary.
    fn form(&self) -> Form {
        let packs_lengths = matches!(
            self.encoding,
            Encoding::DeltaLengthByteArray | Encoding::DeltaByteArray
        );
        match self.width {
            Some(_) => Form::Joined,
            // This layout is a step to every other.
            None if packs_lengths || self.undecided => Form::JoinedWithLengths,
            None => Form::Plain,
        }
    }

    fn taker<'a>(&'a mut self, indexed: Option<&'a mut IndexedBytes>) -> (Adding<'a>, &'a mut Skipped) {
        let adding = Adding {
            meaning: self.meaning,
            form: self.form(),
            indexed,
            data: &mut self.data,
            lengths: &mut self.lengths,
            unencoded: &mut self.unencoded,
            range: &mut self.range,
        };
        (adding, &mut self.skipped)
    }

    fn append_keyed<V: ByteArrays>(&mut self, values: &V, indexed: Option<&mut IndexedBytes>) -> usize {
        let rows = std::mem::take(&mut self.rows);
        let taken = match indexed {
            Some(DictionaryEncoder {
                dictionary,
                indices,
                keys,
                mapped: true,
                ..
            }) => {
                let taken = dictionary.encode_keys(&rows, values, keys, indices);
                self.unencoded += bytes_of(&Picked {
                    values,
                    rows: &rows[..taken],
                });
                taken
            }
            indexed => self.taker(indexed).0.take(&Picked { values, rows: &rows }),
        };
        self.rows = rows;
        taken
    }

    fn page_range(&mut self, indexed: Option<&mut IndexedBytes>) -> Option<(Vec<u8>, Vec<u8>)> {
        let Some(indexed) = indexed else {
            return self.range.take();
        };
        let (dictionary, rows) = indexed.used();
        self.meaning.range(&Picked {
            values: &dictionary.entries(),
            rows,
        })
    }

    /// The page's values that are NaN, of half floats.
    fn page_nans(&self, indexed: Option<&IndexedBytes>) -> usize {
        if self.meaning != ByteMeaning::HalfFloat {
            return 0;
        }
        let is_nan = |bytes: &[u8]| stats::is_half_nan(half_bits(bytes));
        let Some(indexed) = indexed else {
            let values = self.data.chunks_exact(size_of::<u16>());
            return values.filter(|bytes| is_nan(bytes)).count();
        };
        let entries = indexed.dictionary.entries();
        let is_nan = |index: u32| is_nan(entries.value(index as usize));
        each_width!(&indexed.indices, 0, indices => {
            numbers(indices).filter(|index| is_nan(*index)).count()
        })
    }

    /// Appends the values in `data` from the one at `start` on, which are not behind their lengths there.
    fn encode_held(&mut self, encoding: Encoding, start: usize, out: &mut Vec<u8>) -> Encoding {
        let form = (encoding, self.width);
        if let Some(width) = self.width {
            let data = &self.data[start * width..];
            let count = data.len() / width.max(1);
            return append_direct(&FixedSize { data, width, count }, form, &mut self.scratch, out);
        }
        let offsets = offsets(&self.lengths[start..]);
        let bytes = offsets.last().map_or(0, |end| end.cast_unsigned() as usize);
        let values = Offsets {
            offsets: &offsets,
            data: &self.data[self.data.len() - bytes..],
        };
        append_direct(&values, form, &mut self.scratch, out)
    }

    /// Puts the length of each of the page's values in front of it.
    fn lay_out_plain(&mut self) {
        let joined = std::mem::take(&mut self.data);
        let values = Offsets {
            offsets: &offsets(&self.lengths),
            data: &joined,
        };
        plain::encode_byte_arrays(&values, &mut self.data);
        self.lengths.clear();
    }

    /// Truncates min and max to [`BOUND_BYTES`]. There is no max where the truncated one cannot be incremented: all of
    /// it is 0xFF, or U+10FFFF in text.
    fn short<'a>(&self, (min, max): &'a (Vec<u8>, Vec<u8>)) -> (Bound<'a>, Option<Bound<'a>>) {
        if let Some(content) = self.meaning.content() {
            return (
                stats::lower_bound(min, BOUND_BYTES, content),
                stats::upper_bound(max, BOUND_BYTES, content),
            );
        }
        let whole = |value: &'a Vec<u8>| Bound {
            bytes: value.into(),
            exact: true,
        };
        (whole(min), Some(whole(max)))
    }
}

/// The layout of a page's values before it is finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Each behind its length.
    Plain,
    /// One behind the other.
    Joined,
    /// One behind the other, and their lengths apart.
    JoinedWithLengths,
}

impl Form {
    fn lay_out<V: ByteArrays>(self, values: &V, data: &mut Vec<u8>, lengths: &mut Vec<i32>) {
        match self {
            Self::Plain => plain::encode_byte_arrays(values, data),
            Self::Joined => plain::encode_fixed_size(values, data),
            Self::JoinedWithLengths => {
                plain::encode_fixed_size(values, data);
                values.lengths(lengths);
            }
        }
    }
}

/// Adds the values of a piece to a page.
struct Adding<'a> {
    meaning: ByteMeaning,
    form: Form,
    indexed: Option<&'a mut IndexedBytes>,
    data: &'a mut Vec<u8>,
    lengths: &'a mut Vec<i32>,
    unencoded: &'a mut u64,
    range: &'a mut Option<(Vec<u8>, Vec<u8>)>,
}

impl Taker for Adding<'_> {
    type Out = usize;

    fn take<V: ByteArrays>(self, values: &V) -> usize {
        if let Some(DictionaryEncoder {
            dictionary, indices, ..
        }) = self.indexed
        {
            let taken = dictionary.encode(values, indices);
            let taken_values = RowRange {
                values,
                start: 0,
                count: taken,
            };
            *self.unencoded += bytes_of(&taken_values);
            return taken;
        }
        if let Some(range) = self.meaning.range(values) {
            widen(self.range, range, self.meaning.compare());
        }
        *self.unencoded += bytes_of(values);
        self.form.lay_out(values, self.data, self.lengths);
        values.len()
    }
}

/// The offsets of values with these lengths, one behind the other.
fn offsets(lengths: &[i32]) -> Vec<i32> {
    let mut end = 0;
    let ends = lengths.iter().map(|length| {
        end += length;
        end
    });
    std::iter::once(0).chain(ends).collect()
}

/// Appends a page of values in an encoding. Returns the encoding, which is PLAIN for those that it does not suit.
fn append_direct<V: ByteArrays>(
    values: &V,
    (encoding, width): (Encoding, Option<usize>),
    scratch: &mut LengthScratch,
    out: &mut Vec<u8>,
) -> Encoding {
    match (encoding, width) {
        (Encoding::DeltaLengthByteArray, None) => {
            let mut lengths = Vec::new();
            values.lengths(&mut lengths);
            let joined = |out: &mut Vec<u8>| plain::encode_fixed_size(values, out);
            delta_bytes::encode_delta_length_byte_array(&lengths, joined, out);
        }
        (Encoding::DeltaByteArray, _) => delta_bytes::encode_delta_byte_array(values, scratch, out),
        (Encoding::ByteStreamSplit, Some(width)) => {
            let mut copied = Vec::new();
            let joined = values.joined(0, values.len()).unwrap_or_else(|| {
                plain::encode_fixed_size(values, &mut copied);
                &copied
            });
            byte_stream_split::encode(joined, width, out);
        }
        (_, width) => {
            match width {
                None => plain::encode_byte_arrays(values, out),
                Some(_) => plain::encode_fixed_size(values, out),
            }
            return Encoding::Plain;
        }
    }
    encoding
}

fn bytes_of<V: ByteArrays>(values: &V) -> u64 {
    values.total_bytes() as u64
}

fn widen(
    range: &mut Option<(Vec<u8>, Vec<u8>)>,
    (min, max): (Vec<u8>, Vec<u8>),
    compare: fn(&Vec<u8>, &Vec<u8>) -> Ordering,
) {
    match range {
        None => *range = Some((min, max)),
        Some((least, most)) => {
            if compare(&min, least) == Ordering::Less {
                *least = min;
            }
            if compare(&max, most) == Ordering::Greater {
                *most = max;
            }
        }
    }
}

/// The number of rows that go into `room` bytes, each value with its length. Nulls take nothing.
fn rows_within(lengths: impl Iterator<Item = Option<usize>>, room: usize) -> usize {
    let mut used = 0;
    lengths
        .take_while(|length| {
            used += length.map_or(0, |length| length + size_of::<u32>());
            used <= room
        })
        .count()
}

/// The number of rows of a piece whose values go into `room` bytes.
fn piece_within(values: &RunValues<'_>, piece: Piece<'_>, room: usize) -> usize {
    match values {
        // What lies under nulls is counted in: if even that fits, everything does.
        RunValues::Small(values) if span(values, piece) <= room => piece.rows,
        RunValues::Large(values) if span(values, piece) <= room => piece.rows,
        RunValues::Small(values) => rows_within(piece.lengths(|row| values.value_len(row)), room),
        RunValues::Large(values) => rows_within(piece.lengths(|row| values.value_len(row)), room),
        RunValues::Views { views, buffers } => {
            let views = Views { views, buffers };
            rows_within(piece.lengths(|row| views.value_len(row)), room)
        }
        RunValues::Fixed(values) => piece.rows_with(room / values.width.max(1)),
        RunValues::Keys { keys, values, .. } => {
            // They have no lengths in the page, with keys or without.
            if let RunValues::Fixed(values) = values.as_ref() {
                return piece.rows_with(room / values.width.max(1));
            }
            let mut rows = Vec::new();
            keys.rows(
                Piece {
                    validity: None,
                    ..piece
                },
                &mut rows,
            );
            let length = |row: usize| keyed_length(values, rows[row - piece.start]);
            rows_within(piece.lengths(length), room)
        }
        _ => piece.rows,
    }
}

/// The length of the value that a valid key refers to.
fn keyed_length(values: &RunValues<'_>, row: u32) -> usize {
    match values {
        RunValues::Small(values) => values.value_len(row as usize),
        RunValues::Large(values) => values.value_len(row as usize),
        RunValues::Views { views, buffers } => Views { views, buffers }.value_len(row as usize),
        _ => 0,
    }
}

fn span<O: Copy + Into<i64>>(values: &Offsets<'_, O>, piece: Piece<'_>) -> usize {
    values
        .joined(piece.start, piece.start + piece.rows)
        .map_or(0, <[u8]>::len)
        + piece.rows * size_of::<u32>()
}

impl ValueEncoder for ByteValues {
    type Dictionary = ByteDictionary;

    fn fitting(
        &self,
        run: &RunValues<'_>,
        piece: Piece<'_>,
        page: usize,
        indexed: Option<&IndexedBytes>,
    ) -> usize {
        let held = match indexed {
            Some(_) => self.direct_bytes(Encoding::Plain, indexed),
            None => self.data.len() + self.lengths.len() * size_of::<i32>(),
        };
        piece_within(run, piece, page.saturating_sub(held))
    }

    fn append(
        &mut self,
        run: &RunValues<'_>,
        piece: Piece<'_>,
        indexed: Option<&mut IndexedBytes>,
    ) -> Result<usize> {
        if let RunValues::Keys { keys, values, .. } = run {
            keys.rows(piece, &mut self.rows);
            return Ok(match values.as_ref() {
                RunValues::Small(values) => self.append_keyed(values, indexed),
                RunValues::Large(values) => self.append_keyed(values, indexed),
                RunValues::Views { views, buffers } => self.append_keyed(&Views { views, buffers }, indexed),
                RunValues::Fixed(values) => self.append_keyed(values, indexed),
                _ => return Err(mismatch()),
            });
        }
        let (adding, skipped) = self.taker(indexed);
        Ok(match run {
            RunValues::Small(values) => piece.offsets(values, skipped, adding),
            RunValues::Large(values) => piece.offsets(values, skipped, adding),
            RunValues::Views { views, buffers } => piece.views(views, buffers, skipped, adding),
            RunValues::Fixed(values) => piece.fixed(values, skipped, adding),
            _ => return Err(mismatch()),
        })
    }

    fn dropped(&mut self, dictionary: &ByteDictionary, indices: &[u32]) {
        let entries = dictionary.entries();
        let bytes = indices
            .iter()
            .map(|index| entries.value_len(*index as usize) as u64);
        self.unencoded -= bytes.sum::<u64>();
    }

    fn take_out(&mut self, indexed: &mut IndexedBytes) {
        self.range = self.page_range(Some(indexed));
        let values = Picked {
            values: &indexed.dictionary.entries(),
            rows: &indexed.indices.to_vec(0),
        };
        self.form().lay_out(&values, &mut self.data, &mut self.lengths);
    }

    fn set_encoding(&mut self, encoding: Encoding) {
        debug_assert!(
            self.undecided || self.data.is_empty(),
            "values that are held are in the layout of the open decision"
        );
        self.undecided = false;
        self.encoding = encoding;
        if self.form() == Form::Plain {
            self.lay_out_plain();
        }
    }

    fn encode_direct(
        &mut self,
        encoding: Encoding,
        start: usize,
        indexed: Option<&IndexedBytes>,
        out: &mut Vec<u8>,
    ) {
        let form = (encoding, self.width);
        if let Some(indexed) = indexed {
            let values = Picked {
                values: &indexed.dictionary.entries(),
                rows: &indexed.indices.to_vec(start),
            };
            append_direct(&values, form, &mut self.scratch, out);
        } else {
            self.encode_held(encoding, start, out);
        }
    }

    fn direct_bytes(&self, _: Encoding, indexed: Option<&IndexedBytes>) -> usize {
        let values = indexed.map_or(self.lengths.len(), |indexed| indexed.indices.len());
        let lengths = if self.width.is_none() {
            values * size_of::<u32>()
        } else {
            0
        };
        usize::try_from(self.unencoded).map_or(usize::MAX, |bytes| bytes.saturating_add(lengths))
    }

    fn encode(&mut self, out: &mut Vec<u8>) -> Encoding {
        let encoding = match self.encoding {
            // A page of too few values to decide by.
            _ if self.undecided => Encoding::Plain,
            encoding => encoding,
        };
        match (encoding, self.form()) {
            _ if self.data.is_empty() && self.lengths.is_empty() => Encoding::Plain,
            (_, Form::Plain) => {
                out.extend_from_slice(&self.data);
                Encoding::Plain
            }
            (Encoding::DeltaLengthByteArray, Form::JoinedWithLengths) => {
                let joined = |out: &mut Vec<u8>| out.extend_from_slice(&self.data);
                delta_bytes::encode_delta_length_byte_array(&self.lengths, joined, out);
                Encoding::DeltaLengthByteArray
            }
            _ => self.encode_held(encoding, 0, out),
        }
    }

    fn finish(&mut self, indexed: Option<&mut IndexedBytes>) -> PageFacts {
        let indices = indexed.as_ref().map_or(0, |indexed| indexed.indices.len());
        let empty = indices == 0 && self.data.is_empty() && self.lengths.is_empty();
        let nans = self.page_nans(indexed.as_deref());
        self.nans += nans as u64;
        let range = self.page_range(indexed).filter(|_| nans == 0);
        let bounds = range.and_then(|range| {
            let (min, max) = self.short(&range);
            let stored = max.map(|max| (min.bytes.into_owned(), max.bytes.into_owned()));
            self.ranges.note(range, stored.clone());
            stored
        });
        let has_bounds = bounds.is_some() || empty;
        let facts = PageFacts {
            bounds,
            has_bounds,
            value_bytes: self.width.is_none().then_some(self.unencoded),
        };
        self.data.clear();
        self.lengths.clear();
        self.unencoded = 0;
        facts
    }

    fn statistics(&self, nulls: u64) -> Statistics {
        let range = self.ranges.whole().filter(|_| self.nans == 0);
        let (min, max) = range.map(|range| self.short(range)).unzip();
        let [min, max] = [min, max.flatten()];
        let [min_exact, max_exact] = [&min, &max].map(|bound| bound.as_ref().is_none_or(|bound| bound.exact));
        let [min, max] = [min, max].map(|bound| bound.map(|bound| bound.bytes.into_owned()));
        if self.width.is_none() {
            let [min, max] = [min, max].map(|bytes| bytes.map(ByteArray::from));
            let statistics = ValueStatistics::new(min, max, None, Some(nulls), false)
                .with_min_is_exact(min_exact)
                .with_max_is_exact(max_exact);
            Statistics::ByteArray(statistics)
        } else {
            let [min, max] = [min, max].map(|bytes| bytes.map(FixedLenByteArray::from));
            let is_float = self.meaning == ByteMeaning::HalfFloat;
            let statistics = ValueStatistics::new(min, max, None, Some(nulls), false)
                .with_min_is_exact(min_exact)
                .with_max_is_exact(max_exact)
                .with_nan_count(is_float.then_some(self.nans));
            Statistics::FixedLenByteArray(statistics)
        }
    }

    fn boundary_order(&self) -> BoundaryOrder {
        self.ranges.order()
    }

    fn pending_bytes(&self) -> usize {
        let mut lengths = Vec::new();
        if !self.lengths.is_empty() {
            delta::encode(&self.lengths, &mut lengths);
        }
        self.data.len() + lengths.len()
    }

    fn memory_bytes(&self) -> usize {
        let range = self.range.iter().flat_map(|(min, max)| [min, max]);
        let bounds = range.chain(self.ranges.bounds());
        bounds.map(Vec::capacity).sum::<usize>()
            + (self.rows.capacity() + self.lengths.capacity()) * size_of::<u32>()
            + self.data.capacity()
            + self.skipped.memory_bytes()
            + self.scratch.memory_bytes()
    }
}
