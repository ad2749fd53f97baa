//! All pages: their headers, checksums, sizes and counts, and their bytes after decompression.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::reader::SerializedPageReader;
use parquet_inspect::DecodedPageHeader;

use super::values;
use super::window::FileWindow;
use super::{Written, in_column, within};
use crate::error::{Result, WriteError};
use crate::options::Verify;
use crate::row_group::Patience;

/// Bytes of a page that are read for its header at first. A longer header has long bounds in it.
const HEADER_BYTES: usize = 1 << 10;
/// The most bytes of a header.
const MOST_HEADER_BYTES: usize = 1 << 20;

/// Compares the pages of all column chunks, and the values in them at that level. Returns the most memory that it took.
pub(super) fn check(
    level: Verify,
    written: &Written<'_>,
    found: &ParquetMetaData,
    file: &FileWindow,
    most: usize,
    patience: &mut Patience<'_>,
) -> Result<usize> {
    if level == Verify::Values {
        return values::check(written, found, file, most, patience);
    }
    let mut memory = 0;
    for group in 0..found.num_row_groups() {
        for leaf in 0..found.row_group(group).num_columns() {
            let (mut pages, progress) = open(found, (group, leaf), file.clone())?;
            while let Some(_page) = pages
                .get_next_page()
                .map_err(|error| progress.error(&error.to_string()))?
            {
                patience.check()?;
            }
            memory = memory.max(progress.end()?);
        }
    }
    Ok(memory)
}

/// A reader of the pages of a chunk that checks each, and its progress.
pub(super) fn open(
    found: &ParquetMetaData,
    (group, leaf): (usize, usize),
    file: FileWindow,
) -> Result<(CheckedPages, PageProgress)> {
    let metadata = found.row_group(group);
    let chunk = metadata.column(leaf);
    let (start, bytes) = chunk.byte_range();
    let places = found
        .page_index_for_row_group(group)
        .page_locations(leaf)
        .cloned();
    let progress = PageProgress(Arc::new(Mutex::new(ChunkTotals {
        group,
        chunk: chunk.clone(),
        rows_of_group: metadata.num_rows(),
        places,
        at: start,
        end: start + bytes,
        pages: 0,
        data_pages: 0,
        values: 0,
        rows: Some(0),
        plain_bytes: 0,
        encodings: HashSet::new(),
        largest: 0,
        failed: None,
    })));
    let rows = usize::try_from(metadata.num_rows()).unwrap_or(usize::MAX);
    // Without the offset index: each header is read where the one before ends.
    let inner = SerializedPageReader::new(Arc::new(file.clone()), chunk, rows, None)?;
    Ok((
        CheckedPages {
            inner,
            file,
            progress: progress.clone(),
        },
        progress,
    ))
}

/// The facts about the pages that were read, and those that they must add up to.
struct ChunkTotals {
    group: usize,
    chunk: ColumnChunkMetaData,
    rows_of_group: i64,
    /// The pages of the offset index, where there is one.
    places: Option<Vec<PageLocation>>,
    /// The place of the next page.
    at: u64,
    end: u64,
    pages: usize,
    data_pages: usize,
    values: i64,
    /// Rows of the pages so far, while all of them say how many.
    rows: Option<i64>,
    plain_bytes: u64,
    encodings: HashSet<String>,
    /// The most bytes of a page, compressed and not.
    largest: u64,
    failed: Option<WriteError>,
}

/// The progress of a [`CheckedPages`], which whoever decodes its pages owns.
#[derive(Clone)]
pub(super) struct PageProgress(Arc<Mutex<ChunkTotals>>);

impl PageProgress {
    fn lock(&self) -> MutexGuard<'_, ChunkTotals> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The difference that was found; else that the pages cannot be decoded, for this reason.
    pub fn error(&self, reason: &str) -> WriteError {
        let mut seen = self.lock();
        let failed = seen.failed.take();
        failed.unwrap_or_else(|| {
            let at = seen.at;
            seen.differs(&format!("the page before byte {at} cannot be decoded: {reason}"))
        })
    }

    pub fn has_failed(&self) -> bool {
        self.lock().failed.is_some()
    }

    /// Compares the pages that were read with their chunk. Returns the bytes of the largest.
    pub fn end(&self) -> Result<usize> {
        let mut seen = self.lock();
        if let Some(failed) = seen.failed.take() {
            return Err(failed);
        }
        seen.check_sums().map_err(|what| seen.differs(&what))?;
        Ok(usize::try_from(seen.largest).unwrap_or(usize::MAX))
    }
}

impl ChunkTotals {
    fn differs(&self, what: &str) -> WriteError {
        in_column(&self.chunk.column_path().string(), self.group, what)
    }

