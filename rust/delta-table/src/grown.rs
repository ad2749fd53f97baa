//! Structs that grow: fields that rows bring and those that they lack, at any depth of a type.

use crate::schema::{Column, Kind};

impl Kind {
    /// This type with the fields that structs of `other` have and it lacks, behind its own; none where a value of
    /// `other` is not one of it otherwise.
    pub(crate) fn merged(&self, other: &Self) -> Option<Self> {
        Some(match (self, other) {
            (Self::Struct(known), Self::Struct(given)) => Self::Struct(merged_fields(known, given)?),
            (Self::Array(known, nullable), Self::Array(given, _)) => {
                Self::Array(Box::new(known.merged(given)?), *nullable)
            }
            // Keys tell entries apart: they stay as they are.
            (Self::Map(key, known, nullable), Self::Map(given_key, given, _)) if key.holds(given_key) => {
                Self::Map(key.clone(), Box::new(known.merged(given)?), *nullable)
            }
            (Self::Primitive(_) | Self::Decimal(..), _) if self.holds(other) => self.clone(),
            _ => return None,
        })
    }

    /// Returns true if it is `other`, or `other` with more fields in its structs: a reader finds null in these where a
    /// file lacks them.
    pub(crate) fn is_grown_from(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Struct(now), Self::Struct(before)) => {
                let has_all = before.iter().all(|field| named(now, field).is_some());
                has_all
                    && now.iter().all(|field| match named(before, field) {
                        Some(before) => field.is_grown_from(before),
                        None => field.nullable,
                    })
            }
            (Self::Array(now, nullable), Self::Array(before, was_nullable)) => {
                (*nullable || !was_nullable) && now.is_grown_from(before)
            }
            (Self::Map(key, now, nullable), Self::Map(key_before, before, was_nullable)) => {
                key == key_before && (*nullable || !was_nullable) && now.is_grown_from(before)
            }
            _ => self == other,
        }
    }
}

impl Column {
    /// Returns true if a file may have this column as `other`.
    pub(crate) fn is_grown_from(&self, other: &Self) -> bool {
        (self.nullable || !other.nullable) && self.kind.is_grown_from(&other.kind)
    }

    /// The column for rows of a table that have none of it.
    pub(crate) fn for_older_rows(&self) -> Self {
        Self {
            nullable: true,
            ..self.clone()
        }
    }
}

/// Returns true if structs with the fields `known` can hold those with the fields `given`, in any order.
pub(crate) fn hold(known: &[Column], given: &[Column]) -> bool {
    given.iter().all(|field| named(known, field).is_some())
        && known.iter().all(|field| match named(given, field) {
            Some(given) => field.kind.holds(&given.kind),
            None => field.nullable,
        })
}

fn merged_fields(known: &[Column], given: &[Column]) -> Option<Vec<Column>> {
    let merged = known.iter().map(|field| match named(given, field) {
        Some(given) => Some(Column {
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

fn named<'a>(columns: &'a [Column], like: &Column) -> Option<&'a Column> {
    columns.iter().find(|column| column.name == like.name)
}
