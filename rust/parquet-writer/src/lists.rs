//! Lists of every layout, including maps, accessed through their elements.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, OffsetSizeTrait};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};
use arrow_schema::{DataType, FieldRef};
use parquet_encode::sound::{Offset, ascend};

/// The field of the elements of a list type of any layout: that of the entries for a map, `None` for other types.
#[must_use]
pub fn element_field(lists: &DataType) -> Option<&FieldRef> {
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
    if let Some(slots) = ElementSlots::of(lists) {
        for row in (0..lists.len()).filter(|row| live.is_none_or(|live| live.is_valid(*row))) {
            slots.of_row(row).for_each(|slot| reached.set_bit(slot, true));
        }
    }
    NullBuffer::new(reached.finish())
}

/// The slots of each list's elements in their child array, whatever the layout.
///
/// Lists of null may begin and end anywhere, and those of arrays that were not checked too.
#[derive(Clone, Copy)]
pub(crate) enum ElementSlots<'a> {
    Offsets(&'a [i32]),
    LargeOffsets(&'a [i64]),
    Views(&'a [i32], &'a [i32]),
    LargeViews(&'a [i64], &'a [i64]),
    FixedSize { size: usize, rows: usize },
}

/// Evaluates an expression with a function that gives the slots of a row's elements. It is compiled once for each
/// layout, since loops over rows must not ask for it anew.
macro_rules! each_list_layout {
    ($slots:expr, $of_row:ident => $body:expr) => {{
        use arrow_buffer::ArrowNativeType;
        use $crate::lists::{ElementSlots, viewed};
        match $slots {
            ElementSlots::Offsets(offsets) => {
                let $of_row = |row: usize| offsets[row].as_usize()..offsets[row + 1].as_usize();
                $body
            }
            ElementSlots::LargeOffsets(offsets) => {
                let $of_row = |row: usize| offsets[row].as_usize()..offsets[row + 1].as_usize();
                $body
            }
            ElementSlots::Views(offsets, sizes) => {
                let $of_row = |row: usize| viewed(offsets[row], sizes[row]);
                $body
            }
            ElementSlots::LargeViews(offsets, sizes) => {
                let $of_row = |row: usize| viewed(offsets[row], sizes[row]);
                $body
            }
            ElementSlots::FixedSize { size, .. } => {
                let $of_row = |row: usize| row * size..(row + 1) * size;
                $body
            }
        }
    }};
}
pub(crate) use each_list_layout;

impl<'a> ElementSlots<'a> {
    /// The slots of lists and maps; `None` for other arrays.
    pub fn of(array: &'a ArrayRef) -> Option<Self> {
        Some(match array.data_type() {
            DataType::List(_) => Self::Offsets(array.as_list::<i32>().value_offsets()),
            DataType::LargeList(_) => Self::LargeOffsets(array.as_list::<i64>().value_offsets()),
            DataType::Map(_, _) => Self::Offsets(array.as_map().value_offsets()),
            DataType::ListView(_) => {
                let lists = array.as_list_view::<i32>();
                Self::Views(lists.value_offsets(), lists.value_sizes())
            }
            DataType::LargeListView(_) => {
                let lists = array.as_list_view::<i64>();
                Self::LargeViews(lists.value_offsets(), lists.value_sizes())
            }
            DataType::FixedSizeList(_, size) => Self::FixedSize {
                size: usize::try_from(*size).unwrap_or(0),
                rows: array.len(),
            },
            _ => return None,
        })
    }

    /// The slots of a row's elements.
    pub fn of_row(self, row: usize) -> Range<usize> {
        each_list_layout!(self, of_row => of_row(row))
    }

    /// The slots from the first to the last that lists have.
    pub fn reach(self) -> Range<usize> {
        let rows = self.rows();
        match self {
            Self::Views(_, _) | Self::LargeViews(_, _) => each_list_layout!(self, of_row => {
                let lists = (0..rows).map(of_row).filter(|slots| !slots.is_empty());
                let all = lists.reduce(|all, slots| all.start.min(slots.start)..all.end.max(slots.end));
                all.unwrap_or_default()
            }),
            _ if rows == 0 => 0..0,
            _ => self.of_row(0).start..self.of_row(rows - 1).end,
        }
    }

    /// The slots that all lists together may have; `None` where a list has slots beyond the first `count`.
    pub fn within(self, count: usize) -> Option<Range<usize>> {
        fn views<T: OffsetSizeTrait>(offsets: &[T], sizes: &[T], count: usize) -> Option<Range<usize>> {
            let is_within = |(offset, size): (&T, &T)| is_view_within(*offset, *size, count);
            offsets.iter().zip(sizes).all(is_within).then_some(0..count)
        }
        match self {
            Self::Offsets(offsets) => ascending(offsets, count),
            Self::LargeOffsets(offsets) => ascending(offsets, count),
            Self::Views(offsets, sizes) => views(offsets, sizes, count),
            Self::LargeViews(offsets, sizes) => views(offsets, sizes, count),
            Self::FixedSize { .. } => Some(0..count),
        }
    }

    /// Returns true if the elements of a row are among the first `count`.
    pub fn is_within(self, row: usize, count: usize) -> bool {
        match self {
            Self::Offsets(offsets) => ascending(&offsets[row..row + 2], count).is_some(),
            Self::LargeOffsets(offsets) => ascending(&offsets[row..row + 2], count).is_some(),
            Self::Views(offsets, sizes) => is_view_within(offsets[row], sizes[row], count),
            Self::LargeViews(offsets, sizes) => is_view_within(offsets[row], sizes[row], count),
            Self::FixedSize { .. } => true,
        }
    }

    fn rows(self) -> usize {
        match self {
            Self::Offsets(offsets) => offsets.len().saturating_sub(1),
            Self::LargeOffsets(offsets) => offsets.len().saturating_sub(1),
            Self::Views(offsets, _) => offsets.len(),
            Self::LargeViews(offsets, _) => offsets.len(),
            Self::FixedSize { rows, .. } => rows,
        }
    }
}

pub(crate) fn viewed<T: OffsetSizeTrait>(offset: T, size: T) -> Range<usize> {
    let start = offset.as_usize();
    start..start.saturating_add(size.as_usize())
}

/// Returns true if the elements of a list view are among the first `count`.
pub(crate) fn is_view_within<T: OffsetSizeTrait>(offset: T, size: T, count: usize) -> bool {
    let end = offset.to_usize().zip(size.to_usize());
    end.and_then(|(offset, size)| offset.checked_add(size))
        .is_some_and(|end| end <= count)
}

/// The range that offsets span, if they ascend and stay within `count` bytes or elements.
pub(crate) fn ascending<T: OffsetSizeTrait + Offset>(offsets: &[T], count: usize) -> Option<Range<usize>> {
    let (first, last) = (offsets.first()?.to_usize()?, offsets.last()?.to_usize()?);
    (last <= count && ascend(offsets)).then_some(first..last)
}
