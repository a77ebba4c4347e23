"""Runs code in a kernel of this box over ZeroMQ with Jupyter's own client: `direct_kernel.py [<connection file>]`.

Without a connection file it starts a stock ipykernel. Each line on stdin is a number of rounds; the program prints one
line for it: a JSON list of milliseconds, one per round. It is connected only during its rounds: one more subscriber
costs a kernel time for every output, which would distort the measurements in between.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

_SECONDS = 10
# Ten kernels that start at once take their time.
_READY_SECONDS = 60
_UNMEASURED = 3


def _round(client: BlockingKernelClient) -> float:
    """Run `1+1` until both the reply and `idle` have arrived. Returns milliseconds."""
    started = time.perf_counter()
    request = client.execute("1+1")
    result = None
    while True:
        message = client.get_iopub_msg(timeout=_SECONDS)
        if message["parent_header"].get("msg_id") != request:
            continue
        if message["msg_type"] == "execute_result":
            result = message["content"]["data"]["text/plain"]
        if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
            break
    while client.get_shell_msg(timeout=_SECONDS)["parent_header"].get("msg_id") != request:
        pass
    elapsed = (time.perf_counter() - started) * 1000
    if result != "2":
        raise RuntimeError(f"1+1 resulted in {result}")
    return elapsed


def _connect(connection_file: str) -> BlockingKernelClient:
    client = BlockingKernelClient(connection_file=connection_file)
    client.load_connection_file()
    client.start_channels(stdin=False, hb=False)
    client.wait_for_ready(timeout=_READY_SECONDS)
    for _ in range(_UNMEASURED):
        _round(client)
    return client


def main() -> None:
    """Serve rounds until stdin ends."""
    own = None
    if len(sys.argv) < 2:
        own = KernelManager(kernel_name="python3")
        own.start_kernel(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    connection_file = own.connection_file if own else sys.argv[1]
    print("ready", flush=True)
    for line in sys.stdin:
        client = _connect(connection_file)
        print(json.dumps([_round(client) for _ in range(int(line))]), flush=True)
        client.stop_channels()
    if own:
        own.shutdown_kernel(now=True)


if __name__ == "__main__":
    main()
