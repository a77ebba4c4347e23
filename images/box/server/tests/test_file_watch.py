"""The stream of changes of the working folder."""

import json
import os
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from box import Box, eventually, start_box

FILES = "/codebox/files/"
WATCH = "/codebox/files:watch"


class Watch:
    """A reader of the stream, in its own thread."""

    def __init__(self, box: Box, **query: Any) -> None:
        self.events: list[dict[str, Any]] = []
        self.counts: Counter[str] = Counter()
        self.ended = False
        self._client = box.client()
        self._query = query
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        eventually(lambda: self.events)

    def _read(self) -> None:
        try:
            with self._client.stream("GET", WATCH, params=self._query, timeout=60) as response:
                self.response = response
                for line in response.iter_lines():
                    if line:
                        self.events.append(json.loads(line))
                        self.counts[self.events[-1]["type"]] += 1
        except Exception:
            pass
        self.ended = True

    def close(self) -> None:
        self.response.close()

    def changes(self) -> list[tuple[Any, ...]]:
        """Return type and path of each change, for a rename with the earlier path between them."""
        events = self.events[1:]
        return [
            (e["type"], *([e["from"]] if "from" in e else []), *([e["path"]] if "path" in e else [])) for e in events
        ]

    def until(self, *expected: tuple[Any, ...]) -> None:
        eventually(lambda: set(expected) <= set(self.changes()), 60)


@pytest.fixture(scope="module", params=["inotify", "polling"])
def mode(request: pytest.FixtureRequest) -> str:
    """How the server notices changes."""
    return str(request.param)


@pytest.fixture(scope="module")
def watched(mode: str, module_folder: Path) -> Iterator[Box]:
    folder = module_folder / mode
    folder.mkdir()
    folder.chmod(0o777)
    env = {"CODEBOX_WATCH": "polling"} if mode == "polling" else {}
    with start_box(folder, forks=False, **env) as running:
        yield running


def shell(box: Box, script: str) -> None:
    assert box.command(script).wait()[-1]["status"] == "ok"


def test_each_kind_of_change_is_reported_once_and_in_order(watched: Box, mode: str) -> None:
    watch = Watch(watched)
    assert watch.events[0]["type"] == "ready"
    assert (watch.events[0]["mode"], watch.events[0]["complete"]) == (mode, True)
    first = watch.events[0]["version"]
    watched.http.put(FILES + "k/a", content=b"1")
    watch.until(("create", "k"), ("create", "k/a"))
    watched.http.put(FILES + "k/a", content=b"22")
    watch.until(("write", "k/a"))
    shell(watched, "mv k/a k/b")
    watch.until(("rename", "k/a", "k/b"))
    shell(watched, "echo more >> k/b")
    watch.until(("write", "k/b"))
    watched.http.delete(FILES + "k")
    watch.until(("remove", "k/b"), ("remove", "k"))
    assert watch.changes() == [
        ("create", "k"),
        ("create", "k/a"),
        ("write", "k/a"),
        ("rename", "k/a", "k/b"),
        ("write", "k/b"),
        ("remove", "k/b"),
        ("remove", "k"),
    ]
    assert [event["version"] for event in watch.events[1:]] == list(range(first + 1, first + 8))
    assert watch.events[3]["entry"]["sizeBytes"] == 2
    watch.close()


def test_moving_a_folder_moves_its_contents(watched: Box, mode: str) -> None:
    shell(watched, "mkdir -p f/deep/er; touch f/deep/er/1")
    watch = Watch(watched)
    shell(watched, "mv f g")
    watch.until(("rename", "f", "g"))
    shell(watched, "echo 2 > g/deep/er/2; mv g/deep/er/1 g/1; rm -r g/deep")
    # Without notifications, a move out of a folder that is removed afterwards cannot be recognised.
    came = ("rename", "g/deep/er/1", "g/1") if mode == "inotify" else ("create", "g/1")
    watch.until(("remove", "g/deep"), came)
    assert not [event for event in watch.changes() if event[-1].startswith("f")]
    shell(watched, "mv g h; touch h/new; mkdir h/sub; touch h/sub/x")
    watch.until(("rename", "g", "h"), ("create", "h/new"), ("create", "h/sub"), ("create", "h/sub/x"))
    shell(watched, "rm -r h")
    watch.until(("remove", "h"), ("remove", "h/sub/x"))
    watch.close()


def test_a_reader_that_reconnects_misses_nothing(watched: Box) -> None:
    watch = Watch(watched)
    version = watch.events[0]["version"]
    watch.close()
    for i in range(5):
        watched.http.put(f"{FILES}back{i}", content=b"")
    other = Watch(watched)
    eventually(lambda: other.events[-1]["version"] == version + 5 or other.events[0]["version"] == version + 5)
    again = Watch(watched, after=version + 2)
    eventually(lambda: len(again.events) == 4)
    assert [event["version"] for event in again.events] == [version + 2, version + 3, version + 4, version + 5]
    ahead = Watch(watched, after=version + 1000)
    eventually(lambda: len(ahead.events) == 2)
    assert (ahead.events[1]["type"], ahead.events[1]["reason"]) == ("reset", "forgotten")
    for one in (other, again, ahead):
        one.close()


