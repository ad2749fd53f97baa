//! Decimals from text, exactly.

use arrow_buffer::i256;

use crate::error::Misfit;

/// The most digits that a decimal may have. An exponent beyond it is out of range, too.
const MOST_DIGITS: usize = 76;

/// The digits of a decimal number's unscaled value at a scale: `-12.50` at scale 3 is `-12500`.
pub(crate) fn unscaled_digits(text: &str, precision: u8, scale: i8) -> Result<String, Misfit> {
    let parts = DecimalParts::of(text).ok_or_else(|| not_a_number(text))?;
    let mut digits: String = parts.whole.to_owned() + parts.fraction;
    let start = digits.bytes().take_while(|byte| *byte == b'0').count();
    digits.drain(..start);
    if digits.is_empty() {
        return Ok("0".into());
    }
    let fraction = i64::try_from(parts.fraction.len()).unwrap_or(i64::MAX);
    let shift = parts
        .exponent
        .saturating_sub(fraction)
        .saturating_add(i64::from(scale));
    if let Ok(zeros) = usize::try_from(shift) {
        if digits.len().saturating_add(zeros) > usize::from(precision).min(MOST_DIGITS) {
            return Err(too_large(text, precision, scale));
        }
        digits.extend(std::iter::repeat_n('0', zeros));
    } else {
        let dropped = usize::try_from(shift.unsigned_abs()).unwrap_or(usize::MAX);
        let kept = digits.len().saturating_sub(dropped);
        if kept == 0 || digits.bytes().skip(kept).any(|byte| byte != b'0') {
            return Err(Misfit::new(format!(
                "{} has more than {scale} decimals, which the column would lose: round it before",
                shown(text)
            )));
        }
        digits.truncate(kept);
        if kept > usize::from(precision) {
            return Err(too_large(text, precision, scale));
        }
    }
    if parts.negative {
        digits.insert(0, '-');
    }
    Ok(digits)
}

pub(crate) fn unscaled(text: &str, precision: u8, scale: i8) -> Result<i128, Misfit> {
    let digits = unscaled_digits(text, precision, scale)?;
    digits.parse().map_err(|_| too_large(text, precision, scale))
}

pub(crate) fn unscaled_256(text: &str, precision: u8, scale: i8) -> Result<i256, Misfit> {
    let digits = unscaled_digits(text, precision, scale)?;
    i256::from_string(&digits).ok_or_else(|| too_large(text, precision, scale))
}

/// A number in decimal digits, by its notation.
pub(crate) enum Notation {
    /// An integer in all of its digits, with its sign: `12`, and `1.2e1`, which Python's decimals show as `12`.
    Integer(String),
    /// A number with decimals, or one whose last digits an exponent leaves out: `0.5`, `12.0`, `1e3`.
    Other,
}

/// The notation of a number; none where the text is not one.
pub(crate) fn notation(text: &str) -> Option<Notation> {
    let parts = DecimalParts::of(text)?;
    if i64::try_from(parts.fraction.len()) != Ok(parts.exponent) {
        return Some(Notation::Other);
    }
    let digits = format!("{}{}", parts.whole, parts.fraction);
    let digits = digits.trim_start_matches('0');
    Some(Notation::Integer(match digits {
        "" if parts.negative => "-0".to_owned(),
        "" => "0".to_owned(),
        digits if parts.negative => format!("-{digits}"),
        digits => digits.to_owned(),
    }))
}

/// A number in text, taken apart.
struct DecimalParts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    exponent: i64,
}

impl<'a> DecimalParts<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let (negative, number) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (mantissa, exponent) = match number.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent_of(exponent)?),
            None => (number, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let good = digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty());
        good.then_some(Self {
            negative,
            whole,
            fraction,
            exponent,
        })
    }
}

/// Parses an exponent. One that is too large for any number counts as the largest.
fn exponent_of(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let size = digits
        .parse()
        .unwrap_or(i64::from(i32::MAX))
        .min(i64::from(i32::MAX));
    Some(if text.starts_with('-') { -size } else { size })
}

fn not_a_number(text: &str) -> Misfit {
    Misfit::expected("a decimal number", &shown(text))
}

fn too_large(text: &str, precision: u8, scale: i8) -> Misfit {
    Misfit::new(format!(
        "{} is too large for decimal({precision}, {scale})",
        shown(text)
    ))
}

/// A text for messages: quoted, and cut if it is long.
pub(crate) fn shown(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        None => format!("{text:?}"),
        Some((end, _)) => format!("{:?}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_move_to_the_scale() {
        for (text, expected) in [
            ("12.5", "1250"),
            ("-0.05", "-5"),
            ("0", "0"),
            ("-0.00", "0"),
            ("1e3", "100000"),
            ("1.20e1", "1200"),
            ("12.500", "1250"),
            ("1200e-2", "1200"),
            ("000012", "1200"),
            (".5", "50"),
            ("5.", "500"),
            ("0e999999999999", "0"),
        ] {
            assert_eq!(unscaled_digits(text, 6, 2).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_would_be_lost_is_refused() {
        for text in [
            "12345.5",
            "0.001",
            "1e9",
            "1e999999999999",
            "1e-999999999999",
            "NaN",
            "",
            "-",
            "1e",
            "1.2.3",
            "0x1",
        ] {
            assert!(unscaled_digits(text, 6, 2).is_err(), "{text}");
        }
    }
}
