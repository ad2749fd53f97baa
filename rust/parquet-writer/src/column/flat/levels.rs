//! The levels of the page that is not finished.

use arrow_buffer::BooleanBufferBuilder;
use parquet::schema::types::ColumnDescriptor;
use parquet_encode::bitmap::Bitmap;
use parquet_encode::levels::{encode_constant_levels, encode_levels, encode_validity};
use parquet_encode::rle;

use super::run::Run;

/// Collects the levels of one page after the other.
///
/// An entry is anything that has levels: a value, or the null or empty list in its place.
#[derive(Debug)]
pub(super) struct PageLevels {
    max_definition: u8,
    max_repetition: u8,
    page_rows: usize,
    /// The definition levels where there are two of them and nothing repeats: a bit for each row.
    validity: BooleanBufferBuilder,
    /// The definition levels otherwise.
    definition: Vec<u8>,
    repetition: Vec<u8>,
}

/// Counts of each level; `None` where there is only one.
#[derive(Debug, Clone)]
pub(super) struct Histograms {
    pub repetition: Option<Vec<i64>>,
    pub definition: Option<Vec<i64>>,
}

impl PageLevels {
    /// Levels of pages that have no more than `page_rows` rows.
    pub fn new(column: &ColumnDescriptor, page_rows: usize) -> Self {
        let level = |level: i16| u8::try_from(level).unwrap_or(u8::MAX);
        Self {
            max_definition: level(column.max_def_level()),
            max_repetition: level(column.max_rep_level()),
            page_rows,
            validity: BooleanBufferBuilder::new(0),
            definition: Vec::new(),
            repetition: Vec::new(),
        }
    }

    /// Returns true if the levels are validity bits: at most two definition levels, and no repetition.
    pub fn are_bits(&self) -> bool {
        self.max_repetition == 0 && self.max_definition <= 1
    }

    /// The most bytes of a page that levels may take.
    pub fn most_bytes(&self, page_bytes: usize) -> usize {
        let rows = self.page_rows.min(page_bytes);
        match (self.max_definition, self.max_repetition) {
            (0, _) => 0,
            (1, 0) => rows / 8 + 16,
            (max, 0) => rle::size_bound(rows, rle::bit_width(max.into())) + 16,
            _ => page_bytes / 4 + 16,
        }
    }

    /// The most entries that a page may have, so that their levels take no more than [`Self::most_bytes`].
    pub fn capacity(&self, page_bytes: usize) -> usize {
        if self.max_repetition == 0 {
            return usize::MAX;
        }
        // A bit more for the headers of runs.
        (page_bytes / 4 * 8 / (self.bits() + 1)).max(1)
    }

    /// Bits that the levels of an entry take when they do not repeat.
    fn bits(&self) -> usize {
        let width = |max: u8| usize::from(rle::bit_width(max.into()));
        width(self.max_definition) + width(self.max_repetition)
    }

    /// Adds the levels of some rows of a run, `valid` of whose entries have a value.
    pub fn append(&mut self, run: &Run<'_>, start: usize, rows: usize, valid: usize) {
        if self.max_definition == 0 {
            return;
        }
        let Some(levels) = run.levels.filter(|_| !self.are_bits()) else {
            return self.append_validity(run, start, rows, valid);
        };
        let entries = run.entries(start, rows);
        match levels.definition {
            None => self
                .definition
                .resize(self.definition.len() + entries.len(), levels.level),
            Some(definition) => self.definition.extend_from_slice(&definition[entries.clone()]),
        }
        if let Some(repetition) = levels.repetition {
            self.repetition.extend_from_slice(&repetition.levels[entries]);
        }
    }

    fn append_validity(&mut self, run: &Run<'_>, start: usize, rows: usize, valid: usize) {
        match run.nulls.filter(|_| valid < rows) {
            None => self.validity.append_n(rows, true),
            Some(nulls) => {
                let bits = nulls.inner();
                let start = bits.offset() + start;
                self.validity
                    .append_packed_range(start..start + rows, bits.values());
            }
        }
    }

    /// Appends the levels of a page in the form of version 1: each behind its length, repetition levels first.
    pub fn encode(&self, entries: usize, nulls: usize, out: &mut Vec<u8>) {
        if !self.are_bits() {
            encode_levels(&self.repetition, self.max_repetition.into(), out);
            encode_levels(&self.definition, self.max_definition.into(), out);
        } else if nulls == 0 || nulls == entries {
            let (level, max) = (u32::from(nulls == 0), self.max_definition.into());
            encode_constant_levels(level, entries, max, out);
        } else if let Some(bits) = Bitmap::new(self.validity.as_slice(), 0, entries) {
            encode_validity(&bits, out);
        }
    }

    /// Counts of each level in the page.
    pub fn histograms(&self, entries: usize, nulls: usize) -> Histograms {
        let definition = if self.are_bits() {
            let count = |entries: usize| i64::try_from(entries).unwrap_or(i64::MAX);
            vec![count(nulls), count(entries - nulls)]
        } else {
            counts(&self.definition, self.max_definition)
        };
        Histograms {
            repetition: (self.max_repetition > 0).then(|| counts(&self.repetition, self.max_repetition)),
            definition: (self.max_definition > 0).then_some(definition),
        }
    }

    /// Ends the page.
    pub fn clear(&mut self) {
        self.validity.truncate(0);
        self.definition.clear();
        self.repetition.clear();
    }

    /// The estimated bytes of the levels of so many entries before compression.
    pub fn pending_bytes(&self, entries: usize) -> usize {
        entries * self.bits() / 8
    }

    pub fn memory_bytes(&self) -> usize {
        self.validity.capacity() / 8 + self.definition.capacity() + self.repetition.capacity()
    }
}

fn counts(levels: &[u8], max: u8) -> Vec<i64> {
    // So many that a byte can count them, which is what makes this fast.
    let few = |levels: &[u8], level: u8| levels.iter().map(|other| u8::from(*other == level)).sum::<u8>();
    let count = |level| {
        levels
            .chunks(usize::from(u8::MAX))
            .map(|levels| i64::from(few(levels, level)))
            .sum()
    };
    (0..=max).map(count).collect()
}

impl Histograms {
    /// Adds those of another page.
    pub fn add(sum: &mut Option<Self>, page: &Self) {
        let Some(sum) = sum else {
            *sum = Some(page.clone());
            return;
        };
        let add = |sum: &mut Option<Vec<i64>>, page: &Option<Vec<i64>>| {
            let pairs = sum.iter_mut().flatten().zip(page.iter().flatten());
            pairs.for_each(|(sum, count)| *sum += count);
        };
        add(&mut sum.repetition, &page.repetition);
        add(&mut sum.definition, &page.definition);
    }
}
