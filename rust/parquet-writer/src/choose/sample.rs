//! What a sample of each leaf column costs in a given encoding.

use std::sync::Arc;

use arrow_array::ArrayRef;
use parquet::basic::{Compression, Encoding, PageType};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;

use super::Choice;
use crate::column::{self, EncodedChunk};
use crate::error::Result;
use crate::options::WriterOptions;
use crate::pages::{Pages, Press, Shelf};
use crate::schema::FileSchema;

/// The cost of one leaf column's sample.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    /// Values that are not null.
    pub values: usize,
    /// Compressed bytes of its data pages.
    pub data: usize,
    /// Bytes of its dictionary page as it is, and compressed.
    pub dictionary: usize,
    pub dictionary_compressed: usize,
    /// Entries of its dictionary; 0 when it has none or it grew too large.
    pub distinct: usize,
}

/// Encodes samples and weighs what comes out.
pub(super) struct Scale<'a> {
    schema: &'a FileSchema,
    options: WriterOptions,
    pages: Arc<Pages>,
}

impl<'a> Scale<'a> {
    pub fn new(schema: &'a FileSchema, options: &WriterOptions) -> Result<Self> {
        let pages = Arc::new(Pages::new(Shelf::new(None), Press::for_samples(options.compression)?));
        let options = WriterOptions { compression: Compression::UNCOMPRESSED, ..options.clone() };
        Ok(Self { schema, options, pages })
    }

    /// The costs of the leaves that have a choice; `None` for the others.
    pub fn weigh(&self, columns: &[ArrayRef], choices: &[Option<Choice>]) -> Result<Vec<Option<Cost>>> {
        let mut costs = Vec::with_capacity(choices.len());
        let fields = self.schema.encoded.fields();
        for ((mut encoder, column), field) in self.encoders(choices)?.into_iter().zip(columns).zip(fields) {
            let leaves = column::leaf_count(field.data_type());
            if choices[costs.len()..costs.len() + leaves].iter().all(Option::is_none) {
                costs.extend(std::iter::repeat_n(None, leaves));
                continue;
            }
            encoder.write(column)?;
            encoder.close(&mut |chunk| {
                costs.push(choices[costs.len()].map(|_| cost(&chunk)));
                Ok(())
            })?;
        }
        Ok(costs)
    }

    fn encoders(&self, choices: &[Option<Choice>]) -> Result<Vec<Box<dyn column::FieldEncoder>>> {
        let plain = Choice { dictionary: false, encoding: Encoding::PLAIN };
        let choices: Vec<_> = choices.iter().map(|choice| choice.unwrap_or(plain)).collect();
        let parquet = &self.schema.parquet;
        let properties = super::properties(&self.options, parquet, &choices);
        let sizes = (Compression::UNCOMPRESSED, self.options.page_bytes);
        column::encoders(&self.schema.encoded, parquet.root_schema_ptr(), properties, &self.pages, sizes)
    }
}

fn cost(chunk: &EncodedChunk) -> Cost {
    let (metadata, sizes) = (&chunk.close.metadata, chunk.pages.sizes());
    let nulls = metadata.statistics().and_then(Statistics::null_count_opt).unwrap_or(0);
    let values = u64::try_from(metadata.num_values()).unwrap_or(0).saturating_sub(nulls);
    Cost {
        values: usize::try_from(values).unwrap_or(usize::MAX),
        data: sizes.data,
        dictionary: sizes.dictionary_uncompressed,
        dictionary_compressed: sizes.dictionary,
        distinct: if fell_back(metadata) { 0 } else { sizes.dictionary_entries },
    }
}

/// Whether a dictionary was given up half-way.
pub(super) fn fell_back(chunk: &ColumnChunkMetaData) -> bool {
    let dictionary = |encoding| matches!(encoding, Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY);
    chunk.dictionary_page_offset().is_some()
        && chunk
            .page_encoding_stats()
            .into_iter()
            .flatten()
            .any(|stats| stats.page_type != PageType::DICTIONARY_PAGE && !dictionary(stats.encoding))
}
