"""`python -m codebox_server.files.jobs <job> [fields]`: writes the result to stdout, a refusal to stderr.

Fields are JSON, on stdin unless they are the argument.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from codebox_server.errors import BoxError, from_os_error

# Exit code of a refused job; any other failure is a bug of ours.
REFUSED = 3


def _job(name: str) -> Callable[[dict[str, Any]], Any]:
    # Imported one by one: most jobs need little, and imports dominate the start of a process.
    if name == "archive":
        from codebox_server.files.jobs.archive import archive

        return archive
    if name == "extract":
        from codebox_server.files.jobs.extract import extract

        return extract
    if name == "fetch":
        from codebox_server.files.jobs.fetch import fetch

        return fetch
    if name == "pack":
        from codebox_server.files.jobs.pack import pack

        return pack
    if name == "unpack":
        from codebox_server.files.jobs.pack import unpack

        return unpack
    if name == "search":
        from codebox_server.files.jobs.search import search

        return search
    raise SystemExit(f"unknown job {name}")


def main() -> None:
    """Run one job."""
    fields = json.loads(sys.argv[2]) if len(sys.argv) > 2 else json.load(sys.stdin.buffer)
    try:
        try:
            result = _job(sys.argv[1])(fields)
        except OSError as error:
            raise from_os_error(error) from error
    except BoxError as error:
        sys.stderr.write(json.dumps(error.to_json()))
        sys.stderr.flush()
        os._exit(REFUSED)
    if result is not None:
        sys.stdout.write(json.dumps(result))


if __name__ == "__main__":
    main()
