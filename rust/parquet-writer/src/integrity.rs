//! Integrity checks: find arrays that break the rules of their layout before anything relies on them.
//!
//! Arrays come unchecked over the C Data Interface: a key may have no value, a view may lead out of its buffer, text
//! may not be UTF-8. Flat text and bytes are checked run by run, when they are in the cache anyhow. All other arrays
//! are checked when they come in, so that a bad batch leaves the writer as it was.
//!
//! The first check ignores validity, and as a rule finds nothing. If it does, the second check looks at valid slots
//! only: slots that are null, or below a null, may hold anything.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryViewType, ByteViewType, RunEndIndexType, StringViewType};
use arrow_array::{
    Array, ArrayRef, GenericByteViewArray, GenericListViewArray, OffsetSizeTrait, RunArray,
    downcast_integer_array, downcast_run_array,
};
use arrow_buffer::{ArrowNativeType, NullBuffer};
use arrow_data::{ByteView, MAX_INLINE_VIEW_LEN};
use arrow_schema::{DataType, FieldRef, Schema};
use parquet_encode::sound::{Offset, is_ascii};

use crate::byte_slots::ByteSlots;
use crate::error::{Result, WriteError};
use crate::lists::{ElementSlots, ascending, child_of_lists, is_view_within, reached};

/// The most bytes of a value that a message shows.
const SHOWN_BYTES: usize = 32;
/// The high bits of the bytes in a short view.
const NOT_ASCII: u128 = 0x8080_8080_8080_8080_8080_8080 << 32;

/// Checks all columns but those of flat text and bytes, which [`check_run`] is for. Where a row is null, that is not
/// valid in `live`, the slots of all columns may hold anything.
///
/// # Errors
/// [`WriteError::Data`] names the column and says what is wrong.
pub(crate) fn check_layout(schema: &Schema, columns: &[ArrayRef], live: Option<&NullBuffer>) -> Result<()> {
    let columns = schema.fields().iter().zip(columns);
    columns
        .filter(|(_, column)| !is_flat_text(column.data_type()))
        .try_for_each(|(field, column)| check(field.name(), column, live))
}

/// Checks rows of a column that are about to be encoded, if the column is flat text or bytes.
///
/// # Errors
/// As [`check_layout`].
pub(crate) fn check_run(name: &str, rows: &ArrayRef) -> Result<()> {
    if is_flat_text(rows.data_type()) {
        check(name, rows, None)
    } else {
        Ok(())
    }
}

/// Replaces views outside of their buffer by empty ones. Only slots under nulls can have them, but kernels follow those
/// too.
///
/// # Errors
/// None for arrays that were checked.
pub(crate) fn without_stray_views(array: &ArrayRef) -> Result<ArrayRef> {
    fn bytes<T: ByteViewType>(array: &ArrayRef, values: &UncheckedBytes<'_>) -> Result<ArrayRef> {
        let array = array.as_byte_view::<T>();
        let views = array.views().iter().enumerate();
        let views = views.map(|(slot, view)| if values.is_sound_at(slot) { *view } else { 0 });
        Ok(Arc::new(GenericByteViewArray::<T>::try_new(
            views.collect(),
            array.data_buffers().to_vec(),
            array.nulls().cloned(),
        )?))
    }
    fn lists<T: OffsetSizeTrait>(array: &ArrayRef, field: &FieldRef) -> Result<ArrayRef> {
        let lists = array.as_list_view::<T>();
        let slots = lists.offsets().iter().zip(lists.sizes());
        let kept = |(offset, size): (&T, &T)| {
            let is_kept = is_view_within(*offset, *size, lists.values().len());
            if is_kept {
                (*offset, *size)
            } else {
                (T::zero(), T::zero())
            }
        };
        let (offsets, sizes): (Vec<T>, Vec<T>) = slots.map(kept).unzip();
        Ok(Arc::new(GenericListViewArray::<T>::try_new(
            Arc::clone(field),
            offsets.into(),
            sizes.into(),
            Arc::clone(lists.values()),
            lists.nulls().cloned(),
        )?))
    }
    match (array.data_type(), UncheckedBytes::of(array)) {
        (_, Some(values)) if values.are_sound() => Ok(Arc::clone(array)),
        (DataType::Utf8View, Some(values)) => bytes::<StringViewType>(array, &values),
        (DataType::BinaryView, Some(values)) => bytes::<BinaryViewType>(array, &values),
        (DataType::ListView(field), _) => lists::<i32>(array, field),
        (DataType::LargeListView(field), _) => lists::<i64>(array, field),
        _ => Ok(Arc::clone(array)),
    }
}

fn is_flat_text(data_type: &DataType) -> bool {
    use DataType::{Binary, LargeBinary, LargeUtf8, Utf8};
    matches!(data_type, Utf8 | LargeUtf8 | Binary | LargeBinary)
}

