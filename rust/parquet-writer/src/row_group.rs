//! The row group being written.
//!
//! Rows wait until their row group ends, or until its size is checked, at most to the end of the call that they came
//! with, unless their batches are held. Before the first check, the first of them are encoded, which says when that
//! check is due. Each column is encoded to its end before the next, so that its dictionary stays in the cache. Where
//! the row group ends, a chunk is in the file before the next column is encoded: only pages of rows before wait for
//! others.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arrow_array::Array;
use arrow_schema::SchemaRef;
use parquet::file::writer::SerializedFileWriter;

use crate::choose::Choice;
use crate::column::{EncodedChunk, FieldEncoder, Preserved};
use crate::error::{Result, WriteError};
use crate::feed::{BatchRows, Position, RowGroupRows};
use crate::integrity;
use crate::normalize;
use crate::pages::Pages;
use crate::parallel::{Pause, run_tasks};
use crate::preserved_dictionaries::BatchDictionary;
use crate::sink::Output;
use crate::size_checks::SizeChecks;
use crate::thread_pool::{ActiveThread, Threads};

/// Time between two calls of the caller's check.
const CHECK_EVERY: Duration = if cfg!(test) {
    Duration::ZERO
} else {
    Duration::from_millis(50)
};
/// The part of one thread's work above which a column is large.
const LARGE: usize = 8;

/// Asks the caller now and then whether a write should go on.
pub(crate) struct Patience<'a> {
    go_on: &'a mut dyn FnMut() -> bool,
    asked: Instant,
}

impl<'a> Patience<'a> {
    pub fn new(go_on: &'a mut dyn FnMut() -> bool) -> Self {
        Self {
            go_on,
            asked: Instant::now(),
        }
    }

    pub fn check(&mut self) -> Result<()> {
        if self.asked.elapsed() < CHECK_EVERY {
            return Ok(());
        }
        self.asked = Instant::now();
        if (self.go_on)() {
            Ok(())
        } else {
            Err(WriteError::Interrupted)
        }
    }
}

/// The memory of a writer, counted while columns are encoded.
pub(crate) struct Meter {
    /// The finished pages, and what else is in memory.
    pages: Arc<Pages>,
    other: usize,
    /// Memory of all encoders, and of what closed ones leave until the row group ends.
    encoders: AtomicUsize,
    peak: AtomicUsize,
}

impl Meter {
    /// `other` bytes are held beside encoders and pages.
    pub fn new(pages: Arc<Pages>, other: usize) -> Self {
        Self {
            pages,
            other,
            encoders: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
        }
    }

    /// The most memory that was held at once.
    pub fn peak(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }

    /// Notes that an encoder holds `now` bytes, `before` so far.
    fn note(&self, before: usize, now: usize) {
        self.encoders.fetch_sub(before, Ordering::Relaxed);
        let encoders = self.encoders.fetch_add(now, Ordering::Relaxed) + now;
        let all = encoders + self.pages.tracked_bytes() + self.other;
        self.peak.fetch_max(all, Ordering::Relaxed);
    }
}

/// The outcome of a leaf column's chunk.
pub(crate) struct Closed {
    /// An upper bound of its different values.
    pub distinct: usize,
    /// Its preserved dictionary, if there is one.
    pub preserved: Option<Preserved>,
    /// The choice that it ended with.
    pub choice: Choice,
}

/// A row group and its encoders.
pub(crate) struct RowGroupEncoder {
    columns: Columns,
    encoders: Vec<Box<dyn FieldEncoder>>,
    position: Position,
    checks: SizeChecks,
    /// The look that the first check is planned by, until it is taken.
    look: Option<Look>,
    /// Bytes of a row whose weight is not counted.
    row_bytes: u64,
}

/// A look at what the first rows take.
#[derive(Clone, Copy)]
struct Look {
    /// The inputs that wait before it.
    inputs: usize,
    /// The bytes of the values of all rows before it.
    weight: u64,
}

