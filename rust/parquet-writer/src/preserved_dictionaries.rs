//! Preserved dictionaries: the dictionaries of text and bytes that columns come with, on their way into the file.
//!
//! A row group's dictionary page begins with the values of the dictionaries of its batches, each value once, in the
//! order in which they came. An ordered dictionary defines the order of its values, for all of the file: its values go
//! on from row group to row group, so that readers which join the pages find one order. Where that order is lost, the
//! stored schema declares none.
//!
//! The dictionary that a row came with is a part of the row: the same rows with the same dictionaries give the same
//! bytes, however they were cut into batches.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_schema::{DataType, FieldRef};
use parquet_encode::dictionary::DictionaryLimits;

use crate::choose::Choice;
use crate::column::Preserved;
use crate::enum_categories::EnumCategories;
use crate::lists::{child_of_lists, element_field};
use crate::options::WriterOptions;
use crate::row_group::Closed;
use crate::schema::{FileSchema, leaves};
use crate::stored_schema::{DictionaryClaim, DictionaryOrder, with_fields};

/// The preserved dictionaries of all columns that readers get back as dictionaries.
#[derive(Debug)]
pub(crate) struct Dictionaries {
    columns: Vec<PreservedColumn>,
    leaves: Vec<LeafDictionaries>,
    /// The leaves whose fields have the categories of an Enum.
    enums: Vec<(LeafPosition, EnumCategories)>,
    limits: DictionaryLimits,
    /// True while row groups of every column go on with the values of those before them.
    held: bool,
}

/// The row groups so far of a leaf.
#[derive(Debug, Clone, Copy)]
struct LeafDictionaries {
    /// True if it was declared to be ordered and holds the values of all dictionaries in their order.
    ordered: bool,
    /// The most values of the dictionary that a reader makes of any of them.
    values: usize,
}

/// A column whose dictionaries are preserved.
#[derive(Debug)]
struct PreservedColumn {
    place: LeafPosition,
    /// The values that the next row group begins with; none while one is open.
    waiting: Option<Preserved>,
}

/// A leaf column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeafPosition {
    /// Among all leaves.
    pub leaf: usize,
    /// Its top-level field.
    pub field: usize,
    /// Among the leaves of that field.
    pub within: usize,
}

/// The dictionary of one column of a batch.
#[derive(Debug, Clone)]
pub(crate) struct BatchDictionary {
    pub place: LeafPosition,
    pub values: ArrayRef,
}

impl Dictionaries {
    /// `allowed` says which leaves may have a dictionary, `named` which encodings the caller chose.
    pub fn new(
        schema: &FileSchema,
        allowed: &[bool],
        named: &[Option<Choice>],
        options: &WriterOptions,
    ) -> Self {
        let (mut places, mut enums) = (Vec::new(), Vec::new());
        for (field, stored) in schema.stored.fields().iter().enumerate() {
            let first = places.len();
            let within = 0..leaves(stored.data_type());
            places.extend(within.map(|within| LeafPosition {
                leaf: first + within,
                field,
                within,
            }));
            let stated = leaf_fields(stored)
                .into_iter()
                .map(|field| EnumCategories::of(&field));
            let stated = places[first..].iter().copied().zip(stated);
            enums.extend(stated.filter_map(|(place, stated)| Some((place, stated?))));
        }
        let may = |leaf: usize| named[leaf].map_or(allowed[leaf], |choice| choice.dictionary);
        let kept = |place: &LeafPosition| schema.dictionaries[place.leaf].is_some() && may(place.leaf);
        let leaf = |place: &LeafPosition| LeafDictionaries {
            ordered: kept(place) && schema.dictionaries[place.leaf] == Some(true),
            values: 0,
        };
        let leaves: Vec<_> = places.iter().map(leaf).collect();
        let columns: Vec<_> = places
            .into_iter()
            .filter(kept)
            .map(|place| PreservedColumn { place, waiting: None })
            .collect();
        Self {
            limits: options.preserved_limits(columns.len(), leaves.len()),
            columns,
            leaves,
            enums,
            held: false,
        }
    }

    /// The dictionaries of a batch.
    pub fn of(&self, columns: &[ArrayRef], schema: &FileSchema) -> Vec<BatchDictionary> {
        let mut given = Vec::new();
        let mut found = (usize::MAX, Vec::new());
        for PreservedColumn { place, .. } in &self.columns {
            if found.0 != place.field {
                found = (place.field, Vec::new());
                let stored = schema.stored.field(place.field).data_type();
                leaf_arrays(&columns[place.field], stored, &mut found.1);
            }
            let leaf = found.1.get(place.within).and_then(Option::as_ref);
            if let Some(values) = leaf.and_then(|leaf| Some(leaf.as_any_dictionary_opt()?.values())) {
                given.push(BatchDictionary {
                    place: *place,
                    values: values.clone(),
                });
            }
        }
        given
    }

