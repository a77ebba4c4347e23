"""Prepares a running kernel for an owner: proves that it works, and gives it the owner's environment."""

from __future__ import annotations

import contextlib

from codebox_server.bounds import ENVIRONMENT_SECONDS, PROOF_SECONDS
from codebox_server.errors import BoxError
from codebox_server.kernels.environment import REQUEST, Changes, counts_at_start
from codebox_server.runs.live_kernel import LiveKernel

# Code that prints nothing, leaves nothing behind, and fails in a broken kernel.
_PROOFS = {
    "python": "assert 1 + 1 == 2",
    "javascript": "if (1 + 1 !== 2) throw new Error()",
    "typescript": "if (1 + 1 !== 2) throw new Error()",
    "bash": "((1 + 1 == 2))",
    "r": "stopifnot(1 + 1 == 2)",
}


async def prove(kernel: LiveKernel) -> None:
    """Have the kernel prove that it works, without a trace. Raises conflict when it does not, TimeoutError."""
    code = _PROOFS.get(kernel.language)
    if code is None:
        await kernel.ensure()
    elif not await kernel.prove(code, PROOF_SECONDS):
        raise BoxError("conflict", f"the kernel for {kernel.language} does not work")


async def change_environment(kernel: LiveKernel, takes: bool, idle: bool) -> None:
    """Give the kernel the environment that a new one would have.

    If the kernel does not support that (`takes`), or processes read a variable only at their start, an idle kernel
    gets a new process. Raises conflict when it has ended or is busy.
    """
    changes = kernel.pending_changes()
    if not changes:
        return
    if kernel.death is not None:
        raise BoxError("conflict", f"the kernel for {kernel.language} has ended")
    if not takes or any(map(counts_at_start, changes)):
        if not idle:
            raise BoxError("conflict", f"the kernel for {kernel.language} is busy")
        await kernel.restart()
        return
    await _send_changes(kernel, changes)


async def offer_environment(kernel: LiveKernel) -> None:
    """As `change_environment`, for a kernel that takes it, but never with a new process or an error."""
    changes = kernel.pending_changes()
    if changes and kernel.death is None and not any(map(counts_at_start, changes)):
        with contextlib.suppress(BoxError):
            await _send_changes(kernel, changes)


async def _send_changes(kernel: LiveKernel, changes: Changes) -> None:
    try:
        reply = await kernel.request(REQUEST, {"changes": changes}, ENVIRONMENT_SECONDS)
    except TimeoutError:
        raise BoxError("conflict", f"the kernel for {kernel.language} is busy") from None
    if reply is None:
        raise BoxError("conflict", f"the kernel for {kernel.language} has ended")
    kernel.has(changes)
