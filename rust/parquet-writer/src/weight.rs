//! The weight of rows: the bytes of their values, whatever the layout.
//!
//! Units are cut by these figures, so they must not depend on the layout: slots under nulls weigh nothing, and a string
//! weighs its bytes in every form.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, OffsetSizeTrait};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

use crate::lists::element_field;
use crate::schema::plain;

/// Bytes that an element of a list counts for besides its values.
const ELEMENT_BYTES: u64 = 8;

/// The bytes that an element of lists counts for besides its text, by its type.
type Element = fn(&DataType) -> u64;

/// The weight of each row of a set of columns.
pub struct Weights {
    columns: Vec<Column>,
    /// Bytes that every row has in fixed-size columns.
    fixed: u64,
}

enum Column {
    /// Offsets of a string or binary array: exact wherever no slot is null.
    Small(ArrayRef),
    Large(ArrayRef),
    /// The sum of all rows before each.
    Sums(Vec<u64>),
}

impl Weights {
    /// The weights of the rows of `columns`.
    #[must_use]
    pub fn new(columns: &[ArrayRef]) -> Self {
        Self::with(columns, |_| ELEMENT_BYTES)
    }

    /// The same with the widths of all that elements of lists hold, by which the size of rows is foreseen; `None` where
    /// it is the same.
    pub(crate) fn with_wide_elements(columns: &[ArrayRef]) -> Option<Self> {
        let mut types = columns.iter().map(Array::data_type);
        types
            .any(has_wide_elements)
            .then(|| Self::with(columns, element_bytes))
    }

    fn with(columns: &[ArrayRef], element: Element) -> Self {
        let mut fixed = 0;
        let columns = columns
            .iter()
            .filter_map(|column| match column.data_type() {
                DataType::FixedSizeBinary(size) => {
                    fixed += u64::try_from(*size).unwrap_or(0);
                    None
                }
                DataType::Utf8 | DataType::Binary => Some(Column::Small(column.clone())),
                DataType::LargeUtf8 | DataType::LargeBinary => Some(Column::Large(column.clone())),
                _ => sums(column, element).map(Column::Sums),
            })
            .collect();
        Self { columns, fixed }
    }

    /// An upper bound of the weight of the rows from `start` to `end`, in a few operations.
    fn at_most(&self, start: usize, end: usize) -> u64 {
        let columns: u64 = self.columns.iter().map(|column| column.at_most(start, end)).sum();
        columns + self.fixed * (end - start) as u64
    }

    fn exact(&self, row: usize) -> u64 {
        self.fixed + self.columns.iter().map(|column| column.exact(row)).sum::<u64>()
    }

    /// The weight of the rows from `start` to `end`.
    #[must_use]
    pub fn total(&self, start: usize, end: usize) -> u64 {
        let columns: u64 = self.columns.iter().map(|column| column.total(start, end)).sum();
        columns + self.fixed * (end - start) as u64
    }

    /// The first row heavier than `limit`, and its weight.
    pub(crate) fn first_above(&self, rows: usize, limit: u64) -> Option<(usize, u64)> {
        if self.at_most(0, rows) <= limit {
            return None;
        }
        let weighed = (0..rows).map(|row| (row, self.exact(row)));
        weighed.into_iter().find(|(_, weight)| *weight > limit)
    }

    /// The number of rows from `start` to `end` before `budget` is used up, and true if it was.
    ///
    /// The row that uses it up is counted in.
    #[must_use]
    pub fn rows_within(&self, start: usize, end: usize, budget: u64) -> (usize, bool) {
        if self.at_most(start, end) < budget {
            return (end - start, false);
        }
        let mut sure = start;
        let mut doubtful = end;
        // What lies under nulls is counted in here, so at least so many rows do not use the budget up.
        while doubtful - sure > 1 {
            let middle = usize::midpoint(sure, doubtful);
            if self.at_most(start, middle) < budget {
                sure = middle;
            } else {
                doubtful = middle;
            }
        }
        let mut sum = self.total(start, sure);
        for row in sure..end {
            sum += self.exact(row);
            if sum >= budget {
                return (row + 1 - start, true);
            }
        }
        (end - start, false)
    }
}

impl Column {
    fn at_most(&self, start: usize, end: usize) -> u64 {
        match self {
            Self::Small(array) => span(offsets::<i32>(array), start, end),
            Self::Large(array) => span(offsets::<i64>(array), start, end),
            Self::Sums(sums) => sums[end] - sums[start],
        }
    }

