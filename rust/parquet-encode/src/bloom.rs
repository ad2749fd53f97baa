//! Split-block bloom filters.
//!
//! `BloomFilter.md`. Values are hashed as PLAIN stores them, byte arrays without their length.

use twox_hash::XxHash64;

use crate::bitmap::array;
use crate::fixed::{Fixed, as_bytes};
use crate::thrift::StructWriter;

/// Odd constants of the specification, one for each word of a block.
const SALT: [u32; 8] = [
    0x47b6_137b,
    0x4497_4d91,
    0x8824_ad5b,
    0xa2b7_289d,
    0x7054_95c7,
    0x2df1_424b,
    0x9efc_4947,
    0x5c6b_fb31,
];

/// Bytes of a block (`BloomFilter.md`).
pub const BLOCK_BYTES: usize = 32;

/// The most bytes of a filter. Readers refuse more.
const MOST_BYTES: usize = 128 << 20;

/// A bloom filter: a set that may also hold values that were not put in.
#[derive(Clone, Debug)]
pub struct BloomFilter {
    blocks: Vec<[u32; 8]>,
}

/// The bytes of a filter that holds `distinct` values with the false positive rate `fpp`.
#[must_use]
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "an estimate, then a power of two"
)]
pub fn size_for(distinct: usize, fpp: f64) -> usize {
    let bits = -8.0 * distinct as f64 / (1.0 - fpp.clamp(1e-9, 1.0 - 1e-9).powf(1.0 / 8.0)).ln();
    ((bits / 8.0).ceil() as usize)
        .clamp(BLOCK_BYTES, MOST_BYTES)
        .next_power_of_two()
}

/// The hash of a byte array.
#[must_use]
pub fn hash_bytes(value: &[u8]) -> u64 {
    XxHash64::oneshot(0, value)
}

/// The hash of an integer, a float or a fixed-size array. Integers of fewer than 32 bits are widened first.
#[inline(always)]
pub fn hash_fixed<T: Fixed>(value: T) -> u64 {
    let bytes = as_bytes(std::slice::from_ref(&value));
    match bytes.len() {
        4 => {
            let word = u64::from(u32::from_le_bytes(array(bytes)));
            let hash = PRIMES[4].wrapping_add(4) ^ word.wrapping_mul(PRIMES[0]);
            avalanche(
                hash.rotate_left(23)
                    .wrapping_mul(PRIMES[1])
                    .wrapping_add(PRIMES[2]),
            )
        }
        8 => {
            let word = u64::from_le_bytes(array(bytes));
            let round = word
                .wrapping_mul(PRIMES[1])
                .rotate_left(31)
                .wrapping_mul(PRIMES[0]);
            let hash = PRIMES[4].wrapping_add(8) ^ round;
            avalanche(
                hash.rotate_left(27)
                    .wrapping_mul(PRIMES[0])
                    .wrapping_add(PRIMES[3]),
            )
        }
        _ => hash_bytes(bytes),
    }
}

/// The primes of XXH64. Short inputs need only one step of it, which is several times faster than the general
/// algorithm.
const PRIMES: [u64; 5] = [
    0x9e37_79b1_85eb_ca87,
    0xc2b2_ae3d_27d4_eb4f,
    0x1656_67b1_9e37_79f9,
    0x85eb_ca77_c2b2_ae63,
    0x27d4_eb2f_1656_67c5,
];

/// The last step of XXH64.
#[inline(always)]
fn avalanche(hash: u64) -> u64 {
    let hash = (hash ^ hash >> 33).wrapping_mul(PRIMES[1]);
    let hash = (hash ^ hash >> 29).wrapping_mul(PRIMES[2]);
    hash ^ hash >> 32
}

impl BloomFilter {
    /// An empty filter of at least `bytes` bytes.
    #[must_use]
    pub fn with_size(bytes: usize) -> Self {
        let blocks = bytes.clamp(BLOCK_BYTES, MOST_BYTES).next_power_of_two() / BLOCK_BYTES;
        Self {
            blocks: vec![[0; 8]; blocks],
        }
    }

    /// An empty filter for so many distinct values; see [`size_for`].
    #[must_use]
    pub fn new(distinct: usize, fpp: f64) -> Self {
        Self::with_size(size_for(distinct, fpp))
    }

    /// Bytes of the bits.
    #[must_use]
    pub fn size(&self) -> usize {
        self.blocks.len() * BLOCK_BYTES
    }

    /// The memory that is held, used or not.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.blocks.capacity() * BLOCK_BYTES
    }

    /// Puts a value in by its hash.
    #[inline(always)]
    pub fn insert_hash(&mut self, hash: u64) {
        let block = self.block_of(hash);
        for (word, mask) in self.blocks[block].iter_mut().zip(masks(hash)) {
            *word |= mask;
        }
    }

    /// Returns true if the value of this hash may have been put in.
    #[must_use]
    pub fn may_hold_hash(&self, hash: u64) -> bool {
        let block = self.blocks[self.block_of(hash)];
        block.iter().zip(masks(hash)).all(|(word, mask)| word & mask != 0)
    }

    #[inline(always)]
    fn block_of(&self, hash: u64) -> usize {
        (((hash >> 32) * self.blocks.len() as u64) >> 32) as usize
    }

    /// Halves the filter as long as its false positive rate stays within `fpp`, for filters that were made for more
    /// values than came.
    pub fn shrink(&mut self, distinct: usize, fpp: f64) {
        let wanted = size_for(distinct, fpp) / BLOCK_BYTES;
        while self.blocks.len() > wanted {
            // The block of a hash is the product's high part, so neighbours become one.
            let half = self.blocks.len() / 2;
            for at in 0..half {
                let (left, right) = (self.blocks[2 * at], self.blocks[2 * at + 1]);
                self.blocks[at] = std::array::from_fn(|word| left[word] | right[word]);
            }
            self.blocks.truncate(half);
        }
    }

    /// Appends the header and the bits, uncompressed.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut header = StructWriter::new(out);
        header.i32(1, self.size() as i32);
        // Unions of which there is one member each: BLOCK, XXHASH, UNCOMPRESSED.
        for field in 2..=4 {
            header.nested(field, |union| union.nested(1, |_| {}));
        }
        header.end();
        for block in &self.blocks {
            out.extend_from_slice(as_bytes(block));
        }
    }
}

/// One bit for each word.
#[inline(always)]
fn masks(hash: u64) -> [u32; 8] {
    SALT.map(|salt| 1 << ((hash as u32).wrapping_mul(salt) >> 27))
}
