"""Contexts are Jupyter kernels, whether they were created through our API or Jupyter's."""

import json
import sys
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest
import websocket
from box import TOKEN, Box, eventually, of, refusal, result, text


def _contexts(box: Box) -> dict[str, dict[str, Any]]:
    return {item["id"]: item for item in box.http.get("/codebox/contexts").json()["items"]}


def test_concurrent_runs_share_one_default_context(empty_box: Box) -> None:
    runs = [empty_box.start("1") for _ in range(10)]
    ids = {run.wait()[0]["context"] for run in runs}
    assert len(ids) == 1
    assert len(empty_box.http.get("/api/kernels").json()) == 1
    context = _contexts(empty_box)[ids.pop()]
    assert context["default"] is True
    assert context["language"] == "python"
    assert context["state"] == "idle"
    assert context["createdAt"].endswith("Z")
    assert context["lastActivityAt"].endswith("Z")


def test_each_language_has_its_own_default(empty_box: Box) -> None:
    first = empty_box.run("1")[0]["context"]
    second = empty_box.run("echo", "bash")[0]["context"]
    assert first != second
    assert {c["language"] for c in _contexts(empty_box).values() if c["default"]} == {"python", "bash"}


def test_a_kernel_created_through_jupyter_is_a_context(box: Box) -> None:
    context = box.context()
    assert _contexts(box)[context]["default"] is False
    box.run("x = 1", context=context)
    assert of(box.run("x", context=box.context()), "error")[0]["name"] == "NameError"
    names = {kernel["id"]: kernel["name"] for kernel in box.http.get("/api/kernels").json()}
    assert names[context] == "python"


def test_kernel_specs_are_named_after_the_languages(box: Box) -> None:
    specs = box.http.get("/api/kernelspecs").json()
    assert set(specs["kernelspecs"]) == {"python", "javascript", "typescript", "bash"}
    assert specs["default"] == "python"
    assert box.http.post("/api/kernels", json={"name": "python3"}).json()["name"] == "python"


def test_a_run_has_the_language_of_its_context(box: Box) -> None:
    context = box.context("bash")
    events = box.run("echo $((1+1))", context=context)
    assert events[0]["language"] == "bash"


def test_deleting_a_context_ends_its_running_and_queued_runs(box: Box) -> None:
    context = box.context()
    first = box.start("import time; time.sleep(100)", context=context)
    first.until("started")
    second = box.start("1", context=context)
    eventually(lambda: second.get().get("state") == "queued")
    assert box.http.delete(f"/api/kernels/{context}").status_code == 204
    for run in (first, second):
        done = run.wait()[-1]
        assert (done["status"], done["cause"]["code"], done["stateLost"]) == ("killed", "context_deleted", True)
    assert context not in _contexts(box)
    assert (
        box.http.put(
            f"/codebox/executions/{uuid.uuid4().hex}", json={"code": "1", "timeoutMs": 9, "context": context}
        ).status_code
        == 404
    )


def test_a_deleted_default_context_is_created_again(box: Box) -> None:
    first = box.run("1")[0]["context"]
    box.http.delete(f"/api/kernels/{first}")
    assert box.run("1")[0]["context"] != first


def test_restarting_a_context_ends_its_run_and_clears_its_variables(box: Box) -> None:
    context = box.context()
    box.run("x = 1", context=context)
    run = box.start("import time; time.sleep(100)", context=context)
    run.until("started")
    assert box.http.post(f"/api/kernels/{context}/restart").status_code == 200
    done = run.wait()[-1]
    assert (done["status"], done["cause"]["code"], done["stateLost"]) == ("killed", "restarted", True)
    assert result(box.run("'x' in globals()", context=context)) == "False"


def test_an_interrupt_through_jupyter_ends_the_run_as_interrupted(box: Box) -> None:
    context = box.context()
    run = box.start("import time; time.sleep(100)", context=context)
    run.until("started")
    assert box.http.post(f"/api/kernels/{context}/interrupt").status_code == 204
    assert run.wait()[-1]["status"] == "interrupted"


def _socket(box: Box, path: str) -> websocket.WebSocket:
    import socket

    raw = socket.socket(socket.AF_UNIX)
    raw.connect(box.socket)
    channel = websocket.WebSocket()
    channel.connect(f"ws://localhost{path}", socket=raw, timeout=20, header={"X-CodeBox-Token": TOKEN})
    return channel


def _execute(channel: websocket.WebSocket, code: str) -> str:
    header = {
        "msg_id": uuid.uuid4().hex,
        "msg_type": "execute_request",
        "username": "",
        "session": "s",
        "version": "5.3",
    }
    content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
    message = {
        "channel": "shell",
        "header": header,
        "parent_header": {},
        "metadata": {},
        "content": content,
        "buffers": [],
    }
    channel.send(json.dumps(message))
    while True:
        received = json.loads(channel.recv())
        if received["parent_header"].get("msg_id") == header["msg_id"] and received["msg_type"] == "execute_result":
            return received["content"]["data"]["text/plain"]


