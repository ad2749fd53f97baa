"""Multipart uploads of a job: tasks begin them and send their parts, and the driver completes or aborts them.

An object appears when its upload is completed, and not before. So tasks upload to the final keys; nothing is
staged, copied or renamed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from spillway.dataset_writer import DatasetWriter, _split

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    import pyarrow as pa

    from spillway import _native
    from spillway.types import DatasetKeywords

__all__ = ["JOURNAL", "Upload", "UploadingWriter", "abort_noted", "is_note", "noted"]

#: The journal of an attempt that uploads into its own folder of the job, inside that folder.
JOURNAL = "_uploads"


class Upload(NamedTuple):
    """A multipart upload that has all its parts and lacks its completion.

    Attributes:
        name: The key of the object, relative to the folder.
        id: The store's name of the upload; empty on Azure, which has none.
        parts: The store's names of the parts, in their order.
        bytes: The size of the object.
    """

    name: str
    id: str
    parts: list[str]
    bytes: int


class UploadingWriter(DatasetWriter):
    """A `DatasetWriter` for an object store that leaves the completion of its uploads to another process.

    Args:
        objects: The prefix.
        schema: The schema of the rows.
        journal: A folder below the prefix. Each upload is named in an object there before its first part.
        **options: As those of `DatasetWriter`. What is at the prefix is not looked at.
    """

    def __init__(
        self,
        objects: _native.ObjectFolder,
        schema: pa.Schema,
        *,
        journal: str,
        **options: Unpack[DatasetKeywords],
    ) -> None:
        self._dataset_options, self._options = _split(options)
        self._writer = objects.writer(schema, self._dataset_options, self._options, journal)
        self._result = None

    @property
    def uploads(self) -> list[Upload]:
        """The uploads, once the writer is closed."""
        return [Upload(*each) for each in self._writer.uploads]


def is_note(name: str) -> bool:
    """Return True for the name of an object of a journal, among those of a job's folder."""
    return name.rpartition("/")[2].isdigit()


def noted(objects: _native.ObjectFolder, names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the uploads that objects of a journal name: the key and the id of each, by the object's name."""
    found = {}
    for name, text in zip(names, objects.read(list(names)), strict=True):
        if text is not None:
            upload, _, key = text.decode().partition("\n")
            # The keys of a journal are relative to the folder that it was made for.
            folder, journal, _ = name.rpartition(f"{JOURNAL}/")
            found[name] = (folder + key if journal else key, upload)
    return found


def abort_noted(objects: _native.ObjectFolder, names: Sequence[str]) -> dict[str, OSError]:
    """Abort the uploads that objects of a journal name, and then delete these objects.

    An upload that was completed or aborted before is no error, and its object stays.

    Returns:
        The errors of those that may still be there, by the keys of the uploads, or by the names of the
        journal's objects. The journal still names each upload that may be there.
    """
    uploads = noted(objects, names)
    failed = dict(objects.abort(list(uploads.values())))
    ended = [name for name, (key, _) in uploads.items() if key not in failed]
    return {**failed, **dict(objects.delete(ended))}
