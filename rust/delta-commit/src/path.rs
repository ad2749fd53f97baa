//! Paths of data files: Hive's escapes in directory names, and URL-encoding of the whole path in the log.
//!
//! Both are applied, the second over the first: the value `a:b` is the directory `c=a%3Ab`, which is `c=a%253Ab` in
//! `add.path`.

use std::borrow::Cow;
use std::fmt::Write;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use crate::actions::partition_value;
use crate::error::{CommitError, Result};

/// The directory name that stands for a null partition value, as Hive writes it.
pub const NULL_DIRECTORY: &str = "__HIVE_DEFAULT_PARTITION__";

/// Characters that are percent-encoded in a URI's path.
const IN_LOG: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// The directory of a file with these partition values, in the order of the partition columns; empty without any.
#[must_use]
pub fn partition_directory<'a>(values: impl IntoIterator<Item = (&'a str, Option<&'a str>)>) -> String {
    let mut directory = String::new();
    for (column, value) in values {
        hive_escape(column, &mut directory);
        directory.push('=');
        match partition_value(value) {
            Some(value) => hive_escape(value, &mut directory),
            None => directory.push_str(NULL_DIRECTORY),
        }
        directory.push('/');
    }
    directory
}

fn hive_escape(text: &str, into: &mut String) {
    for character in text.chars() {
        match character {
            '\u{1}'..='\u{1f}'
            | '\u{7f}'
            | '"'
            | '#'
            | '%'
            | '\''
            | '*'
            | '/'
            | ':'
            | '='
            | '?'
            | '\\'
            | '{'
            | '['
            | ']'
            | '^' => {
                // Writing into a string cannot fail.
                let _ = write!(into, "%{:02X}", u32::from(character));
            }
            _ => into.push(character),
        }
    }
}

/// A path relative to the table's root, as `add.path` holds it.
#[must_use]
pub fn encode(path: &str) -> String {
    utf8_percent_encode(path, IN_LOG).to_string()
}

/// A path as a relative URI reference, which `add.path` is by the protocol: characters that none may hold are
/// percent-encoded. A path that is one already comes back as it is.
///
/// The grammar is that of RFC 3986 as `java.net.URI` reads it, by which Spark opens every file of a table: characters
/// outside of ASCII are allowed, but for controls and blanks. A colon in the first segment would end a scheme.
#[must_use]
pub fn as_reference(path: &str) -> Cow<'_, str> {
    let first_segment = path.find('/').unwrap_or(path.len());
    let is_fine = |at: usize, character: char| match character {
        '%' => is_escape(path.as_bytes().get(at + 1..at + 3)),
        ':' => at > first_segment,
        _ if character.is_ascii() => !needs_escape(character),
        _ => !character.is_control() && !character.is_whitespace(),
    };
    if path.char_indices().all(|(at, character)| is_fine(at, character)) {
        return Cow::Borrowed(path);
    }
    let mut encoded = String::with_capacity(path.len() + 8);
    for (at, character) in path.char_indices() {
        if is_fine(at, character) {
            encoded.push(character);
            continue;
        }
        for byte in character.encode_utf8(&mut [0; 4]).bytes() {
            // Writing into a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    Cow::Owned(encoded)
}

fn is_escape(digits: Option<&[u8]>) -> bool {
    digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}

/// Returns true for an ASCII character that no segment of a path may hold unencoded.
fn needs_escape(character: char) -> bool {
    let punctuation = "/-_.!~*'();:@&=+$,";
    !(character.is_ascii_alphanumeric() || punctuation.contains(character))
}

/// The normal form of `add.path`, which is the same for all spellings of one path. Paths of the log are compared in
/// this form, with each other and with names in storage. The log itself keeps the spelling of the writer that added the
/// file, since other readers may compare it as text.
///
/// A relative path becomes the file's name in the table's folder: percent-decoded, without empty segments and `.`, and
/// with `..` resolved where possible. An absolute path or a URI is decoded likewise, and begins with `/`.
///
/// ```
/// use delta_commit::path::normal;
///
/// assert_eq!(normal("./day=a%20b//part%2D0.parquet"), "day=a b/part-0.parquet");
/// assert_eq!(normal("file:///table/part-0.parquet"), "/table/part-0.parquet");
/// ```
#[must_use]
pub fn normal(path: &str) -> Cow<'_, str> {
    let Ok(decoded) = percent_decode_str(path).decode_utf8() else {
        // The path is not UTF-8 once decoded, and has no other spelling. No other normal form begins with two slashes.
        return Cow::Owned(format!("//{path}"));
    };
    let is_absolute = is_absolute(&decoded);
    if !is_absolute && !decoded.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return decoded;
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in decoded.strip_prefix("file:").unwrap_or(&decoded).split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let start = if is_absolute { "/" } else { "" };
    Cow::Owned(format!("{start}{}", parts.join("/")))
}

