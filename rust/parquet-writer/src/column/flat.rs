//! Column chunks of leaf columns.

mod account;
mod bools;
mod bytes;
mod contest;
mod cuts;
mod decide;
mod dictionary;
mod geometries;
mod hashes;
mod heads;
mod levels;
mod numbers;
mod page_index;
mod piece;
mod preserved;
mod ranges;
mod run;
mod source;
mod values;

use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use parquet::basic::{Encoding, LogicalType, Type};
use parquet::schema::types::{ColumnDescPtr, ColumnDescriptor};
use parquet_encode::dictionary::{ByteDictionary, NumberDictionary};
use parquet_encode::page_header::{Encoding as PageEncoding, PageContent};

pub(crate) use preserved::{Preserved, all_texts};
pub(super) use run::{Repetition, RunLevels};
pub(crate) use source::is_flat;

use super::{EncodedChunk, FieldEncoder, in_column};
use crate::budget::Budget;
use crate::choose::{Choice, Reason};
use crate::error::Result;
use crate::int96;
use crate::metadata_size;
use crate::options::WriterOptions;
use crate::pages::{ChunkPages, Filter};
use account::{Account, Count};
use bools::Bools;
use bytes::{ByteMeaning, ByteValues};
use contest::Contest;
use cuts::Cuts;
use dictionary::DictionaryEncoder;
use geometries::Geometries;
use levels::PageLevels;
use numbers::{IntegerOrder, Numbers};
use piece::Piece;
use run::Run;
use source::{RunValues, Scratch};
use values::ValueEncoder;

/// Encodes one leaf column of one row group, given the levels of its slots.
pub(super) trait LeafEncoder: FieldEncoder {
    /// Returns true if validity bits are all the levels that there are.
    fn has_bits_for_levels(&self) -> bool;

    /// Encodes the rows of a run, whose slots are those of `array`, null where `nulls` says so.
    ///
    /// The array comes from [`plain_values`]; `levels` may be left out where [`Self::has_bits_for_levels`].
    fn write_run(
        &mut self,
        array: &ArrayRef,
        nulls: Option<&NullBuffer>,
        levels: Option<RunLevels<'_>>,
        rows: usize,
    ) -> Result<()>;
}

/// Encodes one leaf column of one row group, of one physical type.
struct FlatEncoder<V: ValueEncoder> {
    column: ColumnDescPtr,
    page_bytes: usize,
    budget: Budget,
    /// Bytes of a dictionary page that the caller allows.
    dictionary_bytes: usize,
    filter: Option<Filter>,
    geometries: Option<Geometries>,
    values: V,
    /// The dictionary that values go through, while pages get indices.
    dictionary: Option<DictionaryEncoder<V::Dictionary>>,
    /// The dictionary that earlier pages refer to, after fallback.
    ended: Option<DictionaryEncoder<V::Dictionary>>,
    levels: PageLevels,
    page: Count,
    scratch: Scratch,
    pages: ChunkPages,
    account: Account,
    /// The bit widths of indices, by class of the width that they need, each chosen by trial on one page.
    index_widths: [Option<u8>; WHOLE_BYTES.len()],
    choice: Choice,
    /// A dictionary that pages go on to be weighed against.
    contest: Option<Contest>,
    /// The rows that pages end with, where their content says so.
    cuts: Option<Cuts>,
}

/// Widths of indices in bits that may compress better in whole bytes, where a codec finds values that come again. Rows
/// whose values are in order need them most.
const WHOLE_BYTES: [(RangeInclusive<u8>, u8); 4] = [(4..=7, 8), (9..=12, 16), (13..=15, 16), (17..=23, 24)];
/// The last indices of a page that widths are tried on.
const INDICES_TRIED: usize = 4096;
/// Indices of a page, of more than a byte, below which a trial takes longer than its result is worth.
const FEWEST_INDICES: usize = 2048;

/// Bytes of the widest values of one size that have bounds. Those of a page are as long as two of its values, and an
/// embedding or an image is not looked for by its bounds.
const MOST_FIXED_BOUND: i32 = 256;

/// Rows of the first page after which the chunk's encoding is decided.
const ROWS_BEFORE_DECISION: usize = 20_000;

