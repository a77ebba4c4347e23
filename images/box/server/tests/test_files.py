"""Uploads, downloads and listings of the working folder."""

import os
import shutil
import socket
import threading
import uuid
from email.utils import parsedate_to_datetime

import pytest
from box import HEAD, Box, eventually
from file_calls import FILES, do, own, put


def test_an_uploaded_file_is_downloaded_unchanged(box: Box) -> None:
    body = bytes(range(256)) * 5
    response = box.http.put(FILES + "a/b c/é.bin", content=body)
    assert response.status_code == 201
    entry = response.json()
    assert entry["path"] == "a/b c/é.bin"
    assert (entry["name"], entry["type"], entry["sizeBytes"]) == ("é.bin", "file", len(body))
    assert entry["modifiedAt"].endswith("Z")
    got = box.http.get(FILES + "a/b c/é.bin")
    assert got.content == body
    assert got.headers["etag"] == entry["etag"] == response.headers["etag"]
    assert "last-modified" in got.headers
    assert box.http.put(FILES + "a/b c/é.bin", content=b"").status_code == 200
    assert box.http.get(FILES + "a/b c/é.bin").content == b""


@pytest.mark.parametrize("size", [0, 1, 256 * 1024, 256 * 1024 + 1, 9_000_001])
def test_files_of_every_size_are_uploaded_and_downloaded(box: Box, size: int) -> None:
    body = os.urandom(size)
    box.http.put(FILES + "f", content=body)
    got = box.http.get(FILES + "f")
    assert got.content == body
    assert int(got.headers["content-length"]) == size
    head = box.http.head(FILES + "f")
    assert (head.status_code, head.content, int(head.headers["content-length"])) == (200, b"", size)


def test_a_chunked_body_is_accepted(box: Box) -> None:
    assert box.http.put(FILES + "f", content=iter([b"a" * 70_000, b"b"])).status_code == 201
    assert box.http.get(FILES + "f").content == b"a" * 70_000 + b"b"


def test_a_file_keeps_what_its_upload_notes_about_it(box: Box) -> None:
    noted = {"X-Metadata-Author": "ada", "X-Metadata-kind": "a b=c"}
    metadata = {"author": "ada", "kind": "a b=c"}
    assert box.http.put(FILES + "n/a", content=b"x", headers=noted).json()["metadata"] == metadata
    assert do(box, op="move", **{"from": "n/a", "to": "n/b"}).json()["metadata"] == metadata
    do(box, op="copy", **{"from": "n/b", "to": "n/c"})
    listed = box.http.get(FILES + "n").json()["items"]
    assert [(item["name"], item.get("metadata")) for item in listed] == [("b", metadata), ("c", metadata)]
    assert os.getxattr(box.data / "n/b", "user.e2b.author") == b"ada"
    assert "metadata" not in box.http.put(FILES + "n/b", content=b"y").json()
    many = {f"X-Metadata-{n}": "" for n in range(65)}
    refused = box.http.put(FILES + "n/d", content=b"", headers=many)
    assert (refused.status_code, box.http.get(FILES + "n/d").status_code) == (400, 404)


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_a_range_is_served(box: Box, size: int) -> None:
    body = os.urandom(size)
    box.http.put(FILES + "f", content=body)
    for header, start, end in [
        ("bytes=0-0", 0, 1),
        ("bytes=2-5", 2, 6),
        (f"bytes=3-{size * 2}", 3, size),
        ("bytes=4-", 4, size),
        ("bytes=-3", size - 3, size),
        (f"bytes=-{size * 2}", 0, size),
    ]:
        got = box.http.get(FILES + "f", headers={"Range": header})
        assert (got.status_code, got.content) == (206, body[start:end]), header
        assert got.headers["content-range"] == f"bytes {start}-{end - 1}/{size}"
    for header in ("bytes=5-4", "items=0-1", "bytes=0-1,3-4", "bytes=-"):
        assert box.http.get(FILES + "f", headers={"Range": header}).status_code == 200
    for header in (f"bytes={size}-", "bytes=-0"):
        got = box.http.get(FILES + "f", headers={"Range": header})
        assert (got.status_code, got.json()["code"]) == (416, "range_not_satisfiable")
        assert got.headers["content-range"] == f"bytes */{size}"


