"""Kernels that are forked are like kernels that are started, and need nothing of the fork server afterwards."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from box import Box, children, eventually, of, result, start_box, text

FORKED = 'b"fork-server" in open("/proc/self/cmdline", "rb").read()'
LOADED = 'import sys; "matplotlib.pyplot" in sys.modules and "PIL.PngImagePlugin" in sys.modules'


def loaded(box: Box) -> bool:
    """Whether a new context has the libraries."""
    context = box.context()
    events = box.run(LOADED, context=context)
    box.http.delete(f"/api/kernels/{context}")
    if result(events) == "True":
        return True
    # Each fork puts off what is still to be loaded.
    time.sleep(1)
    return False


def fork_server(box: Box) -> int:
    """The process that has the command line of the fork server and was not forked from it, which is the oldest."""
    found = [pid for pid in children(box.process.pid) if b"fork-server" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return min(found, key=lambda pid: int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]))


@pytest.fixture(scope="module")
def ready(box: Box) -> Box:
    eventually(lambda: loaded(box), 120)
    return box


@pytest.fixture
def context(ready: Box) -> Iterator[str]:
    made = ready.context()
    yield made
    ready.http.delete(f"/api/kernels/{made}")


def test_python_kernels_are_forked_with_the_libraries_loaded(ready: Box, context: str) -> None:
    assert result(ready.run(FORKED, context=context)) == "True"
    assert result(ready.run(LOADED, context=context)) == "True"


def test_a_forked_kernel_looks_like_a_started_one(ready: Box, context: str) -> None:
    code = """
import gc, multiprocessing, os, signal, sys, threading, __main__
facts = {
    "session": os.getsid(0) == os.getpid() == os.getpgid(0),
    "argv": os.path.basename(sys.argv[0]) == "launch.py" and sys.argv[1] == "python",
    "main": __main__.__dict__ is globals(),
    "thread": threading.current_thread() is threading.main_thread(),
    "gc": gc.isenabled(),
    "path": sys.path[0] == "",
    "cwd": os.getcwd() == os.environ["PWD"] if "PWD" in os.environ else True,
    "score": open("/proc/self/oom_score_adj").read().strip() == "1000",
    "descriptors": not [fd for fd in os.listdir("/proc/self/fd") if "fork" in os.path.realpath(f"/proc/self/fd/{fd}")],
    "process": multiprocessing.current_process().pid == os.getpid(),
    "flags": not sys.flags.no_user_site and not sys.flags.isolated,
}
[name for name, holds in facts.items() if not holds]
"""
    assert result(ready.run(code, context=context)) == "[]"


def test_processes_and_threads_work_in_a_forked_kernel(ready: Box, context: str) -> None:
    code = """
import concurrent.futures as futures, multiprocessing as mp, numpy as np
a = np.ones((600, 600)); total = (a @ a).sum()
with futures.ProcessPoolExecutor(2, mp_context=mp.get_context("fork")) as pool: squares = list(pool.map(abs, range(-3, 0)))
with futures.ThreadPoolExecutor(2) as pool: texts = list(pool.map(str, range(3)))
total, squares, texts
"""
    assert result(ready.run(code, context=context)) == "(np.float64(216000000.0), [3, 2, 1], ['0', '1', '2'])"


def test_each_kernel_draws_its_own_random_numbers(ready: Box) -> None:
    code = "import random, uuid, numpy as np; (random.random(), np.random.rand(), np.random.default_rng().random(), uuid.uuid4())"
    contexts = [ready.context() for _ in range(3)]
    drawn = [result(ready.run(code, context=context)).strip("()").split(", ") for context in contexts]
    for context in contexts:
        ready.http.delete(f"/api/kernels/{context}")
    assert all(len(set(column)) == 3 for column in zip(*drawn, strict=True))


def test_the_end_of_a_forked_kernel_is_told_exactly(ready: Box, context: str) -> None:
    assert result(ready.run(FORKED, context=context)) == "True"
    killed = ready.run("import os; os.kill(os.getpid(), 9)", context=context)[-1]
    assert killed["cause"]["signal"] == "SIGKILL"
    exited = ready.run("import os; os._exit(3)", context=context)[-1]
    assert exited["cause"]["exitCode"] == 3
    assert result(ready.run(FORKED, context=context)) == "True"


def test_what_a_forked_kernel_leaves_open_is_written_at_its_end(ready: Box, context: str) -> None:
    code = """
