//! Schemas of the log and Arrow schemas.

mod column_type;

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use delta_commit::schema::json_of_schema;
use serde_json::{Map, Value};

use crate::error::{Result, TableError};
use crate::head::TableHead;
use crate::mapping::Mapping;

pub(crate) use column_type::columns;
pub use column_type::{ColumnType, Primitive};
use column_type::{columns_from_json, fields, struct_json};

/// The schema of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct TableSchema {
    /// The columns in their order, partition columns included.
    pub columns: Vec<TableColumn>,
}

/// A column, or a field of a struct.
#[derive(Debug, Clone, PartialEq)]
pub struct TableColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: ColumnType,
    /// True if it may be null.
    pub nullable: bool,
    /// Notes of any JSON.
    pub metadata: Map<String, Value>,
}

/// A column that is no struct, at any depth of structs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LeafColumn<'a> {
    /// Names from the top.
    pub path: Vec<&'a str>,
    /// Its type.
    pub kind: &'a ColumnType,
}

/// The fields, with the types of the columns of their names in place of Arrow's null.
fn with_known_types(fields: &Fields, columns: &[TableColumn]) -> Fields {
    let typed = fields.iter().map(|field| {
        let known = columns.iter().find(|column| column.name == *field.name());
        known.map_or_else(|| Arc::clone(field), |known| with_known_type(field, &known.kind))
    });
    typed.collect()
}

fn with_known_type(field: &FieldRef, known: &ColumnType) -> FieldRef {
    let data_type = match (field.data_type(), known) {
        (DataType::Null, _) => known.arrow(),
        (DataType::Dictionary(_, values), _) if values.is_null() => known.arrow(),
        (DataType::RunEndEncoded(_, values), _) if values.data_type().is_null() => known.arrow(),
        (DataType::Struct(fields), ColumnType::Struct(columns)) => {
            DataType::Struct(with_known_types(fields, columns))
        }
        (
            DataType::List(element)
            | DataType::LargeList(element)
            | DataType::ListView(element)
            | DataType::LargeListView(element)
            | DataType::FixedSizeList(element, _),
            ColumnType::Array(known, _),
        ) => DataType::List(with_known_type(element, known)),
        (DataType::Map(entries, is_sorted), ColumnType::Map(key, value, _)) => match entries.data_type() {
            DataType::Struct(of_entry) if of_entry.len() == 2 => {
                let typed = [
                    with_known_type(&of_entry[0], key),
                    with_known_type(&of_entry[1], value),
                ];
                let typed = entries
                    .as_ref()
                    .clone()
                    .with_data_type(DataType::Struct(typed.into()));
                DataType::Map(Arc::new(typed), *is_sorted)
            }
            _ => return Arc::clone(field),
        },
        _ => return Arc::clone(field),
    };
    Arc::new(field.as_ref().clone().with_data_type(data_type))
}

impl TableColumn {
    /// The Arrow field in the table's files.
    #[must_use]
    pub fn arrow(&self) -> Field {
        Field::new(&self.name, self.kind.arrow(), self.nullable)
    }

    /// This column for rows, too, that have `other` of the same name; none where a value of that is not one of this.
    /// Rows without such a column have null in it.
    pub(crate) fn relaxed(&self, other: Option<&Self>) -> Option<Self> {
        let (kind, nullable) = match other {
            Some(other) => (self.kind.relaxed(&other.kind)?, self.nullable || other.nullable),
            None => (self.kind.clone(), true),
        };
        Some(Self {
            name: self.name.clone(),
            kind,
            nullable,
            metadata: self.metadata.clone(),
        })
    }
}

impl TableSchema {
    /// The table schema for rows of an Arrow schema.
    ///
    /// # Errors
    /// [`delta_commit::CommitError::Schema`] names the column that a table cannot hold.
    pub fn of(schema: &Schema) -> Result<Self> {
        Self::of_mapped(schema, Mapping::None)
    }

