//! Lists of every layout, including maps, accessed through their elements.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};
use arrow_schema::{DataType, FieldRef};

/// The field of a list type's elements.
pub(crate) fn element_field(lists: &DataType) -> Option<&FieldRef> {
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

/// The child array that holds the elements of lists. Lists behind dictionaries and runs are not looked into.
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

/// The elements that belong to lists which `live` does not hide.
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

/// The slots of each row in the array of elements.
pub(crate) fn spans(array: &ArrayRef) -> Vec<(usize, usize)> {
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
