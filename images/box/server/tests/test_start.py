"""The process itself: where it listens, what it leaves, what it needs."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

from box import INSTANCE, PACKAGE, TOKEN, Box, eventually, result, text


def _listening_inodes() -> set[str]:
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                inodes.add(f"socket:[{fields[9]}]")
    return inodes


def test_health_names_the_api_the_abilities_and_the_languages(box: Box) -> None:
    assert box.http.get("/codebox/health").json() == {
        "status": "ok",
        "instance": INSTANCE,
        "api": 1,
        "abilities": ["checkpoint", "packages", "ports", "search", "stop", "terminals", "watch"],
        "languages": ["python", "javascript", "typescript", "bash"],
    }


def test_nothing_listens_on_tcp_while_every_kernel_runs(box: Box) -> None:
    for language in ("python", "javascript", "typescript", "bash"):
        assert box.run("1", language)[-1]["status"] in ("ok", "error")
    listening = _listening_inodes()
    for pid in box.pids():
        for fd in os.scandir(f"/proc/{pid}/fd"):
            try:
                assert os.readlink(fd.path) not in listening
            except FileNotFoundError:
                continue


def test_socket_can_be_used_by_every_uid_that_reaches_its_folder(box: Box) -> None:
    assert stat.S_IMODE(os.stat(box.socket).st_mode) == 0o666


def test_kernels_sockets_are_private(box: Box) -> None:
    box.run("1")
    assert stat.S_IMODE(os.stat(box.folder / "run" / "k").st_mode) & 0o077 == 0


def test_nothing_of_the_server_is_in_the_working_folder(box: Box) -> None:
    for language in ("python", "javascript", "bash"):
        box.run("1", language)
    box.run("import matplotlib.pyplot as plt; plt.plot([1]); plt.show()")
    assert os.listdir(box.data) == []


def test_code_runs_in_the_working_folder_with_the_home_of_the_box(box: Box) -> None:
    code = "import os, pathlib; print(os.getcwd(), pathlib.Path.home(), os.path.expanduser('~'))"
    root = box.folder / "root"
    assert text(box.run(code)).split() == [str(root / "data"), str(root / "home"), str(root / "home")]


def test_a_uid_without_a_name_is_no_trouble(box: Box) -> None:
    assert result(box.run("import getpass; getpass.getuser()")) == "'box'"


def test_files_in_the_working_folder_cannot_stand_in_for_modules_of_a_new_kernel(box: Box) -> None:
    for name in ("json.py", "zmq.py", "ipykernel.py", "codebox_server.py"):
        (box.data / name).write_text("raise RuntimeError('wrong module')")
    context = box.context()
    assert result(box.run("1+1", context=context)) == "2"


def test_modules_in_the_working_folder_can_be_imported(box: Box) -> None:
    (box.data / "mine.py").write_text("x = 41")
    assert result(box.run("import mine; mine.x + 1", context=box.context())) == "42"


def test_kernels_and_commands_go_before_the_server_when_memory_runs_out(box: Box) -> None:
    code = "import subprocess; print(open('/proc/self/oom_score_adj').read(), end='')\n"
    code += "print(subprocess.run(['cat', '/proc/self/oom_score_adj'], capture_output=True, text=True).stdout)"
    assert text(box.run(code)).split() == ["1000", "1000"]
    assert text(box.command("sleep 0.2; cat /proc/self/oom_score_adj").wait()) == "1000\n"
    assert Path(f"/proc/{box.process.pid}/oom_score_adj").read_text() != "1000\n"


def test_kernels_commands_and_what_they_start_get_the_cpu_after_the_server(box: Box) -> None:
    server = os.getpriority(os.PRIO_PROCESS, box.process.pid)
    assert server <= 9
    code = "import os; {os.getpriority(os.PRIO_PROCESS, int(task)) for task in os.listdir('/proc/self/task')}"
    assert result(box.run(code)) == str({server + 10})
    assert text(box.run("nice", "bash")) == f"{server + 10}\n"
    assert text(box.command("sleep 0.2; nice").wait()) == f"{server + 10}\n"


def test_bound_environment_reaches_kernels_and_commands(fresh_box: Box) -> None:
    before = fresh_box.context()
    assert fresh_box.http.post("/codebox/bind", json={"env": {"TOKEN": "a b\n'c"}}).status_code == 204
    assert text(fresh_box.command('printf %s "$TOKEN"').wait()) == "a b\n'c"
    code = "import os; os.environ.get('TOKEN')"
    assert result(fresh_box.run(code)) == repr("a b\n'c")
    assert result(fresh_box.run(code, context=before)) == repr("a b\n'c")


def test_bad_environment_is_refused_with_its_pointer(box: Box) -> None:
    answer = box.http.post("/codebox/bind", json={"env": {"A": 1}})
    assert (answer.status_code, answer.json()["code"], answer.json()["pointer"]) == (400, "invalid_request", "/env/A")
    assert box.http.post("/codebox/bind", json={"env": {"A=B": "x"}}).status_code == 400
    assert box.http.post("/codebox/bind", json={"envs": {}}).json()["pointer"] == "/envs"
    assert box.http.post("/codebox/bind", content=b"{").status_code == 400
    assert box.http.post("/codebox/bind", content=b"[" * 100_000).status_code == 400


def test_sigterm_ends_the_server_and_its_kernels(fresh_box: Box) -> None:
    for language in ("python", "bash", "javascript"):
        fresh_box.run("1", language)
    pids = fresh_box.pids()
    assert len(pids) >= 6
    os.kill(fresh_box.process.pid, signal.SIGTERM)
    fresh_box.process.wait(15)
    eventually(lambda: not any(_alive(pid) for pid in pids))


def test_what_runs_at_sigterm_has_no_end_that_nobody_asked_for(fresh_box: Box) -> None:
    run = fresh_box.start("print('on', flush=True)\nimport time; time.sleep(60)")
    run.until("stdout")
    os.kill(fresh_box.process.pid, signal.SIGTERM)
    fresh_box.process.wait(15)
    run.join()
    assert [event["type"] for event in run.events] == ["started", "stdout"]


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_runtime_folder_that_is_too_long_for_sockets_is_refused(folder: Path) -> None:
    env = {
        **os.environ,
        "PYTHONPATH": str(PACKAGE),
        "CODEBOX_INSTANCE": INSTANCE,
        "CODEBOX_TOKEN": TOKEN,
        "CODEBOX_ROOT": str(folder / "r"),
        "CODEBOX_RUNTIME_DIR": f"{folder}/{'x' * 60}",
    }
    ended = subprocess.run(
        [sys.executable, "-m", "codebox_server"], env=env, capture_output=True, text=True, timeout=30
    )
    assert ended.returncode == 1
    assert "too long" in ended.stderr
