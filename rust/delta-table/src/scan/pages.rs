//! The pages of a row group that may hold rows for which conditions hold, by the file's page indexes.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use delta_commit::actions::Add;
use parquet::data_type::{ByteArray, FixedLenByteArray};
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    ColumnChunkMask, ColumnChunkMetaData, PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader,
    RowGroupMetaData,
};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::statistics::Statistics;

use crate::data_file::DataFile;
use crate::schema::Column;
use crate::stats::group_stats_json;

use super::Plan;

/// Rows that are read in the time in which statistics of pages are looked at once.
const ROWS_OF_A_LOOK: usize = 512;

/// The footer with the indexes of these row groups and leaf columns, as far as the file has them. Without any where
/// they are damaged: no row depends on them.
pub(super) fn with_indexes(
    footer: &Arc<ParquetMetaData>,
    file: &DataFile,
    groups: impl IntoIterator<Item = usize>,
    leaves: impl IntoIterator<Item = usize>,
) -> Result<Arc<ParquetMetaData>, ParquetError> {
    let mask = ColumnChunkMask::row_groups_and_columns(groups, leaves);
    let mut reader = ParquetMetaDataReader::new_with_metadata(footer.as_ref().clone())
        .with_page_index_policy(PageIndexPolicy::Optional)
        .with_page_index_mask(mask);
    match reader.read_page_indexes(file).and_then(|()| reader.finish()) {
        Err(error @ ParquetError::External(_)) => Err(error),
        Err(_) => Ok(Arc::clone(footer)),
        Ok(found) => Ok(Arc::new(found)),
    }
}

/// The runs of a row group's rows that may satisfy the conditions, in order and counted from its first row. None where
/// the indexes of these columns tell nothing.
pub(super) fn runs(
    plan: &Plan,
    add: &Add,
    columns: &[Column],
    footer: &ParquetMetaData,
    group: usize,
) -> Option<Vec<Range<usize>>> {
    let file = footer.file_metadata();
    let pages = footer.page_index_for_row_group(group);
    let group = footer.row_group(group);
    let rows = usize::try_from(group.num_rows()).ok()?;
    let is_asked = |chunk: &ColumnChunkMetaData| {
        let top = chunk.column_path().parts().first();
        columns.iter().any(|column| top == Some(&column.name))
    };
    let leaves = group.columns().iter().enumerate();
    let indexed: Vec<Pages<'_>> = leaves
        .filter(|(_, chunk)| is_asked(chunk) && has_sound_bounds(chunk))
        .filter_map(|(leaf, _)| {
            let starts = pages.page_locations(leaf)?.iter();
            let starts = starts.map(|page| usize::try_from(page.first_row_index).ok());
            Pages::of(
                leaf,
                pages.column_index(leaf)?,
                starts.collect::<Option<_>>()?,
                rows,
            )
        })
        .collect();
    let bounds: BTreeSet<usize> = indexed.iter().flat_map(|pages| &pages.starts).copied().collect();
    if bounds.len() < 2 || rows / bounds.len() < ROWS_OF_A_LOOK {
        return None;
    }
    let columns: Vec<&Column> = columns.iter().collect();
    let ends = bounds.iter().skip(1).copied().chain(std::iter::once(rows));
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (start, end) in bounds.iter().copied().zip(ends) {
        let part = part_of(group, &indexed, start..end)?;
        let may_match = plan.filters.cover.may_match(&Add {
            partition_values: add.partition_values.clone(),
            stats: Some(group_stats_json(&columns, file, &part)),
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
struct Pages<'a> {
    leaf: usize,
    index: &'a ColumnIndexMetaData,
    /// The first row of each.
    starts: Vec<usize>,
}

impl<'a> Pages<'a> {
    /// None where the indexes contradict each other or the row group.
    fn of(leaf: usize, index: &'a ColumnIndexMetaData, starts: Vec<usize>, rows: usize) -> Option<Self> {
        let is_sound = starts.first() == Some(&0)
            && starts.is_sorted_by(|one, next| one < next)
            && starts.last().is_some_and(|last| *last < rows)
            && index.num_pages() == starts.len() as u64;
        is_sound.then_some(Self { leaf, index, starts })
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

/// Some rows of a row group as if they were one, with statistics of columns whose pages are known, and of no others.
fn part_of(group: &RowGroupMetaData, indexed: &[Pages<'_>], rows: Range<usize>) -> Option<RowGroupMetaData> {
    let count = i64::try_from(rows.len()).ok()?;
    let mut part = group.clone().into_builder().set_num_rows(count);
    let chunks = part.take_columns().into_iter().enumerate().map(|(leaf, chunk)| {
        let chunk = chunk.into_builder().clear_statistics().set_num_values(count);
        match indexed.iter().find(|pages| pages.leaf == leaf) {
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
