//! Metadata that is not UTF-8, carried as text.
//!
//! The metadata of Arrow's schemas is bytes by the C Data Interface, and text in arrow-rs. Bytes that are not UTF-8 are
//! carried as text with a prefix, one character per byte. The stored Arrow schema holds the bytes again, as pyarrow's
//! does. The footer's key-value pairs leave them out: readers written in Rust refuse a file whose footer is not UTF-8.

use arrow_ipc::{Field, KeyValue as Pair, root_as_message};

/// The prefix of text that carries bytes. Other metadata does not begin with it.
const MARK: &str = "\0bytes\0";

/// Returns true if metadata is text as it is, and does not begin like text that carries bytes.
#[must_use]
pub fn is_plain(metadata: &[u8]) -> bool {
    std::str::from_utf8(metadata).is_ok_and(|text| !text.starts_with(MARK))
}

/// Metadata as text, whatever its bytes are.
#[must_use]
pub fn carried(metadata: &[u8]) -> String {
    match std::str::from_utf8(metadata) {
        Ok(text) if is_plain(metadata) => text.into(),
        _ => MARK
            .chars()
            .chain(metadata.iter().map(|byte| char::from(*byte)))
            .collect(),
    }
}

/// The bytes that text carries, if it carries any.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let carried = text.strip_prefix(MARK)?.chars();
    carried.map(|byte| u8::try_from(byte).ok()).collect()
}

/// Returns true if text carries bytes.
pub(crate) fn is_carried(text: &str) -> bool {
    bytes(text).is_some()
}

/// Puts the bytes back that texts in the message of an Arrow schema carry. Returns true if there are any, and none for
/// a message that is not what arrow-rs writes.
pub(crate) fn restore(message: &mut [u8]) -> Option<bool> {
    let carried = find_carried(message)?;
    for (start, text) in &carried {
        put_back(message, *start, text)?;
    }
    Some(!carried.is_empty())
}

/// The text in a message that carries bytes, and where it begins.
fn find_carried(message: &[u8]) -> Option<Vec<(usize, String)>> {
    fn look<'a>(pairs: impl Iterator<Item = Pair<'a>>, found: &mut Vec<&'a str>) {
        let texts = pairs.flat_map(|pair| [pair.key(), pair.value()]);
        found.extend(texts.flatten().filter(|text| is_carried(text)));
    }
    fn visit<'a>(field: Field<'a>, found: &mut Vec<&'a str>) {
        look(field.custom_metadata().into_iter().flatten(), found);
        for child in field.children().into_iter().flatten() {
            visit(child, found);
        }
    }
    let schema = root_as_message(message).ok()?.header_as_schema()?;
    let mut found = Vec::new();
    look(schema.custom_metadata().into_iter().flatten(), &mut found);
    for field in schema.fields().into_iter().flatten() {
        visit(field, &mut found);
    }
    let start = |text: &str| text.as_ptr() as usize - message.as_ptr() as usize;
    Some(
        found
            .into_iter()
            .map(|text| (start(text), text.to_owned()))
            .collect(),
    )
}

/// Writes the bytes that `text` carries in place of the text at `start`: a length stands before them, and a zero
/// behind.
fn put_back(message: &mut [u8], start: usize, text: &str) -> Option<()> {
    let bytes = bytes(text)?;
    let length = u32::try_from(bytes.len()).ok()?;
    message
        .get_mut(start - 4..start)?
        .copy_from_slice(&length.to_le_bytes());
    let place = message.get_mut(start..start + text.len())?;
    place.fill(0);
    place.get_mut(..bytes.len())?.copy_from_slice(&bytes);
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_carried_comes_back(metadata in prop_oneof![
            any::<Vec<u8>>(),
            any::<String>().prop_map(String::into_bytes),
            any::<String>().prop_map(|text| format!("{MARK}{text}").into_bytes()),
        ]) {
            let text = carried(&metadata);
            prop_assert_eq!(is_plain(&metadata), !is_carried(&text));
            prop_assert_eq!(bytes(&text).unwrap_or_else(|| text.into_bytes()), metadata);
        }
    }
}
