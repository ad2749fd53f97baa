"""Write files with the wheel alone, one with each compressor that is linked into it, and look at them.

``python write_with_wheel.py`` needs no other package. It prints the C library that it ran on.
"""

from __future__ import annotations

import platform
import tempfile
from pathlib import Path

import spillway

ROWS = 20_000
CODECS = ("zstd", "snappy", "lz4", "gzip", "brotli", "uncompressed")


def main() -> str:
    rows = b"".join(b'{"id": %d, "word": "word-%d", "part": %d.5}\n' % (n, n % 7, n) for n in range(ROWS))
    with tempfile.TemporaryDirectory() as folder:
        for codec in CODECS:
            path = Path(folder, f"{codec}.parquet")
            with spillway.ParquetWriter(path, compression=codec, threads=2) as writer:
                writer.write_ndjson(rows)
            assert spillway.inspect_file(path).rows == ROWS, codec
        try:
            spillway.delta.open(Path(folder, "absent"))
        except spillway.errors.TableNotFoundError:
            pass
        else:
            raise AssertionError("a table that is not there was opened")
    return f"{spillway.__version__} on {'-'.join(platform.libc_ver())}, {platform.machine()}"


if __name__ == "__main__":
    print(main())  # noqa: T201 - what a job of continuous integration shows
