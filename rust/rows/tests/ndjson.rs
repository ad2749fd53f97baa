//! NDJSON against `serde_json`: what it reads, however it is cut; and nothing that it refuses.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test ends where it finds a fault"
)]

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int8Type, Int64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use proptest::prelude::*;
use rows::{Extra, Ndjson, RowError, Rows, Visitor, infer_ndjson};
use serde_json::{Map, Value, json};

/// Collects batches and reports; every bad row is skipped.
#[derive(Default)]
struct Collected {
    batches: Vec<RecordBatch>,
    errors: Vec<(RowError, Vec<u8>)>,
}

impl Visitor for Collected {
    type Error = ArrowError;

    fn batch(&mut self, batch: RecordBatch) -> Result<(), ArrowError> {
        self.batches.push(batch);
        Ok(())
    }

    fn bad_row(&mut self, error: RowError, line: &[u8]) -> Result<(), ArrowError> {
        self.errors.push((error, line.to_vec()));
        Ok(())
    }

    fn go_on(&mut self) -> Result<(), ArrowError> {
        Ok(())
    }
}

impl Collected {
    fn values(&self) -> Vec<Value> {
        self.batches.iter().flat_map(values).collect()
    }
}

fn read_in(chunks: &[&[u8]], schema: &Schema, extra: Extra) -> Collected {
    let mut rows = Rows::new(Arc::new(schema.clone())).unwrap();
    let mut ndjson = Ndjson::default();
    let mut collected = Collected::default();
    let mut row = 0;
    for chunk in chunks {
        row = ndjson.feed(chunk, row, &mut rows, extra, &mut collected).unwrap();
    }
    ndjson.finish(row, &mut rows, extra, &mut collected).unwrap();
    collected.batches.push(rows.finish().unwrap());
    collected
}

fn read(text: &[u8], schema: &Schema) -> Collected {
    read_in(&[text], schema, Extra::Error)
}

/// The rows of a batch as JSON; nulls are there.
fn values(batch: &RecordBatch) -> Vec<Value> {
    let schema = batch.schema();
    (0..batch.num_rows())
        .map(|row| object(schema.fields(), batch.columns(), row))
        .collect()
}

fn object(fields: &arrow_schema::Fields, columns: &[ArrayRef], row: usize) -> Value {
    let entry = |(field, column): (&Arc<Field>, &ArrayRef)| (field.name().clone(), cell(column, row));
    Value::Object(fields.iter().zip(columns).map(entry).collect())
}

fn cell(column: &ArrayRef, row: usize) -> Value {
    if column.is_null(row) {
        return Value::Null;
    }
    match column.data_type() {
        DataType::Boolean => json!(column.as_boolean().value(row)),
        DataType::Int8 => json!(column.as_primitive::<Int8Type>().value(row)),
        DataType::Int64 => json!(column.as_primitive::<Int64Type>().value(row)),
        DataType::Float64 => json!(column.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => json!(column.as_string::<i32>().value(row)),
        DataType::List(_) => {
            let items = column.as_list::<i32>().value(row);
            Value::Array((0..items.len()).map(|item| cell(&items, item)).collect())
        }
        DataType::Struct(fields) => object(fields, column.as_struct().columns(), row),
        other => panic!("no such column here: {other}"),
    }
}

/// A type, and JSON values of it.
#[derive(Debug, Clone)]
enum Kind {
    Bool,
    Int,
    Float,
    Text,
    List(Box<Kind>),
    Struct(Vec<(String, Kind)>),
}

impl Kind {
    fn data_type(&self) -> DataType {
        match self {
            Self::Bool => DataType::Boolean,
            Self::Int => DataType::Int64,
            Self::Float => DataType::Float64,
            Self::Text => DataType::Utf8,
            Self::List(items) => DataType::List(Arc::new(Field::new("element", items.data_type(), true))),
            Self::Struct(fields) => DataType::Struct(fields.iter().map(field).collect()),
        }
    }

    fn value(&self) -> BoxedStrategy<Value> {
        let value = match self {
            Self::Bool => any::<bool>().prop_map(Value::from).boxed(),
            Self::Int => (any::<i64>(), 0..64u32)
                .prop_map(|(n, shift)| json!(n >> shift))
                .boxed(),
            Self::Float => prop_oneof![
                any::<f64>().prop_filter("JSON has no infinities", |f| f.is_finite()),
                (-1e6..1e6f64).prop_map(|f| (f * 100.0).round() / 100.0),
            ]
            .prop_map(Value::from)
            .boxed(),
            Self::Text => any_text().prop_map(Value::from).boxed(),
            Self::List(items) => prop::collection::vec(items.value(), 0..4)
                .prop_map(Value::from)
                .boxed(),
            Self::Struct(fields) => row(fields),
        };
        prop_oneof![1 => Just(Value::Null), 6 => value].boxed()
    }
}

fn field((name, kind): &(String, Kind)) -> Field {
    Field::new(name, kind.data_type(), true)
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        ".{0,40}",
        "[a-z]{0,70}",
        "[\\x00-\\x1f\"\\\\/\u{10000}-\u{10ffff}é]{0,20}"
    ]
}

