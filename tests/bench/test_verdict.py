"""The verdict of a run: who wins, by how much, that nobody does, and whose fault a failure is."""

from __future__ import annotations

import itertools
import re
from dataclasses import asdict
from io import StringIO

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from rich.console import Console

from spillway.bench.conclusion import conclude, verdict_caveats
from spillway.bench.ratio_tables import ratio_tables
from spillway.bench.record import PROBES
from spillway.bench.report import html_report, write_report
from spillway.bench.side_tables import drift_warnings, probe_cost, probe_costs
from spillway.bench.summary import read_run, status_of, wrong_outputs
from spillway.bench.tables import ranking_table, rankings, short_tables
from spillway.cli.runs import report_run
from spillway.harness import records
from spillway.harness.report import terminal_tables
from spillway.harness.statistics import exceeds, paired_ratio
from spillway.runs import verdicts

from .made_runs import Writes, make_run, wrong

speeds = st.floats(min_value=1e3, max_value=1e7)


def text(run):
    return "\n".join(line for each in conclude(run) for line in each.lines)


def ranking(run):
    return rankings(run, run.settings[0])[0]


def test_the_winner_is_named_with_the_interval_and_the_code(tmp_path):
    run = make_run(
        tmp_path / "run",
        {
            "arro3": Writes([0.9e6, 1.0e6, 1.1e6] * 2),
            "spillway": Writes([1.8e6, 2.0e6, 2.2e6] * 2),
            "polars": Writes([5e5] * 6),
        },
    )
    (found,) = conclude(run)
    assert found.lines[0] == "At 400,000 rows spillway wins: 2.00 times [2.00, 2.00] the rows/s of arro3."
    assert found.writer == "spillway"
    assert found.code == 'spillway.write_parquet(table, path, compression="zstd")'
    assert verdict_caveats(run)[0].startswith("In brackets the 95 % interval")
    assert "not corrected" in verdict_caveats(run)[0]


def test_a_peer_that_wins_is_named_with_its_own_call(tmp_path):
    run = make_run(tmp_path / "run", {"spillway": Writes([1e6] * 6), "polars": Writes([2e6] * 6)})
    (found,) = conclude(run)
    assert found.lines[0].startswith("At 400,000 rows polars wins: 2.00 times")
    assert found.code.startswith("pl.from_arrow(table).write_parquet(")


NOISE = [1.0, 1.02, 0.98, 1.01, 0.99, 1.03, 0.97, 1.0, 1.02, 0.99, 1.01, 0.98]


def two_settings_and_a_peer(tmp_path):
    """A library with two settings that samples cannot tell apart, ahead of another library."""
    return make_run(
        tmp_path / "run",
        {
            "spillway": Writes([1.75e6 * each for each in NOISE]),
            "spillway-16mb": Writes([1.73e6 * each for each in reversed(NOISE)]),
            "pyarrow-streaming": Writes([1e6 * each for each in NOISE]),
            "polars": Writes([9e5 * each for each in NOISE]),
        },
    )


def test_libraries_are_compared_before_the_settings_of_one(tmp_path):
    (found,) = conclude(two_settings_and_a_peer(tmp_path))
    first, second, *_ = found.lines
    assert first == (
        "At 400,000 rows spillway wins: 1.75 times [1.75, 1.75] the rows/s of pyarrow-streaming, "
        "the fastest of another library."
    )
    assert second.startswith("Settings of spillway: samples cannot tell spillway from spillway-16mb (1.01")
    assert found.writer == "spillway"


def test_a_slower_setting_of_the_winning_library_is_named_second(tmp_path):
    run = make_run(
        tmp_path / "run",
        {
            name: Writes([speed] * 6)
            for name, speed in (("arro3", 3e6), ("arro3-tuned", 2e6), ("polars", 1e6))
        },
    )
    first, second, *_ = conclude(run)[0].lines
    assert first.startswith("At 400,000 rows arro3 wins: 3.00 times [3.00, 3.00] the rows/s of polars")
    assert second == (
        "Settings of arro3-io: arro3 writes 1.50 times [1.50, 1.50] the rows/s of arro3-tuned, the next."
    )


