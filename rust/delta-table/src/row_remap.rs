//! Rows that a compaction copied to other files, and the merge with deletes that marked them meanwhile.
//!
//! Rows are copied without those that were deleted. So a row's number among the copied ones follows from its number in
//! the old file: the number of the file's first copied row, plus that of the copied rows before it. It is the row's
//! place in the new file where the order is kept; otherwise a list has the place of each. A row that another
//! transaction marks in the old file while the copy is made is marked in the new one.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex};

use delta_commit::actions::{Action, Add, DeletionVector, Remove};
use delta_commit::conflict::ConflictKind;
use delta_commit::{CommitError, Marked, Marks, Merge, Transaction};
use roaring::RoaringTreemap;

use crate::clock::now;
use crate::deletion_vectors::{self, widened};
use crate::error::{Result, TableError};
use crate::row_merge::{as_commit, refusal};
use crate::snapshot::Snapshot;
use crate::storage::TableStorage;
use crate::table::lock;

/// A file whose rows were copied.
pub(crate) struct CopiedSource {
    pub add: Arc<Add>,
    /// Its rows, deleted ones too.
    pub rows: u64,
    /// Its rows that were deleted already, and so were not copied.
    pub deleted: RoaringTreemap,
    /// The number of its first row among the copied rows.
    pub first: u64,
}

impl CopiedSource {
    /// The numbers among the copied rows of these, as far as they were copied.
    fn moved(&self, rows: &RoaringTreemap) -> RoaringTreemap {
        let mut deleted = self.deleted.iter().peekable();
        let mut before = 0;
        let moved = rows.iter().filter_map(|row| {
            while deleted.next_if(|gone| *gone < row).is_some() {
                before += 1;
            }
            (deleted.peek() != Some(&row)).then(|| self.first + row - before)
        });
        moved.collect()
    }

    /// Returns true if no row came back: all that were deleted when it was copied still are.
    fn precedes(&self, deleted: &RoaringTreemap) -> bool {
        self.deleted.is_subset(deleted)
    }

    fn check_rows(&self, deleted: &RoaringTreemap) -> Result<()> {
        match deleted.max() {
            Some(last) if last >= self.rows => Err(TableError::Malformed(format!(
                "{}: the file has {} rows, and its deletion vector deletes the row {last}: it is another file's vector, \
                 or a damaged one",
                self.add.path, self.rows
            ))),
            _ => Ok(()),
        }
    }
}

/// A file that rows were copied into.
pub(crate) struct NewFile {
    pub add: Add,
    pub rows: u64,
}

impl NewFile {
    /// Its entry with some of its rows deleted.
    fn marked(&self, vector: Option<DeletionVector>) -> Add {
        Add {
            deletion_vector: vector,
            stats: Some(widened(self.add.stats.as_deref(), self.rows)),
            ..self.add.clone()
        }
    }
}

/// Files whose rows were copied together.
pub(crate) struct Bin {
    pub sources: Vec<CopiedSource>,
    /// The new files; none where no row is left.
    pub new: Vec<NewFile>,
    /// The place of each copied row among the rows of all new files; none where they are in their order.
    pub places: Option<Vec<u32>>,
}

impl Bin {
    /// The rows of each new file that were deleted in the old ones since they were copied.
    ///
    /// # Errors
    /// [`TableError::Malformed`] for a row that was not copied.
    fn marked(&self, entries: &MarkedFiles) -> Result<Vec<RoaringTreemap>> {
        let marked = self.sources.iter().filter_map(|source| {
            let entry = entries.get(source.add.normal_path().as_ref())?;
            Some(source.moved(&entry.1))
        });
        let marked = marked.fold(RoaringTreemap::new(), |all, some| all | some);
        let places: RoaringTreemap = match &self.places {
            None => marked,
            Some(places) => marked
                .iter()
                .map(|row| place_of(places, row))
                .collect::<Result<_>>()?,
        };
        let mut places = places.iter().peekable();
        let mut end = 0;
        let of_files = self.new.iter().map(|new| {
            let first = end;
            end += new.rows;
            let rows = std::iter::from_fn(|| places.next_if(|place| *place < end));
            rows.map(|place| place - first).collect()
        });
        Ok(of_files.collect())
    }
}

