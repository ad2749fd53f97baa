//! The lengths of `varchar(n)` and `char(n)`, which Spark keeps in the metadata of columns of text.
//!
//! The schema of the log has these columns as `string`. The type as it was declared is the text of
//! `__CHAR_VARCHAR_TYPE_STRING` in the metadata, for nested types that of the whole column, such as
//! `array<varchar(5)>`. The rule is that of delta-spark (`CharVarcharConstraint`): a text of either type has at most n
//! characters, which are code points, and spaces at its end count. Spark fills `char(n)` when it reads it, and no
//! writer does. When a struct gets new fields, the declaration stays as it is: they come last, and have no length.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType};
use parquet_writer::Batch;

use crate::error::{Result, TableError};
use crate::fit::{masked, own_values};
use crate::schema::{ColumnType, Primitive, TableColumn, TableSchema};

/// The entry of a column's metadata.
pub(crate) const DECLARED: &str = "__CHAR_VARCHAR_TYPE_STRING";

/// Characters of a text in an error.
const MOST_SHOWN: usize = 60;

/// The lengths of a table's columns.
#[derive(Debug, Default)]
pub(crate) struct LengthLimits(HashMap<String, LengthLimit>);

/// The most characters of the texts in a column.
#[derive(Debug, Clone, PartialEq)]
enum LengthLimit {
    /// Those of a text, and its type.
    Text(usize, String),
    /// Those of some fields, by their names.
    Struct(Vec<(String, LengthLimit)>),
    /// Those of elements.
    Array(Box<LengthLimit>),
    /// Those of keys and of values.
    Map(Option<Box<LengthLimit>>, Option<Box<LengthLimit>>),
}

impl LengthLimits {
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

    /// Checks the values of a column.
    ///
    /// # Errors
    /// [`delta_commit::CommitError::Schema`] with the first text that is too long.
    pub fn check(&self, column: &str, values: &ArrayRef) -> Result<()> {
        let Some(limit) = self.0.get(column) else {
            return Ok(());
        };
        let found = limit.broken(values).map_err(|error| {
            TableError::column(column, format!("the column {column:?} does not fit: {error}"))
        })?;
        let Some((text, declared)) = found else {
            return Ok(());
        };
        let length = text.chars().count();
        let mut shown: String = text.chars().take(MOST_SHOWN).collect();
        if shown.len() < text.len() {
            shown.push_str("...");
        }
        Err(TableError::column(
            column,
            format!(
                "the column {column:?} is declared as {declared}, and a text has {length} characters: {shown:?}; \
                 shorten it"
            ),
        ))
    }

    /// Checks the values of all columns of a batch.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn check_batch(&self, batch: &Batch) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        batch.check_text()?;
        let mut columns = batch.schema().fields().iter().zip(batch.columns());
        columns.try_for_each(|(field, column)| self.check(field.name(), column))
    }
}

fn of_column(column: &TableColumn) -> Result<Option<LengthLimit>> {
    let Some(declared) = column.metadata.get(DECLARED) else {
        return Ok(None);
    };
    let text = declared.as_str().unwrap_or_default();
    read(text, &column.kind).map_err(|UnreadDeclaration| {
        TableError::unsupported(format!(
            "the column {:?} has the metadata {DECLARED}={declared}, which is not understood as the type {}, so that \
             texts cannot be checked: write the table with Spark",
            column.name,
            column.kind.to_json()
        ))
    })
}

/// A declaration that is not one of the column's type.
struct UnreadDeclaration;

/// The lengths in the declaration of a type; none without any.
fn read(text: &str, kind: &ColumnType) -> Result<Option<LengthLimit>, UnreadDeclaration> {
    let mut parser = DeclarationParser(text.trim());
    let limit = parser.limit(kind)?;
    if parser.0.is_empty() {
        Ok(limit)
    } else {
        Err(UnreadDeclaration)
    }
}

/// The rest of a declaration, as Spark's `catalogString` writes types.
struct DeclarationParser<'a>(&'a str);

