//! Counts of what happened in a schedule.

/// Counts of the events of a schedule, which prove that it exercised the machine.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Coverage {
    /// Versions in the log.
    pub versions: usize,
    /// Transactions that were acknowledged.
    pub committed: usize,
    /// Transactions that were rejected for a conflict or in time.
    pub rejected: usize,
    /// Commits that ended in doubt.
    pub doubts: usize,
    /// Doubts that were settled, either way.
    pub settled: usize,
    /// Members that landed in a version that another process wrote.
    pub helped: usize,
    /// Processes that died.
    pub crashes: usize,
    /// Processes that were cloned.
    pub clones: usize,
    /// Power cuts.
    pub power_cuts: usize,
    /// Data files and versions that never reached the disk.
    pub doomed: usize,
    /// Transactions that were merged with marks of others.
    pub merged: usize,
    /// Those of them that moved rows to other files.
    pub moved: usize,
    /// Versions that were created after a checkpoint of which no version was left.
    pub after_checkpoint: usize,
}

impl Coverage {
    fn counts(&mut self) -> [&mut usize; 13] {
        [
            &mut self.versions,
            &mut self.committed,
            &mut self.rejected,
            &mut self.doubts,
            &mut self.settled,
            &mut self.helped,
            &mut self.crashes,
            &mut self.clones,
            &mut self.power_cuts,
            &mut self.doomed,
            &mut self.merged,
            &mut self.moved,
            &mut self.after_checkpoint,
        ]
    }

    /// The count of what happened least.
    #[must_use]
    pub fn least(mut self) -> usize {
        self.counts().into_iter().map(|count| *count).min().unwrap_or(0)
    }
}

impl std::ops::AddAssign for Coverage {
    fn add_assign(&mut self, mut other: Self) {
        for (sum, count) in self.counts().into_iter().zip(other.counts()) {
            *sum += *count;
        }
    }
}
