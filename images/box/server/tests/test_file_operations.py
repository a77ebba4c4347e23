"""Moving, copying, extracting and archiving files and folders."""

import bz2
import gzip
import io
import lzma
import os
import random
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from box import Box, eventually, refusal
from file_calls import FILES, do, put

from codebox_server.errors import BoxError, from_os_error
from codebox_server.files.jobs.extract import extract


def shell(box: Box, script: str) -> None:
    """Run a script as the user of the box."""
    events = box.command(script).wait()
    assert events[-1]["status"] == "ok", events


def test_a_move_keeps_the_file_and_makes_parents(box: Box) -> None:
    tag = put(box, "a", b"1")
    moved = do(box, op="move", **{"from": "a", "to": "new/b"})
    assert (moved.status_code, moved.json()["path"], moved.json()["etag"]) == (200, "new/b", tag)
    assert box.http.get(FILES + "a").status_code == 404
    put(box, "c", b"2")
    assert refusal(do(box, op="move", **{"from": "c", "to": "new/b"})) == (409, "conflict", "/to")
    assert do(box, op="move", **{"from": "c", "to": "new/b", "overwrite": True}).status_code == 200
    assert box.http.get(FILES + "new/b").content == b"2"


def test_a_refused_move_points_to_its_field(box: Box) -> None:
    put(box, "d/f")
    assert refusal(do(box, op="move", **{"from": "none", "to": "x"})) == (404, "not_found", "/from")
    assert refusal(do(box, op="move", **{"from": "d", "to": "d/e"})) == (400, "invalid_request", "/to")
    assert refusal(do(box, op="move", **{"from": "d", "to": "d/f/g"})) == (400, "invalid_request", "/to")
    assert refusal(do(box, op="move", **{"from": "../x", "to": "y"})) == (400, "invalid_request", "/from")
    assert refusal(do(box, op="move", **{"from": "", "to": "y"})) == (400, "invalid_request", "/from")
    put(box, "g")
    assert refusal(do(box, op="move", **{"from": "d", "to": "g/h"})) == (409, "conflict", "/to")
    assert refusal(do(box, op="move", **{"from": "d", "to": "z", "overwrite": 1})) == (
        400,
        "invalid_request",
        "/overwrite",
    )
    assert refusal(do(box, op="dance")) == (400, "invalid_request", "/op")
    assert refusal(do(box, op="mkdir", path="k", to="x")) == (400, "invalid_request", "/to")


def test_a_folder_replaces_a_folder_on_request(box: Box) -> None:
    put(box, "old/1")
    put(box, "old/2")
    put(box, "new/3")
    assert refusal(do(box, op="move", **{"from": "new", "to": "old"})) == (409, "conflict", "/to")
    assert do(box, op="move", **{"from": "new", "to": "old", "overwrite": True}).status_code == 200
    assert os.listdir(box.data / "old") == ["3"]
    assert os.listdir(box.upload) == []


def test_a_copy_has_the_modes_times_and_links_of_the_original(box: Box) -> None:
    shell(box, "mkdir -p t/sub; echo hi > t/sub/f; chmod 751 t/sub/f; ln -s sub/f t/link; touch -d @1000000000 t/sub/f")
    response = do(box, op="copy", **{"from": "t", "to": "deep/u"})
    assert (response.status_code, response.json()["type"]) == (201, "directory")
    status = os.stat(box.data / "deep/u/sub/f")
    assert (stat.S_IMODE(status.st_mode), status.st_mtime) == (0o751, 1000000000)
    assert os.readlink(box.data / "deep/u/link") == "sub/f"
    assert refusal(do(box, op="copy", **{"from": "t", "to": "deep/u"})) == (409, "conflict", "/to")
    assert do(box, op="copy", **{"from": "t/link", "to": "l2"}).json()["type"] == "symlink"
    assert os.listdir(box.upload) == []


def test_copying_read_only_folders_leaves_nothing_behind(box: Box) -> None:
    shell(box, "mkdir -p t/a/b; touch t/a/b/f; chmod 555 t/a/b t/a t")
    assert do(box, op="copy", **{"from": "t", "to": "u"}).status_code in (201, 400)
    assert os.listdir(box.upload) == []
    shell(box, "chmod -R 755 t; [ ! -e u ] || chmod -R 755 u")


