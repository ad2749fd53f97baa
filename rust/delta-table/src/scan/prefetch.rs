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
use delta_commit::serve_until;

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
mod tests;