def test_changes_are_listed_without_following_them(watched: Box) -> None:
    def listed(**query: str | int) -> list[dict[str, Any]]:
        response = watched.http.get("/codebox/files:watch", params={"follow": "false", **query})
        return [json.loads(line) for line in response.text.splitlines()]

    [ready] = listed()
    watched.http.put(FILES + "listed/a", content=b"1")
    watched.http.put(FILES + "elsewhere", content=b"1")
    last, *changes = listed(after=ready["version"], path="listed")
    assert (last["type"], last["version"]) == ("ready", ready["version"] + 3)
    assert [(change["type"], change["path"]) for change in changes] == [("create", "listed"), ("create", "listed/a")]
    assert [event["type"] for event in listed(after=last["version"])] == ["ready"]
    assert [event["type"] for event in listed(after=last["version"] + 1)] == ["ready", "reset"]


def test_only_changes_below_the_requested_path_are_reported(watched: Box) -> None:
    shell(watched, "mkdir -p p/q r")
    deep, flat, file = Watch(watched, path="p"), Watch(watched, path="p", recursive="false"), Watch(watched, path="r")
    shell(watched, "touch p/1 p/q/2 r/3 4")
    deep.until(("create", "p/1"), ("create", "p/q/2"))
    file.until(("create", "r/3"))
    flat.until(("create", "p/1"))
    assert [len(watch.changes()) for watch in (deep, flat, file)] == [2, 1, 1]
    shell(watched, "mv r/3 p/3")
    for watch in (deep, flat, file):
        watch.until(("rename", "r/3", "p/3"))
        watch.close()
    for query, pointer in (
        ({"path": "none"}, "/query/path"),
        ({"path": "../x"}, "/query/path"),
        ({"recursive": "2"}, "/query/recursive"),
    ):
        response = watched.http.get(WATCH, params=query)
        assert (response.status_code in (400, 404), response.json()["pointer"]) == (True, pointer)


def test_ten_thousand_changes_at_once_are_all_reported(watched: Box) -> None:
    watch = Watch(watched)
    shell(watched, "mkdir many; cd many; seq 10000 | xargs touch")
    eventually(lambda: watch.counts["create"] >= 10_001, 120)
    created = [event for event in watch.changes() if event[0] == "create"]
    assert sorted(created) == sorted([("create", "many"), *(("create", f"many/{i}") for i in range(1, 10_001))])
    shell(watched, "rm -r many")
    eventually(lambda: watch.counts["remove"] >= 10_001, 120)
    versions = [event["version"] for event in watch.events[1:]]
    assert versions == list(range(versions[0], versions[0] + len(versions)))
    watch.close()


def test_names_of_every_kind_are_reported(watched: Box) -> None:
    watch = Watch(watched)
    shell(watched, "touch $'new\\nline' 'q\"u' 😀 $'raw\\xff'")
    watch.until(("create", "new\nline"), ("create", 'q"u'), ("create", "😀"), ("create", "raw\ufffd"))
    watch.close()


def test_a_reader_that_falls_behind_gets_a_reset_and_the_end(fresh_box: Box) -> None:
    slow = fresh_box.client()
    with slow.stream("GET", WATCH) as response:
        lines = response.iter_lines()
        next(lines)
        other = Watch(fresh_box)
        name = "n" * 200
        for round_ in range(2):
            shell(fresh_box, f"mkdir d{round_}; cd d{round_}; seq -f {name}%g 10000 | xargs touch")
        eventually(lambda: other.ended or len(other.events) > 20_002, 120)
        last: dict[str, Any] = {}
        for line in lines:
            last = json.loads(line) if line else last
        assert (last["type"], last["reason"]) == ("reset", "slow")


def test_exceeding_the_limit_of_watched_folders_is_reported(fresh_box: Box) -> None:
    watch = Watch(fresh_box)
    shell(fresh_box, "seq 5000 | xargs mkdir")
    eventually(lambda: any(event["type"] == "reset" for event in watch.events), 120)
    assert next(event for event in watch.events if event["type"] == "reset")["reason"] == "limit"
    again = Watch(fresh_box)
    assert again.events[0]["complete"] is False
    os.rmdir(fresh_box.data / "1")
    again.until(("remove", "1"))


def test_the_number_of_watches_is_bounded(fresh_box: Box) -> None:
    watches = [Watch(fresh_box) for _ in range(32)]
    assert fresh_box.http.get(WATCH).status_code == 429
    watches[0].close()
    fresh_box.http.put(FILES + "f", content=b"")
    eventually(lambda: watches[0].ended)
    watches.append(Watch(fresh_box))
    for watch in watches:
        watch.close()
