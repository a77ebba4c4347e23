"""The process of the server: its sockets, folders, environment, priorities and end."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

from box import INSTANCE, PACKAGE, TOKEN, Box, eventually, refusal, result, start_box, text


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
        "abilities": [
            *("changes", "checkpoint", "contents", "folder", "jupyter", "keys", "network", "notebooks"),
            *("output", "packages", "ports", "python", "runs", "seal", "search", "stop", "terminals", "unattended"),
            *("variables", "watch"),
        ],
        "languages": ["python", "javascript", "typescript", "bash"],
    }


def test_no_process_listens_on_tcp_while_every_kernel_runs(box: Box) -> None:
    for language in ("python", "javascript", "typescript", "bash"):
        assert box.run("1", language)[-1]["status"] in ("ok", "error")
    listening = _listening_inodes()
    for pid in box.pids():
        for fd in os.scandir(f"/proc/{pid}/fd"):
            try:
                assert os.readlink(fd.path) not in listening
            except FileNotFoundError:
                continue


def test_every_uid_can_connect_to_the_socket(box: Box) -> None:
    assert stat.S_IMODE(os.stat(box.socket).st_mode) == 0o666


def test_sockets_of_kernels_are_private(box: Box) -> None:
    box.run("1")
    assert stat.S_IMODE(os.stat(box.folder / "run" / "k").st_mode) & 0o077 == 0


def test_the_server_leaves_nothing_in_the_working_folder(box: Box) -> None:
    for language in ("python", "javascript", "bash"):
        box.run("1", language)
    box.run("import matplotlib.pyplot as plt; plt.plot([1]); plt.show()")
    assert os.listdir(box.data) == []


def test_code_runs_in_the_working_folder_and_has_the_home_of_the_box(box: Box) -> None:
    code = "import os, pathlib; print(os.getcwd(), pathlib.Path.home(), os.path.expanduser('~'))"
    root = box.folder / "root"
    assert text(box.run(code)).split() == [str(root / "data"), str(root / "home"), str(root / "home")]


def test_a_uid_without_a_passwd_entry_has_a_user_name(box: Box) -> None:
    assert result(box.run("import getpass; getpass.getuser()")) == "'box'"


def test_files_in_the_working_folder_cannot_shadow_modules_of_a_new_kernel(box: Box) -> None:
    for name in ("json.py", "zmq.py", "ipykernel.py", "codebox_server.py"):
        (box.data / name).write_text("raise RuntimeError('wrong module')")
    context = box.context()
    assert result(box.run("1+1", context=context)) == "2"


def test_modules_in_the_working_folder_can_be_imported(box: Box) -> None:
    (box.data / "mine.py").write_text("x = 41")
    assert result(box.run("import mine; mine.x + 1", context=box.context())) == "42"


def test_the_oom_killer_prefers_kernels_and_commands_to_the_server(box: Box) -> None:
    code = "import subprocess; print(open('/proc/self/oom_score_adj').read(), end='')\n"
    code += "print(subprocess.run(['cat', '/proc/self/oom_score_adj'], capture_output=True, text=True).stdout)"
    assert text(box.run(code)).split() == ["1000", "1000"]
    assert text(box.command("sleep 0.2; cat /proc/self/oom_score_adj").wait()) == "1000\n"
    assert Path(f"/proc/{box.process.pid}/oom_score_adj").read_text() != "1000\n"


def test_kernels_commands_and_their_children_have_a_lower_priority_than_the_server(box: Box) -> None:
    server = os.getpriority(os.PRIO_PROCESS, box.process.pid)
    assert server <= 9
    code = "import os; {os.getpriority(os.PRIO_PROCESS, int(task)) for task in os.listdir('/proc/self/task')}"
    assert result(box.run(code)) == str({server + 10})
    assert text(box.run("nice", "bash")) == f"{server + 10}\n"
    assert text(box.command("sleep 0.2; nice").wait()) == f"{server + 10}\n"


def test_a_bad_environment_is_refused_with_its_pointer(box: Box) -> None:
    response = box.http.post("/codebox/bind", json={"env": {"A": 1}})
    assert refusal(response) == (400, "invalid_request", "/env/A")
    assert box.http.post("/codebox/bind", json={"env": {"A=B": "x"}}).status_code == 400
    assert box.http.post("/codebox/bind", json={"envs": {}}).json()["pointer"] == "/envs"
    assert box.http.post("/codebox/bind", content=b"{").status_code == 400
    assert box.http.post("/codebox/bind", content=b"[" * 100_000).status_code == 400


def test_sigterm_ends_the_server_its_kernels_and_the_fork_server(folder: Path) -> None:
    with start_box(folder) as box:
        for language in ("python", "bash", "javascript"):
            box.run("1", language)
        eventually(box.fork_server)
        pids = box.pids()
        assert len(pids) >= 7
        os.kill(box.process.pid, signal.SIGTERM)
        box.process.wait(15)
        eventually(lambda: not any(_alive(pid) for pid in pids))
        assert box.process.returncode == 128 + signal.SIGTERM


def test_a_run_that_sigterm_cuts_off_has_no_done_event(fresh_box: Box) -> None:
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
