//! The choice from what samples cost.

use arrow_array::ArrayRef;
use parquet::basic::{Encoding, Type};
use parquet::file::metadata::RowGroupMetaData;

use super::sample::{Sample, Scale, fell_back};
use super::{Choice, DICTIONARY_BYTES};
use crate::budget::Room;
use crate::error::Result;
use crate::options::{Compatibility, WriterOptions};
use crate::schema::FileSchema;

/// Fewer values than this say nothing.
const FEWEST_VALUES: usize = 64;
/// Bytes of a page below which the headers of delta blocks outweigh their savings.
const SMALLEST_DELTA_PAGE: usize = 16 << 10;
/// Rows of the sample that direct encodings are compared on. A small sample is enough: which one compresses better
/// shows soon.
const DIRECT_ROWS: usize = 512;
/// The cost of looking a value up, in bytes of a file; see `BYTES_WORTH_ONE` of the pages.
const LOOK_UP: f64 = 0.1;
const PLAIN_ONLY: &[Encoding] = &[Encoding::PLAIN];
/// Rows that a dictionary is assumed to serve as long as no row group was closed.
const ASSUMED_ROWS: usize = 262_144;
/// The relative change of the bytes per value between row groups above which a column is sampled again.
const DRIFT: f64 = 0.3;

/// Chooses encodings, and remembers them from one row group to the next.
pub(crate) struct Chooser {
    /// Leaf columns that may have a dictionary.
    allowed: Vec<bool>,
    leaves: Vec<Leaf>,
    rows: usize,
}

