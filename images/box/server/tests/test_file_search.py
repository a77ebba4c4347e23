"""Search for files by name and for lines by content, on a server without ripgrep."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from box import PACKAGE, Box, start_box
from file_calls import put

from codebox_server.files.jobs import search as searching
from codebox_server.files.jobs.glob import compile_glob


@pytest.fixture(scope="module")
def searched(module_folder: Path) -> Iterator[Box]:
    """A server without ripgrep on its PATH. The tests of the API search with ripgrep."""
    programs = module_folder / "bin"
    programs.mkdir()
    for program in ("setpriv", "bash", "mkdir", "ln", "mkfifo"):
        os.symlink(shutil.which(program) or "", programs / program)
    with start_box(module_folder, forks=False, PATH=str(programs)) as running:
        yield running


def search(box: Box, **query: Any) -> dict[str, Any]:
    response = box.http.get("/codebox/files:search", params=query)
    assert response.status_code == 200, response.text
    return response.json()


def lines(found: dict[str, Any]) -> list[tuple[str, int, int, str]]:
    return [(item["path"], item["line"], item["column"], item["text"]) for item in found["items"]]


def test_lines_are_found_in_order_with_line_and_column(searched: Box) -> None:
    put(searched, "s/b.py", b"import os\n\nTODO = 1\n  # todo: x\n")
    put(searched, "s/a/c.py", b"no\nTODO")
    put(searched, "s/bin", b"TODO\0")
    put(searched, "s/b.txt", b"TODO \xff\r\n")
    found = search(searched, path="s", content="TODO")
    assert lines(found) == [("s/a/c.py", 2, 1, "TODO"), ("s/b.py", 3, 1, "TODO = 1"), ("s/b.txt", 1, 1, "TODO \ufffd")]
    assert (found["nextCursor"], found["complete"]) == (None, True)
    assert [
        item["line"] for item in search(searched, path="s", name="*.py", content="todo", caseSensitive="false")["items"]
    ] == [2, 3, 4]
    assert lines(search(searched, path="s/b.py", content=r"^\s+#")) == [("s/b.py", 4, 1, "  # todo: x")]
    assert search(searched, path="s", content="nowhere")["items"] == []


def test_every_page_size_yields_the_same_results(searched: Box) -> None:
    for name in ("p/a", "p/b/c", "p/b.x", "p/d"):
        put(searched, name, b"hit\nmiss\nhit\nhit\n")

    def pages(**query: Any) -> list[Any]:
        found: list[Any] = []
        while True:
            page = search(searched, path="p", **query)
            found += [(item["path"], item.get("line")) for item in page["items"]]
            if page["nextCursor"] is None:
                return found
            query["cursor"] = page["nextCursor"]

    expected = [(path, line) for path in ("p/a", "p/b/c", "p/b.x", "p/d") for line in (1, 3, 4)]
    names = [(path, None) for path in ("p/a", "p/b", "p/b/c", "p/b.x", "p/d")]
    for limit in (1, 5, 12, 13):
        assert pages(content="hit", limit=limit) == expected
        assert pages(name="*", limit=limit) == names


@pytest.mark.parametrize("content", ["hit", None])
def test_a_slow_search_continues_from_page_to_page(
    folder: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    monkeypatch.setattr(searching, "SEARCH_SECONDS", -1)
    for name in ("a/x", "a/y.txt", "a.b/z", "b", "c/d/e.txt", "f"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"hit\n" if name.endswith(".txt") else b"\0")
    query = {"root": str(folder), "path": "", "limit": 5, "name": "*.txt", "content": content}
    found: list[list[str]] = []
    while True:
        page = searching.search(query)
        found.append([item["path"] for item in page["items"]])
        if page["nextCursor"] is None:
            break
        query["cursor"] = page["nextCursor"]
    # Each page examines a single entry, and folders are entries.
    assert found == [[], [], ["a/y.txt"], [], [], [], [], [], ["c/d/e.txt"], []]


def test_long_lines_and_many_hits_are_cut(searched: Box) -> None:
    put(searched, "long", b"hit " + b"x" * 3_000_000 + b"\nhit\n")
    put(searched, "many", b"hit\n" * 5000)
    found = search(searched, name="{long,many}", content="hit", limit=1000)
    assert [item["line"] for item in found["items"]][:2] == [1, 2]
    assert len(found["items"][0]["text"]) == 400
    again = search(searched, name="{long,many}", content="hit", limit=1000, cursor=found["nextCursor"])
    assert [item["line"] for item in again["items"]] == [999, 1000]
    assert again["nextCursor"] is None


@pytest.mark.parametrize(
    ("query", "status", "pointer"),
    [
        ({"content": "("}, 400, "/query/content"),
        ({"content": ""}, 400, "/query/content"),
        ({}, 400, "/query/name"),
        ({"name": "[z-a]"}, 400, "/query/name"),
        ({"content": "a{99999999999999}"}, 400, "/query/content"),
        ({"name": "x", "path": "../x"}, 400, "/query/path"),
        ({"name": "x", "path": "none"}, 404, "/query/path"),
        ({"name": "x", "cursor": "?"}, 400, "/query/cursor"),
        ({"name": "x", "cursor": "W10"}, 400, "/query/cursor"),
        ({"name": "x", "limit": "0"}, 400, "/query/limit"),
        ({"name": "x", "caseSensitive": "2"}, 400, "/query/caseSensitive"),
    ],
)
def test_a_refused_search_points_to_its_field(searched: Box, query: dict[str, str], status: int, pointer: str) -> None:
    response = searched.http.get("/codebox/files:search", params=query)
    assert (response.status_code, response.json()["pointer"]) == (status, pointer)


def test_names_of_every_kind_are_found(searched: Box) -> None:
    searched.command(
        "mkdir q; cd q; mkfifo pipe; ln -s / out; for n in $'new\\nline' $'raw\\xff' '-dash' 😀; do echo hit > \"$n\"; done"
    ).wait()
    found = search(searched, path="q", content="hit")
    assert {item["path"] for item in found["items"]} == {"q/new\nline", "q/raw\ufffd", "q/-dash", "q/😀"}
    assert search(searched, name="out")["items"] == [{"path": "q/out", "type": "symlink"}]


def test_a_search_with_a_catastrophic_pattern_times_out(searched: Box) -> None:
    put(searched, "evil", b"a" * 40 + b"!")

    def stop_search() -> None:
        """Stop the process of the search, so that it does not use the CPU for 16 s."""
        time.sleep(1)
        for pid in searched.pids()[1:]:
            if b"codebox_server.files.jobs" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGSTOP)

    threading.Thread(target=stop_search).start()
    response = searched.http.get("/codebox/files:search", params={"content": "(a+)+$"})
    assert (response.status_code, response.json()["code"]) == (504, "timeout")


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*.py", ["a.py", "x/y/a.py", ".py"], ["a.pyc", "a.py/b"]),
        ("src/*.py", ["src/a.py"], ["x/src/a.py", "src/b/a.py"]),
        ("src/**/*.py", ["src/a.py", "src/b/c/a.py"], ["a.py"]),
        ("**/test/**", ["test/a", "x/test/y/z"], ["test"]),
        ("[ab]?.{md,txt}", ["ax.md", "d/by.txt"], ["cx.md", "ax.rst"]),
        ("[!a]", ["b"], ["a", "/"]),
        ("a[", ["a["], ["a"]),
        ("[]]", ["]"], ["["]),
        ("a{b", ["a{b"], ["ab"]),
        ("a.b+(c)", ["a.b+(c)"], ["axb+(c)"]),
    ],
)
def test_a_glob_matches_whole_paths(pattern: str, yes: list[str], no: list[str]) -> None:
    compiled = compile_glob(pattern, True)
    assert [path for path in yes if not compiled.fullmatch(path)] == []
    assert [path for path in no if compiled.fullmatch(path)] == []


@pytest.mark.parametrize(
    "pattern", ["*a*a*a*a*a*a*b", "**/a**/a**/a**/a**/a**/a**/b", "{*a,a*}{*a,a*}{*a,a*}*{*a,a*}*b"]
)
def test_no_glob_takes_exponential_time(folder: Path, pattern: str) -> None:
    (folder / ("a" * 120)).touch()
    fields = {"root": str(folder), "path": "", "limit": 5, "name": pattern}
    done = subprocess.run(
        [sys.executable, "-m", "codebox_server.files.jobs", "search"],
        cwd=PACKAGE,
        input=json.dumps(fields).encode(),
        capture_output=True,
        check=True,
        timeout=30,
    )
    assert json.loads(done.stdout)["items"] == []
