//! Arbitrary bytes as NDJSON: never a panic, the same rows however the bytes are cut, and agreement with `serde_json`
//! on what is JSON and on what its values are.

#![no_main]

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int8Type, Int64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, TimeUnit};
use libfuzzer_sys::fuzz_target;
use rows::{Extra, Ndjson, RowError, Rows, Visitor, infer_ndjson};
use serde::de::IgnoredAny;
use serde_json::Value;

const INFERRED_ROWS: usize = 1000;

fuzz_target!(|input: (u8, bool, Vec<u8>)| {
    let (cut, ignore, text) = input;
    let extra = if ignore { Extra::Ignore } else { Extra::Error };
    let compared = compared_schema();
    let whole = read(&[&text], &compared, extra);
    let middle = text.len() * usize::from(cut) / 256;
    assert_eq!(
        read(&[&text[..middle], &text[middle..]], &compared, extra),
        whole,
        "the cut shows"
    );
    agrees_with_serde(&text, &whole);
    reads_what_is_json(&text);
    read(&[&text], &every_type(), extra);
    if let Ok(shape) = infer_ndjson(&text, INFERRED_ROWS, true) {
        read(&[&text], &shape.schema(), extra);
    }
});

/// Rows, and the lines that were refused, each with the number of rows before it.
#[derive(Debug, Default, PartialEq)]
struct Read {
    batches: Vec<RecordBatch>,
    refused: Vec<(String, Vec<u8>)>,
}

impl Visitor for Read {
    type Error = ArrowError;

    fn batch(&mut self, batch: RecordBatch) -> Result<(), ArrowError> {
        self.batches.push(batch);
        Ok(())
    }

    fn bad_row(&mut self, error: RowError, line: &[u8]) -> Result<(), ArrowError> {
        self.refused.push((error.to_string(), line.to_vec()));
        Ok(())
    }

    fn go_on(&mut self) -> Result<(), ArrowError> {
        Ok(())
    }
}

fn read(chunks: &[&[u8]], schema: &Schema, extra: Extra) -> Read {
    let Ok(mut rows) = Rows::new(Arc::new(schema.clone())) else {
        return Read::default();
    };
    let (mut ndjson, mut read, mut row) = (Ndjson::default(), Read::default(), 0);
    for chunk in chunks {
        row = ndjson.feed(chunk, row, &mut rows, extra, &mut read).unwrap();
    }
    ndjson.finish(row, &mut rows, extra, &mut read).unwrap();
    read.batches.push(rows.finish().unwrap());
    read
}

/// Columns whose values `serde_json` knows too.
fn compared_schema() -> Schema {
    let nested = Fields::from(vec![
        Field::new("s", DataType::Utf8, true),
        Field::new("i", DataType::Int8, true),
    ]);
    Schema::new(vec![
        Field::new("b", DataType::Boolean, true),
        Field::new("i", DataType::Int64, true),
        Field::new("f", DataType::Float64, true),
        Field::new("s", DataType::Utf8, true),
        Field::new_list("l", Field::new("element", DataType::Int64, true), true),
        Field::new("o", DataType::Struct(nested), true),
    ])
}

/// Columns of every other kind: these must not panic.
fn every_type() -> Schema {
    let entry = Fields::from(vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("value", DataType::Float32, true),
    ]);
    let types = [
        DataType::UInt64,
        DataType::Int16,
        DataType::Float16,
        DataType::LargeUtf8,
        DataType::Binary,
        DataType::FixedSizeBinary(3),
        DataType::Date32,
        DataType::Time32(TimeUnit::Second),
        DataType::Time64(TimeUnit::Nanosecond),
        DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        DataType::Timestamp(TimeUnit::Nanosecond, None),
        DataType::Duration(TimeUnit::Millisecond),
        DataType::Decimal128(20, 3),
        DataType::Decimal256(60, 10),
        DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)),
        DataType::FixedSizeList(Arc::new(Field::new("element", DataType::Int64, true)), 2),
        DataType::Map(
            Arc::new(Field::new("entries", DataType::Struct(entry), false)),
            false,
        ),
    ];
    let names = 'a'..='z';
    let fields = names
        .zip(types)
        .map(|(name, data_type)| Field::new(name, data_type, true));
    Schema::new(fields.collect::<Vec<_>>())
}

