//! The nodes of a schema as the footer lists them, in Thrift's compact protocol.
//!
//! The decoder reads the fields that it knows as the type that `parquet.thrift` gives them, whatever type the file
//! declares, and skips other fields by the type declared. A field of another type than it should have is refused here,
//! so that both read the same bytes as the same nodes.

use parquet::errors::ParquetError;

/// Levels of groups that columns may be nested in. The middle group of a list or a map, which repeats, counts as one
/// with the group that it is in.
pub const MOST_LEVELS: usize = 100;

/// Bytes of the paths of all leaf columns at most: each has its own copy of the names of the groups that it is in.
const MOST_PATH_BYTES: usize = 64 << 20;

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
pub(crate) const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
pub(crate) const STRUCT: u8 = 12;
const UUID: u8 = 13;

/// Structs and lists within each other at most, of what is skipped.
pub(crate) const MOST_SKIPPED_LEVELS: usize = 32;

/// `FieldRepetitionType.REPEATED`.
const REPEATED: i64 = 2;

/// A struct of `parquet.thrift`, by which its fields have types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    SchemaElement,
    LogicalType,
    Decimal,
    Time,
    TimeUnit,
    Integer,
    Variant,
    Geometry,
    Geography,
    /// A struct without fields that are known.
    Other,
}

impl Kind {
    /// The type of a field that is known, and the kind of struct where it is one.
    fn field(self, id: i16) -> Option<(u8, Self)> {
        let kind = match (self, id) {
            (Self::SchemaElement, 4) | (Self::Geometry | Self::Geography, 1) => BINARY,
            (Self::SchemaElement, 1..=9) | (Self::Decimal, 1 | 2) | (Self::Geography, 2) => I32,
            (Self::Time, 1) | (Self::Integer, 2) => TRUE,
            (Self::Integer | Self::Variant, 1) => BYTE,
            (Self::SchemaElement, 10) => return Some((STRUCT, Self::LogicalType)),
            (Self::LogicalType, 5) => return Some((STRUCT, Self::Decimal)),
            (Self::LogicalType, 7 | 8) => return Some((STRUCT, Self::Time)),
            (Self::LogicalType, 10) => return Some((STRUCT, Self::Integer)),
            (Self::LogicalType, 16) => return Some((STRUCT, Self::Variant)),
            (Self::LogicalType, 17) => return Some((STRUCT, Self::Geometry)),
            (Self::LogicalType, 18) => return Some((STRUCT, Self::Geography)),
            (Self::Time, 2) => return Some((STRUCT, Self::TimeUnit)),
            (Self::LogicalType | Self::TimeUnit, _) => return Some((STRUCT, Self::Other)),
            _ => return None,
        };
        Some((kind, Self::Other))
    }
}

/// A node of the schema.
#[derive(Debug, Clone, Copy, Default)]
struct SchemaNode {
    name_bytes: usize,
    children: usize,
    repeats: bool,
}

/// Refuses a schema that cannot be decoded safely: `footer` begins with the `FileMetaData`.
///
/// # Errors
/// [`ParquetError::General`] says what is wrong with it.
pub(crate) fn check_schema(footer: &[u8]) -> Result<(), ParquetError> {
    let mut reader = CompactReader { bytes: footer };
    // Thrift's writers write fields in the order of their numbers: the version is the first, the schema the second.
    let (version, kind) = reader.field(0)?.ok_or_else(malformed)?;
    if (version, kind) != (1, I32) {
        return Err(malformed());
    }
    reader.varint()?;
    let (schema, kind) = reader.field(version)?.ok_or_else(malformed)?;
    if (schema, kind) != (2, LIST) {
        return Err(malformed());
    }
    let (count, kind) = reader.list()?;
    if kind != STRUCT {
        return Err(malformed());
    }
    let mut tree = Tree::new(count);
    for _ in 0..count {
        let node = reader.node()?;
        tree.add(node)?;
    }
    tree.check()
}

/// Refuses an offset index whose list of pages is longer than its bytes.
///
/// # Errors
/// [`ParquetError::General`] when it is, or has no such list.
pub(crate) fn check_pages(index: &[u8]) -> Result<(), ParquetError> {
    let mut reader = CompactReader { bytes: index };
    if reader.field(0)? != Some((1, LIST)) {
        return Err(malformed());
    }
    reader.list().map(|_| ())
}

/// A group that waits for children.
#[derive(Debug, Clone, Copy)]
struct Group {
    left: usize,
    path_bytes: usize,
    level: usize,
    /// Returns true if a group that repeats in it counts as one with it.
    may_join: bool,
}

/// The tree that the nodes make, as far as it has to be known.
struct Tree {
    nodes: usize,
    open: Vec<Group>,
    deepest: usize,
    path_bytes: usize,
}

impl Tree {
    fn new(nodes: usize) -> Self {
        Self {
            nodes,
            open: Vec::new(),
            deepest: 0,
            path_bytes: 0,
        }
    }

