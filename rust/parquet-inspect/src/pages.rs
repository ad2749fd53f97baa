//! The pages of column chunks, from their headers and indexes. Values are neither read nor decompressed.

use std::fs::File;
use std::os::unix::fs::FileExt;

use parquet::errors::ParquetError;
use parquet::file::metadata::page_index::RowGroupPageIndex;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

use crate::error::InspectError;
use crate::meaning::Meaning;
use crate::report::{FileReport, PageReport};
use crate::schema_nodes::{CompactReader, I32, Kind, MOST_SKIPPED_LEVELS, STRUCT};
use crate::value::page_bounds;

/// Bytes of a header that are read first. Most headers are shorter.
const FIRST_BYTES: usize = 256;
/// The most bytes of a header. Some writers put long bounds into it.
const MOST_BYTES: usize = 1 << 20;
/// The fewest bytes of a page, header included. Column chunks do not overlap, so this bounds the pages of a file.
const FEWEST_BYTES: u64 = 8;
/// The most pages of a report. Each takes several hundred bytes of memory, and a crafted file has one every few bytes.
const MOST_PAGES: u64 = 1 << 20;

const PAGE_TYPES: [&str; 4] = ["DATA_PAGE", "INDEX_PAGE", "DICTIONARY_PAGE", "DATA_PAGE_V2"];
/// Encodings by their numbers in `parquet.thrift`, which has no 1.
const ENCODINGS: [&str; 10] = [
    "PLAIN",
    "1",
    "PLAIN_DICTIONARY",
    "RLE",
    "BIT_PACKED",
    "DELTA_BINARY_PACKED",
    "DELTA_LENGTH_BYTE_ARRAY",
    "DELTA_BYTE_ARRAY",
    "RLE_DICTIONARY",
    "BYTE_STREAM_SPLIT",
];

/// Adds the pages of each column chunk to the report, except those of encrypted chunks.
///
/// # Errors
/// [`InspectError::DamagedPage`] names the place of a header that is damaged, or leads out of its chunk;
/// [`InspectError::TooManyPages`] for more than [`MOST_PAGES`].
pub(crate) fn add_pages(
    report: &mut FileReport,
    metadata: &ParquetMetaData,
    file: &File,
) -> Result<(), InspectError> {
    let mut budget = PageBudget::new(report.bytes, MOST_PAGES);
    for (index, (group, metadata_of_group)) in report
        .row_groups
        .iter_mut()
        .zip(metadata.row_groups())
        .enumerate()
    {
        let indexes = metadata.page_index_for_row_group(index);
        let chunks = metadata_of_group.columns().iter().enumerate();
        for (column, (place, chunk)) in group.columns.iter_mut().zip(chunks) {
            if chunk.crypto_metadata().is_some() {
                continue;
            }
            let meaning = Meaning::of(chunk.column_descr(), metadata.file_metadata().schema());
            let rows = metadata_of_group.num_rows();
            let mut pages = headers(chunk, file, &mut budget)?;
            place_rows(&mut pages, chunk, &indexes, place, rows);
            add_bounds(&mut pages, &indexes, place, &meaning);
            column.pages = Some(pages);
        }
    }
    Ok(())
}

/// The number of pages that a report may still have.
struct PageBudget {
    left: u64,
    /// The most pages, if the file may have more without being damaged.
    limit: Option<u64>,
}

impl PageBudget {
    fn new(file_bytes: u64, most: u64) -> Self {
        let possible = file_bytes / FEWEST_BYTES;
        Self {
            left: possible.min(most),
            limit: (possible > most).then_some(most),
        }
    }

    /// Takes the page at this place.
    fn take(&mut self, at: u64) -> Result<(), InspectError> {
        self.left = self.left.checked_sub(1).ok_or(match self.limit {
            Some(most) => InspectError::TooManyPages(most),
            None => InspectError::DamagedPage(at),
        })?;
        Ok(())
    }
}

/// Reads the header of each page of a chunk.
fn headers(
    chunk: &ColumnChunkMetaData,
    file: &File,
    budget: &mut PageBudget,
) -> Result<Vec<PageReport>, InspectError> {
    let (start, bytes) = chunk.byte_range();
    // Some writers write 0 as the dictionary offset of a chunk without a dictionary.
    let first = u64::try_from(chunk.data_page_offset()).unwrap_or(0);
    let mut at = if start == 0 { first } else { start };
    let end = at.saturating_add(bytes);
    let mut pages = Vec::new();
    while at < end {
        let damaged = || InspectError::DamagedPage(at);
        budget.take(at)?;
        let (header, header_bytes) = read_header(file, at, end)?;
        let stored = header_bytes as u64 + header.stored_bytes;
        if stored > end - at {
            return Err(damaged());
        }
        pages.push(PageReport {
            page_type: header.page_type,
            encoding: header.encoding,
            offset: at,
            compressed_bytes: stored,
            uncompressed_bytes: header_bytes as u64 + header.plain_bytes,
            checksum: header.checksum.is_some(),
            values: header.values,
            first_row: None,
            rows: header.rows,
            nulls: header.nulls,
            min: None,
            max: None,
        });
        at += stored;
    }
    Ok(pages)
}