def test_a_known_file_is_not_sent_again(box: Box) -> None:
    tag = box.http.put(FILES + "f", content=b"1").headers["etag"]
    assert box.http.get(FILES + "f", headers={"If-None-Match": tag}).status_code == 304
    assert box.http.get(FILES + "f", headers={"If-None-Match": '"x"'}).status_code == 200
    assert box.http.get(FILES + "f", headers={"Range": "bytes=0-0", "If-Range": '"old"'}).status_code == 200
    assert box.http.put(FILES + "f", content=b"2").headers["etag"] != tag


def test_preconditions_guard_a_write(box: Box) -> None:
    tag = box.http.put(FILES + "f", content=b"1").headers["etag"]
    assert (
        box.http.put(FILES + "f", content=b"2", headers={"If-None-Match": "*"}).json()["code"] == "precondition_failed"
    )
    assert box.http.put(FILES + "f", content=b"2", headers={"If-Match": '"x"'}).status_code == 412
    assert box.http.put(FILES + "g", content=b"2", headers={"If-Match": "*"}).status_code == 412
    assert box.http.put(FILES + "f", content=b"2", headers={"If-Match": tag}).status_code == 200
    assert box.http.put(FILES + "g", content=b"2", headers={"If-None-Match": "*"}).status_code == 201
    assert box.http.delete(FILES + "f", headers={"If-Match": tag}).status_code == 412
    assert box.http.get(FILES + "f").content == b"2"


