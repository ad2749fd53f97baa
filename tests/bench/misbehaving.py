"""Backends that misbehave on purpose, for the bench to notice. Installed by a fixture as a distribution."""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import mmap
import os
import signal
import tempfile
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

MIB = 1 << 20


class Writer:
    """Writes with pyarrow, and does `effect` once, in `close`."""

    name = "well-behaved"
    modes = frozenset({"batches", "table"})

    def version(self):
        return "1.0"

    def open(self, path, schema, _settings):
        return Sink(self, path, schema)

    def effect(self, _sink):
        """The planted effect; the warm-up has none."""

    def wants(self, data):
        return data


class Sink:
    def __init__(self, backend, path, schema):
        self.backend = backend
        self.writer = pq.ParquetWriter(path, schema)
        self.rows = 0

    def write(self, data):
        data = self.backend.wants(data)
        self.rows += data.num_rows
        if hasattr(data, "to_batches"):
            self.writer.write_table(data)
        else:
            self.writer.write_batch(data)

    def close(self):
        if self.rows > 1000:  # the warm-up writes fewer
            self.backend.effect(self)
        self.writer.close()


class MemoryErrorWriter(Writer):
    name = "raises-memory-error"

    def effect(self, _sink):
        raise MemoryError("no room for a page of 8 MiB")


class LibraryErrorWriter(Writer):
    name = "raises"

    def effect(self, _sink):
        raise OSError(28, "No space left on device", "/some/where/file.parquet")


class AbortingWriter(Writer):
    name = "aborts"

    def effect(self, _sink):
        os.write(2, b"terminate called without an active exception\n")
        os.abort()


class CrashingWriter(Writer):
    name = "crashes"

    def effect(self, _sink):
        ctypes.string_at(0)


class KilledWriter(Writer):
    name = "is-killed"

    def effect(self, _sink):
        os.kill(os.getpid(), signal.SIGKILL)


class ExitingWriter(Writer):
    name = "exits"

    def effect(self, _sink):
        os._exit(7)


class HangingWriter(Writer):
    name = "hangs"

    def effect(self, _sink):
        time.sleep(600)


class StayingWriter(Writer):
    name = "leaves-a-thread"

    def effect(self, _sink):
        threading.Thread(target=time.sleep, args=(600,)).start()


class LosingWriter(Writer):
    name = "loses-a-row"

    def wants(self, data):
        return data.slice(1)


class SwappingWriter(Writer):
    """Swaps two values of one column: counts, nulls, extremes and sums stay as they were."""

    name = "swaps-two-values"
    modes = frozenset({"batches"})

    def wants(self, data):
        if data.num_rows <= 1000:
            return data
        values = data.column(0)
        column = pa.concat_arrays([values.take(pa.array([1, 0])), values.slice(2)])
        return data.set_column(0, data.schema.field(0), column)


class SpillingWriter(Writer):
    """Leaves a folder of spilled pages where it works."""

    name = "spills"

    def effect(self, _sink):
        Path(".spilled").mkdir()
        Path(".spilled/pages").write_bytes(bytes(MIB))


class SpillingToFileWriter(Writer):
    """Spills 64 MiB where temporary files go, to a file that has no name, as writers do."""

    name = "spills-to-a-file"

    def effect(self, sink):
        sink.spilled = tempfile.TemporaryFile()  # noqa: SIM115 - open until the process ends
        folder = Path(f"/proc/self/fd/{sink.spilled.fileno()}").readlink().parent
        if folder != Path.cwd():
            raise RuntimeError("spilled pages are not where the output is")
        for _ in range(64):
            sink.spilled.write(bytes(MIB))
        sink.spilled.flush()


class GarbageWriter(Writer):
    name = "writes-no-parquet"

    def open(self, path, schema, settings):
        sink = super().open(path, schema, settings)
        sink.path = path
        return sink

    def effect(self, sink):
        close = sink.writer.close

        def close_and_spoil():
            close()
            sink.path.write_bytes(b"not a Parquet file at all")

        sink.writer.close = close_and_spoil


