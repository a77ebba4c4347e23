"""`%time` and `%%time` for code that awaits, which IPython's own cannot compile."""

from __future__ import annotations

import ast
import inspect
import time
from collections.abc import Iterator
from typing import Any

from IPython.core.displayhook import DisplayHook
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magics.execution import _format_time
from IPython.utils.timing import clock2

_MAGICS = ("run_line_magic", "run_cell_magic")


def install(shell: InteractiveShell) -> None:
    """Make cells that time an `await` await it."""

    def await_timed(lines: list[str]) -> list[str]:
        cell = "".join(lines)
        if "_magic('time', " not in cell or "await" not in cell:
            return lines
        data = cell.encode()
        for start, end, code in reversed(list(_timed(cell))):
            if shell.should_run_async(code, transformed_cell=shell.transform_cell(code)):
                data = b"%s(await get_ipython().time_await(%s))%s" % (data[:start], repr(code).encode(), data[end:])
        return data.decode().splitlines(keepends=True)

    async def time_await(code: str) -> Any:
        """Run code as `%%time` does: return the value of the last expression, and print the times however it ends."""
        body = shell.transform_ast(shell.compile.ast_parse(shell.transform_cell(code))).body
        last = body.pop() if isinstance(body[-1], ast.Expr) else None
        parts: list[tuple[ast.Module | ast.Expression, str]] = [(ast.Module(body, []), "exec")]
        if isinstance(last, ast.Expr):
            parts.append((ast.Expression(last.value), "eval"))
        with shell.compile.extra_flags(ast.PyCF_ALLOW_TOP_LEVEL_AWAIT):
            codes = [shell.compile(part, "<timed await>", mode) for part, mode in parts]  # type: ignore[arg-type]
        value = None
        (user, system), since = clock2(), time.perf_counter()
        try:
            for compiled in codes:
                value = eval(compiled, shell.user_ns)
                if compiled.co_flags & inspect.CO_COROUTINE:
                    value = await value
        finally:
            wall, (user_then, system_then) = time.perf_counter() - since, clock2()
            user, system = user_then - user, system_then - system
            times = (
                f"user {_format_time(user)}",
                f"sys: {_format_time(system)}",
                f"total: {_format_time(user + system)}",
            )
            print(f"CPU times: {', '.join(times)}\nWall time: {_format_time(wall)}")
        return None if DisplayHook.semicolon_at_end_of_expression(code) else value

    shell.time_await = time_await  # type: ignore[attr-defined]
    shell.input_transformers_post.append(await_timed)


def _timed(cell: str) -> Iterator[tuple[int, int, str]]:
    """Yield where in the bytes of a cell the magic is called, in order, and the code that it times."""
    try:
        tree = ast.parse(cell)
    except (SyntaxError, ValueError, MemoryError):
        # The error is reported when the cell is compiled.
        return
    starts = [0]
    for line in cell.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for call in sorted(calls, key=lambda call: (call.lineno, call.col_offset)):
        match call:
            case ast.Call(func=ast.Attribute(attr=name), args=[ast.Constant("time"), *_, ast.Constant(str(code))]) if (
                name in _MAGICS and call.end_lineno is not None and call.end_col_offset is not None
            ):
                yield (
                    starts[call.lineno - 1] + call.col_offset,
                    starts[call.end_lineno - 1] + call.end_col_offset,
                    code,
                )