/// An object with these fields: all of them, as the other order and missing keys have tests of their own.
fn row(fields: &[(String, Kind)]) -> BoxedStrategy<Value> {
    let entries: Vec<_> = fields
        .iter()
        .map(|(name, kind)| (Just(name.clone()), kind.value()))
        .collect();
    entries
        .prop_map(|entries| Value::Object(entries.into_iter().collect()))
        .boxed()
}

fn kind() -> impl Strategy<Value = Kind> {
    let leaf = prop_oneof![
        Just(Kind::Bool),
        Just(Kind::Int),
        Just(Kind::Float),
        Just(Kind::Text)
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|items| Kind::List(Box::new(items))),
            fields(inner).prop_map(Kind::Struct),
        ]
    })
}

fn fields(kinds: impl Strategy<Value = Kind> + 'static) -> impl Strategy<Value = Vec<(String, Kind)>> {
    let names = prop_oneof!["[a-z]{1,20}", any_text()];
    prop::collection::btree_map(names, kinds, 1..7)
        .prop_map(|fields| fields.into_iter().collect::<Vec<_>>())
        .prop_shuffle()
}

fn table() -> impl Strategy<Value = (Schema, Vec<Value>)> {
    fields(kind()).prop_flat_map(|fields| {
        let schema = Schema::new(fields.iter().map(field).collect::<Vec<_>>());
        (Just(schema), prop::collection::vec(non_null(row(&fields)), 0..30))
    })
}

fn non_null(row: BoxedStrategy<Value>) -> impl Strategy<Value = Value> {
    row.prop_filter("a row is an object", Value::is_object)
}

/// A row with its keys in the order that `order` gives them, at each depth; nulls may be left out.
fn written(value: &Value, order: &mut dyn FnMut(&mut Vec<&String>), nulls: bool) -> String {
    match value {
        Value::Object(entries) => {
            let mut keys: Vec<_> = entries.keys().collect();
            order(&mut keys);
            let kept = keys.into_iter().filter(|key| nulls || !entries[*key].is_null());
            let entries: Vec<_> = kept
                .map(|key| format!("{}:{}", json!(key), written(&entries[key], order, nulls)))
                .collect();
            format!("{{{}}}", entries.join(","))
        }
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| written(item, order, nulls)).collect();
            format!("[{}]", items.join(","))
        }
        other => other.to_string(),
    }
}

/// Rows whose keys stand in the order of the schema's fields, wherever these names occur in it.
fn lines(rows: &[Value], schema: &Schema) -> Vec<u8> {
    let mut names = vec![];
    names_of(schema.fields(), &mut names);
    let mut order = |keys: &mut Vec<&String>| {
        keys.sort_by_key(|key| names.iter().position(|name| name == *key));
    };
    rows.iter()
        .flat_map(|row| (written(row, &mut order, true) + "\n").into_bytes())
        .collect()
}

fn names_of(fields: &arrow_schema::Fields, names: &mut Vec<String>) {
    for field in fields {
        names.push(field.name().clone());
        let mut data_type = field.data_type();
        while let DataType::List(items) = data_type {
            data_type = items.data_type();
        }
        if let DataType::Struct(fields) = data_type {
            names_of(fields, names);
        }
    }
}

/// The text in pieces that end anywhere.
fn cut<'a>(text: &'a [u8], places: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut ends: Vec<usize> = places.iter().map(|place| place.index(text.len() + 1)).collect();
    ends.extend([0, text.len()]);
    ends.sort_unstable();
    ends.windows(2).map(|ends| &text[ends[0]..ends[1]]).collect()
}

