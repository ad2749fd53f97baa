//! The pages of a row group that may hold rows for which conditions hold, by the file's page indexes.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use delta_commit::actions::Add;
use parquet::data_type::{ByteArray, FixedLenByteArray};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMask, ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::statistics::Statistics;
use parquet::schema::types::{SchemaDescriptor, Type};
use parquet_inspect::read_page_indexes;

use crate::data_file::DataFile;
use crate::schema::TableColumn;
use crate::stats::group_stats_json;

use super::ScanPlan;

/// Rows that are read in the time in which statistics of pages are looked at once.
const ROWS_OF_A_LOOK: usize = 512;

/// The footer with the indexes of these row groups and leaf columns, as far as the file has them. Without any where
/// one is damaged: pages are found by them, so that a wrong one gives rows of other places.
pub(super) fn with_indexes(
    footer: &Arc<ParquetMetaData>,
    file: &DataFile,
    groups: &[usize],
    leaves: &[usize],
) -> Result<Arc<ParquetMetaData>, ParquetError> {
    // A request for them is worth it where pages are many.
    let has_many = |group: &&usize| {
        let group = footer.row_group(**group);
        let mut wanted = leaves.iter().map(|leaf| group.column(*leaf));
        usize::try_from(group.num_rows()).is_ok_and(|rows| rows >= 2 * ROWS_OF_A_LOOK)
            && wanted.any(|chunk| chunk.offset_index_offset().is_some())
    };
    let groups: Vec<usize> = groups.iter().filter(has_many).copied().collect();
    if groups.is_empty() {
        return Ok(Arc::clone(footer));
    }
    let mask = ColumnChunkMask::row_groups_and_columns(groups.iter().copied(), leaves.iter().copied());
    match read_page_indexes(footer.as_ref().clone(), file, mask) {
        Err(error @ ParquetError::External(_)) => Err(error),
        Ok(found) if are_sound(&found, &groups, leaves) => Ok(Arc::new(found)),
        _ => Ok(Arc::clone(footer)),
    }
}

/// Returns true if the pages of these chunks, where indexes tell of them, are what the row groups have.
fn are_sound(footer: &ParquetMetaData, groups: &[usize], leaves: &[usize]) -> bool {
    groups.iter().all(|number| {
        let (group, pages) = (
            footer.row_group(*number),
            footer.page_index_for_row_group(*number),
        );
        leaves.iter().all(|leaf| {
            let pages = pages.page_locations(*leaf);
            pages.is_none_or(|pages| are_all_of(pages, group.column(*leaf), group.num_rows()))
        })
    })
}

/// Returns true if these may be all data pages of a chunk, one after the other: their rows and their bytes leave
/// nothing out, and none has what another has.
fn are_all_of(pages: &[PageLocation], chunk: &ColumnChunkMetaData, rows: i64) -> bool {
    let (start, length) = chunk.byte_range();
    let mut next_byte = Some(chunk.data_page_offset());
    let mut rows_before = -1;
    for page in pages {
        let is_next = next_byte == Some(page.offset)
            && page.compressed_page_size > 0
            && page.first_row_index > rows_before
            && page.first_row_index < rows;
        if !is_next {
            return false;
        }
        next_byte = page.offset.checked_add(i64::from(page.compressed_page_size));
        rows_before = page.first_row_index;
    }
    let end = start.checked_add(length).and_then(|end| i64::try_from(end).ok());
    pages.first().is_some_and(|first| first.first_row_index == 0)
        && next_byte.is_some_and(|next| Some(next) == end)
}

