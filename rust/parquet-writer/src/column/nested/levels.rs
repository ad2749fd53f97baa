//! Definition and repetition levels from Arrow's offsets and validity bits.
//!
//! Levels are made once per list and struct on the way to a leaf: siblings share those of their parent.

use std::borrow::Cow;
use std::ops::Range;

use arrow_buffer::NullBuffer;

use crate::column::flat::{Repetition, RunLevels};
use crate::error::{Result, WriteError};

/// The levels of an array's slots, and their positions among the rows of a run.
pub(super) struct SlotLevels<'a> {
    pub rows: usize,
    repetition: Option<&'a Repetition>,
    /// The definition level of each entry; `None` when all have `level`.
    definition: Option<Cow<'a, [u8]>>,
    /// The definition level of valid slots.
    level: u8,
    /// Slots without a null struct around them; `None` when all are such.
    valid: Option<NullBuffer>,
}

/// The elements of all lists of an array.
pub(super) struct Elements {
    repetition: Repetition,
    definition: Option<Vec<u8>>,
    /// Ranges of the child array. Elements of null lists are left out.
    pub ranges: Vec<Range<usize>>,
}

impl<'a> SlotLevels<'a> {
    /// The levels of a top-level column.
    pub fn of_rows(rows: usize) -> Self {
        Self {
            rows,
            repetition: None,
            definition: None,
            level: 0,
            valid: None,
        }
    }

    /// The levels of the elements of lists with these levels, of which `nullable` says whether they may be null.
    pub fn of_elements(&self, elements: &'a Elements, nullable: bool) -> SlotLevels<'a> {
        SlotLevels {
            rows: self.rows,
            repetition: Some(&elements.repetition),
            definition: elements.definition.as_deref().map(Cow::Borrowed),
            level: self.level + u8::from(nullable) + 1,
            valid: None,
        }
    }

    /// The number of slots.
    pub fn slots(&self) -> usize {
        self.repetition
            .map_or(self.rows, |all| all.slots.last().copied().unwrap_or(0))
    }

    fn entries(&self) -> usize {
        self.repetition.map_or(self.rows, |all| all.levels.len())
    }

    pub fn levels(&self) -> RunLevels<'_> {
        RunLevels {
            definition: self.definition.as_deref(),
            level: self.level,
            repetition: self.repetition,
        }
    }

    /// The slots that are valid here.
    pub fn valid(&self) -> Option<&NullBuffer> {
        self.valid.as_ref()
    }

    /// The slots that are valid here and not null in an array with these levels.
    pub fn and_valid(&self, nulls: Option<&NullBuffer>) -> Option<NullBuffer> {
        NullBuffer::union(self.valid.as_ref(), nulls).filter(|valid| valid.null_count() > 0)
    }

