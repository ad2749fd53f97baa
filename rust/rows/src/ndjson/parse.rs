//! The parser of one line of NDJSON, which appends directly to builders.

use crate::column::ColumnBuilder;
use crate::error::Misfit;
use crate::ndjson::cursor::Cursor;
use crate::ndjson::number;
use crate::scalar::{Scalar, timestamp_text};
use crate::table::{Extra, Fields};
use crate::values::{MapValues, Values};

/// Appends the integer that begins here and returns, if it is short and fits.
macro_rules! short_integer {
    ($self:ident, $column:ident, $values:ident) => {
        if let Some((value, length)) = number::short_integer($self.cursor.rest())
            && let Ok(value) = value.try_into()
        {
            $self.cursor.at += length;
            $values.push(value);
            $column.count();
            return Ok(());
        }
    };
}

/// The parser of a block of lines.
pub(crate) struct Parser<'a> {
    pub cursor: Cursor<'a>,
    extra: Extra,
    scratch: &'a mut String,
}

impl<'a> Parser<'a> {
    pub fn new(text: &'a str, extra: Extra, scratch: &'a mut String) -> Self {
        Self {
            cursor: Cursor::new(text),
            extra,
            scratch,
        }
    }

    /// Parses the object that begins here into a row, and the blanks up to the end of its line.
    #[inline]
    pub fn row(&mut self, fields: &mut Fields, rows: usize) -> Result<(), Misfit> {
        if self.cursor.peek() != b'{' {
            return Err(self.cursor.unexpected("an object: a row is one, on one line"));
        }
        self.object(fields, rows, 0)?;
        self.cursor.skip_blanks();
        if self.cursor.peek() == b'\n' {
            Ok(())
        } else {
            Err(self.cursor.unexpected("the end of the line behind the row"))
        }
    }

    fn object(&mut self, fields: &mut Fields, len: usize, depth: usize) -> Result<(), Misfit> {
        self.cursor.enter(b'{', depth)?;
        let (mut place, mut found) = (0, 0);
        if !self.cursor.takes(b'}') {
            loop {
                if let Some(index) = self.key(fields, &mut place)? {
                    let column = &mut fields.columns[index];
                    if column.len() != len {
                        return Err(Misfit::repeated_key().in_field(column.name()));
                    }
                    if let Err(misfit) = self.value(column, depth + 1) {
                        return Err(misfit.in_field(column.name()));
                    }
                    found += 1;
                }
                // Nearly always the next key follows at once.
                if self.cursor.rest().starts_with(b",\"") {
                    self.cursor.at += 1;
                } else if self.cursor.closes(b'}')? {
                    break;
                }
            }
        }
        fields.fill(len, found)
    }

    /// Reads a key up to its value. Returns its column, or none when the value was skipped.
    #[inline]
    fn key(&mut self, fields: &mut Fields, place: &mut usize) -> Result<Option<usize>, Misfit> {
        let rest = self.cursor.rest();
        if let Some((column, slot)) = fields.keys.expected(*place)
            && let Some(length) = slot.starts(rest)
        {
            self.cursor.at += length;
            *place += 1;
            self.cursor.skip_blanks();
            return Ok(Some(column));
        }
        self.other_key(fields, place)
    }

    /// Finds a key that was not expected here. It is usually one of the next, as rows leave out null values.
    fn other_key(&mut self, fields: &mut Fields, place: &mut usize) -> Result<Option<usize>, Misfit> {
        let rest = self.cursor.rest();
        if let Some((column, now)) = fields.keys.ahead(*place + 1, |slot| slot.starts(rest).is_some()) {
            let length = fields.keys.expected(now).and_then(|(_, slot)| slot.starts(rest));
            self.cursor.at += length.unwrap_or_default();
            *place = now + 1;
            self.cursor.skip_blanks();
            return Ok(Some(column));
        }
        let start = self.cursor.at;
        let key = self.cursor.string(self.scratch)?;
        if let Some((column, now)) = fields.keys.look_up(key, *place) {
            *place = now + 1;
            self.cursor.skip_blanks();
            self.cursor.expect(b':')?;
            self.cursor.skip_blanks();
            return Ok(Some(column));
        }
        self.cursor.at = start;
        let key = self.cursor.key(self.scratch)?;
        if self.extra == Extra::Error {
            return Err(Misfit::unknown_key().in_field(&key));
        }
        self.cursor
            .skip(self.scratch, 1)
            .map_err(|misfit| misfit.in_field(&key))?;
        Ok(None)
    }

