//! Arbitrary bytes as versions of the Delta log: whatever is accepted is JSON to `serde_json` too, is written again
//! with all that it says, and then reads the same.

#![no_main]

use std::sync::LazyLock;

use delta_commit::actions::{Action, parse_commit};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use serde_json::{Map, Value};
use spillway_fuzz::{log_seeds, mutate_seeded};

static SEEDS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(log_seeds);

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate_seeded(data, size, max_size, seed, &SEEDS)
});

fuzz_target!(|body: &[u8]| {
    let Ok(actions) = parse_commit(body) else {
        return;
    };
    let text = std::str::from_utf8(body).expect("a version that was read is text");
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let lines: Vec<&str> = lines
        .filter(|line| {
            Action::from_line(line)
                .expect("the line was read with others")
                .is_some()
        })
        .collect();
    assert_eq!(lines.len(), actions.len());
    for (line, action) in lines.iter().zip(&actions) {
        let written = action.to_line().expect("an action that was read has a JSON form");
        let back = Action::from_line(&written).expect("a written line is read");
        assert_eq!(back.as_ref(), Some(action), "{line}\nbecame\n{written}");
        let (given, written): (Value, Value) = (parsed(line), parsed(&written));
        let (name, body) = first_action(line, &given, &written);
        says_all(name, body, &written[name]);
    }
});

fn parsed(line: &str) -> Value {
    serde_json::from_str(line).expect("an action's line is JSON")
}

/// The name and the body of the line's action: the first one that is known, where there are several.
fn first_action<'a>(line: &str, given: &'a Value, written: &'a Value) -> (&'a str, &'a Value) {
    let written = written.as_object().expect("a written line is an object");
    let name = written.keys().next().expect("a written line has an action");
    let body = given.get(name);
    (name, body.unwrap_or_else(|| panic!("{line} has no {name}")))
}

/// Every field of the line is in the line that was written. Provenance and change files have the fields alone that are
/// known.
fn says_all(name: &str, given: &Value, written: &Value) {
    let (Some(given), Some(written)) = (given.as_object(), written.as_object()) else {
        return;
    };
    if name == "commitInfo" || name == "cdc" {
        return;
    }
    for (field, value) in given.iter().filter(|(field, _)| !field.ends_with("_parsed")) {
        let found = written.get(field).unwrap_or(&Value::Null);
        if field == "partitionValues" && (name == "add" || name == "remove") {
            assert_eq!(found, value, "{name}.{field}");
        } else if field == "format" || field == "deletionVector" {
            says_all(field, value, found);
        } else {
            assert_eq!(without_nulls(found), without_nulls(value), "{name}.{field}");
        }
    }
}

/// A null field counts as absent, at any depth, and so does a group of nothing else.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields
                .iter()
                .map(|(name, value)| (name.clone(), without_nulls(value)));
            let kept: Map<String, Value> = kept.filter(|(_, value)| !value.is_null()).collect();
            if kept.is_empty() && !fields.is_empty() {
                Value::Null
            } else {
                Value::Object(kept)
            }
        }
        Value::Array(values) => Value::Array(values.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}
