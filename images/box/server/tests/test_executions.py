"""Executions: their events and results, input, and reading events again."""

import json
import threading
import time
import uuid
from typing import Any

import pytest
from box import Box, of, refusal, result, text


def test_a_result_arrives_between_started_and_done(box: Box) -> None:
    events = box.run("1+1")
    assert [event["type"] for event in events] == ["started", "result", "done"]
    assert events[0]["language"] == "python"
    assert events[0]["executionCount"] >= 1
    assert events[1] == {"seq": 2, "type": "result", "mime": {"text/plain": "2"}, "main": True}
    done = events[-1]
    assert done["status"] == "ok"
    assert "cause" not in done
    assert done["stateLost"] is False
    assert done["files"] == {"created": [], "modified": [], "deleted": []}
    assert done["durationMs"] > 0
    assert done["queuedMs"] >= 0


def test_variables_persist_between_executions(box: Box) -> None:
    box.run("kept = 41")
    assert result(box.run("kept + 1")) == "42"


def test_an_error_has_name_value_and_traceback(box: Box) -> None:
    events = box.run("1/0")
    error = of(events, "error")[0]
    assert (error["name"], error["value"]) == ("ZeroDivisionError", "division by zero")
    assert any("ZeroDivisionError" in line for line in error["traceback"])
    assert events[-1]["status"] == "error"
    assert "cause" not in events[-1]


def test_a_keyboard_interrupt_raised_by_the_code_is_an_ordinary_error(box: Box) -> None:
    assert box.run("raise KeyboardInterrupt")[-1]["status"] == "error"


def test_all_outputs_arrive_in_order(box: Box) -> None:
    code = "from IPython.display import display, HTML\nimport sys\nprint('a')\ndisplay(HTML('<b>1</b>'))\nprint('b')\n"
    code += "sys.stderr.write('c')\nprint('d')\n5"
    kinds = [event["type"] for event in box.run(code)]
    assert kinds == ["started", "stdout", "display", "stdout", "stderr", "stdout", "result", "done"]


def test_the_first_print_arrives_while_the_code_runs(box: Box) -> None:
    run = box.start("import time\nprint('now\\n', end='')\ntime.sleep(100)", timeout_ms=100_000)
    run.until("started")
    assert run.until("stdout")["text"] == "now\n"
    assert run.get()["state"] == "running"
    run.interrupt()
    run.wait()


def test_raw_writes_of_the_process_and_its_children_are_complete_and_in_order(box: Box) -> None:
    code = "import os, subprocess\nprint('1')\nos.system('echo 2')\nprint('3')\nos.write(1, b'4\\n')\n"
    code += "subprocess.run(['sh', '-c', 'echo err >&2; head -c 1000000 /dev/zero | tr \"\\\\0\" x'])\nprint('5')"
    for _ in range(3):
        events = box.run(code)
        assert text(events) == "1\n2\n3\n4\n" + "x" * 1_000_000 + "5\n"
        assert text(events, "stderr") == "err\n"


def test_output_of_forked_children_arrives(box: Box) -> None:
    code = "import multiprocessing as m\ndef f(x): print('child', x, flush=True); return x\n"
    code += "with m.get_context('fork').Pool(2) as p: print(sorted(p.map(f, [1, 2])))"
    output = text(box.run(code))
    assert "child 1" in output
    assert "child 2" in output
    assert "[1, 2]" in output


def test_figures_and_tables_are_displayed_without_further_code(box: Box) -> None:
    events = box.run("import matplotlib.pyplot as plt\nplt.plot([1, 2]);")
    assert "image/png" in of(events, "display")[0]["mime"]
    events = box.run("import pandas as pd\npd.DataFrame({'a': [1]})")
    assert "text/html" in of(events, "result")[0]["mime"]


def test_a_table_is_data_unless_it_is_too_large_or_ambiguous(box: Box) -> None:
    def table(columns: str) -> Any:
        events = box.run(f"import pandas as pd\npd.DataFrame({columns})", env={"CODEBOX_TABLES": "1"})
        return of(events, "result")[0]["mime"].get("application/vnd.codebox.table+json")

    assert table("{'a': [1, None], 'b': ['x', 'é']}") == {"a": [1, None], "b": ["x", "é"]}
    assert table("[[1, 2]], columns=['a', 'a']") is None
    assert table("[[1, 2]], columns=[1, '1']") is None
    assert table("{'a': ['x' * 3_000_000], 'b': ['x' * 3_000_000]}") is None
    # Counted before it is encoded: its texts are one object here, and would be 60 MB in JSON.
    assert table("{'a': pd.Series(['x' * 100_000] * 600, dtype=object)}") is None


