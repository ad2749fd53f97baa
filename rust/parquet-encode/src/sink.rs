//! Appending to a caller's buffer.

/// Appends `bound` zeroed bytes and returns their start. The caller truncates to the bytes that it used.
///
/// No closure fills them: a closure is compiled for the baseline even where its caller is a wide variant.
#[inline(always)]
pub(crate) fn grow(out: &mut Vec<u8>, bound: usize) -> usize {
    let start = out.len();
    out.resize(start + bound, 0);
    start
}

/// Appends an unsigned LEB128 number.
#[inline]
pub(crate) fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Maps signed numbers to unsigned ones so that small magnitudes stay small.
#[inline]
pub(crate) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Appends the output of `body`, behind its length as four little-endian bytes.
pub(crate) fn with_length_prefix(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    let length = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&length.to_le_bytes());
}
