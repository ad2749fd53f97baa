"""The fingerprint of what is measured changes with what it does, and with nothing else."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spillway import backends
from spillway.bench.identity import describe_benchmark, fingerprint_of_code, fingerprints_of_rows

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


def fingerprints(path, *batches):
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return fingerprints_of_rows(path)


def of_values(path, *lists, kind="int32"):
    return fingerprints(path, *(pa.record_batch({"a": pa.array(values, kind)}) for values in lists))


def test_rows_are_known_by_their_values_and_types(tmp_path):
    def first(*lists, **kind):
        return of_values(tmp_path / "rows.arrow", *lists, **kind)["first_batch"]

    assert first([1, 2]) == first([1, 2])
    assert len({first([1, 2]), first([1, 3]), first([1, 2], kind="int64")}) == 3


def test_rows_after_the_first_batch_count(tmp_path):
    same, other = of_values(tmp_path / "a", [1, 2], [3]), of_values(tmp_path / "b", [1, 2], [4])
    assert same["first_batch"] == other["first_batch"]
    assert same["all_rows"] != other["all_rows"]


def test_bytes_of_padding_and_of_nulls_do_not_count(tmp_path):
    whole = pa.record_batch({"a": pa.array(range(100), pa.int32())})
    assert fingerprints(tmp_path / "a", whole.slice(0, 33)) == of_values(tmp_path / "b", range(33))
    values = [pa.array(each, pa.int32()).buffers()[1] for each in ([1, 7], [1, 8])]
    hidden = [pa.Array.from_buffers(pa.int32(), 2, [pa.py_buffer(b"\x01"), each]) for each in values]
    one, two = (fingerprints(tmp_path / "c", pa.record_batch({"a": each})) for each in hidden)
    assert one == two


def test_rows_of_a_type_without_a_digest_are_known_by_their_bytes(tmp_path):
    one, two = (
        of_values(tmp_path / "rows", [None] * rows, kind="month_day_nano_interval") for rows in (1, 2)
    )
    assert one != two