/// The reason why a page ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PageEnd {
    /// It is full.
    Page,
    /// Nothing follows.
    Chunk,
}

/// An encoder of a leaf column's physical type.
///
/// Its dictionary begins with those that rows come with, if a dictionary was chosen and has room for them.
pub(super) fn leaf_encoder(
    column: ColumnDescPtr,
    mut choice: Choice,
    preserved: Option<Preserved>,
    options: &WriterOptions,
    pages: ChunkPages,
) -> Box<dyn LeafEncoder> {
    choice.limits.bytes = match options.memory_limit {
        None => options.dictionary_page_bytes,
        Some(_) => choice.limits.bytes.min(options.dictionary_page_bytes),
    };
    let has_memory_limit = options.budget.dictionaries.is_some();
    let limits = choice.dictionary.then_some(choice.limits);
    let preserved = limits.and_then(|limits| preserved?.within(limits, has_memory_limit));
    if preserved.is_some() {
        choice.trial = None;
        choice.reason = Some(Reason::Given);
    }
    let (encoding, undecided) = (page_encoding(choice.encoding), choice.trial.is_some());
    let order = if is_unsigned(&column) {
        IntegerOrder::Unsigned
    } else {
        IntegerOrder::Signed
    };
    let (meaning, width) = (meaning(&column), width(&column));
    macro_rules! encoder {
        ($values:expr, $dictionary:expr) => {
            Box::new(FlatEncoder::new(
                column,
                ($values, $dictionary),
                choice,
                options,
                pages,
            ))
        };
    }
    macro_rules! numbers {
        ($type:ty) => {{
            let dictionary = limits.map(NumberDictionary::new).map(DictionaryEncoder::new);
            encoder!(Numbers::<$type>::new(order, encoding), dictionary)
        }};
    }
    match column.physical_type() {
        Type::BOOLEAN => encoder!(Bools::new(encoding), None),
        Type::INT32 => numbers!(i32),
        Type::INT64 => numbers!(i64),
        Type::FLOAT => numbers!(f32),
        Type::DOUBLE => numbers!(f64),
        Type::BYTE_ARRAY => {
            let empty = || limits.map(ByteDictionary::new).map(DictionaryEncoder::new);
            let dictionary = preserved.map(DictionaryEncoder::preserved).or_else(empty);
            encoder!(ByteValues::new(meaning, None, encoding, undecided), dictionary)
        }
        Type::FIXED_LEN_BYTE_ARRAY | Type::INT96 => {
            let dictionary = limits.map(ByteDictionary::fixed_size).map(DictionaryEncoder::new);
            encoder!(
                ByteValues::new(meaning, Some(width), encoding, undecided),
                dictionary
            )
        }
    }
}

impl<V: ValueEncoder> FlatEncoder<V> {
    fn new(
        column: ColumnDescPtr,
        (values, dictionary): (V, Option<DictionaryEncoder<V::Dictionary>>),
        choice: Choice,
        options: &WriterOptions,
        pages: ChunkPages,
    ) -> Self {
        Self {
            levels: PageLevels::new(&column, options.budget.page_rows),
            filter: pages.filter().filter(|_| column.physical_type() != Type::BOOLEAN),
            geometries: Geometries::of(&column).filter(|_| pages.has_statistics()),
            account: Account::new(&column, has_bounds(&column)),
            column,
            page_bytes: options.page_bytes,
            budget: options.budget,
            dictionary_bytes: options.dictionary_page_bytes,
            values,
            dictionary,
            ended: None,
            page: Count::default(),
            scratch: Scratch::default(),
            pages,
            index_widths: [None; WHOLE_BYTES.len()],
            choice,
            contest: None,
            cuts: options.chunk_sizes.map(Cuts::new),
        }
    }

    fn write_rows(&mut self, run: &Run<'_>) -> Result<()> {
        if let Some(cuts) = &mut self.cuts {
            cuts.begin(run);
        }
        let mut start = 0;
        while let Some(end) = self.cuts.as_mut().and_then(|cuts| cuts.next(run, start)) {
            self.write_some(run, start, end)?;
            self.finish_page(PageEnd::Page)?;
            start = end;
        }
        self.write_some(run, start, run.rows)
    }

