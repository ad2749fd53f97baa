//! The choices of a file: what its first pages showed, kept from one row group to the next.

use arrow_array::ArrayRef;
use parquet::basic::{Encoding, Type};
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};

use super::sample::{Sample, Samples, fell_back};
use super::{Choice, Reason, Trial};
use crate::budget::dictionary_limits_within;
use crate::error::Result;
use crate::options::{Compatibility, WriterOptions};
use crate::result;
use crate::schema::FileSchema;

/// Fewer values than this say nothing about those that follow.
pub(crate) const FEWEST_VALUES: usize = 64;
/// Bytes of a page below which the headers of delta blocks outweigh their savings.
const SMALLEST_DELTA_PAGE: usize = 16 << 10;
/// Rows that a dictionary is assumed to serve as long as no row group was closed. Most files are small, and a
/// dictionary that pays late costs a small file more than it saves a large one.
const ASSUMED_ROWS: usize = 131_072;
/// The relative change of the bytes per value between row groups above which a column is tried again.
const DRIFT: f64 = 0.3;
const PLAIN_ONLY: &[Encoding] = &[Encoding::PLAIN];

/// Chooses encodings, and remembers them from one row group to the next.
pub(crate) struct Chooser {
    leaves: Vec<LeafChoice>,
    rows: usize,
}

#[derive(Debug, Clone, Copy)]
struct LeafChoice {
    /// True if it may have a dictionary.
    allowed: bool,
    /// Encodings to try without a dictionary.
    direct: &'static [Encoding],
    choice: Choice,
    /// True if the caller made the choice.
    named: bool,
    /// True if it need not be tried again.
    settled: bool,
    /// Compressed bytes of a value in the row group before.
    value_bytes: Option<f64>,
    /// The size of its dictionary in the sample.
    need: Need,
}

/// The size of a sample's dictionary.
#[derive(Debug, Clone, Copy, Default)]
struct Need {
    entries: usize,
    bytes: usize,
}

impl Need {
    fn of(sample: &Sample) -> Self {
        Self {
            entries: sample.distinct,
            bytes: sample.dictionary,
        }
    }

    /// The share of memory that it asks for, in bytes.
    fn weight(self) -> usize {
        self.entries * 64 + self.bytes
    }

    /// The bytes of an entry in the page.
    fn entry_bytes(self) -> usize {
        self.bytes.div_ceil(self.entries.max(1)).max(8)
    }
}

impl LeafChoice {
    fn new(allowed: bool, named: Option<Choice>, direct: &'static [Encoding]) -> Self {
        Self {
            allowed,
            direct,
            choice: named.unwrap_or(Choice::new(allowed, Encoding::PLAIN)),
            named: named.is_some(),
            settled: named.is_some(),
            value_bytes: None,
            need: Need::default(),
        }
    }

    /// The choice of a row group that is expected to have `rows` rows. While nothing is known, the first page decides.
    fn begin(&mut self, rows: usize) {
        if self.settled {
            return;
        }
        let trial = Trial {
            direct: self.direct,
            rows,
        };
        self.choice = Choice {
            trial: (self.allowed || self.direct.len() > 1).then_some(trial),
            reason: self.choice.reason,
            ..Choice::new(self.allowed, Encoding::PLAIN)
        };
    }

    /// Learns from a chunk that was written, and from the choice that it ended with.
    fn learn(&mut self, chunk: &ColumnChunkMetaData, choice: Choice) {
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        let value_bytes = chunk.compressed_size() as f64 / chunk.num_values().max(1) as f64;
        let drifted = self
            .value_bytes
            .is_some_and(|before| (value_bytes / before - 1.0).abs() > DRIFT);
        self.value_bytes = Some(value_bytes);
        let known = self.settled || values(chunk) >= FEWEST_VALUES;
        let holds = known && !drifted && !(choice.dictionary && fell_back(chunk));
        self.settled = self.named || holds;
        let reason = choice.reason.or(self.choice.reason);
        if !self.named {
            self.choice = Choice {
                limits: self.choice.limits,
                ..choice
            };
        }
        self.choice.reason = reason;
    }
}

impl Chooser {
    /// `named` holds the choices that the caller made, `allowed` the leaves that may have a dictionary.
    pub fn new(
        allowed: &[bool],
        named: &[Option<Choice>],
        schema: &FileSchema,
        options: &WriterOptions,
    ) -> Self {
        let leaf = |index: usize| {
            let kind = schema.parquet.column(index).physical_type();
            let direct = match options.compatibility {
                Compatibility::V1 => PLAIN_ONLY,
                // pyarrow makes dictionaries only of pages that are PLAIN or have one.
                Compatibility::Modern if schema.dictionaries[index].is_some() => PLAIN_ONLY,
                // The headers of a delta's block outweigh what it saves in so small a page.
                Compatibility::Modern if options.page_bytes < SMALLEST_DELTA_PAGE => PLAIN_ONLY,
                Compatibility::Modern => candidates(kind),
            };
            LeafChoice::new(allowed[index] && kind != Type::BOOLEAN, named[index], direct)
        };
        Self {
            leaves: (0..allowed.len()).map(leaf).collect(),
            rows: ASSUMED_ROWS.min(options.row_group_rows),
        }
    }