/// The runs of a row group's rows that may satisfy the conditions, in order and counted from its first row. None where
/// the indexes of these columns tell nothing.
pub(super) fn runs(
    plan: &ScanPlan,
    add: &Add,
    columns: &[TableColumn],
    footer: &ParquetMetaData,
    group: usize,
) -> Option<Vec<Range<usize>>> {
    let pages = footer.page_index_for_row_group(group);
    let group = footer.row_group(group);
    let rows = usize::try_from(group.num_rows()).ok()?;
    let asked = leaves_of(group, columns);
    let indexed: Vec<IndexedPages<'_>> = asked
        .iter()
        .enumerate()
        .filter(|(_, leaf)| has_sound_bounds(group.column(**leaf)))
        .filter_map(|(place, leaf)| {
            let leaf = *leaf;
            let starts = pages.page_locations(leaf)?.iter();
            let starts = starts.map(|page| usize::try_from(page.first_row_index).ok());
            IndexedPages::of(place, pages.column_index(leaf)?, starts.collect::<Option<_>>()?)
        })
        .collect();
    let bounds: BTreeSet<usize> = indexed.iter().flat_map(|pages| &pages.starts).copied().collect();
    if bounds.len() < 2 || rows / bounds.len() < ROWS_OF_A_LOOK {
        return None;
    }
    let group = narrowed(group, columns, &asked)?;
    let columns: Vec<&TableColumn> = columns.iter().collect();
    let ends = bounds.iter().skip(1).copied().chain(std::iter::once(rows));
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (start, end) in bounds.iter().copied().zip(ends) {
        let part = part_of(&group, &indexed, start..end)?;
        let may_match = plan.filters.cover.may_match(&Add {
            partition_values: add.partition_values.clone(),
            stats: Some(group_stats_json(&columns, &part)),
            ..Add::default()
        });
        match runs.last_mut() {
            _ if !may_match => {}
            Some(last) if last.end == start => last.end = end,
            _ => runs.push(start..end),
        }
    }
    Some(runs)
}

/// The pages of a column chunk.
struct IndexedPages<'a> {
    /// The place of the chunk among those that are asked for.
    place: usize,
    index: &'a ColumnIndexMetaData,
    /// The first row of each.
    starts: Vec<usize>,
}

impl<'a> IndexedPages<'a> {
    /// None where the indexes contradict each other.
    fn of(place: usize, index: &'a ColumnIndexMetaData, starts: Vec<usize>) -> Option<Self> {
        (index.num_pages() == starts.len() as u64).then_some(Self { place, index, starts })
    }

    /// The statistics of some rows of the page that has the first of them.
    fn statistics(&self, rows: &Range<usize>) -> Statistics {
        let page = self.starts.partition_point(|start| *start <= rows.start) - 1;
        let nulls = if self.index.is_null_page(page) {
            Some(rows.len() as u64)
        } else {
            // Of nulls somewhere in the page nobody knows where they are.
            self.index.null_count(page).filter(|nulls| *nulls == 0).map(|_| 0)
        };
        macro_rules! numbers {
            ($index:expr) => {
                Statistics::new(
                    $index.min_value(page).cloned(),
                    $index.max_value(page).cloned(),
                    None,
                    nulls,
                    false,
                )
            };
        }
        macro_rules! bytes {
            ($index:expr, $type:ty) => {{
                let bound = |bytes: &[u8]| <$type>::from(ByteArray::from(bytes.to_vec()));
                let (min, max) = ($index.min_value(page), $index.max_value(page));
                Statistics::new(min.map(bound), max.map(bound), None, nulls, false)
            }};
        }
        match self.index {
            ColumnIndexMetaData::BOOLEAN(index) => numbers!(index),
            ColumnIndexMetaData::INT32(index) => numbers!(index),
            ColumnIndexMetaData::INT64(index) => numbers!(index),
            ColumnIndexMetaData::INT96(index) => numbers!(index),
            ColumnIndexMetaData::FLOAT(index) => numbers!(index),
            ColumnIndexMetaData::DOUBLE(index) => numbers!(index),
            ColumnIndexMetaData::BYTE_ARRAY(index) => bytes!(index, ByteArray),
            ColumnIndexMetaData::FIXED_LEN_BYTE_ARRAY(index) => bytes!(index, FixedLenByteArray),
        }
    }
}

/// Returns true if bounds of a column's pages are trusted, as those of the whole chunk are.
fn has_sound_bounds(chunk: &ColumnChunkMetaData) -> bool {
    chunk
        .statistics()
        .is_some_and(|statistics| !statistics.is_min_max_deprecated())
}

/// The leaf columns that these columns have in a row group.
fn leaves_of(group: &RowGroupMetaData, columns: &[TableColumn]) -> Vec<usize> {
    let is_asked = |leaf: &usize| {
        let top = group.column(*leaf).column_path().parts().first();
        columns.iter().any(|column| top == Some(&column.name))
    };
    (0..group.num_columns()).filter(is_asked).collect()
}

