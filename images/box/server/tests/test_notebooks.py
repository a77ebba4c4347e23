"""Notebooks: run whole, and made from executions."""

import json
import time
import uuid
from typing import Any

import nbformat
import pytest
from box import Box, Run, eventually, of, text
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook


def put(box: Box, name: str, *cells: Any, **metadata: Any) -> None:
    notebook = new_notebook(cells=[new_code_cell(cell) if isinstance(cell, str) else cell for cell in cells])
    notebook.metadata.update(metadata)
    target = box.data / name
    target.parent.mkdir(exist_ok=True)
    nbformat.write(notebook, target)
    target.chmod(0o666)
    target.parent.chmod(0o777)


def run(box: Box, path: str, **fields: Any) -> Run:
    return Run(box, "notebooks", uuid.uuid4().hex, {"path": path, **fields})


def read(box: Box, path: str) -> Any:
    notebook = nbformat.read(box.data / path, as_version=4)
    nbformat.validate(notebook)
    return notebook


def ends(events: list[dict[str, Any]]) -> list[tuple[int, str]]:
    return [(event["index"], event["status"]) for event in of(events, "cell") if event.get("status") in ("ok", "error")]


def test_a_notebook_runs_whole_in_a_fresh_kernel_and_gets_its_outputs(box: Box) -> None:
    box.run("x = 'of the box'")
    plot = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"
    put(box, "work/a.ipynb", "import os; print(os.getcwd()); 'x' in globals()", new_markdown_cell("# Text"), "", plot)
    events = run(box, "work/a.ipynb").wait()
    assert events[-1]["status"] == "ok", events
    assert events[-1]["files"]["modified"] == ["work/a.ipynb"]
    assert ends(events) == [(0, "ok"), (3, "ok")]
    assert text(events) == f"{box.data}/work\n"
    first, *_, last = read(box, "work/a.ipynb").cells
    assert [output.output_type for output in first.outputs] == ["stream", "execute_result"]
    assert first.outputs[1].data["text/plain"] == "False"
    assert first.execution_count == 1
    assert "image/png" in last.outputs[0].data
    begun, *_, ended = of(events, "cell")
    assert (begun["index"], begun["cells"], begun["status"], begun["id"]) == (0, 4, "running", first.id)
    assert "image/png" in ended["outputs"][0]["data"]
    assert list(box.upload.iterdir()) == []


def test_a_notebook_stops_at_the_first_error_or_goes_on(box: Box) -> None:
    put(box, "b.ipynb", "1", "1/0", "print('after')")
    events = run(box, "b.ipynb", output="c.ipynb").wait()
    assert ends(events) == [(0, "ok"), (1, "error")]
    assert (events[-1]["status"], events[-1]["exitCode"]) == ("error", 1)
    assert [len(cell.outputs) for cell in read(box, "b.ipynb").cells] == [0, 0, 0]
    assert read(box, "c.ipynb").cells[1].outputs[0].ename == "ZeroDivisionError"
    events = run(box, "b.ipynb", goOn=True).wait()
    assert ends(events) == [(0, "ok"), (1, "error"), (2, "ok")]
    assert (events[-1]["status"], text(events)) == ("ok", "after\n")


def test_parameters_follow_the_cell_that_declares_them_and_replace_those_of_an_earlier_run(box: Box) -> None:
    declared = new_code_cell("a, b = 1, 2", metadata={"tags": ["parameters"]})
    put(box, "p.ipynb", "import math", declared, "print(a, b)")
    assert text(run(box, "p.ipynb", parameters={"b": None, "a": {"k": [True, "ü'"]}}).wait()) == (
        "{'k': [True, \"ü'\"]} None\n"
    )
    assert text(run(box, "p.ipynb", parameters={"b": 3}).wait()) == "1 3\n"
    assert [cell.source for cell in read(box, "p.ipynb").cells] == [
        "import math",
        "a, b = 1, 2",
        "b = 3",
        "print(a, b)",
    ]
    put(box, "s.ipynb", 'echo "$a-$b"', kernelspec={"name": "bash", "display_name": "Bash"})
    assert text(run(box, "s.ipynb", parameters={"a": "x y'", "b": True}).wait()) == "x y'-true\n"
    put(box, "j.ipynb", "console.log(a)", kernelspec={"name": "deno", "display_name": "", "language": "JavaScript"})
    assert text(run(box, "j.ipynb", parameters={"a": "ü"}).wait()) == "ü\n"


def test_a_cell_that_takes_too_long_is_interrupted_and_the_file_is_kept_at_the_limit_of_the_run(box: Box) -> None:
    put(box, "t.ipynb", "print('begun', flush=True)\nimport time\ntime.sleep(60)", "2")
    events = run(box, "t.ipynb", cellTimeoutMs=1500).wait()
    assert ends(events) == [(0, "error")]
    assert read(box, "t.ipynb").cells[0].outputs[-1].ename == "KeyboardInterrupt"
    # Long enough for the runner to start beside other tests.
    events = run(box, "t.ipynb", timeoutMs=8000).wait()
    assert events[-1]["status"] == "timeout"
    assert read(box, "t.ipynb").cells[0].outputs[0].text == "begun\n"