proptest! {
    #[test]
    fn rows_come_out_as_serde_json_wrote_them((schema, rows) in table()) {
        let read = read(&lines(&rows, &schema), &schema);
        prop_assert_eq!(&read.errors, &vec![]);
        prop_assert_eq!(read.values(), rows);
    }

    #[test]
    fn it_makes_no_difference_where_a_chunk_ends(
        (schema, rows) in table(),
        places in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let text = lines(&rows, &schema);
        let read = read_in(&cut(&text, &places), &schema, Extra::Error);
        prop_assert_eq!(&read.errors, &vec![]);
        prop_assert_eq!(read.values(), rows);
    }

    #[test]
    fn the_order_of_keys_makes_no_difference_and_nulls_may_be_left_out(
        (schema, rows) in table(),
        seed in any::<u64>(),
    ) {
        let mut random = seed | 1;
        let mut order = |keys: &mut Vec<&String>| {
            keys.sort_by_cached_key(|_| { random ^= random << 13; random ^= random >> 7; random ^= random << 17; random });
        };
        let shuffled: String = rows.iter().map(|row| written(row, &mut order, false) + "\n").collect();
        let read = read(shuffled.as_bytes(), &schema);
        prop_assert_eq!(&read.errors, &vec![]);
        prop_assert_eq!(read.values(), rows);
    }

    #[test]
    fn blanks_between_tokens_make_no_difference((schema, rows) in table()) {
        let spaced: Vec<u8> = rows.iter().flat_map(|row| {
            let pretty = serde_json::to_string_pretty(row).unwrap();
            format!("\t {} \r\n \n", pretty.replace('\n', " \t")).into_bytes()
        }).collect();
        let read = read(&spaced, &schema);
        prop_assert_eq!(&read.errors, &vec![]);
        prop_assert_eq!(read.values(), rows);
    }

    #[test]
    fn what_is_inferred_holds_the_rows((schema, rows) in table()) {
        let text = lines(&rows, &schema);
        let shape = infer_ndjson(&text, 1000, true).unwrap();
        prop_assert_eq!(&read(&text, &shape.schema()).errors, &vec![]);
    }

    #[test]
    fn a_damaged_line_is_refused_where_serde_json_refuses_it_and_the_others_are_kept(
        (schema, rows) in table(),
        which in any::<prop::sample::Index>(),
        place in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        prop_assume!(!rows.is_empty() && byte != b'\n' && byte != b'\r');
        let mut texts: Vec<Vec<u8>> = rows.iter().map(|row| row.to_string().into_bytes()).collect();
        let which = which.index(texts.len());
        let place = place.index(texts[which].len());
        texts[which][place] = byte;
        let oracle = serde_json::from_slice::<Map<String, Value>>(&texts[which]);
        let damaged = texts[which].clone();
        let read = read(&texts.join(&b'\n'), &schema);
        let refused: Vec<u64> = read.errors.iter().map(|(error, _)| error.row).collect();
        let blank = damaged.trim_ascii().is_empty();
        prop_assert!(oracle.is_ok() || blank || refused == [which as u64], "{:?}", refused);
        prop_assert!(refused.is_empty() || refused == [which as u64]);
        if !refused.is_empty() {
            prop_assert_eq!(&read.errors[0].1, &damaged);
            prop_assert_eq!(read.errors[0].0.line, Some(which as u64 + 1));
            let mut kept = rows;
            kept.remove(which);
            prop_assert_eq!(read.values(), kept);
        }
    }

    #[test]
    fn no_bytes_bring_it_down(
        (schema, rows) in table(),
        noise in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 0..20),
        places in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        extra in prop_oneof![Just(Extra::Error), Just(Extra::Ignore)],
    ) {
        let mut text = lines(&rows, &schema);
        prop_assume!(!text.is_empty());
        for (place, byte) in noise {
            let place = place.index(text.len());
            text[place] = byte;
        }
        let whole = read_in(&[&text], &schema, extra);
        let pieces = read_in(&cut(&text, &places), &schema, extra);
        prop_assert_eq!(whole.values(), pieces.values());
        prop_assert_eq!(whole.errors, pieces.errors);
        let _ = infer_ndjson(&text, 1000, true);
    }

    #[test]
    fn a_key_that_the_schema_lacks_is_an_error_or_passed_over((schema, rows) in table(), value in kind().prop_flat_map(|kind| kind.value())) {
        let name = "a key that no schema has";
        let more: Vec<Value> = rows.iter().map(|row| {
            let mut row = row.as_object().unwrap().clone();
            row.insert(name.into(), value.clone());
            Value::Object(row)
        }).collect();
        let read = read_in(&[&lines(&more, &schema)], &schema, Extra::Ignore);
        prop_assert_eq!(&read.errors, &vec![]);
        prop_assert_eq!(read.values(), rows);
        let refused = read_in(&[&lines(&more, &schema)], &schema, Extra::Error);
        prop_assert_eq!(refused.errors.len(), more.len());
        prop_assert!(refused.errors.iter().all(|(error, _)| error.field == name));
    }
}