    fn total(&self, start: usize, end: usize) -> u64 {
        let under_nulls = match self {
            Self::Small(array) => under_nulls(array.nulls(), offsets::<i32>(array), start, end),
            Self::Large(array) => under_nulls(array.nulls(), offsets::<i64>(array), start, end),
            Self::Sums(_) => 0,
        };
        self.at_most(start, end).saturating_sub(under_nulls)
    }

    fn exact(&self, row: usize) -> u64 {
        match self {
            Self::Small(array) | Self::Large(array) if array.is_null(row) => 0,
            _ => self.at_most(row, row + 1),
        }
    }
}

/// Rows whose validity bits fill a word.
const WORD_ROWS: usize = 64;
/// More bytes than any array holds.
const MOST_BYTES: u64 = 1 << 40;

fn span<T: OffsetSizeTrait>(offsets: &[T], start: usize, end: usize) -> u64 {
    let (start, end) = (offsets[start].as_usize(), offsets[end].as_usize());
    // Offsets that break the rules are found when their rows are: until then they may say anything but the impossible.
    (end.wrapping_sub(start) as u64).min(MOST_BYTES)
}

/// The bytes of slots from `start` to `end` that are null. As a rule these have none, and whole words of validity bits
/// are passed over.
fn under_nulls<T: OffsetSizeTrait>(
    nulls: Option<&NullBuffer>,
    offsets: &[T],
    start: usize,
    end: usize,
) -> u64 {
    let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else {
        return 0;
    };
    let bits = nulls.inner().slice(start, end - start);
    let chunks = bits.bit_chunks();
    let words = chunks.iter().chain([chunks.remainder_bits()]);
    let mut bytes = 0_u64;
    for (word, first) in words.zip((start..).step_by(WORD_ROWS)) {
        let last = end.min(first + WORD_ROWS);
        let mut null = !word;
        if null == u64::MAX {
            bytes = bytes.saturating_add(span(offsets, first, last));
            continue;
        }
        while null != 0 {
            let row = first + null.trailing_zeros() as usize;
            if row >= last {
                break;
            }
            bytes = bytes.saturating_add(span(offsets, row, row + 1));
            null &= null - 1;
        }
    }
    bytes
}

fn offsets<T: OffsetSizeTrait>(array: &ArrayRef) -> &[T] {
    match array.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => array.as_string::<T>().value_offsets(),
        _ => array.as_binary::<T>().value_offsets(),
    }
}

/// The sums of weights before each row; `None` for a type whose values have one small size.
fn sums(array: &ArrayRef, element: Element) -> Option<Vec<u64>> {
    let nulls = array.nulls();
    let valid = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row));
    match array.data_type() {
        DataType::Utf8 | DataType::Binary => {
            let offsets = offsets::<i32>(array);
            Some(accumulate(array.len(), valid, |row| span(offsets, row, row + 1)))
        }
        DataType::LargeUtf8 | DataType::LargeBinary => {
            let offsets = offsets::<i64>(array);
            Some(accumulate(array.len(), valid, |row| span(offsets, row, row + 1)))
        }
        DataType::Utf8View => {
            let views = array.as_string_view().views();
            Some(accumulate(array.len(), valid, |row| view_length(views[row])))
        }
        DataType::BinaryView => {
            let views = array.as_binary_view().views();
            Some(accumulate(array.len(), valid, |row| view_length(views[row])))
        }
        DataType::FixedSizeBinary(size) => {
            let size = u64::try_from(*size).unwrap_or(0);
            Some(accumulate(array.len(), |_| true, |_| size))
        }
        DataType::Dictionary(_, _) => {
            let dictionary = array.as_any_dictionary();
            let values = sums(dictionary.values(), element)?;
            // An empty dictionary has null keys only, and no normal form of them.
            let keys = if values.len() > 1 {
                dictionary.normalized_keys()
            } else {
                vec![0; array.len()]
            };
            let weight = |row: usize| values.get(keys[row] + 1).map_or(0, |end| end - values[keys[row]]);
            Some(accumulate(array.len(), valid, weight))
        }
        DataType::RunEndEncoded(_, _) => sums(&crate::schema::expand_runs(array).ok()?, element),
        DataType::Struct(_) => structs(array, element),
        DataType::List(_) => Some(list(
            array.len(),
            valid,
            array.as_list::<i32>().value_offsets(),
            &elements(array.as_list::<i32>().values(), element),
        )),
        DataType::LargeList(_) => Some(list(
            array.len(),
            valid,
            array.as_list::<i64>().value_offsets(),
            &elements(array.as_list::<i64>().values(), element),
        )),
        DataType::Map(_, _) => {
            let map = array.as_map();
            let entries: ArrayRef = std::sync::Arc::new(map.entries().clone());
            Some(list(
                array.len(),
                valid,
                map.value_offsets(),
                &elements(&entries, element),
            ))
        }
        DataType::ListView(_) => {
            let list = array.as_list_view::<i32>();
            Some(view(
                array.len(),
                valid,
                list.offsets(),
                list.sizes(),
                &elements(list.values(), element),
            ))
        }
        DataType::LargeListView(_) => {
            let list = array.as_list_view::<i64>();
            Some(view(
                array.len(),
                valid,
                list.offsets(),
                list.sizes(),
                &elements(list.values(), element),
            ))
        }
        DataType::FixedSizeList(_, size) => {
            let size = usize::try_from(*size).unwrap_or(0);
            let elements = elements(array.as_fixed_size_list().values(), element);
            Some(accumulate(array.len(), valid, |row| {
                elements.total(row * size, (row + 1) * size)
            }))
        }
        _ => None,
    }
}