fn place_of(places: &[u32], row: u64) -> Result<u64> {
    let place = usize::try_from(row).ok().and_then(|row| places.get(row));
    place.map(|place| u64::from(*place)).ok_or_else(|| {
        TableError::Malformed(format!(
            "row {row} was deleted, and is none of those that were copied"
        ))
    })
}

/// The newest entries of files of which rows were marked since they were copied, by their normal paths, and all their
/// deleted rows.
type MarkedFiles = BTreeMap<String, Arc<(Add, RoaringTreemap)>>;

/// Files and bytes that a compaction takes out of a table and brings into it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RewriteCounts {
    pub removed_files: u64,
    pub removed_bytes: u64,
    pub added_files: u64,
    pub added_bytes: u64,
}

/// A compaction's files, and the marks of others that it has taken over.
///
/// Its lock is held for no I/O, so that no thread waits for a store to give it up.
pub(crate) struct RowRemap {
    storage: Arc<dyn TableStorage>,
    bins: Vec<Arc<Bin>>,
    /// The bin and the number in it of each old file, by its normal path.
    sources: HashMap<String, (usize, usize)>,
    state: Mutex<RemapState>,
}

struct RemapState {
    marked: MarkedFiles,
    /// Files of vectors that were written for it and are still there.
    vectors: Vec<String>,
    /// True if the compaction was given up. A merge that another thread still does for it leaves no file then.
    given_up: bool,
    counts: RewriteCounts,
}

impl RemapState {
    /// Notes new files of vectors. Returns those that are of no more use.
    fn exchange(&mut self, new: Vec<String>) -> Vec<String> {
        let mut gone = std::mem::replace(&mut self.vectors, new);
        if self.given_up {
            gone.append(&mut self.vectors);
        }
        gone
    }
}

impl fmt::Debug for RowRemap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowRemap").finish_non_exhaustive()
    }
}

impl RowRemap {
    /// A compaction of these bins.
    pub fn new(storage: &Arc<dyn TableStorage>, bins: Vec<Arc<Bin>>) -> Self {
        let numbered = bins.iter().enumerate().flat_map(|(bin, files)| {
            let sources = files.sources.iter().enumerate();
            sources.map(move |(number, source)| (source.add.normal_path().into_owned(), (bin, number)))
        });
        Self {
            storage: Arc::clone(storage),
            sources: numbered.collect(),
            bins,
            state: Mutex::new(RemapState {
                marked: MarkedFiles::new(),
                vectors: Vec::new(),
                given_up: false,
                counts: RewriteCounts::default(),
            }),
        }
    }

    /// The same compaction in a newer version of the table, without the bins of which a file left the table or got rows
    /// back; and those bins.
    ///
    /// # Errors
    /// An error if a deletion vector cannot be read.
    pub fn rebased(&self, snapshot: &Snapshot) -> Result<(Self, Vec<Arc<Bin>>)> {
        let files = snapshot.files().map(|add| (add.normal_path(), add));
        let files: HashMap<Cow<'_, str>, &Arc<Add>> = files
            .filter(|(path, _)| self.sources.contains_key(path.as_ref()))
            .collect();
        let mut changed: Vec<&Add> = Vec::new();
        for source in self.bins.iter().flat_map(|bin| &bin.sources) {
            if let Some(add) = files.get(&source.add.normal_path())
                && vector_id(add) != vector_id(&source.add)
            {
                changed.push(add);
            }
        }
        let deleted = deletion_vectors::read_each(&self.storage, &changed)?;
        let changed = changed.into_iter().zip(deleted);
        let mut marked: MarkedFiles = changed
            .map(|(add, rows)| (add.normal_path().into_owned(), Arc::new((add.clone(), rows))))
            .collect();
        let mut kept = Vec::new();
        let mut dropped = Vec::new();
        for bin in &self.bins {
            let mut is_there = true;
            for source in &bin.sources {
                let path = source.add.normal_path();
                // A file that was written again under its own path holds other rows.
                is_there &= files.get(&path).is_some_and(|add| {
                    (add.size, add.modification_time) == (source.add.size, source.add.modification_time)
                });
                if let Some(entry) = marked.get(path.as_ref()) {
                    is_there &= source.precedes(&entry.1);
                    source.check_rows(&entry.1)?;
                }
            }
            if is_there {
                kept.push(Arc::clone(bin));
            } else {
                dropped.push(Arc::clone(bin));
            }
        }
        let rebased = Self::new(&self.storage, kept);
        marked.retain(|path, _| rebased.sources.contains_key(path));
        lock(&rebased.state).marked = marked;
        Ok((rebased, dropped))
    }

