//! The row group being written.

use std::cmp::Reverse;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use arrow_schema::{Schema, SchemaRef};
use parquet::file::writer::SerializedFileWriter;

use crate::choose::Choice;
use crate::column::{EncodedChunk, FieldEncoder, Preserved};
use crate::dictionaries::Given;
use crate::error::{Result, WriteError};
use crate::feed::{Position, Run};
use crate::integrity;
use crate::sink::Output;

/// Time between two calls of the caller's check.
const CHECK_EVERY: Duration = Duration::from_millis(50);

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
pub(crate) struct RowGroup {
    schema: SchemaRef,
    encoders: Vec<Box<dyn FieldEncoder>>,
    position: Position,
}

impl RowGroup {
    /// A row group of columns that `schema` names.
    pub fn new(schema: SchemaRef, encoders: Vec<Box<dyn FieldEncoder>>) -> Self {
        Self {
            schema,
            encoders,
            position: Position::default(),
        }
    }

    /// The position of its next row.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Adds the values of a dictionary that rows come with.
    pub fn preserve(&mut self, given: &Given) -> Result<()> {
        match self.encoders.get_mut(given.place.field) {
            Some(encoder) => encoder.preserve(given.place.within, &given.values),
            None => Ok(()),
        }
    }

    /// Encodes rows column by column, so that a column's dictionary stays in the cache.
    pub fn write(&mut self, run: &Run, threads: usize, patience: &mut Patience<'_>) -> Result<()> {
        if threads == 1 {
            let names = self.schema.fields().iter().map(|field| field.name());
            for ((encoder, column), name) in self.encoders.iter_mut().zip(&run.columns).zip(names) {
                integrity::check_run(name, column)?;
                encoder.write(column)?;
                patience.check()?;
            }
        } else {
            write_on_threads(&self.schema, &mut self.encoders, run, threads)?;
            patience.check()?;
        }
        self.position = run.after;
        Ok(())
    }

    /// Memory that its encoders hold.
    pub fn tracked_bytes(&self) -> usize {
        self.encoders.iter().map(|encoder| encoder.tracked_bytes()).sum()
    }

    /// Bytes of the row group if it were closed now.
    pub fn encoded_bytes(&self) -> u64 {
        self.encoders.iter().map(|encoder| encoder.encoded_bytes()).sum()
    }

    /// Closes its chunks and writes them to the file. Returns the outcome of each leaf.
    pub fn close(
        self,
        file: &mut SerializedFileWriter<Output>,
        threads: usize,
        patience: &mut Patience<'_>,
    ) -> Result<Vec<Closed>> {
        let mut row_group = file.next_row_group()?;
        let mut leaves = Vec::new();
        let mut append = |mut chunk: EncodedChunk| {
            leaves.push(Closed {
                distinct: chunk.distinct,
                preserved: chunk.preserved.take(),
                choice: chunk.choice,
            });
            chunk.append_to(&mut row_group)
        };
        if threads == 1 {
            for encoder in self.encoders {
                encoder.close(&mut append)?;
                patience.check()?;
            }
        } else {
            for chunk in close_on_threads(self.encoders, threads)? {
                append(chunk)?;
                patience.check()?;
            }
        }
        row_group.close()?;
        Ok(leaves)
    }
}

/// Encodes columns on threads, those with the most bytes so far first. Encoders are independent of each other, so the
/// bytes do not depend on which thread encodes which column.
fn write_on_threads(
    schema: &Schema,
    encoders: &mut [Box<dyn FieldEncoder>],
    run: &Run,
    threads: usize,
) -> Result<()> {
    let names = schema.fields().iter().map(|field| field.name());
    let mut tasks: Vec<_> = encoders.iter_mut().zip(&run.columns).zip(names).collect();
    tasks.sort_by_cached_key(|((encoder, _), _)| Reverse(encoder.encoded_bytes()));
    on_threads(tasks, threads, |((encoder, column), name)| {
        integrity::check_run(name, column)?;
        encoder.write(column)
    })
}

/// Compresses the last pages of all columns and their dictionaries. Returns the chunks in the order of the columns.
fn close_on_threads(encoders: Vec<Box<dyn FieldEncoder>>, threads: usize) -> Result<Vec<EncodedChunk>> {
    let mut chunks: Vec<Vec<EncodedChunk>> = encoders.iter().map(|_| Vec::new()).collect();
    let tasks = encoders.into_iter().zip(&mut chunks).collect();
    on_threads(tasks, threads, |(encoder, chunks)| {
        encoder.close(&mut |chunk| {
            chunks.push(chunk);
            Ok(())
        })
    })?;
    Ok(chunks.into_iter().flatten().collect())
}

/// Runs the tasks in their order, each on the next free thread.
fn on_threads<T: Send>(tasks: Vec<T>, threads: usize, work: impl Fn(T) -> Result<()> + Sync) -> Result<()> {
    let threads = threads.min(tasks.len());
    let tasks = Mutex::new(tasks.into_iter());
    let next = || tasks.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || std::iter::from_fn(next).try_for_each(&work);
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads)
            .map_while(|_| std::thread::Builder::new().spawn_scoped(scope, work).ok())
            .collect();
        let mine = work();
        let theirs = others
            .into_iter()
            .map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        theirs.fold(mine, Result::and)
    })
}
