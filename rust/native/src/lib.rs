//! The Python module `spillway._native`: conversion and the GIL, nothing else.

use pyo3::prelude::*;

mod arrow;
mod build_info;
mod c_data;
mod dataset;
mod delta;
mod destination;
mod digest;
mod encryption;
mod errors;
mod file_object;
mod heap;
mod inspect;
mod memory_budget;
mod object_folder;
mod options;
mod rewrite;
mod rows;
mod storage_options;
mod turn;
mod writer;

#[pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::build_info::build_info;
    #[pymodule_export]
    use crate::dataset::{PyDatasetWriter, check_dataset_options, dataset_options};
    #[pymodule_export]
    use crate::delta::{
        AwaitedCommit, DeltaAppend, DeltaChanges, DeltaRows, DeltaScan, DeltaSchema, DeltaTable,
        PyCommitCounter, RowSource, await_intent_gc, check_condition, check_delta_options, create_object,
        stop_telling_loops, unfit_columns,
    };
    #[pymodule_export]
    use crate::digest::{PyDigest, digest, row_hashes, spark_row_sums};
    #[pymodule_export]
    use crate::encryption::check_encryption;
    #[pymodule_export]
    use crate::heap::huge_page_bytes;
    #[pymodule_export]
    use crate::inspect::inspect;
    #[pymodule_export]
    use crate::memory_budget::PyMemoryBudget;
    #[pymodule_export]
    use crate::object_folder::ObjectFolder;
    #[pymodule_export]
    use crate::options::{check_options, writer_options};
    #[pymodule_export]
    use crate::rewrite::{join_files, split_files};
    #[pymodule_export]
    use crate::rows::column_stream;
    #[pymodule_export]
    use crate::writer::{PyWriter, is_object};

    #[pymodule_init]
    #[expect(clippy::unnecessary_wraps, reason = "the signature is PyO3's")]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::heap::hold_over_forks();
        Ok(())
    }
}
