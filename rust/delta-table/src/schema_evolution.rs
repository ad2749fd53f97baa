//! Schema evolution of nested types: struct fields that a schema gains, and fields that rows or files lack.

use crate::schema::{ColumnType, TableColumn};

impl ColumnType {
    /// This type, with the fields that only structs of `other` have appended to its own structs. None if the types
    /// differ in anything else that would change a value.
    pub(crate) fn merged(&self, other: &Self) -> Option<Self> {
        Some(match (self, other) {
            (Self::Struct(known), Self::Struct(given)) => Self::Struct(merged_fields(known, given)?),
            (Self::Array(known, nullable), Self::Array(given, _)) => {
                Self::Array(Box::new(known.merged(given)?), *nullable)
            }
            // A new field would change which keys are equal, so the types of keys do not evolve.
            (Self::Map(key, known, nullable), Self::Map(given_key, given, _)) if key.holds(given_key) => {
                Self::Map(key.clone(), Box::new(known.merged(given)?), *nullable)
            }
            (Self::Primitive(_) | Self::Decimal(..), _) if self.holds(other) => self.clone(),
            _ => return None,
        })
    }

    /// Returns true if this type is `other`, possibly with more nullable fields in its structs. Readers return null for
    /// fields that a file lacks.
    pub(crate) fn is_evolved_from(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Struct(now), Self::Struct(before)) => {
                let has_all = before.iter().all(|field| named(now, field).is_some());
                has_all
                    && now.iter().all(|field| match named(before, field) {
                        Some(before) => field.is_evolved_from(before),
                        None => field.nullable,
                    })
            }
            (Self::Array(now, nullable), Self::Array(before, was_nullable)) => {
                (*nullable || !was_nullable) && now.is_evolved_from(before)
            }
            (Self::Map(key, now, nullable), Self::Map(key_before, before, was_nullable)) => {
                key == key_before && (*nullable || !was_nullable) && now.is_evolved_from(before)
            }
            _ => self == other,
        }
    }
}

impl TableColumn {
    /// Returns true if files written with the column `other` can be read as this column.
    pub(crate) fn is_evolved_from(&self, other: &Self) -> bool {
        (self.nullable || !other.nullable) && self.kind.is_evolved_from(&other.kind)
    }

    /// The column as it is added to a table: nullable, since rows that are there have no value in it.
    pub(crate) fn for_older_rows(&self) -> Self {
        Self {
            nullable: true,
            ..self.clone()
        }
    }
}

/// Returns true if a struct with the fields `known` can hold every value of a struct with the fields `given`, whatever
/// their order.
pub(crate) fn hold(known: &[TableColumn], given: &[TableColumn]) -> bool {
    given.iter().all(|field| named(known, field).is_some())
        && known.iter().all(|field| match named(given, field) {
            Some(given) => field.kind.holds(&given.kind),
            None => field.nullable,
        })
}

fn merged_fields(known: &[TableColumn], given: &[TableColumn]) -> Option<Vec<TableColumn>> {
    let merged = known.iter().map(|field| match named(given, field) {
        Some(given) => Some(TableColumn {
            kind: field.kind.merged(&given.kind)?,
            ..field.clone()
        }),
        None => field.nullable.then(|| field.clone()),
    });
    let new = given.iter().filter(|field| named(known, field).is_none());
    merged
        .chain(new.map(|field| Some(field.for_older_rows())))
        .collect()
}

fn named<'a>(columns: &'a [TableColumn], like: &TableColumn) -> Option<&'a TableColumn> {
    columns.iter().find(|column| column.name == like.name)
}
