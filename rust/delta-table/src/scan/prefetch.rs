//! The reading of a scan: row groups that threads decode ahead, whose rows come in order.
//!
//! The caller's thread reads alone until it asks for a second batch. Under conditions the first batch may be all that a
//! row group has, so threads begin with the scan if there is much to read in files after the first. From then on the
//! caller's thread reads the row group that it has begun, and threads decode the others. Where it may use one
//! processor, or gets no thread, it goes on alone.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use delta_commit::actions::Add;

use crate::commit_waiter::serve_until;
use crate::deletion_vectors;
use crate::error::{Result, TableError};
use crate::storage::WaitCheck;
use crate::table::lock;

use super::ScanPlan;
use super::reader::{FileReader, GroupRows, RowsInOrder};

/// Bytes of row groups that each thread adds to those begun before their turn. Two have room for one of the usual size.
const THREAD_BYTES: usize = 64 << 20;

const MOST_THREADS: usize = 16;

/// Bytes of files that are worth the start of threads.
const MUCH: i64 = 1 << 20;

/// The time between two looks of the caller's thread at what may end its wait.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The position of a task in the answer: the number of a file, and 0 for its opening, or that of a row group from 1 on.
type PrefetchPosition = (usize, usize);

/// The batches of a scan, in the order of its files and of their row groups.
pub struct ScanReader {
    plan: Arc<ScanPlan>,
    files: Vec<Arc<Add>>,
    /// None for those of the machine.
    limits: Option<PrefetchLimits>,
    /// Bytes of other files than the first that are worth threads before the first batch.
    much: i64,
    /// The files that the caller's thread reads, and the one that it is reading.
    own: (VecDeque<Arc<Add>>, Option<RowsInOrder>),
    ahead: Option<Arc<Prefetch>>,
    is_begun: bool,
    /// The process that has the threads.
    process: u32,
    /// Batches that the caller has.
    given: usize,
    /// Those of them that come again, in a forked child.
    again: usize,
    maker: ThreadId,
    attend: Option<WaitCheck>,
    looked: Instant,
}

#[derive(Debug, Clone, Copy)]
struct PrefetchLimits {
    threads: usize,
    /// Bytes of row groups that are begun before their turn.
    bytes: usize,
}

/// The row groups that threads read and decode before their turn.
struct Prefetch {
    plan: Arc<ScanPlan>,
    limits: PrefetchLimits,
    state: Mutex<PrefetchState>,
    /// Rung when others may have something to do.
    bell: Condvar,
    /// True when nobody wants more rows.
    is_over: AtomicBool,
}

#[derive(Default)]
struct PrefetchState {
    threads: usize,
    /// Begun in their order.
    works: BTreeMap<PrefetchPosition, PrefetchTask>,
    /// The files that threads are opening.
    opening: BTreeSet<usize>,
    /// Rows that wait for the caller, of the works that are begun.
    done: BTreeMap<PrefetchPosition, PrefetchedRows>,
    /// Bytes of batches that wait, and of those to come.
    bytes: usize,
}

enum PrefetchTask {
    Open(Arc<Add>),
    /// A row group by its number in the file, and its bytes.
    Decode(Arc<FileReader>, usize, usize),
}

#[derive(Default)]
struct PrefetchedRows {
    batches: VecDeque<RecordBatch>,
    /// Bytes that are counted for batches to come.
    reserved: usize,
    end: Option<Result<()>>,
}

fn open(plan: &ScanPlan, add: Arc<Add>) -> Result<FileReader> {
    let deleted = deletion_vectors::read(&plan.storage, &add)?;
    FileReader::open(plan, add, deleted)
}

impl ScanReader {
    pub(super) fn new(plan: Arc<ScanPlan>, files: Vec<Arc<Add>>) -> Self {
        Self {
            plan,
            own: (files.clone().into(), None),
            files,
            limits: None,
            much: MUCH,
            ahead: None,
            is_begun: false,
            process: process::id(),
            given: 0,
            again: 0,
            maker: thread::current().id(),
            attend: None,
            looked: Instant::now(),
        }
    }