fn one(name: &str, data_type: DataType) -> Schema {
    Schema::new(vec![Field::new(name, data_type, true)])
}

fn message(text: &str, schema: &Schema) -> String {
    let read = read(text.as_bytes(), schema);
    assert_eq!(read.errors.len(), 1, "{text}");
    read.errors[0].0.to_string()
}

#[test]
fn strict_json_is_what_is_read() {
    let schema = one("x", DataType::Float64);
    for text in [
        "{\"x\":NaN}",
        "{\"x\":Infinity}",
        "{\"x\":-Infinity}",
        "{\"x\":01}",
        "{\"x\":1.}",
        "{\"x\":.5}",
        "{\"x\":+1}",
        "{\"x\":1,}",
        "{'x':1}",
        "{x:1}",
        "{\"x\":1} x",
        "{\"x\":1}{\"x\":2}",
        "{\"x\" 1}",
        "{\"x\":}",
        "{\"x\":1",
        "{",
        "[1]",
        "1",
        "null",
        "\"x\"",
        "{\"x\":1e999}",
        "{\"x\":nul}",
        "{\"x\":tru}",
        "{,\"x\":1}",
        "{\"x\":1/*2*/}",
    ] {
        message(text, &schema);
    }
}

#[test]
fn a_report_says_which_row_which_line_and_which_field() {
    let items = DataType::List(Arc::new(Field::new("element", DataType::Int8, true)));
    let schema = one("a", DataType::Struct(vec![Field::new("b", items, true)].into()));
    let read = read(b"\n{\"a\":{\"b\":[1]}}\n{\"a\":{\"b\":[1,128]}}\n", &schema);
    assert_eq!(
        read.errors[0].0.to_string(),
        "row 1, field \"a.b[1]\" (line 3): 128 is out of range for int8: -128 to 127"
    );
    assert_eq!(read.values().len(), 1);
}

#[test]
fn a_key_may_not_come_twice() {
    assert!(message("{\"x\":1,\"x\":2}", &one("x", DataType::Int64)).contains("comes twice"));
}

#[test]
fn a_field_that_is_not_nullable_must_be_there() {
    let schema = Schema::new(vec![Field::new("x", DataType::Int64, false)]);
    assert!(message("{}", &schema).contains("missing"));
    assert!(message("{\"x\":null}", &schema).contains("not nullable"));
}

#[test]
fn nesting_is_bounded() {
    let schema = one("x", DataType::Int64);
    let deep = format!("{{\"y\":{}1{}}}\n", "[".repeat(100_000), "]".repeat(100_000));
    let read = read_in(&[deep.as_bytes()], &schema, Extra::Ignore);
    assert!(read.errors[0].0.message.contains("nesting"));
    assert!(infer_ndjson(deep.as_bytes(), 10, true).unwrap().is_empty());
}

#[test]
fn bytes_that_are_no_text_cost_their_line_only() {
    let read = read(
        b"{\"x\":\"a\"}\n{\"x\":\"\xff\"}\n{\"x\":\"b\"}\n",
        &one("x", DataType::Utf8),
    );
    assert_eq!(read.values(), [json!({"x": "a"}), json!({"x": "b"})]);
    assert_eq!(
        read.errors[0].0.to_string(),
        "row 1 (line 2): not UTF-8 from byte 6 of the line on"
    );
}

#[test]
fn halves_of_surrogate_pairs_are_refused() {
    let schema = one("x", DataType::Utf8);
    for text in ["\\ud800", "\\udc00", "\\ud800\\u0041", "\\ud800x", "\\ud8"] {
        message(&format!("{{\"x\":\"{text}\"}}"), &schema);
    }
    assert_eq!(
        read(b"{\"x\":\"\\ud83d\\ude00\"}", &schema).values(),
        [json!({"x": "\u{1f600}"})]
    );
}

