"""A box that was made warm for nobody is, for its owner, like a new one with the owner's environment."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from box import Box, eventually, of, result, start_box, text

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
ASK = {
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


@pytest.fixture(scope="module")
def warmed(box: Box) -> Box:
    assert warm(box, LANGUAGES).status_code == 204
    return box


@pytest.fixture
def warm_box(fresh_box: Box) -> Iterator[Box]:
    assert warm(fresh_box, LANGUAGES).status_code == 204
    yield fresh_box


def test_files_come_with_the_environment(warmed: Box) -> None:
    files = [
        {"path": "own/a.txt", "base64": "AAEC"},
        {"path": "own/b.txt", "base64": ""},
        {"path": "own/b.txt", "base64": "eA=="},
    ]
    assert bind(warmed, env={}, files=files).status_code == 204
    code = "import pathlib; [p.read_bytes() for p in sorted(pathlib.Path('own').iterdir())]"
    assert result(warmed.run(code)) == "[b'\\x00\\x01\\x02', b'x']"
    for path, pointer in (("../x", "/files/1/path"), ("own", "/files/1/path"), ("own/a.txt/c", "/files/1/path")):
        answer = bind(warmed, env={}, files=[files[0], {"path": path, "base64": ""}])
        assert (answer.status_code, answer.json()["pointer"]) == (400, pointer)
    for wrong in ("x", [{}], [{"path": "x", "base64": "%"}]):
        assert bind(warmed, env={}, files=wrong).status_code == 400


def test_a_warm_box_shows_its_owner_no_trace(warm_box: Box, module_folder: Path) -> None:
    names = """