impl DeclarationParser<'_> {
    fn limit(&mut self, kind: &ColumnType) -> Result<Option<LengthLimit>, UnreadDeclaration> {
        match kind {
            ColumnType::Struct(fields) => {
                self.skip("struct<")?;
                let mut limits = Vec::new();
                for (number, field) in fields.iter().enumerate() {
                    if number > 0 {
                        // The other fields were added after the declaration.
                        if self.0.starts_with('>') {
                            break;
                        }
                        self.skip(",")?;
                    }
                    self.name(&field.name)?;
                    self.skip(":")?;
                    if let Some(limit) = self.limit(&field.kind)? {
                        limits.push((field.name.clone(), limit));
                    }
                }
                self.skip(">")?;
                Ok((!limits.is_empty()).then_some(LengthLimit::Struct(limits)))
            }
            ColumnType::Array(element, _) => {
                self.skip("array<")?;
                let limit = self.limit(element)?;
                self.skip(">")?;
                Ok(limit.map(|limit| LengthLimit::Array(Box::new(limit))))
            }
            ColumnType::Map(key, value, _) => {
                self.skip("map<")?;
                let key = self.limit(key)?.map(Box::new);
                self.skip(",")?;
                let value = self.limit(value)?.map(Box::new);
                self.skip(">")?;
                Ok((key.is_some() || value.is_some()).then_some(LengthLimit::Map(key, value)))
            }
            ColumnType::Primitive(Primitive::String) => self.text(),
            ColumnType::Primitive(_) | ColumnType::Decimal(..) => {
                self.word();
                Ok(None)
            }
        }
    }

    /// The length of a type of texts.
    fn text(&mut self) -> Result<Option<LengthLimit>, UnreadDeclaration> {
        let word = self.word().to_ascii_lowercase();
        if word == "string" {
            return Ok(None);
        }
        let (name, length) = word.split_once('(').ok_or(UnreadDeclaration)?;
        let length = length
            .strip_suffix(')')
            .and_then(|length| length.trim().parse().ok());
        match (name.trim(), length) {
            ("varchar" | "char", Some(length)) => Ok(Some(LengthLimit::Text(length, word.clone()))),
            _ => Err(UnreadDeclaration),
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
    fn name(&mut self, name: &str) -> Result<(), UnreadDeclaration> {
        let quoted = format!("`{}`", name.replace('`', "``"));
        if self.skip(&quoted).is_err() {
            self.0 = self.0.trim_start().strip_prefix(name).ok_or(UnreadDeclaration)?;
        }
        Ok(())
    }

    fn skip(&mut self, word: &str) -> Result<(), UnreadDeclaration> {
        let (start, rest) = self
            .0
            .trim_start()
            .split_at_checked(word.len())
            .ok_or(UnreadDeclaration)?;
        if !start.eq_ignore_ascii_case(word) {
            return Err(UnreadDeclaration);
        }
        self.0 = rest.trim_start();
        Ok(())
    }
}

/// A text that is too long, and the type that it is too long for.
type LengthViolation = (String, String);

impl LengthLimit {
    /// The first text that is too long.
    fn broken(&self, values: &ArrayRef) -> Result<Option<LengthViolation>, ArrowError> {
        match (self, values.data_type()) {
            (_, DataType::Dictionary(_, inner)) => self.broken(&cast(values, inner)?),
            (_, DataType::RunEndEncoded(_, inner)) => self.broken(&cast(values, inner.data_type())?),
            (Self::Text(most, declared), _) => {
                let texts = cast(values, &DataType::Utf8View)?;
                // A character has at least one byte.
                let is_long = |text: &&str| text.len() > *most && text.chars().count() > *most;
                let mut texts = texts.as_string_view().iter().flatten();
                Ok(texts
                    .find(is_long)
                    .map(|text| (text.to_owned(), declared.clone())))
            }
            (Self::Struct(limits), DataType::Struct(_)) => {
                let group = values.as_struct();
                let held = limits
                    .iter()
                    .filter_map(|(name, limit)| Some((group.column_by_name(name)?, limit)));
                // Whatever is below a null is no value.
                first(held.map(|(column, limit)| limit.broken(&masked(column, group.nulls()))))
            }
            (Self::Array(limit), DataType::List(_)) => {
                let list = values.as_list::<i32>();
                limit.broken(
                    &own_values(list.offsets(), list.values(), list.nulls())
                        .map_err(lost)?
                        .1,
                )
            }
            (
                Self::Array(_),
                DataType::LargeList(element)
                | DataType::ListView(element)
                | DataType::LargeListView(element)
                | DataType::FixedSizeList(element, _),
            ) => self.broken(&cast(values, &DataType::List(Arc::clone(element)))?),
            (Self::Map(key, value), DataType::Map(..)) => {
                let map = values.as_map();
                let entries: ArrayRef = Arc::new(map.entries().clone());
                let entries = own_values(map.offsets(), &entries, map.nulls()).map_err(lost)?.1;
                let columns = entries.as_struct().columns().iter();
                let held = columns
                    .zip([key, value])
                    .filter_map(|(column, limit)| Some((column, limit.as_deref()?)));
                first(held.map(|(column, limit)| limit.broken(column)))
            }
            (_, other) => Err(lost(format!("{other} holds no texts of a declared length"))),
        }
    }
}

fn lost(why: String) -> ArrowError {
    ArrowError::SchemaError(why)
}

/// The first one that is there.
fn first(
    mut found: impl Iterator<Item = Result<Option<LengthViolation>, ArrowError>>,
) -> Result<Option<LengthViolation>, ArrowError> {
    found.find_map(Result::transpose).transpose()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn declared(kind: &Value, text: &str) -> Result<Option<LengthLimit>> {
        of_column(&TableColumn {
            name: "c".to_owned(),
            kind: ColumnType::from_json(kind).unwrap(),
            nullable: true,
            metadata: [(DECLARED.to_owned(), Value::from(text))].into_iter().collect(),
        })
    }

    fn text(most: usize, declared: &str) -> LengthLimit {
        LengthLimit::Text(most, declared.to_owned())
    }

    #[test]
    fn declarations_are_read_as_spark_writes_them() {
        let plain = json!("string");
        assert_eq!(
            declared(&plain, "varchar(5)").unwrap(),
            Some(text(5, "varchar(5)"))
        );
        assert_eq!(declared(&plain, "CHAR(3)").unwrap(), Some(text(3, "char(3)")));
        assert_eq!(declared(&plain, "string").unwrap(), None);
        let list = json!({"type": "array", "elementType": "string", "containsNull": true});
        let expected = LengthLimit::Array(Box::new(text(5, "varchar(5)")));
        assert_eq!(declared(&list, "array<varchar(5)>").unwrap(), Some(expected));
        let field =
            |name: &str, kind: Value| json!({"name": name, "type": kind, "nullable": true, "metadata": {}});
        let nested = json!({"type": "struct", "fields": [
            field("a:b", json!("decimal(10,2)")),
            field("c", json!({"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": true})),
            field("d", json!("string")),
        ]});
        let map = LengthLimit::Map(Some(Box::new(text(2, "char(2)"))), None);
        let expected = LengthLimit::Struct(vec![("c".to_owned(), map)]);
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
    fn fields_that_were_added_to_a_struct_have_no_length() {
        let field =
            |name: &str, kind: Value| json!({"name": name, "type": kind, "nullable": true, "metadata": {}});
        let group = |names: &[&str]| {
            let fields = names.iter().map(|name| field(name, json!("string")));
            json!({"type": "struct", "fields": fields.collect::<Vec<_>>()})
        };
        let limit = LengthLimit::Struct(vec![("a".to_owned(), text(5, "varchar(5)"))]);
        let text = "struct<a:varchar(5)>";
        assert_eq!(declared(&group(&["a", "b"]), text).unwrap(), Some(limit.clone()));
        let list = json!({"type": "array", "elementType": group(&["a", "b"]), "containsNull": true});
        assert_eq!(
            declared(&list, &format!("array<{text}>")).unwrap(),
            Some(LengthLimit::Array(Box::new(limit)))
        );
        assert!(declared(&group(&["b", "a"]), text).is_err());
        assert!(declared(&group(&["a"]), "struct<a:varchar(5),b:string>").is_err());
        assert!(declared(&group(&["a"]), "struct<>").is_err());
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
}
