//! The growth of a dictionary, foretold from a part of its column.

/// The growth of the number of different values with the number of values.
#[derive(Debug)]
pub(crate) enum Growth {
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
    /// The growth of values of which `sampled` had `distinct` different ones, and the first half of them
    /// `distinct_in_half`.
    pub fn new(sampled: f64, distinct: f64, distinct_in_half: f64) -> Self {
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

    /// Returns the number of different ones among so many values.
    pub fn distinct(&self, values: f64) -> f64 {
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
    pub fn values_for(&self, distinct: f64) -> f64 {
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
