"""The list of variables, whatever the code of their values does."""

from __future__ import annotations

from typing import Any

import pytest
from box import Box, of, result


def variables(box: Box, context: str, **query: Any) -> dict[str, Any]:
    response = box.http.get(f"/codebox/contexts/{context}/variables", params=query)
    assert response.status_code == 200, response.text
    return response.json()


def by_name(box: Box, context: str) -> dict[str, dict[str, Any]]:
    return {item["name"]: item for item in variables(box, context)["items"]}


@pytest.fixture
def context(box: Box) -> Any:
    made = box.context()
    yield made
    box.http.delete(f"/api/kernels/{made}")


def test_variables_are_listed_with_type_size_and_preview(box: Box, context: str) -> None:
    box.run(
        """
import os, math, numpy as np, pandas as pd
from math import sqrt
from numpy import linspace
from collections import OrderedDict
number, text, nothing = 41, "héllo", None
array = np.zeros((3, 4))
table = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
nested = {"key": [1, (2,), {3}]}
long = "a" * 100_000
many = list(range(1000))
def function(): pass
class Thing: pass
thing = Thing()
_hidden = 1
""",
        context=context,
    )
    found = by_name(box, context)
    assert sorted(found) == [
        "Thing",
        "array",
        "function",
        "long",
        "many",
        "nested",
        "nothing",
        "number",
        "table",
        "text",
        "thing",
    ]
    assert found["number"]["type"] == "int" and found["number"]["preview"] == "41"
    assert found["text"]["length"] == 5 and found["text"]["preview"] == "'héllo'"
    assert found["array"]["shape"] == [3, 4] and found["array"]["sizeBytes"] == 96
    assert found["table"]["type"] == "DataFrame" and found["table"]["shape"] == [2, 2] and found["table"]["length"] == 2
    assert found["nested"]["preview"] == "{'key': [1, (2,), {3}]}"
    assert found["many"]["length"] == 1000 and len(found["many"]["preview"]) < 200
    assert found["long"]["length"] == 100_000 and len(found["long"]["preview"]) < 600
    assert found["thing"]["type"] == "Thing"


def test_listing_variables_counts_no_execution(box: Box, context: str) -> None:
    before = box.run("x = 1", context=context)[0]["executionCount"]
    by_name(box, context)
    assert box.run("x", context=context)[0]["executionCount"] == before + 1


def test_hostile_values_are_bounded_and_leave_the_kernel_unchanged(box: Box, context: str) -> None:
    box.run(
        """
import os, sys, time
class Raises:
    def __repr__(self): raise SystemExit(9)
    def __len__(self): raise KeyboardInterrupt
    @property
    def shape(self): raise BaseException
class Loops:
    def __repr__(self):
        while True:
            try: time.sleep(1)
            except BaseException: pass
class Huge:
    def __repr__(self): return "x" * (1 << 30)
    def __len__(self): return 1 << 62
class Ends:
    def __repr__(self): os._exit(3)
class Writes:
    def __repr__(self):
        global changed
        changed = True
        print("noise"); os.write(1, b"noise"); open("written", "w").close()
        return "quiet"
class Lies(type):
    def __getattribute__(self, name): raise ValueError(name)
class Liar(metaclass=Lies):
    def __getattribute__(self, name): raise ValueError(name)
changed = False
a, b, c, d, e, f, z = Raises(), Loops(), Huge(), Ends(), Writes(), Liar(), 7
globals()[5] = 1
globals()["not a name"] = 1
big = 10 ** 100_000
recursive = []; recursive.append(recursive)
""",
        context=context,
    )
    found = by_name(box, context)
    assert found["a"]["type"] == "Raises" and found["a"]["preview"] == "<Raises object>"
    assert found["b"]["preview"] == "<Loops object>"
    assert len(found["c"]["preview"]) < 600
    assert found["d"]["preview"] == "<Ends object>"
    assert found["e"]["preview"] == "quiet"
    assert found["f"]["type"] == "Liar"
    assert found["z"]["preview"] == "7"
    assert len(found["big"]["preview"]) < 600 and found["recursive"]["length"] == 1
    events = box.run("changed, z", context=context)
    assert result(events) == "(False, 7)"
    assert not of(events, "stdout")


