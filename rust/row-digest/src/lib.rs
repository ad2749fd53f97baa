//! Digests of Arrow record batches that tell whether two readers saw the same rows.
//!
//! A [`Digest`] holds, per column, the counts of values and nulls, the smallest and largest value and a checksum;
//! and over whole rows, one checksum that ignores their order and one that does not. All are sums, so digests of
//! parts made anywhere, in any order, [merge](Digest::merge) into the digest of the whole.
//!
//! # Canonical encoding
//!
//! Every cell becomes 64 bits. `mix` is the bijective finaliser of `SplitMix64`, `xxh3` is XXH3-64 with a seed,
//! `fold(h, x) = rotl((h ^ x) * K, 31)`, and each kind of value has its own tag, so an integer 1 is not `true`.
//!
//! | logical type | cell |
//! |---|---|
//! | null of any type | one constant |
//! | boolean | `mix(tag ^ 0 or 1)` |
//! | signed and unsigned integers | `mix(tag ^ value)`, extended to 64 bits; signed and unsigned have own tags |
//! | float | `mix(tag ^ bits)`, widened to 64 bits; every NaN is one NaN, -0.0 is not 0.0 |
//! | date, time, timestamp, duration | the integer in the type's own unit; the unit is part of the type's name |
//! | decimal | the unscaled value as four 64-bit words, each mixed in; precision and scale are part of the type's name
//! |
//! | string | `xxh3` of its UTF-8 bytes |
//! | binary, fixed-size binary | `xxh3` of its bytes, seeded apart from strings |
//! | interval | its fields folded in order |
//! | list | number of elements, then the elements' cells folded in order |
//! | struct | the fields' cells folded in order |
//! | map | a list of structs of key and value, in stored order |
//!
//! Large, view and dictionary forms of a type encode like the plain one, whatever the offsets or slices. A row is
//! its cells folded in column order; its place is mixed in for the checksum that knows order. No checksum is an
//! exclusive or, where pairs would cancel: all are wrapping 128-bit sums of mixed 64-bit values.

mod cells;
mod codec;
mod digest;
mod error;
mod extremes;
mod mixing;
mod sequence;
mod spark;
mod types;

pub use digest::{ColumnDigest, Digest, Positions, row_hashes};
pub use error::Error;
pub use extremes::Value;
pub use sequence::Sequence;
pub use spark::spark_row_hashes;
