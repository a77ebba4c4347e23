"""A client for one running box server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import httpx

# Each process that runs tests has a user of its own, as boxes do: limits on the processes of a user and `kill -1` then
# affect no other tests.
UID = 100_000 + os.getpid() % 1_000_000
PACKAGE = Path(__file__).parent.parent
START_SECONDS = 60
INSTANCE, TOKEN = "i-test", "the-token-of-this-box"
# The headers of requests that tests write by hand.
HEAD = f"Host: localhost\r\nX-CodeBox-Token: {TOKEN}\r\n"

T = TypeVar("T")


class Box:
    """Sends requests to a running server, over its Unix socket or over TCP."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes], url: str | None = None) -> None:
        self.folder = folder
        self.process = process
        self.url = url
        self.socket = str(folder / "box.sock")
        self.data = folder / "root" / "data"
        self.upload = folder / "root" / ".upload"
        self.http = self.client()

    def client(self) -> httpx.Client:
        """A client that sends the token, over TCP where the server has a `url`."""
        return httpx.Client(
            # Without `verify` it does not load the certificates, which takes 30 ms.
            transport=httpx.HTTPTransport(uds=None if self.url else self.socket, verify=False),
            base_url=self.url or "http://localhost",
            headers={"X-CodeBox-Token": TOKEN},
            timeout=120,
        )

    @contextmanager
    def small_folder(self, name: str, size: str) -> Iterator[Path]:
        """Have a folder of its own small file system in the working folder."""
        folder = self.data / name
        folder.mkdir()
        mounted = (
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=777", "none", folder]).returncode == 0
        )
        assert mounted, "this test mounts a small file system and needs root"
        try:
            yield folder
        finally:
            subprocess.run(["umount", folder], check=True)
            folder.rmdir()

    def start(self, code: str, language: str = "python", timeout_ms: int = 30_000, **fields: Any) -> Run:
        """Start an execution; a thread reads its events."""
        body = {"code": code, "language": language, "timeoutMs": timeout_ms, **fields}
        return Run(self, "executions", uuid.uuid4().hex, body)

    def run(self, code: str, language: str = "python", **fields: Any) -> list[dict[str, Any]]:
        """Run code to its end and return the events."""
        return self.start(code, language, **fields).wait()

    def command(self, command: str | None = None, **fields: Any) -> Run:
        """Start a command; a thread reads its events."""
        body = {**({"command": command} if command is not None else {}), **fields}
        return Run(self, "commands", uuid.uuid4().hex, body)

    def context(self, language: str = "python") -> str:
        """Create a context through the stock API and return its id."""
        response = self.http.post("/api/kernels", json={"name": language})
        assert response.status_code == 201, response.text
        return response.json()["id"]

    def remove_contexts(self) -> None:
        """Delete all contexts, including the default ones, which the next run creates again."""
        for kernel in self.http.get("/api/kernels").json():
            assert self.http.delete(f"/api/kernels/{kernel['id']}").status_code == 204

    def fork_server(self) -> int | None:
        """Return the process id of the fork server, if it runs. Forked kernels have its command line but another score."""
        for pid in children(self.process.pid):
            with suppress(OSError):
                if Path(f"/proc/{pid}/oom_score_adj").read_text().strip() == "900":
                    return pid
        return None

    def await_fork_server(self) -> int:
        """Wait until the fork server has loaded its libraries, and return its process id."""
        pid = eventually(self.fork_server, 120)
        assert self.http.post("/codebox/warm", json={"languages": ["python"]}).status_code == 204
        return pid

    def pids(self) -> list[int]:
        """Return the process ids of the server and its descendants."""
        found = [self.process.pid]
        for pid in found:
            found += children(pid)
        return found


