//! Thrift's compact protocol as a tree of values, for changes to a finished footer.
//!
//! `thrift-compact-protocol.md` of Apache Thrift. What the footer does not use (maps, sets) is refused, and so are
//! values that are nested more than [`MOST_LEVELS`] deep.

use crate::error::{Result, WriteError};

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// Structs and lists within each other at most. Those of a footer are nested seven deep.
pub const MOST_LEVELS: usize = 32;

/// A value of any type.
#[derive(Debug, Clone, PartialEq)]
pub enum ThriftValue {
    /// A boolean.
    Bool(bool),
    /// An integer of 8 bits.
    Byte(u8),
    /// An integer of the type that stands before it: 16, 32 or 64 bits.
    Integer(u8, i64),
    /// A float of 64 bits.
    Double([u8; 8]),
    /// Bytes or text.
    Binary(Vec<u8>),
    /// Values of the type that stands before them.
    List(u8, Vec<ThriftValue>),
    /// A struct.
    Struct(ThriftStruct),
    /// A struct by its own bytes. It is written, and never parsed.
    Encoded(Vec<u8>),
}

/// Fields by their ids, in ascending order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ThriftStruct {
    fields: Vec<(i16, ThriftValue)>,
}

impl ThriftStruct {
    /// Parses a struct that takes all of `bytes`.
    ///
    /// # Errors
    /// [`WriteError::Encode`] when they are no struct, or more than one.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        match Self::parse_first(bytes)? {
            (parsed, length) if length == bytes.len() => Ok(parsed),
            _ => Err(unexpected()),
        }
    }

    /// Parses the struct that `bytes` begin with. Returns also its length in bytes.
    ///
    /// # Errors
    /// [`WriteError::Encode`] when they begin with none.
    pub fn parse_first(bytes: &[u8]) -> Result<(Self, usize)> {
        let mut reader = ThriftReader { bytes, levels: 0 };
        let parsed = reader.fields()?;
        Ok((parsed, bytes.len() - reader.bytes.len()))
    }

    /// Appends the struct.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut last = 0;
        for (id, value) in &self.fields {
            let kind = match value {
                ThriftValue::Bool(false) => FALSE,
                other => other.kind(),
            };
            if let Ok(delta @ 1..=15) = u8::try_from(id - last) {
                out.push(delta << 4 | kind);
            } else {
                out.push(kind);
                write_zigzag(i64::from(*id), out);
            }
            if !matches!(value, ThriftValue::Bool(_)) {
                value.write(out);
            }
            last = *id;
        }
        out.push(0);
    }

    /// The struct's bytes.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    /// The same struct with one field more.
    #[must_use]
    pub fn with(mut self, id: i16, value: ThriftValue) -> Self {
        self.set(id, value);
        self
    }

    /// The value of a field, if there is one.
    #[must_use]
    pub fn get(&self, id: i16) -> Option<&ThriftValue> {
        let place = self.place(id).ok()?;
        self.fields.get(place).map(|(_, value)| value)
    }

    /// Sets the value of a field, whether it is there or not.
    pub fn set(&mut self, id: i16, value: ThriftValue) {
        match self.place(id) {
            Ok(place) => self.fields[place].1 = value,
            Err(place) => self.fields.insert(place, (id, value)),
        }
    }

    /// Removes a field, if it is there.
    pub fn remove(&mut self, id: i16) {
        self.fields.retain(|(other, _)| *other != id);
    }

    /// Removes every field with an id above `last`.
    pub fn remove_above(&mut self, last: i16) {
        self.fields.retain(|(id, _)| *id <= last);
    }

    /// The integer of a field, if it has one.
    #[must_use]
    pub fn integer(&self, id: i16) -> Option<i64> {
        match self.get(id) {
            Some(ThriftValue::Integer(_, number)) => Some(*number),
            _ => None,
        }
    }

    /// Changes the integer of a field that is there, and keeps its type.
    ///
    /// # Errors
    /// [`WriteError::Encode`] when the field has no integer.
    pub fn set_integer(&mut self, id: i16, number: i64) -> Result<()> {
        match self.get_mut(id) {
            Some(ThriftValue::Integer(_, old)) => {
                *old = number;
                Ok(())
            }
            _ => Err(unexpected()),
        }
    }

    /// The struct in a field.
    ///
    /// # Errors
    /// [`WriteError::Encode`] when the field has none.
    pub fn nested(&mut self, id: i16) -> Result<&mut Self> {
        match self.get_mut(id) {
            Some(ThriftValue::Struct(nested)) => Ok(nested),
            _ => Err(unexpected()),
        }
    }

    /// The values of the list in a field.
    ///
    /// # Errors
    /// [`WriteError::Encode`] when the field has none.
    pub fn list(&mut self, id: i16) -> Result<&mut Vec<ThriftValue>> {
        match self.get_mut(id) {
            Some(ThriftValue::List(_, values)) => Ok(values),
            _ => Err(unexpected()),
        }
    }

    fn get_mut(&mut self, id: i16) -> Option<&mut ThriftValue> {
        let place = self.place(id).ok()?;
        self.fields.get_mut(place).map(|(_, value)| value)
    }

    fn place(&self, id: i16) -> std::result::Result<usize, usize> {
        self.fields.binary_search_by_key(&id, |(id, _)| *id)
    }
}

