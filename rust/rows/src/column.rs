//! One column under construction.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_schema::{ArrowError, Field, FieldRef};

use crate::error::{Misfit, UnsupportedColumn};
use crate::large_values::LargeValues;
use crate::plain::plain_field;
use crate::values::Values;

/// The builder of one column, at the top level of a row or nested.
#[derive(Debug)]
pub struct ColumnBuilder {
    /// The values, for callers that know their type; see [`Self::count`].
    pub values: Values,
    len: usize,
    /// Validity up to the last null. All later values are valid, so a column without nulls has no cost.
    valid: Vec<bool>,
    field: FieldRef,
    /// True if the type was inferred from rows, so that none is converted to it.
    pub(crate) is_inferred: bool,
}

impl ColumnBuilder {
    /// An empty column.
    ///
    /// # Errors
    /// When its type cannot be built from cells.
    pub fn new(path: &str, field: &FieldRef) -> Result<Self, UnsupportedColumn> {
        let field = plain_field(field);
        Ok(Self {
            values: Values::new(path, field.data_type())?,
            len: 0,
            valid: Vec::new(),
            field,
            is_inferred: false,
        })
    }

    /// Stops converting values: the type was inferred from others. The keys of maps are text whatever they are.
    pub(crate) fn infer(&mut self) {
        self.is_inferred = true;
        match &mut self.values {
            Values::List(list) => list.items.infer(),
            Values::LargeList(list) => list.items.infer(),
            Values::FixedList(list) => list.items.infer(),
            Values::Struct(fields) => fields.columns.iter_mut().for_each(Self::infer),
            Values::Map(map) => map.values.infer(),
            _ => {}
        }
    }

    /// The column's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.field.name()
    }

    /// The field in the form that is built.
    #[must_use]
    pub fn field(&self) -> FieldRef {
        Arc::clone(&self.field)
    }

    /// Cells in the column.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no cells.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns true if the cell is not null.
    pub(crate) fn is_valid(&self, at: usize) -> bool {
        self.valid.get(at).copied().unwrap_or(true)
    }

    /// Counts one value that was appended to [`Self::values`].
    #[inline]
    pub fn count(&mut self) {
        self.len += 1;
    }

    /// Appends a null.
    ///
    /// # Errors
    /// When the field is not nullable.
    #[inline]
    pub fn push_null(&mut self) -> Result<(), Misfit> {
        if !self.field.is_nullable() {
            return Err(Misfit::new("null in a field that is not nullable"));
        }
        self.push_filler();
        Ok(())
    }

    /// Appends a null under a null parent, where it is not visible.
    #[inline]
    pub(crate) fn push_filler(&mut self) {
        self.valid.resize(self.len, true);
        self.valid.push(false);
        self.values.push_filler();
        self.len += 1;
    }

    pub(crate) fn forget_tokens(&mut self) {
        match &mut self.values {
            Values::List(list) => list.items.forget_tokens(),
            Values::LargeList(list) => list.items.forget_tokens(),
            Values::FixedList(list) => list.items.forget_tokens(),
            Values::Struct(fields) => fields.forget_tokens(),
            Values::Map(map) => {
                map.keys.forget_tokens();
                map.values.forget_tokens();
            }
            _ => {}
        }
    }

    /// Counts large values in `large`, which other columns share.
    pub(crate) fn share(&mut self, large: &LargeValues) {
        match &mut self.values {
            Values::Text(text) => text.share(large),
            Values::LargeText(text) => text.share(large),
            Values::Binary(blob) => blob.share(large),
            Values::LargeBinary(blob) => blob.share(large),
            Values::List(list) => list.share(large),
            Values::LargeList(list) => list.share(large),
            Values::FixedList(list) => list.items.share(large),
            Values::Struct(fields) => fields.columns.iter_mut().for_each(|column| column.share(large)),
            Values::Map(map) => map.share(large),
            _ => {}
        }
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = len;
        self.valid.truncate(len);
        self.values.truncate(len);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.values.bytes() + self.valid.len()
    }

    pub(crate) fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let len = std::mem::take(&mut self.len);
        let nulls = self.take_nulls(len);
        let field: &Field = &self.field;
        self.values.finish(field, len, nulls)
    }

    fn take_nulls(&mut self, len: usize) -> Option<NullBuffer> {
        if self.valid.is_empty() {
            return None;
        }
        self.valid.resize(len, true);
        let nulls = NullBuffer::new(packed(&self.valid));
        self.valid.clear();
        (nulls.null_count() > 0).then_some(nulls)
    }
}

/// Flags as a bitmap, eight at a time.
pub(crate) fn packed(flags: &[bool]) -> BooleanBuffer {
    let mut bytes = Vec::with_capacity(flags.len().div_ceil(8));
    let (eights, rest) = flags.as_chunks::<8>();
    // The product brings the lowest bit of each byte to a bit of its own in the top byte.
    let pack = |eight: [bool; 8]| {
        let spread = u64::from_le_bytes(eight.map(u8::from)).wrapping_mul(0x0102_0408_1020_4080);
        spread.to_le_bytes()[7]
    };
    bytes.extend(eights.iter().map(|eight| pack(*eight)));
    if !rest.is_empty() {
        let mut last = [false; 8];
        last[..rest.len()].copy_from_slice(rest);
        bytes.push(pack(last));
    }
    BooleanBuffer::new(Buffer::from_vec(bytes), 0, flags.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_bitmap_has_the_flags(flags in prop::collection::vec(any::<bool>(), 0..40)) {
            prop_assert_eq!(packed(&flags), BooleanBuffer::from(flags));
        }
    }
}
