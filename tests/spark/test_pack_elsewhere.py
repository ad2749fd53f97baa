"""The archive for executors of another platform or Python: from wheels, and nothing of them is installed."""

from __future__ import annotations

import importlib.util
import sys
import tarfile
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

import pytest

from spillway.errors import OptionError, SpillwayError
from spillway.spark import pack

from ..counts import SOAK

if TYPE_CHECKING:
    from pathlib import Path

INSTALLERS = ["pip", "uv"]
ARM = {"python": "3.12", "platform": "manylinux_2_28_aarch64"}
#: The tags of the wheels that `make dist` builds, and of pyarrow's own for each Python.
OWN, OF_PYARROW = "cp311-abi3-manylinux_2_17_aarch64.manylinux2014_aarch64", "{0}-{0}-manylinux_2_28_aarch64"


def wheel(folder: Path, name: str, number: str, tag: str, *files: str) -> Path:
    """A wheel of files without content."""
    path = folder / f"{name}-{number}-{tag}.whl"
    info = f"{name}-{number}.dist-info"
    tags = "".join(f"Tag: {each}\n" for each in [tag])
    metadata = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\n{tags}",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {name}:main\n",
    }
    with ZipFile(path, "w") as archive:
        contents = {**dict.fromkeys(files, ""), **metadata}
        for member, text in contents.items():
            archive.writestr(member, text)
        record = "".join(f"{member},,\n" for member in (*contents, f"{info}/RECORD"))
        archive.writestr(f"{info}/RECORD", record)
    return path


def of_spillway(folder: Path) -> Path:
    files = ("spillway/__init__.py", "spillway/_native.abi3.so", "pyspark_spillway/__init__.py")
    return wheel(folder, "spillway", "0.1.0", OWN, *files)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in the place of the package index, with a pyarrow for Arm and two Pythons."""
    folder = tmp_path / "index"
    folder.mkdir()
    for python in ("cp312", "cp313"):
        wheel(folder, "pyarrow", version("pyarrow"), OF_PYARROW.format(python), f"pyarrow/{python}.so")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    settings = tmp_path / "uv.toml"
    settings.write_text(f"no-index = true\nfind-links = [{str(folder)!r}]\n")
    monkeypatch.setenv("UV_CONFIG_FILE", str(settings))
    return folder


def only(monkeypatch: pytest.MonkeyPatch, *installers: str) -> None:
    """Hide the other installers."""

    def found(name: str) -> Any:
        hidden = name in INSTALLERS and name not in installers
        return None if hidden else importlib.util.find_spec(name)

    # The name of the module is that of the function, too.
    monkeypatch.setattr(sys.modules["spillway.spark.workers"], "find_spec", found)
    if "uv" not in installers:
        monkeypatch.setenv("PATH", "/nowhere")


def members(archive: Path) -> list[str]:
    with tarfile.open(archive) as file:
        return file.getnames()


@pytest.mark.usefixtures("index")
@pytest.mark.parametrize("installer", INSTALLERS)
def test_an_archive_for_another_platform_has_its_wheels_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installer: str
) -> None:
    only(monkeypatch, installer)
    spillway = of_spillway(tmp_path)
    packed = pack(tmp_path / "arm.tar.gz", wheel=spillway, **ARM)
    names = members(packed.path)
    assert {"spillway/_native.abi3.so", "pyspark_spillway/__init__.py", "pyarrow/cp312.so"} <= set(names)
    assert "pyarrow/cp313.so" not in names
    # Neither programs nor where the wheel was.
    assert not [name for name in names if name.startswith("bin/") or name.endswith("direct_url.json")]
    # The driver plans with what is installed here.
    assert all(folder.is_dir() for folder in packed.folders)
    again = pack(tmp_path / "again.tar.gz", wheel=spillway, **ARM)
    assert again.path.read_bytes() == packed.path.read_bytes()


def test_other_packages_come_with_what_they_need(index: Path, tmp_path: Path) -> None:
    wheel(index, "extra", "1.0", "py3-none-any", "extra.py")
    packed = pack(tmp_path / "arm.tar.gz", wheel=of_spillway(tmp_path), also=["extra>=1"], **ARM)
    assert "extra.py" in members(packed.path)


@pytest.mark.parametrize("installer", INSTALLERS)
def test_a_package_without_a_wheel_for_the_platform_is_named(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installer: str
) -> None:
    only(monkeypatch, installer)
    given: dict[str, Any] = {"wheel": of_spillway(index), "python": "3.14", "platform": ARM["platform"]}
    with pytest.raises(SpillwayError, match=r"for Python 3\.14 on aarch64 with glibc 2\.28 .*pyarrow"):
        pack(tmp_path / "arm.tar.gz", **given)
    assert not (tmp_path / "arm.tar.gz").exists()


def test_without_an_installer_it_is_said_what_is_needed(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(monkeypatch)
    with pytest.raises(SpillwayError, match="neither pip nor uv is installed"):
        pack(tmp_path / "arm.tar.gz", wheel=of_spillway(index), **ARM)


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"python": "3.12"}, "python"),
        ({"platform": "manylinux_2_28_aarch64"}, "platform"),
        ({"wheel": "pyarrow-26.0.1-cp311-cp311-linux_x86_64.whl"}, "wheel"),
        ({"wheel": "WHEEL", "python": "3.12.1"}, "python"),
        ({"wheel": "WHEEL", "platform": "aarch64"}, "platform"),
        ({"wheel": "WHEEL", "platform": "manylinux_2_5_x86_64"}, "platform"),
    ],
)
def test_what_cannot_be_packed_is_refused(tmp_path: Path, given: dict[str, str], option: str) -> None:
    if given.get("wheel") == "WHEEL":
        given = {**given, "wheel": str(of_spillway(tmp_path))}
    with pytest.raises(OptionError) as refused:
        pack(tmp_path / "a.tar.gz", **given)  # type: ignore[arg-type]
    assert refused.value.option == option


def test_a_wheel_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"spillway-1-none\.whl does not exist"):
        pack(tmp_path / "a.tar.gz", wheel=tmp_path / "spillway-1-none.whl")


if SOAK:

    @pytest.mark.parametrize("installer", INSTALLERS)
    def test_pyarrow_of_the_package_index_is_for_the_other_processor(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installer: str
    ) -> None:
        only(monkeypatch, installer)
        packed = pack(tmp_path / "arm.tar.gz", wheel=of_spillway(tmp_path), **ARM)
        with tarfile.open(packed.path) as file:
            (name,) = [name for name in file.getnames() if name.startswith("pyarrow/lib.cpython-312-")]
            module = file.extractfile(name)
            assert module is not None
            machine = module.read(20)[18:20]
        assert machine == bytes([0xB7, 0])  # EM_AARCH64
