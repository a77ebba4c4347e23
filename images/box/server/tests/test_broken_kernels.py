"""Kernels of an image that cannot start: runs, contexts and the list of kernels report why."""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from box import PACKAGE, Box, of, start_box, text

# At its import, with colours and a NUL, after more than any detail holds.
_DIES = r"""
import sys
sys.stderr.write("x" * 100_000 + "\n")
sys.stderr.write("\x1b[31mNo \x1b[1mluck\x1b[0m\0\n")
raise ImportError("libodbc.so.2")
"""
# A kernel of ipykernel that floods its stderr before it responds, and while it runs.
_FLOODS = """
import os
from ipykernel.kernelapp import IPKernelApp
from ipykernel.kernelbase import Kernel

class FloodKernel(Kernel):
    implementation = banner = "flood"
    implementation_version = "1"
    language_info = {"name": "flood", "mimetype": "text/plain", "file_extension": ".txt"}

    def do_execute(self, code, silent, *args, **more):
        os.write(copy, b"y" * 300_000)
        self.send_response(self.iopub_socket, "stream", {"name": "stdout", "text": code})
        return {"status": "ok", "execution_count": 1, "payload": [], "user_expressions": {}}

copy = os.dup(2)
os.write(copy, b"x" * 300_000)
IPKernelApp.launch_instance(kernel_class=FloodKernel)
"""


def _write(folder: Path, name: str, spec: str, program: str = "") -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "kernel.json").write_text(spec)
    (folder / name / "kernel.py").write_text(program)


def _spec(*argv: str) -> str:
    return json.dumps({"argv": [*argv, "{connection_file}"], "display_name": "kernel", "language": "any"})


@pytest.fixture(scope="module")
def box(module_folder: Path) -> Iterator[Box]:
    kernels = module_folder / "kernels"
    program = ("-P", "{resource_dir}/kernel.py", "-f")
    _write(kernels, "missing", _spec("perl6"))
    _write(kernels, "forbidden", _spec("{resource_dir}/kernel.py"))
    _write(kernels, "broken", '{\n  "argv": \n}')
    _write(kernels, "array", "[]")
    _write(kernels, "argless", '{"display_name": "kernel"}')
    _write(kernels, "dies", _spec(sys.executable, *program), _DIES)
    _write(kernels, "silent", _spec("sh", "-c", "exec sleep 1000"))
    _write(kernels, "late", _spec("sh", "-c", "echo waits for the network >&2; exec sleep 1000"))
    launch = PACKAGE / "codebox_server" / "kernels" / "launch.py"
    _write(
        kernels, "moved", _spec("{resource_dir}/kernel.py"), f'#!/bin/sh\nexec {sys.executable} -P {launch} bash "$1"\n'
    )
    (kernels / "moved" / "kernel.py").chmod(0o755)
    _write(kernels, "flood", _spec(sys.executable, *program), _FLOODS)
    # The user of the server may not read all folders of the PATH of the tests.
    environment = {"CODEBOX_KERNELS": str(kernels), "CODEBOX_KERNEL_START_SECONDS": "3", "PATH": "/usr/bin:/bin"}
    with start_box(module_folder, forks=False, **environment) as running:
        yield running


def _cause(events: list[dict[str, Any]]) -> str:
    done = events[-1]
    assert (done["status"], done["cause"]["code"], done["executionCount"]) == ("killed", "kernel_start", None)
    assert of(events, "started") == []
    return done["cause"]["detail"]


_FAULTS = [
    ("missing", "perl6: not found"),
    ("forbidden", "kernel.py: permission denied"),
    ("broken", "kernel.json: Expecting value, line 3"),
    ("array", "kernel.json: it has to be an object with argv, a list of strings"),
    ("argless", "kernel.json: it has to be an object with argv, a list of strings"),
]


@pytest.mark.parametrize(("language", "detail"), _FAULTS)
def test_runs_and_contexts_of_a_kernel_that_cannot_be_started_report_why(box: Box, language: str, detail: str) -> None:
    run = box.start("1", language)
    assert _cause(run.wait()).endswith(detail)
    assert (run.get()["state"], run.get()["context"]) == ("done", None)
    assert run.post("input", text="x").json()["reason"] == "not_waiting"
    if detail.startswith("kernel.json"):
        # Whether it supports a variable for the run is unknown.
        assert _cause(box.run("1", language, env={"A": "b"})).endswith(detail)
    response = box.http.post("/codebox/contexts", json={"language": language})
    assert (response.status_code, response.json()["code"]) == (409, "conflict")
    assert response.json()["reason"] == "kernel_start"
    assert response.json()["detail"].endswith(detail)
    assert box.http.post("/codebox/warm", json={"languages": [language]}).json()["reason"] == "kernel_start"


def test_a_kernel_with_a_broken_spec_does_not_hide_the_others(box: Box) -> None:
    listed = box.http.get("/api/kernelspecs").json()["kernelspecs"]
    assert {"python", "dies", "missing"} <= set(listed)
    assert "broken" not in listed


def test_a_context_whose_program_has_disappeared_reports_it(box: Box) -> None:
    program = box.folder / "kernels" / "moved" / "kernel.py"
    context = box.http.post("/codebox/contexts", json={"language": "moved"}).json()["id"]
    assert text(box.run("echo $((6*7))", context=context)) == "42\n"
    program.unlink()
    box.run("kill -9 $PPID", context=context)
    assert _cause(box.run("echo 1", context=context)).endswith("moved/kernel.py: not found")
    refused = box.http.post(f"/codebox/contexts/{context}/restart")
    assert (refused.status_code, refused.json()["reason"]) == (409, "kernel_start")


def test_a_kernel_that_dies_at_its_start_reports_its_last_words_as_plain_text(box: Box) -> None:
    context = box.context("dies")
    for events in (box.run("1", context=context), box.run("1", "dies")):
        detail = _cause(events)
        assert detail.startswith("the kernel ended with exit code 1 while it started: xxx")
        assert "x\nNo luck\nTraceback" in detail
        assert detail.endswith("ImportError: libodbc.so.2")
        assert 1800 < len(detail) <= 2000


def test_a_kernel_that_does_not_respond_in_time_reports_what_it_needs(box: Box) -> None:
    runs = [box.start("1", "silent"), box.start("1", "late")]
    silent, late = (_cause(run.wait()) for run in runs)
    assert silent == 'the kernel did not respond in time; it has to support "transport": "ipc" in its connection file'
    assert late == f"{silent}: waits for the network"


def test_a_kernel_that_floods_its_stderr_runs_and_takes_little_time_of_the_server(box: Box) -> None:
    assert text(box.run("print", "flood")) == "print"
    began = time.monotonic()
    assert [text(box.run("again", "flood")) for _ in range(3)] == ["again"] * 3
    assert time.monotonic() - began < 10
