//! A file that row groups are copied into.

use std::io::Write;
use std::time::Instant;

use bytes::Bytes;
use parquet::basic::Type;
use parquet::file::metadata::{ParquetMetaDataOptions, ParquetMetaDataReader};
use parquet::file::page_index::index_reader::{decode_column_index, decode_offset_index};
use parquet_writer::sink::Sink;
use parquet_writer::thrift::{ThriftStruct, ThriftValue};
use parquet_writer::{WriteError, WriteResult};

use crate::common::Common;
use crate::error::Result;
use crate::groups::{FileSpan, Indexes, Placed, SourceRowGroup, set_index, too_large};
use crate::ids::{column, column_index, offset_index, row_group};
use crate::source::{OpenSource, SourceFile};
use crate::watch::Watch;

const MAGIC: &[u8; 4] = b"PAR1";
/// Bytes that are read and written together.
const BUFFER_BYTES: usize = 1 << 20;
/// Bytes of the footer's length and of the magic, and those that the count of row groups adds to a footer without any.
const TAIL_BYTES: u64 = 8 + 8;

/// Changes the bytes of a page index for a chunk of this type, whose pages move by this many bytes.
type Change = fn(Vec<u8>, i64, Type) -> Result<Vec<u8>, WriteError>;

/// A file that is being written.
pub(crate) struct CopiedFile<'a> {
    sink: Box<dyn Sink>,
    common: &'a Common,
    /// Bytes written.
    position: u64,
    /// The row groups, and the inputs that they came from.
    groups: Vec<(Placed, usize)>,
    /// The most bytes that the rest of the file has: indexes and footer.
    end_bytes: u64,
    started: Instant,
}

impl<'a> CopiedFile<'a> {
    pub fn new(sink: Box<dyn Sink>, common: &'a Common) -> Result<Self, WriteError> {
        let mut file = Self {
            sink,
            common,
            position: 0,
            groups: Vec::new(),
            end_bytes: common.footer(i64::MAX, Vec::new()).bytes().len() as u64 + TAIL_BYTES,
            started: Instant::now(),
        };
        file.write(MAGIC)?;
        Ok(file)
    }

    pub fn row_groups(&self) -> usize {
        self.groups.len()
    }

    /// The row group as the next one of this file.
    ///
    /// # Errors
    /// As [`SourceRowGroup::placed`].
    pub fn place(&self, group: &mut SourceRowGroup) -> Result<Placed, WriteError> {
        group.placed(self.position, self.groups.len(), self.common.forgets_old_bounds())
    }

    /// The most bytes that the file has with one more row group.
    pub fn bytes_with(&self, placed: &Placed) -> u64 {
        placed.end + self.end_bytes + end_bytes(placed)
    }

