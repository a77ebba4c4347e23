"""The causes that runs report besides their status, and the processes that they leave behind."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from box import Box, control_group, of, result, start_box


@pytest.fixture(scope="module")
def group(module_folder: Path) -> Path:
    """A fake control group whose counters code of the box can raise."""
    counters = {"memory.peak": "5000000", "memory.max": "60000000", "pids.events": "max 2", "pids.max": "100"}
    return control_group(module_folder, {"memory.events": "oom_kill 3", **counters})


@pytest.fixture(scope="module")
def counted_box(module_folder: Path, group: Path) -> Iterator[Box]:
    """A server in that control group."""
    with start_box(module_folder, CODEBOX_CGROUP=str(group)) as running:
        yield running


def test_an_oom_kill_of_a_child_is_the_cause_of_a_run_that_ended_well(counted_box: Box, group: Path) -> None:
    done = counted_box.run(f"open('{group}/memory.events', 'w').write('oom_kill 4\\n')")[-1]
    assert (done["status"], done["stateLost"]) == ("ok", False)
    assert done["cause"]["code"] == "oom"
    fields = {"process": "child", "peakMemoryBytes": 5_000_000, "limitBytes": 60_000_000}
    assert fields.items() <= done["cause"].items()
    assert "cause" not in counted_box.run("1")[-1]


def test_an_oom_kill_of_the_kernel_is_reported(counted_box: Box, group: Path) -> None:
    kill = "import os\nos.kill(os.getpid(), 9)"
    done = counted_box.run(f"open('{group}/memory.events', 'w').write('oom_kill 5\\n')\n{kill}")[-1]
    assert (done["status"], done["cause"]["code"], done["stateLost"]) == ("oom", "oom", True)
    assert done["peakMemoryBytes"] > 1_000_000
    assert counted_box.run(kill)[-1]["status"] == "killed"
    assert counted_box.run("1")[-1]["status"] == "ok"


def test_refused_processes_are_the_cause_of_a_failed_run_and_end_its_leftovers(counted_box: Box, group: Path) -> None:
    raised = f"open('{group}/pids.events', 'w').write('max %d\\n')\n"
    assert "cause" not in counted_box.run(raised % 3)[-1]
    start = "import subprocess\nchild = subprocess.Popen(['sleep', '100'])\n"
    done = counted_box.run(start + raised % 4 + "1/0")[-1]
    assert (done["status"], done["cause"]["code"], done["processes"]) == ("error", "pids_limit", [])
    assert result(counted_box.run("child.wait()")) == "-9"
    # The box stays full, as if the kernel had not reaped its children: the kernel is killed too.
    full = f"open('{group}/pids.current', 'w').write('99\\n')\n"
    done = counted_box.run(full + raised % 5 + "1/0")[-1]
    assert (done["status"], done["cause"]["code"], done["stateLost"]) == ("error", "pids_limit", True)
    (group / "pids.current").write_text("5\n")
    assert of(counted_box.run("child"), "error")[0]["name"] == "NameError"


def test_an_interrupt_after_the_end_of_the_code_affects_no_later_run(counted_box: Box, group: Path) -> None:
    # A box that stays full delays the end of the run by half a second.
    counters = f"open('{group}/pids.current', 'w').write('99')\nopen('{group}/pids.events', 'w').write('max 6')\n"
    run = counted_box.start(counters + "1/0")
    run.until("error")
    time.sleep(0.1)
    run.interrupt()
    assert run.wait()[-1]["status"] == "error"
    (group / "pids.current").write_text("5\n")
    assert counted_box.run("import time; time.sleep(3)")[-1]["status"] == "ok"


@pytest.mark.parametrize("language", ["python", "bash"])
def test_cpu_time_is_limited_independently_of_wall_time(box: Box, language: str) -> None:
    busy = {"python": "while True: pass", "bash": "while :; do :; done"}[language]
    done = box.start(busy, language, cpuLimitMs=300).wait()[-1]
    assert (done["status"], done["cause"]["code"]) == ("timeout", "cpu_limit")
    assert done["cpuMs"] >= 300
    idle = {"python": "import time; time.sleep(1)", "bash": "sleep 1"}[language]
    assert box.start(idle, language, cpuLimitMs=900).wait()[-1]["status"] == "ok"


def test_a_bad_limit_on_cpu_time_is_refused(box: Box) -> None:
    for limit in (0, "1", True):
        run = box.start("1", cpuLimitMs=limit)
        run.join()
        assert (run.status, run.error["pointer"]) == (400, "/cpuLimitMs")


def test_processes_of_another_context_are_not_reported(box: Box) -> None:
    one, other = box.context(), box.context()
    slow = box.start("import time; time.sleep(1)", context=one)
    slow.until("started")
    left = box.run("import subprocess\nchild = subprocess.Popen(['sleep', '100'])", context=other)[-1]["processes"]
    assert [process["command"] for process in left] == ["sleep 100"]
    assert slow.wait()[-1]["processes"] == []
    box.run("child.kill()", context=other)


def test_stats_report_the_size_and_usage_of_the_volume(box: Box) -> None:
    disk = box.http.get("/codebox/stats").json()["disk"]
    assert 0 < disk["usedBytes"] < disk["limitBytes"]


def test_an_interrupt_before_the_code_starts_does_not_hide_leftovers_of_later_runs(box: Box) -> None:
    # The scan of so many files before a run takes long enough to be interrupted.
    for number in range(9_000):
        (box.data / str(number)).touch()
    box.run("1")
    for step in range(6):
        begun = box.start("1")
        time.sleep(step * 0.02)
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
def test_a_failure_of_the_kernel_itself_ends_the_run_at_once_as_internal(
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
