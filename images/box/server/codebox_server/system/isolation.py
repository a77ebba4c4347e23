"""Waits for the network policy of a cluster, which may be applied some tenths of a second after a box has started."""

from __future__ import annotations

import socket
import time

from codebox_server.bounds import BLOCKED_PAUSE_SECONDS, BLOCKED_SECONDS, BLOCKED_TRIES, BLOCKED_TRY_SECONDS


def wait_until_blocked(host: str, port: int) -> None:
    """Connect to an address that the policy blocks, until several attempts in a row have failed.

    Raise TimeoutError when it can still be reached at the deadline: then there is no policy, or nobody applies it.
    """
    deadline = time.monotonic() + BLOCKED_SECONDS
    failures = 0
    while failures < BLOCKED_TRIES:
        try:
            socket.create_connection((host, port), BLOCKED_TRY_SECONDS).close()
        except OSError:
            failures += 1
        else:
            failures = 0
            if time.monotonic() > deadline:
                raise TimeoutError(f"no network policy is in force: {host}:{port} can be reached")
        time.sleep(BLOCKED_PAUSE_SECONDS)
