//! Builds Arrow batches from rows: typed builders, coercion, inference, and a parser for NDJSON.
//!
//! [`Rows`] holds one builder per column of a schema. A reader of cells (the NDJSON parser here, the Python module
//! elsewhere) finds the column of a key with [`Keys`], which expects the key that came at this position in the last
//! row. It appends the value directly to [`Values`] if its type is the column's own, or through [`Scalar`] if it must
//! be converted. A row that does not fit is rolled back and leaves nothing.
//!
//! Strings, binaries, lists and runs are built in one plain form per type, whatever form the schema declares: the
//! writer takes all forms of a type as equal.

mod column;
mod decimal;
mod error;
mod infer;
mod keys;
mod large_values;
mod ndjson;
mod plain;
mod repeated;
mod scalar;
mod table;
mod temporal;
mod text;
mod values;
mod wider;

pub use column::ColumnBuilder;
pub use error::{Misfit, RowError, UnsupportedColumn};
pub use infer::{Guess, Shape, TypeConflict};
pub use keys::{Keys, Slot};
pub use ndjson::{Ndjson, Visitor, infer as infer_ndjson};
pub use scalar::Scalar;
pub use table::{Extra, Fields, Rows};
pub use temporal::Instant;
pub use text::{Blob, MOST_VALUE_BYTES, Text};
pub use values::{FixedListValues, ListValues, MapValues, Values};
pub use wider::widened;