    /// The same of a table with this mapping, whose columns may have any names.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub(crate) fn of_mapped(schema: &Schema, mapping: Mapping) -> Result<Self> {
        let schema = Self {
            columns: columns(schema.fields(), "")?,
        };
        mapping.check_schema(&schema.to_json())?;
        Ok(schema)
    }

    /// The schema of an Arrow schema's rows for a table. A column of Arrow's type null has the type of the table's
    /// column of its name, at any depth.
    ///
    /// # Errors
    /// As [`of`](Self::of); a column of type null that the table lacks is one that a table cannot hold.
    pub(crate) fn of_rows(schema: &Schema, table: &TableHead) -> Result<Self> {
        let typed = with_known_types(schema.fields(), &table.schema.columns);
        Self::of_mapped(&Schema::new(typed), table.mapping)
    }

    /// The schema in `metaData.schemaString`.
    ///
    /// # Errors
    /// [`delta_commit::CommitError::Schema`] when it is none; [`TableError::Malformed`] when a column lacks what
    /// `mapping` finds it by.
    pub fn parse(text: &str, mapping: Mapping) -> Result<Self> {
        if text.is_empty() {
            return Err(TableError::schema(
                "the table has no schema: its metaData has no schemaString",
            ));
        }
        mapping.check_schema(text)?;
        let value = json_of_schema(text)?;
        let columns =
            columns_from_json(&value).ok_or_else(|| TableError::schema("the schema cannot be read"))?;
        mapping.check(&columns)?;
        Ok(Self { columns })
    }

    /// The schema as `metaData.schemaString` holds it.
    #[must_use]
    pub fn to_json(&self) -> String {
        struct_json(&self.columns).to_string()
    }

    /// The Arrow schema of the table's rows.
    #[must_use]
    pub fn arrow(&self) -> SchemaRef {
        Arc::new(Schema::new(fields(&self.columns)))
    }

    /// Returns true if the protocol must name timestamps without time zone.
    #[must_use]
    pub fn has_ntz(&self) -> bool {
        self.columns.iter().any(|column| column.kind.has_ntz())
    }

    /// All leaf columns, except those of some top-level columns, in their order.
    pub(crate) fn leaves(&self, but: &[String]) -> Vec<LeafColumn<'_>> {
        fn below<'a>(columns: &'a [TableColumn], path: &mut Vec<&'a str>, leaves: &mut Vec<LeafColumn<'a>>) {
            for column in columns {
                path.push(&column.name);
                match &column.kind {
                    ColumnType::Struct(fields) => below(fields, path, leaves),
                    kind => leaves.push(LeafColumn {
                        path: path.clone(),
                        kind,
                    }),
                }
                path.pop();
            }
        }
        let mut leaves = Vec::new();
        for column in self.columns.iter().filter(|column| !but.contains(&column.name)) {
            below(std::slice::from_ref(column), &mut Vec::new(), &mut leaves);
        }
        leaves
    }

    /// The column of this name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&TableColumn> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// Checks that rows of `other` can be stored: every column is known, its values fit, and no required column is
    /// missing.
    ///
    /// # Errors
    /// [`delta_commit::CommitError::Schema`] names the first column that does not fit, and what would.
    pub fn check_rows(&self, other: &Self) -> Result<()> {
        self.check_columns(other)?;
        let missing = self
            .columns
            .iter()
            .find(|column| !column.nullable && other.column(&column.name).is_none());
        match missing {
            Some(column) => Err(TableError::column(
                &column.name,
                format!(
                    "the rows have no column {:?}, which the table does not allow to be null",
                    column.name
                ),
            )),
            None => Ok(()),
        }
    }

    /// Checks that every column of `other` is known and its values fit.
    pub(crate) fn check_columns(&self, other: &Self) -> Result<()> {
        for column in &other.columns {
            let Some(known) = self.column(&column.name) else {
                let alike = |known: &&TableColumn| known.name.to_lowercase() == column.name.to_lowercase();
                let advice = match self.columns.iter().find(alike) {
                    Some(known) => format!(
                        "{:?} differs from it only in case: rename it in the rows",
                        known.name
                    ),
                    None => "To add it, write with schema_mode=\"merge\"".to_owned(),
                };
                return Err(TableError::column(
                    &column.name,
                    format!(
                        "the table has no column {:?}; its columns are {}. {advice}",
                        column.name,
                        self.names()
                    ),
                ));
            };
            check_kind(known, column)?;
        }
        Ok(())
    }

    /// This schema with the columns of `other` that it lacks, and the fields of their structs; none when it lacks none.
    ///
    /// # Errors
    /// [`delta_commit::CommitError::Schema`] when a column has another type there.
    pub fn merged(&self, other: &Self, mapping: Mapping) -> Result<Option<Self>> {
        let mut merged = self.clone();
        for column in &other.columns {
            let known = merged.columns.iter_mut().find(|known| known.name == column.name);
            let Some(known) = known else {
                merged.columns.push(column.for_older_rows());
                continue;
            };
            match known.kind.merged(&column.kind) {
                Some(kind) => known.kind = kind,
                None => return Err(misfit(known, column)),
            }
        }
        if merged == *self {
            return Ok(None);
        }
        mapping.check_schema(&merged.to_json())?;
        Ok(Some(merged))
    }

    fn names(&self) -> String {
        let names: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
        names.join(", ")
    }
}

fn check_kind(known: &TableColumn, given: &TableColumn) -> Result<()> {
    if known.kind.holds(&given.kind) {
        return Ok(());
    }
    Err(misfit(known, given))
}

fn misfit(known: &TableColumn, given: &TableColumn) -> TableError {
    let is_new_field = known.kind.merged(&given.kind).is_some();
    let advice = if is_new_field {
        "to add its new fields, write with schema_mode=\"merge\"".to_owned()
    } else {
        format!("cast it to {} first", known.kind.arrow())
    };
    TableError::column(
        &known.name,
        format!(
            "the column {:?} is {} in the table, and the rows have {}: {advice}",
            known.name,
            known.kind.to_json(),
            given.kind.to_json()
        ),
    )
}
