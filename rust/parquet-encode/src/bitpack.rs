//! Packing integers to a fixed number of bits each, least significant bit first.
//!
//! `Encodings.md`, "Run Length Encoding / Bit-Packing Hybrid (RLE = 3)", the bit-packed run; the same order is used by
//! the miniblocks of "Delta Encoding (`DELTA_BINARY_PACKED` = 5)".
//!
//! Blocks of 32 values take `4 * width` bytes, so each block starts at a byte and every shift in it is a constant: one
//! straight-line kernel per width.

/// How many values a kernel packs at once.
pub const BLOCK: usize = 32;

/// The bits that `value` needs.
#[must_use]
#[inline(always)]
pub fn width_of(value: u64) -> u8 {
    (64 - value.leading_zeros()) as u8
}

/// Bytes that `count` values take when padded to a multiple of 8 values.
#[must_use]
#[inline]
pub fn packed_size(count: usize, width: u8) -> usize {
    count.div_ceil(8) * usize::from(width)
}

/// Runs a block of code with `$i` as each constant from 0 to 31.
macro_rules! each_of_32 {
    ($i:ident, $body:block) => {
        each_of_32!(@ $i, $body, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31)
    };
    (@ $i:ident, $body:block, $($n:literal),+) => {
        $({
            const $i: usize = $n;
            $body
        })+
    };
}

/// Calls `$kernel::<WIDTH>` with the constant that equals `$width`.
macro_rules! with_width {
    ($width:expr, $kernel:ident, $values:ident, $out:ident, [$($n:literal)+]) => {
        match $width {
            $($n => $kernel::<$n>($values, $out),)+
            _ => {}
        }
    };
}

/// Packs 32 values below `2^W` into the first `4 * W` bytes of `out`.
#[inline(always)]
fn block_u32<const W: usize>(values: &[u32; BLOCK], out: &mut [u8]) {
    let mut words = [0u32; BLOCK];
    if W > 0 {
        each_of_32!(I, {
            let (word, shift) = (I * W / 32, I * W % 32);
            words[word] |= values[I] << shift;
            if shift + W > 32 {
                words[word + 1] |= values[I] >> (32 - shift);
            }
        });
    }
    let out = &mut out[..4 * W];
    for (bytes, word) in out.chunks_exact_mut(4).zip(&words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}

/// Packs 32 values below `2^W` into the first `4 * W` bytes of `out`.
#[inline(always)]
fn block_u64<const W: usize>(values: &[u64; BLOCK], out: &mut [u8]) {
    let mut words = [0u64; BLOCK];
    if W > 0 {
        each_of_32!(I, {
            let (word, shift) = (I * W / 64, I * W % 64);
            words[word] |= values[I] << shift;
            if shift + W > 64 {
                words[word + 1] |= values[I] >> (64 - shift);
            }
        });
    }
    let out = &mut out[..4 * W];
    for (bytes, word) in out.chunks_exact_mut(8).zip(&words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    if W % 2 == 1 {
        out[4 * W - 4..].copy_from_slice(&(words[W / 2] as u32).to_le_bytes());
    }
}

#[inline(always)]
fn blocks_u32<const W: usize>(values: &[u32], out: &mut [u8]) {
    if W == 0 {
        return;
    }
    let (blocks, rest) = values.as_chunks::<BLOCK>();
    let (whole, tail) = out.split_at_mut(blocks.len() * 4 * W);
    for (block, bytes) in blocks.iter().zip(whole.chunks_exact_mut(4 * W)) {
        block_u32::<W>(block, bytes);
    }
    if !rest.is_empty() {
        let mut padded = [0; BLOCK];
        padded[..rest.len()].copy_from_slice(rest);
        let mut bytes = [0; 4 * BLOCK];
        block_u32::<W>(&padded, &mut bytes);
        tail.copy_from_slice(&bytes[..tail.len()]);
    }
}

#[inline(always)]
fn blocks_u64<const W: usize>(values: &[u64], out: &mut [u8]) {
    if W == 0 {
        return;
    }
    let (blocks, rest) = values.as_chunks::<BLOCK>();
    let (whole, tail) = out.split_at_mut(blocks.len() * 4 * W);
    for (block, bytes) in blocks.iter().zip(whole.chunks_exact_mut(4 * W)) {
        block_u64::<W>(block, bytes);
    }
    if !rest.is_empty() {
        let mut padded = [0; BLOCK];
        padded[..rest.len()].copy_from_slice(rest);
        let mut bytes = [0; 8 * BLOCK];
        block_u64::<W>(&padded, &mut bytes);
        tail.copy_from_slice(&bytes[..tail.len()]);
    }
}

/// Packs `values`, each below `2^width`, `width` at most 32, into `out`, which is [`packed_size`] long.
#[inline(always)]
pub(crate) fn pack_u32_kernel(values: &[u32], width: u8, out: &mut [u8]) {
    with_width!(width, blocks_u32, values, out, [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32]);
}

/// Packs `values`, each below `2^width`, `width` at most 64, into `out`, which is [`packed_size`] long.
#[inline(always)]
pub(crate) fn pack_u64_kernel(values: &[u64], width: u8, out: &mut [u8]) {
    with_width!(width, blocks_u64, values, out, [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64]);
}
