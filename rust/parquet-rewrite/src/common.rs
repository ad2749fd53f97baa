//! What the footers of all inputs say, for the footer of a file with row groups of all of them.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use parquet::basic::Type;
use parquet::file::metadata::FileMetaData;
use parquet::schema::types::SchemaDescPtr;
use parquet_inspect::schema_difference;
use parquet_writer::thrift::{ThriftStruct, ThriftValue};
use parquet_writer::{CREATED_BY, STORED_SCHEMA_KEY, WriteError, common_schema, other_durations};

use crate::creators;
use crate::error::{Result, RewriteError, UNEXPECTED};
use crate::ids::{file, pair};
use crate::source::Footer;

/// The fields of `FileMetaData` but for row groups, and what they follow from.
pub(crate) struct Common {
    /// The first input, which the others are compared with.
    first: PathBuf,
    parquet: SchemaDescPtr,
    files: usize,
    version: i64,
    schema: ThriftValue,
    /// Key-value pairs that all files have.
    pairs: Vec<ThriftStruct>,
    /// The different Arrow schemas that files store; none where a file stores none.
    stored: Option<BTreeSet<String>>,
    /// The Arrow schema that the first file stores.
    first_stored: Option<String>,
    /// The one that is so of all files, once it is needed.
    arrow: OnceCell<Option<String>>,
    /// The different writers.
    creators: BTreeSet<Option<Vec<u8>>>,
    /// The orders of the columns' bounds; none where a file does not say them.
    orders: Option<Vec<ThriftValue>>,
}

impl Common {
    /// What the first input says.
    ///
    /// # Errors
    /// Its footer is damaged.
    pub fn new(path: &Path, footer: &mut Footer) -> Result<Self> {
        let facts = Facts::of(path, footer)?;
        creators::check(path, facts.creator.as_deref())?;
        let schema = footer.tree.get(file::SCHEMA).cloned();
        Ok(Self {
            first: path.to_owned(),
            parquet: footer.metadata.file_metadata().schema_descr_ptr(),
            files: 1,
            version: facts.version,
            schema: schema.ok_or_else(|| RewriteError::damaged(path, "it has no schema"))?,
            pairs: facts.pairs,
            first_stored: facts.stored.clone(),
            stored: facts.stored.map(|stored| BTreeSet::from([stored])),
            arrow: OnceCell::new(),
            creators: BTreeSet::from([facts.creator]),
            orders: facts.orders,
        })
    }

    /// The physical types of the columns.
    pub fn physical_types(&self) -> impl Iterator<Item = Type> {
        self.parquet.columns().iter().map(|column| column.physical_type())
    }

    /// Keeps what one more input says, too.
    ///
    /// # Errors
    /// Its schema is another one, or its footer is damaged.
    pub fn add(&mut self, path: &Path, footer: &mut Footer) -> Result<()> {
        self.check_schema(path, footer.metadata.file_metadata())?;
        let facts = Facts::of(path, footer)?;
        self.check_durations(path, facts.stored.as_deref())?;
        self.files += 1;
        self.version = self.version.max(facts.version);
        self.pairs.retain(|pair| facts.pairs.contains(pair));
        self.stored = match (self.stored.take(), facts.stored) {
            (Some(mut all), Some(stored)) => {
                all.insert(stored);
                Some(all)
            }
            _ => None,
        };
        creators::check(path, facts.creator.as_deref())?;
        if !self.creators.contains(&facts.creator) {
            creators::check_mixed(path, facts.creator.as_deref())?;
            for other in &self.creators {
                creators::check_mixed(&self.first, other.as_deref())?;
            }
            self.creators.insert(facts.creator);
        }
        self.orders = match (self.orders.take(), facts.orders) {
            (Some(ours), Some(theirs)) => Some(ours.into_iter().zip(theirs).map(common_order).collect()),
            _ => None,
        };
        Ok(())
    }

    /// Returns true where bounds that readers judge by the name of their writer lose that name.
    pub fn forgets_old_bounds(&self) -> bool {
        self.creators.len() > 1
    }

