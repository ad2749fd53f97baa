//! Reports on a Parquet file's footer and page indexes as plain values: row groups, encodings, sizes, statistics,
//! indexes. No page is read, so a file of any size is inspected at once; on request the headers of all pages are.

mod error;
mod footer;
mod meaning;
mod page_indexes;
mod pages;
mod read;
mod report;
mod schema_difference;
mod schema_nodes;
mod value;

pub use error::InspectError;
pub use footer::read_footer;
pub use page_indexes::read_page_indexes;
pub use pages::DecodedPageHeader;
pub use read::{Depth, inspect, open_footer};
pub use report::{ColumnChunkReport, FileReport, PageEncoding, PageReport, RowGroupReport, SortingColumn};
pub use schema_difference::{SchemaDifference, schema_difference};
pub use schema_nodes::MOST_LEVELS;
