//! The bounds and the kinds of a column chunk's geometries, for `GeospatialStatistics`.
//!
//! Values are Well-Known Binary of the ISO, as the format's `Geospatial.md` has them. A chunk with a value that is
//! something else gets no statistics, since a reader may make more of it. Neither do geographies, whose edges may leave
//! the box of their points.

use std::collections::BTreeSet;

use arrow_buffer::NullBuffer;
use parquet::basic::LogicalType;
use parquet::geospatial::bounding_box::BoundingBox;
use parquet::geospatial::statistics::GeospatialStatistics;
use parquet::schema::types::ColumnDescriptor;
use parquet_encode::byte_arrays::{ByteArrays, Views};

use super::source::RunValues;

/// Collections within collections that are followed.
const MOST_NESTED: usize = 16;

/// The least and the greatest coordinate on the axes x, y, z and m; none without coordinates.
type AxisRanges = [Option<(f64, f64)>; 4];

/// Collects the statistics of a chunk's geometries.
#[derive(Debug, Default)]
pub(super) struct Geometries {
    ranges: AxisRanges,
    /// The codes of their kinds.
    kinds: BTreeSet<i32>,
    /// True once a value was none.
    is_broken: bool,
}

impl Geometries {
    /// Statistics of no values yet, where the column has geometries.
    pub fn of(column: &ColumnDescriptor) -> Option<Self> {
        matches!(column.logical_type_ref(), Some(LogicalType::Geometry(_))).then(Self::default)
    }

    /// Adds the values of a run's valid slots.
    pub fn add(&mut self, values: &RunValues<'_>, nulls: Option<&NullBuffer>, slots: usize) {
        if let RunValues::Keys { keys, values, .. } = values {
            let rows = keys.distinct_rows(nulls, slots).into_iter();
            return self.add_rows(values, rows.map(|row| row as usize));
        }
        let is_valid = |slot: &usize| nulls.is_none_or(|nulls| nulls.is_valid(*slot));
        self.add_rows(values, (0..slots).filter(is_valid));
    }

    fn add_rows(&mut self, values: &RunValues<'_>, rows: impl Iterator<Item = usize>) {
        match values {
            RunValues::Small(values) => self.add_each(values, rows),
            RunValues::Large(values) => self.add_each(values, rows),
            RunValues::Views { views, buffers } => self.add_each(&Views { views, buffers }, rows),
            _ => self.is_broken = true,
        }
    }

    fn add_each<V: ByteArrays>(&mut self, values: &V, rows: impl Iterator<Item = usize>) {
        for row in rows {
            if self.is_broken {
                return;
            }
            self.is_broken = self.add_one(values.value(row)).is_none();
        }
    }

    fn add_one(&mut self, value: &[u8]) -> Option<()> {
        let mut wkb = Wkb { bytes: value };
        self.kinds.insert(wkb.geometry(&mut self.ranges, MOST_NESTED)?);
        wkb.bytes.is_empty().then_some(())
    }

    /// The statistics of all values; none without any, and where one was no geometry.
    pub fn close(self) -> Option<GeospatialStatistics> {
        if self.is_broken || self.kinds.is_empty() {
            return None;
        }
        let [x, y, z, m] = self.ranges;
        let bounds = x.zip(y).map(|((west, east), (south, north))| {
            let mut bounds = BoundingBox::new(west, east, south, north);
            if let Some((least, most)) = z {
                bounds = bounds.with_zrange(least, most);
            }
            if let Some((least, most)) = m {
                bounds = bounds.with_mrange(least, most);
            }
            bounds
        });
        Some(GeospatialStatistics::new(
            bounds,
            Some(self.kinds.into_iter().collect()),
        ))
    }
}

/// A value that is read from its start.
struct Wkb<'a> {
    bytes: &'a [u8],
}

/// The order of the bytes of numbers.
#[derive(Debug, Clone, Copy)]
enum ByteOrder {
    Big,
    Little,
}

impl<'a> Wkb<'a> {
    /// Reads a geometry, and widens the ranges by its coordinates. Returns the code of its kind; none for other bytes.
    fn geometry(&mut self, ranges: &mut AxisRanges, deeper: usize) -> Option<i32> {
        let order = match self.take(1)? {
            [0] => ByteOrder::Big,
            [1] => ByteOrder::Little,
            _ => return None,
        };
        let code = self.number(order)?;
        let axes: &[usize] = match code / 1000 {
            0 => &[0, 1],
            1 => &[0, 1, 2],
            2 => &[0, 1, 3],
            3 => &[0, 1, 2, 3],
            _ => return None,
        };
        match code % 1000 {
            1 => self.points(1, axes, order, ranges)?,
            2 => self.line(axes, order, ranges)?,
            3 => {
                for _ in 0..self.number(order)? {
                    self.line(axes, order, ranges)?;
                }
            }
            4..=7 => {
                let deeper = deeper.checked_sub(1)?;
                for _ in 0..self.number(order)? {
                    self.geometry(ranges, deeper)?;
                }
            }
            _ => return None,
        }
        i32::try_from(code).ok()
    }

    fn line(&mut self, axes: &[usize], order: ByteOrder, ranges: &mut AxisRanges) -> Option<()> {
        let count = usize::try_from(self.number(order)?).ok()?;
        self.points(count, axes, order, ranges)
    }

    fn points(
        &mut self,
        count: usize,
        axes: &[usize],
        order: ByteOrder,
        ranges: &mut AxisRanges,
    ) -> Option<()> {
        let point_bytes = axes.len() * size_of::<f64>();
        for point in self
            .take(count.checked_mul(point_bytes)?)?
            .chunks_exact(point_bytes)
        {
            for (axis, bytes) in axes.iter().zip(point.chunks_exact(size_of::<f64>())) {
                let bytes = bytes.try_into().ok()?;
                let place = match order {
                    ByteOrder::Big => f64::from_be_bytes(bytes),
                    ByteOrder::Little => f64::from_le_bytes(bytes),
                };
                widen(&mut ranges[*axis], place);
            }
        }
        Some(())
    }

