"""Kernels that respond late after their start, or never."""

import os
import signal
import time
from pathlib import Path

from box import Box, result, start_box, text

START_SECONDS = 6


def _stopped(box: Box) -> tuple[str, int]:
    """Return a context whose kernel was stopped before its first response, and the process id of that kernel."""
    before = set(box.pids())
    context = box.context("bash")
    kernel = min(set(box.pids()) - before)
    os.kill(kernel, signal.SIGSTOP)
    return context, kernel


def test_a_late_kernel_is_used_and_a_silent_one_is_replaced(folder: Path) -> None:
    with start_box(folder, forks=False, CODEBOX_KERNEL_START_SECONDS=str(START_SECONDS)) as box:
        late, kernel = _stopped(box)
        silent, _ = _stopped(box)
        renewed = box.start("echo $PPID", "bash", context=silent)
        time.sleep(START_SECONDS * 1.1)
        os.kill(kernel, signal.SIGCONT)
        events = box.run("echo $PPID", "bash", context=late)
        assert (text(events), events[-1]["status"], events[-1]["stateLost"]) == (f"{kernel}\n", "ok", False)
        assert (renewed.wait()[-1]["status"], renewed.events[-1]["stateLost"]) == ("ok", False)
        assert box.run("true", "bash", context=silent)[-1]["status"] == "ok"


def test_a_kernel_that_cannot_start_ends_the_run_and_the_next_run_tries_again(folder: Path) -> None:
    with start_box(folder, forks=False, CODEBOX_KERNEL_START_SECONDS="3") as box:
        startup = "from IPython.paths import locate_profile; locate_profile() + '/startup/late.py'"
        path = Path(result(box.run(startup)).strip("'"))
        path.write_text("import time; time.sleep(1000)")
        context = box.context()
        done = box.run("1", context=context)[-1]
        assert (done["status"], done["cause"]["code"]) == ("killed", "kernel_start")
        path.unlink()
        assert result(box.run("1 + 1", context=context)) == "2"
