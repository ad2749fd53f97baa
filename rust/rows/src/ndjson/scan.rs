//! A search for the end of a JSON string, sixteen bytes at a time.

/// Returns true if a byte ends a plain run of a JSON string: its quote, an escape, or a control character.
#[inline]
pub(crate) fn is_special(byte: u8) -> bool {
    byte == b'"' || byte == b'\\' || byte < 0x20
}

/// One bit for each special byte, the first byte's lowest.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn special(chunk: &[u8; 16]) -> u32 {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
    };
    // SAFETY: SSE2 belongs to every x86-64, and any sixteen bytes are a vector of them.
    #[expect(unsafe_code, reason = "SSE2, which halves the time of the scan")]
    let mask = unsafe {
        let bytes = std::mem::transmute::<[u8; 16], __m128i>(*chunk);
        let quote = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x22));
        let escape = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x5c));
        let control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
        _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quote, escape), control))
    };
    mask.cast_unsigned()
}

/// One bit for each special byte, the first byte's lowest.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(crate) fn special(chunk: &[u8; 16]) -> u32 {
    chunk
        .iter()
        .rev()
        .fold(0, |mask, byte| mask << 1 | u32::from(is_special(*byte)))
}

/// One bit for each special byte of thirty-two.
#[inline]
pub(crate) fn special_32(chunk: &[u8; 32]) -> u32 {
    let (first, last) = (chunk.first_chunk(), chunk.last_chunk());
    first.map_or(0, special) | last.map_or(0, special) << 16
}

/// The position of the first special byte from `start` on; the length of `bytes` if there is none.
#[inline]
pub(crate) fn plain_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start;
    let mut rest = bytes.get(start..).unwrap_or_default();
    while let Some((chunk, next)) = rest.split_first_chunk::<16>() {
        let mask = special(chunk);
        if mask != 0 {
            return at + mask.trailing_zeros() as usize;
        }
        at += 16;
        rest = next;
    }
    at + rest.iter().take_while(|byte| !is_special(**byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_at_every_place_is_seen_as_the_definition_has_it() {
        for byte in 0..=255 {
            for place in 0..16 {
                let mut chunk = [b'x'; 16];
                chunk[place] = byte;
                let expected = if is_special(byte) { 1 << place } else { 0 };
                assert_eq!(special(&chunk), expected, "{byte:#x} at {place}");
                let mut wide = [b'x'; 32];
                wide[16..].copy_from_slice(&chunk);
                assert_eq!(special_32(&wide), expected << 16);
                wide.rotate_left(16);
                assert_eq!(special_32(&wide), expected);
            }
        }
    }
}