    fn number(&mut self, order: ByteOrder) -> Option<u32> {
        let bytes = self.take(size_of::<u32>())?.try_into().ok()?;
        Some(match order {
            ByteOrder::Big => u32::from_be_bytes(bytes),
            ByteOrder::Little => u32::from_le_bytes(bytes),
        })
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }
}

/// Widens a range by a coordinate. A point without a place has NaN for it.
fn widen(range: &mut Option<(f64, f64)>, place: f64) {
    if place.is_nan() {
        return;
    }
    let (least, most) = range.unwrap_or((place, place));
    *range = Some((least.min(place), most.max(place)));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A geometry as bytes in either order, the code of its kind, and its points.
    fn wkb(order: ByteOrder, code: u32, counts: &[u32], points: &[f64]) -> Vec<u8> {
        let number = |number: u32| match order {
            ByteOrder::Big => number.to_be_bytes(),
            ByteOrder::Little => number.to_le_bytes(),
        };
        let place = |place: &f64| match order {
            ByteOrder::Big => place.to_be_bytes(),
            ByteOrder::Little => place.to_le_bytes(),
        };
        let mark = u8::from(matches!(order, ByteOrder::Little));
        let head = std::iter::once(code)
            .chain(counts.iter().copied())
            .flat_map(number);
        let places = points.iter().flat_map(place);
        std::iter::once(mark).chain(head).chain(places).collect()
    }

    fn statistics(values: &[Vec<u8>]) -> Option<GeospatialStatistics> {
        let mut geometries = Geometries::default();
        geometries.is_broken = values.iter().any(|value| geometries.add_one(value).is_none());
        geometries.close()
    }

    proptest! {
        #[test]
        fn a_line_is_within_its_bounds(
            places in prop::collection::vec((-1e9..1e9_f64, -1e9..1e9_f64), 1..20),
            is_big in any::<bool>(),
        ) {
            let order = if is_big { ByteOrder::Big } else { ByteOrder::Little };
            let points: Vec<f64> = places.iter().flat_map(|(x, y)| [*x, *y]).collect();
            let line = wkb(order, 2, &[u32::try_from(places.len()).unwrap()], &points);
            let found = statistics(&[line]).unwrap();
            let bounds = found.bounding_box().unwrap();
            let least = |of: fn(&(f64, f64)) -> f64| places.iter().map(of).fold(f64::INFINITY, f64::min);
            let most = |of: fn(&(f64, f64)) -> f64| places.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
            prop_assert_eq!((bounds.get_xmin(), bounds.get_xmax()), (least(|at| at.0), most(|at| at.0)));
            prop_assert_eq!((bounds.get_ymin(), bounds.get_ymax()), (least(|at| at.1), most(|at| at.1)));
            prop_assert_eq!(found.geospatial_types(), Some(&vec![2]));
        }

        #[test]
        fn any_bytes_are_read_or_break(value in prop::collection::vec(any::<u8>(), 0..200)) {
            statistics(&[value]);
        }
    }

    #[test]
    fn kinds_are_counted_once_with_their_axes() {
        let point = |code, places: &[f64]| wkb(ByteOrder::Little, code, &[], places);
        let ring = wkb(ByteOrder::Big, 3, &[1, 2], &[0.0, 1.0, 8.0, -9.0]);
        let found = statistics(&[
            point(1, &[2.0, 3.0]),
            point(1, &[1.0, 3.0]),
            point(1001, &[2.0, 3.0, 4.0]),
            point(3001, &[2.0, 3.0, 5.0, 6.0]),
            ring,
        ])
        .unwrap();
        assert_eq!(found.geospatial_types(), Some(&vec![1, 3, 1001, 3001]));
        let bounds = found.bounding_box().unwrap();
        assert_eq!((bounds.get_xmin(), bounds.get_xmax()), (0.0, 8.0));
        assert_eq!((bounds.get_ymin(), bounds.get_ymax()), (-9.0, 3.0));
        assert_eq!((bounds.get_zmin(), bounds.get_zmax()), (Some(4.0), Some(5.0)));
        assert_eq!((bounds.get_mmin(), bounds.get_mmax()), (Some(6.0), Some(6.0)));
    }

    #[test]
    fn geometries_without_a_place_have_a_kind_and_no_bounds() {
        let empty = wkb(ByteOrder::Little, 1, &[], &[f64::NAN, f64::NAN]);
        let found = statistics(&[empty, wkb(ByteOrder::Little, 7, &[0], &[])]).unwrap();
        assert_eq!(found.bounding_box(), None);
        assert_eq!(found.geospatial_types(), Some(&vec![1, 7]));
    }

    #[test]
    fn a_value_that_is_no_geometry_leaves_none_known() {
        let good = wkb(ByteOrder::Little, 1, &[], &[1.0, 2.0]);
        let longer = [good.clone(), vec![0]].concat();
        // As PostGIS writes a point with the id of its system.
        let extended = wkb(ByteOrder::Little, 0x2000_0001, &[4326], &[1.0, 2.0]);
        let nested = [[0, 0, 0, 0, 7, 0, 0, 0, 1].as_slice(); 20].concat();
        for bad in [Vec::new(), good[..9].to_vec(), longer, extended, nested] {
            assert_eq!(statistics(&[good.clone(), bad]), None);
        }
        assert_eq!(statistics(&[]), None);
    }
}
