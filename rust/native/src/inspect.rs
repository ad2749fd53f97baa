//! Reports on the content of a Parquet file, as dicts: for `spillway.inspection`.

use std::path::PathBuf;

use parquet_inspect::{ColumnChunkReport, Depth, FileReport, InspectError, PageReport, RowGroupReport};
use parquet_writer::OptionFault;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{option_error, os_error, ours};

/// Reports what a Parquet file's footer and page indexes say, and on request the headers of its pages.
///
/// `CorruptFileError` if it is not a whole Parquet file, `OptionError` if it has too many pages to list them, `OSError`
/// if it cannot be read.
#[pyfunction]
#[pyo3(signature = (path, pages=false))]
pub(crate) fn inspect(py: Python<'_>, path: PathBuf, pages: bool) -> PyResult<Bound<'_, PyDict>> {
    let depth = if pages { Depth::Pages } else { Depth::Footer };
    match py.detach(|| parquet_inspect::inspect(&path, depth)) {
        Ok(report) => file(py, report),
        Err(InspectError::Io(error)) => Err(os_error(py, Some(path), error)),
        Err(error) => {
            let message = format!("{}: {error}", path.display());
            Err(match error {
                InspectError::TooManyPages(_) => option_error(py, OptionFault::new("pages", message)),
                _ => ours(py, "CorruptFileError", &message),
            })
        }
    }
}

fn file(py: Python<'_>, report: FileReport) -> PyResult<Bound<'_, PyDict>> {
    let groups = report.row_groups.into_iter().map(|group| row_group(py, group));
    let dict = PyDict::new(py);
    dict.set_item("bytes", report.bytes)?;
    dict.set_item("footer_bytes", report.footer_bytes)?;
    dict.set_item("created_by", report.created_by)?;
    dict.set_item("version", report.version)?;
    dict.set_item("rows", report.rows)?;
    dict.set_item("schema", report.schema)?;
    dict.set_item("metadata_keys", report.metadata_keys)?;
    dict.set_item("row_groups", groups.collect::<PyResult<Vec<_>>>()?)?;
    Ok(dict)
}

fn row_group(py: Python<'_>, report: RowGroupReport) -> PyResult<Bound<'_, PyDict>> {
    let sorting = report
        .sorting_columns
        .into_iter()
        .map(|by| (by.path, by.descending, by.nulls_first));
    let columns = report.columns.into_iter().map(|column| column_chunk(py, column));
    let dict = PyDict::new(py);
    dict.set_item("rows", report.rows)?;
    dict.set_item("compressed_bytes", report.compressed_bytes)?;
    dict.set_item("uncompressed_bytes", report.uncompressed_bytes)?;
    dict.set_item("sorting_columns", sorting.collect::<Vec<_>>())?;
    dict.set_item("columns", columns.collect::<PyResult<Vec<_>>>()?)?;
    Ok(dict)
}

fn column_chunk(py: Python<'_>, report: ColumnChunkReport) -> PyResult<Bound<'_, PyDict>> {
    let stats = report.encoding_stats.map(|stats| {
        let stats = stats
            .into_iter()
            .map(|entry| (entry.page_type, entry.encoding, entry.pages));
        stats.collect::<Vec<_>>()
    });
    let dict = PyDict::new(py);
    dict.set_item("path", report.path)?;
    dict.set_item("field_id", report.field_id)?;
    dict.set_item("max_definition_level", report.max_definition_level)?;
    dict.set_item("max_repetition_level", report.max_repetition_level)?;
    dict.set_item("physical_type", report.physical_type)?;
    dict.set_item("logical_type", report.logical_type)?;
    dict.set_item("codec", report.codec)?;
    dict.set_item("encodings", report.encodings)?;
    dict.set_item("encoding_stats", stats)?;
    dict.set_item("values", report.values)?;
    dict.set_item("nulls", report.nulls)?;
    dict.set_item("distinct", report.distinct)?;
    dict.set_item("min", report.min)?;
    dict.set_item("max", report.max)?;
    dict.set_item("min_exact", report.min_exact)?;
    dict.set_item("max_exact", report.max_exact)?;
    dict.set_item("compressed_bytes", report.compressed_bytes)?;
    dict.set_item("uncompressed_bytes", report.uncompressed_bytes)?;
    dict.set_item("dictionary_page", report.dictionary_page)?;
    dict.set_item("data_pages", report.data_pages)?;
    dict.set_item("column_index", report.column_index)?;
    dict.set_item("offset_index", report.offset_index)?;
    dict.set_item("bloom_filter", report.bloom_filter)?;
    dict.set_item("bloom_filter_bytes", report.bloom_filter_bytes)?;
    let pages = report.pages.map(|pages| {
        let pages = pages.into_iter().map(|page| page_dict(py, page));
        pages.collect::<PyResult<Vec<_>>>()
    });
    dict.set_item("pages", pages.transpose()?)?;
    Ok(dict)
}

fn page_dict(py: Python<'_>, report: PageReport) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("page_type", report.page_type)?;
    dict.set_item("encoding", report.encoding)?;
    dict.set_item("offset", report.offset)?;
    dict.set_item("compressed_bytes", report.compressed_bytes)?;
    dict.set_item("uncompressed_bytes", report.uncompressed_bytes)?;
    dict.set_item("checksum", report.checksum)?;
    dict.set_item("values", report.values)?;
    dict.set_item("first_row", report.first_row)?;
    dict.set_item("rows", report.rows)?;
    dict.set_item("nulls", report.nulls)?;
    dict.set_item("min", report.min)?;
    dict.set_item("max", report.max)?;
    Ok(dict)
}