/// The input of the encoders.
struct Columns {
    /// The names of columns.
    declared: SchemaRef,
    /// The types that encoders accept.
    carried: SchemaRef,
    /// Rows that came since the encoders were last fed, and their dictionaries.
    waiting: Vec<EncoderInput>,
}

/// Input that waits for its encoders.
enum EncoderInput {
    /// Rows and the bytes of their values.
    Rows(BatchRows, u64),
    /// A dictionary that the rows behind it come with.
    Dictionary(BatchDictionary),
}

impl RowGroupEncoder {
    /// A row group of columns that `declared` names and that come in the types of `carried`. Its rows have `row_bytes`
    /// bytes each beside those that runs count.
    pub fn new(
        (declared, carried): (SchemaRef, SchemaRef),
        encoders: Vec<Box<dyn FieldEncoder>>,
        checks: SizeChecks,
        row_bytes: u64,
    ) -> Self {
        Self {
            columns: Columns {
                declared,
                carried,
                waiting: Vec::new(),
            },
            encoders,
            position: Position::default(),
            checks,
            look: None,
            row_bytes,
        }
    }

    /// The position of its next row.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Adds the values of a dictionary that the next rows come with.
    pub fn preserve(&mut self, given: &BatchDictionary) {
        self.columns.waiting.push(EncoderInput::Dictionary(given.clone()));
    }

    /// Takes rows, which wait until [`Self::encode`] or [`Self::close`].
    pub fn take(&mut self, run: RowGroupRows) {
        let bytes = run.weight + self.row_bytes * run.rows.count as u64;
        self.checks.add(bytes);
        self.position = run.after;
        self.columns.waiting.push(EncoderInput::Rows(run.rows, bytes));
        if run.check
            && let Some(weight) = self.checks.begin_look()
        {
            self.look = Some(Look {
                inputs: self.columns.waiting.len(),
                weight,
            });
        }
    }

    /// Returns true if rows wait to be encoded.
    pub fn waits(&self) -> bool {
        !self.columns.waiting.is_empty()
    }

    /// Returns true if rows wait whose encoded size must be known now.
    pub fn is_check_due(&self) -> bool {
        self.checks.is_due()
    }

    /// Returns true if the encoded rows fill it.
    pub fn is_full(&mut self) -> bool {
        let encoded = self.encoded_bytes();
        self.checks.is_full(encoded)
    }

    /// Encodes the rows that wait, one column after the other or side by side.
    pub fn encode(
        &mut self,
        threads: Threads,
        meter: &Arc<Meter>,
        patience: &mut Patience<'_>,
    ) -> Result<()> {
        if self.columns.waiting.is_empty() {
            return Ok(());
        }
        meter.note(0, self.tracked_bytes());
        if let Some(look) = self.look.take() {
            self.encode_first(look, threads, meter, patience)?;
        }
        self.encode_waiting(threads, meter, patience)
    }

    /// Encodes the rows that the look is about, if that was not taken.
    pub fn look(&mut self, threads: Threads, meter: &Arc<Meter>, patience: &mut Patience<'_>) -> Result<()> {
        let Some(look) = self.look.take() else {
            return Ok(());
        };
        meter.note(0, self.tracked_bytes());
        self.encode_first(look, threads, meter, patience)
    }

    /// Encodes the rows before a look, and plans the first check by their size.
    fn encode_first(
        &mut self,
        look: Look,
        threads: Threads,
        meter: &Arc<Meter>,
        patience: &mut Patience<'_>,
    ) -> Result<()> {
        let behind = self.columns.waiting.split_off(look.inputs);
        let encoded = self.encode_waiting(threads, meter, patience);
        self.columns.waiting = behind;
        encoded?;
        self.checks.look(look.weight, self.encoded_bytes());
        Ok(())
    }

