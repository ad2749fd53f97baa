//! Files in memory, for tests of what is in them.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use arrow_array::RecordBatch;
use parquet_writer::sink::Stream;
use parquet_writer::{Batch, FileWriter, OptionInput, WriterOptions};

/// The bytes written so far, shared with the test.
#[derive(Clone, Default)]
pub struct Shared(pub Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The file of a batch that is written in the pieces between `cuts`.
pub fn written(batch: &RecordBatch, cuts: &[usize], options: &OptionInput) -> Vec<u8> {
    let file = Shared::default();
    let sink = Box::new(Stream::new(Box::new(file.clone())));
    let options = WriterOptions::new(options.clone()).unwrap();
    let mut writer = FileWriter::new(sink, Some(batch.schema()), options).unwrap();
    let edges: Vec<_> = std::iter::once(0)
        .chain(cuts.iter().copied())
        .chain([batch.num_rows()])
        .collect();
    for edge in edges.windows(2) {
        let part = Batch::from(batch.slice(edge[0], edge[1] - edge[0]));
        writer.write(&part, &mut || true).unwrap();
    }
    writer.close(&mut || true).unwrap();
    drop(writer);
    Arc::try_unwrap(file.0).unwrap().into_inner().unwrap()
}
