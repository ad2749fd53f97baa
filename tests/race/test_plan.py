"""The choice of the races that are run."""

from __future__ import annotations

import pytest

from spillway.errors import MissingExtraError, OptionError
from spillway.race import committers
from spillway.race.location import Location
from spillway.race.model import Cell, load
from spillway.race.open_loop import quantile
from spillway.race.run import Options, parse_spread, plan_cells, reason_to_skip
from spillway.race.tables import TARGETS, target_cells


def options(**changes: object) -> Options:
    return Options(**{"committers": ("spillway",), "writers": (10,), **changes})


def test_every_combination_is_a_cell() -> None:
    cells = plan_cells(
        options(
            committers=("spillway", "delta-rs"),
            writers=(1, 10),
            workloads=("merge", "append-only", "batched:1000"),
            partitions=("own", "one"),
        )
    )
    assert len(cells) == len(set(cells)) == 2 * 2 * 3 * 2
    assert {(cell.workload, cell.rows, cell.merges) for cell in cells} == {
        ("merge", 10, True),
        ("append-only", 10, False),
        ("batched:1000", 1_000, False),
    }


@pytest.mark.parametrize(
    ("text", "writers", "processes"),
    [("threads", 1024, 1), ("processes", 8, 8), ("processes:64", 1024, 64), ("processes:64", 3, 3)],
)
def test_a_spread_says_how_many_processes(text: str, writers: int, processes: int) -> None:
    assert parse_spread(text, writers) == processes


def test_writers_that_go_on_for_a_time_have_no_number_of_appends() -> None:
    (cell,) = plan_cells(options(seconds=60.0, noise=True, spread="processes"))
    assert (cell.seconds, cell.noise, cell.processes, cell.expected) == (60.0, True, 10, None)
    assert cell.words == "spillway, append-only, 10 writers in 10 processes for 60 s beside noise"


@pytest.mark.parametrize("processes", [1, 3, 64])
def test_every_writer_is_in_one_process(processes: int) -> None:
    cell = Cell(committer="spillway", workload="merge", writers=100, processes=processes)
    shares = [cell.share(process) for process in range(processes)]
    assert sorted(writer for share in shares for writer in share) == list(range(100))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"writers": ()}, "--writers"),
        ({"writers": (0,)}, "from 1 up"),
        ({"committers": ("git",)}, "spillway, spillway-coalesce, put-if-absent, delta-rs, delta-rs-retry"),
        ({"workloads": ("batched",)}, "batched:N"),
        ({"workloads": ("batched:0",)}, "batched:N"),
        ({"workloads": ()}, "names none"),
        ({"partitions": ("two",)}, "own, one"),
        ({"spread": "machines"}, "processes:N"),
        ({"time_limit": 0.0}, "above 0"),
        ({"time_limit": float("inf")}, "above 0"),
        ({"seconds": float("nan")}, "above 0"),
        ({"writers": (2, 2)}, "--writers has 2 twice"),
        ({"committers": ("spillway", "delta-rs", "spillway")}, "--committers has spillway twice"),
        ({"samples": 0}, "--samples"),
        ({"seconds": 0.0}, "above 0"),
        ({"seconds": 1.0, "appends": 2}, "leave one out"),
        (
            {
                "seconds": 1.0,
                "work": "delete",
                "committers": ("row-level",),
                "workloads": (),
                "partitions": (),
            },
            "--appends",
        ),
    ],
)
def test_what_cannot_be_run_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        options(**changes)


@pytest.mark.parametrize(("name", "package"), [("lance", "pylance"), ("pyiceberg", "pyiceberg")])
def test_a_missing_library_of_another_format_names_its_extra(
    name: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=rf"{package} is needed .* 'spillway\[peers\]'"):
        load(name)
    cell = Cell(committer=name, workload="append-only", writers=1)
    assert reason_to_skip(cell) == f"{package} is not installed: pip install 'spillway[peers]'"


