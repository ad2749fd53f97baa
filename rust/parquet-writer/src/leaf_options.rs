//! The options of each leaf column, from rules that are for all columns or name some.

use parquet::basic::{Compression, Encoding, Type, ZstdLevel};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};

use crate::choose::Choice;
use crate::error::{Result, WriteError};
use crate::names::{ByColumn, by_leaf};
use crate::options::{Compatibility, CompressionRule, NamedEncoding, WriterOptions};
use crate::pages::FilterPlan;
use crate::schema::FileSchema;

/// The codec of each leaf column.
pub(crate) fn codecs(
    parquet: &SchemaDescriptor,
    rule: &CompressionRule<Compression>,
) -> Result<Vec<Compression>> {
    by_leaf(
        parquet,
        "compression",
        rule,
        Compression::ZSTD(ZstdLevel::try_new(1)?),
    )
}

/// The bloom filter of each leaf column; booleans have none.
///
/// # Errors
/// [`WriteError::Option`] when a boolean column is named.
pub(crate) fn filters(
    parquet: &SchemaDescriptor,
    options: &WriterOptions,
) -> Result<Vec<Option<FilterPlan>>> {
    let columns = parquet.num_columns();
    let is_boolean = |leaf: usize| parquet.column(leaf).physical_type() == Type::BOOLEAN;
    let fpps = by_leaf(parquet, "bloom_filter", &options.bloom_filter, None)?;
    let by_name = matches!(options.bloom_filter, ByColumn::Columns(_));
    if let Some(leaf) = (0..columns).find(|&leaf| by_name && fpps[leaf].is_some() && is_boolean(leaf)) {
        return Err(WriteError::option(
            "bloom_filter",
            format!(
                "bloom_filter names the column {:?}, whose values are booleans: the format has no filter for them; leave it out",
                parquet.column(leaf).path().string()
            ),
        ));
    }
    let wanted = fpps.iter().flatten().count().max(1);
    let plan = |(leaf, fpp): (usize, Option<f64>)| {
        let plan = FilterPlan {
            fpp: fpp?,
            values: options
                .row_group_rows
                .saturating_mul(values_a_row(&parquet.column(leaf))),
            most_bytes: options
                .budget
                .bloom_filters
                .map_or(usize::MAX, |bytes| bytes / wanted),
        };
        (!is_boolean(leaf)).then_some(plan)
    };
    Ok(fpps.into_iter().enumerate().map(plan).collect())
}

/// The number of values that a row is assumed to have before any row came.
fn values_a_row(column: &ColumnDescriptor) -> usize {
    if column.max_rep_level() > 0 { 8 } else { 1 }
}

/// The caller's choice for each leaf column; `None` where the first page decides.
pub(crate) fn named_choices(schema: &FileSchema, options: &WriterOptions) -> Result<Vec<Option<Choice>>> {
    let parquet = schema.named();
    let names = by_leaf(parquet, "encoding", &options.encoding, NamedEncoding::Auto)?;
    let columns = parquet.columns().iter().zip(&schema.dictionaries).zip(names);
    columns
        .map(|((column, dictionary), name)| {
            named_choice(column, dictionary.is_some(), name, options.compatibility)
        })
        .collect()
}

fn named_choice(
    column: &ColumnDescriptor,
    dictionary: bool,
    name: NamedEncoding,
    compatibility: Compatibility,
) -> Result<Option<Choice>> {
    let choice = match name {
        NamedEncoding::Auto => return Ok(None),
        NamedEncoding::Dictionary => Choice::new(true, Encoding::PLAIN),
        NamedEncoding::Direct(encoding) => Choice::new(false, encoding),
    };
    let why = if !suits(column.physical_type(), choice) {
        format!("{} has no such encoding", column.physical_type())
    } else if choice.encoding == Encoding::PLAIN {
        return Ok(Some(choice));
    } else if compatibility == Compatibility::V1 {
        "compatibility=\"v1\" allows \"plain\" and \"dictionary\" only".into()
    } else if dictionary {
        "pyarrow gets a dictionary back from \"plain\" and \"dictionary\" only: name one of these, or cast the \
         column to the type of its values"
            .into()
    } else {
        return Ok(Some(choice));
    };
    let known = NamedEncoding::ALL.iter().find(|(_, other)| *other == name);
    let asked = known.map_or("", |(name, _)| name);
    Err(WriteError::option(
        "encoding",
        format!(
            "encoding={asked:?} does not suit column {:?}: {why}",
            column.path().string()
        ),
    ))
}

/// Checks that an encoding is defined for the type, after `Encodings.md`.
fn suits(kind: Type, choice: Choice) -> bool {
    if choice.dictionary {
        return kind != Type::BOOLEAN;
    }
    match choice.encoding {
        Encoding::RLE => kind == Type::BOOLEAN,
        Encoding::DELTA_BINARY_PACKED => matches!(kind, Type::INT32 | Type::INT64),
        Encoding::DELTA_LENGTH_BYTE_ARRAY => kind == Type::BYTE_ARRAY,
        Encoding::DELTA_BYTE_ARRAY => matches!(kind, Type::BYTE_ARRAY | Type::FIXED_LEN_BYTE_ARRAY),
        Encoding::BYTE_STREAM_SPLIT => {
            matches!(
                kind,
                Type::INT32 | Type::INT64 | Type::FLOAT | Type::DOUBLE | Type::FIXED_LEN_BYTE_ARRAY
            )
        }
        _ => true,
    }
}
