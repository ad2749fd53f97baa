//! Nulls in fields that must not have any, wherever they are nested.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field};

use crate::error::{Result, WriteError};
use crate::lists::{child_of_lists, element_field, reached};

/// # Errors
/// [`WriteError::Schema`] when a non-nullable field has a null that is not under a null parent.
pub(super) fn check(field: &Field, array: &ArrayRef) -> Result<()> {
    if may_miss_a_value(field, array) {
        visit(field, field.name(), array, None)?;
    }
    Ok(())
}

/// Returns true if some field without nulls has any, under null parents or not. This check comes first, since it costs
/// next to nothing.
fn may_miss_a_value(field: &Field, array: &ArrayRef) -> bool {
    if !field.is_nullable() && array.is_nullable() {
        return true;
    }
    match (field.data_type(), array.data_type()) {
        (DataType::Struct(fields), DataType::Struct(_)) => {
            let mut children = fields.iter().zip(array.as_struct().columns());
            children.any(|(field, child)| may_miss_a_value(field, child))
        }
        (data_type, _) => element_field(data_type)
            .zip(child_of_lists(array))
            .is_some_and(|(field, child)| may_miss_a_value(field, &child)),
    }
}

/// `live` says which slots are reached: those under a null parent are not.
fn visit(field: &Field, path: &str, array: &ArrayRef, live: Option<&NullBuffer>) -> Result<()> {
    let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    if !field.is_nullable()
        && let Some(nulls) = &nulls
        && let Some(row) =
            (0..array.len()).find(|&row| nulls.is_null(row) && live.is_none_or(|live| live.is_valid(row)))
    {
        return Err(WriteError::column(
            path,
            format!(
                "column {path:?} is not nullable and has a null in slot {row} of this batch. Declare the field nullable, \
             unless it is part of a variant, or fill the nulls; the writer can go on"
            ),
        ));
    }
    if !has_required_child(field.data_type()) {
        return Ok(());
    }
    let live = NullBuffer::union(nulls.as_ref(), live);
    visit_children(field.data_type(), path, array, live.as_ref())
}

fn has_required_child(data_type: &DataType) -> bool {
    let required = |field: &Field| !field.is_nullable() || has_required_child(field.data_type());
    match data_type {
        DataType::Struct(fields) => fields.iter().any(|field| required(field)),
        _ => element_field(data_type).is_some_and(|field| required(field)),
    }
}

fn visit_children(
    data_type: &DataType,
    path: &str,
    array: &ArrayRef,
    live: Option<&NullBuffer>,
) -> Result<()> {
    if let (DataType::Struct(fields), DataType::Struct(_)) = (data_type, array.data_type()) {
        return fields
            .iter()
            .zip(array.as_struct().columns())
            .try_for_each(|(field, child)| visit(field, &format!("{path}.{}", field.name()), child, live));
    }
    let Some((field, child)) = element_field(data_type).zip(child_of_lists(array)) else {
        return Ok(());
    };
    let reached = reached(array, child.len(), live);
    visit(field, &format!("{path}.element"), &child, Some(&reached))
}