    /// Writes the rows of a run from `start` to `end`.
    fn write_some(&mut self, run: &Run<'_>, mut start: usize, end: usize) -> Result<()> {
        while start < end {
            let room = self.room(run, start).min(end - start);
            if room == 0 {
                if !self.decide(PageEnd::Page)? {
                    self.finish_page(PageEnd::Page)?;
                }
                continue;
            }
            let piece = run.piece(start, room);
            let valid = piece.valid();
            let taken = match run.values.filter(|_| valid > 0) {
                Some(values) => self.values.append(values, piece, self.dictionary.as_mut())?,
                None => 0,
            };
            let full = run.values.is_some() && taken < valid;
            let (rows, taken) = if full {
                self.keep_whole_rows(run, start, room, taken)
            } else {
                (room, taken)
            };
            self.count_rows(run, start, rows, taken);
            start += rows;
            if full {
                // The page so far keeps its indices; the rest of the chunk does without.
                self.finish_page(PageEnd::Page)?;
                self.fall_back();
                if self.choice.dictionary {
                    self.choice.reason = Some(Reason::Full);
                }
            }
        }
        Ok(())
    }

    /// The number of rows from `start` that the page takes in one piece; at least one when it is empty.
    fn room(&self, run: &Run<'_>, start: usize) -> usize {
        let rows = run
            .rows_together(start, self.budget.piece_rows)
            .min(self.page_rows() - self.page.rows);
        let entries = self.levels.capacity(self.page_bytes);
        let rows = run.rows_with_entries(start, rows, entries.saturating_sub(self.page.entries));
        let room = self.value_room();
        let fitting = run.values.filter(|_| rows > 0).map_or(rows, |values| {
            let piece = run.piece(start, rows);
            let slots = self.slots_fitting(values, piece, room);
            run.rows_before(start, rows, piece.start + slots)
        });
        if self.page.rows == 0 {
            fitting.max(1)
        } else {
            fitting
        }
    }

    /// The number of slots of a piece that the page takes until its values fill `room` bytes. Until the encoding is
    /// decided, it must have room for them with a dictionary and without.
    fn slots_fitting(&self, values: &RunValues<'_>, piece: Piece<'_>, room: usize) -> usize {
        let indexed = self.dictionary.as_ref();
        let without = || self.values.fitting(values, piece, room, indexed);
        match indexed.map(|indexed| piece.rows_with(indexed.room(room))) {
            Some(rows) if self.choice.trial.is_none() => rows,
            Some(rows) => rows.min(without()),
            None => without(),
        }
    }

    /// Rows of the page, or those after which the encoding is decided where that is open: what comes before may be
    /// encoded twice.
    fn page_rows(&self) -> usize {
        let rows = self.budget.page_rows;
        if self.choice.trial.is_some() {
            rows.min(ROWS_BEFORE_DECISION)
        } else {
            rows
        }
    }

    /// Bytes of a page for its values.
    fn value_room(&self) -> usize {
        self.page_bytes
            .saturating_sub(self.levels.most_bytes(self.page_bytes))
    }

    /// Cuts the page back to whole rows, since no row may span pages. Of `rows` rows it has `taken` values. Returns the
    /// number of rows that are complete and the number of their values; those of the row behind them are dropped.
    fn keep_whole_rows(&mut self, run: &Run<'_>, start: usize, rows: usize, taken: usize) -> (usize, usize) {
        let piece = run.piece(start, rows);
        let rows = run.rows_before(start, rows, piece.start + piece.rows_with(taken));
        let kept = run.piece(start, rows).valid();
        // Only a dictionary takes fewer values than it is given.
        if let Some(indexed) = &mut self.dictionary {
            let dropped = indexed.drop_last(taken - kept);
            self.values.dropped(&indexed.dictionary, &dropped);
        }
        (rows, kept)
    }

    fn count_rows(&mut self, run: &Run<'_>, start: usize, rows: usize, valid: usize) {
        self.levels.append(run, start, rows, valid);
        let entries = run.entries(start, rows).len();
        self.page.rows += rows;
        self.page.entries += entries;
        self.page.nulls += entries - valid;
        if rows > 0 && self.account.count.rows == 0 && self.page.rows == rows {
            self.look_at_first_piece();
        }
    }

