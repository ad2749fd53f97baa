//! NDJSON: one object per line, in chunks that may end anywhere.
//!
//! The syntax is strict JSON, except that no key of the schema may occur twice in an object. Blank lines are skipped,
//! lines may end in CRLF, and a byte order mark at the very start is no part of the first line. A string cannot contain
//! a raw line feed, so a line feed always ends a line, and reading goes on with the next line after a bad row.

mod cursor;
mod guess;
mod number;
mod parse;
pub(crate) mod scan;

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};

use crate::error::{Misfit, RowError};
use crate::table::{Extra, Rows};
use parse::Parser;

pub use guess::infer;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// The approximate size of the blocks that lines are parsed in. The visitor is called between blocks.
const BLOCK_BYTES: usize = 256 << 10;

/// The receiver of batches and bad rows.
pub trait Visitor {
    /// The error that ends reading early.
    type Error: From<ArrowError>;

    /// Takes the rows that make a batch.
    ///
    /// # Errors
    /// Whatever ends the reading.
    fn batch(&mut self, batch: RecordBatch) -> Result<(), Self::Error>;

    /// Takes a row that was refused, with its line. Reading goes on after it.
    ///
    /// # Errors
    /// Whatever ends the reading.
    fn bad_row(&mut self, error: RowError, line: &[u8]) -> Result<(), Self::Error>;

    /// Returns the schema that the rows from this one on have instead of `schema`, in which it does not fit; `None` if
    /// the row is bad.
    ///
    /// # Errors
    /// Whatever ends the reading.
    fn wider(
        &mut self,
        schema: &SchemaRef,
        misfit: &Misfit,
        line: &[u8],
    ) -> Result<Option<SchemaRef>, Self::Error> {
        let _ = (schema, misfit, line);
        Ok(None)
    }

    /// Returns an error to end the reading. It is called now and then.
    ///
    /// # Errors
    /// Whatever ends the reading.
    fn go_on(&mut self) -> Result<(), Self::Error>;
}

/// The state between two chunks.
#[derive(Debug, Default, Clone)]
pub struct Ndjson {
    /// The start of an unended line.
    tail: Vec<u8>,
    /// Lines that are behind.
    lines: u64,
    /// True if anything of the file was read, so that a byte order mark is no longer accepted.
    begun: bool,
}

/// One call's account.
struct Pass<'a, V> {
    rows: &'a mut Rows,
    extra: Extra,
    visitor: &'a mut V,
    scratch: String,
    row: u64,
    lines: u64,
}

impl Ndjson {
    /// Returns true if a line was begun and not ended.
    #[must_use]
    pub fn is_mid_line(&self) -> bool {
        !self.tail.is_empty()
    }

    /// The start of an unended line.
    #[must_use]
    pub fn tail(&self) -> &[u8] {
        &self.tail
    }

    /// Begins another file, which may have a byte order mark, unless a line goes on in it.
    pub fn begin_file(&mut self) {
        // The line may itself begin its file, with a mark.
        self.begun &= !self.tail.is_empty();
    }

    /// Keeps bytes for later, unread.
    pub fn keep(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
    }

    /// Gives up the line that was not ended.
    pub fn drop_tail(&mut self) {
        self.tail.clear();
    }

    /// Leaves a file that was not read to its end: drops the line that was begun there. If no line of the file ended,
    /// the state is the one `before` it.
    pub fn leave_file(&mut self, before: Self) {
        if self.lines <= before.lines {
            *self = before;
        } else {
            self.tail.clear();
        }
    }

    /// Parses the lines that end in `chunk`, and keeps the rest. `first_row` is the number of rows that this call has
    /// seen before. Returns the number that it has seen after.
    ///
    /// # Errors
    /// What the visitor says.
    pub fn feed<V: Visitor>(
        &mut self,
        chunk: &[u8],
        first_row: u64,
        rows: &mut Rows,
        extra: Extra,
        visitor: &mut V,
    ) -> Result<u64, V::Error> {
        let Some(last) = memchr::memrchr(b'\n', chunk) else {
            self.tail.extend_from_slice(chunk);
            return Ok(first_row);
        };
        let mut whole = &chunk[..=last];
        let mut line = Vec::new();
        if !self.tail.is_empty() {
            let end = memchr::memchr(b'\n', whole).map_or(whole.len(), |end| end + 1);
            self.tail.extend_from_slice(&whole[..end]);
            whole = &whole[end..];
            line = std::mem::take(&mut self.tail);
        }
        let mut pass = Pass::new(rows, extra, visitor, first_row, self.lines);
        let parsed = [line.as_slice(), whole]
            .into_iter()
            .try_for_each(|bytes| pass.blocks(without_mark(bytes, &mut self.begun)));
        self.lines = pass.lines;
        let row = pass.row;
        parsed?;
        self.tail.extend_from_slice(&chunk[last + 1..]);
        Ok(row)
    }

    /// Parses the unended line at the end of the input.
    ///
    /// # Errors
    /// What the visitor says.
    pub fn finish<V: Visitor>(
        &mut self,
        first_row: u64,
        rows: &mut Rows,
        extra: Extra,
        visitor: &mut V,
    ) -> Result<u64, V::Error> {
        let mut pass = Pass::new(rows, extra, visitor, first_row, self.lines);
        let line = std::mem::take(&mut self.tail);
        let parsed = pass.blocks(without_mark(&line, &mut self.begun));
        self.lines = pass.lines;
        parsed.map(|()| pass.row)
    }
}