    /// Notes which columns have values that are not among the Enum categories of their field.
    pub fn look_for_others(&mut self, columns: &[ArrayRef], schema: &FileSchema) {
        for (place, categories) in &mut self.enums {
            let mut found = Vec::new();
            let stored = schema.stored.field(place.field).data_type();
            leaf_arrays(&columns[place.field], stored, &mut found);
            match found.swap_remove(place.within) {
                Some(leaf) => categories.look_at(&leaf),
                None => categories.give_up(),
            }
        }
    }

    /// Adds the dictionary of rows that wait for a row group.
    pub fn add(&mut self, given: &BatchDictionary) {
        let limits = self.limits;
        if let Some(column) = self.columns.iter_mut().find(|column| column.place == given.place) {
            let waiting = column.waiting.get_or_insert_with(|| Preserved::new(limits));
            waiting.add(&given.values);
        }
    }

    /// Takes the values that each leaf of a row group begins with.
    pub fn take(&mut self) -> Vec<Option<Preserved>> {
        let mut taken: Vec<_> = self.leaves.iter().map(|_| None).collect();
        for column in &mut self.columns {
            let waiting = column.waiting.take();
            taken[column.place.leaf] = Some(waiting.unwrap_or_else(|| Preserved::new(self.limits)));
        }
        taken
    }

    /// Takes the outcomes of the leaves of a closed row group.
    pub fn put_back(&mut self, mut closed: Vec<Closed>) {
        // Readers make dictionaries also of the leaves that have none in the file.
        for (leaf, closed) in self.leaves.iter_mut().zip(&closed) {
            leaf.values = leaf.values.max(closed.distinct);
        }
        for PreservedColumn { place, waiting } in &mut self.columns {
            let Some(closed) = closed.get_mut(place.leaf) else {
                continue;
            };
            let (preserved, leaf) = (closed.preserved.take(), &mut self.leaves[place.leaf]);
            leaf.ordered &= preserved.as_ref().is_some_and(Preserved::is_whole);
            *waiting = preserved.filter(|_| leaf.ordered || self.held);
        }
    }

    /// Keeps the values from row group to row group: the rows that follow were cut from batches whose dictionaries are
    /// all known, so every row group has all of them.
    pub fn hold(&mut self) {
        self.held = true;
    }

    /// Ends [`Self::hold`]: the rows that follow come with their dictionaries again.
    pub fn release(&mut self) {
        self.held = false;
        for PreservedColumn { place, waiting } in &mut self.columns {
            *waiting = waiting.take().filter(|_| self.leaves[place.leaf].ordered);
        }
    }

    /// The claims about each leaf of a file that has all its row groups.
    pub fn kept(&self) -> Vec<DictionaryClaim> {
        let without = |leaf: &LeafDictionaries| DictionaryClaim {
            order: leaf.ordered.then(|| DictionaryOrder::of(0, &[])),
            values: leaf.values,
            has_others: false,
        };
        let mut kept: Vec<_> = self.leaves.iter().map(without).collect();
        for (place, categories) in &self.enums {
            kept[place.leaf].has_others = !categories.holds();
        }
        for PreservedColumn { place, waiting } in &self.columns {
            let kept = &mut kept[place.leaf];
            if let Some(preserved) = waiting {
                kept.order = kept.order.map(|_| preserved.order());
            }
        }
        kept
    }

    pub fn memory_bytes(&self) -> usize {
        let waiting = self.columns.iter().filter_map(|column| column.waiting.as_ref());
        waiting.map(Preserved::memory_bytes).sum()
    }
}

/// The fields of the leaves.
fn leaf_fields(field: &FieldRef) -> Vec<FieldRef> {
    let mut found = Vec::new();
    let inner = &mut |field: &FieldRef| {
        found.extend(leaf_fields(field));
        Arc::clone(field)
    };
    match with_fields(field.data_type(), inner) {
        Some(_) => found,
        None => vec![Arc::clone(field)],
    }
}

/// The array of each leaf; `None` if it could be had by a conversion only.
fn leaf_arrays(array: &ArrayRef, stored: &DataType, found: &mut Vec<Option<ArrayRef>>) {
    match (stored, array.data_type()) {
        (DataType::Struct(fields), DataType::Struct(_)) => {
            let children = fields.iter().zip(array.as_struct().columns());
            children.for_each(|(field, child)| leaf_arrays(child, field.data_type(), found));
        }
        _ => match element_field(stored).zip(child_of_lists(array)) {
            Some((field, child)) => leaf_arrays(&child, field.data_type(), found),
            None if !stored.is_nested() => found.push(Some(Arc::clone(array))),
            None => found.extend((0..leaves(stored)).map(|_| None)),
        },
    }
}
