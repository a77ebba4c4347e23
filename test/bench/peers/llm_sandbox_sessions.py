"""Uses sessions of llm-sandbox as it is told by lines of JSON: `llm_sandbox_sessions.py <image> <label>`.

Each line is `{"id", "do": "open" | "run" | "close", "session", …}`, and runs in a thread of its own. The program prints
a line `{"id", "text"}` or `{"id", "error"}` for it.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from llm_sandbox import SandboxSession  # type: ignore[import-not-found]

_THREADS = 64


def _open(image: str, label: str, session: str) -> Any:
    configs = {
        "entrypoint": ["tini", "--", "sleep", "infinity"],
        "labels": {label: session},
        "network_mode": "none",
        "nano_cpus": 1_000_000_000,
        "mem_limit": "1g",
        "environment": {"HOME": "/tmp"},
    }
    opened = SandboxSession(lang="python", image=image, runtime_configs=configs, skip_environment_setup=True)
    opened.open()
    return opened


def main(image: str, label: str) -> None:
    """Serve until stdin ends, then close all sessions."""
    sessions: dict[str, Any] = {}

    def do(request: dict[str, Any]) -> str:
        session = request["session"]
        if request["do"] == "open":
            sessions[session] = _open(image, label, session)
            return ""
        if request["do"] == "close":
            sessions.pop(session).close()
            return ""
        ran = sessions[session].run(request["code"])
        if ran.exit_code != 0:
            raise RuntimeError(ran.stderr)
        return str(ran.stdout)

    def serve(line: str) -> None:
        request = json.loads(line)
        try:
            reply = {"text": do(request)}
        except Exception as error:  # the caller decides what it means
            reply = {"error": f"{type(error).__name__}: {error}"}
        # One call, so that lines of several threads do not mix.
        sys.stdout.write(json.dumps({"id": request["id"], **reply}) + "\n")
        sys.stdout.flush()

    with ThreadPoolExecutor(_THREADS) as threads:
        for line in sys.stdin:
            threads.submit(serve, line)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
