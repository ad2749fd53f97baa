//! The weight of rows: the bytes of their values, whatever the layout.
//!
//! Units are cut by these figures, so they must not depend on the layout: slots under nulls weigh nothing, and a string
//! weighs its bytes in every form.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::RunEndIndexType;
use arrow_array::{Array, ArrayRef, RunArray, downcast_run_array};
use arrow_buffer::{ArrowNativeType, NullBuffer};
use arrow_schema::DataType;

use crate::byte_slots::{ByteSlots, each_layout};
use crate::lists::{ElementSlots, child_of_lists, each_list_layout, element_field};
use crate::schema::plain;

/// Bytes that an element of a list counts for besides its values.
const ELEMENT_BYTES: u64 = 8;

/// The bytes that an element of lists counts for besides its text, by its type.
type Element = fn(&DataType) -> u64;

/// Rows that are weighed together, so that sums take little memory however many rows a batch has.
pub(crate) const ROWS_TOGETHER: usize = 1 << 16;

/// The weight of each row of a set of columns.
pub struct RowWeights {
    /// Text and bytes with offsets, which show the sum of rows wherever no slot is null.
    columns: Vec<ArrayRef>,
    /// The sum of all rows before each, over the columns whose arrays do not show it.
    sums: Option<Vec<u64>>,
    /// Bytes that every row has in fixed-size columns.
    fixed: u64,
}

impl RowWeights {
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
        let mut weights = Self {
            columns: Vec::new(),
            sums: None,
            fixed: 0,
        };
        for column in columns {
            match column.data_type() {
                DataType::FixedSizeBinary(size) => weights.fixed += u64::try_from(*size).unwrap_or(0),
                DataType::Utf8 | DataType::Binary | DataType::LargeUtf8 | DataType::LargeBinary => {
                    weights.columns.push(column.clone());
                }
                _ => weights.add(sums(column, element)),
            }
        }
        weights
    }

    /// Adds the sums of a column.
    fn add(&mut self, sums: Option<Vec<u64>>) {
        match (&mut self.sums, sums) {
            (Some(all), Some(sums)) => all.iter_mut().zip(sums).for_each(|(all, sum)| *all += sum),
            (None, sums) => self.sums = sums,
            (_, None) => {}
        }
    }

    /// The sum of the rows from `start` to `end`, as far as their columns have sums.
    fn summed(&self, start: usize, end: usize) -> u64 {
        self.sums.as_ref().map_or(0, |sums| sums[end] - sums[start])
    }

    /// An upper bound of the weight of the rows from `start` to `end`, in a few operations.
    fn at_most(&self, start: usize, end: usize) -> u64 {
        let columns: u64 = self
            .columns
            .iter()
            .map(|column| at_most(column, start, end))
            .sum();
        columns + self.summed(start, end) + self.fixed * (end - start) as u64
    }

    fn exact(&self, row: usize) -> u64 {
        let columns: u64 = self.columns.iter().map(|column| exact(column, row)).sum();
        columns + self.summed(row, row + 1) + self.fixed
    }

    /// The weight of the rows from `start` to `end`.
    #[must_use]
    pub fn total(&self, start: usize, end: usize) -> u64 {
        let columns: u64 = self.columns.iter().map(|column| total(column, start, end)).sum();
        columns + self.summed(start, end) + self.fixed * (end - start) as u64
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

fn at_most(column: &ArrayRef, start: usize, end: usize) -> u64 {
    ByteSlots::of(column).map_or(0, |slots| slots.bytes(start..end))
}

fn total(column: &ArrayRef, start: usize, end: usize) -> u64 {
    ByteSlots::of(column).map_or(0, |slots| {
        let bytes = slots.bytes(start..end);
        let under_nulls = each_layout!(slots, span => under_nulls(column.nulls(), span, start, end));
        bytes.saturating_sub(under_nulls)
    })
}

fn exact(column: &ArrayRef, row: usize) -> u64 {
    if column.is_null(row) {
        0
    } else {
        at_most(column, row, row + 1)
    }
}

/// Rows whose validity bits fill a word.
const WORD_ROWS: usize = 64;

/// The bytes of slots from `start` to `end` that are null. As a rule these have none, and whole words of validity bits
/// are passed over.
fn under_nulls(
    nulls: Option<&NullBuffer>,
    span: impl Fn(Range<usize>) -> u64,
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
            bytes = bytes.saturating_add(span(first..last));
            continue;
        }
        while null != 0 {
            let row = first + null.trailing_zeros() as usize;
            if row >= last {
                break;
            }
            bytes = bytes.saturating_add(span(row..row + 1));
            null &= null - 1;
        }
    }
    bytes
}