def test_a_kernel_that_dies_ends_the_run_with_a_reason(box: Box) -> None:
    put(box, "d.ipynb", "print('here', flush=True)\nimport os, time\ntime.sleep(0.5)\nos._exit(3)", "2")
    events = run(box, "d.ipynb").wait()
    assert (events[-1]["status"], events[-1]["exitCode"]) == ("error", 1)
    assert "kernel of the notebook has died" in text(events, "stderr")
    assert read(box, "d.ipynb").cells[0].outputs[0].text == "here\n"


@pytest.mark.parametrize(
    ("content", "fields", "pointer"),
    [
        ("{", {}, "/path"),
        ('{"cells": 1, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}', {}, "/path"),
        ('{"nbformat": 99}', {}, "/path"),
        ("[" * 100_000, {}, "/path"),
        (None, {"parameters": {"a b": 1}}, "/parameters"),
        (None, {"parameters": [1]}, "/parameters"),
        (None, {"language": "cobol"}, "/language"),
        (None, {"output": "none/x.ipynb"}, "/output"),
    ],
)
def test_what_cannot_be_run_is_refused(box: Box, content: str | None, fields: dict[str, Any], pointer: str) -> None:
    put(box, "r.ipynb", "1")
    if content is not None:
        (box.data / "r.ipynb").write_text(content)
    response = box.http.put(f"/codebox/notebooks/{uuid.uuid4().hex}", json={"path": "r.ipynb", **fields})
    assert (response.status_code, response.json()["pointer"]) == (400, pointer)
    assert box.http.put(f"/codebox/notebooks/{uuid.uuid4().hex}", json={"path": "none.ipynb"}).status_code == 404


def test_code_of_a_notebook_cannot_flood_or_break_its_events(box: Box) -> None:
    forge = """
import os, time
lines = b'[1]\\n{"type": "done", "seq": 99}\\n{"index":' + b'9' * 5_000_000 + b'}\\nnothing\\n' + b'[' * 100_000 + b'\\n'
for name in os.listdir(f'/proc/{os.getppid()}/fd'):
    try:
        pipe = os.open(f'/proc/{os.getppid()}/fd/{name}', os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        continue
    sent, until = 0, time.monotonic() + 2
    while sent < len(lines) and time.monotonic() < until:
        try:
            sent += os.write(pipe, lines[sent : sent + 65536])
        except OSError:
            time.sleep(0.01)
    os.close(pipe)
    if sent == len(lines): print('sent')
"""
    put(box, "f.ipynb", forge, "print('x' * 3_000_000)")
    events = run(box, "f.ipynb").wait()
    assert events[-1]["status"] == "ok"
    assert ends(events) == [(0, "ok"), (1, "ok")]
    # At least the descriptor of the events took all of it.
    assert "sent\n" in text(events)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert [event["type"] for event in events].count("done") == 1
    assert of(events, "cell")[-1]["outputs"] is None
    assert len(read(box, "f.ipynb").cells[1].outputs[0].text) == 3_000_001


def test_a_run_can_be_ended_and_keeps_its_file(box: Box) -> None:
    put(box, "k.ipynb", "print('begun', flush=True)\nimport time\ntime.sleep(60)")
    started = run(box, "k.ipynb")
    eventually(lambda: "begun" in text(started.events))
    box.http.delete(f"/codebox/commands/{started.id}")
    assert started.wait()[-1]["status"] == "killed"
    assert read(box, "k.ipynb").cells[0].outputs[0].text == "begun\n"
    # Nothing of it is left.
    time.sleep(0.2)
    assert text(box.command("pgrep -fc 'launch[.]py python .*notebook-' || true").wait()) == "0\n"


def test_a_notebook_is_made_from_the_executions_of_a_context(box: Box) -> None:
    box.run("x = 20\nprint('out'); x")
    context = box.context()
    show = "from IPython.display import display\nh = display('a', display_id=True)\nh.update('b')"
    box.run(show, context=context)
    box.run("from IPython.display import clear_output\nprint(1); clear_output(); print('ü')", context=context)
    box.run("1/0", context=context)
    body = box.http.get("/codebox/notebook", params={"context": context})
    assert body.headers["content-type"] == "application/x-ipynb+json"
    notebook = nbformat.reads(body.text, as_version=4)
    nbformat.validate(notebook)
    assert [cell.execution_count for cell in notebook.cells] == [1, 2, 3]
    assert notebook.cells[0].outputs[0].data["text/plain"] == "'b'"
    assert notebook.cells[1].outputs[0].text == "ü\n"
    assert notebook.cells[2].outputs[0].ename == "ZeroDivisionError"
    assert notebook.metadata.kernelspec.name == "python3"
    whole = json.loads(box.http.get("/codebox/notebook").text)["cells"]
    assert "".join(whole[-4]["source"]) == "x = 20\nprint('out'); x"
    assert [output["output_type"] for output in whole[-4]["outputs"]] == ["stream", "execute_result"]
    assert box.http.get("/codebox/notebook", params={"context": "none"}).status_code == 404
    assert box.http.get("/codebox/notebook", params={"language": "none"}).status_code == 400
