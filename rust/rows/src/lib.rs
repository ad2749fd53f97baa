//! Rows in, Arrow batches out: typed builders, coercion, inference, and a parser for NDJSON.
//!
//! [`Rows`] holds one builder per column of a schema. Whoever has cells (the NDJSON parser here, the Python module
//! elsewhere) finds the column of a key with [`Keys`], which expects the key that came at this place in the last
//! row, and appends the value: directly into [`Values`] where its type is the column's own, by [`Scalar`] where it
//! has to be converted. A row that does not fit is rolled back and leaves nothing.
//!
//! Strings, binaries, lists and runs are built in one plain form per type, whatever form the schema declares: the
//! writer takes all forms of a type as equal.

mod column;
mod decimal;
mod error;
mod infer;
mod keys;
mod ndjson;
mod plain;
mod scalar;
mod table;
mod temporal;
mod text;
mod values;

pub use column::Column;
pub use error::{Misfit, RowError, UnsupportedType};
pub use infer::{Conflict, Guess, Shape};
pub use keys::{Keys, Slot};
pub use ndjson::{Ndjson, Visitor, infer as infer_ndjson};
pub use scalar::Scalar;
pub use table::{Extra, Fields, Rows};
pub use temporal::Instant;
pub use text::{Blob, MOST_VALUE_BYTES, Text};
pub use values::{FixedListValues, ListValues, MapValues, Values};