/// The sums of weights before each row; `None` for a type whose values have one small size.
fn sums(array: &ArrayRef, element: Element) -> Option<Vec<u64>> {
    let nulls = array.nulls();
    let valid = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row));
    if let Some(slots) = ByteSlots::of(array) {
        return Some(each_layout!(slots, bytes => accumulate(array.len(), valid, |row| bytes(row..row + 1))));
    }
    match array.data_type() {
        DataType::FixedSizeBinary(size) => {
            let size = u64::try_from(*size).unwrap_or(0);
            Some(accumulate(array.len(), |_| true, |_| size))
        }
        DataType::Dictionary(_, _) => dictionary(array, element),
        DataType::RunEndEncoded(_, _) => downcast_run_array!(
            array => runs(array, element),
            _ => None
        ),
        DataType::Struct(_) => structs(array, element),
        _ => {
            let slots = ElementSlots::of(array)?;
            Some(each_list_layout!(slots, of_row => lists(array, of_row, element)))
        }
    }
}

/// Returns true if [`sums`] has some for arrays of a type.
fn has_sums(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => true,
        DataType::Struct(fields) => fields.iter().any(|field| has_sums(field.data_type())),
        DataType::Dictionary(_, values) => has_sums(values),
        DataType::RunEndEncoded(_, values) => has_sums(values.data_type()),
        lists => element_field(lists).is_some(),
    }
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

/// The sums of rows in runs. The runs are not written out: one value may stand for any number of rows.
fn runs<R: RunEndIndexType>(array: &RunArray<R>, element: Element) -> Option<Vec<u64>> {
    let ends = array.run_ends();
    let (first, runs) = if array.is_empty() {
        (0, 0)
    } else {
        let first = ends.get_start_physical_index();
        (first, ends.get_end_physical_index() + 1 - first)
    };
    let values = sums(&array.values().slice(first, runs), element)?;
    let mut rows = Vec::with_capacity(array.len() + 1);
    let mut sum = 0_u64;
    rows.push(sum);
    for (run, end) in ends.sliced_values().enumerate() {
        let weight = values[run + 1] - values[run];
        while rows.len() <= end.as_usize() {
            sum = sum.saturating_add(weight);
            rows.push(sum);
        }
    }
    Some(rows)
}

/// The sums of rows that refer to a dictionary. Of text and bytes, only the values that rows refer to are looked at.
fn dictionary(array: &ArrayRef, element: Element) -> Option<Vec<u64>> {
    let values = array.as_any_dictionary().values();
    if let Some(slots) = ByteSlots::of(values) {
        return Some(each_layout!(slots, bytes => by_keys(array, |value| bytes(value..value + 1))));
    }
    let sums = sums(values, element)?;
    Some(by_keys(array, |value| sums[value + 1] - sums[value]))
}

