"""Process information from /proc, and notification of a process's end without polling."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

from codebox_server.bounds import NICE

_TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")
_POLL_SECONDS = 0.1
_ENVIRONMENT_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Death:
    """How a process ended. `returncode` is negative for a signal. `cpu_ms` and `peak_bytes` cover its whole life."""

    returncode: int
    cpu_ms: float | None = None
    peak_bytes: int | None = None

    @property
    def signal(self) -> str | None:
        """The name of the signal that ended it, such as SIGKILL."""
        if self.returncode >= 0:
            return None
        try:
            return signal.Signals(-self.returncode).name
        except ValueError:
            return f"SIG{-self.returncode}"

    @property
    def exit_code(self) -> int | None:
        """The exit code, None when a signal ended it."""
        return self.returncode if self.returncode >= 0 else None


def reap(pid: int) -> Death | None:
    """Reap a child that has ended, with its use of resources; None while it runs."""
    try:
        found, status, usage = os.wait4(pid, os.WNOHANG)
    except ChildProcessError:
        # Somebody else reaped it: its exit status is lost, but it has ended.
        return Death(-int(signal.SIGKILL))
    if found == 0:
        return None
    cpu_ms = (usage.ru_utime + usage.ru_stime) * 1000
    return Death(os.waitstatus_to_exitcode(status), cpu_ms, usage.ru_maxrss * 1024)


def watch_exit(pid: int, on_exit: Callable[[], object]) -> Callable[[], None]:
    """Call `on_exit` once, in the event loop, when the process has ended. Returns a function that stops watching."""
    loop = asyncio.get_running_loop()
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        handle = loop.call_soon(on_exit)
        return handle.cancel
    except OSError:
        return _poll_exit(pid, on_exit)
    closed = False

    def stop() -> None:
        nonlocal closed
        if not closed:
            closed = True
            loop.remove_reader(fd)
            os.close(fd)

    def fire() -> None:
        stop()
        on_exit()

    loop.add_reader(fd, fire)
    return stop


def _poll_exit(pid: int, on_exit: Callable[[], object]) -> Callable[[], None]:
    """The same where the host has no pidfd_open (old kernels, some sandboxes)."""
    loop = asyncio.get_running_loop()
    handle: asyncio.TimerHandle

    def check() -> None:
        nonlocal handle
        if _ended(pid):
            on_exit()
        else:
            handle = loop.call_later(_POLL_SECONDS, check)

    handle = loop.call_later(_POLL_SECONDS, check)
    return lambda: handle.cancel()


def _ended(pid: int) -> bool:
    fields = stat_fields(pid)
    return fields is None or fields[0] in (b"Z", b"X")


def read_small(path: str) -> bytes:
    """Return the first 4 KiB of a file of the kernel. Raises OSError. Used around every execution, so it is short."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 4096)
    finally:
        os.close(fd)


def _write_small(path: str, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


def stat_fields(pid: int) -> list[bytes] | None:
    """Return the fields of /proc/<pid>/stat after the command name, None when there is no such process."""
    try:
        return read_small(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    except OSError:
        # The process has ended.
        return None


def session_of(pid: int) -> int | None:
    """Return the session of a living process; None when it has ended."""
    fields = stat_fields(pid)
    return None if fields is None or fields[0] in (b"Z", b"X") else int(fields[3])


def starting_environment(pid: int) -> bytes:
    """Return the `NAME=value` texts of a process's initial environment, each ended by NUL; empty when unreadable."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read(_ENVIRONMENT_BYTES)
    except OSError:
        # It has ended, or belongs to another user and so not to us.
        return b""


def cpu_ms(pids: list[int]) -> float:
    """Return the CPU time of the processes and the children that they waited for, in milliseconds."""
    total = 0
    for pid in pids:
        fields = stat_fields(pid)
        if fields is not None:
            total += sum(int(value) for value in fields[11:15])
    return total * _TICK_MS


def children(pid: int) -> list[int]:
    """Return the processes that the main thread of `pid` started; empty where the host does not list them."""
    try:
        return [int(child) for child in read_small(f"/proc/{pid}/task/{pid}/children").split()]
    except OSError:
        # It has ended, or the host lacks CONFIG_PROC_CHILDREN: only the parent is measured.
        return []


def reset_peak(pids: list[int]) -> None:
    """Reset the high-water mark of memory."""
    for pid in pids:
        # Not permitted in some sandboxes: then the peak is that of the whole life, as documented.
        with contextlib.suppress(OSError):
            _write_small(f"/proc/{pid}/clear_refs", b"5")


def peak_bytes(pids: list[int]) -> int:
    """Return the sum of the high-water marks of memory (VmHWM)."""
    total = 0
    for pid in pids:
        # A process that has ended counts as nothing.
        with contextlib.suppress(OSError):
            _, found, rest = read_small(f"/proc/{pid}/status").partition(b"VmHWM:")
            # Missing for a process that has ended and was not reaped yet.
            total += int(rest.split(maxsplit=1)[0]) * 1024 if found else 0
    return total


def place_below(pid: int) -> None:
    """Give this process, and what it starts, a lower CPU priority than the box server, and let the OOM killer take it
    first.
    """
    # Both are always allowed; a process that has ended needs neither.
    with contextlib.suppress(OSError):
        _write_small(f"/proc/{pid}/oom_score_adj", b"1000")
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, 0) + NICE)


def signal_group(pid: int, number: signal.Signals) -> None:
    """Send a signal to the process group that `pid` leads; does nothing when it has ended."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)
