"""Bytecode of PySpark for its workers: ``python -m tests.spark.bytecode`` adds it to what they import.

Spark has its Python workers import PySpark and py4j from zip files, in which Python leaves no bytecode: each
worker, and each process that plans a write, compiles some hundred modules before its first row. Another
version of Python takes no notice of the bytecode, and where none was added all tests run as well.
"""

from __future__ import annotations

import pkgutil
import py_compile
import shutil
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pyspark
import pyspark.sql.pandas
import pyspark.sql.worker

__all__ = ["ARCHIVES", "has_bytecode"]

SITE = Path(pyspark.__file__).parents[1]
ARCHIVES = sorted((SITE / "pyspark" / "python" / "lib").glob("*.zip"))
# The times in an archive say nothing of its bytecode.
UNCHECKED = py_compile.PycInvalidationMode.UNCHECKED_HASH


def has_bytecode(archive: Path) -> bool:
    """True if bytecode was added to an archive."""
    with ZipFile(archive) as file:
        return any(name.endswith(".pyc") for name in file.namelist())


def of_workers() -> set[Path]:
    """The sources of PySpark and py4j that a worker of any kind imports."""
    names = ["pyspark.daemon", "pyspark.worker"]
    for package in (pyspark.sql.pandas, pyspark.sql.worker):
        names += [module.name for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")]
    for name in names:
        import_module(name)
    return {
        Path(module.__file__)
        for name, module in sys.modules.items()
        if name.partition(".")[0] in {"pyspark", "py4j"} and module.__file__ is not None
    }


def add_bytecode(archive: Path, sources: set[Path]) -> None:
    """Put the bytecode of sources beside them, in an archive that has some of them.

    The archive is replaced as a whole: another environment may share the file.
    """
    part = archive.with_name(f"{archive.name}.part")
    shutil.copyfile(archive, part)
    with ZipFile(part, "a", ZIP_DEFLATED) as file, tempfile.TemporaryDirectory() as folder:
        names = set(file.namelist())
        for source in sorted(sources):
            name = source.relative_to(SITE).as_posix()
            if name in names and f"{name}c" not in names and file.read(name) == source.read_bytes():
                compiled = Path(folder, "compiled.pyc")
                place = f"{archive}/{name}"
                py_compile.compile(str(source), compiled, place, doraise=True, invalidation_mode=UNCHECKED)
                file.write(compiled, f"{name}c")
    part.replace(archive)


def main() -> None:
    sources = of_workers()
    for archive in ARCHIVES:
        add_bytecode(archive, sources)


if __name__ == "__main__":
    main()
