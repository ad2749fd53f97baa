"""Import it in a program that needs no pandas.

pyarrow imports pandas for the first array of a process, which takes longer than most programs of tests do.
"""

from __future__ import annotations

import sys


class _Absent:
    """Finds no pandas."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, _Absent)  # type: ignore[arg-type]  # it loads nothing
