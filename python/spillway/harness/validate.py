"""Reading every distinct output back with other engines, once all timing is over."""

from __future__ import annotations

from collections import Counter
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from spillway.errors import MissingExtraError
from spillway.harness import samples
from spillway.harness.scrub import scrub

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from spillway.harness.progress import Progress
    from spillway.harness.sample import SampleTaker
    from spillway.validation import Verdict

__all__ = ["require_engines", "validate_outputs", "wrong_output_sentence"]


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
) -> tuple[list[str], tuple[str, ...]]:
    """Validate each distinct content once with each engine and append the verdicts.

    Returns:
        A line per engine that says how many files held, and a sentence for each reading that did not.
    """
    from spillway.validation import Source, Validator, summary

    contents = _distinct_contents(folder)
    paths = {taker.files.path_of(content_hash): content_hash for content_hash in contents}
    jobs = [(path, Source(taker.input, contents[content_hash][0])) for path, content_hash in paths.items()]
    progress.validating(len(jobs), engines)
    with Validator(engines, progress=progress.validated) as validator:
        verdicts = validator.validate(jobs)
    wrong = []
    for verdict in verdicts:
        content_hash = paths[verdict.file]
        record = _record(taker.run_id, content_hash, *contents[content_hash], verdict)
        samples.append(folder / samples.VALIDATION, record)
        if verdict.failed:
            wrong.append(wrong_output_sentence(record))
    return summary(verdicts), tuple(wrong)


def _distinct_contents(folder: Path) -> dict[str, tuple[int, int]]:
    """Rows and number of samples of each content hash, from the samples on disk."""
    rows: dict[str, int] = {}
    counts: Counter[str] = Counter()
    for sample in samples.read_lines(folder / samples.SAMPLES):
        if sample["outcome"] == "ok":
            content_hash = sample["output"]["content_hash"]
            rows[content_hash] = sample["cell"]["rows"]
            counts[content_hash] += 1
    return {content_hash: (rows[content_hash], counts[content_hash]) for content_hash in rows}


def _record(run_id: str, content_hash: str, rows: int, count: int, verdict: Verdict) -> dict[str, Any]:
    mismatch = verdict.mismatch
    return {
        "schema_version": samples.SCHEMA_VERSION,
        "run_id": run_id,
        "content_hash": content_hash,
        "file": verdict.file.name,
        "rows": rows,
        "samples": count,
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
            "message": scrub(mismatch.message),
        },
    }


def wrong_output_sentence(record: dict[str, Any]) -> str:
    """A verdict that failed, in words: the file, the row, the column and both values."""
    mismatch = record["mismatch"]
    if mismatch is None:
        return f"{record['file']} ({record['rows']} rows), by {record['engine']}: refused"
    return (
        f"{record['file']} ({record['rows']} rows), by {record['engine']}: {mismatch['message']} "
        f"[row {mismatch['row']}, column {mismatch['column']}: "
        f"expected {mismatch['expected']!r}, read {mismatch['actual']!r}]"
    )
