//! JSON's numbers.

/// Powers of ten that are exact as doubles.
const EXACT_POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];
const EXACT_MANTISSA: u64 = 1 << 53;
/// So many digits fit 64 bits for sure.
const SAFE_DIGITS: usize = 18;

/// The length of the number that `bytes` begin with, by JSON's grammar.
pub(crate) fn length(bytes: &[u8]) -> Option<usize> {
    let digits = |from: usize| {
        bytes[from..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count()
    };
    let mut at = usize::from(bytes.first() == Some(&b'-'));
    match digits(at) {
        0 => return None,
        count if count > 1 && bytes[at] == b'0' => return None,
        count => at += count,
    }
    if bytes.get(at) == Some(&b'.') {
        match digits(at + 1) {
            0 => return None,
            count => at += 1 + count,
        }
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        match digits(at + 1 + sign) {
            0 => return None,
            count => at += 1 + sign + count,
        }
    }
    Some(at)
}

/// The integer at the start of `bytes` and its length, if it is short and the whole number.
#[inline]
pub(crate) fn short_integer(bytes: &[u8]) -> Option<(i64, usize)> {
    let negative = bytes.first() == Some(&b'-');
    let start = usize::from(negative);
    let (value, count) = digits(bytes.get(start..)?, 0);
    let end = start + count;
    let ended = !matches!(bytes.get(end), Some(b'.' | b'e' | b'E'));
    let plain = (1..=SAFE_DIGITS).contains(&count) && (count == 1 || bytes[start] != b'0') && ended;
    // More digits than a short one has may make any value, which is not looked at then.
    let value = value.cast_signed();
    plain.then_some((if negative { value.wrapping_neg() } else { value }, end))
}

/// The double at the start of `bytes` and its length, if it can be computed exactly: at most 2^53 over a power of ten.
#[inline]
pub(crate) fn short_float(bytes: &[u8]) -> Option<(f64, usize)> {
    let negative = bytes.first() == Some(&b'-');
    let start = usize::from(negative);
    let (whole, count) = digits(bytes.get(start..)?, 0);
    if count == 0 || (count > 1 && bytes[start] == b'0') {
        return None;
    }
    let mut end = start + count;
    let (mut mantissa, mut decimals) = (whole, 0);
    if bytes.get(end) == Some(&b'.') {
        (mantissa, decimals) = digits(&bytes[end + 1..], whole);
        if decimals == 0 {
            return None;
        }
        end += 1 + decimals;
    }
    if count + decimals > SAFE_DIGITS + 1
        || mantissa > EXACT_MANTISSA
        || matches!(bytes.get(end), Some(b'e' | b'E'))
    {
        return None;
    }
    // Both are exact, and one division of exact numbers rounds right.
    #[expect(clippy::cast_precision_loss, reason = "at most 2^53")]
    let value = mantissa as f64 / EXACT_POWERS.get(decimals)?;
    Some((if negative { -value } else { value }, end))
}

/// The digits at the start of `bytes`, appended to those of `value`. Wraps when they are too many.
#[inline]
fn digits(bytes: &[u8], mut value: u64) -> (u64, usize) {
    let mut rest = bytes;
    let mut count = 0;
    while let Some((chunk, next)) = rest.split_first_chunk::<8>() {
        let (eight, found) = first_digits(*chunk);
        value = value.wrapping_mul(POWERS[found]).wrapping_add(eight);
        count += found;
        if found < 8 {
            return (value, count);
        }
        rest = next;
    }
    for byte in rest {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        count += 1;
    }
    (value, count)
}

const POWERS: [u64; 9] = [
    1,
    10,
    100,
    1_000,
    10_000,
    100_000,
    1_000_000,
    10_000_000,
    100_000_000,
];

/// The number of the first digits among eight bytes, and the count of those digits, without a branch per digit.
#[inline]
fn first_digits(chunk: [u8; 8]) -> (u64, usize) {
    // A digit is 0 to 9 once its upper bits are turned; in the others the top bit is set by the sum or before it.
    let turned = u64::from_le_bytes(chunk) ^ 0x3030_3030_3030_3030;
    let low = turned & 0x7f7f_7f7f_7f7f_7f7f;
    let others = ((low + 0x7676_7676_7676_7676) | turned) & 0x8080_8080_8080_8080;
    let count = others.trailing_zeros() as usize / 8;
    if count == 0 {
        return (0, 0);
    }
    // The last digit moves to the top byte, zeros come in before the first; then neighbours are joined three times.
    let digits = turned << (64 - 8 * count);
    let pairs = (digits * 10 + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    let eight = (fours * 10_000 + (fours >> 32)) & 0xffff_ffff;
    (eight, count)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn short_floats_are_what_the_standard_library_reads(text in "-?(0|[1-9][0-9]{0,9})(\\.[0-9]{1,17})?") {
            if let Some((value, length)) = short_float(text.as_bytes()) {
                prop_assert_eq!(length, text.len());
                prop_assert_eq!(value.to_bits(), text.parse::<f64>().unwrap().to_bits());
            }
        }

        #[test]
        fn short_integers_are_what_the_standard_library_reads(value in any::<i64>(), shift in 0..63u32) {
            let value = value >> shift;
            let text = value.to_string();
            if let Some(read) = short_integer(text.as_bytes()) {
                prop_assert_eq!(read, (value, text.len()));
            } else {
                prop_assert!(text.len() > 18);
            }
        }

        #[test]
        fn the_first_digits_of_eight_bytes_are_their_number(chunk in prop::array::uniform8(prop_oneof![4 => b'0'..=b'9', 1 => any::<u8>()])) {
            let count = chunk.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let value = std::str::from_utf8(&chunk[..count]).unwrap().parse().unwrap_or(0);
            prop_assert_eq!(first_digits(chunk), (value, count));
        }

        #[test]
        fn the_grammar_is_json_s(text in "[-+0-9.eE]{0,8}") {
            // Its size is nothing to the grammar, and serde_json stops reading when a number overflows.
            prop_assume!(!text.contains(['e', 'E']) || text.len() < 5);
            let whole = length(text.as_bytes()) == Some(text.len());
            prop_assert_eq!(whole, serde_json::from_str::<serde_json::Value>(&text).is_ok());
        }
    }
}