#[test]
fn a_mark_at_the_very_start_is_no_part_of_the_first_line() {
    let schema = one("x", DataType::Int64);
    let marked = b"\xef\xbb\xbf{\"x\":1}\r\n{\"x\":2}";
    assert_eq!(read(marked, &schema).values().len(), 2);
    let pieces: Vec<&[u8]> = marked.chunks(1).collect();
    assert_eq!(read_in(&pieces, &schema, Extra::Error).values().len(), 2);
    assert_eq!(read(b"{\"x\":1}\n\xef\xbb\xbf{\"x\":2}", &schema).errors.len(), 1);
}

#[test]
fn a_value_larger_than_all_blocks_is_one_value() {
    let long = "0123456789".repeat(1_000_000);
    let text = format!("{{\"x\":\"{long}\"}}\n{{\"x\":\"short\"}}\n");
    let read = read(text.as_bytes(), &one("x", DataType::Utf8));
    assert_eq!(read.values(), [json!({"x": long}), json!({"x": "short"})]);
}

#[test]
fn a_mark_that_was_kept_before_a_file_is_no_part_of_its_first_line() {
    let schema = one("x", DataType::Int64);
    let mut rows = Rows::new(Arc::new(schema)).unwrap();
    let (mut ndjson, mut collected) = (Ndjson::default(), Collected::default());
    ndjson.keep(b"\xef\xbb\xbf{\"x\"");
    ndjson.begin_file();
    ndjson
        .feed(b": 1}\n", 0, &mut rows, Extra::Error, &mut collected)
        .unwrap();
    assert_eq!(collected.errors, vec![]);
    assert_eq!(rows.rows(), 1);
}

#[test]
fn a_row_with_a_key_twice_says_nothing_of_the_schema() {
    let lines = [
        "{\"x\":\"text\",\"y\":1,\"y\":2}",
        "{\"x\":{\"z\":1,\"z\":\"text\"}}",
        "{\"x\":[{\"z\":1,\"z\":1}]}",
        "{\"x\":3}\n",
    ];
    let schema = infer_ndjson(lines.join("\n").as_bytes(), 1000, true)
        .unwrap()
        .schema();
    assert_eq!(schema, one("x", DataType::Int64));
}

#[test]
fn a_row_with_a_key_twice_is_told_by_it_where_it_left_the_schema_without_its_keys() {
    for (text, field) in [("{\"x\":1,\"x\":2}", "x"), ("{\"x\":{\"z\":1,\"z\":2}}", "x.z")] {
        let read = read(text.as_bytes(), &Schema::empty());
        let error = &read.errors[0].0;
        assert_eq!(
            (error.field.as_str(), error.message.as_str()),
            (field, "the key comes twice")
        );
    }
}

/// The most bytes that rows of `large` take after a hundred small ones, if those make no batch.
fn bytes_of_batches(data_type: DataType, small: &str, large: &str) -> usize {
    let text = format!("{}{}", small.repeat(100), large.repeat(60));
    let read = read(text.as_bytes(), &one("x", data_type));
    assert_eq!(read.errors, vec![]);
    let bytes = read.batches.iter().map(RecordBatch::get_array_memory_size);
    bytes.max().unwrap()
}

#[test]
fn large_rows_behind_small_ones_soon_make_a_batch() {
    let text = format!("{{\"x\":\"{}\"}}\n", "0123456789".repeat(100_000));
    let escaped = text.replace("01234", "\\n1234");
    let items = format!("{{\"x\":[{}0]}}\n", "0,".repeat(100_000));
    let list = DataType::List(Arc::new(Field::new("element", DataType::Int64, true)));
    for (data_type, small, large) in [
        (DataType::Utf8, "{\"x\":\"s\"}\n", &text),
        (DataType::LargeUtf8, "{\"x\":\"s\"}\n", &escaped),
        (list, "{\"x\":[1]}\n", &items),
    ] {
        let bytes = bytes_of_batches(data_type.clone(), small, large);
        assert!(bytes < 24 << 20, "{bytes} bytes of {data_type}");
    }
}

#[test]
fn batches_of_small_rows_are_as_long_as_ever_behind_a_large_one() {
    let text = format!(
        "{{\"x\":\"{}\"}}\n{}",
        "0".repeat(4 << 20),
        "{\"x\":\"s\"}\n".repeat(3_000)
    );
    let read = read(text.as_bytes(), &one("x", DataType::Utf8));
    assert_eq!(read.batches[0].num_rows(), 2048);
}
