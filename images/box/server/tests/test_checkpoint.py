"""Checkpoint and restore of the volume of a box."""

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from box import Box, start_box

CHECKPOINT = "/codebox/checkpoint"

# Creates a tree that is hard to pack, as the user of the box.
TREE = r"""
import os, socket
os.chdir("/proc/self/cwd")
root = os.getcwd()
def put(path, data=b"x", mode=0o644):
    os.makedirs(os.path.dirname(path) or b".", exist_ok=True)
    with open(path, "wb") as file: file.write(data)
    os.chmod(path, mode)
for n in range(120): put(b"many/%d/file" % n, os.urandom(n * 37), 0o600 + n % 8 * 8)
put(b"odd/new\nline"); put(b"odd/\xff\xfe not utf8"); put(b"odd/-rf"); put(b"odd/ \t"); put(b"odd/" + b"n" * 255)
put(b"odd/secret", b"locked", 0o000); put(b"odd/run", b"#!/bin/sh\n", 0o755)
os.makedirs("empty/inner"); os.makedirs("closed"); put(b"closed/in", b"inside"); os.chmod("closed", 0o000)
os.setxattr("odd/run", "user.e2b.kind", b"script")
os.symlink("/nowhere", "odd/absolute"); os.symlink("../odd", "odd/loop"); os.link("odd/run", "odd/hard")
os.mkfifo("odd/pipe"); server = socket.socket(socket.AF_UNIX); server.bind("odd/socket")
with open("sparse", "wb") as file: file.seek(50_000_000); file.write(b"end")
os.utime("odd/run", ns=(1_234_567_890_123_456_789, 1_234_567_890_123_456_789))
deep = b"/".join([b"d" * 200] * 18); put(deep + b"/f", b"deep")
home = os.environ["HOME"]; os.makedirs(home + "/.local/x", exist_ok=True); open(home + "/.local/x/lib.py", "w").write("a = 1")
"""


@pytest.fixture(scope="module")
def volume_box(module_folder: Path) -> Iterator[Box]:
    """A server whose whole volume these tests replace."""
    with start_box(module_folder, forks=False) as running:
        yield running


def _tree(root: Path) -> dict[bytes, tuple[object, ...]]:
    """Return mode, time, links and a hash of the content of everything below a folder."""
    found: dict[bytes, tuple[object, ...]] = {}
    for folder, folders, files in os.walk(os.fsencode(root)):
        for name in [*folders, *files]:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            if stat.S_ISSOCK(status.st_mode):
                continue
            content: object = None
            if stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    content = hashlib.sha256(file.read()).hexdigest()
            elif stat.S_ISLNK(status.st_mode):
                content = os.readlink(path)
            found[os.path.relpath(path, os.fsencode(root))] = (
                status.st_mode,
                status.st_mtime_ns if not stat.S_ISLNK(status.st_mode) else 0,
                status.st_nlink if stat.S_ISREG(status.st_mode) else 0,
                content,
                [
                    os.getxattr(path, name)
                    for name in os.listxattr(path, follow_symlinks=False)
                    if name.startswith("user.e2b.")
                ],
            )
    return found


def _volume(box: Box) -> dict[bytes, tuple[object, ...]]:
    return {**_tree(box.data), **_tree(box.data.parent / "home")}


def test_a_volume_is_restored_byte_for_byte(volume_box: Box) -> None:
    volume_box.http.post("/codebox/bind", json={"env": {"TOKEN": "a'b\nc"}})
    made = volume_box.run(TREE)
    assert made[-1]["status"] == "ok", made
    before = _volume(volume_box)
    assert len(before) > 250
    packed = volume_box.http.get(CHECKPOINT).content
    assert len(packed) < 5_000_000, "holes are not packed"
    assert _volume(volume_box) == before, "packing changes nothing"
    spoil = "import shutil, os\nos.chmod('closed', 0o700)\nfor n in os.listdir('.'):\n"
    spoil += "  shutil.rmtree(n) if os.path.isdir(n) else os.unlink(n)\nopen('stray', 'w').close()"
    assert volume_box.run(spoil)[-1]["status"] == "ok"
    volume_box.http.post("/codebox/bind", json={"env": {}})
    response = volume_box.http.put(CHECKPOINT, content=packed)
    assert response.status_code == 204, response.text
    assert _volume(volume_box) == before
    assert os.getxattr(volume_box.data / "odd/run", "user.e2b.kind") == b"script"
    assert (volume_box.data / "sparse").stat().st_blocks < 1000
    printed = volume_box.command('printf %s "$TOKEN"; cat odd/run').wait()
    assert "".join(event.get("text", "") for event in printed) == "a'b\nc#!/bin/sh\n"


def test_a_truncated_or_foreign_checkpoint_is_refused(volume_box: Box) -> None:
    packed = volume_box.http.get(CHECKPOINT).content
    for broken in (b"", b"CODEBOX1", b"x" * 100, packed[:-20], b"CODEBOX1ffffffff" + packed[16:]):
        assert volume_box.http.put(CHECKPOINT, content=broken).status_code == 400
    assert volume_box.http.put(CHECKPOINT, content=iter([b"y" * 1_000_000] * 80)).status_code == 400
    assert volume_box.http.put(CHECKPOINT, content=packed).status_code == 204


def test_a_disconnect_ends_the_packing(volume_box: Box) -> None:
    volume_box.run("import os\nfor n in range(12): open(f'f{n}', 'wb').write(os.urandom(2_000_000))")
    with volume_box.http.stream("GET", CHECKPOINT) as response:
        next(response.iter_raw())
    # More often than there may be jobs at once: if one remained each time, the last request would be refused.
    for _ in range(9):
        with volume_box.http.stream("GET", CHECKPOINT) as response:
            next(response.iter_raw())
    assert volume_box.http.get(CHECKPOINT).status_code == 200
