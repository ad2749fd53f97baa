//! Openings for the fuzz targets in `fuzz/`, which are no part of the interface.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};
use delta_commit::actions::Action;
use parquet_writer::Batch;

use crate::checkpoint;
use crate::error::Result;
use crate::log_dir::LogDir;
use crate::schema::TableSchema;
use crate::sql::{Purpose, Scope, reprinted};
use crate::storage::LocalStorage;

/// Files of checkpoints in the log of a table.
pub struct Checkpoints(LogDir);

impl Checkpoints {
    /// Those of a table in a folder.
    ///
    /// # Errors
    /// When there is no such folder.
    pub fn of(root: &Path) -> Result<Self> {
        Ok(Self(LogDir(Arc::new(LocalStorage::new(root)?))))
    }

    /// Reads all actions of a file, as a snapshot does.
    ///
    /// # Errors
    /// Those of a file that is not a checkpoint.
    pub fn read(&self, name: &str) -> Result<Vec<Action>> {
        checkpoint::read(&self.0, name)
    }

    /// Reads the actions that are not about files. There may be others among them.
    ///
    /// # Errors
    /// Those of a file that is not a checkpoint.
    pub fn read_head(&self, name: &str) -> Result<Vec<Action>> {
        checkpoint::read_head(&self.0, name)
    }

    /// Whether clean-up may rely on the file.
    ///
    /// # Errors
    /// When the store does not answer.
    pub fn is_whole(&self, name: &str) -> Result<bool> {
        checkpoint::is_whole(&self.0, &[name])
    }

    /// Writes actions as a file.
    ///
    /// # Errors
    /// When no checkpoint can hold them.
    pub fn write(&self, name: &str, actions: &[Action]) -> Result<()> {
        checkpoint::write_actions(&self.0, name, actions).map(|_| ())
    }
}

/// Deletion vectors.
pub mod vectors {
    use roaring::RoaringTreemap;

    use crate::deletion_vectors::format;
    use crate::error::{Result, TableError};

    /// Reads the bytes of a vector.
    ///
    /// # Errors
    /// Those of bytes that are not a vector.
    pub fn from_bytes(bytes: &[u8]) -> Result<RoaringTreemap> {
        format::from_bytes(bytes)
    }

    /// The bytes of a vector.
    ///
    /// # Errors
    /// When it has none.
    pub fn to_bytes(rows: &RoaringTreemap) -> Result<Vec<u8>> {
        format::to_bytes(rows)
    }

    /// The bytes of a vector of these rows.
    ///
    /// # Errors
    /// When it has none.
    pub fn of_rows(rows: &[u64]) -> Result<Vec<u8>> {
        format::to_bytes(&rows.iter().copied().collect())
    }

    /// Decodes a vector of `size` bytes that is inlined in the log.
    ///
    /// # Errors
    /// Those of a text that is not a vector.
    pub fn from_text(text: &str, size: usize) -> Result<RoaringTreemap> {
        format::from_text(text, size)
    }

    /// Decodes a vector of `size` bytes from its range of a file.
    ///
    /// # Errors
    /// Those of a part that is not a vector.
    pub fn from_file(part: &[u8], size: usize) -> Result<RoaringTreemap> {
        format::from_file(part, size)
    }

    /// The part of a file that has these bytes as a vector.
    ///
    /// # Errors
    /// When they are too many.
    pub fn in_file(bytes: &[u8]) -> Result<Vec<u8>> {
        let mut file = Vec::new();
        let size = i32::try_from(bytes.len()).map_err(|error| TableError::Malformed(error.to_string()))?;
        format::put_in_file(&mut file, size, bytes);
        Ok(file)
    }

    /// The first and the last row of each run of rows.
    #[must_use]
    pub fn runs(rows: &RoaringTreemap) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for (high, bitmap) in rows.bitmaps() {
            let mut rows = bitmap.iter();
            while let Some(range) = rows.next_range() {
                let row = |low: &u32| u64::from(high) << 32 | u64::from(*low);
                let (first, last) = (row(range.start()), row(range.end()));
                match runs.last_mut() {
                    Some(run) if run.1 + 1 == first => run.1 = last,
                    _ => runs.push((first, last)),
                }
            }
        }
        runs
    }
}

