"""One process started for a caller, in a process group of its own, with its streams recorded in a journal."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import logging
import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from codebox_server.bounds import COMMAND_TAIL, KILL_AFTER_SECONDS, PIPE_DRAIN_SECONDS, STDIN_BACKLOG_BYTES
from codebox_server.errors import BoxError, full
from codebox_server.files.scan import Scan, difference
from codebox_server.runs.cpu_clock import CpuClock
from codebox_server.runs.descendants import Descendants
from codebox_server.runs.journal import Journal, Journals
from codebox_server.runs.outcome import FULL, out_of_memory
from codebox_server.runs.output import Output
from codebox_server.runs.probe import Events, Probe
from codebox_server.runs.reports import Reports
from codebox_server.runs.trouble import trouble
from codebox_server.system.cgroup import Counts
from codebox_server.system.process import Death, cpu_ms, place_below, reap, signal_group, watch_exit
from codebox_server.system.process_table import all_pids

_READ_BYTES = 64 * 1024
_log = logging.getLogger(__name__)
_STATUS = {"cpu_limit": "timeout", "pids_limit": "killed"}
# The code and the detail of the cause, by the reason for ending a command.
_STOPS = {
    "pids_limit": ("pids_limit", FULL),
    "timeout": ("timeout", "the time limit has passed"),
    "cpu_limit": ("cpu_limit", "the limit on CPU time has been reached"),
    "output_limit": ("output_limit", "the run wrote more than a run may write"),
    "killed": ("signal", "it was ended on request"),
}


@dataclass(frozen=True)
class CommandRequest:
    """A command to start. Either `command`, a text for bash, or `argv`. `timeout_ms` None means no limit.

    `conclude` is called at the end, with the end of the output, for further fields of `done`.
    """

    id: str
    command: str | None
    argv: list[str] | None
    cwd: str
    timeout_ms: int | None
    env: dict[str, str] = field(default_factory=dict)
    conclude: Callable[[str], Awaitable[dict[str, Any]]] | None = None
    # CPU time of everything that it starts; None means no limit.
    cpu_limit_ms: int | None = None
    # Written to its stdin, which is then closed unless `open_stdin`.
    stdin: bytes = b""
    open_stdin: bool = False
    # The type of the events that it writes as lines of JSON to the descriptor in its last argument, if any.
    reports: str | None = None


class Command:
    """A running or ended process. `stop` is why it is being ended: timeout, cpu_limit, killed, output_limit."""

    def __init__(self, request: CommandRequest, journals: Journals, probe: Probe) -> None:
        self.request = request
        self.journal: Journal = journals.create()
        self.output = Output(self.journal, journals, lambda: self.end("output_limit"))
        self.state = "running"
        self.stop: str | None = None
        self._details: dict[str, Any] | None = None
        self.pid = 0
        self.done: dict[str, Any] | None = None
        self._probe = probe
        self._tail = ""
        self._loop = asyncio.get_running_loop()
        self._started_at = 0.0
        self._timers: list[asyncio.TimerHandle] = []
        self._open: dict[int, tuple[str, codecs.IncrementalDecoder]] = {}
        self._stdin: int | None = None
        self._backlog: deque[memoryview] = deque()
        self._backlog_bytes = 0
        self._eof = False
        self._death: Death | None = None
        self._ending: asyncio.Task[None] | None = None
        self._reports: Reports | None = None

    def start(self, env: dict[str, str], files: Scan) -> None:
        """Start the process. Raises invalid_request when it cannot be started, too_many_requests in a full box."""
        request = self.request
        argv = ["bash", "-c", request.command] if request.command is not None else request.argv
        reports = None if request.reports is None else Reports(request.reports, self.output)
        counts, before = self._probe.counts(), all_pids()
        try:
            process = subprocess.Popen(
                [*(argv or []), *([] if reports is None else [str(reports.writer)])],
                cwd=request.cwd,
                env={**env, **request.env},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                pass_fds=() if reports is None else (reports.writer,),
            )
        except BlockingIOError as error:
            raise full() from error
        except (OSError, ValueError) as error:
            raise BoxError("invalid_request", f"the command cannot be started: {error}") from error
        finally:
            if reports is not None:
                reports.handed_over()
        self.pid = process.pid
        self._reports = reports
        place_below(self.pid)
        self._started_at = time.monotonic()
        self._adopt(process)
        self.write(request.stdin, not request.open_stdin)
        self.output.announce("started", {"pid": self.pid})
        started = self._probe.follow(self.pid, before, lambda: self.end("pids_limit"))
        watch_exit(self.pid, lambda: self._on_exit(process, files, counts, started))
        self._cpu_clock = CpuClock(
            request.cpu_limit_ms,
            lambda: cpu_ms([self.pid]) + started.cpu_ms(),
            lambda: self.end("cpu_limit"),
        )
        if request.timeout_ms is not None:
            self._timers.append(self._loop.call_later(request.timeout_ms / 1000, self.end, "timeout"))

    def end(self, reason: str, details: dict[str, Any] | None = None) -> None:
        """Send SIGTERM to the group, SIGKILL after 2 s; the first reason wins. `details`: fields of the cause."""
        if self.stop is not None or self._death is not None:
            return
        self.stop, self._details = reason, details
        signal_group(self.pid, signal.SIGTERM)
        self._timers.append(self._loop.call_later(KILL_AFTER_SECONDS, signal_group, self.pid, signal.SIGKILL))

    def write(self, data: bytes, eof: bool) -> None:
        """Write to stdin. Raises conflict when that is closed, too_many_requests when the process does not read."""
        if self._stdin is None or self._eof or self._death is not None:
            detail = "the command has ended, or its stdin is closed: openStdin keeps it open"
            raise BoxError("conflict", detail, reason="not_waiting")
        if self._backlog_bytes + len(data) > STDIN_BACKLOG_BYTES:
            raise BoxError("too_many_requests", "the command does not read its stdin")
        if data:
            self._backlog.append(memoryview(data))
            self._backlog_bytes += len(data)
        self._eof = eof
        self._feed()

    def to_json(self) -> dict[str, Any]:
        """Return the command as the API represents it."""
        request = self.request
        what: dict[str, Any] = {"argv": request.argv} if request.command is None else {"command": request.command}
        return {
            "id": request.id,
            **what,
            "cwd": request.cwd,
            "pid": self.pid,
            "state": self.state,
            "lastSeq": self.journal.last_seq,
            "done": self.done,
        }

    def _adopt(self, process: subprocess.Popen[bytes]) -> None:
        """Take over the pipes from the object that would close them."""
        assert process.stdin and process.stdout and process.stderr
        for name, pipe in (("stdout", process.stdout), ("stderr", process.stderr)):
            fd = os.dup(pipe.fileno())
            pipe.close()
            os.set_blocking(fd, False)
            self._open[fd] = (name, codecs.getincrementaldecoder("utf-8")("replace"))
            self._loop.add_reader(fd, self._read, fd)
        self._stdin = os.dup(process.stdin.fileno())
        process.stdin.close()
        os.set_blocking(self._stdin, False)

    def _read(self, fd: int) -> None:
        name, decoder = self._open[fd]
        try:
            data = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if self.state == "running":
            text = decoder.decode(data, final=not data)
            self.output.stream(name, text)
            if self.request.conclude is not None:
                self._tail = (self._tail + text)[-COMMAND_TAIL:]
        if not data:
            self._loop.remove_reader(fd)
            os.close(fd)
            del self._open[fd]
            if not self._open and self._death is not None and self._ending is not None:
                self._drained.set()

    def _feed(self) -> None:
        fd = self._stdin
        if fd is None:
            return
        try:
            while self._backlog:
                written = os.write(fd, self._backlog[0])
                self._backlog_bytes -= written
                rest = self._backlog.popleft()[written:]
                if rest:
                    self._backlog.appendleft(rest)
        except BlockingIOError:
            self._loop.add_writer(fd, self._feed)
            return
        except OSError:
            # The reader has closed its end: there is nobody to write for.
            self._close_stdin()
            return
        self._loop.remove_writer(fd)
        if self._eof:
            self._close_stdin()

    def _close_stdin(self) -> None:
        fd, self._stdin = self._stdin, None
        self._backlog.clear()
        self._backlog_bytes = 0
        if fd is not None:
            self._loop.remove_writer(fd)
            os.close(fd)

    def _on_exit(self, process: subprocess.Popen[bytes], files: Scan, counts: Counts, started: Descendants) -> None:
        self._death = reap(self.pid) or Death(-int(signal.SIGKILL))
        process.returncode = self._death.returncode
        self._close_stdin()
        self._drained = asyncio.Event()
        for timer in self._timers:
            timer.cancel()
        self._cpu_clock.cancel()
        if self.stop is not None:
            # Children that ignored SIGTERM are killed with their leader.
            signal_group(self.pid, signal.SIGKILL)
        self._ending = asyncio.ensure_future(self._conclude(files, counts, started))

    async def _conclude(self, files: Scan, counts: Counts, started: Descendants) -> None:
        duration = (time.monotonic() - self._started_at) * 1000
        if self._open:
            # The last output of the process is still in the pipes. If a child keeps them open, its output is dropped
            # afterwards.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._drained.wait(), PIPE_DRAIN_SECONDS)
        death = self._death
        assert death is not None
        if self._reports is not None:
            self._reports.close()
        done: dict[str, Any] = {
            "exitCode": death.exit_code,
            "signal": death.signal,
            "durationMs": round(duration, 3),
        }
        try:
            done |= await self._account(death, files, counts, started)
        except Exception:
            # Its callers wait for its end.
            _log.exception("the end of a command failed in the box server")
            cause = {"code": "internal", "detail": "the box server failed; see its log"}
            unknown = {"cpuMs": round(death.cpu_ms or 0), "processes": [], "files": difference(files, files)}
            done |= {"status": "killed", "cause": cause, **unknown}
        if self.request.conclude is not None:
            try:
                done |= await self.request.conclude(self._tail)
            except Exception:
                _log.exception("the outcome of a command could not be read")
        self.state = "done"
        self.done = self.output.finish(done)

    async def _account(self, death: Death, files: Scan, counts: Counts, started: Descendants) -> dict[str, Any]:
        """Return how it ended, and what it used and left behind."""
        try:
            events = await self._probe.events(counts, started, self.stop == "cpu_limit", death.signal is not None)
            done = self._verdict(death, events)
            of_started, left = started.account()
            done |= {
                "cpuMs": round((death.cpu_ms or 0) + of_started),
                "processes": left,
                "files": difference(files, await self._probe.scan()),
            }
        finally:
            started.close()
        return done

    def _verdict(self, death: Death, events: Events) -> dict[str, Any]:
        if self.stop is not None:
            code, detail = _STOPS[self.stop]
            signalled = {} if death.signal is None else {"signal": death.signal}
            cause = {"code": code, "detail": detail, **(self._details or {}), **signalled}
            return {"status": _STATUS.get(self.stop, self.stop), "cause": cause}
        if events.oom is not None and death.signal == "SIGKILL":
            return {"status": "oom", "cause": out_of_memory("command", events.oom)}
        if death.signal is not None:
            detail = f"ended by {death.signal}"
            return {"status": "killed", "cause": {"code": "signal", "detail": detail, "signal": death.signal}}
        met = trouble(self._probe, events, death.exit_code != 0)
        well = "killed" if events.ended else "ok"
        return {"status": well if death.exit_code == 0 else "error", **({} if met is None else {"cause": met})}
