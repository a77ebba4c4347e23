"""What is done to a live kernel before it has an owner: it shows that it works, and gets the owner's environment."""

from __future__ import annotations

from codebox_server.bounds import ENVIRONMENT_SECONDS, PROOF_SECONDS
from codebox_server.errors import BoxError
from codebox_server.kernels.environment import REQUEST, counts_at_start
from codebox_server.runs.live_kernel import LiveKernel

# Code that prints nothing, leaves nothing behind, and fails in a kernel that does not work.
_PROOFS = {
    "python": "assert 1 + 1 == 2",
    "javascript": "if (1 + 1 !== 2) throw new Error()",
    "typescript": "if (1 + 1 !== 2) throw new Error()",
    "bash": "((1 + 1 == 2))",
    "r": "stopifnot(1 + 1 == 2)",
}


async def prove(kernel: LiveKernel) -> None:
    """Have the kernel show that it works, without a trace. Raises conflict when it does not, TimeoutError."""
    code = _PROOFS.get(kernel.language)
    if code is None:
        await kernel.ensure()
    elif not await kernel.prove(code, PROOF_SECONDS):
        raise BoxError("conflict", f"the kernel for {kernel.language} does not work")


async def change_environment(kernel: LiveKernel, takes: bool, idle: bool) -> None:
    """Give the kernel the environment that a new one would have.

    Where the kernel cannot take it (`takes`), or a process only reads it as it starts, it gets a new process if it is
    idle. Raises conflict when it has ended or is busy.
    """
    changes = kernel.lacks()
    if not changes:
        return
    if kernel.death is not None:
        raise BoxError("conflict", f"the kernel for {kernel.language} has ended")
    if not takes or any(map(counts_at_start, changes)):
        if not idle:
            raise BoxError("conflict", f"the kernel for {kernel.language} is busy")
        await kernel.restart()
        return
    try:
        answer = await kernel.ask(REQUEST, {"changes": changes}, ENVIRONMENT_SECONDS)
    except TimeoutError:
        raise BoxError("conflict", f"the kernel for {kernel.language} is busy") from None
    if answer is None:
        raise BoxError("conflict", f"the kernel for {kernel.language} has ended")
    kernel.has(changes)
