//! Arbitrary bytes as announced bundles: whatever is accepted is announced again with all that it says, and then read
//! the same. Clean-up knows every file of it.

#![no_main]

use std::collections::BTreeSet;
use std::sync::LazyLock;

use delta_commit::actions::Action;
use delta_commit::fuzzing::{ReadIntent, added_by, read_intent};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use serde_json::Value;
use spillway_fuzz::{intent_seeds, mutate_seeded};

static SEEDS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(intent_seeds);

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate_seeded(data, size, max_size, seed, &SEEDS)
});

fuzz_target!(|body: &[u8]| {
    let files = added_by(body);
    let Ok(read) = read_intent(body) else {
        return;
    };
    let again = read_intent(&read.written).expect("an announced bundle is read");
    assert_eq!(again, read);
    agrees_with_serde(body, &read);
    for action in read.members.iter().flat_map(|member| &member.actions) {
        if let Action::Add(add) = action {
            assert!(files.contains(&add.path), "clean-up does not know {}", add.path);
        }
    }
});

/// The header and the members are what JSON says.
fn agrees_with_serde(body: &[u8], read: &ReadIntent) {
    let text = std::str::from_utf8(body).expect("an intent is text");
    let mut lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("each line is JSON"));
    let header = lines.next().expect("there is a header");
    assert_eq!(header["tableId"].as_str(), Some(read.world.table_id.as_str()));
    assert_eq!(header["changedIn"].as_i64(), Some(read.world.changed_in));
    assert_eq!(header["first"].as_i64(), Some(read.first));
    assert!(read.expires.is_none() || header["expires"].as_i64() == read.expires);
    for (member, line) in read.members.iter().zip(lines) {
        let given = line["id"].as_str().map(|id| id.replace('-', "").to_lowercase());
        assert!(
            given.is_some_and(|given| given.contains(&member.id)),
            "{} is not {line}",
            member.id
        );
        assert_eq!(line["readVersion"].as_i64(), Some(member.read_version));
        let given = line["readAppIds"].as_array().expect("applications are a list");
        let given: BTreeSet<&str> = given.iter().filter_map(Value::as_str).collect();
        assert!(member.app_ids.iter().map(String::as_str).eq(given));
        let given = line["actions"].as_array().expect("actions are a list");
        let given = given
            .iter()
            .map(|action| Action::from_line(&action.to_string()).expect("an action"));
        assert!(given.eq(member.actions.iter().cloned().map(Some)), "{line}");
    }
}
