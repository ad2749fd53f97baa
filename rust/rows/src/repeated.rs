//! Keys of a map that come twice. Other engines refuse such a map, or lose one of its values.

use std::collections::HashSet;

use arrow_array::OffsetSizeTrait;
use arrow_buffer::i256;
use half::f16;

use crate::column::ColumnBuilder;
use crate::decimal::shown;
use crate::error::Misfit;
use crate::values::{Values, each_vector};

/// The most keys that are compared in pairs, which takes no memory.
const FEW: usize = 16;

/// Checks the keys of one map, which are those from `start` on. They are compared as the column has them: 1 and "1" are
/// one integer.
///
/// # Errors
/// When one comes twice.
pub(crate) fn check_keys(keys: &ColumnBuilder, start: usize) -> Result<(), Misfit> {
    if keys.len() - start < 2 {
        return Ok(());
    }
    let end = keys.len();
    let found = match &keys.values {
        _ if end - start > FEW => by_bytes(keys, start),
        Values::Text(text) => in_pairs(start, end, |at| text.get(at)),
        Values::LargeText(text) => in_pairs(start, end, |at| text.get(at)),
        Values::I32(values) => in_pairs(start, end, |at| values[at]),
        Values::I64(values) => in_pairs(start, end, |at| values[at]),
        _ => by_bytes(keys, start),
    };
    match found {
        None => Ok(()),
        Some(at) => Err(repeated(&keys.values, at)),
    }
}

/// The place of a key that equals one before it.
#[inline]
fn in_pairs<T: PartialEq>(start: usize, end: usize, key: impl Fn(usize) -> T) -> Option<usize> {
    (start + 1..end).find(|at| (start..*at).any(|before| key(before) == key(*at)))
}

fn by_bytes(keys: &ColumnBuilder, start: usize) -> Option<usize> {
    let mut seen = HashSet::new();
    (start..keys.len()).find(|at| {
        let mut bytes = Vec::new();
        keys.put_bytes(*at, &mut bytes);
        !seen.insert(bytes)
    })
}

#[cold]
fn repeated(keys: &Values, at: usize) -> Misfit {
    let key = match keys {
        Values::Text(text) => shown(&String::from_utf8_lossy(text.get(at))),
        Values::LargeText(text) => shown(&String::from_utf8_lossy(text.get(at))),
        Values::I8(values) => values[at].to_string(),
        Values::I16(values) => values[at].to_string(),
        Values::I32(values) => values[at].to_string(),
        Values::I64(values) => values[at].to_string(),
        _ => return Misfit::new("the map has one key twice: give each key once"),
    };
    Misfit::new(format!("the map has the key {key} twice: give each key once"))
}

/// A value as bytes that are the same for equal values alone.
trait PutBytes {
    fn put(&self, out: &mut Vec<u8>);
}

macro_rules! put_integers {
    ($($kind:ty),*) => {
        $(impl PutBytes for $kind {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
        })*
    };
}

put_integers!(i8, i16, i32, i64, i128, i256, u8, u16, u32, u64);

impl PutBytes for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
}

/// Engines take both zeros for one key, and every NaN.
impl PutBytes for f64 {
    fn put(&self, out: &mut Vec<u8>) {
        let value = if self.is_nan() { Self::NAN } else { *self + 0.0 };
        out.extend_from_slice(&value.to_le_bytes());
    }
}

impl PutBytes for f32 {
    fn put(&self, out: &mut Vec<u8>) {
        f64::from(*self).put(out);
    }
}

impl PutBytes for f16 {
    fn put(&self, out: &mut Vec<u8>) {
        f64::from(*self).put(out);
    }
}

impl PutBytes for [u8] {
    fn put(&self, out: &mut Vec<u8>) {
        self.len().put(out);
        out.extend_from_slice(self);
    }
}

impl PutBytes for usize {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }
}

impl ColumnBuilder {
    fn put_bytes(&self, at: usize, out: &mut Vec<u8>) {
        let is_valid = self.is_valid(at);
        is_valid.put(out);
        if is_valid {
            self.values.put_bytes(at, out);
        }
    }

    fn put_each(&self, range: std::ops::Range<usize>, out: &mut Vec<u8>) {
        range.len().put(out);
        range.for_each(|at| self.put_bytes(at, out));
    }
}

impl Values {
    fn put_bytes(&self, at: usize, out: &mut Vec<u8>) {
        each_vector!(self, vector => vector[at].put(out),
            Self::Null => {},
            Self::Text(text) => text.get(at).put(out),
            Self::LargeText(text) => text.get(at).put(out),
            Self::Binary(blob) => blob.get(at).put(out),
            Self::LargeBinary(blob) => blob.get(at).put(out),
            Self::FixedBinary(width, data) => {
                let width = width.unsigned_abs() as usize;
                data[at * width..(at + 1) * width].put(out);
            },
            Self::List(list) => list.items.put_each(between(list.ends(), at), out),
            Self::LargeList(list) => list.items.put_each(between(list.ends(), at), out),
            Self::FixedList(list) => {
                let size = list.size();
                list.items.put_each(at * size..(at + 1) * size, out);
            },
            Self::Struct(fields) => fields.columns.iter().for_each(|column| column.put_bytes(at, out)),
            Self::Map(map) => {
                let entries = between(map.ends(), at);
                map.keys.put_each(entries.clone(), out);
                map.values.put_each(entries, out);
            },
        );
    }
}

fn between<O: OffsetSizeTrait>(ends: &[O], at: usize) -> std::ops::Range<usize> {
    ends[at].as_usize()..ends[at + 1].as_usize()
}
