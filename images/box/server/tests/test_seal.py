"""Once a box is sealed, nobody learns more of its runs than what could be read before."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

from box import Box, Run, eventually, start_box


def events_of(run: Run, count: int) -> list[str]:
    """Return the types of the first events. The stream of a run without an end goes on."""
    with run.box.client() as client, client.stream("GET", f"{run.path}/events", params={"after": 0}) as response:
        lines = (line for line in response.iter_lines() if line)
        return [json.loads(line)["type"] for line in itertools.islice(lines, count)]


def seal(box: Box) -> None:
    assert box.http.post("/codebox/seal").status_code == 204


def test_a_run_that_has_ended_keeps_its_end(folder: Path) -> None:
    with start_box(folder, forks=False) as box:
        run = box.start("1 + 1")
        done = run.wait()[-1]
        seal(box)
        seal(box)
        assert run.get()["done"] == done
        assert events_of(run, 4) == ["started", "result", "done"]


def test_a_run_that_ends_later_has_no_end(folder: Path) -> None:
    code = (
        "import pathlib, time\nprint('now', flush=True)\nwhile not pathlib.Path('go').exists(): time.sleep(0.05)\n"
        "print('later')\npathlib.Path('ended').touch()"
    )
    with start_box(folder, forks=False) as box:
        run = box.start(code)
        command = box.command("until [ -e go ]; do sleep 0.05; done; echo later; touch commanded")
        run.until("stdout")
        command.until("started")
        seal(box)
        # What runs goes on.
        (box.data / "go").touch()
        eventually(lambda: {"ended", "commanded"} <= {path.name for path in (folder / "root" / "data").iterdir()}, 30)
        eventually(lambda: run.get()["state"] == command.get()["state"] == "done", 30)
        assert (run.get()["done"], command.get()["done"]) == (None, None)
        assert (run.get()["lastSeq"], command.get()["lastSeq"]) == (2, 1)
        assert ([event["type"] for event in run.events], len(command.events)) == (["started", "stdout"], 1)
        assert (events_of(run, 2), events_of(command, 1)) == (["started", "stdout"], ["started"])
