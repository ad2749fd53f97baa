//! The feed: rows on their way to the encoders, cut at fixed positions of their row group.
//!
//! A unit ends after a fixed number of rows, or with the row that fills its bytes. The size of a row group may be
//! checked after every few units. So nothing depends on how the rows were cut into batches. Rows are slices of their
//! batch; only the first unit of a row group, the sample, is copied together where it comes by several batches.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, make_array};
use arrow_data::transform::MutableArrayData;
use arrow_schema::{DataType, SchemaRef};

use crate::error::Result;
use crate::integrity;
use crate::normalize;
use crate::options::WriterOptions;
use crate::weight::{ROWS_TOGETHER, RowWeights};

/// Rows of a unit.
pub(crate) const UNIT_ROWS: usize = 1024;
/// Rows of a row group's first unit: the sample that limited memory is shared out by.
pub(crate) const SAMPLE_ROWS: usize = 2048;
/// Value bytes that end a unit early.
pub(crate) const UNIT_BYTES: u64 = 4 << 20;
/// Units between two possible checks of a row group's size.
const UNITS_PER_CHECK: usize = 8;
/// Rows below which a unit may be much larger than others, since its last row counts whole.
const FEW_ROWS: usize = 16;

/// The limits that end units and row groups.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// Rows of a row group.
    pub row_group_rows: usize,
    /// Rows of its first unit.
    pub sample_rows: usize,
    /// Value bytes that end a unit early.
    pub unit_bytes: u64,
    /// Bytes that close a row group.
    row_group_bytes: u64,
}

impl Pace {
    pub fn new(options: &WriterOptions) -> Self {
        Self {
            row_group_rows: options.row_group_rows,
            sample_rows: options.budget.sample_rows,
            unit_bytes: options.budget.unit_bytes,
            row_group_bytes: options.row_group_bytes,
        }
    }

    /// Returns true if the row group's size may be checked after a unit of `rows` rows that was ended by its bytes.
    /// That is so if the unit has few rows, or if the units between two regular checks could overrun the limit by much.
    fn checks_after(self, rows: usize) -> bool {
        let units_between = UNITS_PER_CHECK as u64 * self.unit_bytes;
        rows < FEW_ROWS || self.row_group_bytes / 4 < units_between
    }
}

/// The position of the next row in its row group.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Position {
    /// Rows before it.
    pub rows: usize,
    /// Whole units before it.
    pub units: usize,
    /// Rows of its unit before it.
    unit_rows: usize,
    /// The weight of those rows.
    unit_weight: u64,
}

impl Position {
    /// Rows that the unit may still take.
    fn missing(self, pace: Pace) -> usize {
        let most = if self.units == 0 {
            pace.sample_rows
        } else {
            UNIT_ROWS
        };
        (most - self.unit_rows).min(pace.row_group_rows - self.rows)
    }

    fn room(self, pace: Pace) -> u64 {
        pace.unit_bytes.saturating_sub(self.unit_weight)
    }

    fn end_unit(&mut self) {
        self.units += 1;
        self.unit_rows = 0;
        self.unit_weight = 0;
    }
}

/// Rows of a batch, which are not copied.
#[derive(Debug, Clone)]
pub(crate) struct BatchRows {
    columns: Arc<[ArrayRef]>,
    start: usize,
    /// The number of rows.
    pub count: usize,
}

impl BatchRows {
    /// The rows of one column.
    pub fn column(&self, index: usize) -> ArrayRef {
        let column = &self.columns[index];
        if self.count == column.len() {
            Arc::clone(column)
        } else {
            column.slice(self.start, self.count)
        }
    }
}

/// Rows of one row group.
#[derive(Debug)]
pub(crate) struct RowGroupRows {
    pub rows: BatchRows,
    /// The bytes of their values, by which the size of the row group is foreseen.
    pub weight: u64,
    /// The position in the row group after them.
    pub after: Position,
    /// True if the row group's size may be checked then.
    pub check: bool,
}

