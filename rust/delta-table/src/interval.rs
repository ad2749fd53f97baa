//! Parses Delta's interval properties, such as `interval 1 week 2 days`, with the grammar of Spark's
//! `CalendarInterval`.

const SECOND: i128 = 1_000_000;
const DAY: i128 = 86_400 * SECOND;

/// The digits of a second's fraction that Spark reads.
const MOST_DIGITS: usize = 9;

/// The milliseconds of a text such as `interval 1 week` or `2 days 12 hours`: pairs of a number and a unit, of which
/// the sum counts. None for other texts, for negative sums, and for months and years, which have no fixed length.
///
/// The grammar is that of `CalendarInterval` in Spark: the word `interval` may be there or not, case does not matter,
/// numbers may have signs, and those of seconds a fraction.
pub(crate) fn interval_millis(text: &str) -> Option<i64> {
    let lower = text.to_ascii_lowercase();
    let mut words = lower.split_ascii_whitespace().peekable();
    words.next_if_eq(&"interval");
    words.peek()?;
    let mut micros: i128 = 0;
    while let Some(number) = words.next() {
        // A blank may follow the sign.
        let (is_negative, digits) = match number.strip_prefix(['-', '+']) {
            Some("") => (number == "-", words.next()?),
            Some(digits) => (number.starts_with('-'), digits),
            None => (false, number),
        };
        let unit = words.next()?;
        let length = length(digits, unit.strip_suffix('s').unwrap_or(unit))?;
        micros = micros.checked_add(if is_negative { -length } else { length })?;
    }
    let millis = i64::try_from(micros / 1_000).ok()?;
    (micros >= 0).then_some(millis)
}

/// The length of `digits` x `unit` in microseconds.
fn length(digits: &str, unit: &str) -> Option<i128> {
    let (whole, fraction) = match digits.split_once('.') {
        Some((whole, fraction)) if unit == "second" => (whole, fraction),
        Some(_) => return None,
        None => (digits, ""),
    };
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !are_digits(whole) || !are_digits(fraction) || whole.len() + fraction.len() == 0 {
        return None;
    }
    let micros = match unit {
        "week" => 7 * DAY,
        "day" => DAY,
        "hour" => 3_600 * SECOND,
        "minute" => 60 * SECOND,
        "second" => SECOND,
        "millisecond" => 1_000,
        "microsecond" => 1,
        _ => return None,
    };
    let count: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    if fraction.len() > MOST_DIGITS {
        return None;
    }
    let nanos: i128 = format!("{fraction:0<9}").parse().ok()?;
    Some(i128::from(count) * micros + nanos / 1_000)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UNITS: [(&str, i64); 6] = [
        ("week", 604_800_000),
        ("day", 86_400_000),
        ("hour", 3_600_000),
        ("minute", 60_000),
        ("second", 1_000),
        ("millisecond", 1),
    ];

    proptest! {
        #[test]
        fn an_interval_of_several_units_is_their_sum(
            parts in prop::collection::vec((0..UNITS.len(), -50..500_i64, any::<bool>()), 1..6),
            has_word in any::<bool>(),
            is_upper in any::<bool>(),
        ) {
            let texts = parts.iter().map(|(unit, count, is_plural)| {
                format!("{count} {}{}", UNITS[*unit].0, if *is_plural { "s" } else { "" })
            });
            let mut text = texts.collect::<Vec<_>>().join("  ");
            if has_word {
                text = format!("interval {text}");
            }
            if is_upper {
                text = text.to_uppercase();
            }
            let sum: i64 = parts.iter().map(|(unit, count, _)| UNITS[*unit].1 * count).sum();
            prop_assert_eq!(interval_millis(&text), (sum >= 0).then_some(sum));
        }

        #[test]
        fn no_text_is_too_strange(text in "(interval )?[-+0-9. a-z]{0,40}") {
            let _ = interval_millis(&text);
        }
    }

    #[test]
    fn signs_fractions_and_other_texts_are_those_of_spark() {
        for (text, millis) in [
            ("1 week - 1 day", Some(6 * 86_400_000)),
            ("+ 2 days", Some(172_800_000)),
            ("1.5 seconds", Some(1_500)),
            (".25 second", Some(250)),
            ("1500 microseconds", Some(1)),
            ("1 day -1 days", Some(0)),
            ("1.5 days", None),
            ("1day", None),
            ("1 dayss", None),
            ("interval", None),
            ("", None),
            (". seconds", None),
            ("1 year", None),
            ("1 month", None),
            ("2 days 3", None),
            ("1 day, 2 hours", None),
            ("9223372036854775807 weeks", None),
            ("9223372036854775808 seconds", None),
        ] {
            assert_eq!(interval_millis(text), millis, "{text:?}");
        }
    }
}