/// Reads the header at offset `at`, which ends before `end`. Returns it with its length.
fn read_header(file: &File, at: u64, end: u64) -> Result<(DecodedPageHeader, usize), InspectError> {
    let most = usize::try_from(end - at).unwrap_or(usize::MAX).min(MOST_BYTES);
    let mut size = FIRST_BYTES.min(most);
    loop {
        let mut bytes = vec![0; size];
        match file.read_exact_at(&mut bytes, at) {
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                return Err(InspectError::DamagedPage(at));
            }
            done => done?,
        }
        if let Ok(decoded) = DecodedPageHeader::decode(&bytes) {
            return Ok(decoded);
        }
        // The header may be longer than the bytes read so far.
        if size == most {
            return Err(InspectError::DamagedPage(at));
        }
        size = size.saturating_mul(16).min(most);
    }
}

fn is_data(page_type: &str) -> bool {
    page_type.starts_with("DATA_PAGE")
}

/// Sets the rows of each data page, from the offset index if there is one, else from the headers where they state them.
fn place_rows(
    pages: &mut [PageReport],
    chunk: &ColumnChunkMetaData,
    indexes: &RowGroupPageIndex,
    column: usize,
    rows: i64,
) {
    let is_flat = chunk.column_descr().max_rep_level() == 0;
    let places = indexes.page_locations(column).map(|places| {
        let mut firsts: Vec<_> = places.iter().map(|place| place.first_row_index).collect();
        firsts.push(rows);
        firsts
    });
    let mut next = Some(0);
    for (number, page) in pages
        .iter_mut()
        .filter(|page| is_data(&page.page_type))
        .enumerate()
    {
        let rows_of = places.as_ref().and_then(|firsts| firsts.get(number..number + 2));
        if let Some([first, end]) = rows_of {
            page.first_row = Some(*first);
            page.rows = end.checked_sub(*first);
            continue;
        }
        page.rows = page.rows.or_else(|| is_flat.then_some(page.values));
        page.first_row = next;
        next = next
            .zip(page.rows)
            .and_then(|(first, rows): (i64, i64)| first.checked_add(rows));
    }
}

/// Adds the null counts and bounds of data pages, from the column index.
fn add_bounds(pages: &mut [PageReport], indexes: &RowGroupPageIndex, column: usize, meaning: &Meaning) {
    let Some(index) = indexes.column_index(column) else {
        return;
    };
    let counted = usize::try_from(index.num_pages()).unwrap_or(0);
    let data = pages.iter_mut().filter(|page| is_data(&page.page_type));
    for (number, page) in data.take(counted).enumerate() {
        let nulls = index.null_counts().and_then(|nulls| nulls.get(number));
        page.nulls = nulls.copied().or(page.nulls);
        (page.min, page.max) = page_bounds(index, number, meaning);
    }
}

/// A page's header.
#[derive(Debug, Clone)]
pub struct DecodedPageHeader {
    /// Its type, by the name in `parquet.thrift`.
    pub page_type: String,
    /// The encoding of its values.
    pub encoding: Option<String>,
    /// Bytes of the page after the header, as they are in the file.
    pub stored_bytes: u64,
    /// Bytes of the page before compression.
    pub plain_bytes: u64,
    /// The CRC-32 of the stored bytes.
    pub checksum: Option<u32>,
    /// Values, nulls included.
    pub values: i64,
    /// Rows, where the header says how many.
    pub rows: Option<i64>,
    /// Nulls, where the header says how many.
    pub nulls: Option<i64>,
}