/// Lines that are not blank, without a byte order mark at the start and carriage returns at the ends.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let blank = |line: &&[u8]| line.iter().all(|byte| b" \t\r".contains(byte));
    text.split(|byte| *byte == b'\n').filter(move |line| !blank(line))
}

/// A line without the blanks that JSON passes over; a form feed is none of them.
fn trimmed(line: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| b" \t\r".contains(byte);
    let start = line.iter().position(|byte| !is_blank(byte)).unwrap_or(line.len());
    let end = line
        .iter()
        .rposition(|byte| !is_blank(byte))
        .map_or(start, |last| last + 1);
    &line[start..end]
}

/// Every row is an object to `serde_json` too, and has its values; every line is a row or refused.
fn agrees_with_serde(text: &[u8], read: &Read) {
    let mut rows = read
        .batches
        .iter()
        .flat_map(|batch| (0..batch.num_rows()).map(move |row| (batch, row)));
    let mut refused = read.refused.iter();
    let mut next = refused.next();
    for line in lines(text) {
        if let Some((_, bad)) = next
            && trimmed(bad) == trimmed(line)
        {
            next = refused.next();
            continue;
        }
        let (batch, row) = rows.next().expect("a line is neither a row nor refused");
        let found: Value = serde_json::from_slice(line).expect("a row is JSON");
        let object = found.as_object().expect("a row is an object");
        for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
            let value = object.get(field.name()).unwrap_or(&Value::Null);
            assert!(is_equal(column, row, value), "{field}: row {row} is not {value}");
        }
    }
    assert!(next.is_none(), "a line was refused that is not there");
    assert!(rows.next().is_none(), "a row came from no line");
}

fn is_equal(column: &ArrayRef, row: usize, value: &Value) -> bool {
    if column.is_null(row) {
        return value.is_null();
    }
    match column.data_type() {
        DataType::Boolean => value.as_bool() == Some(column.as_boolean().value(row)),
        DataType::Int8 => is_number(i64::from(column.as_primitive::<Int8Type>().value(row)), value),
        DataType::Int64 => is_number(column.as_primitive::<Int64Type>().value(row), value),
        DataType::Float64 => value.as_f64() == Some(column.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => value.as_str() == Some(column.as_string::<i32>().value(row)),
        DataType::List(_) => {
            let items = column.as_list::<i32>().value(row);
            value.as_array().is_some_and(|values| {
                values.len() == items.len()
                    && values
                        .iter()
                        .enumerate()
                        .all(|(item, value)| is_equal(&items, item, value))
            })
        }
        DataType::Struct(fields) => value.as_object().is_some_and(|object| {
            let columns = column.as_struct().columns();
            fields.iter().zip(columns).all(|(field, column)| {
                is_equal(column, row, object.get(field.name()).unwrap_or(&Value::Null))
            })
        }),
        other => unreachable!("no such column here: {other}"),
    }
}

/// A whole number may be written with a fraction of zeros or an exponent.
#[allow(clippy::cast_precision_loss, reason = "the float came from the same digits")]
fn is_number(found: i64, value: &Value) -> bool {
    value
        .as_i64()
        .map_or_else(|| value.as_f64() == Some(found as f64), |wanted| wanted == found)
}

/// Checks rows for a schema without columns: a row is refused only if it is no object in JSON. At most the rows are
/// accepted that `serde_json` takes when it looks at no value, and at least those that it takes when it keeps all
/// values.
fn reads_what_is_json(text: &[u8]) {
    let read = read(&[text], &Schema::empty(), Extra::Ignore);
    let mut refused = read.refused.iter().map(|(_, line)| trimmed(line)).peekable();
    for line in lines(text) {
        let is_refused = refused.next_if_eq(&trimmed(line)).is_some();
        let is_object = line.trim_ascii_start().first() == Some(&b'{');
        if is_refused {
            let kept = serde_json::from_slice::<Value>(line);
            assert!(
                !(is_object && kept.is_ok()),
                "an object was refused: {:?}",
                read.refused
            );
        } else {
            let seen = std::str::from_utf8(line).map(serde_json::from_str::<IgnoredAny>);
            assert!(is_object && matches!(seen, Ok(Ok(_))), "a row is no object");
        }
    }
}
