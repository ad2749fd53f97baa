//! Definition and repetition levels.
//!
//! `README.md` of the format, "Nested Encoding" and "Data Pages"; `Encodings.md`, "Run Length Encoding / Bit-Packing
//! Hybrid (RLE = 3)". In V1 pages the size of the levels comes before them; V2 pages have it in the header.

use crate::bitmap::Bitmap;
use crate::cpu::dispatch;
use crate::rle::{self, Symbol};
use crate::sink::with_length_prefix;

/// The form of a page's levels: with or without their size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelForm {
    /// Data page V1: four bytes of size, then the runs.
    V1,
    /// Data page V2: the runs alone.
    V2,
}

/// The number of equal words of 64 levels that is worth a run of its own. A shorter run would save a few bytes that
/// compress to nothing, and cost the reader a switch.
const RUN_WORDS: usize = 2;

/// Appends levels from 0 to `max_level`. Nothing is appended when there is only one level.
pub fn encode_levels<T: Symbol>(levels: &[T], max_level: u32, form: LevelForm, out: &mut Vec<u8>) {
    if max_level == 0 {
        return;
    }
    let width = rle::bit_width(max_level);
    match form {
        LevelForm::V1 => rle::encode_with_length(levels, width, out),
        LevelForm::V2 => rle::encode(levels, width, out),
    }
}

/// Appends the level `level`, `count` times: for a column without nulls, or with nothing else.
pub fn encode_constant_levels(level: u32, count: usize, max_level: u32, form: LevelForm, out: &mut Vec<u8>) {
    if max_level == 0 {
        return;
    }
    let width = rle::bit_width(max_level);
    match form {
        LevelForm::V1 => with_length_prefix(out, |out| rle::encode_run(level, count, width, out)),
        LevelForm::V2 => rle::encode_run(level, count, width, out),
    }
}

/// Appends the definition levels of a flat nullable column: they are its validity bits.
pub fn encode_validity(validity: &Bitmap<'_>, form: LevelForm, out: &mut Vec<u8>) {
    match form {
        LevelForm::V1 => with_length_prefix(out, |out| encode_bits(validity, out)),
        LevelForm::V2 => encode_bits(validity, out),
    }
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
