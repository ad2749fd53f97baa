//! The lengths of `varchar(n)` and `char(n)`, which Spark keeps in the metadata of columns of text.
//!
//! The schema of the log has these columns as `string`. The type as it was declared is the text of the metadata's
//! `__CHAR_VARCHAR_TYPE_STRING`, for nested types that of the whole column, such as `array<varchar(5)>`. The rules are
//! those of Spark's `CharVarcharCodegenUtils`: lengths count code points; a text that is too long by spaces at its end
//! alone loses as many of them as are too many, any other one is refused; `char(n)` gets spaces up to its length.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, GenericListArray, MapArray, StringArray, StructArray};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Field, Fields};
use parquet_writer::Batch;

use crate::error::{Result, TableError};
use crate::fit::masked;
use crate::schema::{Column, Kind, Primitive, TableSchema};

/// The entry of a column's metadata.
const DECLARED: &str = "__CHAR_VARCHAR_TYPE_STRING";

/// The lengths of a table's columns.
#[derive(Debug, Default)]
pub(crate) struct Limits(HashMap<String, Limit>);

/// The lengths of the texts in a column.
#[derive(Debug, Clone, PartialEq)]
enum Limit {
    /// At most so many characters.
    Varchar(usize),
    /// Exactly so many characters.
    Char(usize),
    /// Those of some fields, by their names.
    Struct(Vec<(String, Limit)>),
    /// Those of elements.
    Array(Box<Limit>),
    /// Those of keys and of values.
    Map(Option<Box<Limit>>, Option<Box<Limit>>),
}

impl Limits {
    /// The lengths that the columns' metadata declare.
    ///
    /// # Errors
    /// [`delta_commit::CommitError::Unsupported`] when a declaration cannot be read: rows could not be checked.
    pub fn of(schema: &TableSchema) -> Result<Self> {
        let mut limits = HashMap::new();
        for column in &schema.columns {
            if let Some(limit) = of_column(column)? {
                limits.insert(column.name.clone(), limit);
            }
        }
        Ok(Self(limits))
    }

    /// The values of a column, cut and filled as Spark does it.
    ///
    /// # Errors
    /// [`delta_commit::CommitError::Schema`] with the first text that is too long.
    pub fn applied(&self, column: &str, values: &ArrayRef) -> Result<ArrayRef> {
        let Some(limit) = self.0.get(column) else {
            return Ok(Arc::clone(values));
        };
        limit.applied(values).map_err(|why| match why {
            Unfit::TooLong(text, declared) => {
                let length = text.chars().count();
                let mut shown: String = text.chars().take(MOST_SHOWN).collect();
                if shown.len() < text.len() {
                    shown.push_str("...");
                }
                TableError::column(
                    column,
                    format!(
                        "the column {column:?} is {declared} and takes no text of {length} characters, such as \
                         {shown:?}: shorten it"
                    ),
                )
            }
            Unfit::Arrow(error) => {
                TableError::column(column, format!("the column {column:?} does not fit: {error}"))
            }
        })
    }

    /// The batch with the values of all of its columns cut and filled.
    ///
    /// # Errors
    /// As [`Self::applied`].
    pub fn of_batch(&self, batch: Batch) -> Result<Batch> {
        if self.0.is_empty() {
            return Ok(batch);
        }
        batch.check_text()?;
        let mut fields = Vec::with_capacity(batch.columns().len());
        let mut columns = Vec::with_capacity(batch.columns().len());
        for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
            let column = self.applied(field.name(), column)?;
            fields.push(field.as_ref().clone().with_data_type(column.data_type().clone()));
            columns.push(column);
        }
        let schema = arrow_schema::Schema::new(fields);
        Ok(Batch::new(Arc::new(schema), columns, batch.rows())?)
    }
}

/// Characters of a text in an error.
const MOST_SHOWN: usize = 60;

