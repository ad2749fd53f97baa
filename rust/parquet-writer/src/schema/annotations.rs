//! Logical types that the names of Arrow's extension types stand for, and that the `parquet` crate does not write.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema};
use parquet::basic::LogicalType;
use parquet::schema::types::{SchemaDescriptor, Type, TypePtr};

use super::{geospatial, variants};
use crate::error::Result;
use crate::lists::element_field;

/// The version of `VariantEncoding.md`.
const VARIANT_VERSION: i8 = 1;

/// Parquet's schema, made of `encoded`, with the logical types of geometries and variants.
///
/// # Errors
/// [`WriteError::Schema`](crate::WriteError::Schema) names the column whose extension type has wrong metadata.
pub(super) fn annotated(parquet: SchemaDescriptor, encoded: &Schema) -> Result<SchemaDescriptor> {
    let root = parquet.root_schema();
    let fields = of_fields(root.get_fields(), encoded.fields(), "")?;
    if are_same(root.get_fields(), &fields) {
        return Ok(parquet);
    }
    let root = Type::group_type_builder(root.name()).with_fields(fields);
    Ok(SchemaDescriptor::new(Arc::new(root.build()?)))
}

fn are_same(before: &[TypePtr], after: &[TypePtr]) -> bool {
    let mut pairs = before.iter().zip(after);
    pairs.all(|(before, after)| Arc::ptr_eq(before, after))
}

fn of_fields(nodes: &[TypePtr], fields: &Fields, path: &str) -> Result<Vec<TypePtr>> {
    let each = nodes.iter().zip(fields).map(|(node, field)| {
        let dot = if path.is_empty() { "" } else { "." };
        of_field(node, field, &format!("{path}{dot}{}", field.name()))
    });
    each.collect()
}

/// A node with the logical types of the field that it was made of.
fn of_field(node: &TypePtr, field: &Field, path: &str) -> Result<TypePtr> {
    let own = logical_type(field, path)?;
    match (field.data_type(), element_field(field.data_type())) {
        (DataType::Struct(fields), _) => group(node, of_fields(node.get_fields(), fields, path)?, own),
        (_, Some(element)) => {
            // The repeated group stands between lists and their elements.
            let repeated = node.get_fields().iter().map(|repeated| {
                let inside = repeated.get_fields();
                let inside = match (field.data_type(), element.data_type()) {
                    (DataType::Map(_, _), DataType::Struct(fields)) => of_fields(inside, fields, path),
                    _ => of_fields(inside, &Fields::from(vec![Arc::clone(element)]), path),
                };
                group(repeated, inside?, None)
            });
            group(node, repeated.collect::<Result<_>>()?, None)
        }
        _ => leaf(node, own),
    }
}

fn logical_type(field: &Field, path: &str) -> Result<Option<LogicalType>> {
    if variants::is_variant(field) {
        return Ok(Some(LogicalType::variant(Some(VARIANT_VERSION))));
    }
    if field.extension_type_name() != Some(geospatial::NAME) {
        return Ok(None);
    }
    match field.data_type() {
        DataType::Binary | DataType::LargeBinary => geospatial::logical_type(field, path).map(Some),
        _ => Err(geospatial::not_binary(field, path)),
    }
}

fn group(node: &TypePtr, fields: Vec<TypePtr>, logical: Option<LogicalType>) -> Result<TypePtr> {
    if logical.is_none() && are_same(node.get_fields(), &fields) {
        return Ok(Arc::clone(node));
    }
    let info = node.get_basic_info();
    let group = Type::group_type_builder(node.name())
        .with_repetition(info.repetition())
        .with_converted_type(info.converted_type())
        .with_logical_type(logical.or_else(|| info.logical_type_ref().cloned()))
        .with_id(info.has_id().then(|| info.id()))
        .with_fields(fields);
    Ok(Arc::new(group.build()?))
}

fn leaf(node: &TypePtr, logical: Option<LogicalType>) -> Result<TypePtr> {
    if logical.is_none() {
        return Ok(Arc::clone(node));
    }
    let info = node.get_basic_info();
    let leaf = Type::primitive_type_builder(node.name(), node.get_physical_type())
        .with_repetition(info.repetition())
        .with_id(info.has_id().then(|| info.id()))
        .with_logical_type(logical);
    Ok(Arc::new(leaf.build()?))
}
