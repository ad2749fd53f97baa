"""Reading every distinct output back with other engines, once all timing is over."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from spillway._wording import counted
from spillway.bench.record import SAMPLES, SCHEMA_VERSION, VALIDATION
from spillway.errors import MissingExtraError
from spillway.harness import records
from spillway.harness.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from spillway.bench.progress import Progress
    from spillway.bench.sample import SampleTaker
    from spillway.validation import Verdict

__all__ = ["require_engines", "validate_outputs"]


def require_engines(engines: Sequence[str]) -> None:
    """Check before a run what validation will need after it.

    Raises:
        JavaError: Spark is among the engines and there is no Java for it.
        MissingExtraError: An engine is not installed.
    """
    for engine in engines:
        package, extra = ("pyspark", "spark") if engine == "spark" else (engine, "bench")
        if find_spec(package) is None:
            raise MissingExtraError(package, extra, f"validate with {engine}")
    if "spark" in engines:
        from spillway.spark.java import find_java

        find_java()


def validate_outputs(
    folder: Path, taker: SampleTaker, engines: Sequence[str], progress: Progress
) -> list[str]:
    """Validate each distinct content once with each engine and append the verdicts that lack.

    Returns:
        A line per engine that says how many files held.
    """
    from spillway.validation import Source, Validator, summary

    contents = _distinct_contents(folder)
    known = {(each["content_hash"], each["engine"]) for each in records.read_lines(folder / VALIDATION)}
    wanted = [each for each in contents if any((each, engine) not in known for engine in engines)]
    there = [each for each in wanted if taker.files.path_of(each).exists()]
    if len(there) < len(wanted):
        gone = counted(len(wanted) - len(there), "distinct output")
        progress.say(f"{gone} of samples before the run was resumed went with its end: nobody reads it back")
    if not there:
        return []
    paths = {taker.files.path_of(content_hash): content_hash for content_hash in there}
    jobs = [
        (path, Source(taker.inputs[contents[content_hash].input], contents[content_hash].rows))
        for path, content_hash in paths.items()
    ]
    progress.validating(len(jobs), engines)
    with Validator(engines, progress=progress.validated) as validator:
        verdicts = validator.validate(jobs)
    for verdict in verdicts:
        content_hash = paths[verdict.file]
        if (content_hash, verdict.engine) in known:
            continue
        record = _record(taker.run_id, content_hash, contents[content_hash], verdict)
        records.append(folder / VALIDATION, record)
    return summary(verdicts)


class _Content(NamedTuple):
    """The rows that a file should hold, the key of their input, and the number of samples that wrote it."""

    input: tuple[str, int]
    rows: int
    samples: int


def _distinct_contents(folder: Path) -> dict[str, _Content]:
    """Each content by its hash, from the samples on disk."""
    contents: dict[str, _Content] = {}
    for sample in records.read_lines(folder / SAMPLES):
        if sample["outcome"] == "ok":
            content_hash, cell = sample["output"]["content_hash"], sample["cell"]
            before = contents.get(content_hash)
            count = 1 if before is None else before.samples + 1
            contents[content_hash] = _Content((cell["dataset"], cell["chunk_rows"]), cell["rows"], count)
    return contents


def _record(run_id: str, content_hash: str, content: _Content, verdict: Verdict) -> dict[str, Any]:
    mismatch = verdict.mismatch
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": run_id,
        "content_hash": content_hash,
        "file": verdict.file.name,
        "rows": content.rows,
        "samples": content.samples,
        "engine": verdict.engine,
        "outcome": "ok" if verdict.ok else "excused" if verdict.excused else "wrong_output",
        "seconds": verdict.seconds,
        "mismatch": None
        if mismatch is None
        else {
            "kind": mismatch.kind,
            "column": mismatch.column,
            "row": mismatch.row,
            "expected": None if mismatch.expected is None else str(mismatch.expected),
            "actual": None if mismatch.actual is None else str(mismatch.actual),
            "message": redact(mismatch.message),
        },
    }
