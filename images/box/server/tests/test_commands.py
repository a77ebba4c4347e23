"""Commands: their streams, input, limits and ends."""

import base64
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from box import Box, eventually, of, text


def has_ended(pid: int) -> bool:
    try:
        return " Z " in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_command_streams_its_output_and_reports_its_exit(box: Box) -> None:
    run = box.command("echo out; echo err >&2; exit 3")
    events = run.wait()
    assert events[0]["type"] == "started"
    assert events[0]["pid"] > 1
    assert (text(events), text(events, "stderr")) == ("out\n", "err\n")
    done = events[-1]
    assert (done["status"], done["exitCode"], done["signal"]) == ("error", 3, None)
    assert box.command("true").wait()[-1]["status"] == "ok"
    response = run.get()
    assert (response["command"], response["state"], response["lastSeq"]) == (
        "echo out; echo err >&2; exit 3",
        "done",
        len(events),
    )
    assert response["cwd"] == str(box.data)
    assert response["done"] == done
    assert run.id in [item["id"] for item in box.http.get("/codebox/commands").json()["items"]]


def test_argv_is_not_interpreted_by_a_shell(box: Box) -> None:
    assert text(box.command(argv=["printf", "%s|", "$HOME", "a b"]).wait()) == "$HOME|a b|"


def test_a_command_runs_in_the_requested_folder_and_environment(box: Box) -> None:
    box.http.post("/codebox/files", json={"op": "mkdir", "path": "sub/dir"})
    assert text(box.command("pwd; echo $X", cwd="sub/dir", env={"X": "y"}).wait()) == f"{box.data}/sub/dir\ny\n"
    assert text(box.command("pwd", cwd="/tmp").wait()) == "/tmp\n"
    run = box.command("pwd", cwd="none")
    run.join()
    assert (run.status, run.error["pointer"]) == (400, "/cwd")


def test_stdin_can_be_written_and_closed(box: Box) -> None:
    run = box.command("cat; echo end", openStdin=True)
    run.until("started")
    assert run.post("input", text="é\n").status_code == 204
    assert run.until("stdout")["text"] == "é\n"
    assert run.post("input", base64=base64.b64encode(b"x\n").decode(), eof=True).status_code == 204
    assert text(run.wait()) == "é\nx\nend\n"
    late = run.post("input", text="late")
    assert (late.status_code, late.json()["reason"]) == (409, "not_waiting")


def test_writing_to_closed_stdin_is_a_conflict(box: Box) -> None:
    run = box.command("sleep 1", openStdin=True)
    run.until("started")
    assert run.post("input", eof=True).status_code == 204
    assert run.post("input", text="x").status_code == 409
    run.wait()


def test_a_command_reads_the_given_stdin_and_then_end_of_file(box: Box) -> None:
    events = box.command(argv=["python3", "-c", "input()"]).wait()
    assert (events[-1]["status"], events[-1]["exitCode"]) == ("error", 1)
    assert "EOFError" in text(events, "stderr")
    assert text(box.command("cat; echo end", stdin="é\n").wait()) == "é\nend\n"
    large = "x" * 3_000_000
    assert text(box.command("wc -c", stdin=large).wait()).strip() == "3000000"
    assert box.command("exit 0", stdin=large).wait()[-1]["status"] == "ok"
    run = box.command("cat", stdin="first ", openStdin=True)
    run.until("stdout")
    assert run.post("input", text="second", eof=True).status_code == 204
    assert text(run.wait()) == "first second"


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [({"stdin": 1}, "/stdin"), ({"openStdin": "yes"}, "/openStdin"), ({"stdin": "x" * 5_000_000}, "/stdin")],
)
def test_a_bad_stdin_is_refused(box: Box, fields: dict[str, Any], pointer: str) -> None:
    run = box.command("cat", **fields)
    run.join()
    assert run.status in (400, 413)
    assert run.error["pointer"] == pointer


def test_unread_stdin_is_bounded(box: Box) -> None:
    run = box.command("sleep 30", openStdin=True)
    run.until("started")
    codes = [run.post("input", text="x" * 1_000_000).status_code for _ in range(8)]
    assert 429 in codes
    assert box.http.delete(run.path).status_code == 202
    run.wait()


