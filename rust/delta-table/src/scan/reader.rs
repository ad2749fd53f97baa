//! The reading of a scan: file by file, row group by row group.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::new_null_array;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use arrow_select::take::take;
use delta_commit::actions::Add;
use delta_commit::log::{StoreError, StoreErrorKind};
use delta_commit::{CommitError, path};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowPredicate, ArrowPredicateFn, ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder, RowFilter, RowSelection, RowSelectionPolicy,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use roaring::RoaringTreemap;

use crate::data_file::{DataFile, load_footer, ranges_of, table_error, with_micros};
use crate::error::{Result, TableError};
use crate::mapping::Mapping;
use crate::row_ids::{self, Origin, RowValue};
use crate::schema::TableColumn;
use crate::sql::BoundCondition;
use crate::stats::row_group_stats_json;

use super::adapt::adapt;
use super::calendar::Calendar;
use super::dictionaries::{self, Answers};
use super::question::{batch, columns_of, nullable};
use super::row_numbers::{in_order, with_numbers};
use super::{ScanPlan, constants, pages};

/// Rows of a batch.
pub(super) const BATCH_ROWS: usize = 8_192;

/// The source of a column of the answer.
enum ColumnSource {
    /// The column at this place in what is decoded.
    Decoded(usize),
    /// One value for all rows.
    Constant(ArrayRef),
}

/// A file that is being read.
pub(super) struct FileReader {
    add: Arc<Add>,
    file: DataFile,
    pub metadata: ArrowReaderMetadata,
    /// The rows that are deleted.
    pub deleted: RoaringTreemap,
    /// The row groups to read.
    pub groups: VecDeque<usize>,
    /// The columns of the file that conditions are about.
    asked: Vec<TableColumn>,
    /// The columns of the answer that the file has.
    mask: ProjectionMask,
    sources: Vec<ColumnSource>,
    /// The ids of its rows, and their version, where row tracking is asked for.
    origin: Option<Origin>,
    /// The conversion of its dates and times; none if they are as they are.
    calendar: Option<Calendar>,
    advice: Option<Advice>,
}

impl FileReader {
    /// Opens a file, of which these rows are deleted.
    pub fn open(plan: &ScanPlan, add: Arc<Add>, deleted: RoaringTreemap) -> Result<Self> {
        let name = path::decode_inside(&add.path)?;
        let size = u64::try_from(add.size).unwrap_or(0);
        let opened = || {
            let file = DataFile::open(&plan.storage, &name, size)?;
            let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
            let loaded = load_footer(&file, options.clone())?;
            let fields = with_micros(loaded.schema().fields(), loaded.parquet_schema(), &mut 0);
            let fields = dictionaries::kept(&fields, loaded.metadata(), |field| {
                plan.asks_for_text(field.name())
            });
            let options = options.with_schema(Arc::new(Schema::new(fields)));
            let (footer, options) = if plan.tracked.iter().any(|column| column.value == RowValue::Id) {
                (in_order(loaded.metadata())?, with_numbers(options)?)
            } else {
                (Arc::clone(loaded.metadata()), options)
            };
            let metadata = ArrowReaderMetadata::try_new(footer, options.clone())?;
            Ok((file, metadata, options))
        };
        let (file, metadata, options) = opened().map_err(|error| of_file(&add, plan.advice, error))?;
        let filters = plan.filters.each.iter();
        let compared = filters.flat_map(|filter| columns_of(&plan.snapshot, filter));
        let stored = plan.columns.iter().chain(compared);
        let stored = stored.filter(|column| !plan.snapshot.is_partition_column(column));
        plan.snapshot
            .mapping
            .check_file(metadata.schema().fields(), stored, &add.path)?;
        // Some writers store partition columns too: the log says what their values are.
        let places = plan.places(metadata.schema().fields());
        let sources = sources(plan, &add, &places)?;
        let mask = ProjectionMask::roots(metadata.parquet_schema(), places.into_iter().flatten());
        let calendar = Calendar::of(&add.path, metadata.metadata());
        let mut asked = asked(plan, &metadata);
        if let Some(calendar) = &calendar {
            asked.retain(|column| calendar.keeps(&column.kind));
        }
        let groups = groups(plan, &add, &asked, &metadata);
        check_rows(&add, &deleted, metadata.metadata())?;
        let rows = u64::try_from(metadata.metadata().file_metadata().num_rows()).unwrap_or(0);
        let skips_pages = !asked.is_empty() || deleted.len() > rows / 2;
        let metadata = if skips_pages && !groups.is_empty() {
            let columns = plan
                .filters
                .each
                .iter()
                .flat_map(|filter| columns_of(&plan.snapshot, filter));
            let mut wanted = roots(&metadata, columns, plan.snapshot.mapping);
            wanted.union(&mask);
            let leaves = 0..metadata.parquet_schema().num_columns();
            let leaves: Vec<usize> = leaves.filter(|leaf| wanted.leaf_included(*leaf)).collect();
            let groups: Vec<usize> = groups.iter().copied().collect();
            pages::with_indexes(metadata.metadata(), &file, &groups, &leaves)
                .and_then(|footer| ArrowReaderMetadata::try_new(footer, options))
                .map_err(|error| of_file(&add, plan.advice, error))?
        } else {
            metadata
        };
        Ok(Self {
            file,
            metadata,
            deleted,
            groups,
            asked,
            mask,
            sources,
            origin: (!plan.tracked.is_empty())
                .then(|| row_ids::origin(&add))
                .transpose()?,
            calendar,
            add,
            advice: plan.advice,
        })
    }

