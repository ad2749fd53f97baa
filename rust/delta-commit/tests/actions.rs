//! Actions come back from the log as they went in, and are written exactly as the protocol says.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;

use delta_commit::actions::{
    Action, Add, Cdc, CommitInfo, DeletionVector, DomainMetadata, Format, Metadata, PartitionValues,
    Protocol, Remove, Txn, UnknownFields, VectorFile, parse_commit,
};
use delta_commit::log::{version_file, version_of_file};
use delta_commit::path;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

fn line(action: &Action) -> String {
    action.to_line().unwrap()
}

fn strings() -> impl Strategy<Value = BTreeMap<String, String>> {
    btree_map(any::<String>(), any::<String>(), 0..4)
}

fn partition_values() -> impl Strategy<Value = PartitionValues> {
    btree_map(any::<String>(), option::of(any::<String>()), 0..4).prop_map(|map| map.into_iter().collect())
}

fn deletion_vector() -> impl Strategy<Value = DeletionVector> {
    (
        any::<String>(),
        option::of(any::<i32>()),
        any::<i32>(),
        any::<i64>(),
    )
        .prop_map(|(place, offset, size, cardinality)| DeletionVector {
            storage_type: "u".to_owned(),
            path_or_inline_dv: place,
            offset,
            size_in_bytes: size,
            cardinality,
            ..DeletionVector::default()
        })
}

/// Fields of writers that know more. A null counts as absent.
fn unknown() -> impl Strategy<Value = UnknownFields> {
    let value = prop_oneof![
        any::<String>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        vec(any::<i64>(), 0..3).prop_map(Value::from),
    ];
    btree_map("future[A-Z]{1,4}", value, 0..3).prop_map(UnknownFields)
}

prop_compose! {
    fn add()(
        path in any::<String>(),
        partition_values in partition_values(),
        size in any::<i64>(),
        modification_time in any::<i64>(),
        data_change in any::<bool>(),
        stats in option::of(any::<String>()),
        tags in option::of(btree_map(any::<String>(), option::of(any::<String>()), 0..3)),
        deletion_vector in option::of(deletion_vector()),
        base_row_id in option::of(any::<i64>()),
        default_row_commit_version in option::of(any::<i64>()),
        clustering_provider in option::of(any::<String>()),
        unknown in unknown(),
    ) -> Add {
        Add {
            path, partition_values, size, modification_time, data_change, stats, tags, deletion_vector,
            base_row_id, default_row_commit_version, clustering_provider, unknown,
        }
    }
}

prop_compose! {
    fn metadata()(
        id in any::<String>(),
        name in option::of(any::<String>()),
        description in option::of(any::<String>()),
        options in strings(),
        schema_string in any::<String>(),
        partition_columns in vec(any::<String>(), 0..3),
        configuration in strings(),
        created_time in option::of(any::<i64>()),
        unknown in unknown(),
    ) -> Metadata {
        let format = Format { options, ..Format::default() };
        Metadata {
            id, name, description, format, schema_string, partition_columns, configuration, created_time, unknown,
        }
    }
}

prop_compose! {
    fn commit_info()(
        in_commit_timestamp in option::of(any::<i64>()),
        timestamp in option::of(any::<i64>()),
        operation in option::of(any::<String>()),
        operation_parameters in strings(),
        read_version in option::of(any::<i64>()),
        isolation_level in option::of(any::<String>()),
        is_blind_append in option::of(any::<bool>()),
        operation_metrics in strings(),
        user_metadata in option::of(any::<String>()),
        tags in strings(),
        engine_info in option::of(any::<String>()),
        txn_id in option::of(any::<String>()),
    ) -> CommitInfo {
        CommitInfo {
            in_commit_timestamp, timestamp, operation, operation_parameters, read_version, isolation_level,
            is_blind_append, operation_metrics, user_metadata, tags, engine_info, txn_id,
        }
    }
}

fn action() -> impl Strategy<Value = Action> {
    let features = || option::of(vec(any::<String>(), 0..3));
    prop_oneof![
        add().prop_map(Action::Add),
        (add(), any::<i64>(), any::<bool>())
            .prop_map(|(add, now, change)| Action::Remove(Remove::of(&add, now, change))),
        (any::<String>(), any::<bool>()).prop_map(|(path, data_change)| Action::Remove(Remove {
            path,
            data_change,
            ..Remove::default()
        })),
        (any::<String>(), partition_values(), any::<i64>()).prop_map(|(path, partition_values, size)| {
            Action::Cdc(Cdc {
                path,
                partition_values,
                size,
                ..Cdc::default()
            })
        }),
        (any::<i32>(), any::<i32>(), features(), features()).prop_map(|(reader, writer, rf, wf)| {
            Action::Protocol(Protocol {
                min_reader_version: reader,
                min_writer_version: writer,
                reader_features: rf,
                writer_features: wf,
                ..Protocol::default()
            })
        }),
        metadata().prop_map(Action::Metadata),
        (any::<String>(), any::<i64>(), option::of(any::<i64>()), unknown()).prop_map(
            |(app_id, version, last_updated, unknown)| {
                Action::Txn(Txn {
                    app_id,
                    version,
                    last_updated,
                    unknown,
                })
            }
        ),
        (any::<String>(), any::<String>(), any::<bool>(), unknown()).prop_map(
            |(domain, configuration, removed, unknown)| {
                Action::DomainMetadata(DomainMetadata {
                    domain,
                    configuration,
                    removed,
                    unknown,
                })
            }
        ),
        commit_info().prop_map(Action::CommitInfo),
    ]
}