def make_tar(entries: list[tuple[tarfile.TarInfo, bytes]], mode: str = "w:gz") -> bytes:
    out = io.BytesIO()
    options: dict[str, Any] = {"mode": mode}
    with tarfile.open(fileobj=out, **options) as tar:
        for info, content in entries:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, 0o755
    return info


@pytest.mark.parametrize("mode", ["w:", "w:gz", "w:bz2", "w:xz"])
def test_every_kind_of_tar_is_extracted(box: Box, mode: str) -> None:
    entries = [
        (member("./top", tarfile.DIRTYPE), b""),
        (member("top/run.sh"), b"echo\n"),
        (member("top/ln", tarfile.SYMTYPE, "run.sh"), b""),
        (member("top/hard", tarfile.LNKTYPE, "top/run.sh"), b""),
    ]
    put(box, "a.tar", make_tar(entries, mode))
    response = do(box, op="extract", path="a.tar", to="out")
    assert (response.status_code, response.json()["path"]) == (201, "out")
    assert (box.data / "out/top/run.sh").read_bytes() == b"echo\n"
    assert os.readlink(box.data / "out/top/ln") == "run.sh"
    assert os.stat(box.data / "out/top/hard").st_nlink == 2
    assert os.listdir(box.upload) == []


@pytest.mark.parametrize("mode", ["w:", "w:gz", "w:bz2", "w:xz"])
def test_a_damaged_tar_is_refused_and_leaves_nothing_behind(box: Box, mode: str) -> None:
    entries = [(member(f"f{number}"), os.urandom(2000)) for number in range(40)]
    whole = bytearray(make_tar(entries, "w:"))
    # Each entry has one block of header and four of content, so this damages the header of entry 20.
    whole[20 * 2560] ^= 1
    packs: dict[str, Callable[[bytes], bytes]] = {
        "w:": bytes,
        "w:gz": gzip.compress,
        "w:bz2": bz2.compress,
        "w:xz": lzma.compress,
    }
    sound = make_tar(entries, mode)
    damaged = {"header": packs[mode](bytes(whole)), "end": sound[: len(sound) // 2]}
    if mode == "w:":
        damaged["mark"] = sound[: 40 * 2560]
    else:
        damaged["flipped"] = flip(sound, len(sound) // 2)
        damaged["checksum"] = flip(sound, len(sound) - 8)
    for name, content in damaged.items():
        put(box, "a.tar", content)
        assert (name, refusal(do(box, op="extract", path="a.tar", to="out"))) == (
            name,
            (400, "invalid_request", "/path"),
        )
        assert os.listdir(box.data) == ["a.tar"]
        assert os.listdir(box.upload) == []


def flip(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def test_a_zip_is_merged_into_an_existing_folder(box: Box) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
        target.writestr("d/new.txt", "new")
        target.writestr("d/old.txt", "fresh")
    put(box, "a.zip", out.getvalue())
    put(box, "d/old.txt", b"stale")
    assert refusal(do(box, op="extract", path="a.zip")) == (409, "conflict", "/to")
    assert os.listdir(box.data / "d") == ["old.txt"]
    assert do(box, op="extract", path="a.zip", to="", overwrite=True).status_code == 201
    assert (box.data / "d/old.txt").read_text() == "fresh"
    assert (box.data / "d/new.txt").read_text() == "new"


ESCAPES = {
    "up": [(member("../evil"), b"x")],
    "up inside": [(member("a/../../evil"), b"x")],
    "absolute": [(member("/tmp/evil"), b"x")],
    "link up": [(member("l", tarfile.SYMTYPE, "../.."), b"")],
    "link absolute": [(member("l", tarfile.SYMTYPE, "/etc"), b"")],
    "through a link": [(member("l", tarfile.SYMTYPE, "/tmp"), b""), (member("l/evil"), b"x")],
    "hard link out": [(member("h", tarfile.LNKTYPE, "../../data/secret"), b"")],
    "links upon links": [
        (member("a/b/c", tarfile.SYMTYPE, "../.."), b""),
        (member("x", tarfile.SYMTYPE, "a/b/c/.."), b""),
    ],
    "pipe": [(member("p", tarfile.FIFOTYPE), b"")],
    "device": [(member("d", tarfile.CHRTYPE), b"")],
}


@pytest.mark.parametrize("name", ESCAPES)
def test_an_entry_outside_the_target_is_refused_by_name_and_leaves_nothing_behind(box: Box, name: str) -> None:
    put(box, "secret")
    put(box, "bad.tar", make_tar([(member("good"), b"1"), *ESCAPES[name]]))
    response = do(box, op="extract", path="bad.tar", to="out")
    assert refusal(response) == (400, "invalid_request", "/path")
    assert "the entry '" in response.json()["detail"]
    assert not (box.data / "out").exists()
    assert os.listdir(box.upload) == []


@pytest.mark.parametrize(
    "content",
    [b"", b"no archive", b"PK\x03\x04 broken", make_tar([(member("a"), b"1" * 99999)])[:90]],
    # The last one contains its creation time: without ids, its name would differ between the processes of pytest-xdist.
    ids=["nothing", "text", "broken zip", "cut tar"],
)
def test_a_broken_archive_is_refused(box: Box, content: bytes) -> None:
    put(box, "a", content)
    assert refusal(do(box, op="extract", path="a", to="out")) == (400, "invalid_request", "/path")
    assert refusal(do(box, op="extract", path="a", to="out", format="rar")) == (400, "invalid_request", "/format")
    assert refusal(do(box, op="extract", path="none", to="out")) == (404, "not_found", "/path")


def make_zip(*names: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
        for name in names:
            target.writestr(name, name * 20)
    return out.getvalue()


def make_sparse(**headers: str) -> bytes:
    info = member("sparse")
    info.pax_headers = {f"GNU.sparse.{name}": value for name, value in headers.items()}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:", format=tarfile.PAX_FORMAT) as tar:
        info.size = 512
        tar.addfile(info, io.BytesIO(b"x\n" * 256))
    return out.getvalue()


MALFORMED = {
    "name that is no UTF-8": make_zip("é").replace("é".encode(), b"\xff\xff"),
    "map of words": make_sparse(map="a,b", size="10"),
    "size of words": make_sparse(map="0,10", size="ten"),
    "map in the content": make_sparse(major="1", minor="0", name="x", realsize="10"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_an_archive_with_a_malformed_field_is_refused(box: Box, name: str) -> None:
    put(box, "a", MALFORMED[name])
    assert refusal(do(box, op="extract", path="a", to="out")) == (400, "invalid_request", "/path")
    assert os.listdir(box.upload) == []


def test_a_randomly_damaged_archive_is_extracted_or_refused(folder: Path) -> None:
    chance = random.Random(4)
    sound = [
        make_zip("a", "b/c", "d/é"),
        *(make_tar([(member("a"), b"1"), (member("b/c"), b"2" * 600)], mode) for mode in ("w:", "w:gz")),
    ]
    for number in range(600):
        content = bytearray(sound[number % len(sound)])
        for _ in range(chance.randint(1, 4)):
            content[chance.randrange(len(content))] = chance.randrange(256)
        archive = folder / f"{number}"
        archive.write_bytes(content)
        try:
            extract({"path": str(archive), "temporary": f"{archive}.new", "target": f"{archive}.out"})
        except BoxError as error:
            assert error.code in ("invalid_request", "too_large"), (number, error)
        except OSError as error:
            assert from_os_error(error).code != "internal", (number, error)


def test_an_archive_larger_than_the_disk_leaves_nothing_behind(box: Box) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
        for i in range(8):
            target.writestr(f"zeros{i}", bytes(4_000_000))
    put(box, "bomb.zip", out.getvalue())
    with box.small_folder("small", "8m") as small:
        assert refusal(do(box, op="extract", path="bomb.zip", to="small/out"))[:2] == (507, "disk_full")
        assert [name for _, _, names in os.walk(small) for name in names] == []


def test_the_archive_of_a_folder_is_reproducible(box: Box) -> None:
    shell(
        box, "mkdir -p t/b/empty t/a; echo 1 > t/a/1; echo 2 > t/b/2; ln -s ../a/1 t/b/ln; mkfifo t/p; chmod 640 t/a/1"
    )
    tar = box.http.get(FILES + "t?as=tar")
    assert tar.headers["content-type"] == "application/x-tar"
    assert tar.content == box.http.get(FILES + "t?as=tar").content
    with tarfile.open(fileobj=io.BytesIO(tar.content)) as read:
        assert read.getnames() == ["a", "a/1", "b", "b/2", "b/empty", "b/ln"]
        assert read.getmember("b/ln").linkname == "../a/1"
        assert read.getmember("a/1").mode == 0o640
    got = box.http.get(FILES + "t?as=zip")
    assert got.content == box.http.get(FILES + "t?as=zip").content
    with zipfile.ZipFile(io.BytesIO(got.content)) as read:
        assert read.namelist() == ["a/", "a/1", "b/", "b/2", "b/empty/", "b/ln"]
        assert read.testzip() is None
        assert read.read("b/ln") == b"../a/1"


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_extracting_an_archive_restores_the_folder(box: Box, kind: str) -> None:
    shell(
        box,
        "mkdir -p 't/é \"q\"'; printf 'a\\nb' > \"t/new\nline\"; printf x > t/😀; printf y > $'t/raw\\xff'; mkdir t/none",
    )
    box.http.put(FILES + f"back.{kind}", content=box.http.get(FILES + f"t?as={kind}").content)
    assert do(box, op="extract", path=f"back.{kind}", to="u").status_code == 201
    names = sorted(os.listdir(box.data / "u"))
    if kind == "tar":
        assert names == sorted(os.listdir(box.data / "t"))
    assert (box.data / "u/😀").read_text() == "x"
    assert (box.data / "u/new\nline").read_text() == "a\nb"


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_an_empty_folder_is_an_empty_archive(box: Box, kind: str) -> None:
    do(box, op="mkdir", path="none")
    content = box.http.get(FILES + f"none?as={kind}").content
    if kind == "tar":
        with tarfile.open(fileobj=io.BytesIO(content)) as read:
            assert read.getnames() == []
    else:
        assert zipfile.ZipFile(io.BytesIO(content)).namelist() == []


def test_only_folders_are_archived_and_only_in_known_formats(box: Box) -> None:
    put(box, "f")
    assert refusal(box.http.get(FILES + "f?as=tar")) == (400, "invalid_request", "/query/as")
    assert refusal(box.http.get(FILES + "?as=rar")) == (400, "invalid_request", "/query/as")
    assert box.http.head(FILES + "?as=zip").headers["content-type"] == "application/zip"


def test_files_that_vanish_or_change_meanwhile_do_not_break_an_archive(box: Box) -> None:
    shell(box, "mkdir t; for i in $(seq 300); do head -c 100000 /dev/zero > t/$i; done")
    churn = box.command(
        "for k in 1 2; do for i in $(seq 300); do rm -f t/$i; head -c $((i * 300)) /dev/zero > t/$i; done; done"
    )
    for kind in ("tar", "zip") * 2:
        got = box.http.get(FILES + f"t?as={kind}")
        assert got.status_code == 200
        if kind == "tar":
            with tarfile.open(fileobj=io.BytesIO(got.content)) as read:
                assert all(info.isreg() for info in read)
        else:
            assert zipfile.ZipFile(io.BytesIO(got.content)).testzip() is None
    churn.wait()


def test_a_disconnect_ends_the_process_of_an_archive(box: Box) -> None:
    shell(box, "mkdir t; head -c 60000000 /dev/urandom > t/big")

    def at_work() -> bool:
        lines = [Path(f"/proc/{pid}/cmdline") for pid in box.pids()]
        return any(line.exists() and b"files.jobs" in line.read_bytes() for line in lines)

    with box.client() as client, client.stream("GET", FILES + "t?as=tar") as response:
        # Kept in a variable, as an iterator without references closes the connection.
        reader = response.iter_raw(1000)
        next(reader)
        assert at_work()
    eventually(lambda: not at_work())