/// Rows that are not yet enough for a row group's first unit. At the end of the call that they came with they are
/// copied.
#[derive(Debug, Default)]
pub(crate) struct Carry {
    parts: Vec<Vec<ArrayRef>>,
    /// The number of parts that are copies.
    own: usize,
    at: Position,
    /// The weight of its rows by which their size is foreseen.
    foreseen: u64,
    bytes: usize,
}

/// The weights of some rows of a batch.
struct Weighed {
    rows: Range<usize>,
    weights: RowWeights,
    /// The weights by which sizes are foreseen, where they are others.
    foreseen: Option<RowWeights>,
}

impl Weighed {
    fn new(columns: &[ArrayRef], rows: Range<usize>) -> Self {
        let columns: Vec<_> = columns
            .iter()
            .map(|column| column.slice(rows.start, rows.len()))
            .collect();
        Self {
            rows,
            weights: RowWeights::new(&columns),
            foreseen: RowWeights::with_wide_elements(&columns),
        }
    }

    /// Returns true if rows that follow the last ones are among them.
    fn has(&self, rows: &Range<usize>) -> bool {
        rows.end <= self.rows.end
    }

    fn rows_within(&self, rows: Range<usize>, budget: u64) -> (usize, bool) {
        let Range { start, end } = self.place(rows);
        self.weights.rows_within(start, end, budget)
    }

    fn total(&self, rows: Range<usize>) -> u64 {
        let Range { start, end } = self.place(rows);
        self.weights.total(start, end)
    }

    /// The weight by which the size of rows is foreseen.
    fn foreseen(&self, rows: Range<usize>) -> u64 {
        let Range { start, end } = self.place(rows);
        self.foreseen.as_ref().unwrap_or(&self.weights).total(start, end)
    }

    fn place(&self, rows: Range<usize>) -> Range<usize> {
        rows.start - self.rows.start..rows.end - self.rows.start
    }
}

/// One batch on its way to the encoders.
pub(crate) struct Feed<'a> {
    columns: Arc<[ArrayRef]>,
    declared: &'a SchemaRef,
    carried: &'a SchemaRef,
    weighed: Weighed,
    next: usize,
    rows: usize,
    pace: Pace,
}

impl<'a> Feed<'a> {
    /// Errors name columns as `declared` does. `pace` says where units end.
    pub fn new(
        columns: &[ArrayRef],
        rows: usize,
        (declared, carried): (&'a SchemaRef, &'a SchemaRef),
        pace: Pace,
    ) -> Self {
        Self {
            columns: columns.into(),
            declared,
            carried,
            weighed: Weighed::new(columns, 0..rows.min(ROWS_TOGETHER)),
            next: 0,
            rows,
            pace,
        }
    }

    /// Returns true if the batch is used up.
    pub fn is_empty(&self) -> bool {
        self.next == self.rows
    }

    /// Returns the next rows, or `None` when the batch is used up. Rows that wait for a first unit are in `carry` then.
    pub fn next(&mut self, position: Position, carry: &mut Carry) -> Result<Option<RowGroupRows>> {
        if self.is_empty() {
            return Ok(None);
        }
        if position.units == 0 {
            return self.first_unit(carry);
        }
        let run = self.until_check(position);
        self.next += run.rows.count;
        Ok(Some(run))
    }

    /// The weights of these rows and of those around them.
    fn weighed(&mut self, rows: &Range<usize>) -> &Weighed {
        if !self.weighed.has(rows) {
            let end = self.rows.min(rows.start + rows.len().max(ROWS_TOGETHER));
            self.weighed = Weighed::new(&self.columns, rows.start..end);
        }
        &self.weighed
    }

    /// Fills the first unit of a row group.
    fn first_unit(&mut self, carry: &mut Carry) -> Result<Option<RowGroupRows>> {
        let missing = carry.at.missing(self.pace);
        let within = self.next..(self.next + missing).min(self.rows);
        let room = carry.at.room(self.pace);
        let (rows, full) = self.weighed(&within).rows_within(within, room);
        let whole = full || rows == missing;
        if whole && carry.at.rows == 0 {
            let weight = self.weighed.foreseen(self.next..self.next + rows);
            let columns = self.take(rows, normalize::loosely)?;
            return Ok(Some(RowGroupRows::of_one_unit(columns, (rows, weight), full)));
        }
        self.carry_over(rows, carry)?;
        if whole {
            carry.take(self.pace).map(Some)
        } else {
            Ok(None)
        }
    }

