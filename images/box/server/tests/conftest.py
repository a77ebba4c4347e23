"""A real box server on a temporary root, run as a user without a passwd entry when the tests run as root."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from box import Box, start_box

# What takes longest, begun first: no single file is left running at the end.
LONG = (
    "test_binding",
    "test_forks",
    "test_terminals",
    "test_file_watch",
    "test_last_words",
    "test_limits",
    "test_causes",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.path.stem, len(LONG)))


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: Unix sockets have at most 107 bytes."""
    path = Path(tempfile.mkdtemp(prefix="cbx-", dir="/tmp"))
    path.chmod(0o777)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def module_folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="cbx-", dir="/tmp"))
    path.chmod(0o777)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def box(module_folder: Path) -> Iterator[Box]:
    """One server for all tests of a module."""
    with start_box(module_folder) as running:
        yield running


@pytest.fixture
def fresh_box(folder: Path) -> Iterator[Box]:
    """A server for one test, which may break it."""
    with start_box(folder) as running:
        yield running


@pytest.fixture(autouse=True)
def clean_data(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tests of a module share a server, not files."""
    yield
    if "box" in request.fixturenames:
        data = request.getfixturevalue("box").data
        for entry in os.scandir(data):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)