    /// A reader of the rows of a row group that are there and satisfy the conditions; none where no row can.
    fn open_group(&self, plan: &ScanPlan, group: usize) -> Result<Option<ParquetRecordBatchReader>> {
        let Some(filters) = self.filters(plan)? else {
            return Ok(None);
        };
        let selection = self.selection(plan, group);
        if selection
            .as_ref()
            .is_some_and(|selection| !selection.selects_any())
        {
            return Ok(None);
        }
        self.group_reader(group, filters, selection).map(Some)
    }

    /// The runs of a row group's rows that may satisfy the conditions, by the pages that they are in; none where all
    /// may.
    pub fn runs(&self, plan: &ScanPlan, group: usize) -> Option<Vec<Range<usize>>> {
        pages::runs(plan, &self.add, &self.asked, self.metadata.metadata(), group)
    }

    /// The rows of a row group that are there, in pages that may have what is looked for; none where all are.
    fn selection(&self, plan: &ScanPlan, group: usize) -> Option<RowSelection> {
        let (first, rows) = self.rows_of(group);
        let mut kept = RoaringTreemap::new();
        match self.runs(plan, group) {
            None => {
                kept.insert_range(first..first + rows);
            }
            Some(runs) => {
                for run in runs {
                    kept.insert_range(first + run.start as u64..first + run.end as u64);
                }
            }
        }
        kept -= &self.deleted;
        if kept.len() == rows {
            return None;
        }
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        let kept = runs(&kept, first).into_iter();
        Some(RowSelection::from_consecutive_ranges(kept, rows))
    }

    /// The number of a row group's first row in the file, and of its rows.
    pub fn rows_of(&self, group: usize) -> (u64, u64) {
        let counts = self.metadata.metadata().row_groups().iter();
        let mut counts = counts.map(|group| u64::try_from(group.num_rows()).unwrap_or(0));
        let first = counts.by_ref().take(group).sum();
        (first, counts.next().unwrap_or(0))
    }

