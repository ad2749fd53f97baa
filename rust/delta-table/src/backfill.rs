//! The backfill of row ids: rows that are in a table when it gets row tracking.
//!
//! The table gets the feature first, so that every file that comes from then on has ids. Then versions name the files
//! of before once more, so many at a time, and the committer gives their rows ids. They change no row: appends go on,
//! and a change of rows that such a version got ahead of begins anew. If a file leaves the table meanwhile, or rows of
//! it are marked, or another backfill gives them ids, the version has a conflict, and is made anew from the files that
//! are there then. See "Row Tracking" in Delta's PROTOCOL.md.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use delta_commit::actions::{Action, Add};
use delta_commit::row_ids::{ENABLED, rows_of};
use delta_commit::{CommitError, Operation, Transaction, WaitLimit};
use serde_json::{Map, Value};

use crate::create::with_features;
use crate::error::{Result, TableError};
use crate::head::TableHead;
use crate::operations::begin;
use crate::properties::features;
use crate::row_ids;
use crate::scan::row_count;
use crate::snapshot::Snapshot;
use crate::table::{Table, patient};

/// Files of a version at most: with their statistics, most of such versions may be announced.
const AT_ONCE: usize = 2_000;

impl Table {
    /// Gives ids to the rows of all files that have none. Returns true if versions were written for that.
    ///
    /// # Errors
    /// As a commit; [`CommitError::Unsupported`] when row tracking is suspended meanwhile. Files of versions that were
    /// written before keep their ids, and another call goes on from there.
    pub(crate) fn backfill(&self, wait: &mut WaitLimit<'_>) -> Result<bool> {
        self.backfill_by(AT_ONCE, wait)
    }

    fn backfill_by(&self, at_once: usize, wait: &mut WaitLimit<'_>) -> Result<bool> {
        let mut backfill = Backfill {
            table: self,
            at_once,
            counts: HashMap::new(),
        };
        let mut is_needed = false;
        while backfill.step(wait)? {
            is_needed = true;
        }
        Ok(is_needed)
    }
}

/// A backfill that is under way.
struct Backfill<'a> {
    table: &'a Table,
    /// Files of a version at most.
    at_once: usize,
    /// The numbers of rows that were read from the footers of files, by their paths.
    counts: HashMap<String, u64>,
}

impl Backfill<'_> {
    /// Commits the next version. Returns false if all rows have ids.
    fn step(&mut self, wait: &mut WaitLimit<'_>) -> Result<bool> {
        let snapshot = self.table.snapshot_in_time(wait)?;
        let files: Vec<&Arc<Add>> = row_ids::without_ids(&snapshot).take(self.at_once).collect();
        if files.is_empty() {
            return Ok(false);
        }
        row_ids::check_unsuspended(&snapshot)?;
        let transaction = if row_ids::gives_ids(&snapshot) {
            self.with_ids(&snapshot, &files, wait)?
        } else {
            with_feature(&snapshot)?
        };
        match self.table.shared()?.commit(transaction, wait) {
            // The table is looked at again, and what is left is done.
            Err(TableError::Commit(CommitError::Conflict(conflict))) => {
                if conflict.kind.is_of_files() {
                    self.at_once = (self.at_once / 2).max(1);
                }
            }
            done => {
                done?;
            }
        }
        Ok(true)
    }

    /// The transaction that gives ids to the rows of these files.
    fn with_ids(
        &mut self,
        snapshot: &Arc<Snapshot>,
        files: &[&Arc<Add>],
        wait: &mut WaitLimit<'_>,
    ) -> Result<Transaction> {
        let mut operation = Operation::new("ROW TRACKING BACKFILL");
        operation.changes_data = false;
        let mut transaction = begin(snapshot, operation)?;
        for add in files {
            patient(wait)()?;
            // Whoever marks rows of the file, removes it, or gives it ids, changes its entry.
            transaction.reads.files.insert(add.normal_path().into_owned());
            let mut entry = Add {
                data_change: false,
                ..add.as_ref().clone()
            };
            if rows_of(&entry).is_none() {
                let rows = self.count(snapshot, add)?;
                entry.stats = Some(with_count(entry.stats.as_deref(), rows));
            }
            transaction.actions.push(Action::Add(entry));
        }
        Ok(transaction)
    }

    /// The number of rows in a file by its footer.
    fn count(&mut self, snapshot: &Arc<Snapshot>, add: &Arc<Add>) -> Result<u64> {
        if let Some(rows) = self.counts.get(&add.path) {
            return Ok(*rows);
        }
        let uncounted = Arc::new(Add {
            stats: None,
            ..add.as_ref().clone()
        });
        let rows = row_count(&self.table.storage, snapshot, &uncounted)?;
        self.counts.insert(add.path.clone(), rows);
        Ok(rows)
    }
}

