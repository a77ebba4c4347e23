"""Limits on the output of a run, and what is reported beyond them."""

import time
from pathlib import Path

from box import Box, of, result, text

MIB = 1024 * 1024


def _resident(box: Box) -> int:
    for line in Path(f"/proc/{box.process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def test_long_output_keeps_head_and_tail_and_counts_the_rest_exactly(box: Box) -> None:
    code = "for i in range(120_000): print('%099d' % i)"
    events = box.run(code)
    truncated = of(events, "truncated")
    assert len(truncated) == 1
    at = events.index(truncated[0])
    head, tail = text(events[:at]), text(events[at:])
    assert len(head) + len(tail) + truncated[0]["droppedBytes"] == 12_000_000
    assert truncated[0]["droppedEvents"] > 0
    assert 3 * MIB < len(head) <= 4 * MIB
    assert 3 * MIB < len(tail) <= 4 * MIB
    assert head.startswith(f"{0:099d}\n")
    assert tail.endswith(f"{119_999:099d}\n")
    assert events[-1]["status"] == "ok"


def test_output_within_the_limit_is_complete(box: Box) -> None:
    events = box.run("print('x' * (7 << 20))")
    assert not of(events, "truncated")
    assert len(text(events)) == (7 << 20) + 1
    assert max(len(event["text"]) for event in of(events, "stdout")) <= 16 * 1024


def test_a_run_can_ask_for_more_output(box: Box) -> None:
    events = box.run("print('line\\n' * 2_000_000)", outputBytes=20_000_000)
    assert len(text(events)) == 10_000_001
    assert not of(events, "truncated")


def test_frequent_small_prints_become_few_events(box: Box) -> None:
    code = "import time\nfor i in range(10_000):\n  print(i)\n  if i % 10 == 0: time.sleep(0.001)"
    events = box.run(code)
    assert text(events) == "".join(f"{i}\n" for i in range(10_000))
    # One event per 20 ms, on a machine of any speed, and a few more for both ends and for every 16 KiB.
    assert len(of(events, "stdout")) <= events[-1]["durationMs"] / 20 + 10


def test_endless_output_is_interrupted_and_keeps_the_variables(box: Box) -> None:
    box.run("x = 3")
    before = _resident(box)
    events = box.run("while True: print('y' * 1000)")
    done = events[-1]
    assert (done["status"], done["cause"]["code"], done["stateLost"]) == ("output_limit", "output_limit", False)
    assert done["cause"]["stage"] == "interrupt"
    assert of(events, "truncated")[0]["droppedBytes"] > 60 * MIB
    assert len(text(events)) <= 8 * MIB
    assert _resident(box) - before < 100 * MIB
    assert result(box.run("x")) == "3"


def test_endless_raw_writes_of_a_child_are_interrupted(box: Box) -> None:
    events = box.run("import os; os.system('yes')")
    assert events[-1]["status"] == "output_limit"
    assert len(text(events)) <= 8 * MIB


def test_one_huge_print_does_not_fill_the_memory_of_the_server(box: Box) -> None:
    before = _resident(box)
    events = box.run("print('a' * (1 << 28))")
    assert events[-1]["status"] in ("ok", "output_limit")
    # The run may be interrupted in the middle of the print.
    assert 80 * MIB < of(events, "truncated")[0]["droppedBytes"] + len(text(events)) <= (1 << 28) + 1
    assert _resident(box) - before < 100 * MIB


def test_other_requests_are_served_during_endless_output(box: Box) -> None:
    other = box.context()
    run = box.start("while True: print('y' * 1000)")
    run.until("stdout")
    worst = 0.0
    while run.get()["state"] == "running":
        began = time.monotonic()
        assert result(box.run("1+1", context=other)) == "2"
        worst = max(worst, time.monotonic() - began)
    run.wait()
    assert 0 < worst < 5


def test_a_display_beyond_the_limit_becomes_a_placeholder_and_is_counted(box: Box) -> None:
    code = "from IPython.display import display\nfor n in (1, 20, 2): display({'image/png': 'A' * (n << 20)}, raw=True)"
    events = box.run(code)
    shown = of(events, "display")
    assert len(shown[0]["mime"]["image/png"]) == MIB
    assert shown[1]["mime"] == {"text/plain": "[image/png, 20971520 bytes, dropped]"}
    assert len(shown[2]["mime"]["image/png"]) == 2 * MIB
    truncated = of(events, "truncated")[0]
    assert truncated["droppedEvents"] == 1
    assert truncated["droppedBytes"] >= 20 * MIB


def test_a_display_with_too_much_json_keeps_its_texts(box: Box) -> None:
    code = "from IPython.display import display\ndeep = []\nfor _ in range(100): deep = [deep]\n"
    code += "for value in (deep, [1] * 600_000, {str(n): n for n in range(400_000)}, [1] * 100_000):\n"
    code += "    display({'application/json': value, 'text/plain': 'x'}, raw=True)\n"
    code += "display({'application/json': deep}, raw=True)"
    events = box.run(code)
    *without, whole, alone = [event["mime"] for event in of(events, "display")]
    assert without == [{"text/plain": "x"}] * 3
    assert len(whole["application/json"]) == 100_000
    assert alone["text/plain"].startswith("[application/json, ")
    assert of(events, "truncated")[0]["droppedEvents"] == 4
    assert events[-1]["status"] == "ok"


def test_a_display_larger_than_a_message_becomes_a_placeholder(box: Box) -> None:
    before = _resident(box)
    events = box.run("from IPython.display import HTML, display\ndisplay(HTML('a' * (200 << 20)))\nprint('on')")
    assert of(events, "display")[0]["mime"] == {"text/plain": f"[text/html, {200 << 20} bytes, dropped]"}
    assert text(events) == "on\n"
    truncated = of(events, "truncated")[0]
    assert truncated["droppedEvents"] == 1
    assert 200 << 20 <= truncated["droppedBytes"] < (200 << 20) + 1000
    assert events[-1]["status"] == "ok"
    assert _resident(box) - before < 100 * MIB


def test_a_message_beyond_the_socket_limit_does_not_stop_later_messages(box: Box) -> None:
    code = "s = get_ipython().kernel.session\ns.pack = lambda m: __import__('json').dumps(m, default=str).encode()\n"
    code += "from IPython.display import display\ndisplay({'text/plain': 'a' * (70 << 20)}, raw=True)"
    context = box.context()
    assert box.run(code, context=context)[-1]["status"] == "ok"
    assert result(box.run("1+1", context=context)) == "2"


def test_displays_beyond_the_limit_are_dropped_and_counted(box: Box) -> None:
    code = "from IPython.display import display\nfor i in range(11_000): display({'text/plain': str(i)}, raw=True)"
    events = box.run(code)
    assert len(of(events, "display")) == 10_000
    assert of(events, "truncated")[0]["droppedEvents"] == 1_000


def test_a_long_error_is_truncated(box: Box) -> None:
    error = of(box.run("raise ValueError('v' * (5 << 20))"), "error")[0]
    assert error["name"] == "ValueError"
    assert len(error["value"]) < 70_000
    assert sum(map(len, error["traceback"])) < 1.1 * MIB


def test_rich_output_keeps_its_place_in_a_long_output(box: Box) -> None:
    code = "from IPython.display import display\nprint('x' * (10 << 20))\ndisplay({'text/plain': 'mark'}, raw=True)\nprint('end')\n1/0"
    kinds = [event["type"] for event in box.run(code)]
    assert kinds.index("truncated") < kinds.index("display") < kinds.index("error") < len(kinds) - 1


def test_the_oldest_finished_journals_are_dropped_first(box: Box) -> None:
    runs = []
    for _ in range(10):
        run = box.command("head -c 7340032 /dev/zero | tr '\\0' x")
        run.wait()
        runs.append(run)
    known = [box.http.get(run.path).status_code == 200 for run in runs]
    assert known == sorted(known)
    assert known[0] is False
    assert known[-8:] == [True] * 8


def test_a_reader_that_does_not_read_costs_no_memory(box: Box) -> None:
    run = box.start("print('x' * (7 << 20))")
    run.wait()
    before = _resident(box)
    clients = [box.client() for _ in range(30)]
    streams = [client.stream("GET", f"{run.path}/events") for client in clients]
    for stream in streams:
        stream.__enter__()
    time.sleep(0.5)
    assert _resident(box) - before < 60 * MIB
    for stream, client in zip(streams, clients, strict=True):
        stream.__exit__(None, None, None)
        client.close()


def test_endless_requests_to_clear_the_output_are_interrupted_and_bounded(box: Box) -> None:
    events = box.run("from IPython.display import clear_output\nwhile True: clear_output()", timeoutMs=100_000)
    assert events[-1]["status"] == "output_limit"
    assert len(of(events, "clear")) <= 10_000
    assert of(events, "truncated")[0]["droppedEvents"] > 0


def test_an_update_without_an_id_is_a_display(box: Box) -> None:
    code = "from IPython.display import publish_display_data as p\np({'text/plain': 'new'}, update=True)"
    events = box.run(code)
    assert [event["mime"] for event in of(events, "display")] == [{"text/plain": "new"}]
    assert not of(events, "display_update")
