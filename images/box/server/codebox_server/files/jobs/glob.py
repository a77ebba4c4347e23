"""Patterns of names as in editors and shells: `*`, `?`, `[…]`, `{a,b}`, and `**` for any number of folders."""

from __future__ import annotations

import re
from collections.abc import Iterable

from codebox_server.bounds import GLOB_STEPS

_CLASS = re.compile(r"\[(!?)(\]?[^]/]*)\]")
_ALTERNATIVES = re.compile(r"\{([^{}]*)\}")

# The states that matching can be in at once: numbers of nodes.
Places = frozenset[int]


class Glob:
    """A pattern as a nondeterministic automaton: the time for a path grows with its length, whatever the pattern, while
    a regular expression may try every way in which the stars can divide a name.
    """

    def __init__(self, pattern: str, case_sensitive: bool) -> None:
        self._flags = re.DOTALL if case_sensitive else re.DOTALL | re.IGNORECASE
        # For each node: the nodes reached without a character, and those reached by a matching character.
        self._free: list[list[int]] = []
        self._moves: list[list[tuple[re.Pattern[str], int]]] = []
        self._known: dict[tuple[Places, str], Places] = {}
        start = self._node()
        self._end = self._add(pattern, start)
        self._start = self._closed([start])

    def fullmatch(self, path: str) -> bool:
        """Whether the pattern matches the whole path."""
        places = self._start
        for character in path:
            step = (places, character)
            after = self._known.get(step)
            if after is None:
                after = self._step(places, character)
                if len(self._known) >= GLOB_STEPS:
                    self._known.clear()
                self._known[step] = after
            if not after:
                return False
            places = after
        return self._end in places

    def _step(self, places: Places, character: str) -> Places:
        return self._closed(
            [to for place in places for one, to in self._moves[place] if one.fullmatch(character) is not None]
        )

    def _closed(self, places: Iterable[int]) -> Places:
        closed: set[int] = set()
        pending = list(places)
        while pending:
            place = pending.pop()
            if place not in closed:
                closed.add(place)
                pending += self._free[place]
        return frozenset(closed)

    def _add(self, pattern: str, node: int) -> int:
        """Extend the automaton from a node by the pattern; return the node where it ends."""
        at = 0
        while at < len(pattern):
            found = _CLASS.match(pattern, at) or _ALTERNATIVES.match(pattern, at)
            if pattern.startswith("**/", at):
                node, at = self._folders(node), at + 3
            elif pattern.startswith("**", at):
                node, at = self._repeat(node, "."), at + 2
            elif pattern[at] == "*":
                node, at = self._repeat(node, "[^/]"), at + 1
            elif pattern[at] == "?":
                node, at = self._move(node, "[^/]"), at + 1
            elif found is not None and pattern[at] == "{":
                node, at = self._alternatives(node, found[1].split(",")), found.end()
            elif found is not None and found[2]:
                node, at = self._move(node, _class(found[1], found[2])), found.end()
            else:
                node, at = self._move(node, re.escape(pattern[at])), at + 1
        return node

    def _node(self) -> int:
        self._free.append([])
        self._moves.append([])
        return len(self._free) - 1

    def _move(self, node: int, one: str, to: int | None = None) -> int:
        reached = self._node() if to is None else to
        self._moves[node].append((re.compile(one, self._flags), reached))
        return reached

    def _repeat(self, node: int, one: str) -> int:
        # In a node of its own: where alternatives begin, the others must not repeat.
        loop = self._node()
        self._free[node].append(loop)
        return self._move(loop, one, loop)

    def _folders(self, node: int) -> int:
        between = self._node()
        self._free[node].append(between)
        inside = self._move(between, "[^/]")
        self._move(inside, "[^/]", inside)
        return self._move(inside, "/", between)

    def _alternatives(self, node: int, parts: list[str]) -> int:
        join = self._node()
        for part in parts:
            begin = self._node()
            self._free[node].append(begin)
            self._free[self._add(part, begin)].append(join)
        return join


def compile_glob(pattern: str, case_sensitive: bool) -> Glob:
    """Compile a glob for whole paths; without `/` it matches the name alone, in any folder. Raises re.error."""
    return Glob(pattern if "/" in pattern else f"**/{pattern}", case_sensitive)


def _class(negation: str, members: str) -> str:
    escaped = re.sub(r"([\\\[\]^&~|])", r"\\\1", members)
    return f"(?!/)[{'^' if negation else ''}{escaped}]"
