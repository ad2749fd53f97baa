//! Builders of text and bytes.

use arrow_array::{ArrayRef, GenericBinaryArray, GenericStringArray, OffsetSizeTrait};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use std::sync::Arc;

use crate::error::Misfit;
use crate::large_values::{LARGE, LargeValues};
use crate::ndjson::scan;

/// The most bytes of a value. The rest of a Parquet page is left for lengths, levels and what compression may add.
pub const MOST_VALUE_BYTES: usize = (1 << 31) - (1 << 24);

/// Values of bytes, one after the other.
#[derive(Debug)]
pub struct Blob<O> {
    ends: Vec<O>,
    data: Vec<u8>,
    large: LargeValues,
}

impl<O: OffsetSizeTrait> Default for Blob<O> {
    fn default() -> Self {
        Self {
            ends: vec![O::zero()],
            data: Vec::new(),
            large: LargeValues::default(),
        }
    }
}

impl<O: OffsetSizeTrait> Blob<O> {
    /// Appends a value.
    ///
    /// # Errors
    /// When the column holds as many bytes as its offsets can count.
    #[inline]
    pub fn push(&mut self, value: &[u8]) -> Result<(), Misfit> {
        self.check_length(value.len())?;
        append(&mut self.data, value);
        self.end()
    }

    /// Checks that a value is not too long.
    #[inline]
    fn check_length(&self, length: usize) -> Result<(), Misfit> {
        if length > LARGE {
            return self.count_large(length);
        }
        Ok(())
    }

    fn count_large(&self, length: usize) -> Result<(), Misfit> {
        if length > MOST_VALUE_BYTES {
            return Err(much_too_long(length));
        }
        self.large.add(length);
        Ok(())
    }

    pub(crate) fn share(&mut self, large: &LargeValues) {
        self.large = large.clone();
    }

    /// Appends an empty value.
    #[inline]
    pub(crate) fn push_empty(&mut self) {
        let last = self.ends.len() - 1;
        self.ends.push(self.ends[last]);
    }

