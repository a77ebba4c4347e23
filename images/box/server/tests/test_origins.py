"""What outlives a run and writes while another one runs is told as of the run that it belongs to."""

from __future__ import annotations

from typing import Any

import pytest
from box import Box, of, result, text


def told(events: list[dict[str, Any]], origin: str | None) -> str:
    """The text of both streams that carries this origin, or none."""
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


def test_output_of_a_thread_that_an_earlier_run_left_is_marked(box: Box) -> None:
    first = box.start(THREAD)
    assert (told(first.wait(), None), told(first.events, first.id)) == ("early\n", "")
    second = box.run("print('mine')\ngo.set(); _ = went.wait()\nprint('mine too')")
    assert told(second, None) == "mine\nmine too\n"
    assert told(second, first.id) == "late\ngrandchild\nwrong\n"
    assert [event["origin"] for event in of(second, "display")] == [first.id]
    assert second[0]["type"] == "started"


def test_output_of_a_task_that_an_earlier_run_left_is_marked(box: Box) -> None:
    first = box.start(
        "import asyncio\nturn = asyncio.Event()\nasync def late():\n  await turn.wait()\n  print('task')\ntask = asyncio.create_task(late())"
    )
    first.wait()
    second = box.run("turn.set()\nawait task\nawait asyncio.to_thread(print, 'thread')\nprint('mine')")
    assert (told(second, None), told(second, first.id)) == ("thread\nmine\n", "task\n")


def test_a_pool_that_an_earlier_run_made_works_for_the_run_that_asks_it(box: Box) -> None:
    box.run(
        "from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(1)\npool.submit(print, 1).result()"
    )
    assert told(box.run("pool.submit(print, 'asked').result()"), None) == "asked\n"


def test_the_threads_of_a_multiprocessing_pool_belong_to_the_run_that_made_it(box: Box) -> None:
    made = box.run("from multiprocessing.pool import ThreadPool\npool = ThreadPool(1)\npool.apply(print, ('first',))")
    assert told(made, None) == "first\n"
    events = box.run("pool.apply(print, ('asked',))")
    origin = next(event["origin"] for event in events if "origin" in event)
    assert (told(events, origin), told(events, None)) == ("asked\n", "")


def test_a_thread_of_an_earlier_run_may_ask_in_a_later_one(box: Box) -> None:
    box.run(
        "import threading\nready = threading.Event()\ndef ask():\n  ready.wait()\n  global said\n  said = input('who? ')\nt = threading.Thread(target=ask); t.start()"
    )
    run = box.start("ready.set(); t.join()\nsaid")
    run.until("input_request")
    run.post("input", text="Ann")
    assert result(run.wait()) == "'Ann'"


@pytest.mark.parametrize("language", ["javascript", "typescript"])
def test_output_of_a_timer_or_promise_that_an_earlier_cell_left_is_marked(box: Box, language: str) -> None:
    begin = """
let go; const gate = new Promise((resolve) => { go = resolve });
const late = gate.then(() => { console.log('promise'); display({'text/plain': 'shown'}) });
const timer = new Promise((done) => { globalThis.begin = () => done() }).then(async () => {
  await new Promise((tick) => setTimeout(tick, 1));
  console.error('timer');
});
console.log('early');"""
    first = box.start(begin, language)
    assert told(first.wait(), None) == "early\n"
    second = box.run("console.log('mine'); go(); await late; begin(); await timer; console.log('mine too')", language)
    assert (told(second, None), told(second, first.id)) == ("mine\nmine too\n", "promise\ntimer\n")
    assert [event["origin"] for event in of(second, "display")] == [first.id]
    assert told(box.run("console.log('alone')", language), None) == "alone\n"
