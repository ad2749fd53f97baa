//! Schemas that change midway: the type that holds the values of two, and batches in such types.
//!
//! A type becomes wider by the rules of Delta's type widening, as far as every value stays what it is: integers become
//! wider integers, integers of up to 32 bits floating-point numbers that hold them, floating-point numbers of more
//! bits, and integers and decimals become decimals with enough digits before and behind the point. Dates do not become
//! timestamps. Arrow's null type becomes any type. Columns and fields of structs are found by name.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait, StructArray,
    new_null_array,
};
use arrow_cast::cast;
use arrow_schema::extension::{EXTENSION_TYPE_METADATA_KEY, EXTENSION_TYPE_NAME_KEY};
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use parquet_writer::{Batch, WriteError, plain_array, same_type};

/// Two types of one column that no type holds, or a column that has to have values and lacks them.
struct Clash {
    /// The path of the column, from the inside out.
    path: Vec<String>,
    why: String,
}

impl Clash {
    fn new(why: String) -> Self {
        Self {
            path: Vec::new(),
            why,
        }
    }

    fn within(mut self, name: &str) -> Self {
        self.path.push(name.into());
        self
    }

    fn into_error(self) -> WriteError {
        let path: Vec<_> = self.path.into_iter().rev().collect();
        let path = path.join(".");
        let message = format!("column {path:?} {}; the writer can go on", self.why);
        WriteError::column(path, message)
    }
}

/// The schema that holds the rows of both: the columns that are `known`, and then the others of `given`, which older
/// rows lack and so accept nulls. `None` where it is the known one.
///
/// # Errors
/// [`WriteError::Schema`] names the first column without such a type.
pub(crate) fn wider_schema(known: &Schema, given: &Schema) -> Result<Option<Schema>, WriteError> {
    let mut names = HashSet::new();
    let columns = given.fields().iter();
    if let Some(twice) = columns
        .map(|field| field.name())
        .find(|name| !names.insert(*name))
    {
        let message = format!(
            "the batch has two columns {twice:?}, and columns are found by name where the schema changes: rename one; \
             the writer can go on"
        );
        return Err(WriteError::column(twice.as_str(), message));
    }
    let fields = wider_fields(known.fields(), given.fields()).map_err(Clash::into_error)?;
    let is_same = fields == *known.fields();
    Ok((!is_same).then(|| Schema::new_with_metadata(fields, known.metadata().clone())))
}

/// The type that holds every value of both types as it is. Where they differ in nothing but their layout, it is the
/// known one.
#[must_use]
pub fn wider_type(known: &DataType, given: &DataType) -> Option<DataType> {
    wider(known, given).ok()
}

fn wider(known: &DataType, given: &DataType) -> Result<DataType, Clash> {
    use DataType::{
        Dictionary, FixedSizeList, LargeList, LargeListView, List, ListView, Map, Null, RunEndEncoded, Struct,
    };
    if same_type(known, given) {
        return Ok(known.clone());
    }
    let element = |known: &FieldRef, given: &FieldRef| {
        let wider = wider(known.data_type(), given.data_type())?;
        Ok(widened(known, given, wider))
    };
    Ok(match (known, given) {
        (Null, other) | (other, Null) => other.clone(),
        (Dictionary(_, values), given) => wider(values, given)?,
        (known, Dictionary(_, values)) => wider(known, values)?,
        (RunEndEncoded(_, values), given) => wider(values.data_type(), given)?,
        (known, RunEndEncoded(_, values)) => wider(known, values.data_type())?,
        (Struct(known), Struct(given)) => Struct(wider_fields(known, given)?),
        (List(k), List(g) | LargeList(g) | ListView(g) | LargeListView(g)) => List(element(k, g)?),
        (LargeList(k), List(g) | LargeList(g) | ListView(g) | LargeListView(g)) => LargeList(element(k, g)?),
        (ListView(k), List(g) | LargeList(g) | ListView(g) | LargeListView(g)) => ListView(element(k, g)?),
        (LargeListView(k), List(g) | LargeList(g) | ListView(g) | LargeListView(g)) => {
            LargeListView(element(k, g)?)
        }
        (FixedSizeList(k, size), FixedSizeList(g, other)) if size == other => {
            FixedSizeList(element(k, g)?, *size)
        }
        (Map(k, sorted), Map(g, _)) => Map(wider_entries(k, g)?, *sorted),
        (known, given) => wider_number(known, given).ok_or_else(|| {
            Clash::new(format!(
                "is {given}, and was {known} so far: no type holds the values of both as they are. Cast it to {known}, \
                 or write these rows to another dataset"
            ))
        })?,
    })
}

