//! The Arrow schema that a file stores, `ARROW:schema`: what it claims of the values, and its text in the footer.
//! `common_schema` has the one of several files.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use parquet::arrow::ARROW_SCHEMA_META_KEY;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use crate::error::{Result, WriteError};
use crate::schema::levels;
use crate::{enum_categories, metadata_text, pandas};

/// The length of the prefix of an IPC message: a mark of four bytes and the message's length.
const PREFIX: usize = 8;
/// Levels of a column that any stored schema may have.
const LEVELS_OF_ANY: usize = 48;

/// Claims of the stored schema about the values of a leaf.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DictionaryClaim {
    /// The values of all dictionaries in their order, if it was declared to be ordered and holds them.
    pub order: Option<DictionaryOrder>,
    /// The most values that it has in any row group: readers must be able to count them. None for a leaf that may not
    /// have a dictionary.
    pub values: usize,
    /// True if some value is not among the Enum categories of its field.
    pub has_others: bool,
}

/// The values of an ordered dictionary in their order, as far as that is needed to compare them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DictionaryOrder {
    /// Their number.
    entries: usize,
    /// A hash of their bytes, which is compared in one process only.
    hash: u64,
}

impl DictionaryOrder {
    /// The order of so many values, whose page has these bytes.
    pub fn of(entries: usize, page: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        page.hash(&mut hasher);
        Self {
            entries,
            hash: hasher.finish(),
        }
    }
}

/// The Arrow schema that a file stores.
#[derive(Debug, Clone)]
pub(crate) struct StoredSchema {
    /// The schema as all files of one writer have it.
    schema: SchemaRef,
    /// The claims about each leaf, which may differ from file to file.
    leaves: Vec<DictionaryClaim>,
}

impl StoredSchema {
    /// The schema of a file whose leaves these claims are about.
    pub fn new(schema: SchemaRef, leaves: Vec<DictionaryClaim>) -> Self {
        Self { schema, leaves }
    }

    /// The schema that is so of this file and of another one of the same writer: ordered only where the values of both
    /// have one order, and with keys that can count those of both.
    pub fn and(mut self, other: &Self) -> Self {
        for (ours, theirs) in self.leaves.iter_mut().zip(&other.leaves) {
            ours.order = ours.order.filter(|order| theirs.order == Some(*order));
            ours.values = ours.values.max(theirs.values);
            ours.has_others |= theirs.has_others;
        }
        self
    }

    /// The schema that readers get back.
    pub fn to_arrow(&self) -> Schema {
        let mut kept = self.leaves.iter().copied();
        let fields = self.schema.fields().iter();
        let fields: Vec<_> = fields.map(|field| with_kept(field, &mut kept)).collect();
        Schema::new_with_metadata(fields, self.schema.metadata().clone())
    }
}

/// Checks that readers can open a file which stores this Arrow schema: those in Rust refuse a message of flatbuffers
/// whose tables are nested more than 64 deep.
///
/// # Errors
/// [`WriteError::Option`] when a column is nested more deeply.
pub(crate) fn check_depth(schema: &Schema) -> Result<()> {
    let deep = schema.fields().iter().find(|field| {
        levels(field) > LEVELS_OF_ANY && encoded(&Schema::new(vec![Arc::clone(field)])).is_err()
    });
    let Some(column) = deep else {
        return Ok(());
    };
    Err(WriteError::option(
        "store_schema",
        format!(
            "column {:?} is nested {} levels deep, more than readers take of a stored Arrow schema: flatten it, or set \
             store_schema=False",
            column.name(),
            levels(column)
        ),
    ))
}

/// The pair of the footer that stores an Arrow schema, with bytes where its metadata carries them.
///
/// # Errors
/// [`WriteError::Encode`] when the encoded schema is not what the crates write.
pub(crate) fn encoded(schema: &Schema) -> Result<KeyValue> {
    let unexpected = || WriteError::Encode("the Arrow schema cannot be stored".into());
    let mut properties = WriterProperties::new();
    parquet::arrow::add_encoded_arrow_schema_to_metadata(schema, &mut properties);
    let pairs = properties.key_value_metadata().cloned().unwrap_or_default();
    let encoded = pairs
        .into_iter()
        .find_map(|pair| pair.value)
        .ok_or_else(unexpected)?;
    let mut message = BASE64_STANDARD.decode(&encoded).map_err(|_| unexpected())?;
    let body = message.get_mut(PREFIX..).ok_or_else(unexpected)?;
    let has_bytes = metadata_text::restore(body).ok_or_else(unexpected)?;
    let text = if has_bytes {
        BASE64_STANDARD.encode(message)
    } else {
        encoded
    };
    Ok(KeyValue::new(ARROW_SCHEMA_META_KEY.to_owned(), text))
}

