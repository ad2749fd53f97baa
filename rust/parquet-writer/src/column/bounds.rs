//! Bounds of floating-point columns as readers of today know them.
//!
//! The crate orders floats by IEEE 754's total order and says so in the footer; readers that do not know that order
//! ignore the column's bounds altogether. So the older rules are kept (parquet.thrift, `TypeDefinedOrder`): no NaN in
//! bounds, a minimum of zero is -0.0 and a maximum of zero is +0.0, and [`crate::footer`] says `TYPE_ORDER`.

use parquet::basic::{LogicalType, Type};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::FixedLenByteArray;
use parquet::file::metadata::{ColumnChunkMetaData, ColumnIndexBuilder, LevelHistogram};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::statistics::{Statistics, ValueStatistics};

use crate::error::Result;

/// Rewrites the bounds of a floating-point chunk and of its pages; other chunks stay as they are.
pub(super) fn comparable(mut close: ColumnCloseResult) -> Result<ColumnCloseResult> {
    let Some(width) = float_width(&close.metadata) else {
        return Ok(close);
    };
    if let Some(statistics) = close.metadata.statistics().map(chunk_statistics) {
        close.metadata = close.metadata.into_builder().set_statistics(statistics).build()?;
    }
    close.column_index = match close.column_index.take() {
        Some(index) => page_bounds(&index, close.metadata.column_type(), width)?,
        None => None,
    };
    Ok(close)
}

fn float_width(metadata: &ColumnChunkMetaData) -> Option<usize> {
    match metadata.column_type() {
        Type::FLOAT => Some(4),
        Type::DOUBLE => Some(8),
        Type::FIXED_LEN_BYTE_ARRAY
            if metadata.column_descr().logical_type_ref() == Some(&LogicalType::Float16) =>
        {
            Some(2)
        }
        _ => None,
    }
}

/// Little-endian bounds without NaN, zeros of the sign that widens them; `None` when there are none.
fn widened(min: Option<&[u8]>, max: Option<&[u8]>) -> Option<(Vec<u8>, Vec<u8>)> {
    let (min, max) = (min?, max?);
    if is_nan(min) || is_nan(max) {
        return None;
    }
    let zero = |bound: &[u8], sign: u8| {
        let mut bound = bound.to_vec();
        if is_zero(&bound)
            && let Some(last) = bound.last_mut()
        {
            *last = sign;
        }
        bound
    };
    Some((zero(min, 0x80), zero(max, 0x00)))
}

/// Whether all bits of the exponent and some of the fraction are set.
fn is_nan(bound: &[u8]) -> bool {
    let (exponent_bits, bits) = match bound.len() {
        2 => (5, 16),
        4 => (8, 32),
        _ => (11, 64),
    };
    let value = bound
        .iter()
        .rev()
        .fold(0_u64, |value, &byte| value << 8 | u64::from(byte));
    let fraction_bits = bits - 1 - exponent_bits;
    let infinity = ((1_u64 << exponent_bits) - 1) << fraction_bits;
    value & ((1_u64 << (bits - 1)) - 1) > infinity
}

fn is_zero(bound: &[u8]) -> bool {
    bound
        .split_last()
        .is_some_and(|(last, rest)| matches!(last, 0 | 0x80) && rest.iter().all(|&byte| byte == 0))
}

fn chunk_statistics(statistics: &Statistics) -> Statistics {
    let bounds = widened(statistics.min_bytes_opt(), statistics.max_bytes_opt()).unzip();
    let (nulls, nans) = (statistics.null_count_opt(), statistics.nan_count_opt());
    match statistics {
        Statistics::Float(_) => {
            let [min, max] =
                [bounds.0, bounds.1].map(|bound| Some(f32::from_le_bytes(bound?.try_into().ok()?)));
            Statistics::Float(rebuilt(min, max, nulls, nans).with_backwards_compatible_min_max(true))
        }
        Statistics::Double(_) => {
            let [min, max] =
                [bounds.0, bounds.1].map(|bound| Some(f64::from_le_bytes(bound?.try_into().ok()?)));
            Statistics::Double(rebuilt(min, max, nulls, nans).with_backwards_compatible_min_max(true))
        }
        Statistics::FixedLenByteArray(_) => {
            let [min, max] = [bounds.0, bounds.1].map(|bound| bound.map(FixedLenByteArray::from));
            Statistics::FixedLenByteArray(rebuilt(min, max, nulls, nans))
        }
        other => other.clone(),
    }
}