/// Checks a text that may be a condition, for every purpose: what is parsed is printed and parsed again to the same
/// expression, and has the same truth for rows as the printed one, where it fits the columns of a table.
///
/// # Panics
/// When that does not hold.
pub fn check_condition(text: &str) {
    let partition_columns = ["p".to_owned()];
    for purpose in [Purpose::Stated, Purpose::Added, Purpose::Asked] {
        let Some(printed) = reprinted(text, purpose) else {
            continue;
        };
        let scope = Scope {
            schema: &ROWS.0,
            partition_columns: &partition_columns,
            purpose,
            of_files: false,
            sides: &[],
        };
        match (scope.read(text), scope.read(&printed)) {
            (Ok(condition), Ok(again)) => {
                let (truth, again) = (condition.truth(&ROWS.1), again.truth(&ROWS.1));
                let truth = truth
                    .map(|truth| truth.is_true)
                    .map_err(|error| error.to_string());
                assert!(truth.is_ok(), "{text}: {truth:?}");
                assert_eq!(
                    truth,
                    again
                        .map(|truth| truth.is_true)
                        .map_err(|error| error.to_string()),
                    "{text}"
                );
            }
            (Err(_), Err(_)) => {}
            (bound, again) => assert_eq!(bound.is_ok(), again.is_ok(), "{text} is not {printed}"),
        }
    }
}

/// Columns of every type, and some rows of them.
static ROWS: LazyLock<(TableSchema, Batch)> = LazyLock::new(rows);

