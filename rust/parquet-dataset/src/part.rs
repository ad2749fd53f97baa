//! One file that is being written, until it is full.

use std::path::PathBuf;

use parquet_writer::{Batch, FileWriter, RowWeights, WriteError, WriteResult};

use crate::rolling::{CheckInterval, Rolling, WrittenRows};

/// An open file of a partition.
pub(crate) struct PartitionFile {
    pub writer: FileWriter,
    pub path: PathBuf,
    /// The number of files that were opened before it.
    pub order: usize,
    /// The count of writes at its last rows, for the choice of the file that is closed for another.
    pub used: u64,
    /// Rows that it has got. Weights are counted only where bytes are limited.
    rows: WrittenRows,
    /// Rows that it had got at the last look at its size.
    seen: WrittenRows,
    max_rows: u64,
    rolling: Rolling,
    step: CheckInterval,
    full: bool,
    /// Rows that wait to be encoded together.
    waiting: Vec<Batch>,
    /// True if rows must not wait, since the file's writer may refuse them: nobody could give them back later.
    is_eager: bool,
}

impl PartitionFile {
    pub fn new(
        writer: FileWriter,
        path: PathBuf,
        order: usize,
        (max_rows, rolling): (Option<u64>, Rolling),
        is_eager: bool,
    ) -> Self {
        let mut part = Self {
            writer,
            path,
            order,
            used: 0,
            rows: WrittenRows::default(),
            seen: WrittenRows::default(),
            max_rows: max_rows.unwrap_or(u64::MAX),
            rolling,
            step: CheckInterval { rows: 0, weight: 0 },
            full: false,
            waiting: Vec::new(),
            is_eager,
        };
        part.look();
        part
    }

    /// Takes rows of `batch` from `start` on, until the next look at the file's size. Returns their number. They may
    /// wait for [`Self::encode`], at most until that look.
    ///
    /// # Errors
    /// As [`FileWriter::write_all`]. Rows that are refused are not counted.
    pub fn take(
        &mut self,
        batch: &Batch,
        weights: Option<&RowWeights>,
        start: usize,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<usize, WriteError> {
        let most = self.step.rows.min(self.max_rows - self.rows.count);
        let end = start.saturating_add(usize::try_from(most).unwrap_or(usize::MAX));
        let rows = self.within_step(weights, start, end.min(batch.rows()));
        let taken = if rows == batch.rows() {
            batch.clone()
        } else {
            batch.slice(start, rows)
        };
        if self.is_eager {
            self.writer.write(&taken, go_on)?;
        } else {
            self.waiting.push(taken);
        }
        self.rows.count += rows as u64;
        self.step.rows -= rows as u64;
        if self.step.rows == 0 || self.rows.count == self.max_rows {
            self.encode(go_on)?;
            self.look();
        }
        Ok(rows)
    }

    /// The number of batches whose rows wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Encodes the rows that wait, each column to its end before the next one.
    ///
    /// # Errors
    /// As [`FileWriter::write_all`].
    pub fn encode(&mut self, go_on: &mut dyn FnMut() -> bool) -> Result<(), WriteError> {
        let waiting = std::mem::take(&mut self.waiting);
        if waiting.is_empty() {
            return Ok(());
        }
        self.writer.write_all(&waiting, go_on)
    }

    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Completes the file.
    ///
    /// # Errors
    /// As [`FileWriter::write_last`].
    pub fn finish(&mut self, go_on: &mut dyn FnMut() -> bool) -> Result<Option<WriteResult>, WriteError> {
        let waiting = std::mem::take(&mut self.waiting);
        self.writer.write_last(&waiting, go_on)?;
        Ok(self.writer.result().cloned())
    }

    /// Returns the number of rows from `start` to `end` that the step has room for.
    fn within_step(&mut self, weights: Option<&RowWeights>, start: usize, end: usize) -> usize {
        let Some(weights) = weights else {
            return end - start;
        };
        let (rows, used_up) = weights.rows_within(start, end, self.step.weight);
        let weight = weights.total(start, start + rows);
        self.rows.weight += weight;
        self.step.weight = self.step.weight.saturating_sub(weight);
        if used_up {
            self.step.rows = rows as u64;
        }
        rows
    }

    /// Checks the file's size and decides on the next step.
    fn look(&mut self) {
        let last = WrittenRows {
            count: self.rows.count - self.seen.count,
            weight: self.rows.weight - self.seen.weight,
        };
        let next = self.rolling.next(self.writer.size(), self.rows, last);
        self.seen = self.rows;
        self.full = self.rows.count >= self.max_rows || next.is_none();
        self.step = next.unwrap_or(CheckInterval { rows: 0, weight: 0 });
    }
}