def test_a_display_can_be_updated_and_cleared(box: Box) -> None:
    code = "from IPython.display import display, clear_output\nh = display('x', display_id='d1')\nh.update('y')\nclear_output()"
    events = box.run(code)
    assert of(events, "display")[0]["displayId"] == "d1"
    assert of(events, "display_update")[0]["mime"]["text/plain"] == "'y'"
    assert of(events, "clear")[0]["wait"] is False


def test_text_that_utf8_cannot_encode_is_replaced(box: Box) -> None:
    assert text(box.run("print('a\\ud800b\\U0001F600')")) == "a\ufffdb\U0001f600\n"


def test_changed_files_are_reported(box: Box) -> None:
    for name in ("old", "gone"):
        box.http.put(f"/codebox/files/{name}", content=b"1")
    code = "import os\nos.makedirs('d/__pycache__')\nopen('d/new','w').write('1')\nopen('d/__pycache__/x','w').write('1')\n"
    code += "open('old','w').write('22')\nos.remove('gone')"
    assert box.run(code)[-1]["files"] == {"created": ["d/new"], "modified": ["old"], "deleted": ["gone"]}


def test_an_incomplete_scan_is_reported_as_such(box: Box) -> None:
    code = "for i in range(10_050): open(f'f{i}', 'w').close()"
    files = box.run(code)[-1]["files"]
    assert files["complete"] is False
    assert files["deleted"] == []


def test_a_run_names_at_most_a_thousand_changed_files(box: Box) -> None:
    box.run("for i in range(900): open(f'a{i}', 'w').close()")
    code = "import os\nfor i in range(900): os.rename(f'a{i}', f'b{i}')"
    files = box.run(code)[-1]["files"]
    assert [len(files[kind]) for kind in ("created", "modified", "deleted")] == [900, 0, 100]
    assert files["complete"] is False


def test_cpu_and_memory_of_a_run_are_measured(box: Box) -> None:
    done = box.run(
        "x = bytearray(200_000_000)\ndel x\nimport time\ne = time.process_time() + 0.3\nwhile time.process_time() < e: pass"
    )[-1]
    assert 250 <= done["cpuMs"] <= 5_000
    assert done["peakMemoryBytes"] > 200_000_000


def test_the_environment_of_a_run_is_undone(box: Box) -> None:
    code = "import os; print(os.environ.get('ONE'), os.environ.get('HOME'))"
    home = str(box.folder / "root" / "home")
    assert text(box.run(code, env={"ONE": "'\n\"", "HOME": "/x"})) == "'\n\" /x\n"
    assert text(box.run(code)) == f"None {home}\n"
    box.run("1/0", env={"ONE": "1"})
    assert text(box.run(code)) == f"None {home}\n"


def test_the_folder_of_a_run_is_undone_also_after_an_error_and_beside_other_runs(box: Box) -> None:
    where = "import os; print(os.getcwd())"
    home = text(box.run(where)).strip()
    box.run("import os; os.makedirs('one/two', exist_ok=True)")
    runs = [box.start(where, cwd="one") if number % 2 else box.start(where) for number in range(6)]
    assert [text(run.wait()) for run in runs] == [f"{home}\n", f"{home}/one\n"] * 3
    box.run("1/0", cwd="one/two")
    assert text(box.run(where)) == f"{home}\n"
    for cwd, language in (("none", "python"), ("one", "bash")):
        refused = box.start("1", language, cwd=cwd)
        refused.join()
        assert (refused.status, refused.error["pointer"]) == (400, "/cwd")


def test_input_requests_and_receives_text(box: Box) -> None:
    run = box.start("name = input('who? ')\nprint('hi', name)")
    request = run.until("input_request")
    assert (request["prompt"], request["password"]) == ("who? ", False)
    assert run.get()["waitingForInput"] is True
    assert run.post("input", text="Ann").status_code == 204
    assert text(run.wait()) == "hi Ann\n"
    late = run.post("input", text="x")
    assert (late.status_code, late.json()["reason"]) == (409, "not_waiting")
    run = box.start("import getpass; getpass.getpass()")
    assert run.until("input_request")["password"] is True
    run.post("input", text="secret")
    assert result(run.wait()) == "'secret'"


def test_started_precedes_an_input_request_that_overtook_it(box: Box) -> None:
    late = """import time
kernel = get_ipython().kernel
publish = kernel._publish_execute_input
def late(*args):
    kernel.iopub_thread.schedule(lambda: time.sleep(0.5))
    publish(*args)
kernel._publish_execute_input = late"""
    context = box.context()
    box.run(late, context=context)
    run = box.start("input('who? ')", context=context)
    assert run.until("input_request")["prompt"] == "who? "
    assert [event["type"] for event in run.events] == ["started", "input_request"]
    assert run.get()["waitingForInput"] is True
    run.post("input", text="Ann")
    assert result(run.wait()) == "'Ann'"
    box.http.delete(f"/api/kernels/{context}")