class HungryWriter(Writer):
    """Takes 200 MiB and gives it back within the phase."""

    name = "takes-200-MiB"

    def effect(self, _sink):
        with mmap.mmap(-1, 200 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as block:
            for page in range(0, 200 * MIB, mmap.PAGESIZE):
                block[page] = 1
            time.sleep(0.05)  # the curve is looked at from outside, every few milliseconds


class HugePagesWriter(Writer):
    """Takes 64 MiB of huge pages, and keeps them until the process ends."""

    name = "takes-huge-pages"

    def effect(self, sink):
        # A huge page begins at a multiple of its size, so that one more than is asked for is mapped.
        sink.block = mmap.mmap(-1, 66 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        sink.block.madvise(mmap.MADV_HUGEPAGE)
        begin = -ctypes.addressof(ctypes.c_char.from_buffer(sink.block)) % (2 * MIB)
        for page in range(begin, begin + 64 * MIB, mmap.PAGESIZE):
            sink.block[page] = 1


class GluttonousWriter(Writer):
    """Takes memory until something stops it."""

    name = "takes-all"

    def effect(self, _sink):
        held = []
        while True:
            block = mmap.mmap(-1, 16 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            for page in range(0, 16 * MIB, mmap.PAGESIZE):
                block[page] = 1
            held.append(block)


class CollectingWriter(Writer):
    """Forces three collections of the oldest generation."""

    name = "collects"

    def effect(self, _sink):
        for _ in range(3):
            gc.collect()


class TellingWriter(Writer):
    """Tells the thresholds of the garbage collector as its account."""

    name = "tells-its-process"

    def peak_account(self):
        return {f"gc-{place}": value for place, value in enumerate(gc.get_threshold())}


class CountingWriter(Writer):
    """Tells how many files it opened in its process."""

    name = "counts-its-files"
    files = 0

    def open(self, path, schema, settings):
        self.files += 1
        return super().open(path, schema, settings)

    def peak_account(self):
        return {"files": self.files}


class GilHoldingWriter(Writer):
    """Holds the GIL for 50 ms: a function of a PyDLL is called without releasing it."""

    name = "holds-the-gil"

    def effect(self, _sink):
        ctypes.PyDLL(None).usleep(50_000)


class JvmWriter(Writer):
    """Has a JVM beside it, in which each of its larger writes leaves 16 MiB for the collector."""

    name = "has-a-jvm"
    warm_up_rows = 25_000
    hand_over_seconds = 0.25
    gateway = None

    def open(self, path, schema, settings):
        if self.gateway is None:
            self.gateway = self.start()
        return super().open(path, schema, settings)

    def start(self):
        from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway  # noqa: PLC0415

        jars = Path(importlib.util.find_spec("pyspark").origin).parent / "jars"
        port, process = launch_gateway(
            jarpath=str(next(jars.glob("py4j-*.jar"))),
            javaopts=["-Xmx256m", "-XX:TieredStopAtLevel=1"],
            die_on_exit=True,
            return_proc=True,
        )
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
        gateway.proc = process
        return gateway

    def effect(self, _sink):
        self.gateway.detach(self.gateway.new_array(self.gateway.jvm.long, 2 * MIB))


ALL = (
    Writer,
    MemoryErrorWriter,
    LibraryErrorWriter,
    AbortingWriter,
    CrashingWriter,
    KilledWriter,
    ExitingWriter,
    HangingWriter,
    StayingWriter,
    LosingWriter,
    SwappingWriter,
    SpillingWriter,
    SpillingToFileWriter,
    GarbageWriter,
    HungryWriter,
    HugePagesWriter,
    GluttonousWriter,
    CollectingWriter,
    TellingWriter,
    CountingWriter,
    GilHoldingWriter,
    JvmWriter,
)
