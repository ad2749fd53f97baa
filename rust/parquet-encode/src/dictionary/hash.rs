//! Hashes for the tables: folded multiplication with fixed seeds, so that every run is alike.
//!
//! They guard against patterns in data, not against data that was chosen to collide: for such data a dictionary is
//! given up after a bounded number of probes.

use crate::bitmap::array;
use crate::byte_arrays::Head;

/// Digits of pi's fraction in hexadecimal, so that nothing was chosen. Numbers are multiplied by the second one, which
/// is the sixth word of the digits: its multiples spread evenly where values rise by a power of two or of ten, or by a
/// day.
const SEEDS: [u64; 4] = [
    0x243f_6a88_85a3_08d3,
    0xc0ac_29b7_c97c_50dd,
    0xa409_3822_299f_31d1,
    0x082e_fa98_ec4e_6c89,
];

/// The two halves of the product, combined by exclusive or.
#[inline(always)]
fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    product as u64 ^ (product >> 64) as u64
}

/// The hash of a number.
#[inline(always)]
pub(super) fn of_word(bits: u64) -> u32 {
    (fold(bits ^ SEEDS[0], SEEDS[1]) >> 32) as u32
}

/// The hash of a value that is its head.
#[inline(always)]
pub(super) fn of_short(head: Head) -> u32 {
    (mix_head(head) >> 32) as u32
}

/// The hash of a value of more than 16 bytes. It has two chains, so that one multiplication need not wait for the
/// other. The last step overlaps the one before, so that lengths which differ by a few bytes take the same branches.
/// Every byte counts: in a column of addresses, the bytes that differ may be anywhere.
#[inline(always)]
pub(super) fn of_long(head: Head, value: &[u8]) -> u32 {
    let (mut left, mut right) = (mix_head(head), SEEDS[0]);
    let (middle, end) = (&value[16..value.len() - 1], &value[value.len() - 16..]);
    for step in middle.as_chunks::<32>().0 {
        left = mix(left, step);
        right = mix(right, &step[16..]);
    }
    if let Some((_, last)) = value.split_last_chunk::<32>() {
        left = mix(left, last);
    }
    (mix(left ^ right, end) >> 32) as u32
}

#[inline(always)]
fn mix_head(head: Head) -> u64 {
    fold(
        head.bytes as u64 ^ SEEDS[0],
        (head.bytes >> 64) as u64 ^ SEEDS[1] ^ u64::from(head.len),
    )
}

#[inline(always)]
fn mix(hash: u64, bytes: &[u8]) -> u64 {
    let (low, high) = (
        u64::from_le_bytes(array(bytes)),
        u64::from_le_bytes(array(&bytes[8..])),
    );
    fold(low ^ SEEDS[2] ^ hash, high ^ SEEDS[3])
}
