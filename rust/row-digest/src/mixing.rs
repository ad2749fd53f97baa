//! The hash functions of the canonical encoding. Their definition is fixed: digests are stored.

use twox_hash::XxHash3_64;

/// The cell of every null.
pub(crate) const NULL: u64 = 0x9d1b_3c5e_7f02_46a9;
/// The start of the fold over a row's cells.
pub(crate) const ROW: u64 = 0x6a09_e667_f3bc_c909;

const FOLD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The kind of a cell's value, mixed in so that equal bits of different kinds differ.
#[derive(Clone, Copy)]
#[repr(u64)]
pub(crate) enum Tag {
    Bool = 0xa54f_f53a_5f1d_36f1,
    Signed = 0x510e_527f_ade6_82d1,
    Unsigned = 0x9b05_688c_2b3e_6c1f,
    Float = 0x1f83_d9ab_fb41_bd6b,
    Decimal = 0x5be0_cd19_137e_2179,
    Text = 0xcbbb_9d5d_c105_9ed8,
    Bytes = 0x629a_292a_367c_d507,
    Interval = 0x9159_015a_3070_dd17,
    List = 0x152f_ecd8_f70e_5939,
    Struct = 0x6733_2667_ffc0_0b31,
}

/// A bijection in which every input bit changes half of the output bits (`SplitMix64`'s finaliser).
#[inline]
pub(crate) const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Adds one cell to a running hash. Order matters, and for a given hash different cells never collide.
#[inline]
pub(crate) const fn fold(hash: u64, cell: u64) -> u64 {
    (hash ^ cell).wrapping_mul(FOLD).rotate_left(31)
}

/// The cell of a value that fits 64 bits.
#[inline]
pub(crate) const fn word(tag: Tag, value: u64) -> u64 {
    mix(tag as u64 ^ value)
}

/// The cell of a byte string.
#[inline]
pub(crate) fn bytes(tag: Tag, value: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(tag as u64, value)
}

/// The bits of a float, with one form for all NaN.
#[inline]
pub(crate) fn float_bits(value: f64) -> u64 {
    if value.is_nan() {
        f64::NAN.to_bits() & !(1 << 63)
    } else {
        value.to_bits()
    }
}