#[expect(clippy::expect_used, reason = "the columns and the rows are constants")]
fn rows() -> (TableSchema, Batch) {
    let text = || Field::new("x", DataType::Utf8, true);
    let columns = [
        ("p", DataType::Utf8),
        ("b", DataType::Boolean),
        ("i8", DataType::Int8),
        ("i16", DataType::Int16),
        ("i32", DataType::Int32),
        ("i64", DataType::Int64),
        ("f32", DataType::Float32),
        ("f64", DataType::Float64),
        ("s", DataType::Utf8),
        ("day", DataType::Date32),
        ("ntz", DataType::Timestamp(TimeUnit::Microsecond, None)),
        (
            "ts",
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        ),
        ("d5", DataType::Decimal128(5, 2)),
        ("d38", DataType::Decimal128(38, 10)),
        ("bin", DataType::Binary),
        (
            "st",
            DataType::Struct(Fields::from(vec![text(), Field::new("y", DataType::Int64, true)])),
        ),
        (
            "li",
            DataType::List(Arc::new(Field::new("element", DataType::Utf8, true))),
        ),
    ];
    let columns = columns.map(|(name, data_type)| Field::new(name, data_type, true));
    let schema = TableSchema::of(&Schema::new(columns.to_vec())).expect("a table can have the columns");
    let lines = concat!(
        r#"{"p":"","b":true,"i8":-128,"i16":-32768,"i32":-2147483648,"i64":-9223372036854775808,"f32":-1.5,"#,
        r#""f64":-1e300,"s":"","day":"0001-01-01","ntz":"0001-01-01T00:00:00","ts":"0001-01-01T00:00:00","#,
        r#""d5":"-999.99","d38":"-9999999999999999999999999999.9999999999","bin":"","st":{"x":"a"},"li":["a"]}"#,
        r#"{"p":"a","b":false,"i8":7,"i16":7,"i32":7,"i64":7,"f32":0.5,"f64":0.1,"s":"it's","day":"2026-01-31","#,
        r#""ntz":"2026-01-31T12:00:00.5","ts":"2026-01-31T12:00:00","d5":"0.10","d38":"7","st":{"y":7}}"#,
        r#"{"i64":9223372036854775807,"f32":3e38,"f64":1e308,"s":"z","day":"9999-12-31","#,
        r#""ntz":"9999-12-31T23:59:59.999999","d5":"999.99","d38":"9999999999999999999999999999.9999999999"}"#,
        "{}",
    );
    // arrow's readers of JSON know no zone by its name.
    let of_clocks = schema
        .arrow()
        .fields()
        .iter()
        .map(|field| match field.data_type() {
            DataType::Timestamp(unit, _) => Arc::new(
                field
                    .as_ref()
                    .clone()
                    .with_data_type(DataType::Timestamp(*unit, None)),
            ),
            _ => Arc::clone(field),
        })
        .collect::<Fields>();
    let mut reader = arrow_json::ReaderBuilder::new(Arc::new(Schema::new(of_clocks)))
        .build(lines.as_bytes())
        .expect("the columns have readers");
    let batch = reader
        .next()
        .expect("there are rows")
        .expect("the rows are of the columns");
    let fields = schema.arrow().fields().clone();
    let columns = batch
        .columns()
        .iter()
        .zip(&fields)
        .map(|(column, field)| -> ArrayRef {
            match field.data_type() {
                DataType::Timestamp(_, Some(zone)) => {
                    let clock = column.as_primitive::<TimestampMicrosecondType>().clone();
                    Arc::new(clock.with_timezone(Arc::clone(zone)))
                }
                _ => Arc::clone(column),
            }
        });
    let batch =
        RecordBatch::try_new(schema.arrow(), columns.collect()).expect("the columns are those of the rows");
    (schema, batch.into())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_row_of_a_checkpoint_has_one_action() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("_delta_log")).unwrap();
        let checkpoints = Checkpoints::of(folder.path()).unwrap();
        let read = |row: &str| {
            fs::write(folder.path().join("_delta_log/c.json"), row).unwrap();
            checkpoints.read("c.json")
        };
        let (txn, sidecar) = (
            r#""txn":{"appId":"a","version":1}"#,
            r#""sidecar":{"path":"s.parquet"}"#,
        );
        let remove = r#""remove":{"path":"a","dataChange":false}"#;
        assert_eq!(
            read(&format!(r#"{{{txn},"remove":{{"path":null}},"add":null}}"#))
                .unwrap()
                .len(),
            1
        );
        for two in [format!("{{{remove},{txn}}}"), format!("{{{sidecar},{txn}}}")] {
            assert!(read(&two).unwrap_err().is_corruption(), "{two}");
        }
    }

    /// Words, names and literals, most of which make a condition.
    fn text() -> impl Strategy<Value = String> {
        let operand = || {
            prop::sample::select(vec![
                "b",
                "i8",
                "i16",
                "i32",
                "i64",
                "f32",
                "f64",
                "s",
                "p",
                "day",
                "ntz",
                "ts",
                "d5",
                "d38",
                "st.x",
                "`st`.`y`",
                "7",
                "-0.10",
                "1e3",
                "'it''s'",
                "''",
                "DATE '2026-01-31'",
                "TIMESTAMP '2026-01-31 12:00:00Z'",
                "NULL",
                "TRUE",
                "99999999999999999999.5",
            ])
        };
        let operator = prop::sample::select(vec!["=", "<>", "<", "<=", ">", ">="]);
        let leaf = prop_oneof![
            operand().prop_map(str::to_owned),
            (operand(), operator, operand()).prop_map(|(a, is, b)| format!("{a} {is} {b}")),
            (operand(), any::<bool>())
                .prop_map(|(a, not)| format!("{a} IS {}NULL", if not { "NOT " } else { "" })),
            (operand(), any::<bool>(), operand(), operand()).prop_map(|(a, not, b, c)| format!(
                "{a} {}BETWEEN {b} AND {c}",
                if not { "NOT " } else { "" }
            )),
            (operand(), any::<bool>(), operand(), operand())
                .prop_map(|(a, not, b, c)| format!("{a} {}IN ({b}, {c})", if not { "not " } else { "" })),
        ];
        leaf.prop_recursive(6, 30, 3, |inner| {
            prop_oneof![
                inner.clone().prop_map(|a| format!("NOT {a}")),
                inner.clone().prop_map(|a| format!("({a})")),
                (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a} AND {b}")),
                (inner.clone(), inner).prop_map(|(a, b)| format!("{a} or {b}")),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_printed_condition_is_the_same(text in text(), any in any::<String>()) {
            check_condition(&text);
            check_condition(&any);
        }
    }
}
