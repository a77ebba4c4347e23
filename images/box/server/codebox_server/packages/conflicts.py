"""Versions that exclude each other: pip's refusals, and packages in place of those of the image."""

from __future__ import annotations

import re
from typing import Any

from codebox_server.packages.inventory import Inventory, normal, unused

_NAME = r"([A-Za-z0-9](?:[\w.-]{0,99}))"
# A package of the constraints file, on which the kernels run, or else the first of those that exclude each other.
_FIXED = re.compile(rf"The user requested \(constraint\) {_NAME}==")
_EXCLUSIVE = re.compile(rf"Cannot install (?:-r [^\n]{{0,200}} and )?{_NAME}[^\n]{{0,2000}} conflicting dependencies")


def refused_package(text: str) -> str | None:
    """Return the name of the package in the last refusal in a text."""
    found = _FIXED.findall(text) if "(constraint)" in text else []
    if not found and "conflicting dependencies" in text:
        found = _EXCLUSIVE.findall(text)
    return normal(found[-1]) if found else None


def conflict_hint(inventory: Inventory, package: str | None) -> dict[str, Any] | None:
    """Return the hint `{code, manager, package, version?, detail}` for a package that pip refused to install."""
    if package is None:
        return None
    hint = {"code": "package_conflict", "manager": "pip", "package": package}
    version = inventory.image().get(package)
    if version is not None and package in inventory.fixed():
        detail = f"Kernels run on {package} {version}, so pip installs no other version of it in this box."
        way_out = "Install into a virtual environment (python -m venv), which can have kernels of its own."
        return {**hint, "version": version, "detail": f"{detail} {way_out}"}
    detail = f"No versions fit everything that {package} and the other packages need; pip's output names them."
    return {**hint, "detail": f"{detail} Allow other versions, or install them into separate virtual environments."}


def shadow_hint(inventory: Inventory, changed: list[dict[str, str]]) -> dict[str, Any] | None:
    """Return the hint `{code, manager, package, version?, detail}` for new packages that running kernels do not use."""
    image = inventory.image()
    found = unused(image, {item["name"]: item["version"] for item in changed})
    shadowing = [name for name in found if name in image]
    if not shadowing:
        return _missed_hint(list(found))
    package = shadowing[0]
    names = ", ".join(f"{name} {found[name]} ({image[name]})" for name in shadowing[:20])
    detail = (
        f"This box now uses {names} in place of the versions of the image, in brackets. Kernels that run keep what "
        "they have imported: restart them."
    )
    version = image[package]
    return {"code": "restart_kernel", "manager": "pip", "package": package, "version": version, "detail": detail}


def _missed_hint(names: list[str]) -> dict[str, Any] | None:
    if not names:
        return None
    found = " and ".join(names)
    detail = f"pandas looks for {found} only when it is imported: restart kernels that run."
    return {"code": "restart_kernel", "manager": "pip", "package": names[0], "detail": detail}
