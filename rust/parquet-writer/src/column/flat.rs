//! Column chunks of flat columns by encoders of our own.

mod bools;
mod bytes;
mod hashes;
mod indexed;
mod numbers;
mod page;
mod piece;
mod ranges;
mod source;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};
use arrow_schema::DataType;
use parquet::basic::{Encoding, EncodingMask, LogicalType, PageType, Type};
use parquet::column::writer::ColumnCloseResult;
use parquet::file::metadata::{
    ColumnChunkMetaData, ColumnIndexBuilder, LevelHistogram, OffsetIndexBuilder, PageEncodingStats,
};
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet::schema::types::{ColumnDescPtr, ColumnDescriptor};
use parquet_encode::bitmap::Bitmap;
use parquet_encode::dictionary::Limits;
use parquet_encode::levels::{LevelForm, encode_constant_levels, encode_validity};
use parquet_encode::page_header::{Content, Encoding as PageEncoding};

pub(crate) use source::is_flat;

use super::{EncodedChunk, FieldEncoder};
use crate::budget::Budget;
use crate::choose::Choice;
use crate::error::{Result, WriteError};
use crate::int96;
use crate::options::WriterOptions;
use crate::pages::{ChunkPages, Filter};
use bools::Bools;
use bytes::{Bytes, Meaning};
use numbers::{Numbers, Order};
use page::{PageFacts, PageValues};
use piece::Piece;
use source::{Scratch, Values};

/// Encodes one flat column of one row group.
pub(super) struct FlatEncoder {
    column: ColumnDescPtr,
    page_bytes: usize,
    budget: Budget,
    filter: Option<Filter>,
    values: Box<dyn PageValues>,
    /// A bit for each row of the page, set where it is valid; of no use in columns without nulls.
    validity: BooleanBufferBuilder,
    page_rows: usize,
    page_nulls: usize,
    scratch: Scratch,
    pages: ChunkPages,
    account: Account,
    /// What indices of up to 8 and of up to 16 bits take, once a page of them was tried.
    index_widths: [Option<u8>; 2],
}

/// What the footer and the indexes will say.
struct Account {
    rows: usize,
    nulls: usize,
    column_index: Option<ColumnIndexBuilder>,
    offset_index: OffsetIndexBuilder,
    value_bytes: Option<u64>,
    /// Data pages by encoding, in the order in which they came up.
    encodings: Vec<(Encoding, i32)>,
}

impl FlatEncoder {
    pub fn new(column: ColumnDescPtr, choice: Choice, options: &WriterOptions, pages: ChunkPages) -> Self {
        let values = page_values(&column, choice);
        let account = Account {
            rows: 0,
            nulls: 0,
            column_index: (column.physical_type() != Type::INT96)
                .then(|| ColumnIndexBuilder::new(column.physical_type())),
            offset_index: OffsetIndexBuilder::new(),
            value_bytes: (column.physical_type() == Type::BYTE_ARRAY).then_some(0),
            encodings: Vec::new(),
        };
        Self {
            filter: pages.filter().filter(|_| column.physical_type() != Type::BOOLEAN),
            column,
            page_bytes: options.page_bytes,
            budget: options.budget,
            values,
            validity: BooleanBufferBuilder::new(0),
            page_rows: 0,
            page_nulls: 0,
            scratch: Scratch::default(),
            pages,
            account,
            index_widths: [None; 2],
        }
    }

    fn is_nullable(&self) -> bool {
        self.column.max_def_level() > 0
    }

    /// Encodes all rows of a run; without values, all of them are null.
    fn write_rows(
        &mut self,
        run: Option<&Values<'_>>,
        nulls: Option<&NullBuffer>,
        rows: usize,
    ) -> Result<()> {
        let mut start = 0;
        while start < rows {
            let end = rows.min(start + self.budget.piece_rows);
            let room = self.room(run, nulls, start, end);
            if room == 0 {
                self.finish_page()?;
                continue;
            }
            let piece = piece(nulls, start, room);
            let valid = piece.validity.map_or(room, |validity| validity.count_ones());
            let taken = match run.filter(|_| valid > 0) {
                Some(run) => self.values.append(run, piece)?,
                None => 0,
            };
            let full = run.is_some() && taken < valid;
            let rows = if full { piece.rows_with(taken) } else { room };
            self.append_levels(nulls, Piece { rows, ..piece }, taken);
            self.page_rows += rows;
            self.page_nulls += rows - taken;
            if self.account.rows == 0 && self.page_rows == rows {
                self.values.rank();
            }
            start += rows;
            if full {
                // The page so far keeps its indices; the rest of the chunk does without.
                self.finish_page()?;
                self.values.give_up_dictionary();
            }
        }
        Ok(())
    }

