//! The order of rows along a Hilbert curve.
//!
//! A row is a point: its coordinate in a column is the share of rows whose value is not greater, so that skewed columns
//! fill their axis too. Points that are close on the curve are close in every coordinate.

use arrow_array::{Array, ArrayRef};
use arrow_ord::rank::rank;
use arrow_schema::ArrowError;

/// The numbers of rows, in the order of the curve. `columns` are the clustering columns, of one length.
pub(super) fn order(columns: &[ArrayRef]) -> Result<Vec<u32>, ArrowError> {
    let rows = columns.first().map_or(0, Array::len);
    let Ok(count) = u32::try_from(rows) else {
        return Err(ArrowError::ComputeError(format!(
            "{rows} rows are too many to be put into an order at once"
        )));
    };
    let ranks = columns.iter().map(|column| rank(column, None));
    let ranks = ranks.collect::<Result<Vec<_>, _>>()?;
    let bits = bits_of(columns.len());
    let mut point = vec![0; columns.len()];
    let mut along: Vec<(u64, u32)> = Vec::with_capacity(rows);
    for row in 0..count {
        for (coordinate, ranks) in point.iter_mut().zip(&ranks) {
            *coordinate = coordinate_of(ranks[row as usize], count, bits);
        }
        along.push((position(&mut point, bits), row));
    }
    along.sort_unstable();
    Ok(along.into_iter().map(|(_, row)| row).collect())
}

/// Bits of a coordinate, such that those of all together fit a position.
fn bits_of(columns: usize) -> u32 {
    let columns = u32::try_from(columns).unwrap_or(u32::MAX).max(1);
    (u64::BITS / columns).clamp(1, u32::BITS)
}

/// The coordinate of a rank, from 1 to `rows`.
#[expect(clippy::cast_possible_truncation, reason = "the quotient is less than 2^bits")]
fn coordinate_of(rank: u32, rows: u32, bits: u32) -> u32 {
    let before = u64::from(rank.saturating_sub(1));
    ((before << bits) / u64::from(rows.max(1))) as u32
}

/// The position of a point along the curve. Its coordinates have `bits` bits each, and are overwritten.
///
/// The transform is that of J. Skilling, "Programming the Hilbert curve", AIP Conference Proceedings 707, 381 (2004).
fn position(point: &mut [u32], bits: u32) -> u64 {
    unturned(point, bits);
    gray_coded(point, bits);
    let mut position = 0;
    for bit in (0..bits).rev() {
        for coordinate in point.iter() {
            position = (position << 1) | u64::from(coordinate >> bit & 1);
        }
    }
    position
}

/// Takes back the turns and reflections of the curve's parts, from the largest ones to the smallest.
fn unturned(point: &mut [u32], bits: u32) {
    for bit in (1..bits).rev() {
        let lower = (1 << bit) - 1;
        for axis in 0..point.len() {
            if point[axis] >> bit & 1 == 1 {
                point[0] ^= lower;
            } else {
                let exchanged = (point[0] ^ point[axis]) & lower;
                point[0] ^= exchanged;
                point[axis] ^= exchanged;
            }
        }
    }
}

fn gray_coded(point: &mut [u32], bits: u32) {
    for axis in 1..point.len() {
        point[axis] ^= point[axis - 1];
    }
    let last = point.last().copied().unwrap_or(0);
    let flipped = (1..bits)
        .filter(|bit| last >> bit & 1 == 1)
        .fold(0, |all, bit| all ^ ((1 << bit) - 1));
    for coordinate in point {
        *coordinate ^= flipped;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int64Array, StringArray};

    use super::*;

    /// All points of a cube in the order of the curve.
    fn walk(axes: usize, bits: u32) -> Vec<Vec<u32>> {
        let side = 1_u32 << bits;
        let count = side.pow(u32::try_from(axes).unwrap());
        let point = |number: u32| -> Vec<u32> {
            let axes = u32::try_from(axes).unwrap();
            (0..axes).map(|axis| number / side.pow(axis) % side).collect()
        };
        let mut points: Vec<(u64, Vec<u32>)> = (0..count)
            .map(|number| (position(&mut point(number), bits), point(number)))
            .collect();
        points.sort();
        let positions: Vec<u64> = points.iter().map(|(position, _)| *position).collect();
        assert_eq!(positions, (0..u64::from(count)).collect::<Vec<_>>());
        points.into_iter().map(|(_, point)| point).collect()
    }

    #[test]
    fn each_step_of_the_curve_is_to_a_neighbour() {
        for (axes, bits) in [(1, 5), (2, 1), (2, 5), (3, 3), (4, 3)] {
            for step in walk(axes, bits).windows(2) {
                let apart = step[0].iter().zip(&step[1]).map(|(a, b)| a.abs_diff(*b));
                assert_eq!(apart.sum::<u32>(), 1, "{axes} axes: {step:?}");
            }
        }
    }

    #[test]
    fn rows_of_one_column_are_sorted_and_equal_ones_stay_in_order() {
        let column = StringArray::from(vec![Some("b"), None, Some("a"), Some("b"), Some("")]);
        assert_eq!(order(&[Arc::new(column)]).unwrap(), [1, 4, 2, 0, 3]);
        assert_eq!(
            order(&[Arc::new(Int64Array::from(vec![0; 0]))]).unwrap(),
            [0_u32; 0]
        );
    }

    #[test]
    fn a_quarter_of_the_rows_along_the_curve_is_narrow_in_both_columns() {
        let a = Int64Array::from_iter_values((0..4096).map(|row| row % 64));
        let b = Int64Array::from_iter_values((0..4096).map(|row| (row / 64_i64).pow(3)));
        let order = order(&[Arc::new(a), Arc::new(b)]).unwrap();
        for quarter in order.chunks(1024) {
            for coordinate in [|row: u32| row % 64, |row: u32| row / 64] {
                let (least, most) = quarter.iter().fold((64, 0), |(least, most), row| {
                    (coordinate(*row).min(least), coordinate(*row).max(most))
                });
                assert!(most - least < 32, "{least} to {most}");
            }
        }
    }
}
