//! Row-level concurrency: transactions that mark different rows of one file both commit.
//!
//! A transaction that marks rows by deletion vectors carries a [`Merge`]. When other transactions have marked rows of
//! the same files first, the committer does not refuse it: it asks the merge for the transaction as it must be after
//! theirs, and attempts that one. Vectors lie in files, so a merge does I/O: the machine asks for it by
//! [`Effect::Merge`](crate::log::Effect::Merge).

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::actions::Add;
use crate::error::Result;
use crate::log::Version;
use crate::transaction::Transaction;

/// Makes a transaction follow others that marked rows of its files.
pub trait Merge: fmt::Debug + Send + Sync {
    /// The transaction as it must be after these, with their marks and its own.
    ///
    /// `theirs` are all marks of its files since the version that the transaction was last merged with, the oldest
    /// first. The last one of a file is the file's entry now.
    ///
    /// # Errors
    /// [`Conflict`](crate::CommitError::Conflict) when they marked rows that it marks too;
    /// [`Store`](crate::CommitError::Store) when a vector cannot be read or written.
    fn merge(&self, transaction: &Transaction, theirs: &[Marked]) -> Result<Transaction>;
}

/// The files of which a transaction marks rows.
#[derive(Debug, Clone)]
pub struct Marks {
    /// Their paths, in [`normal`](crate::path::normal) form.
    pub paths: BTreeSet<String>,
    /// The merge with others that mark rows of them.
    pub merge: Arc<dyn Merge>,
}

/// A file's entry in a version that marked rows of it.
#[derive(Debug, Clone)]
pub struct Marked {
    /// The version.
    pub version: Version,
    /// Its operation, in words.
    pub operation: String,
    /// The file with its new deletion vector.
    pub add: Add,
}

/// A merge that the committer asks for.
#[derive(Debug, Clone)]
pub struct MergeRequest {
    pub(crate) transaction: Arc<Transaction>,
    pub(crate) theirs: Vec<Marked>,
}

impl MergeRequest {
    /// Does the merge.
    ///
    /// # Errors
    /// As [`Merge::merge`].
    pub fn answer(&self) -> Result<Transaction> {
        match &self.transaction.marks {
            Some(marks) => marks.merge.merge(&self.transaction, &self.theirs),
            None => Ok(self.transaction.as_ref().clone()),
        }
    }
}
