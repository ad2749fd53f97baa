//! The input and output of a committer: its start, submissions, verdicts and counts.

use crate::actions::{Metadata, Protocol};
use crate::error::Result;
use crate::intent::PreparedAppend;
use crate::log::{BodyDigest, Version};
use crate::settle::Outcome;
use crate::timings::Timings;
use crate::transaction::{MemberId, Transaction};

/// The state of a table when its committer is made.
#[derive(Debug, Clone)]
pub struct Start {
    /// A version that was read whole; [`crate::log::BEFORE_FIRST`] for a table to be created.
    pub version: Version,
    /// `metaData.id` at that version.
    pub table_id: String,
    /// The last version up to it that changed metadata or protocol.
    pub changed_in: Version,
    /// Its in-commit timestamp, where the table has them: milliseconds since the epoch, 0 when it is not known.
    pub in_commit_timestamp: Option<i64>,
    /// The highest row id that was given up to that version, by the domain `delta.rowTracking`; none without it.
    pub high_water_mark: Option<i64>,
    /// The digest of that version's body. Without it, another table with a version of the same number is taken for this
    /// one until the next version is read or created.
    pub digest: Option<BodyDigest>,
    /// The protocol and the metadata at that version. Without them, every action that repeats them counts as a change,
    /// and files get no row ids.
    pub known: Option<(Protocol, Metadata)>,
}

/// The answer to a submission.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// A transaction committed in this version, or did not.
    Commit(Result<Version>),
    /// A doubt was settled, or was not.
    Settled(Outcome),
}

/// Counts of the races for versions that a committer took part in so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CommitStats {
    /// Versions that it tried to write.
    pub attempts: u64,
    /// Those of them that it knows to have written.
    pub won: u64,
    /// The most races that one transaction has lost.
    pub most_lost: u32,
    /// The times of its effects. The machine does no I/O, so the driver fills them in.
    pub timings: Timings,
}

/// A serialised transaction.
#[derive(Debug, Clone)]
pub struct Submission(pub(super) PreparedAppend);

impl Submission {
    /// Checks and serialises a transaction. This needs no lock.
    ///
    /// # Errors
    /// [`Invalid`](crate::CommitError::Invalid) or [`Malformed`](crate::CommitError::Malformed) when no version may
    /// hold it.
    pub fn new(transaction: Transaction) -> Result<Self> {
        transaction.check()?;
        for action in &transaction.actions {
            crate::intent::check_carried(action)?;
        }
        Ok(Self(PreparedAppend::new(transaction)?))
    }

    /// The transaction's id.
    #[must_use]
    pub fn id(&self) -> MemberId {
        self.0.id()
    }
}
