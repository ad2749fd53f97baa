//! A digest as bytes, so that parts made in other processes can be merged.
//!
//! Little-endian throughout; strings and byte strings carry a 64-bit length.

use arrow_buffer::i256;

use crate::digest::{ColumnDigest, Digest};
use crate::error::Error;
use crate::extremes::Value;

const VERSION: u8 = 1;

impl Digest {
    /// Encodes the digest; [`Digest::from_bytes`] reads it back.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend(self.rows.to_le_bytes());
        out.extend(self.row_sum.to_le_bytes());
        out.extend(self.sequence_sum.to_le_bytes());
        out.extend((self.columns.len() as u64).to_le_bytes());
        for column in &self.columns {
            put_span(&mut out, column.name.as_bytes());
            put_span(&mut out, column.type_name.as_bytes());
            out.extend(column.values.to_le_bytes());
            out.extend(column.nulls.to_le_bytes());
            out.extend(column.checksum.to_le_bytes());
            put_value(&mut out, column.min.as_ref());
            put_value(&mut out, column.max.as_ref());
        }
        out
    }

    /// Decodes the bytes that [`Digest::to_bytes`] made.
    ///
    /// # Errors
    /// [`Error::Encoded`] if the bytes are damaged, cut short, too long, or of another version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let mut input = DigestReader(bytes);
        if input.array::<1>()? != [VERSION] {
            return Err(Error::Encoded("unknown version"));
        }
        let rows = input.u64()?;
        let row_sum = input.u128()?;
        let sequence_sum = input.u128()?;
        let count = input.u64()?;
        let columns = (0..count).map(|_| input.column()).collect::<Result<_, _>>()?;
        if !input.0.is_empty() {
            return Err(Error::Encoded("bytes left over"));
        }
        Ok(Self {
            rows,
            columns,
            row_sum,
            sequence_sum,
        })
    }
}

fn put_span(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u64).to_le_bytes());
    out.extend(bytes);
}

fn put_value(out: &mut Vec<u8>, value: Option<&Value>) {
    let Some(value) = value else { return out.push(0) };
    out.push(value.kind());
    match value {
        Value::Bool(v) => out.push(u8::from(*v)),
        Value::Signed(v) => out.extend(v.to_le_bytes()),
        Value::Unsigned(v) => out.extend(v.to_le_bytes()),
        Value::Float(v) => out.extend(v.to_bits().to_le_bytes()),
        Value::Decimal(v) => out.extend(v.to_le_bytes()),
        Value::Text(v) => put_span(out, v.as_bytes()),
        Value::Bytes(v) => put_span(out, v),
    }
}

struct DigestReader<'a>(&'a [u8]);

impl<'a> DigestReader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let (head, tail) = self
            .0
            .split_at_checked(count)
            .ok_or(Error::Encoded("cut short"))?;
        self.0 = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        self.take(N)?.try_into().map_err(|_| Error::Encoded("cut short"))
    }

    fn u64(&mut self) -> Result<u64, Error> {
        self.array().map(u64::from_le_bytes)
    }

    fn u128(&mut self) -> Result<u128, Error> {
        self.array().map(u128::from_le_bytes)
    }

    fn span(&mut self) -> Result<Vec<u8>, Error> {
        let length = usize::try_from(self.u64()?).map_err(|_| Error::Encoded("length out of range"))?;
        self.take(length).map(<[u8]>::to_vec)
    }

    fn text(&mut self) -> Result<String, Error> {
        String::from_utf8(self.span()?).map_err(|_| Error::Encoded("text is not UTF-8"))
    }

    fn value(&mut self) -> Result<Option<Value>, Error> {
        Ok(Some(match self.array::<1>()?[0] {
            0 => return Ok(None),
            1 => Value::Bool(self.array::<1>()? != [0]),
            2 => Value::Signed(self.array().map(i64::from_le_bytes)?),
            3 => Value::Unsigned(self.u64()?),
            4 => Value::Float(f64::from_bits(self.u64()?)),
            5 => Value::Decimal(self.array().map(i256::from_le_bytes)?),
            6 => Value::Text(self.text()?),
            7 => Value::Bytes(self.span()?),
            _ => return Err(Error::Encoded("unknown kind of value")),
        }))
    }

    fn column(&mut self) -> Result<ColumnDigest, Error> {
        Ok(ColumnDigest {
            name: self.text()?,
            type_name: self.text()?,
            values: self.u64()?,
            nulls: self.u64()?,
            checksum: self.u128()?,
            min: self.value()?,
            max: self.value()?,
        })
    }
}
