//! Errors of digests.

use thiserror::Error as ThisError;

/// The reason why a digest could not be made, merged or decoded.
#[derive(Debug, ThisError, PartialEq, Eq)]
pub enum Error {
    /// The type has no canonical encoding.
    #[error("type {0} has no canonical encoding: unions and run-end encoded arrays cannot be digested")]
    Unsupported(String),
    /// Spark has no such type.
    #[error("Spark has no type for {0}")]
    NotInSpark(String),
    /// Two parts differ in their columns.
    #[error("parts of one digest must have the same columns: expected [{expected}], got [{actual}]")]
    ColumnsDiffer {
        /// Columns so far, as `name: type`.
        expected: String,
        /// Columns of the part that was refused.
        actual: String,
    },
    /// The positions given do not match the batch.
    #[error("{positions} row positions were given for {rows} rows; one non-null position per row is needed")]
    Positions {
        /// Valid positions given.
        positions: usize,
        /// Rows in the batch.
        rows: usize,
    },
    /// An encoded digest is damaged or was made by another version.
    #[error("not an encoded digest of this version: {0}")]
    Encoded(&'static str),
    /// Arrow refused an operation on the input.
    #[error("the input is not valid Arrow data: {0}")]
    Arrow(String),
}
