//! The match parameters of ZSTD for the pages of a column.
//!
//! A level of ZSTD is a set of parameters for files of all kinds. Columns are of one kind each: numbers repeat in
//! shorter pieces, text in longer ones. At level 1 the parameters are therefore chosen by column, by the compressed
//! size of a piece of a page. Every reader reads the output of any of them.

use zstd::zstd_safe::{CParameter, Strategy};

use crate::error::Result;

/// Bytes of a page that parameters are compared on: enough to show the differences that matter.
const TRIAL_BYTES: usize = 24 << 10;

/// Parameters beside the level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum MatchStrategy {
    /// The parameters of the level: repeats of 6 bytes or more.
    #[default]
    Level,
    /// Repeats of 7 bytes or more: often smaller for text, since fewer are coded, and never slower.
    Longer,
    /// Repeats of 4 bytes or more: smaller for numbers of narrow ranges.
    Shorter,
    /// A second table for long repeats, as level 2 has for pages of 256 KiB, with the other one twice as large.
    TwoTables,
}

impl MatchStrategy {
    const OTHERS: [Self; 3] = [Self::Longer, Self::Shorter, Self::TwoTables];

    pub fn parameters(self) -> &'static [CParameter] {
        match self {
            Self::Level => &[],
            Self::Longer => &[CParameter::MinMatch(7)],
            Self::Shorter => &[CParameter::MinMatch(4)],
            Self::TwoTables => &[
                CParameter::Strategy(Strategy::ZSTD_dfast),
                CParameter::ChainLog(14),
                CParameter::HashLog(15),
                CParameter::MinMatch(5),
            ],
        }
    }

    /// The least saving out of `bytes` that is worth the time, with a margin for the error of a sample.
    fn least_gain(self, bytes: usize) -> usize {
        match self {
            Self::Level | Self::Longer => 0,
            Self::Shorter => bytes / 100,
            Self::TwoTables => bytes / 80,
        }
    }

    /// Chooses the best parameters for pages like `body`, by the sizes that `compressed` returns.
    pub fn best(body: &[u8], mut compressed: impl FnMut(Self, &[u8]) -> Result<usize>) -> Result<Self> {
        // The middle: a page may begin with lengths or levels.
        let start = body.len().saturating_sub(TRIAL_BYTES) / 2;
        let sample = &body[start..body.len().min(start + TRIAL_BYTES)];
        let mut best = (Self::Level, compressed(Self::Level, sample)?);
        for strategy in Self::OTHERS {
            let weight = compressed(strategy, sample)? + strategy.least_gain(sample.len());
            if weight < best.1 {
                best = (strategy, weight);
            }
        }
        Ok(best.0)
    }
}

#[cfg(test)]
mod tests {
    use parquet::basic::{Compression, ZstdLevel};
    use proptest::prelude::*;

    use super::MatchStrategy;
    use crate::pages::Compressor;

    const ALL: [MatchStrategy; 4] = [
        MatchStrategy::Level,
        MatchStrategy::Longer,
        MatchStrategy::Shorter,
        MatchStrategy::TwoTables,
    ];

    fn zstd(level: i32) -> Compression {
        Compression::ZSTD(ZstdLevel::try_new(level).unwrap())
    }

    /// Bytes with repeats of all lengths, near and far.
    fn page() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop::collection::vec(any::<u8>(), 1..40);
        let pieces = prop::collection::vec((piece, 1..20_usize), 0..200);
        pieces.prop_map(|pieces| {
            pieces
                .into_iter()
                .flat_map(|(piece, times)| piece.repeat(times))
                .collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.div_ceil(4)))]

        #[test]
        fn one_context_serves_all_finders_in_any_order(
            pages in prop::collection::vec((page(), prop::sample::select(ALL.as_slice()), any::<bool>()), 1..12)
        ) {
            for (page, strategy, is_tried) in pages {
                Compressor::with(zstd(1), None, |compressor| {
                    if is_tried {
                        let size = compressor.try_out(&page)?;
                        assert_eq!(size, zstd::bulk::compress(&page, 1).unwrap().len());
                        assert_eq!(size, compressor.compress_with(MatchStrategy::Level, &page)?.len());
                    }
                    let compressed = compressor.compress_with(strategy, &page)?.to_vec();
                    assert_eq!(zstd::bulk::decompress(&compressed, page.len()).unwrap(), page);
                    // The same as from a context that never did anything else.
                    let mut fresh = zstd::bulk::Compressor::new(1).unwrap();
                    for parameter in strategy.parameters() {
                        fresh.set_parameter(*parameter).unwrap();
                    }
                    assert_eq!(compressed, fresh.compress(&page).unwrap());
                    Ok(())
                })
                .unwrap();
            }
        }
    }

    fn best(level: i32, page: &[u8]) -> MatchStrategy {
        Compressor::with(zstd(level), None, |compressor| compressor.best_strategy(page)).unwrap()
    }

    /// Bytes without a pattern.
    fn noise() -> impl Iterator<Item = u8> {
        let mut state = 1_u64;
        std::iter::repeat_with(move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.to_be_bytes()[0]
        })
    }

    /// Some of 200 numbers, in four bytes each and in no order, so that repeats are short.
    fn few_numbers() -> Vec<u8> {
        let number = |byte: u8| u32::from(byte % 200).wrapping_mul(2_654_435_761);
        noise()
            .take(25_000)
            .flat_map(|byte| number(byte).to_le_bytes())
            .collect()
    }

    #[test]
    fn a_few_numbers_are_searched_for_short_repeats() {
        assert_eq!(best(1, &few_numbers()), MatchStrategy::Shorter);
    }

    #[test]
    fn what_does_not_shrink_is_left_to_the_level() {
        let noise: Vec<u8> = noise().take(100_000).collect();
        assert_eq!(best(1, &noise), MatchStrategy::Level);
    }

    #[test]
    fn a_level_that_was_asked_for_is_kept() {
        assert_eq!(best(3, &few_numbers()), MatchStrategy::Level);
    }
}