/// The entries of a map. Keys and values are found by their places, and keys keep their type: of a wider one, two keys
/// could be equal.
fn wider_entries(known: &FieldRef, given: &FieldRef) -> Result<FieldRef, Clash> {
    let clash = || {
        Clash::new(format!(
            "has the keys of {given}, and had those of {known} so far: the keys of a map keep their type"
        ))
    };
    let (DataType::Struct(fields), DataType::Struct(others)) = (known.data_type(), given.data_type()) else {
        return Err(clash());
    };
    let ([key, value], [other_key, other_value]) = (fields.as_ref(), others.as_ref()) else {
        return Err(clash());
    };
    if !same_type(key.data_type(), other_key.data_type()) {
        return Err(clash());
    }
    let wider = wider(value.data_type(), other_value.data_type())?;
    let value = widened(value, other_value, wider);
    let entries = DataType::Struct(Fields::from(vec![Arc::clone(key), value]));
    Ok(Arc::new(known.as_ref().clone().with_data_type(entries)))
}

fn wider_fields(known: &Fields, given: &Fields) -> Result<Fields, Clash> {
    let mut fields = Vec::with_capacity(known.len());
    for field in known {
        let name = field.name();
        let Some((_, other)) = given.find(name) else {
            if field.is_nullable() {
                fields.push(Arc::clone(field));
                continue;
            }
            let why = "is missing, and takes no nulls: add it, or begin with a schema where it is nullable";
            return Err(Clash::new(why.into()).within(name));
        };
        let wider = wider(field.data_type(), other.data_type()).map_err(|clash| clash.within(name))?;
        fields.push(widened(field, other, wider));
    }
    let new = given.iter().filter(|field| known.find(field.name()).is_none());
    fields.extend(new.map(|field| Arc::new(field.as_ref().clone().with_nullable(true))));
    Ok(fields.into())
}

/// The known field with the wider type. Extension metadata describes the storage type: it is dropped when that changes,
/// and taken from the given field if the known type was null.
fn widened(known: &FieldRef, given: &FieldRef, wider: DataType) -> FieldRef {
    if wider == *known.data_type() {
        return Arc::clone(known);
    }
    let mut field = known.as_ref().clone();
    let extension = [EXTENSION_TYPE_NAME_KEY, EXTENSION_TYPE_METADATA_KEY];
    field
        .metadata_mut()
        .retain(|key, _| !extension.contains(&key.as_str()));
    if wider == *given.data_type() && *known.data_type() == DataType::Null {
        for key in extension {
            if let Some(value) = given.metadata().get(key) {
                field.metadata_mut().insert(key.to_owned(), value.to_owned());
            }
        }
    }
    Arc::new(field.with_data_type(wider))
}

/// A type of numbers, by what it holds exactly.
enum NumericType {
    Integer {
        bits: u8,
        signed: bool,
    },
    /// The bits of the whole type.
    Float(u8),
    Decimal {
        whole: i16,
        scale: i16,
    },
}

impl NumericType {
    fn of(data_type: &DataType) -> Option<Self> {
        use DataType as D;
        let integer = |bits, signed| Self::Integer { bits, signed };
        Some(match data_type {
            D::Int8 => integer(8, true),
            D::Int16 => integer(16, true),
            D::Int32 => integer(32, true),
            D::Int64 => integer(64, true),
            D::UInt8 => integer(8, false),
            D::UInt16 => integer(16, false),
            D::UInt32 => integer(32, false),
            D::UInt64 => integer(64, false),
            D::Float16 => Self::Float(16),
            D::Float32 => Self::Float(32),
            D::Float64 => Self::Float(64),
            D::Decimal32(precision, scale)
            | D::Decimal64(precision, scale)
            | D::Decimal128(precision, scale)
            | D::Decimal256(precision, scale) => Self::Decimal {
                whole: i16::from(*precision) - i16::from(*scale),
                scale: i16::from(*scale),
            },
            _ => return None,
        })
    }
}

