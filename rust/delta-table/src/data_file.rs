//! A file of a table, read in ranges from wherever the table lies.

use std::ops::Range;
use std::sync::Arc;

use arrow_schema::{ArrowError, DataType, Field, Fields, TimeUnit};
use bytes::{Buf, Bytes};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, RowSelection};
use parquet::basic::Type as PhysicalType;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{ChunkReader, Length};
use parquet::schema::types::SchemaDescriptor;

use crate::error::TableError;
use crate::storage::TableStorage;

/// Bytes at the end of a file that are read at once: most footers are shorter.
const TAIL_BYTES: u64 = 64 << 10;

/// Ranges that lie closer together are read as one. A request to a store takes longer than so many bytes.
const GAP_BYTES: u64 = 64 << 10;

/// A file, and the ranges of it that are in memory.
#[derive(Clone)]
pub(crate) struct DataFile {
    storage: Arc<dyn TableStorage>,
    name: String,
    size: u64,
    held: Vec<(u64, Bytes)>,
}

impl DataFile {
    /// A file of `size` bytes, of which only the end is in memory.
    pub fn open(storage: &Arc<dyn TableStorage>, name: &str, size: u64) -> Result<Self, ParquetError> {
        let mut file = Self {
            storage: Arc::clone(storage),
            name: name.to_owned(),
            size,
            held: Vec::new(),
        };
        file.hold(std::iter::once(size.saturating_sub(TAIL_BYTES)..size))?;
        Ok(file)
    }

    /// The same file with these ranges in memory and no others.
    pub fn with(&self, ranges: impl IntoIterator<Item = Range<u64>>) -> Result<Self, ParquetError> {
        let mut file = Self {
            held: Vec::new(),
            ..self.clone()
        };
        file.hold(ranges)?;
        Ok(file)
    }

    fn hold(&mut self, ranges: impl IntoIterator<Item = Range<u64>>) -> Result<(), ParquetError> {
        for range in merged(ranges) {
            let bytes = self.fetch(range.clone())?;
            self.held.push((range.start, bytes));
        }
        Ok(())
    }

    fn fetch(&self, range: Range<u64>) -> Result<Bytes, ParquetError> {
        let wanted = range.end - range.start;
        let bytes = self
            .storage
            .read_range(&self.name, range)
            .map_err(|error| ParquetError::External(Box::new(error)))?;
        if bytes.len() as u64 != wanted {
            return Err(ParquetError::EOF(format!(
                "{}: the file ends early: it has fewer than the {} bytes that the log says",
                self.name, self.size
            )));
        }
        Ok(bytes)
    }

    /// The bytes in memory from `start` on; none if it is not in memory.
    fn held_from(&self, start: u64) -> Option<Bytes> {
        self.held.iter().find_map(|(begin, bytes)| {
            let from = usize::try_from(start.checked_sub(*begin)?).ok()?;
            (from < bytes.len()).then(|| bytes.slice(from..))
        })
    }
}

impl Length for DataFile {
    fn len(&self) -> u64 {
        self.size
    }
}

impl ChunkReader for DataFile {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let bytes = match self.held_from(start) {
            Some(bytes) => bytes,
            None => self.fetch(start.min(self.size)..self.size)?,
        };
        Ok(bytes.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        match self.held_from(start) {
            Some(bytes) if bytes.len() >= length => Ok(bytes.slice(..length)),
            _ => {
                let end = start.checked_add(length as u64).filter(|end| *end <= self.size);
                let end = end.ok_or_else(|| {
                    ParquetError::EOF(format!(
                        "{}: the file has {} bytes, and its footer names bytes beyond them",
                        self.name, self.size
                    ))
                })?;
                self.fetch(start..end)
            }
        }
    }
}