    fn read(&mut self) -> Result<Option<RecordBatch>> {
        if self.ahead.is_some() && self.process != process::id() {
            self.end();
            self.own = (self.files.clone().into(), None);
            (self.is_begun, self.again) = (false, self.given);
        }
        if !self.is_begun && (self.given > 0 || self.has_much_to_search()) {
            self.is_begun = true;
            self.begin()?;
        }
        loop {
            self.look()?;
            let batch = match self.next_own()? {
                None => self.next_ahead()?,
                batch => batch,
            };
            if batch.is_none() || self.again == 0 {
                self.given += usize::from(batch.is_some());
                return Ok(batch);
            }
            self.again -= 1;
        }
    }

    /// Lets what ends a wait be noticed, such as a signal. A library's own threads need not ask.
    fn look(&mut self) -> Result<()> {
        if self.looked.elapsed() < LOOK_EVERY || self.maker != thread::current().id() {
            return Ok(());
        }
        self.looked = Instant::now();
        let storage = self.plan.storage.as_ref();
        let attend = self.attend.get_or_insert_with(|| storage.attend());
        attend().map_err(|error| TableError::io(storage.root().display(), &error))
    }

    /// Returns true if conditions are asked of many rows that are not in the first file.
    fn has_much_to_search(&self) -> bool {
        let others = self.own.0.iter().skip(1).map(|add| add.size.max(0));
        !self.plan.filters.each.is_empty() && others.fold(0, i64::saturating_add) >= self.much
    }

    /// Gives what the caller's thread has not begun to threads, if there are any.
    fn begin(&mut self) -> Result<()> {
        let limits = self.limits.unwrap_or_else(|| {
            let processors = thread::available_parallelism().map_or(1, usize::from);
            let threads = processors.min(MOST_THREADS);
            let bytes = threads * THREAD_BYTES;
            PrefetchLimits { threads, bytes }
        });
        if limits.threads < 2 {
            return Ok(());
        }
        let ahead = Arc::new(Prefetch {
            plan: Arc::clone(&self.plan),
            limits,
            state: Mutex::default(),
            bell: Condvar::new(),
            is_over: AtomicBool::new(false),
        });
        let (files, rows) = &mut self.own;
        if rows.is_none()
            && let Some(add) = files.pop_front()
        {
            *rows = Some(RowsInOrder::new(open(&self.plan, add)?));
        }
        let opens = (1..)
            .zip(&*files)
            .map(|(file, add)| ((file, 0), PrefetchTask::Open(Arc::clone(add))));
        let mut works: BTreeMap<PrefetchPosition, PrefetchTask> = opens.collect();
        if let Some(rows) = &rows {
            let (file, groups) = rows.others();
            works.append(&mut ahead.works_of(0, file, groups));
        }
        if ahead.add(works) {
            files.clear();
            if let Some(rows) = rows {
                rows.leave_others();
            }
            (self.ahead, self.process) = (Some(ahead), process::id());
        }
        Ok(())
    }

    /// The next batch that the caller's thread decodes.
    fn next_own(&mut self) -> Result<Option<RecordBatch>> {
        let (files, rows) = &mut self.own;
        loop {
            if let Some(rows) = rows
                && let Some(batch) = rows.next(&self.plan)?
            {
                return Ok(Some(batch));
            }
            *rows = None;
            let Some(add) = files.pop_front() else {
                return Ok(None);
            };
            *rows = Some(RowsInOrder::new(open(&self.plan, add)?));
        }
    }

