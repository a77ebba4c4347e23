"""Writes the bill of materials of this image as CycloneDX JSON: `python -m codebox_server.contents.bill`.

Its components are Debian's packages and the Python distributions, with package URLs. It has no date and no serial
number, so the same image has the same bill.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from codebox_server.packages.inventory import normal

_STATUS = Path("/var/lib/dpkg/status")


def _debian() -> Iterator[dict[str, Any]]:
    for paragraph in _STATUS.read_text().split("\n\n") if _STATUS.exists() else ():
        fields = dict(line.split(": ", 1) for line in paragraph.split("\n") if ": " in line and line[0] != " ")
        if fields.get("Status", "").endswith(" installed"):
            name, version, arch = fields["Package"], fields["Version"], fields["Architecture"]
            yield {
                "type": "library",
                "name": name,
                "version": version,
                "purl": f"pkg:deb/debian/{quote(name)}@{quote(version)}?arch={arch}",
            }


def _python() -> Iterator[dict[str, Any]]:
    for distribution in importlib.metadata.distributions():
        name, version = normal(distribution.metadata["Name"]), distribution.version
        licence = dict(distribution.metadata.json).get("license_expression")
        yield {
            "type": "library",
            "name": name,
            "version": version,
            "purl": f"pkg:pypi/{name}@{quote(version)}",
            **({"licenses": [{"expression": licence}]} if licence else {}),
        }


def main() -> None:
    """Print the bill."""
    components = {item["purl"]: item | {"bom-ref": item["purl"]} for item in (*_debian(), *_python())}
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "components": [components[purl] for purl in sorted(components)],
    }
    json.dump(bill, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
