//! The columns of a checkpoint that is written, and the batches of them.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, StructArray};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, SchemaRef};
use delta_commit::actions::Action;

use crate::error::{Result, TableError};
use crate::snapshot::Snapshot;

use super::ADD;
use super::actions::Actions;
use super::foreign_fields::ForeignFields;
use super::parsed::{Forms, Parsed};

/// The column of statistics as text.
const JSON_STATS: &str = "stats";

/// The columns of a checkpoint.
pub(super) struct CheckpointLayout {
    /// The columns that hold an action's JSON.
    pub plain: SchemaRef,
    /// The columns that repeat statistics and partition values in types of their own.
    pub parsed: Option<Parsed>,
    /// Both.
    pub whole: SchemaRef,
}

impl CheckpointLayout {
    /// Those of actions that are repeated in no other types.
    #[cfg(any(test, fuzzing))]
    pub fn plain(actions: &[Action]) -> Result<Self> {
        let forms = Forms {
            json: true,
            parsed: false,
        };
        let (mut others, mut adds, mut removes) = (Vec::new(), Vec::new(), Vec::new());
        for action in actions {
            match action {
                Action::Add(add) => adds.push(add),
                Action::Remove(remove) => removes.push(remove),
                other => others.push(other.clone()),
            }
        }
        let plain = schema(forms, &ForeignFields::of(&others, &adds, &removes)?);
        Ok(Self {
            whole: Arc::clone(&plain),
            plain,
            parsed: None,
        })
    }

    pub fn of(snapshot: &Snapshot, actions: &Actions<'_>) -> Result<Self> {
        let forms = Forms::of(snapshot);
        let plain = schema(forms, &actions.foreign_fields()?);
        let parsed = forms.parsed.then(|| Parsed::of(snapshot)).transpose()?;
        let more = parsed.as_ref().map(Parsed::fields).unwrap_or_default();
        let fields = plain.fields().iter().map(|field| match field.data_type() {
            DataType::Struct(columns) if field.name() == ADD => {
                let columns = columns.iter().cloned().chain(more.iter().cloned().map(Arc::new));
                let columns = DataType::Struct(columns.collect());
                Arc::new(field.as_ref().clone().with_data_type(columns))
            }
            _ => Arc::clone(field),
        });
        Ok(Self {
            whole: Arc::new(Schema::new(fields.collect::<Fields>())),
            plain,
            parsed,
        })
    }

    pub fn batch(&self, actions: &[Action]) -> Result<Option<RecordBatch>> {
        let unwritable =
            |e: ArrowError| TableError::Malformed(format!("the checkpoint cannot be written: {e}"));
        let Some(batch) = plain_batch(&self.plain, actions).map_err(unwritable)? else {
            return Ok(None);
        };
        let Some(parsed) = &self.parsed else {
            return Ok(Some(batch));
        };
        let adds = actions.iter().map(|action| match action {
            Action::Add(add) => Some(add),
            _ => None,
        });
        let more = parsed.columns(&adds.collect::<Vec<_>>())?;
        let columns = batch.schema_ref().fields().iter().zip(batch.columns());
        let columns = columns.map(|(field, column)| match column.as_struct_opt() {
            Some(add) if field.name() == ADD => with_columns(add, &parsed.fields(), &more),
            _ => Ok(Arc::clone(column)),
        });
        let columns = columns.collect::<Result<Vec<_>, _>>().map_err(unwritable)?;
        RecordBatch::try_new(Arc::clone(&self.whole), columns)
            .map(Some)
            .map_err(unwritable)
    }
}

/// A struct with more columns.
fn with_columns(group: &StructArray, fields: &[Field], columns: &[ArrayRef]) -> Result<ArrayRef, ArrowError> {
    let fields = group
        .fields()
        .iter()
        .cloned()
        .chain(fields.iter().cloned().map(Arc::new));
    let columns = group.columns().iter().chain(columns).cloned();
    let whole = StructArray::try_new(fields.collect(), columns.collect(), group.nulls().cloned())?;
    Ok(Arc::new(whole))
}

fn plain_batch(schema: &SchemaRef, actions: &[Action]) -> Result<Option<RecordBatch>, ArrowError> {
    let mut decoder = arrow_json::ReaderBuilder::new(Arc::clone(schema))
        .with_batch_size(actions.len())
        .build_decoder()?;
    decoder.serialize(actions)?;
    decoder.flush()
}

fn text(name: &str) -> Field {
    Field::new(name, DataType::Utf8, true)
}

fn long(name: &str) -> Field {
    Field::new(name, DataType::Int64, true)
}

fn int(name: &str) -> Field {
    Field::new(name, DataType::Int32, true)
}

fn flag(name: &str) -> Field {
    Field::new(name, DataType::Boolean, true)
}

fn texts(name: &str) -> Field {
    Field::new(name, DataType::List(Arc::new(text("element"))), true)
}

fn mapping(name: &str) -> Field {
    let entries = Fields::from(vec![Field::new("key", DataType::Utf8, false), text("value")]);
    let entries = Field::new("key_value", DataType::Struct(entries), false);
    Field::new(name, DataType::Map(Arc::new(entries), false), true)
}

fn group(name: &str, fields: Vec<Field>) -> Field {
    Field::new(name, DataType::Struct(fields.into()), true)
}

fn vector(unknown: Vec<Field>) -> Field {
    let mut fields = vec![
        text("storageType"),
        text("pathOrInlineDv"),
        int("offset"),
        int("sizeInBytes"),
        long("cardinality"),
    ];
    fields.extend(unknown);
    group("deletionVector", fields)
}

/// The columns of known actions, and those of fields that only other writers know.
fn schema(forms: Forms, foreign: &ForeignFields) -> SchemaRef {
    let add = vec![
        text("path"),
        mapping("partitionValues"),
        long("size"),
        long("modificationTime"),
        flag("dataChange"),
        text(JSON_STATS),
        mapping("tags"),
        vector(foreign.columns("add.deletionVector")),
        long("baseRowId"),
        long("defaultRowCommitVersion"),
        text("clusteringProvider"),
    ];
    let remove = vec![
        text("path"),
        long("deletionTimestamp"),
        flag("dataChange"),
        flag("extendedFileMetadata"),
        mapping("partitionValues"),
        long("size"),
        vector(foreign.columns("remove.deletionVector")),
        long("baseRowId"),
        long("defaultRowCommitVersion"),
    ];
    let format = vec![text("provider"), mapping("options")];
    let format = [format, foreign.columns("metaData.format")].concat();
    let metadata = vec![
        text("id"),
        text("name"),
        text("description"),
        group("format", format),
        text("schemaString"),
        texts("partitionColumns"),
        mapping("configuration"),
        long("createdTime"),
    ];
    let protocol = vec![
        int("minReaderVersion"),
        int("minWriterVersion"),
        texts("readerFeatures"),
        texts("writerFeatures"),
    ];
    let domain = vec![text("domain"), text("configuration"), flag("removed")];
    let txn = vec![text("appId"), long("version"), long("lastUpdated")];
    let groups = [
        ("txn", txn),
        (ADD, add),
        ("remove", remove),
        ("metaData", metadata),
        ("protocol", protocol),
        ("domainMetadata", domain),
    ];
    let groups = groups.map(|(name, mut fields)| {
        fields.retain(|field| forms.json || field.name() != JSON_STATS);
        fields.extend(foreign.columns(name));
        group(name, fields)
    });
    Arc::new(Schema::new(groups.to_vec()))
}
