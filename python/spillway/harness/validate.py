"""Reading every distinct output back with other engines, once all timing is over."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from spillway.harness import samples

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from spillway.harness.progress import Progress
    from spillway.harness.sample import SampleTaker
    from spillway.validation import Verdict

__all__ = ["validate_outputs", "wrong_output_sentence"]


def validate_outputs(
    folder: Path, taker: SampleTaker, engines: Sequence[str], progress: Progress
) -> tuple[str, tuple[str, ...]]:
    """Validate each distinct content once with each engine and append the verdicts.

    Returns:
        One line that says how many files held, and a sentence for each that did not.
    """
    from spillway.validation import Source, validate

    contents = _distinct_contents(folder)
    by_rows: dict[int, list[str]] = defaultdict(list)
    for content_hash, (rows, _) in contents.items():
        by_rows[rows].append(content_hash)
    progress.validating(len(contents), engines)
    failed: dict[str, list[str]] = {}
    readers: dict[str, set[str]] = defaultdict(set)
    for rows, hashes in sorted(by_rows.items()):
        paths = {taker.files.path_of(content_hash): content_hash for content_hash in hashes}
        for verdict in validate(list(paths), Source(taker.input, rows), engines):
            content_hash = paths[verdict.file]
            record = _record(taker.run_id, content_hash, rows, contents[content_hash][1], verdict)
            samples.append(folder / samples.VALIDATION, record)
            if verdict.ok or verdict.excused:
                readers[verdict.engine].add(content_hash)
            else:
                failed.setdefault(content_hash, []).append(wrong_output_sentence(record))
        progress.validated(len(hashes))
    good = len(contents) - len(failed)
    return f"validated by {', '.join(engines)}: {good} of {len(contents)}", tuple(
        sentence for sentences in failed.values() for sentence in sentences
    )


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
            "message": mismatch.message,
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
