"""The bill of materials of an installed wheel, in the format of CycloneDX: for each part its version and licence."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from release.vendored import Vendored

# Run by the Python of the environment that the wheel was installed into, which is an earlier one maybe.
LIST = """
import importlib.metadata, json
print(json.dumps([
    (each.metadata["Name"], each.version, each.metadata["License-Expression"] or each.metadata["License"])
    for each in importlib.metadata.distributions()
]))
"""
NOT_OURS = {"pip", "setuptools"}  # what the environment itself came with


def bill_of_materials(python: Path, vendored: Iterable[Vendored], serial: str) -> dict[str, Any]:
    """Return the parts of what is installed beside `python`, and the modules that the pages of coterie bring."""
    listed = json.loads(subprocess.check_output([python, "-c", LIST], text=True))
    installed = {
        name.lower(): _component(
            name.lower(), version, licence, f"pkg:pypi/{name.lower()}@{version}"
        )
        for name, version, licence in sorted(listed)
        if name.lower() not in NOT_OURS
    }
    itself = installed.pop("coterie") | {"type": "application"}
    brought = (
        _component(each.name, each.version, each.licence, f"pkg:npm/{each.name}@{each.version}")
        for each in vendored
    )
    parts = [*installed.values(), *brought]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {"component": itself},
        "components": parts,
        "dependencies": [
            {"ref": itself["bom-ref"], "dependsOn": [each["bom-ref"] for each in parts]}
        ],
    }


def _component(name: str, version: str, licence: str | None, purl: str) -> dict[str, Any]:
    """Return one part."""
    stated = [{"expression": licence}] if licence else []
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "licenses": stated,
        "purl": purl,
    }
