"""Runs file jobs in processes: few at once, with a deadline, killed when nobody waits for them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import codebox_server
from codebox_server.bounds import JOB_ERROR_BYTES, JOB_RESULT_BYTES, JOBS_RUNNING, READ_BATCH_BYTES
from codebox_server.errors import STATUS, BoxError
from codebox_server.files.jobs.__main__ import REFUSED
from codebox_server.system.process import place_below, signal_group

_PACKAGES = str(Path(codebox_server.__file__).parent.parent)


class Workers:
    """Runs jobs. A job beyond the limit raises too_many_requests."""

    def __init__(self) -> None:
        self._running = 0

    async def run(self, job: str, fields: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Run a job and return its result. Raises the job's refusal, or timeout. Cancelling it kills the job."""
        argv = [sys.executable, "-s", "-m", "codebox_server.files.jobs", job]
        async with self._started(argv, json.dumps(fields).encode()) as process, _deadline(seconds):
            out, err = await asyncio.gather(_read(process.stdout, JOB_RESULT_BYTES), _read(process.stderr))
            _check(await process.wait(), err)
        return json.loads(out) if out else {}

    async def stream(self, job: str, fields: dict[str, Any]) -> AsyncGenerator[bytes]:
        """Yield what a job writes, piece by piece. Raises the job's refusal before the first piece, or its later
        failure.
        """
        argv = [sys.executable, "-s", "-m", "codebox_server.files.jobs", job]
        async with self._started(argv, json.dumps(fields).encode()) as process:
            assert process.stdout is not None
            errors = asyncio.ensure_future(_read(process.stderr))
            try:
                while chunk := await process.stdout.read(READ_BATCH_BYTES):
                    yield chunk
                _check(await process.wait(), await errors)
            finally:
                errors.cancel()

    async def take(self, job: str, fields: dict[str, Any], feed: asyncio.Queue[bytes | None]) -> dict[str, Any]:
        """Run a job on the data that arrives through `feed`, up to None, and return its result. Raises the job's
        refusal.
        """
        argv = [sys.executable, "-s", "-m", "codebox_server.files.jobs", job, json.dumps(fields)]
        async with self._started(argv, None) as process:
            outputs = asyncio.gather(_read(process.stdout, JOB_RESULT_BYTES), _read(process.stderr))
            feeding = asyncio.ensure_future(_feed_all(process, feed))
            try:
                out, err = await outputs
                _check(await process.wait(), err)
            finally:
                feeding.cancel()
        return json.loads(out) if out else {}

    async def copy(self, source: str, target: str, seconds: float) -> None:
        """Copy a file, link or folder with modes and times, links as links, to a free path."""
        argv = ["cp", "--archive", "--no-target-directory", "--", source, target]
        async with self._started(argv, b"") as process, _deadline(seconds):
            err, _ = await asyncio.gather(_read(process.stderr), _read(process.stdout))
            if await process.wait() != 0:
                raise _copy_error(err.decode(errors="replace"))

    @contextlib.asynccontextmanager
    async def _started(self, argv: list[str], stdin: bytes | None) -> AsyncIterator[asyncio.subprocess.Process]:
        if self._running >= JOBS_RUNNING:
            raise BoxError("too_many_requests", f"a box works on at most {JOBS_RUNNING} file jobs at once")
        self._running += 1
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=READ_BATCH_BYTES,
                cwd="/",
                env={**os.environ, "PYTHONPATH": _PACKAGES, "LC_ALL": "C.UTF-8"},
                start_new_session=True,
            )
            try:
                # The server survives when a job runs out of memory.
                place_below(process.pid)
                if stdin is not None:
                    await _feed(process, stdin)
                yield process
            finally:
                if process.returncode is None:
                    # Everything that the job started ends with it.
                    signal_group(process.pid, signal.SIGKILL)
                    await process.wait()
        finally:
            self._running -= 1


async def _feed(process: asyncio.subprocess.Process, data: bytes) -> None:
    assert process.stdin is not None
    with contextlib.suppress(ConnectionError):
        # The exit code of a job that has ended already says why.
        process.stdin.write(data)
        await process.stdin.drain()
    process.stdin.close()


async def _feed_all(process: asyncio.subprocess.Process, feed: asyncio.Queue[bytes | None]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(ConnectionError):
        while chunk := await feed.get():
            process.stdin.write(chunk)
            await process.stdin.drain()
    process.stdin.close()


async def _read(stream: asyncio.StreamReader | None, most: int = JOB_ERROR_BYTES) -> bytes:
    """Read to the end; bytes beyond `most` are dropped."""
    assert stream is not None
    kept = bytearray()
    while chunk := await stream.read(READ_BATCH_BYTES):
        kept += chunk[: most - len(kept)]
    return bytes(kept)


@contextlib.asynccontextmanager
async def _deadline(seconds: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise BoxError("timeout", f"the operation took longer than {seconds:g} s") from None


def _check(code: int, err: bytes) -> None:
    if code == 0:
        return
    if code == -signal.SIGKILL:
        raise BoxError("too_large", "the box has not enough memory for this")
    if code == REFUSED:
        with contextlib.suppress(ValueError):
            refusal = json.loads(err)
            if refusal.get("code") in STATUS:
                raise BoxError(refusal["code"], refusal["detail"], refusal.get("pointer"))
    raise RuntimeError(f"a job ended with {code}: {err.decode(errors='replace')[-2000:]}")


def _copy_error(err: str) -> BoxError:
    if "No space left" in err or "quota exceeded" in err:
        return BoxError("disk_full", "the disk of the box is full")
    if "File too large" in err:
        return BoxError("too_large", "a file is larger than the box allows")
    reason = err.strip().rsplit("\n", 1)[0].rsplit(": ", 1)[-1][:200]
    return BoxError("conflict", f"not everything could be copied: {reason}", "/from")
