//! What the fuzz targets share.
//!
//! A target that reads a format of others gets its first inputs from the crates' own writers: a corpus that starts
//! empty would take days to find a magic number, or the names of an action. The inputs stay plain bytes, so that
//! libFuzzer's own mutations and crossovers work on them, and an artifact is what the reader was given.

mod seeds;

use std::path::Path;
use std::sync::LazyLock;

use libfuzzer_sys::fuzzer_mutate;
use tempfile::TempDir;

pub use seeds::{checkpoint_seeds, condition_seeds, footer_seeds, intent_seeds, log_seeds, vector_seeds};

/// Bytes of an input up to which a seed takes its place.
const FEW: usize = 4;

/// One mutation in this many replaces the input by a seed.
const SELDOM: u32 = 4_096;

/// Mutates an input as libFuzzer does, from time to time after replacing it by a seed. For `fuzz_mutator!`.
pub fn mutate_seeded(data: &mut [u8], size: usize, max_size: usize, number: u32, seeds: &[Vec<u8>]) -> usize {
    let fitting: Vec<&Vec<u8>> = seeds.iter().filter(|seed| seed.len() <= max_size).collect();
    let chosen = (number / SELDOM) as usize % fitting.len().max(1);
    match fitting.get(chosen) {
        Some(seed) if size <= FEW || number % SELDOM == 0 => {
            data[..seed.len()].copy_from_slice(seed);
            // Now and then the seed as it is.
            if number % 2 == 0 {
                seed.len()
            } else {
                fuzzer_mutate(data, seed.len(), max_size)
            }
        }
        _ => fuzzer_mutate(data, size, max_size),
    }
}

const MAGIC: &[u8; 4] = b"PAR1";

/// A Parquet file of an input: two bytes with the length of what lies between the first magic number and the footer,
/// that, and the footer without its end. So the footer begins where its length says, whatever is inserted into it.
pub fn framed(input: &[u8]) -> Option<Vec<u8>> {
    let (length, rest) = input.split_first_chunk()?;
    let (body, footer) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
    let footer_bytes = u32::try_from(footer.len()).ok()?;
    Some([MAGIC, body, footer, &footer_bytes.to_le_bytes(), MAGIC].concat())
}

/// The input that makes a Parquet file; none for one that is too long.
pub fn unframed(file: &[u8]) -> Option<Vec<u8>> {
    let inner = file.strip_prefix(MAGIC)?.strip_suffix(MAGIC)?;
    let (inner, length) = inner.split_last_chunk()?;
    let split = inner
        .len()
        .checked_sub(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    let body_bytes = u16::try_from(split).ok()?;
    Some([&body_bytes.to_le_bytes(), inner].concat())
}

/// The file cut at a place, and with more bytes, where no end of a Parquet file is at its end: no reader may take it
/// for one.
pub fn spoiled(file: &[u8], number: usize) -> impl Iterator<Item = Vec<u8>> {
    let cut = file[..number % file.len().max(1)].to_vec();
    let grown = [file, &number.to_le_bytes()[..1 + number % 4]].concat();
    [cut, grown]
        .into_iter()
        .filter(|file| !file.ends_with(MAGIC) && !file.ends_with(b"PARE"))
}

/// A number that depends on all bytes of an input: the choice of a place in it that no byte has to be kept for.
pub fn number_of(input: &[u8]) -> usize {
    let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    input.iter().fold(0xcbf2_9ce4_8422_2325, hash) as usize
}

/// A folder of this process, with the folder of a table's log in it.
pub fn scratch() -> &'static Path {
    static SCRATCH: LazyLock<TempDir> = LazyLock::new(|| {
        let scratch = tempfile::tempdir().expect("there is room for files");
        std::fs::create_dir(scratch.path().join("_delta_log")).expect("there is room for files");
        scratch
    });
    SCRATCH.path()
}
