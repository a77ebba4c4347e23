"""`python -m codebox_server`: serve one box until SIGTERM."""

from __future__ import annotations

import gc
import os
import sys

from codebox_server.settings import prepare, read_settings

# What jsonschema checks rare formats with when it is there. Nobody here uses them, and compiling the grammar of the
# first takes longer than everything else at start.
_UNWANTED = ("rfc3987_syntax", "rfc3986_validator", "isoduration")


def main() -> None:
    """Read the environment, make the folders, serve."""
    settings = read_settings(os.environ)
    # What code of the box inherits from here must not speak as the gateway does.
    del os.environ["CODEBOX_TOKEN"]
    prepare(settings)
    for name in _UNWANTED:
        sys.modules[name] = None  # type: ignore[assignment]
    gc.disable()
    # Imported late: Jupyter reads its folders from the environment as it loads.
    from codebox_server.app import create_app

    app = create_app(settings)
    # What is there now stays for the life of the process: later collections need not look at it.
    gc.freeze()
    gc.enable()
    app.start()


if __name__ == "__main__":
    main()
