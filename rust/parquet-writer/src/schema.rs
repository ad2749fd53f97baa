//! The file's form of an Arrow schema, and the check of batches against it.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use parquet::arrow::ArrowSchemaConverter;
use parquet::basic::Type as Physical;
use parquet::schema::types::{ColumnDescPtr, SchemaDescriptor, Type};

use crate::error::{Result, WriteError};
use crate::field_ids;
use crate::int96;
use crate::lists::element_field;
use crate::normalize;
use crate::options::{Compatibility, Timestamps};
use crate::stored_names::StoredNames;

/// One schema in the forms that the writer needs.
#[derive(Debug, Clone)]
pub(crate) struct FileSchema {
    /// The schema as it was given. Batches are compared with it.
    pub declared: SchemaRef,
    /// The same with times in the units that are stored.
    pub timed: SchemaRef,
    /// The schema that readers get back, stored as `ARROW:schema`, under the names that files have.
    pub stored: SchemaRef,
    /// The schema in the form that encoders take: no dictionaries, runs or views.
    pub encoded: SchemaRef,
    /// The schema of rebuilt arrays: like `encoded`, but nested fields may hold nulls under null parents.
    pub carried: SchemaRef,
    /// For each leaf, none if readers do not get it back as a dictionary; else true if that is ordered.
    pub dictionaries: Vec<Option<bool>>,
    /// The columns that are written as INT96.
    pub int96: Vec<bool>,
    /// As Parquet has it.
    pub parquet: SchemaDescriptor,
    /// The same under the names of the rows, where files have others.
    named: Option<SchemaDescriptor>,
}

impl FileSchema {
    /// # Errors [`WriteError::Schema`] names the column that Parquet cannot hold and says why; [`WriteError::Option`]
    /// if a field id is for no column, or for more than one.
    pub fn new(
        declared: SchemaRef,
        timestamps: Timestamps,
        compatibility: Compatibility,
        field_ids: &[(Vec<String>, i32)],
        of_files: &StoredNames,
    ) -> Result<Self> {
        if declared.fields().is_empty() {
            return Err(WriteError::schema(
                "the schema has no columns: a Parquet file needs at least one",
            ));
        }
        for field in declared.fields() {
            check_levels(field)?;
            check_writable(field.name(), field.data_type())?;
        }
        // Readers of the first version know no logical types but those of that time.
        let annotates = compatibility == Compatibility::Modern;
        let declared = if annotates {
            variants::conform(&declared)?
        } else {
            declared
        };
        let stored = map_schema(&declared, &|data_type| stored_leaf(data_type, timestamps));
        if annotates {
            variants::conform(&stored).map_err(|_| no_such_variants())?;
        }
        let timed = field_ids::given(stored, field_ids)?;
        let stored = of_files.given(&timed);
        let mut dictionaries = Vec::new();
        for field in stored.fields() {
            find_dictionaries(field, &mut dictionaries);
        }
        let encoded = map_schema(&stored, &encoded_leaf);
        let int96: Vec<_> = encoded
            .fields()
            .iter()
            .map(|field| timestamps == Timestamps::Int96 && is_time(field.data_type()))
            .collect();
        let encoded = with_int96(&encoded, &int96);
        let carried = map_schema(&encoded, &carried_leaf);
        let parquet = with_int96_leaves(in_parquet(&encoded)?, &int96)?;
        let named = if of_files.is_empty() {
            None
        } else {
            Some(in_parquet(&map_schema(&timed, &encoded_leaf))?)
        };
        let parquet = if annotates {
            annotations::annotated(parquet, &encoded)?
        } else {
            parquet
        };
        Ok(Self {
            declared,
            timed,
            stored,
            encoded,
            carried,
            dictionaries,
            int96,
            parquet,
            named,
        })
    }

    /// The Parquet schema whose columns options name: that of files, but under the names of the rows.
    pub fn named(&self) -> &SchemaDescriptor {
        self.named.as_ref().unwrap_or(&self.parquet)
    }

    /// The encoders' types with times in the units that they came in, but for seconds.
    pub fn unrounded(&self) -> SchemaRef {
        let stored = map_schema(&self.declared, &|data_type| {
            stored_leaf(data_type, Timestamps::Keep)
        });
        map_schema(&map_schema(&stored, &encoded_leaf), &carried_leaf)
    }

