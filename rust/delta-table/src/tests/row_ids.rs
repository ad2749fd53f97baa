//! Rows keep their ids, whatever is done with them and with their files.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use delta_commit::Version;

use super::{Has, append, table, wait_limit};
use crate::deletion_vectors;
use crate::row_ids::{CopiedRows, is_enabled};
use crate::{CompactOptions, HistoryEntry, Table, TableError};

/// The rows of a version by their ids: identifier, value, and the version that the row is of.
type Tracked = BTreeMap<i64, (i64, i64, Version)>;

fn tracked(table: &Table, version: Version) -> Tracked {
    let snapshot = Arc::new(table.snapshot_at(version).unwrap());
    let mut found = Tracked::new();
    for add in snapshot.files() {
        let deleted = deletion_vectors::read(&table.storage, add).unwrap();
        for batch in CopiedRows::open(&table.storage, &snapshot, add, deleted).unwrap() {
            let batch = batch.unwrap();
            let column = |place: usize| batch.column(place).as_primitive::<Int64Type>().values().to_vec();
            let [ids, values, rows, versions] = [0, 1, 2, 3].map(column);
            for (place, row) in rows.into_iter().enumerate() {
                let before = found.insert(row, (ids[place], values[place], versions[place]));
                assert_eq!(before, None, "version {version} has the row id {row} twice");
            }
        }
    }
    found
}

/// Checks that each row of a table's history has one id as long as it is there, and the version of its last change.
pub(super) fn check(table: &Table) {
    if !is_enabled(&table.head().unwrap()) {
        return;
    }
    let mut operations: Vec<String> = Vec::new();
    for HistoryEntry { info, .. } in table.history(None).unwrap().into_iter().rev() {
        operations.push(info["operation"].as_str().unwrap().to_owned());
        assert_eq!(info["tags"]["delta.rowTracking.preserved"], "true");
    }
    let (mut before, mut highest) = (Tracked::new(), -1);
    for (version, operation) in (0..).zip(&operations) {
        let after = tracked(table, version);
        for (row, now) in &after {
            match before.get(row) {
                None => {
                    assert!(
                        *row > highest,
                        "version {version} ({operation}) gives {row} again"
                    );
                    assert_eq!(now.2, version, "{operation}: {row} {now:?}");
                    assert!(
                        ["WRITE", "MERGE"].contains(&operation.as_str()),
                        "{operation}: {row}"
                    );
                }
                Some(then) => {
                    assert_eq!(
                        then.0, now.0,
                        "version {version} ({operation}) takes the id {row} from a row"
                    );
                    let is_changed = then.1 != now.1;
                    let is_kept = then.2 == now.2 && !is_changed;
                    let is_updated = now.2 == version && ["UPDATE", "MERGE"].contains(&operation.as_str());
                    assert!(
                        is_kept || is_updated,
                        "{operation}: {row} was {then:?}, is {now:?}"
                    );
                }
            }
        }
        let stays = ["OPTIMIZE", "REORG"].contains(&operation.as_str());
        assert!(!stays || before == after, "version {version} ({operation})");
        highest = after.keys().last().copied().unwrap_or(-1).max(highest);
        before = after;
    }
}

/// A table whose rows keep their ids, with one file of ten rows.
fn ten_rows(root: &Path) -> Table {
    let table = table(
        root,
        "Serializable",
        Has {
            marks: true,
            feed: false,
            tracks: true,
        },
    );
    append(&table, &(0..10).map(|id| (id, 0)).collect::<Vec<_>>());
    table
}

#[test]
fn a_restored_row_has_the_id_that_it_had() {
    let folder = tempfile::tempdir().unwrap();
    let table = ten_rows(folder.path());
    let before = tracked(&table, 1);
    table.truncate(&mut wait_limit()).unwrap();
    append(&table, &[(0, 0)]);
    let version = table.restore(1, &mut wait_limit()).unwrap();
    assert_eq!(tracked(&table, version), before);
    append(&table, &[(20, 0)]);
    let newest = tracked(&table, version + 1);
    assert_eq!(newest.last_key_value().unwrap().0, &11);
}

#[test]
fn copied_rows_are_in_columns_that_the_table_does_not_show() {
    let folder = tempfile::tempdir().unwrap();
    let table = ten_rows(folder.path());
    append(&table, &[(10, 0)]);
    let mut compaction = table
        .compact(CompactOptions::default(), super::options())
        .unwrap();
    let pending = compaction.rewrite(&mut || true).unwrap().unwrap();
    pending.commit(&mut wait_limit()).unwrap();
    let snapshot = table.snapshot().unwrap();
    let [add] = snapshot.files().collect::<Vec<_>>()[..] else {
        panic!("more than a file");
    };
    assert_eq!(add.base_row_id, Some(11));
    let bounds =
        r#""minValues":{"id":0,"value":0},"maxValues":{"id":10,"value":0},"nullCount":{"id":0,"value":0}"#;
    assert_eq!(add.stats, Some(format!(r#"{{"numRecords":11,{bounds}}}"#)));
    assert_eq!(snapshot.schema.columns.len(), 2);
    check(&table);
}

#[test]
fn a_version_without_row_tracking_is_not_restored() {
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path(), "Serializable", Has::default());
    let enable = |value: &str| {
        let properties = [("delta.enableRowTracking".to_owned(), Some(value.to_owned()))];
        table.set_properties(&properties.into(), &mut wait_limit())
    };
    assert_eq!(enable("true").unwrap(), 1);
    append(&table, &[(0, 0)]);
    let refused = table.restore(0, &mut wait_limit()).unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("was changed or dropped after version 0"),
        "{refused}"
    );
    table.restore(1, &mut wait_limit()).unwrap();
    enable("false").unwrap();
    // Every file that came since has ids.
    append(&table, &[(1, 1)]);
    enable("true").unwrap();
    let refused = table.restore(4, &mut wait_limit()).unwrap_err();
    assert!(matches!(refused, TableError::Commit(_)), "{refused}");
}
