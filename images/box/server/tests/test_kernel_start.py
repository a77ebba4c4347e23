"""Kernels that are late with their first answer, or never give one."""

import os
import signal
import time
from pathlib import Path

from box import Box, result, start_box, text

START_SECONDS = 6


def _stopped(box: Box) -> tuple[str, int]:
    """A context whose kernel has been stopped before it could answer, and the process of that kernel."""
    before = set(box.pids())
    context = box.context("bash")
    kernel = min(set(box.pids()) - before)
    os.kill(kernel, signal.SIGSTOP)
    return context, kernel


def test_a_kernel_that_answers_late_is_used_and_one_that_never_does_is_renewed(folder: Path) -> None:
    with start_box(folder, CODEBOX_KERNEL_START_SECONDS=str(START_SECONDS)) as box:
        late, kernel = _stopped(box)
        silent, _ = _stopped(box)
        renewed = box.start("echo $PPID", "bash", context=silent)
        time.sleep(START_SECONDS * 1.1)
        os.kill(kernel, signal.SIGCONT)
        events = box.run("echo $PPID", "bash", context=late)
        assert (text(events), events[-1]["status"], events[-1]["stateLost"]) == (f"{kernel}\n", "ok", False)
        assert (renewed.wait()[-1]["status"], renewed.events[-1]["stateLost"]) == ("ok", False)
        assert box.run("true", "bash", context=silent)[-1]["status"] == "ok"


def test_a_kernel_that_cannot_start_is_told_as_that_and_tried_again_by_the_next_run(folder: Path) -> None:
    with start_box(folder, CODEBOX_KERNEL_START_SECONDS="3") as box:
        startup = "from IPython.paths import locate_profile; locate_profile() + '/startup/late.py'"
        path = Path(result(box.run(startup)).strip("'"))
        path.write_text("import time; time.sleep(1000)")
        context = box.context()
        done = box.run("1", context=context)[-1]
        assert (done["status"], done["cause"]["code"]) == ("killed", "kernel_start")
        path.unlink()
        assert result(box.run("1 + 1", context=context)) == "2"
