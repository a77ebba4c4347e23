"""Forked kernels behave like newly started ones and do not depend on the fork server afterwards."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from box import TOKEN, Box, eventually, of, result, start_box, text

FORKED = 'b"fork-server" in open("/proc/self/cmdline", "rb").read()'
LOADED = 'import sys; "matplotlib.pyplot" in sys.modules and "PIL.PngImagePlugin" in sys.modules'


@pytest.fixture(scope="module")
def ready(box: Box) -> Box:
    box.await_fork_server()
    return box


@pytest.fixture
def context(ready: Box) -> Iterator[str]:
    made = ready.context()
    yield made
    ready.http.delete(f"/api/kernels/{made}")


def test_the_first_kernel_of_a_new_box_is_forked_without_the_modules_of_the_server(folder: Path) -> None:
    server_only = 'any(name in sys.modules for name in ("codebox_server.app", "jupyter_server", "tornado.web"))'
    with start_box(folder) as new:
        assert result(new.run(f"import sys; ({FORKED}, {server_only})")) == "(True, False)"


def test_a_forked_kernel_does_not_have_the_token_of_the_box(ready: Box, context: str) -> None:
    # A pattern that does not match itself.
    code = f"""
import re
token = re.compile(rb"{TOKEN[:-1]}[{TOKEN[-1]}]")
areas = [line.split()[0].split("-") for line in open("/proc/self/maps") if " rw" in line]
with open("/proc/self/mem", "rb", 0) as memory:
    def has_it(begin, end):
        memory.seek(begin)
        return token.search(memory.read(end - begin)) is not None
    found = [has_it(int(begin, 16), int(end, 16)) for begin, end in areas]
(len(found) > 10, any(found))
"""
    assert result(ready.run(code, context=context)) == "(True, False)"
    # The file of the environment that a kernel shares with the server.
    assert TOKEN.encode() not in Path(f"/proc/{ready.process.pid}/environ").read_bytes()


def test_python_kernels_are_forked_with_the_libraries_loaded(ready: Box, context: str) -> None:
    assert result(ready.run(FORKED, context=context)) == "True"
    assert result(ready.run(LOADED, context=context)) == "True"


def test_a_forked_kernel_looks_like_a_newly_started_one(ready: Box, context: str) -> None:
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


SHELL = """
import builtins, json, os, sys
def plain(value, depth=0):
    if value is None or isinstance(value, (str, int, float, bool, bytes, os.PathLike)):
        return repr(value)
    if isinstance(value, (list, tuple)) and depth < 3:
        return [plain(item, depth + 1) for item in value]
    if isinstance(value, dict) and depth < 3:
        return {str(key): plain(item, depth + 1) for key, item in value.items()}
    return type(value).__qualname__
of_one_run = {"_filename_map", "_parent_header_global", "_trait_values", "config", "parent_handle", "topic"}
def facts_of(part):
    own = {**vars(part), **getattr(part, "_trait_values", {})}
    return {name: plain(value) for name, value in own.items() if name not in of_one_run}
shell = get_ipython()
facts = {f"{type(part).__name__}.{name}": fact for part in [
    shell, *shell.configurables, shell.inspector, shell.events, shell.compile, shell.InteractiveTB, shell.builtin_trap]
    for name, fact in facts_of(part).items()}
facts["profile"] = shell.profile_dir.location
facts["parents"] = [type(part.parent).__name__ for part in shell.configurables]
facts["single"] = [one.__name__ for one in type(shell).__mro__ if getattr(one, "_instance", None) is shell]
facts["main"] = sys.modules["__main__"] is shell.user_module and vars(shell.user_module) is shell.user_ns
facts["environment"] = sorted(name for name in os.environ if not name.startswith("CODEBOX_"))
facts["prompts"] = [sys.ps1, sys.ps2, sys.ps3, builtins.display.__name__, builtins.__IPYTHON__]
json.dump(facts, open("facts.json", "w"), indent=1, sort_keys=True)
from codebox_server.kernels.python import ready_shell
ready_shell._ready is not None and ready_shell._ready.shell is shell
"""


def test_a_shell_that_was_made_before_its_kernel_is_like_one_that_the_kernel_makes(
    ready: Box, context: str, folder: Path
) -> None:
    def facts(box: Box, context: str) -> dict[str, object]:
        written = (box.data / "facts.json").read_text()
        for own, common in ((str(box.folder), "FOLDER"), (context, "KERNEL")):
            written = written.replace(own, common)
        return dict(json.loads(written))

    # The first result makes parts of a shell that has not shown any.
    assert result(ready.run("1 + 1", context=context)) == "2"
    assert result(ready.run(SHELL, context=context)) == "True"
    with start_box(folder, forks=False) as other:
        started = other.context()
        assert result(other.run("1 + 1", context=started)) == "2"
        assert result(other.run(SHELL, context=started)) == "False"
        made, expected = facts(ready, context), facts(other, started)
        names = [name for name in made.keys() | expected if made.get(name) != expected.get(name)]
        assert {name: (made.get(name), expected.get(name)) for name in names} == {}


def test_the_first_cell_of_a_forked_kernel_finds_its_variables_and_adds_to_the_printers(
    ready: Box, context: str
) -> None:
    code = """