def test_output_precedes_an_input_request_that_overtook_it(box: Box) -> None:
    for _ in range(10):
        run = box.start("print('x' * 1_500_000)\nprint('last')\ninput('who? ')")
        run.until("input_request")
        assert text(run.events).endswith("last\n")
        run.post("input", text="Ann")
        run.wait()


def test_unrequested_input_is_refused(box: Box) -> None:
    run = box.start("import time; time.sleep(1)")
    run.until("started")
    assert run.post("input", text="x").status_code == 409
    run.wait()


def test_the_wait_for_input_counts_against_the_time_limit(box: Box) -> None:
    done = box.start("input()", timeout_ms=600).wait()[-1]
    assert (done["status"], done["cause"]["code"], done["stateLost"]) == ("timeout", "timeout", False)
    assert done["cause"]["detail"] == "the time limit has passed while the code was waiting for input"
    answered = box.start("input()\nimport time; time.sleep(60)", timeout_ms=1500)
    answered.until("input_request")
    answered.post("input", text="x")
    assert answered.wait()[-1]["cause"]["detail"] == "the time limit has passed"


def test_input_of_a_run_without_anyone_to_answer_fails_at_once(box: Box) -> None:
    for code in ("input('who? ')", "import getpass; getpass.getpass()"):
        events = box.run(code, unattended=True)
        assert of(events, "input_request") == []
        assert (events[-1]["status"], events[-1].get("cause")) == ("error", None)
        assert of(events, "error")[0]["value"].endswith("() has no one to answer it here: send `stdin`, or use a box")
    assert text(box.run("read name || echo none", "bash", unattended=True)) == "none\n"


def test_a_kernel_that_asks_although_nobody_answers_is_interrupted(box: Box) -> None:
    events = box.run("kept = 41\nget_ipython().kernel._allow_stdin = True\ninput()", unattended=True)
    assert of(events, "input_request") == []
    done = events[-1]
    assert (done["status"], done["cause"]["code"], done["stateLost"]) == ("interrupted", "interrupted", False)
    assert "input, which has no one to answer it here" in done["cause"]["detail"]
    assert result(box.run("kept + 1")) == "42"


def test_a_disconnect_does_not_end_the_execution(box: Box) -> None:
    run_id = uuid.uuid4().hex
    body = {"code": "import time\nprint('a')\ntime.sleep(0.5)\nprint('b')", "timeoutMs": 20_000}
    with box.client() as client, client.stream("PUT", f"/codebox/executions/{run_id}", json=body) as response:
        assert next(response.iter_lines())
    lines = box.http.get(f"/codebox/executions/{run_id}/events").text.splitlines()
    events = [json.loads(line) for line in lines if line]
    assert text(events) == "a\nb\n"
    assert events[-1]["status"] == "ok"


def test_events_can_be_read_again_from_any_point(box: Box) -> None:
    run = box.start("for i in range(5): print(i); import time; time.sleep(0.05)")
    events = run.wait()
    for after in (0, 3, len(events), len(events) + 10):
        lines = box.http.get(f"{run.path}/events", params={"after": after}).text.splitlines()
        assert [json.loads(line) for line in lines] == events[after:]
    response = run.get()
    assert response["state"] == "done"
    assert response["lastSeq"] == len(events)
    assert response["done"] == events[-1]
    assert box.http.get(f"{run.path}/events", params={"after": "x"}).status_code == 400


def test_an_idle_stream_gets_a_blank_line_within_ten_seconds(box: Box) -> None:
    run_id = uuid.uuid4().hex
    body = {"code": "import time; time.sleep(11)", "timeoutMs": 20_000}
    with box.client() as client, client.stream("PUT", f"/codebox/executions/{run_id}", json=body) as response:
        lines = list(response.iter_lines())
    assert lines[1] == ""
    assert json.loads(lines[-1])["status"] == "ok"


def test_a_queued_run_is_accepted_before_its_first_event(box: Box) -> None:
    busy = box.start("import time; time.sleep(30)")
    busy.until("started")
    body = {"code": "1", "timeoutMs": 20_000}
    path = f"/codebox/executions/{uuid.uuid4().hex}"
    # Otherwise the head would come with the heartbeat after 10 s, or with the end of the busy run after 30 s.
    with box.client() as client, client.stream("PUT", path, json=body, timeout=9) as response:
        assert response.status_code == 200
        busy.interrupt()
        assert json.loads(list(response.iter_lines())[-1])["status"] == "ok"


