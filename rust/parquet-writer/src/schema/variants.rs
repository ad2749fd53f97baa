//! Variants: structs of `metadata` and `value`, and of `typed_value` where they are shredded.
//!
//! `VariantEncoding.md` and `VariantShredding.md` of the Parquet format say which fields such a group has, of which
//! types, and which of them may be null. What the bytes mean is not looked at.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};

use super::plain;
use crate::error::{Result, WriteError};
use crate::lists::element_field;

/// The name of the extension type, and the one that it had before it was canonical.
const NAMES: [&str; 2] = ["arrow.parquet.variant", "parquet.variant"];
const METADATA: &str = "metadata";
const VALUE: &str = "value";
const TYPED_VALUE: &str = "typed_value";
const MOST_DIGITS: u8 = 38;

/// Returns true if a field declares that it holds variants.
pub(super) fn is_variant(field: &Field) -> bool {
    let name = field.extension_type_name();
    name.is_some_and(|name| NAMES.contains(&name))
}

/// The schema in which fields of variants accept nulls where the format has them optional, and nowhere else.
///
/// # Errors
/// [`WriteError::Schema`] names the field that variants cannot have.
pub(super) fn conform(schema: &SchemaRef) -> Result<SchemaRef> {
    let fields = schema.fields();
    if !fields.iter().any(|field| holds_variants(field)) {
        return Ok(Arc::clone(schema));
    }
    let fields = fields.iter().map(|field| conformed(field, field.name()));
    let fields: Fields = fields.collect::<Result<_>>()?;
    Ok(Arc::new(Schema::new_with_metadata(
        fields,
        schema.metadata().clone(),
    )))
}

fn holds_variants(field: &Field) -> bool {
    let inside = || match field.data_type() {
        DataType::Struct(fields) => fields.iter().any(|field| holds_variants(field)),
        data_type => element_field(data_type).is_some_and(|element| holds_variants(element)),
    };
    is_variant(field) || inside()
}

/// A field with conforming variants in it.
fn conformed(field: &FieldRef, path: &str) -> Result<FieldRef> {
    if is_variant(field) {
        return variant(field, path);
    }
    let each = |field: &FieldRef| conformed(field, &format!("{path}.{}", field.name()));
    let data_type = match field.data_type() {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(each).collect::<Result<_>>()?),
        data_type => match element_field(data_type) {
            Some(element) => with_element(data_type, each(element)?),
            None => return Ok(Arc::clone(field)),
        },
    };
    Ok(Arc::new(Field::clone(field).with_data_type(data_type)))
}

/// A list or map with another field in it.
fn with_element(lists: &DataType, element: FieldRef) -> DataType {
    match lists {
        DataType::List(_) => DataType::List(element),
        DataType::LargeList(_) => DataType::LargeList(element),
        DataType::ListView(_) => DataType::ListView(element),
        DataType::LargeListView(_) => DataType::LargeListView(element),
        DataType::FixedSizeList(_, size) => DataType::FixedSizeList(element, *size),
        DataType::Map(_, sorted) => DataType::Map(element, *sorted),
        other => other.clone(),
    }
}

fn variant(field: &FieldRef, path: &str) -> Result<FieldRef> {
    let DataType::Struct(fields) = field.data_type() else {
        return Err(fault(path, &format!("it is {} and no struct", field.data_type())));
    };
    if !fields.iter().any(|field| field.name() == METADATA) {
        return Err(fault(path, "it has no field \"metadata\""));
    }
    let is_shredded = fields.iter().any(|field| field.name() == TYPED_VALUE);
    let of_name = |field: &FieldRef, path: &str| match field.name().as_str() {
        METADATA => bytes(field, path, false).map(Some),
        VALUE => bytes(field, path, is_shredded).map(Some),
        TYPED_VALUE => typed_value(field, path).map(Some),
        _ => Ok(None),
    };
    with_fields(field, fields, path, of_name)
}

/// A field of an object, or an element of a list: a value that is there, with its type or without.
fn shredded(field: &FieldRef, path: &str) -> Result<FieldRef> {
    let DataType::Struct(fields) = field.data_type() else {
        let kind = field.data_type();
        return Err(fault(
            path,
            &format!("a shredded field or element is a struct, and no {kind}"),
        ));
    };
    let of_name = |field: &FieldRef, path: &str| match field.name().as_str() {
        VALUE => bytes(field, path, true).map(Some),
        TYPED_VALUE => typed_value(field, path).map(Some),
        _ => Ok(None),
    };
    let group = with_fields(field, fields, path, of_name)?;
    Ok(Arc::new(Field::clone(&group).with_nullable(false)))
}

