"""A warm box behaves for its later owner like a new one with the owner's environment."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from box import Box, control_group, eventually, of, result, start_box, text

LANGUAGES = ["python", "javascript", "bash"]
HOSTILE = {
    "QUOTES": "a'b\"c`d",
    "NEWLINES": "one\ntwo\r\n\tthree\n",
    "CODE": "$(touch /tmp/never) ${HOME} \\x41 %s !! # ; exit 3",
    "EMPTY": "",
    "UNICODE": "é 日本 🎉",
    "LONG": "x" * 60_000,
    "MARK": "=a=b",
}
PRINT = {
    "python": "import os; print(os.environ['{0}'], end='')",
    "javascript": "process.stdout.write(process.env['{0}'])",
    "bash": 'printf %s "${0}"',
}


def warm(box: Box, languages: list[str]) -> httpx.Response:
    return box.http.post("/codebox/warm", json={"languages": languages})


def bind(box: Box, **fields: Any) -> httpx.Response:
    return box.http.post("/codebox/bind", json=fields)


def default(box: Box, language: str) -> dict[str, Any]:
    items = box.http.get("/codebox/contexts").json()["items"]
    return next(item for item in items if item["language"] == language and item["default"])


@pytest.fixture
def warmed(box: Box) -> Box:
    """The shared server, warm."""
    assert warm(box, LANGUAGES).status_code == 204
    return box


@pytest.fixture(scope="module")
def new_warm_box(module_folder: Path) -> Iterator[Box]:
    """A new server, warm."""
    with start_box(module_folder) as running:
        assert warm(running, LANGUAGES).status_code == 204
        yield running


def test_binding_writes_files_besides_the_environment(warmed: Box) -> None:
    files = [
        {"path": "own/a.txt", "base64": "AAEC"},
        {"path": "own/b.txt", "base64": ""},
        {"path": "own/b.txt", "base64": "eA=="},
    ]
    assert bind(warmed, env={}, files=files).status_code == 204
    code = "import pathlib; [p.read_bytes() for p in sorted(pathlib.Path('own').iterdir())]"
    assert result(warmed.run(code)) == "[b'\\x00\\x01\\x02', b'x']"
    for path, pointer in (("../x", "/files/1/path"), ("own", "/files/1/path"), ("own/a.txt/c", "/files/1/path")):
        response = bind(warmed, env={}, files=[files[0], {"path": path, "base64": ""}])
        assert (response.status_code, response.json()["pointer"]) == (400, pointer)
    wrong: list[Any] = ["x", [{}], [{"path": "x", "base64": "%"}]]
    for bad in wrong:
        assert bind(warmed, env={}, files=bad).status_code == 400


def test_warming_leaves_no_trace_for_the_owner(new_warm_box: Box, empty_box: Box) -> None:
    names = """
