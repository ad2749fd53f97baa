//! The reading of a scan: row groups that several threads decode, whose rows come in order.
//!
//! The caller's thread decodes, too: where it may use one processor alone, no other thread is started. A thread takes
//! the first row group that nobody has begun. Rows that are not yet first in the answer wait, within a number of bytes.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::iter::Enumerate;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};
use std::vec;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use delta_commit::actions::Add;

use crate::coalesce;
use crate::deletion_vectors;
use crate::error::{Result, TableError};
use crate::table::{lock, looking};

use super::Plan;
use super::reader::{FileReader, GroupRows};

/// Bytes of decoded rows that wait for the caller. Each thread may add a batch to them.
const WAITING_BYTES: usize = 32 << 20;

/// Threads of a scan: each holds a row group's columns, compressed.
const MOST_THREADS: usize = 16;

/// The time between two looks of the caller's thread at what may end its wait.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The place of a row group in the answer: the number of its file, and its own among those of the file that are read.
type Place = (usize, usize);

/// The batches of a scan. Each thread has one row group in memory, compressed, and decoded rows wait within 32 MiB.
pub struct ScanReader {
    files: Vec<Arc<Add>>,
    shared: Arc<Shared>,
    /// The row groups that the caller's thread decodes.
    own: BTreeMap<Place, GroupRows>,
    /// The row group of the last batch that the caller has, and the number of its batches that the caller has.
    given: (Place, usize),
    /// The same, when the reading began anew: what comes before is dropped.
    resumed: (Place, usize),
    looked: Instant,
    maker: ThreadId,
    process: u32,
}

/// The limits of a scan.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Threads, the caller's among them; none for as many as processors.
    threads: Option<usize>,
    /// Bytes of decoded rows that wait.
    waiting_bytes: usize,
}

/// The part of a scan that its threads share.
struct Shared {
    plan: Arc<Plan>,
    limits: Limits,
    state: Mutex<State>,
    /// Rung when rows come or go, and when a row group ends.
    bell: Condvar,
    /// True when nobody wants more rows.
    is_over: AtomicBool,
}

struct State {
    /// The files that nobody has opened, by their numbers.
    files: Enumerate<vec::IntoIter<Arc<Add>>>,
    /// The row groups of opened files that nobody has begun.
    groups: BTreeMap<Place, (Arc<FileReader>, usize)>,
    /// Those that are known and not given to the caller in full, begun or not.
    parts: BTreeMap<Place, Part>,
    waiting_bytes: usize,
    most_bytes: usize,
    threads: usize,
    most_threads: Option<usize>,
}

/// The rows of a row group that wait for the caller.
#[derive(Default)]
struct Part {
    batches: VecDeque<RecordBatch>,
    end: Option<Result<()>>,
}

enum Work {
    File(Arc<Add>),
    Group(Arc<FileReader>, usize),
}

/// The next thing for the caller's thread to do.
enum Next {
    Give(Place, RecordBatch),
    Decode,
    Begin(Place, Work),
    End,
}

impl ScanReader {
    pub(super) fn new(plan: Arc<Plan>, files: Vec<Arc<Add>>) -> Self {
        let limits = Limits {
            threads: None,
            waiting_bytes: WAITING_BYTES,
        };
        Self::within(limits, plan, files)
    }

    fn within(limits: Limits, plan: Arc<Plan>, files: Vec<Arc<Add>>) -> Self {
        Self {
            shared: Shared::new(limits, plan, files.clone()),
            files,
            own: BTreeMap::new(),
            given: ((0, 0), 0),
            resumed: ((0, 0), 0),
            looked: Instant::now(),
            maker: thread::current().id(),
            process: process::id(),
        }
    }

    fn read(&mut self) -> Result<Option<RecordBatch>> {
        if self.process != process::id() {
            self.begin_anew();
        }
        loop {
            let (place, batch) = match self.next_step()? {
                Next::End => return Ok(None),
                Next::Give(place, batch) => (place, batch),
                Next::Begin(place, work) => {
                    match self.shared.open(place, work) {
                        Ok(Some(rows)) => drop(self.own.insert(place, rows)),
                        Ok(None) => self.shared.end(place, Ok(())),
                        Err(error) => self.shared.end(place, Err(error)),
                    }
                    continue;
                }
                Next::Decode => match self.decode() {
                    Some(decoded) => decoded,
                    None => continue,
                },
            };
            let given = if self.given.0 == place {
                self.given.1 + 1
            } else {
                1
            };
            self.given = (place, given);
            if self.given > self.resumed {
                return Ok(Some(batch));
            }
        }
    }