    /// The bins that it still has.
    pub fn bins(&self) -> &[Arc<Bin>] {
        &self.bins
    }

    /// The normal paths of the old files.
    pub fn paths(&self) -> BTreeSet<String> {
        self.sources.keys().cloned().collect()
    }

    pub fn marks(self: &Arc<Self>) -> Marks {
        Marks {
            paths: self.paths(),
            merge: Arc::clone(self) as Arc<dyn Merge>,
        }
    }

    /// The counts of the transaction that was filled last.
    pub fn counts(&self) -> RewriteCounts {
        lock(&self.state).counts
    }

    /// Gives a transaction the actions of the compaction, with the marks of others that are known.
    ///
    /// # Errors
    /// An error if vectors cannot be written.
    pub fn fill(&self, transaction: Transaction) -> Result<Transaction> {
        self.filled(transaction, self.marked())
    }

    /// The marks of others that are known.
    fn marked(&self) -> MarkedFiles {
        lock(&self.state).marked.clone()
    }

    fn filled(&self, mut transaction: Transaction, marked: MarkedFiles) -> Result<Transaction> {
        let marks = self.bins.iter().map(|bin| bin.marked(&marked));
        let marks = marks.collect::<Result<Vec<_>>>()?;
        let files = self
            .bins
            .iter()
            .zip(&marks)
            .flat_map(|(bin, marks)| bin.new.iter().zip(marks));
        let partly = files.filter(|(new, marks)| !marks.is_empty() && marks.len() < new.rows);
        let rows: Vec<RoaringTreemap> = partly.map(|(_, marks)| marks.clone()).collect();
        let written = deletion_vectors::write(&self.storage, &rows)?;
        let mut vectors = written.vectors.into_iter();
        let at = now();
        transaction.actions = Vec::new();
        for (bin, marks) in self.bins.iter().zip(&marks) {
            for source in &bin.sources {
                let marked = marked.get(source.add.normal_path().as_ref());
                let entry = marked.map_or(source.add.as_ref(), |marked| &marked.0);
                transaction
                    .actions
                    .push(Action::Remove(Remove::of(entry, at, false)));
            }
            let left = bin
                .new
                .iter()
                .zip(marks)
                .filter(|(new, marks)| marks.len() < new.rows);
            let adds = left.map(|(new, marks)| {
                if marks.is_empty() {
                    new.add.clone()
                } else {
                    new.marked(vectors.next())
                }
            });
            transaction.actions.extend(adds.map(Action::Add));
        }
        if !self.storage.keeps() {
            transaction.unsynced = transaction.added_paths().map(str::to_owned).collect();
            transaction.unsynced.extend(written.files.iter().cloned());
        }
        let counts = count(&mut transaction);
        let gone = {
            let mut state = lock(&self.state);
            state.marked = marked;
            state.counts = counts;
            state.exchange(written.files)
        };
        self.storage.remove(&gone);
        Ok(transaction)
    }

    /// Removes the files of vectors of a compaction that certainly is not in the table and never will be.
    pub fn give_up(&self) {
        let gone = {
            let mut state = lock(&self.state);
            state.given_up = true;
            state.exchange(Vec::new())
        };
        self.storage.remove(&gone);
    }

