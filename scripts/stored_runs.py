"""Runs in ``results/``, each read once by a program that makes several pages of it."""

from __future__ import annotations

from functools import cache

from spillway.bench.summary import read_run

# A run that has its report does not change any more.
stored_run = cache(read_run)
