//! Columns of a checkpoint for fields that only other writers know.
//!
//! The protocol lets a writer leave them out. But a table may have been written for years by software that knows them,
//! and go on being written by it. Without these columns, the next checkpoint would lose the values of those fields.

use std::collections::BTreeMap;

use arrow_schema::{DataType, Field, Fields};
use delta_commit::actions::{Action, Add, DeletionVector, Remove, UnknownFields};
use serde_json::Value;

use crate::error::{Result, TableError};

/// The most columns that a checkpoint gets. Fields named after values would make a column of each value.
const MOST: usize = 1_000;

/// The fields of all actions, by the group of the checkpoint that they belong to.
#[derive(Default)]
pub(crate) struct ForeignFields(BTreeMap<&'static str, BTreeMap<String, CommonType>>);

/// The common type of a field's values.
enum CommonType {
    /// No value was met.
    Nothing,
    Flag,
    Whole,
    Real,
    Text,
    List(Box<CommonType>),
    Group(BTreeMap<String, CommonType>),
}

/// An error: values that no column can hold together.
struct Unlike;

impl ForeignFields {
    /// # Errors
    /// [`delta_commit::CommitError::Unsupported`] names a field whose values no column can hold.
    pub fn of(others: &[Action], adds: &[&Add], removes: &[&Remove]) -> Result<Self> {
        let mut fields = Self::default();
        for action in others {
            match action {
                Action::Protocol(protocol) => fields.note("protocol", &protocol.unknown)?,
                Action::Metadata(metadata) => {
                    fields.note("metaData", &metadata.unknown)?;
                    fields.note("metaData.format", &metadata.format.unknown)?;
                }
                Action::Txn(txn) => fields.note("txn", &txn.unknown)?,
                Action::DomainMetadata(domain) => fields.note("domainMetadata", &domain.unknown)?,
                Action::Add(_) | Action::Remove(_) | Action::CommitInfo(_) | Action::Cdc(_) => {}
            }
        }
        for add in adds {
            fields.note("add", &add.unknown)?;
            fields.note_vector("add.deletionVector", add.deletion_vector.as_ref())?;
        }
        for remove in removes {
            fields.note("remove", &remove.unknown)?;
            fields.note_vector("remove.deletionVector", remove.deletion_vector.as_ref())?;
        }
        fields.check()?;
        Ok(fields)
    }

    /// The columns of a group.
    pub fn columns(&self, group: &str) -> Vec<Field> {
        let fields = self.0.get(group).into_iter().flatten();
        fields
            .filter_map(|(name, form)| Some(Field::new(name, form.arrow()?, true)))
            .collect()
    }

    fn note_vector(&mut self, group: &'static str, vector: Option<&DeletionVector>) -> Result<()> {
        vector.map_or(Ok(()), |vector| self.note(group, &vector.unknown))
    }

    fn note(&mut self, group: &'static str, unknown: &UnknownFields) -> Result<()> {
        for (name, value) in &unknown.0 {
            let known = self.0.entry(group).or_default();
            let form = known.entry(name.clone()).or_insert(CommonType::Nothing);
            form.note(value).map_err(|Unlike| refused(group, name))?;
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        let mut columns = 0;
        for (group, fields) in &self.0 {
            for (name, form) in fields {
                columns += form.columns();
                if form.arrow().is_none() || columns > MOST {
                    return Err(refused(group, name));
                }
            }
        }
        Ok(())
    }
}

fn refused(group: &str, name: &str) -> TableError {
    TableError::unsupported(format!(
        "another writer's field {group}.{name} has values that no column of a checkpoint can hold, and they would be gone \
         with it: write the checkpoint with the software that wrote them"
    ))
}

impl CommonType {
    fn note(&mut self, value: &Value) -> Result<(), Unlike> {
        if let Self::Nothing = self {
            *self = match value {
                Value::Null => return Ok(()),
                Value::Bool(_) => Self::Flag,
                Value::Number(number) if number.is_i64() => Self::Whole,
                // Nothing holds the large ones exactly.
                Value::Number(number) if number.is_u64() => return Err(Unlike),
                Value::Number(_) => Self::Real,
                Value::String(_) => Self::Text,
                Value::Array(_) => Self::List(Box::new(Self::Nothing)),
                Value::Object(_) => Self::Group(BTreeMap::new()),
            };
        }
        match (self, value) {
            (_, Value::Null) | (Self::Flag, Value::Bool(_)) | (Self::Text, Value::String(_)) => Ok(()),
            (Self::Whole, Value::Number(number)) if number.is_i64() => Ok(()),
            (Self::Real, Value::Number(number)) if number.is_f64() => Ok(()),
            (Self::List(element), Value::Array(values)) => {
                values.iter().try_for_each(|value| element.note(value))
            }
            // A column has no value that is there and holds nothing.
            (Self::Group(_), Value::Object(values)) if values.is_empty() => Err(Unlike),
            (Self::Group(fields), Value::Object(values)) => values.iter().try_for_each(|(name, value)| {
                fields.entry(name.clone()).or_insert(Self::Nothing).note(value)
            }),
            _ => Err(Unlike),
        }
    }

    /// The number of columns that it takes.
    fn columns(&self) -> usize {
        match self {
            Self::List(element) => element.columns(),
            Self::Group(fields) => fields.values().map(Self::columns).sum(),
            _ => 1,
        }
    }

    /// The column's type; none when there is no value to tell it by.
    fn arrow(&self) -> Option<DataType> {
        Some(match self {
            Self::Nothing => return None,
            Self::Flag => DataType::Boolean,
            Self::Whole => DataType::Int64,
            Self::Real => DataType::Float64,
            Self::Text => DataType::Utf8,
            Self::List(element) => DataType::List(Field::new("element", element.arrow()?, true).into()),
            Self::Group(fields) => {
                let fields = fields
                    .iter()
                    .map(|(name, form)| Some(Field::new(name, form.arrow()?, true)));
                DataType::Struct(fields.collect::<Option<Fields>>()?)
            }
        })
    }
}
