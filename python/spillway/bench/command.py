"""The command that a run was begun with, from the options on record: for a reader who wants the same."""

from __future__ import annotations

from typing import Any

__all__ = ["as_list", "command_of"]

# The options that are written where they differ from these; the others always.
_USUAL: dict[str, Any] = {
    "--table-rows": None,
    "--chunk-rows": [10_000],
    "--row-group-rows": [1_048_576],
    "--process-setting": ["default"],
    "--python": [],
    "--least-memory": 0,
    "--level": None,
    "--seed": 1,
    "--timeout": 300.0,
    "--probes": 1,
    "--pairs": 0,
    "--precision": "2%",
    "--budget": 10.0,
}


def command_of(environment: dict[str, Any]) -> str:
    """The command line that measures the same; for the user's own files it says FILE."""
    options = environment["options"]
    own = "file" in options["datasets"]
    limits = [_amount(limit) for limit in options["memory"]]
    given = {
        **({"--on": "spark://HOST:PORT"} if "hosts" in environment else {}),
        "--backend": options["backends"],
        **({"--input": "FILE"} if own else {"--dataset": options["datasets"]}),
        "--rows": options["rows"],
        "--table-rows": options["table_rows"],
        "--mode": options["modes"],
        "--chunk-rows": as_list(options["chunk_rows"]),
        "--row-group-rows": as_list(options["row_group_rows"]),
        "--process-setting": options.get("arms", ["default"]),
        "--python": [f"{name}=PATH" for name in options.get("pythons", ())],
        "--codec": options["codecs"],
        "--level": options["level"],
        "--memory": limits,
        **({} if limits == ["none"] else {"--limit-kind": options["limit_kind"]}),
        "--cores": options["threads"],
        "--samples": "auto" if options.get("precision") else options["samples"],
        "--precision": f"{100 * (options.get('precision') or 0.02):g}%",
        "--budget": options.get("budget_minutes", 10.0),
        "--seed": options["seed"],
        "--timeout": options["timeout"],
        "--probes": options.get("probes", 1),  # runs of version 1 had none beside their samples
        "--pairs": options.get("pairs", 0),
        "--least-memory": options.get("least_memory", 0),
    }
    words = [
        f"{name} {_written(each)}"
        for name, value in given.items()
        if name not in _USUAL or value != _USUAL[name]
        # An option that is repeated, and no list.
        for each in (value if name == "--python" else [value])
    ]
    return " ".join(["spillway bench", *words, *_afterwards(environment.get("afterwards"))])


def as_list(value: Any) -> list[Any]:
    """The values of an option; of early runs, which took one of it, that one."""
    return list(value) if isinstance(value, list | tuple) else [value]


def _afterwards(asked: dict[str, Any] | None) -> list[str]:
    """The options of what follows the samples, where they are on record."""
    if asked is None:
        return []
    return [
        f"--validate {','.join(asked['engines']) or 'none'}",
        *([] if asked["trace"] else ["--no-trace"]),
        *(["--keep-output"] if asked["keep_output"] else []),
    ]


def _amount(size: int | None) -> str:
    return "none" if size is None else f"{size // 10**6}MB" if size % 10**6 == 0 else str(size)


def _written(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
