//! A position in a block of NDJSON, and the JSON tokens from there on.

use crate::error::Misfit;
use crate::ndjson::{number, scan};

/// The deepest nesting. Values nested deeper are refused, because they could overflow the stack.
pub(crate) const MOST_DEPTH: usize = 128;

/// A position in a block of lines. The end of the block counts as the end of its line.
pub(crate) struct Cursor<'a> {
    text: &'a str,
    pub at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    #[inline]
    pub fn text(&self) -> &'a str {
        self.text
    }

    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    #[inline]
    pub fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(b'\n')
    }

    /// Passes over blanks within the line.
    #[inline]
    pub fn skip_blanks(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\r') {
            self.at += 1;
        }
    }

    /// Passes over `byte`, if it is next.
    #[inline]
    pub fn takes(&mut self, byte: u8) -> bool {
        let is = self.peek() == byte;
        self.at += usize::from(is);
        is
    }

    #[inline]
    pub fn takes_word(&mut self, word: &[u8]) -> bool {
        let is = self.rest().starts_with(word);
        if is {
            self.at += word.len();
        }
        is
    }

    #[inline]
    pub fn expect(&mut self, byte: u8) -> Result<(), Misfit> {
        if self.takes(byte) {
            Ok(())
        } else {
            Err(self.unexpected(&format!("{:?}", char::from(byte))))
        }
    }

    #[cold]
    pub fn unexpected(&self, expected: &str) -> Misfit {
        let found = match self.text.get(self.at..).and_then(|rest| rest.chars().next()) {
            None | Some('\n') => "the end of the line".into(),
            Some(found) => format!("{found:?}"),
        };
        Misfit::new(format!("not JSON: expected {expected}, found {found}"))
    }

    /// Reads the string that begins here, with its quote. It is borrowed unless it has escapes.
    #[inline]
    pub fn string<'s>(&mut self, scratch: &'s mut String) -> Result<&'s str, Misfit>
    where
        'a: 's,
    {
        self.expect(b'"')?;
        let start = self.at;
        let end = scan::plain_end(self.text.as_bytes(), start);
        if self.text.as_bytes().get(end) == Some(&b'"') {
            self.at = end + 1;
            return Ok(self.text.get(start..end).unwrap_or_default());
        }
        scratch.clear();
        self.escaped(scratch)?;
        Ok(scratch)
    }

    /// Reads the rest of a string, behind its quote, into `into`.
    pub fn escaped(&mut self, into: &mut String) -> Result<(), Misfit> {
        loop {
            let end = scan::plain_end(self.text.as_bytes(), self.at);
            into.push_str(self.text.get(self.at..end).unwrap_or_default());
            self.at = end;
            match self.peek() {
                b'"' => {
                    self.at += 1;
                    return Ok(());
                }
                b'\\' => {
                    self.at += 1;
                    into.push(self.escape()?);
                }
                b'\n' => return Err(self.unexpected("the string's closing quote")),
                control => {
                    let message =
                        format!("not JSON: the control character {control:#04x} in a string is not escaped");
                    return Err(Misfit::new(message));
                }
            }
        }
    }

    fn escape(&mut self) -> Result<char, Misfit> {
        let letter = self.peek();
        let character = match letter {
            b'"' | b'\\' | b'/' => char::from(letter),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                self.at += 1;
                return self.unicode();
            }
            _ => return Err(self.unexpected("an escape: one of \"\\/bfnrtu")),
        };
        self.at += 1;
        Ok(character)
    }

    fn unicode(&mut self) -> Result<char, Misfit> {
        let first = self.hex()?;
        let code = match first {
            0xd800..=0xdbff if self.rest().starts_with(b"\\u") => {
                self.at += 2;
                let second = self.hex()?;
                if !(0xdc00..=0xdfff).contains(&second) {
                    return Err(half_a_pair());
                }
                0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
            }
            single => single,
        };
        char::from_u32(code).ok_or_else(half_a_pair)
    }

    fn hex(&mut self) -> Result<u32, Misfit> {
        let mut code = 0;
        for _ in 0..4 {
            let Some(digit) = char::from(self.peek()).to_digit(16) else {
                return Err(self.unexpected("four hexadecimal digits behind \\u"));
            };
            code = code * 16 + digit;
            self.at += 1;
        }
        Ok(code)
    }

    /// Reads the number that begins here, as text.
    pub fn number(&mut self) -> Result<&'a str, Misfit> {
        let length = number::length(self.rest()).ok_or_else(|| self.unexpected("a value"))?;
        let text = self.text.get(self.at..self.at + length).unwrap_or_default();
        self.at += length;
        Ok(text)
    }

    /// Passes over one value of any kind.
    pub fn skip(&mut self, scratch: &mut String, depth: usize) -> Result<(), Misfit> {
        match self.peek() {
            b'"' => self.string(scratch).map(|_| ()),
            b'{' => self.each_entry(scratch, depth, |cursor, scratch, _| {
                cursor.skip(scratch, depth + 1)
            }),
            b'[' => self.each_item(depth, |cursor, _| cursor.skip(scratch, depth + 1)),
            _ if self.takes_word(b"null") || self.takes_word(b"true") || self.takes_word(b"false") => Ok(()),
            _ => self.number().map(|_| ()),
        }
    }

    /// Reads the array that begins here; `item` reads each element, given its index.
    pub fn each_item(
        &mut self,
        depth: usize,
        mut item: impl FnMut(&mut Self, usize) -> Result<(), Misfit>,
    ) -> Result<(), Misfit> {
        self.enter(b'[', depth)?;
        if self.takes(b']') {
            return Ok(());
        }
        for index in 0.. {
            item(self, index).map_err(|misfit| misfit.in_item(index))?;
            if self.closes(b']')? {
                break;
            }
        }
        Ok(())
    }

    /// Reads the object that begins here; `entry` reads each value, given its key.
    pub fn each_entry(
        &mut self,
        scratch: &mut String,
        depth: usize,
        mut entry: impl FnMut(&mut Self, &mut String, &str) -> Result<(), Misfit>,
    ) -> Result<(), Misfit> {
        self.enter(b'{', depth)?;
        if self.takes(b'}') {
            return Ok(());
        }
        loop {
            let key = self.key(scratch)?;
            entry(self, scratch, &key).map_err(|misfit| misfit.in_field(&key))?;
            if self.closes(b'}')? {
                return Ok(());
            }
        }
    }

    /// Skips the opening bracket and the blanks behind it.
    #[inline]
    pub fn enter(&mut self, bracket: u8, depth: usize) -> Result<(), Misfit> {
        if depth >= MOST_DEPTH {
            return Err(Misfit::new(format!("more than {MOST_DEPTH} levels of nesting")));
        }
        self.expect(bracket)?;
        self.skip_blanks();
        Ok(())
    }

    /// Skips the separator after a value: the closing bracket, or a comma, after which there is another value.
    #[inline]
    pub fn closes(&mut self, bracket: u8) -> Result<bool, Misfit> {
        self.skip_blanks();
        if self.takes(b',') {
            self.skip_blanks();
            return Ok(false);
        }
        if self.takes(bracket) {
            return Ok(true);
        }
        Err(self.unexpected(&format!("',' or {:?}", char::from(bracket))))
    }

    /// Reads a key and its colon.
    pub fn key(&mut self, scratch: &mut String) -> Result<String, Misfit> {
        let key = self.string(scratch)?.to_owned();
        self.skip_blanks();
        self.expect(b':')?;
        self.skip_blanks();
        Ok(key)
    }
}

#[cold]
fn half_a_pair() -> Misfit {
    Misfit::new("not text: an escape is one half of a surrogate pair without the other")
}