    /// Checks the header of the next page and the checksum of its bytes. Returns the header and its length.
    fn check_header(&self, file: &FileWindow) -> Result<(DecodedPageHeader, usize)> {
        let at = self.at;
        let differs = |what: &str| self.differs(&format!("the page at byte {at} {what}"));
        let left = usize::try_from(self.end - at).unwrap_or(usize::MAX);
        let mut size = HEADER_BYTES.min(left);
        let (header, header_bytes) = loop {
            if let Ok(decoded) = DecodedPageHeader::decode(&file.from(at, size)?) {
                break decoded;
            }
            // The header may be longer than the bytes so far.
            if size >= left.min(MOST_HEADER_BYTES) {
                return Err(differs("has a header that cannot be decoded"));
            }
            size = (size * 16).min(left).min(MOST_HEADER_BYTES);
        };
        if header.stored_bytes > (left - header_bytes) as u64 {
            return Err(differs("is said to be longer than its column chunk"));
        }
        let whole = usize::try_from(header.stored_bytes).unwrap_or(usize::MAX);
        let bytes = file.from(at, header_bytes.saturating_add(whole))?;
        let Some(bytes) = within(&bytes, header_bytes, header.stored_bytes) else {
            return Err(differs("is said to be longer than its column chunk"));
        };
        if header.checksum != Some(crc32fast::hash(&bytes)) {
            return Err(differs("has other bytes than its checksum is of"));
        }
        let is_first = self.pages == 0;
        let may_be_dictionary = is_first && self.chunk.dictionary_page_offset().is_some();
        if header.is_data() == may_be_dictionary {
            return Err(differs("is of another type than its place in the chunk says"));
        }
        Ok((header, header_bytes))
    }

    /// Adds a page that was decompressed.
    fn add(&mut self, header: &DecodedPageHeader, header_bytes: usize, page: &Page) -> Result<()> {
        let at = self.at;
        let differs = |what: &str| self.differs(&format!("the page at byte {at} {what}"));
        let values = i64::from(page.num_values());
        if page.buffer().len() as u64 != header.plain_bytes || values != header.values {
            return Err(differs("has other bytes or values than its header says"));
        }
        let stored = header_bytes as u64 + header.stored_bytes;
        if header.is_data() {
            let is_flat = self.chunk.column_descr().max_rep_level() == 0;
            let rows = header.rows.or(is_flat.then_some(header.values));
            if is_flat && rows != Some(header.values) {
                return Err(differs("has another number of rows than of values"));
            }
            let place = self.places.as_ref().map(|places| places.get(self.data_pages));
            let agrees = |place: &PageLocation| {
                u64::try_from(place.offset) == Ok(at)
                    && u64::try_from(place.compressed_page_size) == Ok(stored)
                    && self.rows.is_none_or(|rows| rows == place.first_row_index)
            };
            if place.is_some_and(|place| !place.is_some_and(agrees)) {
                return Err(differs("is not where its offset index has it"));
            }
            self.data_pages += 1;
            self.values += values;
            self.rows = self.rows.zip(rows).map(|(before, rows)| before + rows);
        }
        self.encodings.extend(header.encoding.clone());
        self.pages += 1;
        self.at += stored;
        self.plain_bytes += header_bytes as u64 + header.plain_bytes;
        self.largest = self.largest.max(header.stored_bytes + header.plain_bytes);
        Ok(())
    }

    /// Compares the sums over all pages with those of the chunk.
    fn check_sums(&self) -> Result<(), String> {
        let sums = [
            ("bytes", i64::try_from(self.at), i64::try_from(self.end)),
            (
                "bytes before compression",
                i64::try_from(self.plain_bytes),
                Ok(self.chunk.uncompressed_size()),
            ),
            ("values", Ok(self.values), Ok(self.chunk.num_values())),
            (
                "rows",
                Ok(self.rows.unwrap_or(self.rows_of_group)),
                Ok(self.rows_of_group),
            ),
        ];
        if let Some((what, ..)) = sums.iter().find(|(_, found, expected)| found != expected) {
            return Err(format!("its pages do not add up to its {what}"));
        }
        if self
            .places
            .as_ref()
            .is_some_and(|places| places.len() != self.data_pages)
        {
            return Err("its offset index has more pages than it".into());
        }
        let named: HashSet<_> = self
            .chunk
            .encodings()
            .map(|encoding| encoding.to_string())
            .collect();
        match self.encodings.iter().find(|encoding| !named.contains(*encoding)) {
            Some(encoding) => Err(format!(
                "it has a page in {encoding}, which its footer does not name"
            )),
            None => Ok(()),
        }
    }
}

/// The pages of a column chunk, each checked before it is handed on.
pub(super) struct CheckedPages {
    inner: SerializedPageReader<FileWindow>,
    file: FileWindow,
    progress: PageProgress,
}

impl CheckedPages {
    fn next_page(&mut self) -> Result<Option<Page>> {
        let mut seen = self.progress.lock();
        if seen.at >= seen.end {
            return Ok(None);
        }
        let (header, header_bytes) = seen.check_header(&self.file)?;
        let at = seen.at;
        let differs = |seen: &ChunkTotals, what: &str| seen.differs(&format!("the page at byte {at} {what}"));
        let page = self
            .inner
            .get_next_page()
            .map_err(|error| differs(&seen, &format!("cannot be decompressed: {error}")))?;
        let page = page.ok_or_else(|| differs(&seen, "is not read: the pages before it have all values"))?;
        seen.add(&header, header_bytes, &page)?;
        Ok(Some(page))
    }
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>, ParquetError> {
        self.next_page().map_err(|error| {
            let told = ParquetError::General(error.to_string());
            self.progress.lock().failed = Some(error);
            told
        })
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>, ParquetError> {
        self.inner.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<(), ParquetError> {
        self.get_next_page().map(drop)
    }
}

impl Iterator for CheckedPages {
    type Item = Result<Page, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}
