"""Decides whether a program that failed on a missing module may run again: only if nothing but imports has run."""

from __future__ import annotations

import ast
import re

from codebox_server.bounds import RETRY_CODE

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# The frames in IPython's traceback: of a cell, and of anything else.
_CELL = re.compile(r"^Cell In\[\d+\], line (\d+)", re.MULTILINE)
_FILE = re.compile(r"^File .*(?::\d+|, line \d+)", re.MULTILINE)

_COMMENT = re.compile(r"\s+|//[^\n]*|/\*.*?\*/", re.DOTALL)
_QUOTED = r"""(?:'(?P<one>[^'\n]*)'|"(?P<two>[^"\n]*)")"""
_NAMES = r"[\w$\s,*{}]+?"
# An import that does nothing else: static, or by `require` or `await import` into names.
_STATEMENT = re.compile(
    rf"import\s+(?:type\s+)?(?:{_NAMES}\bfrom\s*)?{_QUOTED}[ \t]*(?:;|(?=\n)|$)"
    rf"|(?:const|let|var)\s+[\w$\s,:{{}}]+?=\s*(?:require|await\s+import)\s*\(\s*"
    + _QUOTED.replace("one", "three").replace("two", "four")
    + r"\s*\)[ \t]*(?:;|(?=\n)|$)"
)


def may_run_again(language: str, code: str, module: str, traceback: list[str]) -> bool:
    """Whether `code`, which failed because `module` is missing, had done nothing but import until then.

    A failed import inside another module does not count: that module has begun to run.
    """
    if len(code) > RETRY_CODE:
        return False
    if language == "python":
        return _only_imports(code, _failing_line(traceback))
    return _only_requires(code, module)


def _failing_line(traceback: list[str]) -> int | None:
    """Return the line of the cell that failed, None when the error came from deeper code."""
    text = _COLOUR.sub("", "\n".join(traceback))
    cells = _CELL.findall(text)
    return int(cells[0]) if len(cells) == 1 and not _FILE.search(text) else None


def _only_imports(code: str, line: int | None) -> bool:
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # Magic commands are not Python; their effects are unknown.
        return False
    begun = [statement for statement in body if line is not None and statement.lineno <= line]
    fails = bool(begun) and isinstance(begun[-1], ast.Import | ast.ImportFrom)
    return fails and all(_does_nothing(statement) for statement in begun)


def _does_nothing(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    return isinstance(statement, ast.Import | ast.ImportFrom)


def _only_requires(code: str, module: str) -> bool:
    at = 0
    while True:
        while blank := _COMMENT.match(code, at):
            at = blank.end()
        statement = _STATEMENT.match(code, at)
        if statement is None:
            return False
        name = next(part for part in statement.groups() if part is not None)
        if name == module or name.startswith(module + "/"):
            return True
        at = statement.end()