    /// Waits for the next batch that a thread decodes.
    fn next_ahead(&mut self) -> Result<Option<RecordBatch>> {
        let Some(ahead) = self.ahead.clone() else {
            return Ok(None);
        };
        loop {
            let mut state = lock(&ahead.state);
            let next = state.next();
            ahead.bell.notify_all();
            if let Some(next) = next {
                return next;
            }
            let waited = ahead.bell.wait_timeout(state, LOOK_EVERY);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
            // Asked without the lock: the handler of a signal may take its time.
            self.look()?;
        }
    }

    fn end(&mut self) {
        self.own = (VecDeque::new(), None);
        match self.ahead.take() {
            Some(ahead) if self.process == process::id() => ahead.stop(),
            // A forked child has no thread to stop, and one of its parent's may have held the lock.
            ahead => std::mem::forget(ahead),
        }
    }
}

impl Prefetch {
    fn works_of(
        &self,
        file: usize,
        reader: &Arc<FileReader>,
        groups: impl Iterator<Item = usize>,
    ) -> BTreeMap<PrefetchPosition, PrefetchTask> {
        let works = (1..).zip(groups).map(|(position, group)| {
            let bytes = reader.bytes_of(&self.plan, group);
            (
                (file, position),
                PrefetchTask::Decode(Arc::clone(reader), group, bytes),
            )
        });
        works.collect()
    }

    /// Adds works, and threads for them. Returns false if there is none.
    fn add(self: &Arc<Self>, mut works: BTreeMap<PrefetchPosition, PrefetchTask>) -> bool {
        let mut state = lock(&self.state);
        if self.is_over() {
            return false;
        }
        state.works.append(&mut works);
        while state.threads < self.limits.threads.min(state.works.len()) {
            let ahead = Arc::clone(self);
            let thread = thread::Builder::new().name("spillway-scan".to_owned());
            if thread.spawn(move || ahead.run()).is_err() {
                break;
            }
            state.threads += 1;
        }
        state.threads > 0
    }

    fn run(self: &Arc<Self>) {
        let ahead = Arc::clone(self);
        serve_until(move || ahead.is_over());
        while let Some((position, work)) = self.take() {
            let done = catch_unwind(AssertUnwindSafe(|| self.work(position, work)));
            let end = done.unwrap_or_else(|_| {
                // The panic was reported where it happened.
                let words =
                    "a thread that read the rows panicked: report it with what it wrote to standard error";
                Err(TableError::Malformed(words.into()))
            });
            lock(&self.state).end(position, end);
            self.bell.notify_all();
        }
    }

    /// Waits for the next work; none when there is no more.
    fn take(&self) -> Option<(PrefetchPosition, PrefetchTask)> {
        let mut state = lock(&self.state);
        loop {
            if self.is_over() || (state.works.is_empty() && state.opening.is_empty()) {
                state.threads -= 1;
                return None;
            }
            if let Some(taken) = state.take(self.limits) {
                return Some(taken);
            }
            state = self.wait(state);
        }
    }

    fn work(self: &Arc<Self>, position: PrefetchPosition, work: PrefetchTask) -> Result<()> {
        let (file, group) = match work {
            PrefetchTask::Decode(file, group, _) => (file, group),
            PrefetchTask::Open(add) => {
                let file = Arc::new(open(&self.plan, add)?);
                self.add(self.works_of(position.0, &file, file.groups.iter().copied()));
                return Ok(());
            }
        };
        let Some(mut rows) = GroupRows::open(&self.plan, file, group)? else {
            return Ok(());
        };
        while let Some(batch) = rows.next(&self.plan) {
            let batch = batch?;
            let mut state = lock(&self.state);
            while !self.is_over() && !state.has_room(self.limits, position, &batch) {
                state = self.wait(state);
            }
            if self.is_over() {
                break;
            }
            state.keep(position, batch);
            self.bell.notify_all();
        }
        Ok(())
    }

