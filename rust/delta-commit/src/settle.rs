//! Tokens and outcomes: the means to settle a doubt about a commit.

use serde::{Deserialize, Serialize};

use crate::error::{CommitError, Result};
use crate::log::Version;

/// The facts needed to find out whether a transaction in doubt is in the table.
///
/// A token outlives its process: keep it as [`to_text`](Self::to_text).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Token {
    /// The table, `metaData.id`.
    pub table_id: String,
    /// The transaction.
    pub id: String,
    /// The first version that may hold it.
    pub first: Version,
    /// The last version that may hold it.
    pub last: Version,
    /// The names of its intents.
    pub intents: Vec<String>,
    /// True if an announcement may still arrive, so that its deletion settles nothing.
    pub announcement_in_doubt: bool,
    /// The last expiry of its intents, by the store's clock: milliseconds since the epoch. An announcement that arrives
    /// later is left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<i64>,
}

impl Token {
    /// The token as one line of text.
    ///
    /// # Errors
    /// Never in practice: a token always has a JSON form.
    pub fn to_text(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|e| CommitError::Malformed(format!("the token has no text: {e}")))
    }

    /// The token that [`to_text`](Self::to_text) wrote.
    ///
    /// # Errors
    /// [`CommitError::Malformed`] when it is not one.
    pub fn from_text(text: &str) -> Result<Self> {
        serde_json::from_str(text)
            .map_err(|e| CommitError::Malformed(format!("{text:?} is not the token of a commit: {e}")))
    }
}

/// The outcome of a transaction in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The transaction is in this version, which survives a crash.
    Committed(Version),
    /// The transaction is not in the table and never will be: its data files may be deleted.
    Rejected,
    /// The outcome is not known yet: ask again later.
    Pending,
    /// The outcome cannot be known any more: the log that would show it was cleaned up.
    Unknowable,
}

/// The next step of a settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SettleStep {
    /// The intents must be deleted.
    Delete,
    /// The tip must be read after the deletion.
    ReadTip,
    /// This version must exist, and not hold the transaction.
    Await(Version),
}