import sys
[name for name in sorted(globals()) if name not in ('sys', 'names')], In, Out, _, __, ___, _i, len(get_ipython().history_manager.input_hist_raw)
"""
    assert [warm(warm_box, LANGUAGES).status_code for _ in range(2)] == [204, 204]
    (module_folder / "cold").mkdir(mode=0o777)
    os.chmod(module_folder / "cold", 0o777)
    with start_box(module_folder / "cold") as cold:
        for language, code in (("python", names), ("javascript", "Object.keys(globalThis)"), ("bash", "set; echo $?")):
            first, other = warm_box.run(code, language), cold.run(code, language)
            assert first[-1]["executionCount"] == other[-1]["executionCount"] == 1
            assert first[-1]["files"] == other[-1]["files"] == {"created": [], "modified": [], "deleted": []}
            assert first[-1]["processes"] == other[-1]["processes"] == []
            if language == "bash":
                continue
            assert of(first, "result") == of(other, "result")
        for language, code in (("python", "1 / 0"), ("javascript", "throw new TypeError('a')")):
            assert of(warm_box.run(code, language), "error") == of(cold.run(code, language), "error")
    assert warm_box.http.get("/codebox/commands").json()["items"] == []
    for language in LANGUAGES:
        shown = warm_box.http.get(f"/codebox/contexts/{default(warm_box, language)['id']}/variables").json()
        assert shown["items"] == []


def test_a_warm_box_has_the_usual_libraries_loaded(warmed: Box) -> None:
    loaded = "import sys; [name in sys.modules for name in ('numpy', 'pandas', 'matplotlib.pyplot')]"
    assert result(warmed.run(loaded)) == "[True, True, True]"


def test_what_cannot_be_warm_is_refused(box: Box) -> None:
    answer = warm(box, ["python", "cobol"])
    assert (answer.status_code, answer.json()["pointer"]) == (400, "/languages")
    assert box.http.post("/codebox/warm", json={}).status_code == 400


def test_the_environment_reaches_kernels_that_live_and_all_that_comes_later(warmed: Box) -> None:
    Path("/tmp/never").unlink(missing_ok=True)
    assert bind(warmed, env=HOSTILE).status_code == 204
    assert bind(warmed, env=HOSTILE).status_code == 204
    for language in LANGUAGES:
        later = warmed.context(language)
        for name, value in HOSTILE.items():
            code = ASK[language].replace("{0}", name)
            assert text(warmed.run(code, language)) == value, (language, name)
            assert text(warmed.run(code, language, context=later)) == value, (language, name)
        shown = warmed.http.get(f"/codebox/contexts/{default(warmed, language)['id']}/variables").json()["items"]
        assert [item["name"] for item in shown] == []
        warmed.http.delete(f"/api/kernels/{later}")
    assert text(warmed.command('printf %s "$NEWLINES"').wait()) == HOSTILE["NEWLINES"]
    assert not Path("/tmp/never").exists()


def test_a_variable_that_is_not_bound_any_more_is_gone(warmed: Box) -> None:
    assert bind(warmed, env={"A": "1", "B": "2", "USER": "ada"}).status_code == 204
    assert bind(warmed, env={"B": "3"}).status_code == 204
    asked = {
        "python": "import os; print(os.environ.get('A'), os.environ['B'], os.environ['USER'], end='')",
        "javascript": "process.stdout.write([process.env.A, process.env.B, process.env.USER].join(' '))",
        "bash": 'printf %s "${A-None} $B $USER"',
    }
    nothing = {"python": "None", "javascript": "", "bash": "None"}
    for language, code in asked.items():
        assert text(warmed.run(code, language)) == f"{nothing[language]} 3 box"


def test_the_variables_of_a_context_of_its_own_go_first(warmed: Box) -> None:
    body = {"language": "python", "env": {"OWN": "mine"}}
    made = warmed.http.post("/codebox/contexts", json=body).json()["id"]
    assert bind(warmed, env={"OWN": "bound", "OTHER": "bound"}).status_code == 204
    code = "import os; print(os.environ['OWN'], os.environ['OTHER'])"
    assert text(warmed.run(code, context=made)) == "mine bound\n"
    warmed.http.delete(f"/api/kernels/{made}")


def test_the_time_zone_takes_effect(warmed: Box) -> None:
    assert bind(warmed, env={"TZ": "Asia/Kolkata"}).status_code == 204
    asked = {
        "python": "import time; print(time.strftime('%H:%M', time.localtime(0)))",
        "javascript": "console.log(new Date(0).toTimeString().slice(0, 5))",
        "bash": "date -d @0 +%H:%M; printf '%(%H:%M)T\n' 0",
    }
    for language, code in asked.items():
        assert set(text(warmed.run(code, language)).split()) == {"05:30"}
    assert bind(warmed, env={}).status_code == 204
    assert text(warmed.run(asked["python"])) == "00:00\n"


def test_binding_keeps_variables_and_counts_nothing(warmed: Box) -> None:
    before = warmed.run("import os; kept = os.getpid()")[-1]["executionCount"]
    assert bind(warmed, env={"C": "1"}).status_code == 204
    after = warmed.run("kept == os.getpid()")
    assert result(after) == "True"
    assert after[-1]["executionCount"] == before + 1


def test_what_only_counts_at_the_start_counts(warm_box: Box) -> None:
    assert bind(warm_box, env={"PYTHONHASHSEED": "0", "IFS": ",", "NODE_NO_WARNINGS": "1"}).status_code == 204
    other = warm_box.context()
    first = warm_box.run("hash('a')")
    assert first[-1]["executionCount"] == 1
    assert result(first) == result(warm_box.run("hash('a')", context=other))
    # Bash itself does not take this one from its environment.
    assert text(warm_box.run('printf %q "$IFS"', "bash")) == "$' \\t\\n'"


def test_a_busy_kernel_is_told_of_in_time(warmed: Box) -> None:
    running = warmed.start("import time; time.sleep(60)")
    running.until("started")
    answer = bind(warmed, env={"A": "1"})
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    assert "busy" in answer.json()["detail"]
    running.interrupt()
    running.wait()
    assert bind(warmed, env={"A": "1"}).status_code == 204
    assert text(warmed.run(ASK["python"].replace("{0}", "A"))) == "1"


def test_a_dead_kernel_is_told_of_in_time(warm_box: Box) -> None:
    pid = int(result(warm_box.run("import os; os.getpid()")))
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: default(warm_box, "python")["state"] == "dead")
    answer = bind(warm_box, env={"A": "1"})
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    assert "has ended" in answer.json()["detail"]


def test_a_network_that_is_bound_is_one_that_installers_use(box: Box) -> None:
    ask = 'printf %s "$CODEBOX_NETWORK ${PIP_NO_INDEX-unset} ${UV_NO_INDEX-unset}"'
    assert bind(box, env={}, network="none").status_code == 204
    assert text(box.command(ask).wait()) == "none 1 1"
    assert (
        box.http.put("/codebox/packages/one", json={"manager": "npm", "packages": ["x"], "timeoutMs": 1000}).status_code
        == 409
    )
    assert bind(box, env={}, network="internet").status_code == 204
    assert text(box.command(ask).wait()) == "internet unset unset"
    assert bind(box, env={}, network="all").json()["pointer"] == "/network"


def test_a_box_that_gets_little_memory_gives_up_its_fork_server(folder: Path) -> None:
    group = folder / "cgroup"
    group.mkdir(mode=0o755)
    (group / "memory.max").write_text(str(1 << 30))
    with start_box(folder, CODEBOX_CGROUP=str(group)) as box:
        assert warm(box, ["python"]).status_code == 204
        (group / "memory.max").write_text(str(256 << 20))
        assert bind(box, env={}).status_code == 204
        first = box.run("b'fork-server' in open('/proc/self/cmdline', 'rb').read()", context=box.context())
        assert result(first) == "False"