fn of_column(column: &Column) -> Result<Option<Limit>> {
    let Some(declared) = column.metadata.get(DECLARED) else {
        return Ok(None);
    };
    let limit = declared.as_str().and_then(|text| {
        let mut parser = Parser(text.trim());
        let limit = parser.limit(&column.kind)?;
        parser.0.is_empty().then_some(limit)
    });
    limit.ok_or_else(|| {
        TableError::unsupported(format!(
            "the column {:?} has the metadata {DECLARED}={declared}, which is not understood as the type {}, so that \
             texts cannot be checked: write the table with Spark",
            column.name,
            column.kind.to_json()
        ))
    })
}

/// The rest of a declaration, as Spark's `catalogString` writes types.
struct Parser<'a>(&'a str);

impl Parser<'_> {
    /// The lengths in the declaration of a type; the inner option is none without any. None if it is of another type.
    fn limit(&mut self, kind: &Kind) -> Option<Option<Limit>> {
        match kind {
            Kind::Struct(fields) => {
                self.skip("struct<")?;
                let mut limits = Vec::new();
                for (number, field) in fields.iter().enumerate() {
                    if number > 0 {
                        self.skip(",")?;
                    }
                    self.name(&field.name)?;
                    self.skip(":")?;
                    if let Some(limit) = self.limit(&field.kind)? {
                        limits.push((field.name.clone(), limit));
                    }
                }
                self.skip(">")?;
                Some((!limits.is_empty()).then_some(Limit::Struct(limits)))
            }
            Kind::Array(element, _) => {
                self.skip("array<")?;
                let limit = self.limit(element)?;
                self.skip(">")?;
                Some(limit.map(|limit| Limit::Array(Box::new(limit))))
            }
            Kind::Map(key, value, _) => {
                self.skip("map<")?;
                let key = self.limit(key)?.map(Box::new);
                self.skip(",")?;
                let value = self.limit(value)?.map(Box::new);
                self.skip(">")?;
                Some((key.is_some() || value.is_some()).then_some(Limit::Map(key, value)))
            }
            Kind::Primitive(Primitive::String) => self.text(),
            Kind::Primitive(_) | Kind::Decimal(..) => {
                self.word();
                Some(None)
            }
        }
    }

    /// The lengths of a type of texts.
    fn text(&mut self) -> Option<Option<Limit>> {
        let word = self.word().to_ascii_lowercase();
        let Some((name, length)) = word.split_once('(') else {
            return (word == "string").then_some(None);
        };
        let length = length.strip_suffix(')')?.trim().parse().ok()?;
        match name.trim() {
            "varchar" => Some(Some(Limit::Varchar(length))),
            "char" => Some(Some(Limit::Char(length))),
            _ => None,
        }
    }

    /// A type without others in it, up to what ends it.
    fn word(&mut self) -> &str {
        let mut depth = 0;
        let end = self.0.find(|letter| match letter {
            '(' => {
                depth += 1;
                false
            }
            ')' => {
                depth -= 1;
                false
            }
            ',' | '>' => depth == 0,
            _ => false,
        });
        let (word, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = rest;
        word.trim()
    }

    /// The name of a field, in backquotes or without.
    fn name(&mut self, name: &str) -> Option<()> {
        let quoted = format!("`{}`", name.replace('`', "``"));
        self.0 = self.0.trim_start();
        self.skip(&quoted).or_else(|| {
            self.0 = self.0.strip_prefix(name)?;
            Some(())
        })
    }

    fn skip(&mut self, word: &str) -> Option<()> {
        let rest = self.0.trim_start();
        let (start, rest) = rest.split_at_checked(word.len())?;
        if !start.eq_ignore_ascii_case(word) {
            return None;
        }
        self.0 = rest.trim_start();
        Some(())
    }
}

/// The reason why texts do not fit.
enum Unfit {
    /// This text is too long for the type of this name.
    TooLong(String, String),
    Arrow(ArrowError),
}

impl From<ArrowError> for Unfit {
    fn from(error: ArrowError) -> Self {
        Self::Arrow(error)
    }
}

