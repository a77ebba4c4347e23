"""What is told of the trouble that a run met with, and of the processes that it leaves."""

import os
import signal
import time
from pathlib import Path

import pytest
from box import Box, eventually, of, result, start_box


def _cgroup(folder: Path) -> Path:
    """A control group whose counters code of the box can raise."""
    group = folder / "cgroup"
    group.mkdir()
    for name, text in {
        "memory.events": "oom_kill 3\n",
        "memory.peak": "5000000\n",
        "memory.max": "6000000000\n",
        "pids.events": "max 2\n",
        "pids.current": "5\n",
        "pids.max": "100\n",
    }.items():
        (group / name).write_text(text)
        (group / name).chmod(0o666)
    return group


def test_a_child_ended_for_want_of_memory_is_told_of_a_run_that_ended_well(folder: Path) -> None:
    group = _cgroup(folder)
    with start_box(folder, CODEBOX_CGROUP=str(group)) as box:
        done = box.run(f"open('{group}/memory.events', 'w').write('oom_kill 4\\n')")[-1]
        assert (done["status"], done["stateLost"]) == ("ok", False)
        assert done["cause"]["code"] == "oom"
        told = {"process": "child", "peakMemoryBytes": 5_000_000, "limitBytes": 6_000_000_000}
        assert told.items() <= done["cause"].items()
        assert "cause" not in box.run("1")[-1]


def test_refused_processes_are_told_of_a_run_that_failed_and_end_what_it_left(folder: Path) -> None:
    group = _cgroup(folder)
    with start_box(folder, CODEBOX_CGROUP=str(group)) as box:
        raised = f"open('{group}/pids.events', 'w').write('max %d\\n')\n"
        assert "cause" not in box.run(raised % 3)[-1]
        start = "import subprocess\nchild = subprocess.Popen(['sleep', '100'])\n"
        done = box.run(start + raised % 4 + "1/0")[-1]
        assert (done["status"], done["cause"]["code"], done["processes"]) == ("error", "pids_limit", [])
        assert result(box.run("child.wait()")) == "-9"
        # What cannot be collected keeps the box full: then the kernel goes too.
        full = f"open('{group}/pids.current', 'w').write('99\\n')\n"
        done = box.run(full + raised % 5 + "1/0")[-1]
        assert (done["status"], done["cause"]["code"], done["stateLost"]) == ("error", "pids_limit", True)
        (group / "pids.current").write_text("5\n")
        assert of(box.run("child"), "error")[0]["name"] == "NameError"


@pytest.mark.parametrize("language", ["python", "bash"])
def test_cpu_time_is_limited_apart_from_time_on_the_clock(box: Box, language: str) -> None:
    busy = {"python": "while True: pass", "bash": "while :; do :; done"}[language]
    done = box.start(busy, language, cpuLimitMs=300).wait()[-1]
    assert (done["status"], done["cause"]["code"]) == ("timeout", "cpu_limit")
    assert done["cpuMs"] >= 300
    idle = {"python": "import time; time.sleep(1)", "bash": "sleep 1"}[language]
    assert box.start(idle, language, cpuLimitMs=900).wait()[-1]["status"] == "ok"


def test_a_bad_limit_on_cpu_time_is_refused(box: Box) -> None:
    for limit in (0, "1", True):
        run = box.start("1", cpuLimitMs=limit)
        eventually(lambda run=run: run.error)
        assert (run.status, run.error["pointer"]) == (400, "/cpuLimitMs")


def test_a_process_of_another_context_is_not_told(box: Box) -> None:
    one, other = box.context(), box.context()
    slow = box.start("import time; time.sleep(1)", context=one)
    slow.until("started")
    left = box.run("import subprocess\nchild = subprocess.Popen(['sleep', '100'])", context=other)[-1]["processes"]
    assert [process["command"] for process in left] == ["sleep 100"]
    assert slow.wait()[-1]["processes"] == []
    box.run("child.kill()", context=other)


def test_the_volume_is_told_with_what_is_used_of_it(box: Box) -> None:
    disk = box.http.get("/codebox/stats").json()["disk"]
    assert 0 < disk["usedBytes"] < disk["limitBytes"]


def test_a_run_that_ends_before_its_code_does_not_hide_what_later_ones_leave(fresh_box: Box) -> None:
    box = fresh_box
    # With so many files the reading before a run takes long enough to be interrupted in it.
    for number in range(9_000):
        (box.data / str(number)).touch()
    box.run("1")
    for step in range(12):
        begun = box.start("1")
        time.sleep(step * 0.01)
        begun.interrupt()
        begun.wait()
    daemon = "import subprocess\nsubprocess.run('setsid -f sleep 100', shell=True, check=True)"
    left = box.run(daemon)[-1]["processes"]
    for one in left:
        os.kill(one["pid"], signal.SIGKILL)
    assert len(left) == 1


@pytest.mark.parametrize(
    ("breaks", "mends", "detail"),
    [
        (
            "kernel.finish_metadata = lambda *_: 1 / 0",
            "del kernel.finish_metadata",
            "ZeroDivisionError: division by zero",
        ),
        ("import sys\ndel sys.stdout", "print('back')", "has no attribute 'stdout'"),
        ("kernel.shell_handlers['execute_request'] = None", None, "the kernel did not respond"),
    ],
)
def test_a_kernel_that_fails_is_told_at_once_and_as_no_time_limit(
    box: Box, breaks: str, mends: str | None, detail: str
) -> None:
    context = box.context()
    box.run("kernel = get_ipython().kernel", context=context)
    done = box.run(breaks, context=context)[-1]
    if mends is None:
        done = box.run("1", context=context)[-1]
    assert (done["status"], done["cause"]["code"], done["stateLost"]) == ("killed", "internal", False)
    assert detail in done["cause"]["detail"]
    assert done["durationMs"] < 20_000
    if mends is not None:
        assert box.run(mends, context=context)[-1]["status"] == "ok"
    box.http.delete(f"/api/kernels/{context}")