    /// Chooses the least width of the page's indices in bits: whole bytes where those compress better, else 0.
    fn index_width(&mut self) -> Result<u8> {
        let Some(indexed) = &self.dictionary else {
            return Ok(0);
        };
        let width = indexed.width();
        let Some(class) = WHOLE_BYTES.iter().position(|(widths, _)| widths.contains(&width)) else {
            return Ok(0);
        };
        let (whole_bytes, values) = (WHOLE_BYTES[class].1, self.page.entries - self.page.nulls);
        let fits = values * usize::from(whole_bytes / 8) <= self.page_bytes;
        if !self.pages.counts_symbols() || !fits || (whole_bytes > 8 && values < FEWEST_INDICES) {
            return Ok(0);
        }
        if let Some(width) = self.index_widths[class] {
            return Ok(width);
        }
        let start = values.saturating_sub(INDICES_TRIED);
        let size = |width| {
            self.pages.compressed_size_of(&mut |out| {
                self.page.begin(start, &self.levels, out);
                indexed.encode_from(start, width, out);
            })
        };
        let certain = class == 0 && indexed.suits_bytes(start);
        let width = if certain || size(whole_bytes)? < size(0)? {
            whole_bytes
        } else {
            0
        };
        self.index_widths[class] = Some(width);
        Ok(width)
    }

    /// Dictionary fallback: goes on without the dictionary. The page must be empty.
    fn fall_back(&mut self) {
        if let Some(mut indexed) = self.dictionary.take() {
            indexed.end();
            self.ended = Some(indexed);
        }
    }

    /// The body of the dictionary page and how many entries it has.
    fn dictionary_page(&self) -> Option<(&[u8], usize)> {
        self.dictionary.as_ref().or(self.ended.as_ref())?.page()
    }

    /// Gives up a dictionary that has cost more than it saved since the first page.
    fn watch(&mut self, values: usize, page_bytes: u64) {
        let dictionary = self.dictionary_page().map_or(0, |(page, _)| page.len());
        let page_bytes = usize::try_from(page_bytes).unwrap_or(usize::MAX);
        let contest = self.contest.as_mut();
        if contest.is_some_and(|contest| contest.is_lost(values, page_bytes, dictionary)) {
            self.contest = None;
            self.fall_back();
            self.choice.reason = Some(Reason::Outweighed);
        }
    }

    fn finish_page(&mut self, end: PageEnd) -> Result<()> {
        let Count { rows, entries, nulls } = self.page;
        if rows == 0 {
            return Ok(());
        }
        self.decide(end)?;
        let index_width = self.index_width()?;
        let before = self.pages.bytes();
        let Self {
            values,
            dictionary,
            levels,
            ..
        } = self;
        let mut encoding = PageEncoding::Plain;
        // A contest weighs each page.
        let is_weighed = self.contest.is_some();
        self.pages.add(is_weighed, &mut |out| {
            levels.encode(entries, nulls, out);
            encoding = match dictionary {
                Some(indexed) if indexed.encode(index_width, out) => PageEncoding::RleDictionary,
                _ => values.encode(out),
            };
            PageContent::Data {
                values: entries,
                encoding,
            }
        })?;
        if encoding == PageEncoding::Plain && self.column.max_rep_level() > 0 {
            // A page without values had no dictionary to name yet. Spark's vectorized reader fails when one with
            // indices follows it in a column that repeats.
            self.fall_back();
        }
        let facts = self.values.finish(self.dictionary.as_mut());
        if let Some(indexed) = &mut self.dictionary {
            indexed.finish();
        }
        let histograms = self.levels.histograms(entries, nulls);
        let indexes = self.account.memory_bytes();
        self.account
            .note_page((encoding, &facts), self.page, &histograms)?;
        self.pages.note_metadata(indexes, self.account.memory_bytes());
        self.levels.clear();
        self.page = Count::default();
        self.watch(entries - nulls, self.pages.bytes() - before);
        Ok(())
    }
}

/// The bytes of a value, where all values have the same length.
fn width(column: &ColumnDescriptor) -> usize {
    match column.physical_type() {
        Type::INT96 => int96::WIDTH,
        _ => usize::try_from(column.type_length()).unwrap_or(0),
    }
}

fn is_unsigned(column: &ColumnDescriptor) -> bool {
    matches!(column.logical_type_ref(), Some(LogicalType::Integer(integer)) if !integer.is_signed)
}

