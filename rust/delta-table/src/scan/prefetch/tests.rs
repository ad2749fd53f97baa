use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::Weak;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use delta_commit::path;
use parquet_writer::{OptionInput, WriterOptions};
use proptest::prelude::*;

use super::*;
use crate::tests::{Has, batch, table as created, wait_limit};
use crate::{AppendOptions, Conditions, ScanOptions, Table};

/// Creates a table with one file per range, which holds the numbers of the range in row groups of `group_rows`.
fn table(root: &Path, files: &[Range<i64>], group_rows: i64) -> Table {
    let table = created(root, "Serializable", Has::default());
    let options = WriterOptions::new(OptionInput {
        row_group_rows: group_rows,
        ..OptionInput::default()
    });
    let options = options.unwrap();
    for file in files {
        let rows: Vec<(i64, i64)> = file.clone().map(|number| (number, number % 7)).collect();
        let mut append = table.append(AppendOptions::default(), options.clone()).unwrap();
        append.write(&batch(&rows).into(), &mut || true).unwrap();
        append.commit(&mut wait_limit(), &mut || true).unwrap();
    }
    table
}

fn reader(table: &Table, limits: PrefetchLimits, conditions: Conditions) -> ScanReader {
    let options = ScanOptions {
        conditions,
        ..ScanOptions::default()
    };
    let scan = table.scan(&options).unwrap();
    let mut reader = scan.reader();
    reader.limits = Some(limits);
    reader
}

/// The numbers of a stream to its end, and whether it failed.
fn read(reader: ScanReader) -> (Vec<i64>, bool) {
    let (mut numbers, mut failed) = (Vec::new(), false);
    for batch in reader {
        match batch {
            Ok(batch) => numbers.extend(batch.column(0).as_primitive::<Int64Type>().values()),
            Err(_) => failed = true,
        }
    }
    (numbers, failed)
}

/// The least number of a file, by its statistics.
fn least(add: &Add) -> i64 {
    let stats: serde_json::Value = serde_json::from_str(add.stats.as_deref().unwrap()).unwrap();
    stats["minValues"]["id"].as_i64().unwrap()
}

const ALONE: PrefetchLimits = PrefetchLimits { threads: 1, bytes: 0 };

proptest! {
    #[test]
    fn threads_read_the_rows_of_one_thread_in_its_order(
        lengths in prop::collection::vec(1..40_i64, 1..8),
        group_rows in 1..40_i64,
        limits in (2..5_usize, prop_oneof![Just(0), Just(500), Just(THREAD_BYTES)]),
        below in 0..8_i64,
        much in prop::sample::select(vec![0, MUCH]),
        broken in prop::option::of(0..8_usize),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let files: Vec<Range<i64>> = lengths.iter().zip(0..).map(|(length, number)| {
            number * 1_000..number * 1_000 + length
        }).collect();
        let table = table(folder.path(), &files, group_rows);
        let conditions = Conditions::Sql(format!("value < {below}"));
        let options = ScanOptions { conditions: conditions.clone(), ..ScanOptions::default() };
        let adds: Vec<Arc<Add>> = table.scan(&options).unwrap().files().cloned().collect();
        let broken = broken.filter(|place| *place < adds.len());
        if let Some(place) = broken {
            fs::remove_file(folder.path().join(path::decode_inside(&adds[place].path).unwrap())).unwrap();
        }
        let whole = adds.iter().take(broken.unwrap_or(adds.len()));
        let numbers = whole.flat_map(|add| {
            let number = least(add) / 1_000;
            files[usize::try_from(number).unwrap()].clone()
        });
        let expected: Vec<i64> = numbers.filter(|number| number % 7 < below).collect();
        let of = |limits| {
            let mut reader = reader(&table, limits, conditions.clone());
            reader.much = much;
            read(reader)
        };
        let limits = PrefetchLimits { threads: limits.0, bytes: limits.1 };
        prop_assert_eq!(of(ALONE), (expected.clone(), broken.is_some()));
        prop_assert_eq!(of(limits), (expected, broken.is_some()));
    }
}

/// A table of eight files with nine row groups each.
fn eight_files(root: &Path) -> Table {
    let files: Vec<Range<i64>> = (0..8)
        .map(|number| number * 1_000..number * 1_000 + 900)
        .collect();
    table(root, &files, 100)
}

