//! A row group of an input, and the same at its place in another file.

use parquet_writer::WriteError;
use parquet_writer::thrift::{ThriftStruct, ThriftValue};

use crate::error::{Result, UNEXPECTED};
use crate::ids::{chunk, column, filter, row_group, statistics};
use crate::source::{OpenSource, SourceFile};

/// Bytes of the magic at the start of a file.
const MAGIC_BYTES: u64 = 4;
/// Bytes that hold the header of any Bloom filter: an integer and three unions of empty structs.
const FILTER_HEADER_BYTES: u64 = 64;
/// `Type` of columns whose old bounds were in an order that depended on the writer.
const BYTE_ARRAY: i64 = 6;
const FIXED_LEN_BYTE_ARRAY: i64 = 7;

/// Bytes of a file that belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileSpan {
    pub start: u64,
    pub length: u64,
}

/// A column chunk in its input.
struct SourceChunk {
    pages: FileSpan,
    /// None for a chunk without data pages.
    data_page: Option<u64>,
    dictionary: Option<u64>,
    filter: Option<FileSpan>,
    indexes: Indexes,
}

/// The page indexes of a chunk in its input.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Indexes {
    pub column: Option<FileSpan>,
    pub offset: Option<FileSpan>,
}

/// A row group of an input.
pub(crate) struct SourceRowGroup {
    tree: ThriftStruct,
    rows: u64,
    chunks: Vec<SourceChunk>,
}

/// A row group with its chunks and filters at their places in another file. Those of its indexes come later.
pub(crate) struct Placed {
    /// The struct `SourceRowGroup`, in which places and sizes of indexes have as many bytes as they can have.
    pub encoded: Vec<u8>,
    pub rows: u64,
    /// For each chunk, how far its pages moved, and its indexes.
    pub chunks: Vec<(i64, Indexes)>,
    /// Where the next row group may begin.
    pub end: u64,
}

impl SourceRowGroup {
    /// # Errors
    /// The footer says of a chunk, a filter or an index that it is where it cannot be.
    pub fn new(mut tree: ThriftStruct, file: &OpenSource<'_>) -> Result<Self> {
        let source = file.source;
        tree.remove_above(row_group::LAST);
        let rows = unsigned(&tree, row_group::NUM_ROWS, source)?;
        let columns = tree
            .list(row_group::COLUMNS)
            .map_err(|_| source.damaged(UNEXPECTED))?;
        let mut chunks = Vec::with_capacity(columns.len());
        for column in columns {
            let column = column.as_struct().map_err(|_| source.damaged(UNEXPECTED))?;
            column.remove_above(column::LAST);
            let indexes = Indexes {
                column: span(
                    column,
                    (column::COLUMN_INDEX_OFFSET, column::COLUMN_INDEX_LENGTH),
                    source,
                )?,
                offset: span(
                    column,
                    (column::OFFSET_INDEX_OFFSET, column::OFFSET_INDEX_LENGTH),
                    source,
                )?,
            };
            let meta = column
                .nested(column::META_DATA)
                .map_err(|_| source.damaged(UNEXPECTED))?;
            meta.remove_above(chunk::LAST);
            // No page is an index page: the format has it and nobody writes it.
            meta.remove(chunk::INDEX_PAGE_OFFSET);
            chunks.push(SourceChunk::new(meta, indexes, file)?);
        }
        Ok(Self { tree, rows, chunks })
    }

    /// The bytes that are copied, in the order in which they are written: all chunks, and then their filters.
    pub fn spans(&self) -> impl Iterator<Item = FileSpan> {
        let pages = self.chunks.iter().map(|chunk| chunk.pages);
        pages.chain(self.chunks.iter().filter_map(|chunk| chunk.filter))
    }

    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes of all that is copied, indexes included.
    pub fn bytes(&self) -> u64 {
        let indexes = self.chunks.iter().flat_map(|chunk| {
            let Indexes { column, offset } = chunk.indexes;
            [column, offset].into_iter().flatten()
        });
        let lengths = self.spans().chain(indexes).map(|span| span.length);
        lengths.fold(0, u64::saturating_add)
    }