fn wider_number(known: &DataType, given: &DataType) -> Option<DataType> {
    use NumericType::{Decimal, Float, Integer};
    match (NumericType::of(known)?, NumericType::of(given)?) {
        (
            Integer { bits, signed },
            Integer {
                bits: others,
                signed: other_signed,
            },
        ) => {
            let bits = match (signed, other_signed) {
                (true, true) | (false, false) => bits.max(others),
                (true, false) => bits.max(others.saturating_mul(2)),
                (false, true) => others.max(bits.saturating_mul(2)),
            };
            integer(bits, signed || other_signed)
        }
        (Float(bits), Float(others)) => float(bits.max(others)),
        // The significand has more bits than an integer of half the width.
        (Integer { bits, .. }, Float(others)) | (Float(others), Integer { bits, .. }) if bits <= 32 => {
            float(others.max(bits.saturating_mul(2)))
        }
        (
            Decimal { whole, scale },
            Decimal {
                whole: others,
                scale: other_scale,
            },
        ) => decimal(whole.max(others), scale.max(other_scale)),
        (Integer { bits, signed }, Decimal { whole, scale })
        | (Decimal { whole, scale }, Integer { bits, signed }) => {
            let digits = match (bits, signed) {
                (8, _) => 3,
                (16, _) => 5,
                (32, _) => 10,
                (_, true) => 19,
                (_, false) => 20,
            };
            decimal(whole.max(digits), scale)
        }
        _ => None,
    }
}

fn integer(bits: u8, signed: bool) -> Option<DataType> {
    Some(match (bits, signed) {
        (8, true) => DataType::Int8,
        (16, true) => DataType::Int16,
        (32, true) => DataType::Int32,
        (64, true) => DataType::Int64,
        (8, false) => DataType::UInt8,
        (16, false) => DataType::UInt16,
        (32, false) => DataType::UInt32,
        (64, false) => DataType::UInt64,
        _ => return None,
    })
}

fn float(bits: u8) -> Option<DataType> {
    Some(match bits {
        16 => DataType::Float16,
        32 => DataType::Float32,
        64 => DataType::Float64,
        _ => return None,
    })
}

fn decimal(whole: i16, scale: i16) -> Option<DataType> {
    let precision = u8::try_from(whole + scale).ok()?;
    let scale = i8::try_from(scale).ok()?;
    match precision {
        0..=38 => Some(DataType::Decimal128(precision, scale)),
        39..=76 => Some(DataType::Decimal256(precision, scale)),
        _ => None,
    }
}

/// The rows of a batch with the columns of `schema`, which are found by name. Columns that the batch lacks are null.
///
/// # Errors
/// [`WriteError::Data`] when a value is not one of its own type.
pub(crate) fn fitted(batch: &Batch, schema: &Schema) -> Result<Batch, WriteError> {
    let mut fields = Vec::with_capacity(schema.fields().len());
    let mut columns = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let column = match batch.schema().fields().find(field.name()) {
            Some((place, _)) => fitted_array(&batch.columns()[place], field.data_type())?,
            None => new_null_array(field.data_type(), batch.rows()),
        };
        fields.push(field.as_ref().clone().with_data_type(column.data_type().clone()));
        columns.push(column);
    }
    Batch::new(Arc::new(Schema::new(fields)), columns, batch.rows())
}

