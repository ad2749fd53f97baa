//! Whatever the store and the schedule do, the committer keeps its promises; and without one of its rules it does not.

use delta_commit::rules::ProtocolRules;
use delta_sim::{Coverage, lifetimes, run};

/// A mutant must be found within so many seeds.
const MUTANT_SEEDS: u64 = 4_000;

fn seeds() -> u64 {
    match std::env::var("SPILLWAY_TESTS").as_deref() {
        Ok("quick") => 50,
        Ok("soak") => 10_000,
        _ => 200,
    }
}

/// Seeds of schedules that broke a promise once: a process that settled a member of another's intent deleted it,
/// while other members waited.
const BROKE_ONCE: [u64; 1] = [9955];

#[test]
fn every_schedule_keeps_every_promise() {
    let mut total = Coverage::default();
    let mut broken = Vec::new();
    for seed in (0..seeds()).chain(BROKE_ONCE) {
        match run(seed, ProtocolRules::default()) {
            Ok(coverage) => total += coverage,
            Err(promise) => broken.push(format!("seed {seed}: {promise}")),
        }
    }
    assert!(
        broken.is_empty(),
        "{} schedules, among them:\n{}",
        broken.len(),
        broken[..broken.len().min(20)].join("\n")
    );
    // A simulation in which nothing happens proves nothing.
    assert!(u64::try_from(total.least()).unwrap() > seeds() / 10, "{total:?}");
}

#[test]
fn a_schedule_repeats_itself() {
    for seed in 0..8 {
        assert_eq!(
            run(seed, ProtocolRules::default()),
            run(seed, ProtocolRules::default()),
            "seed {seed}"
        );
    }
}

/// The seed of a schedule that breaks this promise; the one that is known to is tried first.
fn seed_that_breaks<T>(promise: &str, known: u64, run: impl Fn(u64) -> Result<T, String>) -> Option<u64> {
    std::iter::once(known)
        .chain(0..MUTANT_SEEDS)
        .find(|seed| run(*seed).is_err_and(|broken| broken.contains(promise)))
}

macro_rules! mutants {
    ($($name:ident: $rule:ident breaks $promise:literal at $known:literal),* $(,)?) => {$(
        #[test]
        fn $name() {
            let mutant = ProtocolRules { $rule: false, ..ProtocolRules::default() };
            let found = seed_that_breaks($promise, $known, |seed| run(seed, mutant));
            assert_eq!(found, Some($known), "another seed needs the rule, or none does");
        }
    )*};
}

mutants! {
    without_the_window_a_member_lands_twice: r1_window breaks "is added in version" at 347,
    without_settlement_a_rejected_member_lands: r2_no_zombies breaks "was rejected (settled), but it is in version" at 3,
    with_intents_that_come_back_a_rejected_member_lands: r2_withdrawn_for_good breaks "was rejected (settled), but it is in version" at 1485,
    with_lone_aborts_a_rejected_member_lands: r3_no_lone_abort breaks "was rejected (the deadline passed" at 3,
    without_deduplication_a_member_lands_twice: r4_no_doubles breaks "is added in version" at 58,
    beside_others_a_blind_append_makes_a_mixed_version: r5_alone_or_blind breaks "that is not blind" at 0,
    in_another_world_a_member_follows_a_change_of_metadata: r6_same_world breaks "must not follow: MetadataChanged" at 31,
    with_early_deletions_carriers_miss_a_member: r7_deleted_last breaks "a member that waits is in no version" at 1,
    taking_silence_for_a_refusal_a_rejected_member_lands: r3_unheard_is_doubt breaks "was rejected (" at 102,
    without_listing_there_is_no_bound: r7_always_list breaks "races after its announcement" at 1740,
    without_syncing_a_power_cut_takes_what_was_acknowledged: r8_durable_first breaks "after a power cut" at 5,
    believing_the_second_sync_of_a_file_dangles: r8_data_once breaks "which does not exist" at 45,
    believing_the_second_sync_of_the_log_loses_what_was_acknowledged: r8_log_once breaks "after a power cut" at 1265,
    without_merging_a_mark_undoes_another: r10_merged_rows breaks "removes an entry" at 8,
    without_merging_a_move_brings_deleted_rows_back: r10_merged_rows breaks "only moves rows" at 1,
    without_an_order_a_change_of_what_it_missed_comes_first: r11_one_order breaks "no order holds" at 127,
    without_trying_again_the_log_has_gaps: r9_no_gap breaks "was created, but there is no" at 55,
    with_its_own_mark_alone_a_version_gives_row_ids_again: r12_new_row_ids breaks "the row ids" at 0,
}

/// Seeds of the first 10,000 that restore a table between two looks in a way that is not noticed (docs, R13): of more
/// than two versions, one that was not looked up; or a gap that one process fills below a version that another takes
/// back.
const NOT_NOTICED: [u64; 3] = [4257, 6163, 8383];

#[test]
fn whatever_becomes_of_the_table_nothing_is_acknowledged_in_another_one() {
    let mut total = lifetimes::LifetimeCoverage::default();
    let mut broken = Vec::new();
    for seed in 0..seeds() {
        match lifetimes::run(seed, ProtocolRules::default(), true) {
            Ok(coverage) => total += coverage,
            Err(promise) if NOT_NOTICED.contains(&seed) => {
                assert!(promise.contains("was acknowledged in version"), "{promise}");
            }
            Err(promise) => broken.push(format!("seed {seed}: {promise}")),
        }
    }
    assert!(
        broken.is_empty(),
        "{} schedules, among them:\n{}",
        broken.len(),
        broken[..broken.len().min(20)].join("\n")
    );
    assert!(u64::try_from(total.least()).unwrap() > seeds() / 20, "{total:?}");
}

#[test]
fn a_schedule_of_lifetimes_repeats_itself() {
    for seed in 0..8 {
        let run = || lifetimes::run(seed, ProtocolRules::default(), true);
        assert_eq!(run(), run(), "seed {seed}");
    }
}

macro_rules! mutants_of_lifetimes {
    ($($name:ident: $rule:ident breaks $promise:literal at $known:literal),* $(,)?) => {$(
        #[test]
        fn $name() {
            let mutant = ProtocolRules { $rule: false, ..ProtocolRules::default() };
            let found = seed_that_breaks($promise, $known, |seed| lifetimes::run(seed, mutant, true));
            assert_eq!(found, Some($known), "another seed needs the rule, or none does");
        }
    )*};
}

mutants_of_lifetimes! {
    without_a_look_before_it_a_version_is_attempted_in_another_table: r13_checked_before breaks "its table was gone for" at 0,
    without_a_look_after_it_a_version_of_another_table_is_acknowledged: r13_checked_after breaks "which is not of the table" at 5,
    without_taking_it_back_a_version_stays_in_another_table: r13_retracted breaks "was left in a log" at 3,
}

#[test]
fn with_a_clock_that_stands_still_while_suspended_a_look_is_believed_for_too_long() {
    let run = |seed| lifetimes::run(seed, ProtocolRules::default(), false);
    assert_eq!(seed_that_breaks("its table was gone for", 12, run), Some(12));
}
