"""Ctrl-C that comes just before a call: its handler has not run when native code begins."""

from __future__ import annotations

import ctypes
import operator
import signal
from functools import partial
from types import SimpleNamespace

import pyarrow as pa
import pytest

import spillway
from spillway import _native
from spillway.errors import OptionError

# `map` calls its functions without a look at signals between them.
INTERRUPT = partial(ctypes.pythonapi.PyErr_SetInterruptEx, int(signal.SIGINT))
SCHEMA = pa.schema([("a", pa.int64())])


def interrupted(call):
    list(map(operator.call, [INTERRUPT, call]))


@pytest.mark.parametrize("rows", [[{"a": 1}], b'{"a": 1}\n'], ids=["dicts", "ndjson"])
def test_ctrl_c_is_raised_and_refuses_no_option(tmp_path, rows):
    with spillway.ParquetWriter(tmp_path / "file.parquet", SCHEMA) as writer:
        native = writer._writer
        write = native.write_rows if isinstance(rows, list) else native.write_ndjson
        with pytest.raises(KeyboardInterrupt):
            interrupted(partial(write, rows, "raise", "error"))
        with pytest.raises(KeyboardInterrupt):
            interrupted(partial(write, rows, "raise", "none"))
        with pytest.raises(OptionError, match="extra='none' is not accepted"):
            write(rows, "raise", "none")


def test_ctrl_c_takes_the_place_of_the_error_of_an_option():
    options = SimpleNamespace(**vars(spillway.WriterOptions()) | {"page_rows": "many"})
    with pytest.raises(KeyboardInterrupt):
        interrupted(partial(_native.check_options, options))
    with pytest.raises(TypeError, match="page_rows must be an int, not 'many'"):
        _native.check_options(options)
