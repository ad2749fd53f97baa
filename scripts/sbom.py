"""Write the bill of materials of a release, the crates that are compiled into the wheel, in CycloneDX.

    python scripts/sbom.py .build/sbom.cdx.json

cargo lists the crates of the module for the targets of the wheels with their licences and dependencies, and
Cargo.lock has their checksums. The base install needs no Python package. The file has no time and no path, so
that the same commit gives the same bytes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "spillway-native"
TARGETS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")
Crate = dict[str, Any]


def metadata() -> dict[str, Any]:
    """What cargo knows of the workspace and its dependencies for the targets of the wheels."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    for target in TARGETS:
        command += ["--filter-platform", target]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def compiled_in(found: dict[str, Any]) -> dict[str, list[str]]:
    """The crates in the module with their dependencies, by ids, without those of tests and build scripts."""
    nodes = {node["id"]: node for node in found["resolve"]["nodes"]}
    names = {package["id"]: package["name"] for package in found["packages"]}
    waiting = [each for each in found["workspace_members"] if names[each] == PACKAGE]
    depends: dict[str, list[str]] = {}
    while waiting:
        crate = waiting.pop()
        if crate in depends:
            continue
        depends[crate] = [
            each["pkg"]
            for each in nodes[crate]["deps"]
            if any(kind["kind"] is None for kind in each["dep_kinds"])
        ]
        waiting += depends[crate]
    return depends


def checksums() -> dict[tuple[str, str], str]:
    """The SHA-256 of each crate of the registry, by name and version."""
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    return {
        (each["name"], each["version"]): each["checksum"] for each in lock["package"] if "checksum" in each
    }


def component(crate: Crate, sums: dict[tuple[str, str], str]) -> dict[str, Any]:
    """A crate as CycloneDX has it."""
    name, version = crate["name"], crate["version"]
    said: dict[str, Any] = {"type": "library", "bom-ref": reference(crate), "name": name, "version": version}
    if crate["license"]:
        said["licenses"] = [{"expression": crate["license"].replace("/", " OR ")}]
    if (name, version) in sums:
        said["purl"] = reference(crate)
        said["hashes"] = [{"alg": "SHA-256", "content": sums[name, version]}]
    return said


def reference(crate: Crate) -> str:
    return f"pkg:cargo/{crate['name']}@{crate['version']}"


def document() -> dict[str, Any]:
    found = metadata()
    crates = {package["id"]: package for package in found["packages"]}
    depends, sums = compiled_in(found), checksums()
    listed = sorted(depends, key=lambda each: (crates[each]["name"], crates[each]["version"]))
    (module,) = [each for each in listed if crates[each]["name"] == PACKAGE]
    version = crates[module]["version"]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": f"pkg:pypi/spillway@{version}",
                "name": "spillway",
                "version": version,
                "purl": f"pkg:pypi/spillway@{version}",
                "licenses": [{"expression": "Apache-2.0"}],
            }
        },
        "components": [component(crates[each], sums) for each in listed],
        "dependencies": [
            {"ref": f"pkg:pypi/spillway@{version}", "dependsOn": [reference(crates[module])]},
            *(
                {
                    "ref": reference(crates[each]),
                    "dependsOn": sorted({reference(crates[one]) for one in depends[each]}),
                }
                for each in listed
            ),
        ],
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("path", type=Path)
    path = parser.parse_args().path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document(), indent=2) + "\n")