/// The transaction that gives a table the feature.
fn with_feature(head: &TableHead) -> Result<Transaction> {
    let enabled = BTreeMap::from([(ENABLED.to_owned(), "true".to_owned())]);
    let protocol = with_features(&head.protocol, &features(&enabled))?;
    let mut operation = Operation::new("UPGRADE PROTOCOL");
    let shown = serde_json::to_string(&protocol).unwrap_or_default();
    operation.parameters.insert("newProtocol".to_owned(), shown);
    operation.changes_data = false;
    let mut transaction = begin(head, operation)?;
    transaction.actions.push(Action::Protocol(protocol));
    Ok(transaction)
}

/// Statistics with a count of rows. The others stay as they are written, to the last digit; without those of which the
/// count cannot be.
fn with_count(stats: Option<&str>, rows: u64) -> String {
    let parsed = stats.map(serde_json::from_str::<Map<String, Value>>);
    let others = parsed.and_then(Result::ok).filter(|stats| !stats.is_empty());
    let others = others.filter(|stats| !stats.contains_key("numRecords"));
    let rest = stats.and_then(|text| text.trim_start().strip_prefix('{'));
    match rest.filter(|_| others.is_some()) {
        Some(rest) => format!("{{\"numRecords\":{rows},{rest}"),
        None => format!("{{\"numRecords\":{rows}}}"),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;
    use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{Int64Array, RecordBatch};
    use arrow_schema::{DataType, Field, Schema};
    use delta_commit::Version;
    use parquet_writer::{OptionInput, WriterOptions};

    use super::*;
    use crate::row_change::PendingChange;
    use crate::tests::process::{Process, Step};
    use crate::{AppendOptions, Condition, ConditionValue, CreateMode, CreateOptions, ScanOptions};

    fn wait_limit() -> WaitLimit<'static> {
        WaitLimit::until(Instant::now() + Duration::from_secs(60))
    }

    fn options() -> WriterOptions {
        WriterOptions::new(OptionInput::default()).unwrap()
    }

    /// A table with files of three rows each, from 0 on.
    fn table(root: &Path, files: i64) -> Table {
        let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true)]));
        let create = CreateOptions {
            properties: [("delta.enableDeletionVectors".to_owned(), "true".to_owned())].into(),
            ..CreateOptions::default()
        };
        let table = Table::create(root, &schema, create, CreateMode::Error, &mut wait_limit()).unwrap();
        for file in 0..files {
            append(&table, file * 3);
        }
        table
    }

    fn append(table: &Table, first: i64) {
        let schema = table.head().unwrap().schema.arrow();
        let ids = Int64Array::from_iter_values(first..first + 3);
        let rows = RecordBatch::try_new(schema, vec![Arc::new(ids)]).unwrap();
        let mut append = table.append(AppendOptions::default(), options()).unwrap();
        append.write(&rows.into(), &mut || true).unwrap();
        append.commit(&mut wait_limit(), &mut || true).unwrap();
    }

    fn deletion(table: &Table, id: i64) -> PendingChange {
        let condition = Condition {
            column: "id".to_owned(),
            operator: "=".to_owned(),
            values: vec![ConditionValue::Long(id)],
        };
        let prepared = table.prepare_delete(&[condition].into(), None, &options(), &mut || true);
        prepared.unwrap().1.unwrap()
    }

    fn ids(table: &Table) -> Vec<i64> {
        let mut ids: Vec<i64> = Vec::new();
        for batch in table.scan(&ScanOptions::default()).unwrap().reader() {
            ids.extend(batch.unwrap().column(0).as_primitive::<Int64Type>().values());
        }
        ids.sort_unstable();
        ids
    }

    /// Checks that each row of the table's files has an id of its own, and has had it in all versions since it came.
    fn check(table: &Table) {
        let shared = table.shared().unwrap();
        let mut given: HashMap<String, (i64, Option<Version>)> = HashMap::new();
        for version in 0..=table.version().unwrap() {
            let body = shared.log.read(version).unwrap().unwrap();
            for action in shared.log.parse(version, &body).unwrap() {
                if let Action::Add(add) = action
                    && let Some(first) = add.base_row_id
                {
                    let origin = (first, add.default_row_commit_version);
                    let known = *given.entry(add.path.clone()).or_insert(origin);
                    assert_eq!(known, origin, "{} in version {version}", add.path);
                }
            }
        }
        let snapshot = table.snapshot().unwrap();
        let mut firsts: Vec<i64> = snapshot.files().map(|add| add.base_row_id.unwrap()).collect();
        firsts.sort_unstable();
        assert!(firsts.windows(2).all(|pair| pair[0] + 3 <= pair[1]), "{firsts:?}");
        let newest = snapshot.version;
        let is_version = |version: Option<Version>| version.is_some_and(|version| version <= newest);
        assert!(
            snapshot
                .files()
                .all(|add| is_version(add.default_row_commit_version))
        );
    }

    #[test]
    fn files_get_ids_in_versions_of_so_many_at_most() {
        let folder = tempfile::tempdir().unwrap();
        let table = table(folder.path(), 5);
        assert!(table.backfill_by(2, &mut wait_limit()).unwrap());
        check(&table);
        let operations = table.history(None).unwrap().into_iter().map(|entry| entry.info);
        let operations: Vec<Value> = operations.map(|info| info["operation"].clone()).collect();
        assert_eq!(operations[..3], ["ROW TRACKING BACKFILL"; 3]);
        assert_eq!(operations[3], "UPGRADE PROTOCOL");
        assert_eq!((operations.len(), ids(&table)), (10, (0..15).collect()));
        assert!(!table.backfill_by(2, &mut wait_limit()).unwrap());
    }

    #[test]
    fn a_delete_that_a_backfill_got_ahead_of_finds_its_rows_again() {
        let folder = tempfile::tempdir().unwrap();
        let table = table(folder.path(), 2);
        let mut backfill = Backfill {
            table: &table,
            at_once: 10,
            counts: HashMap::new(),
        };
        assert!(backfill.step(&mut wait_limit()).unwrap());
        let late = deletion(&table, 4);
        assert!(backfill.step(&mut wait_limit()).unwrap());
        assert!(!backfill.step(&mut wait_limit()).unwrap());
        assert!(late.commit(&mut wait_limit()).unwrap_err().is_of_moved_rows());
        deletion(&table, 4).commit(&mut wait_limit()).unwrap();
        check(&table);
        assert_eq!(ids(&table), [0, 1, 2, 3, 5]);
    }

    #[test]
    fn rows_that_go_beside_a_backfill_stay_away() {
        let folder = tempfile::tempdir().unwrap();
        let table = Arc::new(table(folder.path(), 4));
        let versions = AtomicI64::new(0);
        let beside = Arc::clone(&table);
        let before = move |step| -> io::Result<()> {
            if step != Step::Version {
                return Ok(());
            }
            // The first version is that of the feature.
            let at = versions.fetch_add(1, Ordering::Relaxed);
            if (1..=2).contains(&at) {
                deletion(&beside, at).commit(&mut wait_limit()).unwrap();
                append(&beside, 100 * at);
            }
            Ok(())
        };
        let other = Table::open_at(Process::storage(folder.path(), 0, Arc::new(before))).unwrap();
        assert!(other.backfill_by(3, &mut wait_limit()).unwrap());
        check(&table);
        let expected = [0].into_iter().chain(3..12).chain(100..103).chain(200..203);
        assert_eq!(ids(&table), expected.collect::<Vec<_>>());
    }

    #[test]
    fn of_two_backfills_one_gives_a_file_its_ids() {
        let folder = tempfile::tempdir().unwrap();
        let table = Arc::new(table(folder.path(), 5));
        let versions = AtomicUsize::new(0);
        let beside = Arc::clone(&table);
        let before = move |step| -> io::Result<()> {
            if step == Step::Version && versions.fetch_add(1, Ordering::Relaxed) < 2 {
                let mut backfill = Backfill {
                    table: &beside,
                    at_once: 2,
                    counts: HashMap::new(),
                };
                backfill.step(&mut wait_limit()).unwrap();
            }
            Ok(())
        };
        let other = Table::open_at(Process::storage(folder.path(), 0, Arc::new(before))).unwrap();
        assert!(other.backfill_by(4, &mut wait_limit()).unwrap());
        check(&table);
        assert_eq!(ids(&table), (0..15).collect::<Vec<_>>());
    }

    #[test]
    fn of_two_callers_that_enable_it_at_any_of_its_versions_both_succeed() {
        let enabled = || BTreeMap::from([(ENABLED.to_owned(), Some("true".to_owned()))]);
        // The feature, the ids, and the property.
        for at in 0..3 {
            let folder = tempfile::tempdir().unwrap();
            let table = Arc::new(table(folder.path(), 2));
            let versions = AtomicUsize::new(0);
            let beside = Arc::clone(&table);
            let before = move |step| -> io::Result<()> {
                if step == Step::Version && versions.fetch_add(1, Ordering::Relaxed) == at {
                    beside.set_properties(&enabled(), &mut wait_limit()).unwrap();
                }
                Ok(())
            };
            let other = Table::open_at(Process::storage(folder.path(), 0, Arc::new(before))).unwrap();
            let version = other.set_properties(&enabled(), &mut wait_limit()).unwrap();
            assert_eq!(version, table.version().unwrap());
            check(&table);
            // One version with the feature, one with ids, and one with the property, whoever wrote them.
            assert_eq!(version, 2 + 3);
        }
    }

    #[test]
    fn a_caller_that_asks_for_something_else_has_a_conflict() {
        let set =
            |property: &str, value: &str| BTreeMap::from([(property.to_owned(), Some(value.to_owned()))]);
        for (mine, theirs, is_there) in [
            (set("owner", "a"), set("owner", "a"), true),
            (set("owner", "a"), set("owner", "b"), false),
            (set("owner", "a"), set("team", "a"), false),
            (
                BTreeMap::from([("gone".to_owned(), None)]),
                BTreeMap::from([("gone".to_owned(), None)]),
                true,
            ),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let table = Arc::new(table(folder.path(), 0));
            table
                .set_properties(&set("gone", "soon"), &mut wait_limit())
                .unwrap();
            let beside = Arc::clone(&table);
            let versions = AtomicUsize::new(0);
            let before = move |step| -> io::Result<()> {
                if step == Step::Version && versions.fetch_add(1, Ordering::Relaxed) == 0 {
                    beside.set_properties(&theirs, &mut wait_limit()).unwrap();
                }
                Ok(())
            };
            let other = Table::open_at(Process::storage(folder.path(), 0, Arc::new(before))).unwrap();
            match other.set_properties(&mine, &mut wait_limit()) {
                Ok(version) => assert!(is_there && version == table.version().unwrap(), "{mine:?}"),
                Err(refused) => {
                    assert!(!is_there, "{mine:?}: {refused}");
                    assert!(refused.to_string().contains("MetadataChanged"), "{refused}");
                }
            }
        }
    }

    #[test]
    fn a_table_whose_row_tracking_is_suspended_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let table = table(folder.path(), 2);
        let mut backfill = Backfill {
            table: &table,
            at_once: 1,
            counts: HashMap::new(),
        };
        assert!(backfill.step(&mut wait_limit()).unwrap());
        let snapshot = table.snapshot().unwrap();
        let mut metadata = snapshot.metadata.as_ref().clone();
        let suspended = ("delta.rowTrackingSuspended".to_owned(), "true".to_owned());
        metadata.configuration.extend([suspended]);
        let mut transaction = begin(&snapshot, Operation::new("SET TBLPROPERTIES")).unwrap();
        transaction.actions.push(Action::Metadata(metadata));
        let version = table
            .shared()
            .unwrap()
            .commit(transaction, &mut wait_limit())
            .unwrap();
        let refused = backfill.step(&mut wait_limit()).unwrap_err();
        assert!(refused.to_string().contains("rowTrackingSuspended"), "{refused}");
        assert_eq!(table.version().unwrap(), version);
    }

    #[test]
    fn statistics_get_a_count_and_keep_their_digits() {
        let digits = r#"{"maxValues":{"d":12345678901234567.89}}"#;
        let counted = r#"{"numRecords":3,"maxValues":{"d":12345678901234567.89}}"#;
        assert_eq!(with_count(Some(digits), 3), counted);
        for stats in [
            None,
            Some("{}"),
            Some("no"),
            Some(r#"{"numRecords":2199023255552,"minValues":{"a":1}}"#),
        ] {
            assert_eq!(with_count(stats, 3), r#"{"numRecords":3}"#);
        }
    }
}