def test_settings_of_one_library_alone_are_compared_with_each_other(tmp_path):
    run = make_run(tmp_path / "run", {"arro3": Writes([3e6] * 6), "arro3-tuned": Writes([2e6] * 6)})
    assert conclude(run)[0].lines == [
        "At 400,000 rows arro3 wins: 1.50 times [1.50, 1.50] the rows/s of arro3-tuned."
    ]


def test_every_report_opens_with_the_same_sentence(tmp_path):
    run = two_settings_and_a_peer(tmp_path)
    sentence = "At 400,000 rows spillway wins: 1.75 times [1.75, 1.75] the rows/s of pyarrow-streaming"
    (said,) = verdicts(run.folder).values()
    assert said.startswith(sentence)
    assert f"- {said}" in write_report(run, []).read_text()
    assert f"<h1>{said.removesuffix('.')}</h1>" in html_report(run)
    console = Console(width=500, file=StringIO())
    report_run(console, run.folder, verbose=False)
    assert f"- {said}" in console.file.getvalue()


def test_nobody_wins_where_the_interval_holds_1(tmp_path):
    run = make_run(
        tmp_path / "run",
        {
            "spillway": Writes([1.0e6, 1.2e6, 1.1e6]),
            "arro3": Writes([1.1e6, 1.0e6, 1.0e6]),
            "duckdb": Writes([1e5] * 3),
        },
    )
    assert (
        "At 400,000 rows nobody wins: samples cannot tell spillway from arro3 (1.07 times [0.91, 1.20])"
        in text(run)
    )
    assert "the next, duckdb, is behind (10.98 times [10.00, 12.00])" in text(run)
    assert [row[1].best for row in ranking_table(run, ranking(run)).rows] == [True, True, False]


def test_what_samples_cannot_tell_from_the_best_has_no_ratio(tmp_path):
    run = make_run(
        tmp_path / "run",
        {
            "spillway": Writes([2e6 * each for each in NOISE]),
            "arro3": Writes([2e6 * each for each in reversed(NOISE)]),
            "polars": Writes([1e6] * 12),
        },
    )
    table = ranking_table(run, ranking(run))
    level, behind = table.rows[1:]
    assert (level[2].text, level[1].best) == ("~", True)
    assert re.fullmatch(r"[\d.]+ %", level[3].text)
    assert re.fullmatch(r"0\.50 \[0\.49, 0\.5[01]\]", behind[2].text)
    (ratios,) = ratio_tables(run).values()
    assert [(row[0].text, row[1].text[:4]) for row in ratios.rows] == [("arro3", "~"), ("polars", "2.00")]


def test_ratios_go_by_intervals_where_tests_could_tell_none_and_settings_are_corrected_apart(tmp_path):
    own = {"spillway": Writes([2e6 * (1 + n / 1000) for n in range(6)])}
    names = ("arro3", "duckdb", "polars")
    few = make_run(tmp_path / "few", {**own, **{name: Writes([1e6] * 6) for name in names}})
    (table,) = ratio_tables(few).values()
    assert [row[1].text[:4] for row in table.rows] == ["2.00", "2.00", "2.00"]
    codecs = [{"codec": codec, "level": None} for codec in ("zstd", "lz4", "snappy")]
    apart = {
        name: [Writes([speed * (1 + n / 1000) for n in range(7)], cell=each) for each in codecs]
        for name, speed in (("spillway", 2e6), ("arro3", 1e6))
    }
    tables = ratio_tables(make_run(tmp_path / "apart", apart))
    assert [table.rows[0][1].text for table in tables.values()] == ["2.00 [2.00, 2.00]"] * 3


