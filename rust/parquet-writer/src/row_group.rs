//! The row group being written.

use std::time::{Duration, Instant};

use parquet::file::writer::SerializedFileWriter;

use crate::column::FieldEncoder;
use crate::error::{Result, WriteError};
use crate::feed::{Position, Run};
use crate::sink::Output;

/// Time between two calls of the caller's check.
const CHECK_EVERY: Duration = Duration::from_millis(50);

/// Asks the caller whether to go on, but not all the time.
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

/// A row group and its encoders.
pub(crate) struct RowGroup {
    encoders: Vec<Box<dyn FieldEncoder>>,
    position: Position,
}

impl RowGroup {
    pub fn new(encoders: Vec<Box<dyn FieldEncoder>>) -> Self {
        Self {
            encoders,
            position: Position::default(),
        }
    }

    /// Where its next row comes.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Encodes rows column by column, so that a column's dictionary stays in the cache.
    pub fn write(&mut self, run: &Run, patience: &mut Patience<'_>) -> Result<()> {
        for (encoder, column) in self.encoders.iter_mut().zip(&run.columns) {
            encoder.write(column, &run.ends)?;
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

    /// Writes its chunks to the file, closing them one by one.
    pub fn close(self, file: &mut SerializedFileWriter<Output>, patience: &mut Patience<'_>) -> Result<()> {
        let mut row_group = file.next_row_group()?;
        for encoder in self.encoders {
            encoder.close(&mut |chunk| chunk.append_to(&mut row_group))?;
            patience.check()?;
        }
        row_group.close()?;
        Ok(())
    }
}