    /// The bytes of a row group's columns that are read, without compression. Rows take about as many, or fewer.
    pub fn bytes_of(&self, plan: &ScanPlan, group: usize) -> usize {
        let filters = plan.filters.each.iter();
        let asked = filters.flat_map(|filter| columns_of(&plan.snapshot, filter));
        let mut wanted = roots(&self.metadata, asked, plan.snapshot.mapping);
        wanted.union(&self.mask);
        let chunks = self
            .metadata
            .metadata()
            .row_group(group)
            .columns()
            .iter()
            .enumerate();
        let wanted = chunks.filter(|(leaf, _)| wanted.leaf_included(*leaf));
        let sizes = wanted.map(|(_, chunk)| usize::try_from(chunk.uncompressed_size()).unwrap_or(0));
        sizes.fold(0, usize::saturating_add)
    }

    /// A reader of the selected rows of a row group that satisfy the filters.
    pub fn group_reader(
        &self,
        group: usize,
        filters: Vec<Box<dyn ArrowPredicate>>,
        selection: Option<RowSelection>,
    ) -> Result<ParquetRecordBatchReader> {
        let built = || {
            let mut wanted = self.mask.clone();
            for filter in &filters {
                wanted.union(filter.projection());
            }
            let footer = self.metadata.metadata();
            let ranges = ranges_of(footer, group, &wanted, selection.as_ref());
            let skips_pages = bytes_of(&ranges) < bytes_of(&ranges_of(footer, group, &wanted, None));
            let file = self.file.with(ranges)?;
            let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
                .with_row_groups(vec![group])
                .with_projection(self.mask.clone())
                .with_row_filter(RowFilter::new(filters))
                .with_batch_size(BATCH_ROWS);
            if let Some(selection) = selection {
                builder = builder.with_row_selection(selection);
            }
            if skips_pages {
                // A mask is decoded from its first row to its last, with the pages between them that are not here.
                builder = builder.with_row_selection_policy(RowSelectionPolicy::Selectors);
            }
            builder.build()
        };
        built().map_err(|error| self.failed(error))
    }

    /// The error of this file.
    pub fn failed(&self, error: ParquetError) -> TableError {
        of_file(&self.add, self.advice, error)
    }

    /// The conditions on columns of the file; none where one on columns that it lacks does not hold.
    fn filters(&self, plan: &ScanPlan) -> Result<Option<Vec<Box<dyn ArrowPredicate>>>> {
        let mut filters: Vec<Box<dyn ArrowPredicate>> = Vec::new();
        for filter in &plan.filters.each {
            let inputs = ConditionInputs::of(plan, &self.add, self.metadata.schema(), filter)?;
            if inputs.held.is_empty() {
                let row = inputs
                    .constants
                    .iter()
                    .map(|(_, value)| Arc::clone(value))
                    .collect();
                let holds = batch(&inputs.schema, row, 1).and_then(|row| filter.holds(&row));
                let holds = holds.map_err(|error| self.failed(error.into()))?;
                if holds.value(0) {
                    continue;
                }
                return Ok(None);
            }
            let mask = roots(&self.metadata, inputs.held.iter(), plan.snapshot.mapping);
            let (filter, mapping) = (Arc::clone(filter), plan.snapshot.mapping);
            let calendar = self.calendar.clone();
            let mut answers = Answers::default();
            let evaluate = move |decoded: RecordBatch| {
                if delta_commit::is_abandoned() {
                    return Err(ArrowError::ComputeError("nobody waits for the rows".into()));
                }
                let decoded = match &calendar {
                    Some(calendar) => calendar.converted(&decoded)?,
                    None => decoded,
                };
                let ask = |rows: &RecordBatch| filter.holds(&inputs.rows(rows, mapping)?);
                match answers.for_rows(&decoded, ask)? {
                    Some(answers) => Ok(answers),
                    None => ask(&decoded),
                }
            };
            filters.push(Box::new(ArrowPredicateFn::new(mask, evaluate)));
        }
        Ok(Some(filters))
    }

