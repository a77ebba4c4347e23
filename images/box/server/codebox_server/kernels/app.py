"""ipykernel's application, adapted to a box: no TCP, no debugger, output that is fast and never lost."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

# The debugger costs 100 ms at start and extra threads; ipykernel works without it when debugpy cannot be imported.
sys.modules["debugpy"] = None  # type: ignore[assignment]
import ipykernel.debugger  # noqa: E402, F401

del sys.modules["debugpy"]

import zmq  # noqa: E402
from ipykernel.iostream import IOPubThread  # noqa: E402
from ipykernel.kernelapp import IPKernelApp  # noqa: E402
from tornado.ioloop import IOLoop  # noqa: E402
from traitlets.config import Config  # noqa: E402
from zmq.eventloop.zmqstream import ZMQStream  # noqa: E402

from codebox_server.kernels.outstream import survive_with  # noqa: E402
from codebox_server.system.recording import RecordsItsLevel  # noqa: E402

_KERNELS = {
    "python": "codebox_server.kernels.python.kernel.PythonKernel",
    "bash": "codebox_server.kernels.bash.kernel.BashKernel",
    "javascript": "codebox_server.kernels.javascript.kernel.JavaScriptKernel",
    "typescript": "codebox_server.kernels.javascript.kernel.TypeScriptKernel",
}
# How many messages may wait for a slow reader before the code that prints has to wait too.
_SEND_QUEUE = 200
_ROOM_SECONDS = 1.0


class IpcIOPubThread(IOPubThread):
    """The sending thread; forked children hand their output over through a Unix socket instead of TCP."""

    pipe_address = ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._woken = False
        super().__init__(*args, **kwargs)

    def schedule(self, f: Callable[[], Any]) -> None:
        """Run `f` in the sending thread. Wakes it once for everything that is queued, and blocks when too much is
        queued.
        """
        if not self.thread.is_alive():
            f()
            return
        self._events.append(f)
        if not self._woken:
            self._woken = True
            self._event_pipe.send(b"")
        if len(self._events) > _SEND_QUEUE and threading.current_thread() is not self.thread:
            self._await_room()

    def _await_room(self) -> None:
        room = threading.Event()
        self._events.append(room.set)
        while not room.wait(_ROOM_SECONDS) and self.thread.is_alive():
            pass

    def _handle_event(self, msg: Any) -> None:
        # Before the queue is examined: anything added from now on wakes this thread again.
        self._woken = False
        super()._handle_event(msg)

    def _setup_pipe_in(self) -> None:
        self._pipe_uuid = b"codebox"
        pipe_in = self.socket.context.socket(zmq.PULL)
        pipe_in.linger = 0
        pipe_in.bind(self.pipe_address)
        self._pipe_in = ZMQStream(pipe_in, self.io_loop)
        self._pipe_in.on_recv(self._handle_pipe_msg)

    def _setup_pipe_out(self) -> tuple[Any, Any]:
        context: zmq.Context[Any] = zmq.Context()
        pipe_out = context.socket(zmq.PUSH)
        pipe_out.linger = 3000
        pipe_out.connect(self.pipe_address)
        return context, pipe_out


class BoxKernelApp(RecordsItsLevel, IPKernelApp):
    """A kernel of any of our languages."""

    def parse_command_line(self, argv: Any = None) -> None:
        """Do nothing: there are no arguments, and creating a parser for them takes longer than a fork."""

    def init_iopub(self, context: Any) -> None:
        """As in stock ipykernel, but over ipc, and blocking instead of dropping when the reader is behind."""
        self.iopub_socket = context.socket(zmq.XPUB)
        self.iopub_socket.linger = 1000
        self.iopub_socket.sndhwm = _SEND_QUEUE
        self.iopub_socket.setsockopt(zmq.XPUB_NODROP, 1)
        self.iopub_port = self._bind_socket(self.iopub_socket, self.iopub_port)
        self.configure_tornado_logger()
        IpcIOPubThread.pipe_address = f"ipc://{self.ip}-pipe"
        self.iopub_thread = IpcIOPubThread(self.iopub_socket, pipe=True, session=self.session)
        self.iopub_thread.start()
        self.iopub_socket = self.iopub_thread.background_socket

    def init_control(self, context: Any) -> None:
        """As in stock ipykernel, without subshells: they cost two thread switches for every request."""
        super().init_control(context)
        self.shell_channel_thread = None

    def start(self) -> None:
        """As in stock ipykernel, but an exception of a task that would end the process, such as `sys.exit()`, ends that
        task alone.
        """
        if self.poller is not None:
            self.poller.start()
        self.kernel.start()
        self.io_loop = IOLoop.current()
        while True:
            try:
                self.io_loop.start()
            except (KeyboardInterrupt, SystemExit):
                # IPython catches those of a cell; asyncio also lets those of other tasks out of its loop.
                continue
            return

    def init_extensions(self) -> None:
        """Load our own extension only: a profile in the home folder must not change the kernel."""
        from codebox_server.kernels.python.extension import load

        load(self.shell)


def config_of(language: str) -> Config:
    """Return the configuration of a kernel, before that of its user."""
    config = Config()
    config.IPKernelApp.kernel_class = _KERNELS[language]
    config.IPKernelApp.outstream_class = "codebox_server.kernels.outstream.BoxOutStream"
    # The history would be a database in the home folder, which may be full or read-only.
    config.HistoryManager.enabled = False
    config.Session.packer = "codebox_server.kernels.packing.pack"
    config.IPCompleter.use_jedi = False
    # ipykernel pauses after each run so that its output is sent first; here output is sent in order anyway.
    config.Kernel._execute_sleep = 0.0
    return config


def launch(
    language: str,
    connection_file: str,
    descriptors: list[int],
    on_ready: Callable[[], None] = lambda: None,
    parent: int | None = None,
) -> None:
    """Run the kernel of a language until it is shut down.

    `descriptors` are those of the box server's FinalOutput, if any. `on_ready` is called when its sockets are bound.
    The kernel ends with the process `parent`, by default the one that the environment named when ipykernel was
    loaded.
    """
    if descriptors:
        survive_with(descriptors)
    known = {} if parent is None else {"parent_handle": parent}
    app = BoxKernelApp.instance(config=config_of(language), connection_file=connection_file, **known)
    app.initialize([])
    on_ready()
    app.start()