    /// Waits for the next thing to do.
    fn next_step(&mut self) -> Result<Next> {
        let plan = Arc::clone(&self.shared.plan);
        let mut look = looking(plan.place.as_ref());
        loop {
            // Asked without the lock: a handler of a signal may take its time. A thread of a library need not ask.
            if self.looked.elapsed() >= LOOK_EVERY && self.maker == thread::current().id() {
                look()?;
                self.looked = Instant::now();
            }
            let mut state = lock(&self.shared.state);
            if self.shared.is_over.load(Ordering::Acquire) {
                return Ok(Next::End);
            }
            let first = match state.parts.first_entry() {
                None => None,
                Some(mut part) => {
                    let place = *part.key();
                    if let Some(batch) = part.get_mut().batches.pop_front() {
                        state.waiting_bytes -= batch.get_array_memory_size();
                        self.shared.bell.notify_all();
                        return Ok(Next::Give(place, batch));
                    }
                    if part.get().end.is_some() {
                        part.remove().end.unwrap_or(Ok(()))?;
                        self.shared.bell.notify_all();
                        continue;
                    }
                    Some(place)
                }
            };
            let own = self.own.first_key_value().map(|(place, _)| *place);
            if own.is_some() && (own == first || state.has_room()) && !state.is_free() {
                return Ok(Next::Decode);
            }
            if state.is_free() || own.is_none() && state.has_room() {
                match self.shared.take(&mut state) {
                    Some((place, work)) => return Ok(Next::Begin(place, work)),
                    None if first.is_none() => return Ok(Next::End),
                    None => {}
                }
            }
            let waited = self.shared.bell.wait_timeout(state, LOOK_EVERY);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Decodes a batch of the caller's own row group. Rows that are not first in the answer wait.
    fn decode(&mut self) -> Option<(Place, RecordBatch)> {
        let mut own = self.own.first_entry()?;
        let place = *own.key();
        match own.get_mut().next(&self.shared.plan) {
            Some(Ok(batch)) => self.shared.give_or_keep(place, batch),
            end => {
                own.remove();
                self.shared.end(place, end.map_or(Ok(()), |end| end.map(drop)));
                None
            }
        }
    }

    /// Begins again in a forked child, which has none of its parent's threads. One of them may have held the lock.
    fn begin_anew(&mut self) {
        let plan = Arc::clone(&self.shared.plan);
        let anew = Shared::new(self.shared.limits, plan, self.files.clone());
        std::mem::forget(std::mem::replace(&mut self.shared, anew));
        self.own.clear();
        self.resumed = self.given;
        self.given = ((0, 0), 0);
        self.process = process::id();
    }
}

impl Shared {
    fn new(limits: Limits, plan: Arc<Plan>, files: Vec<Arc<Add>>) -> Arc<Self> {
        Arc::new(Self {
            plan,
            limits,
            state: Mutex::new(State {
                files: files.into_iter().enumerate(),
                groups: BTreeMap::new(),
                parts: BTreeMap::new(),
                waiting_bytes: 0,
                most_bytes: limits.waiting_bytes,
                threads: 0,
                most_threads: limits.threads,
            }),
            bell: Condvar::new(),
            is_over: AtomicBool::new(false),
        })
    }

    /// Takes the first work that nobody has begun. Other threads do what is left.
    fn take(self: &Arc<Self>, state: &mut State) -> Option<(Place, Work)> {
        let taken = if let Some((place, (file, group))) = state.groups.pop_first() {
            (place, Work::Group(file, group))
        } else {
            let (number, file) = state.files.next()?;
            state.parts.insert((number, 0), Part::default());
            ((number, 0), Work::File(file))
        };
        self.start_threads(state);
        Some(taken)
    }

    /// Starts as many threads as there is work for, beside that of the caller.
    fn start_threads(self: &Arc<Self>, state: &mut State) {
        let work = state.files.len() + state.groups.len();
        while state.threads < work && state.threads + 1 < *state.most_threads.get_or_insert_with(processors) {
            let shared = Arc::clone(self);
            let name = "spillway-scan".to_owned();
            if thread::Builder::new()
                .name(name)
                .spawn(move || shared.run())
                .is_err()
            {
                // The caller's own thread reads all that others do not.
                return;
            }
            state.threads += 1;
        }
    }

    /// The rows of a row group; none where it can have none. Of a file that is opened for it, the others become known.
    fn open(self: &Arc<Self>, place: Place, work: Work) -> Result<Option<GroupRows>> {
        let (file, group) = match work {
            Work::Group(file, group) => (file, group),
            Work::File(add) => {
                let deleted = deletion_vectors::read(&self.plan.place, &add)?;
                let mut file = FileReader::open(&self.plan, add, deleted)?;
                let groups = std::mem::take(&mut file.groups);
                let file = Arc::new(file);
                let mut groups = (0..).zip(groups);
                let Some((_, first)) = groups.next() else {
                    return Ok(None);
                };
                let mut state = lock(&self.state);
                for (number, group) in groups {
                    let place = (place.0, number);
                    state.parts.insert(place, Part::default());
                    state.groups.insert(place, (Arc::clone(&file), group));
                }
                self.start_threads(&mut state);
                (file, first)
            }
        };
        GroupRows::open(&self.plan, file, group)
    }

    /// The work of a thread that is not the caller's.
    fn run(self: &Arc<Self>) {
        let asked = Arc::clone(self);
        coalesce::serve_until(move || asked.is_over.load(Ordering::Acquire));
        while let Some((place, work)) = self.take_when_there_is_room() {
            let done = catch_unwind(AssertUnwindSafe(|| self.read_ahead(place, work)));
            // The panic was reported where it happened.
            let lost = || TableError::Malformed("the thread that read the rows panicked".into());
            self.end(place, done.unwrap_or_else(|_| Err(lost())));
        }
    }

    fn take_when_there_is_room(self: &Arc<Self>) -> Option<(Place, Work)> {
        let mut state = lock(&self.state);
        while !(state.has_room() || state.is_free() || self.is_over.load(Ordering::Acquire)) {
            state = self.wait(state);
        }
        let taken = if self.is_over.load(Ordering::Acquire) {
            None
        } else {
            self.take(&mut state)
        };
        if taken.is_none() {
            state.threads -= 1;
        }
        taken
    }

    /// Reads a row group. Rows wait for the caller.
    fn read_ahead(self: &Arc<Self>, place: Place, work: Work) -> Result<()> {
        let Some(mut rows) = self.open(place, work)? else {
            return Ok(());
        };
        while let Some(batch) = rows.next(&self.plan) {
            let batch = batch?;
            let mut state = lock(&self.state);
            loop {
                if self.is_over.load(Ordering::Acquire) {
                    return Ok(());
                }
                let is_awaited = state.parts.first_key_value().is_some_and(|(first, part)| {
                    // The caller has nothing else to go on with.
                    *first == place && part.batches.is_empty()
                });
                if is_awaited || state.has_room() {
                    break;
                }
                state = self.wait(state);
            }
            state.keep(place, batch);
            self.bell.notify_all();
        }
        Ok(())
    }

    /// The batch, if it is first in the answer; else it waits.
    fn give_or_keep(&self, place: Place, batch: RecordBatch) -> Option<(Place, RecordBatch)> {
        let mut state = lock(&self.state);
        match state.parts.first_key_value() {
            Some((first, part)) if *first == place && part.batches.is_empty() => Some((place, batch)),
            _ => {
                state.keep(place, batch);
                None
            }
        }
    }

    fn end(&self, place: Place, end: Result<()>) {
        if let Some(part) = lock(&self.state).parts.get_mut(&place) {
            part.end = Some(end);
        }
        self.bell.notify_all();
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.bell.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the work of all threads.
    fn stop(&self) {
        let mut state = lock(&self.state);
        self.is_over.store(true, Ordering::Release);
        state.files = Vec::new().into_iter().enumerate();
        state.groups.clear();
        state.parts.clear();
        drop(state);
        self.bell.notify_all();
    }
}

impl State {
    fn has_room(&self) -> bool {
        self.waiting_bytes < self.most_bytes
    }

    /// Returns true if nobody has begun what is first in the answer.
    fn is_free(&self) -> bool {
        let first = self.parts.first_key_value();
        first.is_none_or(|(place, _)| self.groups.contains_key(place))
    }

    fn keep(&mut self, place: Place, batch: RecordBatch) {
        if let Some(part) = self.parts.get_mut(&place) {
            self.waiting_bytes += batch.get_array_memory_size();
            part.batches.push_back(batch);
        }
    }
}

/// The number of processors that the calling thread may use, within the number of threads of a scan.
fn processors() -> usize {
    let found = thread::available_parallelism().map_or(1, usize::from);
    found.min(MOST_THREADS)
}

impl Iterator for ScanReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = self.read();
        if read.is_err() {
            // What comes after a failure would look like the whole rest.
            self.own.clear();
            self.shared.stop();
        }
        read.map_err(|error| ArrowError::ExternalError(Box::new(error)))
            .transpose()
    }
}

impl RecordBatchReader for ScanReader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.shared.plan.schema)
    }
}

