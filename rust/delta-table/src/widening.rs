//! Type widening: columns whose type has changed since some of the files were written.
//!
//! A scan converts the values of such files to the type of today. The rules are those of "Type Widening" in Delta's
//! PROTOCOL.md.

use delta_commit::actions::Protocol;
use serde_json::Value;

use crate::error::{Result, TableError};
use crate::schema::{ColumnType, Primitive, TableColumn};

/// The names of the feature.
pub(crate) const FEATURES: [&str; 2] = ["typeWidening", "typeWidening-preview"];

/// The notes of a column about its former types.
const CHANGES: &str = "delta.typeChanges";

/// Checks that the values of all former types are values of the columns' types of today.
///
/// # Errors
/// [`delta_commit::CommitError::Unsupported`] names the first change that is not known, as the protocol asks for.
pub(crate) fn check(protocol: &Protocol, columns: &[TableColumn]) -> Result<()> {
    let mut features = protocol.reader_features.iter().flatten();
    if features.any(|feature| FEATURES.contains(&feature.as_str())) {
        check_columns(columns)?;
    }
    Ok(())
}

fn check_columns(columns: &[TableColumn]) -> Result<()> {
    for column in columns {
        let unknown = match column.metadata.get(CHANGES) {
            None => None,
            Some(Value::Array(changes)) => changes.iter().find(|change| !is_known(change)),
            odd => odd,
        };
        if let Some(change) = unknown {
            return Err(TableError::unsupported(format!(
                "the type of the column {:?} has changed in a way that is not known: {change}. Known are those of the \
                 feature typeWidening",
                column.name
            )));
        }
        for fields in column.kind.structs() {
            check_columns(fields)?;
        }
    }
    Ok(())
}

fn is_known(change: &Value) -> bool {
    let kind = |name| change.get(name).and_then(ColumnType::from_json);
    match (kind("fromType"), kind("toType")) {
        (Some(from), Some(to)) => widens(&from, &to),
        _ => false,
    }
}

/// Returns true if a column of one type may become one of the other.
///
/// These are the changes of the protocol, and those of whole numbers to decimals that lose nothing: the feature's
/// preview has made a byte a `decimal(4,1)`.
pub(crate) fn widens(from: &ColumnType, to: &ColumnType) -> bool {
    use Primitive::{Byte, Date, Double, Float, Integer, Long, Short, TimestampNtz};
    match (from, to) {
        (ColumnType::Primitive(from), ColumnType::Primitive(to)) => matches!(
            (from, to),
            (Byte, Short | Integer | Long)
                | (Short, Integer | Long)
                | (Integer, Long)
                | (Float | Byte | Short | Integer, Double)
                | (Date, TimestampNtz)
        ),
        (ColumnType::Primitive(from), ColumnType::Decimal(precision, scale)) => {
            let digits = match from {
                Byte => 3,
                Short => 5,
                Integer => 10,
                Long => 20,
                _ => return false,
            };
            extends((digits, 0), (*precision, *scale))
        }
        (ColumnType::Decimal(precision, scale), ColumnType::Decimal(to_precision, to_scale)) => {
            extends((*precision, *scale), (*to_precision, *to_scale))
        }
        _ => false,
    }
}

/// Returns true if a decimal type has all digits of another, before and after the point.
fn extends((precision, scale): (u8, i8), (to_precision, to_scale): (u8, i8)) -> bool {
    let more = i16::from(to_precision) - i16::from(precision);
    let more_after = i16::from(to_scale) - i16::from(scale);
    more >= more_after && more_after >= 0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::mapping::Mapping;
    use crate::schema::TableSchema;

    fn checked(from: &str, to: &str, feature: &str) -> Result<()> {
        let change = json!([{"fromType": from, "toType": to, "fieldPath": "element"}]);
        let field = json!({"name": "x", "type": "long", "nullable": true, "metadata": {CHANGES: change}});
        let text = json!({"type": "struct", "fields": [field]}).to_string();
        let protocol = Protocol {
            reader_features: Some(vec![feature.to_owned()]),
            ..Protocol::default()
        };
        check(
            &protocol,
            &TableSchema::parse(&text, Mapping::None).unwrap().columns,
        )
    }

    #[test]
    fn changes_of_the_protocol_are_known_and_others_refused_by_name() {
        for (from, to) in [
            ("byte", "short"),
            ("integer", "long"),
            ("float", "double"),
            ("short", "double"),
            ("date", "timestamp_ntz"),
            ("integer", "decimal(12,2)"),
            ("byte", "decimal(4,1)"),
            ("short", "decimal(6,1)"),
            ("long", "decimal(20,0)"),
            ("decimal(6,2)", "decimal(10,4)"),
        ] {
            for feature in FEATURES {
                assert!(checked(from, to, feature).is_ok(), "{from} {to}");
            }
            assert!(checked(to, from, FEATURES[0]).is_err(), "{to} {from}");
        }
        for (from, to) in [
            ("long", "double"),
            ("date", "timestamp"),
            ("long", "decimal(19,0)"),
            ("integer", "decimal(11,2)"),
            ("byte", "decimal(3,1)"),
            ("decimal(6,2)", "decimal(7,4)"),
            ("string", "interval"),
        ] {
            let refused = checked(from, to, FEATURES[0]).unwrap_err().to_string();
            assert!(refused.contains("\"x\"") && refused.contains(from), "{refused}");
            // Without the feature the notes are another writer's own.
            assert!(checked(from, to, "deletionVectors").is_ok());
        }
    }
}
