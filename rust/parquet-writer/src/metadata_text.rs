//! Metadata that is not UTF-8, carried as text.
//!
//! The metadata of Arrow's schemas is bytes by the C Data Interface, and text in arrow-rs. Bytes that are not UTF-8 are
//! carried as text with a prefix, one character per byte. The stored Arrow schema holds the bytes again, as pyarrow's
//! does. The footer's key-value pairs leave them out: readers written in Rust refuse a file whose footer is not UTF-8.

use std::sync::Arc;

use arrow_ipc::{Field, KeyValue as Pair, root_as_message};
use arrow_schema::Schema;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use parquet::arrow::ARROW_SCHEMA_META_KEY;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use crate::error::{Result, WriteError};
use crate::schema::levels;

/// The prefix of text that carries bytes. Other metadata does not begin with it.
const MARK: &str = "\0bytes\0";
/// The length of the prefix of an IPC message: a mark of four bytes and the message's length.
const PREFIX: usize = 8;
/// Levels of a column that any stored schema may have.
const LEVELS_OF_ANY: usize = 48;

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

/// Checks that readers can open a file which stores this Arrow schema: those in Rust refuse a message of flatbuffers
/// whose tables are nested more than 64 deep.
///
/// # Errors
/// [`WriteError::Option`] when a column is nested more deeply.
pub(crate) fn check_depth(schema: &Schema) -> Result<()> {
    let deep = schema.fields().iter().find(|field| {
        levels(field) > LEVELS_OF_ANY && stored_schema(&Schema::new(vec![Arc::clone(field)])).is_err()
    });
    let Some(column) = deep else {
        return Ok(());
    };
    Err(WriteError::option(
        "store_schema",
        format!(
            "column {:?} is nested {} levels deep, more than readers take of a stored Arrow schema: flatten it, or set \
             store_schema=False",
            column.name(),
            levels(column)
        ),
    ))
}

/// The stored Arrow schema, with bytes where metadata carries them.
///
/// # Errors
/// [`WriteError::Encode`] when the encoded schema is not what the crates write.
pub(crate) fn stored_schema(schema: &Schema) -> Result<KeyValue> {
    let unexpected = || WriteError::Encode("the Arrow schema cannot be stored".into());
    let mut properties = WriterProperties::new();
    parquet::arrow::add_encoded_arrow_schema_to_metadata(schema, &mut properties);
    let pairs = properties.key_value_metadata().cloned().unwrap_or_default();
    let encoded = pairs
        .into_iter()
        .find_map(|pair| pair.value)
        .ok_or_else(unexpected)?;
    let mut message = BASE64_STANDARD.decode(&encoded).map_err(|_| unexpected())?;
    let carried = find_carried(message.get(PREFIX..).ok_or_else(unexpected)?).ok_or_else(unexpected)?;
    if carried.is_empty() {
        return Ok(KeyValue::new(ARROW_SCHEMA_META_KEY.to_owned(), encoded));
    }
    for (start, text) in carried {
        put_back(&mut message[PREFIX..], start, &text).ok_or_else(unexpected)?;
    }
    Ok(KeyValue::new(
        ARROW_SCHEMA_META_KEY.to_owned(),
        BASE64_STANDARD.encode(message),
    ))
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
