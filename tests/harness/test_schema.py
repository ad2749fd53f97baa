"""The schemas of records: made of the types that the code is checked with, true of all that is committed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest
from jsonschema import Draft202012Validator, ValidationError

from spillway.bench import record as bench
from spillway.cli import inspect
from spillway.cli.inspect import JSON_VERSION
from spillway.harness import records
from spillway.harness.records import Keywords, Positive, Signed, schema_of
from spillway.race import record as race
from spillway.spark.pipeline import record as pipeline

from ..counts import count

RESULTS = Path(__file__).parents[2] / "results"
SCHEMAS = {
    "sample": (bench.SCHEMA, bench.SCHEMA_VERSION, bench.SAMPLES),
    "probe": (bench.PROBE_SCHEMA, bench.SCHEMA_VERSION, bench.PROBES),
    "pairs": (bench.PAIR_SCHEMA, bench.SCHEMA_VERSION, bench.PAIRS),
    "allocations": (bench.ALLOCATION_SCHEMA, bench.SCHEMA_VERSION, bench.ALLOCATIONS),
    "least_memory": (bench.LIMIT_TRIAL_SCHEMA, bench.SCHEMA_VERSION, bench.LEAST_MEMORY),
    "inspect": (inspect.SCHEMA, JSON_VERSION, ""),
    "race": (race.SCHEMA, race.SCHEMA_VERSION, race.RACES),
    "pipeline": (pipeline.SCHEMA, pipeline.SCHEMA_VERSION, pipeline.PIPELINE),
}
# Lines of a file differ by their figures more than by their fields.
EVERY = count(quick=20, ci=5, soak=1)
# Of a pipeline no run is committed yet: tests/pipeline checks the records of its own.
COMMITTED = ("sample", "race")


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_committed_schema_is_the_one_that_is_made(name: str) -> None:
    schema, version, _ = SCHEMAS[name]
    path = RESULTS / "schemas" / f"v{version}" / f"{name}.schema.json"
    assert json.loads(path.read_text()) == schema.document, "run make readme"
    Draft202012Validator.check_schema(schema.document)


@pytest.mark.parametrize("name", COMMITTED)
def test_every_committed_record_fits_its_schema(name: str) -> None:
    _, _, file = SCHEMAS[name]
    runs = {path.parent for path in RESULTS.rglob(f"{file}*")}
    lines = [line for run in runs for line in records.read_lines(run / file)[::EVERY]]
    assert lines
    checks = {version: _committed(name, version) for version in {line["schema_version"] for line in lines}}
    for line in lines:
        checks[line["schema_version"]].validate(line)


def _committed(name: str, version: int) -> Draft202012Validator:
    """The schema of a version, which stays when the next one comes."""
    path = RESULTS / "schemas" / f"v{version}" / f"{name}.schema.json"
    return Draft202012Validator(json.loads(path.read_text()))


def test_the_schemas_of_a_version_lie_once_in_the_results() -> None:
    found = {str(path.relative_to(RESULTS)) for path in RESULTS.rglob("*.schema.json")}
    now = {f"schemas/v{version}/{name}.schema.json" for name, (_, version, _) in SCHEMAS.items()}
    assert found == now


@dataclass
class Point:
    """A place.

    Attributes:
        x: To the right.
    """

    x: Signed
    y: int


class Part(TypedDict):
    """One part."""

    name: str


class Whole(TypedDict):
    """All that a record may hold.

    Attributes:
        kind: The kind, which
            takes two lines.
    """

    kind: Literal["a", "b"]
    count: Positive
    share: Annotated[float, Keywords(maximum=1)]
    parts: list[Part]
    point: Annotated[dict[str, Any], Point]
    by_name: dict[str, int]
    text: str | None
    more: NotRequired[str]


GOOD: dict[str, Any] = {
    "kind": "a",
    "count": 1,
    "share": 0.5,
    "parts": [{"name": "x"}],
    "point": {"x": -1, "y": 0},
    "by_name": {"a": 0},
    "text": None,
}


def test_a_record_of_each_kind_of_field_fits() -> None:
    schema = records.RecordSchema(Whole)
    schema.check(GOOD)
    schema.check({**GOOD, "text": "", "more": ""})


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "c"},
        {"count": 0},
        {"count": 1.5},
        {"share": 1.5},
        {"share": -0.5},
        {"parts": [{}]},
        {"parts": [{"name": "x", "size": 1}]},
        {"point": {"x": -1, "y": -1}},
        {"by_name": {"a": -1}},
        {"text": 1},
        {"other": 1},
        {"more": None},
    ],
    ids=str,
)
def test_a_record_with_a_wrong_field_does_not(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        records.RecordSchema(Whole).check({**GOOD, **wrong})


@pytest.mark.parametrize("name", GOOD)
def test_a_record_that_lacks_a_field_does_not(name: str) -> None:
    with pytest.raises(ValidationError, match=name):
        records.RecordSchema(Whole).check({key: value for key, value in GOOD.items() if key != name})


def test_a_docstring_describes_its_record() -> None:
    schema = schema_of(Whole)
    assert schema["title"] == "All that a record may hold."
    assert schema["properties"]["kind"]["description"] == "The kind, which takes two lines."
    point = schema["properties"]["point"]
    assert (point["description"], point["properties"]["x"]["description"]) == ("A place.", "To the right.")


class More(Whole):
    """One that inherits.

    Attributes:
        text: Told anew.
        last: Its own.
    """

    last: int


@dataclass
class Further(Point):
    """A place that is further away.

    Attributes:
        z: Up.
    """

    z: int


def test_a_record_has_the_descriptions_of_those_it_inherits_from() -> None:
    told = {name: field.get("description") for name, field in schema_of(More)["properties"].items()}
    assert (told["kind"], told["text"], told["last"]) == (
        "The kind, which takes two lines.",
        "Told anew.",
        "Its own.",
    )
    further = schema_of(Further)
    assert further["title"] == "A place that is further away."
    assert {name: field.get("description") for name, field in further["properties"].items()} == {
        "x": "To the right.",
        "y": None,
        "z": "Up.",
    }


def test_a_type_without_a_rule_is_named() -> None:
    class Odd(TypedDict):
        """A record with a set."""

        names: set[str]

    with pytest.raises(TypeError, match=r"set\[str\], which has no JSON Schema"):
        schema_of(Odd)
