"""Spillway's own writer under a memory limit of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spillway.backends.native import Native

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Native16MB"]


class Native16MB(Native):
    """As `Native`, with ``memory_limit="16MB"``, whatever the row group."""

    name = "native-16mb"
    options: Mapping[str, str] = {"memory_limit": "16MB"}