impl Limit {
    fn applied(&self, values: &ArrayRef) -> Result<ArrayRef, Unfit> {
        let data_type = values.data_type();
        match (self, data_type) {
            (_, DataType::Dictionary(_, inner)) => self.applied(&cast(values, inner)?),
            (_, DataType::RunEndEncoded(_, inner)) => self.applied(&cast(values, inner.data_type())?),
            (Self::Varchar(_) | Self::Char(_), DataType::Utf8) => self.texts(values),
            (Self::Varchar(_) | Self::Char(_), _) => self.texts(&cast(values, &DataType::Utf8)?),
            (Self::Struct(limits), DataType::Struct(_)) => fields(limits, values.as_struct()),
            (Self::Array(limit), DataType::List(_)) => elements::<i32>(limit, values.as_list()),
            (Self::Array(limit), DataType::LargeList(_)) => elements::<i64>(limit, values.as_list()),
            (Self::Array(limit), DataType::FixedSizeList(field, _)) => {
                let list = cast(values, &DataType::List(Arc::clone(field)))?;
                elements::<i32>(limit, list.as_list())
            }
            (Self::Array(limit), DataType::ListView(field) | DataType::LargeListView(field)) => {
                let list = cast(values, &DataType::LargeList(Arc::clone(field)))?;
                elements::<i64>(limit, list.as_list())
            }
            (Self::Map(key, value), DataType::Map(..)) => {
                entries(key.as_deref(), value.as_deref(), values.as_map())
            }
            (_, other) => Err(Unfit::Arrow(ArrowError::SchemaError(format!(
                "{other} holds no texts of a declared length"
            )))),
        }
    }

    /// Texts as Spark writes them. Those of the right lengths stay the array that they are.
    fn texts(&self, values: &ArrayRef) -> Result<ArrayRef, Unfit> {
        let texts = values.as_string::<i32>();
        if texts.iter().flatten().all(|text| self.fits(text)) {
            return Ok(Arc::clone(values));
        }
        let made = texts
            .iter()
            .map(|text| text.map(|text| self.made(text)).transpose());
        Ok(Arc::new(made.collect::<Result<StringArray, _>>()?))
    }

    fn fits(&self, text: &str) -> bool {
        match self {
            // A character has at least one byte.
            Self::Varchar(most) => text.len() <= *most || text.chars().count() <= *most,
            Self::Char(length) => text.chars().count() == *length,
            Self::Struct(_) | Self::Array(_) | Self::Map(..) => true,
        }
    }

    fn made(&self, text: &str) -> Result<String, Unfit> {
        let (length, name) = match self {
            Self::Varchar(length) => (*length, "varchar"),
            Self::Char(length) => (*length, "char"),
            Self::Struct(_) | Self::Array(_) | Self::Map(..) => return Ok(text.to_owned()),
        };
        let mut made: String = text.chars().take(length).collect();
        if !text[made.len()..].bytes().all(|byte| byte == b' ') {
            return Err(Unfit::TooLong(text.to_owned(), format!("{name}({length})")));
        }
        if name == "char" {
            let lacking = length - made.chars().count();
            made.extend(std::iter::repeat_n(' ', lacking));
        }
        Ok(made)
    }
}

fn fields(limits: &[(String, Limit)], group: &StructArray) -> Result<ArrayRef, Unfit> {
    let mut columns = Vec::with_capacity(group.num_columns());
    let mut fields = Vec::with_capacity(group.num_columns());
    for (field, column) in group.fields().iter().zip(group.columns()) {
        let limit = limits.iter().find(|(name, _)| name == field.name());
        let column = match limit {
            // Whatever is below a null is no value.
            Some((_, limit)) => limit.applied(&masked(column, group.nulls()))?,
            None => Arc::clone(column),
        };
        fields.push(with_type(field, &column));
        columns.push(column);
    }
    let group =
        StructArray::try_new_with_length(Fields::from(fields), columns, group.nulls().cloned(), group.len());
    Ok(Arc::new(group?))
}

fn elements<O: arrow_array::OffsetSizeTrait>(
    limit: &Limit,
    list: &GenericListArray<O>,
) -> Result<ArrayRef, Unfit> {
    let values = limit.applied(list.values())?;
    let (DataType::List(field) | DataType::LargeList(field)) = list.data_type() else {
        return Ok(Arc::new(list.clone()));
    };
    let field = Arc::new(with_type(field, &values));
    let list = GenericListArray::<O>::try_new(field, list.offsets().clone(), values, list.nulls().cloned());
    Ok(Arc::new(list?))
}