fn check(name: &str, column: &ArrayRef, live: Option<&NullBuffer>) -> Result<()> {
    if is_sound(column) {
        return Ok(());
    }
    match fault(name, column, live) {
        None => Ok(()),
        Some((path, what)) => Err(WriteError::Data(format!(
            "column {path:?} breaks the rules of the Arrow format: {what}"
        ))),
    }
}

/// Returns true if all slots are valid, those under nulls included.
pub(crate) fn is_sound(array: &ArrayRef) -> bool {
    match array.data_type() {
        DataType::Struct(_) => array.as_struct().columns().iter().all(is_sound),
        DataType::Dictionary(_, _) => {
            let (keys, values) = (
                array.as_any_dictionary().keys(),
                array.as_any_dictionary().values(),
            );
            keys_are_sound(keys, values.len()) && values_are_sound(keys, values)
        }
        DataType::RunEndEncoded(_, _) => downcast_run_array!(
            array => runs_are_sound(array),
            _ => true
        ),
        _ => match (UncheckedBytes::of(array), child_of_lists(array)) {
            (Some(bytes), _) => bytes.are_sound(),
            (_, Some(child)) => ElementSlots::of(array)
                .and_then(|slots| slots.within(child.len()))
                .is_some_and(|used| is_sound(&child.slice(used.start, used.len()))),
            (None, None) => true,
        },
    }
}

fn keys_are_sound(keys: &dyn Array, count: usize) -> bool {
    downcast_integer_array!(
        // No early answer, so that many are done at once.
        keys => keys.values().iter().map(|key| key.as_usize()).max().is_none_or(|most| most < count),
        _ => true
    )
}

/// Returns true if the values of a dictionary are valid. Where there are more values than keys, only the referenced
/// ones are checked.
fn values_are_sound(keys: &dyn Array, values: &ArrayRef) -> bool {
    match UncheckedBytes::of(values) {
        Some(bytes) if values.len() > keys.len() => downcast_integer_array!(
            keys => keys.values().iter().all(|key| bytes.is_sound_at(key.as_usize())),
            _ => true
        ),
        Some(bytes) => bytes.are_sound(),
        None => is_sound(values),
    }
}

fn runs_are_sound<T: RunEndIndexType>(runs: &RunArray<T>) -> bool {
    let ends = runs.run_ends();
    let rows = ends.offset() + ends.len();
    let ends = ends.values();
    let is_first = |end: &T::Native| end.to_usize().is_some_and(|end| end > 0);
    rows == 0
        || (ends.first().is_some_and(is_first)
            && ends.windows(2).all(|pair| pair[0] < pair[1])
            && ends
                .last()
                .and_then(|end| end.to_usize())
                .is_some_and(|end| end >= rows)
            && ends.len() <= runs.values().len()
            && is_sound(runs.values()))
}

/// Finds the first fault in a slot that is neither null nor hidden by `live`, and returns its path and description.
fn fault(path: &str, array: &ArrayRef, live: Option<&NullBuffer>) -> Option<(String, String)> {
    let at = |what: String| Some((path.to_owned(), what));
    let live = NullBuffer::union(array.nulls(), live);
    let live = live.as_ref();
    let mut slots = (0..array.len()).filter(|slot| live.is_none_or(|live| live.is_valid(*slot)));
    match array.data_type() {
        DataType::Struct(fields) => {
            let mut children = fields.iter().zip(array.as_struct().columns());
            children.find_map(|(field, child)| fault(&format!("{path}.{}", field.name()), child, live))
        }
        DataType::Dictionary(_, _) => {
            let (keys, values) = (
                array.as_any_dictionary().keys(),
                array.as_any_dictionary().values(),
            );
            let named: Vec<_> = slots.map(|slot| key_at(keys, slot)).collect();
            if named.iter().any(|key| *key >= values.len()) {
                return at(format!(
                    "a key names none of the {} values of its dictionary",
                    values.len()
                ));
            }
            let mut is_named = vec![false; values.len()];
            for key in named {
                is_named[key] = true;
            }
            fault(path, values, Some(&NullBuffer::from(is_named)))
        }
        DataType::RunEndEncoded(_, _) => {
            let values = downcast_run_array!(array => array.values(), _ => return None);
            fault(path, values, None)
                .or_else(|| at("the ends of runs do not ascend to the number of rows".into()))
        }
        _ => match (UncheckedBytes::of(array), child_of_lists(array)) {
            (Some(bytes), _) => {
                let what = || slots.find_map(|slot| bytes.fault_at(slot));
                bytes.fault_of_offsets().or_else(what).and_then(at)
            }
            (_, Some(child)) => {
                let lists = ElementSlots::of(array);
                if !slots.all(|slot| lists.is_none_or(|lists| lists.is_within(slot, child.len()))) {
                    return at(format!(
                        "a list has more than the {} elements that are there",
                        child.len()
                    ));
                }
                fault(path, &child, Some(&reached(array, child.len(), live)))
            }
            (None, None) => None,
        },
    }
}