/// The length of a view's value, which is its first four bytes.
pub(crate) fn view_length(view: u128) -> u64 {
    let [a, b, c, d, ..] = view.to_le_bytes();
    u64::from(u32::from_le_bytes([a, b, c, d]))
}

fn accumulate(rows: usize, valid: impl Fn(usize) -> bool, weight: impl Fn(usize) -> u64) -> Vec<u64> {
    let mut sums = Vec::with_capacity(rows + 1);
    let mut sum = 0;
    sums.push(0);
    for row in 0..rows {
        if valid(row) {
            sum += weight(row);
        }
        sums.push(sum);
    }
    sums
}

fn structs(array: &ArrayRef, element: Element) -> Option<Vec<u64>> {
    let children = array.as_struct().columns().iter();
    let children: Vec<_> = children.filter_map(|child| sums(child, element)).collect();
    if children.is_empty() {
        return None;
    }
    let weight = |row: usize| children.iter().map(|child| child[row + 1] - child[row]).sum();
    Some(accumulate(array.len(), |row| array.is_valid(row), weight))
}

/// The elements of lists.
struct Elements {
    /// The sums of what each has of text and lists.
    inner: Option<Vec<u64>>,
    /// Bytes of each besides.
    width: u64,
}

fn elements(values: &ArrayRef, element: Element) -> Elements {
    Elements {
        inner: sums(values, element),
        width: element(values.data_type()),
    }
}

impl Elements {
    fn total(&self, start: usize, end: usize) -> u64 {
        let inner = self.inner.as_ref().map_or(0, |inner| inner[end] - inner[start]);
        inner + self.width * (end - start) as u64
    }
}

fn list<T: OffsetSizeTrait>(
    rows: usize,
    valid: impl Fn(usize) -> bool,
    offsets: &[T],
    elements: &Elements,
) -> Vec<u64> {
    accumulate(rows, valid, |row| {
        elements.total(offsets[row].as_usize(), offsets[row + 1].as_usize())
    })
}

fn view<T: OffsetSizeTrait>(
    rows: usize,
    valid: impl Fn(usize) -> bool,
    offsets: &[T],
    sizes: &[T],
    elements: &Elements,
) -> Vec<u64> {
    accumulate(rows, valid, |row| {
        let start = offsets[row].as_usize();
        elements.total(start, start + sizes[row].as_usize())
    })
}

/// Bytes of an element of lists: those of its values whose size its type says, and four for each length of text or
/// bytes; never less than in [`Weights::new`].
fn element_bytes(data_type: &DataType) -> u64 {
    width(data_type).max(ELEMENT_BYTES)
}

/// Bytes of a value without text, bytes and the elements of lists, the same in every layout.
fn width(data_type: &DataType) -> u64 {
    match plain(data_type) {
        DataType::Struct(fields) => fields.iter().map(|field| width(field.data_type())).sum(),
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView => 4,
        other => other.primitive_width().map_or(1, |bytes| bytes as u64),
    }
}