fn entries(key: Option<&Limit>, value: Option<&Limit>, map: &MapArray) -> Result<ArrayRef, Unfit> {
    let columns = [key, value].into_iter().zip(map.entries().columns());
    let columns = columns.map(|(limit, column)| match limit {
        Some(limit) => limit.applied(column),
        None => Ok(Arc::clone(column)),
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let fields = map.entries().fields().iter().zip(&columns);
    let fields: Fields = fields.map(|(field, column)| with_type(field, column)).collect();
    let given = StructArray::try_new(fields.clone(), columns, map.entries().nulls().cloned())?;
    let DataType::Map(field, sorted) = map.data_type() else {
        return Ok(Arc::new(map.clone()));
    };
    let field = field.as_ref().clone().with_data_type(DataType::Struct(fields));
    let map = MapArray::try_new(
        Arc::new(field),
        map.offsets().clone(),
        given,
        map.nulls().cloned(),
        *sorted,
    );
    Ok(Arc::new(map?))
}

fn with_type(field: &Field, column: &ArrayRef) -> Field {
    field.clone().with_data_type(column.data_type().clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn declared(kind: &Value, text: &str) -> Result<Option<Limit>> {
        of_column(&Column {
            name: "c".to_owned(),
            kind: Kind::from_json(kind).unwrap(),
            nullable: true,
            metadata: [(DECLARED.to_owned(), Value::from(text))].into_iter().collect(),
        })
    }

    #[test]
    fn declarations_are_read_as_spark_writes_them() {
        let text = json!("string");
        assert_eq!(declared(&text, "varchar(5)").unwrap(), Some(Limit::Varchar(5)));
        assert_eq!(declared(&text, "CHAR(3)").unwrap(), Some(Limit::Char(3)));
        let list = json!({"type": "array", "elementType": "string", "containsNull": true});
        let expected = Limit::Array(Box::new(Limit::Varchar(5)));
        assert_eq!(declared(&list, "array<varchar(5)>").unwrap(), Some(expected));
        let field =
            |name: &str, kind: Value| json!({"name": name, "type": kind, "nullable": true, "metadata": {}});
        let nested = json!({"type": "struct", "fields": [
            field("a:b", json!("decimal(10,2)")),
            field("c", json!({"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": true})),
            field("d", json!("string")),
        ]});
        let expected = Limit::Struct(vec![(
            "c".to_owned(),
            Limit::Map(Some(Box::new(Limit::Char(2))), None),
        )]);
        for text in [
            "struct<a:b:decimal(10,2),c:map<char(2),string>,d:string>",
            "struct<`a:b`: decimal(10,2), c: map<char(2), string>, d: string>",
        ] {
            assert_eq!(
                declared(&nested, text).unwrap().as_ref(),
                Some(&expected),
                "{text}"
            );
        }
    }

    #[test]
    fn declarations_of_other_types_are_refused() {
        for text in [
            "varchar",
            "varchar(x)",
            "varchar(5)>",
            "text(5)",
            "array<varchar(5)>",
            "",
        ] {
            assert!(declared(&json!("string"), text).is_err(), "{text}");
        }
    }

    #[test]
    fn texts_are_cut_and_filled_as_spark_does_it() {
        let made = |limit: &Limit, text: &str| limit.made(text).ok();
        let varchar = Limit::Varchar(3);
        assert_eq!(made(&varchar, "日本語  ").unwrap(), "日本語");
        assert_eq!(made(&varchar, "a ").unwrap(), "a ");
        assert_eq!(made(&varchar, "a    ").unwrap(), "a  ");
        assert_eq!(made(&varchar, "abcd"), None);
        assert_eq!(made(&varchar, "abc\t"), None);
        let exact = Limit::Char(3);
        assert_eq!(made(&exact, "é").unwrap(), "é  ");
        assert_eq!(made(&exact, "").unwrap(), "   ");
        assert_eq!(made(&exact, "abc  ").unwrap(), "abc");
        assert_eq!(made(&exact, "ab cd"), None);
    }
}
