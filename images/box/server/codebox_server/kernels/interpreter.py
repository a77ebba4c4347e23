"""Kernels of other Pythons than that of the image: of virtual environments and similar folders of the box."""

from __future__ import annotations

import asyncio
import os
import sys
import sysconfig
from contextlib import suppress

from codebox_server.errors import BoxError

# The folder of a kernel's environment, in the variables of its start. launch.py and code do not see it.
FOLDER = "CODEBOX_PYTHON"
# Where launch.py finds the packages that kernels need.
PACKAGES = "CODEBOX_KERNEL_PACKAGES"

_SECONDS = 20
_END_SECONDS = 2
_BYTES = 100
_VERSION = "import sys; print('.'.join(map(str, sys.version_info[:2])))"


async def environment_of(folder: str, env: dict[str, str]) -> dict[str, str]:
    """Return the variables of a kernel that uses the Python of a folder, as its `activate` sets them.

    Raises invalid_request when it has none, or one of another version than that of the kernels.
    """
    python = os.path.join(folder, "bin", "python")
    if not os.access(python, os.X_OK):
        raise BoxError("invalid_request", "the folder has no bin/python", "/python")
    version, ours = await _version_of(python, env), "{}.{}".format(*sys.version_info)
    if version != ours:
        raise BoxError("invalid_request", f"its Python is {version}; kernels need {ours}", "/python")
    path = f"{folder}/bin:{env.get('PATH', os.defpath)}"
    return {FOLDER: folder, "VIRTUAL_ENV": folder, "PATH": path}


async def _version_of(python: str, env: dict[str, str]) -> str:
    quiet = asyncio.subprocess.DEVNULL
    # It is a program of the box, which may do anything but answer.
    process = await asyncio.create_subprocess_exec(
        python, "-I", "-c", _VERSION, env=env, stdin=quiet, stdout=asyncio.subprocess.PIPE, stderr=quiet
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(_SECONDS):
            text = await process.stdout.read(_BYTES)
    except TimeoutError:
        raise BoxError("invalid_request", "its Python does not respond", "/python") from None
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        # A child that it has left behind may keep its output open.
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                await process.wait()
    return "".join(character for character in text.decode("ascii", "ignore") if character.isprintable()) or "broken"


def command_with(env: dict[str, str], command: list[str]) -> list[str] | None:
    """Return the command of a kernel in another Python, None for that of the image; prepares `env` for launch.py."""
    folder = env.pop(FOLDER, None)
    if folder is None:
        return None
    env[PACKAGES] = sysconfig.get_path("purelib")
    return [os.path.join(folder, "bin", "python"), *command[1:]]
