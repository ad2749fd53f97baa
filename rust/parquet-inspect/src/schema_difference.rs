//! The first difference between the schemas of two files.

use std::fmt;

use parquet::basic::{ConvertedType, Repetition, Type as PhysicalType};
use parquet::schema::types::Type;

use crate::meaning::Meaning;

/// A difference between two schemas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaDifference {
    /// The dotted path of the column or group that differs.
    pub column: String,
    /// What the second schema has there.
    pub found: String,
    /// What the first one has there.
    pub expected: String,
}

/// The first place where the schema of one file differs from that of another: in names, their order, physical or
/// logical types, repetition or field ids. None where chunks of both may be in one file.
///
/// The name of the root does not matter, nor whether a footer has a logical type or the older converted type for it.
#[must_use]
pub fn schema_difference(expected: &Type, found: &Type) -> Option<SchemaDifference> {
    fields(expected, found, &mut Vec::new())
}

fn fields<'a>(expected: &'a Type, found: &'a Type, path: &mut Vec<&'a str>) -> Option<SchemaDifference> {
    let (ours, theirs) = (expected.get_fields(), found.get_fields());
    let mut pairs = ours.iter().zip(theirs);
    let difference = pairs.find_map(|(ours, theirs)| {
        if ours.name() != theirs.name() {
            return Some(misplaced(expected, found, (ours.name(), theirs.name()), path));
        }
        path.push(ours.name());
        let difference = node(ours, theirs, path).or_else(|| match (ours.is_group(), theirs.is_group()) {
            (true, true) => fields(ours, theirs, path),
            _ => None,
        });
        path.pop();
        difference
    });
    difference.or_else(|| {
        let missing = ours
            .get(theirs.len())
            .map(|field| (field.name(), "missing", "there"));
        let added = theirs
            .get(ours.len())
            .map(|field| (field.name(), "there", "missing"));
        let (name, found, expected) = missing.or(added)?;
        Some(difference_at(path, name, found, expected))
    })
}

/// The difference between fields at the same place that have two names.
fn misplaced(expected: &Type, found: &Type, names: (&str, &str), path: &[&str]) -> SchemaDifference {
    let has = |group: &Type, name: &str| group.get_fields().iter().any(|field| field.name() == name);
    let (ours, theirs) = names;
    if !has(found, ours) {
        return difference_at(path, ours, "missing", "there");
    }
    if !has(expected, theirs) {
        return difference_at(path, theirs, "there", "missing");
    }
    difference_at(
        path,
        ours,
        &format!("after {theirs:?}"),
        &format!("before {theirs:?}"),
    )
}

fn difference_at(path: &[&str], name: &str, found: &str, expected: &str) -> SchemaDifference {
    let mut column = path.to_vec();
    column.push(name);
    SchemaDifference {
        column: column.join("."),
        found: found.to_owned(),
        expected: expected.to_owned(),
    }
}

/// The difference between two nodes of one name, whatever is in them.
fn node(expected: &Type, found: &Type, path: &[&str]) -> Option<SchemaDifference> {
    let (ours, theirs) = (Described(expected), Described(found));
    let differ = |expected: &dyn fmt::Display, found: &dyn fmt::Display| {
        Some(SchemaDifference {
            column: path.join("."),
            found: found.to_string(),
            expected: expected.to_string(),
        })
    };
    if physical(expected) != physical(found) || !mean_the_same(expected, found) {
        return differ(&ours, &theirs);
    }
    if repetition(expected) != repetition(found) {
        return differ(&repetition_name(expected), &repetition_name(found));
    }
    if field_id(expected) != field_id(found) {
        let named = |node| match field_id(node) {
            Some(id) => format!("the field id {id}"),
            None => "no field id".to_owned(),
        };
        return differ(
            &format!("with {}", named(expected)),
            &format!("with {}", named(found)),
        );
    }
    None
}

/// The physical type and its length; none for a group.
fn physical(node: &Type) -> Option<(PhysicalType, i32)> {
    match node {
        Type::PrimitiveType {
            physical_type,
            type_length,
            ..
        } => {
            let length = (*physical_type == PhysicalType::FIXED_LEN_BYTE_ARRAY).then_some(*type_length);
            Some((*physical_type, length.unwrap_or(0)))
        }
        Type::GroupType { .. } => None,
    }
}

fn mean_the_same(ours: &Type, theirs: &Type) -> bool {
    let logical = |node: &Type| node.get_basic_info().logical_type_ref().cloned();
    match (logical(ours), logical(theirs)) {
        // Parameters that no name shows are compared, too, such as the CRS of geometries.
        (Some(ours), Some(theirs)) => ours == theirs,
        _ => meaning(ours) == meaning(theirs),
    }
}

