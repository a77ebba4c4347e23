"""`python -m codebox_server`: serve one box until SIGTERM."""

from __future__ import annotations

import gc
import os
import sys

from codebox_server.settings import prepare, read_settings

# Optional dependencies of jsonschema for rare formats. Nothing here uses them, and compiling the grammar of the first
# one takes longer than everything else at start.
_UNWANTED = ("rfc3987_syntax", "rfc3986_validator", "isoduration")


def main() -> None:
    """Read the environment, create the folders, serve."""
    settings = read_settings(os.environ)
    # Code of the box inherits this environment and must not be able to authenticate as the gateway.
    del os.environ["CODEBOX_TOKEN"]
    prepare(settings)
    for name in _UNWANTED:
        sys.modules[name] = None  # type: ignore[assignment]
    gc.disable()
    # Imported late: Jupyter reads its folders from the environment on import.
    from codebox_server.app import create_app

    app = create_app(settings)
    # Objects that exist now live as long as the process: later collections need not visit them.
    gc.freeze()
    gc.enable()
    app.start()


if __name__ == "__main__":
    main()