impl DecodedPageHeader {
    /// Decodes the header that `bytes` begin with. Returns it with its length.
    ///
    /// # Errors
    /// [`ParquetError`] when it is damaged, or longer than `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<(Self, usize), ParquetError> {
        let mut reader = CompactReader { bytes };
        let header = Self::read(&mut reader)?;
        Ok((header, bytes.len() - reader.bytes.len()))
    }

    /// Returns true if it is that of a data page.
    #[must_use]
    pub fn is_data(&self) -> bool {
        is_data(&self.page_type)
    }

    /// Reads `DecodedPageHeader` of `parquet.thrift`.
    fn read(reader: &mut CompactReader<'_>) -> Result<Self, ParquetError> {
        let (mut page_type, mut plain, mut stored) = (None, None, None);
        let mut checksum = None;
        let (mut data, mut dictionary, mut data_v2) = (None, None, None);
        let mut last = 0;
        while let Some((id, kind)) = reader.field(last)? {
            last = id;
            match (id, kind) {
                (1, I32) => page_type = Some(reader.zigzag()?),
                (2, I32) => plain = u64::try_from(reader.zigzag()?).ok(),
                (3, I32) => stored = u64::try_from(reader.zigzag()?).ok(),
                (5, STRUCT) => data = Some(OfType::read(reader, [1, 2, 0, 0])?),
                (7, STRUCT) => dictionary = Some(OfType::read(reader, [1, 2, 0, 0])?),
                (8, STRUCT) => data_v2 = Some(OfType::read(reader, [1, 4, 2, 3])?),
                // A signed integer with the bits of the checksum.
                (4, I32) => checksum = i32::try_from(reader.zigzag()?).ok().map(i32::cast_unsigned),
                (_, kind) => {
                    reader.skip(kind, Kind::Other, MOST_SKIPPED_LEVELS)?;
                }
            }
        }
        let missing = || ParquetError::General("a page header lacks a field".to_owned());
        let page_type = page_type.ok_or_else(missing)?;
        let whole = |header: Option<OfType>| header.filter(OfType::has_values).ok_or_else(missing);
        let of_type = match page_type {
            0 => whole(data)?,
            2 => whole(dictionary)?,
            3 => whole(data_v2.filter(OfType::has_rows))?,
            _ => OfType::default(),
        };
        Ok(Self {
            page_type: named(page_type, &PAGE_TYPES),
            encoding: of_type.encoding.map(|encoding| named(encoding, &ENCODINGS)),
            stored_bytes: stored.ok_or_else(missing)?,
            plain_bytes: plain.ok_or_else(missing)?,
            checksum,
            values: of_type.values.unwrap_or(0),
            rows: of_type.rows,
            nulls: of_type.nulls,
        })
    }
}

fn named(number: i64, names: &[&str]) -> String {
    let name = usize::try_from(number).ok().and_then(|number| names.get(number));
    name.map_or_else(|| number.to_string(), |name| (*name).to_owned())
}

/// The fields that headers of all page types have, under different ids.
#[derive(Default)]
struct OfType {
    values: Option<i64>,
    encoding: Option<i64>,
    nulls: Option<i64>,
    rows: Option<i64>,
}

impl OfType {
    /// Reads the header of one page type, given the ids of these fields in it; 0 for a field that the type lacks.
    fn read(
        reader: &mut CompactReader<'_>,
        [values, encoding, nulls, rows]: [i16; 4],
    ) -> Result<Self, ParquetError> {
        let mut found = Self::default();
        let mut last = 0;
        while let Some((id, kind)) = reader.field(last)? {
            last = id;
            let field = match id {
                _ if kind != I32 || id == 0 => None,
                id if id == values => Some(&mut found.values),
                id if id == encoding => Some(&mut found.encoding),
                id if id == nulls => Some(&mut found.nulls),
                id if id == rows => Some(&mut found.rows),
                _ => None,
            };
            match field {
                Some(field) => *field = Some(reader.zigzag()?),
                None => reader.skip(kind, Kind::Other, MOST_SKIPPED_LEVELS)?,
            }
        }
        Ok(found)
    }

    fn has_values(&self) -> bool {
        self.values.is_some_and(|values| values >= 0) && self.encoding.is_some()
    }

    fn has_rows(&self) -> bool {
        self.rows.is_some() && self.nulls.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_no_more_pages_than_its_limit() {
        let mut budget = PageBudget::new(100 * FEWEST_BYTES, 2);
        assert!(budget.take(4).is_ok() && budget.take(12).is_ok());
        assert!(matches!(budget.take(20), Err(InspectError::TooManyPages(2))));
    }

    #[test]
    fn pages_that_a_file_has_no_bytes_for_are_damage() {
        let mut budget = PageBudget::new(2 * FEWEST_BYTES, 100);
        assert!(budget.take(4).is_ok() && budget.take(12).is_ok());
        assert!(matches!(budget.take(20), Err(InspectError::DamagedPage(20))));
    }
}
