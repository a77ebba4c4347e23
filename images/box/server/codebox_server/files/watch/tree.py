"""The known state of the working folder, and its difference from the actual state."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from codebox_server.bounds import WATCH_FOLDERS, WATCH_NAMES
from codebox_server.files.watch.inotify import IGNORED, MOVED_FROM, OVERFLOW, Inotify, Notice


class Mark(NamedTuple):
    """Changes with the content of a file; a move changes none of it."""

    inode: int
    size: int
    mtime_ns: int
    is_folder: bool


class Folder:
    """A watched folder. Its path follows from its parents, so moving a folder moves everything below it."""

    __slots__ = ("folders", "inode", "marks", "name", "parent", "watch")

    def __init__(self, parent: Folder | None, name: str, inode: int) -> None:
        self.parent, self.name, self.inode = parent, name, inode
        self.watch: int | None = None
        self.marks: dict[str, Mark] = {}
        self.folders: dict[str, Folder] = {}

    @property
    def path(self) -> str:
        """The path relative to the root, whose own path is ''."""
        return self.name if self.parent is None else self.parent.join(self.name)

    def join(self, name: str) -> str:
        """Return the path of an entry of this folder."""
        path = self.path
        return f"{path}/{name}" if path else name


class Missing(NamedTuple):
    """An entry that is no longer where it was. `moved`: inotify said that it was moved away."""

    mark: Mark
    folder: Folder | None
    moved: bool


class Difference:
    """Missing and new entries by path; `renames` are folders that are known to be the same."""

    def __init__(self) -> None:
        self.missing: dict[str, Missing] = {}
        self._by_inode: dict[int, str] = {}
        self.appeared: dict[str, Mark] = {}
        self.written: set[str] = set()
        self.renames: list[tuple[str, str]] = []

    def miss(self, path: str, missing: Missing) -> None:
        """Record an entry that is no longer there."""
        self.missing[path] = missing
        self._by_inode[missing.mark.inode] = path

    def find_source(self, mark: Mark, trusts_marks: bool) -> str | None:
        """Return the earlier path of a new entry, if it had one.

        Inodes are reused, so an inode alone proves nothing.
        """
        path = self._by_inode.get(mark.inode)
        missing = self.missing.get(path) if path is not None else None
        if missing is None or missing.mark.is_folder != mark.is_folder:
            return None
        # If a folder is wrongly taken for another one, comparing its contents finds the difference.
        return path if missing.moved or (trusts_marks and (mark.is_folder or missing.mark == mark)) else None


class Tree:
    """The folders below `root` with their contents, up to the limits; `complete` says whether that is everything."""

    def __init__(self, root: str, inotify: Inotify | None) -> None:
        self._root = root
        self._inotify = inotify
        self._by_watch: dict[int, Folder] = {}
        self._folders = self._names = 0
        self.complete = True
        self._top = Folder(None, "", os.lstat(root).st_ino)
        self._adopt(self._top, Difference())

    def refresh(self, notices: list[Notice] | None) -> Difference:
        """Examine the folders of the notifications, or everything when they are None, and update the known state.
        Blocks.
        """
        difference = Difference()
        dirty, moved = self._all() if notices is None else self._resolve(notices)
        while dirty:
            # Parents first: where they went is known before their contents are examined.
            later: dict[Folder, set[str] | None] = {}
            for folder in sorted(dirty, key=lambda item: item.path.count("/")):
                if self._is_there(folder):
                    self._compare(folder, dirty[folder], moved, difference)
                else:
                    self._miss_moved(folder, moved, difference)
                    later[folder] = dirty[folder]
            self._place_folders(difference)
            dirty = later if len(later) < len(dirty) else {}
        for missing in difference.missing.values():
            if missing.folder is not None:
                self._drop(missing.folder)
        return difference

    def below(self, folder: Folder, path: str) -> Iterator[str]:
        """Yield the paths of everything known below a folder that was at `path`."""
        for name in folder.marks:
            inside = f"{path}/{name}"
            if name in folder.folders:
                yield from self.below(folder.folders[name], inside)
            yield inside

    def _all(self) -> tuple[dict[Folder, set[str] | None], set[tuple[Folder, str]]]:
        dirty: dict[Folder, set[str] | None] = {}
        pending = [self._top]
        while pending:
            folder = pending.pop()
            dirty[folder] = None
            pending += folder.folders.values()
        return dirty, set()

    def _resolve(self, notices: list[Notice]) -> tuple[dict[Folder, set[str] | None], set[tuple[Folder, str]]]:
        dirty: dict[Folder, set[str] | None] = {}
        moved: set[tuple[Folder, str]] = set()
        for watch, mask, name in notices:
            folder = self._by_watch.get(watch)
            if mask & OVERFLOW:
                # Notifications were lost: examining everything finds the changes.
                dirty.update(self._all()[0])
            elif folder is None or not name:
                if mask & IGNORED:
                    self._by_watch.pop(watch, None)
            else:
                names = dirty.setdefault(folder, set())
                if names is not None:
                    names.add(name)
                if mask & MOVED_FROM:
                    moved.add((folder, name))
        return dirty, moved

    def _is_there(self, folder: Folder) -> bool:
        mark = self._look(folder.path)
        return mark is not None and mark.is_folder and mark.inode == folder.inode

    def _compare(
        self, folder: Folder, names: set[str] | None, moved: set[tuple[Folder, str]], difference: Difference
    ) -> None:
        if names is None:
            names = {*folder.marks, *_list(os.path.join(self._root, folder.path))}
        for name in sorted(names):
            old, new = folder.marks.get(name), self._look(folder.join(name))
            if old == new or (old and new and old.is_folder and new.is_folder and old.inode == new.inode):
                continue
            path = folder.join(name)
            if old and new and old.inode == new.inode and not new.is_folder:
                folder.marks[name] = new
                difference.written.add(path)
                continue
            if old is not None:
                del folder.marks[name]
                self._names -= 1
                difference.miss(path, Missing(old, folder.folders.pop(name, None), (folder, name) in moved))
            if new is not None and self._remember(folder, name, new):
                difference.appeared[path] = new

    def _miss_moved(self, folder: Folder, moved: set[tuple[Folder, str]], difference: Difference) -> None:
        """Entries that left a folder before it disappeared itself may be found where they went."""
        for name in [name for owner, name in moved if owner is folder and name in folder.marks]:
            self._names -= 1
            missing = Missing(folder.marks.pop(name), folder.folders.pop(name, None), True)
            difference.miss(folder.join(name), missing)

    def _remember(self, folder: Folder, name: str, mark: Mark) -> bool:
        if self._names >= WATCH_NAMES:
            self.complete = False
            return False
        folder.marks[name] = mark
        self._names += 1
        return True

    def _place_folders(self, difference: Difference) -> None:
        """Place each new folder: as one that was elsewhere before, or as one whose contents are new too."""
        for path, mark in list(difference.appeared.items()):
            if mark.is_folder:
                self._place(path, mark, difference)

    def _place(self, path: str, mark: Mark, difference: Difference) -> None:
        parent = self._find(os.path.dirname(path))
        name = os.path.basename(path)
        if parent is None or name in parent.folders:
            return
        source = difference.find_source(mark, self._inotify is None)
        if source is None:
            self._adopt(Folder(parent, name, mark.inode), difference)
            return
        folder = difference.missing.pop(source).folder
        del difference.appeared[path]
        difference.renames.append((source, path))
        if folder is not None:
            folder.parent, folder.name = parent, name
            parent.folders[name] = folder

    def _adopt(self, folder: Folder, difference: Difference) -> None:
        """Watch a folder and record its contents; all of them are new."""
        path = os.path.join(self._root, folder.path)
        if self._folders >= WATCH_FOLDERS or self._names >= WATCH_NAMES or not self._watch(folder, path):
            self.complete = False
            return
        self._folders += 1
        if folder.parent is not None:
            folder.parent.folders[folder.name] = folder
        # Listed after the watch is set, so that nothing is missed; seeing an entry twice does no harm.
        for name in sorted(_list(path)):
            mark = self._look(folder.join(name))
            if mark is None or not self._remember(folder, name, mark):
                continue
            inside = folder.join(name)
            difference.appeared[inside] = mark
            if mark.is_folder:
                self._place(inside, mark, difference)

    def _watch(self, folder: Folder, path: str) -> bool:
        if self._inotify is None:
            return True
        try:
            folder.watch = self._inotify.add(path)
        except OSError:
            # There are too many watches in the system, or the folder may not be read.
            return False
        self._by_watch[folder.watch] = folder
        return True

    def _drop(self, folder: Folder) -> None:
        self._folders -= 1
        self._names -= len(folder.marks)
        if self._inotify is not None and folder.watch in self._by_watch:
            del self._by_watch[folder.watch]
            self._inotify.remove(folder.watch)
        for inside in folder.folders.values():
            self._drop(inside)

    def _find(self, path: str) -> Folder | None:
        folder: Folder | None = self._top
        for name in path.split("/") if path else []:
            folder = folder.folders.get(name) if folder is not None else None
        return folder

    def _look(self, path: str) -> Mark | None:
        try:
            status = os.lstat(os.path.join(self._root, path))
        except (OSError, ValueError):
            return None
        is_folder = stat.S_ISDIR(status.st_mode)
        # The size and the time of a folder follow from its contents, which are reported separately.
        return Mark(status.st_ino, 0 if is_folder else status.st_size, status.st_mtime_ns, is_folder)


def _list(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        # It has vanished, or its owner lets nobody read it.
        return []
