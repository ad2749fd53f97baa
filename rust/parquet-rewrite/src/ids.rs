//! The ids of the fields in the structs of `parquet.thrift` that a copy changes.

/// `FileMetaData`.
pub(crate) mod file {
    pub const VERSION: i16 = 1;
    pub const SCHEMA: i16 = 2;
    pub const NUM_ROWS: i16 = 3;
    pub const ROW_GROUPS: i16 = 4;
    pub const KEY_VALUE_METADATA: i16 = 5;
    pub const CREATED_BY: i16 = 6;
    pub const COLUMN_ORDERS: i16 = 7;
    pub const ENCRYPTION_ALGORITHM: i16 = 8;
}

/// `KeyValue`.
pub(crate) mod pair {
    pub const KEY: i16 = 1;
    pub const VALUE: i16 = 2;
}

/// `SourceRowGroup`.
pub(crate) mod row_group {
    pub const COLUMNS: i16 = 1;
    pub const NUM_ROWS: i16 = 3;
    pub const FILE_OFFSET: i16 = 5;
    pub const ORDINAL: i16 = 7;
    /// The last field that is known. Others may hold places in the file.
    pub const LAST: i16 = 7;
}

/// `ColumnChunk`.
pub(crate) mod column {
    pub const FILE_PATH: i16 = 1;
    pub const FILE_OFFSET: i16 = 2;
    pub const META_DATA: i16 = 3;
    pub const OFFSET_INDEX_OFFSET: i16 = 4;
    pub const OFFSET_INDEX_LENGTH: i16 = 5;
    pub const COLUMN_INDEX_OFFSET: i16 = 6;
    pub const COLUMN_INDEX_LENGTH: i16 = 7;
    pub const CRYPTO_METADATA: i16 = 8;
    pub const ENCRYPTED_METADATA: i16 = 9;
    pub const LAST: i16 = 9;
}

/// `ColumnMetaData`.
pub(crate) mod chunk {
    pub const TYPE: i16 = 1;
    pub const COMPRESSED_BYTES: i16 = 7;
    pub const DATA_PAGE_OFFSET: i16 = 9;
    pub const INDEX_PAGE_OFFSET: i16 = 10;
    pub const DICTIONARY_PAGE_OFFSET: i16 = 11;
    pub const STATISTICS: i16 = 12;
    pub const BLOOM_FILTER_OFFSET: i16 = 14;
    pub const BLOOM_FILTER_LENGTH: i16 = 15;
    pub const LAST: i16 = 17;
}

/// `Statistics`: the bounds that came before `min_value` and `max_value`.
pub(crate) mod statistics {
    pub const MAX: i16 = 1;
    pub const MIN: i16 = 2;
}

/// `BloomFilterHeader`.
pub(crate) mod filter {
    pub const NUM_BYTES: i16 = 1;
}

/// `OffsetIndex` and `PageLocation`.
pub(crate) mod offset_index {
    pub const PAGE_LOCATIONS: i16 = 1;
    pub const LOCATION_OFFSET: i16 = 1;
}

/// `ColumnIndex`.
pub(crate) mod column_index {
    pub const NULL_PAGES: i16 = 1;
    pub const MIN_VALUES: i16 = 2;
    pub const MAX_VALUES: i16 = 3;
}
