//! Reports on a Parquet file's footer and page indexes as plain values: row groups, encodings, sizes, statistics,
//! indexes. No page is read, so a file of any size is inspected at once.

mod error;
mod meaning;
mod read;
mod report;
mod value;

pub use error::InspectError;
pub use read::inspect;
pub use report::{ColumnChunkReport, FileReport, PageEncoding, RowGroupReport, SortingColumn};