/// Returns true if there are lists in it whose elements have more than [`ELEMENT_BYTES`].
fn has_wide_elements(data_type: &DataType) -> bool {
    match plain(data_type) {
        DataType::Struct(fields) => fields.iter().any(|field| has_wide_elements(field.data_type())),
        list => element_field(list).is_some_and(|element| {
            let element = element.data_type();
            element_bytes(element) > ELEMENT_BYTES || has_wide_elements(element)
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Int64Type;
    use arrow_array::{Float64Array, LargeBinaryArray, ListArray, StringArray, StructArray};
    use arrow_buffer::OffsetBuffer;
    use arrow_schema::Field;
    use proptest::prelude::*;

    use super::*;

    /// Text with nulls over bytes, and binary without nulls.
    fn columns() -> impl Strategy<Value = Vec<ArrayRef>> {
        let row = (
            prop::option::of("[a-z]{0,40}"),
            prop::collection::vec(any::<u8>(), 0..20),
        );
        prop::collection::vec(row, 1..60).prop_map(|rows| {
            let text: StringArray = rows.iter().map(|(text, _)| text.as_deref()).collect();
            let bytes: LargeBinaryArray = rows.iter().map(|(_, bytes)| Some(bytes)).collect();
            vec![Arc::new(text) as ArrayRef, Arc::new(bytes)]
        })
    }

    proptest! {
        #[test]
        fn the_weight_of_rows_is_the_sum_of_theirs_whatever_lies_under_nulls(
            values in prop::collection::vec(("[a-z]{0,9}", any::<bool>()), 1..400),
            ends in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        ) {
            let full: StringArray = values.iter().map(|(text, _)| Some(text)).collect();
            let nulls: NullBuffer = values.iter().map(|(_, valid)| *valid).collect();
            let (offsets, bytes, _) = full.into_parts();
            let text: ArrayRef = Arc::new(StringArray::new(offsets, bytes, Some(nulls)));
            let (one, other) = (ends.0.index(values.len() + 1), ends.1.index(values.len() + 1));
            let (start, end) = (one.min(other), one.max(other));
            let expected: usize = values[start..end].iter().map(|(text, valid)| if *valid { text.len() } else { 0 }).sum();
            prop_assert_eq!(Weights::new(&[text]).total(start, end), expected as u64);
        }

        #[test]
        fn a_budget_ends_with_the_row_that_uses_it_up(columns in columns(), start in 0_usize..10, budget in 0_u64..900) {
            let (weights, end) = (Weights::new(&columns), columns[0].len());
            let start = start.min(end);
            let mut sum = 0;
            let last = (start..end).find(|row| {
                sum += weights.exact(*row);
                sum >= budget
            });
            let expected = last.map_or((end - start, false), |row| (row + 1 - start, true));
            prop_assert_eq!(weights.rows_within(start, end, budget), expected);
        }
    }

    /// A row for each length, of so many structs of three doubles and a text.
    fn lists(lengths: &[Option<usize>]) -> ArrayRef {
        let elements: usize = lengths.iter().flatten().sum();
        let doubles = || Arc::new(Float64Array::from(vec![0.5; elements])) as ArrayRef;
        let text: ArrayRef = Arc::new(StringArray::from(vec!["abc"; elements]));
        let named =
            |name, array: ArrayRef| (Arc::new(Field::new(name, array.data_type().clone(), true)), array);
        let children = [
            ("x", doubles()),
            ("y", doubles()),
            ("z", doubles()),
            ("text", text),
        ];
        let values = StructArray::from(children.map(|(name, array)| named(name, array)).to_vec());
        let field = Arc::new(Field::new("element", values.data_type().clone(), true));
        let offsets = OffsetBuffer::from_lengths(lengths.iter().map(|length| length.unwrap_or(0)));
        let nulls = lengths.iter().map(Option::is_some).collect();
        Arc::new(ListArray::new(field, offsets, Arc::new(values), Some(nulls)))
    }

    #[test]
    fn an_element_is_foreseen_with_all_that_it_holds_in_every_layout_and_units_stay() {
        let list = lists(&[Some(2), None, Some(0), Some(5)]);
        let DataType::List(field) = list.data_type() else {
            panic!("{} is no list", list.data_type())
        };
        for layout in [
            DataType::List(Arc::clone(field)),
            DataType::LargeList(Arc::clone(field)),
            DataType::ListView(Arc::clone(field)),
        ] {
            let columns = [arrow_cast::cast(&list, &layout).unwrap()];
            let foreseen = Weights::with_wide_elements(&columns).unwrap();
            let element = 3 * 8 + 4 + 3;
            let rows: Vec<_> = (0..4).map(|row| foreseen.exact(row)).collect();
            assert_eq!(rows, [2 * element, 0, 0, 5 * element], "{layout}");
            assert_eq!(Weights::new(&columns).total(0, 4), 7 * (8 + 3), "{layout}");
        }
    }

    #[test]
    fn lists_of_plain_values_are_foreseen_as_they_weigh() {
        let numbers = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1), None])]);
        assert!(Weights::with_wide_elements(&[Arc::new(numbers)]).is_none());
    }
}
