"""The packages and programs that came with a box, for its gateway."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from codebox_server.packages.inventory import Inventory

_BYTES = 100_000


def contents_of(inventory: Inventory, programs: Path) -> dict[str, Any]:
    """Return `{packages, programs}`, each a list of `{name, version}` by name.

    An image without the file has no programs.
    """
    packages = [{"name": name, "version": version} for name, version in sorted(inventory.image().items())]
    try:
        with programs.open() as file:
            found = json.loads(file.read(_BYTES))
    except (OSError, ValueError):
        found = []
    return {"packages": packages, "programs": found}
