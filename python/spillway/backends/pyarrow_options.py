"""How a cell's codec is said to pyarrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from spillway.backends.protocol import Settings

__all__ = ["Compression", "compression"]


class Compression(TypedDict):
    """The keyword arguments of pyarrow's writers that choose the codec."""

    compression: str
    compression_level: int | None


def compression(settings: Settings) -> Compression:
    """pyarrow takes Parquet's names, but says "none" for no codec."""
    codec = "none" if settings.codec == "uncompressed" else settings.codec
    return {"compression": codec, "compression_level": settings.level}