    /// The row group as the one of this number in a file, from the byte `start` on.
    ///
    /// # Errors
    /// The footer is damaged, or the file would be larger than any.
    pub fn placed(
        &mut self,
        start: u64,
        ordinal: usize,
        forgets_old_bounds: bool,
    ) -> Result<Placed, WriteError> {
        let mut at = start;
        let mut moved = Vec::with_capacity(self.chunks.len());
        let columns = self.tree.list(row_group::COLUMNS)?;
        for (column, place) in columns.iter_mut().zip(&self.chunks) {
            let column = column.as_struct()?;
            let shift = signed(at)? - signed(place.pages.start)?;
            // Writers put the start of the chunk or its end there, or nothing.
            if column
                .integer(column::FILE_OFFSET)
                .is_some_and(|offset| offset != 0)
            {
                column.set_integer(column::FILE_OFFSET, signed(at)?)?;
            }
            for (id, there) in [
                (column::COLUMN_INDEX_OFFSET, place.indexes.column),
                (column::OFFSET_INDEX_OFFSET, place.indexes.offset),
            ] {
                if there.is_some() {
                    set_index(column, id, i64::MAX, i32::MAX);
                }
            }
            let meta = column.nested(column::META_DATA)?;
            if let Some(data_page) = place.data_page {
                meta.set_integer(chunk::DATA_PAGE_OFFSET, signed(data_page)? + shift)?;
            }
            match place.dictionary {
                Some(offset) => meta.set_integer(chunk::DICTIONARY_PAGE_OFFSET, signed(offset)? + shift)?,
                None => meta.remove(chunk::DICTIONARY_PAGE_OFFSET),
            }
            if forgets_old_bounds {
                forget_old_bounds(meta)?;
            }
            moved.push((shift, place.indexes));
            at += place.pages.length;
        }
        for (column, place) in columns.iter_mut().zip(&self.chunks) {
            let Some(filter) = place.filter else { continue };
            let meta = column.as_struct()?.nested(column::META_DATA)?;
            meta.set(chunk::BLOOM_FILTER_OFFSET, ThriftValue::i64(signed(at)?));
            let length = i32::try_from(filter.length).map_err(|_| too_large())?;
            meta.set(chunk::BLOOM_FILTER_LENGTH, ThriftValue::i32(length));
            at += filter.length;
        }
        if self.tree.get(row_group::FILE_OFFSET).is_some() {
            self.tree
                .set(row_group::FILE_OFFSET, ThriftValue::i64(signed(start)?));
        }
        if self.tree.get(row_group::ORDINAL).is_some() {
            match i16::try_from(ordinal) {
                Ok(ordinal) => self.tree.set(row_group::ORDINAL, ThriftValue::i16(ordinal)),
                // The format has 16 bits for it, and takes more row groups.
                Err(_) => self.tree.remove(row_group::ORDINAL),
            }
        }
        Ok(Placed {
            encoded: self.tree.bytes(),
            rows: self.rows,
            chunks: moved,
            end: at,
        })
    }
}