    /// Ends the value that was written to `data`.
    #[inline]
    fn end(&mut self) -> Result<(), Misfit> {
        let Some(end) = O::from_usize(self.data.len()).filter(|_| self.data.len() <= O::MAX_OFFSET) else {
            self.data.truncate(self.start(self.ends.len() - 1));
            return Err(too_long());
        };
        self.ends.push(end);
        Ok(())
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> &[u8] {
        &self.data[self.start(index)..self.start(index + 1)]
    }

    fn start(&self, index: usize) -> usize {
        self.ends[index].as_usize()
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        self.ends.truncate(len + 1);
        self.data.truncate(self.start(len));
    }

    pub(crate) fn bytes(&self) -> usize {
        self.data.len() + std::mem::size_of_val(self.ends.as_slice())
    }

    /// Takes the built values out. The next batch is expected to be as large.
    fn take(&mut self) -> (OffsetBuffer<O>, Buffer) {
        let mut ends = Vec::with_capacity(self.ends.len());
        ends.push(O::zero());
        let ends = std::mem::replace(&mut self.ends, ends);
        let data = std::mem::take(&mut self.data);
        self.data.reserve(data.len() + data.len() / 16);
        (
            OffsetBuffer::new(ScalarBuffer::from(ends)),
            Buffer::from_vec(data),
        )
    }

    pub(crate) fn finish(&mut self, nulls: Option<NullBuffer>) -> ArrayRef {
        let (ends, data) = self.take();
        Arc::new(GenericBinaryArray::<O>::new(ends, data, nulls))
    }
}

/// Appends bytes. A few bytes are copied as two overlapping copies of a fixed length, which need no call.
#[inline]
fn append(data: &mut Vec<u8>, value: &[u8]) {
    let end = data.len() + value.len();
    if let (Some(first), Some(last)) = (value.first_chunk::<16>(), value.last_chunk::<16>()) {
        if value.len() > 32 {
            data.extend_from_slice(value);
            return;
        }
        data.extend_from_slice(first);
        data.truncate(end - 16);
        data.extend_from_slice(last);
    } else if let (Some(first), Some(last)) = (value.first_chunk::<8>(), value.last_chunk::<8>()) {
        data.extend_from_slice(first);
        data.truncate(end - 8);
        data.extend_from_slice(last);
    } else if let (Some(first), Some(last)) = (value.first_chunk::<4>(), value.last_chunk::<4>()) {
        data.extend_from_slice(first);
        data.truncate(end - 4);
        data.extend_from_slice(last);
    } else {
        data.extend(value);
    }
}

#[cold]
fn much_too_long(length: usize) -> Misfit {
    Misfit::new(format!(
        "the value has {length} bytes, and {MOST_VALUE_BYTES} are the most: Parquet's pages end at 2147483647 bytes"
    ))
}

#[cold]
fn too_long() -> Misfit {
    Misfit::full(
        "the value does not fit into one batch: 2 GiB at most, or declare a large string or large binary"
            .into(),
    )
}

/// Values of text. All of it came from `str`s, whole values at a time.
#[derive(Debug)]
pub struct Text<O>(Blob<O>);

impl<O: OffsetSizeTrait> Default for Text<O> {
    fn default() -> Self {
        Self(Blob::default())
    }
}

impl<O: OffsetSizeTrait> Text<O> {
    /// Appends a value.
    ///
    /// # Errors
    /// As [`Blob::push`].
    #[inline]
    pub fn push(&mut self, value: &str) -> Result<(), Misfit> {
        self.0.push(value.as_bytes())
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> &[u8] {
        self.0.get(index)
    }

    /// Appends the JSON string that begins at `start`, behind its quote, if it has no escapes. Copies while it searches
    /// the end. Returns the position of the closing quote, or none with nothing appended.
    #[inline]
    pub(crate) fn push_json(&mut self, json: &str, start: usize) -> Result<Option<usize>, Misfit> {
        let bytes = json.as_bytes();
        // Text begins behind an ASCII byte and ends before one, so what is copied is whole characters.
        if start == 0 || bytes.get(start - 1) != Some(&b'"') {
            return Ok(None);
        }
        let before = self.0.data.len();
        let mut rest = bytes.get(start..).unwrap_or_default();
        while let Some((chunk, next)) = rest.split_first_chunk::<32>() {
            let mask = scan::special_32(chunk);
            self.0.data.extend_from_slice(chunk);
            if mask != 0 {
                let offset = mask.trailing_zeros() as usize;
                self.0.data.truncate(self.0.data.len() - 32 + offset);
                let end = start + self.0.data.len() - before;
                return self.end_json(bytes, end, before);
            }
            rest = next;
        }
        let length = rest.iter().take_while(|byte| !scan::is_special(**byte)).count();
        self.0.data.extend_from_slice(&rest[..length]);
        let end = start + self.0.data.len() - before;
        self.end_json(bytes, end, before)
    }

    #[inline]
    fn end_json(&mut self, bytes: &[u8], end: usize, before: usize) -> Result<Option<usize>, Misfit> {
        if bytes.get(end) == Some(&b'"') {
            let length = self.0.check_length(self.0.data.len() - before);
            if length.is_err() {
                self.0.data.truncate(before);
            }
            length.and_then(|()| self.0.end())?;
            return Ok(Some(end));
        }
        self.0.data.truncate(before);
        Ok(None)
    }

    #[inline]
    pub(crate) fn push_empty(&mut self) {
        self.0.push_empty();
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }

    pub(crate) fn share(&mut self, large: &LargeValues) {
        self.0.share(large);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes()
    }

    pub(crate) fn finish(&mut self, nulls: Option<NullBuffer>) -> ArrayRef {
        let (ends, data) = self.0.take();
        // SAFETY: offsets never fall and end at the data's; each value is a whole `str` (see `push`, `push_json`).
        // Looking again at every byte would cost a tenth of the time that NDJSON takes.
        #[expect(unsafe_code, reason = "the text was validated when it came in")]
        let array = unsafe { GenericStringArray::<O>::new_unchecked(ends, data, nulls) };
        Arc::new(array)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Zeros that are never written take no memory.
    #[test]
    fn values_that_no_page_holds_are_refused_before_they_are_copied() {
        let mut zeros = vec![0; MOST_VALUE_BYTES + 1];
        let mut blob = Blob::<i64>::default();
        let misfit = blob.push(&zeros).unwrap_err();
        assert!(!misfit.is_full(), "an empty batch would not help");
        assert!(misfit.message().contains("2130706433 bytes"));
        assert_eq!((blob.data.capacity(), blob.ends.len()), (0, 1));
        blob.push(b"after").unwrap();
        zeros.truncate(MOST_VALUE_BYTES);
        assert!(blob.check_length(zeros.len()).is_ok());
        let text = String::from_utf8(vec![0; MOST_VALUE_BYTES + 1]).unwrap();
        assert!(Text::<i32>::default().push(&text).is_err());
    }

    #[test]
    fn bytes_of_every_length_are_appended() {
        let value: Vec<u8> = (0..100).collect();
        for length in 0..value.len() {
            let mut data = vec![255; 3];
            append(&mut data, &value[..length]);
            assert_eq!(data[..3], [255; 3]);
            assert_eq!(data[3..], value[..length]);
        }
    }
}
