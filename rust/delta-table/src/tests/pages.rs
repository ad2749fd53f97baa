//! Scans and searches fetch the pages that they need, and in few requests.

use parquet_writer::{CompressionRule, EncodingRule};

use std::ops::Range;

use super::process::{Process, Reads};
use super::*;
use crate::{Condition, ConditionValue};

/// Rows of a page. A page of a column has 8 bytes for each, so that 64 KiB, what lies between two requests at least,
/// are eight pages.
const PAGE: usize = 1_000;

/// A table of one file whose pages are as large as their rows, and the requests for parts of files.
fn paged(root: &Path, rows: &[(i64, i64)], row_group_rows: Option<i64>) -> (Table, Reads) {
    let has = Has {
        marks: true,
        ..Has::default()
    };
    let writer = OptionInput {
        page_rows: 1_000,
        compression: CompressionRule::All("uncompressed".into()),
        encoding: EncodingRule::All("plain".into()),
        ..OptionInput::default()
    };
    let writer = match row_group_rows {
        Some(row_group_rows) => OptionInput {
            row_group_rows,
            ..writer
        },
        None => writer,
    };
    table(root, "Serializable", has);
    let (storage, reads) = Process::counted(root);
    let table = Table::open_at(storage).unwrap();
    let writer = WriterOptions::new(writer).unwrap();
    let mut append = table.append(AppendOptions::default(), writer).unwrap();
    append.write(&batch(rows).into(), &mut || true).unwrap();
    append.commit(&mut wait_limit(), &mut || true).unwrap();
    (table, reads)
}

fn equals(column: &str, value: i64) -> Condition {
    Condition {
        column: column.to_owned(),
        operator: "=".to_owned(),
        values: vec![ConditionValue::Long(value)],
    }
}

/// The rows that satisfy conditions, in order.
fn found(table: &Table, conditions: Vec<Condition>) -> Rows {
    let scan = ScanOptions {
        conditions: conditions.into(),
        ..ScanOptions::default()
    };
    let batches = table.scan(&scan).unwrap().reader();
    batches
        .flat_map(|batch| rows_of(&batch.unwrap()).collect::<Vec<_>>())
        .collect()
}

/// The requests for parts of data files since the last call.
fn requests(reads: &Reads) -> Vec<Range<u64>> {
    let reads = std::mem::take(&mut *reads.lock().unwrap());
    let reads = reads.into_iter().filter(|(name, _)| name.ends_with(".parquet"));
    reads.map(|(_, range)| range).collect()
}

#[test]
fn scattered_rows_on_both_sides_of_passed_over_pages_fetch_none_of_those() {
    let folder = tempfile::tempdir().unwrap();
    let near_an_end = |page: usize| !(4..96).contains(&page);
    let rows: Rows = (0..100 * PAGE)
        .map(|row| {
            (
                i64::from(near_an_end(row / PAGE)),
                i64::try_from(row % 3).unwrap(),
            )
        })
        .collect();
    let (table, reads) = paged(folder.path(), &rows, None);
    requests(&reads);
    let expected: Rows = rows.iter().copied().filter(|row| *row == (1, 2)).collect();
    assert_eq!(found(&table, vec![equals("id", 1), equals("value", 2)]), expected);
    let requests = requests(&reads);
    // The end of the file; the beginning of one column, its end with the beginning of the other, and the other's end.
    assert_eq!(requests.len(), 4, "{requests:?}");
}

#[test]
fn pages_of_a_search_that_lie_close_together_are_one_request() {
    let folder = tempfile::tempdir().unwrap();
    let is_here = |row: usize| (row / PAGE).is_multiple_of(4) && row < 80 * PAGE;
    let rows: Rows = (0..100 * PAGE)
        .map(|row| (i64::from(is_here(row)), i64::try_from(row).unwrap()))
        .collect();
    let (table, reads) = paged(folder.path(), &rows, None);
    requests(&reads);
    let change = table.prepare_delete(&vec![equals("id", 1)].into(), None, &options(), &mut || true);
    change.unwrap().1.unwrap().commit(&mut wait_limit()).unwrap();
    let requests = requests(&reads);
    assert_eq!(
        requests.len(),
        2,
        "the end of the file, and its pages: {requests:?}"
    );
    let expected: Rows = rows.into_iter().filter(|row| row.0 == 0).collect();
    assert_eq!(found(&table, Vec::new()), expected);
}

#[test]
fn page_indexes_of_row_groups_that_are_small_are_not_fetched() {
    let folder = tempfile::tempdir().unwrap();
    let rows: Rows = (0..60_000).map(|row| (row / 100, row)).collect();
    let (table, reads) = paged(folder.path(), &rows, Some(100));
    requests(&reads);
    let all = found(&table, Vec::new());
    assert_eq!(all, rows);
    let footer = requests(&reads);
    let footer = footer.len() - 600;
    assert_eq!(found(&table, vec![equals("id", 7)]), &rows[700..800]);
    let requests = requests(&reads);
    assert_eq!(requests.len(), footer + 1, "{requests:?}");
}