/// Returns true if the column's values have bounds: readers agree on an order of them, and they are not too wide.
fn has_bounds(column: &ColumnDescriptor) -> bool {
    match (column.physical_type(), column.logical_type_ref()) {
        (Type::INT96, _) | (_, Some(LogicalType::Geometry(_) | LogicalType::Geography(_))) => false,
        (Type::FIXED_LEN_BYTE_ARRAY, _) => column.type_length() <= MOST_FIXED_BOUND,
        _ => true,
    }
}

fn meaning(column: &ColumnDescriptor) -> ByteMeaning {
    if !has_bounds(column) {
        return ByteMeaning::Unordered;
    }
    match column.logical_type_ref() {
        Some(LogicalType::String | LogicalType::Json | LogicalType::Enum) => ByteMeaning::Text,
        Some(LogicalType::Decimal { .. }) => ByteMeaning::Decimal,
        Some(LogicalType::Float16) => ByteMeaning::HalfFloat,
        _ if column.physical_type() == Type::FIXED_LEN_BYTE_ARRAY => ByteMeaning::FixedSize,
        _ => ByteMeaning::Binary,
    }
}

fn page_encoding(encoding: Encoding) -> PageEncoding {
    match encoding {
        Encoding::RLE => PageEncoding::Rle,
        Encoding::DELTA_BINARY_PACKED => PageEncoding::DeltaBinaryPacked,
        Encoding::DELTA_LENGTH_BYTE_ARRAY => PageEncoding::DeltaLengthByteArray,
        Encoding::DELTA_BYTE_ARRAY => PageEncoding::DeltaByteArray,
        Encoding::BYTE_STREAM_SPLIT => PageEncoding::ByteStreamSplit,
        _ => PageEncoding::Plain,
    }
}

impl<V: ValueEncoder> LeafEncoder for FlatEncoder<V> {
    fn has_bits_for_levels(&self) -> bool {
        self.levels.are_bits()
    }

    fn write_run(
        &mut self,
        array: &ArrayRef,
        nulls: Option<&NullBuffer>,
        levels: Option<RunLevels<'_>>,
        rows: usize,
    ) -> Result<()> {
        let data = array.to_data();
        let mut scratch = std::mem::take(&mut self.scratch);
        let width = width(&self.column);
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        let values = if nulls.map_or(0, NullBuffer::null_count) == data.len() {
            None
        } else {
            let physical = (self.column.physical_type(), width);
            Some(source::values(&data, physical, &mut scratch)?)
        };
        if let Some(values) = &values {
            // Under a limit, room is made as values come: rows of lists may have many or none.
            let present = data.len() - nulls.map_or(0, NullBuffer::null_count);
            let room = if self.budget.is_limited() {
                0
            } else {
                rows.min(present).min(self.budget.page_rows - self.page.rows)
            };
            match &mut self.dictionary {
                Some(indexed) => indexed.begin(values, room),
                None => self.values.reserve(room),
            }
        }
        if let (Some(filter), Some(values)) = (&mut self.filter, &values) {
            let halves = matches!(self.column.logical_type_ref(), Some(LogicalType::Float16));
            hashes::insert(filter, (values, halves), nulls, data.len());
        }
        if let (Some(geometries), Some(values)) = (&mut self.geometries, &values) {
            geometries.add(values, nulls, data.len());
        }
        let written = self.write_rows(&Run {
            values: values.as_ref(),
            nulls,
            levels,
            rows,
        });
        drop(values);
        if !self.budget.is_limited() {
            self.scratch = scratch;
        }
        written
    }
}

impl<V: ValueEncoder> FieldEncoder for FlatEncoder<V> {
    fn write(&mut self, run: &ArrayRef) -> Result<()> {
        let run = plain_values(run)?;
        self.write_run(&run, nulls(&run).as_ref(), None, run.len())
            .map_err(|error| in_column(&self.column.path().string(), error))
    }

    fn preserve(&mut self, _: usize, values: &ArrayRef) -> Result<()> {
        let room = self.value_room();
        let add = |encoder: &mut Self| {
            let indexed = encoder.dictionary.as_mut();
            indexed.is_none_or(|indexed| indexed.preserve(values, room))
        };
        if !add(self) {
            // Wider indices would make the page too large.
            self.finish_page(PageEnd::Page)
                .map_err(|error| in_column(&self.column.path().string(), error))?;
            add(self);
        }
        Ok(())
    }