/// A row group as if it had these columns alone, with their leaves: a look at rows takes the same time however many
/// others there are.
fn narrowed(group: &RowGroupMetaData, columns: &[TableColumn], leaves: &[usize]) -> Option<RowGroupMetaData> {
    let schema = group.schema_descr().root_schema();
    let fields = schema.get_fields().iter();
    let fields = fields.filter(|field| columns.iter().any(|column| column.name == field.name()));
    let schema = Type::group_type_builder(schema.name()).with_fields(fields.cloned().collect());
    let schema = SchemaDescriptor::new(Arc::new(schema.build().ok()?));
    let chunks = leaves.iter().map(|leaf| group.column(*leaf).clone());
    RowGroupMetaData::builder(Arc::new(schema))
        .set_num_rows(group.num_rows())
        .set_column_metadata(chunks.collect())
        .build()
        .ok()
}

/// Some rows of a row group as if they were one, with statistics of columns whose pages are known, and of no others.
fn part_of(
    group: &RowGroupMetaData,
    indexed: &[IndexedPages<'_>],
    rows: Range<usize>,
) -> Option<RowGroupMetaData> {
    let count = i64::try_from(rows.len()).ok()?;
    let mut part = group.clone().into_builder().set_num_rows(count);
    let chunks = part.take_columns().into_iter().enumerate().map(|(place, chunk)| {
        let chunk = chunk.into_builder().clear_statistics().set_num_values(count);
        match indexed.iter().find(|pages| pages.place == place) {
            Some(pages) => chunk.set_statistics(pages.statistics(&rows)),
            None => chunk,
        }
        .build()
        .ok()
    });
    part.set_column_metadata(chunks.collect::<Option<_>>()?)
        .build()
        .ok()
}

#[cfg(test)]
mod tests {
    use parquet::basic::Type as Physical;

    use super::*;

    fn chunk() -> ColumnChunkMetaData {
        let field = Type::primitive_type_builder("id", Physical::INT64)
            .build()
            .unwrap();
        let schema = Type::group_type_builder("schema").with_fields(vec![Arc::new(field)]);
        let schema = SchemaDescriptor::new(Arc::new(schema.build().unwrap()));
        ColumnChunkMetaData::builder(schema.column(0))
            .set_dictionary_page_offset(Some(4))
            .set_data_page_offset(10)
            .set_total_compressed_size(36)
            .build()
            .unwrap()
    }

    fn pages(of: [(i64, i32, i64); 3]) -> Vec<PageLocation> {
        let pages = of.iter().map(|(offset, size, row)| PageLocation {
            offset: *offset,
            compressed_page_size: *size,
            first_row_index: *row,
        });
        pages.collect()
    }

    #[test]
    fn an_index_that_contradicts_its_row_group_is_not_believed() {
        let sound = [(10, 10, 0), (20, 10, 100), (30, 10, 200)];
        assert!(are_all_of(&pages(sound), &chunk(), 300));
        let is_believed = |page: usize, wrong: (i64, i32, i64)| {
            let mut of = sound;
            of[page] = wrong;
            are_all_of(&pages(of), &chunk(), 300)
        };
        assert!(!is_believed(0, (10, 10, 1)), "it begins after the first row");
        assert!(!is_believed(0, (10, 10, -1)), "it begins before the first row");
        assert!(!is_believed(1, (20, 10, 0)), "a page without rows");
        assert!(!is_believed(1, (20, 10, 200)), "a page without rows");
        assert!(!is_believed(2, (30, 10, 99)), "rows in another order");
        assert!(!is_believed(2, (30, 10, 300)), "rows that are not there");
        assert!(!is_believed(0, (4, 16, 0)), "the dictionary as a page");
        assert!(!is_believed(1, (30, 10, 100)), "a page twice");
        assert!(!is_believed(1, (21, 9, 100)), "a gap");
        assert!(!is_believed(1, (20, 0, 100)), "a page without bytes");
        assert!(!is_believed(1, (20, -10, 100)), "a size below nothing");
        assert!(!is_believed(2, (30, 11, 200)), "more than the chunk");
        assert!(!is_believed(2, (30, 9, 200)), "less than the chunk");
        assert!(!is_believed(2, (i64::MAX, i32::MAX, 200)), "beyond all files");
        assert!(
            !are_all_of(&pages(sound)[..2], &chunk(), 300),
            "without the last page"
        );
        assert!(
            !are_all_of(&pages(sound)[1..], &chunk(), 300),
            "without the first page"
        );
        assert!(!are_all_of(&[], &chunk(), 300), "without pages");
    }
}
