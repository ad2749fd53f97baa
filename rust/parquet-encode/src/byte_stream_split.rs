//! `BYTE_STREAM_SPLIT`: the first bytes of all values, then all second bytes, and so on.
//!
//! `Encodings.md`, "Byte Stream Split (`BYTE_STREAM_SPLIT` = 9)". The size is that of PLAIN; the gain is in
//! compression.

use crate::cpu::dispatch;
use crate::sink::grow;

/// The number of values that are split together. They stay in the nearest cache while each of their bytes is read.
const TOGETHER: usize = 256;

/// Splits values of `SIZE` bytes that are made of words of `W` bytes.
#[inline(always)]
fn split<const W: usize, const SIZE: usize>(data: &[u8], out: &mut [u8], word: impl Fn(&[u8; W]) -> u64) {
    let values = data.as_chunks::<SIZE>().0;
    let count = values.len();
    for (index, together) in values.chunks(TOGETHER).enumerate() {
        for byte in 0..SIZE {
            let at = byte * count + index * TOGETHER;
            // Shifts of whole words vectorise; picking bytes does not.
            for (out, value) in out[at..at + together.len()].iter_mut().zip(together) {
                let words = value.as_chunks::<W>().0;
                *out = (word(&words[byte / W]) >> (byte % W * 8)) as u8;
            }
        }
    }
}

#[inline(always)]
fn of_u32(bytes: &[u8; 4]) -> u64 {
    u32::from_le_bytes(*bytes).into()
}

#[inline(always)]
fn of_u64(bytes: &[u8; 8]) -> u64 {
    u64::from_le_bytes(*bytes)
}

#[inline(always)]
fn split_any(data: &[u8], width: usize, out: &mut [u8]) {
    let count = data.len() / width;
    for (index, together) in data.chunks(width * TOGETHER).enumerate() {
        for byte in 0..width {
            let at = byte * count + index * TOGETHER;
            for (out, value) in out[at..].iter_mut().zip(together.chunks_exact(width)) {
                *out = value[byte];
            }
        }
    }
}

#[inline(always)]
fn encode_kernel(data: &[u8], width: usize, out: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    assert!(
        data.len().is_multiple_of(width),
        "{} bytes are no values of {width} bytes",
        data.len()
    );
    let start = grow(out, data.len());
    let out = &mut out[start..];
    match width {
        4 => split::<4, 4>(data, out, of_u32),
        8 => split::<8, 8>(data, out, of_u64),
        16 => split::<8, 16>(data, out, of_u64),
        _ => split_any(data, width, out),
    }
}

dispatch! {
    /// Appends the streams of the values in `data`, each of `width` bytes. For integers and floats, `data` is their
    /// [`as_bytes`](crate::fixed::as_bytes).
    ///
    /// # Panics
    ///
    /// If `data` does not hold whole values.
    pub fn encode(data: &[u8], width: usize, out: &mut Vec<u8>) = encode_kernel;
}