    /// Bytes of a row in columns whose values have one size, four for each length of text or bytes, and one for each
    /// column in lists, which holds that much of a row without elements. What lists hold is not counted.
    pub fn row_bytes(&self) -> u64 {
        let columns = self.parquet.columns().iter();
        let bytes = |column: &ColumnDescPtr| match column.physical_type() {
            _ if column.max_rep_level() > 0 => 1,
            Physical::BOOLEAN => 1,
            Physical::INT32 | Physical::FLOAT | Physical::BYTE_ARRAY => 4,
            Physical::INT64 | Physical::DOUBLE => 8,
            Physical::INT96 => int96::WIDTH as u64,
            Physical::FIXED_LEN_BYTE_ARRAY => u64::try_from(column.type_length()).unwrap_or(0),
        };
        columns.map(bytes).sum()
    }

    /// Checks that a batch's schema has the same names, order and logical types.
    ///
    /// # Errors
    /// [`WriteError::Schema`] names the first difference.
    pub fn check(&self, other: &Schema) -> Result<()> {
        if self.declared.fields() == other.fields() {
            return Ok(());
        }
        let (ours, theirs) = (self.declared.fields(), other.fields());
        for (index, (our, their)) in ours.iter().zip(theirs).enumerate() {
            if our.name() != their.name() {
                return Err(misfit(
                    their.name(),
                    &format!(
                        "column {index} is {:?}, the writer has {:?} there",
                        their.name(),
                        our.name()
                    ),
                ));
            }
            if !same_type(our.data_type(), their.data_type()) {
                return Err(misfit(
                    our.name(),
                    &format!(
                        "column {:?} is {}, the writer has {}",
                        our.name(),
                        their.data_type(),
                        our.data_type()
                    ),
                ));
            }
        }
        if ours.len() != theirs.len() {
            let extra = if ours.len() < theirs.len() { theirs } else { ours };
            let (name, what) = (
                extra[ours.len().min(theirs.len())].name(),
                ours.len() < theirs.len(),
            );
            return Err(misfit(
                name,
                &format!(
                    "it has {} columns, the writer has {}: {name:?} is {}",
                    theirs.len(),
                    ours.len(),
                    if what {
                        "not in the writer's schema"
                    } else {
                        "missing"
                    }
                ),
            ));
        }
        Ok(())
    }

    /// Checks that no field without nulls has one.
    ///
    /// # Errors
    /// [`WriteError::Schema`] names the column and the row.
    pub fn check_nulls(&self, columns: &[ArrayRef]) -> Result<()> {
        self.declared
            .fields()
            .iter()
            .zip(columns)
            .try_for_each(|(field, column)| crate::schema::nulls::check(field, column))
    }
}

fn in_parquet(encoded: &Schema) -> Result<SchemaDescriptor> {
    Ok(ArrowSchemaConverter::new()
        .with_coerce_types(true)
        .schema_root("schema")
        .convert(encoded)?)
}

/// The refusal of a unit of times that variants do not have.
fn no_such_variants() -> WriteError {
    WriteError::option(
        "timestamps",
        "timestamps=\"ms\" is not accepted with variants that are shredded as timestamps: these are in microseconds or \
         nanoseconds. Choose \"keep\" or \"us\"",
    )
}

fn is_time(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(_, _))
}

