//! A Parquet writer in Rust as a backend of `spillway bench`: the template to copy.
//!
//! It reads an Arrow IPC stream, writes Parquet to a path, and prints a JSON line of what its write took.

use std::env;
use std::error::Error;
use std::fs::{self, File};
use std::io;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_schema::SchemaRef;
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use parquet::arrow::ArrowWriter;
use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::WriterProperties;
use serde_json::json;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        // The bench shows the last line of standard error as the reason.
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Measures the write of the rows on standard input, and prints its figures.
fn run() -> Result<()> {
    let request = Request::from_environment()?;
    // All rows are read before the clock starts: the memory that holds them belongs to the baseline.
    let stream = StreamReader::try_new_buffered(io::stdin().lock(), None)?;
    let schema = stream.schema();
    let batches = stream.collect::<std::result::Result<Vec<_>, _>>()?;

    fs::write("/proc/self/clear_refs", "5")?; // sets VmHWM back to what is resident
    let baseline = status_bytes("VmRSS")?;
    let before = getrusage(UsageWho::RUSAGE_SELF)?;
    let begin = Instant::now();
    let row_groups = write(&request, schema, &batches)?;
    let seconds = begin.elapsed().as_secs_f64();
    let after = getrusage(UsageWho::RUSAGE_SELF)?;
    let peak = status_bytes("VmHWM")?;

    let figures = json!({
        "rows": batches.iter().map(RecordBatch::num_rows).sum::<usize>(),
        "version": request.version(),
        "seconds": seconds,
        "user_seconds": spent(&before, &after, Usage::user_time)?,
        "system_seconds": spent(&before, &after, Usage::system_time)?,
        "baseline_bytes": baseline,
        "peak_bytes": peak,
        "row_groups": row_groups, // whatever else the program knows of itself
    });
    println!("{figures}");
    Ok(())
}

/// Writes the batches to the file that was asked for, and returns the number of its row groups.
///
/// This is what is measured: from the call that opens the writer to the return of the one that closes it.
fn write(request: &Request, schema: SchemaRef, batches: &[RecordBatch]) -> Result<usize> {
    let file = File::create(&request.output)?;
    let mut writer = ArrowWriter::try_new(file, schema, Some(request.properties.clone()))?;
    for batch in batches {
        writer.write(batch)?;
    }
    Ok(writer.close()?.num_row_groups())
}

/// What the bench asks for, in variables of the environment.
///
/// `SPILLWAY_THREADS` is not read: `ArrowWriter` encodes in the thread that calls it.
struct Request {
    output: String,
    properties: WriterProperties,
}

impl Request {
    fn from_environment() -> Result<Self> {
        let row_group_rows = parsed("SPILLWAY_ROW_GROUP_ROWS", &variable("SPILLWAY_ROW_GROUP_ROWS")?)?;
        if row_group_rows == 0 {
            return Err("SPILLWAY_ROW_GROUP_ROWS is 0: give 1 or more".into());
        }
        let compression = compression(&variable("SPILLWAY_CODEC")?, &variable("SPILLWAY_LEVEL")?)?;
        let properties = WriterProperties::builder()
            .set_compression(compression)
            .set_max_row_group_row_count(Some(row_group_rows))
            .build();
        Ok(Self {
            output: variable("SPILLWAY_OUTPUT")?,
            properties,
        })
    }

    /// The version of the `parquet` crate, which ends the `created_by` that it writes into its files.
    fn version(&self) -> &str {
        let created_by = self.properties.created_by();
        created_by.rsplit(' ').next().unwrap_or(created_by)
    }
}

/// The codec by the bench's name, at a level or, where that is empty, at its default.
fn compression(codec: &str, level: &str) -> Result<Compression> {
    Ok(match (codec, level) {
        ("uncompressed", _) => Compression::UNCOMPRESSED,
        ("snappy", _) => Compression::SNAPPY,
        ("lz4", _) => Compression::LZ4_RAW,
        ("gzip", "") => Compression::GZIP(GzipLevel::default()),
        ("gzip", _) => Compression::GZIP(GzipLevel::try_new(parsed("SPILLWAY_LEVEL", level)?)?),
        ("brotli", "") => Compression::BROTLI(BrotliLevel::default()),
        ("brotli", _) => Compression::BROTLI(BrotliLevel::try_new(parsed("SPILLWAY_LEVEL", level)?)?),
        ("zstd", "") => Compression::ZSTD(ZstdLevel::default()),
        ("zstd", _) => Compression::ZSTD(ZstdLevel::try_new(parsed("SPILLWAY_LEVEL", level)?)?),
        _ => return Err(format!("SPILLWAY_CODEC {codec:?}: this program has no such codec").into()),
    })
}

fn variable(name: &str) -> Result<String> {
    env::var(name).map_err(|error| format!("{name}: {error}; the bench starts this program").into())
}

fn parsed<T: FromStr>(name: &str, text: &str) -> Result<T> {
    text.parse()
        .map_err(|_| format!("{name} {text:?}: give a whole number").into())
}

/// The seconds of processor time of one kind between two readings.
fn spent(before: &Usage, after: &Usage, kind: fn(&Usage) -> TimeVal) -> Result<f64> {
    let microseconds = kind(after).num_microseconds() - kind(before).num_microseconds();
    Ok(Duration::from_micros(u64::try_from(microseconds)?).as_secs_f64())
}

/// The bytes of a field of `/proc/self/status`, which has them in KiB.
fn status_bytes(field: &str) -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let value = status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kib = value.and_then(|text| text.split_whitespace().next());
    let kib = kib.ok_or_else(|| format!("/proc/self/status has no {field}"))?;
    Ok(parsed::<u64>(field, kib)? * 1024)
}