def test_one_of_several_concurrent_creations_succeeds(box: Box) -> None:
    codes: list[int] = []

    def put(body: bytes) -> None:
        with box.client() as client:
            codes.append(client.put(FILES + "one", content=body, headers={"If-None-Match": "*"}).status_code)

    threads = [threading.Thread(target=put, args=(bytes([i]) * 300_000,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == [201] + [412] * 7


def test_a_folder_is_listed_in_pages(box: Box) -> None:
    for name in ("b", "a", "é", "c"):
        box.http.put(f"{FILES}d/{name}", content=b"1")
    box.http.post("/codebox/files", json={"op": "mkdir", "path": "d/z"})
    os.symlink("/nowhere", box.data / "d" / "link")
    first = box.http.get(FILES + "d", params={"limit": 2})
    assert first.headers["x-codebox-type"] == "directory"
    assert parsedate_to_datetime(first.headers["last-modified"]).timestamp() == int((box.data / "d").stat().st_mtime)
    assert [item["path"] for item in first.json()["items"]] == ["d/a", "d/b"]
    rest = box.http.get(FILES + "d", params={"limit": 10, "cursor": first.json()["nextCursor"]}).json()
    kinds = [(item["name"], item["type"]) for item in rest["items"]]
    assert kinds == [("c", "file"), ("link", "symlink"), ("z", "directory"), ("é", "file")]
    assert rest["nextCursor"] is None
    assert [item["name"] for item in box.http.get(FILES).json()["items"]] == ["d"]
    assert box.http.get(FILES + "d", params={"limit": 0}).status_code == 400
    assert box.http.get(FILES + "d", params={"cursor": "?"}).status_code == 400


def test_folders_are_created_and_removed(box: Box) -> None:
    assert box.http.post("/codebox/files", json={"op": "mkdir", "path": "x/y"}).status_code == 201
    assert box.http.post("/codebox/files", json={"op": "mkdir", "path": "x/y"}).status_code == 200
    assert box.http.post("/codebox/files", json={"op": "rmdir", "path": "x"}).json()["pointer"] == "/op"
    box.http.put(FILES + "x/y/f", content=b"1")
    assert box.http.delete(FILES + "x").status_code == 204
    assert box.http.get(FILES + "x").status_code == 404
    assert box.http.delete(FILES + "x").json()["code"] == "not_found"


def test_the_root_folder_cannot_be_replaced_or_removed(box: Box) -> None:
    assert box.http.delete(FILES).status_code == 400
    assert box.http.put(FILES, content=b"1").status_code == 400
    assert box.data.is_dir()


def test_a_folder_is_not_replaced_by_a_file_nor_a_file_by_a_folder(box: Box) -> None:
    box.http.post("/codebox/files", json={"op": "mkdir", "path": "d"})
    box.http.put(FILES + "f", content=b"1")
    assert box.http.put(FILES + "d", content=b"1").status_code == 409
    assert box.http.put(FILES + "f/g", content=b"1").status_code in (400, 409)
    assert box.http.get(FILES + "f/g").status_code in (400, 404)
    assert box.http.get(FILES + "f").content == b"1"
    assert os.listdir(box.upload) == []


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "a/../b",
        "%2e%2e%2fx",
        "a/%2e%2e/b",
        ".",
        "a//b",
        "//etc/passwd",
        "/etc/../etc/passwd",
        "a/",
        "a%00b",
        "x" * 300,
        "/".join(["a" * 100] * 41),
    ],
)
def test_a_path_that_leaves_the_folder_or_is_malformed_is_refused(box: Box, path: str) -> None:
    for method in ("GET", "PUT", "DELETE", "HEAD"):
        assert _raw(box, method, FILES + path) == 400, method


def _raw(box: Box, method: str, path: str) -> int:
    """Send a request with this exact path, which libraries would normalise, and return the status line."""
    with socket.socket(socket.AF_UNIX) as channel:
        channel.connect(box.socket)
        channel.sendall(f"{method} {path} HTTP/1.1\r\n{HEAD}Content-Length: 0\r\n\r\n".encode())
        return int(channel.recv(1000).split()[1])


def test_names_that_only_resemble_dot_segments_are_accepted(box: Box) -> None:
    for path in ("...", "..a", "a%252f..%252fb", "\uff0e\uff0e"):
        assert box.http.put(FILES + path, content=b"1").status_code == 201


def test_a_special_file_is_refused_without_waiting(box: Box) -> None:
    os.mkfifo(box.data / "fifo")
    own(box.data / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(box.data / "sock"))
    os.symlink("/dev/zero", box.data / "zero")
    for name in ("fifo", "sock", "zero"):
        assert box.http.get(FILES + name, timeout=5).json()["code"] == "invalid_request"
    for name in ("fifo", "sock"):
        assert box.http.put(FILES + name, content=b"1", timeout=5).status_code == 400
        assert box.http.delete(FILES + name).status_code == 204


def test_a_write_replaces_a_link_and_a_delete_removes_it_alone(box: Box) -> None:
    box.http.put(FILES + "target", content=b"keep")
    for name in ("l1", "l2"):
        os.symlink("target", box.data / name)
    assert box.http.get(FILES + "l1").content == b"keep"
    assert box.http.put(FILES + "l1", content=b"new").status_code == 200
    assert box.http.delete(FILES + "l2").status_code == 204
    assert box.http.get(FILES + "target").content == b"keep"
    assert box.http.get(FILES + "l1").content == b"new"


def test_an_aborted_upload_leaves_and_changes_nothing(box: Box) -> None:
    box.http.put(FILES + "f", content=b"old")
    for target in ("f", "new"):
        channel = socket.socket(socket.AF_UNIX)
        channel.connect(box.socket)
        head = f"PUT {FILES}{target} HTTP/1.1\r\n{HEAD}Content-Length: 9000000\r\n\r\n"
        channel.sendall(head.encode() + b"x" * 3_000_000)
        eventually(lambda: os.listdir(box.upload))
        channel.close()
        eventually(lambda: not os.listdir(box.upload))
    assert box.http.get(FILES + "f").content == b"old"
    assert box.http.get(FILES + "new").status_code == 404


def test_a_file_appears_only_when_its_upload_is_complete(box: Box) -> None:
    channel = socket.socket(socket.AF_UNIX)
    channel.connect(box.socket)
    channel.sendall(f"PUT {FILES}f HTTP/1.1\r\n{HEAD}Content-Length: 10\r\n\r\n12345".encode())
    eventually(lambda: os.listdir(box.upload))
    assert box.http.get(FILES + "f").status_code == 404
    channel.sendall(b"67890")
    assert b"201" in channel.recv(1000)
    channel.close()
    assert box.http.get(FILES + "f").content == b"1234567890"


def test_a_reader_that_stops_does_not_disturb_others(box: Box) -> None:
    box.http.put(FILES + "big", content=b"x" * 30_000_000)
    with socket.socket(socket.AF_UNIX) as channel:
        channel.connect(box.socket)
        channel.sendall(f"GET {FILES}big HTTP/1.1\r\n{HEAD}\r\n".encode())
        channel.recv(100)
        assert len(box.http.get(FILES + "big").content) == 30_000_000
        assert box.http.get("/codebox/health").status_code == 200


def test_a_refused_upload_gets_its_response_after_the_body(box: Box) -> None:
    box.http.put(FILES + "f", content=b"1")
    for _ in range(5):
        response = box.http.put(FILES + "f", content=b"x" * 20_000_000, headers={"If-None-Match": "*"})
        assert (response.status_code, response.json()["code"]) == (412, "precondition_failed")
    assert box.http.get(FILES + "f").content == b"1"


def test_a_full_disk_is_reported_and_leaves_nothing_behind(box: Box) -> None:
    with box.small_folder("small", "2m") as small:
        response = box.http.put(FILES + "small/big", content=b"x" * 5_000_000)
        assert (response.status_code, response.json()["code"]) == (507, "disk_full")
        assert [name for _, _, names in os.walk(small) for name in names] == []
        assert box.http.get(FILES + "small/big").status_code == 404
        assert box.http.put(FILES + "small/big", content=b"x").status_code == 201


def test_a_tree_is_listed_in_pages_of_every_size(box: Box) -> None:
    for path in ("b/1", "b/c/2", "b/c/d/3", "a", "b.x", "z/0"):
        box.http.put(f"{FILES}t/{path}", content=b"1")
    os.symlink("b", box.data / "t" / "loop")

    def pages(limit: int, depth: int) -> list[str]:
        paths: list[str] = []
        query: dict[str, str | int] = {"limit": limit, "depth": depth}
        while True:
            page = box.http.get(FILES + "t", params=query).json()
            assert len(page["items"]) <= limit
            paths += [item["path"][2:] for item in page["items"]]
            if page["nextCursor"] is None:
                return paths
            query["cursor"] = page["nextCursor"]

    whole = ["a", "b", "b/1", "b/c", "b/c/2", "b/c/d", "b/c/d/3", "b.x", "loop", "z", "z/0"]
    for limit in (1, 2, 3, 10, 11, 100):
        assert pages(limit, 64) == whole
        assert pages(limit, 2) == [path for path in whole if path.count("/") < 2]
        assert pages(limit, 1) == ["a", "b", "b.x", "loop", "z"]
    assert box.http.get(FILES + "t", params={"depth": 65}).status_code == 400


def test_conditions_by_date_are_respected(box: Box) -> None:
    box.http.put(FILES + "f", content=b"0123456789")
    os.utime(box.data / "f", (1_000_000_000, 1_000_000_000))
    same, earlier = "Sun, 09 Sep 2001 01:46:40 GMT", "Sun, 09 Sep 2001 01:46:39 GMT"

    def get(**headers: str) -> int:
        return box.http.get(FILES + "f", headers={n.replace("_", "-"): v for n, v in headers.items()}).status_code

    assert get(If_Modified_Since=same) == 304
    assert get(If_Modified_Since=earlier) == 200
    assert get(If_Modified_Since="nonsense") == 200
    assert get(If_Unmodified_Since=same) == 200
    assert get(If_Unmodified_Since=earlier) == 412
    assert get(If_Match='"x"') == 412
    assert get(If_Match="*") == 200
    tag = box.http.get(FILES + "f").headers["etag"]
    assert get(If_None_Match=f'"x", W/{tag}') == 304
    assert get(If_None_Match='"x"', If_Modified_Since=same) == 200
    assert get(If_Match=f"W/{tag}") == 412
    assert get(Range="bytes=0-1", If_Range=same) == 206
    assert get(Range="bytes=0-1", If_Range=earlier) == 200
    assert get(Range="bytes=0-1", If_Range=tag) == 206
    assert get(Range="bytes=0-1", If_Range=f"W/{tag}") == 200
    assert box.http.head(FILES + "f", headers={"Range": "bytes=0-1"}).status_code == 200
    assert box.http.put(FILES + "f", content=b"", headers={"If-Unmodified-Since": earlier}).status_code == 412
    assert box.http.put(FILES + "f", content=b"", headers={"If-None-Match": tag}).status_code == 412
    assert box.http.delete(FILES + "f", headers={"If-Unmodified-Since": same}).status_code == 204


def test_one_of_several_concurrent_replacements_succeeds(box: Box) -> None:
    tag = box.http.put(FILES + "f", content=b"0").headers["etag"]
    codes: list[int] = []

    def put(body: bytes) -> None:
        with box.client() as client:
            codes.append(client.put(FILES + "f", content=body, headers={"If-Match": tag}).status_code)

    threads = [threading.Thread(target=put, args=(bytes([i]) * 300_000,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == [200] + [412] * 7


def test_an_absolute_path_leads_anywhere_in_the_box(box: Box) -> None:
    # Another file system than that of the working folder.
    folder = f"/dev/shm/box-{uuid.uuid4().hex}"
    try:
        response = box.http.put(FILES + folder + "/a/f", content=b"1")
        assert (response.status_code, response.json()["path"]) == (201, folder + "/a/f")
        assert box.http.put(FILES + folder + "/a/f", content=b"22").status_code == 200
        assert box.http.get(FILES + folder + "/a/f").content == b"22"
        assert [(item["path"], item["type"]) for item in box.http.get(FILES + folder + "?depth=2").json()["items"]] == [
            (folder + "/a", "directory"),
            (folder + "/a/f", "file"),
        ]
        assert os.listdir(folder) == ["a"]
        assert "/dev" in [item["path"] for item in box.http.get(FILES + "/").json()["items"]]
        assert do(box, op="move", **{"from": folder + "/a", "to": "moved"}).json()["path"] == "moved"
        assert box.http.get(FILES + "moved/f").content == b"22"
        put(box, folder + "/b/old")
        assert do(box, op="move", **{"from": "moved", "to": folder + "/b", "overwrite": True}).status_code == 200
        assert box.http.get(FILES + "moved").status_code == 404
        assert os.listdir(folder + "/b") == ["f"]
        assert do(box, op="mkdir", path=folder + "/b").status_code == 200
        assert box.http.delete(FILES + folder).status_code == 204
        assert not os.path.exists(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for path in ("/a//b", "/a/../b", "//etc", "/a/"):
        assert do(box, op="stat", path=path).json()["code"] == "invalid_request", path
    refused = box.http.put(FILES + "/proc/new", content=b"1")
    assert (refused.status_code, refused.json()["code"]) in ((400, "invalid_request"), (404, "not_found"))


def test_an_entry_has_its_mode_and_where_a_link_leads(box: Box) -> None:
    put(box, "f")
    (box.data / "f").chmod(0o640)
    (box.data / "link").symlink_to("f")
    own(box.data / "link")
    items = {item["name"]: item for item in box.http.get(FILES).json()["items"]}
    assert (items["f"]["mode"], "target" in items["f"]) == (0o640, False)
    assert (items["link"]["type"], items["link"]["target"]) == ("symlink", str(box.data / "f"))
    link = do(box, op="stat", path="link").json()
    assert {**link, "etag": None} == {**items["link"], "etag": None}
    assert do(box, op="stat", path="").json()["type"] == "directory"
    assert do(box, op="stat", path="nope").json()["code"] == "not_found"