/// The meaning of a node, where an annotation that adds nothing counts as none.
fn meaning(node: &Type) -> Meaning {
    let whole = match physical(node) {
        Some((PhysicalType::INT32, _)) => 32,
        Some((PhysicalType::INT64, _)) => 64,
        _ => 0,
    };
    match Meaning::of_node(node) {
        Meaning::Integer { bits, signed: true } if bits == whole => Meaning::Plain,
        // The middle group of a map in old files.
        _ if node.get_basic_info().converted_type() == ConvertedType::MAP_KEY_VALUE => Meaning::Plain,
        other => other,
    }
}

fn repetition(node: &Type) -> Repetition {
    let info = node.get_basic_info();
    if info.has_repetition() {
        info.repetition()
    } else {
        Repetition::REQUIRED
    }
}

fn repetition_name(node: &Type) -> &'static str {
    match repetition(node) {
        Repetition::REQUIRED => "required (not nullable)",
        Repetition::OPTIONAL => "optional (nullable)",
        Repetition::REPEATED => "repeated",
    }
}

/// The field id; readers take a negative one for none.
fn field_id(node: &Type) -> Option<i32> {
    let info = node.get_basic_info();
    info.has_id().then(|| info.id()).filter(|id| *id >= 0)
}

/// A node's type for people.
struct Described<'a>(&'a Type);

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match physical(self.0) {
            Some((PhysicalType::FIXED_LEN_BYTE_ARRAY, length)) => {
                write!(f, "FIXED_LEN_BYTE_ARRAY({length})")?;
            }
            Some((physical, _)) => write!(f, "{physical}")?,
            None => write!(f, "a group")?,
        }
        match Meaning::of_node(self.0).name() {
            Some(name) => write!(f, " {name}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use parquet::schema::parser::parse_message_type;

    use super::*;

    fn found(expected: &str, found: &str) -> Option<(String, String, String)> {
        let schema =
            |fields: &str, root: &str| parse_message_type(&format!("message {root} {{ {fields} }}")).unwrap();
        let difference = schema_difference(&schema(expected, "schema"), &schema(found, "spark_schema"))?;
        Some((difference.column, difference.found, difference.expected))
    }

    #[test]
    fn each_kind_of_difference_is_found_at_its_column() {
        let base = "required int64 a; optional group b { optional int32 c; repeated binary d (STRING); }";
        assert_eq!(found(base, base), None);
        for (other, column) in [
            ("required int64 a;", "b"),
            (&base.replace("repeated binary d (STRING);", ""), "b.d"),
            (&format!("{base} optional int32 e;"), "e"),
            (&base.replace("required int64 a", "optional int64 a"), "a"),
            (&base.replace("int32 c", "int64 c"), "b.c"),
            (&base.replace("int32 c", "int32 c (INTEGER(8,true))"), "b.c"),
            (&base.replace("int32 c", "int32 c = 7"), "b.c"),
            (&base.replace(" (STRING)", ""), "b.d"),
            (&base.replace("optional group b", "required group b"), "b"),
            (
                "optional group b { optional int32 c; repeated binary d (STRING); } required int64 a;",
                "a",
            ),
        ] {
            let (place, ours, theirs) = found(base, other).unwrap();
            assert_eq!(place, column, "{other}");
            assert_ne!(ours, theirs);
            assert_eq!(
                found(other, base).unwrap().0.split('.').next(),
                column
                    .split('.')
                    .next()
                    .map(|name| if name == "a" && other.starts_with("optional group") {
                        "b"
                    } else {
                        name
                    })
            );
        }
    }

    #[test]
    fn converted_types_are_the_logical_types_that_they_stand_for() {
        for (physical, converted, logical) in [
            ("binary", "UTF8", "STRING"),
            ("int32", "INT_8", "INTEGER(8,true)"),
            ("int64", "TIMESTAMP_MICROS", "TIMESTAMP(MICROS,true)"),
            ("int32", "DATE", "DATE"),
            ("int64", "DECIMAL(9,2)", "DECIMAL(9,2)"),
        ] {
            let column = |annotation| format!("optional {physical} a ({annotation});");
            assert_eq!(found(&column(converted), &column(logical)), None, "{converted}");
        }
        let local = "optional int64 a (TIMESTAMP(MICROS,false));";
        assert!(found(local, "optional int64 a (TIMESTAMP_MICROS);").is_some());
        assert_eq!(
            found("optional int32 a;", "optional int32 a (INTEGER(32,true));"),
            None
        );
        assert!(found("optional int32 a;", "optional int32 a (INTEGER(32,false));").is_some());
    }
}
