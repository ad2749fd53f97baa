"""The readers of a table after a race: they share neither the reading of the log nor that of the files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spillway.race.vectors import deleted_rows
from spillway.race.workload import KEYS, MESSAGE, PARTITION_COLUMN

if TYPE_CHECKING:
    import pyarrow as pa

    from spillway.race.location import Location
    from spillway.race.log import LogState

__all__ = ["READERS"]


def _by_delta_rs(location: Location, log: LogState) -> pa.Table:
    """All rows by delta-rs, which reads the log and the files itself."""
    import deltalake
    import pyarrow as pa

    # Requests of writers that were stopped may still arrive: what was looked at is one version.
    table = deltalake.DeltaTable(location.uri, version=log.newest, **location.keywords)
    columns = [*KEYS, MESSAGE, PARTITION_COLUMN]
    if "deletionVectors" in (table.protocol().reader_features or ()):
        return pa.table(table.scan(columns=columns))  # to_pyarrow_table() refuses them
    return pa.table(table.to_pyarrow_table(columns=columns))


def _by_polars(location: Location, log: LogState) -> pa.Table:
    """All rows by polars, from the files that the log names and without those that their vectors mark."""
    import polars as pl
    import pyarrow as pa

    def read(paths: list[str]) -> pl.DataFrame:
        uris = [f"{location.uri}/{path}" for path in paths]
        frame = pl.scan_parquet(uris, hive_partitioning=False, glob=False, **location.keywords)
        return frame.select(*KEYS, MESSAGE).collect()

    frames = []
    if whole := [file.path for file in log.files if file.vector is None]:
        frames.append(read(whole))
    for file in log.files:
        if file.vector is not None:
            frame, gone = read([file.path]), deleted_rows(location.files(), file.vector)
            if max(gone, default=0) >= frame.height:
                raise ValueError(f"{file.path}: a deletion vector marks a row after the last one")
            frames.append(frame.filter(pl.Series([place not in gone for place in range(frame.height)])))
    if frames:
        return pl.concat(frames).to_arrow()
    empty: dict[str, Any] = {name: pa.array([], pa.int64()) for name in KEYS}
    return pa.table({**empty, MESSAGE: pa.array([], pa.string())})


READERS = {"delta-rs": _by_delta_rs, "polars": _by_polars}
