//! The part of Thrift's compact protocol that page and filter headers need.
//!
//! `thrift-compact-protocol.md` of Apache Thrift, "Struct Encoding".

use crate::sink::{varint, zigzag};

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const I32: u8 = 5;
const STRUCT: u8 = 12;

/// A struct that is being written. Fields come in ascending order, with ids no more than 15 apart.
pub(crate) struct StructWriter<'a> {
    out: &'a mut Vec<u8>,
    last: u8,
}

impl<'a> StructWriter<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, last: 0 }
    }

    fn field(&mut self, id: u8, kind: u8) {
        debug_assert!(id > self.last && id - self.last <= 15);
        self.out.push((id - self.last) << 4 | kind);
        self.last = id;
    }

    pub(crate) fn bool(&mut self, id: u8, value: bool) {
        self.field(id, if value { TRUE } else { FALSE });
    }

    pub(crate) fn i32(&mut self, id: u8, value: i32) {
        self.field(id, I32);
        varint(zigzag(value.into()), self.out);
    }

    pub(crate) fn nested(&mut self, id: u8, fields: impl FnOnce(&mut StructWriter<'_>)) {
        self.field(id, STRUCT);
        let mut nested = StructWriter::new(self.out);
        fields(&mut nested);
        nested.end();
    }

    pub(crate) fn end(self) {
        self.out.push(0);
    }
}