    fn encode_waiting(
        &mut self,
        threads: Threads,
        meter: &Arc<Meter>,
        patience: &mut Patience<'_>,
    ) -> Result<()> {
        let columns = self.columns.take();
        let wanted = threads.for_values(columns.bytes());
        if wanted.helpers == 0 {
            let _active = ActiveThread::caller();
            for (index, encoder) in self.encoders.iter_mut().enumerate() {
                columns.feed(index, encoder.as_mut(), meter, &mut || patience.check())?;
            }
            return Ok(());
        }
        let tasks = std::mem::take(&mut self.encoders).into_iter().enumerate();
        let tasks = large_first(tasks, 1 + wanted.helpers, |(index, encoder)| {
            columns.effort(*index, encoder.as_ref())
        });
        let mut encoders = BTreeMap::new();
        let pages = Arc::clone(&meter.pages);
        let set_subtasks = |subtasks| pages.set_subtasks(subtasks);
        let meter = Arc::clone(meter);
        let work = move |(index, mut encoder): Task, pause: Pause<'_>| {
            columns.feed(index, encoder.as_mut(), &meter, pause)?;
            Ok((index, encoder))
        };
        run_tasks(tasks, wanted, &set_subtasks, patience, work, &mut |(
            index,
            encoder,
        )| {
            encoders.insert(index, encoder);
            Ok(())
        })?;
        self.encoders = encoders.into_values().collect();
        Ok(())
    }

    /// Memory that its encoders hold.
    pub fn tracked_bytes(&self) -> usize {
        self.encoders.iter().map(|encoder| encoder.tracked_bytes()).sum()
    }

    /// Bytes of the row group if it were closed now, without rows that wait.
    pub fn encoded_bytes(&self) -> u64 {
        self.encoders.iter().map(|encoder| encoder.encoded_bytes()).sum()
    }

    /// Bytes of its Bloom filters if it were closed now, without rows that wait.
    pub fn filter_bytes(&self) -> u64 {
        self.encoders.iter().map(|encoder| encoder.filter_bytes()).sum()
    }

    /// Encodes the rows that wait, closes the chunks and writes them to the file, one column after the other. Returns
    /// the outcome of each leaf.
    pub fn close(
        self,
        file: &mut SerializedFileWriter<Output>,
        threads: Threads,
        meter: &Arc<Meter>,
        patience: &mut Patience<'_>,
    ) -> Result<Vec<Closed>> {
        meter.note(0, self.tracked_bytes());
        let columns = self.columns;
        let mut row_group = file.next_row_group()?;
        let mut leaves = Vec::new();
        let pages = Arc::clone(&meter.pages);
        let mut append = |mut chunk: EncodedChunk| {
            leaves.push(Closed {
                distinct: chunk.distinct,
                preserved: chunk.preserved.take(),
                choice: chunk.choice,
            });
            pages.stages.write.time(|| chunk.append_to(&mut row_group))
        };
        meter.pages.store.make_room_for_a_chunk();
        let tasks = self.encoders.into_iter().enumerate();
        let wanted = threads.for_values(columns.bytes());
        if wanted.helpers == 0 {
            let _active = ActiveThread::caller();
            for (index, encoder) in tasks {
                columns.finish(index, encoder, meter, &mut || patience.check(), &mut append)?;
            }
        } else {
            let tasks = large_first(tasks, 1 + wanted.helpers, |(index, encoder)| {
                columns.effort(*index, encoder.as_ref())
            });
            let meter = Arc::clone(meter);
            let work = move |(index, encoder): Task, pause: Pause<'_>| {
                let mut chunks = Vec::new();
                columns.finish(index, encoder, &meter, pause, &mut |chunk| {
                    chunks.push(chunk);
                    Ok(())
                })?;
                Ok((index, chunks))
            };
            // The chunks of a column wait for those of the columns before it.
            let (mut finished, mut next) = (BTreeMap::new(), 0);
            let set_subtasks = |subtasks| pages.set_subtasks(subtasks);
            run_tasks(tasks, wanted, &set_subtasks, patience, work, &mut |(
                index,
                chunks,
            )| {
                finished.insert(index, chunks);
                while let Some(chunks) = finished.remove(&next) {
                    next += 1;
                    chunks.into_iter().try_for_each(&mut append)?;
                }
                Ok(())
            })?;
        }
        row_group.close()?;
        Ok(leaves)
    }
}