def test_an_id_is_used_once(box: Box) -> None:
    run = box.start("1")
    run.wait()
    response = box.http.put(run.path, json={"code": "1", "timeoutMs": 1000})
    assert (response.status_code, response.json()["code"]) == (409, "conflict")
    responses: list[int] = []
    path = f"/codebox/executions/{uuid.uuid4().hex}"

    def put() -> None:
        with box.client() as client:
            responses.append(client.put(path, json={"code": "print('once')", "timeoutMs": 5000}).status_code)

    threads = [threading.Thread(target=put) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(responses) == [200] + [409] * 7


def test_only_an_execution_that_was_never_received_can_be_refused(box: Box) -> None:
    run = box.start("1")
    run.until("started")
    assert box.http.delete(run.path).status_code == 409
    assert run.wait()[-1]["status"] == "ok"
    path = f"/codebox/executions/{uuid.uuid4().hex}"
    assert [box.http.delete(path).status_code for _ in range(2)] == [204, 204]
    late = box.http.put(path, json={"code": "open('late', 'w')", "timeoutMs": 1000})
    assert (late.status_code, late.json()["code"]) == (409, "conflict")
    assert result(box.run("import os; os.path.exists('late')")) == "False"
    refused = f"/codebox/executions/{uuid.uuid4().hex}"
    body = {"code": "1", "timeoutMs": 1000, "context": uuid.uuid4().hex}
    assert box.http.put(refused, json=body).status_code == 404
    assert box.http.delete(refused).status_code == 204


def test_late_output_of_a_thread_is_dropped_and_does_not_end_a_later_run(box: Box) -> None:
    code = (
        "import threading, time\ndef late():\n  time.sleep(0.2)\n  print('late')\nthreading.Thread(target=late).start()"
    )
    run = box.start(code)
    events = run.wait()
    time.sleep(0.5)
    assert run.get()["lastSeq"] == len(events)
    events = box.run("import time; time.sleep(0.2); print('mine')")
    assert text(events) == "mine\n"
    assert events[-1]["status"] == "ok"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"timeoutMs": 1000}, "/code"),
        ({"code": 1, "timeoutMs": 1000}, "/code"),
        ({"code": "1"}, "/timeoutMs"),
        ({"code": "1", "timeoutMs": 0}, "/timeoutMs"),
        ({"code": "1", "timeoutMs": True}, "/timeoutMs"),
        ({"code": "1", "timeoutMs": 1e308}, "/timeoutMs"),
        ({"code": "1", "timeoutMs": 2**60}, "/timeoutMs"),
        ({"code": "1", "timeoutMs": 1000, "language": "cobol"}, "/language"),
        ({"code": "1", "timeoutMs": 1000, "env": {"A": None}}, "/env/A"),
        ({"code": "1", "timeoutMs": 1000, "extra": 1}, "/extra"),
    ],
)
def test_a_bad_request_is_refused_with_its_pointer(box: Box, body: dict[str, Any], pointer: str) -> None:
    response = box.http.put(f"/codebox/executions/{uuid.uuid4().hex}", json=body)
    assert refusal(response) == (400, "invalid_request", pointer)


def test_unknown_executions_contexts_and_paths_are_404(box: Box) -> None:
    assert box.http.get("/codebox/executions/none").json()["code"] == "not_found"
    assert box.http.get("/codebox/executions/none/events").status_code == 404
    assert box.http.post("/codebox/executions/none/interrupt").status_code == 404
    response = box.http.put("/codebox/executions/new", json={"code": "1", "timeoutMs": 1000, "context": "none"})
    assert (response.status_code, response.json()["pointer"]) == (404, "/context")
    assert box.http.get("/codebox/nothing").status_code == 404


def test_an_error_that_a_kernel_sends_in_its_reply_alone_is_reported(box: Box) -> None:
    context = box.context()
    replying = """kernel = get_ipython().kernel
async def reply(code, *args, **more):
    if code == "late":
        kernel.send_response(kernel.iopub_socket, "error", {"ename": "E", "evalue": "sent", "traceback": []})
    fields = {} if code == "nothing" else {"ename": "E", "evalue": code, "traceback": ["line " + code, 2]}
    return {"status": "ok" if code == "ok" else "error", "execution_count": 1, "payload": [], **fields}
kernel.do_execute = reply"""
    box.run(replying, context=context)
    events = box.run("x = ;", context=context)
    assert events[-1]["status"] == "error"
    assert [(e["name"], e["value"], e["traceback"]) for e in of(events, "error")] == [
        ("E", "x = ;", ["line x = ;", "2"])
    ]
    # Once only, for code that failed, and if the reply has one at all.
    assert [error["value"] for error in of(box.run("late", context=context), "error")] == ["sent"]
    assert of(box.run("ok", context=context), "error") == []
    assert of(box.run("nothing", context=context), "error") == []