import sys
[name for name in sorted(globals()) if name not in ('sys', 'names')], In, Out, _, __, ___, _i, len(get_ipython().history_manager.input_hist_raw)
"""
    assert [warm(new_warm_box, LANGUAGES).status_code for _ in range(2)] == [204, 204]
    for language, code in (("python", names), ("javascript", "Object.keys(globalThis)"), ("bash", "set; echo $?")):
        first, other = new_warm_box.run(code, language), empty_box.run(code, language)
        assert first[-1]["executionCount"] == other[-1]["executionCount"] == 1
        assert first[-1]["files"] == other[-1]["files"] == {"created": [], "modified": [], "deleted": []}
        assert first[-1]["processes"] == other[-1]["processes"] == []
        if language == "bash":
            continue
        assert of(first, "result") == of(other, "result")
    for language, code in (("python", "1 / 0"), ("javascript", "throw new TypeError('a')")):
        assert of(new_warm_box.run(code, language), "error") == of(empty_box.run(code, language), "error")
    assert new_warm_box.http.get("/codebox/commands").json()["items"] == []
    for language in LANGUAGES:
        context = default(new_warm_box, language)["id"]
        shown = new_warm_box.http.get(f"/codebox/contexts/{context}/variables").json()
        assert shown["items"] == []


def test_a_warm_box_has_the_usual_libraries_loaded(warmed: Box) -> None:
    loaded = "import sys; [name in sys.modules for name in ('numpy', 'pandas', 'matplotlib.pyplot')]"
    assert result(warmed.run(loaded)) == "[True, True, True]"


def test_warming_an_unknown_language_is_refused(box: Box) -> None:
    response = warm(box, ["python", "cobol"])
    assert (response.status_code, response.json()["pointer"]) == (400, "/languages")
    assert box.http.post("/codebox/warm", json={}).status_code == 400


def test_the_bound_environment_reaches_running_and_later_kernels_and_commands(warmed: Box) -> None:
    Path("/tmp/never").unlink(missing_ok=True)
    assert bind(warmed, env=HOSTILE).status_code == 204
    assert bind(warmed, env=HOSTILE).status_code == 204
    for language in LANGUAGES:
        later = warmed.context(language)
        for name, value in HOSTILE.items():
            code = PRINT[language].replace("{0}", name)
            assert text(warmed.run(code, language)) == value, (language, name)
            assert text(warmed.run(code, language, context=later)) == value, (language, name)
        shown = warmed.http.get(f"/codebox/contexts/{default(warmed, language)['id']}/variables").json()["items"]
        assert [item["name"] for item in shown] == []
        warmed.http.delete(f"/api/kernels/{later}")
    assert text(warmed.command('printf %s "$NEWLINES"').wait()) == HOSTILE["NEWLINES"]
    assert not Path("/tmp/never").exists()


def test_a_variable_that_is_no_longer_bound_is_removed(warmed: Box) -> None:
    assert bind(warmed, env={"A": "1", "B": "2", "USER": "ada"}).status_code == 204
    assert bind(warmed, env={"B": "3"}).status_code == 204
    programs = {
        "python": "import os; print(os.environ.get('A'), os.environ['B'], os.environ['USER'], end='')",
        "javascript": "process.stdout.write([process.env.A, process.env.B, process.env.USER].join(' '))",
        "bash": 'printf %s "${A-None} $B $USER"',
    }
    nothing = {"python": "None", "javascript": "", "bash": "None"}
    for language, code in programs.items():
        assert text(warmed.run(code, language)) == f"{nothing[language]} 3 box"


def test_the_environment_of_a_context_overrides_the_bound_one(warmed: Box) -> None:
    body = {"language": "python", "env": {"OWN": "mine"}}
    made = warmed.http.post("/codebox/contexts", json=body).json()["id"]
    assert bind(warmed, env={"OWN": "bound", "OTHER": "bound"}).status_code == 204
    code = "import os; print(os.environ['OWN'], os.environ['OTHER'])"
    assert text(warmed.run(code, context=made)) == "mine bound\n"
    warmed.http.delete(f"/api/kernels/{made}")


def test_a_bound_time_zone_takes_effect_in_running_kernels(warmed: Box) -> None:
    assert bind(warmed, env={"TZ": "Asia/Kolkata"}).status_code == 204
    programs = {
        "python": "import time; print(time.strftime('%H:%M', time.localtime(0)))",
        "javascript": "console.log(new Date(0).toTimeString().slice(0, 5))",
        "bash": "date -d @0 +%H:%M; printf '%(%H:%M)T\n' 0",
    }
    for language, code in programs.items():
        assert set(text(warmed.run(code, language)).split()) == {"05:30"}
    assert bind(warmed, env={}).status_code == 204
    assert text(warmed.run(programs["python"])) == "00:00\n"


def test_binding_keeps_variables_and_counts_no_execution(warmed: Box) -> None:
    before = warmed.run("import os; kept = os.getpid()")[-1]["executionCount"]
    assert bind(warmed, env={"C": "1"}).status_code == 204
    after = warmed.run("kept == os.getpid()")
    assert result(after) == "True"
    assert after[-1]["executionCount"] == before + 1


def test_a_variable_that_is_read_only_at_startup_takes_effect(new_warm_box: Box) -> None:
    assert bind(new_warm_box, env={"PYTHONHASHSEED": "0", "IFS": ",", "NODE_NO_WARNINGS": "1"}).status_code == 204
    other = new_warm_box.context()
    first = new_warm_box.run("hash('a')")
    assert first[-1]["executionCount"] == 1
    assert result(first) == result(new_warm_box.run("hash('a')", context=other))
    # Bash itself ignores this variable of its environment.
    assert text(new_warm_box.run('printf %q "$IFS"', "bash")) == "$' \\t\\n'"


def test_binding_while_a_kernel_is_busy_is_a_conflict(warmed: Box) -> None:
    running = warmed.start("import time; time.sleep(60)")
    running.until("started")
    response = bind(warmed, env={"A": "1"})
    assert (response.status_code, response.json()["code"]) == (409, "conflict")
    assert "busy" in response.json()["detail"]
    running.interrupt()
    running.wait()
    assert bind(warmed, env={"A": "1"}).status_code == 204
    assert text(warmed.run(PRINT["python"].replace("{0}", "A"))) == "1"


def test_binding_after_a_kernel_has_died_is_a_conflict(warmed: Box) -> None:
    pid = int(result(warmed.run("import os; os.getpid()")))
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: default(warmed, "python")["state"] == "dead")
    response = bind(warmed, env={"DEAD": "1"})
    assert (response.status_code, response.json()["code"]) == (409, "conflict")
    assert "has ended" in response.json()["detail"]
    warmed.remove_contexts()


def test_installers_use_the_bound_network(box: Box) -> None:
    command = 'printf %s "$CODEBOX_NETWORK ${PIP_NO_INDEX-unset} ${UV_NO_INDEX-unset}"'
    assert bind(box, env={}, network="none").status_code == 204
    assert text(box.command(command).wait()) == "none 1 1"
    assert (
        box.http.put("/codebox/packages/one", json={"manager": "npm", "packages": ["x"], "timeoutMs": 1000}).status_code
        == 409
    )
    assert bind(box, env={}, network="internet").status_code == 204
    assert text(box.command(command).wait()) == "internet unset unset"
    assert bind(box, env={}, network="all").json()["pointer"] == "/network"


def test_a_box_bound_to_little_memory_stops_its_fork_server(folder: Path) -> None:
    group = control_group(folder, {"memory.max": str(1 << 30)})
    with start_box(folder, CODEBOX_CGROUP=str(group)) as box:
        assert warm(box, ["python"]).status_code == 204
        (group / "memory.max").write_text(str(256 << 20))
        assert bind(box, env={}).status_code == 204
        first = box.run("b'fork-server' in open('/proc/self/cmdline', 'rb').read()", context=box.context())
        assert result(first) == "False"


def test_another_network_reaches_idle_kernels_and_later_processes_without_a_restart(warmed: Box) -> None:
    def connect(network: str) -> int:
        return warmed.http.put("/codebox/network", json={"network": network}).status_code

    read = "import os; print(os.environ.get('PIP_NO_INDEX'), x, end='')"
    assert warmed.run("x = 1")[-1]["status"] == "ok"
    assert connect("internet") == 204
    assert text(warmed.run(read)) == "None 1"
    busy = warmed.start("import time\nprint('up', flush=True)\ntime.sleep(1)\n" + read)
    busy.until("stdout")
    assert connect("none") == 204
    assert text(busy.wait()) == "up\nNone 1"
    assert text(warmed.run("printf %s $PIP_NO_INDEX", "bash")) == "1"
    assert connect("internet") == connect("none") == 204
    assert text(warmed.run(read)) == "1 1"
    assert connect("lan") == 400