def test_a_range_of_few_blocks_that_holds_1_is_no_ratio(tmp_path):
    run = make_run(tmp_path / "run", {"spillway": Writes([1.0, 2.0, 1.0]), "arro3": Writes([2.0, 1.0, 1.02])})
    (table,) = ratio_tables(run).values()
    assert table.rows[0][1].text == "~"


def test_what_costs_a_probe_is_said_of_pairs_of_writes(tmp_path):
    made = make_run(tmp_path / "run", {"spillway": Writes([1e6] * 2)})
    for block in range(6):
        for probe, seconds in (("none", 1.0), ("gil", 1.04 + block / 1000), ("gc", 1.0)):
            write = {"probe": probe, "block": block, "wall_seconds": seconds * (1 + block)}
            records.append(made.folder / PROBES, {**write, "cell": asdict(made.cells[0].cell)})
    run = read_run(made.folder)
    assert probe_cost(run, "gil").median == pytest.approx(1.0425, abs=0.001)
    gil, collector = probe_costs(run)
    assert gil == "the GIL's ticker: 1.04 [1.04, 1.04] times the time, by 6 pairs of writes"
    assert collector.startswith("the garbage collector's callbacks: 1.000 [1.000, 1.000] times")
    assert gil in write_report(run, []).read_text()


def test_a_drift_over_the_run_is_a_caveat(tmp_path):
    slower = [1e6 * 0.99**block for block in range(12)]
    run = make_run(tmp_path / "run", {"spillway": Writes(slower), "arro3": Writes(slower)})
    report = write_report(run, []).read_text()
    assert "- speeds drift by -10.5 % from the first block to the last" in report
    steady = make_run(tmp_path / "steady", {"spillway": Writes([1e6, 1.01e6] * 6)})
    assert "speeds drift" not in write_report(steady, []).read_text()


def test_blocks_that_differ_by_chance_are_no_drift(tmp_path):
    draw = np.random.default_rng(3)
    warned = 0
    for place in range(30):
        blocks = np.exp(draw.normal(0, 0.05, 12))
        writers = {
            name: Writes([1e6 * each for each in blocks * np.exp(draw.normal(0, 0.005, 12))])
            for name in ("spillway", "arro3", "polars", "duckdb")
        }
        warned += bool(drift_warnings(make_run(tmp_path / str(place), writers)))
    assert warned <= 3


def test_one_sample_crowns_nobody_and_marks_nothing(tmp_path):
    run = make_run(tmp_path / "run", {"spillway": Writes([2e6]), "arro3": Writes([1e6])})
    (found,) = conclude(run)
    assert "nobody wins" in found.lines[0]
    assert (found.writer, found.code) == (None, None)
    assert "One sample a backend shows no spread" in verdict_caveats(run)[0]
    assert not any(entry.best for row in ranking_table(run, ranking(run)).rows for entry in row)
    assert "[" not in ranking_table(run, ranking(run)).rows[0][1].text
    assert "there are no intervals" in " ".join(run.warnings())


@given(
    st.integers(2, 4).flatmap(
        lambda n: st.lists(st.lists(speeds, min_size=n, max_size=n), min_size=2, max_size=4)
    )
)
def test_few_samples_have_a_winner_only_if_it_wins_every_block(tmp_path_factory, table):
    assume(len({speed for row in table for speed in row}) == sum(map(len, table)))
    names = ["spillway", "arro3", "polars", "duckdb"][: len(table)]
    run = make_run(
        tmp_path_factory.mktemp("runs") / "run",
        {name: Writes(row) for name, row in zip(names, table, strict=True)},
    )
    fastest = {
        max(range(len(table)), key=lambda place: table[place][block]) for block in range(len(table[0]))
    }
    found = ranking(run)
    assert found.has_winner == (len(fastest) == 1)
    if found.has_winner:
        assert found.best.cell.backend == names[fastest.pop()]