    fn wait<'a>(&self, state: MutexGuard<'a, PrefetchState>) -> MutexGuard<'a, PrefetchState> {
        self.bell.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Ends the work of all threads.
    fn stop(&self) {
        let mut state = lock(&self.state);
        self.is_over.store(true, Ordering::Release);
        let left = (std::mem::take(&mut state.works), std::mem::take(&mut state.done));
        drop(state);
        self.bell.notify_all();
        drop(left);
    }
}

impl PrefetchState {
    /// Returns true if the caller waits for this.
    fn is_next(&self, position: PrefetchPosition) -> bool {
        let firsts = [self.works.keys().next(), self.done.keys().next()];
        firsts.into_iter().flatten().min() == Some(&position)
    }

    /// Takes the first work. A row group waits for those before it to be known and begun, so that no thread has one
    /// while the caller waits for another that nobody has.
    fn take(&mut self, limits: PrefetchLimits) -> Option<(PrefetchPosition, PrefetchTask)> {
        let (position, work) = self.works.first_key_value()?;
        let (position, left) = (*position, limits.bytes.saturating_sub(self.bytes));
        let mut done = PrefetchedRows::default();
        match work {
            PrefetchTask::Open(_) => {
                self.opening.insert(position.0);
            }
            PrefetchTask::Decode(_, _, bytes) => {
                let is_known = self.opening.first().is_none_or(|file| *file > position.0);
                if !is_known || (*bytes > left && !self.is_next(position)) {
                    return None;
                }
                done.reserved = left.min(*bytes);
            }
        }
        self.bytes += done.reserved;
        self.done.insert(position, done);
        self.works.pop_first()
    }

    /// Returns true if the batch may wait, or the caller waits for it.
    fn has_room(&self, limits: PrefetchLimits, position: PrefetchPosition, batch: &RecordBatch) -> bool {
        self.done.get(&position).is_none_or(|done| {
            let more = batch.get_array_memory_size().saturating_sub(done.reserved);
            more == 0
                || self.bytes + more <= limits.bytes
                || (done.batches.is_empty() && self.is_next(position))
        })
    }

    fn keep(&mut self, position: PrefetchPosition, batch: RecordBatch) {
        if let Some(done) = self.done.get_mut(&position) {
            let bytes = batch.get_array_memory_size();
            let reserved = done.reserved.min(bytes);
            done.reserved -= reserved;
            self.bytes += bytes - reserved;
            done.batches.push_back(batch);
        }
    }

    fn end(&mut self, position: PrefetchPosition, end: Result<()>) {
        if position.1 == 0 {
            self.opening.remove(&position.0);
        }
        if let Some(done) = self.done.get_mut(&position) {
            self.bytes -= std::mem::take(&mut done.reserved);
            done.end = Some(end);
            if done.is_over() {
                self.done.remove(&position);
            }
        }
    }

    /// The next batch for the caller, or the end; none while it has to wait.
    fn next(&mut self) -> Option<Result<Option<RecordBatch>>> {
        let Some(mut first) = self.done.first_entry() else {
            return self.works.is_empty().then_some(Ok(None));
        };
        if self.works.keys().next().is_some_and(|work| work < first.key()) {
            return None;
        }
        let Some(batch) = first.get_mut().batches.pop_front() else {
            return first.get_mut().end.take()?.err().map(Err);
        };
        self.bytes -= batch.get_array_memory_size();
        if first.get().is_over() {
            first.remove();
        }
        Some(Ok(Some(batch)))
    }
}

impl PrefetchedRows {
    fn is_over(&self) -> bool {
        self.batches.is_empty() && matches!(self.end, Some(Ok(())))
    }
}

impl Iterator for ScanReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = self.read();
        if read.is_err() {
            // What comes after a failure would look like the whole rest.
            self.end();
        }
        read.map_err(|error| ArrowError::ExternalError(Box::new(error)))
            .transpose()
    }
}

impl RecordBatchReader for ScanReader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.plan.schema)
    }
}

impl Drop for ScanReader {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
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

    /// A table with a file for each of these ranges of numbers, in row groups of so many rows.
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
}