/// What keeps a line from being read under any schema with its keys: it is not JSON, nests too deeply, or has a key
/// twice.
fn unreadable(line: &str) -> Option<Misfit> {
    guess::guess_row(line, &mut String::new()).err()
}

/// Strips a byte order mark from `bytes`, if they are the first ones.
fn without_mark<'a>(bytes: &'a [u8], begun: &mut bool) -> &'a [u8] {
    if *begun || bytes.is_empty() {
        return bytes;
    }
    *begun = true;
    bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes)
}

impl<'a, V: Visitor> Pass<'a, V> {
    fn new(rows: &'a mut Rows, extra: Extra, visitor: &'a mut V, row: u64, lines: u64) -> Self {
        Self {
            rows,
            extra,
            visitor,
            scratch: String::new(),
            row,
            lines,
        }
    }

    /// Parses whole lines, a block at a time.
    fn blocks(&mut self, mut bytes: &[u8]) -> Result<(), V::Error> {
        while !bytes.is_empty() {
            let (block, rest) = bytes.split_at(block_end(bytes));
            match simdutf8::basic::from_utf8(block) {
                Ok(text) => self.lines_of(text)?,
                Err(_) => self.line_by_line(block)?,
            }
            self.visitor.go_on()?;
            bytes = rest;
        }
        Ok(())
    }

    /// Parses a block with bytes that are not UTF-8. Only the lines with such bytes are bad.
    fn line_by_line(&mut self, block: &[u8]) -> Result<(), V::Error> {
        for line in block.split_inclusive(|byte| *byte == b'\n') {
            match simdutf8::compat::from_utf8(line) {
                Ok(text) => self.lines_of(text)?,
                Err(error) => {
                    self.lines += 1;
                    let message = format!("not UTF-8 from byte {} of the line on", error.valid_up_to());
                    self.refuse(&Misfit::new(message), line)?;
                }
            }
        }
        Ok(())
    }

    fn lines_of(&mut self, text: &str) -> Result<(), V::Error> {
        let mut at = 0;
        while at < text.len() {
            at = self.line(text, at)?;
        }
        Ok(())
    }

    /// Parses the line at `start` and returns the start of the next.
    #[inline]
    fn line(&mut self, text: &str, start: usize) -> Result<usize, V::Error> {
        let mut parser = Parser::new(text, self.extra, &mut self.scratch);
        parser.cursor.at = start;
        parser.cursor.skip_blanks();
        if parser.cursor.peek() == b'\n' {
            self.lines += 1;
            return Ok(parser.cursor.at + 1);
        }
        let len = self.rows.rows();
        let parsed = parser.row(&mut self.rows.fields, len);
        let at = parser.cursor.at;
        match parsed {
            Ok(()) => {
                self.rows.commit();
                self.row += 1;
                self.lines += 1;
                if self.rows.is_full() {
                    self.hand_over()?;
                }
                Ok(at + 1)
            }
            Err(misfit) => self.bad_line(misfit, text, start),
        }
    }

    #[cold]
    fn bad_line(&mut self, mut misfit: Misfit, text: &str, start: usize) -> Result<usize, V::Error> {
        self.rows.roll_back();
        if misfit.is_full() && self.rows.rows() > 0 {
            self.hand_over()?;
            return self.line(text, start);
        }
        let bytes = &text.as_bytes()[start..];
        let length = memchr::memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1);
        let line = &text[start..start + length];
        let mut schema = Arc::clone(self.rows.declared());
        while let Some(wider) = self.visitor.wider(&schema, &misfit, line.as_bytes())? {
            let Ok(mut rows) = self.rows.widened(Arc::clone(&wider)) else {
                break;
            };
            let mut parser = Parser::new(line, self.extra, &mut self.scratch);
            parser.cursor.skip_blanks();
            match parser.row(&mut rows.fields, 0) {
                Ok(()) => {
                    rows.commit();
                    if self.rows.rows() > 0 {
                        self.hand_over()?;
                    }
                    *self.rows = rows;
                    self.row += 1;
                    self.lines += 1;
                    return Ok(start + length);
                }
                Err(other) => misfit = other,
            }
            schema = wider;
        }
        self.lines += 1;
        // The first lines that cannot be read leave the schema without their keys.
        let unreadable = misfit
            .is_unknown_key()
            .then(|| unreadable(&text[start..start + length]));
        self.refuse(unreadable.flatten().as_ref().unwrap_or(&misfit), &bytes[..length])?;
        Ok(start + length)
    }

    fn refuse(&mut self, misfit: &Misfit, line: &[u8]) -> Result<(), V::Error> {
        let error = RowError::new(misfit, self.row, Some(self.lines));
        self.row += 1;
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        self.visitor
            .bad_row(error, line.strip_suffix(b"\r").unwrap_or(line))
    }

    fn hand_over(&mut self) -> Result<(), V::Error> {
        let batch = self.rows.finish()?;
        self.visitor.batch(batch)
    }
}

/// The end of the first block of whole lines.
fn block_end(bytes: &[u8]) -> usize {
    let Some(head) = bytes.get(..BLOCK_BYTES) else {
        return bytes.len();
    };
    if let Some(end) = memchr::memrchr(b'\n', head) {
        return end + 1;
    }
    memchr::memchr(b'\n', &bytes[BLOCK_BYTES..]).map_or(bytes.len(), |end| BLOCK_BYTES + end + 1)
}
