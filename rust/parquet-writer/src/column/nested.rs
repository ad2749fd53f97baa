//! Column chunks of nested columns. Each leaf is encoded like a flat column, with levels of its own.

mod levels;

use std::ops::Range;
use std::slice::IterMut;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, make_array};
use arrow_data::transform::MutableArrayData;
use arrow_schema::{DataType, Field, FieldRef};

use super::flat::{self, LeafEncoder};
use super::{EncodedChunk, FieldEncoder, in_column, unexpected};
use crate::error::Result;
use crate::lists::{ElementSlots, child_of_lists, each_list_layout};
use levels::SlotLevels;

/// Encodes the leaves of one nested field of one row group.
pub(super) struct NestedEncoder {
    field: FieldRef,
    leaves: Vec<Box<dyn LeafEncoder>>,
}

impl NestedEncoder {
    /// `field` is in its encoded form; `leaves` has an encoder for each of its leaves.
    pub fn new(field: FieldRef, leaves: Vec<Box<dyn LeafEncoder>>) -> Self {
        Self { field, leaves }
    }
}

type Leaves<'a> = IterMut<'a, Box<dyn LeafEncoder>>;

/// Encodes an array leaf by leaf; `place` holds its levels.
fn write(field: &Field, array: &ArrayRef, place: &SlotLevels<'_>, leaves: &mut Leaves<'_>) -> Result<()> {
    if array.len() != place.slots() {
        return Err(unexpected(array.data_type()));
    }
    match field.data_type() {
        DataType::Struct(_) if field.is_nullable() => {
            write_fields(field, array, &place.in_nullable(array.nulls()), leaves)
        }
        DataType::Struct(_) => {
            place.require(array.nulls())?;
            write_fields(field, array, place, leaves)
        }
        DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => {
            write_lists(field, array, place, &mut |elements, place| {
                write(element, elements, place, leaves)
            })
        }
        // The entries of a map are there wherever its offsets say so.
        DataType::Map(entries, _) => write_lists(field, array, place, &mut |elements, place| {
            write_fields(entries, elements, place, leaves)
        }),
        _ => write_leaf(field, array, place, leaves),
    }
}

fn write_fields(
    field: &Field,
    array: &ArrayRef,
    place: &SlotLevels<'_>,
    leaves: &mut Leaves<'_>,
) -> Result<()> {
    let (DataType::Struct(fields), Some(array)) = (field.data_type(), array.as_struct_opt()) else {
        return Err(unexpected(array.data_type()));
    };
    let mut children = fields.iter().zip(array.columns());
    children.try_for_each(|(field, child)| write(field, child, place, leaves))
}

/// Calls `inside` with the elements of lists and their place.
fn write_lists(
    field: &Field,
    array: &ArrayRef,
    place: &SlotLevels<'_>,
    inside: &mut dyn FnMut(&ArrayRef, &SlotLevels<'_>) -> Result<()>,
) -> Result<()> {
    let (nullable, nulls) = (field.is_nullable(), array.nulls());
    let (slots, values) = ElementSlots::of(array)
        .zip(child_of_lists(array))
        .ok_or_else(|| unexpected(array.data_type()))?;
    let most = slots.reach().len();
    let elements = each_list_layout!(slots, of_row => place.elements(nullable, nulls, of_row, most))?;
    let values = gathered(&values, &elements.ranges)?;
    inside(&values, &place.of_elements(&elements, nullable))
}

/// The slots of some ranges. They are copied only if there are gaps between the ranges.
fn gathered(values: &ArrayRef, ranges: &[Range<usize>]) -> Result<ArrayRef> {
    match ranges {
        [] => Ok(values.slice(0, 0)),
        [range] => Ok(values.slice(range.start, range.len())),
        _ => {
            let data = values.to_data();
            let slots = ranges.iter().map(Range::len).sum();
            let mut copy = MutableArrayData::new(vec![&data], false, slots);
            for range in ranges {
                copy.try_extend(0, range.start, range.end)?;
            }
            Ok(make_array(copy.freeze()))
        }
    }
}

fn write_leaf(
    field: &Field,
    array: &ArrayRef,
    place: &SlotLevels<'_>,
    leaves: &mut Leaves<'_>,
) -> Result<()> {
    let leaf = leaves.next().ok_or_else(|| unexpected(array.data_type()))?;
    let array = flat::plain_values(array)?;
    let nulls = flat::nulls(&array);
    if !field.is_nullable() {
        place.require(nulls.as_ref())?;
        return leaf.write_run(&array, place.valid(), Some(place.levels()), place.rows);
    }
    if leaf.has_bits_for_levels() {
        let valid = place.and_valid(nulls.as_ref());
        return leaf.write_run(&array, valid.as_ref(), None, place.rows);
    }
    let place = place.in_nullable(nulls.as_ref());
    leaf.write_run(&array, place.valid(), Some(place.levels()), place.rows)
}

impl FieldEncoder for NestedEncoder {
    fn write(&mut self, run: &ArrayRef) -> Result<()> {
        let place = SlotLevels::of_rows(run.len());
        write(&self.field, run, &place, &mut self.leaves.iter_mut())
            .map_err(|error| in_column(self.field.name(), error))
    }

    fn preserve(&mut self, leaf: usize, values: &ArrayRef) -> Result<()> {
        match self.leaves.get_mut(leaf) {
            Some(leaf) => leaf.preserve(0, values),
            None => Ok(()),
        }
    }

    fn tracked_bytes(&self) -> usize {
        self.leaves.iter().map(|leaf| leaf.tracked_bytes()).sum()
    }

    fn filter_bytes(&self) -> u64 {
        self.leaves.iter().map(|leaf| leaf.filter_bytes()).sum()
    }

    fn encoded_bytes(&self) -> u64 {
        self.leaves.iter().map(|leaf| leaf.encoded_bytes()).sum()
    }

    fn close(self: Box<Self>, each: &mut dyn FnMut(EncodedChunk) -> Result<()>) -> Result<()> {
        let mut leaves = self.leaves.into_iter();
        leaves.try_for_each(|leaf| leaf.close(each))
    }
}