    fn tracked_bytes(&self) -> usize {
        let dictionary = self.dictionary.as_ref().or(self.ended.as_ref());
        self.values.memory_bytes()
            + dictionary.map_or(0, DictionaryEncoder::memory_bytes)
            + self.levels.memory_bytes()
            + self.scratch.memory_bytes()
            + self.filter.as_ref().map_or(0, Filter::memory_bytes)
            + self.cuts.as_ref().map_or(0, Cuts::memory_bytes)
    }

    fn filter_bytes(&self) -> u64 {
        self.filter.as_ref().map_or(0, Filter::stored_bytes) as u64
    }

    fn encoded_bytes(&self) -> u64 {
        let indexed = self.dictionary.as_ref();
        let dictionary = self.dictionary_page().map_or(0, |(page, _)| page.len());
        let levels = self.levels.pending_bytes(self.page.entries);
        let indices = indexed.map_or(0, DictionaryEncoder::pending_bytes);
        let with_dictionary = indices + self.values.pending_bytes() + dictionary;
        let direct = self.choice.trial.iter().flat_map(|trial| trial.direct);
        let values = direct
            .map(|encoding| self.values.direct_bytes(page_encoding(*encoding), indexed))
            .fold(with_dictionary, usize::min);
        self.pages.bytes() + (values + levels) as u64
    }

    fn close(mut self: Box<Self>, each: &mut dyn FnMut(EncodedChunk) -> Result<()>) -> Result<()> {
        self.finish_page(PageEnd::Chunk)
            .map_err(|error| in_column(&self.column.path().string(), error))?;
        let choice = self.choice;
        let Self {
            column,
            values,
            dictionary,
            ended,
            pages,
            account,
            filter,
            geometries,
            ..
        } = *self;
        let dictionary = dictionary.or(ended);
        let page = dictionary.as_ref().and_then(DictionaryEncoder::page);
        if let Some((page, entries)) = page {
            pages.add(true, &mut |out| {
                out.extend_from_slice(page);
                PageContent::Dictionary { entries }
            })?;
        }
        let valid = account.count.entries - account.count.nulls;
        let (has_indices_only, indexes) = (account.has_indices_only(), account.memory_bytes());
        let mut close = account.close(column, &values, page.is_some())?;
        let distinct = match page {
            Some((_, entries)) if has_indices_only => entries,
            // Readers add the plain values to all entries of the page.
            Some((_, entries)) => entries + valid,
            None => valid,
        };
        drop(values);
        let preserved = dictionary.and_then(DictionaryEncoder::into_preserved);
        if let Some(filter) = filter {
            close.bloom_filter = filter.close()?;
        }
        if let Some(statistics) = geometries.and_then(Geometries::close) {
            let metadata = close.metadata.into_builder();
            close.metadata = metadata.set_geo_statistics(Box::new(statistics)).build()?;
        }
        let close = pages.settle(close)?;
        pages.note_metadata(indexes, metadata_size::of_chunk(&close));
        each(EncodedChunk {
            close,
            pages,
            distinct,
            preserved,
            choice,
        })
    }
}

/// The nulls of an array from [`plain_values`].
pub(super) fn nulls(run: &ArrayRef) -> Option<NullBuffer> {
    if run.data_type().is_null() {
        return Some(NullBuffer::new_null(run.len()));
    }
    run.nulls().filter(|nulls| nulls.null_count() > 0).cloned()
}

/// The run, with its dictionary unless that is empty, has nulls, or holds booleans, which get no dictionary.
pub(super) fn plain_values(run: &ArrayRef) -> Result<ArrayRef> {
    let Some(dictionary) = run.as_any_dictionary_opt() else {
        return Ok(Arc::clone(run));
    };
    let values = dictionary.values();
    let plain = matches!(values.data_type(), DataType::Boolean | DataType::Null);
    if values.is_empty() || values.null_count() > 0 || plain {
        return crate::normalize::exactly(run, values.data_type());
    }
    Ok(Arc::clone(run))
}
