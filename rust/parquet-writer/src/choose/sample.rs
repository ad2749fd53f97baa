//! Samples of leaf columns, encoded with a dictionary: what each asks for of a limited memory.

use std::sync::Arc;

use arrow_array::ArrayRef;
use parquet::basic::{Compression, Encoding, PageType};
use parquet::file::metadata::ColumnChunkMetaData;

use super::Choice;
use crate::budget::Budget;
use crate::column::{self, EncodedChunk};
use crate::error::Result;
use crate::options::WriterOptions;
use crate::pages::{PageStore, Pages};
use crate::schema::{self, FileSchema};

/// The dictionary of one leaf column's sample.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    /// Entries; 0 when it grew too large.
    pub distinct: usize,
    /// Bytes of its page before compression.
    pub dictionary: usize,
}

/// Encodes samples.
pub(super) struct Samples<'a> {
    schema: &'a FileSchema,
    options: &'a WriterOptions,
    pages: Arc<Pages>,
}

impl<'a> Samples<'a> {
    pub fn new(schema: &'a FileSchema, options: &'a WriterOptions) -> Self {
        let store = PageStore::new(None, Budget::UNLIMITED);
        let codecs = vec![Compression::UNCOMPRESSED; schema.parquet.num_columns()];
        Self {
            schema,
            options,
            pages: Arc::new(Pages::new(store, codecs).with_window(options.budget.window)),
        }
    }

    /// The samples of the leaves that have a choice, encoded as it says; `None` for the others.
    pub fn encode(&self, columns: &[ArrayRef], choices: &[Option<Choice>]) -> Result<Vec<Option<Sample>>> {
        let mut samples = Vec::with_capacity(choices.len());
        for (index, (field, column)) in self.schema.encoded.fields().iter().zip(columns).enumerate() {
            let start = samples.len();
            let leaves = schema::leaves(field.data_type());
            let choices = &choices[start..start + leaves];
            if choices.iter().all(Option::is_none) {
                samples.extend(std::iter::repeat_n(None, leaves));
                continue;
            }
            let mut encoder = self.encoder(index, start, choices);
            encoder.write(column)?;
            encoder.close(&mut |chunk| {
                let choice = choices[samples.len() - start];
                samples.push(choice.map(|_| sample(&chunk)));
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

fn sample(EncodedChunk { close, pages, .. }: &EncodedChunk) -> Sample {
    let (entries, dictionary) = pages.dictionary();
    Sample {
        distinct: if fell_back(&close.metadata) { 0 } else { entries },
        dictionary,
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
