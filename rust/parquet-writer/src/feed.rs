//! Rows cut into units at fixed positions of their row group.
//!
//! A unit ends after a fixed number of rows, or with the row that fills its bytes. Encoders see whole units only, so
//! what they decide does not depend on how the rows were chunked. Whole units inside a batch are slices of it; what is
//! left of a batch is copied, because the batch is gone when the call returns.

use arrow_array::{Array, ArrayRef, make_array};
use arrow_data::transform::MutableArrayData;
use arrow_schema::SchemaRef;

use crate::error::Result;
use crate::normalize;
use crate::weight::Weights;

/// Rows of a unit.
pub(crate) const UNIT_ROWS: usize = 1024;
/// Rows of a row group's first unit, which is the sample that encodings are chosen from.
pub(crate) const SAMPLE_ROWS: usize = 2048;
/// Value bytes that end a unit early.
const UNIT_BYTES: u64 = 4 << 20;
/// Units between two checks of a row group's size.
const UNITS_PER_CHECK: usize = 8;

/// Where the next unit starts in its row group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Position {
    /// Rows before it.
    pub rows: usize,
    /// Units before it.
    pub units: usize,
    /// Rows that a row group may have.
    pub limit: usize,
}

impl Position {
    fn unit_rows(self) -> usize {
        let most = if self.units == 0 { SAMPLE_ROWS } else { UNIT_ROWS };
        most.min(self.limit - self.rows)
    }
}

/// Whole units, one after the other, of the same row group.
#[derive(Debug)]
pub(crate) struct Units {
    /// The rows of all of them, in layouts that encoders accept.
    pub columns: Vec<ArrayRef>,
    /// Rows of all of them.
    pub rows: usize,
    /// How many units.
    pub count: usize,
    /// Whether the row group's size is due for a check after them.
    pub check: bool,
}

/// Rows that do not make a unit yet, in copies of their own.
#[derive(Debug, Default)]
pub(crate) struct Carry {
    parts: Vec<Vec<ArrayRef>>,
    rows: usize,
    weight: u64,
    bytes: usize,
}

/// One batch on its way into units.
pub(crate) struct Feed<'a> {
    columns: &'a [ArrayRef],
    carried: &'a SchemaRef,
    weights: Weights,
    next: usize,
    rows: usize,
}

impl<'a> Feed<'a> {
    pub fn new(columns: &'a [ArrayRef], rows: usize, carried: &'a SchemaRef) -> Self {
        Self {
            columns,
            carried,
            weights: Weights::new(columns),
            next: 0,
            rows,
        }
    }

    /// The next units, or `None` when the batch is used up; its tail is in `carry` then.
    pub fn next(&mut self, position: Position, carry: &mut Carry) -> Result<Option<Units>> {
        if self.next == self.rows {
            return Ok(None);
        }
        if carry.rows > 0 {
            return self.complete(position, carry);
        }
        let (rows, units, check) = self.whole_units(position);
        if units == 0 {
            self.carry_over(self.rows - self.next, carry)?;
            return Ok(None);
        }
        let columns = self.take(rows, normalize::loosely)?;
        Ok(Some(Units {
            columns,
            rows,
            count: units,
            check,
        }))
    }

    /// Fills the unit that `carry` began.
    fn complete(&mut self, position: Position, carry: &mut Carry) -> Result<Option<Units>> {
        let missing = position.unit_rows() - carry.rows;
        let end = (self.next + missing).min(self.rows);
        let (rows, full) = self
            .weights
            .rows_within(self.next, end, UNIT_BYTES.saturating_sub(carry.weight));
        self.carry_over(rows, carry)?;
        if full || rows == missing {
            carry.take(position).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Rows and units from here to the next check of the row group's size, as far as the batch has them.
    fn whole_units(&self, mut position: Position) -> (usize, usize, bool) {
        let (mut start, mut units) = (self.next, 0);
        while position.rows < position.limit {
            let most = position.unit_rows();
            let (rows, full) = self
                .weights
                .rows_within(start, (start + most).min(self.rows), UNIT_BYTES);
            if !full && rows < most {
                break;
            }
            (start, units) = (start + rows, units + 1);
            (position.rows, position.units) = (position.rows + rows, position.units + 1);
            // Heavy rows are checked at every unit, or a few of them would overrun the row group.
            if full || position.units.is_multiple_of(UNITS_PER_CHECK) {
                return (start - self.next, units, true);
            }
        }
        (start - self.next, units, false)
    }

    fn take(
        &mut self,
        rows: usize,
        conform: fn(&ArrayRef, &arrow_schema::DataType) -> Result<ArrayRef>,
    ) -> Result<Vec<ArrayRef>> {
        let start = self.next;
        self.next += rows;
        let fields = self.carried.fields().iter();
        self.columns
            .iter()
            .zip(fields)
            .map(|(column, field)| conform(&column.slice(start, rows), field.data_type()))
            .collect()
    }

    fn carry_over(&mut self, rows: usize, carry: &mut Carry) -> Result<()> {
        carry.weight += self.weights.total(self.next, self.next + rows);
        carry.rows += rows;
        let columns: Vec<_> = self
            .take(rows, normalize::exactly)?
            .iter()
            .map(|column| copied(&[column]))
            .collect::<Result<_>>()?;
        carry.bytes += columns.iter().map(Array::get_buffer_memory_size).sum::<usize>();
        carry.parts.push(columns);
        Ok(())
    }
}

impl Carry {
    /// The rows in it.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The memory it holds.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// All its rows as one unit.
    pub fn take(&mut self, position: Position) -> Result<Units> {
        let Self {
            parts, rows, weight, ..
        } = std::mem::take(self);
        let check = weight >= UNIT_BYTES || (position.units + 1).is_multiple_of(UNITS_PER_CHECK);
        Ok(Units {
            columns: joined(parts)?,
            rows,
            count: 1,
            check,
        })
    }
}

fn joined(mut parts: Vec<Vec<ArrayRef>>) -> Result<Vec<ArrayRef>> {
    if parts.len() == 1 {
        return Ok(parts.remove(0));
    }
    let width = parts.first().map_or(0, Vec::len);
    (0..width)
        .map(|column| copied(&parts.iter().map(|part| &part[column]).collect::<Vec<_>>()))
        .collect()
}

/// The rows of all `arrays` in buffers of their own.
fn copied(arrays: &[&ArrayRef]) -> Result<ArrayRef> {
    let data: Vec<_> = arrays.iter().map(Array::to_data).collect();
    let rows = data.iter().map(arrow_data::ArrayData::len).sum();
    let mut copy = MutableArrayData::new(data.iter().collect(), false, rows);
    for (index, part) in data.iter().enumerate() {
        copy.try_extend(index, 0, part.len())?;
    }
    Ok(make_array(copy.freeze()))
}
