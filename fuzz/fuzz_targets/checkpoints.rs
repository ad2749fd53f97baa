//! Arbitrary checkpoints, in Parquet and JSON: the readers of the whole and of its head agree, what is read is written
//! and then read the same, and a file that is cut or has grown is an error.

#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use delta_commit::actions::{Action, Remove};
use delta_table::fuzzing::Checkpoints;
use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use spillway_fuzz::{checkpoint_seeds, framed, mutate_seeded, number_of, scratch, spoiled};

static SEEDS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(checkpoint_seeds);
static LOG: LazyLock<PathBuf> = LazyLock::new(|| scratch().join("_delta_log"));
static CHECKPOINTS: LazyLock<Checkpoints> = LazyLock::new(|| Checkpoints::of(scratch()).expect("a folder"));

const PARQUET: &str = "checkpoint.parquet";
const JSON: &str = "checkpoint.json";
const AGAIN: &str = "again.parquet";

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate_seeded(data, size, max_size, seed, &SEEDS)
});

fuzz_target!(|input: &[u8]| {
    if input.starts_with(b"{\"") {
        fs::write(LOG.join(JSON), input).expect("the scratch folder takes files");
        check(JSON);
    } else if let Some(file) = framed(input) {
        fs::write(LOG.join(PARQUET), &file).expect("the scratch folder takes files");
        check(PARQUET);
        for spoiled in spoiled(&file, number_of(input)) {
            fs::write(LOG.join(PARQUET), spoiled).expect("the scratch folder takes files");
            assert!(
                CHECKPOINTS.read(PARQUET).is_err(),
                "a file that is not whole is read"
            );
        }
    }
});

fn check(name: &str) {
    let (all, head) = (CHECKPOINTS.read(name), CHECKPOINTS.read_head(name));
    let is_whole = CHECKPOINTS.is_whole(name);
    let Ok(all) = all else {
        assert!(
            !matches!(is_whole, Ok(true)),
            "a checkpoint is whole, and cannot be read"
        );
        return;
    };
    let has = |is: fn(&Action) -> bool| all.iter().any(is);
    let has_both = has(|action| matches!(action, Action::Protocol(_)))
        && has(|action| matches!(action, Action::Metadata(_)));
    assert_eq!(
        is_whole.expect("a checkpoint that can be read is looked through"),
        has_both
    );
    let head = head.expect("the head of a checkpoint that can be read is read");
    let of_head = |actions: Vec<Action>| actions.into_iter().filter(is_of_head).collect::<Vec<_>>();
    assert_eq!(of_head(head), of_head(all.clone()));
    let all: Vec<Action> = all.into_iter().filter_map(kept).collect();
    if CHECKPOINTS.write(AGAIN, &all).is_ok() {
        let again = CHECKPOINTS
            .read(AGAIN)
            .expect("a checkpoint that was written is read");
        assert_eq!(again, all);
    }
}

fn is_of_head(action: &Action) -> bool {
    !matches!(
        action,
        Action::Add(_) | Action::Remove(_) | Action::Cdc(_) | Action::CommitInfo(_)
    )
}

/// The action as a checkpoint keeps it; none for provenance and change files.
fn kept(action: Action) -> Option<Action> {
    match action {
        Action::Cdc(_) | Action::CommitInfo(_) => None,
        Action::Remove(remove) => Some(Action::Remove(Remove {
            stats: None,
            tags: None,
            ..remove
        })),
        other => Some(other),
    }
}