    /// The choices of a row group that begins with `sample`. A leaf with a preserved dictionary needs no choice;
    /// `preserved` holds the number and the bytes of its values.
    pub fn choose(
        &mut self,
        sample: &[ArrayRef],
        preserved: &[Option<(usize, usize)>],
        schema: &FileSchema,
        options: &WriterOptions,
    ) -> Result<Vec<Choice>> {
        let new: Vec<_> = self.leaves.iter().map(|leaf| !leaf.settled).collect();
        for (leaf, preserved) in self.leaves.iter_mut().zip(preserved) {
            if let Some((entries, bytes)) = *preserved {
                leaf.choice = Choice::new(true, Encoding::PLAIN);
                leaf.settled = true;
                leaf.need = Need { entries, bytes };
            }
            leaf.begin(self.rows);
        }
        if let Some(memory) = options.budget.dictionaries {
            self.look_at(sample, &new, schema, options)?;
            self.share(memory);
        }
        Ok(self.leaves.iter().map(|leaf| leaf.choice).collect())
    }

    /// Notes how large the dictionaries of new leaves are in a sample.
    fn look_at(
        &mut self,
        rows: &[ArrayRef],
        new: &[bool],
        schema: &FileSchema,
        options: &WriterOptions,
    ) -> Result<()> {
        let choices: Vec<_> = self
            .leaves
            .iter()
            .zip(new)
            .map(|(leaf, new)| (*new && leaf.choice.trial.is_some()).then_some(WITH_DICTIONARY))
            .collect();
        let samples = Samples::new(schema, options).encode(rows, &choices)?;
        for (leaf, sample) in self.leaves.iter_mut().zip(samples) {
            leaf.need = sample.as_ref().map_or(leaf.need, Need::of);
        }
        Ok(())
    }

    /// Divides memory among the dictionaries: half of it equally, half by their size in the samples.
    fn share(&mut self, memory: usize) {
        let with_dictionary = || self.leaves.iter().filter(|leaf| leaf.choice.dictionary);
        let count = with_dictionary().count().max(1);
        let whole: usize = with_dictionary().map(|leaf| leaf.need.weight()).sum();
        for leaf in &mut self.leaves {
            let by_need = (memory / 2).saturating_mul(leaf.need.weight()) / whole.max(1);
            leaf.choice.limits =
                dictionary_limits_within(memory / 2 / count + by_need, leaf.need.entry_bytes());
        }
    }

    /// The reasons for the encodings of all leaves.
    pub fn reasons(&self) -> Vec<Reason> {
        let of = |leaf: &LeafChoice| {
            let otherwise = if leaf.named { Reason::Named } else { Reason::Only };
            leaf.choice.reason.unwrap_or(otherwise)
        };
        self.leaves.iter().map(of).collect()
    }

    /// Learns from a closed row group, whose leaves ended with these choices. Columns whose values changed are tried
    /// again.
    pub fn learn(&mut self, row_group: &RowGroupMetaData, choices: &[Choice]) {
        self.rows = usize::try_from(row_group.num_rows()).unwrap_or(0).max(1);
        for ((leaf, chunk), choice) in self.leaves.iter_mut().zip(row_group.columns()).zip(choices) {
            leaf.learn(chunk, *choice);
        }
    }
}

const WITH_DICTIONARY: Choice = Choice::new(true, Encoding::PLAIN);

/// The values of a chunk that are not null.
pub(super) fn values(chunk: &ColumnChunkMetaData) -> usize {
    let nulls = result::nulls(chunk).unwrap_or(0);
    let values = u64::try_from(chunk.num_values())
        .unwrap_or(0)
        .saturating_sub(nulls);
    usize::try_from(values).unwrap_or(usize::MAX)
}

/// Encodings to try without a dictionary: those that every supported reader reads. Spark's vectorized reader refuses
/// `BYTE_STREAM_SPLIT`.
fn candidates(kind: Type) -> &'static [Encoding] {
    match kind {
        Type::INT32 | Type::INT64 => &[Encoding::PLAIN, Encoding::DELTA_BINARY_PACKED],
        Type::BYTE_ARRAY => &[Encoding::PLAIN, Encoding::DELTA_LENGTH_BYTE_ARRAY],
        _ => PLAIN_ONLY,
    }
}