/// The schema with the fields that become INT96 in the type that holds such times.
fn with_int96(schema: &SchemaRef, int96: &[bool]) -> SchemaRef {
    if !int96.contains(&true) {
        return Arc::clone(schema);
    }
    let fields = schema
        .fields()
        .iter()
        .zip(int96)
        .map(|(field, int96)| match int96 {
            true => Arc::new(Field::clone(field).with_data_type(int96::ARROW)),
            false => Arc::clone(field),
        });
    let fields: Fields = fields.collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// Parquet's schema with INT96 leaves, which the crate would make binary.
fn with_int96_leaves(parquet: SchemaDescriptor, int96: &[bool]) -> Result<SchemaDescriptor> {
    if !int96.contains(&true) {
        return Ok(parquet);
    }
    let root = parquet.root_schema();
    let fields = root.get_fields().iter().zip(int96).map(|(field, int96)| {
        if !int96 {
            return Ok(Arc::clone(field));
        }
        let info = field.get_basic_info();
        let leaf = Type::primitive_type_builder(field.name(), Physical::INT96)
            .with_repetition(info.repetition())
            .with_id(info.has_id().then(|| info.id()));
        Ok(Arc::new(leaf.build()?))
    });
    let fields = fields.collect::<Result<Vec<_>>>()?;
    let root = Type::group_type_builder(root.name()).with_fields(fields);
    Ok(SchemaDescriptor::new(Arc::new(root.build()?)))
}

fn misfit(column: &str, difference: &str) -> WriteError {
    WriteError::column(
        column,
        format!(
            "the batch does not fit the writer's schema: {difference}. Cast or reorder the batch; the writer can go on"
        ),
    )
}

/// Levels of lists, maps and structs that a column may be nested in at most. Readers follow them by recursion, and
/// encoders keep a definition level, of which each needs two, in a byte.
pub const MOST_LEVELS: usize = 100;

/// Groups of a Parquet schema that a column may lie in at most: pyarrow refuses a schema of more.
const MOST_GROUPS: usize = 98;

fn check_levels(column: &Field) -> Result<()> {
    let groups = groups(column);
    if groups <= MOST_GROUPS {
        return Ok(());
    }
    let name = column.name();
    Err(WriteError::column(
        name,
        format!(
            "column {name:?} is nested in {groups} groups of the Parquet schema (two for each list or map), and readers \
             accept {MOST_GROUPS} at most: flatten it"
        ),
    ))
}

/// The groups that the innermost value of a column lies in.
fn groups(column: &Field) -> usize {
    let (mut most, mut rest) = (0, vec![(column.data_type(), 0)]);
    while let Some((data_type, outer)) = rest.pop() {
        let own = match data_type {
            DataType::Struct(_) => 1,
            other => 2 * usize::from(element_field(other).is_some()),
        };
        most = most.max(outer + own);
        let inner = fields_within(data_type).into_iter();
        rest.extend(inner.map(|field| (field.data_type(), outer + own)));
    }
    most
}

/// The levels of lists, maps and structs that a column is nested in.
pub(crate) fn levels(column: &Field) -> usize {
    let mut levels = 0;
    let mut level = fields_within(column.data_type());
    while !level.is_empty() {
        levels += 1;
        level = level
            .into_iter()
            .flat_map(|field| fields_within(field.data_type()))
            .collect();
    }
    levels
}

/// The error of a column that is nested in so many levels.
#[must_use]
pub fn too_deep(column: &str, levels: usize) -> WriteError {
    WriteError::column(
        column,
        format!(
            "column {column:?} is nested {levels} levels deep, and no more than {MOST_LEVELS} can be written: flatten it"
        ),
    )
}

/// The fields of a nested type, those of the entries for a map.
fn fields_within(data_type: &DataType) -> Vec<&FieldRef> {
    match data_type {
        DataType::Struct(fields) => fields.iter().collect(),
        DataType::Map(entries, _) => fields_within(entries.data_type()),
        DataType::RunEndEncoded(_, field) => vec![field],
        other => element_field(other).into_iter().collect(),
    }
}

/// Returns true if two types hold the same values. String, binary and list layouts, dictionaries and runs make no
/// difference.
#[must_use]
pub fn same_type(left: &DataType, right: &DataType) -> bool {
    use DataType::{
        Binary, BinaryView, FixedSizeList, LargeBinary, LargeList, LargeListView, LargeUtf8, List, ListView,
        Map, Struct, Timestamp, Utf8, Utf8View,
    };
    match (plain(left), plain(right)) {
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View)
        | (Binary | LargeBinary | BinaryView, Binary | LargeBinary | BinaryView) => true,
        (
            List(l) | LargeList(l) | ListView(l) | LargeListView(l),
            List(r) | LargeList(r) | ListView(r) | LargeListView(r),
        ) => same_type(l.data_type(), r.data_type()),
        (FixedSizeList(l, left_size), FixedSizeList(r, right_size)) => {
            left_size == right_size && same_type(l.data_type(), r.data_type())
        }
        (Struct(l), Struct(r)) => same_fields(l, r, true),
        (Map(l, _), Map(r, _)) => match (l.data_type(), r.data_type()) {
            // The names of a map's entries, keys and values are its layout's, not the data's.
            (Struct(l), Struct(r)) => same_fields(l, r, false),
            _ => false,
        },
        (Timestamp(l, left_zone), Timestamp(r, right_zone)) => {
            l == r && canonical_zone(left_zone.as_deref()) == canonical_zone(right_zone.as_deref())
        }
        (l, r) => l == r,
    }
}