fn rebuilt<T>(min: Option<T>, max: Option<T>, nulls: Option<u64>, nans: Option<u64>) -> ValueStatistics<T>
where
    ValueStatistics<T>: Sized,
{
    ValueStatistics::new(min, max, None, nulls, false).with_nan_count(nans)
}

/// The index with comparable bounds; none when a page has values and no such bounds.
fn page_bounds(index: &ColumnIndexMetaData, kind: Type, width: usize) -> Result<Option<ColumnIndexMetaData>> {
    let mut rebuilt = ColumnIndexBuilder::new(kind);
    for page in 0..usize::try_from(index.num_pages()).unwrap_or(0) {
        let null_page = index.is_null_page(page);
        let (min, max) = raw_bounds(index, page);
        let (min, max) = match widened(min.as_deref(), max.as_deref()) {
            Some(bounds) => bounds,
            None if null_page => (Vec::new(), Vec::new()),
            None => return Ok(None),
        };
        debug_assert!(null_page || min.len() == width);
        rebuilt.append(
            null_page,
            min,
            max,
            index.null_count(page).unwrap_or(0),
            index.nan_count(page),
        );
        let histogram = |levels: Option<&[i64]>| levels.map(|levels| LevelHistogram::from(levels.to_vec()));
        rebuilt.append_histograms(
            &histogram(index.repetition_level_histogram(page)),
            &histogram(index.definition_level_histogram(page)),
        );
    }
    if let Some(order) = index.get_boundary_order() {
        rebuilt.set_boundary_order(order);
    }
    Ok(Some(rebuilt.build()?))
}

fn raw_bounds(index: &ColumnIndexMetaData, page: usize) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    match index {
        ColumnIndexMetaData::FLOAT(index) => {
            let bytes = |value: Option<&f32>| value.map(|value| value.to_le_bytes().to_vec());
            (bytes(index.min_value(page)), bytes(index.max_value(page)))
        }
        ColumnIndexMetaData::DOUBLE(index) => {
            let bytes = |value: Option<&f64>| value.map(|value| value.to_le_bytes().to_vec());
            (bytes(index.min_value(page)), bytes(index.max_value(page)))
        }
        ColumnIndexMetaData::FIXED_LEN_BYTE_ARRAY(index) => {
            let bytes = |value: Option<&[u8]>| value.map(<[u8]>::to_vec);
            (bytes(index.min_value(page)), bytes(index.max_value(page)))
        }
        _ => (None, None),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{is_nan, is_zero, widened};

    proptest! {
        #[test]
        fn bits_are_read_as_floats_are(double: u64, single: u32) {
            let (double, single) = (f64::from_bits(double), f32::from_bits(single));
            prop_assert_eq!(is_nan(&double.to_le_bytes()), double.is_nan());
            prop_assert_eq!(is_nan(&single.to_le_bytes()), single.is_nan());
            prop_assert_eq!(is_zero(&double.to_le_bytes()), double == 0.0);
        }
    }

    #[test]
    fn zeros_widen_bounds_and_nan_ends_them() {
        let widened = |min: f64, max: f64| widened(Some(&min.to_le_bytes()), Some(&max.to_le_bytes()));
        let negative_zero = (-0.0_f64).to_le_bytes().to_vec();
        assert_eq!(
            widened(0.0, -0.0),
            Some((negative_zero, 0.0_f64.to_le_bytes().to_vec()))
        );
        assert_eq!(widened(f64::NAN, f64::NAN), None);
        assert!(widened(f64::NEG_INFINITY, f64::INFINITY).is_some());
    }
}