    #[expect(clippy::inline_always, reason = "the call would cost more than most cells do")]
    #[inline(always)]
    fn value(&mut self, column: &mut ColumnBuilder, depth: usize) -> Result<(), Misfit> {
        if self.cursor.peek() == b'n' {
            return self.null(column);
        }
        match &mut column.values {
            Values::Text(text) if self.cursor.peek() == b'"' => {
                if let Some(end) = text.push_json(self.cursor.text(), self.cursor.at + 1)? {
                    self.cursor.at = end + 1;
                    column.count();
                    return Ok(());
                }
            }
            Values::I64(values) => short_integer!(self, column, values),
            Values::I32(values) => short_integer!(self, column, values),
            Values::I16(values) => short_integer!(self, column, values),
            Values::I8(values) => short_integer!(self, column, values),
            Values::U64(values) => short_integer!(self, column, values),
            Values::U32(values) => short_integer!(self, column, values),
            Values::U16(values) => short_integer!(self, column, values),
            Values::U8(values) => short_integer!(self, column, values),
            Values::F64(values) => {
                if let Some((value, length)) = number::short_float(self.cursor.rest()) {
                    self.cursor.at += length;
                    values.push(value);
                    column.count();
                    return Ok(());
                }
            }
            Values::Timestamp(unit, zoned, values) if self.cursor.peek() == b'"' => {
                let text = self.cursor.string(self.scratch)?;
                values.push(timestamp_text(text, *unit, *zoned)?);
                column.count();
                return Ok(());
            }
            Values::Bool(values) => {
                let value = self.cursor.peek() == b't';
                if self.cursor.takes_word(if value { b"true" } else { b"false" }) {
                    values.push(value);
                    column.count();
                    return Ok(());
                }
            }
            _ => {}
        }
        self.any_value(column, depth)
    }

    #[inline]
    fn null(&mut self, column: &mut ColumnBuilder) -> Result<(), Misfit> {
        if self.cursor.takes_word(b"null") {
            return column.push_null();
        }
        Err(self.cursor.unexpected("a value"))
    }

    /// A value of whatever kind stands here.
    fn any_value(&mut self, column: &mut ColumnBuilder, depth: usize) -> Result<(), Misfit> {
        match self.cursor.peek() {
            b't' if self.cursor.takes_word(b"true") => column.push(Scalar::Bool(true)),
            b'f' if self.cursor.takes_word(b"false") => column.push(Scalar::Bool(false)),
            b'"' => column.push(Scalar::Text(self.cursor.string(self.scratch)?)),
            b'{' | b'[' => self.nested(column, depth),
            _ => column.push(Scalar::Number(self.cursor.number()?)),
        }
    }

    fn nested(&mut self, column: &mut ColumnBuilder, depth: usize) -> Result<(), Misfit> {
        let len = column.len();
        let is_array = self.cursor.peek() == b'[';
        match &mut column.values {
            Values::List(list) if is_array => {
                self.items(&mut list.items, depth)?;
                list.end()?;
            }
            Values::LargeList(list) if is_array => {
                self.items(&mut list.items, depth)?;
                list.end()?;
            }
            Values::FixedList(list) if is_array => {
                self.items(&mut list.items, depth)?;
                list.end()?;
            }
            Values::Struct(fields) if !is_array => self.object(fields, len, depth)?,
            Values::Map(map) => {
                if is_array {
                    self.pairs(map, depth)?;
                } else {
                    self.entries(map, depth)?;
                }
                map.end()?;
            }
            other => {
                let expected = other.expects();
                return Err(Misfit::expected(
                    expected,
                    if is_array { "a list" } else { "an object" },
                ));
            }
        }
        column.count();
        Ok(())
    }

    fn items(&mut self, items: &mut ColumnBuilder, depth: usize) -> Result<(), Misfit> {
        self.cursor.enter(b'[', depth)?;
        if self.cursor.takes(b']') {
            return Ok(());
        }
        for index in 0.. {
            self.value(items, depth + 1)
                .map_err(|misfit| misfit.in_item(index))?;
            if self.cursor.closes(b']')? {
                break;
            }
        }
        Ok(())
    }

    fn entries(&mut self, map: &mut MapValues, depth: usize) -> Result<(), Misfit> {
        self.cursor.enter(b'{', depth)?;
        if self.cursor.takes(b'}') {
            return Ok(());
        }
        loop {
            let key = self.cursor.key(self.scratch)?;
            map.keys
                .push(Scalar::Text(&key))
                .and_then(|()| self.value(&mut map.values, depth + 1))
                .map_err(|misfit| misfit.in_field(&key))?;
            if self.cursor.closes(b'}')? {
                return Ok(());
            }
        }
    }

    fn pairs(&mut self, map: &mut MapValues, depth: usize) -> Result<(), Misfit> {
        self.cursor.enter(b'[', depth)?;
        if self.cursor.takes(b']') {
            return Ok(());
        }
        for index in 0.. {
            self.pair(map, depth + 1)
                .map_err(|misfit| misfit.in_item(index))?;
            if self.cursor.closes(b']')? {
                break;
            }
        }
        Ok(())
    }

    fn pair(&mut self, map: &mut MapValues, depth: usize) -> Result<(), Misfit> {
        self.cursor.enter(b'[', depth)?;
        self.value(&mut map.keys, depth + 1)?;
        if self.cursor.closes(b']')? {
            return Err(Misfit::new(
                "expected a pair of a key and a value, found a key alone",
            ));
        }
        self.value(&mut map.values, depth + 1)?;
        if self.cursor.closes(b']')? {
            return Ok(());
        }
        Err(Misfit::new("expected a pair of a key and a value, found more"))
    }
}