/// A struct with each field as `of_name` has it; none where the struct may not have it. One of them holds the value.
fn with_fields(
    field: &FieldRef,
    fields: &Fields,
    path: &str,
    of_name: impl Fn(&FieldRef, &str) -> Result<Option<FieldRef>>,
) -> Result<FieldRef> {
    let is_value = |field: &FieldRef| [VALUE, TYPED_VALUE].contains(&field.name().as_str());
    if !fields.iter().any(is_value) {
        return Err(fault(path, "it has neither \"value\" nor \"typed_value\""));
    }
    if let Some(twice) = repeated(fields) {
        return Err(fault(path, &format!("it has two fields {twice:?}")));
    }
    let mut found: Vec<FieldRef> = Vec::with_capacity(fields.len());
    for field in fields {
        let inner = format!("{path}.{}", field.name());
        let Some(field) = of_name(field, &inner)? else {
            return Err(fault(&inner, "no such field is expected there"));
        };
        found.push(field);
    }
    Ok(Arc::new(
        Field::clone(field).with_data_type(DataType::Struct(found.into())),
    ))
}

/// The first name that two fields have.
fn repeated(fields: &Fields) -> Option<&String> {
    let mut seen = HashSet::new();
    fields
        .iter()
        .map(|field| field.name())
        .find(|name| !seen.insert(*name))
}

fn bytes(field: &FieldRef, path: &str, nullable: bool) -> Result<FieldRef> {
    match plain(field.data_type()) {
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            Ok(Arc::new(Field::clone(field).with_nullable(nullable)))
        }
        other => Err(fault(path, &format!("it is {other} and not binary"))),
    }
}

fn typed_value(field: &FieldRef, path: &str) -> Result<FieldRef> {
    let inner = |field: &FieldRef| shredded(field, &format!("{path}.{}", field.name()));
    let data_type = match field.data_type() {
        DataType::Map(_, _) => return Err(not_shredded(field, path)),
        DataType::Struct(fields) if !fields.is_empty() => {
            if let Some(twice) = repeated(fields) {
                return Err(fault(path, &format!("it has two fields {twice:?}")));
            }
            DataType::Struct(fields.iter().map(inner).collect::<Result<_>>()?)
        }
        data_type => match element_field(data_type) {
            Some(element) => with_element(data_type, inner(element)?),
            None if is_primitive(field) => data_type.clone(),
            None => return Err(not_shredded(field, path)),
        },
    };
    Ok(Arc::new(
        Field::clone(field).with_data_type(data_type).with_nullable(true),
    ))
}

fn not_shredded(field: &Field, path: &str) -> WriteError {
    fault(path, &format!("no value is shredded as {}", field.data_type()))
}

/// Returns true if the format has a variant of this type that is no object and no array.
fn is_primitive(field: &Field) -> bool {
    use DataType::{
        Binary, BinaryView, Boolean, Date32, Decimal32, Decimal64, Decimal128, FixedSizeBinary, Float32,
        Float64, Int8, Int16, Int32, Int64, LargeBinary, LargeUtf8, Time64, Timestamp, Utf8, Utf8View,
    };
    match plain(field.data_type()) {
        Decimal32(digits, _) | Decimal64(digits, _) | Decimal128(digits, _) => *digits <= MOST_DIGITS,
        FixedSizeBinary(width) => *width == 16 && field.extension_type_name() == Some("arrow.uuid"),
        data_type => matches!(
            data_type,
            Boolean
                | Int8
                | Int16
                | Int32
                | Int64
                | Float32
                | Float64
                | Date32
                | Time64(TimeUnit::Microsecond)
                | Timestamp(TimeUnit::Microsecond | TimeUnit::Nanosecond, _)
                | Utf8
                | LargeUtf8
                | Utf8View
                | Binary
                | LargeBinary
                | BinaryView
        ),
    }
}

