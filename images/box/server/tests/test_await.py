"""Top-level `await` and event loops, in forked and newly started Python kernels and in Node."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from box import Box, of, result, text

FORKED = 'b"fork-server" in open("/proc/self/cmdline", "rb").read()'


@pytest.fixture(scope="module", params=["forked", "started"])
def context(box: Box, request: pytest.FixtureRequest) -> Iterator[str]:
    """A Python context. A module that shadows a preloaded library prevents a fork in its folder."""
    if request.param == "forked":
        box.await_fork_server()
        forked = box.context()
        assert result(box.run(FORKED, context=forked)) == "True"
        yield forked
        return
    own = box.data / "own"
    own.mkdir()
    (own / "pandas.py").write_text("")
    started = box.http.post("/api/kernels", json={"name": "python", "path": "own"}).json()["id"]
    assert result(box.run(FORKED, context=started)) == "False"
    yield started


def test_a_cell_awaits_and_keeps_its_variables(box: Box, context: str) -> None:
    events = box.run("import asyncio\nx = await asyncio.sleep(0.01, 5)\nprint('after')\nx", context=context)
    assert (text(events), result(events), events[-1]["status"]) == ("after\n", "5", "ok")
    assert result(box.run("x + 1", context=context)) == "6"


@pytest.mark.parametrize(
    ("code", "value"),
    [
        (
            "async def count():\n  for i in range(3):\n    await asyncio.sleep(0)\n    yield i\n[i async for i in count()]",
            "[0, 1, 2]",
        ),
        ("s = 0\nasync for i in count():\n  s += i\ns", "3"),
        ("await asyncio.gather(*(asyncio.sleep(0.01, i) for i in range(3)))", "[0, 1, 2]"),
        ("async with asyncio.TaskGroup() as group:\n  t = group.create_task(asyncio.sleep(0, 7))\nt.result()", "7"),
        (
            "try:\n  async with asyncio.timeout(0.01): await asyncio.sleep(60)\nexcept TimeoutError as e: s = 'late'\ns",
            "'late'",
        ),
        ("await asyncio.to_thread(sum, [1, 2])", "3"),
        ("queue = asyncio.Queue(); queue.put_nowait(4); await asyncio.wait_for(queue.get(), 5)", "4"),
    ],
)
def test_asyncio_works_in_cells(box: Box, context: str, code: str, value: str) -> None:
    box.run("import asyncio\nasync def count():\n  for i in range(3): yield i", context=context)
    events = box.run(code, context=context)
    assert (result(events), events[-1]["status"]) == (value, "ok")


def test_an_error_behind_an_await_is_reported_with_its_traceback(box: Box, context: str) -> None:
    events = box.run(
        "async def fail():\n  await asyncio.sleep(0)\n  1 / 0\nimport asyncio\nawait fail()", context=context
    )
    error = of(events, "error")[0]
    assert (error["name"], events[-1]["status"], events[-1]["stateLost"]) == ("ZeroDivisionError", "error", False)
    assert any("fail" in line for line in error["traceback"])


@pytest.mark.parametrize("raised", ["KeyboardInterrupt", "SystemExit"])
def test_an_exit_raised_in_a_task_ends_only_the_task(box: Box, context: str, raised: str) -> None:
    box.run("import asyncio\nkept = 4", context=context)
    events = box.run(f"async def leave(): raise {raised}\nawait asyncio.gather(leave())", context=context)
    assert (of(events, "error")[0]["name"], events[-1]["status"], events[-1]["stateLost"]) == (raised, "error", False)
    assert result(box.run("await asyncio.sleep(0, kept)", context=context)) == "4"


def test_a_task_outlives_the_cell_that_started_it(box: Box, context: str) -> None:
    begin = "import asyncio\ngate = asyncio.Event()\nasync def wait(): await gate.wait(); return 'done'\ntask = asyncio.create_task(wait())"
    assert box.run(begin, context=context)[-1]["status"] == "ok"
    assert result(box.run("task.done()", context=context)) == "False"
    assert result(box.run("gate.set()\nawait task", context=context)) == "'done'"


@pytest.mark.parametrize(
    "code",
    [
        "await asyncio.sleep(600)",
        "await asyncio.gather(asyncio.sleep(600), asyncio.Event().wait())",
        "await asyncio.sleep(0)\nwhile True: pass",
        "async def spin():\n  while True: pass\nawait asyncio.gather(spin(), asyncio.sleep(600))",
        "await asyncio.to_thread(time.sleep, 20)",
        "import nest_asyncio2 as nest_asyncio\nnest_asyncio.apply()\nasyncio.run(asyncio.sleep(600))",
    ],
)
def test_a_time_limit_during_an_await_keeps_the_variables(box: Box, context: str, code: str) -> None:
    box.run("import asyncio, time\nkept = 5", context=context)
    done = box.run(code, context=context, timeoutMs=300)[-1]
    assert (done["status"], done["cause"]["stage"], done["stateLost"]) == ("timeout", "interrupt", False)
    assert result(box.run("await asyncio.sleep(0, kept)", context=context)) == "5"


def test_an_interrupt_of_an_await_keeps_the_variables(box: Box, context: str) -> None:
    box.run("import asyncio\nkept = 6", context=context)
    run = box.start("try:\n  print('waits')\n  await asyncio.sleep(600)\nfinally:\n  kept += 1", context=context)
    run.until("stdout")
    run.interrupt()
    done = run.wait()[-1]
    assert (done["status"], done["cause"]["stage"], done["stateLost"]) == ("interrupted", "interrupt", False)
    assert result(box.run("await asyncio.sleep(0, kept)", context=context)) == "7"


def test_a_nested_event_loop_runs_once_nest_asyncio_is_applied(box: Box, context: str) -> None:
    code = "import asyncio\nimport nest_asyncio2 as nest_asyncio\nnest_asyncio.apply()\nasync def one():\n  await asyncio.sleep(0.01)\n  return 1\n"
    events = box.run(
        code + "asyncio.run(one()), asyncio.get_event_loop().run_until_complete(one()), await one()", context=context
    )
    assert result(events) == "(1, 1, 1)"


def test_the_time_magic_measures_an_await(box: Box, context: str) -> None:
    cell = box.run("%%time\nimport asyncio  # é\nx = await asyncio.sleep(0.01, 8)\nprint(x)\nx + 1", context=context)
    assert text(cell).startswith("8\nCPU times: user ")
    assert (text(cell).count("Wall time: "), result(cell), cell[-1]["status"]) == (1, "9", "ok")
    lines = box.run(
        "for i in range(2):\n  y = %time await asyncio.sleep(0.01, 'é')\n%time (await asyncio.sleep(0.01, i), y);",
        context=context,
    )
    assert (text(lines).count("Wall time: "), of(lines, "result"), lines[-1]["status"]) == (3, [], "ok")
    failed = box.run("%time await asyncio.sleep(1 / 0)", context=context)
    assert (text(failed).count("Wall time: "), of(failed, "error")[0]["name"]) == (1, "ZeroDivisionError")
    box.run("x = 3", context=context)
    done = box.run("%%time\nawait asyncio.sleep(600)", context=context, timeoutMs=300)[-1]
    assert (done["status"], done["stateLost"], result(box.run("x", context=context))) == ("timeout", False, "3")


def test_an_asynchronous_http_client_works_in_a_cell(box: Box, context: str) -> None:
    code = """
