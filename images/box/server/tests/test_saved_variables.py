"""Variables that are saved in one box and with which the default context of another one begins."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from box import Box, of, result, start_box

SAVED = "/codebox/variables"


@pytest.fixture
def own_box(folder: Path) -> Iterator[Box]:
    """A server whose default contexts and volume belong to one test."""
    with start_box(folder, forks=False) as running:
        yield running


def report(box: Box, method: str) -> dict[str, Any]:
    response = box.http.request(method, SAVED)
    assert response.status_code == 200, response.text
    return response.json()


def faults(found: dict[str, Any]) -> dict[str, str]:
    return {fault["name"]: fault["detail"] for fault in found["faults"]}


def begin_anew(box: Box) -> None:
    """What a new box with the files of this one would find: no kernel has run there."""
    box.remove_contexts()


DEFINE = """
import os, numpy as np, pandas as pd
from math import sqrt
table = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
rate = 2
def scaled(x): return helper(x) * rate
def _half(x): return x / 2
def helper(x): return _half(x) + offset
offset = 10
double = lambda x: 2 * x
class Point:
    def __init__(self, x): self.x = x
    def far(self): return self.x * rate
point = Point(21)
notes = open("notes.txt", "w+")
generator = (n for n in range(3))
big = np.zeros(80_000_000)
_, __secret = 1, 2
"""


def test_variables_are_kept_one_by_one_and_functions_use_the_new_ones(own_box: Box) -> None:
    assert report(own_box, "POST") == {"kept": 0, "faults": [], "more": 0}
    own_box.run(DEFINE)
    before = result(own_box.run("id(table), rate"))
    saved = report(own_box, "POST")
    why = faults(saved)
    assert sorted(why) == ["big", "generator", "notes"]
    assert why["notes"] == "TypeError: it is an open file"
    assert "generator" in why["generator"]
    assert "512 MiB" in why["big"]
    assert saved["kept"] == 13
    # Nothing has changed in the box itself, which begins with them no more than before.
    assert result(own_box.run("id(table), rate")) == before
    assert report(own_box, "PUT") == {"kept": 13, "faults": [], "more": 0}
    begin_anew(own_box)
    events = own_box.run(
        "rate = 3; int(table.a.sum()), scaled(1), double(4), point.far(), isinstance(point, Point), sqrt(4)"
    )
    assert result(events) == "(3, 31.5, 8, 63, True, 2.0)"
    assert of(events, "started")[0].get("executionCount", 1) == 1
    assert result(own_box.run("np.pi > 3, os.sep, 'notes' in globals(), _half(2)")) == "(True, '/', False, 1.0)"
    # As at its start, whenever the kernel starts.
    assert of(own_box.run("import os; os._exit(1)"), "done")[0]["stateLost"]
    assert result(own_box.run("rate, 'Point' in globals()")) == "(2, True)"
    # Another context is empty, and so is one of a box that is not asked for them.
    context = own_box.context()
    assert result(own_box.run("'rate' in globals()", context=context)) == "False"


HOSTILE = """
import os, sys, time
class Evil:
    def __init__(self, what): self.what = what
    def __reduce__(self): return exec, (self.what,)
loops = Evil("while True: pass")
ends = Evil("import os; os._exit(0)")
exits = Evil("raise SystemExit")
prints = Evil("print('printed', flush=True); import sys; sys.__stdout__.write('raw')")
asks = Evil("input()")
class Stuck:
    def __reduce__(self):
        while True: pass
stuck = Stuck()
fine = 42
"""


def test_what_hostile_variables_do_costs_only_themselves(own_box: Box) -> None:
    own_box.run(HOSTILE)
    assert sorted(faults(report(own_box, "POST"))) == ["stuck"]
    found = report(own_box, "PUT")
    assert {"ends", "exits", "loops"} <= set(faults(found)) <= {"ends", "exits", "loops", "asks"}
    begin_anew(own_box)
    events = own_box.run("fine")
    assert result(events) == "42"
    assert [event["type"] for event in events] == ["started", "result", "done"]


def test_a_kernel_works_whose_variables_end_it_or_do_not_load(own_box: Box) -> None:
    own_box.run("fine = 42; other = 1")
    assert report(own_box, "POST")["kept"] == 2
    assert report(own_box, "PUT")["kept"] == 2
    kept = own_box.data.parent / ".variables"
    begin_anew(own_box)
    # Since they were checked, a file has become another one.
    (kept / "fine.pickle").write_bytes(b"not a pickle")
    assert result(own_box.run("other, 'fine' in globals()")) == "(1, False)"
    begin_anew(own_box)
    (kept / "fine.pickle").write_bytes(b"cos\n_exit\n(I1\ntR.")
    events = own_box.run("1 + 1")
    assert result(events) == "2"
    assert not of(events, "done")[0]["stateLost"]
    shutil.rmtree(kept)


def test_saving_waits_for_no_code_and_leaves_nothing_behind(own_box: Box) -> None:
    run = own_box.start("import time; print('on', flush=True); time.sleep(60)")
    run.until("stdout")
    assert own_box.http.post(SAVED).json()["reason"] == "context_busy"
    run.interrupt()
    run.wait()
    assert report(own_box, "POST")["kept"] == 1
    assert own_box.http.delete(SAVED).status_code == 204
    assert [path.name for path in own_box.data.parent.glob(".variables*")] == []
    assert own_box.http.post(SAVED, params={"for": "one"}).status_code == 200
    # Until the first build has removed what it saved, no other one replaces or removes it.
    assert own_box.http.post(SAVED, params={"for": "other"}).status_code == 409
    assert own_box.http.delete(SAVED, params={"for": "other"}).status_code == 204
    assert (own_box.data.parent / ".variables.new").is_dir()
    assert own_box.http.delete(SAVED, params={"for": "one"}).status_code == 204
    assert not (own_box.data.parent / ".variables.new").exists()


def test_a_kernel_that_ends_while_it_saves_is_an_error(own_box: Box) -> None:
    own_box.run("import os, signal\nkernel = os.getpid()")
    own_box.run("class Last:\n    def __reduce__(self): os.kill(kernel, signal.SIGKILL); return str, ()\nlast = Last()")
    response = own_box.http.post(SAVED)
    assert response.status_code == 409
    assert "kernel ended" in response.text
