//! Samples of leaf columns in a given encoding, and their weights.

use std::sync::Arc;

use arrow_array::ArrayRef;
use parquet::basic::{Compression, Encoding, PageType};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;

use super::Choice;
use crate::budget::Budget;
use crate::column::{self, EncodedChunk};
use crate::error::Result;
use crate::options::WriterOptions;
use crate::pages::{ChunkPages, Compressor, PageStore, Pages};
use crate::schema::FileSchema;

/// One leaf column's sample, encoded.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    leaf: usize,
    /// Values that are not null.
    pub values: usize,
    /// Entries of its dictionary; 0 when it has none or it grew too large.
    pub distinct: usize,
    /// Bytes of its dictionary page before compression.
    pub dictionary: usize,
    pages: ChunkPages,
}

impl Sample {
    /// Returns true if it has a dictionary with fewer entries than there are values.
    pub fn repeats(&self) -> bool {
        (1..self.values).contains(&self.distinct)
    }
}

/// Encodes samples and weighs the results.
pub(super) struct Scale<'a> {
    schema: &'a FileSchema,
    options: &'a WriterOptions,
    pages: Arc<Pages>,
    /// The codec of each leaf for samples, which stands in for the real one.
    codecs: Vec<Compression>,
}

impl<'a> Scale<'a> {
    pub fn new(schema: &'a FileSchema, options: &'a WriterOptions) -> Result<Self> {
        let codecs = super::codecs(&schema.parquet, &options.compression)?;
        let codecs: Vec<_> = codecs
            .into_iter()
            .map(Compressor::codec_for_samples)
            .collect::<Result<_>>()?;
        let store = PageStore::new(None, Budget::UNLIMITED);
        let pages = Arc::new(Pages::new(store, vec![Compression::UNCOMPRESSED; codecs.len()]));
        Ok(Self {
            schema,
            options,
            pages,
            codecs,
        })
    }

    /// Weighs a sample's data pages and its dictionary page.
    pub fn weigh(&self, sample: &Sample) -> Result<(usize, usize)> {
        let codec = self.codecs[sample.leaf];
        Compressor::with(codec, |compressor| sample.pages.weight(compressor))
    }

    /// The samples of the leaves that have a choice, encoded as it says; `None` for the others.
    pub fn encode(&self, columns: &[ArrayRef], choices: &[Option<Choice>]) -> Result<Vec<Option<Sample>>> {
        let mut samples = Vec::with_capacity(choices.len());
        for (index, (field, column)) in self.schema.encoded.fields().iter().zip(columns).enumerate() {
            let start = samples.len();
            let leaves = column::leaf_count(field.data_type());
            let choices = &choices[start..start + leaves];
            if choices.iter().all(Option::is_none) {
                samples.extend(std::iter::repeat_n(None, leaves));
                continue;
            }
            let mut encoder = self.encoder(index, start, choices);
            encoder.write(column)?;
            encoder.close(&mut |chunk| {
                let leaf = samples.len();
                samples.push(choices[leaf - start].map(|_| sample(leaf, chunk)));
                Ok(())
            })?;
        }
        Ok(samples)
    }

    fn encoder(
        &self,
        field: usize,
        first_leaf: usize,
        choices: &[Option<Choice>],
    ) -> Box<dyn column::FieldEncoder> {
        let plain = Choice::new(false, Encoding::PLAIN);
        let choices: Vec<_> = choices.iter().map(|choice| choice.unwrap_or(plain)).collect();
        column::encoder(
            self.schema,
            (field, first_leaf),
            &choices,
            &mut std::iter::empty(),
            &self.pages,
            self.options,
        )
    }
}

fn sample(leaf: usize, EncodedChunk { close, pages, .. }: EncodedChunk) -> Sample {
    let metadata = &close.metadata;
    let nulls = metadata
        .statistics()
        .and_then(Statistics::null_count_opt)
        .unwrap_or(0);
    let values = u64::try_from(metadata.num_values())
        .unwrap_or(0)
        .saturating_sub(nulls);
    let (entries, dictionary) = pages.dictionary();
    Sample {
        leaf,
        values: usize::try_from(values).unwrap_or(usize::MAX),
        distinct: if fell_back(metadata) { 0 } else { entries },
        dictionary,
        pages,
    }
}

/// Returns true if a dictionary was given up half-way.
pub(super) fn fell_back(chunk: &ColumnChunkMetaData) -> bool {
    let dictionary = |encoding| matches!(encoding, Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY);
    chunk.dictionary_page_offset().is_some()
        && chunk
            .page_encoding_stats()
            .into_iter()
            .flatten()
            .any(|stats| stats.page_type != PageType::DICTIONARY_PAGE && !dictionary(stats.encoding))
}