fn key_at(keys: &dyn Array, slot: usize) -> usize {
    downcast_integer_array!(
        keys => keys.value(slot).as_usize(),
        _ => 0
    )
}

/// Values of text or bytes.
struct UncheckedBytes<'a> {
    is_text: bool,
    slots: ByteSlots<'a>,
}

impl<'a> UncheckedBytes<'a> {
    fn of(array: &'a ArrayRef) -> Option<Self> {
        use DataType::{LargeUtf8, Utf8, Utf8View};
        Some(Self {
            is_text: matches!(array.data_type(), Utf8 | LargeUtf8 | Utf8View),
            slots: ByteSlots::of(array)?,
        })
    }

    fn are_sound(&self) -> bool {
        match self.slots {
            ByteSlots::Offsets(offsets, data) => self.are_sound_between(offsets, data),
            ByteSlots::LargeOffsets(offsets, data) => self.are_sound_between(offsets, data),
            ByteSlots::Views(views, _) => (0..views.len()).all(|slot| self.is_sound_at(slot)),
        }
    }

    fn are_sound_between<T: OffsetSizeTrait + Offset>(&self, offsets: &[T], data: &[u8]) -> bool {
        let Some(span) = ascending(offsets, data.len()) else {
            return false;
        };
        let text = &data[span];
        if !self.is_text || is_ascii(text) {
            return true;
        }
        let begins = |offset: &T| {
            data.get(offset.as_usize())
                .is_none_or(|byte| !is_continuation(*byte))
        };
        simdutf8::basic::from_utf8(text).is_ok() && offsets.iter().all(begins)
    }

    fn is_sound_at(&self, slot: usize) -> bool {
        if let ByteSlots::Views(views, _) = self.slots
            && is_short(views[slot])
            && views[slot] & NOT_ASCII == 0
        {
            return true;
        }
        self.fault_at(slot).is_none()
    }

    fn fault_of_offsets(&self) -> Option<String> {
        let ascends = match self.slots {
            ByteSlots::Offsets(offsets, data) => ascending(offsets, data.len()).is_some(),
            ByteSlots::LargeOffsets(offsets, data) => ascending(offsets, data.len()).is_some(),
            ByteSlots::Views(_, _) => true,
        };
        (!ascends).then(|| "offsets go down, or beyond the values".into())
    }

    fn fault_at(&self, slot: usize) -> Option<String> {
        fn between<'a, T: OffsetSizeTrait>(offsets: &[T], data: &'a [u8], slot: usize) -> Option<&'a [u8]> {
            data.get(offsets[slot].to_usize()?..offsets[slot + 1].to_usize()?)
        }
        let short;
        let value = match self.slots {
            ByteSlots::Offsets(offsets, data) => between(offsets, data, slot),
            ByteSlots::LargeOffsets(offsets, data) => between(offsets, data, slot),
            ByteSlots::Views(views, _) if is_short(views[slot]) => {
                short = views[slot].to_le_bytes();
                let length = ByteView::from(views[slot]).length as usize;
                short.get(4..4 + length)
            }
            ByteSlots::Views(views, buffers) => {
                let view = ByteView::from(views[slot]);
                let (start, length) = (view.offset as usize, view.length as usize);
                buffers
                    .get(view.buffer_index as usize)
                    .and_then(|data| data.get(start..start + length))
            }
        };
        match value {
            None => Some("a value is not within its buffer".into()),
            Some(value) if self.is_text && !value.is_ascii() && std::str::from_utf8(value).is_err() => {
                let shown = value[..value.len().min(SHOWN_BYTES)].escape_ascii();
                Some(format!(
                    "text is not UTF-8: \"{shown}\". Cast it to binary, or decode it"
                ))
            }
            Some(_) => None,
        }
    }
}

