//! The search of a merge: which rows of the table its clauses change, and which rows of the source they insert.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use delta_commit::actions::Add;
use parquet_writer::WriteError;
use roaring::RoaringTreemap;

use crate::error::{Result, TableError};
use crate::row_change::{RowChange, RowCounts};
use crate::scan::{FoundRows, NumberedRows};
use crate::values::Evaluate;

use super::clauses::{Clause, ClauseKind, ClauseRows, chosen};
use super::keys::{Groups, KeyConverter};
use super::source::{MergeSource, SourceRow};

/// Pairs of rows that are looked at together.
const PAIRS: usize = 8_192;

/// Counts of the rows of a merge, by what they are.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MergeCounts {
    pub inserted: u64,
    pub updated: u64,
    pub deleted: u64,
    pub updated_by_source: u64,
    pub deleted_by_source: u64,
}

impl MergeCounts {
    pub fn counts(self) -> RowCounts {
        RowCounts {
            inserted: self.inserted,
            updated: self.updated + self.updated_by_source,
            deleted: self.deleted + self.deleted_by_source,
        }
    }

    fn count(&mut self, clause: &Clause) {
        let count = match (clause.kind, clause.deletes()) {
            (ClauseKind::NotMatched, _) => &mut self.inserted,
            (ClauseKind::Matched, false) => &mut self.updated,
            (ClauseKind::Matched, true) => &mut self.deleted,
            (ClauseKind::NotMatchedBySource, false) => &mut self.updated_by_source,
            (ClauseKind::NotMatchedBySource, true) => &mut self.deleted_by_source,
        };
        *count += 1;
    }
}

/// The clause that applies to a row of the table, and the row of the source that it matches.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClauseMatch {
    pub clause: usize,
    pub source: Option<SourceRow>,
}

/// Rows of one batch of the source that a clause inserts.
pub(super) struct Insertion {
    pub clause: usize,
    pub rows: Vec<SourceRow>,
}

/// The rows that a merge changes and inserts.
pub(super) struct Search<'a> {
    pub on: &'a [String],
    pub clauses: Vec<Clause>,
    pub rows: NumberedRows,
    pub keys: KeyConverter,
    pub source: MergeSource,
    pub groups: Groups,
    /// The changes of rows that are updated, in the order of those in their file.
    pub updates: HashMap<String, Vec<ClauseMatch>>,
    /// Files of which matched rows stay as they are, and no row leaves.
    pub read: Vec<String>,
    pub tally: MergeCounts,
}

impl Search<'_> {
    /// Finds the rows of a file that clauses apply to.
    pub fn file(
        &mut self,
        change: &mut RowChange<'_>,
        add: Arc<Add>,
        evaluate: &mut Evaluate<'_>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let mut found = FoundChanges::default();
        let Self { rows, groups, .. } = self;
        let (on, clauses, keys, source) = (self.on, &self.clauses, &self.keys, &self.source);
        let go_on = RefCell::new(go_on);
        let may_go_on = || (go_on.borrow_mut())();
        let (rows, deleted) = rows.each(&add, &mut || may_go_on(), &mut |first, batch, deleted| {
            let mut of_batch = OfBatch {
                on,
                clauses,
                source,
                batch,
                first,
                go_on: &may_go_on,
                found: &mut found,
            };
            of_batch.find(keys, groups, deleted, evaluate)
        })?;
        let FoundChanges { mut changes, stays } = found;
        changes.sort_unstable_by_key(|(row, _)| *row);
        let mut found = FoundRows {
            rows,
            deleted,
            matching: RoaringTreemap::new(),
        };
        let mut changed = RoaringTreemap::new();
        let mut updates = Vec::new();
        for (row, change) in changes {
            let clause = &self.clauses[change.clause];
            self.tally.count(clause);
            found.matching.insert(row);
            if !clause.deletes() {
                changed.insert(row);
                updates.push(change);
            }
        }
        if !updates.is_empty() {
            self.updates.insert(add.path.clone(), updates);
        }
        // That a row is there keeps a source row from being inserted: nobody may mark it beside this merge.
        let depends = stays && self.inserts();
        if depends && found.matching.is_empty() {
            self.read.push(add.normal_path().into_owned());
        }
        change.touch(add, found, changed, !depends);
        Ok(())
    }

    /// The place in the source of a column of the key.
    pub fn key_place(&self, name: &String) -> Option<usize> {
        let is_key = self.on.contains(name);
        is_key.then(|| self.source.place(name)).flatten()
    }

    fn inserts(&self) -> bool {
        self.clauses
            .iter()
            .any(|clause| clause.kind == ClauseKind::NotMatched)
    }

    /// The rows of the source that are inserted, once all matches are found.
    pub fn insertions(&mut self, evaluate: &mut Evaluate<'_>) -> Result<Vec<Insertion>> {
        let mut insertions = Vec::new();
        if !self.inserts() {
            return Ok(insertions);
        }
        for batch in 0..self.source.batches() {
            let unmatched = self.groups.unmatched(batch);
            let rows = ClauseRows {
                target: None,
                source: Some((&self.source, &unmatched)),
                len: unmatched.len(),
            };
            let chosen = chosen(&self.clauses, ClauseKind::NotMatched, &rows, evaluate)?;
            let mut of_clauses: Vec<Vec<SourceRow>> = vec![Vec::new(); self.clauses.len()];
            for (row, clause) in unmatched.iter().zip(chosen) {
                if let Some(clause) = clause {
                    of_clauses[clause].push(*row);
                    self.tally.count(&self.clauses[clause]);
                }
            }
            let of_clauses = of_clauses.into_iter().enumerate();
            let filled = of_clauses.filter(|(_, rows)| !rows.is_empty());
            insertions.extend(filled.map(|(clause, rows)| Insertion { clause, rows }));
        }
        Ok(insertions)
    }
}

