"""Watches the working folder from the first reader on, and turns differences into numbered changes."""

from __future__ import annotations

import asyncio
import logging
import os
import time

from codebox_server.bounds import WATCH_POLL_SECONDS, WATCH_READERS, WATCH_WINDOW_SECONDS
from codebox_server.errors import BoxError
from codebox_server.files.entry import entry
from codebox_server.files.watch.changes import Change, Changes
from codebox_server.files.watch.inotify import Inotify, Notice, open_inotify
from codebox_server.files.watch.tree import Difference, Tree

_log = logging.getLogger(__name__)
# How many notifications are handled at once; the rest is handled next.
_READS = 64


class Watcher:
    """`mode` is inotify, or polling where inotify does not work."""

    def __init__(self, data: str, trial_folder: str, polls: bool) -> None:
        self._data = data
        self._polls = polls
        self._trial_folder = trial_folder
        self._started: asyncio.Task[None] | None = None
        self._pump: asyncio.Task[None] | None = None
        self._inotify: Inotify | None = None
        self._tree: Tree | None = None
        self._readers = 0
        self._looking = asyncio.Lock()
        self.changes = Changes()

    @property
    def mode(self) -> str:
        """How changes are noticed."""
        return "polling" if self._inotify is None else "inotify"

    @property
    def complete(self) -> bool:
        """Whether all folders are watched; false when there are more than the limits allow."""
        return self._tree is not None and self._tree.complete

    async def enter(self) -> None:
        """Register a reader, and start watching with the first one. Raises too_many_requests."""
        if self._readers >= WATCH_READERS:
            raise BoxError("too_many_requests", f"a box has at most {WATCH_READERS} watches")
        self._readers += 1
        try:
            if self._started is None or (self._started.done() and self._tree is None):
                self._started = asyncio.ensure_future(self._start())
            # A reader that leaves must not cancel the start for the others.
            await asyncio.shield(self._started)
            # Changes until now are not news to this reader.
            await asyncio.shield(asyncio.ensure_future(self._look()))
        except BaseException:
            self._readers -= 1
            raise

    def leave(self) -> None:
        """Unregister a reader. The watch continues, so that a reader can come back without missing changes."""
        self._readers -= 1

    async def _start(self) -> None:
        self._inotify = None if self._polls else open_inotify(self._trial_folder)
        self._tree = await asyncio.to_thread(Tree, self._data, self._inotify)
        self._pump = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        pause = WATCH_WINDOW_SECONDS if self._inotify else WATCH_POLL_SECONDS
        while True:
            if self._inotify is not None:
                await self._readable(self._inotify)
            # Changes within this time are reported together.
            await asyncio.sleep(pause)
            begun = time.monotonic()
            await self._look()
            if self._inotify is None:
                # Scanning takes a small share of the time, however large the folder is.
                pause = max(WATCH_POLL_SECONDS, 10 * (time.monotonic() - begun))

    async def _look(self) -> None:
        """Find and publish the changes so far."""
        async with self._looking:
            if self._tree is None:
                return
            was_complete = self._tree.complete
            try:
                changes = await asyncio.to_thread(self._compare, self._tree)
            except Exception:
                # Whatever a hostile folder has caused, readers have to list the folder anew.
                _log.exception("a look at the working folder failed")
                changes = [Change("reset", "", fields={"reason": "lost"})]
            if was_complete and not self._tree.complete:
                changes.append(Change("reset", "", fields={"reason": "limit"}))
            if changes:
                self.changes.add(changes)

    def _compare(self, tree: Tree) -> list[Change]:
        notices: list[Notice] | None = None
        if self._inotify is not None:
            notices = []
            for _ in range(_READS):
                found = self._inotify.read()
                if not found:
                    break
                notices += found
        return self._report(tree, tree.refresh(notices))

    def _report(self, tree: Tree, difference: Difference) -> list[Change]:
        """Return renames before the changes that depend on them, then removed, new and written entries."""
        missing, appeared = difference.missing, difference.appeared
        renames = list(difference.renames)
        for path, mark in list(appeared.items()):
            source = None if mark.is_folder else difference.find_source(mark, self._inotify is None)
            if source is not None and source != path:
                del missing[source], appeared[path]
                # The rename implies that an entry at the target was replaced.
                missing.pop(path, None)
                renames.append((source, path))
        written = difference.written | {
            path for path in appeared if path in missing and not missing[path].mark.is_folder
        }
        changes: list[Change] = []
        for source, path in renames:
            changes += [self._change("create", above) for above in _parents(path) if appeared.pop(above, None)]
            changes.append(self._change("rename", path, source))
        for path, item in reversed(missing.items()):
            if path in written and path in appeared and not appeared[path].is_folder:
                del appeared[path]
                continue
            written.discard(path)
            if item.folder is not None:
                changes += [Change("remove", inside) for inside in tree.below(item.folder, path)]
            changes.append(Change("remove", path))
        changes += [self._change("create", path) for path in appeared]
        changes += [self._change("write", path) for path in sorted(written)]
        return changes

    def _change(self, kind: str, path: str, source: str | None = None) -> Change:
        try:
            place = os.path.join(self._data, path)
            shown = entry(path, os.lstat(place), place)
        except OSError:
            # It has changed again, which the next scan reports.
            return Change(kind, path, source)
        return Change(kind, path, source, {"entry": shown})

    @staticmethod
    async def _readable(inotify: Inotify) -> None:
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(inotify.fd, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(inotify.fd)


def _parents(path: str) -> list[str]:
    """Return the folders that a path leads through, from the top."""
    segments = path.split("/")
    return ["/".join(segments[:end]) for end in range(1, len(segments))]
