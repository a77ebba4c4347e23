"""Writes the programs that code often uses, with their versions: `python -m codebox_server.contents.programs`."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

# By program, the arguments that print its version.
PROGRAMS: dict[str, tuple[str, ...]] = {
    "7z": ("i",),
    "bash": ("--version",),
    "bzip2": ("--help",),
    "chromedriver": ("--version",),
    "chromium": ("--version",),
    "convert": ("-version",),
    "curl": ("--version",),
    "dot": ("-V",),
    "ffmpeg": ("-version",),
    "file": ("--version",),
    "g++": ("--version",),
    "gcc": ("--version",),
    "git": ("--version",),
    "gs": ("--version",),
    "java": ("-version",),
    "jq": ("--version",),
    "make": ("--version",),
    "node": ("--version",),
    "npm": ("--version",),
    "pandoc": ("--version",),
    "pdflatex": ("--version",),
    "pdftotext": ("-v",),
    "perl": ("-e", "print $^V"),
    "pip": ("--version",),
    "python": ("--version",),
    "qpdf": ("--version",),
    "rg": ("--version",),
    "rsync": ("--version",),
    "soffice": ("--version",),
    "sqlite3": ("--version",),
    "ssh": ("-V",),
    "tesseract": ("--version",),
    "uv": ("--version",),
    "wget": ("--version",),
    "xelatex": ("--version",),
    "zip": ("-v",),
}

_VERSION = re.compile(r"\d+(?:\.\d+)+[\w.+~-]*")
_SECONDS = 30


def version_of(program: str) -> str | None:
    """Return the version that a program prints, "" if it prints none, None if there is no such program."""
    path = shutil.which(program)
    if path is None:
        return None
    try:
        printed = subprocess.run(
            [path, *PROGRAMS[program]], stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, text=True
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ""
    found = _VERSION.search(printed.stdout) or _VERSION.search(printed.stderr)
    return found[0].rstrip(".-") if found else ""


def main() -> None:
    """Print `[{name, version}]` as JSON, by name."""
    with ThreadPoolExecutor(4) as pool:
        versions = list(pool.map(version_of, PROGRAMS))
    items = [{"name": name, "version": version} for name, version in zip(PROGRAMS, versions, strict=True)]
    json.dump([item for item in items if item["version"] is not None], sys.stdout)


if __name__ == "__main__":
    main()
