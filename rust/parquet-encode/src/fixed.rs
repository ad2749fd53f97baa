//! Values of a fixed width that Parquet stores as their little-endian bytes.

#[cfg(target_endian = "big")]
compile_error!("values are stored as they lie in memory, which is right on little-endian targets only");

mod sealed {
    pub trait Sealed {}
}

/// A plain value: no padding, every bit pattern valid, little-endian in memory.
pub trait Fixed: Copy + sealed::Sealed + Send + Sync + 'static {
    /// A value of zero bits.
    const ZERO: Self;
}

macro_rules! fixed {
    ($($ty:ty = $zero:expr),+) => {$(
        impl sealed::Sealed for $ty {}
        impl Fixed for $ty {
            const ZERO: Self = $zero;
        }
    )+};
}
fixed!(
    u8 = 0,
    i8 = 0,
    u16 = 0,
    i16 = 0,
    u32 = 0,
    i32 = 0,
    u64 = 0,
    i64 = 0,
    u128 = 0,
    i128 = 0,
    f32 = 0.0,
    f64 = 0.0
);

impl<const N: usize> sealed::Sealed for [u8; N] {}
impl<const N: usize> Fixed for [u8; N] {
    const ZERO: Self = [0; N];
}

/// The values as they lie in memory.
#[inline]
pub fn as_bytes<T: Fixed>(values: &[T]) -> &[u8] {
    #[expect(
        unsafe_code,
        reason = "a checked copy, value by value, took three times as long as this one"
    )]
    // SAFETY: `Fixed` is sealed; its types have no padding, so all `size_of_val` bytes are initialised; the lifetime
    // and the memory are those of `values`, and bytes need no alignment.
    unsafe {
        std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values))
    }
}
