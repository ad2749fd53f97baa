"""DataFusion, by `DataFrame.write_parquet`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import datafusion
from datafusion import DataFrameWriteOptions, ParquetWriterOptions, SessionConfig, SessionContext

from spillway.backends.protocol import BATCHES_AND_TABLE
from spillway.backends.sinks import Gathered

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from spillway.backends.protocol import Mode, Settings, Sink


class DataFusion:
    """A frame by `from_arrow`, which reads a stream to its end, then one write into one file.

    The plan has one partition: with more, rows change their order. Columns are encoded by as many threads as
    DataFusion's runtime has, one for each core that the process may use; with one thread they are not.
    """

    name = "datafusion"
    modes: frozenset[Mode] = BATCHES_AND_TABLE

    def version(self) -> str:
        return str(datafusion.__version__)

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> Sink:
        return Gathered(schema, settings, lambda table: _write(table, path, settings))


def _write(table: pa.Table, path: Path, settings: Settings) -> None:
    context = SessionContext(SessionConfig().with_target_partitions(1))
    options = ParquetWriterOptions(
        compression={"lz4": "lz4_raw"}.get(settings.codec, settings.codec),
        compression_level=settings.level,
        max_row_group_size=settings.row_group_rows,
        allow_single_file_parallelism=settings.threads > 1,
    )
    one_file = DataFrameWriteOptions(single_file_output=True)
    context.from_arrow(table).write_parquet(path, options, write_options=one_file)
