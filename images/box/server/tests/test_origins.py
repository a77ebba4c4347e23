"""Output of threads and tasks that outlive their run carries the id of that run as its origin."""

from __future__ import annotations

from typing import Any

import pytest
from box import Box, of, result, text


def written(events: list[dict[str, Any]], origin: str | None) -> str:
    """Return the text of both streams with this origin, or without one."""
    return text([event for event in events if event.get("origin") == origin], "stdout") + text(
        [event for event in events if event.get("origin") == origin], "stderr"
    )


THREAD = """
import sys, threading
go, went = threading.Event(), threading.Event()
def late():
    go.wait()
    print("late")
    print("wrong", file=sys.stderr)
    display({"text/plain": "shown"}, raw=True)
    go.clear()
    grandchild = threading.Thread(target=print, args=["grandchild"])
    grandchild.start()
    grandchild.join()
    went.set()
threading.Thread(target=late).start()
print("early")
"""


def test_output_of_a_thread_from_an_earlier_run_carries_its_origin(box: Box) -> None:
    first = box.start(THREAD)
    assert (written(first.wait(), None), written(first.events, first.id)) == ("early\n", "")
    second = box.run("print('mine')\ngo.set(); _ = went.wait()\nprint('mine too')")
    assert written(second, None) == "mine\nmine too\n"
    assert written(second, first.id) == "late\ngrandchild\nwrong\n"
    assert [event["origin"] for event in of(second, "display")] == [first.id]
    assert second[0]["type"] == "started"


def test_output_of_a_task_from_an_earlier_run_carries_its_origin(box: Box) -> None:
    first = box.start(
        "import asyncio\nturn = asyncio.Event()\nasync def late():\n  await turn.wait()\n  print('task')\ntask = asyncio.create_task(late())"
    )
    first.wait()
    second = box.run("turn.set()\nawait task\nawait asyncio.to_thread(print, 'thread')\nprint('mine')")
    assert (written(second, None), written(second, first.id)) == ("thread\nmine\n", "task\n")


def test_a_thread_pool_of_an_earlier_run_works_for_the_run_that_submits(box: Box) -> None:
    box.run(
        "from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(1)\npool.submit(print, 1).result()"
    )
    assert written(box.run("pool.submit(print, 'submitted').result()"), None) == "submitted\n"


def test_threads_of_a_multiprocessing_pool_belong_to_the_run_that_created_it(box: Box) -> None:
    made = box.run("from multiprocessing.pool import ThreadPool\npool = ThreadPool(1)\npool.apply(print, ('first',))")
    assert written(made, None) == "first\n"
    events = box.run("pool.apply(print, ('submitted',))")
    origin = next(event["origin"] for event in events if "origin" in event)
    assert (written(events, origin), written(events, None)) == ("submitted\n", "")


def test_a_thread_of_an_earlier_run_can_request_input_in_a_later_one(box: Box) -> None:
    box.run(
        "import threading\nready = threading.Event()\ndef ask():\n  ready.wait()\n  global reply\n  reply = input('who? ')\nt = threading.Thread(target=ask); t.start()"
    )
    run = box.start("ready.set(); t.join()\nreply")
    run.until("input_request")
    run.post("input", text="Ann")
    assert result(run.wait()) == "'Ann'"


@pytest.mark.parametrize("language", ["javascript", "typescript"])
def test_output_of_a_timer_or_promise_from_an_earlier_cell_carries_its_origin(box: Box, language: str) -> None:
    begin = """
let go; const gate = new Promise((resolve) => { go = resolve });
const late = gate.then(() => { console.log('promise'); display({'text/plain': 'shown'}) });
const timer = new Promise((done) => { globalThis.begin = () => done() }).then(async () => {
  await new Promise((tick) => setTimeout(tick, 1));
  console.error('timer');
});
console.log('early');"""
    first = box.start(begin, language)
    assert written(first.wait(), None) == "early\n"
    second = box.run("console.log('mine'); go(); await late; begin(); await timer; console.log('mine too')", language)
    assert (written(second, None), written(second, first.id)) == ("mine\nmine too\n", "promise\ntimer\n")
    assert [event["origin"] for event in of(second, "display")] == [first.id]
    assert written(box.run("console.log('alone')", language), None) == "alone\n"
