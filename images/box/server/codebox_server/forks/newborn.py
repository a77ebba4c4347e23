"""From a fork of the fork server to a kernel: everything that a new process would have of its own."""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import os
import random
import signal
import site
import sys
import sysconfig
import threading
import time

from codebox_server.forks.wire import ForkRequest

_KERNEL_SCORE = "1000"


def become_kernel(request: ForkRequest, descriptors: list[int]) -> None:
    """Be the kernel of a request until it ends.

    The first descriptor brings the word to begin and takes that it is ready, the others are those of its LastWords.
    """
    channel, *last_words = descriptors
    os.setsid()
    # Silence means that whoever asked has given up.
    if os.read(channel, 1) != b"g":
        os._exit(0)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        # Before the fork server and everything else; a host that forbids this has no such notion.
        file.write(_KERNEL_SCORE)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    # As after a start: the interpreter and its flags before, the program and its arguments.
    sys.argv[:] = request["argv"][2:]
    time.tzset()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _renew_random()
    _find_user_packages()
    gc.enable()
    from codebox_server.kernels.app import launch

    _, language, connection_file = sys.argv
    launch(language, connection_file, last_words, on_ready=lambda: _tell_ready(channel), parent=os.getppid())
    _leave()


def _tell_ready(channel: int) -> None:
    # Who asked may have gone; the kernel is reached by its sockets.
    with contextlib.suppress(OSError):
        os.write(channel, b"r")
    os.close(channel)


def _leave() -> None:
    """End as an interpreter does, in the same order, up to where it would take every module apart.

    That touches, and so copies, all the memory that is shared, and takes longer than all the rest.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    # The shell drops the variables here, which closes what they hold open.
    atexit._run_exitfuncs()
    gc.collect()
    os._exit(0)


def _renew_random() -> None:
    """Two kernels must not draw the same numbers. Other generators take their seed from the system when made."""
    random.seed()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()


def _find_user_packages() -> None:
    """What has been installed since, in the home folder: the fork server has started without one."""
    importlib.invalidate_caches()
    sys.path_importer_cache.clear()
    site.USER_BASE = site.USER_SITE = None
    sysconfig.get_config_vars()["userbase"] = site.getuserbase()
    site.getusersitepackages()
    if not site.ENABLE_USER_SITE:
        return
    known = list(sys.path)
    site.addusersitepackages({os.path.normcase(path) for path in known})
    added = [path for path in sys.path if path not in known]
    # They stand where a start puts them: behind the environment's own packages, before those of the system.
    own = [at for at, path in enumerate(known) if path.startswith(sys.prefix) and "-packages" in path]
    place = max(own, default=-1) + 1 if sys.prefix != sys.base_prefix else _first_packages(known)
    sys.path[:] = [*known[:place], *added, *known[place:]]
    site.execusercustomize()


def _first_packages(paths: list[str]) -> int:
    return next((at for at, path in enumerate(paths) if path.endswith("-packages")), len(paths))