/// The schema without the metadata of fields that hold a leaf for which `hides` is true. Libraries keep values there:
/// polars the categories of an Enum, Spark those of an indexed text.
///
/// The metadata of the whole schema may describe any column. Where a leaf is hidden, only that of pandas is kept, which
/// has names and types.
pub(crate) fn without_hidden(schema: &Schema, hides: &dyn Fn(usize) -> bool) -> Schema {
    let (mut leaf, mut hidden) = (0, false);
    let fields = schema.fields().iter().map(|field| {
        let (kept, is_hidden) = without_metadata(field, &mut leaf, hides);
        hidden |= is_hidden;
        kept
    });
    let fields: Vec<_> = fields.collect();
    let mut metadata = schema.metadata().clone();
    if hidden {
        metadata.retain(|key, _| key == pandas::KEY);
    }
    Schema::new_with_metadata(fields, metadata)
}

/// The field without metadata that tells of hidden leaves, and true if it has any.
fn without_metadata(field: &FieldRef, leaf: &mut usize, hides: &dyn Fn(usize) -> bool) -> (FieldRef, bool) {
    let mut hidden = false;
    let mut inner = |field: &FieldRef| {
        let (kept, is_hidden) = without_metadata(field, leaf, hides);
        hidden |= is_hidden;
        kept
    };
    let Some(data_type) = with_fields(field.data_type(), &mut inner) else {
        hidden = hides(*leaf);
        *leaf += 1;
        let kept = Field::clone(field);
        return (Arc::new(if hidden { bare(kept) } else { kept }), hidden);
    };
    let kept = Field::clone(field).with_data_type(data_type);
    (Arc::new(if hidden { bare(kept) } else { kept }), hidden)
}

fn bare(field: Field) -> Field {
    field.with_metadata(HashMap::new())
}

/// A nested type with other fields; none for a leaf.
pub(crate) fn with_fields(
    data_type: &DataType,
    inner: &mut dyn FnMut(&FieldRef) -> FieldRef,
) -> Option<DataType> {
    Some(match data_type {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
        DataType::List(element) => DataType::List(inner(element)),
        DataType::LargeList(element) => DataType::LargeList(inner(element)),
        DataType::ListView(element) => DataType::ListView(inner(element)),
        DataType::LargeListView(element) => DataType::LargeListView(inner(element)),
        DataType::FixedSizeList(element, size) => DataType::FixedSizeList(inner(element), *size),
        DataType::Map(entries, sorted) => DataType::Map(inner(entries), *sorted),
        _ => return None,
    })
}

/// The field with adjusted dictionaries: ordered only if their order was kept, and with keys wide enough for their
/// values.
fn with_kept(field: &FieldRef, kept: &mut dyn Iterator<Item = DictionaryClaim>) -> FieldRef {
    if let Some(nested) = with_fields(field.data_type(), &mut |field| with_kept(field, kept)) {
        return Arc::new(Field::clone(field).with_data_type(nested));
    }
    let kept = kept.next().unwrap_or_default();
    let leaf = match field.data_type() {
        DataType::Dictionary(keys, values) => {
            DataType::Dictionary(Box::new(keys_for(keys, kept.values)), values.clone())
        }
        other => other.clone(),
    };
    let mut field = Field::clone(field).with_data_type(leaf);
    if kept.has_others {
        field
            .metadata_mut()
            .retain(|key, _| !enum_categories::KEYS.contains(&key.as_str()));
    }
    Arc::new(field.with_dict_is_ordered(kept.order.is_some()))
}

/// The key type of a dictionary, wider if it has more values than the keys can count. Batches may bring different
/// dictionaries, which readers merge.
fn keys_for(keys: &DataType, values: usize) -> DataType {
    use DataType::{Int8, Int16, Int32, UInt8, UInt16, UInt32};
    match keys {
        Int8 if values <= 1 << 7 => Int8,
        Int8 | Int16 if values <= 1 << 15 => Int16,
        Int8 | Int16 => Int32,
        UInt8 if values <= 1 << 8 => UInt8,
        UInt8 | UInt16 if values <= 1 << 16 => UInt16,
        UInt8 | UInt16 => UInt32,
        other => other.clone(),
    }
}
