//! Arbitrary footers, and page indexes before them: a report, or an error. A file that is cut, or has grown, is an
//! error; and the memory that is taken does not depend on what the footer says that there is.

#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use bytes::Bytes;
use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataOptions};
use parquet_inspect::{Depth, FileReport, MOST_LEVELS, inspect, read_footer};
use spillway_fuzz::{footer_seeds, framed, mutate_seeded, number_of, scratch, spoiled};

static SEEDS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(footer_seeds);
static FILE: LazyLock<PathBuf> = LazyLock::new(|| scratch().join("file.parquet"));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate_seeded(data, size, max_size, seed, &SEEDS)
});

fuzz_target!(|input: &[u8]| {
    let Some(file) = framed(input) else {
        return;
    };
    let read = footer(&file);
    fs::write(&*FILE, &file).expect("the scratch folder takes files");
    // Places of pages may lead anywhere.
    let _ = inspect(&FILE, Depth::Pages);
    match (inspect(&FILE, Depth::Footer), &read) {
        (Ok(report), Some(read)) => agrees(&file, &report, read),
        (Ok(_), None) => panic!("a footer is reported that is not read"),
        (Err(_), _) => {}
    }
    for spoiled in spoiled(&file, number_of(input)) {
        assert!(footer(&spoiled).is_none(), "a file that is not whole is read");
    }
});

/// The footer, in the types of the reader of tables too.
fn footer(file: &[u8]) -> Option<ParquetMetaData> {
    let file = Bytes::copy_from_slice(file);
    let read = read_footer(&file, ParquetMetaDataOptions::new()).ok()?;
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let _ = ArrowReaderMetadata::try_new(read.clone().into(), options);
    Some(read)
}

fn agrees(file: &[u8], report: &FileReport, read: &ParquetMetaData) {
    assert_eq!(report.bytes, file.len() as u64);
    assert_eq!(report.rows, read.file_metadata().num_rows());
    assert_eq!(report.row_groups.len(), read.num_row_groups());
    for (group, read) in report.row_groups.iter().zip(read.row_groups()) {
        assert_eq!(group.rows, read.num_rows());
        let paths = read.columns().iter().map(|column| column.column_path().string());
        assert!(paths.eq(group.columns.iter().map(|column| column.path.clone())));
    }
    let columns = read.file_metadata().schema_descr().columns();
    // The middle groups of lists and maps count with those that they are in.
    let deepest = columns.iter().map(|column| column.path().parts().len()).max();
    assert!(
        deepest.is_none_or(|levels| levels <= 2 * MOST_LEVELS + 1),
        "{deepest:?} levels"
    );
}
