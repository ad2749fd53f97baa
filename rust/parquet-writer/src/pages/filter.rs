//! The bloom filter of one column chunk.
//!
//! The number of different values of a chunk is not known before its last row. So hashes are kept as they are while
//! they are few. After that they go into a filter large enough for all rows, which is folded in the end.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use parquet::bloom_filter::Sbbf;
use parquet_encode::bloom::{BloomFilter, size_for};

use crate::error::Result;

/// The number of hashes that are kept as they are: 128 KiB of them.
const MOST_HASHES: usize = 16 << 10;

/// The plan of a bloom filter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FilterPlan {
    /// The false positive rate.
    pub fpp: f64,
    /// The most values that may come; a filter for more than them is left out.
    pub values: usize,
    /// Bytes that it may take.
    pub most_bytes: usize,
}

/// Collects the hashes of a chunk's values.
#[derive(Debug)]
pub(crate) struct Filter {
    plan: FilterPlan,
    few: HashSet<u64, BuildHasherDefault<Same>>,
    many: Option<BloomFilter>,
    /// The number of values that the large filter did not hold when they were put in.
    distinct: usize,
}

/// Hashes are hashed already.
#[derive(Debug, Default)]
pub(crate) struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes
            .iter()
            .fold(self.0, |hash, byte| hash << 8 | u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl Filter {
    pub fn new(plan: FilterPlan) -> Self {
        Self {
            plan,
            few: HashSet::default(),
            many: None,
            distinct: 0,
        }
    }

    /// Puts a value in by its hash.
    pub fn insert(&mut self, hash: u64) {
        let Some(many) = &mut self.many else {
            self.few.insert(hash);
            if self.few.len() >= MOST_HASHES.min(self.plan.most_bytes / 32) {
                self.overflow();
            }
            return;
        };
        if !many.may_hold_hash(hash) {
            self.distinct += 1;
            many.insert_hash(hash);
        }
    }

    fn overflow(&mut self) {
        let bytes = size_for(self.plan.values, self.plan.fpp).min(self.plan.most_bytes);
        let mut many = BloomFilter::with_size(1 << bytes.max(1).ilog2());
        let few = std::mem::take(&mut self.few);
        self.distinct = few.len();
        insert_all(&mut many, &few);
        self.many = Some(many);
    }

    /// The filter in the crate's form; `None` where its false positive rate would be too high.
    pub fn close(mut self) -> Result<Option<Sbbf>> {
        let Self { plan, distinct, .. } = self;
        let filter = match self.many.take() {
            None => {
                let mut filter = BloomFilter::new(self.few.len(), plan.fpp);
                insert_all(&mut filter, &self.few);
                filter
            }
            Some(many) if size_for(distinct, plan.fpp) > many.size() => return Ok(None),
            Some(mut many) => {
                many.shrink(distinct, plan.fpp);
                many
            }
        };
        let mut bytes = Vec::new();
        filter.write(&mut bytes);
        Ok(Some(Sbbf::from_bytes(&bytes)?))
    }

    /// Bytes of the filter if it were closed now, without its header; an upper bound where it would be left out.
    pub fn stored_bytes(&self) -> usize {
        let distinct = self.many.as_ref().map_or(self.few.len(), |_| self.distinct);
        size_for(distinct, self.plan.fpp)
    }

    pub fn memory_bytes(&self) -> usize {
        self.few.capacity() * 9 + self.many.as_ref().map_or(0, BloomFilter::memory_bytes)
    }
}

fn insert_all(filter: &mut BloomFilter, hashes: &HashSet<u64, BuildHasherDefault<Same>>) {
    for hash in hashes {
        filter.insert_hash(*hash);
    }
}