    /// The columns of the answer, of decoded ones.
    pub fn answer(&self, plan: &ScanPlan, decoded: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let rows = decoded.num_rows();
        let columns = self
            .sources
            .iter()
            .zip(&plan.columns)
            .map(|(source, column)| match source {
                ColumnSource::Decoded(place) => {
                    let array = match &self.calendar {
                        Some(calendar) => &calendar.array(decoded.column(*place))?,
                        None => decoded.column(*place),
                    };
                    adapt(array, &column.kind, plan.snapshot.mapping)
                }
                ColumnSource::Constant(value) => repeated(value, rows),
            });
        let mut columns = columns.collect::<Result<Vec<_>, _>>()?;
        if let Some(origin) = &self.origin {
            for tracked in &plan.tracked {
                let numbers = decoded.columns().last();
                columns[tracked.place] = origin.fill(tracked.value, &columns[tracked.place], numbers);
            }
        }
        RecordBatch::try_new_with_options(
            Arc::clone(&plan.schema),
            columns,
            &RecordBatchOptions::new().with_row_count(Some(rows)),
        )
    }
}

/// The rows of a row group that are there and satisfy the conditions.
pub(super) struct GroupRows {
    file: Arc<FileReader>,
    rows: ParquetRecordBatchReader,
}

impl GroupRows {
    /// Opens a row group of a file; none where no row can satisfy the conditions.
    pub fn open(plan: &ScanPlan, file: Arc<FileReader>, group: usize) -> Result<Option<Self>> {
        let rows = file.open_group(plan, group)?;
        Ok(rows.map(|rows| Self { file, rows }))
    }

    /// The next batch of the answer.
    pub fn next(&mut self, plan: &ScanPlan) -> Option<Result<RecordBatch>> {
        let batch = self.rows.next()?;
        let answer = batch.and_then(|batch| self.file.answer(plan, &batch));
        Some(answer.map_err(|error| self.file.failed(error.into())))
    }
}

/// The rows of a file, one row group after the other.
pub(super) struct RowsInOrder {
    file: Arc<FileReader>,
    groups: VecDeque<usize>,
    group: Option<GroupRows>,
}

impl RowsInOrder {
    pub fn new(file: FileReader) -> Self {
        Self {
            groups: file.groups.clone(),
            file: Arc::new(file),
            group: None,
        }
    }

    /// The file, and its row groups but the one that is being read or comes next.
    pub fn others(&self) -> (&Arc<FileReader>, impl Iterator<Item = usize>) {
        (&self.file, self.groups.iter().skip(self.own()).copied())
    }

    /// Leaves these row groups to others.
    pub fn leave_others(&mut self) {
        self.groups.truncate(self.own());
    }

    /// The number of row groups to begin here, whoever reads the others.
    fn own(&self) -> usize {
        usize::from(self.group.is_none())
    }

    /// The next batch. One row group is in memory at a time, compressed.
    pub fn next(&mut self, plan: &ScanPlan) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.group.as_mut().and_then(|group| group.next(plan)) {
                return batch.map(Some);
            }
            // Lets go of the last row group's bytes before the next one's come.
            self.group = None;
            let Some(group) = self.groups.pop_front() else {
                return Ok(None);
            };
            self.group = GroupRows::open(plan, Arc::clone(&self.file), group)?;
        }
    }
}

/// The columns that a condition asks for, in one file.
struct ConditionInputs {
    /// Those that the file holds, in its order.
    held: Vec<TableColumn>,
    /// The others, each with the value that it has in all rows.
    constants: Vec<(TableColumn, ArrayRef)>,
    /// The schema of both.
    schema: SchemaRef,
}

impl ConditionInputs {
    fn of(plan: &ScanPlan, add: &Add, file: &Schema, filter: &BoundCondition) -> Result<Self> {
        let mapping = plan.snapshot.mapping;
        let (mut held, mut constants) = (Vec::new(), Vec::new());
        for column in columns_of(&plan.snapshot, filter) {
            if plan.snapshot.is_partition_column(column) {
                let value = constants::constant(add, column, mapping)?;
                constants.push((column.clone(), value));
            } else if let Some(place) = mapping.place(file.fields(), column) {
                held.push((place, column.clone()));
            } else {
                constants.push((column.clone(), new_null_array(&column.kind.arrow(), 1)));
            }
        }
        // Columns are decoded in the order of the file.
        held.sort_by_key(|(place, _)| *place);
        let held: Vec<TableColumn> = held.into_iter().map(|(_, column)| column).collect();
        let others = constants.iter().map(|(column, _)| column);
        Ok(Self {
            schema: nullable(held.iter().chain(others)),
            held,
            constants,
        })
    }