    /// The rows from here to the next possible check of the row group's size, or to the end of the batch.
    fn until_check(&mut self, mut at: Position) -> RowGroupRows {
        let (mut start, mut check) = (self.next, false);
        let (mut foreseen, mut weight) = (start, 0);
        while start < self.rows && at.rows < self.pace.row_group_rows && !check {
            let missing = at.missing(self.pace);
            let within = start..(start + missing).min(self.rows);
            let room = at.room(self.pace);
            if !self.weighed.has(&within) {
                weight += self.weighed.foreseen(foreseen..start);
                foreseen = start;
            }
            let (rows, full) = self.weighed(&within).rows_within(within, room);
            at.rows += rows;
            if full || rows == missing {
                let heavy = full && self.pace.checks_after(at.unit_rows + rows);
                at.end_unit();
                check = heavy || at.units.is_multiple_of(UNITS_PER_CHECK);
            } else {
                at.unit_rows += rows;
                at.unit_weight += self.weighed.total(start..start + rows);
            }
            start += rows;
        }
        weight += self.weighed.foreseen(foreseen..start);
        RowGroupRows {
            rows: BatchRows {
                columns: Arc::clone(&self.columns),
                start: self.next,
                count: start - self.next,
            },
            weight,
            after: at,
            check,
        }
    }

    fn take(
        &mut self,
        rows: usize,
        conform: fn(&ArrayRef, &DataType) -> Result<ArrayRef>,
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
        for (field, column) in self.declared.fields().iter().zip(self.columns.iter()) {
            integrity::check_run(field.name(), &column.slice(self.next, rows))?;
        }
        let taken = self.next..self.next + rows;
        carry.at.unit_weight += self.weighed.total(taken.clone());
        carry.foreseen += self.weighed.foreseen(taken);
        carry.at.unit_rows += rows;
        carry.at.rows += rows;
        carry.parts.push(self.take(rows, normalize::exactly)?);
        Ok(())
    }
}

impl RowGroupRows {
    /// A first unit of a row group, which may be all of the row group.
    fn of_one_unit(columns: Vec<ArrayRef>, (count, weight): (usize, u64), check: bool) -> Self {
        let mut after = Position {
            rows: count,
            ..Position::default()
        };
        after.end_unit();
        Self {
            rows: BatchRows {
                columns: columns.into(),
                start: 0,
                count,
            },
            weight,
            after,
            check,
        }
    }
}

impl Carry {
    /// The rows in it.
    pub fn rows(&self) -> usize {
        self.at.rows
    }

    /// Returns true if it has rows of batches that may not be kept.
    pub fn has_borrowed(&self) -> bool {
        self.own < self.parts.len()
    }

    /// The memory it holds.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies what came since it was last called, whose owner may change it afterwards.
    pub fn keep(&mut self) -> Result<()> {
        for columns in &mut self.parts[self.own..] {
            *columns = columns
                .iter()
                .map(|column| copied(&[column]))
                .collect::<Result<_>>()?;
            self.bytes += columns.iter().map(Array::get_buffer_memory_size).sum::<usize>();
            self.own += 1;
        }
        Ok(())
    }

    /// All its rows as one unit.
    pub fn take(&mut self, pace: Pace) -> Result<RowGroupRows> {
        let Self {
            parts, at, foreseen, ..
        } = std::mem::take(self);
        let check = at.unit_weight >= pace.unit_bytes;
        Ok(RowGroupRows::of_one_unit(
            joined(parts)?,
            (at.rows, foreseen),
            check,
        ))
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
pub(crate) fn copied(arrays: &[&ArrayRef]) -> Result<ArrayRef> {
    let data: Vec<_> = arrays.iter().map(Array::to_data).collect();
    let rows = data.iter().map(arrow_data::ArrayData::len).sum();
    let mut copy = MutableArrayData::new(data.iter().collect(), false, rows);
    for (index, part) in data.iter().enumerate() {
        copy.try_extend(index, 0, part.len())?;
    }
    Ok(make_array(copy.freeze()))
}