class Run:
    """An execution or command whose events a thread reads."""

    def __init__(self, box: Box, kind: str, run_id: str, body: dict[str, Any]) -> None:
        self.box, self.id, self.path = box, run_id, f"/codebox/{kind}/{run_id}"
        self.events: list[dict[str, Any]] = []
        self.status = 0
        self.error: dict[str, Any] = {}
        self._changed = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._read, args=(body,), daemon=True)
        self._thread.start()

    def _read(self, body: dict[str, Any]) -> None:
        try:
            with self.box.client() as client, client.stream("PUT", self.path, json=body) as response:
                self.status = response.status_code
                if response.status_code != 200:
                    self.error = json.loads(response.read())
                    return
                for line in response.iter_lines():
                    if line:
                        with self._changed:
                            self.events.append(json.loads(line))
                            self._changed.notify_all()
        except httpx.HTTPError as error:
            self.error = {"code": "connection", "detail": str(error)}
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def until(self, kind: str, seconds: float = 60) -> dict[str, Any]:
        """Wait for the first event of a kind and return it."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or any(e["type"] == kind for e in self.events), seconds)
        for event in self.events:
            if event["type"] == kind:
                return event
        raise AssertionError(f"no {kind} in {self.events} {self.error}")

    def join(self, seconds: float = 120) -> None:
        """Wait until the stream has ended, for whatever reason."""
        self._thread.join(seconds)
        assert not self._thread.is_alive(), f"still running: {self.events[-3:]}"

    def wait(self, seconds: float = 120) -> list[dict[str, Any]]:
        """Wait for the `done` event and return all events."""
        self.join(seconds)
        assert self.status == 200, self.error
        assert [event["seq"] for event in self.events] == list(range(1, len(self.events) + 1))
        assert self.events[-1]["type"] == "done"
        return self.events

    def get(self) -> dict[str, Any]:
        return self.box.http.get(self.path).json()

    def post(self, what: str, **body: Any) -> httpx.Response:
        return self.box.http.post(f"{self.path}/{what}", json=body)

    def interrupt(self) -> httpx.Response:
        return self.box.http.post(f"{self.path}/interrupt")


def text(events: list[dict[str, Any]], name: str = "stdout") -> str:
    return "".join(event["text"] for event in events if event["type"] == name)


def of(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["type"] == kind]


def result(events: list[dict[str, Any]]) -> str:
    return of(events, "result")[0]["mime"]["text/plain"]


def refusal(response: httpx.Response) -> tuple[int, str, str | None]:
    """Return status, code and pointer of an error response."""
    body = response.json()
    return response.status_code, body["code"], body.get("pointer")


def children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    except OSError:
        return found
    return found


def eventually(check: Callable[[], T | None], seconds: float = 30) -> T:
    """Wait until a condition holds, and return its value."""
    end = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < end, "did not happen"
        time.sleep(0.02)
    return found


def control_group(folder: Path, counters: dict[str, str]) -> Path:
    """Create the files of a fake control group, which code of the box can write to, and return its folder."""
    group = folder / "cgroup"
    group.mkdir(mode=0o755)
    for name, text in {"pids.current": "5\n", "pids.max": "1000\n", **counters}.items():
        (group / name).write_text(text)
        (group / name).chmod(0o666)
    return group


@contextmanager
def start_box(folder: Path, url: str | None = None, *, forks: bool = True, **env: str) -> Iterator[Box]:
    """Run a server in a folder. `url` is its address when `CODEBOX_LISTEN` makes it listen on TCP.

    Without `forks` it has too little memory for a fork server, whose start costs more than that of a few kernels.
    """
    if not forks:
        env["CODEBOX_CGROUP"] = str(control_group(folder, {"memory.max": f"{256 << 20}\n"}))
    for name in ("root", "run"):
        (folder / name).mkdir()
        os.chmod(folder / name, 0o777)
    drop = ["setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups"] if os.getuid() == 0 else []
    settings = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(PACKAGE),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": "/nonexistent",
        "CODEBOX_INSTANCE": INSTANCE,
        "CODEBOX_LISTEN": f"unix:{folder / 'box.sock'}",
        "CODEBOX_ROOT": str(folder / "root"),
        "CODEBOX_RUNTIME_DIR": str(folder / "run"),
        **env,
    }
    with _token_in_pipe() as token, open(folder / "log", "wb") as log:
        # As start.sh does.
        process = subprocess.Popen(
            [*drop, sys.executable, "-P", "-m", "codebox_server"],
            cwd="/",
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=[token],
            env={**settings, "CODEBOX_TOKEN_FD": str(token)},
        )
    box = Box(folder, process, url)
    try:
        _await_health(box, folder)
        yield box
    finally:
        box.http.close()
        everything = box.pids()
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
        for pid in everything:
            _kill(pid)


@contextmanager
def _token_in_pipe() -> Iterator[int]:
    reading, writing = os.pipe()
    os.write(writing, f"{TOKEN}\n".encode())
    os.close(writing)
    try:
        yield reading
    finally:
        os.close(reading)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        return


def _await_health(box: Box, folder: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            if box.http.get("/codebox/health").status_code == 200:
                return
        except httpx.TransportError:
            pass
        log = (folder / "log").read_text()
        assert box.process.poll() is None, log
        assert time.monotonic() < end, log
        time.sleep(0.05)