    /// How many of the rows `start..end` the page takes; one at least when it is empty.
    fn room(&self, run: Option<&Values<'_>>, nulls: Option<&NullBuffer>, start: usize, end: usize) -> usize {
        let rows = (end - start).min(self.budget.page_rows - self.page_rows);
        if rows == 0 {
            return 0;
        }
        let room = self.page_bytes.saturating_sub(self.most_level_bytes());
        let fitting = run.map_or(rows, |run| {
            self.values.fitting(run, piece(nulls, start, rows), room)
        });
        if self.page_rows == 0 {
            fitting.max(1)
        } else {
            fitting
        }
    }

    /// What levels may take of a page.
    fn most_level_bytes(&self) -> usize {
        if self.is_nullable() {
            self.budget.page_rows.min(self.page_bytes) / 8 + 16
        } else {
            0
        }
    }

    fn append_levels(&mut self, nulls: Option<&NullBuffer>, piece: Piece<'_>, valid: usize) {
        if !self.is_nullable() {
            return;
        }
        match nulls.filter(|_| valid < piece.rows) {
            None => self.validity.append_n(piece.rows, true),
            Some(nulls) => {
                let bits = nulls.inner();
                let start = bits.offset() + piece.start;
                self.validity
                    .append_packed_range(start..start + piece.rows, bits.values());
            }
        }
    }

    /// The bits that the page's indices are given at least.
    fn index_width(&mut self) -> Result<u8> {
        let class = match self.values.index_width() {
            Some(4..=7) => 0,
            Some(13..=15) => 1,
            _ => return Ok(0),
        };
        let whole_bytes = [8, 16][class];
        if !self.pages.counts_symbols() {
            return Ok(0);
        }
        if let Some(width) = self.index_widths[class] {
            return Ok(width);
        }
        let mut size = |width| {
            self.pages.pressed_size(&mut |out| {
                self.values.encode(width, out);
            })
        };
        let width = if size(whole_bytes)? < size(0)? {
            whole_bytes
        } else {
            0
        };
        self.index_widths[class] = Some(width);
        Ok(width)
    }

    fn finish_page(&mut self) -> Result<()> {
        if self.page_rows == 0 {
            return Ok(());
        }
        let index_width = self.index_width()?;
        let nullable = self.is_nullable();
        let Self {
            values,
            validity,
            page_rows,
            page_nulls,
            ..
        } = self;
        let mut encoding = PageEncoding::Plain;
        self.pages.add(&mut |out| {
            if nullable {
                append_levels(validity, *page_rows, *page_nulls, out);
            }
            encoding = values.encode(index_width, out);
            Content::Data {
                values: *page_rows,
                encoding,
                statistics: None,
            }
        })?;
        let facts = self.values.finish();
        self.account
            .note_page((encoding, &facts), self.page_rows, self.page_nulls, nullable);
        self.validity.truncate(0);
        self.page_rows = 0;
        self.page_nulls = 0;
        Ok(())
    }
}

/// The levels of a page: V1, behind their length.
fn append_levels(validity: &BooleanBufferBuilder, rows: usize, nulls: usize, out: &mut Vec<u8>) {
    if nulls == 0 || nulls == rows {
        encode_constant_levels(u32::from(nulls == 0), rows, 1, LevelForm::V1, out);
    } else if let Some(bits) = Bitmap::new(validity.as_slice(), 0, rows) {
        encode_validity(&bits, LevelForm::V1, out);
    }
}

fn piece(nulls: Option<&NullBuffer>, start: usize, rows: usize) -> Piece<'_> {
    let validity = nulls
        .and_then(source::validity)
        .map(|bits| bits.slice(start, rows));
    let validity = validity.filter(|bits| bits.count_ones() < rows);
    Piece {
        start,
        rows,
        validity,
    }
}