/// Waits for something that threads do.
fn await_that(mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "it never was so");
        thread::sleep(Duration::from_millis(1));
    }
}

/// The bytes that are counted and those of the batches that wait, once they have stayed for fifty looks.
fn settled(ahead: &Prefetch) -> (usize, usize) {
    let look = || {
        let state = lock(&ahead.state);
        let batches = state.done.values().flat_map(|done| &done.batches);
        let waiting = batches.map(RecordBatch::get_array_memory_size).sum();
        (state.bytes, waiting)
    };
    let (mut last, mut times) = (look(), 0);
    await_that(|| {
        let now = look();
        times = if now == last { times + 1 } else { 0 };
        last = now;
        times == 50
    });
    last
}

#[test]
fn threads_begin_with_the_second_batch_wait_within_the_bound_and_end_with_the_stream() {
    let folder = tempfile::tempdir().unwrap();
    let table = eight_files(folder.path());
    let limits = PrefetchLimits {
        threads: 3,
        bytes: 5_000,
    };
    let mut reader = reader(&table, limits, Conditions::default());
    let batch = reader.next().unwrap().unwrap();
    assert!(reader.ahead.is_none());
    for _ in 0..20 {
        reader.next().unwrap().unwrap();
        let ahead = reader.ahead.as_ref().unwrap();
        await_that(|| settled(ahead).1 > 0);
        let (counted, waiting) = settled(ahead);
        assert!(waiting <= counted);
        // That for which the caller waits may be beyond the bound.
        assert!(counted <= limits.bytes + batch.get_array_memory_size());
    }
    let held: Weak<Prefetch> = Arc::downgrade(reader.ahead.as_ref().unwrap());
    drop(reader);
    await_that(|| held.upgrade().is_none());
}

#[test]
fn threads_begin_with_a_scan_that_has_much_to_search() {
    let folder = tempfile::tempdir().unwrap();
    let table = eight_files(folder.path());
    let limits = PrefetchLimits {
        threads: 3,
        bytes: 5_000,
    };
    let begin = |conditions, much| {
        let mut reader = reader(&table, limits, conditions);
        reader.much = much;
        reader.next().unwrap().unwrap();
        reader.ahead.is_some()
    };
    let rare = || Conditions::Sql("value < 3".to_owned());
    let others = table
        .snapshot()
        .unwrap()
        .files()
        .skip(1)
        .map(|add| add.size)
        .sum::<i64>();
    assert!(begin(rare(), others / 2));
    assert!(!begin(rare(), others * 2));
    assert!(!begin(Conditions::default(), 0));
}

#[test]
fn a_row_group_too_large_for_the_room_is_begun_when_its_turn_comes() {
    let folder = tempfile::tempdir().unwrap();
    let table = eight_files(folder.path());
    let limits = PrefetchLimits { threads: 3, bytes: 1 };
    let mut reader = reader(&table, limits, Conditions::default());
    for _ in 0..30 {
        reader.next().unwrap().unwrap();
        if let Some(ahead) = reader.ahead.clone() {
            settled(&ahead);
            let state = lock(&ahead.state);
            let begun = state.done.keys().filter(|position| position.1 > 0);
            assert!(begun.count() <= 1, "a row group was begun before its turn");
        }
    }
}

#[test]
fn a_forked_child_goes_on_though_a_thread_of_its_parent_had_the_lock() {
    let folder = tempfile::tempdir().unwrap();
    let table = eight_files(folder.path());
    let limits = PrefetchLimits {
        threads: 3,
        bytes: THREAD_BYTES,
    };
    let (expected, _) = read(reader(&table, limits, Conditions::default()));
    let mut reader = reader(&table, limits, Conditions::default());
    let mut numbers = Vec::new();
    for _ in 0..5 {
        let batch = reader.next().unwrap().unwrap();
        numbers.extend_from_slice(batch.column(0).as_primitive::<Int64Type>().values());
    }
    let of_parent = reader.ahead.clone().unwrap();
    let held = lock(&of_parent.state);
    reader.process += 1;
    let (sender, receiver) = std::sync::mpsc::channel();
    thread::spawn(move || sender.send(read(reader)));
    let (left, failed) = receiver.recv_timeout(Duration::from_secs(60)).unwrap();
    drop(held);
    of_parent.stop();
    assert!(!failed);
    numbers.extend(left);
    assert_eq!(numbers, expected);
}
