"""`python -m codebox_server`: serve one box until SIGTERM, or with CODEBOX_PARENT fork the servers of many."""

from __future__ import annotations

import os

if __name__ == "__main__":
    if os.environ.pop("CODEBOX_PARENT", ""):
        from codebox_server.parent.parent import run

        run()
    else:
        from codebox_server.serving import serve
        from codebox_server.system.confinement import confine

        confine()
        serve()
