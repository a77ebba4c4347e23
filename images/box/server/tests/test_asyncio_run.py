"""`asyncio.run` in a cell, as programs call it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from box import Box, of, result, text

MAIN = """import asyncio
async def main(value=5):
  await asyncio.sleep(0.01)
  print('in main')
  return value"""


@pytest.fixture(scope="module")
def context(box: Box) -> Iterator[str]:
    """A Python context of its own: nest_asyncio in other tests would change it."""
    yield box.context()


def test_asyncio_run_works_in_cells_as_in_a_program(box: Box, context: str) -> None:
    events = box.run(f"{MAIN}\nx = asyncio.run(main())\nx + asyncio.run(main(1))", context=context)
    assert (text(events), result(events), events[-1]["status"]) == ("in main\nin main\n", "6", "ok")
    program = f"{MAIN}\nif __name__ == '__main__':\n  from asyncio import run\n  run(main(), debug=True)"
    assert text(box.run(program, context=context)) == "in main\n"


def test_a_cell_that_awaits_can_call_it_and_tasks_of_earlier_cells_go_on_afterwards(box: Box, context: str) -> None:
    box.run(MAIN, context=context)
    begin = (
        "gate = asyncio.Event()\nasync def wait(): await gate.wait(); return 'done'\ntask = asyncio.create_task(wait())"
    )
    box.run(begin, context=context)
    awaiting = "def call(): return asyncio.run(main(7))\nawait asyncio.sleep(0)\nx = call()\ngate.set()\nawait task, x"
    assert result(box.run(awaiting, context=context)) == "('done', 7)"
    loops = "asyncio.get_event_loop() is asyncio.get_running_loop(), asyncio.current_task() is not None"
    assert result(box.run(loops, context=context)) == "(True, True)"


def test_errors_leave_it_and_a_second_one_within_it_is_refused(box: Box, context: str) -> None:
    box.run(f"{MAIN}\nasync def fail(): 1 / 0\nasync def again(): asyncio.run(main())", context=context)
    for code, name in (("fail()", "ZeroDivisionError"), ("again()", "RuntimeError"), ("5", "ValueError")):
        events = box.run(f"asyncio.run({code})", context=context)
        assert (of(events, "error")[0]["name"], events[-1]["status"]) == (name, "error")
    assert result(box.run("await main(3)", context=context)) == "3"


@pytest.mark.parametrize("before", ["", "await asyncio.sleep(0)"])
@pytest.mark.parametrize(
    "endless", ["await asyncio.sleep(60)", "while True: pass", "while True: await asyncio.sleep(0)"]
)
def test_it_is_interrupted_at_once_with_its_clean_up(box: Box, context: str, before: str, endless: str) -> None:
    main = f"async def main():\n  print('begins')\n  try: {endless}\n  finally: print('ends')"
    box.run(f"import asyncio\nkept = 4\n{main}\ndef call(): asyncio.run(main())", context=context)
    for status, timeout in (("interrupted", 30_000), ("timeout", 500)):
        run = box.start(f"{before}\ncall()", context=context, timeout_ms=timeout)
        run.until("stdout")
        if status == "interrupted":
            run.interrupt()
        events = run.wait()
        done = events[-1]
        assert (done["status"], done["cause"]["stage"], done["stateLost"]) == (status, "interrupt", False)
        assert text(events) == "begins\nends\n"
        assert result(box.run("await asyncio.sleep(0, kept)", context=context)) == "4"
