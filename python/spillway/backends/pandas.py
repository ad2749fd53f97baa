"""pandas, by `DataFrame.to_parquet` with the engine pyarrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from spillway.backends.protocol import BATCHES_AND_TABLE
from spillway.backends.sinks import Gathered

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from spillway.backends.protocol import Mode, Settings, Sink


class Pandas:
    """A frame from Arrow, then one `to_parquet`; the conversion is part of the phase.

    Its columns are of `pandas.ArrowDtype`: numpy's types have no nulls in integers, no decimals and no lists.
    The engine is pyarrow, with pyarrow's defaults; the index is not written.
    """

    name = "pandas"
    modes: frozenset[Mode] = BATCHES_AND_TABLE

    def version(self) -> str:
        return str(pd.__version__)

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> Sink:
        return Gathered(schema, settings, lambda table: _write(table, path, settings))


def _write(table: pa.Table, path: Path, settings: Settings) -> None:
    table.to_pandas(types_mapper=pd.ArrowDtype).to_parquet(
        path,
        engine="pyarrow",
        index=False,
        compression=None if settings.codec == "uncompressed" else settings.codec,
        compression_level=settings.level,
        row_group_size=settings.row_group_rows,
    )