    /// The columns of some rows, of which those that the file holds are decoded.
    fn rows(&self, decoded: &RecordBatch, mapping: Mapping) -> Result<RecordBatch, ArrowError> {
        let rows = decoded.num_rows();
        let held = self.held.iter().zip(decoded.columns());
        let held = held.map(|(column, array)| adapt(array, &column.kind, mapping));
        let others = self.constants.iter().map(|(_, value)| repeated(value, rows));
        batch(&self.schema, held.chain(others).collect::<Result<_, _>>()?, rows)
    }
}

/// Runs of consecutive numbers, counted from `first` on.
fn runs(numbers: &RoaringTreemap, first: u64) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut add = |start: u64, end: u64| {
        let place = |number: u64| usize::try_from(number - first).unwrap_or(usize::MAX);
        match runs.last_mut() {
            Some(last) if last.end == place(start) => last.end = place(end),
            _ => runs.push(place(start)..place(end)),
        }
    };
    for (high, numbers) in numbers.bitmaps() {
        let mut numbers = numbers.iter();
        while let Some(run) = numbers.next_range() {
            let number = |low: u32| u64::from(high) << 32 | u64::from(low);
            add(number(*run.start()), number(*run.end()) + 1);
        }
    }
    runs
}

/// The bytes of ranges.
fn bytes_of(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// Refuses a deletion vector that deletes rows which the file does not have.
fn check_rows(add: &Add, deleted: &RoaringTreemap, footer: &ParquetMetaData) -> Result<()> {
    let rows = footer.file_metadata().num_rows();
    match deleted.max() {
        Some(last) if i64::try_from(last).is_ok_and(|last| last >= rows) => {
            Err(TableError::Malformed(format!(
                "{}: the file has {rows} rows, and its deletion vector deletes the row {last}: it is another file's \
                 vector, or a damaged one",
                add.path
            )))
        }
        _ => Ok(()),
    }
}

/// The source of each column of the answer. A column that the file lacks is null in all of its rows.
fn sources(plan: &ScanPlan, add: &Add, places: &[Option<usize>]) -> Result<Vec<ColumnSource>> {
    // Columns are decoded in the order of the file.
    let decoded: BTreeSet<usize> = places.iter().flatten().copied().collect();
    let sources = plan
        .columns
        .iter()
        .zip(places)
        .map(|(column, place)| match place {
            Some(place) => Ok(ColumnSource::Decoded(decoded.range(..place).count())),
            None if plan.snapshot.is_partition_column(column) => {
                constants::constant(add, column, plan.snapshot.mapping).map(ColumnSource::Constant)
            }
            None => Ok(ColumnSource::Constant(new_null_array(&column.kind.arrow(), 1))),
        });
    sources.collect()
}

/// The leaves of those top-level columns that the file has.
fn roots<'a>(
    metadata: &ArrowReaderMetadata,
    columns: impl Iterator<Item = &'a TableColumn>,
    mapping: Mapping,
) -> ProjectionMask {
    let places = columns.filter_map(|column| mapping.place(metadata.schema().fields(), column));
    ProjectionMask::roots(metadata.parquet_schema(), places.collect::<Vec<_>>())
}

/// The columns of a file that conditions are about, under the names that conditions have.
fn asked(plan: &ScanPlan, metadata: &ArrowReaderMetadata) -> Vec<TableColumn> {
    let terms = plan.filters.cover.terms().into_iter();
    let named: BTreeSet<&str> = terms
        .filter_map(|term| term.column.first().map(String::as_str))
        .collect();
    // Some writers store partition columns too: the log says what their values are.
    let held = plan.snapshot.schema.columns.iter().filter(|column| {
        named.contains(plan.snapshot.mapping.stored_name(column))
            && !plan.snapshot.is_partition_column(column)
    });
    held.filter_map(|column| as_stored(plan, metadata.schema(), column))
        .collect()
}

