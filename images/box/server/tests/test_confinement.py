"""Sockets and named pipes in the volumes of a box."""

from __future__ import annotations

import errno
import multiprocessing
import os
import socket
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

from codebox_server.system.confinement import confine, is_confined

_SECONDS = 20


def _outcome(make: Callable[[str], object], path: str) -> str:
    try:
        make(path)
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    return "made"


def _bind(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)


def _try_confined(root: str, volumes: str, outcome: Connection) -> None:
    confined = confine(root, volumes)
    tried: dict[str, object] = {}
    for folder in (volumes, f"{root}/mnt"):
        made = [_outcome(_bind, f"{folder}/socket"), _outcome(os.mkfifo, f"{folder}/pipe")]
        Path(f"{folder}/file").touch()
        os.mkdir(f"{folder}/sub")
        os.rename(f"{folder}/file", f"{folder}/sub/file")
        os.link(f"{folder}/sub/file", f"{folder}/file")
        tried[folder] = made
    outcome.send((confined, is_confined(), tried))


def test_no_sockets_and_pipes_in_volumes_but_elsewhere_and_files_move_in_both(tmp_path: Path) -> None:
    for name in ("mnt", "volumes"):
        (tmp_path / name).mkdir()
    volumes = str(tmp_path / "volumes")
    # In a process of its own, since it is for good.
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_try_confined, args=(str(tmp_path), volumes, theirs))
    child.start()
    theirs.close()
    try:
        assert ours.poll(_SECONDS), "the confined process reported nothing"
        confined, reported, tried = ours.recv()
    finally:
        child.kill()
        child.join(_SECONDS)
    assert confined, "this host has no Landlock (Linux 5.19 with `landlock` in /sys/kernel/security/lsm)"
    assert reported
    assert tried == {volumes: ["EACCES", "EACCES"], str(tmp_path / "mnt"): ["made", "made"]}
    assert not is_confined()


def test_a_box_without_volumes_is_left_as_it_is(tmp_path: Path) -> None:
    assert confine(str(tmp_path), str(tmp_path / "volumes")) is False
    assert is_confined() is False