/// Values of the column's physical type, in the encodings that were chosen.
fn page_values(column: &ColumnDescriptor, choice: Choice) -> Box<dyn PageValues> {
    let limits = choice.dictionary.then_some(Limits {
        entries: choice.room.entries,
        bytes: choice.room.bytes,
        window: choice.room.window,
    });
    let encoding = page_encoding(choice.encoding);
    let order = if is_unsigned(column) {
        Order::Unsigned
    } else {
        Order::Signed
    };
    match column.physical_type() {
        Type::BOOLEAN => Box::new(Bools::new(encoding)),
        Type::INT32 => Box::new(Numbers::<i32>::new(order, limits, encoding)),
        Type::INT64 => Box::new(Numbers::<i64>::new(order, limits, encoding)),
        Type::FLOAT => Box::new(Numbers::<f32>::new(order, limits, encoding)),
        Type::DOUBLE => Box::new(Numbers::<f64>::new(order, limits, encoding)),
        Type::BYTE_ARRAY => Box::new(Bytes::new(meaning(column), None, limits, encoding)),
        Type::FIXED_LEN_BYTE_ARRAY | Type::INT96 => {
            Box::new(Bytes::new(meaning(column), Some(width(column)), limits, encoding))
        }
    }
}

/// The bytes of a value, where all have as many.
fn width(column: &ColumnDescriptor) -> usize {
    match column.physical_type() {
        Type::INT96 => int96::WIDTH,
        _ => usize::try_from(column.type_length()).unwrap_or(0),
    }
}

fn is_unsigned(column: &ColumnDescriptor) -> bool {
    matches!(column.logical_type_ref(), Some(LogicalType::Integer(integer)) if !integer.is_signed)
}

