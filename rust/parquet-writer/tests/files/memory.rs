//! The promise of `memory_limit`: no more is kept, and no byte of the file depends on what was spilled.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use arrow_array::{ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray};
use arrow_schema::SchemaRef;
use parquet_writer::sink::Sink;
use parquet_writer::{
    Amount, Batch, BloomRule, CompressionRule, FileWriter, OptionInput, SchemaFault, WriteError, WriteResult,
    WriterOptions,
};
use proptest::prelude::*;

/// Keeps what is written, and lets pages spill into a folder.
struct Memory {
    bytes: Arc<Mutex<Vec<u8>>>,
    spill: Option<PathBuf>,
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for Memory {
    fn commit(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&mut self) {}

    fn spill_directory(&self) -> Option<PathBuf> {
        self.spill.clone()
    }
}

/// Rows of which little repeats, so that pages are as large as their values.
fn noise(seed: u64, rows: usize, columns: usize) -> RecordBatch {
    let mut state = seed | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let columns = (0..columns).map(|column| {
        let array: ArrayRef = if column % 2 == 0 {
            Arc::new((0..rows).map(|_| next().cast_signed()).collect::<Int64Array>())
        } else {
            let distinct = 10_u64.pow(u32::try_from(column % 6).unwrap());
            Arc::new(
                (0..rows)
                    .map(|_| Some(format!("value {}", next() % distinct)))
                    .collect::<StringArray>(),
            )
        };
        (format!("c{column}"), array, true)
    });
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn input(limit: Option<Amount>) -> OptionInput {
    OptionInput {
        memory_limit: limit,
        ..OptionInput::default()
    }
}

fn options(limit: Option<Amount>) -> WriterOptions {
    WriterOptions::new(input(limit)).unwrap()
}

/// The file of a batch that is the last call's, and the writer's result.
fn write_last(batch: &RecordBatch, input: OptionInput, spill: Option<PathBuf>) -> (Vec<u8>, WriteResult) {
    let bytes = Arc::new(Mutex::new(Vec::new()));
    let sink = Box::new(Memory {
        bytes: Arc::clone(&bytes),
        spill,
    });
    let options = WriterOptions::new(input).unwrap();
    let mut writer = FileWriter::new(sink, Some(batch.schema()), options).unwrap();
    writer
        .write_last(&[Batch::from(batch.clone())], &mut || true)
        .unwrap();
    let result = writer.result().unwrap().clone();
    let bytes = bytes.lock().unwrap().clone();
    (bytes, result)
}

fn write(
    batch: &RecordBatch,
    piece: usize,
    options: WriterOptions,
    spill: Option<PathBuf>,
) -> (Vec<u8>, u64) {
    let bytes = Arc::new(Mutex::new(Vec::new()));
    let sink = Box::new(Memory {
        bytes: Arc::clone(&bytes),
        spill,
    });
    let mut writer = FileWriter::new(sink, Some(batch.schema()), options).unwrap();
    for start in (0..batch.num_rows()).step_by(piece) {
        let rows = piece.min(batch.num_rows() - start);
        writer
            .write(&Batch::from(batch.slice(start, rows)), &mut || true)
            .unwrap();
    }
    writer.close(&mut || true).unwrap();
    let held = writer.result().unwrap().peak_tracked_bytes;
    let bytes = bytes.lock().unwrap().clone();
    (bytes, held)
}

/// Codecs and levels with small and large contexts.
const CODECS: &[&str] = &[
    "zstd",
    "zstd(9)",
    "zstd(19)",
    "snappy",
    "lz4",
    "gzip",
    "brotli(1)",
    "brotli(5)",
    "uncompressed",
];

/// A writer into memory with these options.
fn open(schema: &SchemaRef, input: OptionInput) -> Result<FileWriter, WriteError> {
    let sink = Box::new(Memory {
        bytes: Arc::default(),
        spill: None,
    });
    let options = WriterOptions::new(input).unwrap();
    FileWriter::new(sink, Some(Arc::clone(schema)), options)
}

/// The least limit with these options, as the error says it.
fn least_limit(schema: &SchemaRef, input: &OptionInput) -> i64 {
    let memory_limit = Some(Amount::Bytes(1));
    let input = OptionInput {
        memory_limit,
        ..input.clone()
    };
    let message = open(schema, input).err().unwrap().to_string();
    message.split(' ').rev().nth(1).unwrap().parse().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.div_ceil(32), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_more_is_kept_than_the_limit_and_cuts_change_no_byte(
        seed: u64,
        columns in 1..12_usize,
        rows in 1_000..60_000_usize,
        more in prop_oneof![0..3_000_000_i64, 3_000_000..16_000_000_i64],
        piece in 500..20_000_usize,
        codec in prop::sample::select(CODECS),
    ) {
        let batch = noise(seed, rows, columns);
        let limit = least_limit(&batch.schema(), &compressed(codec)) + more;
        holds_its_limit(&batch, piece, codec, limit)?;
    }
}

#[test]
fn a_second_codec_that_weighs_samples_is_within_the_limit() {
    // An example that a property found: pages of two columns were in the buffers of both compressors.
    holds_its_limit(&noise(0, 50_472, 2), 11_750, "brotli(1)", 1_769_569).unwrap();
}

fn compressed(codec: &str) -> OptionInput {
    OptionInput {
        compression: CompressionRule::All(codec.into()),
        ..input(None)
    }
}

/// Writes a batch under a limit, at once and in pieces, on one thread and on three.
fn holds_its_limit(batch: &RecordBatch, piece: usize, codec: &str, limit: i64) -> Result<(), TestCaseError> {
    let input = OptionInput {
        memory_limit: Some(Amount::Bytes(limit)),
        ..compressed(codec)
    };
    let options = || WriterOptions::new(input.clone()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let spill = || Some(folder.path().to_path_buf());
    let (bytes, held) = write(batch, piece, options(), spill());
    prop_assert!(
        held <= limit.unsigned_abs(),
        "{held} bytes were kept, {limit} are allowed"
    );
    let holding = OptionInput {
        hold_batches: true,
        ..input.clone()
    };
    let (held_back, held) = write(batch, piece, WriterOptions::new(holding).unwrap(), spill());
    prop_assert!(
        held <= limit.unsigned_abs(),
        "{held} bytes were kept with batches, {limit} are allowed"
    );
    prop_assert_eq!(&bytes, &held_back);
    let (whole, held) = write(batch, batch.num_rows(), options(), spill());
    prop_assert!(
        held <= limit.unsigned_abs(),
        "{held} bytes were kept of one call, {limit} are allowed"
    );
    prop_assert_eq!(&bytes, &whole);
    for threads in [1, 3] {
        let input = OptionInput {
            threads: Some(threads),
            ..input.clone()
        };
        let (last, result) = write_last(batch, input, spill());
        let held = result.peak_tracked_bytes;
        prop_assert!(
            held <= limit.unsigned_abs(),
            "{held} bytes on {threads} threads, {limit} are allowed"
        );
        prop_assert_eq!(&bytes, &last);
    }
    Ok(())
}

#[test]
fn batches_are_held_until_they_make_a_round_and_then_returned() {
    let rows = noise(5, 30_000, 3);
    let batch = Batch::from(rows.clone());
    let open = |hold_batches| {
        let input = OptionInput {
            hold_batches,
            ..input(None)
        };
        open(&rows.schema(), input).unwrap()
    };
    let [mut plain, mut holding] = [false, true].map(open);
    for returned in [0, 0, 0, 4, 0] {
        plain.write(&batch, &mut || true).unwrap();
        assert!(plain.released().is_empty());
        holding.write(&batch, &mut || true).unwrap();
        assert_eq!(holding.released().len(), returned);
    }
    holding.flush(&mut || true).unwrap();
    assert_eq!(holding.released().len(), 1);
    holding.write(&batch, &mut || true).unwrap();
    holding.abort();
    assert_eq!(holding.released().len(), 1);
}

#[test]
fn pages_wait_from_call_to_call_and_not_behind_the_last_call() {
    let batch = noise(3, 130_000, 24);
    let folder = tempfile::tempdir().unwrap();
    let input = OptionInput {
        row_group_bytes: 1 << 30,
        compression: CompressionRule::All("uncompressed".into()),
        ..OptionInput::default()
    };
    let open = || {
        let sink = Box::new(Memory {
            bytes: Arc::default(),
            spill: Some(folder.path().to_path_buf()),
        });
        let options = WriterOptions::new(input.clone()).unwrap();
        FileWriter::new(sink, Some(batch.schema()), options).unwrap()
    };
    let (whole, empty) = ([Batch::from(batch.clone())], []);
    let mut writers = [open(), open()];
    writers[0].write_last(&whole, &mut || true).unwrap();
    writers[1].write_all(&whole, &mut || true).unwrap();
    writers[1].write_last(&empty, &mut || true).unwrap();
    let [at_once, later] = writers.each_ref().map(|writer| writer.result().unwrap());
    assert_eq!(at_once.bytes, later.bytes);
    assert_eq!(at_once.spilled_bytes, 0);
    assert!(later.spilled_bytes > 1 << 20, "{} bytes", later.spilled_bytes);
    assert!(
        at_once.peak_tracked_bytes < later.peak_tracked_bytes,
        "{} bytes at once, {} later",
        at_once.peak_tracked_bytes,
        later.peak_tracked_bytes
    );
}

#[test]
fn a_table_with_less_than_row_group_bytes_spills_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let column = noise(7, 131_072, 1).column(0).clone();
    let columns = (0..10).map(|name| (format!("c{name}"), Arc::clone(&column)));
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    for threads in [1, 2] {
        // The shape of 1,048,576 such rows and 128 MiB.
        let input = OptionInput {
            row_group_bytes: 16 << 20,
            threads: Some(threads),
            ..OptionInput::default()
        };
        let (_, result) = write_last(&batch, input, Some(folder.path().to_path_buf()));
        assert_eq!(
            (result.row_groups, result.spilled_bytes),
            (1, 0),
            "{threads} threads"
        );
        assert!(result.bytes > 10 << 20, "{} bytes", result.bytes);
    }
}

#[test]
fn what_closed_columns_leave_until_the_row_group_ends_is_counted() {
    let input = OptionInput {
        row_group_rows: 20_000,
        bloom_filter: BloomRule::All(Some(0.01)),
        ..OptionInput::default()
    };
    let column = noise(11, 20_000, 1).column(0).clone();
    let columns = (0..64).map(|name| (format!("c{name}"), Arc::clone(&column)));
    let (_, result) = write_last(&RecordBatch::try_from_iter(columns).unwrap(), input, None);
    let chunks = result.metadata.row_group(0).columns().iter();
    let filters = chunks.map(|chunk| u64::try_from(chunk.bloom_filter_length().unwrap()).unwrap());
    // Their headers are no memory.
    let filters: u64 = filters.map(|bytes| bytes - 64).sum();
    assert!(filters > 1 << 20, "{filters} bytes of filters");
    assert!(
        result.peak_tracked_bytes > filters,
        "{} bytes",
        result.peak_tracked_bytes
    );
}

#[test]
fn the_batches_before_one_that_does_not_fit_are_written() {
    let (good, other) = (noise(5, 3_000, 2), noise(5, 10, 3));
    let sink = Box::new(Memory {
        bytes: Arc::default(),
        spill: None,
    });
    let mut writer = FileWriter::new(sink, Some(good.schema()), options(None)).unwrap();
    let batches = [good.clone(), good.clone(), other].map(Batch::from);
    let refused = writer.write_last(&batches, &mut || true);
    assert!(matches!(refused, Err(WriteError::Schema(_))), "{refused:?}");
    assert_eq!(writer.size().rows, 6_000);
    writer.write_last(&batches[..1], &mut || true).unwrap();
    assert_eq!(writer.result().unwrap().rows, 9_000);
}

#[test]
fn the_least_limit_that_is_named_is_accepted_and_one_byte_less_is_not() {
    let schema = noise(1, 1, 7).schema();
    for codec in CODECS {
        let input = compressed(codec);
        let least = least_limit(&schema, &input);
        let with = |limit| {
            let memory_limit = Some(Amount::Bytes(limit));
            open(
                &schema,
                OptionInput {
                    memory_limit,
                    ..input.clone()
                },
            )
        };
        assert!(with(least).is_ok(), "{codec}");
        assert!(with(least - 1).is_err(), "{codec}");
    }
}

#[test]
fn a_value_that_the_limit_has_no_room_for_is_refused_and_the_writer_goes_on() {
    let values: ArrayRef = Arc::new(BinaryArray::from_vec(vec![b"x", &vec![7; 250_001]]));
    let batch = RecordBatch::try_from_iter([("blob", values)]).unwrap();
    let sink = Box::new(Memory {
        bytes: Arc::default(),
        spill: None,
    });
    let limit = Some(Amount::Text("2MB".into()));
    let mut writer = FileWriter::new(sink, None, options(limit)).unwrap();
    let refused = writer.write(&Batch::from(batch.clone()), &mut || true);
    let Err(WriteError::Schema(SchemaFault { message, .. })) = refused else {
        panic!("the value was taken")
    };
    assert!(
        message.contains("\"blob\"") && message.contains("row 1") && message.contains("2000000"),
        "{message}"
    );
    writer
        .write(&Batch::from(batch.slice(0, 1)), &mut || true)
        .unwrap();
    writer.close(&mut || true).unwrap();
    assert_eq!(writer.result().unwrap().rows, 1);
}

#[test]
fn amounts_have_units() {
    for (text, least) in [
        ("400000", None),
        ("400 kb", Some(400_000)),
        ("1MiB", Some(1 << 20)),
        ("2GB", Some(2_000_000_000_u64)),
    ] {
        let input = OptionInput {
            memory_limit: Some(Amount::Text(text.into())),
            ..OptionInput::default()
        };
        assert_eq!(WriterOptions::new(input).is_ok(), least.is_some(), "{text}");
    }
}
