//! Arbitrary bytes as deletion vectors: whatever is accepted has the rows that a plain reader of the format finds, and
//! comes back when it is written, in a file and as text. Damage to the file is an error.

#![no_main]

use std::collections::BTreeMap;
use std::sync::LazyLock;

use delta_commit::z85;
use delta_table::fuzzing::vectors;
use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use spillway_fuzz::{mutate_seeded, number_of, vector_seeds};

static SEEDS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(vector_seeds);

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate_seeded(data, size, max_size, seed, &SEEDS)
});

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let _ = vectors::from_text(&text, text.len() / 5 * 4);
    let Ok(rows) = vectors::from_bytes(bytes) else {
        return;
    };
    let expected = runs_of(bytes).expect("a vector that is read has the form of one");
    assert!(vectors::runs(&rows) == expected, "other rows are read");
    let written = vectors::to_bytes(&rows).expect("rows that were read have bytes");
    assert_eq!(
        vectors::from_bytes(&written).expect("what was written is read"),
        rows
    );
    let text = z85::encode(bytes);
    assert_eq!(
        vectors::from_text(&text, bytes.len()).expect("the text is read"),
        rows
    );
    let mut file = vectors::in_file(bytes).expect("the bytes are few");
    assert_eq!(
        vectors::from_file(&file, bytes.len()).expect("the file is read"),
        rows
    );
    let number = number_of(bytes);
    let at = number / 8 % file.len();
    assert!(
        vectors::from_file(&file[..at], bytes.len()).is_err(),
        "half a file is read"
    );
    file[at] ^= 1 << (number % 8);
    assert!(
        vectors::from_file(&file, bytes.len()).is_err(),
        "a damaged file is read"
    );
});

/// The runs of rows, first and last, as the format's description has them: a magic number, then a count of 32-bit
/// bitmaps, each after the high half of its rows. None for other bytes.
fn runs_of(bytes: &[u8]) -> Option<Vec<(u64, u64)>> {
    let mut reader = Reader(&bytes[4..]);
    let mut bitmaps = BTreeMap::new();
    for _ in 0..reader.number(8)? {
        let high = reader.number(4)?;
        let bitmap = reader.bitmap()?;
        // A high half that is there twice has rows of its own in each.
        if bitmaps.insert(high, bitmap).is_some() {
            return None;
        }
    }
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for (high, bitmap) in bitmaps {
        for (first, last) in bitmap {
            let (first, last) = (high << 32 | first, high << 32 | last);
            match runs.last_mut() {
                Some(run) if run.1 + 1 == first => run.1 = last,
                _ => runs.push((first, last)),
            }
        }
    }
    reader.0.is_empty().then_some(runs)
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn number(&mut self, bytes: usize) -> Option<u64> {
        let (number, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(
            number
                .iter()
                .rev()
                .fold(0, |number, byte| number << 8 | u64::from(*byte)),
        )
    }

    /// The runs of a 32-bit bitmap.
    fn bitmap(&mut self) -> Option<Vec<(u64, u64)>> {
        let cookie = self.number(4)?;
        let (count, has_runs) = match cookie {
            12_346 => (self.number(4)?, false),
            cookie if cookie & 0xffff == 12_347 => ((cookie >> 16) + 1, true),
            _ => return None,
        };
        let mut are_runs = Vec::new();
        if has_runs {
            for _ in 0..count.div_ceil(8) {
                are_runs.push(self.number(1)?);
            }
        }
        let mut descriptions = Vec::new();
        for _ in 0..count {
            descriptions.push((self.number(2)?, self.number(2)? + 1));
        }
        if !has_runs || count >= 4 {
            for _ in 0..count {
                self.number(4)?;
            }
        }
        let mut runs = Vec::new();
        for (at, (high, cardinality)) in descriptions.into_iter().enumerate() {
            let mut add = |first: u64, last: u64| runs.push((high << 16 | first, high << 16 | last));
            if are_runs.get(at / 8).is_some_and(|bits| bits >> (at % 8) & 1 == 1) {
                for _ in 0..self.number(2)? {
                    let (first, more) = (self.number(2)?, self.number(2)?);
                    add(first, first + more);
                }
            } else if cardinality <= 4_096 {
                for _ in 0..cardinality {
                    let value = self.number(2)?;
                    add(value, value);
                }
            } else {
                for byte in 0..8_192 {
                    let bits = self.number(1)?;
                    (0..8)
                        .filter(|bit| bits >> bit & 1 == 1)
                        .for_each(|bit| add(byte * 8 + bit, byte * 8 + bit));
                }
            }
        }
        Some(runs)
    }
}