fn meaning(column: &ColumnDescriptor) -> Meaning {
    if column.physical_type() == Type::INT96 {
        return Meaning::Unordered;
    }
    match column.logical_type_ref() {
        Some(LogicalType::String | LogicalType::Json | LogicalType::Enum) => Meaning::Text,
        Some(LogicalType::Decimal { .. }) => Meaning::Decimal,
        Some(LogicalType::Float16) => Meaning::HalfFloat,
        _ => Meaning::Binary,
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

fn chunk_encoding(encoding: PageEncoding) -> Encoding {
    match encoding {
        PageEncoding::Plain => Encoding::PLAIN,
        PageEncoding::Rle => Encoding::RLE,
        PageEncoding::DeltaBinaryPacked => Encoding::DELTA_BINARY_PACKED,
        PageEncoding::DeltaLengthByteArray => Encoding::DELTA_LENGTH_BYTE_ARRAY,
        PageEncoding::DeltaByteArray => Encoding::DELTA_BYTE_ARRAY,
        PageEncoding::RleDictionary => Encoding::RLE_DICTIONARY,
        PageEncoding::ByteStreamSplit => Encoding::BYTE_STREAM_SPLIT,
    }
}

impl Account {
    fn note_page(
        &mut self,
        (encoding, facts): (PageEncoding, &PageFacts),
        rows: usize,
        nulls: usize,
        nullable: bool,
    ) {
        self.rows += rows;
        self.nulls += nulls;
        let signed = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        if let Some(index) = self.column_index.as_mut().filter(|_| facts.ordered) {
            let (min, max) = facts.bounds.clone().unwrap_or_default();
            index.append(nulls == rows, min, max, signed(nulls), None);
            if nullable {
                let levels = LevelHistogram::from(vec![signed(nulls), signed(rows - nulls)]);
                index.append_histograms(&None, &Some(levels));
            }
        } else {
            // A page of values without bounds: the index could only mislead.
            self.column_index = None;
        }
        self.offset_index.append_row_count(signed(rows));
        self.offset_index.append_offset_and_size(0, 0);
        if let Some(bytes) = facts.value_bytes {
            self.offset_index
                .append_unencoded_byte_array_data_bytes(i64::try_from(bytes).ok());
            self.value_bytes = self.value_bytes.map(|sum| sum + bytes);
        }
        let encoding = chunk_encoding(encoding);
        match self.encodings.iter_mut().find(|(known, _)| *known == encoding) {
            Some((_, pages)) => *pages += 1,
            None => self.encodings.push((encoding, 1)),
        }
    }

    fn close(
        self,
        column: ColumnDescPtr,
        values: &dyn PageValues,
        has_dictionary: bool,
    ) -> Result<ColumnCloseResult> {
        let mut mask: Vec<_> = self.encodings.iter().map(|(encoding, _)| *encoding).collect();
        let mut stats: Vec<_> = self
            .encodings
            .iter()
            .map(|&(encoding, count)| PageEncodingStats {
                page_type: PageType::DATA_PAGE,
                encoding,
                count,
            })
            .collect();
        if column.max_def_level() > 0 {
            mask.push(Encoding::RLE);
        }
        if has_dictionary {
            mask.push(Encoding::PLAIN);
            let page = PageEncodingStats {
                page_type: PageType::DICTIONARY_PAGE,
                encoding: Encoding::PLAIN,
                count: 1,
            };
            stats.insert(0, page);
        }
        let nullable = column.max_def_level() > 0;
        let histogram =
            nullable.then(|| LevelHistogram::from(vec![long(self.nulls), long(self.rows - self.nulls)]));
        let statistics = match column.physical_type() {
            Type::INT96 => Statistics::Int96(ValueStatistics::new(
                None,
                None,
                None,
                Some(self.nulls as u64),
                false,
            )),
            _ => values.statistics(self.nulls as u64),
        };
        let metadata = ColumnChunkMetaData::builder(column)
            .set_encodings_mask(EncodingMask::new_from_encodings(mask.iter()))
            .set_page_encoding_stats(stats)
            .set_num_values(long(self.rows))
            .set_statistics(statistics)
            .set_unencoded_byte_array_data_bytes(self.value_bytes.and_then(|bytes| i64::try_from(bytes).ok()))
            .set_definition_level_histogram(histogram)
            .build()?;
        let column_index = self.column_index.filter(|_| self.rows > 0).map(|mut index| {
            index.set_boundary_order(values.boundary_order());
            index.build()
        });
        Ok(ColumnCloseResult {
            bytes_written: 0,
            rows_written: self.rows as u64,
            metadata,
            bloom_filter: None,
            column_index: column_index.transpose()?,
            offset_index: (self.rows > 0).then(|| self.offset_index.build()),
        })
    }
}

fn long(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl FieldEncoder for FlatEncoder {
    fn write(&mut self, run: &ArrayRef, _: &[usize]) -> Result<()> {
        let run = plain_values(run)?;
        let data = run.to_data();
        let mut scratch = std::mem::take(&mut self.scratch);
        let width = width(&self.column);
        let nulls = data.nulls().filter(|nulls| nulls.null_count() > 0);
        let all_null = nulls.is_some_and(|nulls| nulls.null_count() == data.len());
        let values = if all_null {
            None
        } else {
            Some(source::values(
                &data,
                (self.column.physical_type(), width),
                &mut scratch,
            )?)
        };
        if let Some(values) = &values {
            self.values.begin(values);
        }
        if let (Some(filter), Some(values)) = (&mut self.filter, &values) {
            hashes::insert(filter, values, nulls, data.len());
        }
        let written = self.write_rows(values.as_ref(), nulls, data.len());
        drop(values);
        if self.budget.value_bytes.is_none() {
            self.scratch = scratch;
        }
        written.map_err(|error| in_column(&self.column, error))
    }

    fn tracked_bytes(&self) -> usize {
        self.values.memory_bytes()
            + self.validity.capacity() / 8
            + self.scratch.memory_bytes()
            + self.filter.as_ref().map_or(0, Filter::memory_bytes)
    }

    fn encoded_bytes(&self) -> u64 {
        let dictionary = self.values.dictionary().map_or(0, |(page, _)| page.len());
        let levels = if self.is_nullable() { self.page_rows / 8 } else { 0 };
        self.pages.bytes().0 + (self.values.pending_bytes() + levels + dictionary) as u64
    }

    fn close(mut self: Box<Self>, each: &mut dyn FnMut(EncodedChunk) -> Result<()>) -> Result<()> {
        self.finish_page()
            .map_err(|error| in_column(&self.column, error))?;
        let Self {
            column,
            values,
            pages,
            account,
            filter,
            ..
        } = *self;
        if let Some((page, entries)) = values.dictionary() {
            pages.add(&mut |out| {
                out.extend_from_slice(page);
                Content::Dictionary {
                    entries,
                    sorted: false,
                }
            })?;
        }
        let mut close = account.close(column, values.as_ref(), values.dictionary().is_some())?;
        drop(values);
        if let Some(filter) = filter {
            close.bloom_filter = filter.close()?;
        }
        let close = pages.settle(close)?;
        each(EncodedChunk { close, pages })
    }
}

/// The run with its dictionary, unless that holds nulls, nothing, or booleans, which get no dictionary.
fn plain_values(run: &ArrayRef) -> Result<ArrayRef> {
    let Some(dictionary) = run.as_any_dictionary_opt() else {
        return Ok(Arc::clone(run));
    };
    let values = dictionary.values();
    if values.is_empty() || values.null_count() > 0 || *values.data_type() == DataType::Boolean {
        return crate::normalize::exactly(run, values.data_type());
    }
    Ok(Arc::clone(run))
}

fn in_column(column: &ColumnDescriptor, error: WriteError) -> WriteError {
    match error {
        WriteError::Encode(message) => {
            WriteError::Encode(format!("column {:?}: {message}", column.path().string()))
        }
        other => other,
    }
}