/// The array in some layout of the type `to`, which is wider than its own.
fn fitted_array(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, WriteError> {
    if same_type(array.data_type(), to) {
        return Ok(Arc::clone(array));
    }
    let array = &plain_array(array)?;
    match (array.data_type(), to) {
        (DataType::Null, _) => Ok(new_null_array(to, array.len())),
        (_, DataType::Dictionary(_, values)) => fitted_array(array, values),
        (_, DataType::RunEndEncoded(_, values)) => fitted_array(array, values.data_type()),
        (DataType::Struct(_), DataType::Struct(fields)) => fitted_struct(array.as_struct(), fields),
        (DataType::List(_), _) => fitted_list(array.as_list::<i32>(), to),
        (DataType::LargeList(_), _) => fitted_list(array.as_list::<i64>(), to),
        (DataType::FixedSizeList(field, size), DataType::FixedSizeList(element, _)) => {
            let list = array.as_fixed_size_list();
            let values = fitted_array(list.values(), element.data_type())?;
            let field = typed(field, &values);
            let nulls = list.nulls().cloned();
            Ok(Arc::new(FixedSizeListArray::try_new_with_length(
                field,
                *size,
                values,
                nulls,
                list.len(),
            )?))
        }
        (DataType::Map(_, sorted), DataType::Map(entries, _)) => fitted_map(array.as_map(), entries, *sorted),
        _ => {
            let wider = cast(array, to)?;
            if wider.null_count() > array.null_count() {
                return Err(WriteError::Data(format!(
                    "a value of {} has more digits than its type: it does not fit {to}",
                    array.data_type()
                )));
            }
            Ok(wider)
        }
    }
}

/// The field with the type of the array, which may have nulls under null parents.
fn typed(field: &Field, array: &ArrayRef) -> FieldRef {
    let field = field.clone().with_data_type(array.data_type().clone());
    Arc::new(field.with_nullable(true))
}

fn fitted_struct(array: &StructArray, to: &Fields) -> Result<ArrayRef, WriteError> {
    let mut fields = Vec::with_capacity(to.len());
    let mut columns = Vec::with_capacity(to.len());
    for field in to {
        let column = match array.column_by_name(field.name()) {
            Some(column) => fitted_array(column, field.data_type())?,
            None => new_null_array(field.data_type(), array.len()),
        };
        fields.push(typed(field, &column));
        columns.push(column);
    }
    let nulls = array.nulls().cloned();
    Ok(Arc::new(StructArray::try_new_with_length(
        fields.into(),
        columns,
        nulls,
        array.len(),
    )?))
}

fn fitted_list<T: OffsetSizeTrait>(
    list: &GenericListArray<T>,
    to: &DataType,
) -> Result<ArrayRef, WriteError> {
    use DataType::{LargeList, LargeListView, List, ListView};
    let (List(element) | LargeList(element) | ListView(element) | LargeListView(element)) = to else {
        return Err(WriteError::Data(format!("a list does not fit {to}")));
    };
    let values = fitted_array(list.values(), element.data_type())?;
    Ok(Arc::new(GenericListArray::<T>::try_new(
        typed(element, &values),
        list.offsets().clone(),
        values,
        list.nulls().cloned(),
    )?))
}

fn fitted_map(map: &MapArray, to: &FieldRef, sorted: bool) -> Result<ArrayRef, WriteError> {
    let DataType::Struct(fields) = to.data_type() else {
        return Err(WriteError::Data(format!("a map does not fit {}", to.data_type())));
    };
    let [key, value] = fields.as_ref() else {
        return Err(WriteError::Data(format!("a map does not fit {}", to.data_type())));
    };
    let keys = fitted_array(map.keys(), key.data_type())?;
    let values = fitted_array(map.values(), value.data_type())?;
    let key = Arc::new(key.as_ref().clone().with_data_type(keys.data_type().clone()));
    let fields = Fields::from(vec![key, typed(value, &values)]);
    let entries = StructArray::try_new(fields.clone(), vec![keys, values], None)?;
    let field = to.as_ref().clone().with_data_type(DataType::Struct(fields));
    Ok(Arc::new(MapArray::try_new(
        Arc::new(field),
        map.offsets().clone(),
        entries,
        map.nulls().cloned(),
        sorted,
    )?))
}

/// The schema without columns and struct fields that have no type yet. One with no others stays as it is.
pub(crate) fn without_untyped(schema: &SchemaRef) -> SchemaRef {
    match typed_fields(schema.fields()) {
        Some(fields) if fields != *schema.fields() => {
            Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
        }
        _ => Arc::clone(schema),
    }
}

/// The fields that have a type. A struct without any such field keeps all; `None` where no field is left.
fn typed_fields(fields: &Fields) -> Option<Fields> {
    let typed = fields.iter().filter(|field| !field.data_type().is_null());
    let fields: Fields = typed
        .map(|field| with_type(field, &|fields| typed_fields(fields)))
        .collect();
    (!fields.is_empty()).then_some(fields)
}

/// The field whose structs, also those in lists, have the fields that `change` returns; where it returns none, those
/// that it has.
fn with_type(field: &FieldRef, change: &dyn Fn(&Fields) -> Option<Fields>) -> FieldRef {
    let inner = |field: &FieldRef| with_type(field, change);
    let data_type = match field.data_type() {
        DataType::Struct(fields) => match change(fields) {
            Some(fields) => DataType::Struct(fields),
            None => return Arc::clone(field),
        },
        DataType::List(element) => DataType::List(inner(element)),
        DataType::LargeList(element) => DataType::LargeList(inner(element)),
        _ => return Arc::clone(field),
    };
    Arc::new(field.as_ref().clone().with_data_type(data_type))
}

/// The schema in which columns and struct fields without a type are text.
pub(crate) fn with_text(schema: &SchemaRef) -> SchemaRef {
    let fields = text_fields(schema.fields());
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn text_fields(fields: &Fields) -> Fields {
    let text = |field: &FieldRef| match field.data_type() {
        DataType::Null => Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8)),
        _ => with_type(field, &|fields| Some(text_fields(fields))),
    };
    fields.iter().map(text).collect()
}