import gc
from IPython.lib import pretty
class Own:
    def __init__(self): self.found = any(one is globals() for one in gc.get_referrers(Own))
pretty.for_type(Own, lambda one, printer, cycle: printer.text(f"own {one.found}"))
Own()
"""
    assert result(ready.run(code, context=context)) == "own True"


def test_a_forked_kernel_has_the_settings_of_its_user(ready: Box, context: str) -> None:
    path = "from IPython.paths import locate_profile; locate_profile() + '/ipython_kernel_config.py'"
    settings = Path(result(ready.run(path, context=context)).strip("'"))
    settings.write_text("c.InteractiveShell.ast_node_interactivity = 'all'")
    made = ready.context()
    try:
        assert [event["mime"]["text/plain"] for event in of(ready.run("1\n2", context=made), "result")] == ["1", "2"]
        assert result(ready.run(FORKED, context=made)) == "True"
    finally:
        settings.unlink()
        ready.http.delete(f"/api/kernels/{made}")


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


def test_the_exit_status_of_a_forked_kernel_is_exact(ready: Box, context: str) -> None:
    assert result(ready.run(FORKED, context=context)) == "True"
    killed = ready.run("import os; os.kill(os.getpid(), 9)", context=context)[-1]
    assert killed["cause"]["signal"] == "SIGKILL"
    exited = ready.run("import os; os._exit(3)", context=context)[-1]
    assert exited["cause"]["exitCode"] == 3
    assert result(ready.run(FORKED, context=context)) == "True"


def test_a_forked_kernel_closes_files_and_runs_exit_handlers_at_its_end(ready: Box, context: str) -> None:
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


def test_a_module_in_the_working_folder_shadows_a_preloaded_library(ready: Box) -> None:
    (ready.data / "own").mkdir()
    (ready.data / "own" / "pandas.py").write_text("mine = 1")
    made = ready.http.post("/api/kernels", json={"name": "python", "path": "own"}).json()["id"]
    assert text(ready.run("import pandas; print(pandas.mine)", context=made)) == "1\n"
    ready.http.delete(f"/api/kernels/{made}")


def test_no_kernel_is_forked_while_the_box_has_a_package_that_a_loaded_library_missed(ready: Box, context: str) -> None:
    install = """
import os, site
folder = site.getusersitepackages()
for name in ("numexpr", "numexpr-99.0.dist-info"): os.makedirs(f"{folder}/{name}")
_ = open(f"{folder}/numexpr/__init__.py", "w").write("__version__ = '99.0'")
"""
    remove = 'import shutil\nfor name in ("numexpr", "numexpr-99.0.dist-info"): shutil.rmtree(f"{folder}/{name}")'
    folder = result(ready.run(f"{install}\nfolder", context=context))
    try:
        assert result(ready.run(FORKED, context=context)) == "True"
        assert ready.http.post(f"/codebox/contexts/{context}/restart").status_code == 200
        assert result(ready.run(FORKED, context=context)) == "False"
    finally:
        ready.run(f"folder = {folder}\n{remove}", context=context)


def test_kernels_outlive_the_fork_server_and_it_is_restarted(box: Box) -> None:
    server = box.await_fork_server()
    old = box.context()
    box.run("kept = 5", context=old)
    os.kill(server, signal.SIGKILL)
    assert result(box.run("kept", context=old)) == "5"
    assert result(box.run("1 + 1", context=box.context())) == "2"
    killed = box.run("import os; os.kill(os.getpid(), 9)", context=old)[-1]
    assert killed["cause"]["signal"] == "SIGKILL"
    assert box.await_fork_server() != server
    assert result(box.run(FORKED, context=box.context())) == "True"


def test_a_hanging_fork_server_only_delays_the_next_kernel(box: Box) -> None:
    os.kill(box.await_fork_server(), signal.SIGSTOP)
    assert result(box.run(FORKED, context=box.context())) == "False"


def test_a_forked_kernel_that_starts_too_slowly_is_killed(box: Box) -> None:
    box.await_fork_server()
    slow = box.folder / "run" / "ipython" / "profile_default" / "startup" / "slow.py"
    slow.parent.mkdir(parents=True, exist_ok=True)
    slow.write_text(f"""
import os, time
if {FORKED}:
    open("kernel", "w").write(str(os.getpid()))
    time.sleep(100)
""")
    try:
        assert result(box.run(FORKED, context=box.context())) == "False"
    finally:
        slow.unlink()
    kernel = int((box.data / "kernel").read_text())
    eventually(lambda: not Path(f"/proc/{kernel}").exists())


def test_a_box_with_little_memory_has_no_fork_server(fresh_box: Box) -> None:
    assert fresh_box.http.post("/codebox/warm", json={"languages": ["python"]}).status_code == 204
    assert result(fresh_box.run(FORKED, context=fresh_box.context())) == "False"
    assert fresh_box.fork_server() is None
