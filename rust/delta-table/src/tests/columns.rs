//! Clustering columns, and a file without statistics of one that comes meanwhile.

use std::io;
use std::sync::{Arc, Mutex};

use delta_commit::CommitError;
use delta_commit::conflict::ConflictKind;
use parquet_writer::{OptionInput, StatisticsRule, WriterOptions};

use super::process::{Process, Step};
use super::{Has, batch, table, wait_limit};
use crate::append::{Append, AppendOptions};
use crate::table::lock;
use crate::{Table, TableError};

/// An append that is not committed yet, with statistics of the values or without.
fn written(table: &Table, has_statistics: bool) -> Append {
    let input = OptionInput {
        statistics: StatisticsRule::Columns(vec![(vec!["value".to_owned()], has_statistics)]),
        ..OptionInput::default()
    };
    let options = WriterOptions::new(input).unwrap();
    let mut append = table.append(AppendOptions::default(), options).unwrap();
    append.write(&batch(&[(1, 2)]).into(), &mut || true).unwrap();
    append
}

#[test]
fn columns_do_not_follow_a_file_without_statistics_of_them() {
    for isolation in ["Serializable", "WriteSerializable"] {
        for has_statistics in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let table = table(folder.path(), isolation, Has::default());
            let named = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
            // From here on the protocol has what clustering needs.
            table.cluster_by(&named(&["id"]), &mut wait_limit()).unwrap();
            let late = Mutex::new(Some(written(&table, has_statistics)));
            let before = move |step| -> io::Result<()> {
                if step == Step::Version
                    && let Some(mut late) = lock(&late).take()
                {
                    late.commit(&mut wait_limit(), &mut || true).unwrap();
                }
                Ok(())
            };
            let other = Table::open_at(Process::storage(folder.path(), 0, Arc::new(before))).unwrap();
            let done = other.cluster_by(&named(&["id", "value"]), &mut wait_limit());
            let columns = table.head().unwrap().clustering_columns().unwrap();
            match done {
                Ok(_) => assert_eq!((columns, has_statistics), (named(&["id", "value"]), true)),
                Err(TableError::Commit(CommitError::Conflict(conflict))) => {
                    let ConflictKind::ConcurrentTransaction(text) = &conflict.kind else {
                        panic!("{conflict}");
                    };
                    assert!(text.contains("\"value\""), "{text}");
                    assert_eq!((columns, has_statistics), (named(&["id"]), false));
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}
