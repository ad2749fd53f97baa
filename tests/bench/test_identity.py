"""The fingerprint of what is measured changes with what it does, and with nothing else."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spillway import backends
from spillway.bench.identity import describe_benchmark, fingerprint_of_code, fingerprint_of_rows

CODE = '''"""A module."""

class Sink:
    """A sink."""

    def write(self, data):
        # Copied.
        return [*data]
'''


def of(folder, text):
    (folder / "module.py").write_text(text)
    return fingerprint_of_code([folder / "module.py"])


@pytest.mark.parametrize(
    ("old", "new"), [("A module.", "Other words."), ("# Copied.", ""), ("[*data]", "[ *data ]")]
)
def test_words_do_not_count(tmp_path, old, new):
    assert of(tmp_path, CODE) == of(tmp_path, CODE.replace(old, new))


def test_constants_that_are_false_count(tmp_path):
    values = ("None", "0", "0.0", "''", "b''", "False", "...")
    assert len({of(tmp_path, f"f(x={value})\n") for value in values}) == len(values)


def test_a_program_is_known_by_its_command_and_its_file(tmp_path, monkeypatch):
    def fingerprint(text, argument):
        script = tmp_path / "mine.sh"
        script.write_text(text)
        script.chmod(0o700)
        (tmp_path / "mine.toml").write_text(f'[mine]\ncommand = ["./mine.sh", "{argument}"]\n')
        monkeypatch.setenv(backends.EXTERNAL_VARIABLE, str(tmp_path / "mine.toml"))
        return describe_benchmark(["mine"])["backends"][0]["code"]

    assert fingerprint("a", "1") == fingerprint("a", "1")
    assert len({fingerprint("a", "1"), fingerprint("b", "1"), fingerprint("a", "2")}) == 3


@pytest.mark.parametrize(
    ("old", "new"), [("[*data]", "data"), ("def write", "def put"), ("[*data]", "[*data, 0]")]
)
def test_code_counts(tmp_path, old, new):
    assert of(tmp_path, CODE) != of(tmp_path, CODE.replace(old, new))


def test_a_backend_is_known_by_its_module_and_what_that_shares():
    described = describe_benchmark(["arro3", "arro3-tuned", "polars", "duckdb"])
    codes = {each["backend"]: each["code"] for each in described["backends"]}
    assert codes["arro3"] == codes["arro3-tuned"]
    assert len(set(codes.values())) == 3
    assert described["worker"] not in codes.values()


def test_the_module_of_every_backend_is_found_without_its_library():
    assert all(backends.module_of(name).startswith("spillway.backends.") for name in ("spillway", "duckdb"))


def test_rows_are_known_by_their_values_and_types(tmp_path):
    def fingerprint(values, kind):
        path = tmp_path / "rows.arrow"
        batch = pa.record_batch({"a": pa.array(values, kind)})
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
            writer.write_batch(batch)
        return fingerprint_of_rows(path)

    assert fingerprint([1, 2], pa.int32()) == fingerprint([1, 2], pa.int32())
    assert (
        len(
            {
                fingerprint([1, 2], pa.int32()),
                fingerprint([1, 3], pa.int32()),
                fingerprint([1, 2], pa.int64()),
            }
        )
        == 3
    )
