"""The Bash kernel: one interactive shell over pipes, so that variables, functions and the folder persist."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from pathlib import Path

from codebox_server.kernels.child import ChildKernel, write_all
from codebox_server.kernels.environment import Changes

_INIT = Path(__file__).with_name("session.bash")
# The code comes from a descriptor, so its text is never part of a line that the shell parses. Commands get no stdin and
# none of our descriptors.
_RUN = b'__codebox_begin; eval -- "$__codebox_code" </dev/null 20<&- 21>&- 22>&-\n'
_CHANGE = b"__codebox_change\n"


class BashKernel(ChildKernel):
    """A cell with a non-zero exit status ends as the error `ExitStatus`."""

    implementation = "codebox-bash"
    banner = "Bash"
    language_info = {
        "name": "bash",
        "mimetype": "text/x-sh",
        "file_extension": ".sh",
        "codemirror_mode": "shell",
        "version": "",
    }

    def start_child(self) -> subprocess.Popen[bytes]:
        """Start an interactive shell: only that kind survives an interrupt with its variables."""
        code_out, self._code = os.pipe()
        status, status_in = os.pipe()
        variables, variables_in = os.pipe()
        self._ready = False
        self._cell = 0
        child = subprocess.Popen(
            ["bash", "--noprofile", "--norc", "--noediting", "-i"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(code_out, status_in, variables_in),
        )
        os.close(code_out)
        os.close(status_in)
        os.close(variables_in)
        assert child.stdin and child.stdout and child.stderr
        self.watch(status, self._on_status)
        self._fields = b""
        self.watch(variables, self._on_fields)
        self._stdin = child.stdin.fileno()
        self._streams = {"stdout": os.dup(child.stdout.fileno()), "stderr": os.dup(child.stderr.fileno())}
        child.stdout.close()
        child.stderr.close()
        # Descriptors below 20 belong to the user.
        inner = {code_out: "20<&", status_in: "21>&", variables_in: "22>&"}
        moves = " ".join(f"{to}{fd} {fd}>&-" for fd, to in inner.items())
        move = f"exec {moves}; . {_quote(str(_INIT))}\n"
        write_all(self._stdin, move.encode())
        return child

    async def send_code(self, code: str, env: dict[str, str], silent: bool) -> None:
        """Send environment and code as data, then the line that runs them."""
        self._cell += 1
        await self._send(_RUN, [str(self._cell), str(len(env)), *(item for pair in env.items() for item in pair), code])

    async def send_changes(self, changes: Changes) -> None:
        """Send the changes as data, then the line that applies them."""
        fields = ((name, "" if value is None else f"={value}") for name, value in changes.items())
        await self._send(_CHANGE, [str(len(changes)), *(item for pair in fields for item in pair)])

    async def _send(self, line: bytes, parts: list[str]) -> None:
        data = "".join(part.replace("\0", "") + "\0" for part in parts).encode("utf-8", "surrogateescape")
        write_all(self._stdin, line)
        # A long text has to wait until the shell reads it.
        await asyncio.to_thread(write_all, self._code, data) if len(data) > 32_768 else write_all(self._code, data)

    def interrupt_child(self) -> None:
        """Send SIGINT to the group: the shell, the commands that it runs, and this process, which ignores it."""
        os.killpg(os.getpgid(0), signal.SIGINT)

    def request_variables(self) -> None:
        """Run a function of the shell that writes the variables to a descriptor of its own."""
        self._fields = b""
        write_all(self._stdin, b"__codebox_variables\n")

    def _on_fields(self, data: bytes) -> None:
        self._fields += data
        # Without any variables there is only the end mark.
        if self._fields != b"\0" and not self._fields.endswith(b"\0\0"):
            return
        fields = self._fields[:-2].decode("utf-8", "replace").split("\0") if len(self._fields) > 2 else []
        names, attributes, lengths, previews = (fields[at::4] for at in range(4))
        self.report_variables(
            [
                {"name": name, "type": _type_of(attribute), "length": int(length), "preview": preview}
                for name, attribute, length, preview in zip(names, attributes, lengths, previews, strict=False)
            ]
        )

    def close_child(self) -> None:
        """Close our ends of its pipes."""
        os.close(self._code)
        if not self._ready:
            for fd in self._streams.values():
                os.close(fd)

    def _on_status(self, data: bytes) -> None:
        for line in data.decode().splitlines():
            cell, status = line.split()
            if cell == "changed":
                self.report_changed()
            # A late interrupt makes the shell report its end twice.
            elif int(cell) == self._cell:
                self._on_end(status)

    def _on_end(self, status: str) -> None:
        if not self._ready:
            self._begin_streams()
            self.finish({})
            return
        self.finish({} if status == "0" else {"error": {"name": "ExitStatus", "value": status, "traceback": []}})

    def _begin_streams(self) -> None:
        """Forward output from now on; by now a shell without a terminal has printed its complaint about that."""
        self._ready = True
        for name, fd in self._streams.items():
            os.set_blocking(fd, False)
            _discard(fd)
            self.watch_stream(fd, name)


def _type_of(attributes: str) -> str:
    kinds = {"A": "map", "a": "array", "i": "integer"}
    return next((kind for flag, kind in kinds.items() if flag in attributes), "string")


def _discard(fd: int) -> None:
    try:
        while os.read(fd, 65_536):
            pass
    except BlockingIOError:
        # The pipe is empty now.
        return


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