/// The names, relative to the table's folder, that a path in [`normal`] form may stand for: a relative path stands for
/// itself, an absolute one for any of its suffixes. A folder has many absolute paths (symbolic links, URI schemes,
/// mounts), so which suffix is right is not known.
pub fn names_of(normal: &str) -> impl Iterator<Item = &str> {
    let is_absolute = normal.starts_with('/');
    let ends = normal.match_indices('/').map(|(at, _)| &normal[at + 1..]);
    let whole = std::iter::once(normal).filter(move |_| !is_absolute);
    whole.chain(ends.filter(move |_| is_absolute))
}

/// Returns true for a path, decoded, that is not relative to the table's root.
fn is_absolute(decoded: &str) -> bool {
    decoded.starts_with('/') || decoded.contains("://") || decoded.starts_with("file:")
}

/// Decodes `add.path` to a path relative to the table's root.
///
/// # Errors
/// [`CommitError::Unsupported`] when it is absolute, as in a shallow clone. [`CommitError::Malformed`] when it is not
/// UTF-8 once decoded, or leaves the table.
pub fn decode_inside(path: &str) -> Result<String> {
    let decoded = percent_decode_str(path)
        .decode_utf8()
        .map_err(|e| CommitError::Malformed(format!("the path {path:?} is not UTF-8 once decoded: {e}")))?;
    if is_absolute(&decoded) {
        return Err(CommitError::Unsupported(format!(
            "the path {path:?} is absolute, as those of a shallow clone are, and only files in the table's own folder \
             are read and removed: use Spark for this table, or make a deep clone of it"
        )));
    }
    if decoded.is_empty() || decoded.contains('\0') || decoded.split('/').any(|part| part == "..") {
        return Err(CommitError::Malformed(format!(
            "the path {path:?} does not stay inside the table; expected one relative to its root"
        )));
    }
    Ok(decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// A spelling of a name, by one choice for each character and each slash.
    fn spelled(name: &str, choices: &[u8]) -> String {
        let mut spelled = String::new();
        for (character, choice) in name.chars().zip(choices.iter().cycle()) {
            match (character, choice % 4) {
                ('/', 0) => spelled.push_str("//"),
                ('/', 1) => spelled.push_str("/./"),
                ('/', 2) => spelled.push_str("/x/../"),
                ('/', _) => spelled.push('/'),
                ('%', _) | (_, 0) => {
                    for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                        let _ = write!(spelled, "%{byte:02x}");
                    }
                }
                (_, 1) => spelled.push_str(&encode(&character.to_string())),
                _ => spelled.push(character),
            }
        }
        spelled
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn all_spellings_of_a_path_have_one_normal_form(
            segments in vec("[ab é%=#]{1,3}", 1..4),
            root in "(s3://bucket|file:///table|file:/|/table)(/a b)?",
            choices in vec(any::<u8>(), 1..20),
        ) {
            let name = segments.join("/");
            let relative = spelled(&name, &choices);
            let encoded = encode(&name);
            prop_assert_eq!(normal(&encoded), name.as_str());
            prop_assert_eq!(normal(&relative), name.as_str());
            let dotted = format!("./{relative}");
            prop_assert_eq!(normal(&dotted), name.as_str());
            let absolute = format!("{root}/{relative}");
            let absolute = normal(&absolute);
            prop_assert_ne!(&absolute, &name);
            prop_assert!(names_of(&absolute).any(|end| end == name));
            prop_assert_eq!(names_of(&name).collect::<Vec<_>>(), [name.as_str()]);
        }
    }

    #[test]
    fn different_paths_have_different_normal_forms() {
        let paths = ["a%2525", "a%25", "%FF", "%25FF", "/%FF", "../a", "a", "/a", "A"];
        let normal: std::collections::BTreeSet<_> = paths.iter().map(|path| normal(path)).collect();
        assert_eq!(normal.len(), paths.len());
    }
}
