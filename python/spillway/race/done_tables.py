"""Tables that races are done with, and the time of creating a file beside them.

ext4 without a journal does not use inodes again that were freed in the last minutes, and looks at each of
them when it creates a file. So a table that is removed makes the next race slower, and tables on a disk are
removed after the last race.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from spillway._wording import counted
from spillway.harness.redaction import redact

if TYPE_CHECKING:
    from spillway.race.location import Location
    from spillway.race.progress import Progress

__all__ = ["DoneTables", "creation_seconds"]

_FREE_SHARE = 0.25
"""The least share of the disk that is free where tables wait for the end."""
_CREATED = 64


@dataclass(frozen=True)
class DoneTables:
    """Tables to be removed.

    Attributes:
        progress: The line that shows the run's progress.
    """

    progress: Progress
    _waiting: list[Location] = field(default_factory=list)

    def add(self, table: Location) -> None:
        """Remove a table after the last race, or now: from an object store, and from a disk that fills up."""
        if table.is_local and _has_room(Path(table.uri)):
            self._waiting.append(table)
        else:
            self._remove(table)

    def remove(self) -> None:
        """Remove those that wait."""
        if not self._waiting:
            return
        self.progress.removing(len(self._waiting))
        try:
            while self._waiting:
                self._remove(self._waiting[-1])
                self._waiting.pop()
        except KeyboardInterrupt:
            folder = Path(self._waiting[0].uri).parent
            self.progress.say(f"interrupted: {counted(len(self._waiting), 'table')} left behind in {folder}")
        finally:
            self.progress.stop()

    def _remove(self, table: Location) -> None:
        try:
            table.files().remove()
        except Exception as error:  # noqa: BLE001 - what is left behind must not hide what happened
            self.progress.say(f"{table.uri} is left behind: {redact(str(error))}")


def _has_room(folder: Path) -> bool:
    try:
        disk = shutil.disk_usage(folder.parent)
    except OSError:
        return False
    return disk.free >= _FREE_SHARE * disk.total


def creation_seconds(folder: Path) -> float:
    """The median time of creating an empty file below a folder."""
    times = []
    with tempfile.TemporaryDirectory(dir=folder, prefix="probe-") as place:
        for number in range(_CREATED):
            began = time.perf_counter()
            Path(place, str(number)).touch(exist_ok=False)
            times.append(time.perf_counter() - began)
    return statistics.median(times)
