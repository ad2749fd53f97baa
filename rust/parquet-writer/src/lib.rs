//! Arrow batches in, a Parquet file out.