/// The sums of rows that refer to values of these weights.
fn by_keys(array: &ArrayRef, weight: impl Fn(usize) -> u64) -> Vec<u64> {
    let dictionary = array.as_any_dictionary();
    let values = dictionary.values();
    // An empty dictionary has null keys only, and no normal form of them.
    if values.is_empty() {
        return vec![0; array.len() + 1];
    }
    let (keys, nulls) = (dictionary.normalized_keys(), array.nulls());
    let is_there = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row));
    let valid = |row: usize| is_there(row) && keys[row] < values.len() && values.is_valid(keys[row]);
    accumulate(array.len(), valid, |row| weight(keys[row]))
}

/// The sums of lists, `span` of whose rows are the slots of their elements.
fn lists(array: &ArrayRef, span: impl Fn(usize) -> Range<usize>, element: Element) -> Vec<u64> {
    let Some(values) = child_of_lists(array) else {
        return vec![0; array.len() + 1];
    };
    let nulls = array.nulls();
    let valid = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row));
    let width = element(values.data_type());
    // Lists of null, and those of a struct that is null, may begin and end anywhere.
    let is_sound = |span: &Range<usize>| span.start < span.end && span.end <= values.len();
    if !has_sums(values.data_type()) {
        return accumulate(array.len(), valid, |row| {
            let span = span(row);
            if is_sound(&span) {
                width * span.len() as u64
            } else {
                0
            }
        });
    }
    let rows = (0..array.len()).filter(|row| valid(*row)).map(&span);
    let reached = rows
        .filter(is_sound)
        .reduce(|all, row| all.start.min(row.start)..all.end.max(row.end));
    let Range { start, end } = reached.unwrap_or_default();
    let inner = sums(&values.slice(start, end - start), element);
    accumulate(array.len(), valid, |row| {
        let span = span(row);
        if !is_sound(&span) {
            return 0;
        }
        let inner = inner
            .as_ref()
            .map_or(0, |inner| inner[span.end - start] - inner[span.start - start]);
        inner + width * span.len() as u64
    })
}