@given(st.lists(st.tuples(speeds, speeds), min_size=2, max_size=20))
def test_to_exceed_is_to_have_an_interval_of_ratios_above_1(pairs):
    one, other = ({block: pair[place] for block, pair in enumerate(pairs)} for place in (0, 1))
    assume(all(abs(a / b - 1) > 1e-9 for a, b in pairs))
    assert exceeds(one, other) == (paired_ratio(one, other).low > 1)
    assert not (exceeds(one, other) and exceeds(other, one))


def test_one_block_tells_nothing_apart():
    assert not exceeds({0: 9.0}, {0: 1.0})
    assert not exceeds({0: 9.0, 1: 9.0}, {1: 1.0, 2: 1.0})
    assert exceeds({0: 9.0, 1: 9.0}, {0: 1.0, 1: 1.0})


def test_peers_with_less_memory_and_smaller_files_are_named(tmp_path):
    run = make_run(
        tmp_path / "run",
        {
            "spillway": Writes([2e6] * 6, growth=40e6, size=2_000_000),
            "spillway-16mb": Writes([1.5e6] * 6, growth=10e6, size=2_200_000),
            "pyarrow-streaming": Writes([1e6] * 6, growth=20e6, size=1_500_000, row_groups=40),
        },
    )
    assert (
        "Less memory than the 40.0 MB of spillway: spillway-16mb, 10.0 MB (0.25 times [0.25, 0.25]); "
        "pyarrow-streaming, 20.0 MB (0.50 times [0.50, 0.50], with 40 row groups to 1)."
    ) in text(run)
    assert (
        "Smaller file than the 2.00 MB of spillway: pyarrow-streaming, 1.50 MB "
        "(0.75 times, with 40 row groups to 1)."
    ) in text(run)
    assert "0.50 times" in write_report(run, []).read_text()


@pytest.mark.parametrize(
    ("size", "words"), [(1_999_990, None), (1_998_100, None), (1_992_000, "0.996 times")]
)
def test_a_file_that_is_smaller_by_next_to_nothing_is_not_called_smaller(tmp_path, size, words):
    run = make_run(
        tmp_path / "run",
        {
            "spillway": Writes([2e6] * 6, growth=1e6, size=2_000_000),
            "arro3": Writes([1e6] * 6, growth=2e6, size=size),
        },
    )
    assert ("Smaller file" in text(run)) == (words is not None)
    assert words is None or words in text(run)


def test_the_best_in_everything_has_nobody_beside_it(tmp_path):
    run = make_run(
        tmp_path / "run", {"spillway": Writes([2e6] * 6, growth=1e6, size=9), "arro3": Writes([1e6] * 6)}
    )
    assert "Less memory" not in text(run)
    assert "Smaller file" not in text(run)


def test_every_number_of_rows_has_its_verdict_and_no_two_settings_are_pooled(tmp_path):
    def cells(*numbers):
        return [
            Writes(
                [number * 1e6] * 6, cell={"rows": rows, "codec": codec, "level": None, "chunk_rows": chunk}
            )
            for number, (rows, codec, chunk) in zip(
                numbers, itertools.product((1000, 2000), ("snappy", "lz4"), (100, 200)), strict=True
            )
        ]

    run = make_run(
        tmp_path / "run", {"spillway": cells(1, 2, 3, 4, 5, 6, 7, 8), "arro3": cells(2, 1, 1, 1, 1, 1, 1, 1)}
    )
    found = conclude(run)
    assert len(found) == len(run.settings) == 4
    assert len({each.title for each in found}) == 4
    for each in found:
        assert [re.match(r"At ([\d,]+) rows", line)[1] for line in each.lines if line.startswith("At")] == [
            "2,000",
            "1,000",
        ]
    by_title = {each.title: each.lines for each in found}
    (snappy,) = [
        lines for title, lines in by_title.items() if "snappy" in title and "100 rows a batch" in title
    ]
    assert snappy[0].startswith("At 2,000 rows spillway wins: 5.00 times")
    assert snappy[1].startswith("At 1,000 rows arro3 wins: 2.00 times")


