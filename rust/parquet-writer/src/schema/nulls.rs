//! Nulls in fields that must not have any, wherever they are nested.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};
use arrow_schema::{DataType, Field, FieldRef};

use crate::error::{Result, WriteError};

/// # Errors
/// [`WriteError::Schema`] when a non-nullable field has a null that is not under a null parent.
pub(super) fn check(field: &Field, array: &ArrayRef) -> Result<()> {
    if may_miss_a_value(field, array) {
        visit(field, field.name(), array, None)?;
    }
    Ok(())
}

/// Whether some field without nulls has any, under null parents or not: asked first, since it costs next to nothing.
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

/// What the elements of lists are.
fn element_field(lists: &DataType) -> Option<&FieldRef> {
    match lists {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => Some(field),
        _ => None,
    }
}

/// What the elements of lists lie in; lists behind dictionaries and runs are not looked into.
pub(crate) fn child_of_lists(array: &ArrayRef) -> Option<ArrayRef> {
    Some(match array.data_type() {
        DataType::List(_) => array.as_list::<i32>().values().clone(),
        DataType::LargeList(_) => array.as_list::<i64>().values().clone(),
        DataType::ListView(_) => array.as_list_view::<i32>().values().clone(),
        DataType::LargeListView(_) => array.as_list_view::<i64>().values().clone(),
        DataType::FixedSizeList(_, _) => array.as_fixed_size_list().values().clone(),
        DataType::Map(_, _) => Arc::new(array.as_map().entries().clone()),
        _ => return None,
    })
}

/// `live` says which slots are reached: those under a null parent are not.
fn visit(field: &Field, path: &str, array: &ArrayRef, live: Option<&NullBuffer>) -> Result<()> {
    let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    if !field.is_nullable()
        && let Some(nulls) = &nulls
        && let Some(row) =
            (0..array.len()).find(|&row| nulls.is_null(row) && live.is_none_or(|live| live.is_valid(row)))
    {
        return Err(WriteError::Schema(format!(
            "column {path:?} is not nullable and has a null in slot {row} of this batch. Declare the field nullable or \
             fill the nulls; the writer can go on"
        )));
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

/// Which of so many elements are those of lists that `live` does not hide.
pub(crate) fn reached(lists: &ArrayRef, elements: usize, live: Option<&NullBuffer>) -> NullBuffer {
    let mut reached = BooleanBufferBuilder::new(elements);
    reached.append_n(elements, false);
    for (row, (start, end)) in spans(lists).into_iter().enumerate() {
        if live.is_none_or(|live| live.is_valid(row)) {
            (start..end).for_each(|slot| reached.set_bit(slot, true));
        }
    }
    NullBuffer::new(reached.finish())
}

/// The slots of each row in what the elements lie in.
fn spans(array: &ArrayRef) -> Vec<(usize, usize)> {
    fn pairs<T: arrow_array::OffsetSizeTrait>(offsets: &[T]) -> Vec<(usize, usize)> {
        offsets
            .windows(2)
            .map(|pair| (pair[0].as_usize(), pair[1].as_usize()))
            .collect()
    }
    fn views<T: arrow_array::OffsetSizeTrait>(offsets: &[T], sizes: &[T]) -> Vec<(usize, usize)> {
        // Lists of null may begin anywhere.
        let end =
            |(start, size): (&T, &T)| (start.as_usize(), start.as_usize().saturating_add(size.as_usize()));
        offsets.iter().zip(sizes).map(end).collect()
    }
    match array.data_type() {
        DataType::List(_) => pairs(array.as_list::<i32>().offsets()),
        DataType::LargeList(_) => pairs(array.as_list::<i64>().offsets()),
        DataType::ListView(_) => {
            let list = array.as_list_view::<i32>();
            views(list.offsets(), list.sizes())
        }
        DataType::LargeListView(_) => {
            let list = array.as_list_view::<i64>();
            views(list.offsets(), list.sizes())
        }
        DataType::FixedSizeList(_, size) => {
            let size = usize::try_from(*size).unwrap_or(0);
            (0..array.len())
                .map(|row| (row * size, (row + 1) * size))
                .collect()
        }
        DataType::Map(_, _) => pairs(array.as_map().offsets()),
        _ => Vec::new(),
    }
}