/// Bytes of an element of lists: those of its values whose size its type says, and four for each length of text or
/// bytes; never less than in [`RowWeights::new`].
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
    use arrow_array::{
        Float64Array, Int32Array, LargeBinaryArray, ListArray, RunArray, StringArray, StructArray,
    };
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

    fn types() -> impl Strategy<Value = DataType> {
        use DataType::{
            Binary, Decimal128, Dictionary, FixedSizeBinary, Int8, Int64, LargeUtf8, Null, Utf8View,
        };
        let values = [
            Int64,
            Null,
            Binary,
            LargeUtf8,
            Utf8View,
            FixedSizeBinary(3),
            Decimal128(9, 2),
        ];
        let leaf = prop::sample::select(values.to_vec());
        let field = |data_type: DataType| Arc::new(Field::new("x", data_type, true));
        leaf.prop_recursive(4, 8, 2, move |inner| {
            prop_oneof![
                inner.clone().prop_map(move |inner| DataType::List(field(inner))),
                inner
                    .clone()
                    .prop_map(move |inner| DataType::FixedSizeList(field(inner), 2)),
                inner
                    .clone()
                    .prop_map(move |inner| DataType::Dictionary(Box::new(Int8), Box::new(inner))),
                prop::collection::vec(inner, 1..3)
                    .prop_map(move |inner| DataType::Struct(inner.into_iter().map(field).collect())),
            ]
        })
        .prop_filter(
            "no dictionary of dictionaries",
            |data_type| !matches!(data_type, Dictionary(_, values) if matches!(**values, Dictionary(..))),
        )
    }

    #[test]
    fn a_run_weighs_its_value_in_every_row_without_being_written_out() {
        let ends = Int32Array::from(vec![1 << 16]);
        let value = StringArray::from(vec!["x".repeat(1 << 20)]);
        let runs: ArrayRef = Arc::new(RunArray::try_new(&ends, &value).unwrap());
        let found = sums(&runs, element_bytes).unwrap();
        assert_eq!(found.last(), Some(&(1 << 36)));
    }

    proptest! {
        #[test]
        fn rows_in_runs_weigh_as_much_as_the_same_rows_written_out(
            runs in prop::collection::vec((prop::option::of("[a-z]{0,9}"), 1..20_i32), 1..30),
            cut in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        ) {
            let ends: Int32Array = runs
                .iter()
                .scan(0, |end, (_, rows)| {
                    *end += rows;
                    Some(*end)
                })
                .collect();
            let values: StringArray = runs.iter().map(|(text, _)| text.as_deref()).collect();
            let whole: ArrayRef = Arc::new(RunArray::try_new(&ends, &values).unwrap());
            let (one, other) = (cut.0.index(whole.len() + 1), cut.1.index(whole.len() + 1));
            let part = whole.slice(one.min(other), one.abs_diff(other));
            let plain = crate::schema::expand_runs(&part).unwrap();
            prop_assert_eq!(sums(&part, element_bytes), sums(&plain, element_bytes));
        }

        #[test]
        fn a_type_says_whether_its_arrays_have_sums(data_type in types()) {
            let array = arrow_array::new_empty_array(&data_type);
            prop_assert_eq!(sums(&array, element_bytes).is_some(), has_sums(&data_type));
        }

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
            prop_assert_eq!(RowWeights::new(&[text]).total(start, end), expected as u64);
        }

        #[test]
        fn a_budget_ends_with_the_row_that_uses_it_up(columns in columns(), start in 0_usize..10, budget in 0_u64..900) {
            let (weights, end) = (RowWeights::new(&columns), columns[0].len());
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
    fn rows_weigh_the_same_by_themselves_and_among_others_in_every_layout() {
        let text: ArrayRef = Arc::new(StringArray::from_iter([
            Some("abc"),
            None,
            Some(""),
            Some("a"),
            Some("abc"),
        ]));
        let cast = |to: DataType| arrow_cast::cast(&text, &to).unwrap();
        let values = [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View];
        let keyed =
            values.map(|values| cast(DataType::Dictionary(Box::new(DataType::Int8), Box::new(values))));
        let others = [
            cast(DataType::Utf8View),
            cast(DataType::LargeBinary),
            cast(DataType::BinaryView),
        ];
        for column in keyed.into_iter().chain(others) {
            let all = [
                Arc::clone(&column),
                lists(&[Some(2), None, Some(0), Some(5), Some(1)]),
            ];
            let (weights, foreseen) = (
                RowWeights::new(&all),
                RowWeights::with_wide_elements(&all).unwrap(),
            );
            for (start, end) in (0..=5).flat_map(|start| (start..=5).map(move |end| (start, end))) {
                let rows = all.each_ref().map(|column| column.slice(start, end - start));
                let alone = RowWeights::new(&rows).total(0, end - start);
                assert_eq!(
                    alone,
                    weights.total(start, end),
                    "{} {start} {end}",
                    column.data_type()
                );
                let alone = RowWeights::with_wide_elements(&rows)
                    .unwrap()
                    .total(0, end - start);
                assert_eq!(
                    alone,
                    foreseen.total(start, end),
                    "{} {start} {end}",
                    column.data_type()
                );
            }
            assert_eq!(RowWeights::new(&[column]).total(0, 5), 3 + 1 + 3);
        }
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
            let foreseen = RowWeights::with_wide_elements(&columns).unwrap();
            let element = 3 * 8 + 4 + 3;
            let rows: Vec<_> = (0..4).map(|row| foreseen.exact(row)).collect();
            assert_eq!(rows, [2 * element, 0, 0, 5 * element], "{layout}");
            assert_eq!(RowWeights::new(&columns).total(0, 4), 7 * (8 + 3), "{layout}");
        }
    }

    #[test]
    fn lists_of_plain_values_are_foreseen_as_they_weigh() {
        let numbers = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1), None])]);
        assert!(RowWeights::with_wide_elements(&[Arc::new(numbers)]).is_none());
    }
}