/// The changes of a file's rows, by the rows' numbers.
#[derive(Default)]
struct FoundChanges {
    changes: Vec<(u64, ClauseMatch)>,
    /// True if a row stays as it is although a source row matches it.
    stays: bool,
}

/// The search in a batch of a file's rows.
struct OfBatch<'a> {
    on: &'a [String],
    clauses: &'a [Clause],
    source: &'a MergeSource,
    batch: &'a RecordBatch,
    /// The number of its first row.
    first: u64,
    go_on: &'a dyn Fn() -> bool,
    found: &'a mut FoundChanges,
}

impl OfBatch<'_> {
    fn find(
        &mut self,
        keys: &KeyConverter,
        groups: &mut Groups,
        deleted: &RoaringTreemap,
        evaluate: &mut Evaluate<'_>,
    ) -> Result<()> {
        let keys = keys.of(&self.batch.columns()[..self.on.len()])?;
        let looks_at_others = self.has(ClauseKind::NotMatchedBySource);
        let (mut matched, mut unmatched) = (Vec::new(), Vec::new());
        for (row, number) in (0..).zip(0..self.batch.num_rows()) {
            if deleted.contains(self.first + u64::from(row)) {
                continue;
            }
            match keys.get(number).and_then(|key| groups.find(key)) {
                Some(group) => {
                    groups.note_match(group);
                    matched.push((row, group));
                }
                None if looks_at_others => unmatched.push(row),
                None => {}
            }
        }
        self.matched(&matched, groups, evaluate)?;
        self.unmatched(&unmatched, evaluate)
    }

    /// Finds the changes of rows that source rows match.
    fn matched(
        &mut self,
        matched: &[(u32, usize)],
        groups: &Groups,
        evaluate: &mut Evaluate<'_>,
    ) -> Result<()> {
        if !self.has(ClauseKind::Matched) {
            self.found.stays |= !matched.is_empty();
            return Ok(());
        }
        let before = self.found.changes.len();
        // Whichever row of the source it is for: pairs of keys that are there often on both sides are too many.
        let most = if only_deletes(self.clauses) { 1 } else { usize::MAX };
        let mut places = Vec::new();
        let mut rows = Vec::new();
        for (place, group) in matched {
            for row in groups.rows(*group).take(most) {
                places.push(*place);
                rows.push(row);
                if rows.len() == PAIRS {
                    self.pairs(&places, &rows, groups, evaluate)?;
                    places.clear();
                    rows.clear();
                }
            }
        }
        self.pairs(&places, &rows, groups, evaluate)?;
        self.found.stays |= self.found.changes.len() - before < matched.len();
        Ok(())
    }

    /// Finds the changes of rows, each with a source row that matches it. Pairs of one row follow each other.
    ///
    /// # Errors
    /// [`TableError::Option`] when several source rows would change one row of the table;
    /// [`WriteError::Interrupted`] when `go_on` said no.
    fn pairs(
        &mut self,
        places: &[u32],
        sources: &[SourceRow],
        groups: &Groups,
        evaluate: &mut Evaluate<'_>,
    ) -> Result<()> {
        if !(self.go_on)() {
            return Err(WriteError::Interrupted.into());
        }
        let rows = ClauseRows {
            target: Some((self.batch, places)),
            source: Some((self.source, sources)),
            len: places.len(),
        };
        let chosen = chosen(self.clauses, ClauseKind::Matched, &rows, evaluate)?;
        for ((place, source), clause) in places.iter().zip(sources).zip(chosen) {
            let Some(clause) = clause.filter(|clause| !self.clauses[*clause].is_idle()) else {
                continue;
            };
            let last = self.found.changes.last();
            if last.is_none_or(|(row, _)| *row != self.first + u64::from(*place)) {
                self.add(*place, clause, Some(*source));
            } else {
                return Err(self.ambiguous(groups, *source));
            }
        }
        Ok(())
    }

    /// Finds the changes of rows of the table that no source row matches.
    fn unmatched(&mut self, places: &[u32], evaluate: &mut Evaluate<'_>) -> Result<()> {
        let rows = ClauseRows {
            target: Some((self.batch, places)),
            source: None,
            len: places.len(),
        };
        let chosen = chosen(self.clauses, ClauseKind::NotMatchedBySource, &rows, evaluate)?;
        for (place, clause) in places.iter().zip(chosen) {
            if let Some(clause) = clause.filter(|clause| !self.clauses[*clause].is_idle()) {
                self.add(*place, clause, None);
            }
        }
        Ok(())
    }

    /// Notes the change of a row.
    fn add(&mut self, place: u32, clause: usize, source: Option<SourceRow>) {
        let change = ClauseMatch { clause, source };
        self.found.changes.push((self.first + u64::from(place), change));
    }

    fn has(&self, kind: ClauseKind) -> bool {
        self.clauses.iter().any(|clause| clause.kind == kind)
    }

    fn ambiguous(&self, groups: &Groups, row: SourceRow) -> TableError {
        let count = groups.of_row(row).map_or(0, |group| groups.count(group));
        let key = self.source.key_text(self.on, row);
        let message = format!(
            "{count} rows of the source have the key {key}, which a row of the table has too, and clauses apply to \
             several of them: give one of them, so that it is certain which of their values the row gets"
        );
        TableError::option("source", message)
    }
}

/// Returns true if every matched row is deleted, whichever source row it is for.
fn only_deletes(clauses: &[Clause]) -> bool {
    let mut matched = clauses.iter().filter(|clause| clause.kind == ClauseKind::Matched);
    let first = matched.next();
    first.is_some_and(|clause| clause.deletes() && clause.is_unconditional())
}
