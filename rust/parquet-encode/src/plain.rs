//! PLAIN: unencoded values.
//!
//! `Encodings.md`, "Plain (`PLAIN` = 0)".

use crate::bitmap::Bitmap;
use crate::byte_arrays::{ByteArrays, gather};
use crate::cpu::dispatch;
use crate::fixed::{Fixed, as_bytes};
use crate::levels::encode_bits;
use crate::sink::with_length_prefix;

/// Appends integers, floats or fixed-size arrays.
pub fn encode_fixed<T: Fixed>(values: &[T], out: &mut Vec<u8>) {
    out.extend_from_slice(as_bytes(values));
}

/// Appends booleans, eight to a byte.
pub fn encode_bools(values: &Bitmap<'_>, out: &mut Vec<u8>) {
    values.append_to(out);
}

/// Packs bytes of 0 and 1 to bits.
#[inline(always)]
fn pack_bools_kernel(values: &[u8], out: &mut Vec<u8>) {
    let (groups, rest) = values.as_chunks::<8>();
    out.extend(groups.iter().map(|group| pack_group(*group)));
    if !rest.is_empty() {
        let mut group = [0; 8];
        group[..rest.len()].copy_from_slice(rest);
        out.push(pack_group(group));
    }
}

/// Gathers the lowest bits of eight bytes.
#[inline(always)]
fn pack_group(group: [u8; 8]) -> u8 {
    // Each product puts one bit into the highest byte; none of the others carries into it.
    (u64::from_le_bytes(group).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}

dispatch! {
    /// Appends bytes of 0 and 1 as bits, eight to a byte.
    pub fn pack_bools(values: &[u8], out: &mut Vec<u8>) = pack_bools_kernel;
}

/// Appends booleans as runs: a data page of encoding RLE.
///
/// `Encodings.md`, "Run Length Encoding / Bit-Packing Hybrid (RLE = 3)": boolean values carry their size in four bytes.
pub fn encode_bools_rle(values: &Bitmap<'_>, out: &mut Vec<u8>) {
    with_length_prefix(out, |out| encode_bits(values, out));
}

#[inline(always)]
fn byte_arrays_kernel<V: ByteArrays>(values: &V, out: &mut Vec<u8>) {
    gather(values, values.total_bytes(), out, u32::to_le_bytes);
}

dispatch! {
    /// Appends byte arrays, each behind its length in four bytes.
    pub fn encode_byte_arrays<V: ByteArrays>(values: &V, out: &mut Vec<u8>) = byte_arrays_kernel;
}

/// Appends byte arrays that all have the width of the column: no lengths are stored.
pub fn encode_fixed_size<V: ByteArrays>(values: &V, out: &mut Vec<u8>) {
    if let Some(joined) = values.joined(0, values.len()) {
        out.extend_from_slice(joined);
    } else {
        gather(values, values.total_bytes(), out, |_| []);
    }
}

/// Appends decimals of 128 bits as big-endian two's complement of `width` bytes, the form of fixed-size decimals.
///
/// `LogicalTypes.md`, "DECIMAL". Bytes that do not fit are cut off the front; beyond 16 bytes the sign is repeated.
pub fn encode_decimals(values: &[i128], width: usize, out: &mut Vec<u8>) {
    let (pad, cut) = (width.saturating_sub(16), 16usize.saturating_sub(width));
    out.reserve(values.len() * width);
    for value in values {
        let bytes = value.to_be_bytes();
        out.extend(std::iter::repeat_n((value >> 127) as u8, pad));
        out.extend_from_slice(&bytes[cut..]);
    }
}