import atexit, threading, time
file = open("open.txt", "w"); file.write("text"); cycle = [file]; cycle.append(cycle)
atexit.register(lambda: open("exit.txt", "w").write("exit"))
threading.Thread(target=lambda: (time.sleep(0.3), open("thread.txt", "w").write("thread"))).start()
"""
    ready.run(code, context=context)
    assert ready.http.post(f"/codebox/contexts/{context}/restart").status_code == 200
    texts = [(ready.data / f"{name}.txt").read_text() for name in ("open", "exit", "thread")]
    assert texts == ["text", "exit", "thread"]


def test_a_figure_needs_no_show_in_a_forked_kernel(ready: Box, context: str) -> None:
    events = ready.run("import matplotlib.pyplot as plt\n_ = plt.plot([1, 2])", context=context)
    assert "image/png" in of(events, "display")[0]["mime"]


def test_a_package_that_came_after_the_fork_server_is_found(ready: Box, context: str) -> None:
    install = """
import os, site
folder = site.getusersitepackages(); os.makedirs(folder, exist_ok=True)
open(f"{folder}/latecomer.py", "w").write("value = 7")
site.ENABLE_USER_SITE
"""
    if result(ready.run(install, context=context)) == "True":
        other = ready.context()
        assert result(ready.run("import latecomer; latecomer.value", context=other)) == "7"
        ready.http.delete(f"/api/kernels/{other}")


def test_modules_of_the_working_folder_that_hide_a_library_win(ready: Box) -> None:
    (ready.data / "own").mkdir()
    (ready.data / "own" / "pandas.py").write_text("mine = 1")
    made = ready.http.post("/api/kernels", json={"name": "python", "path": "own"}).json()["id"]
    assert text(ready.run("import pandas; print(pandas.mine)", context=made)) == "1\n"
    ready.http.delete(f"/api/kernels/{made}")


def test_kernels_outlive_the_fork_server_which_comes_back(fresh_box: Box) -> None:
    eventually(lambda: loaded(fresh_box), 120)
    old = fresh_box.context()
    fresh_box.run("kept = 5", context=old)
    server = fork_server(fresh_box)
    os.kill(server, signal.SIGKILL)
    assert result(fresh_box.run("kept", context=old)) == "5"
    assert result(fresh_box.run("1 + 1", context=fresh_box.context())) == "2"
    killed = fresh_box.run("import os; os.kill(os.getpid(), 9)", context=old)[-1]
    assert killed["cause"]["signal"] == "SIGKILL"
    eventually(lambda: loaded(fresh_box), 120)
    assert fork_server(fresh_box) != server


def test_a_fork_server_that_hangs_costs_a_deadline_and_nothing_else(fresh_box: Box) -> None:
    eventually(lambda: loaded(fresh_box), 120)
    os.kill(fork_server(fresh_box), signal.SIGSTOP)
    assert result(fresh_box.run(FORKED, context=fresh_box.context())) == "False"


def test_a_newborn_that_takes_too_long_is_ended(fresh_box: Box) -> None:
    eventually(lambda: loaded(fresh_box), 120)
    startup = fresh_box.folder / "run" / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True, exist_ok=True)
    (startup / "slow.py").write_text(f"""
import os, time
if {FORKED}:
    open("newborn", "w").write(str(os.getpid()))
    time.sleep(100)
""")
    assert result(fresh_box.run(FORKED, context=fresh_box.context())) == "False"
    newborn = int((fresh_box.data / "newborn").read_text())
    eventually(lambda: not Path(f"/proc/{newborn}").exists())


def test_a_variable_that_only_counts_at_the_start_counts(fresh_box: Box) -> None:
    fresh_box.http.post("/codebox/bind", json={"env": {"PYTHONHASHSEED": "0", "GREETING": "hello"}})
    events = fresh_box.run("import os; print(os.environ['GREETING']); hash('a')")
    other = fresh_box.run("hash('a')", context=fresh_box.context())
    assert text(events) == "hello\n"
    assert result(events) == result(other)


def test_a_box_with_little_memory_has_no_fork_server(folder: Path) -> None:
    group = folder / "cgroup"
    group.mkdir(mode=0o755)
    (group / "memory.max").write_text(str(256 * 1024 * 1024))
    with start_box(folder, CODEBOX_CGROUP=str(group)) as box:
        assert result(box.run(FORKED)) == "False"
        assert not [
            pid for pid in children(box.process.pid) if b"fork-server" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