    fn add(&mut self, node: SchemaNode) -> Result<(), ParquetError> {
        // The decoder makes room for as many children as a node says that it has.
        if node.children > self.nodes {
            return Err(ParquetError::General(format!(
                "a group of its schema is said to have {} children, and the schema has {} nodes",
                node.children, self.nodes
            )));
        }
        while self.open.pop_if(|group| group.left == 0).is_some() {}
        let group = match self.open.last_mut() {
            // The root, whose name is in no path.
            None => Group {
                left: node.children,
                path_bytes: 0,
                level: 0,
                may_join: false,
            },
            Some(parent) => {
                parent.left -= 1;
                let joins = node.repeats && parent.may_join;
                Group {
                    left: node.children,
                    path_bytes: parent.path_bytes.saturating_add(node.name_bytes),
                    level: parent.level + usize::from(!joins),
                    may_join: !node.repeats,
                }
            }
        };
        if node.children > 0 {
            self.deepest = self.deepest.max(group.level);
            self.open.push(group);
        } else {
            self.path_bytes = self.path_bytes.saturating_add(group.path_bytes);
        }
        Ok(())
    }

    fn check(&self) -> Result<(), ParquetError> {
        if self.deepest > MOST_LEVELS {
            return Err(ParquetError::General(format!(
                "its columns are nested {} levels deep, and no more than {MOST_LEVELS} are read",
                self.deepest
            )));
        }
        if self.path_bytes > MOST_PATH_BYTES {
            return Err(ParquetError::General(format!(
                "the paths of its columns take {} bytes, and no more than {MOST_PATH_BYTES} are read",
                self.path_bytes
            )));
        }
        Ok(())
    }
}

fn malformed() -> ParquetError {
    ParquetError::General("its footer is not what Thrift makes of the metadata of a file".to_owned())
}

/// Values in the compact protocol, one after the other.
pub(crate) struct CompactReader<'a> {
    pub bytes: &'a [u8],
}

impl CompactReader<'_> {
    fn take(&mut self, count: usize) -> Result<(), ParquetError> {
        self.bytes = self.bytes.get(count..).ok_or_else(malformed)?;
        Ok(())
    }

    fn byte(&mut self) -> Result<u8, ParquetError> {
        let (first, rest) = self.bytes.split_first().ok_or_else(malformed)?;
        self.bytes = rest;
        Ok(*first)
    }

    fn varint(&mut self) -> Result<u64, ParquetError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(malformed())
    }

    pub fn zigzag(&mut self) -> Result<i64, ParquetError> {
        let number = self.varint()?;
        Ok((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    /// The number and the type of the next field; none at the end of the struct.
    pub fn field(&mut self, last: i16) -> Result<Option<(i16, u8)>, ParquetError> {
        let head = self.byte()?;
        let (delta, kind) = (i16::from(head >> 4), head & 15);
        if kind == 0 {
            return Ok(None);
        }
        let id = match delta {
            0 => i16::try_from(self.zigzag()?).ok(),
            delta => last.checked_add(delta),
        };
        Ok(Some((id.ok_or_else(malformed)?, kind)))
    }

    /// The length of a list and the type of its elements.
    fn list(&mut self) -> Result<(usize, u8), ParquetError> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => usize::try_from(self.varint()?).map_err(|_| malformed())?,
            short => usize::from(short),
        };
        // An element takes a byte at least.
        if count > self.bytes.len() {
            return Err(malformed());
        }
        Ok((count, head & 15))
    }

    fn node(&mut self) -> Result<SchemaNode, ParquetError> {
        let mut node = SchemaNode::default();
        let mut last = 0;
        while let Some((id, kind)) = self.field(last)? {
            last = id;
            match (id, kind) {
                (3, I32) => node.repeats = self.zigzag()? == REPEATED,
                (4, BINARY) => {
                    node.name_bytes = usize::try_from(self.varint()?).map_err(|_| malformed())?;
                    self.take(node.name_bytes)?;
                }
                (5, I32) => node.children = usize::try_from(self.zigzag()?).map_err(|_| malformed())?,
                _ => self.skip_field(Kind::SchemaElement, id, kind, MOST_SKIPPED_LEVELS)?,
            }
        }
        Ok(node)
    }

    /// Skips a field of a struct, unless it has another type than it should have.
    fn skip_field(&mut self, of: Kind, id: i16, kind: u8, levels: usize) -> Result<(), ParquetError> {
        let plain = if kind == FALSE { TRUE } else { kind };
        match of.field(id) {
            None => self.skip(kind, Kind::Other, levels),
            Some((expected, inner)) if expected == plain => self.skip(kind, inner, levels),
            Some(_) => Err(malformed()),
        }
    }

    pub fn skip(&mut self, kind: u8, of: Kind, levels: usize) -> Result<(), ParquetError> {
        let levels = levels.checked_sub(1).ok_or_else(malformed)?;
        match kind {
            // In a struct, the type is the value.
            TRUE | FALSE => Ok(()),
            BYTE => self.take(1),
            I16 | I32 | I64 => self.varint().map(|_| ()),
            DOUBLE => self.take(8),
            UUID => self.take(16),
            BINARY => {
                let count = usize::try_from(self.varint()?).map_err(|_| malformed())?;
                self.take(count)
            }
            STRUCT => {
                let mut last = 0;
                while let Some((id, kind)) = self.field(last)? {
                    last = id;
                    self.skip_field(of, id, kind, levels)?;
                }
                Ok(())
            }
            LIST | SET => {
                let (count, kind) = self.list()?;
                // The decoder skips booleans in lists, and maps, in ways of its own. No schema has them.
                if matches!(kind, TRUE | FALSE) {
                    return Err(malformed());
                }
                (0..count).try_for_each(|_| self.skip(kind, Kind::Other, levels))
            }
            _ => Err(malformed()),
        }
    }
}
