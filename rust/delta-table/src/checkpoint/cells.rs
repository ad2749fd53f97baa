//! Values of Arrow arrays as serde reads them: a row of a checkpoint becomes an action without a text between them.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::ArrowNativeType;
use arrow_json::writer::{LineDelimited, WriterBuilder};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use serde::de::value::{Error, MapDeserializer, SeqDeserializer};
use serde::de::{Deserializer, Error as _, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::Value;

/// A value: a row of an array.
#[derive(Clone, Copy)]
pub(crate) struct CheckpointCell<'a> {
    pub array: &'a ArrayRef,
    pub row: usize,
}

/// The rows of a value's elements.
fn rows_of(offsets: &[i32], row: usize) -> Range<usize> {
    let at = |index: usize| offsets.get(index).map_or(0, |offset| offset.as_usize());
    at(row)..at(row + 1)
}

impl<'de> CheckpointCell<'de> {
    fn is_null(self) -> bool {
        self.array.is_null(self.row) || *self.array.data_type() == DataType::Null
    }

    /// Returns true if it has a value, at whatever depth of structs.
    pub fn has_value(self) -> bool {
        let fields = |array: &'de ArrayRef| array.as_struct().columns();
        match self.array.data_type() {
            _ if self.is_null() => false,
            DataType::Struct(_) => fields(self.array)
                .iter()
                .any(|array| CheckpointCell { array, row: self.row }.has_value()),
            _ => true,
        }
    }

    /// A value of a type that JSON has in a form of its own: real numbers, times, decimals.
    fn by_text<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        const NAME: &str = "value";
        let text = || {
            let field = Field::new(NAME, self.array.data_type().clone(), true);
            let column = self.array.slice(self.row, 1);
            let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![column])?;
            let mut writer = WriterBuilder::new()
                .with_explicit_nulls(true)
                .build::<_, LineDelimited>(Vec::new());
            writer.write(&batch)?;
            writer.finish()?;
            Ok::<_, ArrowError>(writer.into_inner())
        };
        let text = text().map_err(Error::custom)?;
        let mut row: Value = serde_json::from_slice(&text).map_err(Error::custom)?;
        let value = row.get_mut(NAME).map_or(Value::Null, Value::take);
        value.deserialize_any(visitor).map_err(Error::custom)
    }
}

impl<'de> Deserializer<'de> for CheckpointCell<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let Self { array, row } = self;
        if self.is_null() {
            return visitor.visit_unit();
        }
        match array.data_type() {
            DataType::Boolean => visitor.visit_bool(array.as_boolean().value(row)),
            DataType::Int32 => visitor.visit_i32(array.as_primitive::<Int32Type>().value(row)),
            DataType::Int64 => visitor.visit_i64(array.as_primitive::<Int64Type>().value(row)),
            DataType::Utf8 => visitor.visit_borrowed_str(array.as_string::<i32>().value(row)),
            DataType::Struct(_) => {
                let group = array.as_struct();
                let names = group.fields().iter().map(|field| field.name().as_str());
                let values = group.columns().iter().map(|array| Self { array, row });
                visitor.visit_map(MapDeserializer::new(names.zip(values)))
            }
            DataType::Map(..) => {
                let map = array.as_map();
                let entries = rows_of(map.value_offsets(), row);
                let pairs = entries.map(|row| {
                    let of = |array| Self { array, row };
                    (of(map.keys()), of(map.values()))
                });
                visitor.visit_map(MapDeserializer::new(pairs))
            }
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                let elements = rows_of(list.value_offsets(), row);
                let values = list.values();
                visitor.visit_seq(SeqDeserializer::new(
                    elements.map(|row| Self { array: values, row }),
                ))
            }
            _ => self.by_text(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.is_null() {
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq
        tuple tuple_struct map struct enum identifier
    }
}

impl<'de> IntoDeserializer<'de, Error> for CheckpointCell<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::builder::{ListBuilder, MapBuilder, StringBuilder};
    use arrow_array::{
        BooleanArray, Date32Array, Float32Array, Int16Array, Int32Array, Int64Array, StringArray, StructArray,
    };
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;
    use serde::Deserialize;

    use super::*;

    type Row = (
        Option<String>,
        Option<i64>,
        Option<f32>,
        Vec<Option<String>>,
        bool,
    );

    fn group(columns: Vec<(&str, ArrayRef)>, there: Vec<bool>) -> ArrayRef {
        let fields = columns
            .iter()
            .map(|(name, column)| Field::new(*name, column.data_type().clone(), true));
        let fields = fields.collect();
        let columns = columns.into_iter().map(|(_, column)| column).collect();
        Arc::new(StructArray::new(fields, columns, Some(there.into())))
    }

    #[expect(clippy::cast_possible_truncation, reason = "any number does")]
    fn columns_of(rows: &[Row]) -> ArrayRef {
        let (mut lists, mut maps) = (
            ListBuilder::new(StringBuilder::new()),
            MapBuilder::new(None, StringBuilder::new(), StringBuilder::new()),
        );
        for (.., texts, is_there) in rows {
            for (key, text) in texts.iter().enumerate() {
                lists.values().append_option(text.as_deref());
                maps.keys().append_value(key.to_string());
                maps.values().append_option(text.as_deref());
            }
            lists.append(*is_there);
            maps.append(*is_there).unwrap();
        }
        let texts: StringArray = rows.iter().map(|row| row.0.as_deref()).collect();
        let longs: Int64Array = rows.iter().map(|row| row.1).collect();
        let ints: Int32Array = rows.iter().map(|row| row.1.map(|number| number as i32)).collect();
        let shorts: Int16Array = rows.iter().map(|row| row.1.map(|number| number as i16)).collect();
        let days: Date32Array = rows
            .iter()
            .map(|row| row.1.map(|day| (day % 99_999) as i32))
            .collect();
        let reals: Float32Array = rows.iter().map(|row| row.2).collect();
        let flags: BooleanArray = rows.iter().map(|row| row.1.map(|number| number > 0)).collect();
        let there: Vec<bool> = rows.iter().map(|row| row.4).collect();
        let inner: Vec<(&str, ArrayRef)> = vec![("text", Arc::new(texts)), ("short", Arc::new(shorts))];
        let outer: Vec<(&str, ArrayRef)> = vec![
            ("group", group(inner, there.clone())),
            ("list", Arc::new(lists.finish())),
            ("map", Arc::new(maps.finish())),
            ("int", Arc::new(ints)),
            ("long", Arc::new(longs)),
            ("day", Arc::new(days)),
            ("real", Arc::new(reals)),
            ("flag", Arc::new(flags)),
        ];
        group(outer, vec![true; there.len()])
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_cell_is_what_arrow_writes_as_json(
            rows in vec((option::of(".{0,5}"), option::of(any::<i64>()), option::of(any::<f32>()), vec(option::of(".{0,3}"), 0..3), any::<bool>()), 1..5)
        ) {
            let rows: Vec<Row> = rows;
            let array = columns_of(&rows);
            let batch = RecordBatch::from(array.as_struct());
            let mut writer = WriterBuilder::new()
                .with_explicit_nulls(true)
                .build::<_, LineDelimited>(Vec::new());
            writer.write(&batch).unwrap();
            writer.finish().unwrap();
            let text = String::from_utf8(writer.into_inner()).unwrap();
            for (row, line) in text.lines().enumerate() {
                let expected: Value = serde_json::from_str(line).unwrap();
                prop_assert_eq!(Value::deserialize(CheckpointCell { array: &array, row }).unwrap(), expected);
            }
        }
    }
}
