//! A file that is read back before it appears: what was written passes at every level, and any other byte does not.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use parquet_writer::sink::{ReadBack, Sink};
use parquet_writer::{Batch, EncodingRule, FileWriter, OptionInput, WriteError, WriterOptions};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::chunking::{batch, options, row};
use crate::common::written;

const LEVELS: [&str; 3] = ["footer", "pages", "values"];

type Change = Arc<dyn Fn(&mut Vec<u8>) + Send + Sync>;

/// A file in memory, of which something else is read back.
struct Changed {
    bytes: Arc<Mutex<Vec<u8>>>,
    change: Change,
    is_published: Arc<Mutex<bool>>,
}

impl Write for Changed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Content(bytes::Bytes);

impl ReadBack for Content {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&self, start: u64, length: usize) -> io::Result<bytes::Bytes> {
        let start = usize::try_from(start).unwrap();
        if start + length > self.0.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(self.0.slice(start..start + length))
    }
}

impl Sink for Changed {
    fn commit(&mut self) -> io::Result<()> {
        *self.is_published.lock().unwrap() = true;
        Ok(())
    }

    fn discard(&mut self) {
        self.bytes.lock().unwrap().clear();
    }

    fn unreadable(&self) -> Option<&'static str> {
        None
    }

    fn read_back(&mut self) -> io::Result<Arc<dyn ReadBack>> {
        let mut bytes = self.bytes.lock().unwrap().clone();
        (self.change)(&mut bytes);
        Ok(Arc::new(Content(bytes.into())))
    }
}

fn level(options: &OptionInput, verify: &str) -> OptionInput {
    OptionInput {
        verify: Some(verify.into()),
        ..options.clone()
    }
}

/// The file that is published, or the error that says why none is.
fn published(
    batch: &RecordBatch,
    cuts: &[usize],
    options: OptionInput,
    change: impl Fn(&mut Vec<u8>) + Send + Sync + 'static,
) -> Result<Vec<u8>, WriteError> {
    let (bytes, is_published) = (Arc::<Mutex<Vec<u8>>>::default(), Arc::<Mutex<bool>>::default());
    let sink = Changed {
        bytes: Arc::clone(&bytes),
        change: Arc::new(change),
        is_published: Arc::clone(&is_published),
    };
    let options = WriterOptions::new(options).unwrap();
    let mut writer = FileWriter::new(Box::new(sink), Some(batch.schema()), options).unwrap();
    let mut start = 0;
    for end in cuts.iter().copied().chain([batch.num_rows()]) {
        let part = Batch::from(batch.slice(start, end - start));
        writer.write(&part, &mut || true).unwrap();
        start = end;
    }
    let closed = writer.close(&mut || true);
    assert_eq!(*is_published.lock().unwrap(), closed.is_ok());
    let bytes = bytes.lock().unwrap().clone();
    assert_eq!(bytes.is_empty(), closed.is_err());
    closed.map(|()| bytes)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.div_ceil(6), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_written_passes_and_is_the_same_file(
        rows in vec(row(), 0..60),
        times in 1..60_usize,
        cuts in vec(any::<prop::sample::Index>(), 0..4),
        verify in prop::sample::select(&LEVELS[..]),
        options in options(),
    ) {
        let rows: Vec<_> = std::iter::repeat_n(rows, times).flatten().collect();
        let batch = batch(&rows);
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(rows.len() + 1)).collect();
        cuts.sort_unstable();
        let verified = published(&batch, &cuts, level(&options, verify), |_| ()).unwrap();
        let with_checksums = OptionInput { page_checksums: true, ..options };
        prop_assert_eq!(verified, written(&batch, &[], &with_checksums));
    }

    #[test]
    fn no_changed_byte_is_published(
        rows in vec(row(), 1..60),
        times in 1..20_usize,
        at in any::<prop::sample::Index>(),
        bit in 0..8_u8,
        ends in any::<bool>(),
        verify in prop::sample::select(&LEVELS[..]),
        options in options(),
    ) {
        let rows: Vec<_> = std::iter::repeat_n(rows, times).flatten().collect();
        let batch = batch(&rows);
        let whole = published(&batch, &[], level(&options, verify), |_| ()).unwrap();
        let length = u32::from_le_bytes(whole[whole.len() - 8..][..4].try_into().unwrap());
        let footer = whole.len() - 8 - usize::try_from(length).unwrap();
        // The footer level reads no page.
        let place = match verify {
            "footer" => footer + at.index(whole.len() - footer),
            _ => at.index(whole.len()),
        };
        let outcome = published(&batch, &[], level(&options, verify), move |bytes| {
            if ends { bytes.truncate(place) } else { bytes[place] ^= 1 << bit }
        });
        prop_assert!(matches!(outcome, Err(WriteError::Corrupt(_))), "{place} of {}: {outcome:?}", whole.len());
    }
}

fn numbers(values: Vec<i64>) -> RecordBatch {
    let column: ArrayRef = Arc::new(Int64Array::from(values));
    RecordBatch::try_from_iter([("number", column)]).unwrap()
}

#[test]
fn a_good_file_with_its_rows_in_another_order_is_found_by_its_values() {
    let options = |verify: &str| OptionInput {
        encoding: EncodingRule::All("plain".into()),
        verify: Some(verify.into()),
        row_group_rows: 4,
        ..OptionInput::default()
    };
    let ours = numbers(vec![0, 1, 2, 9, 3, 4, 5, 9, 6, 7, 8, 9]);
    let theirs = numbers(vec![0, 1, 2, 9, 3, 5, 4, 9, 6, 7, 8, 9]);
    // Footers are equal: bounds and sizes are, and each page's checksum is of the page that is there.
    let other = published(&theirs, &[], options("footer"), |_| ()).unwrap();
    let exchanged = move |bytes: &mut Vec<u8>| bytes.clone_from(&other);
    assert!(published(&ours, &[], options("footer"), exchanged.clone()).is_ok());
    assert!(published(&ours, &[], options("pages"), exchanged.clone()).is_err());
    let found = published(&ours, &[], options("values"), exchanged).unwrap_err();
    assert!(
        found.to_string().contains("column \"number\", row group 1"),
        "{found}"
    );
}

#[test]
fn what_cannot_be_read_back_is_refused_before_a_row_is_taken() {
    for verify in LEVELS {
        let input = level(&OptionInput::default(), verify);
        let sink = parquet_writer::sink::StreamSink::new(Box::new(Vec::new()));
        let options = WriterOptions::new(input).unwrap();
        let refused = FileWriter::new(Box::new(sink), None, options).err().unwrap();
        assert!(matches!(refused, WriteError::Option(fault) if fault.option.as_deref() == Some("verify")));
    }
}
