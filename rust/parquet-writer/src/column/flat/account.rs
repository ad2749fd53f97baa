//! Facts about a chunk's pages, which its metadata and indexes are made of.

use parquet::basic::{Encoding, EncodingMask, PageType, Type};
use parquet::column::writer::ColumnCloseResult;
use parquet::file::metadata::{ColumnChunkMetaData, LevelHistogram, PageEncodingStats};
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet::schema::types::{ColumnDescPtr, ColumnDescriptor};
use parquet_encode::page_header::Encoding as PageEncoding;

use super::levels::{Histograms, PageLevels};
use super::page_index::PageIndex;
use super::values::{PageFacts, ValueEncoder};
use crate::error::Result;

/// Counts of a page or of a chunk.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Count {
    pub rows: usize,
    /// Values, and nulls and empty lists in place of values.
    pub entries: usize,
    /// Entries without a value.
    pub nulls: usize,
}

impl Count {
    /// Appends the levels of a page that is tried from the value at `start` on, if that is the first: what is tried
    /// whole is then tried as it is written.
    pub fn begin(self, start: usize, levels: &PageLevels, out: &mut Vec<u8>) {
        if start == 0 {
            levels.encode(self.entries, self.nulls, out);
        }
    }
}

/// Facts about a chunk for the footer and the indexes.
pub(super) struct Account {
    pub count: Count,
    histograms: Option<Histograms>,
    index: PageIndex,
    value_bytes: Option<u64>,
    /// Data pages by encoding, in the order in which they came up.
    encodings: Vec<(Encoding, i32)>,
}

impl Account {
    /// An account of a column without pages.
    pub fn new(column: &ColumnDescriptor, has_bounds: bool) -> Self {
        let physical_type = column.physical_type();
        Self {
            count: Count::default(),
            histograms: None,
            index: PageIndex::new(physical_type, has_bounds),
            value_bytes: (physical_type == Type::BYTE_ARRAY).then_some(0),
            encodings: Vec::new(),
        }
    }

    /// Notes a data page.
    pub fn note_page(
        &mut self,
        (encoding, facts): (PageEncoding, &PageFacts),
        page: Count,
        histograms: &Histograms,
    ) -> Result<()> {
        self.count.rows += page.rows;
        self.count.entries += page.entries;
        self.count.nulls += page.nulls;
        Histograms::add(&mut self.histograms, histograms);
        self.index.add(facts, page, histograms)?;
        if let Some(bytes) = facts.value_bytes {
            self.value_bytes = self.value_bytes.map(|sum| sum + bytes);
        }
        let encoding = chunk_encoding(encoding);
        match self.encodings.iter_mut().find(|(known, _)| *known == encoding) {
            Some((_, pages)) => *pages += 1,
            None => self.encodings.push((encoding, 1)),
        }
        Ok(())
    }

    /// Returns true if all data pages hold indices of the dictionary.
    pub fn has_indices_only(&self) -> bool {
        let mut encodings = self.encodings.iter();
        encodings.all(|(encoding, _)| *encoding == Encoding::RLE_DICTIONARY)
    }

    pub fn close(
        self,
        column: ColumnDescPtr,
        values: &impl ValueEncoder,
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
        let Count { rows, entries, nulls } = self.count;
        let (repetition, definition) = self
            .histograms
            .map_or((None, None), |all| (all.repetition, all.definition));
        let physical_type = column.physical_type();
        let statistics = match physical_type {
            Type::INT96 => {
                Statistics::Int96(ValueStatistics::new(None, None, None, Some(nulls as u64), false))
            }
            _ => values.statistics(nulls as u64),
        };
        let metadata = ColumnChunkMetaData::builder(column)
            .set_encodings_mask(EncodingMask::new_from_encodings(mask.iter()))
            .set_page_encoding_stats(stats)
            .set_num_values(long(entries))
            .set_statistics(statistics)
            .set_unencoded_byte_array_data_bytes(self.value_bytes.and_then(|bytes| i64::try_from(bytes).ok()))
            .set_repetition_level_histogram(repetition.map(LevelHistogram::from))
            .set_definition_level_histogram(definition.map(LevelHistogram::from))
            .build()?;
        let index = self.index;
        Ok(ColumnCloseResult {
            bytes_written: 0,
            rows_written: rows as u64,
            metadata,
            bloom_filter: None,
            column_index: index.column_index(physical_type, values.boundary_order())?,
            offset_index: index.offset_index(),
        })
    }

    /// Memory of the pages' indexes.
    pub fn memory_bytes(&self) -> usize {
        self.index.memory_bytes()
    }
}

fn long(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
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
