"""The volume of a box, put aside and put back."""

import hashlib
import os
import stat
from pathlib import Path

from box import Box

CHECKPOINT = "/codebox/checkpoint"

# What makes a tree that is hard to pack, in the box, as its own user.
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
os.symlink("/nowhere", "odd/absolute"); os.symlink("../odd", "odd/loop"); os.link("odd/run", "odd/hard")
os.mkfifo("odd/pipe"); server = socket.socket(socket.AF_UNIX); server.bind("odd/socket")
with open("sparse", "wb") as file: file.seek(50_000_000); file.write(b"end")
os.utime("odd/run", ns=(1_234_567_890_123_456_789, 1_234_567_890_123_456_789))
deep = b"/".join([b"d" * 200] * 18); put(deep + b"/f", b"deep")
home = os.environ["HOME"]; os.makedirs(home + "/.local/x", exist_ok=True); open(home + "/.local/x/lib.py", "w").write("a = 1")
"""


def _tree(root: Path) -> dict[bytes, tuple[object, ...]]:
    """Everything below: kind, mode, times, links, and a hash of the content."""
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
            )
    return found


def _volume(box: Box) -> dict[bytes, tuple[object, ...]]:
    return {**_tree(box.data), **_tree(box.data.parent / "home")}


def test_a_volume_comes_back_byte_for_byte(fresh_box: Box) -> None:
    fresh_box.http.post("/codebox/bind", json={"env": {"TOKEN": "a'b\nc"}})
    made = fresh_box.run(TREE)
    assert made[-1]["status"] == "ok", made
    before = _volume(fresh_box)
    assert len(before) > 250
    packed = fresh_box.http.get(CHECKPOINT).content
    assert len(packed) < 5_000_000, "holes are not packed"
    assert _volume(fresh_box) == before, "packing changes nothing"
    spoil = "import shutil, os\nos.chmod('closed', 0o700)\nfor n in os.listdir('.'):\n"
    spoil += "  shutil.rmtree(n) if os.path.isdir(n) else os.unlink(n)\nopen('stray', 'w').close()"
    assert fresh_box.run(spoil)[-1]["status"] == "ok"
    fresh_box.http.post("/codebox/bind", json={"env": {}})
    answer = fresh_box.http.put(CHECKPOINT, content=packed)
    assert answer.status_code == 204, answer.text
    assert _volume(fresh_box) == before
    assert (fresh_box.data / "sparse").stat().st_blocks < 1000
    told = fresh_box.command('printf %s "$TOKEN"; cat odd/run').wait()
    assert "".join(event.get("text", "") for event in told) == "a'b\nc#!/bin/sh\n"


def test_what_is_cut_or_foreign_is_refused(fresh_box: Box) -> None:
    packed = fresh_box.http.get(CHECKPOINT).content
    for broken in (b"", b"CODEBOX1", b"x" * 100, packed[:-20], b"CODEBOX1ffffffff" + packed[16:]):
        assert fresh_box.http.put(CHECKPOINT, content=broken).status_code == 400
    assert fresh_box.http.put(CHECKPOINT, content=b"y" * 80_000_000).status_code == 400
    assert fresh_box.http.put(CHECKPOINT, content=packed).status_code == 204


def test_a_reader_that_leaves_ends_the_packing(fresh_box: Box) -> None:
    fresh_box.run("import os\nfor n in range(40): open(f'f{n}', 'wb').write(os.urandom(2_000_000))")
    with fresh_box.http.stream("GET", CHECKPOINT) as answer:
        next(answer.iter_raw())
    # As many as may work at once: had one stayed, there would be no room in the end.
    for _ in range(9):
        with fresh_box.http.stream("GET", CHECKPOINT) as answer:
            next(answer.iter_raw())
    assert fresh_box.http.get(CHECKPOINT).status_code == 200
