//! The hashes of values, for bloom filters.

use arrow_buffer::NullBuffer;
use half::f16;
use parquet_encode::bloom::{hash_bytes, hash_fixed};
use parquet_encode::byte_arrays::{ByteArrays, Views};
use parquet_encode::fixed::Fixed;

use super::source::RunValues;
use crate::pages::Filter;

/// Puts the valid values of a run into a filter.
///
/// `halves` says that values of fixed size are half floats.
pub(super) fn insert(
    filter: &mut Filter,
    (values, halves): (&RunValues<'_>, bool),
    nulls: Option<&NullBuffer>,
    rows: usize,
) {
    let valid = |row: &usize| nulls.is_none_or(|nulls| nulls.is_valid(*row));
    if let RunValues::Keys { keys, values, .. } = values {
        let named = keys.distinct_rows(nulls, rows).into_iter();
        return rows_of(filter, (values, halves), named.map(|row| row as usize));
    }
    rows_of(filter, (values, halves), (0..rows).filter(valid));
}

fn rows_of(filter: &mut Filter, (values, halves): (&RunValues<'_>, bool), rows: impl Iterator<Item = usize>) {
    match values {
        RunValues::I32(values) => fixed(filter, values, rows),
        RunValues::I64(values) => fixed(filter, values, rows),
        // Readers that look for a number may look for another form of it: both zeros are equal, and so are all NaN.
        RunValues::F32(values) => rows.for_each(|row| match values[row] {
            0.0 => [0.0_f32, -0.0]
                .into_iter()
                .for_each(|zero| filter.insert(hash_fixed(zero))),
            value if value.is_nan() => [f32::NAN, value]
                .into_iter()
                .for_each(|nan| filter.insert(hash_fixed(nan))),
            value => filter.insert(hash_fixed(value)),
        }),
        RunValues::F64(values) => rows.for_each(|row| match values[row] {
            0.0 => [0.0_f64, -0.0]
                .into_iter()
                .for_each(|zero| filter.insert(hash_fixed(zero))),
            value if value.is_nan() => [f64::NAN, value]
                .into_iter()
                .for_each(|nan| filter.insert(hash_fixed(nan))),
            value => filter.insert(hash_fixed(value)),
        }),
        RunValues::Small(values) => bytes(filter, values, rows),
        RunValues::Large(values) => bytes(filter, values, rows),
        RunValues::Views { views, buffers } => bytes(filter, &Views { views, buffers }, rows),
        RunValues::Fixed(values) if halves => rows.for_each(|row| half(filter, values.value(row))),
        RunValues::Fixed(values) => bytes(filter, values, rows),
        // Booleans get no filter, and keys no keys.
        RunValues::Bools { .. } | RunValues::Keys { .. } => {}
    }
}

fn fixed<T: Fixed>(filter: &mut Filter, values: &[T], rows: impl Iterator<Item = usize>) {
    rows.for_each(|row| filter.insert(hash_fixed(values[row])));
}

fn half(filter: &mut Filter, bytes: &[u8]) {
    let value = f16::from_le_bytes(bytes.try_into().unwrap_or_default());
    let forms = match value {
        zero if zero == f16::ZERO => [f16::ZERO, f16::NEG_ZERO],
        nan if nan.is_nan() => [f16::NAN, nan],
        value => [value; 2],
    };
    for form in forms {
        filter.insert(hash_bytes(&form.to_le_bytes()));
    }
}

fn bytes<V: ByteArrays>(filter: &mut Filter, values: &V, rows: impl Iterator<Item = usize>) {
    rows.for_each(|row| filter.insert(hash_bytes(values.value(row))));
}