fn same_fields(left: &Fields, right: &Fields, named: bool) -> bool {
    left.len() == right.len()
        && left
            .iter()
            .zip(right)
            .all(|(l, r)| (!named || l.name() == r.name()) && same_type(l.data_type(), r.data_type()))
}

fn canonical_zone(zone: Option<&str>) -> Option<&str> {
    match zone {
        Some("") | None => None,
        Some("UTC" | "Etc/UTC" | "Z" | "+00:00" | "+0000" | "Zulu") => Some("UTC"),
        other => other,
    }
}

/// The type of the values of a dictionary or of runs.
pub(crate) fn plain(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => plain(values),
        DataType::RunEndEncoded(_, values) => plain(values.data_type()),
        other => other,
    }
}

/// Collects for each leaf, in file order, none if it is no dictionary; else true if that is ordered.
fn find_dictionaries(field: &Field, found: &mut Vec<Option<bool>>) {
    match field.data_type() {
        DataType::Struct(fields) => fields.iter().for_each(|field| find_dictionaries(field, found)),
        data_type => match element_field(data_type) {
            Some(element) => find_dictionaries(element, found),
            None => found.push(field.dict_is_ordered()),
        },
    }
}

/// Leaf columns of a type as it is stored.
pub(crate) fn leaves(stored: &DataType) -> usize {
    match stored {
        DataType::Struct(fields) => fields.iter().map(|field| leaves(field.data_type())).sum(),
        other => element_field(other).map_or(1, |element| leaves(element.data_type())),
    }
}

fn check_writable(path: &str, data_type: &DataType) -> Result<()> {
    let refuse = |why: &str| {
        Err(WriteError::column(
            path,
            format!("column {path:?} has type {data_type}, {why}"),
        ))
    };
    match data_type {
        DataType::Union(_, _) => {
            refuse("and Parquet has no unions: split it into one nullable column per kind")
        }
        DataType::Interval(_) => {
            refuse("and readers disagree on Parquet's intervals: cast it to a duration or to integers")
        }
        DataType::FixedSizeBinary(size) if *size <= 0 => {
            refuse("and Parquet needs at least one byte: cast it to binary")
        }
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale)
            if *scale < 0 || i16::from(*scale) > i16::from(*precision) =>
        {
            refuse("and Parquet wants a scale from 0 to the precision: cast it")
        }
        DataType::Struct(fields) if fields.is_empty() => {
            refuse("and Parquet has no empty structs: add a field or drop it")
        }
        DataType::Struct(fields) => fields
            .iter()
            .try_for_each(|field| check_writable(&format!("{path}.{}", field.name()), field.data_type())),
        DataType::Dictionary(_, values) => check_writable(path, values),
        DataType::RunEndEncoded(_, field) => check_writable(path, field.data_type()),
        other => element_field(other).map_or(Ok(()), |field| check_writable(path, field.data_type())),
    }
}

