"""Write doubles as JSON by polars, as literals of expressions, and read them back."""

from __future__ import annotations

import io
import random

import polars as pl

print("polars", pl.__version__)
chance = random.Random(1)  # noqa: S311 - no secret
values = [chance.uniform(0, 100) for _ in range(10_000)]
other = []
for value in values:
    text = pl.lit(value).meta.serialize(format="json")
    back = pl.select(pl.Expr.deserialize(io.BytesIO(text.encode()), format="json")).item()
    if back != value:
        other.append((text, back))
print(f"{len(other):,} of {len(values):,} numbers are another double")
print("for example", *other[0])