    /// Takes over the deleted rows of a file's entry in another version.
    fn take(
        &self,
        transaction: &Transaction,
        marked: &mut MarkedFiles,
        theirs: &Marked,
        deleted: RoaringTreemap,
    ) -> Result<(), CommitError> {
        let path = theirs.add.normal_path();
        let source = self.sources.get(path.as_ref());
        let source = source.map(|(bin, number)| &self.bins[*bin].sources[*number]);
        let Some(source) = source.filter(|source| source.precedes(&deleted)) else {
            let kind = ConflictKind::ConcurrentDeleteRead(path.into_owned());
            return Err(refusal(transaction, theirs, kind));
        };
        source.check_rows(&deleted).map_err(as_commit)?;
        marked.insert(path.into_owned(), Arc::new((theirs.add.clone(), deleted)));
        Ok(())
    }
}

impl Merge for RowRemap {
    fn merge(&self, transaction: &Transaction, theirs: &[Marked]) -> Result<Transaction, CommitError> {
        let last: BTreeMap<Cow<'_, str>, &Marked> = theirs
            .iter()
            .map(|marked| (marked.add.normal_path(), marked))
            .collect();
        let adds: Vec<&Add> = last.values().map(|marked| &marked.add).collect();
        let deleted = deletion_vectors::read_each(&self.storage, &adds).map_err(as_commit)?;
        let mut marked = self.marked();
        for (entry, deleted) in last.values().zip(deleted) {
            self.take(transaction, &mut marked, entry, deleted)?;
        }
        self.filled(transaction.clone(), marked).map_err(as_commit)
    }
}

/// An id that tells the deletion vectors of one file apart.
fn vector_id(add: &Add) -> Option<String> {
    add.deletion_vector.as_ref().map(DeletionVector::unique_id)
}