proptest! {
    #[test]
    fn every_action_comes_back_from_one_line(action in action()) {
        let text = line(&action);
        prop_assert!(!text.contains('\n'));
        prop_assert_eq!(Action::from_line(&text).unwrap(), Some(action));
    }

    #[test]
    fn fields_of_later_writers_are_kept(action in action(), value in any::<String>()) {
        let mut object: Value = serde_json::from_str(&line(&action)).unwrap();
        let body = object.as_object_mut().unwrap().values_mut().next().unwrap();
        body["someLaterField"] = json!({"deep": [value], "nothing": null});
        let read = Action::from_line(&object.to_string()).unwrap().unwrap();
        if matches!(action, Action::CommitInfo(_) | Action::Cdc(_)) {
            // No checkpoint holds them.
            prop_assert_eq!(read, action);
        } else {
            let written: Value = serde_json::from_str(&line(&read)).unwrap();
            let body = object.as_object_mut().unwrap().values_mut().next().unwrap();
            body["someLaterField"].as_object_mut().unwrap().remove("nothing");
            prop_assert_eq!(written, object);
        }
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in any::<String>()) {
        let _ = parse_commit(text.as_bytes());
        let _ = Action::from_line(&format!("{{\"add\":{text}}}"));
        let _ = path::decode_inside(&text);
    }

    #[test]
    fn a_path_in_the_log_means_the_file_it_was_made_from(value in "[^\0]*", name in "[a-z0-9-]{1,9}\\.parquet") {
        let file = format!("{}{name}", path::partition_directory([("c", Some(value.as_str()))]));
        prop_assert_eq!(file.split('/').count(), 2, "a value makes one directory: {}", file);
        let logged = path::encode(&file);
        prop_assert!(logged.bytes().all(|b| b.is_ascii_graphic()));
        prop_assert_eq!(path::as_reference(&logged), logged.as_str());
        prop_assert_eq!(path::decode_inside(&logged).unwrap(), file);
    }

    #[test]
    fn any_text_has_an_encoded_form_that_is_a_reference(text in any::<String>()) {
        let reference = path::as_reference(&text);
        prop_assert_eq!(path::as_reference(&reference), reference.as_ref());
    }

    #[test]
    fn a_version_is_twenty_digits(version in 0..i64::MAX) {
        let name = version_file(version);
        prop_assert_eq!(name.len(), 25);
        prop_assert_eq!(version_of_file(&name), Some(version));
    }
}

