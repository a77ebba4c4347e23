"""Modules that libraries of the box server would import in vain."""

from __future__ import annotations

import sys

# Optional dependencies of jsonschema for formats. Nothing here uses them, and compiling the grammar of the first one
# takes longer than everything else at start.
_UNWANTED = (
    "rfc3987_syntax",
    "fqdn",
    "isoduration",
    "jsonpointer",
    "rfc3339_validator",
    "rfc3986_validator",
    "uri_template",
    "webcolors",
)


def ignore_unwanted() -> None:
    """Make imports of unwanted modules fail."""
    for name in _UNWANTED:
        sys.modules[name] = None  # type: ignore[assignment]
