//! Errors of an inspection.

use std::io;

/// The reason why a file could not be inspected. The caller adds the path to the message.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// There are no bytes at all.
    #[error("the file is empty")]
    Empty,
    /// The first four bytes are not Parquet's magic.
    #[error("not a Parquet file: it does not begin with PAR1")]
    NotParquet,
    /// The file begins like Parquet but does not end so.
    #[error(
        "the file begins as Parquet but has no footer at its end: it is truncated, or its writer did not finish"
    )]
    Truncated,
    /// The footer is encrypted.
    #[error("the footer is encrypted; decrypt the file to inspect it")]
    Encrypted,
    /// The footer cannot be decoded.
    #[error("the footer is damaged: {0}")]
    Damaged(String),
    /// A page index cannot be decoded. Most readers do without one.
    #[error("a page index is damaged, and the footer is not: {0}")]
    DamagedIndex(String),
    /// A page's header, at this place in the file, cannot be decoded, or its page does not fit its column chunk.
    #[error("the header of the page at byte {0} is damaged")]
    DamagedPage(u64),
    /// The file has more pages than a report lists.
    #[error("the file has more than {0} pages, too many to list: inspect it without pages")]
    TooManyPages(u64),
}