/// Returns true if one schema becomes the other by nothing but types for columns and fields that had none.
pub(crate) fn gains_only_types(before: &Fields, after: &Fields) -> bool {
    let mut pairs = before.iter().zip(after);
    let is_gain = |before: &FieldRef, after: &FieldRef| match (before.data_type(), after.data_type()) {
        (DataType::Null, _) => true,
        (DataType::Struct(before), DataType::Struct(after)) => gains_only_types(before, after),
        (DataType::List(before), DataType::List(after))
        | (DataType::LargeList(before), DataType::LargeList(after)) => gains_only_types(
            &Fields::from(vec![Arc::clone(before)]),
            &Fields::from(vec![Arc::clone(after)]),
        ),
        (before, after) => before == after,
    };
    let mut new = after.iter().skip(before.len());
    pairs.all(|(before, after)| is_gain(before, after)) && new.all(|field| field.data_type().is_null())
}

#[cfg(test)]
mod tests {
    use DataType as D;

    use super::*;

    #[test]
    fn two_types_have_one_that_holds_the_values_of_both() {
        for (known, given, wider) in [
            (D::Int32, D::Int64, Some(D::Int64)),
            (D::Int64, D::Int8, Some(D::Int64)),
            (D::UInt8, D::Int8, Some(D::Int16)),
            (D::Int64, D::UInt64, None),
            (D::Float32, D::Float64, Some(D::Float64)),
            (D::Float32, D::Int16, Some(D::Float32)),
            (D::Int32, D::Float32, Some(D::Float64)),
            (D::Int64, D::Float64, None),
            (
                D::Decimal128(5, 2),
                D::Decimal128(6, 0),
                Some(D::Decimal128(8, 2)),
            ),
            (
                D::Decimal128(38, 2),
                D::Decimal128(38, 4),
                Some(D::Decimal256(40, 4)),
            ),
            (D::Decimal128(4, 2), D::Int32, Some(D::Decimal128(12, 2))),
            (D::Decimal128(4, 2), D::Float64, None),
            (D::Null, D::Date32, Some(D::Date32)),
            (D::Utf8, D::Null, Some(D::Utf8)),
            (D::Utf8, D::LargeUtf8, Some(D::Utf8)),
            (
                D::Date32,
                D::Timestamp(arrow_schema::TimeUnit::Microsecond, None),
                None,
            ),
            (D::Utf8, D::Int64, None),
        ] {
            assert_eq!(wider_type(&known, &given), wider, "{known} and {given}");
        }
    }
}