#[test]
fn an_add_is_written_as_the_protocol_shows_it() {
    let add = Add {
        path: "date=2017-12-10/part-0.parquet".to_owned(),
        partition_values: [("date", Some("2017-12-10")), ("empty", Some("")), ("none", None)]
            .into_iter()
            .collect::<PartitionValues>()
            .written(),
        size: 841_454,
        modification_time: 1_512_909_768_000,
        data_change: true,
        stats: Some(r#"{"numRecords":1}"#.to_owned()),
        ..Add::default()
    };
    let expected = concat!(
        r#"{"add":{"path":"date=2017-12-10/part-0.parquet","partitionValues":{"date":"2017-12-10","#,
        r#""empty":null,"none":null},"size":841454,"modificationTime":1512909768000,"dataChange":true,"#,
        r#""stats":"{\"numRecords\":1}"}}"#
    );
    assert_eq!(line(&Action::Add(add)), expected);
}

#[test]
fn a_value_is_escaped_twice_on_its_way_into_the_log() {
    let directory = path::partition_directory([("day", Some("a:b/c")), ("n", None), ("e", Some(""))]);
    assert_eq!(
        directory,
        "day=a%3Ab%2Fc/n=__HIVE_DEFAULT_PARTITION__/e=__HIVE_DEFAULT_PARTITION__/"
    );
    assert!(path::encode(&directory).starts_with("day=a%253Ab%252Fc/"));
    assert_eq!(path::encode("a b/ü.parquet"), "a%20b/%C3%BC.parquet");
}

#[test]
fn a_path_that_leaves_the_table_is_refused() {
    for path in [
        "",
        "/etc/passwd",
        "../x",
        "a/../../x",
        "a/%2E%2E/x",
        "s3://bucket/x",
        "file:/x",
        "%ff",
    ] {
        assert!(path::decode_inside(path).is_err(), "{path}");
    }
}

#[test]
fn foreign_commits_are_read_for_what_is_known_of_them() {
    let body = concat!(
        r#"{"commitInfo":{"operation":"WRITE","operationParameters":{"mode":"Append","n":3,"x":null},"#,
        r#""isBlindAppend":"yes","clusterId":7}}"#,
        "\n\n",
        r#"{"checkpointMetadata":{"version":1}}"#,
        "\n",
        r#"{"commitInfo":"free text"}"#,
        "\n",
        r#"{"remove":{"path":"x","dataChange":true,"deletionTimestamp":null}}"#,
        "\n",
    );
    let actions = parse_commit(body.as_bytes()).unwrap();
    assert_eq!(actions.len(), 3);
    let Action::CommitInfo(info) = &actions[0] else {
        panic!("{actions:?}")
    };
    assert_eq!(info.operation_parameters["n"], "3");
    assert_eq!(info.is_blind_append, None);
    assert!(matches!(&actions[2], Action::Remove(remove) if remove.path == "x"));
    for broken in ["[]", "{", r#"{"add":{"path":"x"}}"#, "\u{1}"] {
        let error = parse_commit(broken.as_bytes()).unwrap_err();
        assert!(error.to_string().contains("action"), "{error}");
    }
}

#[test]
fn a_line_has_one_action() {
    let txn = |version: i64| format!(r#""txn":{{"appId":"a","version":{version}}}"#);
    let remove = r#""remove":{"path":"a","dataChange":true}"#;
    for two in [
        format!("{{{},{}}}", txn(1), txn(2)),
        format!("{{{},{remove}}}", txn(1)),
    ] {
        assert!(Action::from_line(&two).is_err(), "{two}");
    }
    for one in [
        format!(r#"{{"later":1,{},"x":[{{}}]}}"#, txn(1)),
        format!(r#"{{"commitInfo":{{}},{}}}"#, txn(1)),
        format!(r#"{{{},"commitInfo":{{}}}}"#, txn(1)),
    ] {
        assert!(
            matches!(Action::from_line(&one), Ok(Some(Action::Txn(_)))),
            "{one}"
        );
    }
}

#[test]
fn a_removal_says_all_that_the_add_said() {
    let add = Add {
        path: "a".to_owned(),
        size: 3,
        base_row_id: Some(7),
        partition_values: [("p", Some("1"))].into_iter().collect(),
        ..Add::default()
    };
    let text = line(&Action::Remove(Remove::of(&add, 5, true)));
    assert_eq!(
        text,
        concat!(
            r#"{"remove":{"path":"a","deletionTimestamp":5,"dataChange":true,"extendedFileMetadata":true,"#,
            r#""partitionValues":{"p":"1"},"size":3,"baseRowId":7}}"#
        )
    );
}

#[test]
fn only_what_is_built_may_be_written() {
    let protocol = |reader, writer, features: &[&str]| Protocol {
        min_reader_version: reader,
        min_writer_version: writer,
        reader_features: None,
        writer_features: Some(features.iter().map(|&f| f.to_owned()).collect()),
        ..Protocol::default()
    };
    assert!(Protocol::default().check_writable().is_ok());
    assert!(protocol(1, 4, &[]).check_writable().is_ok());
    assert!(
        protocol(3, 7, &["timestampNtz", "deletionVectors"])
            .check_writable()
            .is_ok()
    );
    let refused = protocol(1, 7, &["appendOnly", "identityColumns", "catalogManaged"]).check_writable();
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("catalogManaged, identityColumns;"), "{message}");
    assert!(protocol(1, 5, &[]).check_writable().is_err());
}

#[test]
fn the_file_of_a_deletion_vector_is_where_the_protocol_says() {
    let vector = |storage_type: &str, place: &str| DeletionVector {
        storage_type: storage_type.to_owned(),
        path_or_inline_dv: place.to_owned(),
        ..DeletionVector::default()
    };
    let name = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin";
    for (kind, place, expected) in [
        (
            "u",
            "ab^-aqEH.-t@S}K{vb[*k^",
            VectorFile::InTable(format!("ab/{name}")),
        ),
        ("u", "^-aqEH.-t@S}K{vb[*k^", VectorFile::InTable(name.to_owned())),
        ("p", "s3://t/x.bin", VectorFile::At("s3://t/x.bin".to_owned())),
        ("i", "wi5b=000010000siXQKl0rr91000f55c8Xg0", VectorFile::None),
    ] {
        assert_eq!(vector(kind, place).file().unwrap(), expected);
    }
    for (kind, place) in [
        ("u", "short"),
        ("u", "^-aqEH.-t@S}K{vb[*k~"),
        ("u", "#####^-aqEH.-t@S}K{v"),
        ("u", "ä^-aqEH.-t@S}K{vb[*k"),
        ("x", "?"),
    ] {
        assert!(vector(kind, place).file().is_err(), "{place}");
    }
}
