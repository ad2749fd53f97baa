"""The hosts of a run on a cluster: what each is, what it took, and what makes its figures doubtful."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spillway._wording import and_joined, counted
from spillway.harness.host import noise_warnings
from spillway.harness.report.markdown import machine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spillway.bench.summary import RunSummary

__all__ = ["host_lines", "host_warnings", "hosts_of"]

# The parts of a machine without which samples of two hosts are of the same kind.
_ALIKE = {
    "cpu_model": "processors",
    "usable_cores": "numbers of cores",
    "memory_bytes": "sizes of memory",
    "kernel": "kernels",
    "libraries": "libraries",
}


def hosts_of(run: RunSummary) -> list[dict[str, Any]]:
    """The hosts whose executors took samples; none for a run on one machine."""
    found: list[dict[str, Any]] = run.environment.get("hosts", [])
    return found


def host_lines(run: RunSummary) -> list[str]:
    """A line for each host: the machine, its samples, and how its limits were proved."""
    lines = []
    for host in hosts_of(run):
        taken = _taken(run, host)
        blocks = len({sample["block"] for sample in taken})
        executors = len({sample["placement"]["executor"] for sample in taken})
        proofs = "".join(
            f"; limit of {each['limit_bytes'] / 1e6:,.0f} MB ({each['kind']}) proved, a canary was "
            f"{each['ending']} at {each['died_at_bytes'] / each['limit_bytes']:.2f} of it"
            for each in host["limit_proofs"]
        )
        lines.append(
            f"{host['host']}: {machine(host)}; {counted(len(taken), 'sample')} in "
            f"{counted(blocks, 'block')} by {counted(executors, 'executor')}{proofs}."
        )
    return lines


def host_warnings(run: RunSummary) -> list[str]:
    """The noise of each host, and in what hosts differ."""
    warnings = []
    for host in hosts_of(run):
        taken = _taken(run, host)
        seconds = sum(sample["process_seconds"] for sample in taken)
        readings = [sample["host"] for sample in taken]
        found = noise_warnings(host["load_before"], readings, seconds, cores=host["cores"])
        warnings += [f"{host['host']}: {each}" for each in found]
    differences = _differences(hosts_of(run))
    if differences:
        warnings.append(
            f"hosts differ in {and_joined(differences)}: medians are of all of them; ratios are of blocks, "
            f"each of which one host took"
        )
    return warnings


def _taken(run: RunSummary, host: dict[str, Any]) -> list[dict[str, Any]]:
    samples = (sample for each in run.cells for sample in each.samples)
    return [sample for sample in samples if sample["placement"]["host"] == host["host"]]


def _differences(hosts: Sequence[dict[str, Any]]) -> list[str]:
    return [words for name, words in _ALIKE.items() if any(each[name] != hosts[0][name] for each in hosts)]
