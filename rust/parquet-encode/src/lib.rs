//! Slices in, Parquet page bytes out.
//!
//! Every encoder appends to a buffer of the caller's, so that one buffer serves a whole column chunk and steady state
//! allocates nothing. There is no Arrow here, no I/O, no thread and no compression. Equal input gives equal bytes on
//! every machine: hash seeds are fixed, and what the processor offers changes only the time.
//!
//! A flat column's page takes three steps. The levels come from the validity bitmap ([`levels::encode_validity`]); the
//! values without the slots of nulls from [`compact`]; and their bytes from one of the encodings. A column with a
//! dictionary turns values to indices first ([`dictionary`]), and each page writes its share of them
//! ([`rle::encode_indices_in`]). [`stats`] tells the range of the values or of the dictionary's entries, and
//! [`page_header`] writes what stands before the page.
//!
//! ```
//! use parquet_encode::{bitmap::Bitmap, compact::compact, delta};
//! use parquet_encode::levels::encode_validity;
//! use parquet_encode::page_header::{PageContent, Encoding, PageHeader};
//!
//! // Three rows: 5, null (whatever lies in its slot), 7.
//! let (values, validity) = ([5i64, -999, 7], [0b101u8]);
//! let validity = Bitmap::new(&validity, 0, 3).ok_or("too few bits")?;
//! let (mut body, mut dense, mut file) = (Vec::new(), Vec::new(), Vec::new());
//!
//! encode_validity(&validity, &mut body);
//! compact(&values, &validity, &mut dense);
//! delta::encode(&dense, &mut body);
//!
//! let content = PageContent::Data { values: 3, encoding: Encoding::DeltaBinaryPacked };
//! PageHeader { uncompressed_size: body.len(), compressed_size: body.len(), crc: None, content }.write(&mut file)?;
//! file.extend_from_slice(&body);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "encoders take numbers apart; sizes are bounded by the page, which ends at 2 GiB"
)]
#![allow(
    clippy::inline_always,
    reason = "kernels are inlined into variants for what the processor offers"
)]

pub mod bitmap;
pub mod bitpack;
pub mod bloom;
pub mod byte_arrays;
pub mod byte_stream_split;
pub mod compact;
mod cpu;
pub mod delta;
pub mod delta_bytes;
pub mod dictionary;
pub mod fixed;
pub mod levels;
pub mod page_header;
pub mod plain;
pub mod rle;
mod sink;
pub mod sound;
pub mod stats;
mod thrift;

#[cfg(test)]
mod tests;
