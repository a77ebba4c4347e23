"""Turns a fork of the fork server into a kernel: sets up everything that a new process would have of its own."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import signal
import site
import sys
import sysconfig
import threading

from codebox_server.forks.renewal import renew
from codebox_server.forks.wire import ForkRequest

_KERNEL_SCORE = "1000"


def become_kernel(request: ForkRequest, descriptors: list[int]) -> None:
    """Run the kernel of a request until it ends.

    The first descriptor carries the go-ahead and the notice that the kernel is ready, the others are those of
    FinalOutput.
    """
    channel, *output = descriptors
    os.setsid()
    # A closed channel means that the requester has given up.
    if os.read(channel, 1) != b"g":
        os._exit(0)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        # The kernel is to be killed before the fork server and everything else; some hosts do not support this.
        file.write(_KERNEL_SCORE)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    # As after a normal start: the interpreter and its flags first, then the program and its arguments.
    sys.argv[:] = request["argv"][2:]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    renew(with_numpy=True)
    _find_user_packages()
    gc.enable()
    from codebox_server.kernels.app import launch

    _, language, connection_file = sys.argv
    launch(language, connection_file, output, on_ready=lambda: _report_ready(channel), parent=os.getppid())
    _leave()


def _report_ready(channel: int) -> None:
    # The requester may have gone; the kernel is reachable by its sockets.
    with contextlib.suppress(OSError):
        os.write(channel, b"r")
    os.close(channel)


def _leave() -> None:
    """End as an interpreter does, in the same order, but without taking every module apart.

    That would touch, and so copy, all the shared memory, and take longer than everything else.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    # The shell drops the variables here, which closes what they hold open.
    atexit._run_exitfuncs()
    gc.collect()
    os._exit(0)


def _find_user_packages() -> None:
    """Find packages in the home folder, which were installed since: the fork server was started without a home.

    Folders that were found before the fork are read again when their times change. Those that were missing then are
    looked for again.
    """
    for path in [path for path, finder in sys.path_importer_cache.items() if finder is None]:
        del sys.path_importer_cache[path]
    site.USER_BASE = site.USER_SITE = None
    sysconfig.get_config_vars()["userbase"] = site.getuserbase()
    site.getusersitepackages()
    if not site.ENABLE_USER_SITE:
        return
    known = list(sys.path)
    site.addusersitepackages({os.path.normcase(path) for path in known})
    added = [path for path in sys.path if path not in known]
    # In the same place as after a normal start: the user's own packages first, see `precedence`.
    place = next((at for at, path in enumerate(known) if path.endswith("-packages")), len(known))
    sys.path[:] = [*known[:place], *added, *known[place:]]
    site.execusercustomize()