impl Drop for ScanReader {
    fn drop(&mut self) {
        // A forked child has no thread to stop, and one of its parent's may have held the lock.
        if self.process == process::id() {
            self.shared.stop();
        }
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
    use crate::tests::{Has, batch, patience, table as created};
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
            append.commit(&mut patience(), &mut || true).unwrap();
        }
        table
    }

    fn reader(table: &Table, limits: Limits, conditions: Conditions) -> ScanReader {
        let options = ScanOptions {
            conditions,
            ..ScanOptions::default()
        };
        let scan = table.scan(&options).unwrap();
        ScanReader::within(limits, Arc::clone(&scan.plan), scan.files.clone())
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

    const ALONE: Limits = Limits {
        threads: Some(1),
        waiting_bytes: WAITING_BYTES,
    };

    proptest! {
        #[test]
        fn threads_read_the_rows_of_one_thread_in_its_order(
            lengths in prop::collection::vec(1..40_i64, 1..8),
            group_rows in 1..40_i64,
            limits in (2..5_usize, prop_oneof![Just(0), Just(500), Just(WAITING_BYTES)]),
            below in 0..8_i64,
            broken in prop::option::of(0..8_usize),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let files: Vec<Range<i64>> = lengths.iter().zip(0..).map(|(length, number)| {
                number * 1_000..number * 1_000 + length
            }).collect();
            let table = table(folder.path(), &files, group_rows);
            let scan = table.scan(&ScanOptions::default()).unwrap();
            if let Some(file) = broken.and_then(|place| scan.files.get(place)) {
                fs::remove_file(folder.path().join(path::decode_inside(&file.path).unwrap())).unwrap();
            }
            let of = |limits| read(reader(&table, limits, Conditions::Sql(format!("value < {below}"))));
            let limits = Limits { threads: Some(limits.0), waiting_bytes: limits.1 };
            let (alone, together) = (of(ALONE), of(limits));
            prop_assert_eq!(&alone, &together);
            if broken.is_none() {
                // Files come in an order of their own.
                let (mut found, _) = together;
                found.sort_unstable();
                let expected = files.into_iter().flatten().filter(|number| number % 7 < below);
                prop_assert_eq!(found, expected.collect::<Vec<_>>());
            }
        }
    }

    /// Waits for something that threads do.
    fn await_that(mut is_so: impl FnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !is_so() {
            assert!(Instant::now() < deadline, "it never was so");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn threads_end_with_the_stream_and_wait_within_the_bound() {
        let folder = tempfile::tempdir().unwrap();
        let files: Vec<Range<i64>> = (0..8)
            .map(|number| number * 1_000..number * 1_000 + 900)
            .collect();
        let table = table(folder.path(), &files, 100);
        let limits = Limits {
            threads: Some(4),
            waiting_bytes: 5_000,
        };
        let mut reader = reader(&table, limits, Conditions::default());
        let first = reader.next().unwrap().unwrap();
        let shared = Arc::clone(&reader.shared);
        await_that(|| !lock(&shared.state).has_room());
        assert!(lock(&shared.state).threads > 0);
        // Each of three threads and the caller's may have added a batch.
        let most = limits.waiting_bytes + 4 * first.get_array_memory_size();
        assert!(lock(&shared.state).waiting_bytes <= most);
        let held: Weak<Shared> = Arc::downgrade(&shared);
        drop((reader, shared));
        await_that(|| held.upgrade().is_none());
    }
}
