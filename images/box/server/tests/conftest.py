"""Fixtures: a real box server on temporary folders. Under root it runs as a user without a passwd entry."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from box import Box, start_box

# The slowest files start first, so that none of them runs alone at the end.
LONG = (
    "test_notebooks",
    "test_forks",
    "test_file_watch",
    "test_saved_variables",
    "test_limits",
    "test_executions",
    "test_binding",
    "test_file_search",
    "test_kernel_start",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.path.stem, len(LONG)))


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A temporary folder with a short path, as paths of Unix sockets have at most 107 bytes."""
    path = Path(tempfile.mkdtemp(prefix="cbx-", dir="/tmp"))
    path.chmod(0o777)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def folder() -> Iterator[Path]:
    with temporary_folder() as path:
        yield path


@pytest.fixture(scope="module")
def module_folder() -> Iterator[Path]:
    with temporary_folder() as path:
        yield path


@pytest.fixture(scope="session")
def shared_box() -> Iterator[Callable[[], Box]]:
    """Returns the server that modules share; a new one if the last one has ended."""
    boxes: list[Box] = []
    with ExitStack() as stack:

        def get() -> Box:
            if not boxes or boxes[-1].process.poll() is not None:
                boxes.append(stack.enter_context(start_box(stack.enter_context(temporary_folder()))))
            return boxes[-1]

        yield get


@pytest.fixture(scope="module")
def box(shared_box: Callable[[], Box]) -> Iterator[Box]:
    """One server for all modules; each of them begins without contexts, commands, terminals and a bound environment."""
    shared = shared_box()
    yield shared
    if shared.process.poll() is None:
        for kind in ("commands", "terminals"):
            for item in shared.http.get(f"/codebox/{kind}").json()["items"]:
                shared.http.delete(f"/codebox/{kind}/{item['id']}")
        shared.remove_contexts()
        assert shared.http.post("/codebox/bind", json={"env": {}}).status_code == 204


@pytest.fixture
def empty_box(box: Box) -> Box:
    """The shared server without contexts."""
    box.remove_contexts()
    return box


@pytest.fixture
def fresh_box(folder: Path) -> Iterator[Box]:
    """A server for a single test, which may break it; without a fork server."""
    with start_box(folder, forks=False) as running:
        yield running


@pytest.fixture(autouse=True)
def clean_data(request: pytest.FixtureRequest) -> Iterator[None]:
    """Empty the working folder after each test: tests of a module share a server, but no files."""
    yield
    if "box" in request.fixturenames:
        data = request.getfixturevalue("box").data
        for entry in os.scandir(data):
            if entry.is_dir(follow_symlinks=False):
                # `shutil.rmtree` recurses, and tests make folders of any depth.
                subprocess.run(["rm", "-rf", entry.path], check=True)
            else:
                os.unlink(entry.path)