@pytest.mark.parametrize("name", committers.OWN_TABLES)
def test_tables_of_another_format_race_where_they_are_named_by_appends_alone(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: True)
    assert name not in committers.usual("append")
    (cell,) = plan_cells(options(committers=(name,)))
    assert reason_to_skip(cell) is None
    (cell,) = plan_cells(options(committers=(name,), workloads=("merge",)))
    assert reason_to_skip(cell) == "it merges no schemas"
    with pytest.raises(OptionError, match="for appends only"):
        options(committers=(name,), work="delete", workloads=(), partitions=())


def test_a_missing_library_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'spillway\[race\]'"):
        load("delta-rs")
    cell = Cell(committer="delta-rs-retry", workload="merge", writers=1)
    assert "pip install 'spillway[race]'" in (reason_to_skip(cell) or "")
    assert "native module" in (reason_to_skip(Cell(committer="spillway", workload="merge", writers=1)) or "")


def test_what_exceeds_the_machine_is_skipped_with_a_reason() -> None:
    many = Cell(committer="spillway", workload="merge", writers=10_000, processes=10_000)
    assert "processes:64" in (reason_to_skip(many) or "")
    threads = Cell(committer="spillway", workload="merge", writers=10**9)
    assert reason_to_skip(threads) is not None


def test_only_those_that_write_a_file_again_need_memory_for_its_rows() -> None:
    def reason(committer: str) -> str:
        partitions = committers.partitions(committer)
        million = Cell(
            committer=committer, work="update", writers=1_000, partitions=partitions, file_rows=10**9
        )
        return reason_to_skip(million) or ""

    assert "GB of memory" in reason("file-level")
    assert "GB of memory" in reason("partition-level")
    assert reason("row-level") == ""


def test_places_are_folders_or_buckets() -> None:
    assert Location.of("s3://bucket/prefix/", {}).below("a").uri == "s3://bucket/prefix/a"
    with pytest.raises(OptionError, match="s3://BUCKET"):
        Location.of("gs://bucket", {})
    with pytest.raises(OptionError, match="--store s3://"):
        Location.of("folder", {"AWS_REGION": "x"})


def test_a_storage_option_that_checks_would_pass_over_is_refused() -> None:
    with pytest.raises(OptionError, match="choose among AWS_"):
        Location.of("s3://bucket", {"AWS_PROFILE": "x", "AWS_REGION": "here"})


def test_storage_options_are_known_by_all_their_names() -> None:
    names = ["AWS_ENDPOINT", "endpoint_url", "AWS_TOKEN", "aws_default_region", "AWS_ALLOW_HTTP"]
    location = Location.of("s3://bucket", {name: f"of {name}" for name in names})
    assert location.endpoint in {"of AWS_ENDPOINT", "of endpoint_url"}


def test_the_targets_cover_both_stores_and_run_each_race_once() -> None:
    disk, s3 = target_cells("local disk"), target_cells("S3")
    assert len(disk) == len(set(disk)) == 9 + 7
    appends = [cell for cell in disk if cell.only_appends]
    assert {cell.writers for cell in appends} == {1, 50, 300, 1_000, 1_024, 10_000}
    changes = {(cell.work, cell.writers, cell.processes, cell.file_rows) for cell in disk} - {
        (cell.work, cell.writers, cell.processes, cell.file_rows) for cell in appends
    }
    assert changes == {
        ("delete", 100, 1, 100_000),
        ("delete", 100, 100, 100_000),
        ("update", 1_000, 1, 1_000_000),
        ("optimize", 32, 1, 100_000),
    }
    assert {(cell.writers, cell.processes) for cell in s3} == {(1_000, 8), (100, 1)}
    assert {target.only_on for target in TARGETS} == {"local disk", "S3"}


def test_quantiles_are_values_that_were_measured() -> None:
    values = [1.0, 2.0, 3.0, 4.0]
    assert [quantile(values, share) for share in (0.0, 0.25, 0.5, 0.51, 1.0)] == [1.0, 1.0, 2.0, 3.0, 4.0]
