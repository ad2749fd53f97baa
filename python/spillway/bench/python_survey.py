"""Run by path in an environment of ``--python``; describes it on standard output, as one line of JSON.

Only the standard library is imported before the version of Python is known to do for the rest.
"""

from __future__ import annotations

import json
import platform
import sys
from importlib.util import find_spec

_LEAST = (3, 11)


def main():  # type: ignore[no-untyped-def]  # an old Python reads this too
    """Answer for the backends that standard input names, in a list of JSON."""
    names = json.load(sys.stdin)
    print(json.dumps(_found(names)))  # type: ignore[no-untyped-call]  # noqa: T201 - the answer


def _found(names):  # type: ignore[no-untyped-def]  # as above
    if sys.version_info < _LEAST:
        return {"refusal": "it is Python %s: 3.11 or later is needed" % platform.python_version()}  # noqa: UP031
    if find_spec("spillway") is None:
        return {"refusal": "spillway is not installed there: pip install it, to measure its own writers"}
    if find_spec("pyarrow") is None:
        return {
            "refusal": "pyarrow is not installed there, which gives all writers their rows: pip install it"
        }
    try:
        import pyarrow as pa

        import spillway
        from spillway import backends
        from spillway.errors import SpillwayError
        from spillway.harness.environment import describe_software
    except ImportError as error:
        return {"refusal": "%s: %s" % (type(error).__name__, error)}  # noqa: UP031
    missing = {}
    for name in names:
        try:
            reason = backends.missing(name)
        except SpillwayError as error:
            reason = str(error)
        if reason is not None:
            missing[name] = reason
    return {
        "refusal": None,
        "missing": missing,
        "pools": pa.supported_memory_backends(),
        "spillway": spillway.__path__[0],
        **describe_software(),
    }


if __name__ == "__main__":
    main()  # type: ignore[no-untyped-call]