/// Counts files and bytes, and notes them by delta-spark's names.
fn count(transaction: &mut Transaction) -> RewriteCounts {
    let mut counts = RewriteCounts::default();
    let mut sizes = Vec::new();
    let mut vectors = 0_u64;
    for action in &transaction.actions {
        match action {
            Action::Add(add) => sizes.push(u64::try_from(add.size).unwrap_or(0)),
            Action::Remove(remove) => {
                counts.removed_files += 1;
                counts.removed_bytes += remove.size.map_or(0, |size| u64::try_from(size).unwrap_or(0));
                vectors += u64::from(remove.deletion_vector.is_some());
            }
            _ => {}
        }
    }
    sizes.sort_unstable();
    counts.added_files = sizes.len() as u64;
    counts.added_bytes = sizes.iter().sum();
    let at = |quarter: usize| {
        let last = sizes.len().saturating_sub(1);
        sizes.get(last * quarter / 4).copied().unwrap_or(0)
    };
    let metrics = [
        ("numRemovedFiles", counts.removed_files),
        ("numRemovedBytes", counts.removed_bytes),
        ("numAddedFiles", counts.added_files),
        ("numAddedBytes", counts.added_bytes),
        ("minFileSize", at(0)),
        ("p25FileSize", at(1)),
        ("p50FileSize", at(2)),
        ("p75FileSize", at(3)),
        ("maxFileSize", at(4)),
        ("numDeletionVectorsRemoved", vectors),
    ];
    let metrics = metrics.map(|(name, count)| (name.to_owned(), count.to_string()));
    transaction.operation.metrics.extend(metrics);
    counts
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use delta_commit::MemberId;
    use proptest::prelude::*;

    use super::*;
    use crate::tests::process::{Process, Step};

    #[test]
    fn a_merge_reads_and_writes_vectors_without_its_lock() {
        let folder = tempfile::tempdir().unwrap();
        let (known, steps) = (
            Arc::new(OnceLock::<Arc<RowRemap>>::new()),
            Arc::new(AtomicUsize::new(0)),
        );
        let storage = {
            let (known, steps) = (Arc::clone(&known), Arc::clone(&steps));
            let before = move |_: Step| {
                if let Some(moved) = known.get() {
                    assert!(moved.state.try_lock().is_ok());
                    steps.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            };
            Process::storage(folder.path(), 0, Arc::new(before))
        };
        let old = Arc::new(Add::default());
        let bin = Bin {
            sources: vec![CopiedSource {
                add: Arc::clone(&old),
                rows: 10_000,
                deleted: RoaringTreemap::new(),
                first: 0,
            }],
            new: vec![NewFile {
                add: Add {
                    path: "new".to_owned(),
                    ..Add::default()
                },
                rows: 10_000,
            }],
            places: None,
        };
        let moved = Arc::new(RowRemap::new(&storage, vec![Arc::new(bin)]));
        // Too many for a vector in the log.
        let merged = |version, from| {
            let rows: RoaringTreemap = (0..10_000)
                .step_by(10)
                .chain((from..10_000).step_by(10))
                .collect();
            let written = deletion_vectors::write(&storage, &[rows]).unwrap();
            let marked = Marked {
                version,
                operation: "DELETE".to_owned(),
                add: Add {
                    deletion_vector: written.vectors.into_iter().next(),
                    ..old.as_ref().clone()
                },
            };
            known.get_or_init(|| Arc::clone(&moved));
            let transaction = Transaction::append(MemberId::random(), 1, Vec::new());
            moved.merge(&transaction, &[marked]).unwrap()
        };
        merged(2, 1);
        merged(3, 2);
        moved.give_up();
        // It wrote two files and removed both. The other one is that of the second deletion.
        assert_eq!(steps.load(Ordering::Relaxed), 5);
    }

    /// Copied rows in another order, cut into files.
    fn reordered() -> impl Strategy<Value = (Vec<u32>, Vec<u64>)> {
        let places = Just((0..60_u32).collect::<Vec<_>>()).prop_shuffle();
        let cuts = prop::collection::btree_set(1_u64..60, 0..5);
        let sizes = cuts.prop_map(|cuts| {
            let ends = cuts.iter().copied().chain([60]);
            let starts = [0].into_iter().chain(cuts.iter().copied());
            ends.zip(starts).map(|(end, start)| end - start).collect()
        });
        (places, sizes)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_row_that_changed_its_place_is_marked_there(
            (places, sizes) in reordered(),
            gone in prop::collection::btree_set(0_u64..60, 0..60),
        ) {
            let add = Add { path: "old".to_owned(), ..Add::default() };
            let source = CopiedSource {
                add: Arc::new(add.clone()),
                rows: 60,
                deleted: RoaringTreemap::new(),
                first: 0,
            };
            let bin = Bin {
                sources: vec![source],
                new: sizes.iter().map(|rows| NewFile { add: Add::default(), rows: *rows }).collect(),
                places: Some(places.clone()),
            };
            let entries = [("old".to_owned(), Arc::new((add, gone.iter().copied().collect())))].into();
            let mut expected = vec![RoaringTreemap::new(); sizes.len()];
            for row in gone {
                let mut place = u64::from(places[usize::try_from(row).unwrap()]);
                let mut file = 0;
                while place >= sizes[file] {
                    place -= sizes[file];
                    file += 1;
                }
                expected[file].insert(place);
            }
            prop_assert_eq!(bin.marked(&entries).unwrap(), expected);
        }

        #[test]
        fn a_row_is_found_where_it_was_copied_to(
            before in prop::collection::btree_set(0_u64..60, 0..60),
            after in prop::collection::btree_set(0_u64..60, 0..60),
            first in 0_u64..1_000,
        ) {
            let source = CopiedSource {
                add: Arc::new(Add::default()),
                rows: 60,
                deleted: before.iter().copied().collect(),
                first,
            };
            let copied: Vec<u64> = (0..60).filter(|row| !before.contains(row)).collect();
            let expected: RoaringTreemap = (first..)
                .zip(&copied)
                .filter(|(_, row)| after.contains(*row))
                .map(|(number, _)| number)
                .collect();
            prop_assert_eq!(source.moved(&after.iter().copied().collect()), expected);
        }
    }
}