    /// The footer of a file with these row groups, each given by its bytes.
    pub fn footer(&self, rows: i64, row_groups: Vec<Vec<u8>>) -> ThriftStruct {
        let creator = match self.creators.first() {
            Some(only) if self.creators.len() == 1 => only.clone(),
            _ => Some(CREATED_BY.into()),
        };
        let mut pairs = self.pairs.clone();
        let stored = self.arrow.get_or_init(|| self.stored_schema());
        pairs.extend(stored.as_ref().map(|text| {
            let of = |text: &str| ThriftValue::Binary(text.into());
            ThriftStruct::default()
                .with(pair::KEY, of(STORED_SCHEMA_KEY))
                .with(pair::VALUE, of(text))
        }));
        let mut footer = ThriftStruct::default()
            .with(
                file::VERSION,
                ThriftValue::i32(i32::try_from(self.version).unwrap_or(2)),
            )
            .with(file::SCHEMA, self.schema.clone())
            .with(file::NUM_ROWS, ThriftValue::i64(rows))
            .with(file::ROW_GROUPS, ThriftValue::encoded_structs(row_groups));
        if !pairs.is_empty() {
            let pairs = pairs.iter().map(ThriftStruct::bytes).collect();
            footer.set(file::KEY_VALUE_METADATA, ThriftValue::encoded_structs(pairs));
        }
        if let Some(creator) = creator {
            footer.set(file::CREATED_BY, ThriftValue::Binary(creator));
        }
        if let Some(orders) = &self.orders {
            let orders = orders.iter().filter_map(|order| match order {
                ThriftValue::Struct(order) => Some(order.bytes()),
                _ => None,
            });
            footer.set(
                file::COLUMN_ORDERS,
                ThriftValue::encoded_structs(orders.collect()),
            );
        }
        footer
    }

    /// The Arrow schema that holds for all files.
    fn stored_schema(&self) -> Option<String> {
        let stored = self.stored.as_ref()?;
        match stored.first() {
            Some(only) if self.files == 1 => Some(only.clone()),
            _ => common_schema(
                &stored.iter().map(String::as_str).collect::<Vec<_>>(),
                &self.parquet,
            ),
        }
    }

    /// Refuses a file whose durations have another unit than in the first file, or none.
    fn check_durations(&self, path: &Path, stored: Option<&str>) -> Result<()> {
        let before = self.first_stored.as_deref();
        if before == stored {
            return Ok(());
        }
        let Some((column, expected, found)) = other_durations(before, stored) else {
            return Ok(());
        };
        Err(WriteError::column(
            column.as_str(),
            format!(
                "{}: column {column:?} is {found}, and {expected} in {}: Parquet holds both as numbers without a unit, \
                 which are copied as they are; to join them, write the rows again",
                path.display(),
                self.first.display()
            ),
        )
        .into())
    }

    fn check_schema(&self, path: &Path, found: &FileMetaData) -> Result<()> {
        let Some(difference) = schema_difference(self.parquet.root_schema(), found.schema()) else {
            return Ok(());
        };
        Err(WriteError::column(
            difference.column.as_str(),
            format!(
                "{}: column {:?} is {}, and {} in {}: row groups are copied between files of one schema; to change a \
                 column, write the rows again",
                path.display(),
                difference.column,
                difference.found,
                difference.expected,
                self.first.display()
            ),
        )
        .into())
    }
}

/// What one footer says.
struct Facts {
    version: i64,
    pairs: Vec<ThriftStruct>,
    stored: Option<String>,
    creator: Option<Vec<u8>>,
    orders: Option<Vec<ThriftValue>>,
}

impl Facts {
    fn of(path: &Path, footer: &mut Footer) -> Result<Self> {
        let columns = footer.metadata.file_metadata().schema_descr().num_columns();
        let tree = &mut footer.tree;
        let damaged = |_: WriteError| RewriteError::damaged(path, UNEXPECTED);
        let mut pairs = Vec::new();
        let mut stored = None;
        if tree.get(file::KEY_VALUE_METADATA).is_some() {
            for value in tree.list(file::KEY_VALUE_METADATA).map_err(damaged)? {
                let found = value.as_struct().map_err(damaged)?;
                match (found.get(pair::KEY), found.get(pair::VALUE)) {
                    (Some(ThriftValue::Binary(key)), Some(ThriftValue::Binary(value)))
                        if key == STORED_SCHEMA_KEY.as_bytes() =>
                    {
                        stored = Some(String::from_utf8_lossy(value).into_owned());
                    }
                    _ => pairs.push(found.clone()),
                }
            }
        }
        let orders = match tree.get(file::COLUMN_ORDERS) {
            Some(ThriftValue::List(_, orders)) if orders.len() == columns => Some(orders.clone()),
            _ => None,
        };
        let creator = match tree.get(file::CREATED_BY) {
            Some(ThriftValue::Binary(name)) => Some(name.clone()),
            _ => None,
        };
        Ok(Self {
            version: tree.integer(file::VERSION).unwrap_or(1),
            pairs,
            stored,
            creator,
            orders,
        })
    }
}

/// The order that bounds of both orders are in. Those of floats by IEEE 754 leave out NaN, as `TYPE_ORDER` does; those
/// of INT96 are ignored by it.
fn common_order((ours, theirs): (ThriftValue, ThriftValue)) -> ThriftValue {
    if ours == theirs {
        return ours;
    }
    let type_order = ThriftStruct::default().with(1, ThriftValue::Struct(ThriftStruct::default()));
    ThriftValue::Struct(type_order)
}
