"""pip's refusal to install another version of a package that the image has, and the hint for it."""

from __future__ import annotations

import re
from typing import Any

from codebox_server.packages.inventory import Inventory, normal

_REFUSAL = re.compile(r"lack sys\.path precedence to ([A-Za-z0-9][\w.-]{0,99})")


def refused_package(text: str) -> str | None:
    """Return the name of the package in the last refusal in a text."""
    found = _REFUSAL.findall(text) if "sys.path precedence" in text else []
    return normal(found[-1]) if found else None


def conflict_hint(inventory: Inventory, package: str | None) -> dict[str, Any] | None:
    """Return the hint `{code, manager, package, version, detail}` for a refused package that the image has."""
    version = inventory.image().get(package) if package is not None else None
    if version is None:
        return None
    detail = (
        f"The image has {package} {version}, beside which pip installs no other version. Use this one, or a template "
        "with an image of your own."
    )
    return {"code": "fixed_version", "manager": "pip", "package": package, "version": version, "detail": detail}