impl ThriftValue {
    /// An integer of 16 bits.
    #[must_use]
    pub fn i16(number: i16) -> Self {
        Self::Integer(I16, number.into())
    }

    /// An integer of 32 bits.
    #[must_use]
    pub fn i32(number: i32) -> Self {
        Self::Integer(I32, number.into())
    }

    /// An integer of 64 bits.
    #[must_use]
    pub fn i64(number: i64) -> Self {
        Self::Integer(I64, number)
    }

    /// A list of structs, each given by its own bytes.
    #[must_use]
    pub fn encoded_structs(structs: Vec<Vec<u8>>) -> Self {
        Self::List(STRUCT, structs.into_iter().map(Self::Encoded).collect())
    }

    /// The struct that it is.
    ///
    /// # Errors
    /// [`WriteError::Encode`] when it is something else.
    pub fn as_struct(&mut self) -> Result<&mut ThriftStruct> {
        match self {
            Self::Struct(value) => Ok(value),
            _ => Err(unexpected()),
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Bool(_) => TRUE,
            Self::Byte(_) => BYTE,
            Self::Integer(kind, _) => *kind,
            Self::Double(_) => DOUBLE,
            Self::Binary(_) => BINARY,
            Self::List(..) => LIST,
            Self::Struct(_) | Self::Encoded(_) => STRUCT,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Bool(value) => out.push(if *value { TRUE } else { FALSE }),
            Self::Byte(value) => out.push(*value),
            Self::Integer(_, number) => write_zigzag(*number, out),
            Self::Double(bytes) => out.extend_from_slice(bytes),
            Self::Binary(bytes) => {
                write_varint(bytes.len() as u64, out);
                out.extend_from_slice(bytes);
            }
            Self::List(kind, values) => {
                if let Ok(short @ 0..=14) = u8::try_from(values.len()) {
                    out.push(short << 4 | kind);
                } else {
                    out.push(0xf0 | kind);
                    write_varint(values.len() as u64, out);
                }
                for value in values {
                    value.write(out);
                }
            }
            Self::Struct(value) => value.write(out),
            Self::Encoded(bytes) => out.extend_from_slice(bytes),
        }
    }
}

fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

fn write_zigzag(value: i64, out: &mut Vec<u8>) {
    write_varint(((value << 1) ^ (value >> 63)).cast_unsigned(), out);
}

fn unexpected() -> WriteError {
    WriteError::Encode("the footer is not what was expected of it".into())
}

struct ThriftReader<'a> {
    bytes: &'a [u8],
    /// Structs and lists that the next value is in.
    levels: usize,
}

impl<'a> ThriftReader<'a> {
    fn fields(&mut self) -> Result<ThriftStruct> {
        let mut fields = Vec::new();
        let mut last = 0_i16;
        loop {
            let header = self.byte()?;
            if header == 0 {
                return Ok(ThriftStruct { fields });
            }
            let (delta, kind) = (i16::from(header >> 4), header & 15);
            let id = match delta {
                0 => i16::try_from(self.zigzag()?).map_err(|_| unexpected())?,
                delta => last.checked_add(delta).ok_or_else(unexpected)?,
            };
            if id <= last {
                return Err(unexpected());
            }
            let value = match kind {
                TRUE | FALSE => ThriftValue::Bool(kind == TRUE),
                kind => self.value(kind)?,
            };
            fields.push((id, value));
            last = id;
        }
    }

    fn value(&mut self, kind: u8) -> Result<ThriftValue> {
        Ok(match kind {
            // Old writers of lists have 0 for false, as other Thrift encodings do.
            TRUE | FALSE => ThriftValue::Bool(match self.byte()? {
                TRUE => true,
                FALSE | 0 => false,
                _ => return Err(unexpected()),
            }),
            BYTE => ThriftValue::Byte(self.byte()?),
            I16 | I32 | I64 => ThriftValue::Integer(kind, self.zigzag()?),
            DOUBLE => ThriftValue::Double(self.take(8)?.try_into().map_err(|_| unexpected())?),
            BINARY => {
                let length = self.length()?;
                ThriftValue::Binary(self.take(length)?.to_vec())
            }
            LIST | STRUCT if self.levels >= MOST_LEVELS => return Err(unexpected()),
            LIST => {
                let header = self.byte()?;
                let length = match header >> 4 {
                    15 => self.length()?,
                    short => usize::from(short),
                };
                self.levels += 1;
                let values = (0..length).map(|_| self.value(header & 15));
                let values = values.collect::<Result<_>>()?;
                self.levels -= 1;
                ThriftValue::List(header & 15, values)
            }
            STRUCT => {
                self.levels += 1;
                let fields = self.fields()?;
                self.levels -= 1;
                ThriftValue::Struct(fields)
            }
            _ => return Err(unexpected()),
        })
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or_else(unexpected)?;
        self.bytes = rest;
        Ok(taken)
    }