fn fault(path: &str, what: &str) -> WriteError {
    WriteError::column(
        path,
        format!(
            "column {path:?} does not suit a variant: {what}. Give the variant the binary fields \"metadata\" and \
             \"value\", and \"typed_value\" if it is shredded, or leave the name of the extension type out"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITH_VALUE: [(&str, DataType); 2] = [(METADATA, DataType::Binary), (VALUE, DataType::BinaryView)];

    /// A field of variants with these fields, all of which may be null.
    fn field(fields: &[(&str, DataType)]) -> Field {
        let fields = fields
            .iter()
            .map(|(name, kind)| Field::new(*name, kind.clone(), true));
        let metadata = [("ARROW:extension:name".to_owned(), NAMES[0].to_owned())];
        Field::new("v", DataType::Struct(fields.collect()), true).with_metadata(metadata)
    }

    fn conforming(field: Field) -> Result<Field> {
        let schema = conform(&Arc::new(Schema::new(vec![field])))?;
        Ok(schema.field(0).clone())
    }

    /// The names of fields that accept nulls.
    fn nullable(field: &Field) -> Vec<String> {
        let DataType::Struct(fields) = field.data_type() else {
            return Vec::new();
        };
        let inside = fields.iter().flat_map(|field| {
            let own = field.is_nullable().then(|| field.name().clone());
            own.into_iter().chain(nullable(field))
        });
        inside.collect()
    }

    fn group(fields: &[(&str, DataType)]) -> DataType {
        field(fields).data_type().clone()
    }

    #[test]
    fn a_variant_has_its_metadata_and_value_in_every_row() {
        let found = conforming(field(&WITH_VALUE)).unwrap();
        assert!(found.is_nullable());
        assert_eq!(nullable(&found), Vec::<String>::new());
    }

    #[test]
    fn a_shredded_variant_may_miss_its_value_but_no_group() {
        let object = group(&[(
            "n",
            group(&[(VALUE, DataType::Binary), (TYPED_VALUE, DataType::Int64)]),
        )]);
        let [metadata, value] = WITH_VALUE;
        let found = conforming(field(&[metadata, value, (TYPED_VALUE, object)])).unwrap();
        assert_eq!(nullable(&found), [VALUE, TYPED_VALUE, VALUE, TYPED_VALUE]);
        assert_eq!(conforming(found.clone()).unwrap(), found);
    }

    #[test]
    fn elements_are_shredded_like_fields() {
        let element = Field::new("item", group(&[(TYPED_VALUE, DataType::Utf8)]), true);
        let list = DataType::List(Arc::new(element));
        let [metadata, _] = WITH_VALUE;
        let found = conforming(field(&[metadata.clone(), (TYPED_VALUE, list)])).unwrap();
        let DataType::Struct(fields) = found.data_type() else {
            panic!("{found:?}");
        };
        let element = element_field(fields[1].data_type()).unwrap();
        assert!(!element.is_nullable());
        let plain = DataType::new_list(DataType::Utf8, true);
        assert!(conforming(field(&[metadata, (TYPED_VALUE, plain)])).is_err());
    }

    #[test]
    fn groups_that_are_no_variants_are_refused() {
        let [metadata, value] = WITH_VALUE;
        let typed = |kind: DataType| vec![metadata.clone(), (TYPED_VALUE, kind)];
        let refused = [
            vec![value.clone()],
            vec![metadata.clone()],
            vec![metadata.clone(), value.clone(), ("more", DataType::Binary)],
            vec![metadata.clone(), value.clone(), value.clone()],
            vec![(METADATA, DataType::Utf8), value],
            typed(DataType::UInt8),
            typed(DataType::Timestamp(TimeUnit::Millisecond, None)),
            typed(DataType::FixedSizeBinary(16)),
            typed(DataType::Decimal256(50, 2)),
            typed(group(&[("n", DataType::Int64)])),
            typed(group(&[
                ("n", group(&[(VALUE, DataType::Binary)])),
                ("n", group(&[(VALUE, DataType::Binary)])),
            ])),
            typed(group(&[(
                "n",
                group(&[(METADATA, DataType::Binary), (VALUE, DataType::Binary)]),
            )])),
        ];
        for fields in refused {
            let error = conforming(field(&fields)).unwrap_err().to_string();
            assert!(error.contains("does not suit a variant"), "{error}");
        }
        let text = Field::new("v", DataType::Utf8, true).with_metadata(field(&[]).metadata().clone());
        assert!(conforming(text).is_err());
    }

    #[test]
    fn variants_in_lists_and_structs_are_found() {
        let inside = Field::new("s", DataType::Struct(vec![field(&WITH_VALUE)].into()), true);
        let list = Field::new("l", DataType::List(Arc::new(inside)), true);
        let found = conforming(list).unwrap();
        let element = element_field(found.data_type()).unwrap();
        assert_eq!(nullable(element), ["v"]);
    }
}