#[derive(Debug, Clone, Copy)]
struct Leaf {
    choice: Choice,
    /// True if the caller made the choice.
    named: bool,
    /// True if it need not be sampled again.
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
    /// The size in the whole sample. Without one it is twice that of the half, as if new entries went on at the same
    /// rate.
    fn of(sample: Option<&Sample>, half: Option<&Sample>) -> Self {
        let need = |sample: &Sample, share| Self {
            entries: sample.distinct * share,
            bytes: sample.dictionary * share,
        };
        let doubled = || half.map(|half| need(half, 2));
        sample
            .map(|sample| need(sample, 1))
            .or_else(doubled)
            .unwrap_or_default()
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

impl Leaf {
    fn unknown(allowed: bool) -> Self {
        Self {
            choice: Choice::new(allowed, Encoding::PLAIN),
            named: false,
            settled: false,
            need: Need::default(),
            value_bytes: None,
        }
    }

    fn named(choice: Choice) -> Self {
        Self {
            choice,
            named: true,
            settled: true,
            need: Need::default(),
            value_bytes: None,
        }
    }
}

impl Chooser {
    /// `named` holds the choices that the caller made.
    pub fn new(allowed: Vec<bool>, named: &[Option<Choice>], options: &WriterOptions) -> Self {
        let leaf = |(&allowed, named): (&bool, &Option<Choice>)| match named {
            Some(choice) => Leaf::named(*choice),
            None => Leaf::unknown(allowed),
        };
        let leaves = allowed.iter().zip(named).map(leaf).collect();
        Self {
            allowed,
            leaves,
            rows: ASSUMED_ROWS.min(options.row_group_rows),
        }
    }

    /// Chooses the encodings of a row group that begins with `sample`. A leaf with a preserved dictionary needs no
    /// choice; `preserved` holds the number and the bytes of its values.
    pub fn choose(
        &mut self,
        sample: &[ArrayRef],
        preserved: &[Option<(usize, usize)>],
        schema: &FileSchema,
        options: &WriterOptions,
    ) -> Result<Vec<Choice>> {
        for (leaf, preserved) in self.leaves.iter_mut().zip(preserved) {
            if let Some((entries, bytes)) = *preserved {
                leaf.choice = Choice::new(true, Encoding::PLAIN);
                leaf.settled = true;
                leaf.need = Need { entries, bytes };
            }
        }
        if self.leaves.iter().any(|leaf| !leaf.settled) {
            self.settle(sample, schema, options)?;
        }
        let mut choices: Vec<_> = self.leaves.iter().map(|leaf| leaf.choice).collect();
        if let Some(memory) = options.budget.dictionaries {
            self.share(memory, &mut choices);
        }
        Ok(choices)
    }

    /// Divides memory among the dictionaries: half of it equally, half by their size in the samples.
    fn share(&self, memory: usize, choices: &mut [Choice]) {
        let with_dictionary = || self.leaves.iter().filter(|leaf| leaf.choice.dictionary);
        let count = with_dictionary().count().max(1);
        let whole: usize = with_dictionary().map(|leaf| leaf.need.weight()).sum();
        for (choice, leaf) in choices.iter_mut().zip(&self.leaves) {
            let by_need = (memory / 2).saturating_mul(leaf.need.weight()) / whole.max(1);
            choice.room = Room::within(memory / 2 / count + by_need, leaf.need.entry_bytes());
        }
    }

    /// Learns from a closed row group. Columns whose values differ from their sample are sampled again.
    pub fn learn(&mut self, row_group: &RowGroupMetaData) {
        self.rows = usize::try_from(row_group.num_rows()).unwrap_or(0).max(1);
        for (leaf, chunk) in self.leaves.iter_mut().zip(row_group.columns()) {
            #[expect(clippy::cast_precision_loss, reason = "a ratio")]
            let value_bytes = chunk.compressed_size() as f64 / chunk.num_values().max(1) as f64;
            let drifted = leaf
                .value_bytes
                .is_some_and(|before| (value_bytes / before - 1.0).abs() > DRIFT);
            leaf.value_bytes = Some(value_bytes);
            let holds = leaf.settled && !drifted && !(leaf.choice.dictionary && fell_back(chunk));
            leaf.settled = leaf.named || holds;
        }
    }

    fn settle(&mut self, rows: &[ArrayRef], schema: &FileSchema, options: &WriterOptions) -> Result<()> {
        let scale = Scale::new(schema, options)?;
        let kinds: Vec<_> = (0..self.leaves.len())
            .map(|index| schema.parquet.column(index).physical_type())
            .collect();
        let allowed = |index: usize| !self.leaves[index].settled && self.allowed[index];
        let row_count = rows.first().map_or(0, |column| column.len());
        let halves = with_dictionaries(&scale, &first(rows, row_count / 2), kinds.len(), allowed)?;
        let doubtful = |index: usize| {
            let sample = halves[index].as_ref();
            allowed(index)
                && sample.is_none_or(|sample| few_values(sample) || is_open(kinds[index], Some(sample)))
        };
        let dictionaries = with_dictionaries(&scale, rows, kinds.len(), doubtful)?;
        let trials: Vec<_> = (0..kinds.len())
            .map(|index| {
                let undecided = match &dictionaries[index] {
                    Some(sample) => is_open(kinds[index], Some(sample)),
                    None => {
                        !self.leaves[index].settled && !self.allowed[index] && is_open(kinds[index], None)
                    }
                };
                match (undecided, options.compatibility) {
                    (false, _) => &[],
                    (true, Compatibility::V1) => PLAIN_ONLY,
                    // pyarrow makes dictionaries only of pages that are PLAIN or have one.
                    (true, Compatibility::Modern) if schema.dictionaries[index].is_some() => PLAIN_ONLY,
                    // The headers of a delta's block outweigh what it saves in so small a page.
                    (true, Compatibility::Modern) if options.page_bytes < SMALLEST_DELTA_PAGE => PLAIN_ONLY,
                    (true, Compatibility::Modern) => candidates(kinds[index]),
                }
            })
            .collect();
        let mut best = lightest(&scale, &first(rows, DIRECT_ROWS), &trials)?;
        weigh_against(&dictionaries, &mut best, &scale, rows)?;
        let row_count = row_count.max(1);
        for (index, leaf) in self
            .leaves
            .iter_mut()
            .enumerate()
            .filter(|(_, leaf)| !leaf.settled)
        {
            let (half, best) = (halves[index].as_ref(), best[index].as_ref());
            let dictionary = dictionaries[index].as_ref();
            let uncut = row_count.div_ceil(DIRECT_ROWS);
            let values = dictionary
                .map(|sample| sample.values)
                .or(half.map(|half| half.values * 2))
                .or(best.map(|best| best.sample.values * uncut))
                .unwrap_or(0);
            *leaf = Leaf::unknown(self.allowed[index]);
            leaf.settled = values >= FEWEST_VALUES;
            leaf.need = Need::of(dictionary, half);
            let Some(best) = best else { continue };
            leaf.choice = Choice::new(false, best.encoding);
            // Without repeats nothing is saved, and weighing would cost the most.
            let dictionary = dictionary.filter(|sample| sample.repeats());
            if let (Some(dictionary), Some(half)) = (dictionary, half) {
                let expected = self.rows.saturating_mul(values) / row_count;
                let weights = scale.weigh(dictionary)?;
                #[expect(clippy::cast_precision_loss, reason = "an estimate")]
                let direct = best.weight as f64 / best.sample.values.max(1) as f64;
                leaf.choice.dictionary = pays(dictionary, weights, half.distinct, direct, expected);
            }
        }
        Ok(())
    }
}

/// Samples, with a dictionary, the leaves that are wanted.
fn with_dictionaries(
    scale: &Scale<'_>,
    rows: &[ArrayRef],
    leaves: usize,
    wanted: impl Fn(usize) -> bool,
) -> Result<Vec<Option<Sample>>> {
    let choices: Vec<_> = (0..leaves)
        .map(|index| wanted(index).then_some(WITH_DICTIONARY))
        .collect();
    scale.encode(rows, &choices)
}

/// The first rows of a sample, or all that it has.
fn first(sample: &[ArrayRef], rows: usize) -> Vec<ArrayRef> {
    let columns = sample.iter();
    columns
        .map(|column| column.slice(0, rows.min(column.len())))
        .collect()
}

/// Returns true if half a sample has too few values to judge by.
fn few_values(half: &Sample) -> bool {
    half.values < FEWEST_VALUES
}

/// Weighs the best direct encoding again where a dictionary competes, in as many rows as the dictionary had. Repeats
/// that a codec finds only show in that many rows.
fn weigh_against(
    dictionaries: &[Option<Sample>],
    best: &mut [Option<Lightest>],
    scale: &Scale<'_>,
    rows: &[ArrayRef],
) -> Result<()> {
    let competes = |dictionary: &Option<Sample>| dictionary.as_ref().is_some_and(Sample::repeats);
    let leaves = best.iter().zip(dictionaries);
    let choices: Vec<_> = leaves
        .map(|(best, dictionary)| {
            let best = best.as_ref().filter(|_| competes(dictionary))?;
            Some(Choice::new(false, best.encoding))
        })
        .collect();
    for (best, sample) in best.iter_mut().zip(scale.encode(rows, &choices)?) {
        if let (Some(best), Some(sample)) = (best, sample) {
            (best.weight, _) = scale.weigh(&sample)?;
            best.sample = sample;
        }
    }
    Ok(())
}

const WITH_DICTIONARY: Choice = Choice::new(true, Encoding::PLAIN);

/// The best encoding of a leaf without a dictionary.
struct Lightest {
    encoding: Encoding,
    weight: usize,
    sample: Sample,
}

/// The lightest of each leaf's encodings.
fn lightest(scale: &Scale<'_>, rows: &[ArrayRef], trials: &[&[Encoding]]) -> Result<Vec<Option<Lightest>>> {
    let mut best: Vec<Option<Lightest>> = trials.iter().map(|_| None).collect();
    for round in 0..trials.iter().map(|trial| trial.len()).max().unwrap_or(0) {
        let direct = |trial: &&[Encoding]| trial.get(round).map(|&encoding| Choice::new(false, encoding));
        let choices: Vec<_> = trials.iter().map(direct).collect();
        for ((best, sample), choice) in best.iter_mut().zip(scale.encode(rows, &choices)?).zip(&choices) {
            let (Some(sample), Some(Choice { encoding, .. })) = (sample, *choice) else {
                continue;
            };
            let (weight, _) = scale.weigh(&sample)?;
            if best.as_ref().is_none_or(|best| weight < best.weight) {
                *best = Some(Lightest {
                    encoding,
                    weight,
                    sample,
                });
            }
        }
    }
    Ok(best)
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

/// Returns true unless a dictionary is plainly the best already.
fn is_open(kind: Type, with_dictionary: Option<&Sample>) -> bool {
    let Some(sample) = with_dictionary else {
        return kind != Type::BOOLEAN;
    };
    let repeats = match kind {
        Type::BOOLEAN => return false,
        // Few different integers may still be runs or steps, which deltas code in next to nothing.
        Type::INT32 | Type::INT64 => 32,
        _ => 8,
    };
    sample.values >= FEWEST_VALUES && (sample.distinct == 0 || sample.distinct * repeats > sample.values)
}

/// Returns true if a dictionary costs less than direct encoding, over the values that it serves before it is full.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn pays(
    with: &Sample,
    (index_weight, dictionary_weight): (usize, usize),
    distinct_in_half: usize,
    direct_weight: f64,
    values: usize,
) -> bool {
    if with.distinct == 0 || with.distinct == with.values {
        return false;
    }
    let (sampled, distinct) = (with.values as f64, with.distinct as f64);
    let growth = Growth::new(sampled, distinct, distinct_in_half as f64);
    let most_entries = DICTIONARY_BYTES as f64 / (with.dictionary as f64 / distinct);
    let served = growth.values_for(most_entries).min((values as f64).max(sampled));
    let entries = growth.distinct(served);
    let index_bits = |entries: f64| entries.log2().ceil().max(1.0);
    // First occurrences have rising indices, which compress in a sample; over a row group they are few.
    let (first, ratio) = (
        distinct / sampled,
        index_weight as f64 / (sampled * index_bits(distinct) / 8.0),
    );
    let index_bytes = index_bits(entries) / 8.0 * (ratio.min(1.0) * (1.0 - first) + first);
    let page_bytes = entries / served * dictionary_weight as f64 / distinct;
    index_bytes + page_bytes + LOOK_UP < direct_weight
}

/// The growth of the number of different values with the number of values.
enum Growth {
    /// Equally likely values: the number ends at their population.
    Uniform { population: f64 },
    /// Skewed or clustered values: the number is a power of the number of values, after Heaps.
    Power {
        sampled: f64,
        distinct: f64,
        exponent: f64,
    },
}

impl Growth {
    fn new(sampled: f64, distinct: f64, distinct_in_half: f64) -> Self {
        // As one counts fish by marking them: from how many values both halves of the sample have.
        let in_both = 2.0 * distinct_in_half - distinct;
        let population = distinct_in_half * distinct_in_half / in_both;
        let expected = population * (1.0 - (-sampled / population).exp());
        if in_both >= 1.0 && (expected / distinct - 1.0).abs() < 0.05 {
            return Self::Uniform { population };
        }
        let exponent = (distinct / distinct_in_half).log2();
        Self::Power {
            sampled,
            distinct,
            // Where the first half has no value, growth is not known: the worst is assumed.
            exponent: if exponent.is_finite() {
                exponent.clamp(0.01, 1.0)
            } else {
                1.0
            },
        }
    }

    fn distinct(&self, values: f64) -> f64 {
        match self {
            Self::Uniform { population } => population * (1.0 - (-values / population).exp()),
            Self::Power {
                sampled,
                distinct,
                exponent,
            } => distinct * (values / sampled).powf(*exponent),
        }
    }

    /// Returns the number of values after which there are `distinct` different ones.
    fn values_for(&self, distinct: f64) -> f64 {
        match self {
            Self::Uniform { population } if distinct >= *population => f64::INFINITY,
            Self::Uniform { population } => -population * (1.0 - distinct / population).ln(),
            Self::Power {
                sampled,
                distinct: seen,
                exponent,
            } => sampled * (distinct / seen).powf(1.0 / exponent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Growth;

    #[test]
    fn equally_likely_values_end_at_their_population() {
        for size in [500.0, 20_000.0] {
            let shown = |draws: f64| size * (1.0 - f64::exp(-draws / size));
            let growth = Growth::new(2048.0, shown(2048.0), shown(1024.0));
            assert!(
                (growth.distinct(1e7) / size - 1.0).abs() < 0.05,
                "{} for {size}",
                growth.distinct(1e7)
            );
            assert!((growth.values_for(growth.distinct(3000.0)) / 3000.0 - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn values_that_repeat_only_nearby_go_on_growing() {
        let growth = Growth::new(2048.0, 400.0, 201.0);
        assert!(growth.distinct(204_800.0) > 35_000.0);
        assert!((growth.values_for(growth.distinct(3000.0)) / 3000.0 - 1.0).abs() < 1e-6);
    }
}
