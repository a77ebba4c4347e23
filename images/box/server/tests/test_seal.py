"""Once a box is sealed, nobody learns more of its runs than what could be read before."""

from __future__ import annotations

import json
from pathlib import Path

from box import Box, Run, eventually, start_box


def events_of(run: Run) -> list[str]:
    response = run.box.http.get(f"{run.path}/events", params={"after": 0})
    return [json.loads(line)["type"] for line in response.text.splitlines() if line]


def seal(box: Box) -> None:
    assert box.http.post("/codebox/seal").status_code == 204


def test_a_run_that_has_ended_keeps_its_end(folder: Path) -> None:
    with start_box(folder, forks=False) as box:
        run = box.start("1 + 1")
        done = run.wait()[-1]
        seal(box)
        seal(box)
        assert run.get()["done"] == done
        assert events_of(run) == ["started", "result", "done"]


def test_a_run_that_ends_later_has_no_end(folder: Path) -> None:
    code = (
        "import pathlib, time\nprint('now', flush=True)\ntime.sleep(1)\nprint('later')\npathlib.Path('ended').touch()"
    )
    with start_box(folder, forks=False) as box:
        run, command = box.start(code), box.command("sleep 1; echo later; touch commanded")
        run.until("stdout")
        command.until("started")
        seal(box)
        # Both streams end at once, and what runs goes on.
        for one in (run, command):
            one.join(0.9)
        eventually(lambda: {"ended", "commanded"} <= {path.name for path in (folder / "root" / "data").iterdir()}, 30)
        eventually(lambda: run.get()["state"] == command.get()["state"] == "done", 30)
        assert (run.get()["done"], command.get()["done"]) == (None, None)
        assert (events_of(run), events_of(command)) == (["started", "stdout"], ["started"])
