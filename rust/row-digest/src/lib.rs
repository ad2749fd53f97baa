//! Order-independent digests of Arrow columns and whole rows.