    /// The levels of what is in a nullable array with these levels.
    pub fn in_nullable(&self, nulls: Option<&NullBuffer>) -> SlotLevels<'_> {
        let valid = self.and_valid(nulls);
        SlotLevels {
            rows: self.rows,
            repetition: self.repetition,
            definition: self.raised(valid.as_ref()),
            level: self.level + 1,
            valid,
        }
    }

    /// Checks that a non-nullable array has no nulls in valid slots: its levels could not express them.
    pub fn require(&self, nulls: Option<&NullBuffer>) -> Result<()> {
        let missing = self.and_valid(nulls).map_or(0, |valid| valid.null_count());
        if missing == self.valid.as_ref().map_or(0, NullBuffer::null_count) {
            return Ok(());
        }
        Err(WriteError::Encode("a field without nulls has a null".into()))
    }

    /// The definition levels, one higher where slots are `valid`.
    fn raised(&self, valid: Option<&NullBuffer>) -> Option<Cow<'a, [u8]>> {
        if self.definition.is_none() && valid.is_none() {
            return None;
        }
        let mut levels = self
            .definition
            .as_deref()
            .map_or_else(|| vec![self.level; self.entries()], <[u8]>::to_vec);
        // Where all entries have the level of valid slots, all of them have a slot.
        let element = self.repetition.filter(|_| self.definition.is_some());
        match (valid, element) {
            (None, None) => {
                for level in &mut levels {
                    *level += 1;
                }
            }
            (None, Some(repetition)) => {
                let has_slot = |level: u8| u8::from(level >= repetition.element);
                for level in &mut levels {
                    *level += has_slot(*level);
                }
            }
            (Some(valid), None) => {
                let bits = valid.inner().iter();
                levels
                    .iter_mut()
                    .zip(bits)
                    .for_each(|(level, valid)| *level += u8::from(valid));
            }
            (Some(valid), Some(repetition)) => {
                let with_slot = levels.iter_mut().filter(|level| **level >= repetition.element);
                with_slot
                    .zip(valid.inner().iter())
                    .for_each(|(level, valid)| *level += u8::from(valid));
            }
        }
        Some(Cow::Owned(levels))
    }

    /// The elements of the lists of an array with these levels. `span` gives the span of each slot in the child array;
    /// all spans together have no more than `most` elements.
    pub fn elements(
        &self,
        nullable: bool,
        nulls: Option<&NullBuffer>,
        span: impl Fn(usize) -> Range<usize>,
        most: usize,
    ) -> Result<Elements> {
        if !nullable {
            self.require(nulls)?;
        }
        let valid = self.and_valid(nulls);
        let empty = self.level + u8::from(nullable);
        let mut made = Making::new(self, empty + 1, most);
        let mut slot = 0;
        for entry in 0..self.entries() {
            let definition = self.definition.as_ref().map_or(self.level, |all| all[entry]);
            let repetition = self.repetition.map_or(0, |all| all.levels[entry]);
            if self.repetition.is_some_and(|all| definition < all.element) {
                made.nothing(repetition, definition);
                continue;
            }
            if valid.as_ref().is_some_and(|valid| valid.is_null(slot)) {
                made.nothing(repetition, definition);
            } else {
                let span = span(slot);
                if span.is_empty() {
                    made.nothing(repetition, empty);
                } else {
                    made.list(repetition, span);
                }
            }
            slot += 1;
        }
        Ok(made.finish())
    }
}

/// Elements that are being collected. Levels are filled in for elements after the first of their list; starts of lists,
/// nulls and empty lists overwrite them.
struct Making {
    definition: Vec<u8>,
    repetition: Repetition,
    ranges: Vec<Range<usize>>,
    /// Entries so far.
    at: usize,
    slots: usize,
    /// True if some entry has no element.
    gaps: bool,
}

impl Making {
    fn new(lists: &SlotLevels<'_>, element: u8, most: usize) -> Self {
        let entries = lists.entries().saturating_add(most);
        let depth = lists.repetition.map_or(0, |all| all.depth) + 1;
        Self {
            definition: vec![element; entries],
            repetition: Repetition {
                levels: vec![depth; entries],
                depth,
                entries: Vec::with_capacity(lists.rows + 1),
                slots: Vec::with_capacity(lists.rows + 1),
                element,
            },
            ranges: Vec::new(),
            at: 0,
            slots: 0,
            gaps: false,
        }
    }

    fn begin(&mut self, repetition: u8) {
        if repetition == 0 {
            self.repetition.entries.push(self.at);
            self.repetition.slots.push(self.slots);
        }
        self.repetition.levels[self.at] = repetition;
    }

    /// An entry without an element.
    fn nothing(&mut self, repetition: u8, definition: u8) {
        self.begin(repetition);
        self.definition[self.at] = definition;
        self.at += 1;
        self.gaps = true;
    }

    fn list(&mut self, repetition: u8, span: Range<usize>) {
        self.begin(repetition);
        self.at += span.len();
        self.slots += span.len();
        match self.ranges.last_mut() {
            Some(last) if last.end == span.start => last.end = span.end,
            _ => self.ranges.push(span),
        }
    }

    fn finish(self) -> Elements {
        let Self {
            mut definition,
            mut repetition,
            ranges,
            at,
            slots,
            gaps,
        } = self;
        repetition.entries.push(at);
        repetition.slots.push(slots);
        repetition.levels.truncate(at);
        definition.truncate(at);
        Elements {
            repetition,
            definition: gaps.then_some(definition),
            ranges,
        }
    }
}
