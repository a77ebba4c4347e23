"""The measurement of a run whose kernel starts its child at an unlucky time."""

import asyncio
import subprocess
import sys
from pathlib import Path

from codebox_server.files.scan import Scan
from codebox_server.runs.probe import Probe
from codebox_server.system.cgroup import Cgroup

# Starts a busy child at the first line, and prints a line once it has one.
KERNEL = """
import subprocess, sys
sys.stdin.readline()
child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
print(flush=True)
sys.stdin.readline()
child.kill()
"""


def test_a_child_that_the_kernel_starts_during_the_first_reading_is_measured(tmp_path: Path) -> None:
    kernel = subprocess.Popen([sys.executable, "-c", KERNEL], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert kernel.stdin and kernel.stdout
    go, started = kernel.stdin, kernel.stdout

    class Slow(Probe):
        async def scan(self) -> Scan:
            go.write(b"\n")
            go.flush()
            started.readline()
            return await super().scan()

    async def measure() -> float:
        probe = Slow(str(tmp_path), Cgroup(tmp_path), set)
        begun = await probe.begin(kernel.pid, "bash", lambda: None)
        for _ in range(1000):
            if probe.used_ms(begun) >= 200:
                break
            await asyncio.sleep(0.02)
        return probe.used_ms(begun)

    try:
        assert asyncio.run(measure()) >= 200
    finally:
        kernel.communicate(b"\n", timeout=20)