def test_wrong_output_names_its_writers_marks_their_rows_and_takes_them_out(tmp_path):
    content = "ab" * 32
    run = make_run(
        tmp_path / "run",
        {
            "arro3": Writes([3e6] * 3, content=content),
            "spillway": Writes([2e6] * 3),
            "polars": Writes([1e6] * 3),
        },
        [wrong(content, 400_000, "pyarrow"), wrong(content, 400_000, "duckdb")],
    )
    (found,) = wrong_outputs(run)
    assert str(found) == (
        "arro3 (table, 400,000 rows), read by pyarrow and duckdb: "
        "column 'a' is int64 [abababababababab.parquet]"
    )
    table = ranking_table(run, ranking(run))
    assert [(row[0].text, row[-1].text) for row in table.rows] == [
        ("spillway", "ok"),
        ("polars", "ok"),
        ("arro3", "wrong output"),
    ]
    assert not any(entry.best for entry in table.rows[-1])
    assert "spillway wins each of 3 blocks" in text(run)
    assert "Left out: arro3 (wrong output)." in text(run)
    report = write_report(run, []).read_text()
    assert "Wrong output of arro3 (table, 400,000 rows)" in report
    assert "None" not in report
    assert status_of(run) == 0


def test_a_failure_has_its_reason_below_the_table_and_whole_in_the_report(tmp_path):
    said = "column appears more than once; names must be unique\nhint: " + "rename it " * 40
    error = {"kind": "library_error", "type": "DuplicateError", "message": said}
    run = make_run(
        tmp_path / "run", {"spillway": Writes([1e6] * 3), "polars": Writes([None] * 3, error=error)}
    )
    (table,) = short_tables(run)
    assert table.rows[-1][-1].text == "library error"
    (note,) = table.notes
    assert note == (
        "polars, 400,000 rows: library error: DuplicateError: "
        "column appears more than once; names must be unique"
    )
    assert "rename it rename it" in write_report(run, []).read_text()


@pytest.mark.parametrize(
    ("writes", "words"),
    [
        (Writes([None], outcome="oom_killed"), "killed at the memory limit of 2,276 MB in phase write"),
        (
            Writes([None], outcome="oom_killed", cell={"memory_bytes": None}),
            "killed for want of memory, by the system",
        ),
        (Writes([None], outcome="timeout"), "not done when its time was up in phase write"),
    ],
)
def test_a_failure_without_an_exception_has_a_reason_too(tmp_path, writes, words):
    run = make_run(tmp_path / "run", {"spillway": Writes([1e6]), "polars": writes})
    assert any(words in note for table in short_tables(run) for note in table.notes)


@pytest.mark.parametrize(
    ("backends", "status"),
    [
        ({"spillway": Writes([1e6]), "polars": Writes([None])}, 0),
        ({"spillway": Writes([1e6]), "polars": Writes([None], outcome="segfault")}, 0),
        ({"spillway": Writes([None], outcome="oom_killed"), "polars": Writes([1e6])}, 0),
        ({"spillway": Writes([None], outcome="memory_error"), "polars": Writes([1e6])}, 0),
        ({"spillway": Writes([1e6, None]), "polars": Writes([1e6, 1e6])}, 1),
        ({"spillway-16mb": Writes([None], outcome="timeout"), "polars": Writes([1e6])}, 1),
        ({"spillway": Writes([1e6], content="cd" * 32), "polars": Writes([1e6])}, 1),
        ({"polars": Writes([None])}, 1),
        ({"polars": Writes([1e6], content="cd" * 32)}, 1),
        ({"polars": Writes([1e6], content="cd" * 32), "arro3": Writes([1e6])}, 0),
    ],
)
def test_a_peers_failure_is_not_ours(tmp_path, backends, status):
    run = make_run(tmp_path / "run", backends, [wrong("cd" * 32, 400_000)])
    assert status_of(run) == status


