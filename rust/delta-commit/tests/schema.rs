//! Schemas that a table may have, and schemas that are refused.

use delta_commit::schema::{check_name, check_partitioning, check_schema};

fn field(name: &str, kind: &str) -> String {
    format!(r#"{{"name":{name:?},"type":{kind},"nullable":true,"metadata":{{}}}}"#)
}

fn schema(fields: &[String]) -> String {
    format!(r#"{{"type":"struct","fields":[{}]}}"#, fields.join(","))
}

#[test]
fn every_type_of_the_format_is_known() {
    let nested = schema(&[field("x", r#""timestamp_ntz""#)]);
    let array = format!(r#"{{"type":"array","elementType":{nested},"containsNull":true}}"#);
    let map = format!(r#"{{"type":"map","keyType":"string","valueType":{array},"valueContainsNull":true}}"#);
    let facts = check_schema(&schema(&[
        field("a", r#""long""#),
        field("b", r#""decimal(38,18)""#),
        field("c", &map),
    ]))
    .unwrap();
    assert_eq!(facts.columns, ["a", "b", "c"]);
    assert!(facts.has_timestamp_ntz);
}

#[test]
fn other_types_are_refused_by_name() {
    for kind in [
        r#""duration""#,
        r#""decimal(39,0)""#,
        r#""decimal(3,4)""#,
        r#""uint64""#,
        "null",
        "{}",
    ] {
        let error = check_schema(&schema(&[field("amount", kind)]))
            .unwrap_err()
            .to_string();
        assert!(error.contains("amount"), "{error}");
    }
    for text in ["", "[]", r#"{"type":"struct"}"#, r#"{"type":"map","fields":[]}"#] {
        assert!(check_schema(text).is_err(), "{text}");
    }
}

#[test]
fn names_that_readers_cannot_take_are_refused() {
    for name in [
        "a b", "a,b", "a;b", "a{b", "a}b", "a(b", "a)b", "a\nb", "a\tb", "a=b", "",
    ] {
        assert!(check_name(name).is_err(), "{name:?}");
    }
    assert!(check_name("größe.x-1").is_ok());
    let twins = schema(&[field("Id", r#""long""#), field("iD", r#""long""#)]);
    assert!(check_schema(&twins).unwrap_err().to_string().contains("case"));
}

#[test]
fn partition_columns_are_columns_and_not_all_of_them() {
    let facts = check_schema(&schema(&[field("a", r#""long""#), field("b", r#""date""#)])).unwrap();
    let check = |columns: &[&str]| {
        check_partitioning(&facts, &columns.iter().map(|&c| c.to_owned()).collect::<Vec<_>>())
    };
    assert!(check(&[]).is_ok());
    assert!(check(&["b"]).is_ok());
    for wrong in [&["c"][..], &["b", "b"], &["a", "b"]] {
        assert!(check(wrong).is_err(), "{wrong:?}");
    }
}
