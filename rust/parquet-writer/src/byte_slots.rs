//! Text and bytes of every layout, accessed slot by slot.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    BinaryType, BinaryViewType, ByteArrayType, ByteViewType, LargeBinaryType, LargeUtf8Type, StringViewType,
    Utf8Type,
};
use arrow_array::{Array, ArrayRef, OffsetSizeTrait};
use arrow_buffer::Buffer;
use arrow_data::ByteView;
use arrow_schema::DataType;

/// More bytes than any array holds.
const MOST_BYTES: u64 = 1 << 40;

/// The slots of an array of text or bytes.
#[derive(Clone, Copy)]
pub(crate) enum ByteSlots<'a> {
    Offsets(&'a [i32], &'a [u8]),
    LargeOffsets(&'a [i64], &'a [u8]),
    Views(&'a [u128], &'a [Buffer]),
}

/// Evaluates an expression with a function that gives the bytes of some slots. It is compiled once for each layout,
/// since loops over slots must not ask for it anew.
macro_rules! each_layout {
    ($slots:expr, $bytes:ident => $body:expr) => {{
        use $crate::byte_slots::{ByteSlots, span, view_length};
        match $slots {
            ByteSlots::Offsets(offsets, _) => {
                let $bytes = |slots: std::ops::Range<usize>| span(offsets, slots);
                $body
            }
            ByteSlots::LargeOffsets(offsets, _) => {
                let $bytes = |slots: std::ops::Range<usize>| span(offsets, slots);
                $body
            }
            ByteSlots::Views(views, _) => {
                let $bytes = |slots: std::ops::Range<usize>| -> u64 {
                    views[slots].iter().map(|view| view_length(*view)).sum()
                };
                $body
            }
        }
    }};
}
pub(crate) use each_layout;

impl<'a> ByteSlots<'a> {
    /// The slots of text or bytes; `None` for other arrays.
    pub fn of(array: &'a ArrayRef) -> Option<Self> {
        fn small<T: ByteArrayType<Offset = i32>>(array: &ArrayRef) -> ByteSlots<'_> {
            let array = array.as_bytes::<T>();
            ByteSlots::Offsets(array.value_offsets(), array.value_data())
        }
        fn large<T: ByteArrayType<Offset = i64>>(array: &ArrayRef) -> ByteSlots<'_> {
            let array = array.as_bytes::<T>();
            ByteSlots::LargeOffsets(array.value_offsets(), array.value_data())
        }
        fn views<T: ByteViewType>(array: &ArrayRef) -> ByteSlots<'_> {
            let array = array.as_byte_view::<T>();
            ByteSlots::Views(array.views(), array.data_buffers())
        }
        Some(match array.data_type() {
            DataType::Utf8 => small::<Utf8Type>(array),
            DataType::Binary => small::<BinaryType>(array),
            DataType::LargeUtf8 => large::<LargeUtf8Type>(array),
            DataType::LargeBinary => large::<LargeBinaryType>(array),
            DataType::Utf8View => views::<StringViewType>(array),
            DataType::BinaryView => views::<BinaryViewType>(array),
            _ => return None,
        })
    }

    /// The bytes of some slots, what lies under nulls included.
    pub fn bytes(self, slots: Range<usize>) -> u64 {
        each_layout!(self, bytes => bytes(slots))
    }

    /// The bytes of a slot.
    pub fn length(self, slot: usize) -> u64 {
        self.bytes(slot..slot + 1)
    }
}

/// The bytes between two offsets. Those that break the rules are found when their rows are: until then they may say
/// anything but the impossible.
pub(crate) fn span<T: OffsetSizeTrait>(offsets: &[T], slots: Range<usize>) -> u64 {
    let (start, end) = (offsets[slots.start].as_usize(), offsets[slots.end].as_usize());
    (end.wrapping_sub(start) as u64).min(MOST_BYTES)
}

/// The length of a view's value.
pub(crate) fn view_length(view: u128) -> u64 {
    ByteView::from(view).length.into()
}
