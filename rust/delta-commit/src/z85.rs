//! Z85, the variant of base 85 of RFC 32 of `ZeroMQ`: text of deletion vectors and of their ids.

const DIGITS: &[u8; 85] =
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

/// The value of each digit, by its byte; 255 for bytes that are none.
const VALUES: [u8; 256] = values();

#[expect(clippy::cast_possible_truncation, reason = "there are 85 digits")]
const fn values() -> [u8; 256] {
    let mut values = [u8::MAX; 256];
    let mut at = 0;
    while at < DIGITS.len() {
        values[DIGITS[at] as usize] = at as u8;
        at += 1;
    }
    values
}

/// Encodes bytes. Zeros fill the last four, as Delta has it: whoever decodes must know the number of bytes.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(4) * 5);
    for chunk in bytes.chunks(4) {
        let mut group = [0; 4];
        group[..chunk.len()].copy_from_slice(chunk);
        let mut number = u32::from_be_bytes(group);
        let mut digits = ['0'; 5];
        for digit in digits.iter_mut().rev() {
            *digit = char::from(DIGITS[(number % 85) as usize]);
            number /= 85;
        }
        text.extend(digits);
    }
    text
}

/// Decodes text to a multiple of four bytes; none when it is no Z85.
#[must_use]
pub fn decode(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(5) {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 5 * 4);
    for group in text.as_bytes().chunks(5) {
        let number = group.iter().try_fold(0_u32, |number, byte| {
            let digit = Some(VALUES[usize::from(*byte)]).filter(|digit| *digit != u8::MAX)?;
            number.checked_mul(85)?.checked_add(u32::from(digit))
        })?;
        bytes.extend(number.to_be_bytes());
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bytes_come_back_filled_up_with_zeros(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut filled = bytes.clone();
            filled.resize(bytes.len().next_multiple_of(4), 0);
            prop_assert_eq!(decode(&encode(&bytes)), Some(filled));
        }

        #[test]
        fn text_that_decodes_is_that_of_its_bytes(text in any::<String>()) {
            if let Some(bytes) = decode(&text) {
                prop_assert_eq!(encode(&bytes), text);
            }
        }
    }

    #[test]
    fn the_example_of_the_specification_holds() {
        let bytes = [0x86, 0x4f, 0xd2, 0x6f, 0xb5, 0x59, 0xf7, 0x5b];
        assert_eq!(encode(&bytes), "HelloWorld");
        assert_eq!(decode("HelloWorld").as_deref(), Some(bytes.as_slice()));
        for text in ["Hello", "Hell", "#####", "Hell~", "Hellö"] {
            assert_eq!(decode(text).is_some(), text == "Hello", "{text}");
        }
    }
}