/// A column and its encoder.
type Task = (usize, Box<dyn FieldEncoder>);

impl Columns {
    /// The same with all that waits, of which nothing is left here.
    fn take(&mut self) -> Self {
        Self {
            declared: Arc::clone(&self.declared),
            carried: Arc::clone(&self.carried),
            waiting: std::mem::take(&mut self.waiting),
        }
    }

    /// Bytes of the values that wait.
    fn bytes(&self) -> u64 {
        let bytes = |input: &EncoderInput| match input {
            EncoderInput::Rows(_, bytes) => *bytes,
            EncoderInput::Dictionary(_) => 0,
        };
        self.waiting.iter().map(bytes).sum()
    }

    /// Encodes what waits of one column.
    fn feed(
        &self,
        index: usize,
        encoder: &mut dyn FieldEncoder,
        meter: &Meter,
        pause: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let mut held = encoder.tracked_bytes();
        for input in &self.waiting {
            if matches!(input, EncoderInput::Dictionary(given) if given.place.field != index) {
                continue;
            }
            meter.pages.stages.encoders.time(|| match input {
                EncoderInput::Rows(rows, _) => self.encode(index, rows, encoder),
                EncoderInput::Dictionary(given) => encoder.preserve(given.place.within, &given.values),
            })?;
            let now = encoder.tracked_bytes();
            meter.note(held, now);
            held = now;
            pause()?;
        }
        Ok(())
    }

    fn encode(&self, index: usize, rows: &BatchRows, encoder: &mut dyn FieldEncoder) -> Result<()> {
        let target = self.carried.field(index).data_type();
        let column = normalize::loosely(&rows.column(index), target)?;
        integrity::check_run(self.declared.field(index).name(), &column)?;
        encoder.write(&column)
    }

    /// Encodes what waits of one column and closes its chunks.
    fn finish(
        &self,
        index: usize,
        mut encoder: Box<dyn FieldEncoder>,
        meter: &Meter,
        pause: &mut dyn FnMut() -> Result<()>,
        each: &mut dyn FnMut(EncodedChunk) -> Result<()>,
    ) -> Result<()> {
        self.feed(index, encoder.as_mut(), meter, pause)?;
        let held = encoder.tracked_bytes();
        let (mut retained, mut elsewhere) = (0, Duration::ZERO);
        let started = Instant::now();
        encoder.close(&mut |chunk| {
            retained += chunk.retained_bytes();
            meter.note(held, held);
            let closed = Instant::now();
            let passed_on = each(chunk);
            elsewhere += closed.elapsed();
            passed_on
        })?;
        let closing = started.elapsed().saturating_sub(elsewhere);
        meter.pages.stages.encoders.add(closing);
        meter.note(held, retained);
        pause()
    }

    /// The work that a column makes, in bytes: those that it took so far, or has before it is encoded.
    fn effort(&self, index: usize, encoder: &dyn FieldEncoder) -> usize {
        let first = self.waiting.iter().find_map(|input| match input {
            EncoderInput::Rows(rows, _) => Some(rows.column(index).get_buffer_memory_size()),
            EncoderInput::Dictionary(_) => None,
        });
        match usize::try_from(encoder.encoded_bytes()) {
            Ok(0) => first.unwrap_or(0),
            Ok(bytes) => bytes,
            Err(_) => usize::MAX,
        }
    }
}

/// The tasks in an order that keeps all threads busy: first those that are a large part of one thread's work, then the
/// others as they come, so that what is finished can be passed on.
fn large_first<T>(tasks: impl Iterator<Item = T>, threads: usize, effort: impl Fn(&T) -> usize) -> Vec<T> {
    let mut tasks: Vec<_> = tasks.map(|task| (effort(&task), task)).collect();
    let all = tasks
        .iter()
        .fold(0_usize, |sum, (effort, _)| sum.saturating_add(*effort));
    let large = all / threads / LARGE;
    tasks.sort_by_key(|(effort, _)| Reverse(if *effort > large { *effort } else { 0 }));
    tasks.into_iter().map(|(_, task)| task).collect()
}
