//! The encodings that a leaf column may get, and what one row group tells the next. The first page decides among them,
//! by its compressed size in each: `column/flat/decide.rs`.

mod evidence;
mod growth;
mod sample;

use parquet::basic::Encoding;
use parquet_encode::dictionary::DictionaryLimits;

use crate::budget::LARGEST_DICTIONARY;

pub(crate) use evidence::{Chooser, FEWEST_VALUES};
pub(crate) use growth::Growth;

/// Bytes of a dictionary above which a column chunk goes on without it. This is twice the limit of other writers, since
/// columns get dictionaries here only where they save bytes.
pub(crate) const DICTIONARY_BYTES: usize = 2 << 20;
/// The most rows of a page: a reader that looks for one row has to decode them all. So many values of eight bytes fill
/// a page; with fewer, a codec that begins each page anew finds fewer repeats.
pub(crate) const PAGE_ROWS: usize = 32_768;

/// The choice for one leaf column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Choice {
    /// True if it starts with a dictionary.
    pub dictionary: bool,
    /// Its encoding without one, or after one that grew too large.
    pub encoding: Encoding,
    /// The limits of the dictionary.
    pub limits: DictionaryLimits,
    /// The encodings that the first page is tried in, where that decides.
    pub trial: Option<Trial>,
    /// The reason for what the chunk ended with, once there is one.
    pub reason: Option<Reason>,
}

/// The reason for the encodings of a column chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The caller named the encoding.
    Named,
    /// No other is allowed, or there is no value to try one with.
    Only,
    /// Rows come with a dictionary, which is kept.
    Given,
    /// Values repeat so much that a dictionary was not weighed.
    Repeats,
    /// The first page costs least in it.
    Lightest,
    /// The dictionary page has all the bytes that it may have, and the chunk goes on without.
    Full,
    /// The dictionary cost more than it saved, and the chunk goes on without.
    Outweighed,
    /// The chunk was copied from another file.
    Copied,
}

impl Reason {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Named => "named",
            Self::Only => "only",
            Self::Given => "given",
            Self::Repeats => "repeats",
            Self::Lightest => "lightest",
            Self::Full => "full",
            Self::Outweighed => "outweighed",
            Self::Copied => "copied",
        }
    }
}

/// The candidates of a chunk that are judged by its first page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trial {
    /// Encodings without a dictionary.
    pub direct: &'static [Encoding],
    /// Rows that the row group is expected to have.
    pub rows: usize,
}

impl Choice {
    /// A choice with a dictionary as large as it pays.
    pub const fn new(dictionary: bool, encoding: Encoding) -> Self {
        Self {
            dictionary,
            encoding,
            limits: LARGEST_DICTIONARY,
            trial: None,
            reason: None,
        }
    }
}
