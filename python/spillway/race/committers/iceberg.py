"""The committer of pyiceberg, with its SQL catalogue in a SQLite file next to the table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from sqlalchemy.exc import OperationalError

from spillway.race.model import PARTITION_COLUMN, Backoff, OwnTable, OwnTables, schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table

    from spillway.race.location import Location
    from spillway.race.model import Cell, Change

_NAMESPACE, _TABLE = "race", "race.appends"
_FIRST, _MOST = 0.1, 10.0


class PyIceberg(OwnTables):
    """Appends with `Table.append`, retried with back-off while commits of other writers make it fail."""

    def create(self, location: Location, cell: Cell) -> None:  # noqa: ARG002 - all cells are alike to it
        """Make the catalogue, and an empty table partitioned as others are."""
        Path(location.uri).mkdir(parents=True, exist_ok=True)
        catalog = _catalog(location)
        catalog.create_namespace(_NAMESPACE)
        with catalog.create_table(_TABLE, schema()).update_spec() as partitions:
            partitions.add_identity(PARTITION_COLUMN)
        catalog.close()

    def writer(self, location: Location, cell: Cell) -> _Writer:  # noqa: ARG002 - all cells are alike to it
        """Load the table through a catalogue of the writer's own."""
        return _Writer(_catalog(location).load_table(_TABLE))

    def found(self, location: Location) -> OwnTable:
        """The table as pyiceberg reads it."""
        catalog = _catalog(location)
        table = catalog.load_table(_TABLE)
        rows = table.scan().to_arrow()
        catalog.close()
        return OwnTable("pyiceberg", len(table.snapshots()), rows)


def _catalog(location: Location) -> SqlCatalog:
    uri = f"sqlite:///{location.uri}/catalog.db"
    return SqlCatalog("race", uri=uri, warehouse=f"file://{location.uri}")


class _Writer:
    def __init__(self, table: Table) -> None:
        self._table = table

    def append(self, rows: pa.Table) -> int | None:
        pause = Backoff(_FIRST, _MOST)
        calls = 1
        while not self._try(rows):
            calls += 1
            pause.sleep()
        return calls

    def change(self, change: Change) -> int | None:
        raise NotImplementedError("pyiceberg only takes part in races of appends")

    def _try(self, rows: pa.Table) -> bool:
        """Append to the newest version; return False if other writers were in the way."""
        try:
            self._table.refresh()
            self._table.append(rows)
        except CommitFailedException:
            return False
        except OperationalError as error:
            if "database is locked" not in str(error):
                raise
            # After a COMMIT that SQLite refused so, the pooled connection is still in its transaction, and
            # the next refresh would read what was not committed. Closing the connection rolls back.
            self._table.catalog.close()
            return False
        return True
