//! Nulls in fields that must not have any, wherever they are nested.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};
use arrow_schema::{DataType, Field};

use crate::error::{Result, WriteError};

/// # Errors
/// [`WriteError::Schema`] when a non-nullable field has a null that is not under a null parent.
pub(super) fn check(field: &Field, array: &ArrayRef) -> Result<()> {
    visit(field, field.name(), array, None)
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
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => required(field),
        _ => false,
    }
}

fn visit_children(
    data_type: &DataType,
    path: &str,
    array: &ArrayRef,
    live: Option<&NullBuffer>,
) -> Result<()> {
    match (data_type, array.data_type()) {
        (DataType::Struct(fields), DataType::Struct(_)) => fields
            .iter()
            .zip(array.as_struct().columns())
            .try_for_each(|(field, child)| visit(field, &format!("{path}.{}", field.name()), child, live)),
        (
            DataType::List(field)
            | DataType::LargeList(field)
            | DataType::ListView(field)
            | DataType::LargeListView(field)
            | DataType::FixedSizeList(field, _)
            | DataType::Map(field, _),
            _,
        ) => {
            let (child, ranges) = elements(array);
            let Some(child) = child else { return Ok(()) };
            let mut reached = BooleanBufferBuilder::new(child.len());
            reached.append_n(child.len(), false);
            for (row, (start, end)) in ranges.into_iter().enumerate() {
                if live.is_none_or(|live| live.is_valid(row)) {
                    (start..end).for_each(|slot| reached.set_bit(slot, true));
                }
            }
            visit(
                field,
                &format!("{path}.element"),
                &child,
                Some(&NullBuffer::new(reached.finish())),
            )
        }
        _ => Ok(()),
    }
}

/// A list's child and the slots of each row in it; lists behind dictionaries and runs are not looked into.
fn elements(array: &ArrayRef) -> (Option<ArrayRef>, Vec<(usize, usize)>) {
    fn pairs<T: arrow_array::OffsetSizeTrait>(offsets: &[T]) -> Vec<(usize, usize)> {
        offsets
            .windows(2)
            .map(|pair| (pair[0].as_usize(), pair[1].as_usize()))
            .collect()
    }
    fn views<T: arrow_array::OffsetSizeTrait>(offsets: &[T], sizes: &[T]) -> Vec<(usize, usize)> {
        let end = |(start, size): (&T, &T)| (start.as_usize(), start.as_usize() + size.as_usize());
        offsets.iter().zip(sizes).map(end).collect()
    }
    match array.data_type() {
        DataType::List(_) => (
            Some(array.as_list::<i32>().values().clone()),
            pairs(array.as_list::<i32>().offsets()),
        ),
        DataType::LargeList(_) => (
            Some(array.as_list::<i64>().values().clone()),
            pairs(array.as_list::<i64>().offsets()),
        ),
        DataType::ListView(_) => {
            let list = array.as_list_view::<i32>();
            (Some(list.values().clone()), views(list.offsets(), list.sizes()))
        }
        DataType::LargeListView(_) => {
            let list = array.as_list_view::<i64>();
            (Some(list.values().clone()), views(list.offsets(), list.sizes()))
        }
        DataType::FixedSizeList(_, size) => {
            let (list, size) = (array.as_fixed_size_list(), usize::try_from(*size).unwrap_or(0));
            (
                Some(list.values().clone()),
                (0..list.len())
                    .map(|row| (row * size, (row + 1) * size))
                    .collect(),
            )
        }
        DataType::Map(_, _) => {
            let map = array.as_map();
            let entries = std::sync::Arc::new(map.entries().clone()) as ArrayRef;
            (Some(entries), pairs(map.offsets()))
        }
        _ => (None, Vec::new()),
    }
}