    fn length(&mut self) -> Result<usize> {
        usize::try_from(self.varint()?).map_err(|_| unexpected())
    }

    fn varint(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(unexpected())
    }

    fn zigzag(&mut self) -> Result<i64> {
        let value = self.varint()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values() -> impl Strategy<Value = ThriftValue> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(ThriftValue::Bool),
            any::<u8>().prop_map(ThriftValue::Byte),
            any::<i16>().prop_map(|number| ThriftValue::Integer(I16, number.into())),
            any::<i32>().prop_map(|number| ThriftValue::Integer(I32, number.into())),
            any::<i64>().prop_map(|number| ThriftValue::Integer(I64, number)),
            any::<[u8; 8]>().prop_map(ThriftValue::Double),
            prop::collection::vec(any::<u8>(), 0..200).prop_map(ThriftValue::Binary),
            prop::collection::vec(any::<i64>(), 0..40).prop_map(|numbers| {
                let values = numbers
                    .into_iter()
                    .map(|number| ThriftValue::Integer(I64, number));
                ThriftValue::List(I64, values.collect())
            }),
            prop::collection::vec(any::<bool>(), 0..40)
                .prop_map(|all| ThriftValue::List(TRUE, all.into_iter().map(ThriftValue::Bool).collect())),
        ];
        leaf.prop_recursive(4, 60, 8, |inner| {
            let nested = structs(inner).prop_map(ThriftValue::Struct).boxed();
            prop_oneof![
                nested.clone(),
                prop::collection::vec(nested, 0..20).prop_map(|all| ThriftValue::List(STRUCT, all)),
            ]
        })
    }

    fn structs(inner: impl Strategy<Value = ThriftValue>) -> impl Strategy<Value = ThriftStruct> {
        let fields = prop::collection::btree_map(1..1000_i16, inner, 0..8);
        fields.prop_map(|fields| ThriftStruct {
            fields: fields.into_iter().collect(),
        })
    }

    #[test]
    fn lists_that_are_nested_without_end_are_refused() {
        let mut bytes = vec![1 << 4 | LIST];
        bytes.resize(1_000_000, 1 << 4 | LIST);
        assert!(ThriftStruct::parse(&bytes).is_err());
    }

    #[test]
    fn a_boolean_in_a_list_has_one_of_three_values() {
        let list = |value: u8| ThriftStruct::parse(&[1 << 4 | LIST, 1 << 4 | TRUE, value, 0]);
        let found = |value: bool| ThriftStruct {
            fields: vec![(1, ThriftValue::List(TRUE, vec![ThriftValue::Bool(value)]))],
        };
        assert_eq!(list(1).unwrap(), found(true));
        assert_eq!(list(2).unwrap(), found(false));
        assert_eq!(list(0).unwrap(), found(false));
        assert!(list(3).is_err());
    }

    proptest! {
        #[test]
        fn a_tree_comes_back_from_its_bytes(tree in structs(values())) {
            prop_assert_eq!(ThriftStruct::parse(&tree.bytes()).unwrap(), tree);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(tree) = ThriftStruct::parse(&bytes) {
                prop_assert_eq!(ThriftStruct::parse(&tree.bytes()).unwrap(), tree);
            }
        }

        #[test]
        fn a_list_of_encoded_structs_is_written_as_the_structs_are(
            all in prop::collection::vec(structs(values()), 0..20),
            others in structs(values()),
            id in 1..1000_i16,
        ) {
            let encoded = ThriftValue::encoded_structs(all.iter().map(ThriftStruct::bytes).collect());
            let whole = ThriftValue::List(STRUCT, all.into_iter().map(ThriftValue::Struct).collect());
            prop_assert_eq!(others.clone().with(id, encoded).bytes(), others.with(id, whole).bytes());
        }

        #[test]
        fn a_part_of_a_tree_is_refused(tree in structs(values()), cut in any::<prop::sample::Index>()) {
            let bytes = tree.bytes();
            prop_assert!(ThriftStruct::parse(&bytes[..cut.index(bytes.len())]).is_err());
        }
    }
}
