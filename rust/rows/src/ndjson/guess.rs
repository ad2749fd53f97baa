//! The shape of the first lines.

use crate::error::Misfit;
use crate::infer::{Guess, Shape, TypeConflict};
use crate::ndjson::BYTE_ORDER_MARK;
use crate::ndjson::cursor::Cursor;

/// The shape of at most `rows` rows in `bytes`. Lines that are not JSON or have a key twice are skipped here, and
/// reported when they are parsed. A line that is cut off at the end is only read if `is_all` is true.
///
/// # Errors
/// The number of the first row (from 0) with a value that does not go with those before it.
pub fn infer(bytes: &[u8], rows: usize, is_all: bool) -> Result<Shape, (u64, TypeConflict)> {
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    let mut shape = Shape::default();
    let mut scratch = String::new();
    let mut row = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if row >= rows as u64 || !(is_all || line.ends_with(b"\n")) {
            break;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        if let Ok(line) = simdutf8::basic::from_utf8(line)
            && let Ok(guesses) = guess_row(line, &mut scratch)
        {
            for (name, guess) in guesses {
                shape.observe(&name, guess).map_err(|conflict| (row, conflict))?;
            }
        }
        row += 1;
    }
    Ok(shape)
}

/// The values of a row.
///
/// # Errors
/// What makes the row bad under any schema that has its keys.
pub(super) fn guess_row(line: &str, scratch: &mut String) -> Result<Vec<(String, Guess)>, Misfit> {
    let mut cursor = Cursor::new(line);
    let mut guesses = Vec::new();
    cursor.skip_blanks();
    let entry = |cursor: &mut Cursor<'_>, scratch: &mut String, key: &str| {
        let start = cursor.at;
        let guess = guess(cursor, scratch, 1).or_else(|misfit| {
            if misfit.is_repeated_key() {
                return Err(misfit);
            }
            // Elements that do not go together tell nothing, and are reported when they are parsed.
            cursor.at = start;
            cursor.skip(scratch, 1).map(|()| Guess::Null)
        })?;
        guesses.push((key.to_owned(), guess));
        Ok(())
    };
    cursor.each_entry(scratch, 0, entry)?;
    cursor.skip_blanks();
    if cursor.peek() != b'\n' {
        return Err(cursor.unexpected("the end of the line behind the row"));
    }
    let mut names: Vec<&str> = guesses.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Misfit::repeated_key().in_field(pair[0])),
        None => Ok(guesses),
    }
}

fn guess(cursor: &mut Cursor<'_>, scratch: &mut String, depth: usize) -> Result<Guess, Misfit> {
    match cursor.peek() {
        b'"' => cursor.string(scratch).map(|_| Guess::Text),
        b'{' => {
            let mut shape = Shape::default();
            cursor.each_entry(scratch, depth, |cursor, scratch, key| {
                let value = guess(cursor, scratch, depth + 1)?;
                if shape.guess(key).is_some() {
                    return Err(Misfit::repeated_key());
                }
                shape
                    .observe(key, value)
                    .map_err(|conflict| Misfit::new(conflict.to_string()))
            })?;
            Ok(Guess::Struct(shape))
        }
        b'[' => {
            let mut items = Guess::Null;
            cursor.each_item(depth, |cursor, _| {
                let item = guess(cursor, scratch, depth + 1)?;
                let merged = std::mem::take(&mut items).merge(item);
                items = merged.map_err(|conflict| Misfit::new(conflict.to_string()))?;
                Ok(())
            })?;
            Ok(Guess::List(Box::new(items)))
        }
        _ if cursor.takes_word(b"null") => Ok(Guess::Null),
        _ if cursor.takes_word(b"true") || cursor.takes_word(b"false") => Ok(Guess::Bool),
        _ => {
            let is_float = cursor.number()?.contains(['.', 'e', 'E']);
            Ok(if is_float { Guess::Float } else { Guess::Int })
        }
    }
}
