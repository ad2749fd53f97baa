//! Writes the batches of an Arrow IPC file as a Parquet file with default options: `write_ipc FROM TO`.
//!
//! `scripts/instructions.py` counts what it executes, without the noise of an interpreter around it.

use std::error::Error;
use std::fs::File;
use std::path::Path;

use arrow_array::StructArray;
use arrow_ipc::reader::FileReader;
use parquet_writer::{Batch, FileWriter, OptionInput, WriterOptions, sink};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [from, to] = arguments.as_slice() else {
        return Err("two paths are needed: write_ipc FROM TO".into());
    };
    let batches = FileReader::try_new(File::open(from)?, None)?;
    let options = WriterOptions::new(OptionInput::default())?;
    let sink = sink::create(Path::new(to), options.durable())?;
    let mut writer = FileWriter::new(sink, Some(batches.schema()), options)?;
    for batch in batches {
        let batch = batch?;
        let batch = Batch::from_struct(batch.schema(), StructArray::from(batch))?;
        writer.write(&batch, &mut || true)?;
    }
    writer.close(&mut || true)?;
    Ok(())
}
