//! Arbitrary text as a condition: what is parsed is printed and parsed to the same expression, and what is bound to
//! columns has a truth for rows, the same as the printed one.

#![no_main]

use std::sync::LazyLock;

use delta_table::fuzzing::check_condition;
use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use spillway_fuzz::{condition_seeds, mutate_seeded};

static SEEDS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(condition_seeds);

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate_seeded(data, size, max_size, seed, &SEEDS)
});

fuzz_target!(|text: &[u8]| check_condition(&String::from_utf8_lossy(text)));
