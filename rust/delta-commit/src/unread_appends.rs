//! The check of unread appends: blind appends that a transaction looked for and did not read.
//!
//! Under `WriteSerializable` such an append counts as if it had come after the transaction, whereas all other versions
//! count in their order. An append comes before a version that changed rows of it, and before a later version with
//! progress of the same application. So no order holds the append, such a version, and the transaction after that
//! version, if files that the transaction looked for are left of the append. An append is one version, which others
//! read whole or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::actions::{Add, PartitionValues};
use crate::conflict::{Bond, Conflict, ConflictKind, looked_for, partition_of};
use crate::log::Version;
use crate::transaction::{Isolation, Transaction};
use crate::winner::Winner;

/// The blind appends that a transaction did not read. [`take`](Self::take) takes in each version that it did not see,
/// and [`check`](Self::check) answers for all of them: a version may end the conflict with the one before it.
///
/// Appends are kept that have a file which the transaction looked for, or that follow one of those by their
/// applications.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnreadAppends {
    appends: Vec<BlindAppend>,
    /// The newest append of each application: an index of `appends`.
    newest: BTreeMap<String, usize>,
    /// The files in the table in which rows of the appends may be, by their normal paths.
    files: BTreeMap<String, File>,
    /// Normal paths of files to which others moved rows that the transaction may have read.
    moved: BTreeSet<String>,
}

/// A blind append.
#[derive(Debug, Clone, PartialEq, Eq)]
struct BlindAppend {
    version: Version,
    /// The append before it of each of its applications: an index of `appends`.
    follows: Vec<(usize, String)>,
    /// The reason why it comes before the transaction, if it does.
    pin: Option<Pin>,
}

/// A version that the transaction follows, and that follows an append.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pin {
    bond: Bond,
    version: Version,
    operation: String,
    changes_rows: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct File {
    place: Arc<RowOrigin>,
    /// True if the transaction looked for it and did not read it.
    is_missed: bool,
}

/// The place of files: their partition, and the appends of which rows may be in them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct RowOrigin {
    partition: PartitionValues,
    appends: BTreeSet<usize>,
}

impl UnreadAppends {
    /// Takes in the next version that the transaction did not see, and has no other conflict with.
    ///
    /// # Errors
    /// [`ConflictKind::ConcurrentDeleteRead`] when it removes rows that the transaction may have read, from a file to
    /// which an earlier version moved them.
    pub fn take(&mut self, transaction: &Transaction, winner: &Winner) -> Result<(), Box<Conflict>> {
        self.follow_candidates(transaction, winner)?;
        if !may_pass_over(transaction) {
            return Ok(());
        }
        self.follow(transaction, winner);
        if winner.is_blind_append() {
            self.note(transaction, winner);
        } else {
            for (index, app_id) in self.newest_of(winner) {
                self.pin(index, Bond::Application(app_id), winner);
            }
        }
        Ok(())
    }

    /// Follows rows that the transaction may have read to the files that they are moved to.
    fn follow_candidates(&mut self, transaction: &Transaction, winner: &Winner) -> Result<(), Box<Conflict>> {
        let Some(candidates) = &transaction.reads.candidates else {
            return Ok(());
        };
        let mut left = winner
            .removed_paths
            .iter()
            .filter(|path| self.moved.contains(*path));
        if let Some(path) = left.find(|path| !winner.moved_paths.contains(*path)) {
            let kind = ConflictKind::ConcurrentDeleteRead(path.clone());
            return Err(Box::new(Conflict::new(transaction, winner, kind)));
        }
        let mut moves = winner.moved_paths.iter();
        if moves.any(|path| candidates.contains(path) || self.moved.contains(path)) {
            let new = winner.adds.iter().filter(|add| looked_for(transaction, add));
            self.moved.extend(new.map(|add| add.normal_path().into_owned()));
        }
        Ok(())
    }

    /// Checks whether there is an order of the transaction, the appends and the versions that follow them.
    ///
    /// # Errors
    /// The conflict with the version that followed an append of which the transaction missed a file.
    pub fn check(&self, transaction: &Transaction) -> Result<(), Box<Conflict>> {
        if transaction.effective_isolation() != Isolation::WriteSerializable {
            return Ok(());
        }
        let missed = self.files.iter().filter(|(_, file)| file.is_missed);
        let pinned = missed.filter_map(|(path, file)| {
            let appends = file.place.appends.iter();
            let mut appends = appends.filter_map(|index| self.appends.get(*index));
            let (added_in, pin) = appends.find_map(|append| Some((append.version, append.pin.as_ref()?)))?;
            Some((added_in, path, file, pin))
        });
        match pinned.min_by_key(|(added_in, ..)| *added_in) {
            None => Ok(()),
            Some((added_in, path, file, pin)) => Err(Box::new(Conflict {
                kind: ConflictKind::PinnedAppend {
                    path: path.clone(),
                    partition: partition_of(&file.place.partition),
                    added_in,
                    bond: pin.bond.clone(),
                },
                version: pin.version,
                operation: pin.operation.clone(),
                read_version: transaction.read_version,
                only_moved: !pin.changes_rows,
            })),
        }
    }

