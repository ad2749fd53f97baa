//! Files in memory, for tests of what is in them.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use arrow_array::RecordBatch;
use parquet_writer::sink::StreamSink;
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

/// The file of a batch that is written in the pieces between `cuts`, one by one.
pub fn written(batch: &RecordBatch, cuts: &[usize], options: &OptionInput) -> Vec<u8> {
    written_by(batch, options, |writer| {
        for part in parts(batch, cuts) {
            writer.write(&part, &mut || true).unwrap();
        }
        writer.close(&mut || true).unwrap();
    })
}

/// The file of a batch whose pieces between `cuts` are written together, those before the piece `last` in a call before
/// the others.
pub fn written_together(batch: &RecordBatch, cuts: &[usize], last: usize, options: &OptionInput) -> Vec<u8> {
    written_by(batch, options, |writer| {
        let parts = parts(batch, cuts);
        let (first, last) = parts.split_at(last.min(parts.len()));
        writer.write_all(first, &mut || true).unwrap();
        writer.write_last(last, &mut || true).unwrap();
    })
}

fn parts(batch: &RecordBatch, cuts: &[usize]) -> Vec<Batch> {
    let edges: Vec<_> = std::iter::once(0)
        .chain(cuts.iter().copied())
        .chain([batch.num_rows()])
        .collect();
    let pairs = edges.windows(2);
    pairs
        .map(|edge| Batch::from(batch.slice(edge[0], edge[1] - edge[0])))
        .collect()
}

fn written_by(batch: &RecordBatch, options: &OptionInput, write: impl FnOnce(&mut FileWriter)) -> Vec<u8> {
    let file = Shared::default();
    let sink = Box::new(StreamSink::new(Box::new(file.clone())));
    let options = WriterOptions::new(options.clone()).unwrap();
    let mut writer = FileWriter::new(sink, Some(batch.schema()), options).unwrap();
    write(&mut writer);
    assert!(writer.is_closed());
    drop(writer);
    Arc::try_unwrap(file.0).unwrap().into_inner().unwrap()
}
