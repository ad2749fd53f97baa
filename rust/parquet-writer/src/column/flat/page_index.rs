//! The indexes of a chunk's pages until the chunk is whole.
//!
//! The builders of the `parquet` crate have two vectors of bytes and some ten numbers for each page. A chunk under a
//! small `memory_limit` has thousands of pages. Facts lie one behind the other here, and the builders are filled when
//! the chunk ends.

use parquet::basic::{BoundaryOrder, Type};
use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::{ColumnIndexBuilder, LevelHistogram, OffsetIndexBuilder};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::page_index::offset_index::OffsetIndexMetaData;

use super::account::Count;
use super::levels::Histograms;
use super::values::PageFacts;
use crate::error::{Result, WriteError};

/// Facts about each data page, for the `ColumnIndex` and the `OffsetIndex` of the format's `PageIndex.md`.
pub(super) struct PageIndex {
    /// Rows of each page.
    rows: Vec<u32>,
    /// Bytes of the byte arrays of each page, for a column of byte arrays.
    value_bytes: Option<Vec<u64>>,
    /// The column index, as long as each page with values has bounds.
    column: Option<ColumnEntries>,
}

/// The pages of a column index.
#[derive(Default)]
struct ColumnEntries {
    pages: Vec<ColumnEntry>,
    /// The least and the greatest value of each page, one behind the other.
    bounds: Vec<u8>,
    /// Counts of each repetition level and of each definition level, page by page.
    levels: [Vec<u32>; 2],
}

/// A page in the column index.
struct ColumnEntry {
    nulls: u32,
    is_null: bool,
    /// Bytes of its least and of its greatest value.
    bounds: [u32; 2],
}

impl PageIndex {
    /// An index without pages, with a part for bounds where the column's values have bounds.
    pub fn new(physical_type: Type, has_bounds: bool) -> Self {
        Self {
            rows: Vec::new(),
            value_bytes: (physical_type == Type::BYTE_ARRAY).then(Vec::new),
            column: has_bounds.then(ColumnEntries::default),
        }
    }

    /// Adds a page. One of values without bounds ends the column index, which could only mislead.
    pub fn add(&mut self, facts: &PageFacts, count: Count, histograms: &Histograms) -> Result<()> {
        if !facts.has_bounds {
            self.column = None;
        }
        if let Some(column) = &mut self.column {
            column.add(facts, count, histograms)?;
        }
        if let Some((value_bytes, bytes)) = self.value_bytes.as_mut().zip(facts.value_bytes) {
            value_bytes.push(bytes);
        }
        self.rows.push(narrow(count.rows)?);
        Ok(())
    }

    /// The column index, unless it was ended.
    ///
    /// # Errors
    /// Those of the crate's builder.
    pub fn column_index(
        &self,
        physical_type: Type,
        order: BoundaryOrder,
    ) -> ParquetResult<Option<ColumnIndexMetaData>> {
        let column = self.column.as_ref().filter(|_| !self.rows.is_empty());
        column
            .map(|column| column.build(physical_type, order))
            .transpose()
    }

    /// The offset index of a chunk with pages. Offsets and sizes come when the chunk's pages are known.
    pub fn offset_index(&self) -> Option<OffsetIndexMetaData> {
        let mut index = OffsetIndexBuilder::new();
        for rows in &self.rows {
            index.append_row_count((*rows).into());
            index.append_offset_and_size(0, 0);
        }
        for bytes in self.value_bytes.iter().flatten() {
            index.append_unencoded_byte_array_data_bytes(i64::try_from(*bytes).ok());
        }
        (!self.rows.is_empty()).then(|| index.build())
    }

    pub fn memory_bytes(&self) -> usize {
        self.rows.capacity() * size_of::<u32>()
            + self.value_bytes.as_ref().map_or(0, Vec::capacity) * size_of::<u64>()
            + self.column.as_ref().map_or(0, ColumnEntries::memory_bytes)
    }
}

impl ColumnEntries {
    fn add(&mut self, facts: &PageFacts, count: Count, histograms: &Histograms) -> Result<()> {
        let (least, greatest) = facts
            .bounds
            .as_ref()
            .map_or((&[][..], &[][..]), |(least, greatest)| {
                (least.as_slice(), greatest.as_slice())
            });
        self.bounds.extend_from_slice(least);
        self.bounds.extend_from_slice(greatest);
        for (levels, page) in self
            .levels
            .iter_mut()
            .zip([&histograms.repetition, &histograms.definition])
        {
            for count in page.iter().flatten() {
                levels.push(narrow(*count)?);
            }
        }
        self.pages.push(ColumnEntry {
            nulls: narrow(count.nulls)?,
            is_null: count.nulls == count.entries,
            bounds: [narrow(least.len())?, narrow(greatest.len())?],
        });
        Ok(())
    }

    fn build(&self, physical_type: Type, order: BoundaryOrder) -> ParquetResult<ColumnIndexMetaData> {
        let mut index = ColumnIndexBuilder::new(physical_type);
        let mut rest = self.bounds.as_slice();
        let mut next = |bytes: u32| {
            let (bound, behind) = rest.split_at(rest.len().min(bytes as usize));
            rest = behind;
            bound.to_vec()
        };
        for page in &self.pages {
            let [least, greatest] = page.bounds.map(&mut next);
            index.append(page.is_null, least, greatest, page.nulls.into(), None);
        }
        let [repetition, definition] = &self.levels;
        let histogram = |levels: &[u32]| {
            let counts: Vec<_> = levels.iter().map(|count| i64::from(*count)).collect();
            (!counts.is_empty()).then(|| LevelHistogram::from(counts))
        };
        index.append_histograms(&histogram(repetition), &histogram(definition));
        index.set_boundary_order(order);
        index.build()
    }

    fn memory_bytes(&self) -> usize {
        let levels: usize = self.levels.iter().map(Vec::capacity).sum();
        self.pages.capacity() * size_of::<ColumnEntry>() + self.bounds.capacity() + levels * size_of::<u32>()
    }
}

/// A count or a length within one page.
fn narrow<T: TryInto<u32>>(count: T) -> Result<u32> {
    let too_much =
        |_| WriteError::Encode("a page has more than 2^32 rows, values or bytes of a bound".into());
    count.try_into().map_err(too_much)
}