    /// Copies a row group to its place.
    ///
    /// # Errors
    /// The input was changed, the file cannot be written, or the caller asked to stop.
    pub fn copy(
        &mut self,
        group: &SourceRowGroup,
        placed: Placed,
        (index, source): (usize, &OpenSource<'_>),
        buffer: &mut Vec<u8>,
        watch: &mut Watch<'_>,
    ) -> Result<()> {
        buffer.resize(BUFFER_BYTES, 0);
        for span in group.spans() {
            let FileSpan {
                mut start,
                mut length,
            } = span;
            while length > 0 {
                let bytes = usize::try_from(length).unwrap_or(BUFFER_BYTES).min(BUFFER_BYTES);
                source.read(&mut buffer[..bytes], start)?;
                self.write(&buffer[..bytes])?;
                watch.copied(bytes as u64)?;
                start += bytes as u64;
                length -= bytes as u64;
            }
        }
        watch.has_rows(group.rows());
        self.end_bytes += end_bytes(&placed);
        self.groups.push((placed, index));
        Ok(())
    }

    /// Writes the page indexes and the footer, and makes the file appear, or wait for others.
    ///
    /// # Errors
    /// An input was changed or its indexes are damaged, or the file cannot be written.
    pub fn finish(mut self, sources: &[SourceFile], watch: &mut Watch<'_>) -> Result<WriteResult> {
        let mut groups = std::mem::take(&mut self.groups);
        self.write_indexes(
            &mut groups,
            sources,
            watch,
            |indexes| indexes.column,
            checked,
            column::COLUMN_INDEX_OFFSET,
        )?;
        self.write_indexes(
            &mut groups,
            sources,
            watch,
            |indexes| indexes.offset,
            shifted,
            column::OFFSET_INDEX_OFFSET,
        )?;
        let mut rows = groups.iter().map(|(group, _)| group.rows);
        let rows = rows
            .try_fold(0, u64::checked_add)
            .and_then(|rows| i64::try_from(rows).ok());
        let rows = rows.ok_or_else(too_large)?;
        let groups = groups.into_iter().map(|(group, _)| group.encoded).collect();
        let mut footer = self.common.footer(rows, groups).bytes();
        let length = footer.len();
        // Readers have a signed integer for it.
        let stored = i32::try_from(length).map_err(|_| {
            WriteError::option(
                "files",
                format!("the footer of one file with all row groups has {length} bytes, too many: copy them into several, with max_file_row_groups="),
            )
        })?;
        footer.extend_from_slice(&stored.to_le_bytes());
        footer.extend_from_slice(MAGIC);
        // Nothing appears that readers would refuse.
        let options = ParquetMetaDataOptions::new().with_encoding_stats_as_mask(false);
        let metadata = ParquetMetaDataReader::decode_metadata_with_options(&footer[..length], Some(&options));
        let metadata = metadata.map_err(WriteError::from)?;
        self.write(&footer)?;
        self.sink.commit().map_err(|error| self.named(error.into()))?;
        let held = (BUFFER_BYTES + 2 * footer.len()) as u64;
        let (footer, time) = (Bytes::from(footer), self.started.elapsed());
        Ok(WriteResult::copied(metadata, footer, self.position, time, held))
    }

    /// Copies one kind of index of all row groups, each changed by its chunk's shift.
    fn write_indexes(
        &mut self,
        groups: &mut [(Placed, usize)],
        sources: &[SourceFile],
        watch: &mut Watch<'_>,
        kind: fn(&Indexes) -> Option<FileSpan>,
        change: Change,
        field: i16,
    ) -> Result<()> {
        let common = self.common;
        let mut open: Option<(usize, OpenSource<'_>)> = None;
        for (group, index) in groups {
            if group.chunks.iter().all(|(_, indexes)| kind(indexes).is_none()) {
                continue;
            }
            let source = match open.take() {
                Some((last, source)) if last == *index => source,
                last => {
                    last.map_or(Ok(()), |(_, last)| last.check_unchanged())?;
                    sources[*index].reopen()?
                }
            };
            let mut tree = ThriftStruct::parse(&group.encoded)?;
            let columns = tree.list(row_group::COLUMNS)?.iter_mut().zip(&group.chunks);
            for ((column, (shift, indexes)), physical_type) in columns.zip(common.physical_types()) {
                let Some(span) = kind(indexes) else { continue };
                let mut bytes = vec![0; usize::try_from(span.length).map_err(|_| too_large())?];
                source.read(&mut bytes, span.start)?;
                let bytes = change(bytes, *shift, physical_type)
                    .map_err(|error| source.source.damaged(format!("a page index: {error}")))?;
                let place = i64::try_from(self.position).map_err(|_| too_large())?;
                let length = i32::try_from(bytes.len()).map_err(|_| too_large())?;
                set_index(column.as_struct()?, field, place, length);
                self.write(&bytes)?;
                watch.copied(bytes.len() as u64)?;
            }
            group.encoded = tree.bytes();
            open = Some((*index, source));
        }
        open.map_or(Ok(()), |(_, last)| last.check_unchanged())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        let written = self.sink.write_all(bytes);
        written.map_err(|error| self.named(error.into()))?;
        self.position += bytes.len() as u64;
        Ok(())
    }

    /// The error with the file's path, where it is one of the operating system.
    fn named(&self, error: WriteError) -> WriteError {
        match (error, self.sink.path()) {
            (WriteError::Io { path: None, source }, Some(path)) => WriteError::io(path, source),
            (error, _) => error,
        }
    }
}

/// The most bytes that a row group adds to the end of its file. Places of pages may take more bytes than before.
fn end_bytes(placed: &Placed) -> u64 {
    let length = |span: Option<FileSpan>| span.map_or(0, |span| span.length);
    let indexes = placed.chunks.iter();
    let indexes = indexes.map(|(_, indexes)| length(indexes.column) + 2 * length(indexes.offset));
    placed.encoded.len() as u64 + indexes.sum::<u64>()
}

/// A column index, in which nothing depends on a place, if another reader decodes it.
fn checked(bytes: Vec<u8>, _: i64, physical_type: Type) -> Result<Vec<u8>, WriteError> {
    // The decoder makes room for as many pages as a list says that it has. Parsing finds them in the bytes first.
    let mut index = ThriftStruct::parse(&bytes)?;
    let pages = index.list(column_index::NULL_PAGES)?.len();
    let is_whole = index.list(column_index::MIN_VALUES)?.len() == pages
        && index.list(column_index::MAX_VALUES)?.len() == pages;
    if !is_whole {
        return Err(WriteError::Encode("its pages have no bounds".into()));
    }
    decode_column_index(&bytes, physical_type)?;
    Ok(bytes)
}

/// An offset index whose pages moved.
fn shifted(bytes: Vec<u8>, shift: i64, _: Type) -> Result<Vec<u8>, WriteError> {
    let mut index = ThriftStruct::parse(&bytes)?;
    drop(bytes);
    for location in index.list(offset_index::PAGE_LOCATIONS)? {
        let location = location.as_struct()?;
        let moved = location
            .integer(offset_index::LOCATION_OFFSET)
            .and_then(|offset| offset.checked_add(shift))
            .filter(|offset| *offset >= 0);
        let moved = moved.ok_or_else(|| WriteError::Encode("a page has no place in the file".into()))?;
        location.set(offset_index::LOCATION_OFFSET, ThriftValue::i64(moved));
    }
    let bytes = index.bytes();
    decode_offset_index(&bytes)?;
    Ok(bytes)
}