/// The footer of a file that any writer may have left, as far as it can be decoded safely.
pub(crate) fn load_footer<T: ChunkReader>(
    file: &T,
    options: ArrowReaderOptions,
) -> Result<ArrowReaderMetadata, ParquetError> {
    let footer = parquet_inspect::read_footer(file, options.metadata_options().clone())?;
    ArrowReaderMetadata::try_new(Arc::new(footer), options)
}

/// The ranges of a row group's columns that are wanted. Of columns whose pages the footer knows, those of the pages
/// with selected rows, and of what comes before the first page: a dictionary.
pub(crate) fn ranges_of(
    footer: &ParquetMetaData,
    group: usize,
    wanted: &ProjectionMask,
    selected: Option<&RowSelection>,
) -> Vec<Range<u64>> {
    let pages = footer.page_index_for_row_group(group);
    let chunks = footer.row_group(group).columns().iter().enumerate();
    let chunks = chunks.filter(|(leaf, _)| wanted.leaf_included(*leaf));
    let ranges = chunks.flat_map(|(leaf, chunk)| {
        let (start, length) = chunk.byte_range();
        let whole = start..start + length;
        let known = selected.zip(pages.page_locations(leaf));
        let first = known.and_then(|(_, pages)| u64::try_from(pages.first()?.offset).ok());
        match (known, first) {
            (Some((selected, pages)), Some(first)) if whole.contains(&first) => {
                let mut ranges = selected.scan_ranges(pages);
                ranges.push(start..first);
                ranges
            }
            _ => vec![whole],
        }
    });
    ranges.collect()
}

/// The error of a file of this name: that of the storage, or of the file's form.
pub(crate) fn table_error(name: &str, error: ParquetError) -> TableError {
    match error {
        ParquetError::External(error) => match error.downcast::<TableError>() {
            Ok(error) => *error,
            Err(error) => match error.downcast::<ArrowError>().map(|error| *error) {
                Ok(ArrowError::ExternalError(error)) => table_error(name, ParquetError::External(error)),
                Ok(error) => TableError::Malformed(format!("{name}: {error}")),
                Err(error) => TableError::Malformed(format!("{name}: {error}")),
            },
        },
        error => TableError::Malformed(format!("{name}: {error}")),
    }
}

/// The ranges in order, those that lie close together as one.
fn merged(ranges: impl IntoIterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut ranges: Vec<_> = ranges.into_iter().filter(|range| !range.is_empty()).collect();
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(GAP_BYTES) => {
                last.end = last.end.max(range.end);
            }
            _ => merged.push(range),
        }
    }
    merged
}

/// The fields, with timestamps in 96 bits read as microseconds. Spark writes them so, and nanoseconds cannot hold all
/// years.
pub(crate) fn with_micros(fields: &Fields, parquet: &SchemaDescriptor, leaf: &mut usize) -> Fields {
    let fields = fields.iter().map(|field| {
        let micros = |inner: &Arc<Field>, leaf: &mut usize| {
            let inner = with_micros(&Fields::from(vec![Arc::clone(inner)]), parquet, leaf);
            Arc::clone(&inner[0])
        };
        let data_type = match field.data_type() {
            DataType::Struct(fields) => DataType::Struct(with_micros(fields, parquet, leaf)),
            DataType::List(element) => DataType::List(micros(element, leaf)),
            DataType::Map(entries, sorted) => DataType::Map(micros(entries, leaf), *sorted),
            plain => {
                *leaf += 1;
                if parquet.column(*leaf - 1).physical_type() == PhysicalType::INT96 {
                    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
                } else {
                    plain.clone()
                }
            }
        };
        field.as_ref().clone().with_data_type(data_type)
    });
    fields.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_lie_close_together_are_one() {
        let near = GAP_BYTES / 2;
        let far = 4 * GAP_BYTES;
        let ranges = [far..far + 10, 0..10, 20 + near..30 + near, 5..20, 7..7];
        assert_eq!(merged(ranges), [0..30 + near, far..far + 10]);
    }
}
