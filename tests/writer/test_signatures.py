"""The options have one source: signatures, types, documentation and the native module agree with it."""

from __future__ import annotations

import dataclasses
import inspect
import pydoc
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import pytest

import spillway
import spillway.types
from spillway import _native
from spillway.types import DatasetKeywords, WriterKeywords

if TYPE_CHECKING:
    from collections.abc import Callable

WRITER = {field.name: field.default for field in dataclasses.fields(spillway.WriterOptions)}
DATASET = {field.name: field.default for field in dataclasses.fields(spillway.DatasetOptions)}
OF_A_FILE = [
    spillway.ParquetWriter,
    spillway.AsyncParquetWriter,
    spillway.write_parquet,
    spillway.delta.Table.append,
    spillway.delta.write,
]
OF_A_FOLDER = [spillway.DatasetWriter, spillway.write_dataset]
TAKES = [
    *((function, WRITER) for function in OF_A_FILE),
    *((function, DATASET | WRITER) for function in OF_A_FOLDER),
]
EACH = [f"{function.__module__}.{function.__qualname__}" for function, _ in TAKES]
(DOCUMENT,) = Path(__file__).parents[2].glob("docs/**/options.md")


@pytest.mark.parametrize(("function", "options"), TAKES, ids=EACH)
def test_a_signature_has_every_option_with_its_default(
    function: Callable[..., Any], options: dict[str, Any]
) -> None:
    parameters = inspect.signature(function).parameters
    shown = {name: parameters[name].default for name in options}
    assert shown == options
    assert {parameters[name].kind for name in options} == {inspect.Parameter.KEYWORD_ONLY}
    assert not any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())


@pytest.mark.parametrize(("function", "options"), TAKES, ids=EACH)
def test_help_has_every_option_with_its_default_and_its_description(
    function: Callable[..., Any], options: dict[str, Any]
) -> None:
    text = pydoc.plain(pydoc.render_doc(function))
    for name, default in options.items():
        assert re.search(rf"\b{name}: .*? = {re.escape(repr(default))}[,)]", text), name
        assert re.search(rf"^[\s|]*{name}: \S", text, flags=re.MULTILINE), name
    assert "**options" not in text.split("Methods defined here")[0]
    assert "\n\n\n" not in inspect.cleandoc(function.__doc__ or "")


def test_an_option_is_described_as_its_field_is() -> None:
    described = inspect.cleandoc(spillway.WriterOptions.__doc__ or "")
    (arguments,) = re.findall(r"^Args:\n(.*?)\n\n", described, flags=re.MULTILINE | re.DOTALL)
    assert arguments in inspect.cleandoc(spillway.ParquetWriter.__doc__ or "")
    assert re.findall(r"^    (\w+): ", arguments, flags=re.MULTILINE) == list(WRITER)


@pytest.mark.parametrize(
    ("options", "keywords"),
    [(spillway.WriterOptions, WriterKeywords), (spillway.DatasetOptions, DatasetKeywords)],
    ids=["writer", "dataset"],
)
def test_the_keywords_have_the_names_and_types_of_the_fields(options: Any, keywords: Any) -> None:
    fields = get_type_hints(options, localns=vars(spillway.types))
    fields.pop("_", None)
    expected = get_type_hints(keywords)
    if keywords is DatasetKeywords:
        fields = get_type_hints(WriterKeywords) | fields
    assert fields == expected


def test_defaults_are_those_of_the_native_module() -> None:
    assert {name: facts["default"] for name, facts in _native.writer_options().items()} == WRITER
    assert {name: facts["default"] for name, facts in _native.dataset_options().items()} == DATASET


def test_literals_are_the_names_that_the_native_module_accepts() -> None:
    literals = {
        "compression": spillway.types.Compression,
        "encoding": spillway.types.Encoding,
        "compatibility": spillway.types.Compatibility,
        "timestamps": spillway.types.Timestamps,
        "timestamp_loss": spillway.types.TimestampLoss,
        "sorting": spillway.types.Sorting,
        "verify": spillway.types.Verify,
    }
    native = _native.writer_options()
    assert {name: list(get_args(literal)) for name, literal in literals.items()} == {
        name: native[name]["accepted"] for name in literals
    }
    assert list(get_args(spillway.types.DatasetMode)) == _native.dataset_options()["mode"]["accepted"]


def rows_of_the_document() -> dict[str, tuple[str, str]]:
    """The tables of options: the default and what is accepted, by name."""
    row = r"^\| `(\w+)`(?: \(preview\))? \| (.*?) \| (.*) \|$"
    rows = re.findall(row, DOCUMENT.read_text(), flags=re.MULTILINE)
    return {name: (default, accepted) for name, default, accepted in rows if name in WRITER | DATASET}


def in_prose(default: object) -> tuple[str, ...]:
    """The forms in which the document may write a default."""
    match default:
        case bool() | None | str() | tuple():
            quoted = repr(default).replace("'", '"')
            return (f"`{quoted}`",)
        case int():
            binary = {2**20: "MiB", 2**10: "KiB"}
            units = tuple(f"{default // size} {unit}" for size, unit in binary.items() if default % size == 0)
            return (f"{default:,}", *units)
    raise AssertionError(default)


def test_the_document_has_every_option_with_its_default() -> None:
    rows = rows_of_the_document()
    assert list(rows) == [*WRITER, *DATASET]
    for name, default in (WRITER | DATASET).items():
        assert rows[name][0].startswith(in_prose(default)), name


def test_the_document_has_what_is_accepted() -> None:
    rows = rows_of_the_document()
    for name, facts in (_native.writer_options() | _native.dataset_options()).items():
        text = " ".join(rows[name]).replace(",", "").replace("512 MiB", str(2**29))
        for accepted in facts["accepted"]:
            if accepted.startswith("1 to ") and accepted.endswith(str(2**63 - 1)):
                assert "1 and up" in text, name
            else:
                spelt = accepted.replace(" to ", "\N{EN DASH}") if name == "compression_level" else accepted
                assert f'"{accepted}"' in text or spelt in text, (name, accepted)


def test_a_refused_name_says_which_are_accepted() -> None:
    for name, facts in _native.writer_options().items():
        if not facts["accepted"] or not isinstance(facts["default"], str):
            continue
        with pytest.raises(spillway.OptionError) as caught:
            spillway.WriterOptions(**{name: "no such thing"})
        assert (caught.value.option, list(caught.value.accepted)) == (name, facts["accepted"])


def test_a_refused_number_says_the_range() -> None:
    for name, facts in _native.writer_options().items():
        if not isinstance(facts["default"], int) or not facts["accepted"]:
            continue
        with pytest.raises(spillway.OptionError) as caught:
            spillway.WriterOptions(**{name: 0})
        assert (caught.value.option, list(caught.value.accepted)) == (name, facts["accepted"])
