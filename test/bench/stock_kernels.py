"""Starts stock Jupyter kernels inside a box. Arguments: their number, and the code that each runs. Prints JSON.

`ms`: per kernel, the time from its start to the result of the code. `kib`: per kernel, its proportional share of memory
while all of them run.
"""

import json
import os
import re
import sys
import tempfile
import time

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager


def main(folder: str, count: int, code: str) -> None:
    """Start the kernels one after the other, measure them, and end them."""
    started: list[tuple[KernelManager, BlockingKernelClient]] = []
    try:
        ms = []
        for _ in range(count):
            began = time.perf_counter()
            # Sockets in the file system work without a network, too.
            manager = KernelManager(kernel_name="python3", transport="ipc", ip=f"{folder}/{len(started)}")
            manager.start_kernel(cwd="/mnt/data")
            client = manager.client()
            started.append((manager, client))
            client.start_channels()
            client.wait_for_ready(timeout=60)
            reply = client.execute_interactive(code, timeout=120, output_hook=lambda _: None)
            ms.append((time.perf_counter() - began) * 1000)
            assert reply["content"]["status"] == "ok", reply["content"]
        kib = [proportional_kib(manager.provisioner.pid) for manager, _ in started]  # type: ignore[union-attr]
    finally:
        for manager, client in started:
            client.stop_channels()
            manager.shutdown_kernel(now=True)
    print(json.dumps({"ms": ms, "kib": kib}))


def proportional_kib(pid: int) -> int:
    """Return the proportional share of memory (PSS) of a process."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        found = re.search(r"^Pss:\s+(\d+) kB", file.read(), re.MULTILINE)
    assert found
    return int(found.group(1))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ["JUPYTER_RUNTIME_DIR"] = folder
        main(folder, int(sys.argv[1]), sys.argv[2])