def test_delete_ends_the_whole_group(box: Box) -> None:
    run = box.command("sleep 300 & echo $!; wait")
    child = int(run.until("stdout")["text"])
    assert box.http.delete(run.path).status_code == 202
    done = run.wait()[-1]
    assert (done["status"], done["signal"], done["exitCode"]) == ("killed", "SIGTERM", None)
    # The end of the shell is reported as soon as it has ended, and the same signal may reach its child a moment later.
    eventually(lambda: has_ended(child))
    assert box.http.delete(run.path).status_code == 204


def test_a_command_that_ignores_sigterm_is_killed(box: Box) -> None:
    run = box.command("trap '' TERM; echo ready; while :; do sleep 0.1; done")
    run.until("stdout")
    box.http.delete(run.path)
    done = run.wait()[-1]
    assert (done["status"], done["signal"]) == ("killed", "SIGKILL")
    assert 1_900 < done["durationMs"] < 10_000


def test_a_command_has_a_time_limit_on_request(box: Box) -> None:
    done = box.command("sleep 30", timeoutMs=300).wait()[-1]
    assert (done["status"], done["cause"]["code"], done["signal"]) == ("timeout", "timeout", "SIGTERM")


def test_a_command_that_signals_itself_is_reported_as_killed(box: Box) -> None:
    done = box.command("kill -SEGV $$").wait()[-1]
    assert (done["status"], done["signal"], done["cause"]["signal"]) == ("killed", "SIGSEGV", "SIGSEGV")


def test_a_child_that_holds_the_pipes_does_not_delay_the_end(box: Box) -> None:
    began = time.monotonic()
    run = box.command("(sleep 60; echo late) & echo now")
    events = run.wait()
    assert text(events) == "now\n"
    assert time.monotonic() - began < 20


def test_a_command_that_writes_without_end_is_ended(box: Box) -> None:
    events = box.command("yes").wait()
    assert events[-1]["status"] == "output_limit"
    truncated = of(events, "truncated")[0]
    assert truncated["droppedBytes"] > 60 * 1024 * 1024
    assert len(text(events)) <= 8 * 1024 * 1024


def test_a_character_split_between_writes_stays_whole(box: Box) -> None:
    code = "printf '\\xc3'; sleep 0.1; printf '\\xa9'; printf '\\xff'"
    assert text(box.command(code).wait()) == "é\ufffd"


def test_a_command_reports_changed_files_and_cpu_time(box: Box) -> None:
    done = box.command("echo 1 > made; i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done").wait()[-1]
    assert done["files"]["created"] == ["made"]
    assert done["cpuMs"] > 10


def test_a_disconnect_does_not_end_the_command(box: Box) -> None:
    path = f"/codebox/commands/{uuid.uuid4().hex}"
    with box.client() as client, client.stream("PUT", path, json={"command": "sleep 0.5; echo done"}) as response:
        assert next(response.iter_lines())
    assert '"text":"done\\n"' in box.http.get(f"{path}/events").text
    assert '"seq":1,' not in box.http.get(f"{path}/events", params={"after": 1}).text
    assert box.http.put(path, json={"command": "true"}).status_code == 409


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"command": "true", "argv": ["true"]},
        {"argv": []},
        {"argv": ["a\0b"]},
        {"argv": "ls"},
        {"command": 1},
        {"argv": ["/nonexistent/program"]},
        {"command": "true", "timeoutMs": -1},
        {"command": "true", "cwd": "a\0b"},
        {"command": "true", "shell": True},
    ],
)
def test_a_bad_command_is_refused(box: Box, body: dict[str, Any]) -> None:
    response = box.http.put(f"/codebox/commands/{uuid.uuid4().hex}", json=body)
    assert (response.status_code, response.json()["code"]) == (400, "invalid_request")


def test_an_unknown_command_is_404(box: Box) -> None:
    assert box.http.get("/codebox/commands/none").status_code == 404
    assert box.http.delete("/codebox/commands/none").status_code == 404
    assert box.http.post("/codebox/commands/none/input", json={"text": ""}).status_code == 404
