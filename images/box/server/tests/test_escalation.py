"""The escalation that ends runs: interrupt, restart of the kernel, and what is reported."""

import time
from typing import Any

import pytest
from box import Box, eventually, of, result, text


def test_timeout_interrupts_and_keeps_the_variables(box: Box) -> None:
    box.run("x = 7")
    done = box.start("while True: pass", timeout_ms=500).wait()[-1]
    assert done["status"] == "timeout"
    assert done["cause"]["code"] == "timeout"
    assert done["cause"]["stage"] == "interrupt"
    assert done["stateLost"] is False
    assert 500 <= done["durationMs"] < 10_000
    assert result(box.run("x")) == "7"


@pytest.mark.parametrize(
    "code",
    [
        "import signal\nsignal.signal(2, signal.SIG_IGN)\nwhile True: pass",
        "import time\nwhile True:\n  try: time.sleep(9)\n  except BaseException: continue",
    ],
)
def test_code_that_ignores_the_interrupt_loses_its_kernel(box: Box, code: str) -> None:
    box.run("x = 7")
    done = box.start(code, timeout_ms=300).wait()[-1]
    assert (done["status"], done["cause"]["stage"], done["stateLost"]) == ("timeout", "restart", True)
    assert done["durationMs"] < 15_000
    assert of(box.run("x"), "error")[0]["name"] == "NameError"


def test_interrupt_ends_a_run_and_keeps_the_variables(box: Box) -> None:
    box.run("x = 8")
    run = box.start("import time\ntime.sleep(100)")
    run.until("started")
    assert run.interrupt().status_code == 202
    done = run.wait()[-1]
    assert (done["status"], done["cause"]["code"], done["stateLost"]) == ("interrupted", "interrupted", False)
    assert result(box.run("x")) == "8"
    assert run.interrupt().status_code == 409


@pytest.mark.parametrize("pause", [0, 0.0005, 0.001, 0.002, 0.003, 0.005, 0.01])
def test_an_interrupt_is_not_lost_at_any_moment(box: Box, pause: float) -> None:
    run = box.start("import time\ntime.sleep(100)")
    eventually(lambda: box.http.get(run.path).status_code != 404)
    time.sleep(pause)
    assert run.interrupt().status_code == 202
    assert run.wait()[-1]["status"] == "interrupted"


def test_a_queued_run_is_interrupted_without_having_run(box: Box) -> None:
    first = box.start("import time\ntime.sleep(3)")
    first.until("started")
    second = box.start("ran = True")
    eventually(lambda: second.get().get("state") == "queued")
    assert second.interrupt().status_code == 202
    events = second.wait()
    assert [event["type"] for event in events] == ["done"]
    assert events[0]["status"] == "interrupted"
    assert first.wait()[-1]["status"] == "ok"
    assert result(box.run("'ran' in globals()")) == "False"


def test_time_in_the_queue_does_not_count_against_the_time_limit(box: Box) -> None:
    first = box.start("import time\ntime.sleep(3)")
    first.until("started")
    done = box.start("1", timeout_ms=2_000).wait()[-1]
    assert done["status"] == "ok"
    assert done["queuedMs"] > 2_000
    first.wait()


def test_a_full_queue_refuses_further_runs(box: Box) -> None:
    first = box.start("import time\ntime.sleep(100)")
    first.until("started")
    waiting = [box.start("1") for _ in range(17)]
    eventually(
        lambda: any(run.error for run in waiting) and sum(run.get().get("state") == "queued" for run in waiting) == 16
    )
    refused = [run for run in waiting if run.error]
    assert [run.error["code"] for run in refused] == ["too_many_requests"]
    assert refused[0].status == 429
    first.interrupt()
    assert all(run.wait()[-1]["status"] == "ok" for run in waiting if run not in refused)


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("import os; os._exit(3)", {"code": "exit", "exitCode": 3}),
        ("import os; os.kill(os.getpid(), 9)", {"code": "signal", "signal": "SIGKILL"}),
        ("import os; os.abort()", {"code": "signal", "signal": "SIGABRT"}),
        ("import ctypes; ctypes.string_at(0)", {"code": "signal", "signal": "SIGSEGV"}),
    ],
)
def test_a_kernel_that_dies_ends_the_run_at_once_with_its_cause(box: Box, code: str, cause: dict[str, Any]) -> None:
    box.run("x = 1")
    events = box.run(f"import time\nprint('before')\ntime.sleep(0.1)\n{code}")
    done = events[-1]
    assert text(events) == "before\n"
    assert (done["status"], done["stateLost"]) == ("killed", True)
    assert cause.items() <= done["cause"].items()
    assert done["durationMs"] < 10_000
    events = box.run("'x' in globals()")
    assert result(events) == "False"
    assert events[-1]["stateLost"] is False


def test_the_context_keeps_its_id_when_its_kernel_dies(box: Box) -> None:
    context = box.context()
    box.run("import os; os._exit(0)", context=context)
    assert box.run("1", context=context)[0]["context"] == context


def test_the_death_of_an_idle_kernel_is_reported_by_the_next_run(box: Box) -> None:
    context = box.context()
    box.run("import os, threading\nthreading.Timer(0.2, os._exit, [1]).start()", context=context)

    def state() -> str:
        items = box.http.get("/codebox/contexts").json()["items"]
        return next(item["state"] for item in items if item["id"] == context)

    eventually(lambda: state() == "dead")
    events = box.run("1+1", context=context)
    assert (result(events), events[-1]["status"], events[-1]["stateLost"]) == ("2", "ok", True)


def test_exit_ends_well_and_reports_the_loss_of_the_variables(box: Box) -> None:
    context = box.context()
    done = box.run("exit()", context=context)[-1]
    assert (done["status"], done["stateLost"]) == ("ok", True)
    assert box.run("1", context=context)[-1]["status"] == "ok"


def test_a_queued_run_gets_the_new_kernel(box: Box) -> None:
    context = box.context()
    first = box.start("import time, os\ntime.sleep(0.5)\nos._exit(1)", context=context)
    first.until("started")
    second = box.start("1+1", context=context)
    assert first.wait()[-1]["status"] == "killed"
    assert result(second.wait()) == "2"


def test_a_stopped_kernel_is_killed_too(box: Box) -> None:
    context = box.context()
    done = box.start("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", timeout_ms=300, context=context).wait()[
        -1
    ]
    assert (done["status"], done["cause"]["stage"], done["stateLost"]) == ("timeout", "restart", True)
    assert box.run("1", context=context)[-1]["status"] == "ok"
