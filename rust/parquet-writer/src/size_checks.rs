//! The plan of a row group's size checks: the bytes of values after which its encoded bytes are counted.
//!
//! Between two checks, rows are encoded one column after the other. So checks are few, and each is planned by what the
//! one before found. They follow from the rows alone, however these were cut into batches.

/// The share of the limit after which a row group is checked for the first time, in bytes of values. The first pages of
/// all columns are compressed then.
const FIRST: u64 = 8;
/// The most bytes of values between two checks, in limits. A row group whose values stop to compress overruns its limit
/// by no more.
const MOST_AHEAD: u64 = 3;

/// The size checks of one row group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SizeChecks {
    /// Encoded bytes that close the row group.
    limit: u64,
    /// Bytes of the values so far.
    weight: u64,
    /// Bytes of values at the next check.
    due: u64,
}

impl SizeChecks {
    /// The checks of a row group that `limit` encoded bytes close.
    pub fn new(limit: u64) -> Self {
        Self {
            limit,
            weight: 0,
            due: limit / FIRST,
        }
    }

    /// Counts the bytes of values that follow.
    pub fn add(&mut self, weight: u64) {
        self.weight = self.weight.saturating_add(weight);
    }

    /// Returns true if it is time for a check.
    pub fn is_due(&self) -> bool {
        self.weight >= self.due
    }

    /// Returns true if a row group of so many encoded bytes is full. If not, the next check comes when half of what is
    /// left should be used up, going by the bytes that values took so far.
    pub fn is_full(&mut self, encoded: u64) -> bool {
        let left = self.limit.saturating_sub(encoded);
        let ahead = u128::from(left / 2) * u128::from(self.weight) / u128::from(encoded.max(1));
        let most = self.limit.saturating_mul(MOST_AHEAD);
        let ahead = u64::try_from(ahead).unwrap_or(u64::MAX).min(most);
        self.due = self.weight.saturating_add(ahead);
        left == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The values' bytes at which a row group ends that takes `share` encoded bytes for each of 1,000, in steps of
    /// `step`, and the number of its checks.
    fn run(limit: u64, step: u64, share: impl Fn(u64) -> u64) -> (u64, u64, usize) {
        let mut checks = SizeChecks::new(limit);
        let (mut weight, mut encoded, mut count) = (0, 0, 0);
        loop {
            checks.add(step);
            weight += step;
            encoded += step * share(weight) / 1000;
            if checks.is_due() {
                count += 1;
                if checks.is_full(encoded) {
                    return (weight, encoded, count);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn rows_alike_end_a_row_group_with_the_step_that_fills_it(
            limit in 1_u64..1 << 30,
            steps in 1_u64..2_000,
            share in 50_u64..1_500,
        ) {
            let step = limit.div_ceil(steps) * 1000;
            let (_, encoded, count) = run(limit, step, |_| share);
            prop_assert!(encoded >= limit && encoded - step * share / 1000 < limit, "{encoded} of {limit}");
            prop_assert!(count <= 64, "{count} checks");
        }

        #[test]
        fn values_that_stop_to_compress_overrun_a_row_group_by_three_limits_at_most(
            limit in 1_u64 << 10..1 << 30,
            calm in 0_u64..100,
            share in 1_u64..100,
        ) {
            let step = limit.div_ceil(64);
            let (_, encoded, _) = run(limit, step, |weight| if weight < calm * step { share } else { 1000 });
            prop_assert!(encoded <= limit * (1 + MOST_AHEAD) + step, "{encoded} of {limit}");
        }
    }
}
