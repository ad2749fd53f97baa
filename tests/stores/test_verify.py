"""Files of an append to a store are read back before a version names them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import spillway.delta
from spillway.errors import CorruptFileError

if TYPE_CHECKING:
    from collections.abc import Callable

    from spillway.types import Verify

    from .server import Bucket, Fault, Proxy, Request

ROWS = pa.table({"n": range(20_000), "text": [f"row {n * 7919 % 1000}" for n in range(20_000)]})


def parts(bucket: Bucket) -> list[str]:
    keys = bucket.keys()
    return [key for key in keys if "/part-" in key]


@pytest.mark.parametrize("level", ["footer", "pages", "values"])
def test_an_object_that_is_not_what_was_sent_is_not_committed(
    bucket: Bucket, faulty: Callable[[Callable[[Request], Fault]], Proxy], level: Verify
) -> None:
    damage: list[int] = []

    def fault(request: Request) -> None:
        """Changes a byte of the object once it is there, before it is read."""
        key = request.path.partition("?")[0].removeprefix(f"/{bucket.name}/")
        if damage and request.method in {"GET", "HEAD"} and "/part-" in key:
            body = bytearray(bucket.read(key))
            body[damage.pop()] ^= 1
            bucket.put(key, bytes(body))

    proxy = faulty(fault)
    options = bucket.options(AWS_ENDPOINT_URL=f"http://127.0.0.1:{proxy.port}")
    table = spillway.delta.create(bucket.url("table"), ROWS.schema, storage_options=options)
    with table.append(verify=level) as append:
        append.write(ROWS)
    before = parts(bucket)
    assert len(before) == 1
    # A byte of the footer; and one of a page, which the footer level does not read.
    for place in (-12,) if level == "footer" else (-12, 100):
        damage[:] = [place]
        with pytest.raises(CorruptFileError, match="part-"), table.append(verify=level) as append:
            append.write(ROWS)
        assert not damage
        assert table.version == 1
        assert parts(bucket) == before
    with table.append(verify=level) as append:
        append.write(ROWS)
    assert pa.table(table.scan(["n"])).num_rows == 2 * ROWS.num_rows