def test_a_stock_websocket_shares_the_variables(box: Box) -> None:
    context = box.context()
    box.run("x = 41", context=context)
    channel = _socket(box, f"/api/kernels/{context}/channels?session_id=s")
    assert _execute(channel, "x += 1; x") == "42"
    assert result(box.run("x", context=context)) == "42"
    channel.close()


def test_time_spent_by_a_stock_client_does_not_count_against_the_time_limit(box: Box) -> None:
    context = box.context()
    channel = _socket(box, f"/api/kernels/{context}/channels?session_id=s")
    thread = threading.Thread(target=_execute, args=(channel, "import time; time.sleep(1.5); 1"))
    thread.start()
    eventually(lambda: _contexts(box)[context]["state"] == "busy")
    done = box.start("2", timeout_ms=700, context=context).wait()[-1]
    thread.join()
    channel.close()
    assert done["status"] == "ok"
    assert done["queuedMs"] > 500


def test_stock_terminals_work(box: Box) -> None:
    name = box.http.post("/api/terminals").json()["name"]
    channel = _socket(box, f"/terminals/websocket/{name}")
    channel.send(json.dumps(["stdin", "echo $((40+2)); pwd\r"]))
    seen = ""
    while "42" not in seen or str(box.data) not in seen:
        seen += str(json.loads(channel.recv())[1:])
    channel.close()
    assert box.http.delete(f"/api/terminals/{name}").status_code == 204


def test_a_websocket_client_that_does_not_read_is_disconnected(box: Box) -> None:
    context = box.context()
    channel = _socket(box, f"/api/kernels/{context}/channels?session_id=slow")
    before = _resident(box)
    code = (
        "from IPython.display import display\nfor i in range(100): display({'text/plain': 'x' * (1 << 20)}, raw=True)"
    )
    for _ in range(2):
        assert box.run(code, context=context)[-1]["status"] in ("ok", "output_limit")
    assert _resident(box) - before < 150 * 1024 * 1024
    with pytest.raises((websocket.WebSocketException, OSError)):
        while True:
            channel.recv()


def test_the_number_of_contexts_is_bounded(empty_box: Box) -> None:
    empty_box.await_fork_server()
    empty_box.remove_contexts()
    made = [empty_box.http.post("/api/kernels", json={"name": "python"}).status_code for _ in range(18)]
    assert made == [201] * 16 + [429] * 2
    response = empty_box.http.put("/codebox/executions/x", json={"code": "1", "timeoutMs": 1000})
    assert (response.status_code, response.json()["code"]) == (429, "too_many_requests")


def _resident(box: Box) -> int:
    for line in Path(f"/proc/{box.process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def test_a_virtual_environment_can_have_kernels(empty_box: Box) -> None:
    box = empty_box
    made = box.command(f"{sys.executable} -m venv --without-pip own").wait()
    assert made[-1]["exitCode"] == 0
    site = next((box.data / "own/lib").glob("python3*")) / "site-packages"
    (site / "seaborn.py").write_text("__version__ = 'own'")
    body = {"language": "python", "python": "own", "env": {"COLOUR": "green"}}
    created = box.http.post("/codebox/contexts", json=body)
    assert created.status_code == 201, created.text
    context = created.json()["id"]
    code = "import seaborn, os, sys\n(seaborn.__version__, sys.prefix, os.environ['COLOUR'], 'CODEBOX_PYTHON' in os.environ)"
    assert result(box.run(code, context=context)) == f"('own', '{box.data}/own', 'green', False)"
    # What the environment lacks is found in the image.
    assert result(box.run("import pandas.api.types; 1", context=box.context())) == "1"
    assert text(box.run("!which python", context=context)).strip() == f"{box.data}/own/bin/python"
    restarted = box.http.post(f"/codebox/contexts/{context}/restart")
    assert restarted.status_code == 200
    assert result(box.run("import sys; sys.prefix", context=context)) == f"'{box.data}/own'"


def test_a_folder_without_a_fitting_python_has_no_kernels(box: Box) -> None:
    (box.data / "odd/bin").mkdir(parents=True, mode=0o777)
    for language, python, code in [("python", "none", ""), ("bash", "odd", ""), ("python", "odd", "echo 2.7")]:
        if code:
            program = box.data / "odd/bin/python"
            program.write_text(f"#!/bin/sh\n{code}\n")
            program.chmod(0o755)
        body = {"language": language, "python": python}
        assert refusal(box.http.post("/codebox/contexts", json=body)) == (400, "invalid_request", "/python")
