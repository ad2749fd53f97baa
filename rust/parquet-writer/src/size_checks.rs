//! The plan of a row group's size checks: the bytes of values after which its encoded bytes are counted.
//!
//! Between two checks, rows are encoded one column after the other. So checks are few, and each is planned by what the
//! one before found. They follow from the rows alone, however these were cut into batches.
//!
//! The first check is planned by a look at the first rows: the ratio at which they are encoded predicts how many values
//! fit, mostly more bytes of them than the limit. So a table that is there as a whole is encoded in two
//! steps at most, and in the first of them dictionaries are small.

/// The most bytes of values between two checks, in limits. A row group whose values stop to compress overruns its limit
/// by no more.
const MOST_AHEAD: u64 = 3;
/// The part of the limit whose values the look is about.
const LOOK_SHARE: u64 = 8;

/// The size checks of one row group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SizeChecks {
    /// Encoded bytes that close the row group.
    limit: u64,
    /// Bytes of the values so far.
    weight: u64,
    /// Bytes of values at the next check.
    due: u64,
    /// True once the first rows are those of the look.
    looks: bool,
}

impl SizeChecks {
    /// The checks of a row group that `limit` encoded bytes close.
    pub fn new(limit: u64) -> Self {
        Self {
            limit,
            weight: 0,
            // Values rarely take more bytes than they have, so rows with less fit.
            due: limit,
            looks: false,
        }
    }

    /// The bytes of values so far where the look comes behind them, once.
    pub fn begin_look(&mut self) -> Option<u64> {
        let begins = !self.looks && self.weight >= self.limit / LOOK_SHARE;
        self.looks |= begins;
        begins.then_some(self.weight)
    }

    /// Plans the first check by a look: `encoded` bytes were what values of `weight` bytes take.
    pub fn look(&mut self, weight: u64, encoded: u64) {
        self.due = self.due.max(self.next(weight, encoded));
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
        self.due = self.next(self.weight, encoded);
        encoded >= self.limit
    }

    /// The bytes of values at the check after one that found so many encoded bytes.
    fn next(&self, weight: u64, encoded: u64) -> u64 {
        let left = self.limit.saturating_sub(encoded);
        let ahead = u128::from(left / 2) * u128::from(weight) / u128::from(encoded.max(1));
        let most = self.limit.saturating_mul(MOST_AHEAD);
        let ahead = u64::try_from(ahead).unwrap_or(u64::MAX).min(most);
        weight.saturating_add(ahead)
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
            if let Some(weight) = checks.begin_look() {
                checks.look(weight, encoded);
            }
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
        fn rows_alike_end_a_row_group_with_the_step_that_fills_it_after_few_checks(
            limit in 1_u64..1 << 30,
            steps in 1_u64..2_000,
            share in 50_u64..=1_000,
        ) {
            let step = limit.div_ceil(steps) * 1000;
            let (_, encoded, count) = run(limit, step, |_| share);
            let of_step = step * share / 1000;
            prop_assert!(encoded >= limit && encoded - of_step < limit, "{encoded} of {limit}");
            // Each check leaves half of what is left, and comes after three limits of values at most.
            let halvings = (limit / of_step).max(1).ilog2() as usize;
            let capped = usize::try_from(1000 / share / MOST_AHEAD).unwrap();
            prop_assert!(count <= halvings + capped + 5, "{count} checks in {} steps", encoded / of_step);
        }

        #[test]
        fn values_that_grow_in_their_pages_overrun_a_row_group_by_what_they_grow(
            limit in 1_u64..1 << 30,
            steps in 1_u64..2_000,
            share in 1_001_u64..1_500,
        ) {
            let step = limit.div_ceil(steps) * 1000;
            let (_, encoded, count) = run(limit, step, |_| share);
            prop_assert_eq!(count, 1);
            prop_assert!(encoded <= limit.div_ceil(step) * step * share / 1000, "{} of {}", encoded, limit);
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
