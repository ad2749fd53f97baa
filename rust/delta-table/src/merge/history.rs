//! The operation of a merge, with parameters and counts for the history by delta-spark's names.

use delta_commit::Operation;
use serde_json::{Value, json};

use crate::conditions;

use super::MergeOptions;
use super::clauses::{ClauseKind, MergeClause, MergeCondition};
use super::search::MergeCounts;

/// The operation of a merge of so many source rows.
pub(super) fn operation(options: &MergeOptions, source_rows: u64, tally: MergeCounts) -> Operation {
    let mut operation = Operation::new("MERGE");
    operation.user_metadata.clone_from(&options.user_metadata);
    let keys = options.on.iter();
    let keys: Vec<String> = keys
        .map(|name| format!("(target.{name} = source.{name})"))
        .collect();
    let mut note = |name: &str, value: Value| {
        operation.parameters.insert(name.to_owned(), value.to_string());
    };
    note("predicate", json!([keys.join(" AND ")]));
    for kind in [
        ClauseKind::Matched,
        ClauseKind::NotMatched,
        ClauseKind::NotMatchedBySource,
    ] {
        let of_kind = options.clauses.iter().filter(|clause| clause.kind == kind);
        note(kind.parameter(), of_kind.map(described).collect());
    }
    for (name, count) in [
        ("numSourceRows", source_rows),
        ("numTargetRowsInserted", tally.inserted),
        ("numTargetRowsUpdated", tally.updated + tally.updated_by_source),
        ("numTargetRowsDeleted", tally.deleted + tally.deleted_by_source),
        ("numTargetRowsMatchedUpdated", tally.updated),
        ("numTargetRowsMatchedDeleted", tally.deleted),
        ("numTargetRowsNotMatchedBySourceUpdated", tally.updated_by_source),
        ("numTargetRowsNotMatchedBySourceDeleted", tally.deleted_by_source),
    ] {
        operation.metrics.insert(name.to_owned(), count.to_string());
    }
    operation
}

fn described(clause: &MergeClause) -> Value {
    match &clause.condition {
        None => json!({"actionType": clause.action()}),
        Some(condition) => json!({"predicate": text_of(condition), "actionType": clause.action()}),
    }
}

fn text_of(condition: &MergeCondition) -> String {
    match condition {
        MergeCondition::Expression(_, text) => text.clone(),
        MergeCondition::Sql(text) => conditions::described(text),
    }
}