/// The stored form of one level of a type: units that Parquet has, no runs, dictionaries of text only, and no views.
///
/// pyarrow cannot filter, sort or join views of text, nor convert them to pandas. polars cannot read list views.
fn stored_leaf(data_type: &DataType, timestamps: Timestamps) -> DataType {
    match data_type {
        DataType::Timestamp(_, zone) if timestamps == Timestamps::Us => {
            DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
        }
        DataType::Timestamp(_, zone) if timestamps == Timestamps::Ms => {
            DataType::Timestamp(TimeUnit::Millisecond, zone.clone())
        }
        DataType::Timestamp(TimeUnit::Second, zone) => {
            DataType::Timestamp(TimeUnit::Millisecond, zone.clone())
        }
        DataType::Time32(TimeUnit::Second) => DataType::Time32(TimeUnit::Millisecond),
        DataType::RunEndEncoded(_, values) => values.data_type().clone(),
        DataType::Utf8View => DataType::LargeUtf8,
        DataType::BinaryView => DataType::LargeBinary,
        DataType::ListView(field) => DataType::List(Arc::clone(field)),
        DataType::LargeListView(field) => DataType::LargeList(Arc::clone(field)),
        // Readers make dictionaries of plain strings and bytes only; of others, some fail when they are asked to.
        DataType::Dictionary(keys, values) => match values.as_ref() {
            DataType::Utf8View => DataType::Dictionary(keys.clone(), Box::new(DataType::Utf8)),
            DataType::BinaryView => DataType::Dictionary(keys.clone(), Box::new(DataType::Binary)),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => {
                data_type.clone()
            }
            values => values.clone(),
        },
        other => other.clone(),
    }
}

/// The encoders' form of one level of a type: one layout where Arrow has several.
fn encoded_leaf(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => encoded_leaf(values),
        DataType::Utf8View => DataType::LargeUtf8,
        DataType::BinaryView => DataType::LargeBinary,
        DataType::ListView(field) | DataType::LargeListView(field) => DataType::LargeList(Arc::clone(field)),
        other => other.clone(),
    }
}

/// One level of a type with nested fields that accept nulls, except the keys of a map.
fn carried_leaf(data_type: &DataType) -> DataType {
    let relaxed = |field: &FieldRef| Arc::new(Field::clone(field).with_nullable(true));
    match data_type {
        DataType::List(field) => DataType::List(relaxed(field)),
        DataType::LargeList(field) => DataType::LargeList(relaxed(field)),
        DataType::FixedSizeList(field, size) => DataType::FixedSizeList(relaxed(field), *size),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(relaxed).collect()),
        other => other.clone(),
    }
}