import asyncio, httpx
async def serve(reader, writer):
    await reader.readuntil(b"\\r\\n\\r\\n")
    writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nhi")
    await writer.drain()
    writer.close()
async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
    port = server.sockets[0].getsockname()[1]
    async with httpx.AsyncClient(trust_env=False) as client:
        responses = await asyncio.gather(*(client.get(f"http://127.0.0.1:{port}") for _ in range(3)))
[response.text for response in responses]
"""
    assert result(box.run(code, context=context)) == "['hi', 'hi', 'hi']"


def test_a_subprocess_is_used_through_its_pipes_from_several_cells(box: Box, context: str) -> None:
    begin = """
import asyncio
class Driver:
    async def __aenter__(self):
        self.process = await asyncio.create_subprocess_exec("cat", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
        return self
    async def echo(self, line):
        self.process.stdin.write(line.encode() + b"\\n")
        await self.process.stdin.drain()
        return (await self.process.stdout.readline()).decode().strip()
    async def __aexit__(self, *_):
        self.process.stdin.close()
        return await self.process.wait()
driver = await Driver().__aenter__()
async with Driver() as other: print(await other.echo("one"))
"""
    assert text(box.run(begin, context=context)) == "one\n"
    assert result(box.run("await driver.echo('two')", context=context)) == "'two'"
    assert result(box.run("await driver.__aexit__()", context=context)) == "0"


@pytest.mark.parametrize("language", ["javascript", "typescript"])
def test_node_keeps_its_variables_when_an_await_is_ended(box: Box, language: str) -> None:
    box.run("var kept = await Promise.resolve(9)", language)
    forever = "for await (const _ of (async function* () { for (;;) yield await new Promise((go) => setTimeout(go, 50)) })()) {}"
    for code in ("await new Promise(() => {})", forever):
        done = box.run(code, language, timeoutMs=300)[-1]
        assert (done["status"], done["cause"]["stage"], done["stateLost"]) == ("timeout", "interrupt", False)
    run = box.start("console.log('waits'); await new Promise(() => {})", language)
    run.until("stdout")
    run.interrupt()
    done = run.wait()[-1]
    assert (done["status"], done["cause"]["stage"], done["stateLost"]) == ("interrupted", "interrupt", False)
    both = "await Promise.all([kept, new Promise((done) => setTimeout(() => done(2), 10))])"
    assert result(box.run(both, language)) == "[ 9, 2 ]"