def test_a_busy_context_is_a_conflict(box: Box, context: str) -> None:
    run = box.start("import time\nprint(1, flush=True)\ntime.sleep(30)", context=context)
    run.until("stdout")
    response = box.http.get(f"/codebox/contexts/{context}/variables")
    assert response.status_code == 409 and response.json()["code"] == "conflict"
    run.interrupt()
    run.wait()


def test_variables_are_listed_in_pages(box: Box, context: str) -> None:
    box.run("for i in range(7): globals()[f'v{i}'] = i\ndel i", context=context)
    first = variables(box, context, limit=4)
    second = variables(box, context, limit=4, cursor=first["nextCursor"])
    assert [item["name"] for item in first["items"] + second["items"]] == [f"v{i}" for i in range(7)]
    assert second["nextCursor"] is None
    for query in ({"limit": "0"}, {"limit": "x"}, {"cursor": "§"}):
        assert box.http.get(f"/codebox/contexts/{context}/variables", params=query).status_code == 400


def test_variables_of_javascript_are_listed(box: Box) -> None:
    context = box.context("javascript")
    code = """
import path from 'node:path'
const list = [1, 2, 3]; let text = 'a'.repeat(100000); var map = new Map([['k', 1]]); made = 5n
class Hostile { constructor() { this.x = 1 } get y() { throw new Error('no') } toString() { for (;;) {} } [Symbol.toPrimitive]() { for (;;) {} } }
const hostile = new Hostile(), proxy = new Proxy({}, { get() { for (;;) {} } })
function twice(a) { return 2 * a }
"""
    box.run(code, "javascript", context=context)
    found = by_name(box, context)
    assert {"list", "text", "map", "made", "hostile", "proxy", "twice"} <= set(found)
    assert found["list"]["type"] == "Array" and found["list"]["length"] == 3 and found["list"]["preview"] == "[1, 2, 3]"
    assert found["text"]["length"] == 100_000 and len(found["text"]["preview"]) < 600
    assert found["made"]["preview"] == "5n" and found["map"]["type"] == "Map"
    assert found["hostile"]["type"] == "Hostile"
    assert result(box.run("twice(list[2])", "javascript", context=context)) == "6"
    box.http.delete(f"/api/kernels/{context}")


def test_variables_of_bash_are_listed(box: Box) -> None:
    context = box.context("bash")
    box.run(
        "name='two words'; list=(a 'b c' d); declare -A map=([k]=v); declare -i n=4; printf() { :; }",
        "bash",
        context=context,
    )
    box.run("false", "bash", context=context)
    found = by_name(box, context)
    assert found["name"]["preview"] == "two words" and found["name"]["length"] == 9
    assert found["list"]["type"] == "array" and found["list"]["length"] == 3 and found["list"]["preview"] == "(a b c d)"
    assert found["map"]["type"] == "map" and found["n"]["type"] == "integer"
    assert set(found) == {"name", "list", "map", "n"}
    events = box.run("echo $? $name", "bash", context=context)
    assert of(events, "stdout")[0]["text"] == "1 two words\n"
    box.http.delete(f"/api/kernels/{context}")


def test_a_context_keeps_its_folder_and_environment_after_a_restart(box: Box) -> None:
    (box.data / "sub").mkdir()
    made = box.http.post("/codebox/contexts", json={"language": "python", "cwd": "sub", "env": {"OWN": "1"}})
    assert made.status_code == 201 and made.json()["cwd"] == "sub"
    context = made.json()["id"]
    code = "import os; os.path.basename(os.getcwd()), os.environ['OWN']"
    assert result(box.run(code, context=context)) == "('sub', '1')"
    assert box.http.post(f"/codebox/contexts/{context}/restart").json()["cwd"] == "sub"
    assert result(box.run(code, context=context)) == "('sub', '1')"
    (box.data / "sub").rmdir()
    assert box.http.post(f"/codebox/contexts/{context}/restart").status_code == 409
    box.http.delete(f"/api/kernels/{context}")


def test_an_unusable_folder_is_refused_with_a_pointer(box: Box) -> None:
    (box.data / "file").write_text("")
    for cwd in ("missing", "file", "file/below", "a" * 300):
        response = box.http.post("/codebox/contexts", json={"language": "python", "cwd": cwd})
        assert response.status_code == 400 and response.json()["pointer"] == "/cwd", response.text