fn map_schema(schema: &Schema, leaf: &dyn Fn(&DataType) -> DataType) -> SchemaRef {
    let fields: Vec<_> = schema
        .fields()
        .iter()
        .map(|field| map_field(field, leaf))
        .collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn map_field(field: &FieldRef, leaf: &dyn Fn(&DataType) -> DataType) -> FieldRef {
    let nullable = match field.data_type() {
        DataType::RunEndEncoded(_, values) => field.is_nullable() || values.is_nullable(),
        _ => field.is_nullable(),
    };
    let mapped = map_type(field.data_type(), leaf);
    Arc::new(Field::clone(field).with_data_type(mapped).with_nullable(nullable))
}

fn map_type(data_type: &DataType, leaf: &dyn Fn(&DataType) -> DataType) -> DataType {
    let inner = |field: &FieldRef| map_field(field, leaf);
    match leaf(data_type) {
        DataType::List(field) => DataType::List(inner(&field)),
        DataType::LargeList(field) => DataType::LargeList(inner(&field)),
        DataType::ListView(field) => DataType::ListView(inner(&field)),
        DataType::LargeListView(field) => DataType::LargeListView(inner(&field)),
        DataType::FixedSizeList(field, size) => DataType::FixedSizeList(inner(&field), size),
        DataType::Map(field, sorted) => DataType::Map(with_required_keys(inner(&field)), sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
        DataType::Dictionary(keys, values) => DataType::Dictionary(keys, Box::new(map_type(&values, leaf))),
        other if other == *data_type => other,
        other => map_type(&other, leaf),
    }
}

/// A map's entries. Their keys never accept nulls, even where fields in general were made to.
fn with_required_keys(entries: FieldRef) -> FieldRef {
    let DataType::Struct(fields) = entries.data_type() else {
        return entries;
    };
    let required = |(place, field): (usize, &FieldRef)| match place {
        0 => Arc::new(Field::clone(field).with_nullable(false)),
        _ => Arc::clone(field),
    };
    let fields = fields.iter().enumerate().map(required).collect();
    Arc::new(Field::clone(&entries).with_data_type(DataType::Struct(fields)))
}

/// The array in the plain layout of its type: no dictionaries, runs or views. Nested fields may hold nulls under null
/// parents.
///
/// # Errors
/// [`WriteError::Encode`] when it cannot be converted.
pub fn plain_array(array: &ArrayRef) -> Result<ArrayRef> {
    let leaf = |data_type: &DataType| match data_type {
        DataType::RunEndEncoded(_, values) => encoded_leaf(values.data_type()),
        other => encoded_leaf(other),
    };
    let plain = map_type(&map_type(array.data_type(), &leaf), &carried_leaf);
    normalize::exactly(array, &plain)
}

/// Runs written out as one value per row.
pub(crate) fn expand_runs(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::RunEndEncoded(_, values) => Ok(arrow_cast::cast(array, values.data_type())?),
        _ => Ok(Arc::clone(array)),
    }
}

mod annotations;
mod geospatial;
mod nulls;
mod variants;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Types with several layouts, each with the other layouts of the same logical type.
    fn layouts() -> impl Strategy<Value = Vec<DataType>> {
        let dictionary =
            |keys: DataType, values: DataType| DataType::Dictionary(Box::new(keys), Box::new(values));
        let leaf = prop_oneof![
            Just(vec![DataType::Int64, dictionary(DataType::Int8, DataType::Int64)]),
            Just(vec![
                DataType::Utf8,
                DataType::LargeUtf8,
                DataType::Utf8View,
                dictionary(DataType::UInt32, DataType::LargeUtf8),
            ]),
            Just(vec![
                DataType::Binary,
                DataType::LargeBinary,
                DataType::BinaryView
            ]),
            Just(vec![DataType::Boolean]),
        ];
        let wrap =
            |name: &'static str| move |inner: &DataType| Arc::new(Field::new(name, inner.clone(), true));
        leaf.prop_recursive(3, 12, 2, move |inner| {
            prop_oneof![
                inner.clone().prop_map(move |layouts| {
                    let fields: Vec<_> = layouts.iter().map(wrap("item")).collect();
                    let fields = fields.into_iter();
                    fields
                        .flat_map(|f| {
                            [
                                DataType::List(f.clone()),
                                DataType::LargeList(f.clone()),
                                DataType::ListView(f),
                            ]
                        })
                        .collect()
                }),
                inner.prop_map(move |layouts| {
                    layouts
                        .iter()
                        .map(|layout| DataType::Struct(vec![wrap("a")(layout)].into()))
                        .collect()
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn layouts_of_one_type_are_equal_and_others_are_not(left in layouts(), right in layouts()) {
            for one in &left {
                for other in &left {
                    prop_assert!(same_type(one, other), "{one} and {other}");
                }
                for other in &right {
                    prop_assert_eq!(same_type(one, other), left.contains(other) || right.contains(one), "{} and {}", one, other);
                }
            }
        }

        #[test]
        fn encoded_types_have_one_layout(layouts in layouts()) {
            let encoded = |layout: &DataType| {
                let schema = Arc::new(Schema::new(vec![Field::new("x", layout.clone(), true)]));
                FileSchema::new(schema, Timestamps::Keep, Compatibility::Modern, &[], &StoredNames::default()).unwrap()
            };
            let first = encoded(&layouts[0]);
            for layout in &layouts {
                let schema = encoded(layout);
                prop_assert!(same_type(schema.encoded.field(0).data_type(), layout));
                prop_assert_eq!(schema.parquet.root_schema(), first.parquet.root_schema());
            }
        }
    }

    #[test]
    fn rows_have_bytes_in_columns_of_lists_too() {
        let list = DataType::new_list(DataType::Int64, true);
        let fields = [
            Field::new("list", list, true),
            Field::new("number", DataType::Int64, true),
        ];
        let schema = Arc::new(Schema::new(fields.to_vec()));
        assert_eq!(
            FileSchema::new(
                schema,
                Timestamps::Keep,
                Compatibility::Modern,
                &[],
                &StoredNames::default()
            )
            .unwrap()
            .row_bytes(),
            1 + 8
        );
    }
}
