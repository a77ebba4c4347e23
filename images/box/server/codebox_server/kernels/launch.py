"""Start the kernel of a language, or the fork server of the box.

`python -P launch.py <language> <connection file> [<descriptors with commas>]`

Runs as a file and not as a module, so that nothing in the working folder can shadow a module of the kernel.
"""

from __future__ import annotations

import contextlib
import os
import sys


def main() -> None:
    """Become the kernel, or with `fork-server <descriptor> <home>` the process that kernels are forked from."""
    what, *how = sys.argv[1:]
    # At the end of the path: user code finds its own modules first.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    # Another Python than that of the image has its own packages first, and those of the image for what it lacks.
    if packages := os.environ.pop("CODEBOX_KERNEL_PACKAGES", ""):
        sys.path.append(packages)
    from codebox_server.bounds import NICE

    # Before there are threads, each of which has a priority of its own.
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, os.getppid()) + NICE)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        # The box server outlives its kernels; some hosts do not support this.
        file.write("900" if what == "fork-server" else "1000")
    if what == "fork-server":
        from codebox_server.forks.server import run

        run(int(how[0]), how[1])
    else:
        from codebox_server.kernels.app import launch

        # Code sees the arguments, and those of a forked kernel end here.
        del sys.argv[3:]
        launch(what, how[0], [int(number) for number in "".join(how[1:]).split(",") if number])


if __name__ == "__main__":
    main()