def test_a_writer_that_fails_at_times_is_no_winner(tmp_path):
    run = make_run(tmp_path / "run", {"arro3": Writes([9e6, 9e6, None]), "spillway": Writes([1e6] * 3)})
    assert "spillway alone ended well" in text(run)
    assert "arro3 (ok x2, library error x1)" in text(run)


def test_nothing_but_zeros_is_ever_marked(tmp_path):
    tiny = {"rows": 1}
    run = make_run(
        tmp_path / "run",
        {
            "spillway": Writes([500.0] * 3, growth=0, size=900, cell=tiny),
            "arro3": Writes([400.0] * 3, growth=10, size=900, cell=tiny),
        },
    )
    report = write_report(run, []).read_text()
    assert not re.search(r"\*\*[0., ]*\*\*", report)
    assert "1 row" in report
    assert "1 rows" not in report


@given(
    st.lists(st.floats(min_value=1, max_value=9.99e7), min_size=1, max_size=5),
    st.sampled_from(["oom_killed", "library_error", "memory_error"]),
)
def test_the_ranking_fits_a_terminal_of_80_columns(tmp_path_factory, values, outcome):
    spread = [value * factor for value, factor in zip(values, itertools.cycle((1, 0.2, 5)), strict=False)]
    run = make_run(
        tmp_path_factory.mktemp("runs") / "run",
        {
            "pyarrow-streaming-tuned": Writes(spread, growth=1.23e9, size=999_990_000),
            "spillway": Writes([*values[1:], None], outcome=outcome),
        },
    )
    parts = terminal_tables(short_tables(run)[0], 80)
    assert len(parts) == 1
    assert len(parts[0].columns) == 6


def test_the_ranking_is_by_speed(tmp_path):
    run = make_run(
        tmp_path / "run",
        {name: Writes([speed] * 2) for name, speed in [("polars", 1e6), ("duckdb", 3e6), ("arro3", 2e6)]},
    )
    table = ranking_table(run, ranking(run))
    assert [row[0].text for row in table.rows] == ["duckdb", "arro3", "polars"]
    assert [row[2].text for row in table.rows] == ["1", "0.67 [0.67, 0.67]", "0.33 [0.33, 0.33]"]
    assert [row[2].text for row in short_tables(run)[0].rows] == ["1", "0.67", "0.33"]
    assert [row[1].text for row in table.rows] == [
        "3.00M [3.00, 3.00]",
        "2.00M [2.00, 2.00]",
        "1.00M [1.00, 1.00]",
    ]


def test_a_report_says_how_many_outputs_nobody_read_back(tmp_path):
    writers = {"spillway": Writes([1e6], content="a" * 64), "arro3": Writes([1e6], content="b" * 64)}
    run = make_run(tmp_path / "run", writers, [{**wrong("a" * 64, 1000), "outcome": "ok", "mismatch": None}])
    report = write_report(run, []).read_text()
    assert "1 of 1 distinct output holds the rows" in report
    assert "1 distinct output was not read back" in report
    both = [{**wrong(each * 64, 1000), "outcome": "ok", "mismatch": None} for each in "ab"]
    assert "not read back" not in write_report(make_run(tmp_path / "both", writers, both), []).read_text()


@pytest.mark.parametrize(("outcomes", "said"), [(["excused", "excused"], True), (["excused", "ok"], False)])
def test_files_that_every_reader_is_excused_from_were_not_read_back(tmp_path, outcomes, said):
    verdicts = [
        {"content_hash": str(place), "engine": "polars", "outcome": outcome}
        for place, outcome in enumerate(outcomes)
    ]
    run = make_run(tmp_path / "run", {"spillway": Writes([1e6] * 6)}, verdicts)
    assert ("No file was read back" in " ".join(verdict_caveats(run))) == said
