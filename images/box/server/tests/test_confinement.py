"""Sockets in the volumes of a box."""

from __future__ import annotations

import multiprocessing
import os
import socket
from pathlib import Path

from codebox_server.system.confinement import confine


def _try_confined(root: str, volumes: str, outcome: multiprocessing.SimpleQueue[object]) -> None:
    confined = confine(root, volumes)
    tried: dict[str, object] = {}
    for folder in (volumes, f"{root}/mnt"):
        try:
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(f"{folder}/socket")
            tried[folder] = "bound"
        except PermissionError:
            tried[folder] = "refused"
        os.mkfifo(f"{folder}/pipe")
        os.mkdir(f"{folder}/sub")
        os.rename(f"{folder}/pipe", f"{folder}/sub/pipe")
        os.link(f"{folder}/sub/pipe", f"{folder}/pipe")
    outcome.put((confined, tried))


def test_no_sockets_in_volumes_but_elsewhere_and_files_move_in_both(tmp_path: Path) -> None:
    for name in ("mnt", "volumes"):
        (tmp_path / name).mkdir()
    volumes = str(tmp_path / "volumes")
    # In a process of its own, since it is for good.
    context = multiprocessing.get_context("fork")
    outcome = context.SimpleQueue()
    child = context.Process(target=_try_confined, args=(str(tmp_path), volumes, outcome))
    child.start()
    child.join(20)
    assert outcome.get() == (True, {volumes: "refused", str(tmp_path / "mnt"): "bound"})


def test_a_box_without_volumes_is_left_as_it_is(tmp_path: Path) -> None:
    assert confine(str(tmp_path), str(tmp_path / "volumes")) is False
