"""``spillway write``: files and pipes into Parquet files, folders, object stores and Delta tables."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer evaluates the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spillway.cli.common import (
    INTERRUPTED,
    StorageOption,
    complete_codec,
    fail,
    first_interrupt_alone,
    listed,
    pairs,
    reason,
    size,
    termination_as_interrupt,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spillway.errors import CommitUnknown
    from spillway.shell import Done, Job, Progress, Rewritten

_UNKNOWN = 3


def write(  # noqa: PLR0913 - one argument per option of the command
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT... OUTPUT",
            help="Files, folders and quoted globs of one format, or - for standard input; and last "
            "the output: a path, a URL such as s3://bucket/rows.parquet, or - for standard "
            "output. With --rewrite, only inputs.",
        ),
    ],
    *,
    partition_by: Annotated[
        str,
        typer.Option(
            help="Partition columns, separated by commas; OUTPUT is then a folder, or a URL such as "
            "s3://bucket/folder."
        ),
    ] = "",
    to_delta: Annotated[
        bool,
        typer.Option(
            "--to-delta",
            help="OUTPUT is a Delta table: append the rows, and create the table if it is missing.",
        ),
    ] = False,
    rewrite: Annotated[
        bool,
        typer.Option(
            "--rewrite",
            help="Rewrite Parquet files in place. Each new file is verified against the old one, "
            "value by value, before it replaces it.",
        ),
    ] = False,
    copy_row_groups: Annotated[
        bool,
        typer.Option(
            "--copy-row-groups",
            help="Join Parquet files of one schema by copying their row groups as they are, without decoding "
            "them.",
        ),
    ] = False,
    max_file_bytes: Annotated[
        str | None,
        typer.Option(
            help="With --copy-row-groups: OUTPUT is a folder, of files with at most this size, such as 128MB."
        ),
    ] = None,
    max_file_row_groups: Annotated[
        int | None,
        typer.Option(help="With --copy-row-groups, write a folder of files of at most this many row groups."),
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(
            help="What to do if OUTPUT exists: error, append (to a folder or a table) or overwrite (a "
            "file, all files or all rows). By default rows are appended to a table, and any "
            "other existing OUTPUT is refused.",
            show_default=False,
        ),
    ] = None,
    memory: Annotated[
        str,
        typer.Option(
            help="Memory for rows: half for the writer, half for reading. It does not include the "
            "program itself, batches of Arrow files, and 24 MB for uploads."
        ),
    ] = "256MB",
    schema: Annotated[
        Path | None,
        typer.Option(
            help="Columns and types of CSV and NDJSON: a Parquet or Arrow file with the same columns, "
            'or JSON such as {"id": "int64", "time": "timestamp[us, tz=UTC]"}. Inferred from the '
            "first lines by default."
        ),
    ] = None,
    on_error: Annotated[
        str,
        typer.Option(
            help="What to do with lines of NDJSON that do not fit, and rows of CSV with more or fewer "
            "fields than columns: raise, or skip, which counts them."
        ),
    ] = "raise",
    format: Annotated[  # noqa: A002 - the option's name
        str | None,
        typer.Option(
            help="csv or ndjson, if neither the name nor the first byte identifies the format.",
            show_default=False,
        ),
    ] = None,
    delimiter: Annotated[
        str | None, typer.Option(help="Field separator of CSV: ';' or tab; a comma by default.")
    ] = None,
    encoding: Annotated[str | None, typer.Option(help="Encoding of text; UTF-8 by default.")] = None,
    codec: Annotated[
        str,
        typer.Option(help="zstd, snappy, lz4, gzip, brotli or uncompressed.", autocompletion=complete_codec),
    ] = "zstd",
    level: Annotated[int | None, typer.Option(help="The codec's level; 1 for zstd.")] = None,
    row_group_rows: Annotated[int, typer.Option(help="Maximum rows per row group.")] = 1_048_576,
    sorting_columns: Annotated[
        str,
        typer.Option(
            help="Columns by which the rows are sorted, separated by commas; NAME:descending for "
            "descending order. The order is declared in the file, and checked."
        ),
    ] = "",
    bloom_filter: Annotated[
        str, typer.Option(help="Columns that get a bloom filter, separated by commas.")
    ] = "",
    threads: Annotated[
        int | None,
        typer.Option(
            help="Number of encoding threads, by default all usable cores; the file is the same with "
            "any number."
        ),
    ] = None,
    verify: Annotated[
        str | None,
        typer.Option(
            help="Read each file back before it appears: footer, pages or values, the last of which decodes "
            "every value. Not for OUTPUT at a URL, unless it is a Delta table.",
            show_default=False,
        ),
    ] = None,
    storage_option: StorageOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors.")] = False,
) -> None:
    """Write rows of Parquet, Arrow, CSV or NDJSON to Parquet, in bounded memory.

    \b
        spillway write 'days/*.csv.gz' days.parquet
        zcat app.log.gz | spillway write - s3://bucket/app.parquet
        spillway write events.ndjson events --partition-by day
        spillway write events.ndjson s3://bucket/days --partition-by day
        spillway write events.ndjson s3://bucket/events --to-delta
        spillway write --rewrite --level 9 archive/
        spillway write 'days/*.parquet' week.parquet --copy-row-groups

    The first bytes of a file identify its format, and for text also its name;
    CSV and NDJSON may be compressed (.gz, .zst, .bz2, .lz4), and so may
    standard input. The output appears only once it is complete. An existing
    file or object, or a folder with files, is refused without --mode.

    Columns of several files are matched by name. Lines of NDJSON that do not
    fit are reported with their file, line and field, and rows of CSV with
    their file and number.

    Exit status 0: everything was written.

    Exit status 1: --rewrite left files as they were; each is named with the
    reason.

    Exit status 2: the command cannot be carried out; the output is unchanged,
    unless the error says what is left in an object store. Standard output may
    have received a part.

    Exit status 3: it is not known yet whether the rows are in the Delta table.
    Writing them again might duplicate them.

    Exit status 130: interrupted; the message says what is left.
    """  # noqa: D301 - a backspace keeps the lines of a paragraph
    from rich.console import Console

    from spillway.errors import CommitUnknown, OptionError, SpillwayError
    from spillway.writer import WriterOptions

    console = Console(stderr=True, quiet=quiet)
    with first_interrupt_alone(), termination_as_interrupt():
        try:
            from spillway.shell import Progress

            progress = Progress(console)
            try:
                options = _options(
                    sorting_columns,
                    bloom_filter,
                    compression=codec,
                    compression_level=level,
                    row_group_rows=row_group_rows,
                    threads=threads,
                    verify=verify,
                )
                of_rows = {
                    "--partition-by": partition_by,
                    "--to-delta": to_delta,
                    "--schema": schema,
                    "--on-error": on_error != "raise",
                    "--format": format,
                    "--delimiter": delimiter,
                    "--encoding": encoding,
                }
                if "" in paths:
                    raise OptionError("a path is empty: is a variable of the shell unset?")
                if rewrite:
                    of_output = {
                        "--copy-row-groups": copy_row_groups,
                        "--max-file-bytes": max_file_bytes,
                        "--max-file-row-groups": max_file_row_groups is not None,
                        "--mode": mode,
                        "--storage-option": storage_option,
                    }
                    _refuse(of_rows | of_output, "--rewrite, which replaces Parquet files")
                    WriterOptions(**options)  # before a file is looked at
                    status = _rewrite(paths, memory, options, progress)
                elif copy_row_groups:
                    of_encoding = {
                        "--codec": codec != "zstd",
                        "--level": level is not None,
                        "--row-group-rows": row_group_rows != WriterOptions.row_group_rows,
                        "--sorting-columns": sorting_columns,
                        "--bloom-filter": bloom_filter,
                        "--threads": threads is not None,
                        "--verify": verify,
                    }
                    _refuse(of_rows | of_encoding, "--copy-row-groups, which copies row groups as they are")
                    job = _job(
                        paths,
                        memory,
                        mode=mode,
                        storage_options=pairs("--storage-option", storage_option or []),
                        copies_row_groups=True,
                        max_file_bytes=None
                        if max_file_bytes is None
                        else size("--max-file-bytes", max_file_bytes),
                        max_file_row_groups=max_file_row_groups,
                    )
                    status = _write(job, progress)
                else:
                    limits = {
                        "--max-file-bytes": max_file_bytes,
                        "--max-file-row-groups": max_file_row_groups is not None,
                    }
                    _refuse(limits, "rows that are written: it is for --copy-row-groups")
                    job = _job(
                        paths,
                        memory,
                        text=(delimiter, encoding, format),
                        schema=schema,
                        partition_by=_columns("--partition-by", partition_by),
                        to_delta=to_delta,
                        mode=mode,
                        on_error=on_error,
                        storage_options=pairs("--storage-option", storage_option or []),
                        options=options,
                    )
                    status = _write(job, progress)
            finally:
                progress.stop()
        except CommitUnknown as doubt:
            _tell_doubt(doubt, paths[-1])
            raise typer.Exit(_UNKNOWN) from None
        except (SpillwayError, OSError) as error:
            fail("write", reason(error))
        except KeyboardInterrupt as interrupt:
            said = str(interrupt) or "the output is as it was"
            typer.secho(f"interrupted: {said}", err=True, fg="yellow")
            raise typer.Exit(INTERRUPTED) from None
    if status:
        raise typer.Exit(status)


def _options(sorting: str, bloom_filter: str, **others: Any) -> dict[str, Any]:
    """Options of the writer, by its names."""
    chosen = others | {"bloom_filter": list(_columns("--bloom-filter", bloom_filter))}
    if sorting:
        chosen["sorting_columns"] = [_key(each) for each in _columns("--sorting-columns", sorting)]
    return chosen


def _columns(option: str, text: str) -> tuple[str, ...]:
    """The columns of an option; none where it is not given."""
    from spillway.errors import OptionError

    columns = tuple(listed(text))
    if text and not columns:
        raise OptionError(f"{option} {text!r} names no column: leave the option out, or name one")
    return columns


def _key(text: str) -> tuple[str, str]:
    from spillway.errors import OptionError

    name, colon, direction = text.rpartition(":")
    if not colon:
        return text, "ascending"
    if direction not in {"ascending", "descending"}:
        raise OptionError(f"--sorting-columns {text}: give NAME, NAME:ascending or NAME:descending")
    return name, direction


def _job(
    paths: list[str],
    memory: str,
    *,
    text: tuple[str | None, str | None, str | None] = (None, None, None),
    schema: Path | None = None,
    **others: Any,
) -> Job:
    from spillway.errors import OptionError
    from spillway.reading.text import TextOptions
    from spillway.shell import Job
    from spillway.shell.schemas import read_schema

    if len(paths) == 1:
        raise OptionError(
            f"{paths[0]} is the only argument: name inputs, and then the output; or pass --rewrite"
        )
    *inputs, output = paths
    return Job(
        tuple(inputs),
        output,
        _memory(memory),
        text=TextOptions(*text),
        schema=None if schema is None else read_schema(schema),
        **others,
    )


def _memory(text: str) -> Any:
    from spillway.shell.job import Memory

    return Memory(size("--memory", text))


def _write(job: Job, progress: Progress) -> int:
    from spillway.shell import run_copy, run_write

    done = run_copy(job, progress) if job.copies_row_groups else run_write(job, progress)
    try:
        progress.stop()
        progress.say(_summary(done))
        if done.left_out:
            # Also with --quiet.
            typer.secho(f"spillway write: {done.left_out} left out", err=True, fg="yellow")
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"all rows are in {done.written.place}") from None
    return 0


def _tell_doubt(doubt: CommitUnknown, output: str) -> None:
    """Say that rows may be in a table, and the way to find out."""
    place = output.partition("?")[0]  # the rest of a URL may be a secret
    typer.secho(
        f"spillway write: it is not known yet whether the rows are in {place}: {doubt}. Do not write them "
        f"again before spillway.delta.open(...).outcome({doubt.token!r}) says that they are not there",
        err=True,
        fg=typer.colors.RED,
    )


def _summary(done: Done) -> str:
    from spillway._wording import counted
    from spillway.shell import sized

    source = f" of {counted(done.files, 'file')}" if done.files else ""
    parts = [f"{counted(done.rows, 'row')} from {sized(done.bytes_read)}{source}"]
    written = done.written
    size = "written"
    if written.bytes is not None and written.files is not None:
        size = f"{sized(written.bytes)} in {counted(written.files, 'file')} written"
    parts += [
        f"{size} to {written.place}",
        f"{done.seconds:.1f} s",
        f"{done.rows / max(done.seconds, 1e-9):,.0f} rows/s",
    ]
    return "; ".join(parts)


def _refuse(given: Mapping[str, object], other: str) -> None:
    from spillway.errors import OptionError

    for option, value in given.items():
        if value:
            raise OptionError(f"{option} cannot be combined with {other}")


def _rewrite(paths: list[str], memory: str, options: dict[str, Any], progress: Progress) -> int:
    """Write files anew, and say so; 1 if one stays as it was."""
    from spillway.shell import rewrite
    from spillway.shell.rewriting import find_parquet

    found: list[Rewritten] = []
    files = find_parquet(paths)
    try:
        for each in rewrite(files, _memory(memory), options, progress):
            found.append(each)
            _tell(each, progress)
        progress.stop()
        progress.say(_total(found))
    except KeyboardInterrupt:
        done = sum(each.kept is None for each in found)
        said = f"{done:,} of {len(files):,} files are rewritten, the others are unchanged"
        raise KeyboardInterrupt(said) from None
    return 1 if any(each.kept is not None for each in found) else 0


def _tell(each: Rewritten, progress: Progress) -> None:
    from spillway.shell import sized

    if each.kept is not None:
        text = f"spillway write: {each.path} is unchanged: {each.kept}"
        typer.secho(text, err=True, fg=typer.colors.RED)
        return
    if each.unsynced is not None:
        text = (
            f"spillway write: {each.path} is rewritten, but a crash of the machine may bring the old file "
            f"back: its folder was not synced: {each.unsynced}"
        )
        typer.secho(text, err=True, fg=typer.colors.YELLOW)
    progress.say(f"{each.path}: {sized(each.before)} -> {sized(each.after)}")


def _total(found: list[Rewritten]) -> str:
    from spillway._wording import counted
    from spillway.shell import sized

    anew = [each for each in found if each.kept is None]
    before, after = sum(each.before for each in anew), sum(each.after for each in anew)
    kept = len(found) - len(anew)
    left = f"; {counted(kept, 'file')} left" if kept else ""
    return f"{counted(len(anew), 'file')} rewritten: {sized(before)} -> {sized(after)}{left}"