fn is_short(view: u128) -> bool {
    ByteView::from(view).length <= MAX_INLINE_VIEW_LEN
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

#[cfg(test)]
mod tests {
    use arrow_array::make_array;
    use arrow_buffer::Buffer;
    use arrow_data::{ArrayData, ArrayDataBuilder};
    use arrow_schema::Field;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const VALUES: i32 = 8;

    /// An array of parts that were not checked.
    fn unchecked(builder: ArrayDataBuilder) -> ArrayData {
        // SAFETY: none; what is tested is that a fault is found before anything relies on there being none.
        #[expect(unsafe_code, reason = "arrays that break the rules cannot be made otherwise")]
        unsafe {
            builder.build_unchecked()
        }
    }

    fn rows<T>(values: &[T]) -> usize {
        values.len() - 1
    }

    /// Offsets, most of which are what they should be.
    fn offsets() -> impl Strategy<Value = Vec<i32>> {
        let any = vec(-1..=VALUES + 1, 2..6);
        prop_oneof![
            any.clone(),
            any.prop_map(|mut offsets| {
                for offset in &mut offsets {
                    *offset = (*offset).clamp(0, VALUES);
                }
                offsets.sort_unstable();
                offsets
            }),
        ]
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let text = vec(prop_oneof![Just("é"), Just("ab"), Just("日"), Just("z")], 8);
        prop_oneof![
            vec(any::<u8>(), 8..9),
            text.prop_map(|text| text.concat().into_bytes()),
        ]
    }

    fn text(offsets: Vec<i32>, data: Vec<u8>, data_type: DataType) -> ArrayData {
        let builder = ArrayData::builder(data_type).len(rows(&offsets));
        unchecked(
            builder
                .add_buffer(Buffer::from_vec(offsets))
                .add_buffer(Buffer::from_vec(data)),
        )
    }

    fn numbers(count: i32) -> ArrayData {
        ArrayData::builder(DataType::Int32)
            .len(usize::try_from(count).unwrap())
            .add_buffer(Buffer::from_vec((0..count).collect::<Vec<i32>>()))
            .build()
            .unwrap()
    }

    fn lists(offsets: Vec<i32>) -> ArrayData {
        let field = Arc::new(Field::new("element", DataType::Int32, true));
        let builder = ArrayData::builder(DataType::List(field)).len(rows(&offsets));
        unchecked(
            builder
                .add_buffer(Buffer::from_vec(offsets))
                .add_child_data(numbers(VALUES)),
        )
    }

    fn keys(keys: Vec<i8>) -> ArrayData {
        let data_type = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Int32));
        let builder = ArrayData::builder(data_type).len(keys.len());
        unchecked(
            builder
                .add_buffer(Buffer::from_vec(keys))
                .add_child_data(numbers(VALUES)),
        )
    }

    fn runs(ends: Vec<i32>, rows: usize) -> ArrayData {
        let runs = ends.len();
        let ends = ArrayData::builder(DataType::Int32)
            .len(runs)
            .add_buffer(Buffer::from_vec(ends));
        let field = |name: &str, nullable| Arc::new(Field::new(name, DataType::Int32, nullable));
        let data_type = DataType::RunEndEncoded(field("run_ends", false), field("values", true));
        let values = numbers(i32::try_from(runs).unwrap());
        let builder = ArrayData::builder(data_type)
            .len(rows)
            .add_child_data(ends.build().unwrap());
        unchecked(builder.add_child_data(values))
    }

    /// Views with the prefixes of what they lead to.
    fn views(views: &[(u32, u32, u32)], data: Vec<u8>) -> ArrayData {
        let view = |(length, buffer, offset): &(u32, u32, u32)| {
            let start = *offset as usize;
            let prefix = data.get(start..start + 4).map_or(0, |bytes| {
                u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
            });
            let view = ByteView::new(*length, &prefix.to_le_bytes());
            view.with_buffer_index(*buffer).with_offset(*offset).as_u128()
        };
        let built: Vec<u128> = views.iter().map(view).collect();
        let builder = ArrayData::builder(DataType::Utf8View).len(views.len());
        unchecked(
            builder
                .add_buffer(Buffer::from_vec(built))
                .add_buffer(Buffer::from_vec(data)),
        )
    }

    proptest! {
        #[test]
        fn the_rules_are_those_of_arrow(data in prop_oneof![
            (offsets(), bytes()).prop_map(|(offsets, data)| text(offsets, data, DataType::Utf8)),
            (offsets(), bytes()).prop_map(|(offsets, data)| text(offsets, data, DataType::Binary)),
            offsets().prop_map(lists),
            vec(-1..=8_i8, 1..20).prop_map(keys),
            (vec(0..6, 1..4), 1..6_usize).prop_map(|(ends, rows)| runs(ends, rows)),
            (vec((13..20_u32, 0..2_u32, 0..4_u32), 1..4), vec(any::<u8>(), 20)).prop_map(|(slots, data)| views(&slots, data)),
            (vec((13..20_u32, 0..2_u32, 0..4_u32), 1..4), vec(b'a'..=b'z', 20)).prop_map(|(slots, data)| views(&slots, data)),
        ]) {
            let by_arrow = data.validate_full();
            let found = check("x", &make_array(data), None);
            prop_assert_eq!(found.is_ok(), by_arrow.is_ok(), "{:?} and {:?}", found, by_arrow);
        }
    }
}