/// The row groups that may hold a row which satisfies the conditions on these columns.
fn groups(
    plan: &ScanPlan,
    add: &Add,
    asked: &[TableColumn],
    metadata: &ArrowReaderMetadata,
) -> VecDeque<usize> {
    let footer = metadata.metadata();
    let all = 0..footer.num_row_groups();
    if asked.is_empty() {
        return all.collect();
    }
    let columns: Vec<&TableColumn> = asked.iter().collect();
    let may_match = |group: &usize| {
        plan.filters.cover.may_match(&Add {
            partition_values: add.partition_values.clone(),
            stats: Some(row_group_stats_json(&columns, footer, *group)),
            ..Add::default()
        })
    };
    all.filter(may_match).collect()
}

/// A column under the name that conditions have, where the file has it under that name. Fields of a struct may have
/// other names where names are mapped.
fn as_stored(plan: &ScanPlan, file: &Schema, column: &TableColumn) -> Option<TableColumn> {
    let mapping = plan.snapshot.mapping;
    if mapping != Mapping::None && !column.kind.structs().is_empty() {
        return None;
    }
    let name = mapping.stored_name(column);
    // In a file whose columns are found by ids, another column may have the name.
    let is_alike = match mapping.place(file.fields(), column) {
        Some(place) => file.field(place).name() == name,
        None => mapping != Mapping::Id,
    };
    is_alike.then(|| TableColumn {
        name: name.to_owned(),
        ..column.clone()
    })
}

/// A column of one value, which `value` has.
pub(crate) fn repeated(value: &ArrayRef, rows: usize) -> Result<ArrayRef, ArrowError> {
    if value.is_null(0) {
        return Ok(new_null_array(value.data_type(), rows));
    }
    take(value, &UInt32Array::from_value(0, rows), None)
}

/// The words for what to do about a file that is not there.
pub(super) type Advice = fn(&Add) -> String;

/// The advice about a file that is in the version that is read.
pub(super) fn advice(add: &Add) -> String {
    format!(
        "the version that is read has this file, and it is not there: read a newer version, if a vacuum has removed it \
         since; else restore the file, or give its rows up with table.commit(removes=[{:?}])",
        add.path
    )
}

/// The error of a data file. Of one that is not there it gives the advice.
fn of_file(add: &Add, advice: Option<Advice>, error: ParquetError) -> TableError {
    match (table_error(&add.path, error), advice) {
        (TableError::Commit(CommitError::Store(missing)), Some(advice))
            if missing.kind == StoreErrorKind::NotFound =>
        {
            let message = format!("{}: {}", missing.message, advice(add));
            StoreError { message, ..missing }.into()
        }
        (error, _) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_numbers_are_whole_wherever_they_lie() {
        let ends: [u64; 4] = [1 << 16, 1 << 20, 1 << 32, (1 << 32) + (1 << 17)];
        let mut numbers = RoaringTreemap::new();
        for end in ends {
            numbers.insert_range(end - 10..end + 10);
        }
        numbers.insert((1 << 33) - 1);
        numbers.remove(1 << 16);
        numbers.remove(1 << 20);
        let first = (1 << 16) - 10;
        let expected = [
            0..10,
            11..20,
            (1 << 20) - 10 - first..(1 << 20) - first,
            (1 << 20) + 1 - first..(1 << 20) + 10 - first,
            (1 << 32) - 10 - first..(1 << 32) + 10 - first,
            (1 << 32) + (1 << 17) - 10 - first..(1 << 32) + (1 << 17) + 10 - first,
            (1 << 33) - 1 - first..(1 << 33) - first,
        ];
        assert_eq!(runs(&numbers, first as u64), expected);
        assert_eq!(runs(&RoaringTreemap::new(), 0), []);
    }
}
