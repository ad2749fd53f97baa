//! Definition and repetition levels.
//!
//! `README.md` of the format, "Nested Encoding" and "Data Pages"; `Encodings.md`, "Run Length Encoding / Bit-Packing
//! Hybrid (RLE = 3)". In V1 pages the size of the levels comes before them; V2 pages have it in the header.

use crate::bitmap::Bitmap;
use crate::cpu::dispatch;
use crate::rle::{self, Symbol};
use crate::sink::with_length_prefix;

/// Equal words of 64 levels that are worth a run of their own. Less would save a few bytes that compress to nothing,
/// and cost the reader a switch.
const RUN_WORDS: usize = 2;

/// Appends levels from 0 to `max_level`. Nothing is appended when there is only one level.
pub fn encode_levels<T: Symbol>(levels: &[T], max_level: u32, out: &mut Vec<u8>) {
    if max_level > 0 {
        rle::encode_with_length(levels, rle::bit_width(max_level), out);
    }
}

/// Appends `count` times the level `level`: a column without nulls, or of nothing else.
pub fn encode_constant_levels(level: u32, count: usize, max_level: u32, out: &mut Vec<u8>) {
    if max_level > 0 {
        let width = rle::bit_width(max_level);
        with_length_prefix(out, |out| rle::encode_run(level, count, width, out));
    }
}

/// Appends the definition levels of a flat nullable column: they are its validity bits.
pub fn encode_validity(validity: &Bitmap<'_>, out: &mut Vec<u8>) {
    with_length_prefix(out, |out| encode_bits(validity, out));
}

#[inline(always)]
fn encode_bits_kernel(bits: &Bitmap<'_>, out: &mut Vec<u8>) {
    let whole = bits.len() / 64;
    // Words before `start` are written, words from there to `at` hold no run.
    let (mut start, mut at) = (0, 0);
    while at < whole {
        let word = bits.word(at);
        if word != 0 && word != u64::MAX {
            at += 1;
            continue;
        }
        let first = at;
        while at < whole && bits.word(at) == word {
            at += 1;
        }
        if at - first >= RUN_WORDS {
            literal(bits, start * 64, first * 64, out);
            let tail = bits.len() - at * 64;
            if at == whole && tail > 0 && is_run(bits.word(at), tail) && bits.word(at) & 1 == word & 1 {
                rle::encode_run((word & 1) as u32, bits.len() - first * 64, 1, out);
                return;
            }
            rle::encode_run((word & 1) as u32, (at - first) * 64, 1, out);
            start = at;
        }
    }
    let rest = bits.len() - start * 64;
    if rest > 0 && rest <= 64 && is_run(bits.word(start), rest) {
        rle::encode_run((bits.word(start) & 1) as u32, rest, 1, out);
    } else {
        literal(bits, start * 64, bits.len(), out);
    }
}

fn is_run(word: u64, len: usize) -> bool {
    word == 0 || word == u64::MAX >> (64 - len)
}

fn literal(bits: &Bitmap<'_>, start: usize, end: usize, out: &mut Vec<u8>) {
    if start < end {
        rle::literal_header((end - start).div_ceil(8), out);
        bits.slice(start, end - start).append_to(out);
    }
}

dispatch! {
    /// Appends bits as runs of width 1.
    pub(crate) fn encode_bits(bits: &Bitmap<'_>, out: &mut Vec<u8>) = encode_bits_kernel;
}
