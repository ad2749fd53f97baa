"""Paths that a caller gives are URI references, as the protocol asks: Spark reads no table with others."""

from __future__ import annotations

import re
import tempfile
import unicodedata
from pathlib import Path
from urllib.parse import unquote, unquote_to_bytes

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import spillway.delta
from spillway.delta import AddFile
from spillway.errors import OptionError

from ..counts import examples

SCHEMA = pa.schema({"n": pa.int64()})
# RFC 3986's pchar; java.net.URI allows "other" characters besides.
ALLOWED = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.!~*'();:@&=+$,")
PIECES = [
    *("a", "b", "Z", "0", "p=1", "/", ".", "..", "-", "_", "~", "!", "*", "'", "(", ")", ";", ":", "@", "&"),
    *(
        "=",
        "+",
        "$",
        ",",
        " ",
        "%",
        "%4",
        "%41",
        "%20",
        "%25",
        "%2F",
        "%C3%BC",
        "%ff",
        "[",
        "]",
        "^",
        "|",
        "<",
    ),
    *(
        ">",
        '"',
        "\\",
        "`",
        "{",
        "}",
        "#",
        "?",
        "\n",
        "\t",
        "\x7f",
        "ü",
        "日",
        "\u00a0",
        "\u2028",
        "\u0085",
        "😀",
    ),
]


def segments_are_legal(path: str) -> bool:
    """Return whether `java.net.URI` takes the path for one of a relative reference."""
    rest = re.sub(r"%[0-9A-Fa-f]{2}", "a", path)
    legal = all(
        character in ALLOWED
        or character == "/"
        or (ord(character) > 127 and unicodedata.category(character) not in {"Cc", "Zs", "Zl", "Zp"})
        for character in rest
    )
    return legal and ":" not in rest.partition("/")[0]


def is_accepted(path: str) -> bool:
    """Return whether a path is a reference that every reader resolves to the same file in the table."""
    try:
        decoded = unquote_to_bytes(path).decode()
    except UnicodeDecodeError:
        return False
    stays = not any(part in {"", ".", ".."} for part in decoded.split("/"))
    return segments_are_legal(path) and stays and "\0" not in decoded and not decoded.startswith("file:")


def added(folder: Path, path: str) -> spillway.delta.Table:
    """A table to which a file was added by this path."""
    table = spillway.delta.create(folder, SCHEMA)
    file = folder / unquote(path)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"n": [1]}, SCHEMA), file)
        size = file.stat().st_size
    except (OSError, ValueError):
        size = 1
    table.commit(adds=[AddFile(path, size, stats={"numRecords": 1})])
    return table


def is_asked_of_all(path: str) -> bool:
    """Leave out the path that delta-rs alone takes for the home folder, and absolute URIs."""
    return path.partition("/")[0] != "~" and "://" not in path


def paths() -> st.SearchStrategy[str]:
    piece = st.sampled_from(PIECES)
    return st.lists(piece, min_size=1, max_size=6).map("".join).filter(is_asked_of_all)


@settings(max_examples=examples(1.5))
@given(paths())
@example("100%/x.parquet")
@example("a b.parquet")
@example("p=2026-01-01 10:00:00/x.parquet")
@example("x/a:b.parquet")
@example("a:b.parquet")
def test_a_path_is_accepted_if_it_is_a_reference(path: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        if is_accepted(path):
            table = added(Path(folder), path)
            assert [file.path for file in table.files()] == [path]
            assert pa.table(table.scan())["n"].to_pylist() == [1]
            assert deltalake.DeltaTable(folder).to_pyarrow_table()["n"].to_pylist() == [1]
            return
        with pytest.raises(OptionError) as refused:
            added(Path(folder), path)
        assert refused.value.option == "adds"
        assert spillway.delta.open(folder).version == 0


ENCODED = [
    ("a b.parquet", "a%20b.parquet"),
    ("100%/x.parquet", "100%25/x.parquet"),
    ("a%20b c.parquet", "a%20b%20c.parquet"),
    ("a[b].parquet", "a%5Bb%5D.parquet"),
    ("a:b/c:d", "a%3Ab/c:d"),
    ("why?#1", "why%3F%231"),
    ("a\u00a0b", "a%C2%A0b"),
    ("a\\b", "a%5Cb"),
]


@pytest.mark.parametrize(("path", "suggested"), ENCODED)
def test_the_error_gives_the_encoded_form(tmp_path: Path, path: str, suggested: str) -> None:
    with pytest.raises(OptionError) as refused:
        added(tmp_path / "t", path)
    assert f'"{suggested}"' in str(refused.value)
    assert pa.table(added(tmp_path / "u", suggested).scan())["n"].to_pylist() == [1]
