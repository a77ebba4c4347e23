"""Output is complete and comes before the end of its run, however the process of the code ends right afterwards."""

from __future__ import annotations

from typing import Any

import pytest
from box import Box, of, text

ENDS = {
    "exit": "os._exit(3)",
    "kill": "os.kill(os.getpid(), 9)",
    "segfault": "import ctypes; ctypes.string_at(0)",
    "thread": "import threading, time; threading.Thread(target=os._exit, args=(1,)).start(); time.sleep(9)",
}


def shown(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return streams and texts, with consecutive texts of a stream joined."""
    found: list[tuple[str, str]] = []
    for event in events:
        if event["type"] in ("stdout", "stderr"):
            before = found.pop()[1] if found and found[-1][0] == event["type"] else ""
            found.append((event["type"], before + event["text"]))
    return found


@pytest.mark.parametrize("end", ENDS)
def test_the_final_output_of_a_kernel_is_reported_in_order(box: Box, end: str) -> None:
    for _ in range(5):
        events = box.run(
            "import os, sys\nprint('one', 'ä€😀', '\\ud800')\nprint('two', file=sys.stderr)\nprint('three')\n"
            + ENDS[end]
        )
        assert [event["type"] for event in (events[0], events[-1])] == ["started", "done"]
        assert isinstance(events[0]["executionCount"], int)
        assert (events[-1]["status"], events[-1]["stateLost"]) == ("killed", True)
        assert shown(events) == [("stdout", "one ä€😀 \ufffd\n"), ("stderr", "two\n"), ("stdout", "three\n")]


def test_no_output_is_reported_twice(box: Box) -> None:
    code = """
import os, time
for number in range(300):
    print(number)
    if number % 50 == 0: time.sleep(0.02)
os._exit(0)
"""
    assert text(box.run(code)) == "".join(f"{number}\n" for number in range(300))


def test_a_large_print_before_the_end_is_complete(box: Box) -> None:
    events = box.run("import os, sys\nsys.stdout.write('ä' * 3_500_000)\nprint('end')\nos._exit(0)")
    assert text(events) == "ä" * 3_500_000 + "end\n" and not of(events, "truncated")


def test_raw_writes_before_the_end_are_reported_too(box: Box) -> None:
    # In some of these runs the process ends while another thread is reading the last write.
    for _ in range(30):
        events = box.run("import os\nprint('first')\nos.write(1, b'raw\\n')\nos.write(2, b'error\\n')\nos._exit(0)")
        assert text(events) == "first\nraw\n" and text(events, "stderr") == "error\n"


def test_more_output_than_is_kept_is_complete(box: Box) -> None:
    events = box.run("import os\nfor number in range(110_000): print('x' * 49)\nos._exit(0)", timeout_ms=60_000)
    dropped = sum(event["droppedBytes"] for event in of(events, "truncated"))
    assert len(text(events)) + dropped == 5_500_000


def test_a_kernel_that_is_started_instead_of_forked_keeps_its_final_output(box: Box) -> None:
    # A forked kernel could not have this variable from its start.
    made = box.http.post("/codebox/contexts", json={"language": "python", "env": {"PYTHONHASHSEED": "1"}}).json()
    events = box.run(
        "import os, sys\nprint(len(sys.argv), 'fork-server' in open('/proc/self/cmdline').read())\nos._exit(0)",
        context=made["id"],
    )
    assert text(events) == "3 False\n"


def test_output_of_a_forked_child_is_not_reported_twice(box: Box) -> None:
    code = """
import os, sys, time
print("before")
child = os.fork()
if child == 0:
    print("child")
    sys.stdout.flush()
    os._exit(0)
os.waitpid(child, 0)
# A thread of the kernel forwards the output of the child.
time.sleep(0.5)
print("after")
os._exit(0)
"""
    assert sorted(text(box.run(code)).split()) == ["after", "before", "child"]


SLOW_SENDING = """
import time
from codebox_server.kernels.outstream import BoxOutStream
stock = BoxOutStream._send
def slow(self, *values):
    time.sleep(0.2)
    stock(self, *values)
BoxOutStream._send = slow
"""


def test_output_that_a_timer_is_sending_comes_before_the_end_of_its_run(fresh_box: Box) -> None:
    fresh_box.run(SLOW_SENDING)
    # Long enough for the timer to begin, too short for it to end.
    runs = [fresh_box.run("print('output'); time.sleep(0.1)") for _ in range(3)]
    assert [text(events) for events in runs] == ["output\n"] * 3
