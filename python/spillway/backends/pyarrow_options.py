"""How a cell's codec is said to pyarrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict, cast

if TYPE_CHECKING:
    from spillway.backends.protocol import Settings

__all__ = ["Compression", "compression"]


_Codec = Literal["gzip", "brotli", "lz4", "zstd", "snappy", "none"]


class Compression(TypedDict):
    """The keyword arguments of pyarrow's writers that choose the codec."""

    compression: _Codec
    compression_level: int | None


def compression(settings: Settings) -> Compression:
    """Pyarrow takes Parquet's names, but says "none" for no codec."""
    codec = "none" if settings.codec == "uncompressed" else settings.codec
    return {"compression": cast("_Codec", codec), "compression_level": settings.level}
