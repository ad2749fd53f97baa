//! The change data feed beside what is under way, and the plan of its reading.

use std::collections::BTreeMap;

use delta_commit::CommitError;
use delta_commit::conflict::ConflictKind;
use parquet_writer::WriteError;

use super::{Has, append, changes, options, table, wait_limit};
use crate::change_feed::CHANGE_FEED;
use crate::{ChangesOptions, Condition, ConditionValue, Table, TableError};

fn enable(table: &Table) {
    let properties = BTreeMap::from([(CHANGE_FEED.to_owned(), Some("true".to_owned()))]);
    table.set_properties(&properties, &mut wait_limit()).unwrap();
}

fn with_id(id: i64) -> Vec<Condition> {
    vec![Condition {
        column: "id".to_owned(),
        operator: "=".to_owned(),
        values: vec![ConditionValue::Long(id)],
    }]
}

#[test]
fn a_delete_under_way_writes_no_version_without_changes_in_a_feed_that_came_meanwhile() {
    for marks in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let has = Has {
            marks,
            ..Has::default()
        };
        let table = table(folder.path(), "WriteSerializable", has);
        append(&table, &[(1, 10), (2, 20), (3, 30)]);
        let prepare = || {
            let prepared = table.prepare_delete(&with_id(2).into(), None, &options(), &mut || true);
            prepared.unwrap().1.unwrap()
        };
        let late = prepare();
        enable(&table);
        let refused = late.commit(&mut wait_limit()).unwrap_err();
        let TableError::Commit(CommitError::Conflict(conflict)) = refused else {
            panic!("{refused}");
        };
        assert!(matches!(
            conflict.kind,
            ConflictKind::ProtocolChanged | ConflictKind::MetadataChanged
        ));
        let version = prepare().commit(&mut wait_limit()).unwrap();
        assert_eq!(
            changes(&table, version),
            BTreeMap::from([("delete".to_owned(), vec![(2, 20)])])
        );
    }
}

#[test]
fn the_plan_of_a_feed_ends_between_two_versions_once_its_caller_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let has = Has {
        feed: true,
        ..Has::default()
    };
    let table = table(folder.path(), "Serializable", has);
    for id in 0..5 {
        append(&table, &[(id, 0)]);
    }
    let mut asked = 0;
    let planned = table.changes(&ChangesOptions::default(), &mut || {
        asked += 1;
        asked < 3
    });
    let refused = planned.err().unwrap();
    assert!(matches!(refused, TableError::Write(WriteError::Interrupted)));
    assert_eq!(asked, 3);
}