    /// Notes a blind append. One is of no interest if nothing of it was looked for and it follows none that is noted.
    fn note(&mut self, transaction: &Transaction, winner: &Winner) {
        let follows = self.newest_of(winner);
        let missed = winner.adds.iter().map(|add| looked_for(transaction, add));
        let missed: Vec<bool> = missed.collect();
        if follows.is_empty() && !missed.contains(&true) {
            return;
        }
        let index = self.appends.len();
        let newest = winner.app_ids.iter().map(|app_id| (app_id.clone(), index));
        self.newest.extend(newest);
        self.appends.push(BlindAppend {
            version: winner.version,
            follows,
            pin: None,
        });
        let partitions = winner.adds.iter().map(|add| &add.partition_values);
        let own = |partition| (partition, BTreeSet::from([index]));
        let places = places(partitions.map(own).collect());
        for (add, is_missed) in winner.adds.iter().zip(missed) {
            self.put(add, &places, is_missed);
        }
    }

    /// Takes in a version that may have removed files of the appends.
    fn follow(&mut self, transaction: &Transaction, winner: &Winner) {
        if self.files.is_empty() {
            return;
        }
        let removed = winner.removed_paths.iter();
        let removed = removed.filter_map(|path| self.files.get(path));
        let removed: Vec<&File> = removed.collect();
        let misses = removed.iter().any(|file| file.is_missed);
        let left: BTreeSet<Arc<RowOrigin>> = removed.iter().map(|file| Arc::clone(&file.place)).collect();
        if winner.changes_rows {
            for index in left.iter().flat_map(|place| &place.appends) {
                self.pin(*index, Bond::Rows, winner);
            }
        } else {
            self.follow_rows(&left, winner, |add| misses && looked_for(transaction, add));
        }
        let gone = winner.removed_paths.iter();
        for path in gone.filter(|path| !winner.added_paths.contains(*path)) {
            self.files.remove(path);
        }
    }

    /// Takes in a version that moved rows out of files at these places. The log does not say which of its new files the
    /// rows are in: they are in those of the same partition. Another writer may spell the partition's values in another
    /// way, so they may be in any where none has the same.
    fn follow_rows(
        &mut self,
        left: &BTreeSet<Arc<RowOrigin>>,
        winner: &Winner,
        is_missed: impl Fn(&Add) -> bool,
    ) {
        let present: BTreeSet<&PartitionValues> =
            winner.adds.iter().map(|add| &add.partition_values).collect();
        let mut appends = BTreeMap::<&PartitionValues, BTreeSet<usize>>::new();
        for place in left {
            let own = present.get(&place.partition);
            let others = present.iter().filter(|_| own.is_none());
            for partition in own.into_iter().chain(others) {
                appends.entry(*partition).or_default().extend(&place.appends);
            }
        }
        let places = places(appends);
        for add in &winner.adds {
            self.put(add, &places, is_missed(add));
        }
    }

    /// Puts a file at the place of its partition. It stays where it was, too.
    fn put(&mut self, add: &Add, places: &BTreeMap<&PartitionValues, Arc<RowOrigin>>, is_missed: bool) {
        let Some(place) = places.get(&add.partition_values) else {
            return;
        };
        let file = self
            .files
            .entry(add.normal_path().into_owned())
            .or_insert_with(|| File {
                place: Arc::clone(place),
                is_missed,
            });
        file.is_missed |= is_missed;
        if !place.appends.is_subset(&file.place.appends) {
            file.place = Arc::new(RowOrigin {
                partition: place.partition.clone(),
                appends: &place.appends | &file.place.appends,
            });
        }
    }

    /// The newest append of each application of which a version has progress.
    fn newest_of(&self, winner: &Winner) -> Vec<(usize, String)> {
        let newest = winner.app_ids.iter();
        newest
            .filter_map(|app_id| Some((*self.newest.get(app_id)?, app_id.clone())))
            .collect()
    }

    /// Notes that an append comes before the transaction, because of this version, and with it those that it follows.
    fn pin(&mut self, index: usize, bond: Bond, by: &Winner) {
        let mut left = vec![(index, bond)];
        while let Some((index, bond)) = left.pop() {
            if let Some(append) = self.appends.get_mut(index)
                && append.pin.is_none()
            {
                append.pin = Some(Pin {
                    bond,
                    version: by.version,
                    operation: by.operation().to_owned(),
                    changes_rows: by.changes_rows,
                });
                let before = append.follows.iter().cloned();
                left.extend(before.map(|(index, app_id)| (index, Bond::Application(app_id))));
            }
        }
    }
}

/// Returns true if the transaction may pass over appends. One that read the whole table, and can be merged with no
/// marks, has a conflict with every version that adds files and is no append, and with every one that removes any.
fn may_pass_over(transaction: &Transaction) -> bool {
    let reads = &transaction.reads;
    transaction.isolation == Isolation::WriteSerializable
        && reads.looks_for_rows()
        && (!reads.whole_table || transaction.marks.is_some())
}

fn places(
    appends: BTreeMap<&PartitionValues, BTreeSet<usize>>,
) -> BTreeMap<&PartitionValues, Arc<RowOrigin>> {
    let places = appends.into_iter().map(|(partition, appends)| {
        let place = RowOrigin {
            partition: partition.clone(),
            appends,
        };
        (partition, Arc::new(place))
    });
    places.collect()
}
