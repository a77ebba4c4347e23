"""Unusual trees: names of any bytes, great depth, missing permissions, concurrent changes."""

import io
import os
import tarfile
import zipfile
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes

from box import Box, eventually
from file_calls import FILES, own

NAMES = [b"a\nb", b"\r", "\u2028".encode(), b"\xff\xfe.txt", b"100%", b"\x01\x7f", b"a\\b\"'", b" ", b"\xc3"]


def test_a_file_of_any_name_is_listed_read_and_removed(box: Box) -> None:
    for name in NAMES:
        (box.data / "odd" / os.fsdecode(name)).parent.mkdir(exist_ok=True)
        Path(os.fsdecode(bytes(box.data) + b"/odd/" + name)).write_bytes(name)
    for path in [box.data / "odd", *(box.data / "odd").iterdir()]:
        own(path)
    first = box.http.get(FILES + "odd", params={"limit": 4}).json()
    rest = box.http.get(FILES + "odd", params={"cursor": first["nextCursor"]}).json()
    items = first["items"] + rest["items"]
    found = [item.get("encodedPath") or quote(item["path"]) for item in items]
    assert sorted(map(unquote_to_bytes, found)) == sorted(b"odd/" + name for name in NAMES)
    assert [item["path"] for item in items if "encodedPath" in item] == ["odd/\ufffd", "odd/\ufffd\ufffd.txt"]
    hits = box.http.get("/codebox/files:search", params={"path": "odd", "name": "*.txt"}).json()["items"]
    assert [hit["encodedPath"] for hit in hits] == ["odd/%FF%FE.txt"]
    for encoded in found:
        assert box.http.get(FILES + encoded).content == unquote_to_bytes(encoded)[4:]
        assert box.http.put(FILES + encoded, content=b"new").status_code == 200
        assert box.http.delete(FILES + encoded).status_code == 204
    assert list((box.data / "odd").iterdir()) == []


def test_a_folder_of_any_depth_and_mode_is_removed(box: Box) -> None:
    code = f"""
import os
os.mkdir('deep')
os.chdir('deep')
for level in range(3000):
    open('file', 'w').close()
    os.mkdir('a' * 200)
    os.chdir('a' * 200)
os.chmod('.', 0)
os.chdir({str(box.data)!r})
os.makedirs('closed/inner')
open('closed/inner/file', 'w').close()
os.symlink('/', 'closed/link')
os.chmod('closed/inner', 0o500)
os.chmod('closed', 0o500)
"""
    assert box.run(code)[-1]["status"] == "ok"
    for name in ("deep", "closed"):
        assert box.http.delete(FILES + name).status_code == 204
        assert not os.path.lexists(box.data / name)
    eventually(lambda: not list(box.upload.iterdir()))
    assert os.path.isdir("/etc")


def test_an_archive_is_complete_while_folders_are_exchanged_with_links(box: Box) -> None:
    code = """
import ctypes, os
rename = ctypes.CDLL(None).renameat2
folders = [f'swap/d{number:03}' for number in range(300)]
for folder in folders:
    os.makedirs(folder)
    open(folder + '/file', 'w').close()
open('swap/stays', 'w').close()
os.symlink('/sys/kernel', 'swap/link')
print('ready')
while True:
    for folder in folders:
        rename(-100, b'swap/link', -100, folder.encode(), 2)
"""
    run = box.start(code, timeout_ms=60_000)
    run.until("stdout")
    for kind in ("tar", "zip") * 5:
        got = box.http.get(FILES + "swap", params={"as": kind})
        assert got.status_code == 200, got.text
        body = io.BytesIO(got.content)
        with tarfile.open(fileobj=body) if kind == "tar" else zipfile.ZipFile(body) as archive:
            names = archive.getnames() if isinstance(archive, tarfile.TarFile) else archive.namelist()
        assert "stays" in names
    run.interrupt()
    assert run.wait()[-1]["status"] == "interrupted"