impl SourceChunk {
    fn new(meta: &ThriftStruct, indexes: Indexes, file: &OpenSource<'_>) -> Result<Self> {
        let source = file.source;
        // Writers have zero for no page of a kind, or name the first data page as the dictionary.
        let data_page = Some(unsigned(meta, chunk::DATA_PAGE_OFFSET, source)?).filter(|offset| *offset > 0);
        let dictionary = meta.integer(chunk::DICTIONARY_PAGE_OFFSET);
        let dictionary = dictionary.and_then(|offset| u64::try_from(offset).ok());
        let dictionary = dictionary.filter(|offset| (1..data_page.unwrap_or(u64::MAX)).contains(offset));
        let pages = FileSpan {
            start: dictionary.or(data_page).unwrap_or(0),
            length: unsigned(meta, chunk::COMPRESSED_BYTES, source)?,
        };
        if pages.length > 0 {
            check(pages, source)?;
        }
        if data_page.is_some_and(|data_page| pages.start + pages.length < data_page) {
            return Err(source.damaged("a column chunk ends before its first data page"));
        }
        let filter = match meta.integer(chunk::BLOOM_FILTER_OFFSET) {
            None => None,
            Some(_) if meta.integer(chunk::BLOOM_FILTER_LENGTH).is_some() => span(
                meta,
                (chunk::BLOOM_FILTER_OFFSET, chunk::BLOOM_FILTER_LENGTH),
                source,
            )?,
            Some(_) => Some(filter_without_length(
                unsigned(meta, chunk::BLOOM_FILTER_OFFSET, source)?,
                file,
            )?),
        };
        Ok(Self {
            pages,
            data_page,
            dictionary,
            filter,
            indexes,
        })
    }
}

/// Sets place and size of an index, whose fields are neighbours.
pub(crate) fn set_index(column: &mut ThriftStruct, offset: i16, place: i64, length: i32) {
    column.set(offset, ThriftValue::i64(place));
    column.set(offset + 1, ThriftValue::i32(length));
}

/// A filter of a writer that does not say how long it is: its header does.
fn filter_without_length(start: u64, file: &OpenSource<'_>) -> Result<FileSpan> {
    let source = file.source;
    let room = source
        .footer_start()
        .saturating_sub(start)
        .min(FILTER_HEADER_BYTES);
    let mut header = vec![0; usize::try_from(room).unwrap_or_default()];
    file.read(&mut header, start)?;
    let (parsed, length) = ThriftStruct::parse_first(&header).map_err(|_| source.damaged(UNEXPECTED))?;
    let found = FileSpan {
        start,
        length: length as u64 + unsigned(&parsed, filter::NUM_BYTES, source)?,
    };
    check(found, source)?;
    Ok(found)
}

/// Bounds of bytes that are in the order of signed bytes or not, as their writer did it: readers go by its name.
fn forget_old_bounds(meta: &mut ThriftStruct) -> Result<(), WriteError> {
    let kind = meta.integer(chunk::TYPE);
    if matches!(kind, Some(BYTE_ARRAY | FIXED_LEN_BYTE_ARRAY)) && meta.get(chunk::STATISTICS).is_some() {
        let bounds = meta.nested(chunk::STATISTICS)?;
        bounds.remove(statistics::MAX);
        bounds.remove(statistics::MIN);
    }
    Ok(())
}

/// A part of the file that two fields name; none where there is none.
fn span(
    fields: &ThriftStruct,
    (offset, length): (i16, i16),
    source: &SourceFile,
) -> Result<Option<FileSpan>> {
    if fields.integer(offset).is_none() || fields.integer(length).is_none() {
        return Ok(None);
    }
    let found = FileSpan {
        start: unsigned(fields, offset, source)?,
        length: unsigned(fields, length, source)?,
    };
    check(found, source)?;
    Ok(Some(found))
}

fn check(span: FileSpan, source: &SourceFile) -> Result<()> {
    let end = span.start.checked_add(span.length);
    if span.start >= MAGIC_BYTES && end.is_some_and(|end| end <= source.footer_start()) {
        return Ok(());
    }
    Err(source.damaged(format!(
        "it has {} bytes at {}, outside of the file's {} before its footer",
        span.length,
        span.start,
        source.footer_start()
    )))
}

fn unsigned(fields: &ThriftStruct, id: i16, source: &SourceFile) -> Result<u64> {
    let number = fields.integer(id).and_then(|number| u64::try_from(number).ok());
    number.ok_or_else(|| source.damaged("a place or a size is missing or negative"))
}

fn signed(place: u64) -> Result<i64, WriteError> {
    i64::try_from(place).map_err(|_| too_large())
}

pub(crate) fn too_large() -> WriteError {
    WriteError::Encode("the file would be larger than Parquet can hold".into())
}
